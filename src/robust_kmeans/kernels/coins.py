"""Coins for single rows: a uniform number for each (seed, round, row), without any state.

The number of a row does not depend on where, when or in which chunk it is asked for, so all
executions toss the same coins.  It is the output of SplitMix64 (Steele, Lea & Flood, *Fast
splittable pseudorandom number generators*, OOPSLA 2014) at the position of the row: a counter
times an odd constant, and a mixing function of two multiplications.  Each round starts at a place
of its own, itself mixed from the seed and the number of the round.

Cost: one pass over D², and a few integer operations per row.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.jit import jit

# The constants of SplitMix64: 2⁶⁴ over the golden ratio, and those of Stafford's 13th mixer.
STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)
# A float64 has 53 digits: so many bits are left out.
SPARE_BITS = np.uint64(11)
UNIT = 2.0**-53
# A total below this is enlarged, by a power of two that changes no digit.
TINY, ENLARGED = 2.0**-600, 2.0**300


@jit
def joining_rows(d2, weights, start, seed, round_number, clip, expected, total, out):
    """Rows whose coin is below expected·w·min(D², clip)/total; returns how many.

    IN   d2 (m,), weights (m,) or (0,); start: global index of the first row; seed (uint64),
         round_number; clip, expected, total
    OUT  out (m,): their positions, ascending
    """
    weighted = weights.shape[0] > 0
    key = round_key(seed, round_number)
    # Factors may be multiplied in any order, of which one must not be 0.
    scale = 1.0 if total > TINY else ENLARGED
    total *= scale
    found = 0
    for i in range(d2.shape[0]):
        mass = scale * np.float64(min(d2[i], clip))
        if weighted:
            mass *= weights[i]
        # Not as a quotient, which is infinite or 0 where the total is tiny or huge.
        if coin(key, start + i) * total < expected * mass:
            out[found] = i
            found += 1
    return found


@jit
def round_key(seed, round_number):
    """Where the coins of a round start.

    IN   seed: uint64; round_number
    """
    return _mixed(seed ^ _mixed(np.uint64(round_number + 1) * STEP))


@jit
def coin(key, row):
    """A uniform number in [0, 1) for this row.

    IN   key: of the round; row: global index
    """
    return np.float64(_mixed(key + np.uint64(row + 1) * STEP) >> SPARE_BITS) * UNIT


@jit
def _mixed(bits):
    """Each bit of the result depends on each bit of the argument."""
    bits = (bits ^ (bits >> FIRST_SHIFT)) * FIRST_FACTOR
    bits = (bits ^ (bits >> SECOND_SHIFT)) * SECOND_FACTOR
    return bits ^ (bits >> LAST_SHIFT)
