"""``k-means++``: the first centre uniform, each next one with chance ∝ D².

Arthur & Vassilvitskii, *k-means++: the advantages of careful seeding*, SODA 2007.  Greedy
as in scikit-learn: several candidates are drawn per step, and the one that leaves the
least cost is kept.  Outliers have the largest D², so this seeding runs after them; it is
here as the baseline and as a part of other methods.

Cost per step: at most one reading of X for all candidates (see `growth`), and a few passes over D².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from robust_kmeans.execution.base import Execution
from robust_kmeans.seeding.drawing import (
    Seeds,
    as_seeds,
    clipped,
    draw,
    n_trials,
    seed_rows,
)
from robust_kmeans.seeding.growth import Growth
from robust_kmeans.validation import RandomState, check_trials


@dataclass(frozen=True)
class KMeansPlusPlus:
    """k-means++ with `n_local_trials` candidates per step (None: 2 + ⌊ln k⌋)."""

    n_local_trials: int | None = None

    def __post_init__(self) -> None:
        check_trials(self.n_local_trials)

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,  # noqa: ARG002 - every seeding is called alike
        random: np.random.RandomState,
    ) -> Seeds:
        """Choose `n_clusters` rows as centres."""
        trials = n_trials(self.n_local_trials, n_clusters)
        growth = Growth(data, n_clusters, 0, random)
        while len(growth.rows) < n_clusters:
            if trials == 1:
                if not growth.add_drawn(np.inf):
                    break
                continue
            candidates = draw(data, growth.states, clipped(np.inf), random.uniform(size=trials))
            if not candidates:
                break
            growth.add_best(candidates)
        return as_seeds(growth.rows, n_clusters)


def kmeans_plusplus(
    X: ArrayLike,
    n_clusters: int,
    *,
    sample_weight: ArrayLike | None = None,
    n_local_trials: int | None = None,
    random_state: RandomState = None,
    n_threads: int | None = None,
) -> Seeds:
    """Choose centres with k-means++, without regard to outliers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    sample_weight : array-like of shape (n_samples,), optional
    n_local_trials : int, optional
        Candidates per step, of which the best is kept; 2 + ⌊ln k⌋ by default.
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
    >>> from robust_kmeans import kmeans_plusplus
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> centers, indices = kmeans_plusplus(X, 2, random_state=0)
    >>> sorted(centers[:, 0])
    [np.float64(1.0), np.float64(10.0)]
    """
    return seed_rows(
        KMeansPlusPlus(n_local_trials),
        X,
        n_clusters,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )
