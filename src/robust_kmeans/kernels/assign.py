"""The nearest centre of each row: found with inner products, decided by direct differences.

With rows x and centres c shifted by an origin amid the centres, ‖x − c‖² is ‖x‖² plus the score
‖c‖² − 2x·c, one multiplication and addition per feature:

1. as many rows as `Lanes` holds are transposed into a tile, 64 features at a time, so that the
   tile stays in the L1 cache and every value of it is read once for four centres;
2. sums over these features are added to the scores; with the last features the best score, its
   label and the second-best score are kept in registers;
3. a label is certain where the second-best score is worse by more than rounding can explain.
   The few other rows are decided by the plain loop over `squared_distance`: labels are equal to
   that loop's for all rows, and so is D², which always comes from there;
4. the second-best score, less rounding, bounds the distance to all other centres.

After a move of the centres that bound tells for most rows that their label is still right
(Hamerly, *Making k-means even faster*, SDM 2010): `reassign`.

Costs for m rows, k centres, d features: one reading of the rows and m·k·d fused operations;
`reassign` does 3·m·d, and the rest only for rows in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from robust_kmeans.kernels.row_registers import prefetch, squared_distance, transpose_square
from robust_kmeans.kernels.totals import recount_changed

Floats = NDArray[np.floating]

# Features per tile, which then takes a third of the L1 cache; and the longest sum in one go,
# which keeps rounding small for wide rows.
FEATURES = 64
# Rows that are gone through a second time while they are in the L2 cache: so many bytes of them,
# and not too few for a tile to be full, nor so many that what is kept per row fills the L1 cache.
BLOCK_BYTES = 2**19
BLOCK_ROWS = (256, 2048)
# Where more rows than this share of a block are in doubt, it is cheaper not to ask; so many blocks
# pass, all at once, before one is asked again.
MOSTLY = 0.75
UNASKED = 15
# So many centres show where the middle of all is.
SAMPLE = 9


class Packed(NamedTuple):
    """Centres, made ready for scores, less `origin`.

    `factors` holds −2c, for four centres at a time: feature by feature, the four values next to
    each other.  `norms` is ‖c‖², made so small that no score is too large; infinity for the
    centres that are missing from the last four.  `error` is what rounding can do to a score, as
    a share of ‖x‖² + ‖c‖², and to the difference of two, as a share of ‖x‖².
    """

    origin: Floats
    factors: Floats
    norms: Floats
    error: float


class Slack(NamedTuple):
    """How far other centres have moved at most, from a row's own: rounded up to float32.

    For rows of the centre `farthest`, which moved most, that is `second`; for all others, `first`.
    """

    farthest: int
    first: float
    second: float


ALL_IN_DOUBT = Slack(0, np.inf, np.inf)
"""For comparing every row with every centre: nothing is known."""


def pack(centers: Floats) -> Packed:
    """Make centres ready for `assign` and `reassign`.

    The origin is the median, feature by feature, of a few centres: those that are far from all
    others, such as outliers drawn as seeds, do not take the digits of the rest.
    """
    some = centers[:: -(-len(centers) // SAMPLE)]
    origin = np.sort(some, axis=0)[len(some) // 2]
    n_groups = -(-len(centers) // 4)
    factors = np.zeros(4 * n_groups * centers.shape[1], centers.dtype)
    norms = np.full(4 * n_groups, np.inf, centers.dtype)
    return Packed(origin, factors, norms, _pack(centers, origin, factors, norms))


@jit
def _pack(centers, origin, factors, norms):
    """Fill the parts of `Packed`, and return its `error`.

    A sum is off by at most eps/2 times its depth, how many additions a term goes through, as a
    share of all terms' size.  A score adds ‖c‖², no more than 64 terms, and one sum per 64
    features; its terms add up to no more than ‖x‖² + 2‖c‖².  ‖x‖² is summed in the same way.  The
    shift, which rounds x and c once each, adds four.

    IN   centers (k, d), origin (d,)
    OUT  factors (⌈k/4⌉·d·4,), norms (⌈k/4⌉·4,)
    """
    n_centers, n_features = centers.shape
    real = centers.dtype.type
    depth = min(n_features, FEATURES) + n_features // FEATURES + 5
    error = depth * np.finfo(centers.dtype).eps
    for j in range(n_centers):
        square = 0.0
        for f in range(n_features):
            value = centers[j, f] - origin[f]
            square += np.float64(value) * np.float64(value)
            factors[(j // 4 * n_features + f) * 4 + j % 4] = real(-2) * value
        norms[j] = square * (1 - error)
    return error


@jit
def assign(rows, which, centers, packed, labels, d2, others):
    """The nearest centre of some rows; ties go to the lowest label.

    Every lane is computed alike, so that no row's result depends on its neighbours.

    IN   rows (m, d), which (p,): positions of the rows to assign; centers (k, d), and `packed`
    OUT  at these positions: labels (m,); d2 (m,): D² to that centre; others (m,), float32: a
         distance than which no other centre is nearer
    """
    n_rows, n_features = which.shape[0], rows.shape[1]
    real = rows.dtype.type
    origin, factors, norms, error = packed.origin, packed.factors, packed.norms, real(packed.error)
    lanes, width = n_lanes(rows), width_of_register(rows)
    positions = np.empty(lanes, np.uint32)
    tile = aligned_empty(FEATURES * lanes, rows.dtype)
    scores = aligned_empty(norms.shape[0] * lanes if n_features > FEATURES else 0, rows.dtype)
    best, second = aligned_empty(lanes, rows.dtype), aligned_empty(lanes, rows.dtype)
    squares, bounds = aligned_empty(lanes, rows.dtype), aligned_empty(lanes, rows.dtype)
    # Labels as floats, which are exact as long as there are less than 2²⁴ centres.
    winner = aligned_empty(lanes, rows.dtype)
    # Below this, squares have lost digits and no share of them covers the loss.
    smallest = np.finfo(rows.dtype).tiny
    # Bounds are float32: beyond its range there is another bound, which is right too.
    least, most, rounded = _range_of_bounds(rows, centers)
    direct = real(direct_error(rows))
    largest = real(2) * norms[: centers.shape[0]].max()
    n_steps = (n_features + FEATURES - 1) // FEATURES * (norms.shape[0] // 4)
    n_ahead = lanes * n_features // n_steps + 1
    for start in range(0, n_rows, lanes):
        size = min(lanes, n_rows - start)
        for i in range(lanes):
            positions[i] = which[start + min(i, size - 1)]
        ahead = which[min(start + lanes, n_rows - 1)] * n_features
        square = spread(real(0))
        nearest, runner_up = spread(real(np.inf)), spread(real(np.inf))
        label = spread(real(0))
        for first in range(0, n_features, FEATURES):
            n_here = min(FEATURES, n_features - first)
            for f in range(0, n_here, width):
                for i in range(0, lanes, width):
                    transpose_square(
                        rows, positions, i, first + f, min(width, n_here - f), origin,
                        tile, f * lanes + i, lanes,
                    )  # fmt: skip
            part = spread(real(0))
            for f in range(n_here):
                x = load(tile, f * lanes)
                part = fused(x, x, part)
            square = square + part
            for j in range(0, norms.shape[0], 4):
                # The next tile comes to the cache meanwhile, in the order in which it is stored.
                prefetch(rows, ahead, n_ahead)
                ahead += n_ahead
                s0, s1, s2, s3 = spread(real(0)), spread(real(0)), spread(real(0)), spread(real(0))
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
                if first + FEATURES < n_features:
                    store(scores, j * lanes, s0)
                    store(scores, (j + 1) * lanes, s1)
                    store(scores, (j + 2) * lanes, s2)
                    store(scores, (j + 3) * lanes, s3)
                    continue
                for number, score in ((j, s0), (j + 1, s1), (j + 2, s2), (j + 3, s3)):
                    score = score + spread(norms[number])
                    runner_up = minimum(runner_up, maximum(nearest, score))
                    label = where(score < nearest, spread(real(number)), label)
                    nearest = minimum(score, nearest)
        bound = fused(square, spread(real(1) - error), runner_up) - spread(smallest)
        bound = square_root(maximum(bound, spread(real(0)))) * spread(rounded)
        bound = minimum(where(bound < spread(least), spread(real(0)), bound), spread(most))
        store(bounds, 0, bound)
        store(winner, 0, label)
        for i in range(size):
            row, own = positions[i], np.uint32(winner[i])
            labels[row] = own
            d2[row] = squared_distance(rows, row, centers, own)
            others[row] = bounds[i]
        # The largest norm will do for almost all tiles, and is the same for all lanes.
        margin = fused(square, spread(error + direct), spread(error * largest + smallest))
        if not all_of(nearest + margin < runner_up * spread(real(1) - direct)):
            store(best, 0, nearest)
            store(second, 0, runner_up)
            store(squares, 0, square)
            for i in range(size):
                norm = real(2) * norms[np.uint32(winner[i])]
                margin_here = (error + direct) * squares[i] + (error * norm + smallest)
                if not best[i] + margin_here < second[i] * (real(1) - direct):
                    _assign_directly(rows, positions[i], centers, labels, d2, others)


@jit
def _assign_directly(rows, i, centers, labels, d2, others):
    """`assign` for row i by the plain loop over all centres."""
    best = second = rows.dtype.type(np.inf)
    for j in range(centers.shape[0]):
        distance = squared_distance(rows, i, centers, j)
        if distance < best:
            best, second = distance, best
            labels[i] = j
        elif distance < second:
            second = distance
    d2[i] = best
    least, most, rounded = _range_of_bounds(rows, centers)
    tiny, off = np.finfo(rows.dtype).tiny, rows.dtype.type(direct_error(rows))
    bound = np.sqrt(max(second * (1 - off) - tiny, 0)) * rounded
    others[i] = 0 if bound < least else min(bound, most)


@jit
def direct_error(rows):
    """What rounding can do to two values of `squared_distance` together, as a share of each.

    Its depth is one per `lanes` features, and log₂ lanes; differences are rounded, too.
    """
    return (rows.shape[1] // n_lanes(rows) + 10) * np.finfo(rows.dtype).eps


@jit
def _range_of_bounds(rows, centers):
    """The least and the largest bound that float32 holds, and the factor that rounds one down.

    With a single centre there is no other, and no largest.
    """
    real, single = rows.dtype.type, np.finfo(np.float32)
    most = single.max if centers.shape[0] > 1 else np.inf
    return real(single.tiny), real(most), real(1 - 4 * single.eps)


@jit
def reassign(
    rows, centers, packed, slack, labels_before, others_before, kept, labels, others, d2, sums, mass
):  # fmt: skip
    """As `assign`, to the bit of labels and D², after the centres have moved.

    Centres are compared only for rows that bounds leave in doubt; and only rows that have a
    new label, which are in the cache at that moment, change their clusters' totals.

    IN   rows (m, d), centers (k, d): as they are now, and `packed`; slack; labels_before (m,),
         others_before (m,); kept (m,): whether a row counts in the totals, or (0,) for no totals
    OUT  labels (m,), others (m,), d2 (m,); sums (k, d) and mass (k,), float64: what new
         labels change in the totals, added to
    """
    n_rows, n_features = rows.shape
    fewest, most = BLOCK_ROWS
    block = max(fewest, min(most, BLOCK_BYTES // (n_features * rows.itemsize)))
    found = np.empty(UNASKED * block, np.int32)
    bounded = slack.first < np.inf
    asking, start = bounded, 0
    while start < n_rows:
        part = slice(start, min(start + (block if asking else UNASKED * block), n_rows))
        x, before, after, own = rows[part], labels_before[part], labels[part], d2[part]
        n_found = x.shape[0]
        if asking:
            n_found = doubtful_rows(
                x, centers, slack, before, others_before[part], own, others[part], found
            )
            after[:] = before
            asking = n_found <= MOSTLY * x.shape[0]
        else:
            for i in range(n_found):
                found[i] = i
            asking = bounded
        assign(x, found[:n_found], centers, packed, after, own, others[part])
        if kept.shape[0] > 0:
            n_changed = changed_rows(before, after, found[:n_found])
            recount_changed(x, found[:n_changed], before, after, kept[part], centers, sums, mass)
        start = part.stop


@jit
def doubtful_rows(rows, centers, slack, labels, others, d2, others_out, out):
    """Rows that may have a new nearest centre after the centres have moved; returns how many.

    If all centres but a row's own were at least `others` away, and have moved by at most what
    `slack` says, then the row keeps its label while its own centre is nearer than the difference
    (Hamerly's bound).  The margin covers the rounding of both sides, so that a label is kept
    only where `assign` would find it again.

    IN   rows (m, d), centers (k, d): moved; slack; labels (m,), others (m,), float32
    OUT  d2 (m,): to the moved own centre; others_out (m,), float32: the bound after the move;
         out (m,): the doubtful rows, ascending
    """
    real = d2.dtype.type
    eps = np.finfo(d2.dtype).eps
    margin = real(1 + 2 * direct_error(rows))
    rounding = np.float32(1 - 4 * np.finfo(np.float32).eps)
    # Below this, squares have lost digits and no margin holds.
    smallest = real(np.finfo(d2.dtype).tiny / eps)
    farthest, first, second = slack.farthest, np.float32(slack.first), np.float32(slack.second)
    doubtful = np.empty(rows.shape[0], np.uint8)
    # Three loops, of which the compiler vectorises the second.
    for i in range(rows.shape[0]):
        d2[i] = squared_distance(rows, i, centers, labels[i])
    for i in range(rows.shape[0]):
        bound = others[i] * rounding - (second if labels[i] == farthest else first)
        others_out[i] = bound
        square = real(bound) * real(bound)
        doubtful[i] = not ((bound > 0) & (square > smallest) & (d2[i] * margin < square))
    found = 0
    for i in range(rows.shape[0]):
        # Without a branch: about half of the rows may be doubtful, in no order.
        out[found] = i
        found += doubtful[i]
    return found


@jit
def changed_rows(before, after, which):
    """Those of some rows whose label differs; returns how many.

    IN     before (m,), after (m,)
    INOUT  which (p,): positions to look at; the first of them become those that differ
    """
    found = 0
    for p in range(which.shape[0]):
        i = which[p]
        which[found] = i
        found += before[i] != after[i]
    return found
