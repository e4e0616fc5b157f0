"""The data and the yardstick of two studies: the paper's synthetic data, and its planted means.

Twenty unit Gaussians with means in a square, and uniform outliers from the same square or from one
ten times as wide; a fresh instance for each repetition.  Costs are relative to those of trimmed
Lloyd from the planted means, the best solution that is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from robust_kmeans.clustering import trimmed_kmeans
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.paper.data import N_SYNTHETIC, derived_seed
from robust_kmeans.paper.studies.result import Floats

N_CLUSTERS = 20
N_OUTLIERS = 100
BOX = 100
OUTLIER_BOXES = (100, 1000)
DESCRIPTION = (
    f"the paper's synthetic data ({N_SYNTHETIC:,} rows in k = {N_CLUSTERS} clusters with means in "
    f"a square of side {BOX}, and z = {N_OUTLIERS} outliers from a square of side "
    f"{' or '.join(map(str, OUTLIER_BOXES))}; a fresh instance for each repetition)"
)


class Planted(NamedTuple):
    """Rows, and the trimmed cost of the best solution known."""

    X: Floats
    reference: float


def planted(outlier_box: int, seed: int, repetition: int) -> Planted:
    """The instance of a repetition."""
    X, _, means = make_contaminated_blobs(
        N_SYNTHETIC,
        n_clusters=N_CLUSTERS,
        n_outliers=N_OUTLIERS,
        box=BOX,
        outlier_box=outlier_box,
        random_state=derived_seed(seed, repetition, "data"),
    )
    best = trimmed_kmeans(X, means, n_outliers=N_OUTLIERS, n_threads=1)
    return Planted(np.asarray(X, np.float64), best.inertia)


def nearest_squared_distances(X: Floats, centers: Floats) -> Floats:
    """D² of every row."""
    distances: Floats = cdist(X, centers, "sqeuclidean").min(axis=1)
    return distances


def panel_title(outlier_box: int) -> str:
    """Which of the two data sets."""
    return f"outliers from a square of side {outlier_box}"
