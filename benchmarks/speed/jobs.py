"""What a job is told, and what it gives back; jobs run in the process of their peer."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

# Enough to run through every kernel, and over in no time.
WARM_UP_ROWS = 2_000
# Iterations that are timed together in one window or in several narrow ones.
WIDE = 20
# Runs shorter than that are timed several times, so often at most.
SHORT = 0.25
MOST_REPEATS = 25


@dataclass(frozen=True)
class Work:
    """Rows in a file, and what to do with them; all rows but for `n_rows` of a warm-up."""

    path: Path
    n_clusters: int
    n_outliers: int
    threads: int
    n_rows: int | None = None

    def rows(self) -> NDArray[np.floating]:
        """The rows, read once per process."""
        return _load(self.path)[: self.n_rows]

    def start(self) -> NDArray[np.floating]:
        """Random rows as centres, the same for all peers."""
        rows = self.rows()
        return rows[np.random.default_rng(0).choice(len(rows), self.n_clusters, replace=False)]

    def warm_up(self) -> Work:
        """The same with few rows, for a run that does not count."""
        n_rows = WARM_UP_ROWS + 2 * self.n_clusters
        return replace(self, n_rows=n_rows, n_outliers=min(self.n_outliers, n_rows // 100))


class Outcome(NamedTuple):
    """Seconds, and what else a job has found out."""

    seconds: float
    n_iter: int = 0
    cost: float = float("nan")
    centers: NDArray[np.floating] | None = None
    n_rows: int = 0


Result = TypeVar("Result")

Job = Callable[[Work, int], Outcome]
"""(work, seed) → outcome."""


class Window(NamedTuple):
    """Two numbers of iterations: what lies between them is timed."""

    few: int
    many: int


def between(iterate: Callable[[int], object], window: Window) -> Outcome:
    """Seconds per iteration in the window: set-up and last assignment cancel out.

    A narrow window, or one of short iterations, is little beside the set-up and its noise: then
    both ends are timed several times, and the best of each counts.
    """
    width = window.many - window.few
    seconds, _ = timed(functools.partial(iterate, window.many))
    repeats = max(-(-WIDE // width), int(SHORT / max(seconds, SHORT / MOST_REPEATS)))
    few, many = (
        [timed(functools.partial(iterate, max_iter))[0] for _ in range(repeats)]
        for max_iter in window
    )
    return Outcome((min(many) - min(few)) / width)


def timed(call: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


@functools.lru_cache(maxsize=1)
def _load(path: Path) -> NDArray[np.floating]:
    return np.load(path)
