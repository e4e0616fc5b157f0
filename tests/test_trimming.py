from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from robust_kmeans import trimming
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels.order import KEYS
from robust_kmeans.seeding.drawing import clipped, draw
from robust_kmeans.seeding.growth import Growth
from robust_kmeans.sweeps import order as order_sweeps
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk
from robust_kmeans.sweeps.cut import LEAST_FLAGGED, flagged_rows, kept_weights
from robust_kmeans.sweeps.order import ROWS_WITHIN, Asked, KeyRange, look_and_list
from robust_kmeans.sweeps.sampling import MASS, Weighting
from robust_kmeans.sweeps.seeding import SeedState
from robust_kmeans.trimming import END, find_cut, where_to_look
from tests import oracle
from tests.states import SET_D2
from tests.strategies import DTYPES, distances


def _kept(chunk, state, cut):
    return state, kept_weights(chunk, state, cut)


def _flagged(chunk, state, cut):
    return state, flagged_rows(chunk, state, cut)


def cut_and_rows(open_data, d2, z, weights=None, n_chunks=3, keys=None):
    with open_data(np.zeros((len(d2), 1), d2.dtype), weights, n_chunks) as data:
        states, _ = data.run(SET_D2, None, d2)
        cut = find_cut(data, states, z, keys)
        return cut, data.collect(_kept, states, cut), data.collect(_flagged, states, cut)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=60)
def test_cut_equals_the_oracle(open_data, dtype, data):
    d2 = data.draw(distances(dtype))
    z = data.draw(st.integers(0, len(d2) - 1))
    cut, kept, flagged = cut_and_rows(open_data, d2, z, n_chunks=data.draw(st.integers(1, 4)))
    np.testing.assert_array_equal(kept, oracle.kept_weights(d2, z))
    np.testing.assert_array_equal(flagged, oracle.outliers(d2, z))
    assert cut.cost == pytest.approx(oracle.trimmed_cost(d2, z), rel=1e-12)
    assert cut.weight == min(z, np.count_nonzero(d2)) == flagged.sum()


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=60)
def test_weighted_cut_trims_the_boundary_row_in_part(open_data, dtype, data):
    d2 = data.draw(distances(dtype))
    steps = data.draw(st.lists(st.integers(0, 8), min_size=len(d2), max_size=len(d2)))
    weights = np.array(steps) / data.draw(st.sampled_from([1.0, 4.0, 10.0]))
    weights[0] = max(weights[0], 1.0)
    z = float(weights.sum() * data.draw(st.sampled_from([0.0, 0.1, 0.35, 0.9])))
    cut, kept, flagged = cut_and_rows(open_data, d2, z, weights)
    np.testing.assert_allclose(kept, oracle.kept_weights(d2, z, weights), atol=1e-10)
    np.testing.assert_array_equal(
        flagged & (weights > 0), oracle.outliers(d2, z, weights) & (weights > 0)
    )
    assert cut.cost == pytest.approx(oracle.trimmed_cost(d2, z, weights), rel=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=40)
def test_where_to_look_first_changes_nothing(open_data, dtype, data):
    d2 = data.draw(distances(dtype))
    z = data.draw(st.integers(1, len(d2) - 1))
    low = data.draw(st.integers(0, where_to_look(d2.dtype).high - 2))
    high = data.draw(st.integers(low + 1, where_to_look(d2.dtype).high))
    expected = cut_and_rows(open_data, d2, z)[0]
    for keys in (KeyRange(low, high), where_to_look(d2.dtype, expected)):
        found = cut_and_rows(open_data, d2, z, keys=keys)[0]
        assert found.cost == pytest.approx(expected.cost, rel=1e-12)
        assert replace(found, cost=0) == replace(expected, cost=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_chunks", [1, 3, 7])
def test_massive_ties_leave_exactly_z_outliers(open_data, dtype, n_chunks):
    n = 5 * trimming.FEW_ROWS
    d2 = np.full(n, 2.5, dtype)
    d2[::10] = 7.0
    for z in (1, n // 10, n // 10 + 1, n // 2, n - 1):
        cut, _, flagged = cut_and_rows(open_data, d2, z, n_chunks=n_chunks)
        assert flagged.sum() == z
        np.testing.assert_array_equal(flagged, oracle.outliers(d2, z))
        assert cut.cost == pytest.approx(oracle.trimmed_cost(d2, z))


def test_massive_ties_with_weights_split_the_boundary_row(open_data):
    n = 3 * trimming.FEW_ROWS
    d2, weights = np.full(n, 4.0), np.full(n, 0.1)
    cut, kept, flagged = cut_and_rows(open_data, d2, 12.34, weights)
    assert flagged.sum() == 123
    assert kept.sum() == pytest.approx(weights.sum() - 12.34)
    assert kept[123] == pytest.approx(0.06)
    assert cut.cost == pytest.approx(4.0 * (weights.sum() - 12.34))


def test_weights_that_add_up_to_the_budget_only_within_rounding_trim_whole_rows(open_data):
    # 0.1 + 0.1 + 0.1 > 0.3 in floating point.
    _, kept, flagged = cut_and_rows(open_data, np.arange(1.0, 11.0), 0.3, np.full(10, 0.1))
    np.testing.assert_array_equal(np.flatnonzero(flagged), [7, 8, 9])
    np.testing.assert_allclose(kept[:7], 0.1)


def test_light_rows_beside_a_heavy_outlier_are_not_swallowed_by_rounding(open_data):
    d2, weights = np.arange(50.0, 0.0, -1.0), np.full(50, 1e-5)
    weights[0] = 1e9
    _, _, flagged = cut_and_rows(open_data, d2, 1e9, weights)
    assert np.flatnonzero(flagged).tolist() == [0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_at_distance_zero_are_never_outliers(open_data, dtype):
    for n in (10, 3 * trimming.FEW_ROWS):
        d2 = np.zeros(n, dtype)
        d2[[2, 5]] = 1, 3
        cut, _, flagged = cut_and_rows(open_data, d2, 7)
        np.testing.assert_array_equal(np.flatnonzero(flagged), [2, 5])
        assert (cut.weight, cut.cost) == (2, 0)


def test_negative_zero_counts_as_zero(open_data):
    cut, _, flagged = cut_and_rows(open_data, np.array([-0.0, 0.0, 2.0, -0.0]), 2)
    assert flagged.tolist() == [False, False, True, False]
    assert cut.weight == 1


def test_least_flagged_distance_is_infinite_when_none_is_flagged(open_data):
    with open_data(np.zeros((4, 1)), np.full(4, 10.0)) as data:
        states, _ = data.run(SET_D2, None, np.array([1.0, 2.0, 3.0, 4.0]))
        assert data.summarise(LEAST_FLAGGED, states, find_cut(data, states, 0.5)) == np.inf
        assert data.summarise(LEAST_FLAGGED, states, find_cut(data, states, 20)) == 3


@example(n_rows=100_000, z=20_000)
@given(n_rows=st.integers(5_000, 30_000), z=st.integers(1, 4_000))
@settings(max_examples=10)
def test_cut_of_many_rows_equals_a_sort(n_rows, z):
    d2 = np.random.RandomState(z).standard_exponential(n_rows).astype(np.float32)
    with InMemory(np.zeros((n_rows, 1), np.float32)) as data:
        states, _ = data.run(SET_D2, None, d2)
        cut = find_cut(data, states, z)
    in_order = np.sort(d2.astype(np.float64))
    assert cut.value == in_order[n_rows - z - 1]
    assert cut.cost == pytest.approx(in_order[: n_rows - z].sum(), rel=1e-12)


def looked_at(d2, weights, n_shown):
    """A chunk, and its state with and without a list of its n farthest rows."""
    chunk = Chunk(np.zeros((len(d2), 1), d2.dtype), weights, 70)
    low = int(np.abs(np.sort(d2)[-n_shown]).view(KEYS[d2.dtype]))
    look, listed = look_and_list(chunk, d2, KeyRange(low, END[d2.dtype]))
    assert look is not None
    return chunk, SeedState(d2, listed=listed), SeedState(d2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_listed_rows_answer_as_all_rows_do(dtype, weighted, ties):
    random = np.random.RandomState(0)
    d2 = random.exponential(size=1000).astype(dtype)
    if ties:
        d2 = np.round(d2 * 4).astype(dtype)
        d2[:50] = -0.0
    weights = random.randint(0, 3, 1000).astype(float) if weighted else NO_WEIGHTS
    chunk, listed, plain = looked_at(d2, weights, n_shown=60)
    assert listed.listed is not None
    assert len(listed.listed.rows) < 125
    # From above all that is listed to below some of it: then all rows are looked at.
    for least in (*np.sort(d2)[[-1, -20, -60, -200]], dtype(0)):
        asked = Asked(float(least), float(least) * 1.2, 2000)
        found, expected = (ROWS_WITHIN.step(chunk, state, asked)[1] for state in (listed, plain))
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.d2, expected.d2)
        np.testing.assert_array_equal(found.weights, expected.weights)
        for weighting in (clipped(float(least)), clipped(np.inf), Weighting(0.5, 0.5, np.inf)):
            mass, all_mass = (MASS.step(chunk, each, weighting)[1] for each in (listed, plain))
            assert mass == pytest.approx(all_mass, rel=1e-12)


def test_a_list_that_does_not_fit_is_no_list():
    d2 = np.arange(1.0, 801.0)
    assert looked_at(d2, NO_WEIGHTS, n_shown=100)[1].listed is not None
    assert looked_at(d2, NO_WEIGHTS, n_shown=101)[1].listed is None


@pytest.mark.parametrize("trials", [1, 3])
def test_lists_change_neither_cuts_nor_draws(trials, monkeypatch):
    X = np.random.RandomState(0).standard_normal((60_000, 3)) ** 3
    grown = []
    for share in (0.25, 0.0):
        monkeypatch.setattr(order_sweeps, "LISTED_SHARE", share)
        with InMemory(X, n_threads=1, bounds=np.array([0, 20_000, 60_000])) as data:
            random = np.random.RandomState(5)
            growth = Growth(data, 15, 600, random)
            while len(growth.rows) < 14:
                tau = 0.5 * growth.cut.cost / 600
                if trials == 1:
                    growth.add_drawn(tau)
                else:
                    uniforms = random.uniform(size=trials)
                    growth.add_best(draw(data, growth.states, clipped(tau), uniforms))
            is_listed = [state.listed is not None for state in growth.states]
        grown.append((is_listed, [row.index for row in growth.rows], growth.cut))
    assert all(grown[0][0])
    assert not any(grown[1][0])
    assert grown[0][1:] == grown[1][1:]
