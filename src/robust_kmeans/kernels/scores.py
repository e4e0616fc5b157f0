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

Scores may have fewer digits than the rows: in float32 they take half the time, and are enough for
nearly all float64 rows.  (A row is left undecided there if it is much nearer to its second centre
than to the origin, as the bound would be vague.)  D² itself has the bits of `squared_distance`.

Costs for m rows, k centres, d features: one reading of the rows and m·k·d fused operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.dues import (
    NOTHING_KNOWN,
    Bounds,
    Scaled,
    direct_error,
    limits_of,
    scaled,
    when_due,
)
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    aligned_empty,
    all_of,
    fused,
    load,
    maximum,
    minimum,
    n_lanes,
    spread,
    square_root,
    store,
    where,
    width_of_register,
)
from robust_kmeans.kernels.own_center import columns_of, distances_to_own, lines_for
from robust_kmeans.kernels.row_registers import prefetch, squared_distance, transpose_square

Floats = NDArray[np.floating]

# Features per tile, which then takes a third of the L1 cache; and the longest sum in one go,
# which keeps rounding small for wide rows.
FEATURES = 64
# Rows of a tile that are so many bytes are brought to the L2 cache while others are there.
ROW_BYTES = 2**18
# Rows of a tile that lie among so many times as many are brought there one by one.
DENSE = 32
# Among so many centres, or such a part of all, direct differences decide what float32 cannot; among
# more of them float64 does.
FEW = 8
# So many centres show where the middle of all is.
SAMPLE = 9
# Float32 must tell the squared distance of the second centre to this share of it: the bound then
# is at most twice as vague, and local search, which takes it for that distance, hardly misled.
VAGUE = 2**-7
# In float32, float64 values are scaled so that the farthest centre is 2⁴⁰ from the origin: rows may
# be a million times as far away, and centres by 2⁻⁸⁰ nearer, before squares leave its range.
FARTHEST = 40
# And by no more than 2⁴⁶⁰: squares that are lost in float64 are then lost in float32, too.
MOST_SCALED = 460
# Labels are floats while rows are compared: whole numbers up to this one are exact in float32.
MOST_LABELS = 2**24


class Packed(NamedTuple):
    """Centres, made ready for scores, less `origin` and times `scale`.

    `factors` holds −2c, for four centres at a time: feature by feature, the four values next to
    each other.  `norms` is ‖c‖², made so small that no score is too large; infinity for the
    centres that are missing from the last four.  `error` is what rounding can do to a score, as
    a share of ‖x‖² + ‖c‖², and to the difference of two, as a share of ‖x‖².  `columns` are the
    centres as they are, to look them up in; empty where that is not worth it.  `journey` is for
    rows that are to be left alone for a while.
    """

    origin: Floats
    scale: float
    factors: Floats
    norms: Floats
    error: float
    columns: Floats
    journey: Scaled


class Comparable(NamedTuple):
    """Centres, packed for scores in float32, and for scores in the dtype of the rows."""

    coarse: Packed
    fine: Packed


def pack(centers: Floats, bounds: Bounds = NOTHING_KNOWN) -> Comparable:
    """Make centres ready to be compared, with what is known of them.

    The origin is the median, feature by feature, of a few centres: those that are far from all
    others, such as outliers drawn as seeds, do not take the digits of the rest.
    """
    some = centers[:: -(-len(centers) // SAMPLE)]
    origin = np.sort(some, axis=0)[len(some) // 2]
    fine = _packed(centers, origin, 1.0, centers.dtype, bounds)
    if centers.dtype == np.float32 or len(centers) >= MOST_LABELS:
        return Comparable(fine, fine)
    farthest = np.abs(centers - origin).max()
    scale = 2.0 ** min(FARTHEST - int(np.frexp(farthest)[1]), MOST_SCALED) if farthest > 0 else 1.0
    return Comparable(_packed(centers, origin, scale, np.dtype(np.float32), bounds), fine)


def _packed(
    centers: Floats, origin: Floats, scale: float, dtype: np.dtype[np.floating], bounds: Bounds
) -> Packed:
    n_groups = -(-len(centers) // 4)
    factors = np.zeros(4 * n_groups * centers.shape[1], dtype)
    norms = np.full(4 * n_groups, np.inf, dtype)
    error = _pack(centers, origin, scale, factors, norms)
    # In rounded values rows are only compared, not measured: there is nothing to look up.
    columns = columns_of(centers) if dtype == centers.dtype else np.empty(0, dtype)
    return Packed(origin, scale, factors, norms, error, columns, scaled(bounds, scale, dtype))


@jit
def _pack(centers, origin, scale, factors, norms):
    """Fill the parts of `Packed`, and return its `error`.

    A sum is off by at most eps/2 times its depth, how many additions a term goes through, as a
    share of all terms' size.  A score adds no more than 64 terms to ‖c‖², and one sum per 64 more
    features; its terms add up to no more than ‖x‖² + 2‖c‖².  ‖x‖² is summed in the same way.  The
    shift, which rounds x and c once each, adds four.  (In other digits than those of the rows they
    are rounded twice, the first time by next to nothing.)

    IN   centers (k, d), origin (d,), scale
    OUT  factors (⌈k/4⌉·d·4,), norms (⌈k/4⌉·4,)
    """
    n_centers, n_features = centers.shape
    real = factors.dtype.type
    depth = min(n_features, FEATURES) + n_features // FEATURES + 6
    error = depth * np.finfo(factors.dtype).eps
    for j in range(n_centers):
        square = 0.0
        for f in range(n_features):
            value = real((centers[j, f] - origin[f]) * centers.dtype.type(scale))
            square += np.float64(value) * np.float64(value)
            factors[(j // 4 * n_features + f) * 4 + j % 4] = real(-2) * value
        norms[j] = square * (1 - error)
    return error


@jit
def compare(rows, which, centers, packed, labels, d2, others, due, undecided):
    """The nearest centre of some rows; returns how many of them are undecided.

    Every lane is computed alike, so that no row's result depends on its neighbours.

    IN   rows (m, d), which (p,): positions of the rows to compare, ascending; centers (k, d), and
         `packed`
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
    nothing = np.zeros(n_features, rows.dtype)
    scores = aligned_empty(norms.shape[0] * lanes if n_features > FEATURES else 0, dtype)
    best, second = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    squares, bounds = aligned_empty(lanes, dtype), np.empty(lanes, np.float32)
    distances, own = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    winner, untils = aligned_empty(lanes, dtype), aligned_empty(lanes, dtype)
    moving, asked = packed.journey.lines.shape[0] > 0, due.shape[0] > 0
    limits = limits_of(rows, packed.journey, packed.scale)
    square_scale = rows.dtype.type(packed.scale) * rows.dtype.type(packed.scale)
    # Below this, squares have lost digits and no share of them covers the loss.
    smallest = np.finfo(dtype).tiny
    rounded = real(1 - 4 * np.finfo(np.float32).eps)
    direct = real(direct_error(rows))
    coarse, vague = factors.itemsize < rows.itemsize, error / real(VAGUE)
    most = max(FEW, centers.shape[0] // FEW) if coarse else centers.shape[0]
    n_undecided = 0
    largest = real(2) * norms[: centers.shape[0]].max()
    few_bytes = lanes * n_features * rows.itemsize <= ROW_BYTES
    n_steps = (n_features + FEATURES - 1) // FEATURES * (norms.shape[0] // 4)
    share, n_soon = lanes // (norms.shape[0] // 4) + 1, min(n_features, FEATURES)
    for start in range(0, n_rows, lanes):
        size = min(lanes, n_rows - start)
        for i in range(lanes):
            positions[i] = which[start + min(i, size - 1)]
        first_ahead, last_ahead = (
            which[min(start + lanes, n_rows - 1)],
            which[min(start + 2 * lanes, n_rows) - 1],
        )
        ahead = first_ahead * n_features
        n_ahead = (last_ahead - first_ahead + 1) * n_features // n_steps + 1
        dense = last_ahead - first_ahead < DENSE * lanes
        if asked and dense:
            prefetch(d2, first_ahead, last_ahead - first_ahead + 1)
            prefetch(others, first_ahead, last_ahead - first_ahead + 1)
        square = spread(real(0))
        nearest, runner_up = spread(real(np.inf)), spread(real(np.inf))
        label = spread(real(0))
        for first in range(0, n_features, FEATURES):
            n_here = min(FEATURES, n_features - first)
            for f in range(0, n_here, width):
                for i in range(0, lanes, width):
                    transpose_square(
                        rows, positions, i, first + f, min(width, n_here - f),
                        nothing if looked_up else origin, scale,
                        raw if looked_up else tile, f * lanes + i, lanes,
                    )  # fmt: skip
            if looked_up:
                for f in range(n_features):
                    store(tile, f * lanes, load(raw, f * lanes) - spread(real(origin[f])))
            part = spread(real(0))
            for f in range(n_here):
                x = load(tile, f * lanes)
                part = fused(x, x, part)
            square = square + part
            for j in range(0, norms.shape[0], 4):
                # The next rows come to the cache meanwhile, in the order in which they are stored;
                # or one by one, where they are scattered; or, where they would be too many bytes,
                # the next features of these rows.
                if few_bytes and dense:
                    prefetch(rows, ahead, n_ahead)
                    ahead += n_ahead
                else:
                    for i in range(j // 4 * share, min((j // 4 + 1) * share, lanes)):
                        soon = positions[i] * n_features + first + FEATURES
                        if few_bytes or first + FEATURES >= n_features:
                            soon = which[min(start + lanes + i, n_rows - 1)] * n_features
                            soon += first if few_bytes else 0
                        prefetch(rows, soon, n_soon)
                        # The last of them may be in a line of the cache of its own.
                        prefetch(rows, soon + n_soon - 1, 1)
                s0, s1, s2, s3 = spread(real(0)), spread(real(0)), spread(real(0)), spread(real(0))
                if first == 0:
                    s0, s1 = spread(norms[j]), spread(norms[j + 1])
                    s2, s3 = spread(norms[j + 2]), spread(norms[j + 3])
                at = j * n_features + 4 * first
                for f in range(n_here):
                    x = load(tile, f * lanes)
                    s0 = fused(x, spread(factors[at + 4 * f]), s0)
                    s1 = fused(x, spread(factors[at + 4 * f + 1]), s1)
                    s2 = fused(x, spread(factors[at + 4 * f + 2]), s2)
                    s3 = fused(x, spread(factors[at + 4 * f + 3]), s3)
                if first > 0:
                    s0 = s0 + load(scores, j * lanes)
                    s1 = s1 + load(scores, (j + 1) * lanes)
                    s2 = s2 + load(scores, (j + 2) * lanes)
                    s3 = s3 + load(scores, (j + 3) * lanes)
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
        if looked_up:
            store(own, 0, distances_to_own(raw, packed.columns, n_features, label))
        if moving:
            if not looked_up:
                for i in range(size):
                    row = positions[i]
                    d2[row] = squared_distance(rows, row, centers, np.uint32(winner[i]))
                    own[i] = d2[row] * square_scale
            _, bound, until = when_due(
                load(own, 0), bound, False, label, winner, packed.journey, limits
            )
            store(untils, 0, until)
        store(distances, 0, bound)
        for i in range(lanes):
            bounds[i] = as_bound(distances[i] * unit, centers)
        if looked_up and size == lanes and positions[lanes - 1] - positions[0] == lanes - 1:
            row = positions[0]
            store(labels, row, label)
            for i in range(lanes):
                d2[row + i] = own[i]
                others[row + i] = bounds[i]
            if asked:
                for i in range(lanes):
                    due[row + i] = untils[i] * unit
        else:
            for i in range(size):
                row = positions[i]
                labels[row] = np.uint32(winner[i])
                others[row] = bounds[i]
                if looked_up:
                    d2[row] = own[i]
                elif not moving:
                    d2[row] = squared_distance(rows, row, centers, np.uint32(winner[i]))
                if asked:
                    due[row] = untils[i] * unit
        # The largest norm will do for almost all tiles, and is the same for all lanes.
        margin = fused(square, spread(error + direct), spread(error * largest + smallest))
        certain = all_of(nearest + margin < runner_up * spread(real(1) - direct))
        if coarse:
            certain &= all_of(square * spread(vague) <= square + runner_up)
        if not certain:
            store(best, 0, nearest)
            store(second, 0, runner_up)
            store(squares, 0, square)
            for i in range(size):
                norm = real(2) * norms[np.uint32(winner[i])]
                margin_here = (error + direct) * squares[i] + (error * norm + smallest)
                certain = best[i] + margin_here < second[i] * (real(1) - direct)
                if coarse:
                    certain &= squares[i] * vague <= squares[i] + second[i]
                if certain:
                    continue
                if asked:
                    # Most likely it is so near to another that it is soon due again.
                    due[positions[i]] = -np.inf
                if scores.shape[0] == 0 or not _decide(
                    rows, positions[i], centers, packed, scores[i::lanes], squares[i], most,
                    labels, d2, others,
                ):  # fmt: skip
                    undecided[n_undecided] = positions[i]
                    n_undecided += 1
    return n_undecided


@jit
def _decide(rows, i, centers, packed, scores, square, most, labels, d2, others):
    """The nearest centre of row i by direct differences, and whether it was found.

    Only those are measured that may be nearest or second, as far as scores tell; none, if they are
    more than `most`.

    IN   rows (m, d), i; centers (k, d), and `packed`; scores (k,), square: of the row; most
    OUT  at i: labels (m,), d2 (m,), others (m,)
    """
    real = packed.factors.dtype.type
    error, direct = real(packed.error), real(direct_error(rows))
    above = (error + direct) * square + np.finfo(packed.factors.dtype).tiny
    first = runner_up = real(np.inf)
    for j in range(centers.shape[0]):
        upper = scores[j] + (above + error * (real(2) * packed.norms[j]))
        if upper < first:
            first, runner_up = upper, first
        elif upper < runner_up:
            runner_up = upper
    n_near = 0
    for j in range(centers.shape[0]):
        n_near += not runner_up < scores[j] * (real(1) - direct)
    if n_near > most:
        return False
    measure_near(rows, i, centers, scores, runner_up, labels, d2, others)
    return True


@jit
def measure_near(rows, i, centers, scores, most, labels, d2, others):
    """The nearest centre of row i by direct differences, among those with scores up to `most`.

    With scores above it by more than direct differences can be off, a centre is neither the nearest
    nor the second.

    IN   rows (m, d), i; centers (k, d), scores (k,) or more, most
    OUT  at i: labels (m,), d2 (m,), others (m,)
    """
    kept = scores.dtype.type(1) - scores.dtype.type(direct_error(rows))
    best = second = rows.dtype.type(np.inf)
    for j in range(centers.shape[0]):
        if most < scores[j] * kept:
            continue
        distance = squared_distance(rows, i, centers, j)
        if distance < best:
            best, second = distance, best
            labels[i] = j
        elif distance < second:
            second = distance
    d2[i] = best
    tiny, off = np.finfo(rows.dtype).tiny, rows.dtype.type(direct_error(rows))
    bound = np.sqrt(max(second * (1 - off) - tiny, 0)) * (1 - 4 * np.finfo(np.float32).eps)
    others[i] = as_bound(bound, centers)


@jit
def as_bound(distance, centers):
    """A bound as it is kept, in float32: beyond its range there is another, which is right too.

    With a single centre there is no other, and no largest bound.
    """
    single = np.finfo(np.float32)
    if distance < single.tiny:
        return np.float32(0)
    most = single.max if centers.shape[0] > 1 else np.inf
    return np.float32(min(distance, most))
