"""Files: which ones are meant, whether they are still the same, and reading ahead of need."""

from __future__ import annotations

import glob
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.sources.base import DatasetError

Block = NDArray[Any] | list[NDArray[Any]]
"""Some rows as they were stored: an array of rows, or one array for each column."""


@dataclass(frozen=True)
class FileStamp:
    """A file as it was when the data set was opened."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileStamp:
        """The file as it is now; its path is made absolute, so that it means the same anywhere."""
        path = os.path.abspath(path)
        status = os.stat(path)
        return cls(path, status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Raise if it is not the same file any more: rows would be of two versions."""
        try:
            same = FileStamp.of(self.path) == self
        except OSError as error:
            raise DatasetError(
                f"{self.path} was there when the data set was opened, and cannot be read any "
                f"more: {error.strerror}. Open the data set again."
            ) from error
        if not same:
            raise DatasetError(
                f"{self.path} was changed after the data set was opened: rows of two versions "
                f"would be mixed. Open the data set again."
            )

    def ask_for(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Have the system read some ranges of bytes, without waiting for them."""
        # Not every system can be asked.
        if not ranges or not hasattr(os, "posix_fadvise"):
            return
        # It fills the system's cache, whoever reads the file; and if the file is gone by now,
        # whoever reads it will say so.
        with suppress(OSError), open(self.path, "rb") as file:
            for start, stop in ranges:
                os.posix_fadvise(file.fileno(), start, stop - start, os.POSIX_FADV_WILLNEED)


class RowFile(ABC):
    """The rows of one file, in the columns that were asked for."""

    stamp: FileStamp
    takes_quickly = False
    decoding_bytes = 0
    starts: NDArray[np.int64]
    """Rows at which pieces begin that can be read on their own, and the end."""
    ranges: list[list[tuple[int, int]]]
    """The bytes of each piece."""

    @property
    def n_rows(self) -> int:
        """Rows in the file."""
        return int(self.starts[-1])

    def piece_of(self, row: int) -> int:
        """The piece that a row is in."""
        return int(np.searchsorted(self.starts, row, side="right")) - 1

    @abstractmethod
    def blocks(self, start: int, stop: int) -> Generator[Block, None, None]:
        """Rows start:stop in consecutive blocks, none of them empty."""

    def ask_for(self, start: int, stop: int) -> None:
        """Have the system read the pieces that begin in rows start:stop, without waiting."""
        first, last = np.searchsorted(self.starts[:-1], (start, stop))
        self.stamp.ask_for([pair for ranges in self.ranges[first:last] for pair in ranges])

    @abstractmethod
    def where(self, row: int) -> str:
        """The file and the place of a row in it."""


def find_files(path: str | os.PathLike[str], known: Sequence[str]) -> list[str]:
    """The files that a path, a folder or a pattern means, part-2 before part-10.

    Of a folder, the files count whose names end in one of `known` and do not begin with a dot
    or an underscore, as other readers of folders have it.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        found = [
            entry.path
            for entry in os.scandir(name)
            if entry.is_file() and entry.name[0] not in "._" and ending_of(entry.name, known)
        ]
        what = f"The folder {name!r} has no file whose name ends in {', '.join(known)}"
    elif os.path.exists(name):
        found, what = [name], ""
    else:
        found = [match for match in glob.glob(name, recursive=True) if os.path.isfile(match)]
        what = f"No file matches {name!r}"
    if not found:
        raise FileNotFoundError(f"{what}; expected a file, a folder or a pattern of data files.")
    return sorted(found, key=_natural_order)


def ending_of(name: str, known: Sequence[str]) -> str | None:
    """The one of `known` that a name ends in."""
    return next((ending for ending in known if name.lower().endswith(ending)), None)


def _natural_order(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name)
    # Text before a number and numbers take turns, so like is compared with like.
    return [(int(part), part) if i % 2 else (0, part) for i, part in enumerate(parts)]
