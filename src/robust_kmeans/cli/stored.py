"""Rows that stay on disk, as a command was asked for: which columns, their names, their scale."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.cli.request import Source, Voice
from robust_kmeans.cli.sources import DELIMITERS, ArrowSource, NpySource, TextSource
from robust_kmeans.cli.tables import choose_columns
from robust_kmeans.cli.terminal import UserError
from robust_kmeans.scaling import Scaling
from robust_kmeans.sources.base import Dataset
from robust_kmeans.sources.changed import Changed
from robust_kmeans.sources.files import ending_of, find_files
from robust_kmeans.sources.opening import FORMATS, open_dataset
from robust_kmeans.sources.text import open_text

# A single file of so many bytes is not read into memory, unless that is asked for.
LARGE_FILE = 2**30
# Values of the sample that a scaling is found from and a picture is drawn of: 64 MB.  Of ten
# columns these are 800,000 rows, which know quartiles to a twentieth of a percent of the rows.
SAMPLE_VALUES = 2**23


def stays_on_disk(path: Path, on_disk: bool | None, memory_limit: str | None) -> bool:
    """Whether rows are to be read piece by piece rather than into memory."""
    if on_disk is False and memory_limit is not None:
        raise UserError("--memory-limit is for rows that stay on disk; leave --in-memory out.")
    if on_disk is not None or memory_limit is not None:
        return on_disk is not False
    if path.is_file():
        # Compressed text cannot be read from the middle.
        return path.stat().st_size >= LARGE_FILE and path.suffix.lower() != ".gz"
    return path.is_dir() or glob.has_magic(str(path))


class Stored(NamedTuple):
    """Rows on disk, and the files that they are in."""

    rows: Dataset
    names: list[str]
    files: list[Path]

    def where(self, row: int) -> str:
        """The place of a row, without the folders that all files have in common."""
        return self.rows.where(row).removeprefix(f"{self.files[0].absolute().parent}/")


def files_of(source: Source) -> list[Path]:
    """The files that are asked for."""
    _refuse_what_needs_memory(source)
    return [Path(path) for path in find_files(source.path, tuple(FORMATS))]


def open_stored(source: Source, files: list[Path], voice: Voice) -> Stored:
    """The rows and columns that are asked for; text is read once to see where its lines are."""
    first = _first_columns(files[0], source.delimiter, voice)
    columns = None
    if source.columns is not None or source.exclude:
        chosen = choose_columns(files[0], first.names, source.columns, source.exclude)
        columns = [first.stored[first.names.index(name)] for name in chosen]
    text = all(ending_of(file.name, tuple(DELIMITERS)) for file in files)
    if text and source.delimiter is not None:
        rows: Dataset = open_text(list(map(str, files)), columns, source.delimiter)
    else:
        rows = open_dataset(source.path, columns)
    if not rows.n_rows:
        raise UserError(f"{source.path} has no rows; expected at least one.")
    used = rows.feature_names or columns or first.stored
    left_out = [name for name in first.stored if columns is None and name not in used]
    if left_out:
        voice.note(
            f"Left out, as the index of a pandas data frame: {', '.join(map(str, left_out))}."
        )
    shown = dict(zip(first.stored, first.names, strict=True))
    # As where rows are in memory, and in messages about columns.
    rows.feature_names = [shown.get(name, str(name)) for name in used]
    return Stored(rows, rows.feature_names, files)


def sample_of(rows: Dataset, seed: int) -> NDArray[np.floating]:
    """Rows drawn at random, or all where they are few."""
    n_sampled = max(1, SAMPLE_VALUES // rows.n_features)
    if rows.n_rows <= n_sampled:
        return rows.read(0, rows.n_rows)
    # A generator of this kind does not put all row numbers into a list to draw some.
    random = np.random.default_rng(seed)
    places = random.choice(rows.n_rows, n_sampled, replace=False, shuffle=False)
    return rows.take(np.sort(places))


def scaled(rows: Dataset, scaling: Scaling) -> Dataset:
    """The rows of a data set, scaled as they are read."""
    return rows if scaling.method == "none" else Changed(rows, scaling.apply, rows.dtype)


class _Columns(NamedTuple):
    """What columns are called here, and what by the data set."""

    names: list[str]
    stored: list[str | int]


def _first_columns(path: Path, delimiter: str | None, voice: Voice) -> _Columns:
    """The columns of the first file; all others must have the same."""
    ending = ending_of(path.name, tuple(FORMATS))
    if ending is None:
        open_dataset(path)  # says which names it knows
    kind = FORMATS[str(ending)]
    if kind == "npy":
        names = NpySource(path).names
        return _Columns(names, list(range(len(names))))
    if kind != "text":
        names = ArrowSource(path, f".{kind}").names
        return _Columns(names, list(names))
    text = TextSource(path, delimiter or DELIMITERS[str(ending)], None)
    for said in text.notes:
        voice.note(said)
    numbered = [str(place) for place in range(len(text.names))]
    return _Columns(text.names, list(text.names if text.has_header else numbered))


def _refuse_what_needs_memory(source: Source) -> None:
    for option, given in (
        ("--drop-missing", source.drop_missing),
        ("--header", source.header),
        ("--no-header", source.header is False),
    ):
        if given:
            raise UserError(
                f"{option} is only for a file that is read into memory: give --in-memory and one "
                f"file, or write files without missing values and with names of columns first."
            )
