from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import lloyd, trimmed_kmeans
from robust_kmeans.clustering import _threshold, finish
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import trimmed_lloyd
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.means import UPDATE, UpdateShared
from robust_kmeans.sweeps.rows import Model, predicted_labels
from robust_kmeans.trimming import place
from tests import oracle
from tests.strategies import DTYPES, problems


def run_lloyd(data, centers, z, max_iter=50, tol=0.0, bounds=True):
    seen = []
    run = trimmed_lloyd(
        data,
        place(data, centers, z),
        z,
        max_iter=max_iter,
        tol=tol,
        report=lambda i, cost: seen.append((i, cost)),
        bounds=bounds,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return run, finish(data, run, z), seen


def blobs(dtype=np.float64, seed=0, n_outliers=30):
    X, _, centers = make_contaminated_blobs(
        300, n_clusters=6, n_outliers=n_outliers, cluster_std=4.0, random_state=seed, dtype=dtype
    )
    return X, centers + dtype(5), n_outliers


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data())
@settings(max_examples=40)
def test_one_iteration_equals_the_oracle(open_data, weighted, data):
    X, k, z, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    start = X[np.random.RandomState(seed).choice(len(X), k, replace=False)]
    expected = oracle.lloyd_iteration(X, start, z, weights)
    with open_data(X, weights, n_chunks) as rows:
        placed = place(rows, start, z)
        run = trimmed_lloyd(rows, placed, z, max_iter=1, tol=0.0, report=lambda *_: None)
    assume(run.n_iter <= 1)  # otherwise clusters that were left empty have been mended since
    np.testing.assert_allclose(run.centers, expected, rtol=1e-6, atol=1e-9)
    before = oracle.squared_distances(X, start).min(axis=1)
    assert run.history[0] == pytest.approx(oracle.trimmed_cost(before, z, weights))


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
@given(data=st.data())
@settings(max_examples=40)
def test_every_figure_comes_from_one_last_assignment_and_cut(open_data, weighted, data):
    X, k, z, weights, seed, n_chunks = data.draw(problems(weighted=weighted))
    start = X[np.random.RandomState(seed).choice(len(X), k, replace=False)]
    with open_data(X, weights, n_chunks) as rows:
        _, result, _ = run_lloyd(rows, start, z, max_iter=3)
    distances = oracle.squared_distances(X, result.cluster_centers)
    eps = np.finfo(X.dtype).eps
    scale = distances.max() + 1
    np.testing.assert_allclose(
        result.outlier_scores, distances.min(axis=1), rtol=50 * eps, atol=eps * scale * 1e-3
    )
    scores = result.outlier_scores.astype(np.float64)
    nearest = distances[np.arange(len(X)), result.nearest_labels]
    np.testing.assert_allclose(
        nearest, distances.min(axis=1), rtol=50 * eps, atol=eps * scale * 1e-3
    )
    assert result.inertia == pytest.approx(oracle.trimmed_cost(scores, z, weights), rel=1e-6)
    flagged = oracle.outliers(scores, z, weights)
    np.testing.assert_array_equal(result.labels == -1, flagged)
    np.testing.assert_array_equal(result.outlier_indices, np.flatnonzero(flagged))
    np.testing.assert_array_equal(result.labels[~flagged], result.nearest_labels[~flagged])


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=40)
def test_trimmed_cost_never_rises(open_data, dtype, data):
    X, k, z, weights, seed, n_chunks = data.draw(problems(weighted=data.draw(st.booleans())))
    X = X.astype(dtype) + dtype(0.37) * np.random.RandomState(seed).uniform(size=X.shape).astype(
        dtype
    )
    start = X[np.random.RandomState(seed).choice(len(X), k, replace=False)]
    with open_data(X, weights, n_chunks) as rows:
        run, _, seen = run_lloyd(rows, start, z)
    history = np.array(run.history)
    slack = 1e-6 if dtype == np.float32 else 1e-12
    assert (history[1:] <= history[:-1] * (1 + slack) + 1e-30).all()
    assert [cost for _, cost in seen] == list(run.history)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scaling_by_a_power_of_two_is_exact(open_data, dtype):
    X, start, z = blobs(dtype)
    factor = dtype(2.0**-12)
    with open_data(X) as rows, open_data(X * factor) as scaled:
        _, a, _ = run_lloyd(rows, start, z, tol=1e-4)
        _, b, _ = run_lloyd(scaled, start * factor, z, tol=1e-4)
    np.testing.assert_array_equal(a.cluster_centers * factor, b.cluster_centers)
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.inertia * float(factor) ** 2 == b.inertia
    assert a.n_iter == b.n_iter


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-3), (np.float64, 1e-9)])
def test_translation_moves_the_centers_along(open_data, dtype, rtol):
    X, start, z = blobs(dtype)
    shift = np.array([300.0, -700.0], dtype)
    with open_data(X) as rows, open_data(X + shift) as moved:
        _, a, _ = run_lloyd(rows, start, z)
        _, b, _ = run_lloyd(moved, start + shift, z)
    np.testing.assert_allclose(b.cluster_centers - shift, a.cluster_centers, rtol=rtol, atol=rtol)
    assert b.inertia == pytest.approx(a.inertia, rel=rtol)


@pytest.mark.parametrize(("n_features", "k"), [(2, 4), (130, 39)])
def test_far_outliers_leave_the_inliers_results_alone(open_data, n_features, k):
    # In float32 a sum or a norm that a row at 1e6 entered would have no digit left for 1.
    random = np.random.RandomState(0)
    X = random.standard_normal((400, n_features)).astype(np.float32)
    X[:200] += 6
    start = X[np.flatnonzero(np.arange(400) % 40)[:: 390 // k]][:k]
    results = []
    for distance in (1e2, 1e6):
        X[::40] = distance * random.choice([-1, 1], size=(10, n_features))
        with open_data(X) as rows:
            results.append(run_lloyd(rows, start, 10)[1])
    near, far = results
    np.testing.assert_array_equal(far.cluster_centers, near.cluster_centers)
    np.testing.assert_array_equal(far.labels, near.labels)
    assert far.inertia == near.inertia
    assert far.outlier_indices.tolist() == list(range(0, 400, 40))


def test_far_from_the_origin_means_keep_their_digits():
    # A plain sum of such rows leaves the mean three digits behind the point, not five.
    X = 1e12 + np.random.RandomState(0).standard_normal((60_000, 1))
    mean = 1e12 + (X - 1e12).mean()
    result = trimmed_kmeans(X, [[mean]], n_outliers=0, tol=0, max_iter=3)
    assert abs(result.cluster_centers[0, 0] - mean) < 5e-4
    assert result.inertia <= result.inertia_history[0] * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_repeated_rows_that_are_centers_stay_at_distance_zero(open_data, seed):
    # Ten times 0.1 is not 1 in floating point: a mean of equal rows must still be that row.
    values = np.random.RandomState(seed).uniform(size=(6, 3))
    X = np.repeat(values, 50, axis=0)
    with open_data(X) as rows:
        _, result, _ = run_lloyd(rows, values, 15, tol=1e-4)
    np.testing.assert_array_equal(result.cluster_centers, values)
    assert (result.n_iter, result.inertia, result.n_outliers) == (0, 0, 0)


def test_row_order_changes_nothing(open_data):
    X, start, z = blobs()
    order = np.random.RandomState(1).permutation(len(X))
    with open_data(X) as rows, open_data(X[order]) as shuffled:
        _, a, _ = run_lloyd(rows, start, z)
        _, b, _ = run_lloyd(shuffled, start, z)
    np.testing.assert_allclose(b.cluster_centers, a.cluster_centers, rtol=1e-12)
    np.testing.assert_array_equal(b.labels, a.labels[order])


def test_integer_weights_equal_contiguous_repeated_rows(open_data):
    X, start, _ = blobs()
    weights = np.random.RandomState(0).randint(1, 4, size=len(X)).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    with open_data(X, weights) as weighted, open_data(repeated) as plain:
        for z in (0, 25, 60):
            _, a, _ = run_lloyd(weighted, start, z)
            _, b, _ = run_lloyd(plain, start, z)
            np.testing.assert_allclose(a.cluster_centers, b.cluster_centers, rtol=1e-9)
            assert a.inertia == pytest.approx(b.inertia)
            assert a.n_outliers == b.n_outliers == z


def test_another_chunk_plan_changes_only_rounding(open_data):
    X, start, z = blobs()
    results = []
    for n_chunks in (1, 2, 9):
        with open_data(X, None, n_chunks) as rows:
            results.append(run_lloyd(rows, start, z)[1])
    for other in results[1:]:
        np.testing.assert_allclose(other.cluster_centers, results[0].cluster_centers, rtol=1e-12)
        np.testing.assert_array_equal(other.labels, results[0].labels)
        assert len(other.outlier_indices) == z


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_features", "k"), [(1, 25), (2, 25), (9, 25), (130, 40)])
def test_bounds_change_no_bit(open_data, n_features, k, dtype):
    random = np.random.RandomState(n_features)
    X = random.standard_normal((3000, n_features)).astype(dtype)
    X[::100] *= dtype(1000)
    start = X[random.choice(3000, k, replace=False)]
    runs, results = [], []
    for bounds in (True, False):
        with open_data(X) as rows:
            run, result, _ = run_lloyd(rows, start, 40, max_iter=60, bounds=bounds)
        runs.append(run)
        results.append(result)
    assert runs[0].history == runs[1].history
    for name in ("cluster_centers", "labels", "nearest_labels", "outlier_scores"):
        np.testing.assert_array_equal(*(getattr(result, name) for result in results))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("far", [1e2, 1e15])
def test_totals_that_are_kept_up_to_date_equal_those_added_up_anew(
    open_data, monkeypatch, far, offset, dtype
):
    # Far rows are inliers at first: whatever they leave behind in a sum must not stay there.
    random = np.random.RandomState(0)
    X = (random.standard_normal((600, 3)) + offset).astype(dtype)
    X[:12] *= dtype(far)
    start = np.vstack([X[20:24], X[:2]])
    seen = []

    def watched(moving, now):
        seen.append((now.totals, moving.run(UPDATE, UpdateShared(now.cut, now.centers))))
        return means(moving, now)

    means = lloyd._means_or_farthest_inliers
    monkeypatch.setattr(lloyd, "_means_or_farthest_inliers", watched)
    with open_data(X) as rows:
        placed = place(rows, start, 10)
        trimmed_lloyd(rows, placed, 10, max_iter=30, tol=0, report=lambda *_: None)
    assert len(seen) > 3
    for kept, anew in seen:
        np.testing.assert_array_equal(kept.mass, anew.mass)
        scale = np.abs(X[12:] - dtype(offset)).max() * 600
        rounding = max(np.abs(anew.sums).max(), scale) * 1e-13
        np.testing.assert_allclose(kept.sums, anew.sums, rtol=0, atol=rounding)


def test_an_empty_cluster_moves_to_the_farthest_inlier(open_data):
    X = np.array([[0.0], [1.0], [2.0], [9.0], [500.0], [-1e6]])
    # The second centre is next to the outlier alone, which is trimmed.
    with open_data(X) as rows:
        _, result, _ = run_lloyd(rows, np.array([[1.0], [-9e5]]), 1)
    np.testing.assert_allclose(np.sort(result.cluster_centers[:, 0]), [3.0, 500.0])
    assert result.outlier_indices.tolist() == [5]


@pytest.mark.parametrize("max_iter", [1, 2, 5])
@given(problem=problems())
@settings(max_examples=30)
def test_every_cluster_keeps_an_inlier_however_early_a_run_ends(open_data, max_iter, problem):
    X, k, z, _, _, n_chunks = problem
    # Far from all rows: at first one centre has everything and the others nothing.
    start = np.full((k, X.shape[1]), 1e4, X.dtype) + np.arange(k, dtype=X.dtype)[:, None]
    with open_data(X, None, n_chunks) as rows:
        run, result, _ = run_lloyd(rows, start, z, max_iter=max_iter)
    filled = len(np.unique(result.labels[result.labels >= 0]))
    assert filled == k or run.cut.value == 0 or result.outlier_scores.max() == 0


def test_an_unfillable_cluster_is_reported():
    with pytest.warns(ConvergenceWarning, match="1 distinct clusters found, fewer than n_clus"):
        result = trimmed_kmeans(np.zeros((5, 2)), [[0, 0], [1, 1]], n_outliers=0)
    assert np.isfinite(result.cluster_centers).all()


def test_too_few_distant_rows_for_the_budget_are_reported():
    X = [[0.0], [0.0], [0.0], [0.0], [9.0]]
    with pytest.warns(ConvergenceWarning, match="1 outliers flagged, fewer than n_outliers=3"):
        result = trimmed_kmeans(X, [[0.0]], n_outliers=3)
    assert (result.n_outliers, result.outlier_indices.tolist()) == (1, [4])


def test_stopping_compares_movement_with_the_spread_of_inliers():
    X, start, z = blobs()
    far = np.concatenate([X, [[1e7, 1e7]]])
    loose = trimmed_kmeans(X, start, n_outliers=z, tol=1e-4)
    with_outlier = trimmed_kmeans(far, start, n_outliers=z + 1, tol=1e-4)
    # A tolerance relative to the variance of X would stop at once beside such an outlier.
    assert with_outlier.n_iter == loose.n_iter > 1
    np.testing.assert_array_equal(with_outlier.cluster_centers, loose.cluster_centers)
    moved = [
        trimmed_kmeans(X, start, n_outliers=z, tol=0, max_iter=m).cluster_centers
        for m in (loose.n_iter, loose.n_iter + 1)
    ]
    limit = 1e-4 * loose.inertia / ((len(X) - z) * X.shape[1])
    assert np.sum((moved[1] - moved[0]) ** 2) <= limit


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_a_run_ends_at_the_first_small_move(tol):
    # Without clusters centres move on for long, so that every factor of the rule matters.
    X = np.random.RandomState(0).uniform(size=(2000, 5)) * [1, 2, 3, 4, 5]
    z, start = 1200, X[:8]

    def is_small(before, after):
        d2 = oracle.squared_distances(X, before).min(axis=1)
        limit = tol * oracle.trimmed_cost(d2, z) / ((len(X) - z) * X.shape[1])
        return np.sum((after - before) ** 2) <= limit

    history = [start] + [
        trimmed_kmeans(X, start, n_outliers=z, tol=0, max_iter=m).cluster_centers
        for m in range(1, 60)
    ]
    n_iter = next(m for m in range(59) if is_small(history[m], history[m + 1]))
    result = trimmed_kmeans(X, start, n_outliers=z, tol=tol)
    assert result.n_iter == n_iter
    np.testing.assert_array_equal(result.cluster_centers, history[n_iter])


def test_zero_tolerance_ends_at_a_fixed_point():
    X, start, z = blobs()
    result = trimmed_kmeans(X, start, n_outliers=z, tol=0)
    assert result.n_iter < 300
    again = trimmed_kmeans(X, result.cluster_centers, n_outliers=z, tol=0)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.cluster_centers, result.cluster_centers)


def test_threshold_lies_between_neighbouring_floats():
    kept = np.nextafter(1.0, 2.0)
    flagged = np.nextafter(kept, 2.0)
    assert kept + (flagged - kept) / 2 == flagged, "the middle rounds up: what is tested here"
    cut = Cut(value=kept, row=0, trimmed=0.0, weight=1, cost=0.0)
    assert kept <= _threshold(cut, flagged) < flagged


def test_prediction_separates_neighbouring_float32_scores():
    x = np.float32(1.5) + np.arange(64, dtype=np.float32) * np.finfo(np.float32).eps
    d2 = x * x
    middle = (d2[:-1].astype(np.float64) + d2[1:]) / 2
    # Where a threshold in float32 would round up to the flagged row's score, and lose it.
    at = int(np.flatnonzero(middle.astype(np.float32) == d2[1:])[0])
    model = Model(np.zeros((1, 1), np.float32), float(middle[at]))
    chunk = Chunk(x[at : at + 2, np.newaxis], NO_WEIGHTS, 0)
    assert predicted_labels(chunk, None, model)[1].tolist() == [0, -1]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_run_that_goes_on_from_midway_ends_as_if_it_had_never_stopped(open_data, weighted):
    X, start, z = blobs(np.float32)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    kept = []
    with open_data(X, weights) as data:
        whole = trimmed_lloyd(data, place(data, start, z), z, max_iter=12, tol=0, keep=kept.append)
        assert len(kept) == whole.n_iter + 1 > 3
        for midway in kept:
            again = trimmed_lloyd(data, midway, z, max_iter=12, tol=0)
            assert again.history == whole.history
            np.testing.assert_array_equal(again.centers, whole.centers)
            assert again.cut == whole.cut


def test_a_cut_may_fall_by_any_number_of_octaves():
    tiny = 1e-20 * np.random.RandomState(0).standard_normal((300, 1))
    rows = np.concatenate([tiny, np.full((300, 1), 2.0**500)])
    start = np.array([[1e-20], [2.0**499]])
    with InMemory(rows) as data:
        run = trimmed_lloyd(data, place(data, start, 5), 5, max_iter=10, tol=0)
    assert run.history[0] / run.history[-1] > 1e300
    np.testing.assert_array_equal(run.centers[1], [2.0**500])
