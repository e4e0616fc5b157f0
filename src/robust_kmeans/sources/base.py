"""What a data set on disk offers: its rows in order, a few chunks of them at a time.

    scan     all rows once, chunk by chunk: what a sweep reads
    read     one run of rows
    take     a few rows, wherever they are
    where    the place of a row in its file, for messages

Nothing here holds more than a few chunks: memory does not depend on the number of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DatasetError(ValueError):
    """A file that cannot be used: damaged, of another shape than the others, or changed.

    Its message names the file, and the row group or the column where that is known.
    """


class Dataset(ABC):
    """Rows that lie on disk.

    It can be pickled: files are opened where rows are read, and only their names travel.

    Attributes
    ----------
    n_rows, n_features : int
    dtype : numpy.dtype
        float32 where all values fit into it as they are stored, otherwise float64.
    feature_names : list of str or None
        The names of the columns, where the format has names.
    takes_quickly : bool
        Whether a few rows can be read by themselves; otherwise many around them are decoded.
    decoding_bytes : int
        About so much memory a scan takes besides the rows that it hands out.
    """

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    feature_names: list[str] | None
    takes_quickly: bool
    decoding_bytes: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""
        return self.n_rows, self.n_features

    @abstractmethod
    def scan(self, bounds: Sequence[int] | NDArray[np.int64]) -> Iterator[NDArray[np.floating]]:
        """Rows bounds[0]:bounds[1], then bounds[1]:bounds[2], …, each decoded once.

        Parameters
        ----------
        bounds : sequence of int, ascending

        Yields
        ------
        ndarray of shape (bounds[i + 1] - bounds[i], n_features), C-contiguous, of `dtype`
            Perhaps a read-only view of the file.

        Raises
        ------
        DatasetError
            If a file is damaged, or is another one than when the data set was opened.
        """

    def read(self, start: int, stop: int) -> NDArray[np.floating]:
        """Rows start:stop; several threads may ask at once."""
        return next(self.scan((start, stop)))

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """A few rows, given in ascending order; several threads may ask at once."""

    @abstractmethod
    def where(self, row: int) -> str:
        """The file of a row and its place in there, for messages; both count from 0."""
