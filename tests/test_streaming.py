"""Rows that come in batches: what the model remembers, finds and forgets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from robust_kmeans import RobustKMeans, trimmed_inertia
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.streaming import StreamingRobustKMeans

K, SHARE = 5, 0.02


def blobs(n_rows=12_000, seed=0):
    """Rows in clusters and far outliers; the clusters (−1 for outliers); the means."""
    return make_contaminated_blobs(
        n_rows - int(SHARE * n_rows),
        n_clusters=K,
        n_outliers=int(SHARE * n_rows),
        n_features=3,
        outlier_box=2000,
        random_state=seed,
    )


def stream(**options):
    defaults = {"n_outliers": SHARE, "coreset_size": 400, "random_state": 0}
    return StreamingRobustKMeans(**{"n_clusters": K, **defaults, **options})


def taken_in(model, X, batch=500):
    for start in range(0, len(X), batch):
        model.partial_fit(X[start : start + batch])
    return model


def shuffled(data):
    return np.random.RandomState(1).permutation(data.X)


def state_of(model):
    return pickle.dumps(model.__dict__)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [StreamingRobustKMeans(), StreamingRobustKMeans(2, n_outliers=0.0, coreset_size=16)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "seeding depends on the order of rows"
    },
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("order", ["shuffled", "cluster after cluster", "outliers first"])
@pytest.mark.parametrize("batch", [150, 1000])
def test_streamed_centres_cost_little_more_than_those_of_a_full_fit(order, batch):
    data = blobs()
    X = shuffled(data)
    if order != "shuffled":
        by_cluster = np.argsort(data.labels, kind="stable")
        X = data.X[by_cluster if order == "outliers first" else by_cluster[::-1]]
    # A little more than there are: one outlier that is not trimmed costs as much as all inliers.
    share = 1.2 * SHARE
    model = taken_in(stream(n_outliers=share), X, batch)
    full = RobustKMeans(K, n_outliers=share, random_state=0).fit(X)
    assert trimmed_inertia(X, model.cluster_centers_, n_outliers=share) < 1.1 * full.inertia_
    assert model.inertia_ == pytest.approx(full.inertia_, rel=0.15)


@pytest.mark.parametrize("batch", [7, 130, 2000])
def test_memory_is_bounded(batch):
    model = stream(coreset_size=100)
    X = np.random.RandomState(0).normal(size=(12_000, 2))
    for start in range(0, len(X), batch):
        model.partial_fit(X[start : start + batch])
        most = max(100, 100 * (2 + np.log2(model.n_seen_ / 100)))
        assert len(model.summary_points_) <= most
        assert model.summary_weights_.sum() == pytest.approx(model.n_seen_)
    assert model.n_seen_ == len(X)


def test_far_outliers_do_not_become_centres():
    data = blobs()
    model = taken_in(stream(), shuffled(data))
    gaps = np.linalg.norm(model.cluster_centers_[:, np.newaxis] - data.centers, axis=2)
    assert gaps.min(axis=1).max() < 1
    far = data.X[data.labels < 0]
    assert (model.predict(far) == -1).mean() > 0.9
    assert (model.predict(data.X[data.labels >= 0]) >= 0).mean() > 0.99


def test_a_cluster_that_appears_late_is_found():
    data = blobs()
    late = np.full((600, 3), 500.0) + np.random.RandomState(0).normal(size=(600, 3))
    model = taken_in(stream(n_clusters=K + 1), shuffled(data))
    model.partial_fit(late)
    nearest = np.linalg.norm(model.cluster_centers_ - 500, axis=1).min()
    assert nearest < 1
    assert (model.predict(late) >= 0).mean() > 0.95


def test_rows_that_are_few_in_every_batch_make_a_cluster():
    data = blobs()
    X = shuffled(data)
    X[::20] = 300 + np.random.RandomState(0).normal(size=X[::20].shape)
    model = taken_in(stream(n_clusters=K + 1), X, batch=100)
    assert np.linalg.norm(model.cluster_centers_ - 300, axis=1).min() < 1


def test_half_life_forgets_an_old_cluster():
    random = np.random.RandomState(0)
    old = random.normal(size=(3000, 2)) + np.array([40.0, 0.0])
    new = random.normal(size=(12_000, 2)) + np.where(random.uniform(size=(12_000, 1)) < 0.5, 0, 20)
    options = {"n_clusters": 2, "n_outliers": 0.05, "coreset_size": 200}
    remembers = taken_in(stream(**options), np.concatenate([old, new]))
    forgets = taken_in(stream(**options, half_life=1000), np.concatenate([old, new]))
    assert np.sort(forgets.cluster_centers_[:, 0]) == pytest.approx([0, 20], abs=0.5)
    assert (forgets.predict(old) == -1).all()
    assert forgets.summary_weights_.sum() == pytest.approx(1000 / np.log(2), rel=0.01)
    assert remembers.summary_weights_.sum() == pytest.approx(15_000)
    assert (remembers.predict(old) >= 0).mean() > 0.5


def test_what_is_forgotten_takes_no_memory():
    model = stream(coreset_size=100, half_life=50)
    X = np.random.RandomState(0).normal(size=(20_000, 2))
    taken_in(model, X, batch=100)
    assert len(model.summary_points_) < 1500


def test_rows_within_a_batch_age_like_rows_of_many():
    X = shuffled(blobs(300))
    one = stream(half_life=40.0).partial_fit(X)
    many = taken_in(stream(half_life=40.0), X, batch=1)
    assert one.summary_weights_ == pytest.approx(many.summary_weights_)
    assert np.array_equal(one.summary_points_, many.summary_points_)


def test_few_rows_give_the_fit_on_them():
    X = shuffled(blobs(399))
    model = taken_in(stream(), X, batch=50)
    assert np.array_equal(model.summary_points_, X)
    full = RobustKMeans(K, n_outliers=SHARE, random_state=model.model_.random_state).fit(X)
    assert np.array_equal(model.cluster_centers_, full.cluster_centers_)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_same_batches_and_seed_give_the_same_bits(n_threads):
    X = shuffled(blobs())
    first, second = taken_in(stream(), X), stream(n_threads=n_threads)
    for start in range(0, len(X), 500):
        second.partial_fit(X[start : start + 500])
        if start == 3000:  # asking in between changes nothing
            second.predict(X[:10])
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert np.array_equal(first.summary_weights_, second.summary_weights_)
    other = taken_in(stream(random_state=1), X)
    assert not np.array_equal(first.summary_weights_, other.summary_weights_)


def test_weights_count_like_repeated_rows():
    X = shuffled(blobs())
    weights = np.random.RandomState(0).randint(0, 3, size=len(X)).astype(float)
    model = stream().fit(X, sample_weight=weights)
    full = RobustKMeans(K, n_outliers=SHARE, random_state=0).fit(X, sample_weight=weights)
    cost = trimmed_inertia(X, model.cluster_centers_, n_outliers=SHARE, sample_weight=weights)
    assert cost < 1.1 * full.inertia_
    assert model.summary_weights_.sum() == pytest.approx(weights.sum())


def test_fit_starts_afresh():
    X = shuffled(blobs())
    used = stream().partial_fit(X[:100] + 1000).fit(X)
    fresh = stream().fit(X)
    assert used.n_seen_ == len(X)
    assert np.array_equal(used.cluster_centers_, fresh.cluster_centers_)
    assert np.array_equal(used.labels_, fresh.predict(X))


def test_a_file_gives_the_same_as_its_array(tmp_path):
    X = shuffled(blobs())
    np.save(tmp_path / "rows.npy", X)
    from_file = stream().fit(tmp_path / "rows.npy")
    from_array = stream().fit(X)
    assert np.array_equal(from_file.cluster_centers_, from_array.cluster_centers_)
    assert np.array_equal(from_file.labels_, from_array.labels_)
    from_file.partial_fit(tmp_path / "*.npy")
    assert from_file.n_seen_ == 2 * len(X)


def test_long_batches_are_taken_in_part_by_part(monkeypatch):
    X = shuffled(blobs())
    weights = np.random.RandomState(0).uniform(size=len(X))
    monkeypatch.setattr("robust_kmeans.streaming.BATCH_ROWS", 1000)
    one = stream(half_life=3000).partial_fit(X, sample_weight=weights)
    many = stream(half_life=3000)
    for start in range(0, len(X), 1000):
        many.partial_fit(X[start : start + 1000], sample_weight=weights[start : start + 1000])
    assert np.array_equal(one.summary_points_, many.summary_points_)
    assert np.array_equal(one.summary_weights_, many.summary_weights_)


def test_partial_fit_goes_on_after_fit():
    X = shuffled(blobs())
    model = stream().fit(X[:6000])
    model.partial_fit(X[6000:])
    assert model.n_seen_ == len(X)
    assert not hasattr(model, "labels_")


def test_a_pickled_model_goes_on_to_the_same_bits():
    X = shuffled(blobs())
    model = taken_in(stream(), X[:5000])
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(
        taken_in(model, X[5000:]).cluster_centers_, taken_in(copy, X[5000:]).cluster_centers_
    )


def test_a_saved_fit_predicts_the_same(tmp_path):
    X = shuffled(blobs())
    model = taken_in(stream(), X)
    model.model_.save(tmp_path / "model.npz")
    loaded = RobustKMeans.load(tmp_path / "model.npz")
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_the_first_batch_decides_on_the_dtype():
    X = shuffled(blobs(600))
    model = stream().partial_fit(X[:300].astype(np.float32)).partial_fit(X[300:])
    assert model.cluster_centers_.dtype == np.float32
    assert model.transform(X).dtype == np.float32


def test_fit_knows_the_names_of_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(shuffled(blobs(900)), columns=["a", "b", "c"])
    assert np.array_equal(stream().fit(frame).labels_, stream().fit(frame.to_numpy()).labels_)


def test_names_of_columns_are_kept_and_compared():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(shuffled(blobs(900)), columns=["a", "b", "c"])
    model = taken_in(stream(), frame, batch=300)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert len(model.predict(frame)) == len(frame)
    assert model.get_feature_names_out().tolist() == [f"streamingrobustkmeans{i}" for i in range(K)]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"a": "z"}))


BAD = np.ones((5, 3))
BAD[3, 1] = np.nan


@pytest.mark.parametrize(
    ("batch", "weights", "message"),
    [
        (BAD, None, "1 NaN or infinite values in column 1; the first is in row 3"),
        (np.ones((5, 2)), None, "2 features, but StreamingRobustKMeans is expecting 3"),
        (np.ones((5, 3)), [1, 2], "sample_weight has shape"),
        (np.ones((5, 3)), [-1, 1, 1, 1, 1], "negative"),
        (np.empty((0, 3)), None, "0 sample"),
    ],
)
def test_bad_batches_leave_the_model_as_it_was(batch, weights, message):
    model = stream().partial_fit(shuffled(blobs(900)))
    model.predict(np.ones((1, 3)))
    before = state_of(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(batch, sample_weight=weights)
    assert state_of(model) == before


def test_a_batch_too_far_from_all_others_is_refused():
    model = stream().partial_fit(np.ones((5, 3), np.float32))
    before = state_of(model)
    with pytest.raises(ValueError, match="overflow float32"):
        model.partial_fit(np.full((5, 3), 3e19))
    assert state_of(model) == before


def test_a_bad_first_batch_leaves_the_model_unfitted():
    model = stream()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(BAD)
    assert model.__dict__ == clone(model).__dict__


def test_nothing_is_known_before_the_first_batch():
    for name in ("cluster_centers_", "n_seen_", "summary_points_", "inertia_"):
        with pytest.raises(NotFittedError):
            getattr(stream(), name)
    with pytest.raises(NotFittedError):
        stream().predict([[0.0]])


def test_fewer_rows_than_clusters_are_kept_until_there_are_more():
    model = stream().partial_fit(np.eye(3))
    with pytest.raises(ValueError, match="less than n_clusters=5"):
        model.predict(np.eye(3))
    assert len(model.partial_fit(2 * np.eye(3)).predict(np.eye(3))) == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_outliers": 10}, TypeError, "n_outliers=10 must be a float in"),
        ({"n_outliers": 1.0}, ValueError, "leaves no inliers"),
        ({"n_outliers": -0.1}, ValueError, "n_outliers=-0.1"),
        ({"coreset_size": 23}, ValueError, "coreset_size=23 must be at least 24"),
        ({"coreset_size": "big"}, ValueError, "coreset_size='big'"),
        ({"half_life": 0}, ValueError, "half_life=0"),
        ({"n_clusters": 0}, ValueError, "n_clusters=0"),
    ],
)
def test_bad_parameters_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        clone(stream()).set_params(**options).partial_fit(np.ones((5, 3)))
