"""Sweeps of trimmed Lloyd once the cut is known: means and farthest inliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import totals
from robust_kmeans.kernels.team import EVERY_PART, n_parts_of
from robust_kmeans.sweeps.base import (
    NO_FLAGS,
    Chunk,
    RowState,
    Sweep,
    Work,
    add_arrays,
    in_parts,
    nothing,
)
from robust_kmeans.sweeps.cut import Cut, flagged_rows, kept_weights
from robust_kmeans.sweeps.totals import ClusterTotals, add_totals, no_totals

# Rows of which the farthest is looked for at once.
BLOCK = 256


class ClusterShared(NamedTuple):
    """The cut, and the number of clusters to total."""

    cut: Cut
    n_clusters: int


class UpdateShared(NamedTuple):
    """The cut, and the centres that the rows are assigned to."""

    cut: Cut
    centers: NDArray[np.floating]


class FarthestShared(NamedTuple):
    """How many of the farthest inliers are asked for."""

    cut: Cut
    n_rows: int


@dataclass(frozen=True)
class FarRows:
    """Rows in the order (−D², index)."""

    d2: NDArray[np.floating]
    indices: NDArray[np.int64]
    points: NDArray[np.floating]


@in_parts(lambda chunk, shared: n_parts_of(chunk.n_rows, len(shared.centers)))
def _update(chunk: Chunk, state: RowState, shared: UpdateShared) -> tuple[RowState, ClusterTotals]:
    cut, centers = shared
    # With weights, differences of sums could leave a trace of weight in an empty cluster.
    kept = NO_FLAGS if chunk.weights.size else chunk.empty(np.uint8)
    sums, mass, _ = no_totals(centers, n_parts_of(chunk.n_rows, len(centers)))
    totals.accumulate(
        EVERY_PART, chunk.rows, state.labels, state.d2, chunk.weights,
        (chunk.start, cut.value, cut.row, cut.trimmed), centers, kept, sums, mass, chunk.team,
    )  # fmt: skip
    return state._replace(kept=kept), ClusterTotals(sums[0], mass[0])


def _update_cut(
    chunk: Chunk, state: RowState, shared: UpdateShared
) -> tuple[RowState, ClusterTotals]:
    cut, centers = shared
    kept, which = chunk.empty(np.uint8), chunk.empty(np.int32)
    n_changed = totals.changed_sides(
        state.d2, chunk.start, cut.value, cut.row, state.kept, kept, which
    )
    sums, mass, cost = np.zeros(centers.shape), np.zeros(len(centers)), 0.0
    if n_changed:
        changed = which[:n_changed]
        cost = totals.recount_cut(
            chunk.take(changed), changed, state.labels, kept, centers, sums, mass
        )
    return state._replace(kept=kept), ClusterTotals(sums, mass, cost)


def _mark_kept(chunk: Chunk, state: RowState, cut: Cut) -> tuple[RowState, None]:
    if chunk.weights.size:
        return state, None
    kept = chunk.empty(np.uint8)
    kept[:] = ~flagged_rows(chunk, state, cut)
    return state._replace(kept=kept), None


def _cluster_mass(
    chunk: Chunk, state: RowState, shared: ClusterShared
) -> tuple[RowState, NDArray[np.float64]]:
    kept = kept_weights(chunk, state, shared.cut)
    mass = np.zeros(shared.n_clusters)
    np.add.at(mass, state.labels, kept)
    return state, mass


def _cluster_sizes(
    chunk: Chunk, state: RowState, shared: ClusterShared
) -> tuple[RowState, NDArray[np.int64]]:
    inside = ~flagged_rows(chunk, state, shared.cut)
    return state, np.bincount(state.labels[inside], minlength=shared.n_clusters)


def _farthest_kept(
    chunk: Chunk, state: RowState, shared: FarthestShared
) -> tuple[RowState, FarRows]:
    n_rows, least = shared.n_rows, 0.0
    kept = np.where(kept_weights(chunk, state, shared.cut) > 0, state.d2, -1)
    # The largest of each block: n of them are at least as large as the n-th, so are n rows.
    largest = np.maximum.reduceat(kept, np.arange(0, len(kept), BLOCK))
    if n_rows <= len(largest):
        least = max(least, np.partition(largest, -n_rows)[-n_rows])
    # Any number of rows may be equal, of which the first few are enough.
    some = np.concatenate([np.flatnonzero(kept > least), np.flatnonzero(kept == least)[:n_rows]])
    far = some[np.argsort(-kept[some], kind="stable")[:n_rows]]
    return state, FarRows(state.d2[far], chunk.start + far, chunk.take(far))


def _farthest_of(parts: Sequence[FarRows]) -> FarRows:
    d2 = np.concatenate([part.d2 for part in parts])
    indices = np.concatenate([part.indices for part in parts])
    points = np.concatenate([part.points for part in parts])
    first = np.lexsort((indices, -d2))
    return FarRows(d2[first], indices[first], points[first])


UPDATE = Sweep(_update, add_totals)
"""The totals of all clusters; states then know which rows count in them."""
UPDATE_CUT = Sweep(_update_cut, add_totals, work=Work.TAKING)
"""What a new cut changes in the totals."""
MARK_KEPT = Sweep(_mark_kept, nothing, work=Work.STATES)
"""States that know which rows count in the totals that belong to a cut."""
CLUSTER_MASS = Sweep(_cluster_mass, add_arrays, work=Work.STATES)
CLUSTER_SIZES = Sweep(_cluster_sizes, add_arrays, work=Work.STATES)
FARTHEST_KEPT = Sweep(_farthest_kept, _farthest_of, work=Work.TAKING)
