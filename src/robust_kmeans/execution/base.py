"""What every execution offers to the driver loops, and the plan of chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.sweeps.base import Merged, Step, Summary, Sweep, Work

# Values of X per chunk: 16 MiB of float32.  Handing out a chunk takes the interpreter's lock, for
# which threads queue; a pass over one chunk's D² must take much longer than that.
CHUNK_VALUES = 2**22
# Bounds for very wide and very narrow rows.
CHUNK_ROWS = (4096, 2**17)
# Chunks come in multiples of this, so that a few threads end a sweep together.
CHUNK_GROUP = 4
# Up to so many rows a sweep is over so soon that it takes less to share the kernels of one chunk
# after the other than to hand out chunks (`threads`); the fewer chunks the better, if they are not
# too short to be shared.
MOST_TO_SHARE = 2**19
LONG_CHUNK = 2**16

# From so many bytes of X on, readings are what counts, not arithmetic: from this on seeding takes
# few rounds, and local search looks at a coreset.  Of the shape alone, so that the same rows give
# the same result in memory, on a disk and on a cluster.
LARGE = 2**30

States = Any
"""A handle for the states of all chunks; only its execution looks inside."""
Watch = Callable[[int], object]


def plan_chunks(n_rows: int, n_features: int) -> NDArray[np.int64]:
    """Row numbers at which chunks begin, and the end: from the shape alone.

    Never from the number of threads, so that sums are made in the same order, and results
    are equal bit for bit, however many there are.

    >>> plan_chunks(240_000, 10)
    array([     0, 120000, 240000])
    """
    rows = int(np.clip(CHUNK_VALUES // max(1, n_features), *CHUNK_ROWS))
    n_chunks = max(1, -(-n_rows // rows))
    shared = n_rows <= MOST_TO_SHARE and rows >= LONG_CHUNK
    if n_chunks > 1 and not shared:
        n_chunks = -(-n_chunks // CHUNK_GROUP) * CHUNK_GROUP
    return np.linspace(0, n_rows, n_chunks + 1).astype(np.int64)


def is_large(n_rows: int, n_features: int, dtype: np.dtype[Any]) -> bool:
    """Whether rows of this shape are so many bytes that they should be read seldom."""
    return n_rows * n_features * dtype.itemsize >= LARGE


class Execution(ABC):
    """Rows in chunks, and the means to run sweeps over them.

    Attributes
    ----------
    n_features : int
    dtype : numpy.dtype
        float32 or float64.
    bounds : ndarray of shape (n_chunks + 1,)
        The plan: chunk i holds rows bounds[i] to bounds[i + 1].
    weighted : bool
        Whether rows have weights; otherwise each weighs 1.
    total_weight : float
    n_weighty_rows : int
        How many rows weigh more than 0.
    least_weight : float
        The least weight above 0.
    reads_whole : bool
        Whether a reading takes as long if only a few rows are looked at.
    n_threads : int or None
        Threads that this process may use; None for all.
    watch : callable, optional
        Told, where a reading may take long, how many rows it has looked at, now and then, and
        when it is done.
    """

    n_features: int
    dtype: np.dtype[Any]
    bounds: NDArray[np.int64]
    weighted: bool
    total_weight: float
    n_weighty_rows: int
    least_weight: float

    reads_whole: bool = False
    n_threads: int | None = None
    watch: Watch | None = None

    @property
    def n_rows(self) -> int:
        """Rows in all chunks."""
        return int(self.bounds[-1])

    @property
    def large(self) -> bool:
        """Whether there are so many bytes of rows that they should be read seldom."""
        return is_large(self.n_rows, self.n_features, self.dtype)

    def where(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"row {row}"

    @abstractmethod
    def map(
        self, step: Step[Summary], states: States, shared: Any, *, work: Work = Work.READING
    ) -> tuple[States, Sequence[Summary]]:
        """Run `step` on every chunk; the new states, and the summaries in chunk order.

        `work` says what the step looks at.
        """

    @abstractmethod
    def at(self, chunk: int, step: Step[Summary], states: States, shared: Any) -> Summary:
        """Run `step` on one chunk for its summary; no state changes."""

    @abstractmethod
    def collect(
        self,
        step: Step[NDArray[Any]],
        states: States,
        shared: Any,
        *,
        work: Work = Work.READING,
    ) -> NDArray[Any]:
        """Run a step whose result has one entry per row, and join the results."""

    def collect_lazily(
        self, step: Step[NDArray[Any]], states: States, shared: Any, dtype: DTypeLike
    ) -> Any:
        """As `collect`, of states; in Dask an array of its own kind, which stays on the workers."""
        return self.collect(step, states, shared, work=Work.STATES).astype(dtype, copy=False)

    def run(
        self, sweep: Sweep[Summary, Merged], states: States, shared: Any = None
    ) -> tuple[States, Merged]:
        """One sweep: the new states and the merged summary."""
        states, parts = self.map(sweep.step, states, shared, work=sweep.work)
        return states, sweep.merge(parts)

    def summarise(
        self, sweep: Sweep[Summary, Merged], states: States, shared: Any = None
    ) -> Merged:
        """One sweep that leaves the states as they are: its merged summary."""
        return self.run(sweep, states, shared)[1]

    def tidy(self) -> None:  # noqa: B027 - there may be nothing to give back
        """Give memory back that was kept for more sweeps like the last ones."""
