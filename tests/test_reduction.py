"""Oversampling: more candidates than clusters, and their reduction to exactly k."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import (
    MixtureSeeding,
    RobustKMeansParallel,
    RobustKMeansPlusPlus,
    TKMeansPlusPlus,
    as_init,
    rkmeans_plusplus,
    robust_kmeans_plusplus,
    tkmeans_plusplus,
    trimmed_inertia,
    trimmed_kmeans,
)
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.seeding.reduction import rows_next_to_best, trimmed_reduction
from robust_kmeans.seeding.registry import resolve_init, seeding_by_name
from robust_kmeans.sweeps.order import KeyRange
from robust_kmeans.sweeps.rivals import JUDGE, Rivals
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import place
from tests import oracle
from tests.strategies import problems

FUNCTIONS = [robust_kmeans_plusplus, tkmeans_plusplus, rkmeans_plusplus]
each_function = pytest.mark.parametrize("function", FUNCTIONS)

OVERSAMPLED = [
    RobustKMeansPlusPlus(oversampling=0.5),
    RobustKMeansPlusPlus(n_local_trials=1, oversampling=2.0, threshold="balanced", inside=1.0),
    TKMeansPlusPlus(oversampling=1.0),
    MixtureSeeding(reduction="trimmed", n_restarts=4),
    MixtureSeeding(oversampling=1.0, reduction="trimmed", n_restarts=4),
    RobustKMeansParallel(n_restarts=4),
]
each_seeding = pytest.mark.parametrize("seeding", OVERSAMPLED, ids=range(len(OVERSAMPLED)))


def seed_quietly(data, seeding, k, z, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return seeding.seed(data, k, z, np.random.RandomState(seed))


@each_seeding
@given(problem=problems())
@settings(max_examples=25)
def test_the_reduction_gives_exactly_k_distinct_rows(open_data, seeding, problem):
    X, k, z, _, seed, n_chunks = problem
    assume(len(np.unique(X, axis=0)) - z > 3 * k)
    with open_data(X, None, n_chunks) as rows:
        centers, indices = seed_quietly(rows, seeding, k, z, seed)
    assert len(set(indices.tolist())) == k
    np.testing.assert_array_equal(centers, X[indices])


@each_function
@pytest.mark.parametrize(("oversampling", "expected"), [(0.0, 10), (0.1, 11), (0.55, 16), (2, 30)])
def test_without_reduction_all_candidates_are_returned(function, oversampling, expected):
    X, _, _ = make_contaminated_blobs(300, n_clusters=10, n_outliers=20, random_state=0)
    centers, indices = function(
        X, 10, n_outliers=20, oversampling=oversampling, reduce=False, random_state=0
    )
    assert centers.shape == (expected, 2)
    np.testing.assert_array_equal(centers, X[indices])


def test_without_reduction_rkm_returns_the_authors_number_of_candidates():
    X, _, _ = make_contaminated_blobs(300, n_clusters=5, n_outliers=20, random_state=0)
    assert len(rkmeans_plusplus(X, 5, n_outliers=20, reduce=False).centers) == 1 + 4 * 10


@pytest.mark.parametrize("function", FUNCTIONS[:2])
def test_candidates_begin_with_the_seeds_that_fewer_would_be(function):
    # Only the number of steps differs, as long as they try equally many candidates.
    X, _, _ = make_contaminated_blobs(300, n_clusters=5, n_outliers=20, random_state=0)
    options = {"n_outliers": 20, "random_state": 3}
    few = function(X, 5, **options).indices
    many = function(X, 5, oversampling=1, reduce=False, **options).indices
    np.testing.assert_array_equal(many[:5], few)


@pytest.mark.parametrize("function", FUNCTIONS[:2])
def test_no_more_candidates_are_drawn_than_leave_a_cost(function):
    X = np.repeat(np.arange(6.0)[:, np.newaxis], 3, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        centers, _ = function(X, 4, n_outliers=1, oversampling=1e9, reduce=False, random_state=0)
        reduced, _ = function(X, 4, n_outliers=1, oversampling=1e9, random_state=0)
    assert sorted(centers[:, 0]) == list(range(6))
    assert len(np.unique(reduced)) == 4


@pytest.mark.parametrize("outlier_box", [100, 1_000, 10_000])
@pytest.mark.parametrize("n_outliers", [25, 100])
def test_reduced_seeds_cost_little_more_than_the_planted_means(outlier_box, n_outliers):
    ratios = []
    for seed in range(4):
        X, _, means = make_contaminated_blobs(
            n_outliers=n_outliers, outlier_box=outlier_box, random_state=seed
        )
        best = trimmed_kmeans(X, means, n_outliers=n_outliers).inertia
        centers, _ = robust_kmeans_plusplus(
            X, 20, n_outliers=n_outliers, oversampling=1, random_state=seed
        )
        ratios.append(trimmed_inertia(X, centers, n_outliers=n_outliers) / best)
    assert np.mean(ratios) < 1.2


def test_far_outliers_among_the_candidates_win_the_plain_reduction_and_not_the_trimmed_one():
    X, labels, means = make_contaminated_blobs(outlier_box=10_000, random_state=0)
    best = trimmed_kmeans(X, means, n_outliers=100).inertia
    ratio, outliers = {}, {}
    for reduction in ("plain", "trimmed"):
        seeds = [
            rkmeans_plusplus(X, 20, n_outliers=100, reduction=reduction, random_state=seed)
            for seed in range(4)
        ]
        costs = [trimmed_inertia(X, found.centers, n_outliers=100) for found in seeds]
        # The median: now and then the candidates themselves miss a cluster.
        ratio[reduction] = np.median(costs) / best
        outliers[reduction] = np.mean([np.sum(labels[found.indices] < 0) for found in seeds])
    assert ratio["plain"] > 10
    assert outliers["plain"] >= 1
    assert ratio["trimmed"] < 1.2
    assert outliers["trimmed"] == 0


def test_an_outlier_that_is_given_as_a_candidate_is_left_out():
    random = np.random.RandomState(0)
    X = random.standard_normal((183, 2))
    X[:180, 0] += 20 * (np.arange(180) // 60)
    X[180:] = [[1e4, 0], [0, 1e4], [-1e4, 0]]
    rows = [*range(0, 180, 15), 180, 181, 182]
    with InMemory(X) as data:
        candidates = [Row(i, X[i]) for i in rows]
        found = trimmed_reduction(data, candidates, 3, 3, np.random.RandomState(0))
    assert found.indices.max() < 180
    assert trimmed_inertia(X, found.centers, n_outliers=3) < 3 * 180 * 2


@pytest.mark.parametrize("seeding", OVERSAMPLED[:-1], ids=range(len(OVERSAMPLED) - 1))
def test_integer_weights_equal_contiguous_repeated_rows(open_data, seeding):
    X, _, _ = make_contaminated_blobs(80, n_clusters=4, n_outliers=5, random_state=3)
    weights = np.random.RandomState(0).randint(1, 5, size=len(X)).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    with open_data(X, weights) as weighted, open_data(repeated) as plain:
        for seed in range(4):
            a = seed_quietly(weighted, seeding, 4, 7, seed)
            b = seed_quietly(plain, seeding, 4, 7, seed)
            np.testing.assert_array_equal(a.centers, b.centers)


@given(problem=problems(weighted=True))
@settings(max_examples=40)
def test_rivals_measured_together_equal_the_oracle(open_data, problem):
    X, k, _, weights, seed, n_chunks = problem
    order = np.random.RandomState(seed).permutation(len(X))
    sets = (X[order[:k]] + X.dtype.type(0.25), X[order[:1]])
    with open_data(X, weights, n_chunks) as rows:
        judged = rows.summarise(JUDGE, None, Rivals(sets, KeyRange(0, 2**20)))
    for centers, found in zip(sets, judged, strict=True):
        distances = oracle.squared_distances(X, centers)
        labels, d2 = distances.argmin(axis=1), distances.min(axis=1)
        assert found.look.sums.sum() == pytest.approx(weights @ d2, rel=1e-6)
        for j in range(len(centers)):
            mine = np.flatnonzero((weights > 0) & (labels == j))
            expected = mine[np.argmin(d2[mine])] if mine.size else -1
            assert found.nearest.indices[j] == expected
            if mine.size:
                np.testing.assert_array_equal(found.nearest.points[j], X[expected])


@given(problem=problems())
@settings(max_examples=60)
def test_the_finalist_with_the_least_cost_wins(problem):
    X, k, z, _, seed, _ = problem
    random = np.random.RandomState(seed)
    sets = [X[random.permutation(len(X))[:k]] for _ in range(4)]
    with InMemory(X, n_threads=1) as data:
        cut = place(data, X[random.permutation(len(X))[: 2 * k]], z).cut
        rows = rows_next_to_best(data, sets, z, cut)
    costs = [oracle.trimmed_cost(oracle.squared_distances(X, c).min(axis=1), z) for c in sets]
    # Centres that are rows are their own nearest rows, or rows equal to them.
    chosen = {tuple(row.point) for row in rows}
    winners = [costs[i] for i in range(4) if chosen == {tuple(center) for center in sets[i]}]
    assert winners
    assert min(winners) <= 1.001 * min(costs) + 1e-9


def test_a_name_takes_oversampling_where_the_method_has_it():
    assert seeding_by_name("robust-k-means++", oversampling=0.5).oversampling == 0.5
    assert seeding_by_name("tkm++", oversampling=0.5).oversampling == 0.5
    assert seeding_by_name("rkm++", oversampling=0.5).oversampling == 0.5
    assert seeding_by_name("rkm++", oversampling=0.0) == MixtureSeeding()
    for name in ("random", "k-means++"):
        assert seeding_by_name(name, oversampling=0.0) == seeding_by_name(name)


def test_as_init_passes_oversampling_on():
    X, _, _ = make_contaminated_blobs(200, n_clusters=4, n_outliers=10, random_state=0)
    init = as_init("robust-k-means++", n_outliers=10, oversampling=1.0)
    expected, _ = robust_kmeans_plusplus(X, 4, n_outliers=10, oversampling=1.0, random_state=7)
    np.testing.assert_array_equal(init(X, 4, random_state=7), expected)
    assert KMeans(4, init=init, n_init=1, random_state=0).fit(X).cluster_centers_.shape == (4, 2)


ROWS = np.arange(20.0).reshape(10, 2)
REFUSED = {
    "negative": (lambda: RobustKMeansPlusPlus(oversampling=-0.1), "oversampling=-0.1 must be a"),
    "NaN": (lambda: TKMeansPlusPlus(oversampling=np.nan), "oversampling=nan must be a number of"),
    "rkm++": (lambda: MixtureSeeding(oversampling=-1), "oversampling=-1 must be a number of at"),
    "text": (lambda: RobustKMeansPlusPlus(oversampling="2"), "oversampling='2' must be a number"),
    "flag": (lambda: as_init("tkm++", n_outliers=1, oversampling=False), "oversampling=False must"),
    "reduction": (lambda: MixtureSeeding(reduction="none"), "must be 'trimmed' or 'plain'"),
    "threshold": (
        lambda: robust_kmeans_plusplus(ROWS, 2, n_outliers=1, threshold="huang"),
        "threshold='huang' is not a rule; expected 'cost' or 'balanced'",
    ),
    "inside": (lambda: RobustKMeansPlusPlus(inside=1.5), r"inside=1\.5 must be a number in \[0, 1"),
    "reduce": (
        lambda: robust_kmeans_plusplus(ROWS, 2, n_outliers=1, reduce="no"),
        r"reduce='no' must be True \(n_clusters centres\) or False \(all\)",
    ),
    "another method": (
        lambda: seeding_by_name("k-means++", oversampling=1.0),
        r"oversampling=1\.0 does not apply to 'k-means\+\+'; it applies to "
        r"'robust-k-means\+\+' and 'tkm\+\+' and 'rkm\+\+'\. Leave it at 0\.",
    ),
    "an array": (
        lambda: resolve_init(ROWS[:2], ROWS, eta=None, n_local_trials=None, oversampling=1.0),
        r"oversampling=1\.0 applies to an init given by name;.*leave it at 0",
    ),
    "as_init of an object": (
        lambda: as_init(MixtureSeeding(), n_outliers=1, oversampling=1.0),
        "oversampling belong to a seeding given by name; set them on it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parameters_that_mean_nothing_are_refused(name):
    call, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize("oversampling", [None, 0.0])
def test_an_array_goes_with_no_oversampling(oversampling):
    resolve_init(ROWS[:2], ROWS, eta=None, n_local_trials=None, oversampling=oversampling)
