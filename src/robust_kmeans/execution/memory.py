"""An array in memory, its chunks worked on by threads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import States, plan_chunks
from robust_kmeans.execution.threads import OnThreads
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, Step, Summary, Work


class InMemory(OnThreads):
    """Chunks of a C-contiguous float array, worked on by `n_threads` threads.

    Parameters
    ----------
    rows : ndarray of shape (n, d), float32 or float64, C-contiguous
        Used as it is: chunks are views of it.
    weights : ndarray of shape (n,), float64, optional
        One weight per row; 1 each by default.
    n_threads : int, optional
        By default the cores that this process may use.
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
        bounds = plan_chunks(*rows.shape) if bounds is None else bounds
        parts = NO_WEIGHTS if weights is None else weights
        chunks = [
            Chunk(rows[start:end], parts[start:end], int(start)) for start, end in pairwise(bounds)
        ]
        super().__init__(chunks, weights, n_threads)

    def map(
        self, step: Step[Summary], states: States, shared: Any, *, work: Work = Work.READING
    ) -> tuple[States, Sequence[Summary]]:
        """Run `step` on every chunk; the new states, and the summaries in chunk order."""
        if len(self._chunks) > 1:
            return super().map(step, states, shared, work=work)
        # With few rows it would take as long to hand out the chunk as to work on it.
        if self._helpers is not None:
            self._share(self._chunks[0], work)
        state, summary = step(self._chunks[0], None if states is None else states[0], shared)
        if self.watch is not None and work is Work.READING:
            self.watch(self.n_rows)
        return [state], [summary]
