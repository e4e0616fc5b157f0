"""The nearest centre of each row: found by scores, decided by direct differences.

`compare` finds the nearest centre of nearly all rows.  What scores of 16 bits cannot tell, those in
float32 can, and what these cannot, those in the dtype of the rows; the few rows then left are
decided by the plain loop over `squared_distance`: labels are equal to that loop's for all rows, and
so is D², which always comes from there.  (Of wide rows, whose scores are kept, `compare` itself
measures the few in doubt.)

Costs for m rows, k centres, d features: one reading of the rows and m·k·d fused operations.
After a move of the centres `bounds` spares most of both.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.doubts import measure_near
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.scores import compare
from robust_kmeans.kernels.team import EVERY_PART, part_of, parts_of_this, work_off

# So many rows are compared in a row; where scores leave more than this share of them undecided,
# the next ones are compared with more digits at once, so many times.
COMPARED = 2**13
OFTEN = 0.25
UNASKED = 15


@jit
def assign(part, n_parts, rows, which, centers, packed, labels, d2, others, team):
    """The nearest centre of some rows; ties go to the lowest label.

    IN   part, n_parts; rows (m, d), which (p,): positions of the rows to assign, ascending; centers
         (k, d), and `packed`
    OUT  at these positions: labels (m,); d2 (m,): D² to that centre; others (m,), float32: a
         distance than which no other centre is nearer
    """
    if part == EVERY_PART:
        arguments = n_parts, rows, which, centers, packed, labels, d2, others, team
        work_off(team, parts_of_this(arguments), n_parts)
        return
    first, last = part_of(part, n_parts, which.shape[0])
    unasked, nobody = np.zeros(2, np.int64), np.empty(0, np.float32)
    assign_more(rows, which[first:last], centers, packed, unasked, labels, d2, others, nobody)


@jit
def assign_more(rows, which, centers, packed, unasked, labels, d2, others, due):
    """`assign`, for rows of which others were assigned before.

    IN, OUT  as in `assign`; due (m,) or (0,): see `dues`
    INOUT    unasked (2,): so many parts do without scores of words, and of float32
    """
    undecided = np.empty(min(which.shape[0], COMPARED), np.int32)
    worded = packed.coarse.words.pairs.shape[0] > 0
    coarser = packed.coarse.factors.itemsize < rows.itemsize
    for start in range(0, which.shape[0], COMPARED):
        left = which[start : start + COMPARED]
        for level, of_use in enumerate((worded, coarser)):
            if of_use and unasked[level] > 0:
                unasked[level] -= 1
            elif of_use and left.shape[0] > 0:
                found = compare(
                    rows, left, centers, packed.coarse, level == 0, labels, d2, others, due,
                    undecided,
                )  # fmt: skip
                unasked[level] = UNASKED if found > OFTEN * left.shape[0] else 0
                left = undecided[:found]
        if left.shape[0] > 0:
            found = compare(
                rows, left, centers, packed.fine, False, labels, d2, others, due, undecided
            )
            for p in range(found):
                # Without a limit, so all of them.
                measure_near(
                    rows, undecided[p], centers, packed.fine.norms, np.inf, labels, d2, others
                )
