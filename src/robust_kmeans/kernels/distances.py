"""Squared distances from rows to centres, always as sums of squared differences.

The expansion ‖x‖² − 2x·c + ‖c‖² is faster but loses everything when a row is far from the
origin compared with its distance to a centre; `assign` uses it only to rule centres out, never
to rank them closely or to report a distance.

Costs for m rows, k centres, d features: `pairwise` reads the rows once and does 3·m·k·d
operations.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    aligned_empty,
    fused,
    load,
    n_lanes,
    spread,
    store,
    width_of_register,
)
from robust_kmeans.kernels.row_registers import transpose_square

# Rows per tile, and how far its lines are apart: a little farther, as lines a power of two apart
# would compete for the same places in the cache.
TILE = 128
STRIDE = TILE + 64


@jit
def pairwise(rows, centers, out):
    """Euclidean distances (not squared).

    IN   rows (m, d), centers (k, d)
    OUT  out (m, k)
    """
    n_rows, n_centers = rows.shape[0], centers.shape[0]
    tile = empty_tile(rows)
    found = aligned_empty(4 * TILE, rows.dtype)
    positions = np.empty(TILE, np.int32)
    for start in range(0, n_rows, TILE):
        size = min(TILE, n_rows - start)
        for i in range(size):
            positions[i] = start + i
        transpose(rows, positions[:size], tile, STRIDE)
        for j in range(0, n_centers, 4):
            four_distances(tile, size, centers, j, found)
            for p in range(4 * TILE):
                found[p] = np.sqrt(found[p])
            for c in range(min(4, n_centers - j)):
                for i in range(size):
                    out[start + i, j + c] = found[c * TILE + i]


@jit
def empty_tile(rows):
    """Memory for `transpose`, with lines of `STRIDE` values."""
    tile = aligned_empty(rows.shape[1] * STRIDE, rows.dtype)
    # What is never filled is computed with all the same.
    tile[:] = 0
    return tile


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


@jit
def four_distances(tile, n_rows, centers, j, out):
    """D² of the rows of a tile to four centres, j and the next; the last one fills up.

    Four at a time, so that a wide tile is read less often; rows in lanes, so that no row's result
    depends on its neighbours.

    IN   tile (d·STRIDE,), its first n_rows columns filled; centers (k, d), j
    OUT  out (4·TILE,): one after the other
    """
    last, lanes, real = centers.shape[0] - 1, n_lanes(tile), tile.dtype.type
    j1, j2, j3 = min(j + 1, last), min(j + 2, last), min(j + 3, last)
    for first in range(0, n_rows, lanes):
        s0, s1, s2, s3 = spread(real(0)), spread(real(0)), spread(real(0)), spread(real(0))
        for f in range(centers.shape[1]):
            x = load(tile, f * STRIDE + first)
            a0, a1 = x - spread(centers[j, f]), x - spread(centers[j1, f])
            a2, a3 = x - spread(centers[j2, f]), x - spread(centers[j3, f])
            s0, s1 = fused(a0, a0, s0), fused(a1, a1, s1)
            s2, s3 = fused(a2, a2, s2), fused(a3, a3, s3)
        store(out, first, s0)
        store(out, TILE + first, s1)
        store(out, 2 * TILE + first, s2)
        store(out, 3 * TILE + first, s3)
