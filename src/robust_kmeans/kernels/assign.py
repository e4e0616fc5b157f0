"""The nearest centre of each row: found by scores, decided by direct differences.

`compare` finds the nearest centre of nearly all rows.  What scores in float32 cannot tell, those in
the dtype of the rows can; the few rows then left are decided by the plain loop over
`squared_distance`: labels are equal to that loop's for all rows, and so is D², which always comes
from there.  (Of wide rows, whose scores are kept, `compare` itself measures the few in doubt.)

After a move of the centres a bound tells for most rows that their label is still right (Hamerly,
*Making k-means even faster*, SDM 2010): `reassign`.

Costs for m rows, k centres, d features: one reading of the rows and m·k·d fused operations;
`reassign` does 3·m·d, and the rest only for rows in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.row_registers import squared_distance
from robust_kmeans.kernels.scores import compare, direct_error, measure_near
from robust_kmeans.kernels.totals import recount_changed

# Rows that are gone through a second time while they are in the L2 cache: so many bytes of them,
# and not too few for a tile to be full, nor so many that what is kept per row fills the L1 cache.
BLOCK_BYTES = 2**19
BLOCK_ROWS = (256, 2048)
# Where more rows than this share of a block are in doubt, it is cheaper not to ask; so many blocks
# pass before one is asked again.
MOSTLY = 0.75
UNASKED = 15
# So many rows are compared in a row; where float32 leaves more than this share of them undecided,
# the next ones are compared in float64 at once.
COMPARED = 2**13
OFTEN = 0.25

NO_GAPS: NDArray[np.float32] = np.empty(0, np.float32)


class Slack(NamedTuple):
    """How far other centres have moved at most, from a row's own: rounded up to float32.

    For rows of the centre `farthest`, which moved most, that is `second`; for all others, `first`.
    And for each centre a distance than which no other is nearer to it now, if it is known.
    """

    farthest: int
    first: float
    second: float
    gaps: NDArray[np.float32] = NO_GAPS


ALL_IN_DOUBT = Slack(0, np.inf, np.inf)
"""For comparing every row with every centre: nothing is known."""


@jit
def assign(rows, which, centers, packed, labels, d2, others):
    """The nearest centre of some rows; ties go to the lowest label.

    IN   rows (m, d), which (p,): positions of the rows to assign, ascending; centers (k, d), and
         `packed`
    OUT  at these positions: labels (m,); d2 (m,): D² to that centre; others (m,), float32: a
         distance than which no other centre is nearer
    """
    _assign(rows, which, centers, packed, 0, labels, d2, others)


@jit
def _assign(rows, which, centers, packed, n_fine, labels, d2, others):
    """`assign`, with the first `n_fine` parts in float64 at once; returns `n_fine` for later rows.

    IN, OUT  as in `assign`
    """
    undecided = np.empty(min(which.shape[0], COMPARED), np.int32)
    coarser = packed.coarse.factors.itemsize < rows.itemsize
    for start in range(0, which.shape[0], COMPARED):
        left = which[start : start + COMPARED]
        if coarser and n_fine == 0:
            found = compare(rows, left, centers, packed.coarse, labels, d2, others, undecided)
            n_fine = UNASKED if found > OFTEN * left.shape[0] else 0
            left = undecided[:found]
        elif n_fine > 0:
            n_fine -= 1
        if left.shape[0] > 0:
            found = compare(rows, left, centers, packed.fine, labels, d2, others, undecided)
            for p in range(found):
                # Without a limit, so all of them.
                measure_near(
                    rows, undecided[p], centers, packed.fine.norms, np.inf, labels, d2, others
                )
    return n_fine


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
    cached = max(fewest, min(COMPARED, BLOCK_BYTES // (n_features * rows.itemsize)))
    block = min(most, cached)
    found = np.empty(cached, np.int32)
    bounded = slack.first < np.inf
    start = pause = n_fine = 0
    while start < n_rows:
        asking = bounded and pause <= 0
        part = slice(start, min(start + (block if asking else cached), n_rows))
        x, before, after, own = rows[part], labels_before[part], labels[part], d2[part]
        n_found = x.shape[0]
        if asking:
            n_found = doubtful_rows(
                x, centers, slack, before, others_before[part], own, others[part], found
            )
            after[:] = before
            if n_found > MOSTLY * x.shape[0]:
                pause = UNASKED * block
        else:
            for i in range(n_found):
                found[i] = i
            pause -= n_found
        n_fine = _assign(x, found[:n_found], centers, packed, n_fine, after, own, others[part])
        if kept.shape[0] > 0:
            n_changed = changed_rows(before, after, found[:n_found])
            recount_changed(x, found[:n_changed], before, after, kept[part], centers, sums, mass)
        start = part.stop


@jit
def doubtful_rows(rows, centers, slack, labels, others, d2, others_out, out):
    """Rows that may have a new nearest centre after the centres have moved; returns how many.

    If all centres but a row's own were at least `others` away, and have moved by at most what
    `slack` says, then the row keeps its label while its own centre is nearer than the difference
    (Hamerly's bound); so it does while that is less than half as far away as any other is from it.
    The margin covers the rounding of both sides, so that a label is kept only where `assign` would
    find it again.

    IN   rows (m, d), centers (k, d): moved; slack; labels (m,), others (m,), float32
    OUT  d2 (m,): to the moved own centre; others_out (m,), float32: the bound after the move;
         out (m,): the doubtful rows, ascending
    """
    real = d2.dtype.type
    eps = np.finfo(d2.dtype).eps
    margin = real(1 + 2 * direct_error(rows))
    single = np.finfo(np.float32)
    up = np.float32(1 + direct_error(rows) + 4 * single.eps)
    down = np.float32(1 - 4 * single.eps)
    # Below this, squares have lost digits and no margin holds.
    smallest = real(np.finfo(d2.dtype).tiny / eps)
    farthest, first, second = slack.farthest, np.float32(slack.first), np.float32(slack.second)
    doubtful = np.empty(rows.shape[0], np.uint8)
    gaps = np.zeros(rows.shape[0], np.float32)
    # Loops of which the compiler vectorises the third.
    for i in range(rows.shape[0]):
        d2[i] = squared_distance(rows, i, centers, labels[i])
    if slack.gaps.shape[0] > 0:
        for i in range(rows.shape[0]):
            gaps[i] = slack.gaps[labels[i]]
    for i in range(rows.shape[0]):
        own = np.sqrt(max(np.float32(d2[i]), single.tiny)) * up
        moved = others[i] * down - (second if labels[i] == farthest else first)
        bound = max(moved, (gaps[i] - own) * down)
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
