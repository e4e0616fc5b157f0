"""Rows on a disk, read chunk by chunk and worked on by threads.

One more thread reads ahead, in the order of the file, while others work on what was read; a
sweep that looks at states alone reads nothing.  The plan is that of an array of the same shape,
so results are the same bits.

Where a few rows by themselves are slow to get (Parquet), sweeps note those that are likely to be
asked for next; what is asked for and was not noted is read with its whole chunk.  There rows that
are not large (`is_large`) stay in memory once they are decoded, if the limit has room for them.

Cost: a sweep reads the file once.  Memory: a few chunks, and what is kept per row, which goes to
files without a name beyond the limit (`Budget`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.execution.base import States, is_large, plan_chunks
from robust_kmeans.execution.budget import Budget
from robust_kmeans.execution.notes import NOTED_SHARE, no_notes, noted
from robust_kmeans.execution.threads import OnThreads, Supply, default_threads
from robust_kmeans.sources.base import Dataset
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, NotAtHand, Step, Summary, Work, read_only

# Chunks that are read, or being read, before a thread asks for them.
AHEAD = 3
# So many times its rows' bytes a chunk takes while it is decoded.
DECODING = 2
# Without a limit, this share of the machine's memory.
USUAL_SHARE = 0.5
UNTOLD_MEMORY = 2**33
# What is kept per row takes no more than so many bytes.
STATE_BYTES = 40


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

    reads_whole = True

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
        room = _for_states(memory_limit, dataset, bounds, n_workers)
        keep = _worth_keeping(dataset, room)
        for_rows = _n_bytes(dataset) if keep else 0
        for_notes = 0 if keep or dataset.takes_quickly else _for_notes(dataset, room)
        self.budget, notes = Budget(room - for_rows - for_notes), Budget(for_notes)
        parts = NO_WEIGHTS if weights is None else weights
        chunks = [
            StoredChunk(dataset, int(start), int(end), parts[start:end], self.budget, notes, keep)
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

    def at(self, chunk: int, step: Step[Summary], states: States, shared: Any) -> Summary:
        """Run `step` on one chunk for its summary; no state changes."""
        try:
            return super().at(chunk, step, states, shared)
        except NotAtHand:
            stored = self._stored[chunk]
            stored.hold(stored.rows)
            try:
                return super().at(chunk, step, states, shared)
            finally:
                stored.release()

    def where(self, row: int) -> str:
        """The file of a row, and where it is in it."""
        return f"row {row} ({self._dataset.where(row)})"

    def _supplies(self, work: Work, results: Sequence[Any]) -> Iterator[Supply]:
        if work is not Work.READING:
            yield Supply(enumerate(self._stored))
        # All of them, or those with rows that were neither noted nor can be had by themselves.
        missing = [number for number, found in enumerate(results) if found is None]
        if missing:
            yield self._read_ahead(missing)

    def _read_ahead(self, numbers: Sequence[int]) -> ReadAhead:
        assert self._reader is not None
        turns = [(number, self._stored[number]) for number in numbers]
        return ReadAhead(turns, self._scan, self._reader)

    def _scan(self, numbers: Sequence[int]) -> Iterator[NDArray[np.floating]]:
        """The rows of these chunks; those of neighbours are decoded in one go."""
        if not numbers:
            return
        ends = np.flatnonzero(np.diff(numbers, append=-1) != 1) + 1
        for start, end in pairwise([0, *ends]):
            yield from self._dataset.scan(self.bounds[numbers[start] : numbers[end - 1] + 2])

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return self.budget.empty(shape, dtype)


class StoredChunk(Chunk):
    """Consecutive rows of a dataset, which are here while a sweep reads them, or `keep` from then.

    What is kept is counted where it is decided.
    """

    def __init__(
        self,
        dataset: Dataset,
        start: int,
        end: int,
        weights: NDArray[np.float64],
        budget: Budget,
        for_notes: Budget,
        keep: bool,
    ) -> None:
        self._describe((end - start, dataset.n_features), dataset.dtype, weights, start)
        self._dataset, self._budget, self._for_notes = dataset, budget, for_notes
        self.takes_notes = not (dataset.takes_quickly or keep)
        self._keep = keep
        self._held: NDArray[np.floating] | None = None
        self._notes = no_notes(self.n_features, self.dtype)

    @property
    def at_hand(self) -> bool:
        """Whether the rows are here."""
        return self._held is not None

    def hold(self, rows: NDArray[np.floating]) -> None:
        """Have these rows at hand, until `release`."""
        self._held = read_only(rows)

    def release(self) -> None:
        """Let the rows at hand go."""
        if not self._keep:
            self._held = None

    def note(self, positions: NDArray[np.integer]) -> None:
        """Keep a copy of these rows until the next note, if there is memory for them."""
        # The memory of earlier ones is free again before more is asked for.
        self._notes = no_notes(self.n_features, self.dtype)
        self._notes = noted(self.rows, positions, self._for_notes)

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
        if self.takes_notes:
            return self._notes.take(positions)
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
        turns: Sequence[tuple[int, StoredChunk]],
        scan: Callable[[Sequence[int]], Iterator[NDArray[np.floating]]],
        reader: ThreadPoolExecutor,
    ) -> None:
        super().__init__(turns)
        to_read = [number for number, chunk in turns if not chunk.at_hand]
        self._chunks, self._scan, self._reader = dict(turns), scan(to_read), reader
        self._lock = Lock()
        self._not_here, self._to_read = set(to_read), len(to_read)
        self._failure: BaseException | None = None
        self._reading: deque[Future[NDArray[np.floating]]] = deque()
        for _ in range(AHEAD):
            self._read_one_more()

    def next(self) -> tuple[int, Chunk] | None:
        """The next chunk, when its rows have been read."""
        with self._lock:
            turn = super().next()
            if turn is None or turn[0] not in self._not_here:
                return turn
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


def _worth_keeping(dataset: Dataset, room: int) -> bool:
    """Whether rows that are slow to decode are so few that they can stay after the first time."""
    large = is_large(*dataset.shape, dataset.dtype)
    fits = _n_bytes(dataset) + STATE_BYTES * dataset.n_rows <= room
    return fits and not (large or dataset.takes_quickly)


def _for_notes(dataset: Dataset, room: int) -> int:
    return int(NOTED_SHARE * min(_n_bytes(dataset), room))


def _n_bytes(dataset: Dataset) -> int:
    return dataset.n_rows * dataset.n_features * dataset.dtype.itemsize


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
