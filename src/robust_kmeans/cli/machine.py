"""What a run ran on, for those who read its figures elsewhere."""

from __future__ import annotations

import importlib.metadata
import platform
from contextlib import suppress
from pathlib import Path


def describe_machine() -> str:
    """Processor, and versions of Python and of the libraries that do the arithmetic."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line for line in lines if line.startswith("model name")).split(": ")[1]
    packages = ("numpy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return f"{cpu}, Python {platform.python_version()}, {versions}"
