"""Sweeps that draw rows: total weight per chunk, then one row of one chunk.

No running sum over all rows is ever made: the driver finds the chunk from the chunks'
totals, and one step finds the row in it.  Two more sweeps serve seedings: what lies below a
threshold, and the rows next to centres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import totals
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work, in_chunk_order, nothing
from robust_kmeans.sweeps.cut import Cut, kept_weights


class Weighting(NamedTuple):
    """A row's chance is proportional to w·(flat + slope·min(D², clip)); 0 if D² > limit."""

    flat: float
    slope: float
    clip: float
    limit: float = np.inf


class Target(NamedTuple):
    """The row of a chunk at which the running weight exceeds `mass`."""

    weighting: Weighting
    mass: float


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


class NearestShared(NamedTuple):
    """The cut, and the number of centres that the rows are assigned to."""

    cut: Cut
    n_clusters: int


@dataclass(frozen=True)
class NearestRows:
    """Per centre, of its rows that the cut keeps the nearest: D² (∞ if none), index, values."""

    d2: NDArray[np.float64]
    indices: NDArray[np.int64]
    points: NDArray[np.floating]


def _mass(chunk: Chunk, state: RowState, weighting: Weighting) -> tuple[RowState, float]:
    return state, totals.clipped_mass(state.d2, chunk.weights, *weighting)


def draw_row(chunk: Chunk, state: RowState, target: Target) -> tuple[RowState, Row]:
    """A step for the one chunk that holds the drawn row."""
    flat, slope, clip, limit = target.weighting
    i = totals.locate_mass(state.d2, chunk.weights, flat, slope, clip, target.mass, limit)
    return state, Row(chunk.start + i, np.array(chunk.take(np.array([i]))[0]))


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


def _nearest_rows(
    chunk: Chunk, state: RowState, shared: NearestShared
) -> tuple[RowState, NearestRows]:
    kept = np.flatnonzero(kept_weights(chunk, state, shared.cut) > 0)
    labels, d2 = state.labels[kept], state.d2[kept].astype(np.float64)
    least = np.full(shared.n_clusters, np.inf)
    np.minimum.at(least, labels, d2)
    hits = np.flatnonzero(d2 == least[labels])
    found, first = np.unique(labels[hits], return_index=True)
    indices = np.full(shared.n_clusters, -1, np.int64)
    points = np.zeros((shared.n_clusters, chunk.n_features), chunk.dtype)
    nearest = kept[hits[first]]
    indices[found], points[found] = chunk.start + nearest, chunk.take(nearest)
    return state, NearestRows(least, indices, points)


def _nearest_of(parts: Sequence[NearestRows]) -> NearestRows:
    d2 = np.array([part.d2 for part in parts])
    # Of equals the first chunk's, so the lowest row index.
    chunk, cluster = np.argmin(d2, axis=0), np.arange(d2.shape[1])
    return NearestRows(
        d2[chunk, cluster],
        np.array([part.indices for part in parts])[chunk, cluster],
        np.array([part.points for part in parts])[chunk, cluster],
    )


MASS = Sweep(_mass, in_chunk_order, work=Work.LIGHT)
CROSS_OUT = Sweep(_cross_out, nothing, work=Work.LIGHT)
BELOW = Sweep(_below, _add_below, work=Work.LIGHT)
NEAREST_ROWS = Sweep(_nearest_rows, _nearest_of, work=Work.STATES)
