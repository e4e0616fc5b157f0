"""What the machine that kernels are compiled for can do: this one, unless Numba is told otherwise."""

from __future__ import annotations

from llvmlite import binding
from numba import config


def has(feature: str) -> bool:
    """Whether code may be compiled for a feature of the processor, such as ``"avx512f"``.

    Of one that is only named, as by ``NUMBA_CPU_NAME``, nothing is taken for granted.
    """
    if config.CPU_FEATURES is not None:
        return f"+{feature}" in config.CPU_FEATURES.split(",")
    if config.CPU_NAME is not None:
        return False
    return bool(binding.get_host_cpu_features().get(feature))
