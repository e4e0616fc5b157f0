"""Systematic sampling: rows stand in line, each as long as its chance, and a comb picks some.

One pass over D² and labels; the rows themselves are not read.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.jit import jit


@jit
def pick(d2, labels, weights, start, value, boundary_row, flat, slope, running, chances):
    """Chances min(1, w·(flat + slope·D²)) per part, and which rows the comb picks.

    Every part has a line of its own, and a row is picked where the line passes a whole number
    within it.  The parts are the k clusters and, as the last one, the rows that the cut
    removes.

    IN     d2 (m,), labels (m,), weights (m,) or (0,); start: global index of the first row; the
           cut; flat (k + 1,), slope (k + 1,)
    INOUT  running (k + 1,): how long the line of each part is so far
    OUT    chances (m,) or (0,): the chance of a row that is picked, otherwise 0
    """
    weighted = weights.shape[0] > 0
    noted = chances.shape[0] > 0
    outliers = flat.shape[0] - 1
    for i in range(d2.shape[0]):
        weight = weights[i] if weighted else 1.0
        chance = 0.0
        if weight > 0.0:
            cut_off = d2[i] > value or (d2[i] == value and start + i < boundary_row)
            part = outliers if cut_off else labels[i]
            chance = min(1.0, weight * (flat[part] + slope[part] * np.float64(d2[i])))
            before = running[part]
            running[part] = before + chance
            # A row that is sure to be picked does not depend on how sums are rounded.
            if chance < 1.0 and np.floor(running[part]) == np.floor(before):
                chance = 0.0
        if noted:
            chances[i] = chance
