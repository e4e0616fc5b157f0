"""The exact cut: which z rows are farthest, found from summaries that merge.

The objective of this library is the trimmed cost ρ, the sum of the n − z smallest D².
It needs the (z+1)-th largest D², and, where rows are tied there, which of them go: those
with the lowest row index.  No distances are gathered and nothing is sorted.  A histogram
over the bit patterns of D² finds the bin in which the cut falls; the search narrows to
that bin until it holds few enough rows to look at, or only one value.

Cost: passes over D², none over the rows.  Sweeps that measure distances make the first
histogram on the way, near the last cut; then one more, which looks for the rows of one bin, is
usually enough, and where states list the farthest rows it is over those only.  Without a last cut
it is one or two more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.kernels.order import KEYS, value_of
from robust_kmeans.sweeps.base import Sweep
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.distances import ASSIGN, Centers
from robust_kmeans.sweeps.order import (
    COST_BELOW,
    HISTOGRAM,
    MASS_AT,
    N_BINS,
    ROWS_WITHIN,
    Asked,
    Histogram,
    KeyRange,
    Ties,
    find_tie,
)

# So many rows are looked at one by one; it bounds the largest summary that travels.
FEW_ROWS = 1024
# The next first look shows so many times the weight that is trimmed, and at least this share of
# all, or so many rows as cost nothing: rows that it shows take time, and a cut that it does not
# show another pass.  Never more than so many octaves below the cut: its bins would be coarse.
NEARBY = 6.0
LEAST_NEARBY = 1 / 32
NOTHING = 2048
WIDEST = 4
# Per dtype: how many keys there are from a value up to its double, and behind infinity's.
OCTAVE = {dtype: 1 << int(np.finfo(dtype).nmant) for dtype in KEYS}
END = {dtype: int(dtype.type(np.inf).view(key)) + 1 for dtype, key in KEYS.items()}


@dataclass(frozen=True)
class Placed:
    """Centres, and the assignment and the cut that belong to exactly these."""

    centers: NDArray[np.floating]
    states: States
    cut: Cut

    @property
    def inertia(self) -> float:
        """The trimmed cost ρ of the centres."""
        return self.cut.cost


def place(
    data: Execution, centers: NDArray[np.floating], n_outliers: float, last: Cut | None = None
) -> Placed:
    """Assign all rows to `centers`, and cut (near the `last` cut of similar states)."""
    return Placed(centers, *run_and_cut(data, ASSIGN, None, Centers(centers), n_outliers, last))


def run_and_cut(
    data: Execution,
    sweep: Sweep[Any, Histogram | None],
    states: States,
    shared: Centers,
    n_outliers: float,
    last: Cut | None = None,
) -> tuple[States, Cut]:
    """Measure rows against centres with `sweep`, then cut.

    The sweep makes the first histogram on the way, near the `last` cut of similar states.
    """
    keys = where_to_look(data.dtype, last) if n_outliers else None
    states, histogram = data.run(sweep, states, shared._replace(keys=keys))
    return states, find_cut(data, states, n_outliers, keys, histogram)


def find_cut(
    data: Execution,
    states: States,
    n_outliers: float,
    keys: KeyRange | None = None,
    histogram: Histogram | None = None,
) -> Cut:
    """The cut that trims `n_outliers` units of weight, the farthest rows first.

    Rows go in the order (−D², row index).  The row in which the budget runs out loses only
    what is left of it.  Rows at distance 0 are never trimmed, even where the budget allows.

    Parameters
    ----------
    data, states
        Any execution, and states that hold D².
    n_outliers : float
        The weight to trim, less than the total; with unit weights, the number of rows.
    keys, histogram : optional
        Where to look first, and what was found there, if a sweep has already looked.  They
        change the number of passes and the rounding of ρ, never which rows are cut.
    """
    if not n_outliers:
        cost = data.summarise(COST_BELOW, states, np.inf)
        return Cut(value=np.inf, row=0, trimmed=0.0, weight=0, cost=cost)
    keys = where_to_look(data.dtype) if keys is None else keys
    histogram = histogram or _histogram(data, states, keys)
    nearby = _nearby(data, keys, histogram, n_outliers)
    budget = _with_rounding(data, n_outliers)
    first_look = True
    while True:
        found = _bin_of_the_cut(histogram, keys, budget, data.dtype)
        keys = found.keys
        if keys == (0, 1):
            # The rest are at distance 0: they cost nothing and are never trimmed.
            return Cut(value=0.0, row=0, trimmed=0.0, weight=found.above, cost=0.0)
        if found.n_rows <= FEW_ROWS:
            return _cut_among_few(data, states, found, n_outliers, nearby)
        if keys.high - keys.low == 1:
            return _cut_among_equals(data, states, found, n_outliers, nearby)
        if keys.low == 0 and first_look:
            # Below all that the first look showed, most likely not far below.
            keys = KeyRange(max(0, keys.high - OCTAVE[data.dtype]), keys.high)
        first_look = False
        histogram = _histogram(data, states, keys)


def where_to_look(dtype: np.dtype[Any], last: Cut | None = None) -> KeyRange:
    """The key range for a first histogram: around the last cut, else everywhere."""
    end, octave = END[dtype], OCTAVE[dtype]
    if last is None or not 0 < last.value < np.inf:
        return KeyRange(0, end)
    # D² shrinks as centres are added; between Lloyd iterations it moves little, up or down.
    key = _key(last.value, dtype)
    low = min(max(last.nearby, key - WIDEST * octave), key - octave // 16)
    return KeyRange(max(0, low), min(key + octave // 8, end))


class Bin(NamedTuple):
    """Its keys, the weight above it, the cost below it, and its rows."""

    keys: KeyRange
    above: float
    cost_below: float
    n_rows: int


def _histogram(data: Execution, states: States, keys: KeyRange) -> Histogram:
    histogram = data.summarise(HISTOGRAM, states, keys)
    assert histogram is not None
    return histogram


def _nearby(data: Execution, keys: KeyRange, histogram: Histogram, n_outliers: float) -> int:
    """The key from which on the next first look should be, as far as this one shows it."""
    share = max(LEAST_NEARBY, min(0.5, NOTHING / data.n_rows))
    bin_, _ = histogram.bin_past(max(NEARBY * n_outliers, share * data.total_weight))
    if bin_ == 0:
        return keys.low - (keys.high - keys.low) // 4
    return keys.low + (bin_ - 1 << keys.shift)


def _bin_of_the_cut(
    histogram: Histogram, keys: KeyRange, budget: float, dtype: np.dtype[Any]
) -> Bin:
    """The bin in which the budget runs out."""
    bin_, above = histogram.bin_past(budget)
    width = 1 << keys.shift
    if bin_ == 0:
        found = KeyRange(0, keys.low)
    elif bin_ == N_BINS + 1:
        found = KeyRange(keys.low + N_BINS * width, END[dtype])
    else:
        low = keys.low + (bin_ - 1) * width
        found = KeyRange(low, low + width)
    return Bin(found, above, histogram.cost_below(bin_), int(histogram.counts[bin_]))


def _cut_among_few(
    data: Execution, states: States, bin_: Bin, n_outliers: float, nearby: int
) -> Cut:
    least, most = (value_of(key, data.dtype) for key in (bin_.keys.low, bin_.keys.high - 1))
    found = data.summarise(ROWS_WITHIN, states, Asked(float(least), float(most), FEW_ROWS))
    budget = _with_rounding(data, n_outliers)
    boundary, until, cost = found.boundary(bin_.above, budget)
    value, weight = float(found.d2[boundary]), float(found.weights[boundary])
    if value == 0:
        above = bin_.above + float(found.weights[found.d2 > 0].sum())
        return Cut(value=0.0, row=0, trimmed=0.0, weight=above, cost=0.0)
    trimmed = min(max(n_outliers - (until - weight), 0.0), weight)
    return Cut(
        value=value,
        row=int(found.rows[boundary]),
        trimmed=trimmed,
        weight=n_outliers,
        cost=bin_.cost_below + cost + (weight - trimmed) * value,
        nearby=nearby,
    )


def _cut_among_equals(
    data: Execution, states: States, bin_: Bin, n_outliers: float, nearby: int
) -> Cut:
    value = float(value_of(bin_.keys.low, data.dtype))
    masses = np.array(data.summarise(MASS_AT, states, value))
    budget = _with_rounding(data, n_outliers) - bin_.above
    until = np.cumsum(masses)
    filled = np.flatnonzero(masses)
    past = filled[until[filled] > budget]
    chunk = int(past[0]) if past.size else int(filled[-1])
    before = float(until[chunk] - masses[chunk])
    tie = data.at(chunk, find_tie, states, Ties(value, budget - before))
    kept = float(until[-1]) - (n_outliers - bin_.above)
    return Cut(
        value=value,
        row=tie.row,
        trimmed=max(0.0, n_outliers - bin_.above - before - tie.before),
        weight=n_outliers,
        cost=bin_.cost_below + kept * value,
        nearby=nearby,
    )


def _with_rounding(data: Execution, n_outliers: float) -> float:
    """The budget and a little: weights such as 0.1 add up to it only within rounding.

    Little also beside the least of the weights, or it would hold whole rows.
    """
    return n_outliers + min(1e-12 * n_outliers, 1e-6 * data.least_weight)


def _key(value: float, dtype: np.dtype[Any]) -> int:
    return int(dtype.type(value).view(KEYS[dtype]))
