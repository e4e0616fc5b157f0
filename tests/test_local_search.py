"""Trimmed local search: prices against an oracle, and what swaps must never and always do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans import RobustKMeans, trimmed_kmeans
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels.scores import VAGUE
from robust_kmeans.kernels.swaps import SPARSE, find_doubts
from robust_kmeans.local_search import default_steps, search_swaps
from robust_kmeans.sweeps.rows import nearest_labels, squared_distances
from robust_kmeans.sweeps.swaps import (
    LOSSES,
    NOT_KNOWN,
    PRICES,
    SWAP,
    Candidates,
    Limit,
    Swap,
    how_far_apart,
)
from robust_kmeans.trimming import place
from tests import oracle
from tests.strategies import DTYPES, problems


def prices_of(data, placed, points):
    """Change of the clipped cost per candidate and centre that goes, and what candidates win."""
    limit = Limit(placed.cut.value, len(placed.centers))
    loss = data.summarise(LOSSES, placed.states, limit)
    apart = how_far_apart(points, placed.centers)
    shared = Candidates(points, limit, data.total_weight, apart)
    found = data.summarise(PRICES, placed.states, shared)
    return loss - found.saved - found.gain[:, np.newaxis], found


def search(data, centers, z, n_steps=40, seed=0):
    seen = []
    found = search_swaps(
        data,
        place(data, centers, z),
        z,
        n_steps=n_steps,
        random=np.random.RandomState(seed),
        report=lambda step, cost: seen.append((step, cost)),
    )
    return found, seen


def some_rows(X, count, seed):
    return X[np.random.RandomState(seed).choice(len(X), count, replace=False)]


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data())
@settings(max_examples=60)
def test_prices_are_the_changes_of_the_clipped_cost(open_data, weighted, data):
    X, k, z, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    centers, points = some_rows(X, k, seed), some_rows(X, min(3, len(X)), seed + 1)
    w = np.ones(len(X)) if weights is None else weights
    with open_data(X, weights, n_chunks) as rows:
        placed = place(rows, centers, z)
        if (z == 0 and k == 1) or placed.cut.value == 0:
            return  # nothing to price
        changes, won = prices_of(rows, placed, points)
    limit, infinity = placed.cut.value, np.full((len(X), 1), np.inf)

    def clipped(places):
        d2 = oracle.squared_distances(X, places).min(axis=1)
        return w @ np.minimum(d2, limit)

    expected = [
        [clipped(np.vstack([np.delete(centers, j, axis=0), [point]])) for j in range(k)]
        for point in points
    ]
    now = clipped(centers)
    # Distances to second centres are rounded down a little, as bounds, and may be vague.
    distances = np.sort(np.hstack([oracle.squared_distances(X, centers), infinity]), axis=1)
    vague = 2 * VAGUE * (w @ np.minimum(distances[:, 1], limit))
    tolerance = 1e-5 * (now + np.max(expected)) + vague
    np.testing.assert_allclose(changes, expected - now, atol=tolerance)
    own = np.minimum(oracle.squared_distances(X, centers).min(axis=1), limit)
    wins = oracle.squared_distances(X, points) < own[:, np.newaxis]
    for c, point in enumerate(points):
        # Rows that are as far from both may count or not: they deviate by what they weigh.
        close = np.isclose(oracle.squared_distances(X, points)[:, c], own, rtol=1e-6)
        assert won.mass[c] == pytest.approx(w @ wins[:, c], rel=1e-6, abs=w @ close)
        if not close.any():
            sums = (w * wins[:, c]) @ (X.astype(float) - point)
            np.testing.assert_allclose(won.sums[c], sums, rtol=1e-6, atol=1e-6 * np.abs(X).max())


def asked_and_unasked(X, centers, points, z):
    """Prices of candidates, and the same where nothing is known of how far they are away."""
    with InMemory(X) as rows:
        placed = place(rows, centers, z)
        limit = Limit(placed.cut.value, len(centers))
        apart = how_far_apart(points, centers)
        found = [
            rows.summarise(PRICES, placed.states, Candidates(points, limit, 1.0, each))
            for each in (apart, NOT_KNOWN)
        ]
        state = placed.states[0]
    second = np.minimum(state.others**2, X.dtype.type(limit.value))
    doubts = np.empty(len(X), np.int64)
    n_doubts = find_doubts(state.d2, state.labels, second, 0, len(X), apart, doubts)
    return found, n_doubts / (len(X) * len(points))


def assert_equal_prices(found):
    for asked, unasked in zip(vars(found[0]).values(), vars(found[1]).values(), strict=True):
        np.testing.assert_array_equal(asked, unasked)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_points", [3, 10, 20])
def test_rows_that_are_ruled_out_change_no_bit_of_a_price(dtype, n_points):
    X, _, centers = make_contaminated_blobs(
        2000, n_clusters=12, n_outliers=40, n_features=48, random_state=0, dtype=dtype
    )
    found, share = asked_and_unasked(X, centers, some_rows(X, n_points, 1), 40)
    assert 0 < share < SPARSE
    assert_equal_prices(found)


@given(seed=st.integers(0, 2**31 - 1), dtype=st.sampled_from(DTYPES), far=st.sampled_from([0, 1e4]))
@settings(max_examples=80)
def test_rows_on_a_line_are_ruled_out_only_where_that_is_certain(seed, dtype, far):
    """There nothing is left between the sides of a triangle but rounding."""
    random = np.random.RandomState(seed)
    direction = random.standard_normal(48)
    X = np.outer(random.randint(-40, 40, 200) + far, direction).astype(dtype)
    centers, points = some_rows(X, 3, seed), some_rows(X, 4, seed + 1)
    with InMemory(X) as rows:
        placed = place(rows, centers, 10)
        state, limit = placed.states[0], X.dtype.type(placed.cut.value)
    second = np.minimum(state.others**2, limit)
    doubts = np.empty(len(X), np.int64)
    apart = how_far_apart(points, centers)
    find_doubts(state.d2, state.labels, second, 0, len(X), apart, doubts)
    d2 = oracle.squared_distances(X, points)
    for c in range(len(points)):
        near = d2[:, c] < second * (1 - 1e-4)
        assert (doubts[near] >> c & 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_distances_of_candidates_are_never_too_large(dtype):
    random, tiny = np.random.RandomState(0), np.finfo(dtype).tiny
    scales = [1, 1e-10, np.sqrt(tiny), np.sqrt(np.finfo(dtype).max) / 100]
    for scale in scales:
        centers, points = ((random.standard_normal((n, 17)) * scale).astype(dtype) for n in (7, 11))
        apart = how_far_apart(points, centers)
        truth = np.sqrt(np.sum(((centers[:, None].astype(np.longdouble) - points) ** 2), axis=2))
        assert (apart[:, :11] <= truth).all()
        assert np.isinf(apart[:, 11:]).all()
    assert (how_far_apart(points, centers) > 0).any()


@given(data=st.data())
@settings(max_examples=60)
def test_no_swap_lowers_the_trimmed_cost_by_more_than_its_price(data):
    X, k, z, weights, seed, _ = data.draw(problems())
    centers, points = some_rows(X, k, seed), some_rows(X, min(3, len(X)), seed + 1)
    with InMemory(X, weights, 1) as rows:
        placed = place(rows, centers, z)
        if (z == 0 and k == 1) or placed.cut.value == 0:
            return
        changes, _ = prices_of(rows, placed, points)
    for c, point in enumerate(points):
        for j in range(k):
            swapped = np.vstack([np.delete(centers, j, axis=0), [point]])
            d2 = oracle.squared_distances(X, swapped).min(axis=1)
            true_change = oracle.trimmed_cost(d2, z, weights) - placed.inertia
            assert changes[c, j] <= true_change + 1e-6 * (placed.inertia + abs(true_change))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_swap_leaves_what_a_new_assignment_would(open_data, dtype):
    X, _, _ = make_contaminated_blobs(
        500, n_clusters=8, n_outliers=20, n_features=3, random_state=0, dtype=dtype
    )
    centers = some_rows(X, 8, 0)
    with open_data(X) as rows:
        placed = place(rows, centers, 20)
        for moved in range(8):
            new = centers.copy()
            new[moved] = X[100 + moved]
            swapped, _ = rows.run(SWAP, placed.states, Swap(new, moved))
            anew = place(rows, new, 20).states
            for step in (squared_distances, nearest_labels):
                np.testing.assert_array_equal(
                    rows.collect(step, swapped, None), rows.collect(step, anew, None)
                )


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data())
@settings(max_examples=30)
def test_the_trimmed_cost_never_rises_and_belongs_to_the_centres(open_data, weighted, data):
    X, k, z, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    with open_data(X, weights, n_chunks) as rows:
        found, seen = search(rows, some_rows(X, k, seed), z, n_steps=16, seed=seed)
        d2 = rows.collect(squared_distances, found.end.states, None)
    history = np.array(found.history)
    assert (np.diff(history) < 0).all()
    assert history[-1] == found.end.inertia
    expected = oracle.squared_distances(X, found.end.centers).min(axis=1)
    np.testing.assert_allclose(d2, expected, rtol=1e-5, atol=1e-9 * (1 + np.abs(X).max()) ** 2)
    cost = oracle.trimmed_cost(expected, z, weights)
    assert found.end.inertia == pytest.approx(cost, rel=1e-5, abs=1e-9)
    assert all(step <= 16 for step, _ in seen)
    assert not seen or seen[-1][1] == history[-1]


@pytest.mark.parametrize("outlier_box", [100, 1000, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_the_planted_clusters_are_found_however_far_the_outliers_are(outlier_box, seed):
    X, labels, means = make_contaminated_blobs(outlier_box=outlier_box, random_state=seed)
    planted = trimmed_kmeans(X, means, n_outliers=100)
    fitted = RobustKMeans(20, n_outliers=100, random_state=seed).fit(X)
    assert fitted.inertia_ <= 1.02 * planted.inertia
    right = np.isin(fitted.outlier_indices_, np.flatnonzero(labels == -1)).mean()
    assert right >= np.isin(planted.outlier_indices, np.flatnonzero(labels == -1)).mean() - 0.02


@pytest.mark.parametrize("seed", [181, 266, 374])
def test_clusters_that_seeding_and_lloyd_miss_are_found(seed):
    X, _, means = make_contaminated_blobs(
        3800, n_clusters=8, n_outliers=200, outlier_box=400, cluster_std=3, random_state=seed
    )
    options = {"n_outliers": 200, "random_state": 0}
    planted = trimmed_kmeans(X, means, n_outliers=200).inertia
    assert RobustKMeans(8, **options).fit(X).inertia_ <= 1.001 * planted
    assert any(
        RobustKMeans(8, **{**options, "random_state": s}, local_search=0).fit(X).inertia_
        > 1.5 * planted
        for s in range(10)
    )


def axes():
    """Instance A: 20 clusters of equal rows on axes, 60 far outliers on axes of their own."""
    X = np.zeros((2060, 80))
    X[np.arange(2000), np.repeat(np.arange(20), 100)] = 100
    X[np.arange(2000, 2060), np.arange(20, 80)] = 1000
    return X, 20, 60


def two_places():
    """Instance B: one cluster of equal rows, and outliers in one far place."""
    return np.repeat([[0.0], [1e4]], [900, 100], axis=0), 1, 100


def small_cluster():
    """Instance C: a cluster of 50 rows beside one of 10,000, and 2,500 outliers on a grid."""
    side = 1e4 + 1e3 * np.arange(50)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return np.vstack([np.zeros((10_000, 2)), np.tile([1.0, 0.0], (50, 1)), grid]), 2, 2500


@pytest.mark.parametrize("instance", [axes, two_places, small_cluster])
def test_instances_on_which_the_seeding_alone_fails_are_solved(instance):
    X, k, z = instance()
    solved = [
        RobustKMeans(k, n_outliers=z, random_state=seed).fit(X).inertia_ == 0 for seed in range(10)
    ]
    assert all(solved)


@pytest.mark.parametrize("z", [0, 3])
def test_one_cluster_ends_at_the_mean_of_its_inliers(z):
    X = np.random.RandomState(0).standard_normal((300, 2))
    X[:3] += 50
    fitted = RobustKMeans(1, n_outliers=z, random_state=0, tol=0).fit(X)
    np.testing.assert_allclose(fitted.cluster_centers_, [X[z:].mean(axis=0)], atol=1e-9)


def test_all_rows_equal_need_no_search(open_data):
    with open_data(np.ones((30, 2))) as rows:
        found, seen = search(rows, np.ones((3, 2)), 4)
    assert (found.history, seen) == ((0.0,), [])


@pytest.mark.parametrize("scale", [1e-154, 1e-160, 2e-162, 1e-170])
def test_distances_that_vanish_in_floats_end_well(scale):
    X = scale * np.random.RandomState(0).standard_normal((60, 2))
    with InMemory(X) as rows:
        found, _ = search(rows, X[:3], 20)
    assert np.isfinite(found.end.centers).all()
    assert 0 <= found.end.inertia <= found.history[0]


def test_as_many_clusters_as_inliers_leave_no_cost():
    X = np.random.RandomState(0).standard_normal((40, 1))
    for rows, k in ((X, 36), (np.vstack([X, X[:5]]), 37)):
        fitted = RobustKMeans(k, n_outliers=40 - k, random_state=0).fit(rows)
        assert fitted.inertia_ == 0
        assert len(fitted.outlier_indices_) == 40 - k


def test_heavy_duplicates_are_clustered_as_their_weights_would_be():
    random = np.random.RandomState(0)
    X = random.standard_normal((60, 2)).round(1)
    counts = random.randint(1, 40, size=60)
    repeated = RobustKMeans(6, n_outliers=50, random_state=0).fit(np.repeat(X, counts, axis=0))
    weighted = RobustKMeans(6, n_outliers=50, random_state=0).fit(X, sample_weight=counts)
    assert repeated.inertia_ == pytest.approx(weighted.inertia_, rel=0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_unit_of_the_weights_does_not_matter(dtype):
    X, _, _ = make_contaminated_blobs(300, n_clusters=10, n_outliers=20, random_state=0)
    weights = np.random.RandomState(0).randint(1, 4, size=len(X)).astype(float)
    costs = [
        RobustKMeans(10, n_outliers=0.05, init="random", random_state=0)
        .fit(X.astype(dtype), sample_weight=weights * unit)
        .inertia_
        / unit
        for unit in (1.0, 2.0**600, 2.0**-560)
    ]
    assert costs == [costs[0]] * 3


def test_no_steps_change_nothing(open_data):
    X = np.random.RandomState(0).standard_normal((50, 2))
    with open_data(X) as rows:
        found, seen = search(rows, X[:4], 5, n_steps=0)
    np.testing.assert_array_equal(found.end.centers, X[:4])
    assert seen == []


def test_candidates_are_counted_up_to_the_number_asked_for():
    X = np.random.RandomState(0).standard_normal((200, 2))
    with InMemory(X) as rows:
        found, seen = search(rows, X[:4], 5, n_steps=20)
    assert len(found.history) > 1
    assert [step for step, _ in seen] == [8, 16, 20]


def test_the_search_ends_when_half_of_the_candidates_in_a_row_bring_nothing():
    X, _, means = make_contaminated_blobs(random_state=0)
    with InMemory(X) as rows:
        best = trimmed_kmeans(X, means, n_outliers=100, tol=0).cluster_centers
        found, seen = search(rows, best, 100, n_steps=160)
    assert len(found.history) == 1  # nothing is better than the truth
    assert [step for step, _ in seen] == list(range(8, 81, 8))


def test_auto_tries_fifteen_candidates_per_cluster_but_150_at_least():
    assert [default_steps(k) for k in (1, 10, 11, 40)] == [150, 150, 165, 600]
    X, _, _ = make_contaminated_blobs(200, n_clusters=12, n_outliers=10, random_state=0)
    heard = []
    RobustKMeans(12, n_outliers=10, random_state=0, callback=heard.append).fit(X)
    assert {p.n_steps for p in heard if p.stage == "swaps"} == {180}


def test_given_centres_are_not_swapped_unless_asked():
    X, _, means = make_contaminated_blobs(200, n_clusters=4, n_outliers=10, random_state=0)
    start = means[[0, 1, 2, 2]] + [[0], [0], [0], [0.5]]
    kept = RobustKMeans(4, n_outliers=10, init=start, random_state=0).fit(X)
    assert kept.inertia_ == trimmed_kmeans(X, start, n_outliers=10).inertia
    swapped = RobustKMeans(4, n_outliers=10, init=start, local_search=100, random_state=0).fit(X)
    assert swapped.inertia_ < 0.5 * kept.inertia_


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (-1, ValueError, "local_search=-1 must be at least 0"),
        (2.5, TypeError, "local_search=2.5 must be an int"),
        ("always", ValueError, r"local_search='always' must be an int .*, or \"auto\""),
        (True, TypeError, r"local_search=True must be an int .*, or \"auto\""),
        (None, TypeError, r"local_search=None must be an int .*, or \"auto\""),
        (np.array([1, 2]), TypeError, r"local_search=array.* must be an int .*, or \"auto\""),
    ],
)
def test_a_bad_local_search_is_refused(value, error, words):
    with pytest.raises(error, match=words):
        RobustKMeans(2, local_search=value).fit(np.eye(9))
