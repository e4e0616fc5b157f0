"""Files joined to one data set, their rows laid out as chunks.

Blocks come from a file as they were stored; a chunk is cut from them.  Rows that lie in the file
as they are wanted are handed out where they are; all others are copied once: columns are laid
out as rows a few thousand at a time, so that what is being written stays in the cache.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.sources.base import Dataset
from robust_kmeans.sources.files import Block, RowFile

# Chunks that the system is asked for before they are needed.
CHUNKS_AHEAD = 2
# Bytes of rows that are written to together: about half of a core's own cache.
TILE_BYTES = 2**18


class JoinedFiles(Dataset):
    """The rows of several files, one after the other.

    Parameters
    ----------
    files : sequence of RowFile
    dtype : numpy.dtype
        float32 or float64.
    n_features : int
    feature_names : list of str, optional
    """

    def __init__(
        self,
        files: Sequence[RowFile],
        dtype: np.dtype[Any],
        n_features: int,
        feature_names: list[str] | None = None,
    ) -> None:
        self.files = list(files)
        self.dtype = dtype
        self.n_features = n_features
        self.feature_names = feature_names
        self.takes_quickly = all(file.takes_quickly for file in files)
        self.decoding_bytes = max(file.decoding_bytes for file in files)
        self._starts = np.cumsum([0, *(file.n_rows for file in files)])
        self.n_rows = int(self._starts[-1])

    def scan(self, bounds: Sequence[int] | NDArray[np.int64]) -> Iterator[NDArray[np.floating]]:
        """Rows bounds[0]:bounds[1], then bounds[1]:bounds[2], …, each decoded once."""
        bounds = [int(bound) for bound in bounds]
        asked = bounds[0]
        with closing(self._blocks(bounds[0], bounds[-1])) as blocks:
            cutter = _Cutter(blocks, self.n_features, self.dtype)
            for i, (start, stop) in enumerate(pairwise(bounds)):
                ahead = bounds[min(i + 1 + CHUNKS_AHEAD, len(bounds) - 1)]
                self._check_files(start, stop)
                self._ask_for(asked, ahead)
                asked = ahead
                yield cutter.next_rows(stop - start)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """A few rows, given in ascending order."""
        rows = np.asarray(rows, dtype=np.int64)
        taken = np.empty((len(rows), self.n_features), self.dtype)
        for file, first, last in self._files_of(rows):
            wanted = rows[first:last] - self._starts[file]
            for positions, block, within in _blocks_of(self.files[file], wanted):
                pick_rows(block, within, taken[first + positions.start : first + positions.stop])
        return taken

    def where(self, row: int) -> str:
        """The file of a row and its place in there, for messages."""
        file = self._file_of(row)
        return self.files[file].where(int(row - self._starts[file]))

    def __repr__(self) -> str:
        paths = [file.stamp.path for file in self.files]
        among = paths[0] if len(paths) == 1 else f"{len(paths)} files, {paths[0]} … {paths[-1]}"
        return f"<Dataset: {self.n_rows} rows of {self.n_features} {self.dtype} in {among}>"

    def _blocks(self, start: int, stop: int) -> Generator[Block, None, None]:
        for file, first, last in self._overlaps(start, stop):
            yield from file.blocks(first, last)

    def _check_files(self, start: int, stop: int) -> None:
        # Before every chunk: to look at mapped rows that are gone ends the process.
        for file, _, _ in self._overlaps(start, stop):
            file.stamp.check()

    def _ask_for(self, start: int, stop: int) -> None:
        for file, first, last in self._overlaps(start, stop):
            file.ask_for(first, last)

    def _overlaps(self, start: int, stop: int) -> Iterator[tuple[RowFile, int, int]]:
        """The files that rows start:stop are in, and which of their rows those are."""
        if stop <= start:
            return
        for i in range(self._file_of(start), self._file_of(stop - 1) + 1):
            begin, end = int(self._starts[i]), int(self._starts[i + 1])
            if end > begin:
                yield self.files[i], max(start, begin) - begin, min(stop, end) - begin

    def _files_of(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
        """Each file that has some of the rows, and which of them: rows[first:last]."""
        edges = np.searchsorted(rows, self._starts)
        for i in np.flatnonzero(np.diff(edges)):
            self.files[i].stamp.check()
            yield int(i), int(edges[i]), int(edges[i + 1])

    def _file_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1


class _Cutter:
    """Cuts runs of rows of given lengths from a stream of blocks."""

    def __init__(self, blocks: Iterator[Block], n_features: int, dtype: np.dtype[Any]) -> None:
        self.blocks, self.n_features, self.dtype = blocks, n_features, dtype
        self.block: Block = []
        self.used = self.length = 0

    def next_rows(self, n_rows: int) -> NDArray[np.floating]:
        self._have_rows(n_rows)
        if isinstance(self.block, np.ndarray) and self.length - self.used >= n_rows:
            rows = self.block[self.used : self.used + n_rows]
            if rows.dtype == self.dtype and rows.flags.c_contiguous and rows.flags.aligned:
                self.used += n_rows
                return rows
        rows = np.empty((n_rows, self.n_features), self.dtype)
        filled = 0
        while filled < n_rows:
            self._have_rows(n_rows)
            n = min(self.length - self.used, n_rows - filled)
            copy_rows(self.block, self.used, rows[filled : filled + n])
            self.used += n
            filled += n
        return rows

    def _have_rows(self, n_rows: int) -> None:
        if n_rows and self.used == self.length:
            # What was decoded is let go of before more is.
            self.block = []
            self.block = next(self.blocks)
            self.used, self.length = 0, block_length(self.block)


def _blocks_of(
    file: RowFile, rows: NDArray[np.int64]
) -> Iterator[tuple[slice, Block, NDArray[np.int64]]]:
    """The blocks that hold some of the rows: which of them, the block, where in the block.

    Pieces of the file without any of the rows are not read.
    """
    edges = np.searchsorted(rows, file.starts)
    for piece in np.flatnonzero(np.diff(edges)):
        first, last = int(edges[piece]), int(edges[piece + 1])
        start = int(rows[first])
        for block in file.blocks(start, int(rows[last - 1]) + 1):
            stop = start + block_length(block)
            until = first + int(np.searchsorted(rows[first:last], stop))
            if until > first:
                yield slice(first, until), block, rows[first:until] - start
            first, start = until, stop


def block_length(block: Block) -> int:
    """Rows in a block."""
    return len(block) if isinstance(block, np.ndarray) else len(block[0])


def copy_rows(block: Block, first: int, rows: NDArray[np.floating]) -> None:
    """Copy rows from `first` on into `rows`, as many as there is room for."""
    if isinstance(block, np.ndarray):
        rows[:] = block[first : first + len(rows)]
        return
    height = max(1, TILE_BYTES // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), height):
        tile = rows[start : start + height]
        begin, end = first + start, first + start + len(tile)
        for j, column in enumerate(block):
            tile[:, j] = column[begin:end]


def pick_rows(block: Block, positions: NDArray[np.int64], rows: NDArray[np.floating]) -> None:
    """Copy the rows at some positions of a block."""
    if isinstance(block, np.ndarray):
        rows[:] = block[positions]
        return
    for j, column in enumerate(block):
        rows[:, j] = column[positions]
