"""What X may be, and how it is opened for sweeps.

    array, list, data frame                         InMemory, after scikit-learn's checks
    path or glob, Dataset, pyarrow dataset,         OnDisk
    memory map of 1 GiB or more
    dask array or data frame                        on the workers, or block by block

Values that are not finite, or would overflow when squared, are refused in all of them by the
same sweep.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from robust_kmeans.execution.base import Execution, is_large
from robust_kmeans.execution.disk import OnDisk
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.reporting import Callback, Readings
from robust_kmeans.sources.base import Dataset
from robust_kmeans.sources.changed import converted
from robust_kmeans.sources.npy import from_memmap
from robust_kmeans.sources.opening import from_arrow, open_dataset
from robust_kmeans.sweeps.base import Step
from robust_kmeans.validation import (
    as_dtype,
    as_rows,
    as_weights,
    check_threads,
    check_values,
)


class Elsewhere(NamedTuple):
    """Rows that are not in this process's memory, a `Dataset` or a dask array, and their names."""

    rows: Any
    feature_names: Sequence[str] | None


def elsewhere(X: object) -> Elsewhere | None:
    """What is to be opened, where `X` is not an array and will not become one."""
    dataset = _dataset(X)
    if dataset is not None:
        if 0 in dataset.shape:
            raise ValueError(
                f"{dataset!r} has shape {dataset.shape}; it needs at least one row and one column."
            )
        return Elsewhere(dataset, dataset.feature_names)
    if _package(X) in ("dask", "dask_expr"):
        from robust_kmeans.execution.dask import as_dask_rows

        return Elsewhere(*as_dask_rows(X))
    return None


def rows_of(X: Any) -> Any:
    """`X` as what `opened` takes: a C-contiguous float array, a `Dataset` or a dask array."""
    found = elsewhere(X)
    return as_rows(X) if found is None else found.rows


def in_dtype(rows: Any, dtype: np.dtype[Any]) -> Any:
    """The same rows in another dtype."""
    if rows.dtype == dtype:
        return rows
    if isinstance(rows, np.ndarray):
        return as_dtype(rows, dtype)
    return converted(rows, dtype) if isinstance(rows, Dataset) else rows.astype(dtype)


@contextmanager
def opened(
    rows: Any,
    *,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
    memory_limit: int | None = None,
    feature_names: Sequence[str] | None = None,
    centers: NDArray[np.floating] | None = None,
    callback: Callback | None = None,
) -> Iterator[Execution]:
    """Open what `rows_of` has returned, and check its values (with `centers`).

    The `callback` is told of readings, if rows are elsewhere.
    """
    check_threads(n_threads)
    weights = as_weights(sample_weight, rows.shape[0])
    with _execution(rows, weights, n_threads, memory_limit) as data:
        if callback is not None and not isinstance(rows, np.ndarray):
            data.watch = Readings(callback, data.n_rows)
        check_values(data, feature_names, centers)
        yield data


def _dataset(X: object) -> Dataset | None:
    if isinstance(X, Dataset):
        return X
    if isinstance(X, str | os.PathLike):
        return open_dataset(X)
    if _package(X) == "pyarrow" and hasattr(X, "get_fragments"):
        return from_arrow(X)
    if isinstance(X, np.memmap) and X.ndim == 2 and is_large(len(X), X.shape[1], X.dtype):
        return _mapped(X)
    return None


def _mapped(X: np.memmap[Any, Any]) -> Dataset | None:
    """A memory map as a file to read ahead; None where its values are not those of the file."""
    try:
        dataset = from_memmap(X)
        ends = np.array([0, len(X) - 1])
        same = np.array_equal(dataset.take(ends), X[ends].astype(dataset.dtype), equal_nan=True)
    except (OSError, ValueError):
        return None
    # Another file may have taken its name since.
    return dataset if same else None


def _package(X: object) -> str:
    # By its name: no package is imported for somebody who does not use it.
    return type(X).__module__.partition(".")[0]


def per_row(
    rows: Any,
    step: Step[NDArray[Any]],
    shared: Any,
    dtype: DTypeLike,
    n_columns: int | None = None,
    **options: Any,
) -> Any:
    """One value per row, or `n_columns` of them; of a dask array a lazy one.

    `options` are those of `opened`.
    """
    if not isinstance(rows, np.ndarray | Dataset):
        from robust_kmeans.execution.dask import rows_lazily

        return rows_lazily(rows, step, shared, dtype, n_columns)
    with opened(rows, **options) as data:
        return data.collect(step, None, shared)


def _execution(
    rows: Any,
    weights: NDArray[np.float64] | None,
    n_threads: int | None,
    memory_limit: int | None,
) -> Any:
    if isinstance(rows, np.ndarray):
        return InMemory(rows, weights, n_threads)
    if isinstance(rows, Dataset):
        return OnDisk(rows, weights, n_threads, memory_limit)
    from robust_kmeans.execution.dask import open_dask

    return open_dask(rows, weights, n_threads)
