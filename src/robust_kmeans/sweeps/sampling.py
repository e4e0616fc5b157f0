"""Sweeps that draw rows: total weight per chunk, then one row of one chunk.

No running sum over all rows is ever made: the driver finds the chunk from the chunks'
totals, and one step finds the row in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import totals
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, in_chunk_order, nothing


class Weighting(NamedTuple):
    """A row's chance is proportional to w·(flat + slope·min(D², clip))."""

    flat: float
    slope: float
    clip: float


class Target(NamedTuple):
    """The row of a chunk at which the running weight exceeds `mass`."""

    weighting: Weighting
    mass: float


@dataclass(frozen=True)
class Row:
    """One row: its global index and its values."""

    index: int
    point: NDArray[np.floating]


def _mass(chunk: Chunk, state: RowState, weighting: Weighting) -> tuple[RowState, float]:
    return state, totals.clipped_mass(state.d2, chunk.weights, *weighting)


def draw_row(chunk: Chunk, state: RowState, target: Target) -> tuple[RowState, Row]:
    """A step for the one chunk that holds the drawn row."""
    i = totals.locate_mass(state.d2, chunk.weights, *target.weighting, target.mass)
    return state, Row(chunk.start + i, np.array(chunk.rows[i]))


def _cross_out(chunk: Chunk, state: RowState, row: int) -> tuple[RowState, None]:
    if not 0 <= row - chunk.start < len(state.d2):
        return state, None
    d2 = state.d2.copy()
    d2[row - chunk.start] = 0
    return RowState(d2, state.labels), None


MASS = Sweep(_mass, in_chunk_order)
CROSS_OUT = Sweep(_cross_out, nothing)
