"""Sweeps that measure rows against centres: each one is one reading of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.assign import Slack, assign, reassign
from robust_kmeans.kernels.scores import Comparable, pack
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, all_positions, nothing
from robust_kmeans.sweeps.coins import NextCoins, note_likely
from robust_kmeans.sweeps.order import Histogram, KeyRange, add_histograms, look_at
from robust_kmeans.sweeps.totals import ClusterTotals, add_totals, no_totals

Floats = NDArray[np.floating]
Look = Histogram | None


class Centers(NamedTuple):
    """Centres to measure, and the key range to make a histogram of D² over on the way."""

    centers: Floats
    keys: KeyRange | None = None


class Near(NamedTuple):
    """A range of D²."""

    low: float
    high: float


class Moved(NamedTuple):
    """Centres after a move, packed for all chunks at once, and how far they have moved at most.

    The next cut is expected within `near`.
    """

    centers: Floats
    packed: Comparable
    slack: Slack
    keys: KeyRange | None = None
    near: Near | None = None


class Reassigned(NamedTuple):
    """A histogram of D², and what rows with a new label change in the clusters' totals."""

    look: Look
    changes: ClusterTotals


class NewCenters(NamedTuple):
    """Centres that join those already there; the first of them gets `first_label`.

    In the round that follows, `ahead` is known of the coins.
    """

    centers: Floats
    first_label: int
    ahead: NextCoins | None = None


def _assign(chunk: Chunk, _state: object, shared: Centers) -> tuple[RowState, Look]:
    state = assigned(chunk, shared.centers)
    return state, look_at(chunk, state.d2, shared.keys)


def assigned(chunk: Chunk, centers: Floats) -> RowState:
    """D², label and bound of each row for these centres."""
    d2, labels = chunk.empty(chunk.dtype), chunk.empty(np.int32)
    others = chunk.empty(np.float32)
    everywhere = all_positions(chunk.n_rows)
    assign(chunk.rows, everywhere, centers, pack(centers), labels, d2, others)
    return RowState(d2, labels, others)


def _assign_moved(chunk: Chunk, state: RowState, shared: Moved) -> tuple[RowState, Reassigned]:
    """As `_assign`, to the bit, but comparing centres only for rows that bounds leave in doubt."""
    centers, changes = shared.centers, no_totals(shared.centers)
    d2, labels = chunk.empty(chunk.dtype), chunk.empty(np.int32)
    others = chunk.empty(np.float32)
    reassign(
        chunk.rows, centers, shared.packed, shared.slack, state.labels, state.others,
        state.kept, labels, others, d2, changes.sums, changes.mass,
    )  # fmt: skip
    if shared.near is not None and state.kept.size:
        _note_undecided(chunk, d2, state.kept, shared.near)
    look = look_at(chunk, d2, shared.keys)
    return RowState(d2, labels, others, state.kept), Reassigned(look, changes)


def _note_undecided(chunk: Chunk, d2: Floats, kept: NDArray[np.uint8], near: Near) -> None:
    """Note the rows that the next cut may put on the other side of it."""
    if chunk.takes_notes:
        chunk.note(np.flatnonzero(np.where(kept, d2 >= near.low, d2 <= near.high)))


def _assign_new(chunk: Chunk, state: RowState, new: NewCenters) -> tuple[RowState, None]:
    found = assigned(chunk, new.centers)
    farther = found.d2 >= state.d2
    found.labels[:] += np.int32(new.first_label)
    np.copyto(found.labels, state.labels if state.labels.size else np.int32(0), where=farther)
    np.copyto(found.d2, state.d2, where=farther)
    if new.ahead is not None:
        note_likely(chunk, found.d2, new.ahead)
    return RowState(found.d2, found.labels), None


def _add_reassigned(parts: Sequence[Reassigned]) -> Reassigned:
    looks = add_histograms([part.look for part in parts])
    return Reassigned(looks, add_totals([part.changes for part in parts]))


ASSIGN = Sweep(_assign, add_histograms)
ASSIGN_MOVED = Sweep(_assign_moved, _add_reassigned)
ASSIGN_NEW = Sweep(_assign_new, nothing)
