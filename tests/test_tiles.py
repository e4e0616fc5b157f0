"""Rows are transposed, whatever their width, and sums over lines are those of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from robust_kmeans.kernels.bounds import changed_rows
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    REGISTER_BYTES,
    n_lanes,
    spread,
    store,
)
from robust_kmeans.kernels.tiles import add_terms, fill_tile
from tests.strategies import DTYPES

PAIRS = [*((dtype, dtype) for dtype in DTYPES), (np.float64, np.float32)]


@jit
def filled(rows, positions, first, n_values, origin, scale, tile, raw):
    n_columns = positions.shape[0]
    fill_tile(
        rows, positions, n_columns, first, n_values, origin, scale, tile, raw, n_columns, 0, 0
    )


@pytest.mark.parametrize(("dtype", "tiled"), PAIRS)
@pytest.mark.parametrize("n_features", range(1, 41))
def test_a_row_becomes_a_column(n_features, dtype, tiled):
    random = np.random.RandomState(n_features)
    width = REGISTER_BYTES // np.dtype(tiled).itemsize
    X = random.standard_normal((100, n_features)).astype(dtype)
    # The last row is the end of the memory: nothing beyond it may be needed.
    positions = random.permutation(100)[: 2 * width].astype(np.uint32)
    positions[-1] = 99
    origin = np.zeros(n_features + width, dtype)
    origin[:n_features] = random.standard_normal(n_features)
    scale = dtype(1 if dtype == tiled else 4)
    tile, raw = np.full((2, 64, 2 * width), np.nan, tiled)
    kept = raw.ravel() if dtype == tiled else raw.ravel()[:0]
    for first in {0, n_features // 3}:
        n_values = n_features - first
        filled(X, positions, first, n_values, origin, scale, tile.ravel(), kept)
        shifted = (X[positions, first:] - origin[first:n_features]) * scale
        np.testing.assert_array_equal(tile[:n_values], shifted.astype(tiled).T)
        if dtype == tiled:
            np.testing.assert_array_equal(raw[:n_values], X[positions, first:].T)
        n_filled = np.count_nonzero(~np.isnan(tile[:, 0]))
        assert n_filled < n_features + width


@jit
def sums_over(tile, n_lines, factors, n_centers, with_square, out):
    lanes, start = n_lanes(tile), spread(tile.dtype.type(1))
    sums = add_terms(
        tile, n_lines, factors, 0, n_centers, with_square, start, start, start, start, start
    )
    for c, total in enumerate(sums):
        store(out, c * lanes, total)


@jit
def lanes_for(tile):
    return n_lanes(tile)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_centers", "squared"), [(4, False), *((c, True) for c in range(5))])
def test_terms_are_added_for_those_centers_that_there_are(n_centers, squared, dtype):
    random = np.random.RandomState(0)
    lanes = lanes_for(np.empty(0, dtype))
    # Small whole numbers: sums have no rounding.
    tile = random.randint(-9, 10, size=(7, lanes)).astype(dtype)
    factors = random.randint(-9, 10, size=(7, 4)).astype(dtype)
    out = np.empty((5, lanes), dtype)
    sums_over(tile.ravel(), 7, factors.ravel(), n_centers, squared, out.ravel())
    np.testing.assert_array_equal(out[:n_centers], 1 + factors.T[:n_centers] @ tile)
    assert (out[n_centers:4] == 1).all()
    np.testing.assert_array_equal(
        out[4], 1 + np.sum(tile**2, axis=0) if squared else np.ones(lanes)
    )


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 300])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("in_a_row", [False, True])
def test_rows_with_a_new_label_are_found(n_rows, share, in_a_row):
    random = np.random.RandomState(0)
    after = random.randint(5, size=1000).astype(np.int32)
    which = np.arange(77, 77 + n_rows) if in_a_row else np.sort(random.permutation(1000)[:n_rows])
    changed = random.uniform(size=n_rows) < share
    before = np.where(changed, after[which] + 1, after[which]).astype(np.int32)
    expected, labels = which[changed], before[changed]
    which = which.astype(np.int32)
    found = changed_rows(which, before, after)
    np.testing.assert_array_equal(which[:found], expected)
    np.testing.assert_array_equal(before[:found], labels)
