"""``robust-k-means++``: chances ∝ min(D², τ), with τ = η·ρ/z from the current trimmed cost ρ.

Deshpande & Pratap, *Improved Outlier Robust Seeding for k-means*.  Clipping bounds what
any one outlier can attract, and the threshold τ falls with ρ as centres are added.

    first centre: uniform (by sample weight)
    repeat until k centres:
        ρ ← trimmed cost of the current centres
        τ ← ∞ if z = 0, else min(previous τ, η·ρ/z)
        draw the next centre with chance ∝ w·min(D², τ)
        D² ← min(D², distance to the new centre)

With `n_local_trials=1` this is the paper's Algorithm 1.  With more, each step draws that
many candidates and keeps the one with the least ρ: on contaminated data that is what makes
the method reliable.  The paper's two approximation theorems do not hold as stated (they
have small counter-examples), so none is claimed here.

Cost per step: one reading of X for all candidates, one pass over D² for the draw, and per
candidate usually one for its cut and ρ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.seeding.drawing import (
    Seeds,
    as_center,
    as_seeds,
    clipped,
    draw,
    first_row,
    n_trials,
    seed_rows,
)
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.distances import (
    ADD_CENTER,
    KEEP_TRIAL,
    LOOK_AT_TRIAL,
    TRY_CENTERS,
    Centers,
)
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import find_cut, run_and_cut, where_to_look
from robust_kmeans.validation import (
    RandomState,
    check_positive,
    check_trials,
)


@dataclass(frozen=True)
class RobustKMeansPlusPlus:
    """The paper's seeding with factor `eta`, and `n_local_trials` (None: 2 + ⌊ln k⌋)."""

    eta: float = 0.5
    n_local_trials: int | None = None

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        check_trials(self.n_local_trials)

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """Choose `n_clusters` rows as centres."""
        trials = n_trials(self.n_local_trials, n_clusters)
        states, row = first_row(data, random)
        states, cut = run_and_cut(data, ADD_CENTER, states, as_center(row), n_outliers)
        rows, tau = [row], np.inf
        while len(rows) < n_clusters and cut.cost > 0:
            if n_outliers:
                tau = min(tau, self.eta * cut.cost / n_outliers)
            candidates = draw(data, states, clipped(tau), random.uniform(size=trials))
            if not candidates:  # all chances are too small for a float
                break
            states, row, cut = _best_candidate(data, states, candidates, n_outliers, cut)
            rows.append(row)
        return as_seeds(rows, n_clusters)


def _best_candidate(
    data: Execution, states: States, candidates: list[Row], n_outliers: float, last: Cut
) -> tuple[States, Row, Cut]:
    """The states, row and cut of the candidate that leaves the least trimmed cost."""
    points = np.array([candidate.point for candidate in candidates])
    if len(candidates) == 1:
        states, cut = run_and_cut(data, ADD_CENTER, states, Centers(points), n_outliers, last)
        return states, candidates[0], cut
    keys = where_to_look(data.dtype, last) if n_outliers else None
    tried, histograms = data.run(TRY_CENTERS, states, Centers(points, keys))
    cuts = []
    for i, histogram in enumerate(histograms):
        trial, _ = data.run(LOOK_AT_TRIAL, tried, i)
        cuts.append(find_cut(data, trial, n_outliers, keys, histogram))
    best = min(range(len(cuts)), key=lambda i: cuts[i].cost)
    states, _ = data.run(KEEP_TRIAL, tried, best)
    return states, candidates[best], cuts[best]


def robust_kmeans_plusplus(
    X: ArrayLike,
    n_clusters: int,
    *,
    n_outliers: int | float,
    eta: float = 0.5,
    n_local_trials: int | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_threads: int | None = None,
) -> Seeds:
    """Choose centres with chances ∝ min(D², η·ρ/z), so that far outliers attract none.

    The twin of :func:`sklearn.cluster.kmeans_plusplus` for data with outliers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)).
    eta : float, default=0.5
        The factor of the threshold.  Smaller is safer against far outliers, and slower to
        leave clusters that already have a centre.
    n_local_trials : int, optional
        Candidates per step, of which the one with the least trimmed cost is kept;
        2 + ⌊ln k⌋ by default.  1 is the paper's Algorithm 1.
    sample_weight : array-like of shape (n_samples,), optional
        An int `n_outliers` is then in units of weight, a share is of the total weight.
    random_state : int, RandomState or None
    n_threads : int, optional
        By default the cores that this process may use.  It never changes the result.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
    indices : ndarray of shape (n_clusters,)
        The rows of X that the centres are.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans import robust_kmeans_plusplus
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]])
    >>> centers, indices = robust_kmeans_plusplus(X, 2, n_outliers=1, random_state=0)
    >>> sorted(centers[:, 0])
    [np.float64(1.0), np.float64(10.0)]
    """
    return seed_rows(
        RobustKMeansPlusPlus(eta, n_local_trials),
        X,
        n_clusters,
        n_outliers=n_outliers,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )
