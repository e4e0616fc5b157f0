"""Files as tables of numbers: CSV, TSV, Parquet, Feather and NPY, read and written.

The columns to cluster become one float array; the others are only kept, as text, when they
will be written out again.  A file that cannot be read is looked at a second time, slowly, to
say which value in which row is to blame.  Rows are counted from 1, without the header.

This is the only module that imports pyarrow.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
from numpy.typing import NDArray

DELIMITERS = {".csv": ",", ".tsv": "\t"}
READABLE = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".feather", ".npy")
WRITABLE = (".csv", ".tsv", ".parquet", ".feather")

_NUMBER = re.compile(
    r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\s*",
    re.IGNORECASE | re.ASCII,
)
_NULLS = frozenset(pa.csv.ConvertOptions().null_values)


class UserError(Exception):
    """Something that the user can put right; its message is all that they are shown."""


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
    everything : pyarrow.Table or None
        All columns and rows of the file, if they were asked for.
    """

    rows: NDArray[np.floating]
    names: list[str]
    numbers: NDArray[np.int64]
    n_dropped: int
    everything: pa.Table | None


def read_table(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    delimiter: str | None = None,
    drop_missing: bool = False,
    keep_everything: bool = False,
) -> Table:
    """Read the columns to cluster: those named, or all that are not excluded."""
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give one file.")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; expected a table with at least one row.")
    source = _open(path, delimiter)
    names = _choose(path, source.names, columns, exclude)
    everything = source.read(source.names if keep_everything else names, names)
    if everything.num_rows == 0:
        raise UserError(f"{path} has a header but no rows; expected at least one.")
    rows = _as_array(everything, names)
    table = everything if keep_everything else None
    del everything  # before the rows are copied once more, if some are to be dropped
    return _without_missing(path, rows, names, table, drop_missing=drop_missing)


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
        options = pa.csv.WriteOptions(delimiter=DELIMITERS[kind])
        pa.csv.write_csv(table, path, options)
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


def _open(path: Path, delimiter: str | None) -> _Text | _Npy | _Arrow:
    kind = format_of(path, READABLE)
    if kind in DELIMITERS:
        return _Text(path, delimiter or DELIMITERS[kind])
    return _Npy(path) if kind == ".npy" else _Arrow(path, kind)


class _Text:
    """A CSV or TSV file, perhaps compressed."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter
        with self._records() as records:
            # Blank lines before the header have to be skipped with it.
            self._n_skipped = 0
            header: list[str] = []
            for header in records:
                self._n_skipped += 1
                if header:
                    break
        if not header:
            raise UserError(f"{path} is empty but for blank lines; expected a table.")
        self.has_header = not all(_NUMBER.fullmatch(name) for name in header)
        if self.has_header:
            named = [name.strip() or f"column_{i}" for i, name in enumerate(header, start=1)]
            self.names = named
        else:
            self._n_skipped -= 1
            self.names = _numbered(len(header))
        repeated = next((name for name in self.names if self.names.count(name) > 1), None)
        if repeated is not None:
            raise UserError(
                f"{path} has two columns named {repeated!r}; rename one of them in its first line."
            )

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
                        raise _not_numeric(self.path, name, value, number)

    def _other_delimiter(self, record: Sequence[str]) -> str:
        other = next((sign for sign in ";\t|" if sign in "".join(record)), None)
        return "" if other is None else f" Perhaps --delimiter {other!r} is meant."

    @contextmanager
    def _records(self) -> Iterator[Iterator[list[str]]]:
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
            except (EOFError, gzip.BadGzipFile) as error:
                raise UserError(f"{self.path} is not a whole gzip file: {error}.") from error


class _Arrow:
    """A Parquet or Feather file."""

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

    def _unreadable(self, error: Exception) -> UserError:
        kind = self.kind[1:].capitalize()
        return UserError(f"{self.path} is damaged or not a {kind} file: {_first_line(error)}")


class _Npy:
    """A NumPy array of two dimensions; its columns are numbered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(
                f"{path} is damaged or not an array of numbers: {_first_line(error)}"
            ) from error
        if not isinstance(self.rows, np.ndarray) or self.rows.ndim != 2:
            raise UserError(f"{path} must hold one array of two dimensions (rows, columns).")
        if self.rows.dtype.kind not in "fiub":
            raise UserError(f"{path} holds {self.rows.dtype}, expected numbers.")
        self.names = _numbered(self.rows.shape[1])

    def read(self, wanted: Sequence[str], _numeric: Sequence[str]) -> pa.Table:
        places = {name: place for place, name in enumerate(self.names)}
        return pa.table({name: pa.array(self.rows[:, places[name]]) for name in wanted})


def _choose(
    path: Path, names: list[str], columns: Sequence[str] | None, exclude: Sequence[str]
) -> list[str]:
    for name in (*(columns or ()), *exclude):
        if name not in names:
            shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
            raise UserError(f"{path} has no column {name!r}; it has {shown}.")
    chosen = [name for name in (columns or names) if name not in exclude]
    if not chosen:
        raise UserError("No column is left to cluster; exclude fewer.")
    return list(dict.fromkeys(chosen))


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


def _without_missing(
    path: Path,
    rows: NDArray[np.floating],
    names: list[str],
    everything: pa.Table | None,
    *,
    drop_missing: bool,
) -> Table:
    missing = np.array([np.count_nonzero(~np.isfinite(column)) for column in rows.T])
    numbers = np.arange(1, len(rows) + 1)
    if not missing.any():
        return Table(rows, names, numbers, 0, everything)
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
    return Table(rows[whole], names, numbers[whole], n_dropped, everything)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _not_numeric(path: Path, name: str, value: object, number: int) -> UserError:
    shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:40] + "…"
    return UserError(
        f"{path}: column {name!r} is not numeric; the first value that is no number is {shown} in "
        f"row {number:,}. Leave the column out with --exclude {name!r}, or choose others with "
        f"--columns."
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
