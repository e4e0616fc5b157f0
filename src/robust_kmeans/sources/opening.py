"""From a path to a data set: which files, of which format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from robust_kmeans.sources.base import Dataset
from robust_kmeans.sources.files import ending_of, find_files
from robust_kmeans.sources.npy import open_npy

FORMATS = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
}

Columns = Sequence[str | int] | None


def open_dataset(path: str | os.PathLike[str], columns: Columns = None) -> Dataset:
    """Rows that lie on disk, to be clustered without having all of them in memory.

    Parameters
    ----------
    path : str or path-like
        A file, a folder or a pattern such as ``"data/*.parquet"``.  Several files are joined,
        part-2 before part-10; all must have the same format, which their names tell: .npy,
        .parquet or .pq.
    columns : sequence of str, optional
        The columns to use, in this order; for .npy files, which have no names, numbers from 0.
        By default all, which then must be numeric.

    Returns
    -------
    Dataset
        Of float32 if all columns are of float32 or float16, otherwise of float64.  Missing
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
    if columns is not None and (len(columns) == 0 or len(set(columns)) < len(columns)):
        raise ValueError(f"columns={list(columns)!r} must name at least one column, each once.")
    paths = find_files(path, tuple(FORMATS))
    return _opener(_format_of(paths))(paths, columns)


def _format_of(paths: Sequence[str]) -> str:
    formats: dict[str, str] = {}
    for path in paths:
        ending = ending_of(path, tuple(FORMATS))
        if ending is None:
            raise ValueError(
                f"{path} has no known format; expected a name that ends in {', '.join(FORMATS)}."
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
    with needing_pyarrow(kind):
        from robust_kmeans.sources.parquet import open_parquet

        return open_parquet


@contextmanager
def needing_pyarrow(kind: str) -> Iterator[None]:
    """Say what to install where pyarrow is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pyarrow":
            raise
        raise ImportError(
            f"Files of the format {kind} are read with pyarrow: pip install 'robust-kmeans[disk]'."
        ) from error
