"""Helpers: threads that take parts of the kernels of one chunk after the other (`kernels.team`).

Few rows are few chunks, and a sweep over them is over before a thread of a pool would be awake.
These threads stay awake from one sweep to the next, and sleep when none has come for a while.
"""

from __future__ import annotations

from threading import Lock, Thread
from types import TracebackType
from typing import Self

from robust_kmeans.kernels.team import AWAKE, PARTS, close, help_out, new_team


class Helpers:
    """Threads that, with the calling one, are up to `n_threads`.

    They start once they have been roused `n_alone` times in vain: to start and to end them takes
    as long as some sweeps.

    Examples
    --------
    >>> with Helpers(2) as helpers:
    ...     helpers.rouse()  # from now on kernels may share their work with helpers.team
    """

    def __init__(self, n_threads: int, n_alone: int = 0) -> None:
        self.team = new_team()
        self._n_alone = n_alone
        self._n_helpers = min(n_threads, PARTS) - 1
        self._threads: list[Thread] = []
        # Held while a helper works or sleeps; to let go of it wakes the helper, or keeps it awake.
        self._beds = [Lock() for _ in range(self._n_helpers)]
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed = True
        close(self.team)
        self._wake()
        for thread in self._threads:
            thread.join()

    @property
    def started(self) -> bool:
        """Whether there are any yet."""
        return bool(self._threads)

    def rouse(self) -> None:
        """See to it that all helpers are awake, or soon will be."""
        if self.team[AWAKE] == self._n_helpers:
            return
        if self._threads:
            self._wake()
            return
        if self._n_alone:
            self._n_alone -= 1
            return
        for bed in self._beds:
            bed.acquire()
            # Nobody has to wait for them at the end of the process.
            thread = Thread(target=self._help, args=(bed,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _wake(self) -> None:
        for bed in self._beds:
            if bed.locked():
                bed.release()

    def _help(self, bed: Lock) -> None:
        while not self._closed:
            help_out(self.team)
            bed.acquire()


def prepare() -> None:
    """Compile what helpers run, or load it from the cache."""
    team = new_team()
    close(team)
    help_out(team)
