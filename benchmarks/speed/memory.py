"""The peak of a process: what a job takes beyond the rows that it was given.

Linux keeps the largest size that a process has had, and forgets it when asked to.  All that is
resident counts: arrays, buffers of kernels and of BLAS, results.
"""

from __future__ import annotations

import gc
from pathlib import Path

from speed.jobs import Job, Work

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def can_measure() -> bool:
    return _STATUS.exists() and _RESET.exists()


def peak_beyond_rows(work: Work, job: Job) -> int:
    """Bytes; the rows are there before, and so is compiled code."""
    work.rows()
    job(work.warm_up(), 0)
    gc.collect()
    _RESET.write_text("5")
    before = _kilobytes("VmRSS")
    job(work, 0)
    return (_kilobytes("VmHWM") - before) * 1024


def _kilobytes(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
