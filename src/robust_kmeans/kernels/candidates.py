"""Candidates for a new centre: which rows each of them would win, and what that would save.

`try_candidates`, and `add_center` for a single one, are the only kernels of the seedings that
read rows.  Rows are taken a tile at a time, so that all candidates are measured while a tile is
in the cache.  Narrow rows are transposed, which lets the vector units work across rows; wide ones
are measured along the features.  A row is won where it is nearer to the candidate than its D²
says; only won rows are noted, and only they change a candidate's histogram.

Costs for p rows, L candidates, d features: one reading of the rows and 3·p·L·d operations;
`doubtful_rows` and `take` are passes over the state and over the won rows.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.bits import as_bits, lowest
from robust_kmeans.kernels.distances import (
    TILE,
    empty_distances,
    empty_tile,
    is_narrow,
    measure,
    rows_ahead,
)
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty, load, n_lanes
from robust_kmeans.kernels.order import bin_of
from robust_kmeans.kernels.row_registers import prefetch, squared_distance

# Rows that are not next to each other, which the machine cannot foresee, are asked for so many
# rows ahead.
AHEAD = 16


@jit
def try_candidates(
    rows, which, d2, keys, weights, candidates, least, low, shift, n_won, positions, values,
    mass, sums,
):  # fmt: skip
    """The rows that each candidate would win, and what they change in a histogram of D².

    IN   rows (m, d), which (p,): positions of rows to look at; d2 (m,), and its keys (m,);
         weights (m,) or (0,); candidates (L, d); bins as in `order.histogram`
    OUT  n_won (L,), added to: how many rows; positions (L, c) and values (L, c): in ascending
         order where they are and their new D², as many as fit; mass (L, B) and sums (L, B),
         or (0, 0) for none, added to: weight and cost that bins gain or lose
    """
    n_candidates, lanes = candidates.shape[0], n_lanes(rows)
    tile, new = empty_tile(rows), empty_distances(rows, n_candidates)
    own = aligned_empty(TILE, rows.dtype)
    own_keys, new_keys = own.view(keys.dtype), new.view(keys.dtype)
    won = np.empty(TILE, np.int32)
    capacity, last = positions.shape[1], sums.shape[1] - 1
    for start in range(0, which.shape[0], TILE):
        part = which[start : start + TILE]
        measure(rows, part, candidates, tile, new)
        # Behind the last row nothing can be won.
        own[part.shape[0] :] = -np.inf
        for i in range(part.shape[0]):
            own[i] = d2[part[i]]
        for c in range(n_candidates):
            found, here = 0, c * TILE
            for first in range(0, part.shape[0], lanes):
                bits = as_bits(load(new, here + first) < load(own, first))
                while bits != 0:
                    won[found] = first + lowest(bits)
                    found += 1
                    bits &= bits - 1
            for p in range(min(found, capacity - n_won[c])):
                positions[c, n_won[c] + p] = part[won[p]]
                values[c, n_won[c] + p] = new[here + won[p]]
            n_won[c] += found
            if last < 0:
                continue
            for p in range(found):
                i = won[p]
                old_value, new_value = own[i], new[here + i]
                weight = weights[part[i]] if weights.shape[0] > 0 else 1.0
                old_bin = 0 if old_value < least else bin_of(own_keys[i], low, shift, last)
                new_bin = 0 if new_value < least else bin_of(new_keys[here + i], low, shift, last)
                mass[c, old_bin] -= weight
                mass[c, new_bin] += weight
                sums[c, old_bin] -= weight * np.float64(old_value)
                sums[c, new_bin] += weight * np.float64(new_value)


@jit
def add_center(rows, center, label, d2, labels):
    """D² and labels with one more centre.

    IN     rows (m, d), center (1, d), and its label
    INOUT  d2 (m,), labels (m,) or (0,)
    """
    ahead, n_features = rows_ahead(rows), rows.shape[1]
    if labels.shape[0] > 0:
        for i in range(rows.shape[0]):
            prefetch(rows, (i + ahead) * n_features, n_features)
            _win(rows, i, center, label, d2, labels)
    elif is_narrow(rows):
        for i in range(rows.shape[0]):
            d2[i] = min(_narrow_distance(rows, i, center), d2[i])
    else:
        for i in range(rows.shape[0]):
            prefetch(rows, (i + ahead) * n_features, n_features)
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
    narrow = is_narrow(rows)
    distance = _narrow_distance(rows, i, center) if narrow else squared_distance(rows, i, center, 0)
    if distance < d2[i]:
        d2[i] = distance
        labels[i] = label


@jit
def _narrow_distance(rows, i, center):
    """D² of row i: for narrow rows as fast as it gets without transposing."""
    total = rows.dtype.type(0)
    for f in range(rows.shape[1]):
        difference = rows[i, f] - center[0, f]
        total += difference * difference
    return total


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
