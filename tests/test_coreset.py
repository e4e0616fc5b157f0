"""Coresets: what they weigh, what they cost, and what they cost to make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import MixtureSeeding, RobustKMeans, trimmed_inertia
from robust_kmeans.coreset import make_coreset, robust_coreset
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.sweeps.base import Work
from robust_kmeans.sweeps.coreset import SAMPLE
from robust_kmeans.trimming import place
from tests import oracle
from tests.pickling import Pickling
from tests.strategies import DTYPES, problems

K, Z = 6, 60


def blobs(n_rows=6000, dtype=np.float64, seed=0, n_outliers=Z):
    data = make_contaminated_blobs(
        n_rows - n_outliers,
        n_clusters=K,
        n_outliers=n_outliers,
        n_features=3,
        outlier_box=500,
        random_state=seed,
        dtype=dtype,
    )
    return np.random.RandomState(seed).permutation(data.X)


def same(first, second):
    return (
        np.array_equal(first.points, second.points)
        and np.array_equal(first.weights, second.weights)
        and np.array_equal(first.indices, second.indices)
        and np.array_equal(first.outliers, second.outliers)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_outliers", [Z, 900])
def test_any_centres_cost_about_the_same_on_the_coreset(dtype, n_outliers):
    X = blobs(dtype=dtype, n_outliers=n_outliers)
    few = robust_coreset(X, 600, K, n_outliers, random_state=1)
    assert few.points.dtype == dtype
    random = np.random.RandomState(2)
    for trial in range(6):
        centers = X[random.choice(len(X), K, replace=False)]
        if trial >= 3:
            centers = centers + random.normal(scale=20, size=centers.shape)
        true = trimmed_inertia(X, centers, n_outliers=n_outliers)
        estimate = trimmed_inertia(
            few.points, centers, n_outliers=n_outliers, sample_weight=few.weights
        )
        assert estimate == pytest.approx(true, rel=0.1)


def test_estimates_are_right_on_average():
    X = blobs(2000)
    with InMemory(X) as data:
        placed = place(data, X[:K].copy(), Z)
        random = np.random.RandomState(0)
        coresets = [make_coreset(data, placed, 100, random) for _ in range(200)]
    for feature in range(3):
        sums = [few.weights @ few.points[:, feature] ** 2 for few in coresets]
        error = np.std(sums) / np.sqrt(len(sums))
        assert abs(np.mean(sums) - (X[:, feature] ** 2).sum()) < 5 * error
    costs = [
        trimmed_inertia(few.points, X[-K:], n_outliers=Z, sample_weight=few.weights)
        for few in coresets
    ]
    # Which points are trimmed is chosen on the coreset: so a little less than on all rows.
    assert 0.95 < np.mean(costs) / trimmed_inertia(X, X[-K:], n_outliers=Z) < 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(problem=problems(weighted=True), size=st.integers(28, 60), weighted=st.booleans())
def test_coreset_weighs_what_the_data_weighs(problem, size, weighted):
    X, k, z = problem.X, problem.n_clusters, problem.n_outliers
    weights = problem.weights if weighted else np.ones(len(X))
    few = robust_coreset(X, size, k, z, sample_weight=weights, random_state=problem.seed)
    assert few.weights.sum() == pytest.approx(weights.sum())
    assert (few.weights > 0).all()
    assert len(few.points) <= size
    assert np.array_equal(few.points, X[few.indices])
    assert (np.diff(few.indices) > 0).all()
    if size >= np.count_nonzero(weights):
        assert np.array_equal(few.indices, np.flatnonzero(weights))
        assert few.weights == pytest.approx(weights[few.indices])


@pytest.mark.parametrize(("n_outliers", "size"), [(Z, 400), (1500, 400), (0, 100)])
def test_clusters_and_outliers_weigh_in_the_coreset_what_they_weigh_in_the_data(n_outliers, size):
    X = blobs()
    with InMemory(X) as data:
        placed = place(data, X[:K].copy(), n_outliers)
        few = make_coreset(data, placed, size, np.random.RandomState(0))
        labels = np.concatenate([state.labels for state in placed.states])
        d2 = np.concatenate([state.d2 for state in placed.states])
    assert few.weights[few.outliers].sum() == pytest.approx(n_outliers)
    assert len(few.points) == size
    inliers = np.ones(len(X), bool)
    inliers[np.argsort(-d2, kind="stable")[:n_outliers]] = False
    for cluster in range(K):
        mine = ~few.outliers & (labels[few.indices] == cluster)
        assert few.weights[mine].sum() == pytest.approx(np.sum(inliers & (labels == cluster)))


def test_every_outlier_is_kept_where_they_are_few():
    X = blobs()
    centers = RobustKMeans(K, n_outliers=Z, random_state=0).fit(X)
    few = robust_coreset(X, 4 * Z, K, Z, init=centers.cluster_centers_, random_state=0)
    assert np.array_equal(few.indices[few.outliers], centers.outlier_indices_)
    assert (few.weights[few.outliers] == 1).all()


def test_weights_equal_repeated_rows():
    X = blobs(1000)
    times = np.random.RandomState(0).randint(1, 4, size=len(X))
    repeated = np.repeat(X, times, axis=0)
    by_row = np.repeat(np.arange(len(X)), times)
    # A whole number of rows: the one in which the cut runs out is an inlier if it has a weight.
    d2 = oracle.squared_distances(X, X[:K]).min(axis=1)
    z = int(times[np.argsort(-d2)[:200]].sum())
    with InMemory(X, times.astype(float)) as data, InMemory(repeated) as long:
        weighted, many = (
            make_coreset(each, place(each, X[:K].copy(), z), 60, np.random.RandomState(3))
            for each in (data, long)
        )
    assert np.array_equal(weighted.indices, by_row[many.indices])
    assert weighted.weights == pytest.approx(many.weights)


@given(problem=problems(weighted=True), weighted=st.booleans())
def test_executions_agree(problem, weighted, open_data):
    X, k, z = problem.X, problem.n_clusters, problem.n_outliers
    weights = problem.weights if weighted else None
    bounds = np.linspace(0, len(X), problem.n_chunks + 1).astype(np.int64)
    found = []
    for data in (InMemory(X, weights, 1, bounds), open_data(X, weights, problem.n_chunks)):
        with data:
            placed = place(data, X[-k:].copy(), z)
            found.append(make_coreset(data, placed, 12, np.random.RandomState(problem.seed)))
    assert same(*found)


def test_a_file_gives_the_coreset_of_its_array(tmp_path):
    X = blobs()
    np.save(tmp_path / "rows.npy", X)
    options = {"random_state": 0, "n_threads": 2}
    from_file = robust_coreset(tmp_path / "rows.npy", 200, K, Z, memory_limit="1 GB", **options)
    assert same(from_file, robust_coreset(X, 200, K, Z, **options))


def test_rows_do_not_depend_on_the_plan():
    X = blobs()
    plans = [np.linspace(0, len(X), n + 1).astype(np.int64) for n in (1, 5, 64)]
    found = []
    for bounds in plans:
        with InMemory(X, bounds=bounds) as data:
            placed = place(data, X[:K].copy(), 900)
            found.append(make_coreset(data, placed, 200, np.random.RandomState(0)))
    for other in found[1:]:
        assert np.array_equal(other.indices, found[0].indices)
        assert other.weights == pytest.approx(found[0].weights)


def test_only_the_coreset_travels(worker):
    sizes = []
    for n_rows in (1000, 8000):
        X = blobs(n_rows)
        data = Pickling(worker, X, bounds=np.array([0, n_rows // 2, n_rows]))
        make_coreset(data, place(data, X[:K].copy(), Z), 100, np.random.RandomState(0))
        names = ("_part_totals", "_expected", "_sample")
        sizes.append([data.summary_sizes[f"robust_kmeans.sweeps.coreset.{name}"] for name in names])
    assert sizes[0][:2] == sizes[1][:2]
    assert max(sizes[0][2], sizes[1][2]) < 100 * (3 + 4) * 8 + 1000


@pytest.mark.parametrize("k", [2, 6, 7, 24])
def test_readings_are_few_however_many_clusters(k, monkeypatch):
    readings = []
    run_map = InMemory.map

    def counting_map(data, step, states, shared, *, work=Work.READING):
        # On a disk the rows of a coreset may be in as many blocks as all rows.
        if work is Work.READING or step is SAMPLE.step:
            readings.append(step.__name__)
        return run_map(data, step, states, shared, work=work)

    monkeypatch.setattr(InMemory, "map", counting_map)
    robust_coreset(blobs(), 100, k, Z, random_state=0)
    assert "_sample" in readings
    assert len(readings) <= min(k + 2, 8)


def first_rows(X, n_clusters, random_state):
    return X[:n_clusters]


def test_clusters_without_a_point_leave_their_weight_to_others():
    X = blobs()
    with InMemory(X) as data:
        placed = place(data, X[:300].copy(), Z)
        few = make_coreset(data, placed, 100, np.random.RandomState(0))
    assert few.weights.sum() == pytest.approx(len(X))
    assert few.weights[few.outliers].sum() == pytest.approx(Z)


def test_any_seeding_serves():
    X = blobs()
    names = ("k-means++", "random", "robust-k-means||")
    for init in (*names, MixtureSeeding(), X[:K], first_rows):
        few = robust_coreset(X, 200, K, Z, init=init, random_state=0)
        assert few.weights.sum() == pytest.approx(len(X))


def test_same_seed_gives_the_same_coreset_for_any_number_of_threads():
    X = blobs()
    first = robust_coreset(X, 200, K, 0.1, random_state=7, n_threads=1)
    assert same(first, robust_coreset(X, 200, K, 0.1, random_state=7, n_threads=2))
    assert not same(first, robust_coreset(X, 200, K, 0.1, random_state=8))


def test_equal_rows_make_a_coreset():
    with pytest.warns(ConvergenceWarning):
        few = robust_coreset(np.ones((100, 2)), 30, 3, 5, random_state=0)
    assert few.weights.sum() == pytest.approx(100)


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (27, ValueError, "size=27 is too small for n_clusters=6: .* make 28"),
        (0, ValueError, "size=0 must be at least 1"),
        (0.01, TypeError, "size=0.01 must be an int"),
    ],
)
def test_sizes_without_room_are_refused(size, error, message):
    with pytest.raises(error, match=message):
        robust_coreset(blobs(), size, K, Z)


@pytest.mark.parametrize("n_clusters", ["6", 0, 6000])
def test_bad_numbers_of_clusters_are_refused(n_clusters):
    with pytest.raises((TypeError, ValueError), match="n_clusters="):
        robust_coreset(blobs(), 200, n_clusters, Z)


def test_few_rows_are_all_returned():
    X = blobs()[:20]
    few = robust_coreset(X, 20, K, 2, random_state=0)
    assert np.array_equal(few.points, X)
    assert (few.weights == 1).all()
    assert few.outliers.sum() == 2
