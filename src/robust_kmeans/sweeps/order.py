"""Sweeps that find the cut: each one is a pass over D², none reads the rows.

Where states list the rows with the largest D², it is a pass over those only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import order, totals
from robust_kmeans.kernels.team import EVERY_PART, n_parts_of
from robust_kmeans.sweeps.base import (
    NO_LABELS,
    NO_WEIGHTS,
    Chunk,
    RowState,
    Sweep,
    Work,
    add_numbers,
    in_chunk_order,
    in_parts,
)

# Enough for bins of few rows near the cut; few enough that histograms cost nothing to merge.
N_BINS = 512
BIN_NUMBERS = np.arange(N_BINS + 1)
# Of no more than this share of its rows a chunk keeps a list: a longer one saves little.  Up to a
# quarter, it takes no more memory than 4 bytes per row.
LISTED_SHARE = 1 / 8


class KeyRange(NamedTuple):
    """Keys (bit patterns of D²) from `low` up to, not including, `high`."""

    low: int
    high: int

    @property
    def shift(self) -> int:
        """Bins hold 2^shift keys: the least shift with which N_BINS bins cover the range."""
        return max(0, (self.high - self.low - 1).bit_length() - (N_BINS - 1).bit_length())


@dataclass(frozen=True)
class Histogram:
    """Rows, weight and cost below the range, per bin, and above it (N_BINS + 2 entries each)."""

    counts: NDArray[np.int64]
    mass: NDArray[Any]
    sums: NDArray[np.float64]

    def cost_below(self, bin_: int) -> float:
        """What all rows in the bins below this one cost."""
        return float(self.sums[:bin_].sum())

    def bin_past(self, budget: float) -> tuple[int, float]:
        """The bin in which the budget runs out, from the top, and the weight above it."""
        found, above = order.bin_past(self.counts, self.mass, budget)
        return found, float(above)


class Estimates(NamedTuple):
    """Trimmed costs, by how much they may be off at most, per change of a histogram."""

    costs: NDArray[np.float64]
    errors: NDArray[np.float64]


def estimates(
    look: Histogram,
    keys: KeyRange,
    changes: NDArray[np.float64],
    budget: float,
    dtype: np.dtype[Any],
) -> Estimates:
    """The trimmed costs after each change of weight and cost per bin, (2, L, bins).

    In the bin in which the cut falls it is not known which rows go, only their mean: that is
    wrong by no more than the weight on the lesser side times the width of the bin.
    """
    found = Estimates(*np.empty((2, changes.shape[1])))
    edges = (keys.low + (BIN_NUMBERS << keys.shift)).astype(order.KEYS[dtype]).view(dtype)
    order.trimmed_costs(look.mass, look.sums, changes[0], changes[1], edges, float(budget), *found)
    return found


class Asked(NamedTuple):
    """Rows with least ≤ D² ≤ most, at most so many."""

    least: float
    most: float
    capacity: int


@dataclass(frozen=True)
class Found:
    """Rows in a range of D²: their D², weights and indices."""

    d2: NDArray[np.floating]
    weights: NDArray[np.float64]
    rows: NDArray[np.int64]

    def boundary(self, above: float, budget: float) -> tuple[int, float, float]:
        """Where the budget runs out, the weight up to and with that row, the cost of the rest."""
        found, until, cost = order.boundary(self.d2, self.weights, above, budget)
        return found, until, cost


class Ties(NamedTuple):
    """Where among the rows with D² = value, in row order, the weight exceeds `target`."""

    value: float
    target: float


class Boundary(NamedTuple):
    """A global row index, and the weight of equal rows before it in its chunk."""

    row: int
    before: float


class Listed(NamedTuple):
    """The rows of a chunk with D² ≥ least: where they are, and D²; and what all others cost.

    What is asked about such rows only is then found without a pass over all.
    """

    least: float
    rows: NDArray[np.int32]
    d2: NDArray[np.floating]
    cost_below: float


def look_at(chunk: Chunk, d2: NDArray[np.floating], keys: KeyRange | None) -> Histogram | None:
    """A histogram of one chunk's D², if it is asked for.

    A by-product of steps that change D², while that is still in the cache.
    """
    return None if keys is None else _look(chunk, d2, keys, NO_LABELS, d2[:0])[0]


def look_and_list(
    chunk: Chunk, d2: NDArray[np.floating], keys: KeyRange | None
) -> tuple[Histogram | None, Listed | None]:
    """The same, and the rows that it shows, if they are few: for states that keep them."""
    if keys is None:
        return None, None
    room = int(LISTED_SHARE * len(d2))
    # Both in one array: values begin where 8 bytes do.
    memory, first = chunk.empty(np.int32), room + room % 2
    rows, values = memory[:room], memory[first : first + room * d2.itemsize // 4].view(d2.dtype)
    histogram, n_shown = _look(chunk, d2, keys, rows, values)
    if n_shown > room:
        return histogram, None
    least, below = float(order.value_of(keys.low, d2.dtype)), float(histogram.sums[0])
    return histogram, Listed(least, rows[:n_shown], values[:n_shown], below)


def listed_from(state: Any, least: float) -> Listed | None:
    """The rows with D² from `least` on, and some below, of a state that lists them."""
    listed: Listed | None = getattr(state, "listed", None)
    return listed if listed is not None and listed.least <= least else None


def _look(
    chunk: Chunk,
    d2: NDArray[np.floating],
    keys: KeyRange,
    rows: NDArray[np.int32],
    values: NDArray[np.floating],
) -> tuple[Histogram, int]:
    """A histogram; rows that are not below its range are listed, and how many if they fit."""
    n_parts = n_parts_of(chunk.n_rows)
    n_listed = np.empty(n_parts, np.int64)
    counts, sums = np.zeros((n_parts, N_BINS + 2), np.int64), np.zeros((n_parts, N_BINS + 2))
    mass = np.zeros((n_parts, N_BINS + 2)) if chunk.weights.size else counts
    order.histogram(
        EVERY_PART, d2, order.keys_of(d2), chunk.weights, order.value_of(keys.low, d2.dtype),
        keys.low, keys.shift, counts, mass, sums, rows, values, n_listed, chunk.team,
    )  # fmt: skip
    return Histogram(counts[0], mass[0], sums[0]), int(n_listed[0])


@in_parts(lambda chunk, _keys: n_parts_of(chunk.n_rows))
def _histogram(chunk: Chunk, state: RowState, keys: KeyRange) -> tuple[RowState, Histogram | None]:
    return state, look_at(chunk, state.d2, keys)


def add_histograms(parts: Sequence[Histogram | None]) -> Histogram | None:
    """The merge of histograms over the same keys; None where none were asked for."""
    made = [part for part in parts if part is not None]
    if len(made) <= 1:
        return made[0] if made else None
    counts, mass, sums = made[0].counts.copy(), made[0].mass.copy(), made[0].sums.copy()
    for part in made[1:]:
        counts += part.counts
        mass += part.mass
        sums += part.sums
    return Histogram(counts, mass, sums)


def _rows_within(chunk: Chunk, state: RowState, asked: Asked) -> tuple[RowState, Found]:
    listed = listed_from(state, asked.least)
    d2 = state.d2 if listed is None else listed.d2
    value = d2.dtype.type
    out = np.empty(min(asked.capacity, len(d2)), np.int64)
    found = out[: order.within(d2, value(asked.least), value(asked.most), out)]
    if not found.size:
        # In most chunks: bins near the cut have few rows.
        return state, Found(d2[:0], NO_WEIGHTS, found)
    rows = found if listed is None else listed.rows[found].astype(np.int64)
    weights = chunk.weights[rows] if chunk.weights.size else np.ones(len(rows))
    return state, Found(d2[found], weights, chunk.start + rows)


def _join_found(parts: Sequence[Found]) -> Found:
    if len(parts) == 1:
        return parts[0]
    return Found(
        np.concatenate([part.d2 for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.rows for part in parts]),
    )


def _mass_at(chunk: Chunk, state: RowState, value: float) -> tuple[RowState, float]:
    return state, order.mass_at(state.d2, chunk.weights, value)


def find_tie(chunk: Chunk, state: RowState, ties: Ties) -> tuple[RowState, Boundary]:
    """A step for the one chunk in which the cut falls among equal rows."""
    row, before = order.locate_at(state.d2, chunk.weights, ties.value, ties.target)
    return state, Boundary(chunk.start + row, before)


def _cost_below(chunk: Chunk, state: RowState, value: float) -> tuple[RowState, float]:
    return state, totals.cost_below(state.d2, chunk.weights, value)


HISTOGRAM = Sweep(_histogram, add_histograms, work=Work.LIGHT)
ROWS_WITHIN = Sweep(_rows_within, _join_found, work=Work.GLANCE)
MASS_AT = Sweep(_mass_at, in_chunk_order, work=Work.GLANCE)
COST_BELOW = Sweep(_cost_below, add_numbers, work=Work.GLANCE)
