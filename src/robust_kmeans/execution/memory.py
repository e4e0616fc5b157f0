"""An array in memory, its chunks worked on by a pool of threads.

Kernels release the GIL, so plain threads use all cores.  The pool lives as long as the
execution: nothing outlives a fit, nothing is shared between fits, and no thread exists at
import or at a fork.  The calling thread works too; a single chunk never leaves it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, States, plan_chunks
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, Step, Summary, Work

# A light sweep over so many rows is over before another thread is awake.
FEW_ROWS = 2**19


class InMemory(Execution):
    """Chunks of a C-contiguous float array, worked on by `n_threads` threads.

    Parameters
    ----------
    rows : ndarray of shape (n, d), float32 or float64, C-contiguous
        Used as it is: chunks are views of it.
    weights : ndarray of shape (n,), float64, optional
        One weight per row; 1 each by default.
    n_threads : int, optional
        By default `default_threads()`.
    bounds : ndarray, optional
        Another plan than `plan_chunks`.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans.sweeps.checks import RANGES
    >>> with InMemory(np.array([[1.0, 5.0], [3.0, 4.0]])) as data:
    ...     data.summarise(RANGES, None).high
    array([3., 5.])
    """

    def __init__(
        self,
        rows: NDArray[np.floating],
        weights: NDArray[np.float64] | None = None,
        n_threads: int | None = None,
        bounds: NDArray[np.int64] | None = None,
    ) -> None:
        self.n_features = rows.shape[1]
        self.dtype = rows.dtype
        self.bounds = plan_chunks(*rows.shape) if bounds is None else bounds
        self.weighted = weights is not None
        self.total_weight = float(len(rows) if weights is None else weights.sum())
        self.n_weighty_rows = len(rows) if weights is None else int(np.count_nonzero(weights))
        self.least_weight = 1.0 if weights is None else float(weights[weights > 0].min())
        self._chunks = [
            Chunk(
                rows[start:end], NO_WEIGHTS if weights is None else weights[start:end], int(start)
            )
            for start, end in zip(self.bounds[:-1], self.bounds[1:], strict=True)
        ]
        threads = default_threads() if n_threads is None else n_threads
        self._n_helpers = min(threads, len(self._chunks)) - 1
        self._resources = ExitStack()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> InMemory:
        if self._n_helpers:
            self._pool = self._resources.enter_context(ThreadPoolExecutor(self._n_helpers))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool = None
        self._resources.close()

    def map(
        self, step: Step[Summary], states: States, shared: Any, *, work: Work = Work.READING
    ) -> tuple[States, Sequence[Summary]]:
        """Run `step` on every chunk; the new states, and the summaries in chunk order."""
        alone = self._pool is None or (work is Work.LIGHT and self.n_rows <= FEW_ROWS)
        results = (self._alone if alone else self._together)(step, states, shared)
        return [state for state, _ in results], [summary for _, summary in results]

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
        return np.concatenate(self.map(step, states, shared, work=work)[1])

    def tidy(self) -> None:
        """Give memory back that was kept for more sweeps like the last ones."""
        for chunk in self._chunks:
            chunk.forget()

    def _alone(self, step: Step[Summary], states: States, shared: Any) -> list[tuple[Any, Summary]]:
        return [
            step(chunk, None if states is None else states[i], shared)
            for i, chunk in enumerate(self._chunks)
        ]

    def _together(
        self, step: Step[Summary], states: States, shared: Any
    ) -> list[tuple[Any, Summary]]:
        assert self._pool is not None
        results: list[Any] = [None] * len(self._chunks)
        todo = deque(range(len(self._chunks)))

        def work() -> None:
            while todo:
                try:
                    i = todo.popleft()
                except IndexError:  # another thread took the last one
                    return
                state = None if states is None else states[i]
                results[i] = step(self._chunks[i], state, shared)

        try:
            helpers = [self._pool.submit(work) for _ in range(self._n_helpers)]
            work()
            for helper in helpers:
                helper.result()
        except RuntimeError as error:
            # An interrupt that hits the pool while it gives back a lock ends there as an error
            # about the lock.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        finally:
            # After an error or an interrupt nobody starts another chunk.
            todo.clear()
        return results


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
