"""The one jit decorator, and with it the one floating-point policy.

NaN and infinity keep their meaning ("nnan" and "ninf" are left out): D² starts at
infinity and the input check relies on NaN.  Everything else may be reordered and fused,
which is what lets a sum over features use the vector units.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"nsz", "arcp", "contract", "reassoc"},
}


def jit(function: Kernel) -> Kernel:
    """Compile `function` on its first call, and cache the result on disk where possible."""
    try:
        return cast(Kernel, _saved_if_possible(numba.njit(cache=True, **_OPTIONS)(function)))
    except RuntimeError:
        # Numba finds no folder that it may write its cache to (a read-only install with no
        # home folder): compiling once per process is slower to start, and otherwise equal.
        return cast(Kernel, numba.njit(**_OPTIONS)(function))


def _saved_if_possible(kernel: Any) -> Any:
    """A kernel that works, too, where the disk of the cache is full or was taken away."""
    save = kernel._cache.save_overload

    def save_if_possible(*compiled: Any) -> None:
        with suppress(OSError):
            save(*compiled)

    kernel._cache.save_overload = save_if_possible
    return kernel
