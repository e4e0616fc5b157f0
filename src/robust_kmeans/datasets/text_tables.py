"""Tables of numbers with a class in the last column, read from blocks of text.

NumPy's own parser does the work, one block at a time: what is held is the table that is
wanted and one block.  About half a million rows of KDD Cup a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.datasets.packed import DataFileError

CLASS = "class"


@dataclass(frozen=True)
class TableFormat:
    """How a line is laid out.

    Attributes
    ----------
    columns : tuple of str
        The names of all columns but the last, which is the class.
    left_out : frozenset of str
        Columns whose text is not looked at.
    delimiter : str or None
        None stands for any white space.
    label : dtype
        Of the class: an integer, or bytes of at least one more than the longest label.
    """

    columns: tuple[str, ...]
    left_out: frozenset[str]
    delimiter: str | None
    label: np.dtype[Any]

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are kept."""
        return tuple(name for name in self.columns if name not in self.left_out)

    @property
    def record(self) -> np.dtype[Any]:
        """What NumPy is to make of a line."""
        kinds = [(name, "S1" if name in self.left_out else "f8") for name in self.columns]
        return np.dtype([*kinds, (CLASS, self.label)])


def read_table(
    blocks: Iterable[bytes],
    layout: TableFormat,
    n_rows: int,
    dtype: np.dtype[Any],
    path: Path,
) -> tuple[NDArray[np.floating], NDArray[Any]]:
    """The features and the classes of a text of `n_rows` lines; `path` is for messages."""
    X = np.empty((n_rows, len(layout.features)), dtype)
    labels = np.empty(n_rows, layout.label)
    record = layout.record
    end = 0
    for lines in _whole_lines(blocks):
        start, end = end, end + len(lines)
        if end > n_rows:
            raise DataFileError(f"{str(path)!r} has more than the {n_rows:,} lines expected.")
        try:
            table = _parse(lines, record, layout)
        except ValueError:
            _raise_for_line(lines, start, record, layout, path)
            raise
        for column, name in enumerate(layout.features):
            X[start:end, column] = table[name]
        labels[start:end] = table[CLASS]
    if end < n_rows:
        raise DataFileError(f"{str(path)!r} has {end:,} lines, expected {n_rows:,}.")
    return X, labels


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[list[str]]:
    rest = b""
    for block in blocks:
        # Latin-1 takes every byte, so that what is wrong is found where its line is known.
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield whole.decode("latin-1").split("\n")
    if rest:
        yield [rest.decode("latin-1")]


def _parse(lines: list[str], record: np.dtype[Any], layout: TableFormat) -> NDArray[Any]:
    # NumPy passes over empty lines.
    if not all(map(str.strip, lines)):
        raise ValueError("it is empty")
    table: NDArray[Any] = np.loadtxt(
        lines, dtype=record, delimiter=layout.delimiter, comments=None, ndmin=1
    )
    for name in layout.features:
        if not np.isfinite(table[name]).all():
            raise ValueError(f"{name} is not a finite number")
    letters = layout.label.itemsize
    # A longer one has been cut off to this.
    if layout.label.kind == "S" and (np.strings.str_len(table[CLASS]) == letters).any():
        raise ValueError(f"its class has more than {letters - 1} letters")
    return table


def _raise_for_line(
    lines: list[str], start: int, record: np.dtype[Any], layout: TableFormat, path: Path
) -> None:
    """Parse again one by one, to name the line: NumPy counts those that it was given."""
    for number, line in enumerate(lines, start + 1):
        try:
            _parse([line], record, layout)
        except ValueError as error:
            text = line if len(line) <= 80 else f"{line[:77]}..."
            raise DataFileError(
                f"{str(path)!r}, line {number}: {text!r} is not {len(layout.columns)} values and "
                f"a class: {error}."
            ) from error
