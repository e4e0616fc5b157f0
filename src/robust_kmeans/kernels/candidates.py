"""Candidates for a new centre: which rows each of them would win, and what that would save.

`try_candidates`, `add_first_and_try`, and `add_center` for a single one, are the only kernels of
the seedings that read rows.  Rows are taken a tile at a time, so that all candidates are measured
while a tile is in the cache.  Wide rows are measured one by one and narrow ones in blocks, with the
same result: a distance has the same bits in every kernel here.  A row is won where it is nearer to
the candidate than its D² says; only won rows are noted, and only they change a candidate's
histogram.

Costs for p rows, L candidates, d features: one reading of the rows and 3·p·L·d operations;
`doubtful_rows` and `take` are passes over the state and over the won rows.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.bits import as_bits, lowest, n_set
from robust_kmeans.kernels.distances import (
    TILE,
    empty_distances,
    is_narrow,
    measure_along,
    rows_ahead,
)
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty, load, n_lanes, spread, width_of_register
from robust_kmeans.kernels.order import bin_of, close_gaps
from robust_kmeans.kernels.row_blocks import distances_of_block, nearer_of_block, won_of_block
from robust_kmeans.kernels.row_registers import prefetch, squared_distance
from robust_kmeans.kernels.team import EVERY_PART, add_up, part_of, parts_of_this, work_off

# Rows that are not next to each other, which the machine cannot foresee, are asked for so many
# rows ahead.
AHEAD = 16


@jit
def try_candidates(
    part, rows, which, d2, keys, weights, candidates, least, low, shift, n_won, positions, values,
    mass, sums, team,
):  # fmt: skip
    """The rows that each candidate would win, and what they change in a histogram of D².

    IN   part; rows (m, d), which (q,): positions of rows to look at, ascending; d2 (m,), and its
         keys (m,); weights (m,) or (0,); candidates (L, d); bins as in `order.histogram`
    OUT  n_won (L, p): how many rows, of all p parts in the first entries, c + 1 where not
         all fit; positions (L, c) and values (L, c): in ascending order where they are and their
         new D²; mass (p, L, B) and sums (p, L, B), or (p, 0, 0) for none, added to: weight and cost
         that bins gain or lose, of all parts in the first entries
    """
    n_parts, n_candidates, lanes = n_won.shape[1], candidates.shape[0], n_lanes(rows)
    capacity = positions.shape[1] // n_parts
    if part == EVERY_PART:
        job = parts_of_this(
            (rows, which, d2, keys, weights, candidates, least, low, shift, n_won, positions,
             values, mass, sums, team)
        )  # fmt: skip
        work_off(team, job, n_parts)
        add_up(mass)
        add_up(sums)
        for c in range(n_candidates):
            close_gaps(positions[c], values[c], capacity, n_won[c])
        return
    begin, end = part_of(part, n_parts, which.shape[0])
    which, mass, sums = which[begin:end], mass[part], sums[part]
    n_here = np.zeros(n_candidates, np.int64)
    new = empty_distances(rows, n_candidates)
    own = aligned_empty(TILE, rows.dtype)
    own_keys, new_keys = own.view(keys.dtype), new.view(keys.dtype)
    last, weighted = sums.shape[1] - 1, weights.shape[0] > 0
    for start in range(0, which.shape[0], TILE):
        tile = which[start : start + TILE]
        _measure(rows, which, start, tile.shape[0], candidates, new)
        _gather(d2, tile, own)
        for c in range(n_candidates):
            here, won_rows, won_values = c * TILE, positions[c], values[c]
            for first in range(0, tile.shape[0], lanes):
                won = as_bits(load(new, here + first) < load(own, first))
                until = n_here[c]
                n_here[c] += n_set(won)
                if n_here[c] <= capacity:
                    until += part * capacity
                    _note(won, first, tile, new, here, until, won_rows, won_values)
                if last >= 0 and won != 0 and not weighted:
                    # Most rows are below the bins, and stay there: only what they cost changes.
                    won &= ~as_bits(load(own, first) < spread(least))
                    sums[c, 0] += _saved_below(own[first:], new[here + first :], least, lanes)
                while last >= 0 and won != 0:
                    i = first + lowest(won)
                    won &= won - 1
                    old_value, new_value = own[i], new[here + i]
                    weight = weights[tile[i]] if weighted else 1.0
                    old_bin = 0 if old_value < least else bin_of(own_keys[i], low, shift, last)
                    new_key = new_keys[here + i]
                    new_bin = 0 if new_value < least else bin_of(new_key, low, shift, last)
                    mass[c, old_bin] -= weight
                    mass[c, new_bin] += weight
                    sums[c, old_bin] -= weight * np.float64(old_value)
                    sums[c, new_bin] += weight * np.float64(new_value)
    n_won[:, part] = n_here


@jit
def _saved_below(own, new, least, n_rows):
    """By what the cost changes of rows that are won, of those with a D² below `least`.

    IN   own, new: D² before, and from the candidate; least, n_rows
    """
    total = 0.0
    for i in range(n_rows):
        change = np.float64(new[i]) - np.float64(own[i])
        total += change if own[i] < least and new[i] < own[i] else 0.0
    return total


@jit
def _note(won, first, which, new, here, until, positions, values):
    """Note the rows that are won, and their new D².

    IN   won: a bit for each row from `first` on; which (p,): positions of the rows of a tile; new:
         from `here` on, their D² from the candidate
    OUT  positions, values: from `until` on
    """
    while won != 0:
        i = first + lowest(won)
        positions[until] = which[i]
        values[until] = new[here + i]
        until += 1
        won &= won - 1


@jit
def _measure(rows, which, start, n_rows, candidates, out):
    """`squared_distance`, to the bit, of the rows of a tile from each candidate.

    IN   rows (m, d), which (p,): positions, ascending; start, n_rows: the tile; candidates (L, d)
    OUT  out: memory of `empty_distances`: of each candidate n_rows values, `TILE` apart
    """
    if not is_narrow(rows):
        measure_along(rows, which, start, n_rows, candidates, out)
        return
    width, n_candidates, i = width_of_register(rows), candidates.shape[0], which[start]
    n_together = n_rows // width * width if which[start + n_rows - 1] - i == n_rows - 1 else 0
    for first in range(0, n_together, width):
        for c in range(n_candidates):
            distances_of_block(rows, i + first, candidates, c, out, c * TILE + first)
    for p in range(n_together, n_rows):
        for c in range(n_candidates):
            out[c * TILE + p] = squared_distance(rows, which[start + p], candidates, c)


@jit
def _gather(d2, which, out):
    """D² of the rows of a tile, next to each other; behind the last row nothing can be won.

    IN   d2 (m,), which (p,): positions, ascending
    OUT  out (TILE,)
    """
    n_rows, first = which.shape[0], which[0]
    if which[n_rows - 1] - first == n_rows - 1:
        out[:n_rows] = d2[first : first + n_rows]
    else:
        for i in range(n_rows):
            out[i] = d2[which[i]]
    out[n_rows:] = -np.inf


@jit
def add_first_and_try(part, rows, points, d2, n_won, positions, values, team):
    """`add_center` for the first of some points, and which narrow rows the others win after that.

    IN     part; rows (m, d), points (L, d)
    INOUT  d2 (m,)
    OUT    n_won (L, p), positions (L, c), values (L, c): as of `try_candidates`; of the first point
           nothing
    """
    n_parts = n_won.shape[1]
    capacity = positions.shape[1] // n_parts
    if part == EVERY_PART:
        arguments = rows, points, d2, n_won, positions, values, team
        work_off(team, parts_of_this(arguments), n_parts)
        for c in range(1, points.shape[0]):
            close_gaps(positions[c], values[c], capacity, n_won[c])
        return
    begin, end = part_of(part, n_parts, rows.shape[0])
    n_here = np.zeros(points.shape[0], np.int64)
    width, noted = width_of_register(rows), part * capacity
    n_whole = begin + (end - begin) // width * width
    new = aligned_empty(width, rows.dtype)
    for i in range(begin, n_whole, width):
        nearer_of_block(rows, i, points, 0, d2)
        for c in range(1, points.shape[0]):
            won = won_of_block(rows, i, points, c, d2, new)
            until = noted + n_here[c]
            n_here[c] += n_set(won)
            fits = n_here[c] <= capacity
            while fits and won != 0:
                which = lowest(won)
                positions[c, until] = i + which
                values[c, until] = new[which]
                until += 1
                won &= won - 1
    for i in range(n_whole, end):
        d2[i] = min(squared_distance(rows, i, points, 0), d2[i])
        for c in range(1, points.shape[0]):
            distance = squared_distance(rows, i, points, c)
            if distance < d2[i]:
                if n_here[c] < capacity:
                    positions[c, noted + n_here[c]] = i
                    values[c, noted + n_here[c]] = distance
                n_here[c] += 1
    n_won[:, part] = n_here


@jit
def add_center(part, n_parts, rows, center, label, d2, labels, team):
    """D² and labels with one more centre.

    IN     part, n_parts; rows (m, d), center (1, d), and its label
    INOUT  d2 (m,), labels (m,) or (0,)
    """
    if part == EVERY_PART:
        work_off(team, parts_of_this((n_parts, rows, center, label, d2, labels, team)), n_parts)
        return
    begin, end = part_of(part, n_parts, rows.shape[0])
    rows, d2, labels = rows[begin:end], d2[begin:end], labels[begin:end]
    ahead, n_features = rows_ahead(rows), rows.shape[1]
    if labels.shape[0] > 0:
        for i in range(rows.shape[0]):
            prefetch(rows, (i + ahead) * n_features, n_features)
            _win(rows, i, center, label, d2, labels)
    elif is_narrow(rows):
        _add_center_to_blocks(rows, center, d2)
    else:
        for i in range(rows.shape[0]):
            prefetch(rows, (i + ahead) * n_features, n_features)
            d2[i] = min(squared_distance(rows, i, center, 0), d2[i])


@jit
def _add_center_to_blocks(rows, center, d2):
    """`add_center` for narrow rows, as many at a time as a register has values."""
    n_rows, width = rows.shape[0], width_of_register(rows)
    n_whole = n_rows // width * width
    for i in range(0, n_whole, width):
        nearer_of_block(rows, i, center, 0, d2)
    for i in range(n_whole, n_rows):
        d2[i] = min(squared_distance(rows, i, center, 0), d2[i])


@jit
def add_center_to(rows, which, center, label, d2, labels):
    """As `add_center`, to the bit, for some rows.

    IN     rows (m, d), which (p,): positions; center (1, d), and its label
    INOUT  d2 (m,), labels (m,)
    """
    last = which.shape[0] - 1
    for p in range(which.shape[0]):
        # The machine cannot foresee which rows are next.
        prefetch(rows, which[min(p + AHEAD, last)] * rows.shape[1], rows.shape[1])
        _win(rows, which[p], center, label, d2, labels)


@jit
def _win(rows, i, center, label, d2, labels):
    """Give row i to a centre if it is nearer."""
    distance = squared_distance(rows, i, center, 0)
    if distance < d2[i]:
        d2[i] = distance
        labels[i] = label


@jit
def doubtful_rows(d2, labels, reach, out):
    """Rows that a candidate may win; returns how many.

    A row whose own centre is at most half as far away as its centre is from the candidate
    cannot be won, by the triangle inequality.

    IN   d2 (m,), labels (m,); reach (k,): for each centre, a quarter of its squared distance
         from the nearest candidate
    OUT  out (m,): the rows with a larger D², ascending
    """
    lanes = n_lanes(d2)
    limits = aligned_empty(lanes, d2.dtype)
    found = 0
    for first in range(0, d2.shape[0], lanes):
        size = min(lanes, d2.shape[0] - first)
        for i in range(size):
            limits[i] = reach[labels[first + i]]
        if size < lanes:
            for i in range(first, first + size):
                out[found] = i
                found += d2[i] > limits[i - first]
            break
        bits = as_bits(load(limits, 0) < load(d2, first))
        while bits != 0:
            out[found] = first + lowest(bits)
            found += 1
            bits &= bits - 1
    return found


@jit
def take(positions, values, label, d2, labels):
    """Give rows to a new centre where it is nearer.

    IN     positions (p,), values (p,): rows and their squared distances from it; its label
    INOUT  d2 (m,), labels (m,) or (0,)
    """
    for p in range(positions.shape[0]):
        i = positions[p]
        if values[p] < d2[i]:
            d2[i] = values[p]
            if labels.shape[0] > 0:
                labels[i] = label
