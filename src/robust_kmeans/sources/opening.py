"""From a path to a data set: which files, of which format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from robust_kmeans.sources.base import Dataset
from robust_kmeans.sources.files import ending_of, find_files
from robust_kmeans.sources.npy import open_npy

FORMATS = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
}

Columns = Sequence[str | int] | None


def open_dataset(path: str | os.PathLike[str], columns: Columns = None) -> Dataset:
    """Rows that lie on disk, to be clustered without having all of them in memory.

    Parameters
    ----------
    path : str or path-like
        A file, a folder or a pattern such as ``"data/*.parquet"``.  Several files are joined,
        part-2 before part-10; all must have the same format, which their names tell: .npy,
        .parquet or .pq, .feather or .arrow or .ipc, .csv (commas), .tsv or .txt (tabs).
        Text is read once to see where its lines are; a first line of numbers is a row, not
        a header, and values have no line breaks in them.
    columns : sequence of str, optional
        The columns to use, in this order; for .npy files, which have no names, numbers from 0.
        By default all, which then must be numeric.

    Returns
    -------
    Dataset
        Of float32 if all columns are of float32, otherwise of float64.  Missing
        values are NaN.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DatasetError
        If a file is damaged, or does not have the columns; it names the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in (1, 2):
    ...         np.save(f"{folder}/part-{part}.npy", np.full((2, 3), part, np.float32))
    ...     data = open_dataset(f"{folder}/*.npy", columns=[0, 2])
    ...     data.n_rows, data.n_features
    ...     data.read(1, 3)
    (4, 2)
    array([[1., 1.],
           [2., 2.]], dtype=float32)
    """
    if isinstance(columns, str) or (
        columns is not None and not 0 < len(set(columns)) == len(columns)
    ):
        raise ValueError(f"columns={columns!r}: expected a list of at least one column, each once.")
    paths = find_files(path, tuple(FORMATS))
    return _opener(_format_of(paths))(paths, columns)


def from_arrow(dataset: Any) -> Dataset:
    """The files of a pyarrow data set, with the columns of its schema.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        Of Parquet, Feather or CSV files on this machine, without partitions or a filter.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If its rows are not simply those of files.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pa.dataset.write_dataset(pa.table({"a": [1.0, 2.0]}), folder, format="parquet")
    ...     from_arrow(pa.dataset.dataset(folder)).read(0, 2)
    array([[1.],
           [2.]])
    """
    kind = {"parquet": "parquet", "arrow": "feather", "feather": "feather", "csv": "text"}.get(
        dataset.format.default_extname if hasattr(dataset, "files") else ""
    )
    # Asked for its parts, a data set with a filter raises a ValueError of its own.
    partitioned = any(str(part.partition_expression) != "true" for part in dataset.get_fragments())
    local = kind is not None and dataset.filesystem.type_name == "local"
    if not local or partitioned:
        raise ValueError(
            f"{type(dataset).__name__} must be of Parquet, Feather or CSV files on this machine, "
            f"without partitions; write the rows that you want to such files first."
        )
    if kind == "text":
        from robust_kmeans.sources.text import open_text

        return open_text(
            dataset.files, dataset.schema.names, dataset.format.parse_options.delimiter
        )
    return _opener(str(kind))(dataset.files, dataset.schema.names)


def _format_of(paths: Sequence[str]) -> str:
    formats: dict[str, str] = {}
    for path in paths:
        ending = ending_of(path, tuple(FORMATS))
        if ending is None:
            packed = path.lower().endswith((".gz", ".bz2", ".xz", ".zip", ".zst"))
            hint = " Unpack it: compressed text cannot be read from the middle." if packed else ""
            raise ValueError(
                f"{path} has no known format; expected a name that ends in {', '.join(FORMATS)}."
                f"{hint}"
            )
        formats.setdefault(FORMATS[ending], path)
    if len(formats) > 1:
        raise ValueError(
            f"Files of several formats cannot be joined: {' and '.join(formats.values())}. Give a "
            f"pattern that matches one format."
        )
    return next(iter(formats))


def _opener(kind: str) -> Callable[[Sequence[str], Columns], Dataset]:
    if kind == "npy":
        return open_npy
    with _needing_pyarrow(kind):
        module = import_module(f"robust_kmeans.sources.{kind}")
    opener: Callable[[Sequence[str], Columns], Dataset] = getattr(module, f"open_{kind}")
    return opener


@contextmanager
def _needing_pyarrow(kind: str) -> Iterator[None]:
    """Say what to install where pyarrow is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pyarrow":
            raise
        raise ImportError(
            f"Files of the format {kind} are read with pyarrow: pip install 'robust-kmeans[disk]'."
        ) from error
