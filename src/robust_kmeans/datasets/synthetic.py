"""Clusters with known outliers, to try methods on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.utils import check_random_state

from robust_kmeans.validation import RandomState, as_rows, check_count, check_positive


class ContaminatedBlobs(NamedTuple):
    """Rows, their cluster (−1 for outliers), and the clusters' means."""

    X: NDArray[np.floating]
    labels: NDArray[np.int32]
    centers: NDArray[np.floating]


class NoisyRows(NamedTuple):
    """Rows, and which of them got noise."""

    X: NDArray[np.floating]
    noisy: NDArray[np.bool_]


def make_contaminated_blobs(
    n_samples: int | Sequence[int] = 1000,
    *,
    n_clusters: int = 20,
    n_outliers: int = 100,
    n_features: int = 2,
    box: float = 100.0,
    outlier_box: float | None = None,
    cluster_std: float | ArrayLike = 1.0,
    n_noisy: int = 0,
    noise_scale: float = 5.0,
    shuffle: bool = True,
    dtype: DTypeLike = np.float64,
    random_state: RandomState = None,
) -> ContaminatedBlobs:
    """Gaussian clusters and uniform outliers.

    The defaults are the synthetic data of Deshpande & Pratap (z = 100): k + z uniform
    points in a cube of side 100, of which k are the means of unit Gaussians with n/k rows
    each and z are outliers.

    Parameters
    ----------
    n_samples : int or sequence of int, default=1000
        Rows in the clusters, split evenly; or the size of each cluster.  Outliers come on
        top.
    n_clusters : int, default=20
    n_outliers : int, default=100
        Uniform outliers.
    n_features : int, default=2
    box : float, default=100.0
        Side of the cube [0, box]ᵈ from which the means are drawn.
    outlier_box : float, optional
        Side of the cube from which the outliers are drawn, with the same middle; by default
        `box`.  A larger one gives far outliers.
    cluster_std : float or array-like of shape (n_clusters,), default=1.0
        Standard deviation of all clusters, or of each.
    n_noisy : int, default=0
        So many rows of the clusters get Gaussian noise and become outliers too.
    noise_scale : float, default=5.0
        That noise's standard deviation, in standard deviations of each feature.
    shuffle : bool, default=True
        Whether rows come in random order; otherwise cluster by cluster, outliers last.
    dtype : dtype, default=float64
        float32 or float64.
    random_state : int, RandomState or None

    Returns
    -------
    ContaminatedBlobs
        Named tuple (X, labels, centers).

    Examples
    --------
    >>> from robust_kmeans.datasets import make_contaminated_blobs
    >>> X, labels, centers = make_contaminated_blobs(random_state=0)
    >>> X.shape, int((labels == -1).sum()), centers.shape
    ((1100, 2), 100, (20, 2))
    """
    check_count("n_clusters", n_clusters)
    check_count("n_outliers", n_outliers, least=0)
    check_count("n_features", n_features)
    check_count("n_noisy", n_noisy, least=0)
    check_positive("box", box)
    check_positive("noise_scale", noise_scale)
    if outlier_box is not None:
        check_positive("outlier_box", outlier_box)
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype={dtype!r} must be float32 or float64.")
    sizes = _cluster_sizes(n_samples, n_clusters)
    stds = _cluster_stds(cluster_std, n_clusters)
    if n_noisy > sizes.sum():
        raise ValueError(f"n_noisy={n_noisy} is more than the {sizes.sum()} rows of the clusters.")
    random = check_random_state(random_state)

    points = random.uniform(0, box, size=(n_clusters + n_outliers, n_features))
    centers, outliers = points[:n_clusters], points[n_clusters:]
    if outlier_box is not None:
        outliers = box / 2 + (outliers - box / 2) * (outlier_box / box)
    labels = np.repeat(np.arange(n_clusters, dtype=np.int32), sizes)
    spread = stds[labels, np.newaxis]
    clustered = centers[labels] + spread * random.standard_normal((len(labels), n_features))
    if n_noisy:
        clustered, noisy = add_row_noise(clustered, n_noisy, scale=noise_scale, random_state=random)
        labels[noisy] = -1
    X = np.concatenate([clustered, outliers]).astype(dtype)
    labels = np.concatenate([labels, np.full(n_outliers, -1, np.int32)])
    if shuffle:
        order = random.permutation(len(X))
        X, labels = X[order], labels[order]
    return ContaminatedBlobs(X, labels, centers.astype(dtype))


def add_row_noise(
    X: ArrayLike, n_rows: int, *, scale: float = 5.0, random_state: RandomState = None
) -> NoisyRows:
    """Add Gaussian noise to all features of `n_rows` random rows of a copy of `X`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_rows : int
    scale : float, default=5.0
        The noise's standard deviation, in standard deviations of each feature.
    random_state : int, RandomState or None

    Returns
    -------
    NoisyRows
        Named tuple (X, noisy): the new rows, and a mask of those with noise.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans.datasets import add_row_noise
    >>> X, noisy = add_row_noise(np.eye(5), 2, random_state=0)
    >>> int(noisy.sum()), bool((X[~noisy] == np.eye(5)[~noisy]).all())
    (2, True)
    """
    rows = np.array(as_rows(X))
    if not np.isfinite(rows).all():
        raise ValueError("X has NaN or infinite values; drop such rows or fill them first.")
    check_count("n_rows", n_rows, least=0)
    check_positive("scale", scale)
    if n_rows > len(rows):
        raise ValueError(f"n_rows={n_rows} is more than the {len(rows)} rows of X; lower it.")
    random = check_random_state(random_state)
    noisy = np.zeros(len(rows), dtype=bool)
    noisy[random.choice(len(rows), n_rows, replace=False)] = True
    noise = random.standard_normal((n_rows, rows.shape[1])) * (scale * rows.std(axis=0))
    rows[noisy] += noise.astype(rows.dtype)
    return NoisyRows(rows, noisy)


def _cluster_sizes(n_samples: int | Sequence[int], n_clusters: int) -> NDArray[np.int64]:
    if np.ndim(n_samples) == 0:
        check_count("n_samples", n_samples)
        total = int(n_samples)  # type: ignore[arg-type]
        if total < n_clusters:
            raise ValueError(f"n_samples={total} is less than n_clusters={n_clusters}.")
        return total // n_clusters + (np.arange(n_clusters) < total % n_clusters)
    sizes = np.asarray(n_samples)
    if sizes.shape != (n_clusters,) or sizes.dtype.kind != "i" or (sizes < 1).any():
        raise ValueError(
            f"n_samples={n_samples!r} must be an int, or one int of at least 1 for each of "
            f"{n_clusters} clusters."
        )
    return sizes


def _cluster_stds(cluster_std: float | ArrayLike, n_clusters: int) -> NDArray[np.float64]:
    stds: NDArray[Any] = np.asarray(cluster_std, dtype=np.float64)
    if stds.shape not in ((), (n_clusters,)) or not (np.isfinite(stds) & (stds >= 0)).all():
        raise ValueError(
            f"cluster_std={cluster_std!r} must be a number of at least 0, or one for each of "
            f"{n_clusters} clusters."
        )
    return np.broadcast_to(stds, (n_clusters,))
