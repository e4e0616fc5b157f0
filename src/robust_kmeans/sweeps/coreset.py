"""Sweeps that sample rows of every cluster and of the outliers; they pass over the states.

The parts are the k clusters' inliers and, as the last one, the outliers.  The row in which the
cut runs out counts as an inlier, with all of its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import picking
from robust_kmeans.sweeps.base import (
    Chunk,
    RowState,
    Sweep,
    Work,
    add_arrays,
    in_chunk_order,
)
from robust_kmeans.sweeps.cut import Cut, flagged_rows

NOT_NOTED = np.empty(0)


class PartsShared(NamedTuple):
    """The cut, and the number of clusters that the rows are assigned to."""

    cut: Cut
    n_clusters: int


class Chances(NamedTuple):
    """A row is sampled with the chance min(1, w·(flat + slope·D²)), by its part."""

    cut: Cut
    flat: NDArray[np.float64]
    slope: NDArray[np.float64]


class Comb(NamedTuple):
    """Chances, where chunks begin, and how long the line of each part is before each chunk."""

    chances: Chances
    starts: NDArray[np.int64]
    before: NDArray[np.float64]


@dataclass(frozen=True)
class SampledRows:
    """Rows in ascending order: values, index, part, and weight divided by the chance."""

    points: NDArray[np.floating]
    indices: NDArray[np.int64]
    parts: NDArray[np.int32]
    weights: NDArray[np.float64]


def _part_totals(
    chunk: Chunk, state: RowState, shared: PartsShared
) -> tuple[RowState, NDArray[np.float64]]:
    parts, n_parts = _parts(chunk, state, shared.cut, shared.n_clusters), shared.n_clusters + 1
    weights = chunk.weights if chunk.weights.size else np.ones(len(parts))
    totals = (weights > 0, weights, weights * state.d2)
    return state, np.array([np.bincount(parts, each, minlength=n_parts) for each in totals])


def _expected(
    chunk: Chunk, state: RowState, chances: Chances
) -> tuple[RowState, NDArray[np.float64]]:
    expected = np.zeros(len(chances.flat))
    _pick(chunk, state, chances, expected, NOT_NOTED)
    return state, expected


def _sample(chunk: Chunk, state: RowState, comb: Comb) -> tuple[RowState, SampledRows]:
    chances = np.empty(len(state.d2))
    number = int(np.searchsorted(comb.starts, chunk.start, side="right")) - 1
    _pick(chunk, state, comb.chances, comb.before[number].copy(), chances)
    picked = np.flatnonzero(chances)
    weights = chunk.weights[picked] if chunk.weights.size else 1.0
    n_clusters = len(comb.chances.flat) - 1
    return state, SampledRows(
        chunk.take(picked),
        chunk.start + picked,
        _parts(chunk, state, comb.chances.cut, n_clusters)[picked],
        weights / chances[picked],
    )


def _join_samples(parts: Sequence[SampledRows]) -> SampledRows:
    return SampledRows(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.parts for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def _parts(chunk: Chunk, state: RowState, cut: Cut, n_clusters: int) -> NDArray[np.int32]:
    return np.where(flagged_rows(chunk, state, cut), np.int32(n_clusters), state.labels)


def _pick(
    chunk: Chunk,
    state: RowState,
    chances: Chances,
    running: NDArray[np.float64],
    noted: NDArray[np.float64],
) -> None:
    cut = chances.cut
    picking.pick(
        state.d2, state.labels, chunk.weights, chunk.start, cut.value, cut.row,
        chances.flat, chances.slope, running, noted,
    )  # fmt: skip


PART_TOTALS = Sweep(_part_totals, add_arrays, work=Work.STATES)
"""Of each part how many rows weigh something, their weight and their cost: (3, k + 1)."""
EXPECTED = Sweep(_expected, in_chunk_order, work=Work.STATES)
"""How many rows of each part will be sampled from each chunk."""
SAMPLE = Sweep(_sample, _join_samples, work=Work.TAKING)
"""The sampled rows; with the chances of a sample of m rows, m of them travel."""
