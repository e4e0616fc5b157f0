"""After a move of the centres: the nearest centre of each row again, and few rows looked at.

Rows are left alone until they are due (`dues`): that is one comparison; their features are not
read, and nothing is written.  A row that is due is compared with all centres; or, where these are
many values, measured first, and compared where that leaves its label in doubt.

D² is exact for rows that were looked at in the last move.  Of others only the side of a band
round the cut is certain, from `Bounds.low` to `Bounds.high`, and their last D² is on that side,
too: who looks for rows within the band finds just those that are there.

Costs for m rows, k centres, d features: m comparisons; and what `assign` costs, and 3·d
operations, for rows that are due.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.assign import assign_more
from robust_kmeans.kernels.bits import as_bits, lowest, lowest_bits
from robust_kmeans.kernels.doubts import as_bound, as_due
from robust_kmeans.kernels.dues import ROUNDING, direct_error, limits_of, when_due
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty, differ, load, n_lanes, spread, store
from robust_kmeans.kernels.row_registers import prefetch, squared_distance
from robust_kmeans.kernels.scores import DENSE
from robust_kmeans.kernels.team import EVERY_PART, add_up, part_of, parts_of_this, work_off
from robust_kmeans.kernels.totals import recount_changed

# Rows that are gone through a second time while they are in the L2 cache: so many bytes of them,
# and not too few for a tile to be full, nor so many that what is kept per row fills the L1 cache.
BLOCK_BYTES = 2**19
BLOCK_ROWS = (512, 8192)
# So many rows are asked at a time whether they are due.
ASKED = 512
# Where more than this share of the rows that are due stay in doubt once they are measured, it is
# cheaper to compare them at once; so many blocks pass before one is measured first again.
MOSTLY = 0.75
AT_ONCE = 15


@jit
def reassign(
    part, rows, centers, packed, bounds, every, labels, d2, others, due, kept, sums, mass, costs,
    team,
):  # fmt: skip
    """As `assign`, to the bit of labels, after the centres have moved; D² of the rows looked at.

    Only rows that have a new label, which are in the cache at that moment, change their clusters'
    totals.

    IN     part; rows (m, d), centers (k, d): as they are now, and `packed` with bounds; every:
           whether to look at all rows; kept (m,): whether a row counts in the totals, or (0,) for
           no totals
    INOUT  labels (m,), d2 (m,); others (m,), float32: a distance than which no other centre is
           nearer, and the way of others if bounds are known; due (m,), float32, or (0,) to look at
           all rows
    OUT    sums (p, k, d), mass (p, k) and costs (p,), float64: what new labels change in the totals
           and in the cost, added to; of all parts in the first entries
    """
    if part == EVERY_PART:
        job = parts_of_this(
            (rows, centers, packed, bounds, every, labels, d2, others, due, kept, sums, mass,
             costs, team)
        )  # fmt: skip
        work_off(team, job, costs.shape[0])
        add_up(sums)
        add_up(mass)
        add_up(costs)
        return
    first, last = part_of(part, costs.shape[0], rows.shape[0])
    rows, labels, d2 = rows[first:last], labels[first:last], d2[first:last]
    others, due, kept = others[first:last], due[first:last], kept[first:last]
    n_rows, n_features = rows.shape
    fewest, most = BLOCK_ROWS
    cached = max(fewest, min(most, BLOCK_BYTES // (n_features * rows.itemsize)))
    found, before = np.empty(cached, np.int32), np.empty(cached, np.int32)
    bounded, every = bounds.gaps.shape[0] > 0, every or due.shape[0] == 0
    gone, ways = np.empty(ASKED, np.float32), bounds.ways.together
    start = at_once = 0
    unasked = np.zeros(2, np.int64)
    change = 0.0
    while start < n_rows:
        n_found, begin = 0, start
        while start < n_rows and n_found + ASKED <= cached:
            end = min(start + ASKED, n_rows)
            if every:
                here = found[n_found : n_found + end - start]
                for i in range(here.shape[0]):
                    here[i] = start + i
                n_found += end - start
            else:
                n_found = rows_due(labels, due, ways, start, end, gone, found, n_found)
            start = end
        if bounded and bounds.measure_first:
            if at_once > 0:
                at_once -= 1
            else:
                n_due = n_found
                n_found = still_in_doubt(
                    rows, centers, packed.fine, found[:n_due], labels, d2, others, due
                )
                if n_found > MOSTLY * n_due:
                    at_once = AT_ONCE
        which = found[:n_found]
        if n_found == start - begin:
            now = labels[begin:start]
            for p in range(n_found):
                before[p] = now[p]
        else:
            for p in range(n_found):
                before[p] = labels[np.uint32(which[p])]
        assign_more(rows, which, centers, packed, unasked, labels, d2, others, due)
        if kept.shape[0] > 0:
            n_changed = changed_rows(which, before, labels)
            change = recount_changed(
                change, rows, which[:n_changed], before, labels, kept, centers, sums[part],
                mass[part],
            )  # fmt: skip
    costs[part] = change


@jit
def changed_rows(which, before, after):
    """Those of some rows that have a new label; returns how many.

    IN     after (m,): labels of all rows
    INOUT  which (p,): positions, before (p,): labels before; the first become those of these rows
    """
    n_rows, lanes, found = which.shape[0], n_lanes(before), 0
    # Mostly they are next to each other, and few have a new label.
    in_a_row = n_rows > 0 and which[n_rows - 1] - which[0] == n_rows - 1
    n_whole = n_rows // lanes * lanes if in_a_row else 0
    first = which[0] if in_a_row else 0
    for start in range(0, n_whole, lanes):
        bits = as_bits(differ(load(before, start), load(after, first + start)))
        while bits != 0:
            p = start + lowest(bits)
            bits &= bits - 1
            which[found], before[found] = which[p], before[p]
            found += 1
    for p in range(n_whole, n_rows):
        # Without a branch: they are in no order.
        i, label = which[p], before[p]
        which[found] = i
        before[found] = label
        found += label != after[np.uint32(i)]
    return found


@jit
def rows_due(labels, due, ways, first, last, gone, out, found):
    """Add rows from `first` up to `last` that have to be looked at; returns how many there are now.

    IN     labels (m,), due (m,), ways (k,); no more rows than `ASKED`; found: how many were there
    INOUT  gone (ASKED,): memory to use; out: their positions, ascending
    """
    lanes = n_lanes(due)
    for i in range(last - first):
        gone[i] = ways[np.uint32(labels[first + i])]
    for start in range(0, last - first, lanes):
        if first + start + lanes <= last:
            # Few of them, in no order; and none that could not be compared.
            bits = ~as_bits(load(gone, start) < load(due, first + start)) & lowest_bits(lanes)
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
def still_in_doubt(rows, centers, packed, which, labels, d2, others, due):
    """Measure rows that are due; returns how many of them may have a new nearest centre.

    IN     rows (m, d), centers (k, d), packed; labels (m,)
    INOUT  which (p,): positions of the rows that are due, of which the first become those in
           doubt; at the others: d2 (m,), others (m,), due (m,) or (0,)
    """
    journey, limits = packed.journey, limits_of(rows, packed.journey, 1.0)
    lanes, n_features, zero = n_lanes(d2), rows.shape[1], rows.dtype.type(0)
    own, other = aligned_empty(lanes, d2.dtype), aligned_empty(lanes, d2.dtype)
    label, until = aligned_empty(lanes, d2.dtype), aligned_empty(lanes, d2.dtype)
    label[:] = 0
    doubtful, asked, n_rows = 0, due.shape[0] > 0, which.shape[0]
    for first in range(0, n_rows, lanes):
        size = min(lanes, n_rows - first)
        soon, last = (
            which[min(first + lanes, n_rows - 1)],
            which[min(first + 2 * lanes, n_rows) - 1],
        )
        if last - soon < DENSE * lanes:
            prefetch(rows, soon * n_features, (last - soon + 1) * n_features)
        for p in range(size):
            i = np.uint32(which[first + p])
            number = np.uint32(labels[i])
            own[p] = squared_distance(rows, i, centers, number)
            other[p] = others[i]
            label[p] = number
        room, bound, way = when_due(
            load(own, 0),
            load(own, 0),
            load(other, 0),
            True,
            load(label, 0),
            label,
            journey,
            limits,
        )
        sure = as_bits(spread(zero) < room)
        store(other, 0, bound)
        store(until, 0, way)
        for p in range(size):
            i = which[first + p]
            if sure >> p & 1:
                d2[i], others[i] = own[p], as_bound(other[p], centers)
                if asked:
                    due[i] = as_due(until[p])
            else:
                which[doubtful] = i
                doubtful += 1
    return doubtful


@jit
def other_distances(labels, others, ways, out):
    """How far other centres are away at least, from bounds that hold their way.

    IN   labels (m,), others (m,), ways (k,)
    OUT  out (m,), which may be `others`
    """
    for i in range(labels.shape[0]):
        way = others[i] - ways[labels[i]]
        out[i] = max(way - np.float32(ROUNDING) * abs(way), np.float32(0))


@jit
def gaps_between(centers, out):
    """For each centre a distance than which no other one is nearer; ∞ for a single one.

    Costs k²·d operations: for few values of centres.

    IN   centers (k, d)
    OUT  out (k,), float32
    """
    n_centers = centers.shape[0]
    tiny, off = np.finfo(centers.dtype).tiny, centers.dtype.type(direct_error(centers))
    for j in range(n_centers):
        nearest = centers.dtype.type(np.inf)
        for other in range(n_centers):
            if other != j:
                nearest = min(nearest, squared_distance(centers, j, centers, other))
        bound = np.sqrt(max(nearest * (1 - off) - tiny, 0)) * (1 - 4 * np.finfo(np.float32).eps)
        out[j] = as_bound(bound, centers)


@jit
def measure_own(part, n_parts, rows, centers, labels, d2, team):
    """D² of all rows, each to the centre with its label.

    IN   part, n_parts; rows (m, d), centers (k, d), labels (m,)
    OUT  d2 (m,)
    """
    if part == EVERY_PART:
        work_off(team, parts_of_this((n_parts, rows, centers, labels, d2, team)), n_parts)
        return
    first, last = part_of(part, n_parts, rows.shape[0])
    for i in range(first, last):
        d2[i] = squared_distance(rows, i, centers, labels[i])
