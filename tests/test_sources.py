"""Data sets on disk: the same rows as in memory, in every format, and faults that name the file."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.sources import DatasetError, from_memmap, open_dataset
from tests.strategies import DTYPES

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

FORMATS = ("npy", "parquet")


def numbered_rows(n_rows, n_features=3, dtype=np.float32):
    """No two values are equal, and all are exact in either dtype."""
    return np.arange(n_rows * n_features, dtype=dtype).reshape(n_rows, n_features)


def as_table(rows):
    names = [f"f{j}" for j in range(rows.shape[1])]
    return pa.table(dict(zip(names, map(np.ascontiguousarray, rows.T), strict=True)))


def write(path, rows, piece=4):
    """One file, in pieces of so many rows where its format has any."""
    match path.suffix:
        case ".npy":
            np.save(path, rows)
        case ".parquet":
            pq.write_table(as_table(rows), path, row_group_size=piece)
    return path


def write_parts(folder, kind, rows, cuts, piece=4):
    edges = [0, *cuts, len(rows)]
    for i, (start, stop) in enumerate(pairwise(edges)):
        write(folder / f"part-{i}.{kind}", rows[start:stop], piece)
    return folder


@pytest.fixture(params=FORMATS)
def kind(request):
    return request.param


@st.composite
def cuts(draw, n_rows):
    """Ascending numbers from 0 to n_rows, some of them equal."""
    return sorted(draw(st.lists(st.integers(0, n_rows), max_size=4)))


@given(data=st.data(), n_rows=st.integers(1, 40), dtype=st.sampled_from(DTYPES))
def test_files_give_the_rows_in_order(kind, tmp_path_factory, data, n_rows, dtype):
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
    assert "20 rows of 3 float32 in 2 files" in text
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
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        ("bool", "float64"),
    ],
)
def test_numbers_of_every_kind_become_floats(kind, tmp_path, dtype, expected):
    rows = (numbered_rows(30) % 2).astype(dtype)
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
    np.testing.assert_array_equal(dataset.read(0, 10), rows[:, [2, 0]], strict=True)
    np.testing.assert_array_equal(dataset.take(np.array([1, 8])), rows[[1, 8]][:, [2, 0]])


# Faults


@pytest.mark.parametrize("columns", [["x"], [], ["f0", "f0"], [7], [0, 0]])
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


def test_truncated_files_are_told_at_opening(kind, tmp_path):
    path = write(tmp_path / f"rows.{kind}", numbered_rows(100))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DatasetError, match=rf"rows\.{kind} is truncated"):
        open_dataset(path)
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match=rf"rows\.{kind} is .*damaged or not a"):
        open_dataset(path)


# .npy


@pytest.mark.parametrize("dtype", [">f4", "<f8", ">i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_every_order_give_the_same_rows(tmp_path, dtype, order):
    rows = np.asarray(numbered_rows(5000, 7) % 1000, dtype=dtype, order=order)
    np.save(tmp_path / "rows.npy", rows)
    dataset = open_dataset(tmp_path / "rows.npy")
    expected = np.float32 if dtype == ">f4" else np.float64
    np.testing.assert_array_equal(
        np.concatenate(list(dataset.scan([0, 11, 4990]))), rows[:4990].astype(expected), strict=True
    )
    np.testing.assert_array_equal(dataset.take(np.array([3, 4999])), rows[[3, 4999]])


def test_rows_that_lie_as_they_are_wanted_are_not_copied(tmp_path):
    dataset = open_dataset(write(tmp_path / "rows.npy", numbered_rows(100)))
    chunk = dataset.read(10, 90)
    assert not chunk.flags.owndata
    assert not chunk.flags.writeable


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[object()]]), "holds object; expected an array of numbers"),
        (np.array([["a", "b"]]), "holds <U1; expected an array of numbers"),
        (np.array([[1j]]), "holds complex128"),
        (np.array([("a", 1)], "U1, i4"), "holds .*; expected an array of numbers"),
        (np.arange(3.0), r"has shape \(3,\); expected two dimensions"),
        (np.array(3.0), r"has shape \(\); expected two dimensions"),
        (np.zeros((2, 3, 4)), r"has shape \(2, 3, 4\); expected two dimensions"),
    ],
)
def test_arrays_that_are_no_table_of_numbers_are_refused(tmp_path, array, message):
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(DatasetError, match=rf"rows\.npy {message}"):
        open_dataset(tmp_path / "rows.npy")


def test_arrays_of_different_widths_are_not_joined(tmp_path):
    write(tmp_path / "a.npy", numbered_rows(3, 2))
    write(tmp_path / "b.npy", numbered_rows(3, 4))
    with pytest.raises(DatasetError, match=r"b\.npy has 4 columns, .*a\.npy has 2"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0, 3, 5000])
@pytest.mark.parametrize(
    "part", [np.s_[:], np.s_[5:20], np.s_[5:20:3], np.s_[:, 1:3], np.s_[2:, ::2]]
)
def test_a_memory_map_and_its_slices_are_read_from_their_file(tmp_path, order, offset, part):
    rows = np.memmap(tmp_path / "rows", np.float32, "w+", offset, (30, 4), order)
    rows[:] = numbered_rows(30, 4)
    dataset = from_memmap(rows[part])
    assert dataset.n_rows == len(rows[part])
    np.testing.assert_array_equal(
        np.concatenate(list(dataset.scan([0, 2, dataset.n_rows]))), rows[part]
    )
    assert dataset.where(1) == f"{tmp_path / 'rows'}, row 1"


def test_memory_maps_without_a_file_of_their_own_are_refused(tmp_path):
    rows = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(5, 4))
    changed = np.memmap(tmp_path / "rows", np.float32, "c", shape=(5, 4))
    for unusable in (rows + 1, rows[[0, 1]], changed):
        with pytest.raises(ValueError, match="not of a file as it is on disk"):
            from_memmap(unusable)
    with pytest.raises(ValueError, match="reversed"):
        from_memmap(rows[::-1])
    with pytest.raises(DatasetError, match="two dimensions"):
        from_memmap(rows[0])


# Parquet


def damage(path, row_group, column):
    """Overwrite the bytes of one column of a row group."""
    chunk = pq.ParquetFile(path).metadata.row_group(row_group).column(column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)


def test_a_damaged_page_is_told_when_it_is_read(tmp_path):
    path = write(tmp_path / "rows.parquet", numbered_rows(30), piece=10)
    damage(path, row_group=1, column=2)
    dataset = open_dataset(path)
    scan = dataset.scan([0, 10, 20, 30])
    np.testing.assert_array_equal(next(scan), numbered_rows(10))
    message = r"rows\.parquet, row group 1 is damaged"
    with pytest.raises(DatasetError, match=message):
        next(scan)
    with pytest.raises(DatasetError, match=message):
        dataset.take(np.array([1, 15]))
    np.testing.assert_array_equal(dataset.take(np.array([25])), numbered_rows(30)[[25]])
    undamaged = open_dataset(path, columns=["f0", "f1"])
    np.testing.assert_array_equal(undamaged.read(0, 30), numbered_rows(30)[:, :2])


def test_empty_row_groups_are_survived(tmp_path):
    rows = numbered_rows(10)
    table = as_table(rows)
    with pq.ParquetWriter(tmp_path / "rows.parquet", table.schema) as writer:
        for start, stop in ((0, 0), (0, 4), (4, 4), (4, 10), (10, 10)):
            writer.write_table(table.slice(start, stop - start))
    dataset = open_dataset(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(dataset.read(0, 10), rows)
    assert dataset.where(5).endswith("rows.parquet, row group 3, its row 1")


def test_large_row_groups_are_streamed(tmp_path, monkeypatch):
    rows = np.random.RandomState(0).standard_normal((5000, 3)).astype(np.float32)
    path = write(tmp_path / "rows.parquet", rows, piece=5000)
    monkeypatch.setattr("robust_kmeans.sources.parquet.BUFFERED_BYTES", 1000)
    monkeypatch.setattr("robust_kmeans.sources.parquet.BATCH_ROWS", (100, 100))
    dataset = open_dataset(path)
    np.testing.assert_array_equal(np.concatenate(list(dataset.scan([0, 130, 5000]))), rows)


def table_with(**columns):
    return pa.table({"a": pa.array([1.0, 2.0], pa.float32()), **columns})


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([None, 2], pa.float32()), [np.nan, 2]),
        (pa.array([None, 2], pa.int32()), [np.nan, 2]),
        (pa.array([None, True]), [np.nan, 1]),
        (pa.array([None, None]), [np.nan, np.nan]),
        (pa.array([3, 4]).dictionary_encode(), [3, 4]),
        (pa.array([None, 1], pa.decimal128(5, 2)), [np.nan, 1]),
        (pa.array([1, None], pa.float16()), [1, np.nan]),
    ],
)
def test_missing_values_are_nan(tmp_path, column, expected):
    pq.write_table(table_with(b=column), tmp_path / "rows.parquet")
    dataset = open_dataset(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(dataset.read(0, 2)[:, 1], expected)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array(["x", "y"]), "string"),
        (pa.array([1, 2], pa.timestamp("us")), r"timestamp\[us\]"),
        (pa.array([1, 2], pa.date32()), "date32"),
        (pa.array([{"c": 1}, {"c": 2}]), "struct"),
    ],
)
def test_columns_that_are_no_numbers_are_named(tmp_path, column, kind):
    pq.write_table(table_with(b=column), tmp_path / "rows.parquet")
    message = rf"rows\.parquet: column 'b' is {kind}.*, not numeric\. .* columns=\['a'\]"
    with pytest.raises(DatasetError, match=message):
        open_dataset(tmp_path / "rows.parquet")
    assert open_dataset(tmp_path / "rows.parquet", columns=["a"]).n_features == 1


def test_a_column_missing_in_one_file_is_told(tmp_path):
    pq.write_table(table_with(b=[1, 2]), tmp_path / "part-1.parquet")
    pq.write_table(table_with(), tmp_path / "part-2.parquet")
    with pytest.raises(DatasetError, match=r"Column 'b' is not in .*part-2\.parquet, whose"):
        open_dataset(tmp_path)
    (tmp_path / "part-2.parquet").rename(tmp_path / "part-0.parquet")
    with pytest.raises(DatasetError, match=r"part-1\.parquet has a column 'b' that .*part-0"):
        open_dataset(tmp_path)
    assert open_dataset(tmp_path, columns=["a"]).n_rows == 4


def test_columns_may_be_in_another_order_in_each_file(tmp_path):
    table = table_with(b=[3.0, 4.0])
    pq.write_table(table, tmp_path / "part-1.parquet")
    pq.write_table(table.select(["b", "a"]), tmp_path / "part-2.parquet")
    np.testing.assert_array_equal(
        open_dataset(tmp_path).read(0, 4), [[1, 3], [2, 4], [1, 3], [2, 4]]
    )


def test_names_with_dots_are_names(tmp_path):
    table = pa.table({"a.b": [1.0], "a": [2.0], "a.b.c": [3.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    dataset = open_dataset(tmp_path / "rows.parquet", columns=["a.b.c", "a"])
    np.testing.assert_array_equal(dataset.read(0, 1), [[3, 2]])


def test_the_index_that_pandas_wrote_is_no_column(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 9])
    frame.to_parquet(tmp_path / "rows.parquet")
    assert open_dataset(tmp_path / "rows.parquet").feature_names == ["a"]


# pyarrow


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_are_read_without_pyarrow_and_tables_say_what_to_install(tmp_path):
    write(tmp_path / "a.npy", numbered_rows(3))
    write(tmp_path / "b.parquet", numbered_rows(3))
    said = run_python(
        f"import sys; sys.modules['pyarrow'] = None\n"
        f"from robust_kmeans.sources import open_dataset\n"
        f"print(open_dataset({str(tmp_path / 'a.npy')!r}).n_rows)\n"
        f"try: open_dataset({str(tmp_path / 'b.parquet')!r})\n"
        f"except ImportError as error: print(error)"
    )
    assert said.splitlines()[0] == "3"
    assert "pip install 'robust-kmeans[disk]'" in said
