"""What figures were measured on: the machine, the packages, and what others kept busy."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from robust_kmeans.paper.machine import describe_machine

PACKAGES = ("scikit-learn-intelex", "faiss-cpu", "trimkmeans")
# Where the system does not say.
USUAL_CACHE = 32 * 2**20


def description() -> str:
    """Processor, cores, and versions of Python and of all packages that take part."""
    return ", ".join([describe_machine(), *_versions(), f"{os.cpu_count()} cores"])


def _versions() -> Iterator[str]:
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


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

    def competition_since(self, before: CpuTimes) -> str:
        """How many cores others kept busy meanwhile; with many, the figures mean little.

        Children count as ours only once they have ended.
        """
        if self.everybody is None or before.everybody is None:
            return "load by other processes: unknown"
        others = (self.everybody - before.everybody) - (self.ours - before.ours)
        return f"load by other processes: {others / (self.clock - before.clock):.2f} cores"
