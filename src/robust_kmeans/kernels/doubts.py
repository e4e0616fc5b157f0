"""Rows that scores leave in doubt, decided by direct differences; and bounds as they are kept.

Costs for a row, k centres, d features: k comparisons, and 3·d operations per centre that may be
nearest or second.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.dues import direct_error
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.row_registers import squared_distance

# Among so many centres, or such a part of all, direct differences decide what float32 cannot; among
# more of them float64 does.
FEW = 8


@jit
def most_measured(centers, coarse):
    """Among how many centres direct differences decide, after `coarse` scores or others."""
    return max(FEW, centers.shape[0] // FEW) if coarse else centers.shape[0]


@jit
def decide(rows, i, centers, packed, scores, square, stretch, most, labels, d2, others):
    """The nearest centre of row i by direct differences, and whether it was found.

    Only those are measured that may be nearest or second, as far as scores tell; none, if they are
    more than `most`.

    IN   rows (m, d), i; centers (k, d), and `packed`; scores (k,), square: of the row; stretch: how
         many times its lengths a score in `Words` may be off; most
    OUT  at i: labels (m,), d2 (m,), others (m,)
    """
    real = packed.factors.dtype.type
    error, direct = real(packed.error), real(direct_error(rows))
    above = (error + direct) * square + np.finfo(packed.factors.dtype).tiny
    first = runner_up = real(np.inf)
    for j in range(centers.shape[0]):
        upper = scores[j] + (above + error * (real(2) * packed.norms[j]))
        if stretch > 0:
            upper += stretch * real(packed.words.lengths[j])
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


@jit
def as_due(way):
    """When a row is due, as it is kept: at once, where float32 would have to round it."""
    return np.float32(-np.inf) if way < np.finfo(np.float32).tiny else np.float32(way)
