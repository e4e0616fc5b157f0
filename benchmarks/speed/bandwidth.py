"""How fast this machine reads memory: what no seeding can pass that reads all rows."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from robust_kmeans.kernels.jit import jit

# Much larger than any cache that two cores share.
N_BYTES = 2**29
N_READINGS = 15


def streaming_read(threads: int, n_bytes: int = N_BYTES) -> float:
    """Bytes per second of the fastest of some plain readings by all threads."""
    values = np.ones(n_bytes // 8)
    parts = np.array_split(values, threads)
    seconds = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(N_READINGS):
            start = time.perf_counter()
            list(pool.map(add_up, parts))
            seconds.append(time.perf_counter() - start)
    return values.nbytes / min(seconds)


@jit
def add_up(values):
    """The sum of all values: the least that a reading can do.

    IN values (n,)
    """
    total = 0.0
    # By index: a loop over the values themselves is not vectorised, and slower than memory.
    for i in range(len(values)):
        total += values[i]
    return total
