"""Measures of a clustering with outliers.

The trimmed cost and the match with known outliers are exact.  The three internal measures
are scikit-learn's on the inliers alone; they come with the share of rows left out, because
any of them can be made to look good by leaving out more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics as sklearn_metrics

from robust_kmeans.inputs import elsewhere, opened, rows_of
from robust_kmeans.sweeps.distances import ASSIGN, Centers
from robust_kmeans.sweeps.rows import predicted_d2
from robust_kmeans.trimming import run_and_cut
from robust_kmeans.validation import (
    RandomState,
    as_centers,
    as_rows,
    outlier_budget,
)


class OutlierMatch(NamedTuple):
    """How well flagged rows match the true outliers."""

    precision: float
    recall: float
    f1: float


class TrimmedScore(NamedTuple):
    """A measure of the inliers, and the share of rows that it leaves out."""

    value: float
    trimmed_share: float


class TrimCurve(NamedTuple):
    """Trimmed costs of the same centres, by how many rows are left out."""

    n_outliers: NDArray[np.int64]
    inertia: NDArray[np.float64]


def trimmed_inertia(
    X: ArrayLike,
    centers: ArrayLike,
    *,
    n_outliers: int | float,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
) -> float:
    """The sum of squared distances to the nearest centre over all rows but the farthest.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    centers : array-like of shape (n_clusters, n_features)
    n_outliers : int or float
        How many rows are left out (int), or which share of them (float in [0, 1)).
    sample_weight : array-like of shape (n_samples,), optional
        An int `n_outliers` is then in units of weight, a share is of the total weight.
    n_threads : int, optional
        By default the cores that this process may use.

    Examples
    --------
    >>> from robust_kmeans import trimmed_inertia
    >>> trimmed_inertia([[0.0], [2.0], [50.0]], [[1.0]], n_outliers=1)
    2.0
    """
    rows = rows_of(X)
    points = as_centers(centers, None, rows.shape[1], rows.dtype, "centers")
    with opened(rows, sample_weight=sample_weight, n_threads=n_threads, centers=points) as data:
        z = outlier_budget(data, n_outliers)
        return run_and_cut(data, ASSIGN, None, Centers(points), z)[1].cost


def trim_curve(
    X: ArrayLike,
    centers: ArrayLike,
    *,
    n_outliers: ArrayLike | None = None,
    n_threads: int | None = None,
) -> TrimCurve:
    """The trimmed cost of fixed centres for many numbers of outliers, from one assignment.

    Where the curve stops to fall steeply, the rows left out are no longer far from the rest:
    a hint at the number of outliers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    centers : array-like of shape (n_clusters, n_features)
    n_outliers : array-like of int, optional
        How many rows are left out, in ascending order, each at least 0 and less than
        n_samples; by default 0, 1, 2, 3, 4, 6, 8, 12, 16 and so on.
    n_threads : int, optional
        By default the cores that this process may use.

    Returns
    -------
    TrimCurve
        Named tuple (n_outliers, inertia) of arrays of the same length.

    Examples
    --------
    >>> from robust_kmeans.metrics import trim_curve
    >>> curve = trim_curve([[0.0], [2.0], [3.0], [50.0]], [[1.0]])
    >>> curve.n_outliers.tolist(), curve.inertia.tolist()
    ([0, 1, 2, 3], [2407.0, 6.0, 2.0, 1.0])
    """
    rows = rows_of(X)
    budgets = _budgets(rows.shape[0], n_outliers)
    points = as_centers(centers, None, rows.shape[1], rows.dtype, "centers")
    with opened(rows, n_threads=n_threads, centers=points) as data:
        return trim_curve_of(data.collect(predicted_d2, None, points), budgets)


def trim_curve_of(d2: NDArray[np.floating], n_outliers: ArrayLike | None = None) -> TrimCurve:
    """The curve of `trim_curve` from squared distances to the nearest centre."""
    budgets = _budgets(len(d2), n_outliers)
    ordered = np.sort(d2).astype(np.float64, copy=False)
    # From small to large, the rows between two cuts at a time: a far row, once added, would
    # swallow the differences that near rows make.
    ends = len(ordered) - budgets[::-1]
    starts = np.concatenate([[0], ends[:-1]])
    between = np.add.reduceat(ordered[: ends[-1]], starts)
    return TrimCurve(budgets, np.cumsum(between)[::-1].copy())


def outlier_precision_recall(true_outliers: ArrayLike, flagged: ArrayLike) -> OutlierMatch:
    """Precision, recall and F1 of flagged rows against the true outliers.

    Parameters
    ----------
    true_outliers, flagged : array-like
        Boolean masks of the same length (such as ``labels_ == -1``), or arrays of distinct
        row numbers (such as ``outlier_indices_``).

    Returns
    -------
    OutlierMatch
        Named tuple (precision, recall, f1).  Nothing flagged has precision 1, and no true
        outliers give recall 1: no flag was wrong, and none is missing.

    Examples
    --------
    >>> from robust_kmeans import outlier_precision_recall
    >>> outlier_precision_recall([3, 7], [3, 8, 9])
    OutlierMatch(precision=0.3333333333333333, recall=0.5, f1=0.4)
    """
    true_rows, true_length = _row_numbers("true_outliers", true_outliers)
    rows, length = _row_numbers("flagged", flagged)
    if (true_length is None) != (length is None) or true_length != length:
        raise ValueError(
            f"true_outliers and flagged must both be masks of the same length or both be row "
            f"numbers; got {_kind(true_length)} and {_kind(length)}."
        )
    hits = len(np.intersect1d(true_rows, rows, assume_unique=True))
    precision = hits / len(rows) if len(rows) else 1.0
    recall = hits / len(true_rows) if len(true_rows) else 1.0
    f1 = 2 * precision * recall / (precision + recall) if hits else float(precision == recall == 1)
    return OutlierMatch(precision, recall, f1)


def trimmed_silhouette_score(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    sample_size: int | None = None,
    random_state: RandomState = None,
) -> TrimmedScore:
    """Mean silhouette of the inliers (−1 to 1, higher is better), outliers left out.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    labels : array-like of shape (n_samples,)
        −1 for outliers.
    sample_size : int, optional
        Use so many random inliers: the cost grows with their square.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from robust_kmeans import trimmed_silhouette_score
    >>> score = trimmed_silhouette_score([[0], [1], [9], [10], [500]], [0, 0, 1, 1, -1])
    >>> round(score.value, 2), score.trimmed_share
    (0.89, 0.2)
    """
    return _on_inliers(
        lambda rows, kept: sklearn_metrics.silhouette_score(
            rows, kept, sample_size=sample_size, random_state=random_state
        ),
        X,
        labels,
    )


def trimmed_davies_bouldin_score(X: ArrayLike, labels: ArrayLike) -> TrimmedScore:
    """Davies–Bouldin index of the inliers (0 is best), outliers (−1) left out.

    Examples
    --------
    >>> from robust_kmeans import trimmed_davies_bouldin_score
    >>> score = trimmed_davies_bouldin_score([[0], [1], [9], [10], [500]], [0, 0, 1, 1, -1])
    >>> round(score.value, 3), score.trimmed_share
    (0.111, 0.2)
    """
    return _on_inliers(sklearn_metrics.davies_bouldin_score, X, labels)


def trimmed_calinski_harabasz_score(X: ArrayLike, labels: ArrayLike) -> TrimmedScore:
    """Calinski–Harabasz index of the inliers (higher is better), outliers (−1) left out.

    Examples
    --------
    >>> from robust_kmeans import trimmed_calinski_harabasz_score
    >>> score = trimmed_calinski_harabasz_score([[0], [1], [9], [10], [500]], [0, 0, 1, 1, -1])
    >>> round(score.value, 1), score.trimmed_share
    (162.0, 0.2)
    """
    return _on_inliers(sklearn_metrics.calinski_harabasz_score, X, labels)


def _budgets(n_rows: int, n_outliers: ArrayLike | None) -> NDArray[np.int64]:
    """Numbers of rows to leave out, checked; by default powers of two and their middles."""
    if n_outliers is None:
        powers = 2 ** np.arange(n_rows.bit_length(), dtype=np.int64)
        grid = np.unique(np.concatenate([[0], powers, powers + powers // 2]))
        return grid[grid < n_rows]
    array = np.asarray(n_outliers)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"n_outliers has shape {array.shape}; expected one dimension with at least one "
            f"number of rows, such as [0, 10, 100]."
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"n_outliers has dtype {array.dtype}; expected ints: numbers of rows, not shares."
        )
    if array.min() < 0 or array.max() >= n_rows:
        raise ValueError(
            f"n_outliers goes from {array.min()} to {array.max()}; with {n_rows} rows each must "
            f"be at least 0 and at most {n_rows - 1}."
        )
    if (array[1:] <= array[:-1]).any():
        raise ValueError("n_outliers must be in ascending order without repeats; use numpy.unique.")
    return array.astype(np.int64)


def _on_inliers(
    measure: Callable[[NDArray[np.floating], NDArray[np.int64]], float],
    X: ArrayLike,
    labels: ArrayLike,
) -> TrimmedScore:
    if elsewhere(X) is not None:
        raise TypeError(
            "X must be an array for this measure, which compares rows with each other; give it a "
            "sample of the rows and of their labels."
        )
    rows = as_rows(X)
    clusters = np.asarray(labels)
    if clusters.shape != (len(rows),):
        raise ValueError(
            f"labels has shape {clusters.shape}; X has {len(rows)} rows, so it must have shape "
            f"({len(rows)},)."
        )
    kept = clusters != -1
    found = len(np.unique(clusters[kept]))
    if not 2 <= found < np.count_nonzero(kept):
        raise ValueError(
            f"labels has {found} clusters among {np.count_nonzero(kept)} inliers; this measure "
            f"needs at least 2 clusters and fewer clusters than inliers."
        )
    return TrimmedScore(float(measure(rows[kept], clusters[kept])), float(np.mean(~kept)))


def _row_numbers(name: str, rows: ArrayLike) -> tuple[NDArray[np.int64], int | None]:
    """Row numbers, and the length of the mask that they came from (None for numbers)."""
    array = np.asarray(rows)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected one dimension.")
    if array.dtype == bool:
        return np.flatnonzero(array), len(array)
    if array.size == 0:
        return np.empty(0, np.int64), None
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} has dtype {array.dtype}; expected a boolean mask or row numbers.")
    if len(np.unique(array)) < len(array) or (array < 0).any():
        raise ValueError(
            f"{name} has repeated or negative row numbers; for labels or a 0/1 mask pass a "
            f"boolean mask, such as labels == -1."
        )
    return array.astype(np.int64), None


def _kind(length: int | None) -> str:
    return "row numbers" if length is None else f"a mask of length {length}"
