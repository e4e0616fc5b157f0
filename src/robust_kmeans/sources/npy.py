"""Arrays that numpy.save wrote, and memory maps: rows are handed out where they are.

Rows are mapped, and the system is asked for the next chunks while one is worked on: there is no
copy, and less waiting than with maps alone (benchmarks/reading.py).  Mapped pages are the system's
to keep or to drop; they are no memory of ours.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import array_utils
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from robust_kmeans.sources.base import DatasetError
from robust_kmeans.sources.files import Block, FileStamp, RowFile
from robust_kmeans.sources.joined import JoinedFiles


def open_npy(paths: Sequence[str], columns: Sequence[int | str] | None) -> JoinedFiles:
    """Join arrays of two dimensions that numpy.save wrote."""
    layouts = [_read_header(FileStamp.of(path)) for path in paths]
    return _join(layouts, columns)


def from_memmap(rows: np.memmap[Any, Any]) -> JoinedFiles:
    """A memory map of two dimensions as a data set, to be read ahead of need.

    Parameters
    ----------
    rows : numpy.memmap of shape (n, d)
        Also a slice of one.  Its file is mapped again, and must not change.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If it has no file of its own: a result of arithmetic, or opened with mode "c", whose
        changes never reach the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = np.memmap(f"{folder}/rows", np.float32, "w+", shape=(4, 2))
    ...     rows[:] = [[0, 1], [2, 3], [4, 5], [6, 7]]
    ...     from_memmap(rows[1:]).read(0, 2)
    array([[2., 3.],
           [4., 5.]], dtype=float32)
    """
    root: Any = rows
    while isinstance(root.base, np.memmap):
        root = root.base
    if not isinstance(root.base, mmap.mmap) or rows.filename is None or rows.mode == "c":
        raise ValueError(
            "The memory map is not of a file as it is on disk: it was computed, has no file name "
            "or was opened with mode 'c'. Give numpy.asarray(rows), or a map with mode 'r'."
        )
    stamp = FileStamp.of(rows.filename)
    offset = root.offset + array_utils.byte_bounds(rows)[0] - array_utils.byte_bounds(root)[0]
    if min(rows.strides, default=0) < 0:
        raise ValueError("The memory map is reversed; give it in the order of its file.")
    return _join([_Layout(stamp, offset, rows.dtype, rows.shape, rows.strides)], None)


@dataclass(frozen=True)
class _Layout:
    """Where an array lies in a file."""

    stamp: FileStamp
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class NpyRows(RowFile):
    """Rows of an array in a file; perhaps only some columns."""

    takes_quickly = True

    def __init__(self, layout: _Layout, columns: tuple[int, ...] | None) -> None:
        self.stamp, self.layout, self.columns = layout.stamp, layout, columns
        self.starts = np.array([0, layout.shape[0]])

    def blocks(self, start: int, stop: int) -> Generator[Block, None, None]:
        """The rows as they lie in the file, mapped."""
        at = self.layout
        with open(self.stamp.path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        array: NDArray[Any] = np.ndarray(at.shape, at.dtype, mapped, at.offset, at.strides)
        rows = array[start:stop]
        if self.columns is not None:
            yield [rows[:, column] for column in self.columns]
        elif at.strides[1] > at.dtype.itemsize:
            # Column after column, as Fortran has it.
            yield list(rows.T)
        else:
            yield rows

    def ask_for(self, start: int, stop: int) -> None:
        """Have the system read what rows start:stop need, without waiting for it."""
        at, (height, width) = self.layout, self.layout.strides
        in_columns = range(at.shape[1]) if width > height else range(1)
        begins = [at.offset + column * width for column in in_columns]
        self.stamp.ask_for([(begin + start * height, begin + stop * height) for begin in begins])

    def where(self, row: int) -> str:
        """The file and the place of a row in it."""
        return f"{self.stamp.path}, row {row}"


def _join(layouts: Sequence[_Layout], columns: Sequence[int | str] | None) -> JoinedFiles:
    for layout in layouts:
        _check_numbers(layout)
    first = layouts[0]
    for layout in layouts:
        if layout.shape[1] != first.shape[1]:
            raise DatasetError(
                f"{layout.stamp.path} has {layout.shape[1]} columns, {first.stamp.path} has "
                f"{first.shape[1]}; arrays that are joined must have the same."
            )
    chosen = None if columns is None else _column_numbers(columns, first)
    small = all(layout.dtype.kind == "f" and layout.dtype.itemsize == 4 for layout in layouts)
    return JoinedFiles(
        [NpyRows(layout, chosen) for layout in layouts],
        np.dtype(np.float32 if small else np.float64),
        first.shape[1] if chosen is None else len(chosen),
    )


def _check_numbers(layout: _Layout) -> None:
    path = layout.stamp.path
    if layout.dtype.kind not in "fiub":
        raise DatasetError(f"{path} holds {layout.dtype}; expected an array of numbers.")
    if len(layout.shape) != 2:
        raise DatasetError(
            f"{path} has shape {layout.shape}; expected two dimensions, (rows, columns)."
        )
    end = layout.offset + layout.dtype.itemsize * int(np.prod(layout.shape))
    if layout.stamp.size < end:
        raise DatasetError(
            f"{path} is truncated: it has {layout.stamp.size} bytes, and {end} by its header "
            f"(shape {layout.shape}, {layout.dtype}). Write it again."
        )


def _column_numbers(columns: Sequence[int | str], layout: _Layout) -> tuple[int, ...]:
    n = layout.shape[1]
    for column in columns:
        if not isinstance(column, int | np.integer) or not 0 <= column < n:
            raise ValueError(
                f"columns has {column!r}, but {layout.stamp.path} is an array of {n} columns "
                f"without names; expected numbers from 0 to {n - 1}."
            )
    return tuple(int(column) for column in columns)


def _read_header(stamp: FileStamp) -> _Layout:
    readers = {
        (1, 0): npy_format.read_array_header_1_0,
        (2, 0): npy_format.read_array_header_2_0,
    }
    try:
        with open(stamp.path, "rb") as file:
            version = npy_format.read_magic(file)
            if version not in readers:
                raise ValueError(f"its version {version} is not one of plain numbers")
            shape, fortran_order, dtype = readers[version](file)
            offset = file.tell()
    except ValueError as error:
        raise DatasetError(
            f"{stamp.path} is damaged or not an array that numpy.save wrote: {error}."
        ) from error
    steps = shape[:-1] if fortran_order else shape[:0:-1]
    strides = [dtype.itemsize * int(step) for step in np.cumprod([1, *steps])] if shape else []
    return _Layout(stamp, offset, dtype, shape, tuple(strides if fortran_order else strides[::-1]))
