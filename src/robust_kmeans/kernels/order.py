"""Counting and finding rows by the size of their D², without sorting.

A non-negative float sorts like its bit pattern read as an integer, its *key*.  Key ranges
can be split evenly whatever the data's scale, and histograms over them merge by addition.
The sign bit is masked: −0.0 counts as 0.0.

Weights are float64, or empty when every row weighs 1; counts of rows stay exact up to 2⁵³.
Each kernel is a pass over D², `histogram` two; none reads the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.bits import as_bits, lowest
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import load, n_lanes, spread
from robust_kmeans.kernels.team import EVERY_PART, add_up, part_of, parts_of_this, work_off
from robust_kmeans.kernels.totals import cost_below

KEYS: dict[np.dtype[Any], type[np.signedinteger[Any]]] = {
    np.dtype(np.float32): np.int32,
    np.dtype(np.float64): np.int64,
}
"""The type of the keys of each dtype."""


def keys_of(d2: NDArray[np.floating]) -> NDArray[np.signedinteger]:
    """The bit patterns of `d2` as signed integers of the same width (a view)."""
    return d2.view(KEYS[d2.dtype])


def value_of(key: int, dtype: np.dtype[Any]) -> Any:
    """The value with this key."""
    return KEYS[dtype](key).view(dtype)


@jit
def histogram(
    part, d2, keys, weights, least, low, shift, counts, mass, sums, positions, values, n_listed,
    team,
):  # fmt: skip
    """Rows, weight and cost (the sum of w·D²) per bin of 2^shift keys from `low` on.

    Rows below are told apart and added up by vectors: most rows, if `low` is near the cut.  The
    others are listed on the way, if they fit.

    IN   part; d2 (m,), keys (m,), weights (m,) or (0,); low, shift; least: the value with the key
         low
    OUT  of all p parts in the first entries: counts (p, B + 2), mass (p, B + 2), sums (p, B + 2),
         added to: bin 0 holds what lies below `low`, the last what lies beyond the B bins; `mass`
         is filled only where there are weights; positions (c,), values (c,): where the others are,
         ascending, and their D²; n_listed (p,): how many these are, c + 1 where not all fit
    """
    n_parts, capacity = counts.shape[0], positions.shape[0] // counts.shape[0]
    weighted = weights.shape[0] > 0
    if part == EVERY_PART:
        job = parts_of_this(
            (d2, keys, weights, least, low, shift, counts, mass, sums, positions, values, n_listed,
             team)
        )  # fmt: skip
        work_off(team, job, n_parts)
        add_up(counts)
        add_up(sums)
        if weighted:
            add_up(mass)
        close_gaps(positions, values, capacity, n_listed)
        return
    begin, end = part_of(part, n_parts, d2.shape[0])
    counts, mass, sums = counts[part], mass[part], sums[part]
    lanes, last, listed = n_lanes(d2), counts.shape[0] - 1, part * capacity
    above = np.empty(lanes, np.int32)
    limit = spread(least)
    n_above = 0
    for first in range(begin, end, lanes):
        found = 0
        if first + lanes <= end:
            bits = as_bits(limit <= load(d2, first))
            while bits != 0:
                above[found] = first + lowest(bits)
                found += 1
                bits &= bits - 1
        else:
            for i in range(first, end):
                above[found] = i
                found += d2[i] >= least
        for p in range(found):
            # Unsigned: an index that might count from the end takes longer.
            i = np.uint32(above[p])
            bin_ = np.uint64(bin_of(keys[i], low, shift, last))
            weight = weights[i] if weighted else 1.0
            counts[bin_] += 1
            sums[bin_] += weight * np.float64(d2[i])
            if weighted:
                mass[bin_] += weight
        if n_above + found <= capacity:
            for p in range(found):
                positions[listed + n_above + p] = above[p]
                values[listed + n_above + p] = d2[above[p]]
        n_above += found
    n_listed[part] = n_above
    counts[0] += end - begin - n_above
    sums[0] += cost_below(d2[begin:end], weights[begin:end], least)
    if weighted:
        for i in range(begin, end):
            mass[0] += weights[i] if d2[i] < least else 0.0


@jit
def close_gaps(positions, values, capacity, n_listed):
    """Put the lists of all parts, so much room apart, behind each other.

    IN     capacity: how many entries a part has room for
    INOUT  positions (c,), values (c,); n_listed (p,): how many entries there are; then in the first
           place how many in all, c + 1 where those of a part did not fit
    """
    n_all, fits = 0, True
    for part in range(n_listed.shape[0]):
        fits &= n_listed[part] <= capacity
        for p in range(min(n_listed[part], capacity)):
            positions[n_all + p] = positions[part * capacity + p]
            values[n_all + p] = values[part * capacity + p]
        n_all += min(n_listed[part], capacity)
    n_listed[0] = n_all if fits else positions.shape[0] + 1


@jit
def bin_of(key, low, shift, last):
    """The bin of a key that is `low` or more."""
    # The sign of −0.0 does not count.
    return min((((key & np.iinfo(key).max) - low) >> shift) + 1, last)


@jit
def bin_past(counts, mass, budget):
    """The bin in which the budget runs out, from the last one down, and the weight above it.

    Where rounding leaves all the weight within the budget, the first bin that has rows.

    IN   counts (B,), mass (B,), budget
    """
    above = mass[0] * 0
    found = -1
    found_above = above
    for bin_ in range(counts.shape[0] - 1, -1, -1):
        if counts[bin_] > 0:
            found = bin_
            found_above = above
            if above + mass[bin_] > budget:
                break
        above += mass[bin_]
    return found, found_above


@jit
def trimmed_costs(mass, sums, mass_changes, sums_changes, edges, budget, costs, errors):
    """Per change of a histogram, what is left when the budget runs out, from the last bin down.

    Of the bin in which that happens, the mean of its rows is taken for those that go: that is
    off by no more than the weight on the lesser side times the width of the bin.

    IN   mass (B + 2,), sums (B + 2,); mass_changes (L, B + 2), sums_changes (L, B + 2); edges
         (B + 1,): values at which bins begin, and the last one ends; budget
    OUT  costs (L,), errors (L,): by how much a cost may be off
    """
    for c in range(costs.shape[0]):
        bin_ = mass.shape[0] - 1
        above = 0.0
        while bin_ > 0 and above + mass[bin_] + mass_changes[c, bin_] <= budget:
            above += mass[bin_] + mass_changes[c, bin_]
            bin_ -= 1
        weight = mass[bin_] + mass_changes[c, bin_]
        trimmed = min(max(budget - above, 0.0), weight)
        cost = sums[bin_] + sums_changes[c, bin_]
        cost *= 1 - trimmed / weight if weight > 0 else 0.0
        for below in range(bin_):
            cost += sums[below] + sums_changes[c, below]
        costs[c] = cost
        # The first bin begins at 0, and the last one has no end.
        errors[c] = np.inf
        if bin_ <= edges.shape[0] - 1:
            least = edges[bin_ - 1] if bin_ > 0 else edges[0] * 0
            errors[c] = min(trimmed, weight - trimmed) * np.float64(edges[bin_] - least)


@jit
def boundary(d2, weights, above, budget):
    """Of few rows, the one in which the budget runs out, in the order (−D², row); after `above`.

    Returns its position, the weight up to and with it, and the cost (the sum of w·D²) of the
    rows after it; the last row where rounding leaves all of them within the budget.

    IN   d2 (m,), weights (m,): rows in ascending order; above, budget
    """
    gone = np.zeros(d2.shape[0], np.bool_)
    running = above
    last = -1
    for _ in range(d2.shape[0]):
        last = -1
        for i in range(d2.shape[0]):
            if not gone[i] and (last < 0 or d2[i] > d2[last]):
                last = i
        gone[last] = True
        running += weights[last]
        if running > budget:
            break
    cost = 0.0
    for i in range(d2.shape[0]):
        cost += 0.0 if gone[i] else weights[i] * np.float64(d2[i])
    return last, running, cost


@jit
def within(d2, least, most, out):
    """Rows with least ≤ D² ≤ most; returns how many.

    IN   d2 (m,); least, most: of the dtype of d2
    OUT  out (capacity,): positions in ascending order, as many as fit
    """
    n_rows, lanes = d2.shape[0], n_lanes(d2)
    found = 0
    for first in range(0, n_rows, lanes):
        bits = -1
        if first + lanes <= n_rows:
            values = load(d2, first)
            bits = as_bits(spread(least) <= values) & as_bits(values <= spread(most))
        # Nearly always there is none.
        if bits != 0:
            for i in range(first, min(first + lanes, n_rows)):
                if d2[i] >= least and d2[i] <= most:
                    if found < out.shape[0]:
                        out[found] = i
                    found += 1
    return found


@jit
def nearest_rows(d2, labels, weights, least, positions):
    """Per cluster the first of its nearest rows, of those that weigh something.

    IN     d2 (m,), labels (m,), weights (m,) or (0,)
    INOUT  least (k,), float64, and positions (k,): the least D², and where it is
    """
    weighted = weights.shape[0] > 0
    for i in range(d2.shape[0]):
        label = labels[i]
        if d2[i] < least[label] and not (weighted and weights[i] == 0.0):
            least[label] = d2[i]
            positions[label] = i


@jit
def mass_at(d2, weights, value):
    """Weight of the rows with D² = value.

    IN   d2 (m,), weights (m,) or (0,), value
    """
    weighted = weights.shape[0] > 0
    total = 0.0
    for i in range(d2.shape[0]):
        if d2[i] == value:
            total += weights[i] if weighted else 1.0
    return total


@jit
def locate_at(d2, weights, value, target):
    """The row, among those with D² = value, at which the running weight exceeds `target`.

    Returns its position and the weight before it; the last such row (−1 for none) where
    rounding leaves the running weight at or below the target.

    IN   d2 (m,), weights (m,) or (0,), value, target
    """
    weighted = weights.shape[0] > 0
    before = 0.0
    found = -1
    found_before = 0.0
    for i in range(d2.shape[0]):
        if d2[i] == value:
            found = i
            found_before = before
            before += weights[i] if weighted else 1.0
            if before > target:
                break
    return found, found_before
