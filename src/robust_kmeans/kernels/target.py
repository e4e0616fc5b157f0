"""What the machine can do that kernels are compiled for: this one, unless Numba is told other."""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba import config

CONFIG: Any = config


def has(feature: str) -> bool:
    """Whether code may be compiled for a feature of the processor, such as ``"avx512f"``.

    Of one that is only named, as by ``NUMBA_CPU_NAME``, nothing is taken for granted.
    """
    if CONFIG.CPU_FEATURES is not None:
        return f"+{feature}" in CONFIG.CPU_FEATURES.split(",")
    if CONFIG.CPU_NAME is not None or (feature.startswith("avx") and not CONFIG.ENABLE_AVX):
        return False
    return bool(binding.get_host_cpu_features().get(feature))
