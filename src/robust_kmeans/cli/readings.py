"""What the command says while rows are read from a disk, again and again.

On a terminal a bar shows the share of the present reading and the time left in it, for logs a
line does now and then; with how many readings there were, and what was done last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from robust_kmeans.cli.terminal import PATIENCE, PLAIN_INTERVAL, messages, said_of
from robust_kmeans.reporting import Progress


@contextmanager
def watching(what: str, *, quiet: bool) -> Iterator[Watch]:
    """Tell what is being done, but only once it has taken longer than two seconds.

    What is yielded is to be told of other work by `tell`, and is a callback for an estimator.
    """
    console = messages()
    watch: Watch
    if quiet:
        watch = Watch(what)
    elif console.is_terminal:
        watch = OnTerminal(what, console)
    else:
        watch = InLog(what, console)
    timer = threading.Timer(PATIENCE, watch.begin)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        watch.end()


class Watch:
    """Counts readings, and keeps what was done last; it says nothing.

    Attributes
    ----------
    n_readings : int
        Begun so far.
    """

    def __init__(self, what: str) -> None:
        self.n_readings = 0
        self.last, self.then = what, what
        self.n_read = self.n_rows = 0
        self.since = self.heard = time.monotonic()

    def tell(self, what: str, then: str | None = None) -> None:
        """Something begins; `then` is what comes when rows are read and counted."""
        self.last, self.then = what, then or what
        self.n_read = self.n_rows = 0
        self.renew()
        self.show()

    def __call__(self, progress: Progress) -> None:
        """Hear from an estimator."""
        if progress.stage == "reading":
            self.last = self.then
            if self.n_read == self.n_rows:
                self.n_readings += 1
                # It has begun when the last one was over: this is heard after its first rows.
                self.since = self.heard
                self.renew()
            self.n_read, self.n_rows = progress.step, progress.n_steps
        else:
            self.last = self.then = said_of(progress)
        self.heard = time.monotonic()
        self.show()

    def begin(self) -> None:
        """Be seen from now on."""

    def renew(self) -> None:
        """Something else begins, such as another reading."""

    def show(self) -> None:
        """Something has changed."""

    def end(self) -> None:
        """Nothing more is to be said."""


class OnTerminal(Watch):
    """A bar that changes in place."""

    def __init__(self, what: str, console: Console) -> None:
        super().__init__(what)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, last=what)
        self._lock = threading.Lock()
        self._over = False

    def begin(self) -> None:
        """Be seen from now on."""
        with self._lock:
            if not self._over:
                self._bar.start()

    def renew(self) -> None:
        """Something else begins, such as another reading."""
        self._bar.reset(self._task)

    def show(self) -> None:
        """Something has changed."""
        self._bar.update(
            self._task,
            total=self.n_rows or None,
            completed=self.n_read,
            description=f"Reading {self.n_readings}" if self.n_rows else "",
            last=self.last,
        )

    def end(self) -> None:
        """Nothing more is to be said."""
        with self._lock:
            self._over = True
            self._bar.stop()


class InLog(Watch):
    """Now and then a line."""

    def __init__(self, what: str, console: Console) -> None:
        super().__init__(what)
        self._console = console
        self._due: float | None = None

    def begin(self) -> None:
        """Be seen from now on."""
        self._due = time.monotonic() + PLAIN_INTERVAL
        self._console.print(self._line(), markup=False, soft_wrap=True)

    def show(self) -> None:
        """Something has changed."""
        if self._due is not None and time.monotonic() >= self._due:
            self.begin()

    def end(self) -> None:
        """Nothing more is to be said."""
        self._due = None

    def _line(self) -> str:
        if not self.n_read:
            return f"{self.last} …"
        left = (time.monotonic() - self.since) * (self.n_rows - self.n_read) / self.n_read
        share = f"{self.n_read / self.n_rows:.0%}"
        return f"{self.last} … reading {self.n_readings}: {share}, {left:.0f} s left"
