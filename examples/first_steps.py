"""First steps: dirty data, scikit-learn's KMeans and RobustKMeans side by side.

Generates 20 clusters with 5 % outliers from a box ten times as wide, fits both, and prints
what each makes of them.  Run it with ``make demo``.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.cluster import KMeans

from robust_kmeans import (
    RobustKMeans,
    outlier_precision_recall,
    trimmed_inertia,
)
from robust_kmeans.datasets import make_contaminated_blobs

N_CLUSTERS, N_OUTLIERS = 20, 1000


def main() -> None:
    X, labels, means = make_contaminated_blobs(
        20_000, n_clusters=N_CLUSTERS, n_outliers=N_OUTLIERS, outlier_box=1000, random_state=7
    )
    planted = labels == -1
    print(f"{len(X):,} rows: {N_CLUSTERS} clusters, {planted.sum():,} of the rows are outliers.")
    print("Compiling the kernels (first run only) …", flush=True)
    RobustKMeans(2, random_state=0).fit(X[:100])

    plain, plain_seconds = timed(KMeans(N_CLUSTERS, n_init=1, random_state=0), X)
    robust, robust_seconds = timed(
        RobustKMeans(N_CLUSTERS, n_outliers=N_OUTLIERS, random_state=0), X
    )
    # KMeans flags nothing: its farthest rows are the best guess that it allows.
    farthest = np.argsort(plain.transform(X).min(axis=1))[-N_OUTLIERS:]
    print()
    print(f"{'':24}{'cost on inliers':>16}{'precision':>11}{'clusters hit':>14}{'seconds':>9}")
    row("scikit-learn KMeans", X, plain.cluster_centers_, farthest, planted, means, plain_seconds)
    row(
        "RobustKMeans",
        X,
        robust.cluster_centers_,
        robust.outlier_indices_,
        planted,
        means,
        robust_seconds,
    )
    print()
    print("cost on inliers: squared distances summed over all rows but the farthest 1,000")
    print("precision: share of the rows flagged as outliers that were planted as such")
    print("clusters hit: planted means that have a centre within 3 standard deviations")


def timed(model: KMeans | RobustKMeans, X: np.ndarray) -> tuple[KMeans | RobustKMeans, float]:
    start = time.perf_counter()
    model.fit(X)
    return model, time.perf_counter() - start


def row(
    name: str,
    X: np.ndarray,
    centers: np.ndarray,
    flagged: np.ndarray,
    planted: np.ndarray,
    means: np.ndarray,
    seconds: float,
) -> None:
    cost = trimmed_inertia(X, centers, n_outliers=N_OUTLIERS)
    match = outlier_precision_recall(np.flatnonzero(planted), np.sort(flagged))
    nearest = np.sqrt(((means[:, None] - centers[None]) ** 2).sum(axis=2)).min(axis=1)
    hit = f"{(nearest < 3).sum()} of {len(means)}"
    print(f"{name:24}{cost:>16,.0f}{match.precision:>11.2f}{hit:>14}{seconds:>9.3f}")


if __name__ == "__main__":
    main()
