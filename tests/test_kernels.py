from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.kernels import distances, order, totals
from tests import oracle
from tests.strategies import DTYPES

SHAPES = [(1, 1, 1), (5, 2, 3), (129, 9, 20), (300, 128, 50)]


def data(shape, dtype, offset=0.0):
    n_rows, n_features, n_centers = shape
    random = np.random.RandomState(n_rows)
    X = (random.standard_normal((n_rows, n_features)) + offset).astype(dtype)
    centers = (random.standard_normal((n_centers, n_features)) + offset).astype(dtype)
    return X, centers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_pairwise_equals_the_oracle(shape, dtype):
    X, centers = data(shape, dtype)
    expected = oracle.squared_distances(X, centers)
    out = np.empty(expected.shape, dtype)
    distances.pairwise(X, centers, out)
    np.testing.assert_allclose(out, np.sqrt(expected), rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 100, 999])
def test_values_that_are_not_finite_are_noticed(bad, position):
    values = np.arange(1000, dtype=np.float32)
    low, high = np.full(48, np.inf, np.float32), np.full(48, -np.inf, np.float32)
    assert totals.periodic_ranges(values, low, high) == 0
    values[position] = bad
    assert np.isnan(totals.periodic_ranges(values, low, high))


def test_a_row_without_weight_is_never_located():
    d2, weights = np.array([0.0, 3.0, 1.0, 0.0]), np.array([1.0, 0.0, 2.0, 1.0])
    targets, found = np.array([0.0, 1.9, 2.0, 99.0]), np.empty(4, np.int64)
    totals.locate_mass(d2, weights, 0.0, 1.0, np.inf, np.inf, targets, found)
    assert found.tolist() == [2, 2, 2, 2]
    totals.locate_mass(np.zeros(4), weights, 0.0, 1.0, np.inf, np.inf, targets, found)
    assert found.tolist() == [-1, -1, -1, -1]


@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_are_located_as_each_by_itself(weighted):
    random = np.random.RandomState(0)
    d2 = random.uniform(size=3 * totals.BLOCK + 7) * random.randint(2, size=3 * totals.BLOCK + 7)
    weights = random.uniform(size=len(d2)) if weighted else np.empty(0)
    until = np.cumsum(np.where(d2 <= 0.9, d2 * (weights if weighted else 1), 0))
    targets = np.sort(np.append(random.uniform(-0.01, until[-1] * 1.01, size=200), until[[5, 300]]))
    found, single = np.empty(len(targets), np.int64), np.empty(1, np.int64)
    totals.locate_mass(d2, weights, 0.0, 1.0, np.inf, 0.9, targets, found)
    for target, row in zip(targets, found, strict=True):
        totals.locate_mass(d2, weights, 0.0, 1.0, np.inf, 0.9, np.array([target]), single)
        assert single[0] == row
    clear = np.abs(until[found] - targets) > 1e-9 * until[-1]
    expected = np.searchsorted(until, targets, side="right")
    inside = clear & (expected < len(d2))
    np.testing.assert_array_equal(found[inside], expected[inside])
    assert (found[targets > until[-1]] == np.flatnonzero((d2 > 0) & (d2 <= 0.9))[-1]).all()


@st.composite
def masses(draw):
    """Counts per bin, and weights that are counts too or any numbers."""
    counts = np.array(draw(st.lists(st.integers(0, 3), min_size=1, max_size=30)), np.int64)
    counts[draw(st.integers(0, len(counts) - 1))] += 1
    if draw(st.booleans()):
        return counts, counts
    weights = draw(st.lists(st.floats(0.01, 10), min_size=len(counts), max_size=len(counts)))
    return counts, np.where(counts > 0, weights, 0.0)


@given(masses(), st.floats(0, 1.1))
def test_the_bin_of_the_cut_is_the_first_from_the_top_beyond_the_budget(found, share):
    counts, mass = found
    budget = share * float(mass.sum())
    bin_, above = order.bin_past(counts, mass, budget)
    from_top = np.cumsum(mass[::-1])
    filled = np.flatnonzero(counts[::-1])
    past = [position for position in filled if from_top[position] > budget] or [filled[-1]]
    assert bin_ == len(counts) - 1 - past[0]
    assert above == (from_top[past[0] - 1] if past[0] else 0)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=30), st.floats(0, 5), st.floats(0, 1.1))
def test_the_row_of_the_cut_is_the_first_beyond_the_budget(weights, above, share):
    weights = np.array(weights)
    d2 = np.random.RandomState(len(weights)).randint(5, size=len(weights)).astype(float)
    budget = above + share * float(weights.sum())
    position, until, cost = order.boundary(d2, weights, above, budget)
    ranking = np.lexsort((np.arange(len(d2)), -d2))
    running = np.cumsum([above, *weights[ranking]])[1:]
    past = np.flatnonzero(running > budget)
    rank = past[0] if past.size else len(weights) - 1
    assert position == ranking[rank]
    assert until == running[rank]
    after = ranking[rank + 1 :]
    assert cost == pytest.approx(weights[after] @ d2[after])
