"""Centres that are chosen one after the other: readings of X, and what they save.

All seedings that draw row after row with chances ∝ w·min(D², τ) grow their centres here.

*Several centres per reading.*  Chances never rise while centres are added and τ does not rise.
So where readings are long or many, each serves some rows more than the one to be taken: proposals
for the next centres, drawn from the chances of now.  When their turn comes, each is accepted with
the share of its chance that is left, and otherwise dropped: that is exactly a draw from the
chances of then (rejection sampling).  An accepted one needs no reading, because the reading has
noted which rows it wins; ρ and τ follow from D² alone.

*Rows that are not read.*  With many centres, each row's label is kept, and rows for which the
triangle inequality rules out every candidate are left out, as long as that is many of them.
Neither changes a bit of D².

Cost per centre: at most one reading of X and one or two passes over D²; with proposals that are
accepted half or an eighth of a reading, and with the filter only the rows in doubt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.kernels.row_blocks import WIDE
from robust_kmeans.seeding.drawing import EQUAL_CHANCES, clipped, draw
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.order import HISTOGRAM, Histogram, KeyRange, estimates
from robust_kmeans.sweeps.sampling import Row, row_d2
from robust_kmeans.sweeps.seeding import (
    PRICE,
    READ_AGAIN,
    READ_AND_TAKE,
    START,
    TAKE,
    Pricing,
    ReadAndTake,
    Reading,
    Taking,
)
from robust_kmeans.trimming import find_cut, where_to_look

# A reading of wide rows takes longer than to measure several candidates, and with many centres
# there are many readings to save: several per reading from so many bytes of a row, times centres.
WORTH_PROPOSALS = 2048
MOST_PROPOSALS = 8
# Narrow rows of so many bytes, of which there are more than caches hold, come so slowly that a
# second candidate is measured meanwhile; not for fewer centres than pay for the memory of notes.
SLOW_ROW = 64
FROM_MEMORY = 2**24
ENOUGH_CENTERS = 10
# From this many centres on labels are kept, to filter rows by; not for rows of fewer bytes, which
# are as quick to read, for all candidates at once, as their labels are to keep.
FILTERED = 32
FILTERED_ROW = 256
# The filter pauses for some readings when it leaves more than this share of the rows.
USELESS_SHARE = 0.9
PAUSE = 4
# By so much of it a price may be off because sums were made in another order.
ROUNDING = 1e-9


class Proposal(NamedTuple):
    """A row that may become a centre: its number in the reading, and its chance when drawn."""

    row: Row
    number: int
    chance: float


@dataclass
class Work:
    """What readings have cost: how many there were, and how many rows they have looked at."""

    n_readings: int = 0
    n_rows: int = 0


class Growth:
    """Rows that are chosen as centres one after the other, and the cut that belongs to them.

    Parameters
    ----------
    data : Execution
    most : int
        How many rows will be chosen at most; of the last one nothing but its place is needed.
    n_outliers : float
        The weight to trim.
    random : numpy.random.RandomState
        Draws the first row, uniformly (by weight), and what follows.

    Attributes
    ----------
    rows : list of Row
    states : States
        D² of all rows to the nearest of the chosen ones.
    cut : Cut
        Where nothing is to be trimmed, one that keeps all rows, at an unknown cost.
    work : Work
    """

    def __init__(
        self,
        data: Execution,
        most: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> None:
        self.rows: list[Row] = []
        self.cut = Cut(value=np.inf, row=0, trimmed=0.0, weight=0.0, cost=np.inf)
        self.work = Work()
        self._data, self._most, self._n_outliers, self._random = data, most, n_outliers, random
        row_bytes = data.n_features * data.dtype.itemsize
        self._most_proposals = _most_proposals(row_bytes, data.n_rows, most)
        self._proposals: deque[Proposal] = deque()
        self._fits = np.ones(1, bool)
        self._n_accepted = 1
        self._filtered = most >= FILTERED and row_bytes >= FILTERED_ROW
        self._pause = 0
        # The last look at D², and what it was over.
        self._keys: KeyRange | None = None
        self._look: Histogram | None = None
        self.states, _ = data.run(START, None, self._filtered)
        self._read_and_take(draw(data, self.states, EQUAL_CHANCES, random.uniform(size=1)))

    def add_drawn(self, tau: float) -> bool:
        """Draw a row with chances ∝ w·min(D², τ) as the next centre; False where all are 0."""
        while self._proposals:
            row, number, chance = self._proposals.popleft()
            left = min(self._d2_of(row), tau)
            if self._random.uniform() * chance < left:
                self._n_accepted += 1
                if not self._is_last(row):
                    self._take(row, number, more=bool(self._proposals))
                return True
        n_wanted = min(self._n_accepted + 1, self._most_proposals, self._most - len(self.rows))
        drawn = draw(self._data, self.states, clipped(tau), self._random.uniform(size=n_wanted))
        if not drawn:
            return False
        self._proposals.extend(
            Proposal(row, number, min(self._d2_of(row), tau))
            for number, row in enumerate(drawn[1:], start=1)
        )
        self._n_accepted = 1
        if not self._is_last(drawn[0]):
            self._read_and_take(drawn)
        return True

    def add_best(self, candidates: Sequence[Row]) -> None:
        """Make that row a centre which leaves the least trimmed cost; the first of equals.

        One reading prices all candidates; the cut is searched only for those among which the
        prices cannot decide, almost always one.
        """
        different = _different(candidates)
        if len(different) == 1:
            self._read_and_take(different)
            return
        if self._n_outliers:
            self._look_near_the_cut()
        reading = self._reading(different)
        pricing = Pricing(reading, self._keys)
        self.states, found = self._data.run(PRICE, self.states, pricing)
        n_read, changes, self._fits = found
        self._count(reading, n_read)
        undecided = _undecided(changes, self._look, self._keys, self._n_outliers, self._data.dtype)
        if len(undecided) == 1:
            self._take(different[undecided[0]], undecided[0])
            return
        costs = [self._taken(number, tried=True)[1].cost for number in undecided]
        best = undecided[int(np.argmin(costs))]
        self._take(different[best], best)

    def _is_last(self, row: Row) -> bool:
        """Whether this row is the last: then it is noted, and D² is not brought up to date."""
        last = len(self.rows) + 1 == self._most
        if last:
            self.rows.append(row)
        return last

    def _read_and_take(self, rows: Sequence[Row]) -> None:
        """One reading for some rows, of which the first becomes a centre."""
        self._keys = where_to_look(self._data.dtype, self.cut) if self._n_outliers else None
        reading = self._reading(rows)
        taking = Taking(0, len(self.rows), len(rows) > 1, self._keys)
        shared = ReadAndTake(reading, taking)
        self.states, found = self._data.run(READ_AND_TAKE, self.states, shared)
        n_read, self._look, self._fits = found
        self._count(reading, n_read)
        self.rows.append(rows[0])
        if self._n_outliers:
            self.cut = find_cut(self._data, self.states, self._n_outliers, self._keys, self._look)

    def _take(self, row: Row, number: int, *, more: bool = False) -> None:
        """Make a candidate of the last reading a centre."""
        self.states, self.cut, self._keys, self._look = self._taken(number, more=more)
        self.rows.append(row)

    def _taken(
        self, number: int, *, more: bool = False, tried: bool = False
    ) -> tuple[States, Cut, KeyRange | None, Histogram | None]:
        """States, cut and look, if a candidate of the last reading became a centre."""
        keys = where_to_look(self._data.dtype, self.cut) if self._n_outliers else None
        taking = Taking(number, len(self.rows), more, keys, tried)
        sweep = TAKE if self._fits[number] else READ_AGAIN
        states, look = self._data.run(sweep, self.states, taking)
        cut = self.cut
        if self._n_outliers:
            cut = find_cut(self._data, states, self._n_outliers, keys, look)
        return states, cut, keys, look

    def _look_near_the_cut(self) -> None:
        """Look again where the last look does not show what candidates may do to the cut."""
        keys = where_to_look(self._data.dtype, self.cut)
        last = self._keys or KeyRange(0, keys.high)
        if last.shift > keys.shift + 2 or last.low > (keys.low + keys.high) // 2:
            self._keys = keys
            self.states, self._look = self._data.run(HISTOGRAM, self.states, keys)

    def _d2_of(self, row: Row) -> float:
        chunk = int(np.searchsorted(self._data.bounds, row.index, side="right")) - 1
        return self._data.at(chunk, row_d2, self.states, row.index)

    def _reading(self, rows: Sequence[Row]) -> Reading:
        points = np.array([row.point for row in rows])
        if not self._filtered or not self.rows:
            return Reading(points)
        if self._pause:
            self._pause -= 1
            return Reading(points)
        return Reading(points, _reach(np.array([row.point for row in self.rows]), points))

    def _count(self, reading: Reading, n_read: int) -> None:
        self.work.n_readings += 1
        self.work.n_rows += n_read
        if reading.reach.size and n_read > USELESS_SHARE * self._data.n_rows:
            self._pause = PAUSE


def _most_proposals(row_bytes: int, n_rows: int, most: int) -> int:
    """How many candidates a reading serves at most."""
    if row_bytes * most >= WORTH_PROPOSALS:
        return MOST_PROPOSALS
    slow = SLOW_ROW <= row_bytes < WIDE and row_bytes * n_rows >= FROM_MEMORY
    return 2 if slow and most >= ENOUGH_CENTERS else 1


def _different(rows: Sequence[Row]) -> list[Row]:
    """The rows without those that are equal to an earlier one."""
    first: dict[bytes, Row] = {}
    for row in rows:
        first.setdefault(row.point.tobytes(), row)
    return list(first.values())


def _reach(centers: NDArray[np.floating], points: NDArray[np.floating]) -> NDArray[np.floating]:
    """Per centre, the largest D² of its rows with which no point can win one, if rounded so."""
    gaps = np.min([np.sum((centers - point) ** 2, axis=1) for point in points], axis=0)
    info = np.finfo(centers.dtype)
    reach = gaps * ((1 - 16 * (centers.shape[1] + 4) * info.eps) / 4)
    # Below this squares have lost digits, and no margin holds.
    return np.where(gaps > info.tiny / info.eps, reach, -1).astype(centers.dtype)


def _undecided(
    changes: NDArray[np.float64],
    look: Histogram | None,
    keys: KeyRange | None,
    n_outliers: float,
    dtype: np.dtype[Any],
) -> list[int]:
    """Candidates that may leave the least cost, as far as prices tell."""
    if look is None or keys is None:
        return [int(np.argmin(changes[1, :, 0]))]
    costs, errors = estimates(look, keys, changes, n_outliers, dtype)
    errors += ROUNDING * np.abs(costs)
    return np.flatnonzero(costs - errors <= np.min(costs + errors)).tolist()
