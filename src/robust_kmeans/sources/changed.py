"""The rows of another data set, changed as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.sources.base import Dataset

Change = Callable[[NDArray[np.floating]], NDArray[np.floating]]


def converted(dataset: Dataset, dtype: np.dtype[Any]) -> Dataset:
    """The rows as float32 or float64; what does not fit becomes infinite."""
    return Changed(dataset, partial(_cast, dtype=dtype), dtype)


class Changed(Dataset):
    """Rows of a data set, each changed by itself.

    Parameters
    ----------
    dataset : Dataset
    change : callable
        From rows to as many rows with as many columns.
    dtype : numpy.dtype
        Of what it returns.
    """

    def __init__(self, dataset: Dataset, change: Change, dtype: np.dtype[Any]) -> None:
        self.n_rows, self.n_features = dataset.n_rows, dataset.n_features
        self.dtype = dtype
        self.feature_names = dataset.feature_names
        self.takes_quickly = dataset.takes_quickly
        self.decoding_bytes = dataset.decoding_bytes
        self._dataset, self._change = dataset, change

    def scan(self, bounds: Sequence[int] | NDArray[np.int64]) -> Iterator[NDArray[np.floating]]:
        """Rows bounds[0]:bounds[1], then bounds[1]:bounds[2], …."""
        return (self._change(rows) for rows in self._dataset.scan(bounds))

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """A few rows, given in ascending order."""
        return self._change(self._dataset.take(rows))

    def where(self, row: int) -> str:
        """The file of a row and its place in there."""
        return self._dataset.where(row)


def _cast(rows: NDArray[np.floating], dtype: np.dtype[Any]) -> NDArray[np.floating]:
    with np.errstate(over="ignore"):
        return rows.astype(dtype)
