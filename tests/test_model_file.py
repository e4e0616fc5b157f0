"""Model files give back the very model, or one clear error."""

from __future__ import annotations

import io
import json
import os
import stat
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from robust_kmeans import KMeansPlusPlus, RobustKMeans, __version__, model_file
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.model_file import ModelFileError, npy
from robust_kmeans.saved import load_model
from robust_kmeans.scaling import Scaling, fit_scaling

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


@pytest.fixture(scope="module")
def saved_bytes(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.npz"
    fitted(pd.DataFrame(X, columns=["a", "b", "ç"])).save(file, details={"source": "rows.csv"})
    return file.read_bytes()


def rewrite(file, content, compression=zipfile.ZIP_STORED, **changes):
    """The archive `content` with entries replaced, added or (None) left out."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    for name, value in changes.items():
        members.pop(f"{name}.npy", None)
        if isinstance(value, bytes):
            members[f"{name}.npy"] = value
        elif value is not None:
            stream = io.BytesIO()
            np.save(stream, value)
            members[f"{name}.npy"] = stream.getvalue()
    with zipfile.ZipFile(file, "w", compression) as new:
        for name, member in members.items():
            new.writestr(name, member)


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


def npy_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"a,b\n1,2\n", "it is not a zip archive"),
        (npy_bytes(np.zeros(3)), r"it is a single \.npy array"),
        (b"PK\x03\x04", "it is cut off or its bytes have changed"),
        (b"PK\x05\x06" + b"\0" * 18, "no entry format"),
    ],
)
def test_other_files_are_refused(file, content, reason):
    file.write_bytes(content)
    message = rf"model\.npz' is damaged or not a robust-kmeans model: .*{reason}.*Give a file"
    with pytest.raises(ModelFileError, match=message):
        RobustKMeans.load(file)
    with pytest.raises(ModelFileError, match=message):
        load_model(file)


def test_an_archive_of_something_else_is_refused(file):
    np.savez(file, a=np.zeros(3))
    with pytest.raises(ModelFileError, match="archive of something else"):
        RobustKMeans.load(file)


def header_claiming(shape, descr="<f8", data=b""):
    stream = io.BytesIO()
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue() + data


def parameters(**values):
    return json.dumps({"values": values, "not_saved": []})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "other model"}, "its format is 'other model', not 'robust-kmeans model'"),
        ({"format": np.int64(3)}, "format is int64 of shape .*, not text in 0 dimensions"),
        ({"format_version": np.int64(0)}, "its format_version is 0"),
        ({"format_version": np.float64(1)}, "format_version is float64"),
        ({"extra": np.int64(0)}, "unknown entries: 'extra'"),
        ({"cluster_centers": None}, "its entry cluster_centers is missing"),
        ({"parameters": None}, "its entry parameters is missing"),
        ({"details": None}, "its entry details is missing"),
        ({"feature_names": None}, "its entry feature_names is missing"),
        ({"scaling_factor": None}, "its entry scaling_factor is missing"),
        ({"cluster_centers": np.zeros(3)}, r"float64 of shape \(3,\), not floats in 2 dimensions"),
        ({"cluster_centers": np.zeros((2, 3), np.float16)}, "cluster_centers is float16"),
        ({"cluster_centers": np.zeros((2, 3), int)}, "cluster_centers is int64"),
        ({"cluster_centers": np.zeros((0, 3))}, r"cluster_centers is float64 of shape \(0, 3\)"),
        ({"cluster_centers": np.full((4, 3), np.nan)}, "cluster_centers has NaN or infinite"),
        ({"cluster_centers": np.zeros((4, 2))}, "feature_names has 3 names for 2 features"),
        ({"outlier_threshold": np.float64(np.nan)}, "outlier_threshold is nan"),
        ({"outlier_threshold": np.float64(-1)}, "outlier_threshold is -1.0, not a number of at"),
        ({"outlier_threshold": np.zeros(1)}, r"outlier_threshold is float64 of shape \(1,\)"),
        ({"outlier_share": np.float64(1)}, r"outlier_share is 1.0, not in \[0, 1\)"),
        ({"outlier_share": np.float64(np.nan)}, "outlier_share is nan"),
        ({"n_outliers": np.int64(-1)}, "n_outliers is -1"),
        ({"n_iter": np.int64(-1)}, "n_iter is -1"),
        ({"inertia": np.float64(np.nan)}, "inertia is nan"),
        ({"inertia_history": np.array([np.nan])}, "inertia_history is not one row of numbers"),
        ({"cluster_sizes": np.array([1, 2])}, "cluster_sizes is not 4 counts"),
        ({"feature_names": np.array(["a", "b"])}, "feature_names has 2 names for 3 features"),
        ({"feature_names": np.zeros(3)}, "feature_names is float64 of shape .*, not text"),
        ({"feature_names": header_claiming((3,), "<U1", b"\xff" * 12)}, "not valid unicode"),
        ({"scaling_method": "log"}, "'log' is not a scaling"),
        ({"scaling_method": "robust", "scaling_factor": np.zeros(3)}, r"factor\[0\]=0 must be"),
        ({"scaling_method": "robust", "scaling_factor": np.full(3, np.inf)}, r"factor\[0\]=inf"),
        ({"scaling_offset": np.zeros(2)}, "offset has 2 values and factor 3"),
        ({"scaling_offset": np.zeros(2), "scaling_factor": np.ones(2)}, "scaling is for 2 columns"),
        ({"parameters": "{"}, "the entry parameters is not valid JSON"),
        ({"parameters": "[]"}, "the entry parameters is not a JSON object"),
        ({"parameters": "{}"}, "the entry parameters lacks its values"),
        ({"parameters": "[" * 100_000}, "recursion depth"),
        ({"parameters": parameters(colour="red", n_clusters=4)}, "does not know: colour"),
        ({"parameters": parameters(n_clusters=[4])}, r"n_clusters is \[4\], not a plain value"),
        ({"parameters": parameters(init="random"), "init_centers": X[:4]}, "init is stored twice"),
        ({"init_centers": np.array([["a"]])}, "init_centers is <U1 .*, not numbers"),
        ({"details": "nonsense"}, "the entry details is not valid JSON"),
        ({"details": b""}, "the entry details has no valid header"),
        ({"details": b"\x93NUMPY\x09\x00" + b"\0" * 80}, r"version \(9, 0\) of \.npy"),
        ({"details": b"\x93NUMPY\x01\x00\x04\x00(((("}, "the entry details has no valid header"),
        ({"cluster_centers": header_claiming((10**9, 10**9))}, r"claims shape .* but has 0 bytes"),
        ({"cluster_centers": header_claiming((0, 10**30))}, "dimension"),
        ({"cluster_centers": header_claiming((-2, -1), data=b"\0" * 16)}, "claims shape"),
        ({"cluster_centers": header_claiming((2, 3), data=b"\0" * 47)}, "but has 47 bytes"),
        ({"cluster_centers": header_claiming((2, 3), data=b"\0" * 49)}, "but has 49 bytes"),
        ({"cluster_centers": header_claiming((1, 3), [("a", "<f8")], b"\0" * 24)}, "not floats"),
    ],
)
def test_each_fault_inside_is_named(file, saved_bytes, changes, reason):
    rewrite(file, saved_bytes, **changes)
    message = rf"model\.npz' is damaged or not a robust-kmeans model: .*{reason}.*Give a file"
    with pytest.raises(ModelFileError, match=message):
        RobustKMeans.load(file)


def test_a_newer_format_asks_for_an_update(file, saved_bytes):
    rewrite(file, saved_bytes, format_version=np.int64(2), library_version="9.1", new=np.zeros(1))
    with pytest.raises(ModelFileError, match=r"written by robust-kmeans 9\.1 .*Update robust-kme"):
        RobustKMeans.load(file)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(file, saved_bytes):
    file.write_bytes(saved_bytes)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("details.npy", npy_bytes(np.array("{}")))
    with pytest.raises(ModelFileError, match="two entries of the same name"):
        RobustKMeans.load(file)


@pytest.mark.parametrize("name", ["cluster_centers", "feature_names", "format", "details"])
def test_a_pickle_inside_is_never_run(tmp_path, file, saved_bytes, name):
    class Dangerous:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "it-ran"),)

    array = np.empty((1, 1), dtype=object)
    array[0, 0] = Dangerous()
    rewrite(file, saved_bytes, **{name: array})
    with pytest.raises(ModelFileError, match=f"{name} holds Python objects"):
        RobustKMeans.load(file)
    assert not (tmp_path / "it-ran").exists()
    with np.load(file, allow_pickle=True) as archive:
        archive[name]
    assert (tmp_path / "it-ran").exists(), "the pickle was harmless, so the test showed nothing"


def test_an_archive_that_expands_absurdly_is_refused(file, saved_bytes):
    file.write_bytes(saved_bytes)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("more.npy", b"\0" * 2**24)
    assert file.stat().st_size < 2 * len(saved_bytes)
    with pytest.raises(ModelFileError, match=r"bytes claim to hold \d+"):
        RobustKMeans.load(file)


def test_memory_is_not_taken_for_what_an_entry_claims(file, saved_bytes):
    rewrite(file, saved_bytes, cluster_centers=header_claiming((2**25, 2)))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="but has 0 bytes"):
            RobustKMeans.load(file)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_refused(file, saved_bytes, compression):
    rewrite(file, saved_bytes, compression)
    with pytest.raises(ModelFileError, match="compressed by an unknown method"):
        RobustKMeans.load(file)


def test_ordinary_compression_other_byte_order_and_fortran_order_are_read(file, saved_bytes):
    file.write_bytes(saved_bytes)
    model = RobustKMeans.load(file)
    swapped = np.asfortranarray(model.cluster_centers_).astype(
        model.cluster_centers_.dtype.newbyteorder(), order="F"
    )
    rewrite(file, saved_bytes, zipfile.ZIP_DEFLATED, cluster_centers=swapped)
    loaded = RobustKMeans.load(file)
    assert loaded.cluster_centers_.flags.c_contiguous
    assert loaded.cluster_centers_.flags.writeable
    assert_same_model(model, loaded, pd.DataFrame(X, columns=["a", "b", "ç"]))


def test_an_encrypted_archive_is_refused(file, saved_bytes):
    content = bytearray(saved_bytes)
    entry = content.index(b"PK\x01\x02")
    content[entry + 8] |= 1
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match="encrypted"):
        RobustKMeans.load(file)


def assert_identical_or_refused(file, saved_bytes, content):
    file.write_bytes(content)
    try:
        loaded = load_model(file)
    except ModelFileError:
        return
    loaded.estimator.save(file, scaling=loaded.scaling, details=loaded.details)
    assert file.read_bytes() == saved_bytes


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.99, 0.999])
def test_a_truncated_file_is_refused(file, saved_bytes, share):
    file.write_bytes(saved_bytes[: int(share * len(saved_bytes))])
    with pytest.raises(ModelFileError, match=r"cut off or its bytes|zip archive"):
        RobustKMeans.load(file)


@settings(max_examples=300)
@given(data=st.data())
def test_changed_bytes_give_the_same_model_or_an_error(file, saved_bytes, data):
    content = bytearray(saved_bytes)
    # Half of them in the directory at the end, which no checksum covers.
    directory = content.index(b"PK\x01\x02")
    start = data.draw(st.sampled_from([0, directory]))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(start, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert_identical_or_refused(file, saved_bytes, bytes(content))


@settings(max_examples=200)
@given(data=st.data())
def test_cut_bytes_give_the_same_model_or_an_error(file, saved_bytes, data):
    start = data.draw(st.integers(0, len(saved_bytes)))
    stop = data.draw(st.integers(start, len(saved_bytes)))
    assert_identical_or_refused(file, saved_bytes, saved_bytes[:start] + saved_bytes[stop:])
