"""Sweeps of the seedings: candidates are read against all rows, and one after the other taken.

A reading notes, for each candidate, the rows that it would win and their new D².  Taking a
candidate then needs no reading, not even if others were taken in between; only where a
candidate wins so many rows that noting them would take too much memory, it is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import candidates, order
from robust_kmeans.sweeps.base import (
    NO_LABELS,
    Chunk,
    Sweep,
    add_arrays,
    all_positions,
    nothing,
)
from robust_kmeans.sweeps.order import N_BINS, Histogram, KeyRange, add_histograms, look_at

Floats = NDArray[np.floating]
NO_REACH: Floats = np.empty(0)
# So many won rows are noted per row of a chunk, shared by all candidates.
ROOM = 1.0


class Noted(NamedTuple):
    """Per candidate: its place (L, d); how many rows it wins (L,), which (L, c), their D² (L, c).

    Those that do not fit are not noted.
    """

    points: Floats
    n_won: NDArray[np.int64]
    rows: NDArray[np.int32]
    d2: Floats


class SeedState(NamedTuple):
    """D² of each row to its nearest centre, and perhaps that centre's label.

    And what the last reading has noted of candidates, if some of them may still be taken.
    """

    d2: Floats
    labels: NDArray[np.int32] = NO_LABELS
    noted: Noted | None = None


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

    And whether others may be taken later, and the key range to look at D² over.
    """

    candidate: int
    label: int
    more: bool = False
    keys: KeyRange | None = None


class ReadAndTake(NamedTuple):
    """Candidates to read, and the one of them to take at once."""

    reading: Reading
    taking: Taking


class ReadAndTaken(NamedTuple):
    """How many rows were read, and a look at D² after that."""

    n_read: int
    look: Histogram | None


class Priced(NamedTuple):
    """How many rows were read, and what bins gain or lose: weight and cost (2, L, bins)."""

    n_read: int
    changes: NDArray[np.float64]


def _start(chunk: Chunk, _state: None, labelled: bool) -> tuple[SeedState, None]:
    d2 = chunk.empty(chunk.rows.dtype)
    d2[:] = np.inf
    return SeedState(d2, np.zeros(len(d2), np.int32) if labelled else NO_LABELS), None


def _read(chunk: Chunk, state: SeedState, reading: Reading) -> tuple[SeedState, int]:
    return _noted(chunk, state, reading, np.zeros((0, 0)), np.zeros((0, 0)), None)


def _price(chunk: Chunk, state: SeedState, pricing: Pricing) -> tuple[SeedState, Priced]:
    reading, keys = pricing
    shape = (len(reading.points), 1 if keys is None else N_BINS + 2)
    changes = np.zeros((2, *shape))
    state, n_read = _noted(chunk, state, reading, changes[0], changes[1], keys)
    return state, Priced(n_read, changes)


def _noted(
    chunk: Chunk,
    state: SeedState,
    reading: Reading,
    mass: NDArray[np.float64],
    sums: NDArray[np.float64],
    keys: KeyRange | None,
) -> tuple[SeedState, int]:
    points, d2 = reading.points, state.d2
    shape = (1, len(d2)) if len(points) == 1 else (len(points), int(ROOM * len(d2)) // len(points))
    rows = chunk.empty(np.int32)[: shape[0] * shape[1]].reshape(shape)
    values = chunk.empty(d2.dtype)[: shape[0] * shape[1]].reshape(shape)
    n_won = np.zeros(len(points), np.int64)
    which = all_positions(len(d2))
    if reading.reach.size:
        doubtful = chunk.empty(np.int32)
        which = doubtful[: candidates.doubtful_rows(d2, state.labels, reading.reach, doubtful)]
    key_type = order.KEYS[d2.dtype]
    low, shift, least = 0, 0, d2.dtype.type(np.inf)
    if keys is not None:
        low, shift, least = keys.low, keys.shift, order.value_of(keys.low, d2.dtype)
    candidates.try_candidates(
        chunk.rows, which, d2, np.empty(0, key_type), chunk.weights, points, least, low, shift,
        n_won, rows, values, mass, sums,
    )  # fmt: skip
    return state._replace(noted=Noted(points, n_won, rows, values)), len(which)


def _take(chunk: Chunk, state: SeedState, taking: Taking) -> tuple[SeedState, Histogram | None]:
    assert state.noted is not None
    i, noted = taking.candidate, state.noted
    d2 = chunk.empty(state.d2.dtype)
    d2[:] = state.d2
    labels = NO_LABELS
    if state.labels.size:
        labels = chunk.empty(np.int32)
        labels[:] = state.labels
    if noted.n_won[i] <= noted.rows.shape[1]:
        rows, values = noted.rows[i, : noted.n_won[i]], noted.d2[i, : noted.n_won[i]]
    else:
        alone = state._replace(noted=None)
        again = _read(chunk, alone, Reading(noted.points[i : i + 1]))[0].noted
        assert again is not None
        rows, values = again.rows[0, : again.n_won[0]], again.d2[0, : again.n_won[0]]
    candidates.take(rows, values, taking.label, d2, labels)
    state = SeedState(d2, labels, noted if taking.more else None)
    return state, look_at(chunk, d2, taking.keys)


def _read_and_take(
    chunk: Chunk, state: SeedState, shared: ReadAndTake
) -> tuple[SeedState, ReadAndTaken]:
    state, n_read = _read(chunk, state, shared.reading)
    state, found = _take(chunk, state, shared.taking)
    return state, ReadAndTaken(n_read, found)


def _add_read_and_taken(parts: Sequence[ReadAndTaken]) -> ReadAndTaken:
    looks = add_histograms([part.look for part in parts])
    return ReadAndTaken(sum(part.n_read for part in parts), looks)


def _add_priced(parts: Sequence[Priced]) -> Priced:
    changes = add_arrays([part.changes for part in parts])
    return Priced(sum(part.n_read for part in parts), changes)


START = Sweep(_start, nothing)
READ_AND_TAKE = Sweep(_read_and_take, _add_read_and_taken)
"""One reading of X for some candidates, of which one is taken at once."""
PRICE = Sweep(_price, _add_priced)
"""One reading of X for some candidates: weight and cost that bins of D² gain or lose with each."""
TAKE = Sweep(_take, add_histograms)
"""A candidate of the last reading becomes a centre."""
