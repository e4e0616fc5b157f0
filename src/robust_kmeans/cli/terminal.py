"""What the command says while it works: progress, notes, and errors without tracebacks."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, Protocol

import typer
from rich.console import Console
from rich.status import Status

from robust_kmeans.cli import INTERRUPTED
from robust_kmeans.reporting import Progress

# Shorter work is over before anyone wonders.
PATIENCE = 2.0
# Where there is no terminal, a log should not fill up.
PLAIN_INTERVAL = 10.0
DEBUG = "ROBUST_KMEANS_DEBUG"
OPTIONS = {
    "n_clusters": "-k",
    "n_outliers": "-z",
    "n_threads": "--threads",
    "memory_limit": "--memory-limit",
    "checkpoint=": "--checkpoint",
    "columns=": "--columns",
    "download_if_missing=True": "--download",
    "data_home": "--data-home",
}

Arguments = ParamSpec("Arguments")
Tell = Callable[[str], None]


class Advance(Protocol):
    """What is told about progress."""

    def __call__(self, done: float, what: str) -> None:
        """How much of the work is done, and what was done last."""


class UserError(Exception):
    """Something that the user can put right; its message is all that they are shown."""


class MissingColumnError(UserError):
    """A column that a file does not have."""


def output() -> Console:
    """Standard output, for results."""
    return Console(highlight=False, emoji=False)


def messages() -> Console:
    """Standard error, for everything that is not a result."""
    return Console(stderr=True, highlight=False, emoji=False)


def note(text: str) -> None:
    """Something worth knowing that is no error."""
    messages().print(f"Note: {text}", style="yellow", markup=False, soft_wrap=True)


def clear_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turn what goes wrong into one line and an exit code: 1, or 130 for an interrupt."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            with _warnings_as_notes(quiet=bool(kwargs.get("quiet"))):
                command(*args, **kwargs)
        except KeyboardInterrupt:
            messages().print(f"Interrupted; nothing was left half-written.{_way_on(kwargs)}")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read our output has seen enough; nothing is flushed into the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except typer.Exit:
            raise
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            _print_error(error)
            raise typer.Exit(1) from None

    return run


def _way_on(options: Mapping[str, Any]) -> str:
    checkpoint = options.get("checkpoint")
    if checkpoint is None or not checkpoint.exists():
        return ""
    return f" The same command goes on from {checkpoint}."


def _print_error(error: Exception) -> None:
    if isinstance(error, ModuleNotFoundError) and error.name == "pyarrow":
        text = "Error: Files are read with pyarrow: pip install 'robust-kmeans[cli]'."
    elif isinstance(error, UserError | ImportError):
        text = f"Error: {error}"
    elif isinstance(error, OSError | ValueError | TypeError):
        text = f"Error: {_with_options(str(error))}"
    elif isinstance(error, MemoryError):
        text = "Error: not enough memory; use fewer columns or rows, or float32 input."
    else:
        text = (
            f"Error: {type(error).__name__}: {error} (this is a fault of robust-kmeans; "
            f"{DEBUG}=1 shows where)"
        )
    messages().print(" ".join(text.split()), style="bold red", markup=False, soft_wrap=True)


def _with_options(text: str) -> str:
    """What Python calls a parameter, as the option that the user gave."""
    # A list in Python's way is one text between commas here.
    text = re.sub(r"\bcolumns=\[(.*?)\]", lambda m: f"columns={_as_one_text(m[1])}", text)
    for parameter, option in OPTIONS.items():
        # Some parameters' names are words, too.
        end = "" if parameter.endswith("=") else r"\b=?"
        text = re.sub(rf"\b{parameter}{end}", f"{option} ", text)
    return re.sub(r" +([,;.:](?:\s|$)|$)", r"\1", text)


def _as_one_text(names: str) -> str:
    return repr(names.replace("'", "").replace(", ", ","))


@contextmanager
def _warnings_as_notes(*, quiet: bool) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            warnings.filterwarnings("always", category=UserWarning, module="robust_kmeans")
            warnings.showwarning = lambda message, *_: note(str(message))
        yield


def finished() -> None:
    """From here on there is nothing left to interrupt but the last words."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def working(what: str, *, quiet: bool) -> Iterator[Tell]:
    """Tell what is being done, but only once it has taken longer than two seconds."""
    if quiet:
        yield lambda _: None
        return
    console = messages()
    watch = _Spinner(console, what) if console.is_terminal else _Lines(console, what)
    timer = threading.Timer(PATIENCE, watch.begin)
    timer.daemon = True
    timer.start()
    try:
        yield watch.tell
    finally:
        timer.cancel()
        watch.end()


@contextmanager
def progress(total: float, *, quiet: bool) -> Iterator[Advance]:
    """Show how much of the work is done and how long the rest takes.

    What is yielded is to be called with the work done so far, and what was done last.  It shows
    a bar on a terminal, else a line now and then.
    """
    console = messages()
    if quiet or not total:
        yield lambda done, what: None  # noqa: ARG005
    elif console.is_terminal:
        with _bar(console) as bar:
            task = bar.add_task("", total=total)
            yield lambda done, what: bar.update(task, completed=done, description=what)
    else:
        yield _Shares(console, total).advance


def _bar(console: Console) -> Any:
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        # Steps differ, so the speed of the last half minute alone would mislead.
        speed_estimate_period=3600,
    )


class _Shares:
    """Now and then a line with the share that is done, for logs."""

    def __init__(self, console: Console, total: float) -> None:
        self._console, self._total = console, total
        self._begin = time.monotonic()
        self._due = self._begin + PLAIN_INTERVAL

    def advance(self, done: float, what: str) -> None:
        now = time.monotonic()
        if now >= self._due:
            left = (now - self._begin) * (self._total - done) / done
            share = done / self._total
            self._console.print(f"{share:.0%} done, {left:.0f} s left: {what}", markup=False)
            self._due = now + PLAIN_INTERVAL


class _Spinner:
    """A line that changes in place."""

    def __init__(self, console: Console, what: str) -> None:
        self._status = Status(what, console=console)
        self._lock = threading.Lock()
        self._over = False

    def begin(self) -> None:
        with self._lock:
            if not self._over:
                self._status.start()

    def tell(self, what: str) -> None:
        self._status.update(what)

    def end(self) -> None:
        with self._lock:
            self._over = True
            self._status.stop()


class _Lines:
    """Now and then a line, for logs."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._due: float | None = None

    def begin(self) -> None:
        self._console.print(f"{self._what} …", markup=False)
        self._due = time.monotonic() + PLAIN_INTERVAL

    def tell(self, what: str) -> None:
        self._what = what
        if self._due is not None and time.monotonic() >= self._due:
            self.begin()

    def end(self) -> None:
        self._due = None


def telling(tell: Tell) -> Callable[[Progress], Any]:
    """A callback for an estimator that tells its progress."""
    return lambda progress: tell(f"Clustering: {said_of(progress)}")


def said_of(progress: Progress) -> str:
    """What has just been done, in words."""
    if progress.stage == "reading":
        return f"{progress.step:,} of {progress.n_steps:,} rows read"
    stage = {
        "seeding": "seeded",
        "lloyd": f"iteration {progress.step} of at most {progress.n_steps}",
        "swaps": f"local search {progress.step} of {progress.n_steps}",
    }[progress.stage]
    return f"{stage}, cost {progress.inertia:.6g}"
