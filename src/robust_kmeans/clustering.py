"""From centres to a finished clustering: all its figures from one assignment and one cut.

`finish` is the last step of `RobustKMeans`; `trimmed_kmeans` is trimmed Lloyd from given
centres.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.execution.base import Execution
from robust_kmeans.inputs import opened, rows_of
from robust_kmeans.lloyd import LloydRun, trimmed_lloyd
from robust_kmeans.sweeps.cut import FLAGGED, LEAST_FLAGGED, Cut
from robust_kmeans.sweeps.means import CLUSTER_MASS, CLUSTER_SIZES, ClusterShared
from robust_kmeans.sweeps.rows import labels_with_outliers, nearest_labels, squared_distances
from robust_kmeans.trimming import place
from robust_kmeans.validation import (
    as_centers,
    check_clusters,
    check_stopping,
    outlier_budget,
)


@dataclass(frozen=True)
class TrimmedClustering:
    """Centres, and what one assignment and one cut on them give.

    Attributes
    ----------
    cluster_centers : ndarray of shape (n_clusters, n_features)
    cluster_sizes : ndarray of shape (n_clusters,), int64
        How many rows each cluster has, outliers not counted.
    labels : ndarray of shape (n_samples,), int32
        The nearest centre of each row; −1 for outliers.
    nearest_labels : ndarray of shape (n_samples,), int32
        The nearest centre of each row, outliers too.
    inertia : float
        The trimmed cost: the sum of squared distances over the inliers.
    outlier_indices : ndarray of shape (n_outliers,), int64
        The outliers' rows, in ascending order.
    outlier_scores : ndarray of shape (n_samples,)
        Squared distance to the nearest centre.
    outlier_threshold : float
        Between the largest score kept and the smallest flagged; infinity if none is flagged.
    n_outliers : int or float
        How many rows were trimmed; with sample weights, how much weight.
    n_iter : int
        How often the centres were moved.
    inertia_history : ndarray
        The trimmed cost of the initial centres, and after each iteration.
    """

    cluster_centers: NDArray[np.floating]
    cluster_sizes: NDArray[np.int64]
    labels: NDArray[np.int32]
    nearest_labels: NDArray[np.int32]
    inertia: float
    outlier_indices: NDArray[np.int64]
    outlier_scores: NDArray[np.floating]
    outlier_threshold: float
    n_outliers: int | float
    n_iter: int
    inertia_history: NDArray[np.float64]


def finish(data: Execution, run: LloydRun, n_outliers: float) -> TrimmedClustering:
    """All figures of a run, from the states and the cut that it ended with."""
    data.tidy()
    _warn_of_missing(data, run, n_outliers)
    return TrimmedClustering(
        cluster_centers=run.centers,
        cluster_sizes=data.summarise(
            CLUSTER_SIZES, run.states, ClusterShared(run.cut, len(run.centers))
        ),
        labels=data.collect_lazily(labels_with_outliers, run.states, run.cut, np.int32),
        nearest_labels=data.collect_lazily(nearest_labels, run.states, None, np.int32),
        inertia=run.inertia,
        outlier_indices=data.summarise(FLAGGED, run.states, run.cut),
        outlier_scores=data.collect_lazily(squared_distances, run.states, None, data.dtype),
        outlier_threshold=_threshold(run.cut, data.summarise(LEAST_FLAGGED, run.states, run.cut)),
        n_outliers=run.cut.weight if data.weighted else int(run.cut.weight),
        n_iter=run.n_iter,
        inertia_history=np.array(run.history),
    )


def _threshold(cut: Cut, least_flagged: float) -> float:
    """The middle between the largest D² kept and the smallest flagged; ∞ if none is flagged."""
    if least_flagged == np.inf:
        return np.inf
    middle = cut.value + (least_flagged - cut.value) / 2
    # Between neighbouring floats the middle may round up to the flagged one.
    return middle if middle < least_flagged else cut.value


def _warn_of_missing(data: Execution, run: LloydRun, n_outliers: float) -> None:
    n_clusters = len(run.centers)
    mass = data.summarise(CLUSTER_MASS, run.states, ClusterShared(run.cut, n_clusters))
    n_found = np.count_nonzero(mass)
    if n_found < n_clusters:
        warnings.warn(
            f"{n_found} distinct clusters found, fewer than n_clusters={n_clusters}: the rows "
            f"that are kept have too few distinct values. Lower n_clusters.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if run.cut.value == 0 and run.cut.weight < n_outliers:
        warnings.warn(
            f"{run.cut.weight:g} outliers flagged, fewer than n_outliers={n_outliers:g}: all "
            f"other rows are at distance 0 from a centre. Lower n_outliers.",
            ConvergenceWarning,
            stacklevel=3,
        )


def trimmed_kmeans(
    X: ArrayLike,
    centers: ArrayLike,
    *,
    n_outliers: int | float,
    sample_weight: ArrayLike | None = None,
    max_iter: int = 300,
    tol: float = 1e-4,
    n_threads: int | None = None,
) -> TrimmedClustering:
    """Trimmed Lloyd (k-means--) from given centres.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    centers : array-like of shape (n_clusters, n_features)
        Where to start; often the result of a seeding.
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)).
    sample_weight : array-like of shape (n_samples,), optional
        An int `n_outliers` is then in units of weight, a share is of the total weight.
    max_iter : int, default=300
    tol : float, default=1e-4
        Stop when the centres' squared movement is at most `tol` times the inliers' mean
        squared deviation per feature.
    n_threads : int, optional
        By default the cores that this process may use.  It never changes the result.

    Returns
    -------
    TrimmedClustering

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans import trimmed_kmeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]])
    >>> result = trimmed_kmeans(X, [[1, 2], [10, 4]], n_outliers=1)
    >>> result.labels
    array([ 0,  0,  0,  1,  1,  1, -1], dtype=int32)
    >>> result.inertia
    16.0
    """
    check_stopping(max_iter, tol)
    rows = rows_of(X)
    start = as_centers(centers, None, rows.shape[1], rows.dtype, "centers")
    with opened(rows, sample_weight=sample_weight, n_threads=n_threads, centers=start) as data:
        z = outlier_budget(data, n_outliers)
        check_clusters(data, len(start), z)
        placed = place(data, start, z)
        run = trimmed_lloyd(data, placed, z, max_iter=max_iter, tol=tol)
        return finish(data, run, z)
