"""RobustKMeans keeps its own promises and scikit-learn's."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from robust_kmeans import (
    KMeansPlusPlus,
    MixtureSeeding,
    RandomSeeding,
    RobustKMeans,
    RobustKMeansParallel,
    RobustKMeansPlusPlus,
    TKMeansPlusPlus,
    as_init,
    robust_kmeans_plusplus,
    trimmed_inertia,
)
from robust_kmeans.datasets import make_contaminated_blobs

X, TRUE_LABELS, MEANS = make_contaminated_blobs(
    300, n_clusters=4, n_outliers=12, n_features=3, outlier_box=1000.0, random_state=0
)
SEEDINGS = {
    "random": RandomSeeding(),
    "k-means++": KMeansPlusPlus(),
    "robust-k-means++": RobustKMeansPlusPlus(),
    "tkm++": TKMeansPlusPlus(),
    "rkm++": MixtureSeeding(),
    "robust-k-means||": RobustKMeansParallel(),
}


def model(**changes):
    return RobustKMeans(**({"n_clusters": 4, "n_outliers": 12, "random_state": 0} | changes))


def blobs(n_features, dtype=np.float64):
    return make_contaminated_blobs(
        200, n_clusters=4, n_outliers=8, n_features=n_features, dtype=dtype, random_state=1
    ).X


def assert_equal_fits(one, other):
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.inertia_ == other.inertia_
    assert one.outlier_threshold_ == other.outlier_threshold_


# Some of the checks' data have fewer distinct rows than the default number of clusters.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [RobustKMeans(), RobustKMeans(2, n_outliers=0, n_init=2, init="k-means++")],
    # scikit-learn's own KMeans fails it too: the check shuffles the rows, and a seed drawn by
    # row order then differs.  That weights equal contiguous repeated rows is tested elsewhere.
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "seeding depends on the order of rows"
    },
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def test_tags_tell_that_both_float_dtypes_are_preserved():
    assert set(get_tags(model()).transformer_tags.preserves_dtype) == {"float64", "float32"}


def test_a_clone_has_the_same_parameters_and_is_not_fitted():
    original = model(init=MixtureSeeding(alpha=0.3), n_init=2, tol=0.01).fit(X)
    copy = clone(original)
    assert copy.get_params() == original.get_params()
    assert not hasattr(copy, "labels_")
    assert_equal_fits(copy.fit(X), original)


def test_a_pickled_model_predicts_the_same():
    fitted = model().fit(X)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(X + 1), fitted.predict(X + 1))
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.score(X) == fitted.score(X)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_names_one_column_per_cluster(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate("abc")})
    fitted = model().set_output(transform=library).fit(frame)
    out = fitted.transform(frame)
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == [f"robustkmeans{i}" for i in range(4)]
    assert list(fitted.get_feature_names_out()) == list(out.columns)
    np.testing.assert_array_equal(out.to_numpy(), model().fit(X).transform(X))


def test_a_pipeline_equals_its_parts():
    pipeline = make_pipeline(StandardScaler(), model()).fit(X)
    scaled = StandardScaler().fit_transform(X)
    assert_equal_fits(pipeline[-1], model().fit(scaled))
    np.testing.assert_array_equal(pipeline.predict(X), pipeline[-1].labels_)


def test_a_grid_search_scores_each_fold_by_its_trimmed_cost():
    grid = {"n_clusters": [2, 4], "n_outliers": [0, 6, 0.05]}
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(model(), grid, cv=folds).fit(X)
    assert search.best_params_["n_clusters"] == 4
    for i, parameters in enumerate(search.cv_results_["params"]):
        train, test = next(folds.split(X))
        centers = model(**parameters).fit(X[train]).cluster_centers_
        share = {0: 0.0, 6: 6 / len(train), 0.05: int(0.05 * len(train)) / len(train)}
        expected = -trimmed_inertia(
            X[test], centers, n_outliers=int(share[parameters["n_outliers"]] * len(test))
        )
        assert search.cv_results_["split0_test_score"][i] == pytest.approx(expected, rel=1e-12)


def test_of_several_runs_the_better_half_are_finished_and_the_cheapest_is_kept():
    heard = []
    rows, _, _ = make_contaminated_blobs(random_state=0)
    options = {"n_clusters": 20, "n_outliers": 100, "init": "random", "n_init": 8}
    fitted = model(**options, local_search=24, callback=heard.append).fit(rows)
    all_begun = next(i for i, p in enumerate(heard) if p.stage == "swaps")
    begun = {p.run: p.inertia for p in heard[:all_begun]}
    assert len(begun) == 8
    assert max(p.step for p in heard[:all_begun]) == 5
    finished = list(dict.fromkeys(p.run for p in heard[all_begun:]))
    assert finished == sorted(begun, key=begun.get)[:4]
    ends = {p.run: p.inertia for p in heard[all_begun:]}
    assert fitted.inertia_ == min(ends.values())
    assert fitted.inertia_ < min(begun.values())


@pytest.mark.parametrize("name", SEEDINGS)
def test_an_init_by_name_is_its_seeding_object_with_defaults(name):
    assert_equal_fits(model(init=name).fit(X), model(init=SEEDINGS[name]).fit(X))


def test_eta_and_n_local_trials_reach_the_seeding():
    by_name = model(eta=0.01, n_local_trials=1, max_iter=1).fit(X)
    by_object = model(init=RobustKMeansPlusPlus(0.01, n_local_trials=1), max_iter=1).fit(X)
    assert_equal_fits(by_name, by_object)
    assert by_name.inertia_history_[0] != model(max_iter=1).fit(X).inertia_history_[0]


def test_a_fit_starts_from_an_array_as_from_a_callable_that_returns_it():
    given = X[:4].copy()
    asked = []

    def init(rows, n_clusters, random_state):
        asked.append((rows.shape, n_clusters, type(random_state)))
        return given

    # Later on momentum makes a difference: only clusters of an array are to stay where they are.
    fitted = model(init=given, max_iter=1).fit(X)
    assert_equal_fits(fitted, model(init=init, local_search=0, max_iter=1).fit(X))
    start = trimmed_inertia(X, given, n_outliers=12)
    assert fitted.inertia_history_[0] == pytest.approx(start, rel=1e-12)
    assert asked == [(X.shape, 4, np.random.RandomState)]
    np.testing.assert_array_equal(given, X[:4])


@pytest.mark.parametrize("estimator", [KMeans, MiniBatchKMeans])
@pytest.mark.parametrize("name", SEEDINGS)
def test_every_seeding_serves_scikit_learn(estimator, name):
    init = as_init(name, n_outliers=0.04)
    one = estimator(4, init=init, n_init=1, random_state=0).fit(X)
    two = clone(one).set_params(init=pickle.loads(pickle.dumps(init))).fit(X)
    assert one.cluster_centers_.shape == (4, 3)
    np.testing.assert_array_equal(one.cluster_centers_, two.cluster_centers_)


def test_as_init_gives_the_seeds_of_the_function():
    init = as_init("robust-k-means++", n_outliers=12, eta=0.3, n_local_trials=2)
    expected = robust_kmeans_plusplus(
        X, 4, n_outliers=12, eta=0.3, n_local_trials=2, random_state=5
    )
    np.testing.assert_array_equal(init(X, 4, random_state=5), expected.centers)


def test_the_callback_hears_of_every_seeding_iteration_and_batch_of_swaps_in_order():
    heard = []
    fitted = model(init="random", max_iter=50, local_search=40, callback=heard.append).fit(X)
    stages = [p.stage for p in heard]
    n_first = stages.index("swaps")
    n_swaps = stages.count("swaps")
    assert stages[:n_first] == ["seeding"] + ["lloyd"] * (n_first - 1)
    assert 1 <= n_swaps <= 5
    assert stages[n_first + n_swaps :] == ["lloyd"] * (len(heard) - n_first - n_swaps)
    assert [p.step for p in heard if p.stage != "swaps"] == list(range(fitted.n_iter_ + 1))
    assert [p.step for p in heard if p.stage == "swaps"] == list(range(8, 8 * n_swaps + 1, 8))
    assert {(p.stage, p.n_steps) for p in heard if p.step} == {("lloyd", 50), ("swaps", 40)}
    costs = np.array([p.inertia for p in heard])
    assert np.all(np.diff(costs) <= 1e-12 * costs[:-1])
    assert fitted.inertia_ == costs[-1]


@pytest.mark.parametrize("max_iter", [1, 2, 300])
def test_the_history_has_the_seeds_and_one_cost_per_iteration(max_iter):
    heard = []
    options = {"init": "random", "max_iter": max_iter, "local_search": 0}
    fitted = model(**options, callback=heard.append).fit(X)
    assert len(fitted.inertia_history_) == fitted.n_iter_ + 1
    assert [p.step for p in heard] == list(range(fitted.n_iter_ + 1))


def test_the_history_has_one_cost_per_swap_too():
    heard = []
    rows, _, _ = make_contaminated_blobs(random_state=0)
    options = {"n_clusters": 20, "n_outliers": 100, "init": "random"}
    fitted = model(**options, callback=heard.append).fit(rows)
    costs = [p.inertia for p in heard if p.stage == "swaps"]
    n_swaps = len(set(costs)) - (costs[0] not in fitted.inertia_history_)
    assert n_swaps > 1
    assert len(fitted.inertia_history_) == fitted.n_iter_ + n_swaps + 1


def test_what_the_callback_raises_ends_the_fit():
    heard = []

    def stop(progress):
        heard.append(progress)
        if progress.step == 1:
            raise KeyError("enough")

    fitted = model(init="random", n_init=3, callback=stop)
    with pytest.raises(KeyError, match="enough"):
        fitted.fit(X)
    assert len(heard) == 2
    assert not [name for name in vars(fitted) if name.endswith("_")]


def test_verbose_chooses_what_is_logged(caplog):
    model(verbose=0, n_init=2).fit(X)
    assert not caplog.records
    model(verbose=1, n_init=2).fit(X)
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert sum("seeding" in message for message in caplog.messages) == 2
    caplog.clear()
    fitted = model(verbose=2).fit(X)
    assert any(record.levelno == logging.DEBUG for record in caplog.records)
    assert f"{fitted.inertia_:.6g}" in caplog.messages[-1]
    assert logging.getLogger("robust_kmeans").level == logging.NOTSET


def test_verbose_goes_to_standard_error_where_logging_is_not_set_up(monkeypatch, capsys):
    # pytest has handlers on the root logger; cut off from them, none are left.
    logger = logging.getLogger("robust_kmeans")
    monkeypatch.setattr(logger, "propagate", False)
    model(verbose=1).fit(X)
    out, err = capsys.readouterr()
    assert "run 1/1" in err
    assert not out
    assert not logger.handlers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 3, 64])
def test_fitted_figures_belong_together(n_features, dtype):
    rows = blobs(n_features, dtype)
    fitted = model(n_outliers=8).fit(rows)
    labels, nearest, scores = fitted.labels_, fitted.nearest_labels_, fitted.outlier_scores_
    assert labels.shape == nearest.shape == scores.shape == (len(rows),)
    assert labels.dtype == nearest.dtype == np.int32
    assert scores.dtype == fitted.cluster_centers_.dtype == fitted.transform(rows).dtype == dtype
    assert fitted.cluster_centers_.shape == (4, n_features)
    assert fitted.n_features_in_ == n_features
    np.testing.assert_array_equal(np.flatnonzero(labels == -1), fitted.outlier_indices_)
    assert fitted.n_outliers_ == len(fitted.outlier_indices_) == 8
    inlier = labels >= 0
    np.testing.assert_array_equal(nearest[inlier], labels[inlier])
    distances = euclidean_distances(rows.astype(float), fitted.cluster_centers_.astype(float))
    np.testing.assert_array_equal(nearest, distances.argmin(axis=1))
    np.testing.assert_allclose(scores, distances.min(axis=1) ** 2, rtol=1e-4, atol=1e-7)
    total = scores[inlier].astype(np.float64).sum()
    assert fitted.inertia_ == pytest.approx(total, rel=1e-12)
    assert fitted.inertia_history_[-1] == fitted.inertia_
    assert np.all(np.diff(fitted.inertia_history_) <= 1e-6 * fitted.inertia_history_[:-1])
    assert scores[inlier].max() < fitted.outlier_threshold_ < scores[~inlier].min()
    middle = (float(scores[inlier].max()) + float(scores[~inlier].min())) / 2
    assert fitted.outlier_threshold_ == pytest.approx(middle, rel=1e-12)
    np.testing.assert_array_equal(fitted.predict(rows), labels)
    np.testing.assert_array_equal(fitted.score_samples(rows), -scores)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_features", "k"), [(3, 4), (130, 40)])
def test_predict_does_not_depend_on_the_batch(n_features, k, dtype):
    rows = blobs(n_features, dtype)
    fitted = model(n_clusters=k, n_outliers=8).fit(rows)
    centers = fitted.cluster_centers_[:30]
    # Rows half-way between two centres show any difference in rounding.
    rows = np.vstack([rows, (centers[:, np.newaxis] + centers).reshape(-1, n_features) / 2])
    for method in (fitted.predict, fitted.score_samples, fitted.transform):
        at_once = method(rows)
        one_by_one = np.concatenate([method(row[np.newaxis]) for row in rows])
        in_sevens = np.concatenate([method(rows[i : i + 7]) for i in range(0, len(rows), 7)])
        np.testing.assert_array_equal(one_by_one, at_once)
        np.testing.assert_array_equal(in_sevens, at_once)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [2, 64])
def test_transform_gives_euclidean_distances(n_features, dtype):
    rows = blobs(n_features, dtype)
    fitted = model().fit(rows)
    expected = euclidean_distances(rows.astype(float), fitted.cluster_centers_.astype(float))
    np.testing.assert_allclose(fitted.transform(rows), expected, rtol=1e-5, atol=1e-5)


def test_scores_of_rows_are_as_defined():
    fitted = model().fit(X)
    rows = X[::3] + 0.5
    d2 = fitted.transform(rows).min(axis=1) ** 2
    np.testing.assert_allclose(fitted.score_samples(rows), -d2, rtol=1e-12)
    decision = fitted.decision_function(rows)
    np.testing.assert_allclose(decision, fitted.outlier_threshold_ - d2, rtol=1e-9)
    np.testing.assert_array_equal(decision < 0, fitted.predict(rows) == -1)


@pytest.mark.parametrize("weighted", [False, True])
def test_score_cuts_the_share_of_the_fit(weighted):
    fitted = model().fit(X)
    rows = X[:100]
    weight = np.arange(100) % 4 + 0.5 if weighted else None
    # 12 of 312 rows; of 100 rows that is 3.8, and whole rows are 3.
    z = 12 / 312 if weighted else 3
    expected = -trimmed_inertia(rows, fitted.cluster_centers_, n_outliers=z, sample_weight=weight)
    assert fitted.score(rows, sample_weight=weight) == pytest.approx(expected, rel=1e-12)
    assert fitted.score(X) == pytest.approx(-fitted.inertia_, rel=1e-12)


def test_fit_predict_and_fit_transform_equal_fit_and_then_the_method():
    weight = np.arange(len(X)) % 3 + 1.0
    fitted = model().fit(X, sample_weight=weight)
    np.testing.assert_array_equal(model().fit_predict(X, sample_weight=weight), fitted.labels_)
    np.testing.assert_array_equal(model().fit_transform(X), model().fit(X).transform(X))


def test_without_outliers_nothing_is_ever_flagged():
    fitted = model(n_outliers=0, init=MEANS, tol=0).fit(X)
    assert fitted.n_outliers_ == 0
    assert fitted.outlier_indices_.shape == (0,)
    assert fitted.outlier_threshold_ == np.inf
    assert fitted.predict([[1e9, -1e9, 0.0]])[0] >= 0
    assert np.all(fitted.decision_function(X) == np.inf)
    plain = KMeans(4, init=MEANS, n_init=1, tol=0).fit(X)
    np.testing.assert_array_equal(fitted.labels_, plain.labels_)
    assert fitted.inertia_ == pytest.approx(plain.inertia_, rel=1e-9)


def test_far_outliers_are_found():
    fitted = model(n_init=3).fit(X)
    np.testing.assert_array_equal(fitted.labels_ == -1, TRUE_LABELS == -1)


def test_ties_at_the_cut_flag_exactly_z_rows_the_lowest_first():
    rows = np.concatenate([np.zeros(10), np.tile([1.0, -1.0], 20)])[:, np.newaxis]
    fitted = RobustKMeans(1, n_outliers=6, init=[[0.0]]).fit(rows)
    np.testing.assert_array_equal(fitted.outlier_indices_, np.arange(10, 16))
    assert np.all(fitted.predict(rows) == 0)


def test_rows_at_distance_zero_are_never_outliers():
    rows = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"0 outliers flagged.*n_outliers=2"):
        fitted = RobustKMeans(3, n_outliers=2, init=np.eye(3)).fit(rows)
    assert np.all(fitted.labels_ >= 0)
    assert (fitted.n_outliers_, fitted.inertia_, fitted.outlier_threshold_) == (0, 0, np.inf)


@pytest.mark.parametrize("tol", [0, 1e-4, 1e9])
@pytest.mark.parametrize("max_iter", [1, 300])
@pytest.mark.parametrize(
    "init",
    [
        np.vstack([MEANS[:2], X[TRUE_LABELS == -1][:2]]),
        np.repeat(MEANS[:1], 4, axis=0),
        np.full((4, 3), 1e6) * np.arange(1, 5)[:, np.newaxis],
    ],
    ids=["on outliers", "repeated", "far away"],
)
def test_every_cluster_keeps_an_inlier(init, max_iter, tol):
    fitted = model(init=init, max_iter=max_iter, tol=tol).fit(X)
    assert np.all(np.bincount(fitted.labels_[fitted.labels_ >= 0], minlength=4) > 0)
    assert fitted.n_outliers_ == 12


def test_the_same_random_state_gives_the_same_fit():
    one = model(random_state=3, n_init=2).fit(X)
    assert_equal_fits(one, model(random_state=3, n_init=2).fit(X))
    assert_equal_fits(one, model(random_state=np.random.RandomState(3), n_init=2).fit(X))
    assert_equal_fits(clone(one).fit(X), one.fit(X))
    before = repr(np.random.get_state())
    starts = {model(random_state=seed).fit(X).inertia_history_[0] for seed in range(5)}
    assert len(starts) > 1
    assert repr(np.random.get_state()) == before


def test_fit_changes_nothing_that_it_is_given():
    rows, init, weight = X.copy(), MEANS.copy(), np.linspace(0.5, 1.5, len(X))
    flags = [str(array.flags) for array in (rows, init, weight)]
    model(init=init).fit(rows, sample_weight=weight).score(rows, sample_weight=weight)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(init, MEANS)
    np.testing.assert_array_equal(weight, np.linspace(0.5, 1.5, len(X)))
    assert flags == [str(array.flags) for array in (rows, init, weight)]
