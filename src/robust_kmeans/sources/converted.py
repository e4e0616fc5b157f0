"""The rows of another data set in another dtype, converted as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.sources.base import Dataset


class Converted(Dataset):
    """Rows of a data set as float32 or float64; what does not fit becomes infinite."""

    def __init__(self, dataset: Dataset, dtype: np.dtype[Any]) -> None:
        self.n_rows, self.n_features = dataset.n_rows, dataset.n_features
        self.feature_names = dataset.feature_names
        self.takes_quickly = dataset.takes_quickly
        self.decoding_bytes = dataset.decoding_bytes
        self.dtype = dtype
        self._dataset = dataset

    def scan(self, bounds: Sequence[int] | NDArray[np.int64]) -> Iterator[NDArray[np.floating]]:
        """Rows bounds[0]:bounds[1], then bounds[1]:bounds[2], …."""
        return (self._cast(rows) for rows in self._dataset.scan(bounds))

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """A few rows, given in ascending order."""
        return self._cast(self._dataset.take(rows))

    def where(self, row: int) -> str:
        """The file of a row and its place in there."""
        return self._dataset.where(row)

    def _cast(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        with np.errstate(over="ignore"):
            return rows.astype(self.dtype)
