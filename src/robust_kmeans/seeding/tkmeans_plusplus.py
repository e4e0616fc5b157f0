"""``tkm++``: chances ∝ min(D², η·G/z), with G a fixed guess of the optimal trimmed cost.

Bhaskara, Vadgama & Xu, *Greedy sampling for approximate clustering in the presence of
outliers*, NeurIPS 2019.  The threshold does not change while centres are added.  Without a
guess G is the trimmed cost of one run of k-means++, as in the experiments of Deshpande &
Pratap.  With oversampling c, (1 + c)·k rows are drawn, then reduced to k.

Cost per step: at most one reading of X (see `growth`) and about two passes over D²; the guess
doubles the readings.
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
    seed_or_oversample,
)
from robust_kmeans.seeding.growth import Growth
from robust_kmeans.seeding.kmeans_plusplus import KMeansPlusPlus
from robust_kmeans.seeding.reduction import ReducedSeeding
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import place
from robust_kmeans.validation import (
    RandomState,
    check_positive,
)


@dataclass(frozen=True)
class TKMeansPlusPlus(ReducedSeeding):
    """Thresholded k-means++; see `tkmeans_plusplus` for its parameters."""

    eta: float = 0.5
    opt_guess: float | None = None
    oversampling: float = 0.0

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)
        if self.opt_guess is not None:
            check_positive("opt_guess", self.opt_guess)
        check_oversampling(self.oversampling)

    def draw_candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> list[Row]:
        """Rows one after the other, (1 + c)·k of them."""
        guess = self.opt_guess
        if guess is None and n_outliers:
            guessed = KMeansPlusPlus(n_local_trials=1).seed(data, n_clusters, 0, random)
            guess = place(data, guessed.centers, n_outliers).inertia
            if guess == 0:
                return [
                    Row(int(i), c) for i, c in zip(guessed.indices, guessed.centers, strict=True)
                ]
        tau = self.eta * guess / n_outliers if guess and n_outliers else np.inf
        n_rows = n_candidates(self.oversampling, n_clusters, data)
        growth = Growth(data, n_rows, n_outliers, random)
        # Where no cost is left, only rows that will be trimmed could still be drawn.
        while len(growth.rows) < n_rows and growth.cut.cost > 0:
            if not growth.add_drawn(tau):  # all chances are too small for a float
                break
        return growth.rows


def tkmeans_plusplus(
    X: ArrayLike,
    n_clusters: int,
    *,
    n_outliers: int | float,
    eta: float = 0.5,
    opt_guess: float | None = None,
    oversampling: float = 0.0,
    reduce: bool = True,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_threads: int | None = None,
) -> Seeds:
    """Choose centres with chances ∝ min(D², η·G/z), where G is a fixed guess of the optimum.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)).
    eta : float, default=0.5
        The factor of the threshold (β in the papers).
    opt_guess : float, optional
        A guess of the optimal trimmed cost; by default that of one run of k-means++.
    oversampling : float, default=0.0
        With c > 0, (1 + c)·k candidates are drawn and reduced to k: see `reduce`.
    reduce : bool, default=True
        Whether to return k centres.  False returns all candidates (fewer than (1 + c)·k
        where these already leave no cost).
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
    >>> from robust_kmeans import tkmeans_plusplus
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]])
    >>> centers, indices = tkmeans_plusplus(X, 2, n_outliers=1, opt_guess=16, random_state=0)
    >>> centers.shape
    (2, 2)
    """
    return seed_or_oversample(
        TKMeansPlusPlus(eta, opt_guess, oversampling),
        X,
        n_clusters,
        reduce=reduce,
        n_outliers=n_outliers,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )
