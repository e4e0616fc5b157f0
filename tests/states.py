"""A sweep for tests that gives rows any D² (and labels), on any execution."""

from __future__ import annotations

from robust_kmeans.sweeps.base import RowState, Sweep, Work, nothing


def _set_d2(chunk, _state, d2):
    return RowState(d2[chunk.start : chunk.start + chunk.n_rows].copy()), None


SET_D2 = Sweep(_set_d2, nothing, work=Work.STATES)
