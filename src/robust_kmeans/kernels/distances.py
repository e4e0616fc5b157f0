"""Squared distances from rows to centres, always as sums of squared differences.

The expansion ‖x‖² − 2x·c + ‖c‖² is faster but loses everything when a row is far from the
origin compared with its distance to a centre; `assign` uses it only to rule centres out, never
to rank them closely or to report a distance.

Costs for m rows, k centres, d features: `closer` and `pairwise` read the rows once and do
3·m·k·d operations.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import width_of_register
from robust_kmeans.kernels.row_registers import transpose_square

# Rows per tile.
TILE = 128


@jit
def closer(rows, centers, d2, out):
    """D² after adding each of L candidate centres alone, in one reading of the rows.

    IN   rows (m, d), centers (L, d), d2 (m,): D² before
    OUT  out (L, m): min(d2, squared distance to candidate l)
    """
    n_rows, n_features = rows.shape
    for i in range(n_rows):
        for candidate in range(centers.shape[0]):
            total = rows.dtype.type(0)
            for f in range(n_features):
                difference = rows[i, f] - centers[candidate, f]
                total += difference * difference
            out[candidate, i] = min(total, d2[i])


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
def transpose(rows, which, tile, stride):
    """Copy some rows into the columns of a tile, whose lines are `stride` apart.

    Columns after the last row are filled with copies of it, to the end of a register.

    IN   rows (m, d), which (p,), stride
    OUT  tile (d·stride,)
    """
    n_rows, n_features = which.shape[0], rows.shape[1]
    width = width_of_register(rows)
    origin = np.zeros(n_features, rows.dtype)
    positions = np.empty(width, np.uint32)
    for i in range(0, n_rows, width):
        for r in range(width):
            positions[r] = which[min(i + r, n_rows - 1)]
        for f in range(0, n_features, width):
            transpose_square(
                rows, positions, 0, f, min(width, n_features - f), origin,
                tile, f * stride + i, stride,
            )  # fmt: skip
