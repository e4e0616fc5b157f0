"""Squared distances from rows to centres, always as sums of squared differences.

The expansion ‖x‖² − 2x·c + ‖c‖² is faster but loses everything when a row is far from the
origin compared with its distance to a centre; `assign` uses it only to rule centres out, never
to rank them closely or to report a distance.

Rows are taken a tile at a time, so that all centres are measured while a tile is in the cache.
Narrow rows are transposed, which lets the vector units work across rows; wide ones are measured
along the features.

Costs for m rows, k centres, d features: `pairwise` and `measure` read the rows once and do 3·m·k·d
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
from robust_kmeans.kernels.row_blocks import WIDE
from robust_kmeans.kernels.row_registers import (
    four_squared_distances,
    prefetch,
    squared_distance,
    two_by_two_squared_distances,
)
from robust_kmeans.kernels.tiles import fill_tile

# Rows per tile, and how far its lines are apart: a little farther, as lines a power of two apart
# would compete for the same places in the cache.
TILE = 64
STRIDE = TILE + 32
# Wide rows are asked for so many bytes ahead: several centres take longer than the machine
# foresees.
AHEAD_BYTES = 2**13
# So many bytes of centres fit in the L1 cache beside a row or two.
CENTER_BYTES = 3 * 2**13


@jit
def pairwise(rows, centers, out):
    """Euclidean distances (not squared).

    IN   rows (m, d), centers (k, d)
    OUT  out (m, k)
    """
    n_rows, n_centers = rows.shape[0], centers.shape[0]
    tile = _empty_tile(rows)
    found = empty_distances(rows, 4)
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
def measure(rows, which, centers, tile, out):
    """Squared distances of no more than `TILE` rows from each of some centres.

    The bits of a distance depend on nothing but its row and its centre.

    IN   rows (m, d), which (p,): positions; centers (k, d); tile: memory of `empty_tile`
    OUT  out: memory of `empty_distances`: of each centre p values, `TILE` apart
    """
    if is_narrow(rows):
        transpose(rows, which, tile, STRIDE)
        for j in range(0, centers.shape[0], 4):
            four_distances(tile, which.shape[0], centers, j, out[j * TILE :])
    else:
        measure_along(rows, which, 0, which.shape[0], centers, out)


@jit
def measure_along(rows, which, start, n_rows, centers, out):
    """`measure` for wide rows: those from `start` on in a list, no more than `TILE`.

    Meanwhile later ones are asked for, also those of the next tile.
    """
    if centers.shape[0] * rows.shape[1] * rows.itemsize <= CENTER_BYTES:
        _measure_in_fours(rows, which, start, n_rows, centers, out)
    else:
        _measure_in_pairs(rows, which, start, n_rows, centers, out)


@jit
def _measure_in_fours(rows, which, start, n_rows, centers, out):
    """`measure` for wide rows, with four centres at a time: so a row is read less often."""
    n_features, n_centers, last = rows.shape[1], centers.shape[0], which.shape[0] - 1
    fours = n_centers // 4 * 4
    # While a row is in use, a later one is asked for, a part with each four centres.
    ahead = rows_ahead(rows)
    n_ahead = 4 * n_features // n_centers + 1
    for p in range(n_rows):
        i, soon = which[start + p], which[min(start + p + ahead, last)] * n_features
        for j in range(0, fours, 4):
            prefetch(rows, soon + j // 4 * n_ahead, n_ahead)
            d0, d1, d2, d3 = four_squared_distances(rows, i, centers, j)
            out[j * TILE + p] = d0
            out[(j + 1) * TILE + p] = d1
            out[(j + 2) * TILE + p] = d2
            out[(j + 3) * TILE + p] = d3
        for j in range(fours, n_centers):
            out[j * TILE + p] = squared_distance(rows, i, centers, j)


@jit
def _measure_in_pairs(rows, which, start, n_rows, centers, out):
    """The same, to the bit, with two rows and two centres at a time.

    Where the centres do not fit in the L1 cache: then they are read half as often.
    """
    n_features, n_centers, last = rows.shape[1], centers.shape[0], which.shape[0] - 1
    twos = n_centers // 2 * 2
    ahead = rows_ahead(rows) + 1
    n_ahead = 2 * n_features // n_centers + 1
    for p in range(0, n_rows, 2):
        q = min(p + 1, n_rows - 1)
        i, other = which[start + p], which[start + q]
        soon, later = which[min(start + p + ahead, last)], which[min(start + q + ahead, last)]
        for j in range(0, twos, 2):
            prefetch(rows, soon * n_features + j // 2 * n_ahead, n_ahead)
            prefetch(rows, later * n_features + j // 2 * n_ahead, n_ahead)
            d0, d1, d2, d3 = two_by_two_squared_distances(rows, i, other, centers, j)
            out[j * TILE + p], out[j * TILE + q] = d0, d2
            out[(j + 1) * TILE + p], out[(j + 1) * TILE + q] = d1, d3
        for j in range(twos, n_centers):
            out[j * TILE + p] = squared_distance(rows, i, centers, j)
            out[j * TILE + q] = squared_distance(rows, other, centers, j)


@jit
def is_narrow(rows):
    """Whether rows are transposed to be measured."""
    return rows.shape[1] * rows.itemsize < WIDE


@jit
def rows_ahead(rows):
    """How many rows ahead a wide row should be asked for."""
    return max(1, AHEAD_BYTES // (rows.shape[1] * rows.itemsize))


@jit
def empty_distances(rows, n_centers):
    """Memory for `measure`: for four centres at a time."""
    return aligned_empty((n_centers + 3) // 4 * 4 * TILE, rows.dtype)


@jit
def empty_tile(rows):
    """Memory for `measure`, where it transposes."""
    return _empty_tile(rows if is_narrow(rows) else rows[:, :0])


@jit
def _empty_tile(rows):
    """Memory for `transpose`, with lines of `STRIDE` values."""
    width = width_of_register(rows)
    tile = aligned_empty((rows.shape[1] + width - 1) // width * width * STRIDE, rows.dtype)
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
    origin = np.zeros(n_features + width, rows.dtype)
    n_columns = (n_rows + width - 1) // width * width
    positions = np.empty(n_columns, np.uint32)
    for i in range(n_columns):
        positions[i] = which[min(i, n_rows - 1)]
    fill_tile(rows, positions, n_columns, 0, n_features, origin, 1, tile, tile[:0], stride, 0, 0)


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
