"""Files as tables of numbers: CSV, TSV, Parquet, Feather and NPY, read and written.

The columns to cluster become one float array; all columns are kept only when they will be
written out again.  A file that cannot be read is looked at a second time, slowly, to
say which value in which row is to blame.  Rows are counted from 1, without the header.

This is the only module that imports pyarrow.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from numpy.typing import NDArray

from robust_kmeans.cli.terminal import UserError

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
READABLE = (
    *(".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
    *(".parquet", ".feather", ".npy"),
)
WRITABLE = (".csv", ".tsv", ".parquet", ".feather")
ROWS_PER_BATCH = 10_000

_NUMBER = re.compile(
    r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\s*",
    re.IGNORECASE | re.ASCII,
)
_NULLS = frozenset(pa.csv.ConvertOptions().null_values)


class Keep(Enum):
    """What of a file is kept to be written out again."""

    NOTHING = 0
    TYPED = 1
    """All columns; the clustered ones as numbers."""
    VERBATIM = 2
    """All columns; of a text file exactly the characters that are in it."""


@dataclass(frozen=True)
class Table:
    """The rows to cluster, and everything that is needed to write them out again.

    Attributes
    ----------
    rows : ndarray of shape (n, d)
        Only rows without missing values.
    names : list of str
        The d columns.
    numbers : ndarray of shape (n,)
        The number of each row in the file, from 1.
    n_dropped : int
        Rows with missing values that were left out.
    notes : tuple of str
        What the user should know about how the file was read.
    everything : pyarrow.Table or None
        All columns and rows of the file, if they were asked for.
    """

    rows: NDArray[np.floating]
    names: list[str]
    numbers: NDArray[np.int64]
    n_dropped: int
    notes: tuple[str, ...]
    everything: pa.Table | None


def read_table(
    path: Path,
    *,
    columns: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str = (),
    delimiter: str | None = None,
    header: bool | None = None,
    drop_missing: bool = False,
    keep: Keep = Keep.NOTHING,
) -> Table:
    """Read the columns to cluster: those named, or all that are not excluded.

    Names may be given as one text, separated by commas.  Whether text has a header is guessed
    unless it is given: a first line of numbers only is none.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give one file.")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; expected a table with at least one row.")
    source = _open(path, delimiter, header)
    _refuse_repeated_names(path, source.names)
    names = _choose(path, source.names, columns, exclude)
    numbers = source.read(source.names if keep is Keep.TYPED else names, names)
    if numbers.num_rows == 0:
        raise UserError(f"{path} has no rows, only names of columns; expected at least one row.")
    rows = _as_array(numbers, names)
    everything = source.verbatim() if keep is Keep.VERBATIM else numbers
    if columns is None:
        rows, names = _without_empty_columns(rows, names, source.unnamed)
    return _without_missing(
        path,
        rows,
        names,
        source.notes,
        None if keep is Keep.NOTHING else everything,
        drop_missing=drop_missing,
    )


def format_of(path: Path, known: Sequence[str]) -> str:
    """The format that a file's name stands for, without the ending of its compression."""
    name = path.name.lower()
    for ending in known:
        if name.endswith(ending):
            return ending.removesuffix(".gz")
    raise UserError(f"{path} has no known format; expected a name that ends in {', '.join(known)}.")


def write_table(table: pa.Table, path: Path, kind: str) -> None:
    """Write a table in one of the formats `WRITABLE`."""
    if kind in DELIMITERS:
        # Not Arrow's writer, which puts every text into quotes and knows no nested columns.
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=DELIMITERS[kind], lineterminator="\n")
            writer.writerow(table.column_names)
            for batch in table.to_batches(max_chunksize=ROWS_PER_BATCH):
                writer.writerows(zip(*(column.to_pylist() for column in batch), strict=True))
    elif kind == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.feather.write_feather(table, str(path))


def with_columns(table: Table, new: dict[str, NDArray[Any]]) -> pa.Table:
    """All rows of the file with new columns; nothing in them where a row was dropped."""
    everything = table.everything
    assert everything is not None
    for name, values in new.items():
        column = pa.array(values)
        if table.n_dropped:
            place = np.full(everything.num_rows, -1, np.int64)
            place[table.numbers - 1] = np.arange(len(values))
            column = column.take(pa.array(place, mask=place < 0))
        everything = everything.append_column(_free_name(name, everything.column_names), column)
    return everything


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _open(path: Path, delimiter: str | None, header: bool | None) -> _Text | _Npy | _Arrow:
    kind = format_of(path, READABLE)
    if kind in DELIMITERS:
        return _Text(path, delimiter or DELIMITERS[kind], header)
    return _Npy(path) if kind == ".npy" else _Arrow(path, kind)


class _Text:
    """A CSV or TSV file, perhaps compressed."""

    def __init__(self, path: Path, delimiter: str, header: bool | None) -> None:
        self.path, self.delimiter = path, delimiter
        with self._records() as records:
            # Blank lines before the header have to be skipped with it.
            self._n_skipped = 0
            first: list[str] = []
            for first in records:
                self._n_skipped += 1
                if first:
                    break
        if not first:
            raise UserError(f"{path} is empty but for blank lines; expected a table.")
        only_numbers = all(_NUMBER.fullmatch(name) for name in first)
        self.has_header = not only_numbers if header is None else header
        made_up = _numbered(len(first))
        self.notes: tuple[str, ...] = ()
        if self.has_header:
            pairs = zip(first, made_up, strict=True)
            self.names = [name.strip() or instead for name, instead in pairs]
        else:
            self._n_skipped -= 1
            self.names = made_up
            if header is None:
                self.notes = (
                    f"The first line of {path} holds only numbers and is taken as a row; its "
                    f"columns are named {made_up[0]} and so on. (--header says otherwise.)",
                )
        self.unnamed = frozenset(made_up) & frozenset(self.names)

    def read(self, wanted: Sequence[str], numeric: Sequence[str]) -> pa.Table:
        types = {name: pa.float64() if name in numeric else pa.string() for name in wanted}
        if not self._has_rows():
            return pa.table({name: pa.array([], kind) for name, kind in types.items()})
        try:
            return pa.csv.read_csv(
                self.path,
                read_options=pa.csv.ReadOptions(
                    column_names=self.names, skip_rows_after_names=self._n_skipped
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types, include_columns=list(wanted), strings_can_be_null=False
                ),
            )
        except (pa.ArrowInvalid, OSError) as error:
            self._blame(numeric)
            raise UserError(f"{self.path} cannot be read: {_first_line(error)}") from error

    def verbatim(self) -> pa.Table:
        return self.read(self.names, ())

    def _has_rows(self) -> bool:
        with self._records() as records:
            non_blank = (record for record in records if record)
            if self.has_header:
                next(non_blank)
            return next(non_blank, None) is not None

    def _blame(self, numeric: Sequence[str]) -> None:
        """Raise what says which value is to blame, or return if none can be found."""
        places = [(self.names.index(name), name) for name in numeric]
        with self._records() as records:
            non_blank = (record for record in records if record)
            if self.has_header:
                next(non_blank)
            for number, record in enumerate(non_blank, start=1):
                if len(record) != len(self.names):
                    raise UserError(
                        f"{self.path}: row {number} has {_count(len(record), 'value')}, expected "
                        f"{len(self.names)} as in the first line.{self._other_delimiter(record)}"
                    )
                for place, name in places:
                    value = record[place]
                    if value not in _NULLS and not _NUMBER.fullmatch(value):
                        # A file with other separators looks like one column of text.
                        hint = self._other_delimiter(record) if len(record) == 1 else ""
                        raise _not_numeric(self.path, name, value, number, hint)

    def _other_delimiter(self, record: Sequence[str]) -> str:
        signs = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
        text = "".join(record)
        other = next((sign for sign in signs if sign in text and sign != self.delimiter), None)
        return "" if other is None else f" Perhaps --delimiter {signs[other]} is meant."

    @contextmanager
    def _records(self) -> Iterator[Iterator[list[str]]]:
        limit = csv.field_size_limit(2**31 - 1)
        with _open_text(self.path) as file:
            try:
                yield csv.reader(file, delimiter=self.delimiter)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{self.path} is not UTF-8 text (byte {error.start} is not valid); save it as "
                    f"UTF-8."
                ) from error
            except csv.Error as error:
                raise UserError(f"{self.path} cannot be read as a table: {error}.") from error
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise UserError(f"{self.path} is not a whole gzip file: {error}.") from error
            finally:
                csv.field_size_limit(limit)


class _Arrow:
    """A Parquet or Feather file."""

    notes: tuple[str, ...] = ()
    unnamed: frozenset[str] = frozenset()

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        try:
            if kind == ".parquet":
                schema = pa.parquet.read_schema(path)
            else:
                with pa.ipc.open_file(path) as file:
                    schema = file.schema
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        self.schema, self.names = schema, list(schema.names)

    def read(self, wanted: Sequence[str], numeric: Sequence[str]) -> pa.Table:
        try:
            if self.kind == ".parquet":
                table = pa.parquet.read_table(self.path, columns=list(wanted))
            else:
                table = pa.feather.read_table(str(self.path), columns=list(wanted))
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        for name in numeric:
            if not _is_number(self.schema.field(name).type):
                values = table.column(name).drop_null()
                first = values[0].as_py() if len(values) else None
                number = pa.compute.index(table.column(name).is_valid(), True).as_py() + 1
                raise _not_numeric(self.path, name, first, number)
        return table

    def verbatim(self) -> pa.Table:
        return self.read(self.names, ())

    def _unreadable(self, error: Exception) -> UserError:
        kind = self.kind[1:].capitalize()
        return UserError(f"{self.path} is damaged or not a {kind} file: {_first_line(error)}")


class _Npy:
    """A NumPy array of two dimensions; its columns are numbered."""

    notes: tuple[str, ...] = ()
    unnamed: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(
                f"{path} is damaged or not an array of numbers that numpy.save wrote."
            ) from error
        if not isinstance(self.rows, np.ndarray) or self.rows.ndim != 2:
            raise UserError(f"{path} must hold one array of two dimensions (rows, columns).")
        if self.rows.dtype.kind not in "fiub":
            raise UserError(f"{path} holds {self.rows.dtype}, expected numbers.")
        self.names = _numbered(self.rows.shape[1])

    def read(self, wanted: Sequence[str], _numeric: Sequence[str]) -> pa.Table:
        places = {name: place for place, name in enumerate(self.names)}
        # Arrow takes neither foreign byte orders nor floats of more than 64 bits.
        kind = self.rows.dtype.newbyteorder("=")
        kind = np.dtype(np.float64) if kind.kind == "f" and kind.itemsize > 8 else kind
        return pa.table(
            {name: pa.array(self.rows[:, places[name]].astype(kind)) for name in wanted}
        )

    def verbatim(self) -> pa.Table:
        return self.read(self.names, ())


def _refuse_repeated_names(path: Path, names: Sequence[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f"{path} has two columns named {repeated!r}; rename one of them.")
    if not names:
        raise UserError(f"{path} has no columns; expected at least one.")


def _choose(
    path: Path,
    names: list[str],
    columns: Sequence[str] | str | None,
    exclude: Sequence[str] | str,
) -> list[str]:
    wanted = names if columns is None else _listed(path, columns, names)
    unwanted = _listed(path, exclude, names) if exclude else []
    chosen = [name for name in wanted if name not in unwanted]
    if not chosen:
        raise UserError("No column is left to cluster; exclude fewer.")
    return list(dict.fromkeys(chosen))


def _listed(path: Path, given: Sequence[str] | str, names: Sequence[str]) -> list[str]:
    """The columns in a list, which may be one text: a name, or names between commas."""
    if given in names:
        return [str(given)]
    parts = next(csv.reader([given]), []) if isinstance(given, str) else given
    listed = [part if part in names else part.strip() for part in parts]
    for name in listed or [""]:
        if name not in names:
            shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
            raise UserError(f"{path} has no column {name!r}; it has {shown}.")
    return listed


def _as_array(table: pa.Table, names: Sequence[str]) -> NDArray[np.floating]:
    single = all(table.schema.field(name).type in (pa.float16(), pa.float32()) for name in names)
    rows = np.empty((table.num_rows, len(names)), np.float32 if single else np.float64)
    for place, name in enumerate(names):
        start = 0
        for chunk in table.column(name).chunks:
            if not (pa.types.is_integer(chunk.type) or pa.types.is_floating(chunk.type)):
                chunk = chunk.cast(pa.float64())
            rows[start : start + len(chunk), place] = chunk.to_numpy(zero_copy_only=False)
            start += len(chunk)
    return rows


def _without_empty_columns(
    rows: NDArray[np.floating], names: list[str], unnamed: frozenset[str]
) -> tuple[NDArray[np.floating], list[str]]:
    """Leave out columns with neither a name nor a value: a separator at the end of each line."""
    used = [
        name not in unnamed or bool(np.isfinite(rows[:, place]).any())
        for place, name in enumerate(names)
    ]
    if all(used) or not any(used):
        return rows, names
    return rows[:, used], [name for name, is_used in zip(names, used, strict=True) if is_used]


def _without_missing(
    path: Path,
    rows: NDArray[np.floating],
    names: list[str],
    notes: tuple[str, ...],
    everything: pa.Table | None,
    *,
    drop_missing: bool,
) -> Table:
    missing = np.array([np.count_nonzero(~np.isfinite(column)) for column in rows.T])
    numbers = np.arange(1, len(rows) + 1)
    if not missing.any():
        return Table(rows, names, numbers, 0, notes, everything)
    whole = np.isfinite(rows).all(axis=1)
    if not drop_missing:
        first = int(np.argmin(whole)) + 1
        where = ", ".join(f"{name!r} ({n:,})" for name, n in zip(names, missing, strict=True) if n)
        raise UserError(
            f"{path} has {_count(missing.sum(), 'missing or infinite value')} in column {where}; "
            f"the first is in row {first:,}. Use --drop-missing to leave such rows out."
        )
    if not whole.any():
        raise UserError(f"{path} has a missing or infinite value in every row; nothing is left.")
    n_dropped = int(len(rows) - np.count_nonzero(whole))
    left_out = f"{n_dropped:,} of {len(rows):,} rows have missing values and were dropped."
    return Table(rows[whole], names, numbers[whole], n_dropped, (*notes, left_out), everything)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _not_numeric(path: Path, name: str, value: object, number: int, hint: str = "") -> UserError:
    shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:40] + "…"
    what_to_do = hint or (
        f" Leave the column out with --exclude {name!r}, or choose others with --columns."
    )
    return UserError(
        f"{path}: column {name!r} is not numeric; the first value that is no number is {shown} in "
        f"row {number:,}.{what_to_do}"
    )


def _numbered(n: int) -> list[str]:
    return [f"column_{i}" for i in range(1, n + 1)]


def _open_text(path: Path) -> TextIO:
    # utf-8-sig: a byte order mark, as spreadsheets write, is no part of the first name.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("s" if n != 1 else "")
