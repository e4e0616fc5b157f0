"""Files as tables of numbers: CSV, TSV, Parquet, Feather and NPY, read and written.

The columns to cluster become one float array; all columns are kept only when they will be
written out again.  Rows are counted from 1, without the header.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from robust_kmeans.cli.sources import DELIMITERS, open_source
from robust_kmeans.cli.summary import Labelled, counted
from robust_kmeans.cli.terminal import MissingColumnError, UserError

WRITABLE = (".csv", ".tsv", ".parquet", ".feather")
NEW_COLUMNS = ("label", "nearest_cluster", "outlier_score")
ROWS_PER_BATCH = 10_000
ROWS_PER_PIECE = 2**20


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
    source = open_source(path, delimiter, header)
    _refuse_repeated_names(path, source.names)
    names = choose_columns(path, source.names, columns, exclude)
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


def choose_columns(
    path: Path,
    names: list[str],
    columns: Sequence[str] | str | None,
    exclude: Sequence[str] | str,
) -> list[str]:
    """The columns to cluster: those named, or all that are not excluded."""
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
            raise MissingColumnError(f"{path} has no column {name!r}; it has {shown}.")
    return listed


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


def write_labels(labelled: Labelled, path: Path, kind: str) -> None:
    """Write the new columns alone, in pieces: there may be more rows than fit into memory."""
    single = labelled.scores.dtype == np.float32
    types = (pa.int32(), pa.int32(), pa.float32() if single else pa.float64())
    schema = pa.schema(list(zip(NEW_COLUMNS, types, strict=True)))
    with _writer(path, kind, schema) as writer:
        for start in range(0, len(labelled.labels), ROWS_PER_PIECE):
            piece = [pa.array(column[start : start + ROWS_PER_PIECE]) for column in labelled]
            writer.write_batch(pa.record_batch(piece, schema=schema))


@contextmanager
def _writer(path: Path, kind: str, schema: pa.Schema) -> Iterator[Any]:
    if kind == ".parquet":
        with pa.parquet.ParquetWriter(path, schema) as writer:
            yield writer
    elif kind == ".feather":
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(path, schema, options=options) as writer:
            yield writer
    else:
        with path.open("wb") as file:
            # By hand: Arrow's writer puts names into quotes.
            file.write(f"{DELIMITERS[kind].join(schema.names)}\n".encode())
            form = pa.csv.WriteOptions(include_header=False, delimiter=DELIMITERS[kind])
            with pa.csv.CSVWriter(file, schema, write_options=form) as writer:
                yield writer


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


def _refuse_repeated_names(path: Path, names: Sequence[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f"{path} has two columns named {repeated!r}; rename one of them.")
    if not names:
        raise UserError(f"{path} has no columns; expected at least one.")


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
        how_many = counted(int(missing.sum()), "missing or infinite value")
        raise UserError(
            f"{path} has {how_many} in column {where}; "
            f"the first is in row {first:,}. Use --drop-missing to leave such rows out."
        )
    if not whole.any():
        raise UserError(f"{path} has a missing or infinite value in every row; nothing is left.")
    n_dropped = int(len(rows) - np.count_nonzero(whole))
    left_out = f"{n_dropped:,} of {len(rows):,} rows have missing values and were dropped."
    return Table(rows[whole], names, numbers[whole], n_dropped, (*notes, left_out), everything)
