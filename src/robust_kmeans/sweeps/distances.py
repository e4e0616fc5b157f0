"""Sweeps that measure rows against centres: each one is one reading of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.assign import assign
from robust_kmeans.kernels.bounds import measure_own, other_distances, reassign
from robust_kmeans.kernels.dues import Bounds, Ways
from robust_kmeans.kernels.packing import Comparable, pack
from robust_kmeans.kernels.team import EVERY_PART, n_parts_of
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work, all_positions, in_parts, nothing
from robust_kmeans.sweeps.coins import NextCoins, note_likely
from robust_kmeans.sweeps.order import Histogram, KeyRange, add_histograms, look_at
from robust_kmeans.sweeps.totals import ClusterTotals, add_totals, no_totals

Floats = NDArray[np.floating]
Look = Histogram | None

NO_BOUNDS: NDArray[np.float32] = np.empty(0, np.float32)


class Centers(NamedTuple):
    """Centres to measure, and the key range to make a histogram of D² over on the way."""

    centers: Floats
    keys: KeyRange | None = None


class Band(NamedTuple):
    """A range of D² in which the cut is, and in which D² is exact."""

    low: float
    high: float

    def holds(self, part: Band) -> bool:
        """Whether it covers that range."""
        return self.low <= part.low and part.high <= self.high


EVERYWHERE = Band(0.0, np.inf)
BEYOND = Band(np.inf, np.inf)
"""Where the cut is that leaves all rows inside."""
NOT_KNOWN = Band(np.inf, 0.0)
"""Holds nothing."""


class BoundedState(NamedTuple):
    """What Lloyd keeps per row between moves; see `kernels.bounds`.

    `d2` is exact within `band`; elsewhere it is that of an earlier move, on the same side of it.
    `due` is empty if every row is looked at.  Steps write into these arrays, as nobody asks for an
    earlier state again, where a chunk does not keep them.
    """

    d2: Floats
    labels: NDArray[np.int32]
    others: NDArray[np.floating]
    due: NDArray[np.float32]
    kept: NDArray[np.uint8]
    band: Band


class Moved(NamedTuple):
    """Centres after a move, packed for all chunks at once, and what is known of the way there.

    `ways_before` are those before this move.  The next cut is expected within `near`.
    """

    centers: Floats
    packed: Comparable
    ways_before: Ways
    bounds: Bounds
    keys: KeyRange | None = None
    near: Band | None = None

    @property
    def band(self) -> Band:
        """In which D² is to be exact."""
        return Band(self.bounds.low, self.bounds.high)


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


@in_parts(lambda chunk, _shared: n_parts_of(chunk.n_rows))
def _assign(chunk: Chunk, _state: object, shared: Centers) -> tuple[RowState, Look]:
    state = assigned(chunk, shared.centers)
    return state, look_at(chunk, state.d2, shared.keys)


def assigned(chunk: Chunk, centers: Floats) -> RowState:
    """D², label and bound of each row for these centres."""
    d2, labels = chunk.empty(chunk.dtype), chunk.empty(np.int32)
    others = chunk.empty(np.float32)
    everywhere = all_positions(chunk.n_rows)
    assign(
        EVERY_PART, n_parts_of(chunk.n_rows), chunk.rows, everywhere, centers, pack(centers),
        labels, d2, others, chunk.team,
    )  # fmt: skip
    return RowState(d2, labels, others)


@in_parts(lambda chunk, shared: n_parts_of(chunk.n_rows, len(shared.centers)))
def _assign_moved(
    chunk: Chunk, state: RowState | BoundedState, shared: Moved
) -> tuple[BoundedState, Reassigned]:
    """As `_assign`, to the bit, for rows that may have a new label or be near the cut."""
    state = _writable(chunk, state, shared)
    every = not state.band.holds(shared.band)
    sums, mass, costs = no_totals(shared.centers, n_parts_of(chunk.n_rows, len(shared.centers)))
    reassign(
        EVERY_PART, chunk.rows, shared.centers, shared.packed, shared.bounds, every,
        state.labels, state.d2, state.others, state.due, state.kept, sums, mass, costs,
        chunk.team,
    )  # fmt: skip
    if shared.near is not None and state.kept.size:
        _note_undecided(chunk, state.d2, state.kept, shared.near)
    look = look_at(chunk, state.d2, shared.keys)
    changes = ClusterTotals(sums[0], mass[0], float(costs[0]))
    return state._replace(band=shared.band), Reassigned(look, changes)


def _writable(chunk: Chunk, state: RowState | BoundedState, shared: Moved) -> BoundedState:
    """A state that the step may write into, as it was before the move."""
    if isinstance(state, BoundedState):
        return _copied(chunk, state) if chunk.keeps_states else state
    bounded = shared.bounds.gaps.size > 0
    made = _copied(chunk, BoundedState(*state[:3], due=NO_BOUNDS, kept=state.kept, band=NOT_KNOWN))
    # Where all rows are looked at, none is asked.
    if bounded and shared.band != EVERYWHERE:
        made = made._replace(due=chunk.empty(np.float32))
    if bounded and shared.bounds.measure_first:
        made.others[:] += shared.ways_before.others[made.labels] * np.float32(1 - 1e-6)
    return made


def _copied(chunk: Chunk, state: BoundedState) -> BoundedState:
    def copy(array: NDArray[Any]) -> NDArray[Any]:
        if array.size:
            array, original = chunk.empty(array.dtype), array
            array[:] = original
        return array

    d2, labels, others, due, kept, band = state
    return BoundedState(copy(d2), copy(labels), copy(others), copy(due), kept, band)


def _note_undecided(chunk: Chunk, d2: Floats, kept: NDArray[np.uint8], near: Band) -> None:
    """Note the rows that the next cut may put on the other side of it."""
    if chunk.takes_notes:
        chunk.note(np.flatnonzero(np.where(kept, d2 >= near.low, d2 <= near.high)))


@in_parts(lambda chunk, _shared: n_parts_of(chunk.n_rows))
def _measure(
    chunk: Chunk, state: RowState | BoundedState, centers: Floats
) -> tuple[RowState | BoundedState, None]:
    if isinstance(state, RowState):
        return state, None
    d2 = chunk.empty(chunk.dtype) if chunk.keeps_states else state.d2
    n_parts = n_parts_of(chunk.n_rows)
    measure_own(EVERY_PART, n_parts, chunk.rows, centers, state.labels, d2, chunk.team)
    return state._replace(d2=d2), None


def _settle(chunk: Chunk, state: RowState | BoundedState, ways: Ways) -> tuple[RowState, None]:
    if isinstance(state, RowState):
        return state, None
    others = chunk.empty(np.float32)
    other_distances(state.labels, state.others, ways.others, others)
    return RowState(state.d2, state.labels, others, state.kept), None


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
MEASURE = Sweep(_measure, nothing)
"""D² of all rows, where it is of an earlier move."""
SETTLE = Sweep(_settle, nothing, work=Work.STATES)
"""The states of `ASSIGN`, where D² is exact."""
