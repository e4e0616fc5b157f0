"""Pricing and making swaps: what it changes to take one centre away and put another in.

All costs are clipped: a row counts w·min(D², limit), with the cut's value as the limit.  Then
rows beyond the cut cost the same wherever the centres are, and only rows that come to be
nearer than the limit matter.

Costs for m rows, L candidates, d features: `losses` is a pass over the state; `price_swaps` is one
reading of the rows with 3·m·L·d operations; `hand_over` reads the rows that may win.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.distances import STRIDE, TILE, empty_tile, four_distances, transpose
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty
from robust_kmeans.kernels.row_registers import squared_distance


@jit
def losses(d2, labels, others, weights, limit, loss):
    """What each centre's rows would lose without it.

    IN   d2 (m,), labels (m,), others (m,): distance to the nearest other centre; weights (m,)
         or (0,); limit
    OUT  loss (k,), float64, added to
    """
    weighted = weights.shape[0] > 0
    for i in range(d2.shape[0]):
        second = min(others[i] * others[i], limit)
        own = min(d2[i], limit)
        weight = weights[i] if weighted else 1.0
        loss[labels[i]] += weight * (np.float64(second) - np.float64(own))


@jit
def price_swaps(
    rows, d2, labels, others, weights, unit, limit, candidates, gain, saved, mass, sums
):  # fmt: skip
    """What changes in the clipped cost with each of L candidates, in one reading of the rows.

    With candidate l in and centre j out it changes by −gain[l] + loss[j] − saved[l, j].  A
    row's part is a product in the dtype of the rows, so weights are taken in a `unit` that none
    of them exceeds.

    IN   rows (m, d), d2 (m,), labels (m,), others (m,), weights (m,) or (0,), unit; limit;
         candidates (L, d)
    OUT  all float64, in the unit, added to: gain (L,): what rows save that the candidate wins
         from their centre; saved (L, k): of `loss`, what rows of j do not lose if the candidate
         is in; mass (L,) and sums (L, d): weight and deviations from the candidate of the rows
         that it wins
    """
    n_rows, n_features = rows.shape
    real = rows.dtype.type
    tile = empty_tile(rows)
    found_distances = aligned_empty(4 * TILE, rows.dtype)
    own = np.empty(TILE, rows.dtype)
    second = np.empty(TILE, rows.dtype)
    weight = np.ones(TILE, rows.dtype)
    won = np.empty(TILE, rows.dtype)
    positions = np.empty(TILE, np.int32)
    near = np.empty(TILE, np.int32)
    for start in range(0, n_rows, TILE):
        size = min(TILE, n_rows - start)
        for i in range(size):
            positions[i] = start + i
            own[i] = min(d2[start + i], limit)
            second[i] = min(others[start + i] * others[start + i], limit)
        if weights.shape[0] > 0:
            for i in range(size):
                weight[i] = weights[start + i] / unit
        transpose(rows, positions[:size], tile, STRIDE)
        for c in range(candidates.shape[0]):
            if c % 4 == 0:
                four_distances(tile, size, candidates, c, found_distances)
            distances = found_distances[c % 4 * TILE : c % 4 * TILE + TILE]
            # Without a branch: which rows are near is anyone's guess.
            found = 0
            for i in range(size):
                near[found] = i
                found += distances[i] < second[i]
            if found == 0:
                continue
            for p in range(found):
                i = near[p]
                # A row that the candidate wins would come to it without its centre, too.
                saved[c, labels[start + i]] += weight[i] * (second[i] - max(own[i], distances[i]))
            tile_mass, tile_gain = 0.0, 0.0
            for i in range(size):
                won[i] = weight[i] if distances[i] < own[i] else real(0)
                tile_mass += np.float64(won[i])
                tile_gain += np.float64(won[i] * (own[i] - min(own[i], distances[i])))
            if tile_mass > 0:
                mass[c] += tile_mass
                gain[c] += tile_gain
                for f in range(n_features):
                    column = tile[f * STRIDE : f * STRIDE + size]
                    deviation = 0.0
                    for i in range(size):
                        deviation += np.float64(won[i] * (column[i] - candidates[c, f]))
                    sums[c, f] += deviation


@jit
def hand_over(rows, centers, moved, gaps, d2, labels, labels_out, d2_out, orphans):
    """Let rows go to centre `moved` where its new place is nearer; returns how many it has left.

    IN   rows (m, d), centers (k, d): as they are now; moved: the label of the one that moved;
         gaps (k,): squared distances of all to its new place; d2 (m,), labels (m,): before
    OUT  labels_out (m,), d2_out (m,): right for all but the orphans; orphans (m,): the rows
         that it had before, ascending, which may be nearest to any centre now
    """
    four = rows.dtype.type(4)
    found = 0
    for i in range(rows.shape[0]):
        label = labels[i]
        own = d2[i]
        if label == moved:
            orphans[found] = i
            found += 1
        elif four * own > gaps[label]:
            # Otherwise the triangle inequality rules it out.
            distance = squared_distance(rows, i, centers, moved)
            if distance < own:
                own = distance
                label = moved
        labels_out[i] = label
        d2_out[i] = own
    return found
