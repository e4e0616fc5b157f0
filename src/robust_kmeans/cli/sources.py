"""Where tables come from: text files, Parquet and Feather files, NumPy arrays.

Each kind of source knows its columns' `names`, can `read` some of them as an Arrow table, with
numbers where they are asked for, and gives all of them back `verbatim`.  A text file that
cannot be read is looked at a second time, slowly, to say which value in which row is to blame.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from robust_kmeans.cli.summary import counted
from robust_kmeans.cli.terminal import UserError

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
READABLE = (
    *(".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
    *(".parquet", ".feather", ".npy"),
)

_NUMBER = re.compile(
    r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\s*",
    re.IGNORECASE | re.ASCII,
)
_NULLS = frozenset(pa.csv.ConvertOptions().null_values)


def open_source(
    path: Path, delimiter: str | None, header: bool | None
) -> TextSource | NpySource | ArrowSource:
    """The source that a file's name stands for."""
    kind = format_of(path, READABLE)
    if kind in DELIMITERS:
        return TextSource(path, delimiter or DELIMITERS[kind], header)
    return NpySource(path) if kind == ".npy" else ArrowSource(path, kind)


def format_of(path: Path, known: Sequence[str]) -> str:
    """The format that a file's name stands for, without the ending of its compression."""
    name = path.name.lower()
    for ending in known:
        if name.endswith(ending):
            return ending.removesuffix(".gz")
    raise UserError(f"{path} has no known format; expected a name that ends in {', '.join(known)}.")


class TextSource:
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
        """These columns, some of them as numbers."""
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
        """All columns as they are."""
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
                        f"{self.path}: row {number} has {counted(len(record), 'value')}, expected "
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


class ArrowSource:
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
        """These columns, some of them as numbers."""
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
        """All columns as they are."""
        return self.read(self.names, ())

    def _unreadable(self, error: Exception) -> UserError:
        kind = self.kind[1:].capitalize()
        return UserError(f"{self.path} is damaged or not a {kind} file: {_first_line(error)}")


class NpySource:
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
        """These columns."""
        places = {name: place for place, name in enumerate(self.names)}
        # Arrow takes neither foreign byte orders nor floats of more than 64 bits.
        kind = self.rows.dtype.newbyteorder("=")
        kind = np.dtype(np.float64) if kind.kind == "f" and kind.itemsize > 8 else kind
        return pa.table(
            {name: pa.array(self.rows[:, places[name]].astype(kind)) for name in wanted}
        )

    def verbatim(self) -> pa.Table:
        """All columns as they are."""
        return self.read(self.names, ())


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
