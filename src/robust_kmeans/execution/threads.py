"""Chunks that the threads of this process work on, wherever their rows come from.

Kernels release the GIL, so plain threads use all cores.  The pool lives as long as the
execution: nothing outlives a fit, nothing is shared between fits, and no thread exists at
import or at a fork.  The calling thread works too.  Few chunks never leave it: it works on one
after the other, and `helpers` take parts of their kernels.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Lock
from types import TracebackType
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import MOST_TO_SHARE, Execution, States, Watch
from robust_kmeans.execution.helpers import Helpers
from robust_kmeans.kernels.team import ALONE, PARTS
from robust_kmeans.kernels.team import FEW_ROWS as FEW_TO_SHARE
from robust_kmeans.sweeps.base import (
    Chunk,
    NotAtHand,
    Step,
    Summary,
    Work,
    n_parts_to_share,
)

# Helpers of a single chunk are started after so many readings: that takes as long as some of them,
# and what is over by then, such as a seeding, does without.
SOON_DONE = 16
# Sweeps over so many rows are over before another thread is awake.
FEW_ROWS = {Work.LIGHT: 2**19, Work.TAKING: 2**19, Work.GLANCE: 2**21}


class Supply:
    """The chunks of a sweep that are still to be done, handed out in order."""

    reads = False
    """Whether their rows are read, whatever the step looks at."""

    def __init__(self, turns: Iterable[tuple[int, Chunk]]) -> None:
        self._todo = deque(turns)

    def next(self) -> tuple[int, Chunk] | None:
        """The next chunk and its number; None where none is left."""
        try:
            return self._todo.popleft()
        except IndexError:
            return None

    def stop(self) -> None:
        """Hand nothing out any more."""
        self._todo.clear()


class OnThreads(Execution):
    """Chunks, worked on by `n_threads` threads (by default `default_threads()`)."""

    def __init__(
        self, chunks: Sequence[Chunk], weights: NDArray[np.float64] | None, n_threads: int | None
    ) -> None:
        self.n_features, self.dtype = chunks[0].n_features, chunks[0].dtype
        self.bounds = np.cumsum([0, *(chunk.n_rows for chunk in chunks)], dtype=np.int64)
        self.weighted = weights is not None
        self.total_weight = float(self.n_rows if weights is None else weights.sum())
        self.n_weighty_rows = self.n_rows if weights is None else int(np.count_nonzero(weights))
        self.least_weight = 1.0 if weights is None else float(weights[weights > 0].min())
        self.n_threads = n_threads
        self._chunks = chunks
        threads = default_threads() if n_threads is None else n_threads
        self._n_helpers = min(threads, len(chunks)) - 1
        self._resources = ExitStack()
        self._pool: ThreadPoolExecutor | None = None
        # Chunks that come from elsewhere are read side by side, and more threads than a kernel has
        # parts take a chunk each.
        few = self.n_rows <= MOST_TO_SHARE and threads <= PARTS and not self.reads_whole
        together = few or len(chunks) == 1
        self._n_sharing = threads if together and self.n_rows >= FEW_TO_SHARE else 1
        self._helpers: Helpers | None = None

    def __enter__(self) -> Self:
        if self._n_helpers:
            self._pool = self._resources.enter_context(ThreadPoolExecutor(self._n_helpers))
        if self._n_sharing > 1:
            helpers = Helpers(self._n_sharing, n_alone=0 if self._n_helpers else SOON_DONE)
            self._helpers = self._resources.enter_context(helpers)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool = self._helpers = None
        self._share_nothing()
        self._resources.close()

    def map(
        self, step: Step[Summary], states: States, shared: Any, *, work: Work = Work.READING
    ) -> tuple[States, Sequence[Summary]]:
        """Run `step` on every chunk; the new states, and the summaries in chunk order."""
        results: list[Any] = [None] * len(self._chunks)
        for supply in self._supplies(work, results):
            self._work_off(supply, step, states, shared, work, results)
        return [state for state, _ in results], [summary for _, summary in results]

    def _work_off(
        self,
        supply: Supply,
        step: Step[Any],
        states: States,
        shared: Any,
        work: Work,
        results: list[Any],
    ) -> None:
        """Run `step` on the chunks of the supply; there is no result where rows are missing."""
        done = [chunk.n_rows for chunk, found in zip(self._chunks, results, strict=True) if found]
        watch = self.watch if work is Work.READING or supply.reads else None

        def work_off(tell: Watch | None = None) -> None:
            while (turn := supply.next()) is not None:
                i, chunk = turn
                if shares:
                    self._share(chunk, work)
                with suppress(NotAtHand):
                    results[i] = step(chunk, None if states is None else states[i], shared)
                chunk.release()
                done.append(chunk.n_rows)
                if tell is not None and (n_done := sum(done)) < self.n_rows:
                    tell(n_done)

        shares = self._helpers is not None and self._is_worth_sharing(step, shared)
        alone = shares or self._pool is None or self.n_rows <= FEW_ROWS.get(work, 0)
        try:
            helpers = [] if alone else self._start_helpers(work_off)
            # Only the calling thread tells: what hears of it may raise, or draw on a screen.
            work_off(watch)
            for helper in helpers:
                helper.result()
            if watch is not None:
                watch(self.n_rows)
        except RuntimeError as error:
            # An interrupt that hits the pool while it gives back a lock ends there as an error
            # about the lock.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        finally:
            # After an error or an interrupt nobody starts another chunk.
            supply.stop()
            if shares:
                self._share_nothing()

    def at(self, chunk: int, step: Step[Summary], states: States, shared: Any) -> Summary:
        """Run `step` on one chunk for its summary; no state changes."""
        state = None if states is None else states[chunk]
        return step(self._chunks[chunk], state, shared)[1]

    def collect(
        self,
        step: Step[NDArray[Any]],
        states: States,
        shared: Any,
        *,
        work: Work = Work.READING,
    ) -> NDArray[Any]:
        """Run a step whose result has one entry per row, and join the results."""
        joined: list[NDArray[Any]] = []
        first = Lock()

        def put(chunk: Chunk, state: Any, shared: Any) -> tuple[None, None]:
            _, part = step(chunk, state, shared)
            with first:
                if not joined:
                    joined.append(self._empty((self.n_rows, *part.shape[1:]), part.dtype))
            joined[0][chunk.start : chunk.start + chunk.n_rows] = part
            return None, None

        self.map(put, states, shared, work=work)
        return joined[0]

    def tidy(self) -> None:
        """Give memory back that was kept for more sweeps like the last ones."""
        for chunk in self._chunks:
            chunk.forget()

    def _supplies(self, work: Work, results: Sequence[Any]) -> Iterator[Supply]:  # noqa: ARG002
        """What to work off, one after the other: elsewhere it depends on the first results."""
        yield Supply(enumerate(self._chunks))

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.empty(shape, dtype)

    def _start_helpers(self, work_off: Any) -> list[Any]:
        assert self._pool is not None
        return [self._pool.submit(work_off) for _ in range(self._n_helpers)]

    def _is_worth_sharing(self, step: Step[Any], shared: Any) -> bool:
        """Whether the kernels of this step should share the work on one chunk after the other."""
        return n_parts_to_share(step, self._chunks[0], shared) > 1

    def _share(self, chunk: Chunk, work: Work) -> None:
        """From here on kernels share their work with helpers, as soon as these are awake."""
        assert self._helpers is not None
        if self._helpers.started or work is Work.READING:
            self._helpers.rouse()
        chunk.team = self._helpers.team

    def _share_nothing(self) -> None:
        # A team has one job at a time: chunks that threads work on side by side have none.
        for chunk in self._chunks:
            chunk.team = ALONE


def default_threads() -> int:
    """The cores that this process may use, capped by OMP_NUM_THREADS.

    joblib and Dask set that variable in the processes that they start, so that nested
    parallelism does not oversubscribe the machine.
    """
    # joblib comes with scikit-learn, and knows of CPU affinity and container limits.
    cores: int = joblib.cpu_count()
    # OMP_NUM_THREADS may be a list, one number per nesting level.
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(cores, int(limit))) if limit.isdigit() and int(limit) > 0 else cores
