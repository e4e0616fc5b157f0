"""``robust-k-means||``: coins, rounds in which rows join, and what is left of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import (
    RobustKMeansParallel,
    RobustKMeansPlusPlus,
    robust_kmeans_parallel,
    trimmed_inertia,
    trimmed_kmeans,
)
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels import coins as kernels
from robust_kmeans.seeding.registry import seeding_by_name
from robust_kmeans.sweeps.base import Work
from robust_kmeans.sweeps.coins import JOIN, Coins
from tests import oracle
from tests.states import SET_D2
from tests.strategies import DTYPES, problems

LARGEST_SEED = 2**64 - 1


def coins(seed, round_number, n_rows, start=0):
    """As many coins, tossed by the kernel: how often it passes a chance tells the coin."""
    d2, found = np.ones(n_rows), np.empty(n_rows, np.int64)
    low, high = np.zeros(n_rows), np.ones(n_rows)
    for _ in range(12):
        middle = (low + high) / 2
        n = kernels.joining_rows(
            d2, middle, start, np.uint64(seed), round_number, 1.0, 1.0, 1.0, found
        )
        below = np.zeros(n_rows, bool)
        below[found[:n]] = True
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    return (low + high) / 2


def p_of_uniformity(values, n_bins=64):
    return stats.chisquare(np.histogram(values, n_bins, (0, 1))[0]).pvalue


@pytest.mark.parametrize("seed", [0, 1, 2, 12345, LARGEST_SEED])
@pytest.mark.parametrize("start", [0, 10**12])
def test_coins_are_uniform_over_rows(seed, start):
    assert p_of_uniformity(coins(seed, 0, 50_000, start)) > 1e-4


def test_coins_of_a_row_are_uniform_over_rounds_and_seeds():
    assert p_of_uniformity([coins(7, number, 1, 99)[0] for number in range(4000)]) > 1e-4
    assert p_of_uniformity([coins(seed, 3, 1, 99)[0] for seed in range(4000)]) > 1e-4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((5, 0, 0), (5, 0, 1)),
        ((5, 0, 0), (5, 1, 0)),
        ((5, 0, 0), (6, 0, 0)),
        ((5, 0, 1), (5, 1, 0)),
    ],
    ids=["row", "round", "seed", "row and round"],
)
def test_neighbouring_coins_are_independent(one, other):
    n_rows, n_bins = 100_000, 16
    (seed, number, start), (other_seed, other_number, other_start) = one, other
    a = coins(seed, number, n_rows, start)
    b = coins(other_seed, other_number, n_rows, other_start)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(n_rows)
    together = np.histogram2d(a, b, n_bins, [(0, 1), (0, 1)])[0]
    assert stats.chisquare(together.ravel()).pvalue > 1e-4


@pytest.mark.parametrize(("seed", "number"), [(0, 0), (5, 3), (LARGEST_SEED, 10**6)])
@pytest.mark.parametrize("start", [0, 2**40])
def test_coins_are_those_of_splitmix64(seed, number, start):
    expected = oracle.coins(seed, number, range(start, start + 200))
    np.testing.assert_allclose(coins(seed, number, 200, start), expected, atol=2**-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data(), eta=st.sampled_from([0.1, 0.5, 1e9]), factor=st.sampled_from([0.1, 1.0, 2]))
@settings(max_examples=40)
def test_candidates_equal_the_oracle(open_data, weighted, data, eta, factor):
    X, k, z, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    expected = oracle.parallel_candidates(
        X, k, z, eta, 3, factor, np.random.RandomState(seed), weights
    )
    with open_data(X, weights, n_chunks) as rows:
        seeding = RobustKMeansParallel(eta, n_rounds=3, factor=factor)
        states, drawn = seeding.draw_candidates(rows, k, z, np.random.RandomState(seed))
        found = rows.collect(_labels_and_d2, states, None)
    assert [row.index for row in drawn] == expected
    np.testing.assert_array_equal(np.array([row.point for row in drawn]), X[expected])
    d2 = oracle.squared_distances(X, X[expected])
    np.testing.assert_allclose(found[:, 1], d2.min(axis=1), rtol=1e-6)
    own = d2[np.arange(len(X)), found[:, 0].astype(int)]
    np.testing.assert_allclose(own, d2.min(axis=1), rtol=1e-6)


def _labels_and_d2(_chunk, state, _):
    return state, np.stack([state.labels, state.d2], axis=1).astype(np.float64)


def joining(data, d2, toss):
    states, _ = data.run(SET_D2, None, d2)
    return data.summarise(JOIN, states, toss).indices


def toss_for(d2, weights, clip, expected, seed=0, number=0):
    total = float(weights @ np.minimum(d2.astype(np.float64), clip))
    return Coins(seed, number, clip, expected, total)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_joins_with_the_chance_of_the_formula(dtype):
    random = np.random.RandomState(0)
    d2 = (random.standard_normal(200) ** 2).astype(dtype)
    d2[:10], d2[10:14] = 0, 1e6
    weights = random.randint(0, 4, size=200).astype(float)
    clip, expected, n_seeds = 2.0, 40.0, 4000
    toss = toss_for(d2, weights, clip, expected)
    chances = np.minimum(1, expected * weights * np.minimum(d2, clip) / toss.total)
    assert (chances == 0).any()
    assert 0.3 < chances.max() <= 1
    counts = np.zeros(200)
    with InMemory(np.zeros((200, 1), dtype), weights, n_threads=1) as data:
        for seed in range(n_seeds):
            counts[joining(data, d2, toss._replace(seed=seed))] += 1
    error = np.sqrt(chances * (1 - chances) / n_seeds)
    assert (np.abs(counts / n_seeds - chances) <= 4.5 * error).all()


def test_a_row_with_all_the_cost_surely_joins():
    d2 = np.zeros(50)
    d2[17] = 5e-324
    with InMemory(np.zeros((50, 1))) as data:
        for seed in range(20):
            toss = toss_for(d2, np.ones(50), np.inf, 1.0, seed)
            assert joining(data, d2, toss).tolist() == [17]


@pytest.mark.parametrize("exponent", [-1070, -1060, -700, -590, 0, 900])
def test_the_size_of_the_costs_does_not_matter(exponent):
    # Small whole numbers, so that they are exact even where a float has few digits left.
    d2 = np.random.RandomState(0).randint(1, 9, size=300).astype(np.float64)
    with InMemory(np.zeros((300, 1))) as data:
        usual, scaled = (
            joining(data, each, toss_for(each, np.ones(300), np.inf, 20.0))
            for each in (d2, d2 * 2.0**exponent)
        )
    assert 5 < len(usual) < 50
    np.testing.assert_array_equal(scaled, usual)


def test_who_joins_does_not_depend_on_the_plan_or_the_execution(worker, open_data):
    random = np.random.RandomState(0)
    d2, weights = random.exponential(size=3000), random.uniform(size=3000)
    chosen = []
    for n_chunks in (1, 2, 7):
        with open_data(np.zeros((3000, 1)), weights, n_chunks) as data:
            toss = toss_for(d2, weights, 2.0, 100.0, seed=LARGEST_SEED, number=4)
            chosen.append(joining(data, d2, toss).tolist())
    assert chosen[0] == chosen[1] == chosen[2]
    assert chosen[0] == sorted(chosen[0])
    assert 60 < len(chosen[0]) < 140


def test_rounds_and_seeds_choose_different_rows():
    d2 = np.ones(3000)
    with InMemory(np.zeros((3000, 1))) as data:
        chosen = {
            tuple(joining(data, d2, toss_for(d2, d2, 2.0, 50.0, seed, number)))
            for seed in range(5)
            for number in range(5)
        }
    assert len(chosen) == 25


def test_weights_equal_repeated_rows_in_expectation():
    random = np.random.RandomState(0)
    d2, weights = random.exponential(size=60), random.randint(1, 5, size=60)
    which = np.repeat(np.arange(60), weights)
    expected, n_seeds = 8.0, 3000
    joined = np.zeros((2, 60))
    with (
        InMemory(np.zeros((60, 1)), weights.astype(float), n_threads=1) as weighted,
        InMemory(np.zeros((len(which), 1)), n_threads=1) as repeated,
    ):
        toss = toss_for(d2, weights, 2.0, expected)
        assert (expected * weights * np.minimum(d2, 2.0)).max() < toss.total
        for seed in range(n_seeds):
            joined[0, joining(weighted, d2, toss._replace(seed=seed))] += 1
            np.add.at(joined[1], which[joining(repeated, d2[which], toss._replace(seed=seed))], 1)
    share = expected * weights * np.minimum(d2, 2.0) / toss.total
    assert (np.abs(joined / n_seeds - share) < 4.5 * np.sqrt(share / n_seeds)).all()


@pytest.mark.parametrize("n_outliers", [0, 40])
def test_about_as_many_rows_join_in_a_round_as_asked_for(n_outliers):
    X, _, _ = make_contaminated_blobs(20_000, n_clusters=20, n_outliers=40, random_state=0)
    counts = [
        len(
            robust_kmeans_parallel(
                X, 20, n_outliers=n_outliers, n_rounds=4, factor=3, reduce=False, random_state=seed
            ).indices
        )
        for seed in range(5)
    ]
    # In the first round of all a few far rows have a chance of 1.
    assert 0.75 * 240 < np.mean(counts) < 1.1 * 240


def test_far_outliers_attract_few_candidates():
    X, labels, _ = make_contaminated_blobs(2000, outlier_box=10_000, random_state=0)
    share = {}
    for eta in (0.1, 1e12):
        found = [
            robust_kmeans_parallel(
                X, 20, n_outliers=100, eta=eta, reduce=False, random_state=seed
            ).indices
            for seed in range(5)
        ]
        share[eta] = np.mean(labels[np.concatenate(found)] < 0)
    assert share[1e12] > 0.3
    assert share[0.1] < share[1e12] / 2


def seed_quietly(X, k, z, seed, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return robust_kmeans_parallel(X, k, n_outliers=z, random_state=seed, **options)


def test_more_rounds_follow_where_fewer_than_k_rows_have_joined():
    X, _, _ = make_contaminated_blobs(300, n_clusters=12, n_outliers=0, random_state=0)
    for seed in range(5):
        _, indices = robust_kmeans_parallel(
            X, 12, n_outliers=0, n_rounds=1, factor=0.1, reduce=False, random_state=seed
        )
        assert len(set(indices)) >= 12


@pytest.mark.parametrize("k", [2, 3, 5, 7])
def test_few_distinct_rows_end_well(k):
    X = np.repeat(np.arange(3.0)[:, np.newaxis], 5, axis=0)
    for seed in range(10):
        centers, indices = seed_quietly(X, k, 0, seed)
        np.testing.assert_array_equal(centers, X[indices])
        assert len(np.unique(centers)) == min(k, 3)
    if k > 3:
        with pytest.warns(ConvergenceWarning, match="fewer distinct rows"):
            robust_kmeans_parallel(X, k, n_outliers=0, random_state=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_costs_near_the_limits_of_a_float_do_not_matter(dtype):
    X, _, _ = make_contaminated_blobs(500, n_clusters=5, n_outliers=20, random_state=0, dtype=dtype)
    expected = robust_kmeans_parallel(X, 5, n_outliers=20, random_state=0).indices
    for exponent in (-50, 50) if dtype is np.float32 else (-480, 480):
        scaled = X * dtype(2.0**exponent)
        found = robust_kmeans_parallel(scaled, 5, n_outliers=20, random_state=0).indices
        np.testing.assert_array_equal(found, expected)


class Counting(InMemory):
    """Notes the readings of all rows."""

    n_readings = 0

    def map(self, step, states, shared, *, work=Work.READING):
        self.n_readings += work is Work.READING
        return super().map(step, states, shared, work=work)


@pytest.mark.parametrize("n_rounds", [3, 5])
def test_a_round_is_one_reading_and_the_reduction_two_whatever_k(n_rounds):
    for k in (5, 30):
        X, _, _ = make_contaminated_blobs(2000, n_clusters=k, n_outliers=50, random_state=0)
        with Counting(X, n_threads=1) as data:
            RobustKMeansParallel(n_rounds=n_rounds, n_restarts=6).seed(
                data, k, 50, np.random.RandomState(0)
            )
        assert data.n_readings == 1 + n_rounds + 2


@pytest.mark.parametrize("outlier_box", [100, 10_000])
def test_seeds_are_as_good_as_those_drawn_one_after_the_other(outlier_box):
    X, _, _ = make_contaminated_blobs(3000, outlier_box=outlier_box, random_state=1)
    cost = {}
    for seeding in (RobustKMeansParallel(), RobustKMeansPlusPlus()):
        ends = []
        with InMemory(X) as data:
            for seed in range(4):
                centers = seeding.seed(data, 20, 100, np.random.RandomState(seed)).centers
                ends.append(trimmed_kmeans(X, centers, n_outliers=100).inertia)
        cost[type(seeding)] = np.mean(ends)
    assert cost[RobustKMeansParallel] < 1.05 * cost[RobustKMeansPlusPlus]


def test_the_name_and_the_function_mean_the_same():
    X, _, _ = make_contaminated_blobs(300, n_clusters=4, n_outliers=10, random_state=0)
    named = seeding_by_name("robust-k-means||", eta=0.3)
    assert named == RobustKMeansParallel(eta=0.3)
    with InMemory(X) as data:
        seeds = named.seed(data, 4, 10, np.random.RandomState(5))
    centers, indices = robust_kmeans_parallel(X, 4, n_outliers=10, eta=0.3, random_state=5)
    np.testing.assert_array_equal(seeds.centers, centers)
    np.testing.assert_array_equal(seeds.indices, indices)
    all_centers, _ = robust_kmeans_parallel(X, 4, n_outliers=10, reduce=False, random_state=5)
    assert len(all_centers) > 4
    best = trimmed_inertia(X, all_centers, n_outliers=10)
    assert best < trimmed_inertia(X, centers, n_outliers=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 0}, "eta=0 must be a number above 0"),
        ({"n_rounds": 0}, "n_rounds=0 must be at least 1"),
        ({"n_rounds": 2.0}, r"n_rounds=2\.0 must be an int"),
        ({"factor": -1}, "factor=-1 must be a number above 0"),
        ({"n_restarts": 0}, "n_restarts=0 must be at least 1"),
        ({"reduce": None}, "reduce=None must be True"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        robust_kmeans_parallel(np.eye(5), 2, n_outliers=1, **options)
