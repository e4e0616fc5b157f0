"""Options of the estimator that choose how it seeds and how outliers are counted."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from robust_kmeans import RobustKMeans, RobustKMeansPlusPlus
from robust_kmeans.datasets import make_contaminated_blobs
from tests.test_estimator import X, assert_equal_fits, model


def contaminated():
    return make_contaminated_blobs(
        2000, n_clusters=5, n_outliers=60, n_features=3, outlier_box=400, random_state=3
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
def test_auto_counts_the_outliers(weighted):
    rows, labels, _ = contaminated()
    weights = np.full(len(rows), 2.5) if weighted else None
    fitted = RobustKMeans(5, n_outliers="auto", random_state=0).fit(rows, sample_weight=weights)
    assert 45 <= len(fitted.outlier_indices_) <= 75
    assert fitted.n_outliers_ == pytest.approx(
        len(fitted.outlier_indices_) * (2.5 if weighted else 1), abs=2.5 if weighted else 0
    )
    assert (labels[fitted.outlier_indices_] == -1).mean() > 0.9
    assert fitted.inertia_history_[-1] == fitted.inertia_


def test_auto_is_kept_by_clone_pickle_and_model_file(tmp_path):
    rows, _, _ = contaminated()
    fitted = RobustKMeans(5, n_outliers="auto", random_state=0).fit(rows)
    assert clone(fitted).n_outliers == "auto"
    fitted.save(tmp_path / "model.npz")
    for other in (RobustKMeans.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(fitted))):
        assert other.n_outliers == "auto"
        assert other.n_outliers_ == fitted.n_outliers_
        np.testing.assert_array_equal(other.predict(rows), fitted.labels_)
        assert other.score(rows) == fitted.score(rows)


def test_auto_finds_nothing_in_clean_clusters_and_then_flags_nothing():
    rows, _, _ = make_contaminated_blobs(5000, n_clusters=4, n_outliers=0, random_state=0)
    fitted = RobustKMeans(4, n_outliers="auto", random_state=0).fit(rows)
    assert len(fitted.outlier_indices_) < 5


@pytest.mark.parametrize("value", ["Auto", "5%", ""])
def test_other_words_for_n_outliers_are_refused(value):
    with pytest.raises(ValueError, match=r'n_outliers=.* must be an int .* or "auto"'):
        RobustKMeans(2, n_outliers=value).fit(X)


def test_oversampling_reaches_the_seeding():
    by_name = model(oversampling=0.5, local_search=0).fit(X)
    by_object = model(init=RobustKMeansPlusPlus(oversampling=0.5), local_search=0).fit(X)
    assert_equal_fits(by_name, by_object)
    assert by_name.inertia_history_[0] != model(local_search=0).fit(X).inertia_history_[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"oversampling": -0.5}, "oversampling=-0.5 must be a number of at least 0"),
        ({"oversampling": np.nan}, "oversampling=nan must be a number of at least 0"),
        ({"oversampling": 1.0, "init": "random"}, "oversampling=1.0 does not apply to 'random'"),
        ({"oversampling": 1.0, "init": X[:4]}, "oversampling=1.0 applies to an init given by name"),
    ],
)
def test_oversampling_that_makes_no_sense_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        model(**options).fit(X)


@pytest.mark.parametrize("value", [False, None, "", "a", []])
def test_oversampling_must_be_a_number(value):
    for init in ("robust-k-means++", "random"):
        with pytest.raises(TypeError, match=r"oversampling=.* must be a number of at least 0"):
            model(oversampling=value, init=init).fit(X)


@pytest.mark.parametrize("value", [None, True, [1]])
def test_the_message_for_a_bad_n_outliers_names_auto(value):
    with pytest.raises(TypeError, match=r'n_outliers=.* must be an int .*, or "auto"'):
        model(n_outliers=value).fit(X)
