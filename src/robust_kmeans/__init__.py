"""robust-kmeans: k-means for data that is not clean.

The estimator is `RobustKMeans`; everything else is a part of it to use on its own.
"""

from robust_kmeans.clustering import TrimmedClustering, trimmed_kmeans
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.metrics import (
    OutlierMatch,
    TrimmedScore,
    outlier_precision_recall,
    trimmed_calinski_harabasz_score,
    trimmed_davies_bouldin_score,
    trimmed_inertia,
    trimmed_silhouette_score,
)
from robust_kmeans.reporting import Progress
from robust_kmeans.seeding.adapter import as_init
from robust_kmeans.seeding.drawing import Seeds
from robust_kmeans.seeding.kmeans_plusplus import KMeansPlusPlus, kmeans_plusplus
from robust_kmeans.seeding.rkmeans_plusplus import MixtureSeeding, rkmeans_plusplus
from robust_kmeans.seeding.robust_kmeans_plusplus import (
    RobustKMeansPlusPlus,
    robust_kmeans_plusplus,
)
from robust_kmeans.seeding.tkmeans_plusplus import TKMeansPlusPlus, tkmeans_plusplus
from robust_kmeans.seeding.uniform import RandomSeeding, random_rows

__version__ = "0.1.0"

__all__ = [
    "KMeansPlusPlus",
    "MixtureSeeding",
    "OutlierMatch",
    "Progress",
    "RandomSeeding",
    "RobustKMeans",
    "RobustKMeansPlusPlus",
    "Seeds",
    "TKMeansPlusPlus",
    "TrimmedClustering",
    "TrimmedScore",
    "as_init",
    "kmeans_plusplus",
    "outlier_precision_recall",
    "random_rows",
    "rkmeans_plusplus",
    "robust_kmeans_plusplus",
    "tkmeans_plusplus",
    "trimmed_calinski_harabasz_score",
    "trimmed_davies_bouldin_score",
    "trimmed_inertia",
    "trimmed_kmeans",
    "trimmed_silhouette_score",
]
