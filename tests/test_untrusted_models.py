"""What is not a model file, or was changed on the way, gives one clear error and runs nothing."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans import RobustKMeans
from robust_kmeans.model_file import ModelFileError
from robust_kmeans.saved import load_model
from robust_kmeans.untrusted_npz import npy
from tests.test_model_file import X, assert_same_model, fitted


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
