"""Momentum ends lower and sooner; the laws of trimmed Lloyd stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans import RobustKMeans, trimmed_kmeans
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import trimmed_lloyd
from robust_kmeans.momentum import Momentum
from robust_kmeans.sweeps.totals import ClusterTotals
from robust_kmeans.trimming import place
from tests.strategies import DTYPES, problems

K, Z = 12, 60


def gaussian(dtype=np.float64, n_rows=6000):
    """Rows without clusters, on which Lloyd takes long."""
    return np.random.RandomState(0).standard_normal((n_rows, 4)).astype(dtype)


def run(X, start, z, *, tol=0.0, max_iter=2000, with_momentum=True, bounds=True, **options):
    with InMemory(X, **options) as data:
        return trimmed_lloyd(
            data,
            place(data, start, z),
            z,
            max_iter=max_iter,
            tol=tol,
            with_momentum=with_momentum,
            bounds=bounds,
        )


@given(problem=problems(weighted=True), dtype=st.sampled_from(DTYPES), weighted=st.booleans())
@settings(max_examples=60)
def test_the_trimmed_cost_never_rises(problem, dtype, weighted):
    X, k, z, weights, seed, _ = problem
    random = np.random.RandomState(seed)
    X = X.astype(dtype) + dtype(0.37) * random.uniform(size=X.shape).astype(dtype)
    start = X[random.choice(len(X), k, replace=False)]
    history = np.array(run(X, start, z, max_iter=50, weights=weights if weighted else None).history)
    slack = 1e-6 if dtype == np.float32 else 1e-12
    assert (history[1:] <= history[:-1] * (1 + slack) + 1e-30).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_clusters_it_ends_lower_in_fewer_iterations(dtype):
    X = gaussian(dtype)
    plain = run(X, X[:K].copy(), Z, tol=1e-4, with_momentum=False)
    fast = run(X, X[:K].copy(), Z, tol=1e-4)
    assert fast.n_iter < 0.7 * plain.n_iter
    assert fast.inertia < plain.inertia


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_ends_where_centres_are_the_means(dtype):
    X = gaussian(dtype, 1500)
    end = run(X, X[:K].copy(), Z)
    assert end.n_iter < 2000
    again = trimmed_kmeans(X, end.centers, n_outliers=Z, tol=0)
    assert again.n_iter <= 1  # totals that are added up anew may round the means otherwise
    np.testing.assert_allclose(again.cluster_centers, end.centers, rtol=1e-5, atol=1e-6)


def lead_astray(monkeypatch, far):
    """Let momentum go that far beyond the means, and note when it does."""
    astray = []

    def far_away(momentum, means):
        if not momentum.n_steps:
            return means
        astray.append(means)
        return (means + far).astype(means.dtype)

    monkeypatch.setattr(Momentum, "beyond", far_away)
    return astray


@pytest.mark.parametrize("astray", [False, True])
@pytest.mark.parametrize("n_features", [4, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_and_threads_change_no_bit(monkeypatch, dtype, n_features, astray):
    # Where it leads astray, centres move twice in an iteration.
    noted = lead_astray(monkeypatch, 0.5) if astray else [None] * 10
    X = np.random.RandomState(1).standard_normal((4000, n_features)).astype(dtype)
    plan = np.linspace(0, len(X), 5).astype(np.int64)

    def one(n_threads, *, with_bounds):
        with InMemory(X, None, n_threads, plan) as data:
            start = place(data, X[:K].copy(), Z)
            return trimmed_lloyd(
                data, start, Z, max_iter=40, tol=0, with_momentum=True, bounds=with_bounds
            )

    first = one(1, with_bounds=True)
    assert len(noted) > 5
    for other in (one(2, with_bounds=True), one(2, with_bounds=False)):
        assert other.history == first.history
        np.testing.assert_array_equal(other.centers, first.centers)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("far", [50.0, 1e7])
def test_where_it_only_leads_astray_the_run_is_that_without_it(monkeypatch, weighted, far):
    X = gaussian()
    weights = np.random.RandomState(2).uniform(0.5, 2, len(X)) if weighted else None
    plain = run(X, X[:K].copy(), Z, max_iter=15, with_momentum=False, weights=weights)
    astray = lead_astray(monkeypatch, far)
    held = run(X, X[:K].copy(), Z, max_iter=15, weights=weights)
    assert len(astray) > 5
    np.testing.assert_allclose(held.history, plain.history, rtol=1e-10)
    np.testing.assert_allclose(held.centers, plain.centers, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_run_that_goes_on_from_midway_ends_as_if_it_had_never_stopped(weighted):
    X = gaussian(np.float32)
    weights = np.random.RandomState(2).uniform(0.5, 2, len(X)) if weighted else None
    kept = []
    with InMemory(X, weights) as data:
        start = place(data, X[:K].copy(), Z)
        options = {"max_iter": 30, "tol": 0.0}
        whole = trimmed_lloyd(data, start, Z, keep=kept.append, with_momentum=True, **options)
        assert max(midway.momentum.n_steps for midway in kept) > 5
        for midway in kept[::7]:
            again = trimmed_lloyd(data, midway, Z, **options)
            assert again.history == whole.history
            np.testing.assert_array_equal(again.centers, whole.centers)


def test_steps_are_those_of_nesterov():
    totals = ClusterTotals(np.zeros((1, 2)), np.ones(1))
    zero, one, three = (np.array([[x, 0.0]]) for x in (0.0, 1.0, 3.0))
    momentum = Momentum(zero)
    np.testing.assert_array_equal(momentum.beyond(one), one)
    momentum = momentum.unless_turned(zero, one, totals).after(one)
    np.testing.assert_array_equal(momentum.beyond(three), three + 0.25 * 2 * one)
    momentum = momentum.after(three)
    np.testing.assert_array_equal(momentum.beyond(three + one), three + one + 0.4 * one)
    # From beyond them the means pull back against the way they have come.
    turned = momentum.unless_turned(6 * one, 4 * one, totals)
    np.testing.assert_array_equal(turned.beyond(4 * one), 4 * one)


def test_after_going_astray_the_cost_is_that_of_the_rows():
    # Few rows that cost next to nothing, and a step to where they cost much: taken back, what is
    # left of the difference of two large numbers is not the cost.
    tiny = 1e-9 * np.arange(10.0)
    X = np.concatenate([np.full(3, -8.0), np.full(6, -1.0), tiny])[:, np.newaxis]
    end = run(X, np.array([[-8.0]]), 9)
    assert end.inertia == pytest.approx(np.sum((tiny - tiny.mean()) ** 2), rel=1e-6, abs=0)


def test_centres_do_not_go_where_squares_leave_the_range():
    means = np.array([[1e18], [-3e18]], np.float32)
    np.testing.assert_array_equal(Momentum(-means, 9).beyond(means), means)
    assert (Momentum(-means / 1e9, 9).beyond(means / 1e9) != means / 1e9).all()


@pytest.mark.parametrize("local_search", [0, 16])
def test_a_fit_uses_it_unless_it_is_given_centres(monkeypatch, local_search):
    X = gaussian()
    gone = []
    beyond = Momentum.beyond

    def noted(momentum, means):
        gone.append(momentum)
        return beyond(momentum, means)

    monkeypatch.setattr(Momentum, "beyond", noted)
    options = {"n_outliers": Z, "local_search": local_search, "tol": 0, "max_iter": 25}
    RobustKMeans(K, init=X[:K], **options).fit(X)
    trimmed_kmeans(X, X[:K], n_outliers=Z, tol=0, max_iter=25)
    assert not gone
    RobustKMeans(K, random_state=0, **options).fit(X)
    assert len(gone) >= 20
