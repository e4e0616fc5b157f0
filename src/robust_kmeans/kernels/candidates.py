"""Candidates for a new centre: which rows each of them would win, and what that would save.

`try_candidates` is the only kernel of the seedings that reads rows.  Rows are taken a tile at a
time, so that all candidates are measured while a tile is in the cache.  Narrow rows are
transposed, which lets the vector units work across rows; wide ones along the features.  A row
is won where its distance to the candidate is less than its D²; only won rows are noted, and
only they change a candidate's histogram, so most of the work is arithmetic.

Costs for p rows, L candidates, d features: one reading of the rows and 3·p·L·d operations;
`doubtful_rows` and `take` are passes over the state and over the won rows.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.bits import as_bits, lowest
from robust_kmeans.kernels.distances import TILE, transpose
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty, load, n_lanes, spread, store
from robust_kmeans.kernels.order import bin_of

# Rows with at least so many features are measured along them, a few at a time.
WIDE = 64
WIDE_TILE = 16


@jit
def try_candidates(
    rows, which, d2, keys, weights, candidates, least, low, shift, n_won, positions, values,
    mass, sums,
):  # fmt: skip
    """The rows that each candidate would win, and what they change in a histogram of D².

    IN   rows (m, d), which (p,): positions of rows to look at; d2 (m,); keys (0,): of the type
         of D²'s keys; weights (m,) or (0,); candidates (L, d); bins as in `order.histogram`,
         `least` being the value with the key `low`
    OUT  n_won (L,), added to: how many rows; positions (L, c) and values (L, c): in ascending
         order where they are and their new D², as many as fit; mass (L, B) and sums (L, B),
         or (0, 0) for none, added to: weight and cost that bins gain or lose
    """
    n_features = rows.shape[1]
    # For a single candidate transposing does not pay.
    narrow = n_features < WIDE and candidates.shape[0] > 1
    tile_rows = TILE if n_features < WIDE else WIDE_TILE
    lanes = n_lanes(rows.itemsize)
    stride = TILE + lanes
    tile = aligned_empty(n_features * stride if narrow else 0, rows.dtype)
    tile[:] = 0
    own = aligned_empty(TILE, rows.dtype)
    own[:] = -np.inf
    new = aligned_empty(TILE, rows.dtype)
    own_keys, new_keys = own.view(keys.dtype), new.view(keys.dtype)
    won = np.empty(TILE, np.int32)
    capacity, last = positions.shape[1], sums.shape[1] - 1
    for start in range(0, which.shape[0], tile_rows):
        part = which[start : start + tile_rows]
        if narrow:
            transpose(rows, part, tile, stride)
        for i in range(part.shape[0]):
            own[i] = d2[part[i]]
        # Behind the last row nothing is won.
        if part.shape[0] < tile_rows:
            own[part.shape[0] :] = -np.inf
        for c in range(candidates.shape[0]):
            if narrow:
                _measure_across(tile, stride, part.shape[0], candidates[c], new)
            else:
                _measure_along(rows, part, candidates[c], new)
            found = 0
            for first in range(0, part.shape[0], lanes):
                bits = as_bits(load(new, first) < load(own, first))
                while bits != 0:
                    won[found] = first + lowest(bits)
                    found += 1
                    bits &= bits - 1
            for p in range(min(found, capacity - n_won[c])):
                positions[c, n_won[c] + p] = part[won[p]]
                values[c, n_won[c] + p] = new[won[p]]
            n_won[c] += found
            if last >= 0:
                for p in range(found):
                    i = won[p]
                    weight = weights[part[i]] if weights.shape[0] > 0 else 1.0
                    old_bin = 0 if own[i] < least else bin_of(own_keys[i], low, shift, last)
                    new_bin = 0 if new[i] < least else bin_of(new_keys[i], low, shift, last)
                    mass[c, old_bin] -= weight
                    mass[c, new_bin] += weight
                    sums[c, old_bin] -= weight * np.float64(own[i])
                    sums[c, new_bin] += weight * np.float64(new[i])


@jit
def _measure_across(tile, stride, n_rows, candidate, out):
    """Squared distances of the rows in the columns of a tile.

    IN   tile (d·stride,), stride, n_rows, candidate (d,)
    OUT  out (TILE,): the first `n_rows` of it
    """
    zero = tile.dtype.type(0)
    for first in range(0, n_rows, n_lanes(tile.itemsize)):
        total = spread(zero)
        for f in range(candidate.shape[0]):
            difference = load(tile, f * stride + first) - spread(candidate[f])
            total = total + difference * difference
        store(out, first, total)


@jit
def _measure_along(rows, which, candidate, out):
    """Squared distances of some rows.

    IN   rows (m, d), which (p,), candidate (d,)
    OUT  out (p,)
    """
    for p in range(which.shape[0]):
        total = rows.dtype.type(0)
        for f in range(candidate.shape[0]):
            difference = rows[which[p], f] - candidate[f]
            total += difference * difference
        out[p] = total


@jit
def doubtful_rows(d2, labels, reach, out):
    """Rows that a candidate may win; returns how many.

    A row whose own centre is at most half as far away as its centre is from the candidate
    cannot be won, by the triangle inequality.

    IN   d2 (m,), labels (m,); reach (k,): for each centre, a quarter of its squared distance
         from the nearest candidate
    OUT  out (m,): the rows with a larger D², ascending
    """
    found = 0
    for i in range(d2.shape[0]):
        out[found] = i
        found += d2[i] > reach[labels[i]]
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
