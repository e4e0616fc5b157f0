"""Rows on a disk, read chunk by chunk and worked on by threads.

One more thread reads ahead, in the order of the file, while others work on what was read; a
sweep that looks at states alone reads nothing.  The plan is that of an array of the same shape,
so results are the same bits.

Cost: a sweep reads the file once.  Memory: a few chunks, and what is kept per row, which goes to
files without a name beyond the limit (`Budget`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.execution.base import plan_chunks
from robust_kmeans.execution.budget import Budget
from robust_kmeans.execution.threads import OnThreads, Supply, default_threads
from robust_kmeans.sources.base import Dataset
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, Work, read_only

# Chunks that are read, or being read, before a thread asks for them.
AHEAD = 3
# So many times its rows' bytes a chunk takes while it is decoded.
DECODING = 2
# Without a limit, this share of the machine's memory.
USUAL_SHARE = 0.5
UNTOLD_MEMORY = 2**33


class OnDisk(OnThreads):
    """Chunks of a `Dataset`, worked on by `n_threads` threads.

    Parameters
    ----------
    dataset : Dataset
    weights : ndarray of shape (n,), float64, optional
        One weight per row; 1 each by default.
    n_threads : int, optional
        By default the cores that this process may use.
    memory_limit : int, optional
        Bytes of RAM for chunks being read and for what is kept per row; by default half of the
        machine's.  What is kept per row beyond it goes to files.
    bounds : ndarray, optional
        Another plan than `plan_chunks`.
    """

    def __init__(
        self,
        dataset: Dataset,
        weights: NDArray[np.float64] | None = None,
        n_threads: int | None = None,
        memory_limit: int | None = None,
        bounds: NDArray[np.int64] | None = None,
    ) -> None:
        shape = dataset.n_rows, dataset.n_features
        bounds = plan_chunks(*shape) if bounds is None else bounds
        n_workers = default_threads() if n_threads is None else n_threads
        self.budget = Budget(_for_states(memory_limit, dataset, bounds, n_workers))
        parts = NO_WEIGHTS if weights is None else weights
        chunks = [
            StoredChunk(dataset, int(start), int(end), parts[start:end], self.budget)
            for start, end in pairwise(bounds)
        ]
        super().__init__(chunks, weights, n_threads)
        self._dataset = dataset
        self._stored = chunks
        self._reader: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        self._reader = self._resources.enter_context(
            ThreadPoolExecutor(1, thread_name_prefix="robust-kmeans-reader")
        )
        return self

    def where(self, row: int) -> str:
        """The file of a row, and where it is in it."""
        return f"row {row} ({self._dataset.where(row)})"

    def _supply(self, work: Work) -> Supply:
        reading = work is Work.READING
        # Where a few rows cost as much as all rows around them, all are read in one go.
        taking = work is Work.TAKING and not self._dataset.takes_quickly
        if not (reading or taking):
            return super()._supply(work)
        assert self._reader is not None
        return ReadAhead(self._stored, self._dataset.scan(self.bounds), self._reader)

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return self.budget.empty(shape, dtype)


class StoredChunk(Chunk):
    """Consecutive rows of a dataset, which are here only while a sweep reads them."""

    def __init__(
        self,
        dataset: Dataset,
        start: int,
        end: int,
        weights: NDArray[np.float64],
        budget: Budget,
    ) -> None:
        self._describe((end - start, dataset.n_features), dataset.dtype, weights, start)
        self._dataset, self._budget = dataset, budget
        self._held: NDArray[np.floating] | None = None

    def hold(self, rows: NDArray[np.floating]) -> None:
        """Have these rows at hand, until `release`."""
        self._held = read_only(rows)

    def release(self) -> None:
        """Let the rows at hand go."""
        self._held = None

    @property
    def rows(self) -> NDArray[np.floating]:
        """All rows: those at hand, else they are read."""
        if self._held is not None:
            return self._held
        return read_only(self._dataset.read(self.start, self.start + self.n_rows))

    def take(self, positions: NDArray[np.integer]) -> NDArray[np.floating]:
        """A copy of the few rows at these positions."""
        if self._held is not None:
            return super().take(positions)
        order = np.argsort(positions, kind="stable")
        found = np.empty((len(order), self.n_features), self.dtype)
        found[order] = self._dataset.take(self.start + positions[order].astype(np.int64))
        return read_only(found)

    def _fresh(self, dtype: DTypeLike) -> NDArray[Any]:
        return self._budget.empty((self.n_rows,), dtype)


class ReadAhead(Supply):
    """Chunks with their rows, of which one thread reads the next while others are worked on."""

    reads = True

    def __init__(
        self,
        chunks: Sequence[StoredChunk],
        scan: Iterator[NDArray[np.floating]],
        reader: ThreadPoolExecutor,
    ) -> None:
        super().__init__(chunks)
        self._chunks, self._scan, self._reader = chunks, scan, reader
        self._lock = Lock()
        self._to_read = len(chunks)
        self._failure: BaseException | None = None
        self._reading: deque[Future[NDArray[np.floating]]] = deque()
        for _ in range(AHEAD):
            self._read_one_more()

    def next(self) -> tuple[int, Chunk] | None:
        """The next chunk, when its rows have been read."""
        with self._lock:
            turn = super().next()
            if turn is None:
                return None
            rows = self._reading.popleft()
            self._read_one_more()
        number, _ = turn
        self._chunks[number].hold(rows.result())
        return turn

    def stop(self) -> None:
        """Hand nothing out and read nothing any more; the files are closed then."""
        with self._lock:
            super().stop()
            self._to_read = 0
        for reading in self._reading:
            reading.cancel()
        close = getattr(self._scan, "close", None)
        if close is not None:
            # Where all reading is done, by the thread that may still be at it.
            self._reader.submit(close).result()

    def _read_one_more(self) -> None:
        if self._to_read:
            self._to_read -= 1
            self._reading.append(self._reader.submit(self._read))

    def _read(self) -> NDArray[np.floating]:
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._scan)
        except BaseException as error:
            # All who wait for rows behind these hear of the same reason.
            self._failure = error
            raise


def _for_states(
    memory_limit: int | None, dataset: Dataset, bounds: NDArray[np.int64], n_workers: int
) -> int:
    """What remains of the limit for states, once there is room for the chunks being read."""
    limit = int(USUAL_SHARE * _memory_of_the_machine()) if memory_limit is None else memory_limit
    reading = memory_for_reading(dataset, bounds, n_workers) + dataset.decoding_bytes
    if reading > limit:
        raise ValueError(
            f"memory_limit={limit} is too little: to read the rows ahead of {n_workers} threads "
            f"takes {reading / 2**20:.0f} MiB. Raise memory_limit, or lower n_threads."
        )
    return limit - reading


def memory_for_reading(
    rows: Dataset | NDArray[np.floating], bounds: NDArray[np.int64], n_workers: int
) -> int:
    """Bytes of the chunks that are here at a time."""
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    n_chunks = min(AHEAD + n_workers, len(bounds) - 1)
    return int(DECODING * n_chunks * np.diff(bounds).max() * row_bytes)


def _memory_of_the_machine() -> int:
    # Not every system tells.
    if not hasattr(os, "sysconf"):
        return UNTOLD_MEMORY
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
