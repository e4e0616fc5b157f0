"""Sweeps that measure rows against centres: each one is one reading of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import distances, totals
from robust_kmeans.kernels.assign import Packed, Slack, assign, pack, reassign
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, add_arrays, all_positions, nothing
from robust_kmeans.sweeps.order import Histogram, KeyRange, add_histograms, histogram
from robust_kmeans.sweeps.totals import ClusterTotals, add_totals, no_totals

Floats = NDArray[np.floating]
Look = Histogram | None


class Trials(NamedTuple):
    """Per candidate centre, the D² that all rows would have with it (L, m)."""

    d2: Floats


class Centers(NamedTuple):
    """Centres to measure, and the key range to make a histogram of D² over on the way."""

    centers: Floats
    keys: KeyRange | None = None


class Moved(NamedTuple):
    """Centres after a move, packed for all chunks at once, and how far they have moved at most."""

    centers: Floats
    packed: Packed
    slack: Slack
    keys: KeyRange | None = None


class Reassigned(NamedTuple):
    """A histogram of D², and what rows with a new label change in the clusters' totals."""

    look: Look
    changes: ClusterTotals


class NewCenters(NamedTuple):
    """Centres that join those already there; the first of them gets `first_label`."""

    centers: Floats
    first_label: int


def _start(chunk: Chunk, _state: None, _shared: None) -> tuple[RowState, None]:
    d2 = chunk.empty(chunk.rows.dtype)
    d2[:] = np.inf
    return RowState(d2), None


def _add_center(chunk: Chunk, state: RowState, shared: Centers) -> tuple[RowState, Look]:
    d2 = chunk.empty(chunk.rows.dtype)
    distances.closer(chunk.rows, shared.centers, state.d2, d2[np.newaxis])
    return RowState(d2), look_at(chunk, d2, shared.keys)


def _try_centers(chunk: Chunk, state: RowState, shared: Centers) -> tuple[Trials, tuple[Look, ...]]:
    trials = _trial_distances(chunk, state, shared.centers)
    return Trials(trials), tuple(look_at(chunk, d2, shared.keys) for d2 in trials)


def _try_centers_with_costs(
    chunk: Chunk, state: RowState, shared: Centers
) -> tuple[Trials, NDArray[np.float64]]:
    trials = _trial_distances(chunk, state, shared.centers)
    costs = [totals.cost_below(d2, chunk.weights, np.inf) for d2 in trials]
    return Trials(trials), np.array(costs)


def _look_at_trial(_chunk: Chunk, state: Trials, which: int) -> tuple[RowState, None]:
    return RowState(state.d2[which]), None


def _keep_trial(chunk: Chunk, state: Trials, which: int) -> tuple[RowState, None]:
    # A copy, so that the rejected candidates' distances are freed.
    d2 = chunk.empty(state.d2.dtype)
    d2[:] = state.d2[which]
    return RowState(d2), None


def _assign(chunk: Chunk, _state: object, shared: Centers) -> tuple[RowState, Look]:
    state = assigned(chunk, shared.centers)
    return state, look_at(chunk, state.d2, shared.keys)


def assigned(chunk: Chunk, centers: Floats) -> RowState:
    """D², label and bound of each row for these centres."""
    d2, labels = chunk.empty(chunk.rows.dtype), chunk.empty(np.int32)
    others = chunk.empty(np.float32)
    everywhere = all_positions(len(chunk.rows))
    assign(chunk.rows, everywhere, centers, pack(centers), labels, d2, others)
    return RowState(d2, labels, others)


def _assign_moved(chunk: Chunk, state: RowState, shared: Moved) -> tuple[RowState, Reassigned]:
    """As `_assign`, to the bit, but comparing centres only for rows that bounds leave in doubt."""
    centers, changes = shared.centers, no_totals(shared.centers)
    d2, labels = chunk.empty(chunk.rows.dtype), chunk.empty(np.int32)
    others = chunk.empty(np.float32)
    reassign(
        chunk.rows, centers, shared.packed, shared.slack, state.labels, state.others,
        state.kept, labels, others, d2, changes.sums, changes.mass,
    )  # fmt: skip
    look = look_at(chunk, d2, shared.keys)
    return RowState(d2, labels, others, state.kept), Reassigned(look, changes)


def _assign_new(chunk: Chunk, state: RowState, new: NewCenters) -> tuple[RowState, None]:
    found = assigned(chunk, new.centers)
    nearer = found.d2 < state.d2
    before = state.labels if state.labels.size else np.int32(0)
    labels = np.where(nearer, found.labels + np.int32(new.first_label), before)
    return RowState(np.minimum(found.d2, state.d2), labels), None


def _trial_distances(chunk: Chunk, state: RowState, centers: Floats) -> Floats:
    out = np.empty((len(centers), len(chunk.rows)), chunk.rows.dtype)
    distances.closer(chunk.rows, centers, state.d2, out)
    return out


def look_at(chunk: Chunk, d2: Floats, keys: KeyRange | None) -> Look:
    """A histogram of D², if it is asked for, as a step's by-product.

    While D² is still in the cache: a sweep of its own would cost more than this.
    """
    return None if keys is None else histogram(chunk, d2, keys)


def add_looks(parts: Sequence[Look]) -> Look:
    """The merge of what steps made with `look_at`."""
    made = [part for part in parts if part is not None]
    return add_histograms(made) if made else None


def _add_reassigned(parts: Sequence[Reassigned]) -> Reassigned:
    looks = add_looks([part.look for part in parts])
    return Reassigned(looks, add_totals([part.changes for part in parts]))


def _add_looks_per_trial(parts: Sequence[tuple[Look, ...]]) -> list[Look]:
    return [add_looks(looks) for looks in zip(*parts, strict=True)]


START = Sweep(_start, nothing)
ADD_CENTER = Sweep(_add_center, add_looks)
TRY_CENTERS = Sweep(_try_centers, _add_looks_per_trial)
TRY_CENTERS_WITH_COSTS = Sweep(_try_centers_with_costs, add_arrays)
LOOK_AT_TRIAL = Sweep(_look_at_trial, nothing)
KEEP_TRIAL = Sweep(_keep_trial, nothing)
ASSIGN = Sweep(_assign, add_looks)
ASSIGN_MOVED = Sweep(_assign_moved, _add_reassigned)
ASSIGN_NEW = Sweep(_assign_new, nothing)
