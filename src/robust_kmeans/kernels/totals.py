"""Sums over rows, accumulated in float64 whatever the dtype of the data.

Weights are float64, or empty when every row weighs 1.  `clipped_mass`, `locate_mass` and
`cost_below` are one pass over D², `changed_sides` one over D² and flags; `accumulate` and
`periodic_ranges` read the rows once, `recount_changed` and `recount_cut` those that are
asked for.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.row_registers import add_deviation, squared_distance
from robust_kmeans.kernels.team import (
    EVERY_PART,
    add_up,
    hand_in,
    own_sums,
    part_of,
    parts_of_this,
    work_off,
)

BLOCK = 256


@jit
def clipped_mass(d2, weights, flat, slope, clip, limit=np.inf):
    """Sum of w·(flat + slope·min(D², clip)) over D² ≤ limit, the sampling weight of all rows.

    IN   d2 (m,), weights (m,) or (0,); flat, slope, clip, limit
    """
    total = 0.0
    if weights.shape[0] > 0:
        for i in range(d2.shape[0]):
            mass = weights[i] * (flat + slope * np.float64(min(d2[i], clip)))
            total += mass if d2[i] <= limit else 0.0
    else:
        for i in range(d2.shape[0]):
            mass = flat + slope * np.float64(min(d2[i], clip))
            total += mass if d2[i] <= limit else 0.0
    return total


@jit
def locate_mass(d2, weights, flat, slope, clip, limit, targets, found):
    """The rows at which the running sampling weight exceeds each of some targets.

    Rows of weight 0 are never found; where rounding leaves the running weight at or below a
    target, the last row of positive weight is.  Block by block, so that only in few blocks the
    weight is added up row by row.

    IN   d2 (m,), weights (m,) or (0,); flat, slope, clip; limit: rows with a larger D² weigh
         nothing; targets (t,), ascending
    OUT  found (t,): −1 where no row weighs anything
    """
    weighted = weights.shape[0] > 0
    before = 0.0
    n_found = last = 0
    for start in range(0, d2.shape[0], BLOCK):
        part = weights[start : start + BLOCK] if weighted else weights
        mass = clipped_mass(d2[start : start + BLOCK], part, flat, slope, clip, limit)
        last = start if mass > 0.0 else last
        while n_found < targets.shape[0] and before + mass > targets[n_found]:
            target = targets[n_found] - before
            found[n_found] = _row_past(d2, weights, flat, slope, clip, limit, start, target)
            n_found += 1
        if n_found == targets.shape[0]:
            break
        before += mass
    while n_found < targets.shape[0]:
        found[n_found] = _row_past(d2, weights, flat, slope, clip, limit, last, np.inf)
        n_found += 1


@jit
def _row_past(d2, weights, flat, slope, clip, limit, first, target):
    """The row of a block past the target; the last that weighs something where none is."""
    running, found = 0.0, -1
    for i in range(first, min(first + BLOCK, d2.shape[0])):
        mass = flat + slope * np.float64(min(d2[i], clip))
        if weights.shape[0] > 0:
            mass *= weights[i]
        if mass > 0.0 and d2[i] <= limit:
            found = i
            running += mass
            if running > target:
                break
    return found


@jit
def cost_below(d2, weights, value):
    """Sum of w·D² over the rows with D² strictly below `value`.

    IN   d2 (m,), weights (m,) or (0,), value
    """
    total = 0.0
    if weights.shape[0] > 0:
        for i in range(d2.shape[0]):
            total += weights[i] * np.float64(d2[i]) if d2[i] < value else 0.0
    else:
        for i in range(d2.shape[0]):
            total += np.float64(d2[i]) if d2[i] < value else 0.0
    return total


@jit
def kept_weights(d2, weights, start, value, boundary_row, boundary_trimmed, out):
    """What each row weighs after the cut: 0 for an outlier, less for the boundary row.

    IN   d2 (m,), weights (m,) or (0,); start: global index of the first row; the cut
    OUT  out (m,)
    """
    weighted = weights.shape[0] > 0
    for i in range(d2.shape[0]):
        weight = weights[i] if weighted else 1.0
        if d2[i] > value or (d2[i] == value and start + i < boundary_row):
            weight = 0.0
        elif start + i == boundary_row:
            weight -= boundary_trimmed
        out[i] = weight


@jit
def accumulate(part, rows, labels, d2, weights, cut, centers, kept, sums, mass, team):
    """Per cluster, the weighted deviations from its centre of the kept rows, and their weight.

    Deviations, not the rows themselves: far from the origin a sum of rows has no digits left
    for the mean.

    IN   part; rows (m, d), labels (m,), d2 (m,), weights (m,) or (0,); cut: the global index of the
         first row, and the cut's value, row and what that is trimmed; centers (k, d)
    OUT  kept (m,) or (0,): 1 for a row that counts, otherwise 0; sums (p, k, d) and mass (p, k),
         float64, added to; of all parts in the first entries
    """
    if part == EVERY_PART:
        arguments = rows, labels, d2, weights, cut, centers, kept, sums, mass, team
        work_off(team, parts_of_this(arguments), mass.shape[0])
        add_up(sums)
        add_up(mass)
        return
    start, value, boundary_row, boundary_trimmed = cut
    first, last = part_of(part, mass.shape[0], rows.shape[0])
    own, own_mass = own_sums(sums, part), own_sums(mass, part)
    weighted = weights.shape[0] > 0
    noted = kept.shape[0] > 0
    for i in range(first, last):
        cut_off = d2[i] > value or (d2[i] == value and start + i < boundary_row)
        if noted:
            kept[i] = not cut_off
        if cut_off:
            continue
        weight = weights[i] if weighted else 1.0
        if start + i == boundary_row:
            weight -= boundary_trimmed
        label = labels[i]
        own_mass[label] += weight
        add_deviation(rows, i, centers, label, own, weight)
    hand_in(own, sums, part)
    hand_in(own_mass, mass, part)


@jit
def recount_changed(change, rows, which, before, after, kept, centers, sums, mass):
    """What rows of weight 1 that have a new label change in the totals of `accumulate`.

    Returns what they change in the cost, added row by row to what others did: the sum is the same
    however rows are split up.

    IN   change: so far; rows (m, d), which (p,): positions of such rows; before (p,) or more: what
         their labels were; after (m,): labels of all rows; kept (m,): whether a row counts;
         centers (k, d)
    OUT  sums (k, d) and mass (k,), float64, added to
    """
    for p in range(which.shape[0]):
        i, old = which[p], before[p]
        if kept[i]:
            new = after[i]
            mass[old] -= 1.0
            mass[new] += 1.0
            change += np.float64(squared_distance(rows, i, centers, new))
            change -= np.float64(squared_distance(rows, i, centers, old))
            add_deviation(rows, i, centers, old, sums, -1.0)
            add_deviation(rows, i, centers, new, sums, 1.0)
    return change


@jit
def changed_sides(d2, start, value, boundary_row, kept, kept_out, which):
    """The rows that a new cut moves to its other side; returns how many.

    IN   d2 (m,); start: global index of the first row; the cut; kept (m,): whether a row counts
    OUT  kept_out (m,): whether it counts now; which (m,): positions of those that changed
    """
    value = d2.dtype.type(value)
    n_changed = 0
    # Hardly any row is at the cut or changes sides: most blocks are compared and left.
    for first in range(0, d2.shape[0], BLOCK):
        last = min(first + BLOCK, d2.shape[0])
        near, before, after = d2[first:last], kept[first:last], kept_out[first:last]
        tied, changed = False, np.uint8(0)
        for i in range(last - first):
            after[i] = near[i] <= value
            tied |= near[i] == value
        for i in range(last - first):
            changed |= after[i] ^ before[i]
        if not (tied or changed):
            continue
        for i in range(first, last):
            if d2[i] == value and start + i < boundary_row:
                kept_out[i] = 0
            if kept_out[i] != kept[i]:
                which[n_changed] = i
                n_changed += 1
    return n_changed


@jit
def recount_cut(rows, which, labels, kept, centers, sums, mass):
    """What rows of weight 1 that changed sides change in the totals of `accumulate`.

    Returns what they change in the cost.

    IN   rows (p, d): such rows, which (p,): their positions; labels (m,), kept (m,): whether a
         row counts now; centers (k, d)
    OUT  sums (k, d) and mass (k,), float64, added to
    """
    change = 0.0
    for p in range(which.shape[0]):
        sign = 1.0 if kept[which[p]] else -1.0
        label = labels[which[p]]
        mass[label] += sign
        square = 0.0
        for f in range(rows.shape[1]):
            deviation = np.float64(rows[p, f]) - np.float64(centers[label, f])
            sums[label, f] += sign * deviation
            square += deviation * deviation
        change += sign * square
    return change


@jit
def periodic_ranges(values, low, high):
    """Smallest and largest of the values p, p + P, p + 2P, … for each p below the period P.

    Returns 0.0, or NaN where any value is not finite.  A period of several whole rows gives
    the vector units something to work on even when a row is short.

    IN     values (n,)
    INOUT  low (P,), high (P,)
    """
    # 0·x is 0 for a finite x and NaN for NaN and both infinities.  (x − x would not do: in a
    # sum that may be reordered it cancels.)
    check = values.dtype.type(0)
    for start in range(0, values.shape[0], low.shape[0]):
        block = values[start : start + low.shape[0]]
        for p in range(block.shape[0]):
            value = block[p]
            check += value * values.dtype.type(0)
            low[p] = min(low[p], value)
            high[p] = max(high[p], value)
    return check
