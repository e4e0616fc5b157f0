"""Pricing and making swaps: what it changes to take one centre away and put another in.

All costs are clipped: a row counts w·min(D², limit), with the cut's value as the limit.  Then
rows beyond the cut cost the same wherever the centres are, and only rows that come to be
nearer than the limit matter.

Costs for m rows, L candidates, d features: `losses` is a pass over the state; `price_swaps` is one
reading of the rows with 3·m·L·d operations; `swap` reads the rows that may be won, and compares
those of the centre that goes with all others.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.assign import COMPARED, assign_more
from robust_kmeans.kernels.bits import as_bits, lowest
from robust_kmeans.kernels.distances import TILE, empty_distances, empty_tile, measure
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty, load, n_lanes
from robust_kmeans.kernels.row_registers import squared_distance
from robust_kmeans.kernels.team import job_of, n_parts_of, part_of, work_off


@jit
def losses(d2, labels, others, weights, limit, loss):
    """What each centre's rows would lose without it.

    IN   d2 (m,), labels (m,), others (m,): distance to the nearest other centre, or a little less;
         weights (m,) or (0,); limit
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
    rows, d2, labels, others, weights, unit, limit, candidates, gain, saved, mass, sums, team
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
    n_lines = candidates.shape[0] * (saved.shape[1] // rows.shape[1] + 1)
    n_parts = n_parts_of(rows.shape[0], n_lines)
    prices = (
        np.zeros((n_parts, *gain.shape)),
        np.zeros((n_parts, *saved.shape)),
        np.zeros((n_parts, *mass.shape)),
        np.zeros((n_parts, *sums.shape)),
    )
    job = job_of(_price_part, (rows, d2, labels, others, weights, unit, limit, candidates, prices))
    work_off(team, job, n_parts)
    for part in range(n_parts):
        gain += prices[0][part]
        saved += prices[1][part]
        mass += prices[2][part]
        sums += prices[3][part]


@jit
def _price_part(part, rows, d2, labels, others, weights, unit, limit, candidates, prices):
    gain, saved, mass, sums = prices
    first, last = part_of(part, gain.shape[0], rows.shape[0])
    _price(
        rows[first:last], d2[first:last], labels[first:last], others[first:last],
        weights[first:last], unit, limit, candidates, gain[part], saved[part], mass[part],
        sums[part],
    )  # fmt: skip


@jit
def _price(rows, d2, labels, others, weights, unit, limit, candidates, gain, saved, mass, sums):
    """`price_swaps` for some rows."""
    (n_rows, n_features), lanes = rows.shape, n_lanes(rows)
    tile, distances = empty_tile(rows), empty_distances(rows, candidates.shape[0])
    own, second = aligned_empty(TILE, rows.dtype), aligned_empty(TILE, rows.dtype)
    weight = np.ones(TILE, rows.dtype)
    positions = np.empty(TILE, np.int32)
    for start in range(0, n_rows, TILE):
        size = min(TILE, n_rows - start)
        for i in range(size):
            positions[i] = start + i
            own[i] = min(d2[start + i], limit)
            second[i] = min(others[start + i] * others[start + i], limit)
        if weights.shape[0] > 0:
            for i in range(size):
                weight[i] = weights[start + i] / unit
        # Behind the last row nothing is near.
        second[size:] = -np.inf
        measure(rows, positions[:size], candidates, tile, distances)
        for c in range(candidates.shape[0]):
            for first in range(0, size, lanes):
                near = as_bits(load(distances, c * TILE + first) < load(second, first))
                while near != 0:
                    i = first + lowest(near)
                    near &= near - 1
                    distance, label = distances[c * TILE + i], labels[start + i]
                    # A row that the candidate wins would come to it without its centre, too.
                    saved[c, label] += weight[i] * (second[i] - max(own[i], distance))
                    if distance < own[i]:
                        mass[c] += weight[i]
                        gain[c] += weight[i] * (own[i] - distance)
                        for f in range(n_features):
                            deviation = rows[start + i, f] - candidates[c, f]
                            sums[c, f] += weight[i] * np.float64(deviation)


@jit
def swap(rows, centers, packed, moved, gaps, d2, labels, labels_out, d2_out, team):
    """D² and labels after centre `moved` has come to a new place.

    Its rows until then may be nearest to any centre now; others stay or come to it.

    IN   rows (m, d), centers (k, d): as they are now, and `packed`; moved: the label of the one
         that moved; gaps (k,): squared distances of all to its new place; d2 (m,), labels (m,):
         before
    OUT  labels_out (m,), d2_out (m,)
    """
    n_parts = n_parts_of(rows.shape[0], 0)
    job = job_of(
        _swap_part,
        (n_parts, rows, centers, packed, moved, gaps, d2, labels, labels_out, d2_out),
    )
    work_off(team, job, n_parts)


@jit
def _swap_part(
    part, n_parts, rows, centers, packed, moved, gaps, d2, labels, labels_out, d2_out
):  # fmt: skip
    first, last = part_of(part, n_parts, rows.shape[0])
    # Block by block: so there is little memory for what is known of the orphans only.
    orphans, others = np.empty(COMPARED, np.int32), np.empty(COMPARED, np.float32)
    unasked, nobody = np.zeros(2, np.int64), np.empty(0, np.float32)
    for start in range(first, last, COMPARED):
        here = slice(start, min(start + COMPARED, last))
        n_orphans = _hand_over(
            rows[here], centers, moved, gaps, d2[here], labels[here], labels_out[here],
            d2_out[here], orphans,
        )  # fmt: skip
        assign_more(
            rows[here], orphans[:n_orphans], centers, packed, unasked, labels_out[here],
            d2_out[here], others, nobody,
        )  # fmt: skip


@jit
def _hand_over(rows, centers, moved, gaps, d2, labels, labels_out, d2_out, orphans):
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
