"""Kernels are right on machines with other registers than this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding
from numba import config

from robust_kmeans.kernels.target import has

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(
    not binding.get_host_cpu_features().get("avx2"),
    reason="code for AVX2 does not run on this machine",
)
@pytest.mark.parametrize(
    "tests",
    [
        "test_assign.py",
        "test_bounds.py",
        "test_growth.py",
        "test_local_search.py::test_rows_that_are_ruled_out_change_no_bit_of_a_price",
    ],
)
def test_rows_are_measured_without_avx512(tests):
    # The compiler then has the registers, and the kernels the numbers of lanes, of a laptop.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{tests}"],
        cwd=ROOT,
        # Without features of its own it would still have those of this machine.
        env=os.environ | {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_target_has_what_it_is_said_to_have(monkeypatch):
    monkeypatch.setattr(config, "CPU_NAME", "haswell")
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    assert not has("avx512f")
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx2,-avx512f,+avx512vnni")
    assert has("avx512vnni")
    assert not has("avx512f")
    monkeypatch.setattr(config, "CPU_NAME", None)
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(config, "ENABLE_AVX", 1)
    assert has("avx512f") == bool(binding.get_host_cpu_features().get("avx512f"))
    monkeypatch.setattr(config, "ENABLE_AVX", 0)
    assert not has("avx512f")
