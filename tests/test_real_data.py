"""The loaders: which file is read, what comes out of it, and what is said when it is wrong."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from robust_kmeans.datasets import (
    DataFileError,
    load_kddcup,
    load_shuttle,
    load_skin,
    packed,
    sources,
)
from tests.packing import archive, compress, packings, publish

SHUTTLE_TEXT = b"50 21 77 0 28 0 27 48 22 5\n55 0 92 0 0 -26 36 92 56 6\n1 2 3 4 5 6 7 8 9 7\n"
SKIN_TEXT = b"74\t85\t123\t1\r\n255\t0\t3\t2\r\n"

CONNECTION = (
    "{duration},tcp,http,SF,181,5450,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,8,8,0.00,0.00,0.00,0.00,"
    "1.00,0.00,0.00,9,9,1.00,0.00,{rate},0.00,0.00,0.00,0.00,0.00,{label}\n"
)
CONNECTIONS = [(0, 0.11, "normal."), (5, 0.05, "smurf."), (7, 0.25, "buffer_overflow.")]
KDDCUP_TEXT = "".join(
    CONNECTION.format(duration=duration, rate=rate, label=label)
    for duration, rate, label in CONNECTIONS
).encode()
LEFT_OUT = (1, 2, 3, 6, 11, 20, 21)

PACKINGS = ["", ".gz", ".Z", ".zip"]


@pytest.fixture(autouse=True)
def no_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("ROBUST_KMEANS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def small(monkeypatch):
    """Small files in place of the published ones."""
    publish(monkeypatch, "shuttle train", SHUTTLE_TEXT)
    publish(monkeypatch, "shuttle test", SHUTTLE_TEXT[-20:])
    publish(monkeypatch, "skin", SKIN_TEXT)
    publish(monkeypatch, "kddcup 10 percent", KDDCUP_TEXT)
    publish(monkeypatch, "kddcup full", KDDCUP_TEXT * 2)


def put(folder, name, text, packing=""):
    folder.mkdir(exist_ok=True)
    path = folder / (name + packing)
    path.write_bytes(packings(name, text)[path.name])
    return path


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shuttle_is_nine_features_and_a_class(small, tmp_path, packing, dtype):
    path = put(tmp_path, "shuttle.trn", SHUTTLE_TEXT, packing)
    data = load_shuttle(data_home=tmp_path, download_if_missing=False, dtype=dtype)
    assert data.X.dtype == dtype
    np.testing.assert_array_equal(data.X[1], [55, 0, 92, 0, 0, -26, 36, 92, 56])
    assert data.target.tolist() == [5, 6, 7]
    assert data.outliers.tolist() == [False, True, True]
    assert len(data.feature_names) == data.X.shape[1] == 9
    assert data.paths == (path,)
    assert "'train'" in data.description


@pytest.mark.parametrize(("subset", "target"), [("test", [7]), ("all", [5, 6, 7, 7])])
def test_the_subsets_of_shuttle_are_the_files(small, tmp_path, subset, target):
    put(tmp_path, "shuttle.trn", SHUTTLE_TEXT)
    put(tmp_path, "shuttle.tst", SHUTTLE_TEXT[-20:], ".gz")
    data = load_shuttle(subset, data_home=tmp_path, download_if_missing=False)
    assert data.target.tolist() == target
    assert data.paths[-1] == tmp_path / "shuttle.tst.gz"
    assert len(data.paths) == {"test": 1, "all": 2}[subset]
    assert repr(subset) in data.description


@pytest.mark.parametrize("packing", PACKINGS)
def test_skin_is_three_colours_and_marks_no_outliers(small, tmp_path, packing):
    put(tmp_path, "Skin_NonSkin.txt", SKIN_TEXT, packing)
    data = load_skin(data_home=tmp_path, download_if_missing=False)
    np.testing.assert_array_equal(data.X, [[74, 85, 123], [255, 0, 3]])
    assert data.target.tolist() == [1, 2]
    assert data.outliers is None
    assert data.feature_names == ("B", "G", "R")


@pytest.mark.parametrize("packing", PACKINGS)
def test_kddcup_keeps_the_numbers_and_the_names_of_classes(small, tmp_path, packing):
    put(tmp_path, "kddcup.data_10_percent", KDDCUP_TEXT, packing)
    data = load_kddcup(data_home=tmp_path, download_if_missing=False, standardise=False)
    fields = [line.split(b",") for line in KDDCUP_TEXT.splitlines()]
    expected = [[float(row[i]) for i in range(41) if i not in LEFT_OUT] for row in fields]
    np.testing.assert_array_equal(data.X, expected)
    assert data.target.tolist() == ["normal", "smurf", "buffer_overflow"]
    assert data.outliers.tolist() == [False, False, True]
    assert len(data.feature_names) == 34
    assert "10 percent" in data.description
    assert "full" not in data.description


@pytest.mark.parametrize("name", ["kddcup.data.gz", "kdd+cup+1999+data.zip"])
def test_the_full_kddcup_is_called_so(small, tmp_path, name):
    content = gzip.compress(KDDCUP_TEXT * 2, mtime=0)
    in_archive = archive({"kddcup.data.gz": content, "kddcup.names": b""})
    (tmp_path / name).write_bytes(in_archive if name.endswith(".zip") else content)
    data = load_kddcup("full", data_home=tmp_path, download_if_missing=False)
    assert data.X.shape == (6, 34)
    assert "full" in data.description
    assert "10 percent" not in data.description


def test_the_10_percent_file_never_passes_as_the_full_one(small, tmp_path):
    (tmp_path / "kddcup.data.gz").write_bytes(gzip.compress(KDDCUP_TEXT, mtime=0))
    with pytest.raises(DataFileError, match=r"does not hold 'kddcup\.data'"):
        load_kddcup("full", data_home=tmp_path)


def test_the_full_kddcup_is_not_taken_in_a_form_that_cannot_be_checked(small, tmp_path):
    put(tmp_path, "kddcup.data", KDDCUP_TEXT * 2)
    with pytest.raises(FileNotFoundError, match=r"searched for kddcup\.data\.gz, kdd\+cup"):
        load_kddcup("full", data_home=tmp_path, download_if_missing=False)


# The mean of a constant column, rounded, need not be its value.
@example(rows=[(row, 7) for row in range(60)], dtype=np.float64)
@given(
    rows=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 100)), min_size=1, max_size=60),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_standardised_columns_have_mean_0_and_deviation_1_or_are_0(tmp_path, rows, dtype):
    text = "".join(
        CONNECTION.format(duration=duration, rate=rate / 100, label="normal.")
        for duration, rate in rows
    ).encode()
    put(tmp_path, "kddcup.data_10_percent", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("robust_kmeans.datasets.real.ROWS_AT_ONCE", 7)
        publish(patch, "kddcup 10 percent", text)
        raw = load_kddcup(data_home=tmp_path, standardise=False, dtype=dtype).X
        data = load_kddcup(data_home=tmp_path, dtype=dtype)
    is_constant = (raw == raw[0]).all(axis=0)
    expected = StandardScaler().fit_transform(raw.astype(np.float64))
    tolerance = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(
        data.X[:, ~is_constant], expected[:, ~is_constant], rtol=tolerance, atol=tolerance
    )
    assert (data.X[:, is_constant] == 0).all()
    assert data.X.dtype == dtype


@pytest.mark.parametrize("block_size", [1, 10, 27, 100])
def test_blocks_may_end_anywhere(small, tmp_path, monkeypatch, block_size):
    monkeypatch.setattr(packed, "BLOCK_SIZE", block_size)
    put(tmp_path, "shuttle.trn", SHUTTLE_TEXT)
    X, target, outliers = load_shuttle(data_home=tmp_path)
    np.testing.assert_array_equal(X[2], np.arange(1, 10))
    assert target.tolist() == [5, 6, 7]
    assert outliers.sum() == 2


def test_the_last_line_needs_no_end(tmp_path, monkeypatch):
    publish(monkeypatch, "shuttle train", SHUTTLE_TEXT[:-1])
    put(tmp_path, "shuttle.trn", SHUTTLE_TEXT[:-1])
    assert len(load_shuttle(data_home=tmp_path).X) == 3


@pytest.mark.parametrize("packing", PACKINGS)
def test_another_text_is_refused_in_every_packing(small, tmp_path, packing):
    path = put(tmp_path, "shuttle.trn", SHUTTLE_TEXT.replace(b"77", b"78"), packing)
    with pytest.raises(DataFileError, match="SHA-256") as caught:
        load_shuttle(data_home=tmp_path)
    file = sources.FILES["shuttle train"]
    for part in (repr(str(path)), file.sha256, file.url, "Delete it"):
        assert part in str(caught.value)
    assert path.exists()


@pytest.mark.parametrize("packing", [".gz", ".Z", ".zip"])
def test_a_damaged_file_is_named_with_what_to_do(small, tmp_path, packing):
    path = put(tmp_path, "shuttle.trn", SHUTTLE_TEXT, packing)
    path.write_bytes(path.read_bytes()[:4])
    with pytest.raises(DataFileError, match="Delete it") as caught:
        load_shuttle(data_home=tmp_path)
    assert str(path) in str(caught.value)


def test_a_file_of_the_publisher_with_more_in_it_is_read(small, tmp_path):
    members = {"shuttle.trn.Z": compress(SHUTTLE_TEXT), "shuttle.tst": SHUTTLE_TEXT[-20:]}
    (tmp_path / "statlog+shuttle.zip").write_bytes(archive(members))
    data = load_shuttle("all", data_home=tmp_path, download_if_missing=False)
    assert data.target.tolist() == [5, 6, 7, 7]
    assert data.paths == (tmp_path / "statlog+shuttle.zip",)


def test_a_missing_file_is_named_with_its_address_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load_skin(data_home=tmp_path, download_if_missing=False)
    file = sources.FILES["skin"]
    for part in (*file.names, str(tmp_path), file.url, "data_home", "ROBUST_KMEANS_DATA"):
        assert part in str(caught.value)


def test_the_argument_comes_before_the_environment_before_the_cache(small, tmp_path, monkeypatch):
    def found():
        return load_skin(download_if_missing=False).paths[0].parent

    put(tmp_path / "argument", "Skin_NonSkin.txt", SKIN_TEXT)
    put(tmp_path / "environment", "Skin_NonSkin.txt", SKIN_TEXT)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME")
    with pytest.raises(FileNotFoundError, match=str(tmp_path / ".cache" / "robust-kmeans")):
        found()
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert sources.data_folder() == tmp_path / ".cache" / "robust-kmeans"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    put(tmp_path / "cache" / "robust-kmeans", "Skin_NonSkin.txt", SKIN_TEXT)
    assert found() == tmp_path / "cache" / "robust-kmeans"
    monkeypatch.setenv("ROBUST_KMEANS_DATA", str(tmp_path / "environment"))
    assert found() == tmp_path / "environment"
    data = load_skin(data_home="~/argument", download_if_missing=False)
    assert data.paths[0].parent == tmp_path / "argument"


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="name the folder"):
        load_skin(data_home=tmp_path / "file")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1 2 3 4 x 6 7 8 9 1", "'x'"),
        (b"1 2 3 4 5 6 7 8 9", "9 were found"),
        (b"1 2 3 4 5 6 7 8 9 10 1", "11 were found"),
        (b"", "it is empty"),
        (b"1 2 nan 4 5 6 7 8 9 1", "A3 is not a finite number"),
        (b"1 2 3 4 5 6 7 8 9 one", "'one'"),
        (b"1 2 3 4 5 6 7 8 \xe9 1", "'é'"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("block_size", [1, 45, 1000])
def test_a_line_that_is_no_row_is_named(tmp_path, monkeypatch, line, reason, before, block_size):
    row = b"1 2 3 4 5 6 7 8 9 1\n"
    text = row * before + line + b"\n" + row
    monkeypatch.setattr(packed, "BLOCK_SIZE", block_size)
    publish(monkeypatch, "shuttle train", text)
    path = put(tmp_path, "shuttle.trn", text)
    with pytest.raises(DataFileError, match=f"line {before + 1}: .*{reason}") as caught:
        load_shuttle(data_home=tmp_path)
    assert str(path) in str(caught.value)


def test_a_class_with_too_long_a_name_is_refused(tmp_path, monkeypatch):
    text = CONNECTION.format(duration=0, rate=0, label="a_longer_overflow.").encode()
    publish(monkeypatch, "kddcup 10 percent", text)
    put(tmp_path, "kddcup.data_10_percent", text)
    with pytest.raises(DataFileError, match=r"line 1: .* more than 16 letters"):
        load_kddcup(data_home=tmp_path)


@pytest.mark.parametrize(("n_rows", "reason"), [(2, "more than the 2 lines"), (4, "has 3 lines")])
def test_the_number_of_lines_is_checked(small, tmp_path, monkeypatch, n_rows, reason):
    file = publish(monkeypatch, "shuttle train", SHUTTLE_TEXT)
    changed = {**vars(file), "n_rows": n_rows}
    monkeypatch.setitem(sources.FILES, "shuttle train", sources.Published(**changed))
    put(tmp_path, "shuttle.trn", SHUTTLE_TEXT)
    with pytest.raises(DataFileError, match=reason):
        load_shuttle(data_home=tmp_path)


@pytest.mark.parametrize("load", [load_shuttle, load_kddcup])
def test_unknown_subsets_are_refused(load):
    with pytest.raises(ValueError, match="subset='half' must be one of"):
        load("half")


def test_other_dtypes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be float32 or float64"):
        load_skin(data_home=tmp_path, dtype=np.int32)


PUBLISHED = Path(
    os.environ.get("ROBUST_KMEANS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def published(key):
    """Skip a test that needs a published file, where there is none."""
    names = sources.FILES[key].names
    return pytest.mark.skipif(
        not any((PUBLISHED / name).is_file() for name in names),
        reason=f"{names[0]} is neither in ROBUST_KMEANS_DATA nor in shared/data beside the project",
    )


@pytest.mark.parametrize(
    ("subset", "sizes"),
    [
        pytest.param(
            "train", [34108, 37, 132, 6748, 2458, 6, 11], marks=published("shuttle train")
        ),
        pytest.param("test", [11478, 13, 39, 2155, 809, 4, 2], marks=published("shuttle test")),
    ],
)
def test_shuttle_has_the_published_classes(subset, sizes):
    data = load_shuttle(subset, data_home=PUBLISHED, download_if_missing=False)
    assert np.bincount(data.target)[1:].tolist() == sizes
    assert data.outliers.sum() == sizes[5] + sizes[6]


@published("skin")
def test_skin_has_the_published_classes():
    data = load_skin(data_home=PUBLISHED, download_if_missing=False)
    assert np.bincount(data.target).tolist() == [0, 50_859, 194_198]
    assert len(np.unique(data.X, axis=0)) == 51_433


@published("kddcup 10 percent")
def test_kddcup_has_the_published_classes_and_is_standardised():
    data = load_kddcup(data_home=PUBLISHED, download_if_missing=False, dtype=np.float32)
    names, sizes = np.unique(data.target, return_counts=True)
    found = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    assert len(found) == 23
    assert [found[name] for name in ("smurf", "neptune", "normal")] == [280_790, 107_201, 97_278]
    assert data.outliers.sum() == 8_752
    assert data.X.shape == (494_021, 34)
    deviation = data.X.std(axis=0, dtype=np.float64)
    assert set(np.round(deviation, 4)) == {0.0, 1.0}
    np.testing.assert_allclose(data.X.mean(axis=0, dtype=np.float64), 0, atol=1e-6)


@published("kddcup full")
def test_the_full_kddcup_has_the_published_classes():
    data = load_kddcup(
        "full", data_home=PUBLISHED, download_if_missing=False, standardise=False, dtype=np.float32
    )
    sizes = [(data.target == name).sum() for name in ("smurf", "neptune", "normal")]
    assert sizes == [2_807_886, 1_072_017, 972_781]
    assert data.outliers.sum() == 45_747
