"""How a running fit tells what it does: a callback, and the logger ``robust_kmeans``."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Seconds between two words on a reading.
READING_INTERVAL = 0.2

LOGGER = logging.getLogger("robust_kmeans")


@dataclass(frozen=True)
class Progress:
    """What a callback is told.

    Attributes
    ----------
    stage : {"seeding", "lloyd", "swaps", "reading"}
        What has just been done: the seeds of a run, one iteration, or some candidates of
        local search; or, where rows are on a disk or a cluster, a part of a reading of them.
    run, n_runs : int
        Which of `n_init` runs, from 1; 0 for a reading.
    step, n_steps : int
        Which iteration of at most how many, 0 of `max_iter` for seeding; or how many
        candidates were tried of how many; or how many rows were read of how many.
    inertia : float
        The trimmed cost of the current centres; NaN for a reading.
    """

    stage: str
    run: int
    n_runs: int
    step: int
    n_steps: int
    inertia: float


Callback = Callable[[Progress], object]


class Readings:
    """Passes on how far a reading is: now and then, and when it is done."""

    def __init__(self, report: Callback, n_rows: int) -> None:
        self._report, self._n_rows = report, n_rows
        self._due = 0.0

    def __call__(self, n_read: int) -> None:
        """Hear that so many rows have been read."""
        now = time.monotonic()
        if n_read == self._n_rows or now >= self._due:
            self._due = now + READING_INTERVAL
            self._report(Progress("reading", 0, 0, n_read, self._n_rows, math.nan))


def log_progress(progress: Progress) -> None:
    """Log each run's start at level INFO and each iteration at level DEBUG."""
    LOGGER.log(
        logging.INFO if progress.stage == "seeding" else logging.DEBUG,
        "run %d/%d, %s %d: trimmed inertia %.6g",
        progress.run,
        progress.n_runs,
        progress.stage,
        progress.step,
        progress.inertia,
    )


@contextmanager
def verbose_logging(verbose: int) -> Iterator[None]:
    """Let `verbose` be seen: 1 shows INFO, 2 shows DEBUG, while this lasts.

    Where the application has set up logging, its handlers are used; otherwise messages go
    to standard error.
    """
    if not verbose:
        yield
        return
    handler = None if LOGGER.hasHandlers() else logging.StreamHandler()
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    if handler is not None:
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        if handler is not None:
            LOGGER.removeHandler(handler)
