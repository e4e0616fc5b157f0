"""Parquet files, decoded batch by batch: neither a file nor a large row group is in memory.

pyarrow's default, to read the bytes of all row groups at once ahead of need, takes memory of the
size of the file and the time to get it; here the system is asked to have the bytes ready
(benchmarks/reading.py compares the two).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import pyarrow.parquet as pq

from robust_kmeans.sources.arrow import UNREADABLE, as_block, choose_columns
from robust_kmeans.sources.base import DatasetError
from robust_kmeans.sources.files import Block, FileStamp, RowFile
from robust_kmeans.sources.joined import JoinedFiles

# Values that are decoded at a time, and bounds for very wide and very narrow rows.
BATCH_VALUES = 2**21
BATCH_ROWS = (1024, 2**16)
# Row groups with more bytes than this are read through buffers of this size, one per column,
# that are refilled; otherwise each column of a row group is read at once.
BUFFERED_BYTES = 2**25
BUFFER_SIZE = (2**16, 2**20)
# What a column takes while it is decoded: a page as it is stored and as it is decoded, and values.
PAGES_BYTES = 2**22


def open_parquet(paths: Sequence[str], columns: Sequence[str | int] | None) -> JoinedFiles:
    """Join Parquet files."""
    stamps = [FileStamp.of(path) for path in paths]
    footers = [_read_footer(stamp) for stamp in stamps]
    schemas = [schema for _, schema in footers]
    names, dtype = choose_columns([stamp.path for stamp in stamps], schemas, columns)
    files = [
        ParquetRows(stamp, metadata, names)
        for stamp, (metadata, _) in zip(stamps, footers, strict=True)
    ]
    return JoinedFiles(files, dtype, len(names), names)


class ParquetRows(RowFile):
    """The rows of one Parquet file; its pieces are its row groups."""

    def __init__(self, stamp: FileStamp, metadata: pq.FileMetaData, names: list[str]) -> None:
        self.stamp, self.names = stamp, names
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        self.starts = np.cumsum([0, *(group.num_rows for group in groups)])
        self.ranges = [_byte_ranges(group, set(names)) for group in groups]
        self.decoding_bytes = BUFFERED_BYTES + PAGES_BYTES * len(names)

    def blocks(self, start: int, stop: int) -> Generator[Block, None, None]:
        """Rows start:stop, batch by batch."""
        size = int(np.clip(BATCH_VALUES // len(self.names), *BATCH_ROWS))
        group = self.piece_of(start)
        try:
            with pq.ParquetFile(
                self.stamp.path, pre_buffer=False, buffer_size=self._buffer_size()
            ) as file:
                for group in range(self.piece_of(start), self.piece_of(stop - 1) + 1):
                    row = int(self.starts[group])
                    for batch in file.iter_batches(size, [group], self.names):
                        first, last = max(start - row, 0), min(stop - row, len(batch))
                        if first < last:
                            yield as_block(batch.slice(first, last - first), self.names)
                        row += len(batch)
                        if row >= stop:
                            return
        except UNREADABLE as error:
            raise DatasetError(
                f"{self.stamp.path}, row group {group} is damaged: {error}. Write it again."
            ) from error

    def where(self, row: int) -> str:
        """The file and the place of a row in it."""
        group = self.piece_of(row)
        return f"{self.stamp.path}, row group {group}, its row {row - self.starts[group]}"

    def _buffer_size(self) -> int:
        largest = max(sum(stop - start for start, stop in ranges) for ranges in self.ranges)
        if largest <= BUFFERED_BYTES:
            return 0
        return int(np.clip(BUFFERED_BYTES // len(self.names), *BUFFER_SIZE))


def _read_footer(stamp: FileStamp) -> tuple[pq.FileMetaData, pq.ParquetSchema]:
    try:
        with pq.ParquetFile(stamp.path) as file:
            return file.metadata, file.schema_arrow
    except UNREADABLE as error:
        raise DatasetError(
            f"{stamp.path} is truncated, damaged or not a Parquet file: {error}"
        ) from error


def _byte_ranges(group: pq.RowGroupMetaData, names: set[str]) -> list[tuple[int, int]]:
    """Where the columns are in the file; neighbours are one range."""
    ranges: list[tuple[int, int]] = []
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema in names:
            start = min(column.data_page_offset, column.dictionary_page_offset or 2**63)
            stop = start + column.total_compressed_size
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, stop))
    return ranges
