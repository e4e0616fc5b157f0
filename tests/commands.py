"""The command robust-kmeans, as tests call it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from robust_kmeans.cli import main

COMMAND = Path(sys.executable).with_name("robust-kmeans")


@cache
def compile_kernels():
    """Have all kernels in the cache, for processes that are to be measured or interrupted.

    To compile takes memory.  And an interrupt that hits LLVM while it tells Python of its results
    is lost there.
    """
    code = "import robust_kmeans; robust_kmeans.warm_up()"
    subprocess.run([sys.executable, "-c", code], check=True)


def run(*arguments, cwd=None, columns=120):
    """What the installed command does, in this process: it takes seconds to start another.

    Handlers of signals are given back: the command ignores interrupts at its end, and processes
    that tests start later would inherit that.
    """
    out, err, code = StringIO(), StringIO(), 0
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers = {name: signal.getsignal(getattr(signal, name)) for name in names}
    with (
        mock.patch.object(sys, "argv", ["robust-kmeans", *map(str, arguments)]),
        mock.patch.dict(os.environ, COLUMNS=str(columns)),
        chdir(cwd or Path.cwd()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            for name, handler in handlers.items():
                signal.signal(getattr(signal, name), handler)
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def run_installed(*arguments, cwd=None):
    """The installed command, as a user would call it."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"COLUMNS": "120"},
    )
