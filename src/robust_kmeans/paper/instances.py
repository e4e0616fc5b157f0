"""Three instances on which the paper's two theorems fail.

Each has an optimum of 0: the rows of a cluster are equal, and leaving out the outliers leaves no
cost.  So whatever is at most a multiple of the optimum is 0, and a trimmed cost ρ > 0 in some runs
is enough to contradict such a bound.

A  With chances ∝ min(D², η·ρ/z), far outliers are drawn with chance η/(1 + η) per step as long as
   no inlier is clipped: too few of k draws are left for k clusters.
B  The first draw is uniform, so an outlier with chance z/n.  With k = 1 it is the only one, and
   the expected cost grows with the outliers' distance without bound.
C  A cluster of m rows, far fewer than z, is drawn with chance m/(z + m) per step, for every η.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Counterexample(NamedTuple):
    """Rows, what is asked of them, and the cluster of each row (−1 for outliers)."""

    X: NDArray[np.float64]
    n_clusters: int
    n_outliers: int
    clusters: NDArray[np.int64]

    @property
    def centers(self) -> NDArray[np.float64]:
        """The optimal centres, of shape (n_clusters, n_features): any row of each cluster."""
        _, first = np.unique(self.clusters[self.clusters >= 0], return_index=True)
        centers: NDArray[np.float64] = self.X[self.clusters >= 0][first]
        return centers


def instance_a() -> Counterexample:
    """20 clusters of 100 equal rows and 60 outliers, each along an axis of its own.

    Examples
    --------
    >>> from robust_kmeans.paper.instances import instance_a
    >>> X, n_clusters, n_outliers, clusters = instance_a()
    >>> X.shape, n_clusters, n_outliers
    ((2060, 80), 20, 60)
    """
    axes = np.eye(80)
    return _counterexample(100 * axes[:20], [100] * 20, 1000 * axes[20:])


def instance_b() -> Counterexample:
    """900 rows at the origin, and 100 outliers that are equal too."""
    return _counterexample(np.zeros((1, 2)), [900], np.repeat([[10_000.0, 0.0]], 100, axis=0))


def instance_c() -> Counterexample:
    """10,000 rows at the origin, 50 at distance 1, and 2,500 outliers on a far grid."""
    steps = 10_000 + 1000 * np.arange(50.0)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    return _counterexample(np.array([[0.0, 0.0], [1.0, 0.0]]), [10_000, 50], grid)


def _counterexample(
    centers: NDArray[np.float64], sizes: list[int], outliers: NDArray[np.float64]
) -> Counterexample:
    clusters = np.repeat(np.arange(len(centers)), sizes)
    return Counterexample(
        np.concatenate([centers[clusters], outliers]),
        len(centers),
        len(outliers),
        np.concatenate([clusters, np.full(len(outliers), -1)]),
    )
