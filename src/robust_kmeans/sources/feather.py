"""Feather files (version 2), which are Arrow's own format on disk: mapped, batch by batch.

Columns that were not compressed are used where they are in the file.  A compressed batch is
unpacked whole: files with few, very large ones need the memory for one of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from robust_kmeans.sources.arrow import UNREADABLE, as_block, choose_columns
from robust_kmeans.sources.base import DatasetError
from robust_kmeans.sources.files import Block, FileStamp, RowFile
from robust_kmeans.sources.joined import JoinedFiles


def open_feather(paths: Sequence[str], columns: Sequence[str | int] | None) -> JoinedFiles:
    """Join Feather files."""
    stamps = [FileStamp.of(path) for path in paths]
    schemas = [_read_schema(stamp) for stamp in stamps]
    names, dtype = choose_columns([stamp.path for stamp in stamps], schemas, columns)
    files = [
        FeatherRows(stamp, schema, names) for stamp, schema in zip(stamps, schemas, strict=True)
    ]
    return JoinedFiles(files, dtype, len(names), names)


class FeatherRows(RowFile):
    """The rows of one Feather file; its pieces are its batches."""

    def __init__(self, stamp: FileStamp, schema: pa.Schema, names: list[str]) -> None:
        self.stamp, self.names = stamp, names
        fields = [schema.names.index(name) for name in names]
        # pyarrow copies columns that are chosen among others; all together stay where they are.
        self._fields = fields if len(fields) < len(schema) else []
        # How long a batch is, only the batch knows; one column is enough to see it.
        with _opened(stamp.path, fields[:1]) as file:
            batches = range(file.num_record_batches)
            lengths = [len(self._batch(file, batch)) for batch in batches]
        self.starts = np.cumsum([0, *lengths])
        # Batches follow each other: a share of the rows is in about that share of the bytes.
        edges = (self.starts / max(1, self.n_rows) * stamp.size).astype(int).tolist()
        self.ranges = [[pair] for pair in pairwise(edges)]

    def blocks(self, start: int, stop: int) -> Generator[Block, None, None]:
        """Rows start:stop, batch by batch."""
        with _opened(self.stamp.path, self._fields) as file:
            for batch in range(self.piece_of(start), self.piece_of(stop - 1) + 1):
                row = int(self.starts[batch])
                first, last = max(start - row, 0), min(stop, int(self.starts[batch + 1])) - row
                if first < last:
                    rows = self._batch(file, batch).slice(first, last - first)
                    yield as_block(rows, self.names)

    def where(self, row: int) -> str:
        """The file and the place of a row in it."""
        batch = self.piece_of(row)
        return f"{self.stamp.path}, batch {batch}, its row {row - self.starts[batch]}"

    def _batch(self, file: pa.ipc.RecordBatchFileReader, batch: int) -> pa.RecordBatch:
        try:
            return file.get_batch(batch)
        except UNREADABLE as error:
            raise DatasetError(
                f"{self.stamp.path}, batch {batch} is damaged: {error}. Write it again."
            ) from error


@contextmanager
def _opened(path: str, fields: list[int]) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """The file, to read some of its fields; all of them if none is named."""
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    with pa.memory_map(path) as source, pa.ipc.open_file(source, options=options) as file:
        yield file


def _read_schema(stamp: FileStamp) -> pa.Schema:
    try:
        with _opened(stamp.path, []) as file:
            return file.schema
    except UNREADABLE as error:
        raise DatasetError(
            f"{stamp.path} is truncated, damaged or not a Feather file: {error}"
        ) from error
