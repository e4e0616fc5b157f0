"""robust-kmeans: k-means for data that is not clean.

The estimator is `RobustKMeans`; everything else is a part of it to use on its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robust_kmeans.checkpoint import CheckpointError
    from robust_kmeans.clustering import TrimmedClustering, trimmed_kmeans
    from robust_kmeans.coreset import Coreset, robust_coreset
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
    from robust_kmeans.seeding.robust_kmeans_parallel import (
        RobustKMeansParallel,
        robust_kmeans_parallel,
    )
    from robust_kmeans.seeding.robust_kmeans_plusplus import (
        RobustKMeansPlusPlus,
        robust_kmeans_plusplus,
    )
    from robust_kmeans.seeding.tkmeans_plusplus import TKMeansPlusPlus, tkmeans_plusplus
    from robust_kmeans.seeding.uniform import RandomSeeding, random_rows
    from robust_kmeans.sources import Dataset, DatasetError, open_dataset
    from robust_kmeans.streaming import StreamingRobustKMeans
    from robust_kmeans.warming import warm_up

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "Coreset",
    "Dataset",
    "DatasetError",
    "KMeansPlusPlus",
    "MixtureSeeding",
    "ModelFileError",
    "OutlierMatch",
    "Progress",
    "RandomSeeding",
    "RobustKMeans",
    "RobustKMeansParallel",
    "RobustKMeansPlusPlus",
    "SavedModel",
    "Scaling",
    "Seeds",
    "StreamingRobustKMeans",
    "TKMeansPlusPlus",
    "TrimCurve",
    "TrimmedClustering",
    "TrimmedScore",
    "as_init",
    "fit_scaling",
    "kmeans_plusplus",
    "load_model",
    "open_dataset",
    "outlier_precision_recall",
    "plot_clusters",
    "plot_outlier_scores",
    "plot_trim_curve",
    "random_rows",
    "rkmeans_plusplus",
    "robust_coreset",
    "robust_kmeans_parallel",
    "robust_kmeans_plusplus",
    "tkmeans_plusplus",
    "trim_curve",
    "trimmed_calinski_harabasz_score",
    "trimmed_davies_bouldin_score",
    "trimmed_inertia",
    "trimmed_kmeans",
    "trimmed_silhouette_score",
    "warm_up",
]

# Modules are imported when a name of theirs is first used: importing the package, completing a
# command line and asking for help then do not wait for compilers and numerical libraries.
_HOMES = {
    "as_init": "robust_kmeans.seeding.adapter",
    "CheckpointError": "robust_kmeans.checkpoint",
    "Coreset": "robust_kmeans.coreset",
    "Dataset": "robust_kmeans.sources",
    "DatasetError": "robust_kmeans.sources",
    "fit_scaling": "robust_kmeans.scaling",
    "kmeans_plusplus": "robust_kmeans.seeding.kmeans_plusplus",
    "KMeansPlusPlus": "robust_kmeans.seeding.kmeans_plusplus",
    "load_model": "robust_kmeans.saved",
    "MixtureSeeding": "robust_kmeans.seeding.rkmeans_plusplus",
    "ModelFileError": "robust_kmeans.model_file",
    "open_dataset": "robust_kmeans.sources",
    "outlier_precision_recall": "robust_kmeans.metrics",
    "OutlierMatch": "robust_kmeans.metrics",
    "plot_clusters": "robust_kmeans.plotting",
    "plot_outlier_scores": "robust_kmeans.plotting",
    "plot_trim_curve": "robust_kmeans.plotting",
    "Progress": "robust_kmeans.reporting",
    "random_rows": "robust_kmeans.seeding.uniform",
    "RandomSeeding": "robust_kmeans.seeding.uniform",
    "rkmeans_plusplus": "robust_kmeans.seeding.rkmeans_plusplus",
    "robust_coreset": "robust_kmeans.coreset",
    "robust_kmeans_parallel": "robust_kmeans.seeding.robust_kmeans_parallel",
    "robust_kmeans_plusplus": "robust_kmeans.seeding.robust_kmeans_plusplus",
    "RobustKMeans": "robust_kmeans.estimator",
    "RobustKMeansParallel": "robust_kmeans.seeding.robust_kmeans_parallel",
    "RobustKMeansPlusPlus": "robust_kmeans.seeding.robust_kmeans_plusplus",
    "SavedModel": "robust_kmeans.saved",
    "Scaling": "robust_kmeans.scaling",
    "Seeds": "robust_kmeans.seeding.drawing",
    "StreamingRobustKMeans": "robust_kmeans.streaming",
    "tkmeans_plusplus": "robust_kmeans.seeding.tkmeans_plusplus",
    "TKMeansPlusPlus": "robust_kmeans.seeding.tkmeans_plusplus",
    "trim_curve": "robust_kmeans.metrics",
    "TrimCurve": "robust_kmeans.metrics",
    "trimmed_calinski_harabasz_score": "robust_kmeans.metrics",
    "trimmed_davies_bouldin_score": "robust_kmeans.metrics",
    "trimmed_inertia": "robust_kmeans.metrics",
    "trimmed_kmeans": "robust_kmeans.clustering",
    "trimmed_silhouette_score": "robust_kmeans.metrics",
    "TrimmedClustering": "robust_kmeans.clustering",
    "TrimmedScore": "robust_kmeans.metrics",
    "warm_up": "robust_kmeans.warming",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
