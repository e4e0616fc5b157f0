"""Pricing and making swaps: what it changes to take one centre away and put another in.

All costs are clipped: a row counts w·min(D², limit), with the cut's value as the limit.  Then
rows beyond the cut cost the same wherever the centres are, and only rows that come to be
nearer than the limit matter.

Costs for m rows, L candidates, d features: `losses` is a pass over the state; `price_swaps` is one
reading of the rows with 3·m·L·d operations, or of the rows in doubt with 3·d for each candidate;
`hand_over` reads the rows that may win.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.bits import as_bits, below, lowest, n_set
from robust_kmeans.kernels.distances import TILE, empty_distances, empty_tile, measure
from robust_kmeans.kernels.dues import ROUNDING
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import aligned_empty, load, n_lanes, width_of_register
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

# Up to this share of a tile's rows and candidates, those in doubt are measured one by one.  Where
# they are more, the next tiles are not asked, so many.
SPARSE = 0.25
UNASKED = 15


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
    part, rows, d2, labels, others, weights, unit, limit, candidates, apart, gain, saved, mass,
    sums, team,
):  # fmt: skip
    """What changes in the clipped cost with each of L candidates, in one reading of the rows.

    With candidate l in and centre j out it changes by −gain[l] + loss[j] − saved[l, j].  A
    row's part is a product in the dtype of the rows, so weights are taken in a `unit` that none
    of them exceeds.

    Few rows are nearer to a candidate than to their second centre, where there are clusters: those
    that may be, by the triangle inequality, are measured one by one, unless they are many.

    IN   part; rows (m, d), d2 (m,), labels (m,), others (m,), weights (m,) or (0,), unit; limit;
         candidates (L, d), 64 at most; apart (k, A), float32, A being whole registers: how far
         each centre is from each candidate at least, infinity behind the last; or (0, A), for
         all rows to be measured
    OUT  all float64, in the unit, added to, of all p parts in the first entries: gain (p, L): what
         rows save that the candidate wins from their centre; saved (p, L, k): of `loss`, what rows
         of j do not lose if the candidate is in; mass (p, L) and sums (p, L, d): weight and
         deviations from the candidate of the rows that it wins
    """
    if part == EVERY_PART:
        job = parts_of_this(
            (rows, d2, labels, others, weights, unit, limit, candidates, apart, gain, saved, mass,
             sums, team)
        )  # fmt: skip
        work_off(team, job, gain.shape[0])
        add_up(gain)
        add_up(saved)
        add_up(mass)
        add_up(sums)
        return
    begin, end = part_of(part, gain.shape[0], rows.shape[0])
    own_gain, own_saved = own_sums(gain, part), own_sums(saved, part)
    own_mass, totals = own_sums(mass, part), own_sums(sums, part)
    lanes, n_candidates = n_lanes(rows), candidates.shape[0]
    tile, distances = empty_tile(rows), empty_distances(rows, n_candidates)
    own, second = aligned_empty(TILE, rows.dtype), aligned_empty(TILE, rows.dtype)
    weight = np.ones(TILE, rows.dtype)
    positions, doubts = np.empty(TILE, np.int32), np.empty(TILE, np.int64)
    near, unasked = np.empty(n_candidates, np.int64), 0
    filtered = apart.shape[0] > 0
    for start in range(begin, end, TILE):
        size = min(TILE, end - start)
        for i in range(size):
            positions[i] = start + i
            own[i] = min(d2[start + i], limit)
            second[i] = min(others[start + i] * others[start + i], limit)
        if weights.shape[0] > 0:
            for i in range(size):
                weight[i] = weights[start + i] / unit
        sparse = False
        if unasked > 0:
            unasked -= 1
        elif filtered:
            n_doubts = find_doubts(d2, labels, second, start, size, apart, doubts)
            sparse = n_doubts <= SPARSE * size * n_candidates
            unasked = 0 if sparse else UNASKED
        near[:] = 0
        if sparse:
            for i in range(size):
                while doubts[i] != 0:
                    c = lowest(doubts[i])
                    doubts[i] &= doubts[i] - 1
                    distance = squared_distance(rows, start + i, candidates, c)
                    distances[c * TILE + i] = distance
                    near[c] |= np.int64(distance < second[i]) << i
        else:
            # Behind the last row nothing is near.
            second[size:] = -np.inf
            measure(rows, positions[:size], candidates, tile, distances)
            for c in range(n_candidates):
                for first in range(0, size, lanes):
                    here = load(distances, c * TILE + first) < load(second, first)
                    near[c] |= as_bits(here) << first
        for c in range(n_candidates):
            while near[c] != 0:
                i = lowest(near[c])
                near[c] &= near[c] - 1
                distance, label = distances[c * TILE + i], labels[start + i]
                # A row that the candidate wins would come to it without its centre, too.
                own_saved[c, label] += weight[i] * (second[i] - max(own[i], distance))
                if distance < own[i]:
                    own_mass[c] += weight[i]
                    own_gain[c] += weight[i] * (own[i] - distance)
                    add_deviation(rows, start + i, candidates, c, totals, weight[i])
    hand_in(own_gain, gain, part)
    hand_in(own_saved, saved, part)
    hand_in(own_mass, mass, part)
    hand_in(totals, sums, part)


@jit
def find_doubts(d2, labels, second, start, n_rows, apart, doubts):
    """Which candidates may be nearer to a row than its second centre; returns how many in all.

    None is that is farther from the row's own centre than the row and the second together.

    IN   d2 (m,), labels (m,); second: squared, of the rows from `start` on; apart (k, A)
    OUT  doubts: of each of these rows, the candidates as bits
    """
    found = 0
    width, n_registers = width_of_register(apart), apart.shape[1] // width_of_register(apart)
    table = apart.ravel()
    for i in range(n_rows):
        way = np.sqrt(d2[start + i]) + np.sqrt(second[i])
        reach = np.float32(way) * np.float32(1 + ROUNDING)
        line = np.uint32(labels[start + i]) * apart.shape[1]
        bits = np.int64(0)
        for register in range(n_registers):
            bits |= below(table, line + register * width, reach) << (register * width)
        doubts[i] = bits
        found += n_set(bits)
    return found


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
