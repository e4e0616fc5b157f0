"""Data files of each format: what is special about it, and its faults."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from robust_kmeans.sources import DatasetError, from_arrow, from_memmap, open_dataset
from tests.source_files import as_table, numbered_rows, write, write_parts

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


# Feather


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_batches_are_pieces(tmp_path, compression):
    rows = np.random.RandomState(0).standard_normal((1000, 3))
    pa.feather.write_feather(as_table(rows), tmp_path / "a.arrow", compression, chunksize=300)
    dataset = open_dataset(tmp_path / "a.arrow")
    np.testing.assert_array_equal(np.concatenate(list(dataset.scan([0, 299, 700, 1000]))), rows)
    assert dataset.where(601).endswith("a.arrow, batch 2, its row 1")


def test_a_damaged_batch_is_told_when_it_is_read(tmp_path):
    rows = np.random.RandomState(0).standard_normal((100_000, 2)).round(1)
    path = tmp_path / "rows.feather"
    pa.feather.write_feather(as_table(rows), path, "lz4", chunksize=50_000)
    content = bytearray(path.read_bytes())
    # The second column of the second batch is the last thing before the footer.
    middle = len(content) * 9 // 10
    content[middle : middle + 1000] = b"\xff" * 1000
    path.write_bytes(content)
    dataset = open_dataset(path)
    np.testing.assert_array_equal(dataset.read(0, 50_000), rows[:50_000])
    with pytest.raises(DatasetError, match=r"rows\.feather, batch 1 is damaged"):
        dataset.read(0, 50_001)


# Text


def write_text(path, text):
    path.write_bytes(text.encode())
    return path


def test_pieces_of_text_end_where_lines_end(tmp_path, monkeypatch):
    monkeypatch.setattr("robust_kmeans.sources.text.PIECE_BYTES", 50)
    rows = numbered_rows(200, dtype=np.float64)
    dataset = open_dataset(write(tmp_path / "rows.csv", rows))
    assert len(dataset.files[0].starts) > 20
    np.testing.assert_array_equal(np.concatenate(list(dataset.scan([0, 77, 200]))), rows)
    np.testing.assert_array_equal(dataset.take(np.array([5, 6, 150])), rows[[5, 6, 150]])
    assert dataset.where(150).endswith("rows.csv, line 152")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["a,b", "1,2", "3,4"], 3),
        (["a,b", "1,2", "3,4", ""], 3),
        (["", "a,b", "", "1,2", "", "", "3,4", "", ""], 7),
        (["1,2", "3,4", ""], 2),
        (['"a","b"', '"1","2"', "3,4"], 3),
        (["\ufeffa,b", " 1 ,2", "3.0,4e0"], 3),
        (["\ufeff1,2", "3,4"], 2),
    ],
)
def test_blank_lines_are_no_rows(tmp_path, monkeypatch, end, lines, line):
    monkeypatch.setattr("robust_kmeans.sources.text.PIECE_BYTES", 5)
    dataset = open_dataset(write_text(tmp_path / "rows.csv", end.join(lines)))
    np.testing.assert_array_equal(dataset.read(0, dataset.n_rows), [[1, 2], [3, 4]])
    assert dataset.feature_names == (["a", "b"] if "a" in "".join(lines) else ["0", "1"])
    assert dataset.where(1).endswith(f"rows.csv, line {line}")


def test_tabs_separate_where_the_name_says_so(tmp_path):
    for name in ("rows.tsv", "rows.TXT"):
        dataset = open_dataset(write_text(tmp_path / name, "a\tb\n1\t2\n"))
        np.testing.assert_array_equal(dataset.read(0, 1), [[1, 2]])


def test_missing_values_and_truths_are_numbers_in_text(tmp_path):
    text = "a,b,c\n1,true,\n,false,\nNA,true,nan\n"
    dataset = open_dataset(write_text(tmp_path / "rows.csv", text))
    expected = [[1, 1, np.nan], [np.nan, 0, np.nan], [np.nan, 1, np.nan]]
    np.testing.assert_array_equal(dataset.read(0, 3), expected)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("7,x", r"line 22, column 'b' cannot be read: .*invalid value 'x'"),
        ("7", r"line 22 cannot be read: Expected 2 columns, got 1: 7"),
    ],
)
def test_lines_that_cannot_be_read_are_told(tmp_path, monkeypatch, last, message):
    monkeypatch.setattr("robust_kmeans.sources.text.PIECE_BYTES", 20)
    monkeypatch.setattr("robust_kmeans.sources.text.SAMPLE_BYTES", 20)
    text = "a,b\n" + 20 * "1,2\n" + f"{last}\n"
    dataset = open_dataset(write_text(tmp_path / "rows.csv", text))
    np.testing.assert_array_equal(dataset.read(0, 10), np.tile([1, 2], (10, 1)))
    with pytest.raises(DatasetError, match=rf"rows\.csv, {message}"):
        dataset.read(0, dataset.n_rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows.csv is empty"),
        ("\n\n", "rows.csv is empty"),
        ("a,b\n1,x\n", r"rows.csv: column 'b' is string, not numeric\..* columns=\['a'\]"),
        ("a,b\n1,2,3\n", r"rows.csv cannot be read as a table of 2 columns.*got 3"),
        ("a,a\n1,2\n", r"Column 'a' is twice in .*rows.csv"),
    ],
)
def test_text_that_is_no_table_of_numbers_is_refused(tmp_path, text, message):
    with pytest.raises(DatasetError, match=message):
        open_dataset(write_text(tmp_path / "rows.csv", text))


def test_line_breaks_within_values_are_told(tmp_path):
    path = write_text(tmp_path / "rows.csv", 'a,b\n1,"x\ny"\n2,z\n')
    dataset = open_dataset(path, columns=["a"])
    with pytest.raises(DatasetError, match=r"rows\.csv has line breaks .* from line 2 on"):
        dataset.read(0, 1)


def test_text_of_another_encoding_is_told(tmp_path):
    (tmp_path / "rows.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(DatasetError, match=r"rows\.csv is not UTF-8 text"):
        open_dataset(tmp_path / "rows.csv")


def test_compressed_text_is_refused(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"rows\.csv\.gz has no known format; .* Unpack it"):
        open_dataset(tmp_path / "rows.csv.gz")


# pyarrow


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_a_pyarrow_data_set_gives_the_rows_of_its_files(kind, tmp_path):
    rows = numbered_rows(20, dtype=np.float64)
    write_parts(tmp_path, kind, rows, [7])
    dataset = from_arrow(pa.dataset.dataset(tmp_path, format=kind))
    np.testing.assert_array_equal(dataset.read(0, 20), rows)
    assert dataset.feature_names == ["f0", "f1", "f2"]


def test_a_pyarrow_data_set_tells_its_delimiter(tmp_path):
    path = write_text(tmp_path / "rows.dat", "a;b\n1;2\n")
    options = pa.csv.ParseOptions(delimiter=";")
    form = pa.dataset.CsvFileFormat(parse_options=options)
    dataset = from_arrow(pa.dataset.dataset(path, format=form))
    np.testing.assert_array_equal(dataset.read(0, 1), [[1, 2]])


def test_pyarrow_data_sets_that_are_more_than_files_are_refused(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "part": [1, 2]})
    pa.dataset.write_dataset(table, tmp_path, format="parquet", partitioning=["part"])
    partitioned = pa.dataset.dataset(tmp_path, partitioning=["part"])
    plain = pa.dataset.dataset(tmp_path / "1")
    union = pa.dataset.dataset([plain, plain])
    filtered = plain.filter(pa.dataset.field("a") > 1)
    for unusable in (partitioned, union, filtered, pa.dataset.dataset(table)):
        with pytest.raises(ValueError, match=r"without partitions|Remove the filtering"):
            from_arrow(unusable)
    assert from_arrow(plain).n_rows == 1


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
