"""What a run ran on, and with which code: figures and times are to be held against both."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

import robust_kmeans

# Of this package only these decide on figures; neither do the command and the plots.
FIGURES_OF_THE_PAPER = ("data.py", "methods.py", "plain.py")
NO_FIGURES = ("cli", "plotting.py")


def describe_machine() -> str:
    """Processor, and versions of Python and of the libraries that do the arithmetic."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line for line in lines if line.startswith("model name")).split(": ")[1]
    packages = ("numpy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return f"{cpu}, Python {platform.python_version()}, {versions}"


@cache
def code_fingerprint() -> str:
    """Twelve letters that change with the code that figures come from."""
    root = Path(robust_kmeans.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        folder, *rest = path.relative_to(root).parts
        if folder in NO_FIGURES or (folder == "paper" and rest[0] not in FIGURES_OF_THE_PAPER):
            continue
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]
