"""``robust-k-means||``: a few rounds in which many rows join at once, then a reduction to k.

Bahmani, Moseley, Vattani, Kumar & Vassilvitskii, *Scalable k-means++*, VLDB 2012, with the
threshold of ``robust-k-means++``, so that far outliers attract few candidates:

    first candidate: uniform (by sample weight)
    repeat r times:
        ρ ← trimmed cost of the current candidates
        τ ← ∞ if z = 0, else min(previous τ, η·ρ/z)
        ξ ← Σ w·min(D², τ)
        each row joins, independently, with chance min(1, ℓ·w·min(D², τ)/ξ)
        D² ← min(D², distances to the new candidates)
    reduce the candidates, each with the weight of its rows, to k

About ℓ = 2k rows join in a round, so there are some 10k candidates after five.  There are more
rounds where so far fewer than k have joined, and no more where no cost is left.  Each row has a
coin of its own in every round, which depends on nothing but the seed: so the same rows join
however the rows are cut into chunks, and wherever these are.

Cost: a reading of X for the first candidate, one per round for all that have joined, with about
four passes over D², and two for the trimmed reduction: eight in all.  Where single rows cannot be
had without their neighbours (Parquet), those that are likely to join in the next round are noted
in a reading, and parts of X are read again where others have joined.  The sequential seedings read
X up to k times: this one is for rows that are slow to read, from a disk or on other machines
(benchmarks/parallel_seeding.py compares them).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.seeding.drawing import (
    Seeds,
    as_seeds,
    clipped,
    first_row,
    seed_or_oversample,
)
from robust_kmeans.seeding.reduction import MANY_BUDGETS, reduce_placed
from robust_kmeans.seeding.threshold import next_threshold
from robust_kmeans.sweeps.base import add_numbers
from robust_kmeans.sweeps.coins import JOIN, Coins, Joined, NextCoins
from robust_kmeans.sweeps.distances import ASSIGN_NEW, NewCenters
from robust_kmeans.sweeps.sampling import MASS, Row
from robust_kmeans.trimming import Placed, find_cut, where_to_look
from robust_kmeans.validation import RandomState, check_count, check_positive


@dataclass(frozen=True)
class RobustKMeansParallel:
    """Rounds in which rows join at once; see `robust_kmeans_parallel` for its parameters."""

    eta: float = 0.1
    n_rounds: int = 5
    factor: float = 2.0
    n_restarts: int = 24

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        check_count("n_rounds", self.n_rounds)
        check_positive("factor", self.factor)
        check_count("n_restarts", self.n_restarts)

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """Choose `n_clusters` rows as centres."""
        states, rows = self.draw_candidates(data, n_clusters, n_outliers, random)
        if len(rows) <= n_clusters:
            return as_seeds(rows, n_clusters)
        centers = np.array([row.point for row in rows])
        placed = Placed(centers, states, find_cut(data, states, n_outliers))
        return reduce_placed(
            data, placed, rows, n_clusters, n_outliers, random, self.n_restarts, MANY_BUDGETS
        )

    def candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """All rows that have joined, `n_clusters` or more."""
        _, rows = self.draw_candidates(data, n_clusters, n_outliers, random)
        return as_seeds(rows, max(n_clusters, len(rows)))

    def draw_candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> tuple[States, list[Row]]:
        """Different rows, and the states that assign all rows to them.

        Fewer than `n_clusters` only where these leave no cost.
        """
        expected = max(1.0, self.factor * n_clusters)
        states, first = first_row(data, random)
        seed = int(random.randint(2**64, dtype=np.uint64))
        rows, tau, cut = [first], np.inf, None
        ahead = NextCoins(seed, 0, expected, tau, self.eta, n_outliers, data.total_weight)
        states, _ = data.run(ASSIGN_NEW, states, NewCenters(first.point[np.newaxis], 0, ahead))
        for number in count():
            if number >= self.n_rounds and len(rows) >= n_clusters:
                break
            cut = find_cut(data, states, n_outliers, where_to_look(data.dtype, cut))
            if cut.cost == 0:
                break
            tau = next_threshold(data, states, cut, n_outliers, rule="cost", eta=self.eta, last=tau)
            mass = add_numbers(data.summarise(MASS, states, clipped(tau)))
            if mass == 0:  # all chances are too small for a float
                break
            toss = Coins(seed, number, tau, expected, mass)
            joined = _different(data.summarise(JOIN, states, toss))
            if joined:
                points = np.array([row.point for row in joined])
                ahead = ahead._replace(round_number=number + 1, last_clip=tau)
                states, _ = data.run(ASSIGN_NEW, states, NewCenters(points, len(rows), ahead))
                rows += joined
        return states, rows


def _different(joined: Joined) -> list[Row]:
    """The rows that have joined, without those that are equal to an earlier one."""
    _, first = np.unique(joined.points, axis=0, return_index=True)
    return [Row(int(joined.indices[i]), joined.points[i]) for i in np.sort(first)]


def robust_kmeans_parallel(
    X: ArrayLike,
    n_clusters: int,
    *,
    n_outliers: int | float,
    eta: float = 0.1,
    n_rounds: int = 5,
    factor: float = 2.0,
    n_restarts: int = 24,
    reduce: bool = True,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_threads: int | None = None,
) -> Seeds:
    """Choose centres in a few rounds, in each of which about 2k rows join at once.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)).
    eta : float, default=0.1
        The factor of the threshold η·ρ/z, above which a distance makes a row no more likely
        to join.  Smaller is safer against far outliers.
    n_rounds : int, default=5
        Rounds, each of which reads X once; more only where fewer than `n_clusters` rows have
        joined after that.
    factor : float, default=2.0
        About so many times `n_clusters` rows join in a round.
    n_restarts : int, default=24
        Runs on the weighted candidates, of which the best is kept.
    reduce : bool, default=True
        Whether to return k centres.  False returns all candidates.
    sample_weight : array-like of shape (n_samples,), optional
        An int `n_outliers` is then in units of weight, a share is of the total weight.
    random_state : int, RandomState or None
    n_threads : int, optional
        By default the cores that this process may use.  It never changes the result.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
        With ``reduce=False``, all candidates.
    indices : ndarray of shape (n_clusters,)
        The rows of X that the centres are.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans import robust_kmeans_parallel
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]])
    >>> centers, indices = robust_kmeans_parallel(X, 2, n_outliers=1, random_state=0)
    >>> sorted(centers[:, 0])
    [np.float64(1.0), np.float64(10.0)]
    """
    return seed_or_oversample(
        RobustKMeansParallel(eta, n_rounds, factor, n_restarts),
        X,
        n_clusters,
        reduce=reduce,
        n_outliers=n_outliers,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )
