"""Rows that lie on disk, in order, without ever having all of them in memory."""

from robust_kmeans.sources.base import Dataset, DatasetError
from robust_kmeans.sources.npy import from_memmap
from robust_kmeans.sources.opening import from_arrow, open_dataset

__all__ = ["Dataset", "DatasetError", "from_arrow", "from_memmap", "open_dataset"]
