"""Squared distances from rows to centres, always as sums of squared differences.

The expansion ‖x‖² − 2x·c + ‖c‖² is faster for wide rows but loses everything when a row
is far from the origin compared with its distance to a centre; `assign` therefore uses it
only to shortlist centres, never to rank them or to report a distance.

Costs for m rows, k centres, d features: `closer` reads the rows once and does 3·m·k·d
operations; `assign` the same, with the rows of a tile read k times from the cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.jit import jit

Floats = NDArray[np.floating]
Labels = NDArray[np.int32]

# Rows per tile: long enough to outweigh the start of each inner loop, and a tile of 39
# features of float64 still leaves most of the L2 cache alone.
TILE = 256
# From this many features on, a matrix product pays for itself (measured by
# benchmarks/assignment.py); it must not depend on the number of rows, or predicting rows
# one by one would round differently from predicting them together.
SHORTLIST_FEATURES = 40
# Rows per matrix product: the product stays in the L2 cache up to a few hundred centres.
SHORTLIST_ROWS = 512


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


def assign(rows: Floats, centers: Floats, first_label: int, d2: Floats, labels: Labels) -> None:
    """Give each row the nearest of its present centre and `centers`; ties keep the lower label.

    IN     rows (m, d), centers (k, d); `first_label` is the label of centers[0]
    INOUT  d2 (m,), labels (m,): the present D² (infinity for none) and label
    """
    if rows.shape[1] < SHORTLIST_FEATURES:
        _assign_by_tiles(rows, centers, first_label, d2, labels)
        return
    # Shifting by a centre keeps the products small where the data is far from the origin.
    origin = centers[0]
    shifted_centers = centers - origin
    center_norms = np.einsum("ij,ij->i", shifted_centers, shifted_centers)
    for start in range(0, len(rows), SHORTLIST_ROWS):
        part = slice(start, start + SHORTLIST_ROWS)
        shifted_rows = rows[part] - origin
        row_norms = np.einsum("ij,ij->i", shifted_rows, shifted_rows)
        products = shifted_centers @ shifted_rows.T
        _assign_by_shortlist(
            rows[part], centers, first_label, products, row_norms, center_norms,
            d2[part], labels[part],
        )  # fmt: skip


@jit
def _assign_by_tiles(rows, centers, first_label, d2, labels):
    """`assign` for narrow rows: a transposed tile lets the vector units work across rows.

    A tile is always computed whole, so that a row's D² does not depend on its neighbours.
    Four features share one update of the running total, which halves the time.

    IN     rows (m, d), centers (k, d), first_label
    INOUT  d2 (m,), labels (m,)
    """
    n_rows, n_features = rows.shape
    values = rows.reshape(n_rows * n_features)
    tile = np.zeros((n_features, TILE), rows.dtype)
    total = np.empty(TILE, rows.dtype)
    best = np.empty(TILE, rows.dtype)
    winner = np.empty(TILE, np.int32)
    # A mask, not %: it tells the compiler that no index is negative, so that it can vectorise.
    by_four = 1 + ((n_features - 1) & 3)
    for start in range(0, n_rows, TILE):
        size = min(TILE, n_rows - start)
        first = start * n_features
        for f in range(n_features):
            for i in range(size):
                tile[f, i] = values[first + i * n_features + f]
        for i in range(size):
            best[i] = d2[start + i]
            winner[i] = labels[start + i]
        for j in range(centers.shape[0]):
            c0 = centers[j, 0]
            for i in range(TILE):
                total[i] = (tile[0, i] - c0) ** 2
            for f in range(1, by_four):
                c0 = centers[j, f]
                for i in range(TILE):
                    total[i] += (tile[f, i] - c0) ** 2
            for f in range(by_four, n_features, 4):
                c0 = centers[j, f]
                c1 = centers[j, f + 1]
                c2 = centers[j, f + 2]
                c3 = centers[j, f + 3]
                for i in range(TILE):
                    u0 = tile[f, i] - c0
                    u1 = tile[f + 1, i] - c1
                    u2 = tile[f + 2, i] - c2
                    u3 = tile[f + 3, i] - c3
                    total[i] += u0 * u0 + u1 * u1 + u2 * u2 + u3 * u3
            label = first_label + j
            for i in range(TILE):
                if total[i] < best[i]:
                    best[i] = total[i]
                    winner[i] = label
        for i in range(size):
            d2[start + i] = best[i]
            labels[start + i] = winner[i]


@jit
def _assign_by_shortlist(
    rows, centers, first_label, products, row_norms, center_norms, d2, labels
):  # fmt: skip
    """`assign` for wide rows: only centres that rounding cannot rule out are measured.

    With x and c shifted, ‖x‖² − 2x·c + ‖c‖² is off by at most (d + 2)·eps·(‖x‖² + ‖c‖²),
    whatever the order of summation; the shift and the norms round in the same proportion,
    and four times that is allowed.  ‖x‖² is the same for all centres and left out.

    IN     rows (m, d), centers (k, d), first_label; shifted: products (k, m),
           row_norms (m,), center_norms (k,)
    INOUT  d2 (m,), labels (m,)
    """
    n_rows, n_features = rows.shape
    n_centers = centers.shape[0]
    error = rows.dtype.type(4 * (n_features + 2) * np.finfo(rows.dtype).eps)
    two = rows.dtype.type(2)
    ceiling = np.full(n_rows, rows.dtype.type(np.inf))
    for j in range(n_centers):
        most = center_norms[j] + error * center_norms[j]
        for i in range(n_rows):
            ceiling[i] = min(ceiling[i], most - two * products[j, i])
    for i in range(n_rows):
        ceiling[i] += two * error * row_norms[i]
    n_candidates = np.zeros(n_rows, np.int32)
    candidate = np.zeros(n_rows, np.int32)
    for j in range(n_centers):
        least = center_norms[j] - error * center_norms[j]
        for i in range(n_rows):
            if least - two * products[j, i] <= ceiling[i]:
                n_candidates[i] += 1
                candidate[i] = j
    for i in range(n_rows):
        only = n_candidates[i] == 1
        for j in range(candidate[i] if only else 0, candidate[i] + 1):
            least = center_norms[j] - error * center_norms[j]
            if only or least - two * products[j, i] <= ceiling[i]:
                total = rows.dtype.type(0)
                for f in range(n_features):
                    difference = rows[i, f] - centers[j, f]
                    total += difference * difference
                if total < d2[i]:
                    d2[i] = total
                    labels[i] = first_label + j
