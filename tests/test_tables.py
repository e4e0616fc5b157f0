from __future__ import annotations

import csv
import gzip
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans.cli.sources import format_of
from robust_kmeans.cli.tables import Keep, read_table, with_columns, write_table
from robust_kmeans.cli.terminal import UserError

# What a spreadsheet may hold: quotes, separators, line ends, letters of any script.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")) | st.sampled_from("\",;\n'"),
    max_size=8,
)
NAMES = st.lists(
    TEXT.map(str.strip).filter(lambda name: any(c.isalpha() for c in name)),
    min_size=1,
    max_size=4,
    unique=True,
).filter(lambda names: any(n.lower() not in ("inf", "nan", "infinity") for n in names))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def text_tables(draw):
    """A header, columns of numbers or of text, and how they are written."""
    names = draw(NAMES)
    numeric = [draw(st.booleans()) for _ in names]
    numeric[0] = True
    n_rows = draw(st.integers(1, 5))
    rows = [[draw(NUMBERS if is_number else TEXT) for is_number in numeric] for _ in range(n_rows)]
    style = {
        "lineterminator": draw(st.sampled_from(["\n", "\r\n"])),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "delimiter": draw(st.sampled_from([",", ";", "\t", "|"])),
    }
    return names, numeric, rows, style, draw(st.booleans()), draw(st.integers(0, 2))


@given(text_tables())
@settings(max_examples=150)
def test_text_comes_back_as_it_was_written(tmp_path_factory, case):
    names, numeric, rows, style, has_mark, n_blank = case
    path = tmp_path_factory.mktemp("text") / "table.csv"
    with path.open("w", encoding="utf-8-sig" if has_mark else "utf-8", newline="") as file:
        writer = csv.writer(file, **style)
        file.write(style["lineterminator"] * n_blank)
        writer.writerow(names)
        for row in rows:
            writer.writerow([repr(v) if isinstance(v, float) else v for v in row])
            file.write(style["lineterminator"] * n_blank)
    chosen = [name for name, is_number in zip(names, numeric, strict=True) if is_number]
    table = read_table(
        path, columns=chosen, delimiter=style["delimiter"], header=True, keep=Keep.TYPED
    )
    expected = [[v for v in row if isinstance(v, float)] for row in rows]
    assert table.names == chosen
    np.testing.assert_array_equal(table.rows, expected)
    for name, is_number, column in zip(names, numeric, zip(*rows, strict=True), strict=True):
        if not is_number:
            assert table.everything[name].to_pylist() == list(column)


@given(st.binary(max_size=60))
@settings(max_examples=200)
def test_any_bytes_give_a_table_or_one_clear_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "table.csv"
    path.write_bytes(content)
    said = None
    try:
        table = read_table(path)
    except UserError as error:
        said = str(error)
    if said is None:
        assert table.rows.shape == (len(table.numbers), len(table.names))
        assert np.isfinite(table.rows).all()
    else:
        assert said.startswith(str(path))


@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), min_size=1, max_size=4))
@settings(max_examples=50)
def test_what_is_written_can_be_read_again(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("again")
    names = ["x", 'odd "name", é']
    table = pa.table({"x": np.arange(len(texts), dtype=float), names[1]: [t[0] for t in texts]})
    for ending in (".csv", ".tsv", ".parquet", ".feather"):
        path = folder / f"table{ending}"
        write_table(table, path, ending)
        again = read_table(path, columns=["x"], keep=Keep.TYPED)
        assert again.everything[names[1]].to_pylist() == table[names[1]].to_pylist()
        np.testing.assert_array_equal(again.rows[:, 0], table["x"].to_numpy())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,2\n", [[1, 2]]),
        ("a,b\n1,2", [[1, 2]]),
        ("\n\na,b\n1,2\n\n3,4\n\n", [[1, 2], [3, 4]]),
        (" a , b \n +1 , 2e3 \n", [[1, 2000]]),
        ('"a","b"\r\n"1","2"\r\n', [[1, 2]]),
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("1,2", [[1, 2]]),
    ],
)
def test_small_texts(tmp_path, content, expected):
    path = tmp_path / "small.csv"
    path.write_bytes(content.encode())
    np.testing.assert_array_equal(read_table(path).rows, expected)


def test_a_first_line_of_numbers_is_no_header(tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("1,2\n3,4\n")
    assert read_table(path).names == ["column_1", "column_2"]


def test_a_header_of_numbers_can_be_insisted_on(tmp_path):
    path = tmp_path / "years.csv"
    path.write_text("2019,2020\n3,4\n")
    guessed = read_table(path)
    assert len(guessed.rows) == 2
    assert "holds only numbers" in guessed.notes[0]
    told = read_table(path, header=True)
    assert (told.names, told.rows.tolist(), told.notes) == (["2019", "2020"], [[3, 4]], ())
    assert read_table(path, header=False).notes == ()


def test_verbatim_text_keeps_every_character(tmp_path):
    path = tmp_path / "ids.csv"
    text = 'id,x,note\n9007199254740993,2.50,"a, b"\n007,1e3,NA\n'
    path.write_text(text)
    table = read_table(path, columns="id,x", keep=Keep.VERBATIM)
    assert table.rows.tolist() == [[9007199254740993.0, 2.5], [7, 1000]]
    write_table(table.everything, tmp_path / "again.csv", ".csv")
    assert (tmp_path / "again.csv").read_text() == text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a", ["a"]),
        ("a, c,d ", None),
        ("c,d", ["c,d"]),
        ('a,"c,d"', ["a", "c,d"]),
        (" b ", [" b "]),
    ],
)
def test_columns_may_be_named_in_one_text(tmp_path, given, expected):
    path = tmp_path / "names.parquet"
    pa.parquet.write_table(pa.table({"a": [1.0], "c,d": [2.0], " b ": [3.0]}), path)
    if expected is None:
        with pytest.raises(UserError, match="has no column 'c'"):
            read_table(path, columns=given)
    else:
        assert read_table(path, columns=given).names == expected
        left = [name for name in ("a", "c,d", " b ") if name not in expected]
        assert read_table(path, exclude=given).names == left


def test_a_separator_at_the_end_of_each_line_makes_no_column(tmp_path):
    path = tmp_path / "trailing.csv"
    path.write_text("a,b,\n1,2,\n3,4,\n")
    assert read_table(path).names == ["a", "b"]


def test_long_text_in_the_first_row_is_no_problem(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,text\n1," + "x" * 300_000 + "\n")
    assert read_table(path, columns=["a"]).rows.tolist() == [[1]]


@pytest.mark.parametrize("dtype", [">f8", "<f4", np.longdouble, np.float16, ">i4", bool])
def test_arrays_of_every_numeric_kind_are_read(tmp_path, dtype):
    path = tmp_path / "array.npy"
    np.save(path, np.array([[1, 0], [0, 1]], dtype=dtype))
    assert read_table(path).rows.tolist() == [[1, 0], [0, 1]]


def test_names_that_are_missing_are_made_up(tmp_path):
    path = tmp_path / "index.csv"
    path.write_text(",x\n0,1.5\n")
    assert read_table(path).names == ["column_1", "x"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n \n\n", "no rows"),
        ("\n\n", "blank lines"),
        ("a,b\n", "has no rows, only names"),
        ("a,b", "has no rows, only names"),
        ("a,a\n1,2\n", "two columns named 'a'"),
        ("a,b\n1,2\n3\n", "row 2 has 1 value, expected 2"),
        ("a,b\n1,2,3\n", "row 1 has 3 values, expected 2"),
        ("a,b\n1;2\n", r"Perhaps --delimiter ';' is meant"),
        ("a;b\n1;2\n", r"column 'a;b' is not numeric.*Perhaps --delimiter ';' is meant"),
        ("a\tb\n1\t2\n", r"Perhaps --delimiter tab is meant"),
        ("a,b\n1,2\n3,four\n", "column 'b' is not numeric.*'four' in row 2.*--exclude 'b'"),
        ("a,b\n1,2\n3,\n,4\n", r"2 missing or infinite values in column 'a' \(1\), 'b' \(1\)"),
        ("a\n1\ninf\n", "1 missing or infinite value in column 'a'.*the first is in row 2"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, content, message):
    path = tmp_path / "wrong.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_table(path)


def test_text_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8"):
        read_table(path)


def test_a_late_change_of_type_is_no_problem(tmp_path):
    # Readers that guess types from the first megabyte fail here.
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * 400_000 + "0.5,1e300\n")
    rows = read_table(path).rows
    assert rows.shape == (400_001, 2)
    assert rows[-1].tolist() == [0.5, 1e300]


def test_a_late_word_is_found(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * 400_000 + "x,1\n")
    with pytest.raises(UserError, match=r"'x' in row 400,001"):
        read_table(path)


def test_compressed_text(tmp_path):
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("a,b\n1,2\n")
    assert read_table(path).rows.tolist() == [[1, 2]]
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(UserError, match=r"table\.csv\.gz"):
        read_table(path)


def test_dropped_rows_stay_in_the_output_without_a_label(tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("id,x\na,1\nb,\nc,3\n")
    table = read_table(path, columns=["x"], drop_missing=True, keep=Keep.TYPED)
    assert (table.rows[:, 0].tolist(), table.numbers.tolist()) == ([1, 3], [1, 3])
    labelled = with_columns(table, {"label": np.array([0, -1], np.int32)})
    assert labelled.column_names == ["id", "x", "label"]
    assert labelled["label"].to_pylist() == [0, None, -1]
    assert labelled["id"].to_pylist() == ["a", "b", "c"]


def test_new_columns_do_not_replace_old_ones(tmp_path):
    path = tmp_path / "label.csv"
    path.write_text("label,x\n7,1\n")
    table = read_table(path, columns=["x"], keep=Keep.TYPED)
    labelled = with_columns(table, {"label": np.array([0], np.int32)})
    assert labelled["label"].to_pylist() == ["7"]
    assert labelled["label_"].to_pylist() == [0]


def test_float32_columns_stay_float32(tmp_path):
    path = tmp_path / "single.parquet"
    single = pa.array(np.arange(3, dtype=np.float32))
    pa.parquet.write_table(pa.table({"a": single, "b": pa.array([1, 2, 3])}), path)
    assert read_table(path, columns=["a"]).rows.dtype == np.float32
    assert read_table(path).rows.dtype == np.float64


def test_parquet_columns_of_other_kinds(tmp_path):
    path = tmp_path / "kinds.parquet"
    columns = {"flag": [True, None], "nothing": pa.array([None, None]), "word": [None, "x"]}
    pa.parquet.write_table(pa.table(columns | {"x": [1.0, 2.0]}), path)
    table = read_table(path, columns=["x", "flag"], drop_missing=True)
    assert table.rows.tolist() == [[1, 1]]
    with pytest.raises(UserError, match=r"column 'word' is not numeric.*'x' in row 2"):
        read_table(path, columns=["word"])
    with pytest.raises(UserError, match="every row"):
        read_table(path, columns=["nothing"], drop_missing=True)


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".npy"])
def test_damaged_files_are_named(tmp_path, ending):
    path = tmp_path / f"broken{ending}"
    path.write_bytes(b"not what it says" * 10)
    with pytest.raises(UserError, match="damaged or not"):
        read_table(path)


def test_arrays_of_other_shapes_and_kinds_are_refused(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(UserError, match="two dimensions"):
        read_table(path)
    np.save(path, np.array([["a"]]))
    with pytest.raises(UserError, match="expected numbers"):
        read_table(path)
    np.save(path, np.array([[object()]]), allow_pickle=True)
    with pytest.raises(UserError, match="not an array of numbers"):
        read_table(path)


@pytest.mark.parametrize("name", ["table.xlsx", "table", "csv", *string.ascii_lowercase[:2]])
def test_unknown_formats_are_refused(tmp_path, name):
    with pytest.raises(UserError, match=r"no known format; expected a name that ends in \.csv"):
        format_of(tmp_path / name, (".csv", ".tsv"))
