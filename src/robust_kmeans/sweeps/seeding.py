"""Sweeps of the seedings: candidates are read against all rows, and one after the other taken.

A reading notes, for each candidate, the rows that it would win and their new D².  Taking a
candidate then needs no reading, not even if others were taken in between; only where a
candidate wins so many rows that noting them would take too much memory, it is read again.

D² only falls, and what falls is written where it was: nobody asks for an earlier state, but where a
candidate is only tried, and where chunks keep them.  A step that is done twice does nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import candidates, distances, order
from robust_kmeans.kernels.team import EVERY_PART, n_parts_of
from robust_kmeans.sweeps.base import (
    NO_LABELS,
    Chunk,
    Sweep,
    Work,
    add_arrays,
    all_positions,
    in_parts,
    nothing,
)
from robust_kmeans.sweeps.order import (
    N_BINS,
    Histogram,
    KeyRange,
    Listed,
    add_histograms,
    look_and_list,
)

Floats = NDArray[np.floating]
NO_REACH: Floats = np.empty(0)
ALL_FIT = np.ones(1, bool)
# So many won rows are noted per row of a chunk, shared by all candidates.
ROOM = 1.0
# A row by itself takes as long to read as one among its neighbours that is so many bytes longer.
ASTRAY = 64


class Noted(NamedTuple):
    """Per candidate: its place (L, d); how many rows it wins (L,), which (L, c), their D² (L, c).

    Those that do not fit are not noted.
    """

    points: Floats
    n_won: NDArray[np.int64]
    rows: NDArray[np.int32]
    d2: Floats

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Per candidate (L,), whether all that it wins is noted."""
        return np.less_equal(self.n_won, self.rows.shape[1])


class SeedState(NamedTuple):
    """D² of each row to its nearest centre, and perhaps that centre's label.

    And what the last reading has noted of candidates, if some of them may still be taken; and the
    rows that the last look at this D² has shown, if they are few.
    """

    d2: Floats
    labels: NDArray[np.int32] = NO_LABELS
    noted: Noted | None = None
    listed: Listed | None = None


class Reading(NamedTuple):
    """Candidates to read (L, d).

    With `reach`, only rows whose D² is larger than their centre's entry can be won.
    """

    points: Floats
    reach: Floats = NO_REACH


class Pricing(NamedTuple):
    """Candidates to read and to price: over the bins of these keys, or as a whole."""

    reading: Reading
    keys: KeyRange | None


class Taking(NamedTuple):
    """Which of the noted candidates becomes the centre with this label.

    And whether others may be taken later, the key range to look at D² over, and whether the state
    without it is still needed.
    """

    candidate: int
    label: int
    more: bool = False
    keys: KeyRange | None = None
    tried: bool = False


class ReadAndTake(NamedTuple):
    """Candidates to read, and the one of them to take at once."""

    reading: Reading
    taking: Taking


class ReadAndTaken(NamedTuple):
    """How many rows were read, a look at D² after that, and whose won rows are noted (L,)."""

    n_read: int
    look: Histogram | None
    fits: NDArray[np.bool_]


class Priced(NamedTuple):
    """How many rows were read, what bins gain or lose, and whose won rows are noted (L,).

    Bins gain and lose weight and cost (2, L, bins).
    """

    n_read: int
    changes: NDArray[np.float64]
    fits: NDArray[np.bool_]


def _start(chunk: Chunk, _state: None, labelled: bool) -> tuple[SeedState, None]:
    d2 = chunk.empty(chunk.dtype)
    d2[:] = np.inf
    labels = chunk.empty(np.int32) if labelled else NO_LABELS
    labels[:] = 0
    return SeedState(d2, labels), None


@in_parts(lambda chunk, shared: 1 if shared.reading.reach.size else n_parts_of(chunk.n_rows))
def _read_and_take(
    chunk: Chunk, state: SeedState, shared: ReadAndTake
) -> tuple[SeedState, ReadAndTaken]:
    points, reach = shared.reading
    if len(points) == 1:
        state, n_read = _with_center(chunk, state, points, reach, shared.taking)
        fits = ALL_FIT
    elif distances.is_narrow(chunk.rows) and not state.labels.size:
        state, noted = _with_first(chunk, state, points, shared.taking)
        n_read, fits = chunk.n_rows, noted.fits
    else:
        state, noted, n_read, _ = _noted(chunk, state, shared.reading, 0, None)
        state, fits = _with_noted(chunk, state, shared.taking), noted.fits
    state, look = _looked_at(chunk, state, shared.taking.keys)
    return state, ReadAndTaken(n_read, look, fits)


@in_parts(lambda chunk, _shared: n_parts_of(chunk.n_rows))
def _price(chunk: Chunk, state: SeedState, pricing: Pricing) -> tuple[SeedState, Priced]:
    reading, keys = pricing
    n_bins = 1 if keys is None else N_BINS + 2
    state, noted, n_read, changes = _noted(chunk, state, reading, n_bins, keys)
    return state, Priced(n_read, changes, noted.fits)


def _take(chunk: Chunk, state: SeedState, taking: Taking) -> tuple[SeedState, Histogram | None]:
    return _looked_at(chunk, _with_noted(chunk, state, taking), taking.keys)


def _looked_at(
    chunk: Chunk, state: SeedState, keys: KeyRange | None
) -> tuple[SeedState, Histogram | None]:
    look, listed = look_and_list(chunk, state.d2, keys)
    return state._replace(listed=listed), look


def _with_noted(chunk: Chunk, state: SeedState, taking: Taking) -> SeedState:
    """The state with one of the noted candidates."""
    assert state.noted is not None
    i, noted = taking.candidate, state.noted
    if noted.fits[i]:
        won = slice(0, noted.n_won[i])
        after = _writable(chunk, state, taking)
        candidates.take(noted.rows[i, won], noted.d2[i, won], taking.label, after.d2, after.labels)
    else:
        point = noted.points[i : i + 1]
        after, _ = _with_center(chunk, state, point, NO_REACH, taking)
    return after._replace(noted=noted if taking.more else None)


def _noted(
    chunk: Chunk,
    state: SeedState,
    reading: Reading,
    n_bins: int,
    keys: KeyRange | None,
) -> tuple[SeedState, Noted, int, NDArray[np.float64]]:
    """What candidates would win; how many rows were read; what bins gain or lose (2, L, bins)."""
    points, d2 = reading.points, state.d2
    low, shift, least = 0, 0, d2.dtype.type(np.inf)
    if keys is not None:
        low, shift, least = keys.low, keys.shift, order.value_of(keys.low, d2.dtype)
    which = _in_doubt(chunk, state, reading.reach)
    n_won, rows, values = _empty_notes(chunk, points)
    changes = _no_changes(chunk, (2, n_won.shape[1], len(points) if n_bins else 0, n_bins))
    candidates.try_candidates(
        EVERY_PART, chunk.rows, which, d2, order.keys_of(d2), chunk.weights, points, least, low,
        shift, n_won, rows, values, changes[0], changes[1], chunk.team,
    )  # fmt: skip
    noted = Noted(points, n_won[:, 0], rows, values)
    return state._replace(noted=noted), noted, len(which), changes[:, 0].copy()


def _no_changes(chunk: Chunk, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros, in memory that the chunk has used before where they fit."""
    n_values = math.prod(shape)
    if n_values > chunk.n_rows:
        return np.zeros(shape)
    changes: NDArray[np.float64] = chunk.empty(np.float64)[:n_values].reshape(shape)
    changes[:] = 0
    return changes


def _with_first(
    chunk: Chunk, state: SeedState, points: Floats, taking: Taking
) -> tuple[SeedState, Noted]:
    """The state with the first of some candidates, and what the others would win after that."""
    after = _writable(chunk, state, taking)
    n_won, rows, values = _empty_notes(chunk, points)
    candidates.add_first_and_try(
        EVERY_PART, chunk.rows, points, after.d2, n_won, rows, values, chunk.team
    )
    noted = Noted(points, n_won[:, 0], rows, values)
    return after._replace(noted=noted), noted


def _empty_notes(
    chunk: Chunk, points: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """Room for notes: how many rows each candidate wins (L, p), which (L, c), their D² (L, c)."""
    n_parts = n_parts_of(chunk.n_rows)
    room = int(ROOM * chunk.n_rows) // len(points)
    rows, values = (
        chunk.empty(dtype)[: len(points) * room].reshape(len(points), room)
        for dtype in (np.int32, chunk.dtype)
    )
    return np.zeros((len(points), n_parts), np.int64), rows, values


def _with_center(
    chunk: Chunk, state: SeedState, point: Floats, reach: Floats, taking: Taking
) -> tuple[SeedState, int]:
    """The state with one more centre; and how many rows were read."""
    which = _in_doubt(chunk, state, reach)
    after = _writable(chunk, state, taking)
    if len(which) < len(state.d2):
        candidates.add_center_to(chunk.rows, which, point, taking.label, after.d2, after.labels)
    else:
        candidates.add_center(
            EVERY_PART, n_parts_of(chunk.n_rows), chunk.rows, point, taking.label, after.d2,
            after.labels, chunk.team,
        )  # fmt: skip
    return after, len(which)


def _in_doubt(chunk: Chunk, state: SeedState, reach: Floats) -> NDArray[np.int32]:
    """Positions of the rows that may be won, as far as `reach` tells; or all.

    All of them, in their order, are as quick to read as a part of them here and there.
    """
    n_rows = len(state.d2)
    if reach.size:
        found = np.empty(n_rows, np.int32)
        n_found = candidates.doubtful_rows(state.d2, state.labels, reach, found)
        n_bytes = chunk.n_features * chunk.dtype.itemsize
        if n_found * (n_bytes + ASTRAY) < n_rows * n_bytes:
            return found[:n_found]
    return all_positions(n_rows)


def _writable(chunk: Chunk, state: SeedState, taking: Taking) -> SeedState:
    """A state, without notes and lists, that the step may write into."""
    if not (taking.tried or chunk.keeps_states):
        return state._replace(noted=None, listed=None)
    copy = SeedState(
        chunk.empty(state.d2.dtype), chunk.empty(np.int32) if state.labels.size else NO_LABELS
    )
    copy.d2[:], copy.labels[:] = state.d2, state.labels
    return copy


def _add_read_and_taken(parts: Sequence[ReadAndTaken]) -> ReadAndTaken:
    looks = add_histograms([part.look for part in parts])
    return ReadAndTaken(sum(part.n_read for part in parts), looks, _fit_everywhere(parts))


def _add_priced(parts: Sequence[Priced]) -> Priced:
    changes = add_arrays([part.changes for part in parts])
    return Priced(sum(part.n_read for part in parts), changes, _fit_everywhere(parts))


def _fit_everywhere(parts: Sequence[ReadAndTaken] | Sequence[Priced]) -> NDArray[np.bool_]:
    everywhere = parts[0].fits
    for part in parts[1:]:
        everywhere = everywhere & part.fits
    return everywhere


START = Sweep(_start, nothing, work=Work.STATES)
READ_AND_TAKE = Sweep(_read_and_take, _add_read_and_taken)
"""One reading of X for some candidates, of which one is taken at once."""
PRICE = Sweep(_price, _add_priced)
"""One reading of X for some candidates: weight and cost that bins of D² gain or lose with each."""
TAKE = Sweep(_take, add_histograms, work=Work.LIGHT)
"""A candidate of the last reading becomes a centre: one whose won rows are noted."""
READ_AGAIN = Sweep(_take, add_histograms)
"""The same where in some chunks they are not."""
