"""Sweeps that look at clusters' tails: which D² are usual, and which rows lie beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import distances as kernels
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work, add_arrays

# Bins are float64 bit patterns of D²/scale, cut off: 16 equal bins from one power of two to the
# next.  So they need no logarithm, and are the same on every machine.
SHIFT = np.finfo(np.float64).nmant - 4
# From 2⁻²⁴ to 2⁴⁰ times the scale: what lies outside counts in the first or the last bin.
LOWEST, HIGHEST = (int(np.float64(2.0**power).view(np.int64)) >> SHIFT for power in (-24, 40))
BIN_EDGES: NDArray[np.float64] = np.concatenate(
    [[0.0], (np.arange(LOWEST + 1, HIGHEST + 1) << SHIFT).view(np.float64)]
)
"""Where bins begin and end, in units of the scale."""
N_TAIL_BINS = len(BIN_EDGES) - 1
# Rows that are measured against all centres at a time.
BLOCK_ROWS = 1024


class TailShared(NamedTuple):
    """The unit of D² for the bins, and the number of clusters.

    With a unit of 0, rows are in the first bin if their D² is 0, else in the last.
    """

    scale: float
    n_clusters: int


class Fences(NamedTuple):
    """Centres, and the D² up to which rows belong to each (infinite: all that are nearest to it).

    `reach` is the same for rows that have another nearest centre.
    """

    centers: NDArray[np.floating]
    own: NDArray[np.float64]
    reach: NDArray[np.float64]


@dataclass(frozen=True)
class Sides:
    """Weight and cost of each cluster within the fences; weight and Σ w·ln D² beyond all."""

    mass: NDArray[np.float64]
    cost: NDArray[np.float64]
    mass_beyond: float
    logs_beyond: float


class Newcomers(NamedTuple):
    """Places for one more centre (L, d), each by itself; rows beyond fences are won up to a D²."""

    points: NDArray[np.floating]
    fences: Fences
    limit: float


@dataclass(frozen=True)
class WonRows:
    """What each newcomer wins from each cluster, and, in the last column, from beyond all fences.

    `mass` (L, k + 1) is the weight; `before` (L, k + 1) the cost that it had, Σ w·ln D² in the
    last column; `cost` (L,) what it costs now; `sums` (L, d) its deviations from the newcomer.
    """

    mass: NDArray[np.float64]
    before: NDArray[np.float64]
    cost: NDArray[np.float64]
    sums: NDArray[np.float64]


def _tail_histogram(
    chunk: Chunk, state: RowState, shared: TailShared
) -> tuple[RowState, NDArray[np.float64]]:
    ratios = _ratios(state.d2, shared.scale)
    bins = np.clip((ratios.view(np.int64) >> SHIFT) - LOWEST, 0, N_TAIL_BINS - 1)
    size = shared.n_clusters * N_TAIL_BINS
    weights = chunk.weights if chunk.weights.size else None
    counts = np.bincount(state.labels * np.int64(N_TAIL_BINS) + bins, weights, size)
    return state, counts.reshape(shared.n_clusters, N_TAIL_BINS).astype(np.float64)


def _ratios(d2: NDArray[np.floating], scale: float) -> NDArray[np.float64]:
    if scale == 0:
        return np.where(d2 > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # an infinite ratio belongs into the last bin
        ratios: NDArray[np.float64] = np.abs(d2.astype(np.float64) / scale)
    return ratios


def _beyond_fences(chunk: Chunk, state: RowState, fences: Fences) -> tuple[RowState, Sides]:
    beyond = rows_beyond(chunk, state, fences)
    weights = chunk.weights if chunk.weights.size else np.ones(len(state.d2))
    inside, n_clusters = ~beyond, len(fences.centers)
    kept, labels = weights[inside], state.labels[inside]
    sides = Sides(
        _per_cluster(labels, kept, n_clusters),
        _per_cluster(labels, kept * state.d2[inside], n_clusters),
        float(weights[beyond].sum()),
        float(weights[beyond] @ np.log(state.d2[beyond].astype(np.float64))),
    )
    return state, sides


def _per_cluster(
    labels: NDArray[np.int32], values: NDArray[np.float64], n_clusters: int
) -> NDArray[np.float64]:
    return np.bincount(labels, values, n_clusters).astype(np.float64)


def rows_beyond(chunk: Chunk, state: RowState, fences: Fences) -> NDArray[np.bool_]:
    """Which rows are beyond the fences of all clusters, not only of the nearest."""
    beyond: NDArray[np.bool_] = state.d2 > fences.own[state.labels]
    far, reach = np.flatnonzero(beyond), np.sqrt(fences.reach)
    # Few rows are beyond their own fence, so this costs little.
    for start in range(0, len(far), BLOCK_ROWS):
        block = far[start : start + BLOCK_ROWS]
        gaps = np.empty((len(block), len(fences.centers)), chunk.dtype)
        kernels.pairwise(chunk.take(block), fences.centers, gaps)
        outside = gaps > reach
        outside[np.arange(len(block)), state.labels[block]] = True
        beyond[block] = outside.all(axis=1)
    return beyond


def _won_rows(chunk: Chunk, state: RowState, shared: Newcomers) -> tuple[RowState, WonRows]:
    points, fences = shared.points, shared.fences
    n_clusters, shape = len(fences.centers), (len(points), len(fences.centers) + 1)
    beyond = rows_beyond(chunk, state, fences)
    labels = np.where(beyond, n_clusters, state.labels)
    d2 = state.d2.astype(np.float64)
    values = np.where(beyond, np.log(np.where(beyond, d2, 1.0)), d2)
    limits = np.where(beyond, np.minimum(d2, shared.limit), d2)
    won = WonRows(np.zeros(shape), np.zeros(shape), np.zeros(len(points)), np.zeros(points.shape))
    for start in range(0, len(d2), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        gaps = np.empty((len(d2[block]), len(points)), chunk.dtype)
        kernels.pairwise(chunk.rows[block], points, gaps)
        squares = gaps.astype(np.float64) ** 2
        for i in range(len(points)):
            rows = start + np.flatnonzero(squares[:, i] < limits[block])
            weights = chunk.weights[rows] if chunk.weights.size else np.ones(len(rows))
            won.mass[i] += np.bincount(labels[rows], weights, n_clusters + 1)
            won.before[i] += np.bincount(labels[rows], weights * values[rows], n_clusters + 1)
            won.cost[i] += weights @ squares[rows - start, i]
            won.sums[i] += weights @ (chunk.rows[rows] - points[i])
    return state, won


def _add_won_rows(parts: Sequence[WonRows]) -> WonRows:
    return WonRows(
        add_arrays([part.mass for part in parts]),
        add_arrays([part.before for part in parts]),
        add_arrays([part.cost for part in parts]),
        add_arrays([part.sums for part in parts]),
    )


def _add_sides(parts: Sequence[Sides]) -> Sides:
    return Sides(
        add_arrays([part.mass for part in parts]),
        add_arrays([part.cost for part in parts]),
        float(sum(part.mass_beyond for part in parts)),
        float(sum(part.logs_beyond for part in parts)),
    )


TAIL_HISTOGRAM = Sweep(_tail_histogram, add_arrays, work=Work.STATES)
"""Weight per cluster and bin of D²/scale."""
BEYOND_FENCES = Sweep(_beyond_fences, _add_sides, work=Work.TAKING)
WON_ROWS = Sweep(_won_rows, _add_won_rows)
"""What one more centre would win."""
