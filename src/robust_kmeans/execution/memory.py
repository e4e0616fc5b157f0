"""An array in memory, its chunks worked on by threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import plan_chunks
from robust_kmeans.execution.threads import OnThreads
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk


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
