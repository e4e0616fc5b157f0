"""Counting and finding rows by the size of their D², without sorting.

A non-negative float sorts like its bit pattern read as an integer, its *key*.  Key ranges
can be split evenly whatever the data's scale, and histograms over them merge by addition.
The sign bit is masked: −0.0 counts as 0.0.

Weights are float64, or empty when every row weighs 1; counts of rows stay exact up to 2⁵³.
Each kernel is one pass over D², none over the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.totals import cost_below

BLOCK = 256


KEYS: dict[np.dtype[Any], type[np.signedinteger[Any]]] = {
    np.dtype(np.float32): np.int32,
    np.dtype(np.float64): np.int64,
}
"""The type of the keys of each dtype."""


def keys_of(d2: NDArray[np.floating]) -> NDArray[np.signedinteger]:
    """The bit patterns of `d2` as signed integers of the same width (a view)."""
    return d2.view(KEYS[d2.dtype])


@jit
def histogram(keys, weights, low, shift, counts, mass):
    """Rows and weight per bin of 2^shift keys from `low` on.

    IN   keys (m,), weights (m,) or (0,), low, shift
    OUT  counts (B + 2,), mass (B + 2,): bin 0 holds what lies below `low`, the last what
         lies beyond the B bins; `mass` is filled only where there are weights
    """
    magnitude = np.iinfo(keys.dtype).max
    last = counts.shape[0] - 1
    weighted = weights.shape[0] > 0
    above = np.empty(BLOCK, np.int32)
    n_above = 0
    for start in range(0, keys.shape[0], BLOCK):
        block = keys[start : start + BLOCK]
        # Collected without a branch: which rows are above `low` is anyone's guess, and wrong
        # guesses would cost more than all the rest.
        found = 0
        for i in range(block.shape[0]):
            above[found] = i
            found += (block[i] & magnitude) >= low
        for p in range(found):
            bin_ = min((((block[above[p]] & magnitude) - low) >> shift) + 1, last)
            counts[bin_] += 1
            if weighted:
                mass[bin_] += weights[start + above[p]]
        if weighted:
            for i in range(block.shape[0]):
                mass[0] += weights[start + i] if (block[i] & magnitude) < low else 0.0
        n_above += found
    counts[0] += keys.shape[0] - n_above


@jit
def bin_past(counts, mass, budget):
    """The bin in which the budget runs out, from the last one down, and the weight above it.

    Where rounding leaves all the weight within the budget, the first bin that has rows.

    IN   counts (B,), mass (B,), budget
    """
    above = mass[0] * 0
    found = -1
    found_above = above
    for bin_ in range(counts.shape[0] - 1, -1, -1):
        if counts[bin_] > 0:
            found = bin_
            found_above = above
            if above + mass[bin_] > budget:
                break
        above += mass[bin_]
    return found, found_above


@jit
def row_past(weights, order, above, budget):
    """The position in `order` at which the running weight, with `above`, exceeds the budget.

    Returns it and the running weight up to and with it; the last position where rounding
    leaves all of it within the budget.

    IN   weights (m,), order (m,), above, budget
    """
    running = 0.0
    for p in range(order.shape[0]):
        running += weights[order[p]]
        if above + running > budget:
            return p, above + running
    return order.shape[0] - 1, above + running


@jit
def within(d2, weights, least, most, out):
    """Positions of the rows with least ≤ D² ≤ most, and what the rows below them cost.

    Returns how many rows there are, and the sum of w·D² over those with D² < least.  Rows are
    looked at in blocks: a block's hits and cost are vectorised, and almost all blocks have no
    hit.

    IN   d2 (m,), weights (m,) or (0,); least, most: of the dtype of d2
    OUT  out (capacity,): positions in ascending order, as many as fit
    """
    weighted = weights.shape[0] > 0
    found = 0
    cost = 0.0
    for start in range(0, d2.shape[0], BLOCK):
        block = d2[start : start + BLOCK]
        hits = 0
        for i in range(block.shape[0]):
            hits += 1 if block[i] >= least and block[i] <= most else 0
        cost += cost_below(block, weights[start : start + BLOCK] if weighted else weights, least)
        if hits > 0:
            for i in range(block.shape[0]):
                if block[i] >= least and block[i] <= most:
                    if found < out.shape[0]:
                        out[found] = start + i
                    found += 1
    return found, cost


@jit
def mass_at(d2, weights, value):
    """Weight of the rows with D² = value.

    IN   d2 (m,), weights (m,) or (0,), value
    """
    weighted = weights.shape[0] > 0
    total = 0.0
    for i in range(d2.shape[0]):
        if d2[i] == value:
            total += weights[i] if weighted else 1.0
    return total


@jit
def locate_at(d2, weights, value, target):
    """The row, among those with D² = value, at which the running weight exceeds `target`.

    Returns its position and the weight before it; the last such row (−1 for none) where
    rounding leaves the running weight at or below the target.

    IN   d2 (m,), weights (m,) or (0,), value, target
    """
    weighted = weights.shape[0] > 0
    before = 0.0
    found = -1
    found_before = 0.0
    for i in range(d2.shape[0]):
        if d2[i] == value:
            found = i
            found_before = before
            before += weights[i] if weighted else 1.0
            if before > target:
                break
    return found, found_before
