"""``rkm++``: many candidates from a mixture of uniform and D² chances, reduced to k.

Deshpande, Kacham & Pratap, *Robust k-means++*, UAI 2020.  The uniform part reaches every
large cluster however far the outliers are; the D² part reaches small far ones; the price is
1/δ times as many candidates.  As in the authors' experiments, one uniform candidate is
followed by k − 1 rounds of 1/δ candidates, each round drawn with the D² of the rounds before
it, and weighted k-means++ on the candidates is run 60 times.  That is the ``plain`` reduction,
and it lets a far outlier among the candidates take a centre; ``trimmed`` does not.

Cost: one reading of X per round against its 1/δ candidates, and two passes over D².
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.seeding.drawing import (
    EQUAL_CHANCES,
    Seeds,
    as_seeds,
    check_oversampling,
    clipped,
    draw,
    first_row,
    n_candidates,
    seed_or_oversample,
)
from robust_kmeans.seeding.reduction import (
    Reduction,
    check_reduction,
    plain_reduction,
    trimmed_reduction,
)
from robust_kmeans.sweeps.base import add_numbers
from robust_kmeans.sweeps.distances import ASSIGN_NEW, NewCenters
from robust_kmeans.sweeps.sampling import MASS, Row, Weighting
from robust_kmeans.validation import (
    RandomState,
    check_count,
    check_share,
)

# Rounds, in multiples of what (1 + c)·k distinct candidates take at least: enough unless
# hardly any other rows have a chance.
PATIENCE = 10


@dataclass(frozen=True)
class MixtureSeeding:
    """Chances α·uniform + (1 − α)·D²/ΣD², rounds of 1/`delta` candidates, then a reduction."""

    alpha: float = 0.5
    delta: float = 0.1
    n_restarts: int = 60
    oversampling: float | None = None
    reduction: Reduction = "plain"

    def __post_init__(self) -> None:
        check_share("alpha", self.alpha)
        check_share("delta", self.delta, zero_allowed=False)
        check_count("n_restarts", self.n_restarts)
        if self.oversampling is not None:
            check_oversampling(self.oversampling)
        check_reduction(self.reduction)

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """Choose `n_clusters` rows as centres."""
        states, rows = self.draw_candidates(data, n_clusters, random)
        if self.reduction == "trimmed":
            return trimmed_reduction(data, rows, n_clusters, n_outliers, random, self.n_restarts)
        candidates = as_seeds(rows, len(rows))
        return plain_reduction(
            data, states, candidates, n_clusters, n_outliers, self.n_restarts, random
        )

    def candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,  # noqa: ARG002 - every seeding is called alike
        random: np.random.RandomState,
    ) -> Seeds:
        """All rows that were drawn, `n_clusters` or more."""
        _, rows = self.draw_candidates(data, n_clusters, random)
        return as_seeds(rows, max(n_clusters, len(rows)))

    def draw_candidates(
        self, data: Execution, n_clusters: int, random: np.random.RandomState
    ) -> tuple[States, list[Row]]:
        """About k/δ or (1 + c)·k rows, and the states that assign all rows to them."""
        per_round = max(1, round(1 / self.delta))
        n_rows, n_rounds = 1 + (n_clusters - 1) * per_round, n_clusters - 1
        if self.oversampling is not None:
            n_rows = n_candidates(self.oversampling, n_clusters, data)
            n_rounds = PATIENCE * math.ceil(n_rows / per_round)
        states, row = first_row(data, random)
        states, _ = data.run(ASSIGN_NEW, states, NewCenters(row.point[np.newaxis], 0))
        rows = [row]
        for _ in range(n_rounds):
            uniforms = random.uniform(size=min(per_round, n_rows - len(rows)))
            drawn = draw(data, states, self._mixture(data, states), uniforms)
            if self.oversampling is not None:
                drawn = _new_ones(drawn, rows)
            if not drawn:
                continue
            points = np.array([row.point for row in drawn])
            states, _ = data.run(ASSIGN_NEW, states, NewCenters(points, len(rows)))
            rows += drawn
            if len(rows) == n_rows:
                break
        return states, rows

    def _mixture(self, data: Execution, states: States) -> Weighting:
        weight = data.total_weight
        cost = add_numbers(data.summarise(MASS, states, clipped(np.inf)))
        if cost == 0:
            return EQUAL_CHANCES
        # The mixture times ΣD², so that a small one does not become an infinite slope.
        return Weighting(flat=self.alpha * cost / weight, slope=1 - self.alpha, clip=np.inf)


def _new_ones(drawn: list[Row], rows: list[Row]) -> list[Row]:
    """The uniform part may draw a row again: of few candidates too many would be repeats."""
    known = {row.index for row in rows}
    return list({row.index: row for row in drawn if row.index not in known}.values())


def rkmeans_plusplus(
    X: ArrayLike,
    n_clusters: int,
    *,
    n_outliers: int | float,
    alpha: float = 0.5,
    delta: float = 0.1,
    n_restarts: int = 60,
    oversampling: float | None = None,
    reduction: Reduction = "plain",
    reduce: bool = True,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_threads: int | None = None,
) -> Seeds:
    """Choose centres from about k/δ candidates drawn with chances α·uniform + (1 − α)·D²/ΣD².

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)): they are
        dropped before the candidates are weighted.
    alpha : float in [0, 1], default=0.5
        The part of uniform chances in the mixture.
    delta : float in (0, 1], default=0.1
        One over the number of candidates per round.
    n_restarts : int, default=60
        Runs on the weighted candidates, of which the best is kept.
    oversampling : float, optional
        With c, (1 + c)·k distinct candidates are drawn; by default 1 + (k − 1)/δ, of which
        some may be repeated, as the authors do.
    reduction : {"plain", "trimmed"}, default="plain"
        How k are chosen from the candidates.  ``"plain"``, the authors' way, is weighted
        k-means++ on them.  ``"trimmed"`` can leave out candidates that are outliers, and is
        much the better one where outliers are far.
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
    >>> from robust_kmeans import rkmeans_plusplus
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> centers, indices = rkmeans_plusplus(X, 2, n_outliers=1, random_state=0)
    >>> sorted(centers[:, 0])
    [np.float64(1.0), np.float64(10.0)]
    """
    return seed_or_oversample(
        MixtureSeeding(alpha, delta, n_restarts, oversampling, reduction),
        X,
        n_clusters,
        reduce=reduce,
        n_outliers=n_outliers,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )
