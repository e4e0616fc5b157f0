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


class Limit(NamedTuple):
    """D² at which costs are clipped, and the number of centres."""

    value: float
    n_clusters: int


class Candidates(NamedTuple):
    """Places for a centre (L, d), and the clip; `unit` is a weight that no row's exceeds."""

    points: Floats
    limit: Limit
    unit: float


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
        state.d2.dtype.type(shared.limit.value), shared.points, gain, saved, mass, sums,
        chunk.team,
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
