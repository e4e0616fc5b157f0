"""A process per peer, and jobs that take turns: nobody runs beside another, nobody runs cold."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import TypeVar

from speed.jobs import Job, Outcome, Work
from speed.peer_jobs import INTELEX, patch

# OpenMP and every BLAS that NumPy comes with: whichever is there, all peers use it alike.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Threads of OpenMP and OpenBLAS spin for a while after their work: not into the other's turn.
# (OpenBLAS: for 2²⁸ ticks of the processor's clock, about a tenth of a second.)
PAUSE = 0.15
# Memory that was freed stays with its process (glibc knows these variables): on a virtual machine
# a page that comes from outside takes as long as thousands of distances, and comes at random.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**26),
}

Result = TypeVar("Result")


class Processes:
    """A process for each peer, started at its first job; a context manager."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._stack = contextlib.ExitStack()
        self._started: dict[str, Executor] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, peer: str, call: Callable[..., Result], *arguments: object) -> Result:
        """What `call` returns in the process of the peer, after a pause."""
        if peer not in self._started:
            environment = thread_limits(self.threads) | KEEP_MEMORY
            process = self._stack.enter_context(fresh_process(**environment))
            self._started[peer] = process
            if peer == INTELEX:
                process.submit(patch, self.threads).result()
        time.sleep(PAUSE)
        return self._started[peer].submit(call, *arguments).result()

    def take_turns(
        self, jobs: Mapping[str, Job], work: Work, repeats: int, what: str
    ) -> dict[str, list[Outcome]]:
        """The outcomes of each peer's job, seed after seed, once all are warm."""
        outcomes: dict[str, list[Outcome]] = {peer: [] for peer in jobs}
        for peer, job in jobs.items():
            self.run(peer, job, work.warm_up(), 0)
        for seed in range(repeats):
            for peer, job in jobs.items():
                outcomes[peer].append(self.run(peer, job, work, seed))
                note(f"{what}, run {seed + 1}, {peer}", outcomes[peer][-1].seconds)
        return outcomes


@contextlib.contextmanager
def fresh_process(**environment: str) -> Iterator[Executor]:
    """A process that stays until the end of the block, with these variables set."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        before = dict(os.environ)
        os.environ.update(environment)
        # The process starts with its first job, and gets the variables of that moment.
        process.submit(os.getpid).result()
        os.environ.clear()
        os.environ.update(before)
        yield process


def thread_limits(threads: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def note(what: str, seconds: float) -> None:
    tell(f"{what}: {seconds * 1e3:.1f} ms")


def tell(line: str) -> None:
    """A line for who waits."""
    print(line, file=sys.stderr, flush=True)
