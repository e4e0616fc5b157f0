"""How fast this machine reads memory, how large its cache is, and what others kept busy."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robust_kmeans.kernels.jit import jit

# Much larger than any cache that two cores share.
N_BYTES = 2**29
N_READINGS = 7
# Where the system does not say.
USUAL_CACHE = 32 * 2**20


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
    for value in values:
        total += value
    return total


def cache_bytes() -> int:
    """The size of the last cache."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(path.read_text().strip().removesuffix("K")) * 1024)
    return max(sizes, default=USUAL_CACHE)


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of a clock, of work done by all cores (None if unknown), and of our own work."""

    clock: float
    everybody: float | None
    ours: float

    @classmethod
    def now(cls) -> CpuTimes:
        """The counters since the machine and this process started."""
        everybody = None
        with contextlib.suppress(OSError):
            ticks = [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]
            # The fourth and fifth counters are the time in which a core was idle.
            everybody = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), everybody, sum(os.times()[:4]))

    def competition_since(self, before: CpuTimes) -> float | None:
        """How many cores others kept busy meanwhile; with many, the figures mean little.

        Children count as ours once they have ended.
        """
        if self.everybody is None or before.everybody is None:
            return None
        others = (self.everybody - before.everybody) - (self.ours - before.ours)
        return others / (self.clock - before.clock)
