"""The cut as a value, and the one rule by which it splits rows into inliers and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import totals
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work, least_number


@dataclass(frozen=True)
class Cut:
    """Which rows are outliers: D² > value, or D² = value in a row before `row`.

    `value` is the largest D² that is kept (infinity where nothing is trimmed).  Row `row`
    itself loses `trimmed` of its weight and stays an inlier.  `weight` is the weight that is
    trimmed in all, and `cost` the trimmed cost ρ: what the rest costs.
    """

    value: float
    row: int
    trimmed: float
    weight: float
    cost: float
    nearby: int = field(default=0, compare=False)


def kept_weights(chunk: Chunk, state: RowState, cut: Cut) -> NDArray[np.float64]:
    """What each row of a chunk weighs after the cut."""
    kept = np.empty(len(state.d2))
    totals.kept_weights(state.d2, chunk.weights, chunk.start, cut.value, cut.row, cut.trimmed, kept)
    return kept


def flagged_rows(chunk: Chunk, state: RowState, cut: Cut) -> NDArray[np.bool_]:
    """Which rows of a chunk are outliers (the rule of `Cut`, as a mask)."""
    index = np.arange(chunk.start, chunk.start + len(state.d2))
    tied: NDArray[np.bool_] = (state.d2 == cut.value) & (index < cut.row)
    return (state.d2 > cut.value) | tied


def _least_flagged(chunk: Chunk, state: RowState, cut: Cut) -> tuple[RowState, float]:
    beyond = state.d2[flagged_rows(chunk, state, cut)]
    return state, float(beyond.min(initial=np.inf))


def _flagged(chunk: Chunk, state: RowState, cut: Cut) -> tuple[RowState, NDArray[np.int64]]:
    return state, chunk.start + np.flatnonzero(flagged_rows(chunk, state, cut))


def _join(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts)


LEAST_FLAGGED = Sweep(_least_flagged, least_number, work=Work.STATES)
"""The least D² of an outlier; infinity where there is none."""
FLAGGED = Sweep(_flagged, _join, work=Work.STATES)
"""The outliers' row numbers; the one summary as long as the result that is asked for."""
