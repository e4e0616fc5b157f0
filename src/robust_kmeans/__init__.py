"""robust-kmeans: k-means for data that is not clean.

The estimator is `RobustKMeans`; everything else is a part of it to use on its own.
"""

from robust_kmeans.clustering import TrimmedClustering, trimmed_kmeans
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.metrics import (
    OutlierMatch,
    TrimCurve,
    TrimmedScore,
    outlier_precision_recall,
    trim_curve,
    trimmed_calinski_harabasz_score,
    trimmed_davies_bouldin_score,
    trimmed_inertia,
    trimmed_silhouette_score,
)
from robust_kmeans.model_file import ModelFileError
from robust_kmeans.plotting import plot_clusters, plot_outlier_scores, plot_trim_curve
from robust_kmeans.reporting import Progress
from robust_kmeans.saved import SavedModel, load_model
from robust_kmeans.scaling import Scaling, fit_scaling
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
    "ModelFileError",
    "OutlierMatch",
    "Progress",
    "RandomSeeding",
    "RobustKMeans",
    "RobustKMeansPlusPlus",
    "SavedModel",
    "Scaling",
    "Seeds",
    "TKMeansPlusPlus",
    "TrimCurve",
    "TrimmedClustering",
    "TrimmedScore",
    "as_init",
    "fit_scaling",
    "kmeans_plusplus",
    "load_model",
    "outlier_precision_recall",
    "plot_clusters",
    "plot_outlier_scores",
    "plot_trim_curve",
    "random_rows",
    "rkmeans_plusplus",
    "robust_kmeans_plusplus",
    "tkmeans_plusplus",
    "trim_curve",
    "trimmed_calinski_harabasz_score",
    "trimmed_davies_bouldin_score",
    "trimmed_inertia",
    "trimmed_kmeans",
    "trimmed_silhouette_score",
]
