"""Sweeps of local search: pricing swaps of centres, and making one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import swaps
from robust_kmeans.kernels.assign import assign
from robust_kmeans.kernels.packing import pack
from robust_kmeans.kernels.team import EVERY_PART, n_parts_of
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work, add_arrays, in_parts
from robust_kmeans.sweeps.distances import Floats, Look
from robust_kmeans.sweeps.order import KeyRange, add_histograms, look_at

# Rows that are handed over at a time.
BLOCK = 2**15
# As many values of float32 as a register holds, or two.
LINE = 16
# Rows of fewer bytes are as soon measured as asked for.
FILTERED_ROW = 64
NOT_KNOWN: NDArray[np.float32] = np.empty((0, LINE), np.float32)
# Differences of centres and candidates that are in memory at a time.
VALUES = 2**18


class Limit(NamedTuple):
    """D² at which costs are clipped, and the number of centres."""

    value: float
    n_clusters: int


class Candidates(NamedTuple):
    """Places for a centre (L, d), and the clip; `unit` is a weight that no row's exceeds.

    `apart` is how far the centres are from them at least (k, L or more), or empty, for all rows to
    be measured; see `how_far_apart`.
    """

    points: Floats
    limit: Limit
    unit: float
    apart: NDArray[np.float32]


@dataclass(frozen=True)
class Prices:
    """Per candidate, what it changes in the clipped cost.

    `gain` (L,) is what it saves if no centre goes, and `saved` (L, k) what it saves of the loss
    of each centre that may go.  The rows that it wins weigh `mass` (L,) and deviate from it by
    `sums` (L, d).
    """

    gain: NDArray[np.float64]
    saved: NDArray[np.float64]
    mass: NDArray[np.float64]
    sums: NDArray[np.float64]


class Swap(NamedTuple):
    """The centres with one of them, `moved`, in its new place."""

    centers: Floats
    moved: int
    keys: KeyRange | None = None


def how_far_apart(points: Floats, centers: Floats) -> NDArray[np.float32]:
    """For each centre how far it is from each point, or a little less (k, L), filled up with ∞.

    Empty, where rows are so narrow that it does not pay to know.
    """
    info, n_features = np.finfo(centers.dtype), centers.shape[1]
    if n_features * centers.itemsize < FILTERED_ROW:
        return NOT_KNOWN
    found = np.full((len(centers), -(-len(points) // LINE) * LINE), np.inf, np.float32)
    together = max(1, VALUES // centers.size)
    for first in range(0, len(points), together):
        here = slice(first, min(first + together, len(points)))
        squares = np.sum((centers[:, np.newaxis] - points[here]) ** 2, axis=2)
        # Below some size squares have lost so many digits that no share of them covers it.
        squares[squares <= n_features * info.tiny / info.eps**2] = 0
        found[:, here] = np.minimum(np.sqrt(squares), np.finfo(np.float32).max / 2)
    # What rounding can do to this and to a row's distances.
    found *= np.float32(1 - 16 * (n_features + 4) * info.eps - np.finfo(np.float32).eps)
    return found


def _losses(chunk: Chunk, state: RowState, limit: Limit) -> tuple[RowState, NDArray[np.float64]]:
    loss = np.zeros(limit.n_clusters)
    clip = state.d2.dtype.type(limit.value)
    swaps.losses(state.d2, state.labels, state.others, chunk.weights, clip, loss)
    return state, loss


@in_parts(lambda chunk, shared: n_parts_of(chunk.n_rows, _n_lines(shared)))
def _prices(chunk: Chunk, state: RowState, shared: Candidates) -> tuple[RowState, Prices]:
    n_candidates, n_features = shared.points.shape
    n_parts = n_parts_of(chunk.n_rows, _n_lines(shared))
    gain, mass = np.zeros((2, n_parts, n_candidates))
    saved = np.zeros((n_parts, n_candidates, shared.limit.n_clusters))
    sums = np.zeros((n_parts, n_candidates, n_features))
    unit = shared.unit if chunk.weights.size else 1.0
    swaps.price_swaps(
        EVERY_PART, chunk.rows, state.d2, state.labels, state.others, chunk.weights, unit,
        state.d2.dtype.type(shared.limit.value), shared.points, shared.apart, gain, saved, mass,
        sums, chunk.team,
    )  # fmt: skip
    return state, Prices(unit * gain[0], unit * saved[0], unit * mass[0], unit * sums[0])


def _n_lines(shared: Candidates) -> int:
    """What a part has for itself but for `gain` and `mass`, in lines as long as a row."""
    n_lines: int = shared.limit.n_clusters // shared.points.shape[1] + 1
    return len(shared.points) * n_lines


def _add_prices(parts: Sequence[Prices]) -> Prices:
    return Prices(
        add_arrays([part.gain for part in parts]),
        add_arrays([part.saved for part in parts]),
        add_arrays([part.mass for part in parts]),
        add_arrays([part.sums for part in parts]),
    )


def _swap(chunk: Chunk, state: RowState, shared: Swap) -> tuple[RowState, Look]:
    rows, centers, moved = chunk.rows, shared.centers, shared.moved
    d2, labels = chunk.empty(chunk.dtype), chunk.empty(np.int32)
    gaps, packed = np.sum((centers - centers[moved]) ** 2, axis=1), pack(centers)
    # Some rows at a time: so what is known of the orphans only takes little memory.
    orphans, others = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.float32)
    for start in range(0, len(rows), BLOCK):
        here = slice(start, start + BLOCK)
        n_orphans = swaps.hand_over(
            rows[here], centers, moved, gaps, state.d2[here], state.labels[here], labels[here],
            d2[here], orphans,
        )  # fmt: skip
        assign(
            EVERY_PART, n_parts_of(n_orphans), rows[here], orphans[:n_orphans], centers, packed,
            labels[here], d2[here], others, chunk.team,
        )  # fmt: skip
    return RowState(d2, labels), look_at(chunk, d2, shared.keys)


LOSSES = Sweep(_losses, add_arrays, work=Work.STATES)
"""What the rows of each centre would lose without it."""
PRICES = Sweep(_prices, _add_prices)
"""What candidates would change."""
SWAP = Sweep(_swap, add_histograms)
"""D² and labels after one centre has moved."""
