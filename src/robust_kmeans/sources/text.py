"""Text tables (CSV), parsed piece by piece.

A line can only be found by reading all before it.  So opening reads the file once and notes where
pieces of some megabytes begin, at which row and line; pieces are then parsed by pyarrow.  Values
may be quoted, but have no line breaks in them; blank lines are no rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from robust_kmeans.sources.arrow import as_block, choose_columns
from robust_kmeans.sources.base import DatasetError
from robust_kmeans.sources.files import Block, FileStamp, RowFile
from robust_kmeans.sources.joined import JoinedFiles

PIECE_BYTES = 2**23
# Of so many bytes pyarrow infers which columns are numeric.
SAMPLE_BYTES = 2**18
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_NUMBER = re.compile(
    r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)?\s*",
    re.IGNORECASE | re.ASCII,
)


def open_text(
    paths: Sequence[str], columns: Sequence[str | int] | None, delimiter: str | None = None
) -> JoinedFiles:
    """Join text tables; their names tell the delimiter."""
    stamps = [FileStamp.of(path) for path in paths]
    heads = [_read_head(path, delimiter or DELIMITERS[path[-4:].lower()]) for path in paths]
    schemas = [_infer_schema(path, head) for path, head in zip(paths, heads, strict=True)]
    names, dtype = choose_columns([stamp.path for stamp in stamps], schemas, columns)
    files = [TextRows(*file, names) for file in zip(stamps, heads, schemas, strict=True)]
    return JoinedFiles(files, dtype, len(names), names)


class _Head(NamedTuple):
    names: list[str]
    delimiter: str
    begin: int
    """Where the rows begin, in bytes."""
    line: int
    """The number of the first line of rows, counted from 1 as editors do."""


class _Piece(NamedTuple):
    start: int
    stop: int
    line: int


class TextRows(RowFile):
    """The rows of one text table; its pieces are runs of lines."""

    # The text of a piece, and its columns: a number takes 8 bytes, and 2 at least as text.
    decoding_bytes = 5 * PIECE_BYTES

    def __init__(
        self, stamp: FileStamp, head: _Head, schema: pa.Schema, names: Sequence[str]
    ) -> None:
        self.stamp, self.head, self.names = stamp, head, names
        # Words for true and false are no numbers to the parser.
        self._truths = {name for name in names if schema.field(name).type == pa.bool_()}
        counted = list(_find_pieces(stamp.path, head))
        self._pieces = [piece for piece, _ in counted]
        self.starts = np.cumsum([0, *(n_rows for _, n_rows in counted)])
        self.ranges = [[(piece.start, piece.stop)] for piece in self._pieces]

    def blocks(self, start: int, stop: int) -> Generator[Block, None, None]:
        """Rows start:stop, piece by piece."""
        for piece in range(self.piece_of(start), self.piece_of(stop - 1) + 1):
            row = int(self.starts[piece])
            first, last = max(start - row, 0), min(stop, int(self.starts[piece + 1])) - row
            if first < last:
                for batch in self._decode(piece).slice(first, last - first).to_batches():
                    yield as_block(batch, self.names)

    def where(self, row: int) -> str:
        """The file and the line of a row in it."""
        piece = self.piece_of(row)
        lines = self._read(piece).split(b"\n")
        filled = [number for number, line in enumerate(lines) if line.rstrip(b"\r")]
        line = self._pieces[piece].line + filled[row - int(self.starts[piece])]
        return f"{self.stamp.path}, line {line}"

    def _decode(self, piece: int) -> pa.Table:
        kinds = {name: pa.bool_() if name in self._truths else pa.float64() for name in self.names}
        options = pa.csv.ConvertOptions(column_types=kinds, include_columns=self.names)
        text = self._read(piece)
        try:
            table = _parse(text, self.head, options)
        except pa.ArrowInvalid:
            # Only a single thread can say in which row.
            try:
                table = _parse(text, self.head, options, threads=False)
            except pa.ArrowInvalid as error:
                raise self._unreadable(piece, str(error)) from error
        if len(table) != self.starts[piece + 1] - self.starts[piece]:
            raise DatasetError(
                f"{self.stamp.path} has line breaks within quoted values from line "
                f"{self._pieces[piece].line} on; every line must be a row. Convert it to Parquet."
            )
        return table

    def _read(self, piece: int) -> bytes:
        start, stop, _ = self._pieces[piece]
        with open(self.stamp.path, "rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def _unreadable(self, piece: int, said: str) -> DatasetError:
        row = re.search(r"Row #(\d+): ", said)
        column = re.search(r"In CSV column #(\d+): ", said)
        place = self.where(int(self.starts[piece]) + int(row[1]) - 1 if row else 0)
        if column:
            place += f", column {self.head.names[int(column[1])]!r}"
        return DatasetError(f"{place} cannot be read: {said.split(': ', 2)[-1]}")


def _read_head(path: str, delimiter: str) -> _Head:
    """The names of the columns, and where the rows begin.

    A first line of nothing but numbers is a row: then columns are named "0", "1", ….
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError as error:
                raise DatasetError(f"{path} is not UTF-8 text: {error}.") from error
            if text:
                names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
                end = file.tell()
                if all(_NUMBER.fullmatch(name) for name in names):
                    numbered = [str(i) for i in range(len(names))]
                    return _Head(numbered, delimiter, end - len(line), number)
                return _Head(names, delimiter, end, number + 1)
    raise DatasetError(f"{path} is empty; expected a line with the names of its columns.")


def _infer_schema(path: str, head: _Head) -> pa.Schema:
    """What the columns seem to hold, by the first lines."""
    with open(path, "rb") as file:
        file.seek(head.begin)
        text = file.read(SAMPLE_BYTES)
    whole_lines = text[: text.rfind(b"\n") + 1] or text
    if not _count_rows(whole_lines):
        return pa.schema([(name, pa.float64()) for name in head.names])
    try:
        return _parse(whole_lines, head, pa.csv.ConvertOptions(), threads=False).schema
    except pa.ArrowInvalid as error:
        raise DatasetError(
            f"{path} cannot be read as a table of {len(head.names)} columns, as its first line "
            f"has: {error}"
        ) from error


def _parse(
    text: bytes, head: _Head, options: pa.csv.ConvertOptions, *, threads: bool = True
) -> pa.Table:
    return pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(use_threads=threads, column_names=head.names),
        pa.csv.ParseOptions(delimiter=head.delimiter),
        options,
    )


def _find_pieces(path: str, head: _Head) -> Iterator[tuple[_Piece, int]]:
    """Pieces that end where lines end, and how many rows each has."""
    start, line = head.begin, head.line
    with open(path, "rb") as file:
        file.seek(start)
        while text := file.read(PIECE_BYTES):
            # The rest of the last line, however long it is.
            text += b"" if text.endswith(b"\n") else file.readline()
            yield _Piece(start, start + len(text), line), _count_rows(text)
            start += len(text)
            line += text.count(b"\n")


def _count_rows(text: bytes) -> int:
    if b"\n\n" in text or b"\n\r\n" in text or text.startswith((b"\n", b"\r\n")):
        return sum(1 for line in text.split(b"\n") if line.rstrip(b"\r"))
    return text.count(b"\n") + (text[-1:] not in (b"", b"\n"))
