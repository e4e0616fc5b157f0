"""The command `robust-kmeans`: cluster a file, predict with a model, look at both.

`app` declares the commands, one module each does the work, and `tables` reads and writes files.
"""

from __future__ import annotations

import signal
import sys

INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129


def main() -> None:
    """Run the command; the entry point of the installed script."""
    # A polite request to end must not leave half-written files either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        # The terminal was closed.
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(HUNG_UP))
    try:
        try:
            from robust_kmeans.cli.app import app
        except ModuleNotFoundError as error:
            if error.name not in ("typer", "rich"):
                raise
            sys.exit(
                f"The command robust-kmeans needs {error.name}: pip install 'robust-kmeans[cli]'."
            )
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
