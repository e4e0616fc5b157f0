"""Centres compared by inner products: the nearest one of most rows, found beyond doubt.

With rows x and centres c shifted by an origin amid the centres, ‖x − c‖² is ‖x‖² plus the score
‖c‖² − 2x·c, one multiplication and addition per feature:

1. as many rows as `Lanes` holds are transposed into a tile, 64 features at a time, so that the
   tile stays in the L1 cache and every value of it is read once for four centres;
2. sums over these features are added to the scores; with the last features the best score, its
   label and the second-best score are kept in registers;
3. a label is certain where the second-best score is worse by more than rounding can explain; other
   rows, if they are so wide that all their scores are at hand, are measured against the few centres
   that may be nearest or second;
4. the second-best score, less rounding, bounds the distance to all other centres.

Scores may have fewer digits than the rows: in float32 they take half the time of float64, and in
whole numbers of 16 bits (`words`) half of that again; they are enough for nearly all rows.  (A row
is left undecided there if it is much nearer to its second centre than to the origin, as the bound
would be vague.)  D² has the bits of `squared_distance` within the band round the cut; elsewhere it
is what scores tell, on the right side of the band.

Costs for m rows, k centres, d features: one reading of the rows and m·k·d fused operations.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.bits import as_bits, lowest, lowest_bits
from robust_kmeans.kernels.doubts import as_bound, as_due, decide, most_measured
from robust_kmeans.kernels.dues import direct_error, limits_of, when_due
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    aligned_empty,
    all_of,
    copy,
    fused,
    load,
    maximum,
    minimum,
    n_lanes,
    spread,
    square_root,
    store,
    store_times,
    where,
    width_of_register,
)
from robust_kmeans.kernels.own_center import distances_to_own, lines_for
from robust_kmeans.kernels.row_registers import prefetch, squared_distance
from robust_kmeans.kernels.tiles import add_terms, fill_tile
from robust_kmeans.kernels.words import FEATURES, SHARE, add_products, round_tile

# Rows of a tile that are so many bytes are brought to the L2 cache while others are there.
ROW_BYTES = 2**18
# Rows of a tile that lie among so many times as many are brought there one by one.
DENSE = 32
# They are asked for in whole lines of the cache, a few at a time: more of them than the machine can
# wait for at once would hold everything up.
LINE_BYTES = 64
MOST_LINES = 12
# Float32 must tell the squared distance of the second centre to this share of it: the bound then
# is at most twice as vague, and local search, which takes it for that distance, hardly misled.
VAGUE = 2**-7
# Off the band round the cut scores must tell D² to this share of that to the second centre: the
# distance is then off by less than a twentieth of that one, and bounds are worth nearly as much.
ROUGH = 2**-9


@jit
def compare(rows, which, centers, packed, in_words, labels, d2, others, due, undecided):
    """The nearest centre of some rows; returns how many of them are undecided.

    Every lane is computed alike, so that no row's result depends on its neighbours.

    IN   rows (m, d), which (p,): positions of the rows to compare, ascending; centers (k, d), and
         `packed`; in_words: whether to take its `Words`
    OUT  at these positions, where they are decided: labels (m,); d2 (m,): D² to that centre; others
         (m,), float32: a distance than which no other centre is nearer, with their way if it is
         packed; due (m,) or (0,): see `dues`; undecided (p,), which may be `which`: positions of
         the others
    """
    n_rows, n_features = which.shape[0], rows.shape[1]
    origin, factors, norms = packed.origin, packed.factors, packed.norms
    dtype, real, error = factors.dtype, factors.dtype.type, factors.dtype.type(packed.error)
    scale, unit = rows.dtype.type(packed.scale), 1 / packed.scale
    lanes, width = n_lanes(factors), width_of_register(factors)
    positions = np.empty(lanes, np.uint32)
    tile = aligned_empty(FEATURES * lanes, dtype)
    # Rows as they are, to measure them, and a tile of them less the origin, to compare centres.
    looked_up, n_lines = packed.columns.shape[0] > 0, lines_for(n_features)
    raw = aligned_empty(n_lines * lanes if looked_up else 0, dtype)
    raw[:] = 0
    # As long as whole registers beyond the last feature.
    shift = np.zeros(n_features + width, rows.dtype)
    shift[:n_features] = origin
    scores = aligned_empty(norms.shape[0] * lanes if n_features > FEATURES else 0, dtype)
    best, second = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    squares, bounds = aligned_empty(lanes, dtype), np.empty(lanes, np.float32)
    distances, own = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    blurs, at_least = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    roughly = aligned_empty(lanes, dtype)
    winner, untils = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    moving, asked = packed.journey.lines.shape[0] > 0, due.shape[0] > 0
    limits = limits_of(rows, packed.journey, packed.scale)
    square_scale = rows.dtype.type(packed.scale) * rows.dtype.type(packed.scale)
    square_unit = rows.dtype.type(1) / square_scale
    edge = 4 * np.finfo(dtype).eps
    below_band = spread(real(packed.journey.low * square_scale * (1 - edge)))
    above_band = spread(real(packed.journey.high * square_scale * (1 + edge)))
    # Below this, squares have lost digits and no share of them covers the loss.
    smallest = np.finfo(dtype).tiny
    rounded = real(1 - 4 * np.finfo(np.float32).eps)
    direct = real(direct_error(rows))
    coarse, vague = in_words or factors.itemsize < rows.itemsize, error / real(VAGUE)
    words, n_pairs = packed.words, (n_features + 1) // 2
    numbers = aligned_empty(FEATURES // 2 * lanes if in_words else 0, np.int32)
    longest = real(2) * real(words.lengths.max()) if in_words else real(0)
    most = most_measured(centers, coarse)
    n_undecided, n_centers, zero = 0, centers.shape[0], spread(real(0))
    largest = real(2) * norms[: centers.shape[0]].max()
    few_bytes = lanes * n_features * rows.itemsize <= ROW_BYTES
    n_steps = (n_features + FEATURES - 1) // FEATURES * (norms.shape[0] // 4)
    line = LINE_BYTES // rows.itemsize
    many_lines = lanes * n_features > MOST_LINES * line * n_steps
    if many_lines:
        n_steps += (n_features + width - 1) // width * (lanes // width)
    share, n_soon = lanes // (norms.shape[0] // 4) + 1, min(n_features, FEATURES)
    for start in range(0, n_rows, lanes):
        size = min(lanes, n_rows - start)
        here = which[start : start + size]
        for i in range(size):
            positions[i] = here[i]
        for i in range(size, lanes):
            positions[i] = here[size - 1]
        first_ahead, last_ahead = (
            which[min(start + lanes, n_rows - 1)],
            which[min(start + 2 * lanes, n_rows) - 1],
        )
        ahead, until_ahead = first_ahead * n_features, (last_ahead + 1) * n_features
        n_ahead = ((until_ahead - ahead) // n_steps // line + 1) * line
        dense = last_ahead - first_ahead < DENSE * lanes
        in_order = few_bytes and dense
        if asked and dense:
            prefetch(d2, first_ahead, last_ahead - first_ahead + 1)
            prefetch(others, first_ahead, last_ahead - first_ahead + 1)
        square = length = of_one = zero
        nearest, runner_up = spread(real(np.inf)), spread(real(np.inf))
        label = spread(real(0))
        for first in range(0, n_features, FEATURES):
            n_here = min(FEATURES, n_features - first)
            ahead = fill_tile(
                rows, positions, lanes, first, n_here, shift, scale, tile, raw, lanes,
                ahead, n_ahead if in_order and many_lines else 0,
            )  # fmt: skip
            part = zero
            if in_words:
                # Without a centre, for squares alone.
                _, _, _, _, part = add_terms(
                    tile, n_here, factors, 0, 0, True, zero, zero, zero, zero, part
                )
                square = square + part
                of_one = round_tile(tile, n_here, part, numbers)
                length = square_root(square)
            for j in range(0, norms.shape[0], 4):
                # The next rows come to the cache meanwhile, in the order in which they are stored;
                # or one by one, where they are scattered; or, where they would be too many bytes,
                # the next features of these rows.
                if in_order and ahead < until_ahead:
                    prefetch(rows, ahead, n_ahead)
                    ahead += n_ahead
                elif not in_order:
                    for i in range(j // 4 * share, min((j // 4 + 1) * share, lanes)):
                        soon = positions[i] * n_features + first + FEATURES
                        if few_bytes or first + FEATURES >= n_features:
                            soon = which[min(start + lanes + i, n_rows - 1)] * n_features
                            soon += first if few_bytes else 0
                        prefetch(rows, soon, n_soon)
                        # The last of them may be in a line of the cache of its own.
                        prefetch(rows, soon + n_soon - 1, 1)
                s0, s1, s2, s3 = zero, zero, zero, zero
                if first == 0:
                    s0, s1 = spread(norms[j]), spread(norms[j + 1])
                    s2, s3 = spread(norms[j + 2]), spread(norms[j + 3])
                if in_words:
                    s0, s1, s2, s3 = add_products(
                        numbers, (n_here + 1) // 2, words.pairs, j * n_pairs + 2 * first,
                        of_one, words.steps, first // FEATURES * norms.shape[0] + j,
                        s0, s1, s2, s3,
                    )  # fmt: skip
                else:
                    # Squares are added up beside the last centres.
                    last = j + 4 >= n_centers
                    s0, s1, s2, s3, part = add_terms(
                        tile, n_here, factors, j * n_features + 4 * first,
                        min(4, n_centers - j), last, s0, s1, s2, s3, part,
                    )  # fmt: skip
                    if last:
                        square = square + part
                if first > 0:
                    s0 = s0 + load(scores, j * lanes)
                    s1 = s1 + load(scores, (j + 1) * lanes)
                    s2 = s2 + load(scores, (j + 2) * lanes)
                    s3 = s3 + load(scores, (j + 3) * lanes)
                if in_words and first + FEATURES >= n_features:
                    # Now none is too large.
                    s0 = s0 - length * spread(real(words.lengths[j]))
                    s1 = s1 - length * spread(real(words.lengths[j + 1]))
                    s2 = s2 - length * spread(real(words.lengths[j + 2]))
                    s3 = s3 - length * spread(real(words.lengths[j + 3]))
                if scores.shape[0] > 0:
                    store(scores, j * lanes, s0)
                    store(scores, (j + 1) * lanes, s1)
                    store(scores, (j + 2) * lanes, s2)
                    store(scores, (j + 3) * lanes, s3)
                if first + FEATURES < n_features:
                    continue
                for number, score in ((j, s0), (j + 1, s1), (j + 2, s2), (j + 3, s3)):
                    runner_up = minimum(runner_up, maximum(nearest, score))
                    label = where(score < nearest, spread(real(number)), label)
                    nearest = minimum(score, nearest)
        bound = fused(square, spread(real(1) - error), runner_up) - spread(smallest)
        bound = square_root(maximum(bound, spread(real(0)))) * spread(rounded)
        store(winner, 0, label)
        in_a_row = size == lanes and positions[lanes - 1] - positions[0] == lanes - 1
        # What rounding can do to the best score, with the largest norm of all, or no larger one
        # than the nearest centre of a row can have, ‖c‖ ≤ ‖x‖ + D.
        told = maximum(square + nearest, spread(real(0)))
        margin = minimum(
            spread(error * largest),
            fused(square, spread(real(4.1) * error), told * spread(real(4.1) * error)),
        )
        margin = fused(square, spread(error + direct), margin + spread(smallest))
        if in_words:
            margin = margin + minimum(
                length * spread(longest),
                (square + square + square + told) * spread(real(1.01 * SHARE)),
            )
        if looked_up:
            exact = distances_to_own(raw, packed.columns, n_features, label)
            store(own, 0, exact)
            store(at_least, 0, exact)
        else:
            # Off the band round the cut D² need not be known better than scores tell it.
            # (The margin is for the difference of two scores; ‖x‖² itself is rounded, too.)
            off = margin + margin
            upper, lower = told + off, told - off
            rough = (upper < below_band) | (above_band < lower)
            if moving:
                rough = rough & (off < (square + runner_up) * spread(real(ROUGH)))
            store(own, 0, upper)
            store(at_least, 0, lower)
            store(roughly, 0, told)
            if in_a_row:
                store_times(d2, positions[0], told, square_unit)
            else:
                for i in range(size):
                    d2[positions[i]] = rows.dtype.type(roughly[i]) * square_unit
            bits = ~as_bits(rough) & lowest_bits(size)
            while bits != 0:
                i = lowest(bits)
                bits &= bits - 1
                row = positions[i]
                d2[row] = squared_distance(rows, row, centers, np.uint32(winner[i]))
                own[i] = at_least[i] = d2[row] * square_scale
        if moving:
            _, bound, until = when_due(
                load(at_least, 0), load(own, 0), bound, False, label, winner, packed.journey, limits
            )
            store(untils, 0, until)
        store(distances, 0, bound)
        for i in range(lanes):
            bounds[i] = as_bound(distances[i] * unit, centers)
        if in_a_row:
            row = positions[0]
            store(labels, row, label)
            if looked_up:
                store_times(d2, row, exact, square_unit)
            copy(others, row, bounds, label)
            if asked:
                for i in range(lanes):
                    due[row + i] = as_due(untils[i] * unit)
        else:
            for i in range(size):
                row = positions[i]
                labels[row] = np.uint32(winner[i])
                others[row] = bounds[i]
                if looked_up:
                    d2[row] = own[i]
                if asked:
                    due[row] = as_due(untils[i] * unit)
        blur = square * spread(vague)
        if in_words:
            # Of a centre that is much farther from the origin than the row nothing is vague.
            blur = blur + minimum(
                length * spread(longest / real(VAGUE)), square * spread(real(4 * SHARE / VAGUE))
            )
        certain = all_of(nearest + margin < runner_up * spread(real(1) - direct))
        if coarse:
            certain &= all_of(blur <= square + runner_up)
        if not certain:
            store(best, 0, nearest)
            store(second, 0, runner_up)
            store(squares, 0, square)
            store(blurs, 0, blur)
            decided = np.int64(0)
            for i in range(size):
                norm = real(2) * norms[np.uint32(winner[i])]
                margin_here = (error + direct) * squares[i] + (error * norm + smallest)
                stretch = real(2) * np.sqrt(squares[i]) if in_words else real(0)
                if in_words:
                    margin_here += stretch * real(words.lengths[np.uint32(winner[i])])
                certain = best[i] + margin_here < second[i] * (real(1) - direct)
                if coarse:
                    certain &= blurs[i] <= squares[i] + second[i]
                row = positions[i]
                if certain:
                    continue
                if scores.shape[0] == 0 or not decide(
                    rows, row, centers, packed, scores[i::lanes], squares[i], stretch,
                    most, labels, d2, others,
                ):  # fmt: skip
                    undecided[n_undecided] = row
                    n_undecided += 1
                    if asked:
                        # Most likely it is so near to another that it is soon due again.
                        due[row] = -np.inf
                elif moving:
                    decided |= np.int64(1) << i
                    own[i] = at_least[i] = d2[row] * square_scale
                    # Of a row beyond the range of float32 less is known; so it must be finite.
                    distances[i] = min(others[row] * scale, np.finfo(dtype).max / 4)
                    winner[i] = labels[row]
            if decided != 0:
                _, bound, until = when_due(
                    load(at_least, 0), load(own, 0), load(distances, 0), False, load(winner, 0),
                    winner, packed.journey, limits,
                )  # fmt: skip
                store(distances, 0, bound)
                store(untils, 0, until)
                while decided != 0:
                    i = lowest(decided)
                    decided &= decided - 1
                    others[positions[i]] = as_bound(distances[i] * unit, centers)
                    if asked:
                        due[positions[i]] = as_due(untils[i] * unit)
    return n_undecided
