"""The sweeps that look at clusters' tails, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans.sweeps.tails import (
    BEYOND_FENCES,
    BIN_EDGES,
    N_TAIL_BINS,
    TAIL_HISTOGRAM,
    WON_ROWS,
    Fences,
    Newcomers,
    TailShared,
)
from robust_kmeans.trimming import place
from tests import oracle
from tests.strategies import problems


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data())
@settings(max_examples=30)
def test_rows_beyond_all_fences_equal_the_oracle(open_data, weighted, data):
    X, k, _, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    random = np.random.RandomState(seed)
    centers = X[random.choice(len(X), k, replace=False)]
    # No fence at an integer: no row may lie on one.
    fences = random.randint(0, 500, size=k) + 0.5
    distances = oracle.squared_distances(X, centers)
    nearest = distances.argmin(axis=1)
    beyond = (distances > fences).all(axis=1)
    w = np.ones(len(X)) if weights is None else weights
    with open_data(X, weights, n_chunks) as rows:
        states = place(rows, centers, 0).states
        sides = rows.summarise(BEYOND_FENCES, states, Fences(centers, fences, fences))
    d2 = distances.min(axis=1)
    for j in range(k):
        inside = ~beyond & (nearest == j)
        assert sides.mass[j] == pytest.approx(w[inside].sum())
        assert sides.cost[j] == pytest.approx(w[inside] @ d2[inside])
    assert sides.mass_beyond == pytest.approx(w[beyond].sum())
    assert sides.logs_beyond == pytest.approx(w[beyond] @ np.log(d2[beyond]))


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data())
@settings(max_examples=30)
def test_rows_that_newcomers_win_equal_the_oracle(open_data, weighted, data):
    X, k, _, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    random = np.random.RandomState(seed)
    centers = X[random.choice(len(X), k, replace=False)]
    points = X[random.choice(len(X), 2)] + X.dtype.type(0.25)
    # No fence, and no limit, at a distance that a row can have.
    fences = random.randint(0, 500, size=k) + 0.7
    limit = random.randint(0, 500) + 0.7
    distances = oracle.squared_distances(X, centers)
    nearest, d2 = distances.argmin(axis=1), distances.min(axis=1)
    beyond = (distances > fences).all(axis=1)
    w = np.ones(len(X)) if weights is None else weights
    with open_data(X, weights, n_chunks) as rows:
        states = place(rows, centers, 0).states
        shared = Newcomers(points, Fences(centers, fences, fences), limit)
        won = rows.summarise(WON_ROWS, states, shared)
    for i, there in enumerate(oracle.squared_distances(points, X)):
        wins = there < np.where(beyond, np.minimum(d2, limit), d2)
        for j in range(k):
            mine = wins & ~beyond & (nearest == j)
            assert won.mass[i, j] == pytest.approx(w[mine].sum())
            assert won.before[i, j] == pytest.approx(w[mine] @ d2[mine])
        assert won.mass[i, k] == pytest.approx(w[wins & beyond].sum())
        assert won.before[i, k] == pytest.approx(w[wins & beyond] @ np.log(d2[wins & beyond]))
        assert won.cost[i] == pytest.approx(w[wins] @ there[wins], rel=1e-4)
        np.testing.assert_allclose(won.sums[i], w[wins] @ (X[wins] - points[i]), atol=1e-6)


@given(problem=problems(weighted=True), scale=st.sampled_from([1.0, 0.3, 1e9]))
@settings(max_examples=30)
def test_histogram_of_tails_equals_numpy(open_data, problem, scale):
    X, k, _, weights, _, n_chunks = problem
    with open_data(X, weights, n_chunks) as data:
        states = place(data, X[:k], 0).states
        found = data.summarise(TAIL_HISTOGRAM, states, TailShared(scale, k))
    distances = oracle.squared_distances(X, X[:k])
    nearest, d2 = distances.argmin(axis=1), distances.min(axis=1) / scale
    assert found.shape == (k, N_TAIL_BINS)
    for j in range(k):
        mine = nearest == j
        expected, _ = np.histogram(d2[mine], BIN_EDGES, weights=weights[mine])
        np.testing.assert_allclose(found[j], expected)


def test_histogram_without_a_unit_tells_equal_rows_from_others(open_data):
    X = np.repeat([[0.0], [3.0], [8.0], [9.0]], [5, 4, 3, 2], axis=0)
    with open_data(X, None, 2) as data:
        states = place(data, X[[0, -3]], 0).states
        found = data.summarise(TAIL_HISTOGRAM, states, TailShared(0.0, 2))
    assert found[:, [0, -1]].tolist() == [[5, 4], [3, 2]]
    assert found.sum() == len(X)
