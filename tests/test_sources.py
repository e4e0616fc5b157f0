"""Data sets on disk: the same rows as in memory, in every format, and faults that name the file."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.sources import DatasetError, open_dataset
from tests.source_files import numbered_rows, stored, write, write_parts
from tests.strategies import DTYPES

FORMATS = ("npy", "parquet", "feather", "csv")


@pytest.fixture(params=FORMATS)
def kind(request):
    return request.param


@st.composite
def cuts(draw, n_rows):
    """Ascending numbers from 0 to n_rows, some of them equal."""
    return sorted(draw(st.lists(st.integers(0, n_rows), max_size=4)))


@given(data=st.data(), n_rows=st.integers(1, 40), dtype=st.sampled_from(DTYPES))
def test_files_give_the_rows_in_order(kind, tmp_path_factory, data, n_rows, dtype):
    dtype = stored(kind, dtype)
    rows = numbered_rows(n_rows, data.draw(st.integers(1, 5)), dtype)
    folder = tmp_path_factory.mktemp("data")
    write_parts(folder, kind, rows, data.draw(cuts(n_rows)), data.draw(st.integers(1, 9)))
    dataset = open_dataset(folder)
    assert (dataset.n_rows, dataset.n_features, dataset.dtype) == (*rows.shape, dtype)

    bounds = data.draw(cuts(n_rows).filter(len))
    chunks = list(dataset.scan(bounds))
    assert all(chunk.dtype == dtype and chunk.flags.c_contiguous for chunk in chunks)
    expected = [rows[a:b] for a, b in pairwise(bounds)]
    assert list(map(np.ndarray.tolist, chunks)) == list(map(np.ndarray.tolist, expected))

    wanted = np.array(data.draw(st.lists(st.integers(0, n_rows - 1), unique=True)), np.int64)
    wanted.sort()
    np.testing.assert_array_equal(dataset.take(wanted), rows[wanted], strict=True)
    np.testing.assert_array_equal(dataset.read(bounds[0], bounds[-1]), rows[bounds[0] : bounds[-1]])


def test_a_pickled_data_set_reads_its_files_again(kind, tmp_path):
    rows = numbered_rows(20)
    write_parts(tmp_path, kind, rows, [7])
    dataset = open_dataset(tmp_path)
    dataset.read(0, 20)
    travelling = pickle.dumps(dataset)
    again = pickle.loads(travelling)
    np.testing.assert_array_equal(again.read(3, 18), rows[3:18])
    assert repr(again) == repr(dataset)


def test_what_travels_does_not_grow_with_the_rows(kind, tmp_path):
    sizes = [
        len(pickle.dumps(open_dataset(write(tmp_path / f"{n}.{kind}", numbered_rows(n), n))))
        for n in (10, 10_000)
    ]
    assert sizes[1] < sizes[0] + 100


def test_repr_tells_the_shape_the_dtype_and_the_files(kind, tmp_path):
    write_parts(tmp_path, kind, numbered_rows(20), [7])
    text = repr(open_dataset(tmp_path))
    assert f"20 rows of 3 {stored(kind, np.float32)} in 2 files" in text
    assert f"part-0.{kind}" in text
    assert f"part-1.{kind}" in text


def test_threads_may_read_at_once(kind, tmp_path):
    rows = numbered_rows(2000)
    dataset = open_dataset(write_parts(tmp_path, kind, rows, [700], piece=300))
    starts = range(0, 1900, 50)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda start: dataset.read(start, start + 100), starts))
        few = list(pool.map(lambda start: dataset.take(np.array([start, start + 99])), starts))
    for start, run, pair in zip(starts, runs, few, strict=True):
        np.testing.assert_array_equal(run, rows[start : start + 100])
        np.testing.assert_array_equal(pair, rows[[start, start + 99]])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of open files")
def test_a_scan_that_is_given_up_leaves_no_file_and_no_thread(kind, tmp_path):
    dataset = open_dataset(write_parts(tmp_path, kind, numbered_rows(4000), [900], piece=300))
    # pyarrow starts its own threads once.
    deque(dataset.scan(range(0, 4001, 100)), maxlen=0)

    def open_files():
        gc.collect()
        return sum("part-" in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())

    threads = threading.active_count()
    scan = dataset.scan(range(0, 4001, 100))
    next(scan)
    scan.close()
    assert open_files() == 0
    assert threading.active_count() == threads


def test_parts_are_joined_in_natural_order(kind, tmp_path):
    rows = numbered_rows(12, 1)
    write_parts(tmp_path, kind, rows, range(1, 12))
    np.testing.assert_array_equal(open_dataset(tmp_path).read(0, 12), rows)
    pattern = open_dataset(str(tmp_path / f"part-1*.{kind}"))
    np.testing.assert_array_equal(pattern.read(0, 3), rows[[1, 10, 11]])


def test_files_without_rows_are_survived(kind, tmp_path):
    rows = numbered_rows(9)
    write_parts(tmp_path, kind, rows, [0, 4, 4, 9])
    dataset = open_dataset(tmp_path)
    np.testing.assert_array_equal(dataset.read(0, 9), rows)
    np.testing.assert_array_equal(dataset.take(np.array([3, 4])), rows[3:5])
    assert "part-3" in dataset.where(4)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float16", "float64"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        ("bool", "float64"),
    ],
)
def test_numbers_of_every_kind_become_floats(kind, tmp_path, dtype, expected):
    rows = (numbered_rows(30) % 2).astype(dtype)
    expected = stored(kind, expected)
    if (kind, dtype) == ("csv", "float16"):
        pytest.skip("pyarrow writes no float16 as text")
    dataset = open_dataset(write(tmp_path / f"rows.{kind}", rows))
    assert dataset.dtype == expected
    np.testing.assert_array_equal(dataset.read(0, 30), rows.astype(expected), strict=True)


def test_files_of_different_dtypes_have_a_common_one(kind, tmp_path):
    rows = numbered_rows(10)
    for i, dtype in enumerate(("float32", "int64", "float64")):
        write(tmp_path / f"part-{i}.{kind}", rows.astype(dtype))
    dataset = open_dataset(tmp_path)
    assert dataset.dtype == np.float64
    np.testing.assert_array_equal(dataset.read(0, 30), np.tile(rows, (3, 1)))


def test_columns_are_chosen_in_their_order(kind, tmp_path):
    rows = numbered_rows(10, 4)
    columns = [2, 0] if kind == "npy" else ["f2", "f0"]
    dataset = open_dataset(write(tmp_path / f"rows.{kind}", rows), columns=columns)
    assert dataset.feature_names == (None if kind == "npy" else columns)
    np.testing.assert_array_equal(
        dataset.read(0, 10), rows[:, [2, 0]].astype(stored(kind, np.float32)), strict=True
    )
    np.testing.assert_array_equal(dataset.take(np.array([1, 8])), rows[[1, 8]][:, [2, 0]])


# Faults


@pytest.mark.parametrize("columns", [["x"], [], ["f0", "f0"], [7], [0, 0], "f0"])
def test_columns_that_cannot_be_chosen_are_told(kind, tmp_path, columns):
    with pytest.raises(ValueError, match=r"[Cc]olumn"):
        open_dataset(write(tmp_path / f"rows.{kind}", numbered_rows(3)), columns=columns)


def test_a_file_that_was_changed_is_not_read(kind, tmp_path):
    path = write(tmp_path / f"rows.{kind}", numbered_rows(10))
    dataset = open_dataset(path)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10))
    message = rf"rows\.{kind} was changed after the data set was opened"
    with pytest.raises(DatasetError, match=message):
        dataset.read(0, 5)
    with pytest.raises(DatasetError, match=message):
        dataset.take(np.array([2]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    scan = dataset.scan([0, 5, 10])
    next(scan)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10))
    with pytest.raises(DatasetError, match=message):
        next(scan)
    path.unlink()
    with pytest.raises(DatasetError, match="cannot be read any more: No such file"):
        next(dataset.scan([0, 5]))


def test_files_that_do_not_exist_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file matches '.*\*\.parquet'"):
        open_dataset(tmp_path / "*.parquet")
    with pytest.raises(FileNotFoundError, match=r"has no file whose name ends in \.npy, \.parquet"):
        open_dataset(tmp_path)


def test_mixed_and_unknown_formats_are_refused(tmp_path):
    write(tmp_path / "a.npy", numbered_rows(3))
    write(tmp_path / "b.parquet", numbered_rows(3))
    with pytest.raises(ValueError, match=r"several formats cannot be joined: .*a.npy and .*b.parq"):
        open_dataset(tmp_path)
    (tmp_path / "c.xlsx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"c.xlsx has no known format"):
        open_dataset(tmp_path / "c.xlsx")


def test_other_files_of_a_folder_do_not_matter(tmp_path):
    write(tmp_path / "a.npy", numbered_rows(3))
    for name in ("_SUCCESS", ".hidden.npy", "_metadata.parquet", "notes.md"):
        (tmp_path / name).write_bytes(b"")
    assert open_dataset(tmp_path).n_rows == 3


@pytest.mark.parametrize("kind", ["npy", "parquet", "feather"])
def test_truncated_files_are_told_at_opening(kind, tmp_path):
    path = write(tmp_path / f"rows.{kind}", numbered_rows(100))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DatasetError, match=rf"rows\.{kind} is truncated"):
        open_dataset(path)
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match=rf"rows\.{kind} is .*damaged or not a"):
        open_dataset(path)
