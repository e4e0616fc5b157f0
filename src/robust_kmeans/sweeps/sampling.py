"""Sweeps that draw rows: total weight per chunk, then one row of one chunk.

No running sum over all rows is ever made: the driver finds the chunk from the chunks'
totals, and one step finds the row in it.  Totals need only the rows that a state lists, where no
other is clipped.  One more sweep serves seedings: what lies below a
threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import totals
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work, in_chunk_order, nothing
from robust_kmeans.sweeps.order import listed_from


class Weighting(NamedTuple):
    """A row's chance is proportional to w·(flat + slope·min(D², clip)); 0 if D² > limit."""

    flat: float
    slope: float
    clip: float
    limit: float = np.inf


class Targets(NamedTuple):
    """The rows of a chunk at which the running weight exceeds each of some masses, ascending."""

    weighting: Weighting
    masses: NDArray[np.float64]


# Not frozen, which would make it several times as slow to make.
@dataclass(slots=True)
class Row:
    """One row: its global index and its values."""

    index: int
    point: NDArray[np.floating]


class Below(NamedTuple):
    """Weight and cost of the rows with D² up to some value."""

    weight: float
    cost: float


def _mass(chunk: Chunk, state: RowState, weighting: Weighting) -> tuple[RowState, float]:
    flat, slope, clip, limit = weighting
    listed = listed_from(state, clip) if flat == 0 and limit == np.inf else None
    if listed is None:
        return state, totals.clipped_mass(state.d2, chunk.weights, *weighting)
    # What is not listed is not clipped.
    weights = chunk.weights[listed.rows] if chunk.weights.size else chunk.weights
    above = totals.clipped_mass(listed.d2, weights, flat, slope, clip, limit)
    return state, slope * listed.cost_below + above


def draw_rows(chunk: Chunk, state: RowState, targets: Targets) -> tuple[RowState, list[Row]]:
    """A step for a chunk that holds drawn rows."""
    found = np.empty(len(targets.masses), np.int64)
    totals.locate_mass(state.d2, chunk.weights, *targets.weighting, targets.masses, found)
    points = np.array(chunk.take(found))
    return state, [Row(chunk.start + int(i), point) for i, point in zip(found, points, strict=True)]


def row_d2(chunk: Chunk, state: RowState, row: int) -> tuple[RowState, float]:
    """A step for the one chunk that holds a row: its D²."""
    return state, float(state.d2[row - chunk.start])


def _cross_out(chunk: Chunk, state: RowState, row: int) -> tuple[RowState, None]:
    if not 0 <= row - chunk.start < len(state.d2):
        return state, None
    d2 = state.d2.copy()
    d2[row - chunk.start] = 0
    return state._replace(d2=d2), None


def _below(chunk: Chunk, state: RowState, value: float) -> tuple[RowState, Below]:
    weight = totals.clipped_mass(state.d2, chunk.weights, 1.0, 0.0, 0.0, value)
    cost = totals.clipped_mass(state.d2, chunk.weights, 0.0, 1.0, np.inf, value)
    return state, Below(weight, cost)


def _add_below(parts: Sequence[Below]) -> Below:
    return Below(sum(part.weight for part in parts), sum(part.cost for part in parts))


MASS = Sweep(_mass, in_chunk_order, work=Work.GLANCE)
CROSS_OUT = Sweep(_cross_out, nothing, work=Work.LIGHT)
BELOW = Sweep(_below, _add_below, work=Work.LIGHT)
