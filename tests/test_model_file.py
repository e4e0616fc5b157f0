"""Model files give back the very model, or one clear error."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from robust_kmeans import KMeansPlusPlus, RobustKMeans, __version__, model_file
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.model_file import ModelFileError
from robust_kmeans.saved import load_model
from robust_kmeans.scaling import Scaling, fit_scaling
from robust_kmeans.untrusted_npz import npy

X = make_contaminated_blobs(
    300, n_clusters=4, n_outliers=12, n_features=3, outlier_box=1000.0, random_state=0
).X
FIGURES = ["inertia_", "outlier_threshold_", "n_outliers_", "n_iter_", "_outlier_share"]
ARRAYS = ["cluster_centers_", "inertia_history_"]


def fitted(rows=X, **changes):
    options = {"n_clusters": 4, "n_outliers": 12, "random_state": 0} | changes
    return RobustKMeans(**options).fit(rows)


def first_rows(rows, n_clusters, random_state):
    return rows[:n_clusters]


def ignore(progress):
    pass


def assert_same_model(one, other, rows=X):
    for name in FIGURES:
        assert getattr(one, name) == getattr(other, name)
        assert isinstance(getattr(one, name), float) == isinstance(getattr(other, name), float)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    assert one.n_features_in_ == other.n_features_in_
    for method in ["predict", "transform", "score_samples", "decision_function"]:
        np.testing.assert_array_equal(
            getattr(one, method)(rows), getattr(other, method)(rows), strict=True
        )
    assert one.score(rows) == other.score(rows)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.npz"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "changes",
    [{}, {"n_outliers": 0}, {"n_outliers": 0.1, "eta": 0.25}, {"n_clusters": 1, "n_init": 3}],
    ids=str,
)
def test_a_model_comes_back_bit_for_bit(file, dtype, changes):
    rows = X.astype(dtype)
    model = fitted(rows, **changes)
    model.save(file)
    loaded = RobustKMeans.load(file)
    assert_same_model(model, loaded, rows)
    assert loaded.get_params() == model.get_params()
    assert not hasattr(loaded, "labels_")
    assert not hasattr(loaded, "feature_names_in_")


def test_a_threshold_of_infinity_comes_back(file):
    fitted(n_outliers=0).save(file)
    assert RobustKMeans.load(file).outlier_threshold_ == np.inf


def test_a_weighted_model_keeps_the_trimmed_weight(file):
    weights = np.random.RandomState(0).uniform(0.5, 2, len(X))
    model = RobustKMeans(4, n_outliers=0.04, random_state=0).fit(X, sample_weight=weights)
    model.save(file)
    assert_same_model(model, RobustKMeans.load(file))


def test_names_of_columns_come_back(file):
    table = pd.DataFrame(X, columns=["a", "long name", "ç"])
    model = fitted(table)
    model.save(file)
    loaded = RobustKMeans.load(file)
    np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_, strict=True)
    assert_same_model(model, loaded, table)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[["ç", "a", "long name"]])


@pytest.mark.parametrize("as_given", [np.asarray, np.ndarray.tolist], ids=["array", "list"])
def test_an_array_as_init_comes_back(file, as_given):
    model = fitted(init=as_given(X[:4]))
    model.save(file)
    loaded = RobustKMeans.load(file)
    np.testing.assert_array_equal(loaded.init, X[:4])
    assert load_model(file).not_saved == ()
    assert_same_model(model, loaded)


@pytest.mark.parametrize("init", [first_rows, KMeansPlusPlus()])
def test_objects_are_left_out_and_named(file, init):
    model = fitted(init=init, callback=ignore, random_state=np.random.RandomState(0))
    model.save(file)
    saved = load_model(file)
    assert saved.not_saved == ("callback", "init", "random_state")
    defaults = RobustKMeans().get_params()
    for name in saved.not_saved:
        assert saved.estimator.get_params()[name] == defaults[name]
    assert_same_model(model, saved.estimator)


def test_numpy_scalars_come_back_as_plain_numbers(file):
    fitted(n_clusters=np.int64(4), tol=np.float64(1e-3), random_state=np.int32(3)).save(file)
    loaded = RobustKMeans.load(file)
    assert (loaded.n_clusters, loaded.tol, loaded.random_state) == (4, 1e-3, 3)
    assert type(loaded.n_clusters) is int


def test_a_loaded_model_can_be_fitted_and_saved_again(file):
    model = fitted()
    model.save(file)
    content = file.read_bytes()
    loaded = RobustKMeans.load(file)
    loaded.save(file)
    assert file.read_bytes() == content
    np.testing.assert_array_equal(loaded.fit(X).labels_, model.labels_)


def test_a_subclass_loads_as_itself(file):
    class Mine(RobustKMeans):
        pass

    fitted().save(file)
    assert type(Mine.load(file)) is Mine


@pytest.mark.parametrize("method", ["standard", "robust"])
def test_scaling_sizes_and_details_come_back(file, method):
    rows = np.column_stack([X, np.full(len(X), 7.0)])
    scaling = fit_scaling(rows, method)
    model = fitted(scaling.apply(rows))
    details = {"source": "rows.csv", "columns": ["a", "ü"], "rows": 312, "nested": {"x": None}}
    model.save(file, scaling=scaling, details=details)
    saved = load_model(file)
    np.testing.assert_array_equal(saved.scaling.offset, scaling.offset)
    np.testing.assert_array_equal(saved.scaling.factor, scaling.factor)
    assert (saved.scaling.method, saved.scaling.constant_columns) == (method, (3,))
    assert saved.details == details
    assert saved.library_version == __version__
    np.testing.assert_array_equal(
        saved.cluster_sizes, np.bincount(model.labels_[model.labels_ >= 0])
    )
    np.testing.assert_array_equal(
        saved.estimator.predict(saved.scaling.apply(rows)), model.predict(scaling.apply(rows))
    )


def test_load_refuses_a_model_of_scaled_columns(file):
    scaling = fit_scaling(X, "robust")
    fitted(scaling.apply(X)).save(file, scaling=scaling)
    with pytest.raises(ModelFileError, match=r"robust scaling.*load_model.*robust-kmeans predict"):
        RobustKMeans.load(file)


@pytest.mark.parametrize("name", ["model", "model.bin", "my model.NPZ", "modèle.npz"])
def test_the_name_of_the_file_is_kept(tmp_path, name):
    fitted().save(str(tmp_path / name))
    assert [file.name for file in tmp_path.iterdir()] == [name]
    RobustKMeans.load(str(tmp_path / name))


def test_numpy_reads_the_file_without_pickle(file):
    fitted().save(file)
    with np.load(file, allow_pickle=False) as archive:
        entries = {name: archive[name] for name in archive.files}
    assert entries.keys() == model_file.ENTRIES
    assert entries["format"] == "robust-kmeans model"
    assert entries["format_version"] == 1
    assert json.loads(entries["parameters"].item())["values"]["n_clusters"] == 4


def test_what_is_not_fitted_cannot_be_saved(file):
    with pytest.raises(NotFittedError):
        RobustKMeans().save(file)
    assert not file.exists()


@pytest.mark.parametrize(
    "details",
    [{"a": (1, 2)}, {1: "a"}, {"a": np.nan}, {"a": {1, 2}}, {"a": np.int64(1)}, ["a"]],
    ids=str,
)
def test_details_that_are_not_json_are_refused(file, details):
    with pytest.raises(ValueError, match=r"details=.* must be a dict of plain JSON values"):
        fitted().save(file, details=details)
    assert not file.exists()


def test_a_scaling_of_other_columns_is_refused(file):
    with pytest.raises(ValueError, match="scaling is for 2 columns and the centres have 3"):
        fitted().save(file, scaling=Scaling.none(2))
    with pytest.raises(TypeError, match=r"must be a robust_kmeans\.Scaling"):
        fitted().save(file, scaling="robust")


def test_a_name_that_cannot_be_kept_is_refused(file):
    with pytest.raises(ValueError, match=r"feature name .* null character.* rename the column"):
        fitted(pd.DataFrame(X, columns=["a", "b", "c\0"])).save(file)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_save_leaves_the_old_file(file, monkeypatch, fault):
    model = fitted()
    model.save(file)
    old = file.read_bytes()
    write, calls = npy.write_array, []

    def interrupted(stream, array, **options):
        calls.append(array)
        if len(calls) == 4:
            stream.write(b"half")
            raise fault
        write(stream, array, **options)

    monkeypatch.setattr(npy, "write_array", interrupted)
    with pytest.raises(fault if isinstance(fault, type) else type(fault)):
        model.save(file)
    assert len(calls) == 4
    assert file.read_bytes() == old
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_saved_model_has_the_permissions_of_an_ordinary_file(file):
    before = os.umask(0o027)
    try:
        fitted().save(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_saving_where_nothing_can_be_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        fitted().save(tmp_path / "missing" / "model.npz")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        fitted().save(tmp_path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no model file .*missing\.npz'; check"):
        RobustKMeans.load(tmp_path / "missing.npz")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a model file"):
        RobustKMeans.load(tmp_path)
