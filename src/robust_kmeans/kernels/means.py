"""Centres that go to the means of their rows: a few operations per value of the centres.

Compiled, because on small data NumPy takes longer to be called than these sums do.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.jit import jit


@jit
def to_means(centers, sums, mass, means):
    """The means of clusters; a cluster without rows keeps its centre.

    IN   centers (k, d); sums (k, d), float64: deviations of their rows; mass (k,), float64
    OUT  means (k, d)
    """
    for j in range(centers.shape[0]):
        for f in range(centers.shape[1]):
            shift = sums[j, f] / mass[j] if mass[j] > 0 else 0.0
            means[j, f] = np.float64(centers[j, f]) + shift


@jit
def squared_ways(before, after, ways):
    """How far each centre has come, squared.

    IN   before (k, d), after (k, d)
    OUT  ways (k,), float64
    """
    for j in range(before.shape[0]):
        total = 0.0
        for f in range(before.shape[1]):
            shift = np.float64(after[j, f]) - np.float64(before[j, f])
            total += shift * shift
        ways[j] = total


@jit
def carry_over(sums, mass, before, after, sums_out):
    """The same rows' deviations from centres that have moved; returns what the cost changes by.

    Σ‖x − c − s‖² is Σ‖x − c‖² − s·Σ(x − c) − s·Σ(x − c − s).

    IN   sums (k, d), mass (k,): before; before (k, d), after (k, d)
    OUT  sums_out (k, d), float64
    """
    change = 0.0
    for j in range(sums.shape[0]):
        for f in range(sums.shape[1]):
            shift = np.float64(after[j, f]) - np.float64(before[j, f])
            sums_out[j, f] = sums[j, f] - mass[j] * shift
            change -= shift * (sums[j, f] + sums_out[j, f])
    return change
