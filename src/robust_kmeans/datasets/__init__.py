"""Data sets: synthetic clusters with known outliers, and the real data of the paper."""

from robust_kmeans.datasets.download import DownloadProgress
from robust_kmeans.datasets.packed import DataFileError
from robust_kmeans.datasets.real import RealData, load_kddcup, load_shuttle, load_skin
from robust_kmeans.datasets.synthetic import (
    ContaminatedBlobs,
    NoisyRows,
    add_row_noise,
    make_contaminated_blobs,
)

__all__ = [
    "ContaminatedBlobs",
    "DataFileError",
    "DownloadProgress",
    "NoisyRows",
    "RealData",
    "add_row_noise",
    "load_kddcup",
    "load_shuttle",
    "load_skin",
    "make_contaminated_blobs",
]
