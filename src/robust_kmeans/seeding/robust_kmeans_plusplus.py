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
the method reliable.  With oversampling c, (1 + c)·k rows are drawn like this (the paper's
bi-criteria variant) and reduced to k.  The paper's two approximation theorems do not hold as
stated (they have small counter-examples), so none is claimed here.

The loop is in `robust_draws`, the threshold in `threshold`, and what follows oversampling in
`reduction`.

Cost per step: one reading of X for all candidates, one pass over D² for the draw, and per
candidate usually one for its cut and ρ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from robust_kmeans.execution.base import Execution
from robust_kmeans.seeding.drawing import (
    Seeds,
    check_oversampling,
    n_candidates,
    n_trials,
    seed_or_oversample,
)
from robust_kmeans.seeding.reduction import ReducedSeeding
from robust_kmeans.seeding.robust_draws import draw_robustly
from robust_kmeans.seeding.threshold import Threshold, check_threshold
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.validation import RandomState, check_positive, check_share, check_trials


@dataclass(frozen=True)
class RobustKMeansPlusPlus(ReducedSeeding):
    """The paper's seeding; see `robust_kmeans_plusplus` for its parameters."""

    eta: float = 0.5
    n_local_trials: int | None = None
    oversampling: float = 0.0
    threshold: Threshold = "cost"
    inside: float = 0.0

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        check_trials(self.n_local_trials)
        check_oversampling(self.oversampling)
        check_threshold(self.threshold)
        check_share("inside", self.inside)

    def draw_candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> list[Row]:
        """Rows one after the other, (1 + c)·k of them."""
        return draw_robustly(
            data,
            n_candidates(self.oversampling, n_clusters, data),
            n_outliers,
            random,
            eta=self.eta,
            trials=n_trials(self.n_local_trials, n_clusters),
            threshold=self.threshold,
            inside=self.inside,
        )


def robust_kmeans_plusplus(
    X: ArrayLike,
    n_clusters: int,
    *,
    n_outliers: int | float,
    eta: float = 0.5,
    n_local_trials: int | None = None,
    oversampling: float = 0.0,
    reduce: bool = True,
    threshold: Threshold = "cost",
    inside: float = 0.0,
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
    oversampling : float, default=0.0
        With c > 0, (1 + c)·k candidates are drawn and reduced to k: see `reduce`.
    reduce : bool, default=True
        Whether to return k centres.  False returns all candidates (fewer than (1 + c)·k
        where these already leave no cost).
    threshold : {"cost", "balanced"}, default="cost"
        ``"cost"`` is τ = η·ρ/z.  ``"balanced"`` is the τ with Σ min(D², τ) = (1 + 1/η)·z·τ: it
        bounds the chance that an outlier is drawn by η/(1 + η), also while inliers are
        clipped, and takes a few more passes over the distances.
    inside : float in [0, 1], default=0.0
        The share of each step's candidates that is drawn ∝ D² among the rows that the
        current cut keeps; at least one of several, if it is above 0.
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
    >>> from robust_kmeans import robust_kmeans_plusplus
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]])
    >>> centers, indices = robust_kmeans_plusplus(X, 2, n_outliers=1, random_state=0)
    >>> sorted(centers[:, 0])
    [np.float64(1.0), np.float64(10.0)]
    >>> centers, indices = robust_kmeans_plusplus(
    ...     X, 2, n_outliers=1, oversampling=1, reduce=False, random_state=0
    ... )
    >>> centers.shape
    (4, 2)
    """
    return seed_or_oversample(
        RobustKMeansPlusPlus(eta, n_local_trials, oversampling, threshold, inside),
        X,
        n_clusters,
        reduce=reduce,
        n_outliers=n_outliers,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )
