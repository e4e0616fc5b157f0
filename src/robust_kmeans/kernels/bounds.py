"""After a move of the centres: the nearest centre of each row again, and few rows looked at.

A row that was measured keeps its label while its own centre is nearer than all others, and it
stays on its side of the cut while it is far enough from there.  Both are certain until centres have
come a certain way, and that is all that is kept of it: a row's `due`.  If P is how far its own
centre has come in all, and Q how far any other has at most, the row is left alone while P + Q < due
(after Hamerly, *Making k-means even faster*, SDM 2010).  That is one comparison; its features are
not read, and nothing is written.

A row that is due is compared with all centres; or measured first, and compared where that leaves
its label in doubt.  For how far other centres are there is a second bound: at least as far as
they are from its own centre, less its distance.

D² is exact for rows that were looked at in the last move.  Of others only the side of a band
round the cut is certain, from `Bounds.low` to `Bounds.high`, and their last D² is on that side,
too: who looks for rows within the band finds just those that are there.

Rounding: ways are rounded up and dues down, so that a label is kept only where `assign` would find
it again.

Costs for m rows, k centres, d features: m comparisons; and what `assign` costs, and 3·d
operations, for rows that are due.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.assign import assign_more
from robust_kmeans.kernels.bits import as_bits, lowest
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import load, n_lanes
from robust_kmeans.kernels.row_registers import prefetch, squared_distance
from robust_kmeans.kernels.scores import direct_error
from robust_kmeans.kernels.totals import recount_changed

# Rows that are gone through a second time while they are in the L2 cache: so many bytes of them,
# and not too few for a tile to be full, nor so many that what is kept per row fills the L1 cache.
BLOCK_BYTES = 2**19
BLOCK_ROWS = (512, 8192)
# So many rows are asked at a time whether they are due.
ASKED = 512
# A row that is due is asked for while so many others before it are measured.
AHEAD = 16
# Where more than this share of the rows that are due stay in doubt once they are measured, it is
# cheaper to compare them at once; so many blocks pass before one is measured first again.
MOSTLY = 0.75
AT_ONCE = 15


class Ways(NamedTuple):
    """How far centres have come since a run began, added up and rounded up, per centre (k,).

    `others` is the way of all others, at most; `together` that and the centre's own.
    """

    together: NDArray[np.float32]
    others: NDArray[np.float32]


class Bounds(NamedTuple):
    """What is known of the centres, and the band of D² round the cut.

    `gaps` (k,) is a distance than which no other centre is nearer.  With `measure_first` rows that
    are due are measured before they are compared.
    """

    ways: Ways
    gaps: NDArray[np.float32]
    low: float
    high: float
    measure_first: bool


NOTHING: NDArray[np.float32] = np.empty(0, np.float32)
NOTHING_KNOWN = Bounds(Ways(NOTHING, NOTHING), NOTHING, 0.0, np.inf, False)
"""For comparing every row with every centre."""


@jit
def reassign(rows, centers, packed, bounds, every, labels, d2, others, due, kept, sums, mass):
    """As `assign`, to the bit of labels, after the centres have moved; D² of the rows looked at.

    Only rows that have a new label, which are in the cache at that moment, change their clusters'
    totals; returns what they change in the cost.

    IN     rows (m, d), centers (k, d): as they are now, and `packed`; bounds; every: whether to
           look at all rows; kept (m,): whether a row counts in the totals, or (0,) for no totals
    INOUT  labels (m,), d2 (m,); others (m,), float32: a distance than which no other centre is
           nearer, and the way of others, or (0,) to compare all rows; due (m,), float32, or (0,) to
           look at all rows
    OUT    sums (k, d) and mass (k,), float64: what new labels change in the totals, added to
    """
    n_rows, n_features = rows.shape
    fewest, most = BLOCK_ROWS
    cached = max(fewest, min(most, BLOCK_BYTES // (n_features * rows.itemsize)))
    found, before = np.empty(cached, np.int32), np.empty(cached, np.int32)
    bounded, every = others.shape[0] > 0, every or due.shape[0] == 0
    start = at_once = n_fine = 0
    change = 0.0
    while start < n_rows:
        n_found, begin = 0, start
        while start < n_rows and n_found + ASKED <= cached:
            end = min(start + ASKED, n_rows)
            if every:
                for i in range(start, end):
                    found[n_found + i - start] = i
                n_found += end - start
            else:
                n_found += rows_due(labels, due, bounds.ways.together, start, end, found[n_found:])
            start = end
        if bounded and bounds.measure_first:
            if at_once > 0:
                at_once -= 1
            else:
                n_due = n_found
                n_found = still_in_doubt(
                    rows, centers, bounds, found[:n_due], labels, d2, others, due
                )
                if n_found > MOSTLY * n_due:
                    at_once = AT_ONCE
        which = found[:n_found]
        if n_found == start - begin:
            before[:n_found] = labels[begin:start]
        else:
            for p in range(n_found):
                before[p] = labels[np.uint32(which[p])]
        n_fine = assign_more(rows, which, centers, packed, n_fine, labels, d2, others)
        if bounded:
            set_due(rows, which, bounds, labels, d2, others, due)
        if kept.shape[0] > 0:
            n_changed = changed_rows(which, before, labels)
            change += recount_changed(
                rows, which[:n_changed], before, labels, kept, centers, sums, mass
            )
    return change


@jit
def changed_rows(which, before, after):
    """Those of some rows that have a new label; returns how many.

    IN     after (m,): labels of all rows
    INOUT  which (p,): positions, before (p,): labels before; the first become those of these rows
    """
    found = 0
    for p in range(which.shape[0]):
        # Without a branch: they are in no order.
        i, label = which[p], before[p]
        which[found] = i
        before[found] = label
        found += label != after[np.uint32(i)]
    return found


@jit
def rows_due(labels, due, ways, first, last, out):
    """Rows from `first` up to `last` that have to be looked at; returns how many.

    IN   labels (m,), due (m,), ways (k,); no more rows than `ASKED`
    OUT  out (last − first or more,): their positions, ascending
    """
    lanes = n_lanes(due)
    gone = empty_floats()
    for i in range(last - first):
        gone[i] = ways[np.uint32(labels[first + i])]
    found = 0
    for start in range(0, last - first, lanes):
        if first + start + lanes <= last:
            # Few of them, in no order; and none that could not be compared.
            bits = ~as_bits(load(gone, start) < load(due, first + start))
            while bits != 0:
                out[found] = first + start + lowest(bits)
                bits &= bits - 1
                found += 1
        else:
            for i in range(start, last - first):
                out[found] = first + i
                found += not gone[i] < due[first + i]
    return found


@jit
def still_in_doubt(rows, centers, bounds, which, labels, d2, others, due):
    """Measure rows that are due; returns how many of them may have a new nearest centre.

    IN     rows (m, d), centers (k, d), bounds; labels (m,)
    INOUT  which (p,): positions of the rows that are due, of which the first become those in
           doubt; at the others: d2 (m,), others (m,), due (m,) or (0,)
    """
    limits, ways = limits_of(rows, bounds), bounds.ways.others
    distances = np.empty(ASKED, rows.dtype)
    other, room, until = empty_floats(), empty_floats(), empty_floats()
    doubtful, n_features = 0, rows.shape[1]
    for first in range(0, which.shape[0], ASKED):
        some = which[first : first + ASKED]
        for p in range(some.shape[0]):
            i = np.uint32(some[p])
            label = np.uint32(labels[i])
            soon = which[min(first + p + AHEAD, which.shape[0] - 1)] * n_features
            prefetch(rows, soon, n_features)
            prefetch(rows, soon + n_features - 1, 1)
            distances[p] = squared_distance(rows, i, centers, label)
            other[p] = rounded_down(others[i] - ways[label])
        judge(some, bounds, limits, labels, distances, other, room, until)
        for p in range(some.shape[0]):
            i = np.uint32(some[p])
            if room[p] > 0:
                d2[i], others[i] = distances[p], other[p]
                if due.shape[0] > 0:
                    due[i] = until[p]
            else:
                which[doubtful] = i
                doubtful += 1
    return doubtful


@jit
def set_due(rows, which, bounds, labels, d2, others, due):
    """When rows that were just compared have to be looked at again.

    IN     rows (m, d), which (p,): their positions; bounds; labels (m,), d2 (m,)
    INOUT  others (m,): how far other centres are away at least; and the way of others with it
    OUT    due (m,) or (0,)
    """
    limits = limits_of(rows, bounds)
    distances = np.empty(ASKED, rows.dtype)
    other, room, until = empty_floats(), empty_floats(), empty_floats()
    for first in range(0, which.shape[0], ASKED):
        some = which[first : first + ASKED]
        for p in range(some.shape[0]):
            distances[p] = d2[np.uint32(some[p])]
            other[p] = others[np.uint32(some[p])]
        judge(some, bounds, limits, labels, distances, other, room, until)
        for p in range(some.shape[0]):
            others[np.uint32(some[p])] = other[p]
        if due.shape[0] > 0:
            for p in range(some.shape[0]):
                due[np.uint32(some[p])] = until[p]


@jit
def judge(which, bounds, limits, labels, distances, other, room, until):
    """How long rows can be left alone; no more of them than `ASKED`.

    IN     which (p,): their positions; bounds, and its `limits_of`; labels (m,)
    INOUT  distances (p,): D²; other (p,): how far other centres are away at least now; and the way
           of others with it
    OUT    room (p,): by how much others are certainly farther than a row's own centre; until (p,):
           the way at which the row is due
    """
    up, down, least, near, far = limits
    together, apart, gaps = bounds.ways.together, bounds.ways.others, bounds.gaps
    gap, gone, gone_others = empty_floats(), empty_floats(), empty_floats()
    for p in range(which.shape[0]):
        # Unsigned: the compiler need not think of positions before the first.
        label = np.uint32(labels[np.uint32(which[p])])
        gap[p] = gaps[label]
        gone[p] = together[label]
        gone_others[p] = apart[label]
    # A loop that the compiler vectorises.
    for p in range(which.shape[0]):
        own = np.sqrt(max(np.float32(distances[p]), np.finfo(np.float32).tiny))
        above = own * up
        others = max(other[p], (gap[p] - above) * down)
        room[p] = others - above - least
        # Below the band or above it; in it, neither.
        side = max(near - above, own * down - far)
        until[p] = rounded_down(min(room[p], side) + gone[p])
        other[p] = rounded_down(others + gone_others[p])


@jit
def empty_floats():
    """Room for what is known of so many rows as are asked at a time."""
    return np.empty(ASKED, np.float32)


@jit
def limits_of(rows, bounds):
    """What `judge` needs to know of the dtype and of the band, in float32.

    A factor that makes a distance certainly too large, another that makes it too small, a
    distance below which squares have lost digits; and the edges of the band, farther apart.
    """
    single, own = np.finfo(np.float32), np.finfo(rows.dtype)
    rounding = 2 * direct_error(rows) + 8 * single.eps
    near = np.sqrt(bounds.low) * (1 - rounding)
    # Where nothing is cut there is no edge; otherwise it must be one that ways can reach.
    near = near if near == np.inf else min(near, single.max)
    far = np.sqrt(bounds.high) * (1 + rounding)
    least = np.sqrt(own.tiny / own.eps) * (1 + rounding)
    return (
        np.float32(1 + rounding), np.float32(1 - rounding), np.float32(least), np.float32(near),
        np.float32(far),
    )  # fmt: skip


@jit
def rounded_down(value):
    """A sum of a few numbers in float32, less what rounding may have added."""
    eps = np.float32(8) * np.finfo(np.float32).eps
    return value * (np.float32(1) - eps if value > 0 else np.float32(1) + eps)


@jit
def other_distances(labels, others, ways, out):
    """How far other centres are away at least, from bounds that hold their way.

    IN   labels (m,), others (m,), ways (k,)
    OUT  out (m,), which may be `others`
    """
    for i in range(labels.shape[0]):
        out[i] = max(rounded_down(others[i] - ways[labels[i]]), np.float32(0))


@jit
def measure_own(rows, centers, labels, d2):
    """D² of all rows, each to the centre with its label.

    IN   rows (m, d), centers (k, d), labels (m,)
    OUT  d2 (m,)
    """
    for i in range(rows.shape[0]):
        d2[i] = squared_distance(rows, i, centers, labels[i])
