"""Squared distances from rows to centres, always as sums of squared differences.

The expansion ‖x‖² − 2x·c + ‖c‖² is faster for wide rows but loses everything when a row
is far from the origin compared with its distance to a centre; `assign` therefore uses it
only to shortlist centres, never to rank them or to report a distance.

Costs for m rows, k centres, d features: `pairwise` reads the rows once and does
3·m·k·d operations; `assign` the same, with the rows of a tile read k times from the cache;
`own_distances` reads the rows once and does 3·m·d; the others are passes over the state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    aligned_empty,
    load,
    maximum,
    minimum,
    n_lanes,
    spread,
    store,
    where,
)
from robust_kmeans.kernels.totals import recount_changed

Floats = NDArray[np.floating]
Labels = NDArray[np.int32]

# Rows per tile: two or four times the lanes, so that a tile is not read while its last
# columns are still on their way to the cache.
TILE = 128
# From this many features and centres on, a matrix product pays for itself (measured by
# benchmarks/assignment.py); it must not depend on the number of rows, or predicting rows
# one by one would round differently from predicting them together.
SHORTLIST_FEATURES = 128
SHORTLIST_CENTERS = 200
# Rows that are gone through a second time while they are in the L2 cache.
BLOCK = 2048
# Rows per matrix product: the product stays in the L2 cache up to a few hundred centres.
SHORTLIST_ROWS = 512


@jit
def pairwise(rows, centers, out):
    """Euclidean distances (not squared).

    IN   rows (m, d), centers (k, d)
    OUT  out (m, k)
    """
    n_rows, n_features = rows.shape
    for i in range(n_rows):
        for j in range(centers.shape[0]):
            total = rows.dtype.type(0)
            for f in range(n_features):
                difference = rows[i, f] - centers[j, f]
                total += difference * difference
            out[i, j] = np.sqrt(total)


@jit
def own_distance(rows, i, centers, label):
    """D² of row i to one centre.

    Every such D² of a fit and of a prediction comes from here: whichever way a label was
    found, its distance has the same bits.
    """
    total = rows.dtype.type(0)
    for f in range(rows.shape[1]):
        difference = rows[i, f] - centers[label, f]
        total += difference * difference
    return total


@jit
def own_distances(rows, which, centers, labels, out):
    """D² of some rows to the centres of their labels.

    IN   rows (m, d), which (p,): positions of the rows to measure; centers (k, d), labels (m,)
    OUT  out (m,), at these positions
    """
    for p in range(which.shape[0]):
        i = which[p]
        out[i] = own_distance(rows, i, centers, labels[i])


@jit
def doubtful_rows(rows, centers, slack, labels, others, d2, others_out, out):
    """Rows that may have a new nearest centre after the centres have moved; returns how many.

    If all centres but a row's own were at least `others` away, and have moved by at most
    `slack`, then the row keeps its label while its own centre is nearer than the difference
    (Hamerly's bound).  The margin covers the rounding of both sides, so that a label is kept
    only where `assign` would find it again.

    IN   rows (m, d), centers (k, d): moved; slack (k,), labels (m,), others (m,)
    OUT  d2 (m,): to the moved own centre; others_out (m,): the bound after the move;
         out (m,): the doubtful rows, ascending
    """
    one = d2.dtype.type(1)
    eps = np.finfo(d2.dtype).eps
    margin = d2.dtype.type(1 + 8 * (rows.shape[1] + 4) * eps)
    rounding = d2.dtype.type(4 * eps)
    # Below this, squares have lost digits and no margin holds.
    smallest = d2.dtype.type(np.finfo(d2.dtype).tiny / eps)
    found = 0
    for i in range(rows.shape[0]):
        label = labels[i]
        own = own_distance(rows, i, centers, label)
        bound = others[i] * (one - rounding) - slack[label]
        d2[i] = own
        others_out[i] = bound
        # Without a branch: about half of the rows may be doubtful, in no order.
        out[found] = i
        square = bound * bound
        found += not (bound > 0 and square > smallest and own * margin < square)
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


def assign(
    rows: Floats,
    which: Labels,
    centers: Floats,
    labels: Labels,
    others: Floats,
    d2: Floats | None = None,
    first_label: int = 0,
) -> None:
    """Find the nearest centre of some rows; ties go to the lowest label.

    IN     rows (m, d), which (p,): positions of the rows to assign; centers (k, d)
    OUT    at these positions: labels (m,); others (m,): a distance than which no centre but
           the nearest is nearer
    INOUT  d2 (m,), if given: D² to a present centre (infinity for none), whose label stays
           unless one of `centers`, labelled from `first_label` on, is nearer
    """
    present = d2 is not None
    known = np.empty(0, rows.dtype) if d2 is None else d2
    if not _shortlist_pays(centers):
        _assign_by_tiles(rows, which, centers, first_label, present, known, labels, others)
        return
    # Shifting by a centre keeps the products small where the data is far from the origin.
    origin = centers[0]
    shifted_centers = centers - origin
    center_norms = np.einsum("ij,ij->i", shifted_centers, shifted_centers)
    for start in range(0, len(which), SHORTLIST_ROWS):
        part = which[start : start + SHORTLIST_ROWS]
        shifted_rows = rows[part] - origin
        row_norms = np.einsum("ij,ij->i", shifted_rows, shifted_rows)
        products = shifted_centers @ shifted_rows.T
        _assign_by_shortlist(
            rows, part, centers, first_label, present, products, row_norms, center_norms,
            known, labels, others,
        )  # fmt: skip


def reassign(
    rows: Floats,
    centers: Floats,
    slack: Floats,
    labels_before: Labels,
    others_before: Floats,
    kept: NDArray[np.uint8],
    labels: Labels,
    others: Floats,
    d2: Floats,
    sums: NDArray[np.float64],
    mass: NDArray[np.float64],
) -> None:
    """As `assign` and `own_distances`, to the bit, after the centres have moved.

    Centres are compared only for rows that bounds leave in doubt; and only rows that have a
    new label, which are in the cache at that moment, change their clusters' totals.

    IN   rows (m, d), centers (k, d): as they are now; slack (k,): for each centre, how far
         the others have moved at most; labels_before (m,), others_before (m,); kept (m,):
         whether a row counts in the totals, or (0,) for no totals
    OUT  labels (m,), others (m,), d2 (m,); sums (k, d) and mass (k,), float64: what new
         labels change in the totals, added to
    """
    # Block by block, rows in doubt are still in the cache when they are read again; a matrix
    # product gets them all at once.
    by_tiles = not _shortlist_pays(centers)
    found = np.empty(BLOCK if by_tiles else len(rows), np.int32)
    if by_tiles:
        _reassign_by_blocks(
            rows, centers, slack, labels_before, others_before, kept, found, labels, others, d2,
            sums, mass,
        )  # fmt: skip
        return
    n_doubtful = doubtful_rows(
        rows, centers, slack, labels_before, others_before, d2, others, found
    )
    labels[:] = labels_before
    assign(rows, found[:n_doubtful], centers, labels, others)
    changed = found[: changed_rows(labels_before, labels, found[:n_doubtful])]
    own_distances(rows, changed, centers, labels, d2)
    if kept.size:
        recount_changed(rows, changed, labels_before, labels, kept, centers, sums, mass)


def _shortlist_pays(centers: Floats) -> bool:
    n_centers, n_features = centers.shape
    return bool(n_features >= SHORTLIST_FEATURES and n_centers >= SHORTLIST_CENTERS)


@jit
def _assign_by_tiles(rows, which, centers, first_label, present, d2, labels, others):
    """`assign` directly: a transposed tile lets the vector units work across rows.

    A tile is always computed whole, so that a row's label does not depend on its neighbours.

    IN     rows (m, d), which (p,), centers (k, d), first_label, present
    OUT    labels (m,), others (m,)
    INOUT  d2 (m,), if present
    """
    n_rows, n_features = which.shape[0], rows.shape[1]
    real = rows.dtype.type
    certain = real(1 - (n_features + 4) * np.finfo(rows.dtype).eps)
    lanes = n_lanes(rows.itemsize)
    # A little longer than a tile: lines a power of two apart would compete for the same
    # places in the cache.
    stride = TILE + lanes
    tile = aligned_empty(n_features * stride, rows.dtype)
    best = aligned_empty(TILE, rows.dtype)
    second = aligned_empty(TILE, rows.dtype)
    # Labels as floats, which are exact as long as there are less than 2²⁴ centres.
    winner = aligned_empty(TILE, rows.dtype)
    tile[:] = 0
    winner[:] = 0
    for start in range(0, n_rows, TILE):
        size = min(TILE, n_rows - start)
        best[:] = np.inf
        transpose(rows, which[start : start + size], tile, stride)
        if present:
            for i in range(size):
                best[i] = d2[which[start + i]]
                winner[i] = labels[which[start + i]]
        for first in range(0, size, lanes):
            nearest, label = load(best, first), load(winner, first)
            runner_up = spread(real(np.inf))
            for j in range(centers.shape[0]):
                total = spread(real(0))
                for f in range(n_features):
                    difference = load(tile, f * stride + first) - spread(centers[j, f])
                    total = total + difference * difference
                runner_up = minimum(runner_up, maximum(nearest, total))
                closer_now = total < nearest
                nearest = where(closer_now, total, nearest)
                label = where(closer_now, spread(real(first_label + j)), label)
            store(best, first, nearest)
            store(second, first, runner_up)
            store(winner, first, label)
        for i in range(size):
            row = which[start + i]
            labels[row] = np.int32(winner[i])
            others[row] = np.sqrt(second[i]) * certain
            if present:
                d2[row] = best[i]


@jit
def transpose(rows, which, tile, stride):
    """Copy some rows into the columns of a tile, whose lines are `stride` apart.

    Four rows at a time, which takes about half as long as one by one; up to three columns
    after the last row are filled with copies of it.

    IN   rows (m, d), which (p,), stride
    OUT  tile (d·stride,)
    """
    last = which.shape[0] - 1
    for i in range(0, last + 1, 4):
        row0 = which[i]
        row1 = which[min(i + 1, last)]
        row2 = which[min(i + 2, last)]
        row3 = which[min(i + 3, last)]
        for f in range(rows.shape[1]):
            at = f * stride + i
            tile[at] = rows[row0, f]
            tile[at + 1] = rows[row1, f]
            tile[at + 2] = rows[row2, f]
            tile[at + 3] = rows[row3, f]


@jit
def _reassign_by_blocks(
    rows, centers, slack, labels_before, others_before, kept, found, labels, others, d2, sums, mass
):  # fmt: skip
    """`reassign` directly, in blocks of the length of `found`.

    IN   rows (m, d), centers (k, d), slack (k,), labels_before (m,), others_before (m,);
         kept (m,) or (0,)
    OUT  found (b,): scratch; labels (m,), others (m,), d2 (m,); sums (k, d), mass (k,)
    """
    n_rows, size = rows.shape[0], found.shape[0]
    for start in range(0, n_rows, size):
        part = slice(start, min(start + size, n_rows))
        x, before, after, own = rows[part], labels_before[part], labels[part], d2[part]
        n_doubtful = doubtful_rows(
            x, centers, slack, before, others_before[part], own, others[part], found
        )
        after[:] = before
        _assign_by_tiles(x, found[:n_doubtful], centers, 0, False, own, after, others[part])
        changed = found[: changed_rows(before, after, found[:n_doubtful])]
        own_distances(x, changed, centers, after, own)
        if kept.shape[0] > 0:
            recount_changed(x, changed, before, after, kept[part], centers, sums, mass)


@jit
def _assign_by_shortlist(
    rows, which, centers, first_label, present, products, row_norms, center_norms,
    d2, labels, others,
):  # fmt: skip
    """`assign` by shortlist: only centres that rounding cannot rule out are measured.

    With x and c shifted, ‖x‖² − 2x·c + ‖c‖² is off by at most (d + 2)·eps·(‖x‖² + ‖c‖²),
    whatever the order of summation; the shift and the norms round in the same proportion,
    and four times that is allowed.  ‖x‖² is the same for all centres and left out.

    IN     rows (m, d), which (p,), centers (k, d), first_label, present; shifted:
           products (k, p), row_norms (p,), center_norms (k,)
    OUT    labels (m,), others (m,)
    INOUT  d2 (m,), if present
    """
    n_rows, n_features = which.shape[0], rows.shape[1]
    n_centers = centers.shape[0]
    real = rows.dtype.type
    error = real(4 * (n_features + 2) * np.finfo(rows.dtype).eps)
    two = real(2)
    ceiling = np.full(n_rows, real(np.inf))
    least = np.full(n_rows, real(np.inf))
    second = np.full(n_rows, real(np.inf))
    for j in range(n_centers):
        high = center_norms[j] + error * center_norms[j]
        low = center_norms[j] - error * center_norms[j]
        for i in range(n_rows):
            product = two * products[j, i]
            ceiling[i] = min(ceiling[i], high - product)
            second[i] = min(second[i], max(least[i], low - product))
            least[i] = min(least[i], low - product)
    for i in range(n_rows):
        ceiling[i] += two * error * row_norms[i]
    n_candidates = np.zeros(n_rows, np.int32)
    candidate = np.zeros(n_rows, np.int32)
    for j in range(n_centers):
        low = center_norms[j] - error * center_norms[j]
        for i in range(n_rows):
            if low - two * products[j, i] <= ceiling[i]:
                n_candidates[i] += 1
                candidate[i] = j
    for i in range(n_rows):
        row = which[i]
        only = n_candidates[i] == 1
        best = d2[row] if present else real(np.inf)
        if not present:
            labels[row] = first_label
        for j in range(candidate[i] if only else 0, candidate[i] + 1):
            low = center_norms[j] - error * center_norms[j]
            if only or low - two * products[j, i] <= ceiling[i]:
                total = real(0)
                for f in range(n_features):
                    difference = rows[row, f] - centers[j, f]
                    total += difference * difference
                if total < best:
                    best = total
                    labels[row] = first_label + j
        if present:
            d2[row] = best
        bound = second[i] + row_norms[i] - error * row_norms[i]
        others[row] = np.sqrt(max(bound, real(0)))
