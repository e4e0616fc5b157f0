"""Rows in Dask: what X may be there, and which way it is run.

    with a distributed client     on the workers that hold the blocks (`OnCluster`)
    otherwise                     in this process, block by block (`OnBlocks`)

The chunks are the array's own blocks of rows, so results are those of an array in memory with the
same plan, bit for bit.

Cost on a cluster: see there.  In this process every sweep that looks at rows computes all blocks,
but those that are arrays in memory already (`X.persist()`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import dask
import dask.array
import numpy as np
from dask.base import get_scheduler
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.execution.base import States
from robust_kmeans.execution.budget import Budget
from robust_kmeans.execution.notes import NOTED_SHARE, no_notes, noted
from robust_kmeans.execution.threads import OnThreads
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, NotAtHand, Step, read_only

if TYPE_CHECKING:
    from robust_kmeans.execution.dask_cluster import OnCluster

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def open_dask(
    array: Any, weights: NDArray[np.float64] | None = None, n_threads: int | None = None
) -> OnBlocks | OnCluster:
    """Open a dask array for sweeps, where Dask would compute it.

    Parameters
    ----------
    array : dask.array.Array of shape (n, d), as `as_dask_rows` prepares it
    weights : ndarray of shape (n,), float64, optional
        One weight per row; 1 each by default.
    n_threads : int, optional
        On a cluster per worker; by default those that the worker, or this process, may use.

    Examples
    --------
    >>> import dask.array
    >>> from robust_kmeans.sweeps.checks import RANGES
    >>> with open_dask(dask.array.arange(12.0, chunks=4).reshape(6, 2)) as data:
    ...     data.summarise(RANGES, None).high
    array([10., 11.])
    """
    client = _current_client()
    if client is None:
        return OnBlocks(array, weights, n_threads)
    from robust_kmeans.execution.dask_cluster import OnCluster

    return OnCluster(array, weights, client, n_threads)


def _current_client() -> Any:
    """The client that Dask would use now, None where it would not use any."""
    # Dask names a scheduler by the function that runs a graph; a client's is its method.
    chosen = getattr(get_scheduler(), "__self__", None)
    return chosen if hasattr(chosen, "register_plugin") else None


def as_dask_rows(X: Any) -> tuple[Any, list[str] | None]:
    """A dask array or data frame as rows: blocks of known size, in one block of columns.

    float32 and float64 stay what they are, other numbers become float64.  Where sizes are not
    known, they are found once: on a cluster the data are persisted for that.

    Returns
    -------
    array : dask.array.Array of shape (n, d)
    feature_names : list of str or None

    Examples
    --------
    >>> import dask.array
    >>> rows, _ = as_dask_rows(dask.array.ones((6, 4), chunks=(2, 2), dtype=int))
    >>> rows.chunks, rows.dtype
    (((2, 2, 2), (4,)), dtype('float64'))
    """
    array, names = (_frame_values(X), _names(X)) if hasattr(X, "columns") else (X, None)
    _check_kind(array)
    if np.isnan(array.shape).any():
        array = (array.persist() if _current_client() else array).compute_chunk_sizes()
    if 0 in array.shape:
        raise ValueError(f"X has shape {array.shape}; it needs at least one row and one column.")
    if array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    if array.dtype not in FLOATS:
        array = array.astype(np.float64)
    filled = np.flatnonzero(array.chunks[0])
    return array if len(filled) == array.numblocks[0] else array.blocks[filled], names


def _names(frame: Any) -> list[str] | None:
    names = list(frame.columns)
    return names if all(isinstance(name, str) for name in names) else None


def _frame_values(frame: Any) -> Any:
    dtypes = dict(frame.dtypes)
    for name, dtype in dtypes.items():
        if not (getattr(dtype, "_is_numeric", False) or getattr(dtype, "kind", "O") in "biuf"):
            raise ValueError(
                f"X has a column that is not numeric, {name!r} ({dtype}). Drop or encode it."
            )
    single = all(dtype == np.float32 for dtype in dtypes.values())
    dtype = np.dtype(np.float32 if single else np.float64)
    values = dask.delayed(_partition_values)
    parts = [
        dask.array.from_delayed(values(part, dtype), (np.nan, len(dtypes)), dtype)
        for part in frame.to_delayed()
    ]
    return dask.array.concatenate(parts)


def _partition_values(partition: Any, dtype: np.dtype[Any]) -> NDArray[np.floating]:
    # What is missing becomes NaN, which is refused with the place where it is.
    return np.ascontiguousarray(partition.to_numpy(dtype=dtype, na_value=np.nan))


def _check_kind(array: Any) -> None:
    kind = type(array._meta)
    if kind is not np.ndarray:
        raise TypeError(
            f"X has blocks of type {kind.__module__}.{kind.__name__}; expected NumPy arrays, "
            f"without masks. Convert them with X.map_blocks(…)."
        )
    if array.ndim != 2:
        raise ValueError(
            f"X has {array.ndim} dimensions; expected 2, rows and columns. "
            f"Use X.reshape(-1, 1) if it has a single column."
        )
    if array.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {array.dtype}; expected real numbers.")


def rows_lazily(
    array: Any,
    step: Step[NDArray[Any]],
    shared: Any,
    dtype: DTypeLike,
    n_columns: int | None = None,
) -> Any:
    """A step that needs no state, as a dask array: one value per row, or `n_columns` of them."""
    told = dask.delayed((step, shared), traverse=False)
    shape = () if n_columns is None else (n_columns,)
    values = dask.delayed(_values)
    parts = [
        dask.array.from_delayed(values(block, told, array.dtype), (n_rows, *shape), dtype)
        for block, n_rows in zip(array.to_delayed().ravel(), array.chunks[0], strict=True)
    ]
    return dask.array.concatenate(parts)


def _values(
    block: NDArray[Any], told: tuple[Step[NDArray[Any]], Any], dtype: np.dtype[Any]
) -> NDArray[Any]:
    step, shared = told
    if not np.isfinite(block).all():
        raise ValueError(
            "X has NaN or infinite values. Drop such rows or fill them before predicting."
        )
    return step(Chunk(np.ascontiguousarray(block, dtype), NO_WEIGHTS, 0), None, shared)[1]


class OnBlocks(OnThreads):
    """Chunks that are the blocks of a dask array, computed in this process when looked at.

    Each thread computes the block that it works on next, so that some are computed while others
    are worked on.

    Parameters
    ----------
    array, weights, n_threads
        As for `open_dask`.
    """

    reads_whole = True

    def __init__(
        self, array: Any, weights: NDArray[np.float64] | None, n_threads: int | None = None
    ) -> None:
        sizes = array.chunks[0]
        starts = np.cumsum([0, *sizes])
        parts = NO_WEIGHTS if weights is None else weights
        graph = array.__dask_graph__()
        notes = Budget(int(NOTED_SHARE * array.nbytes))
        chunks = [
            _chunk(
                graph[key], block, array, parts[start : start + size], int(start), int(size), notes
            )
            for (key,), block, start, size in zip(
                array.__dask_keys__(), array.to_delayed().ravel(), starts, sizes, strict=False
            )
        ]
        super().__init__(chunks, weights, n_threads)
        self._sizes = sizes

    def collect_lazily(
        self, step: Step[NDArray[Any]], states: States, shared: Any, dtype: DTypeLike
    ) -> Any:
        """As on a cluster a dask array, of values that are in memory."""
        values = self.collect(step, states, shared).astype(dtype, copy=False)
        return dask.array.from_array(values, chunks=(self._sizes,))


def _chunk(
    task: Any,
    block: Any,
    array: Any,
    weights: NDArray[np.float64],
    start: int,
    n_rows: int,
    for_notes: Budget,
) -> Chunk:
    """A chunk of the rows at hand where the task of its block is nothing but an array."""
    at_hand = getattr(task, "value", task)
    if isinstance(at_hand, np.ndarray):
        return Chunk(np.ascontiguousarray(at_hand, array.dtype), weights, start)
    # Threads of ours are enough: Dask needs no others for one block.
    compute = partial(block.compute, scheduler=get_scheduler() or "synchronous")
    shape = n_rows, array.shape[1]
    return ComputedChunk(compute, shape, array.dtype, weights, start, for_notes)


class ComputedChunk(Chunk):
    """A chunk whose rows are computed when a step looks at them, and kept until it is done."""

    takes_notes = True

    def __init__(
        self,
        compute: Callable[[], Any],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        weights: NDArray[np.float64],
        start: int,
        for_notes: Budget,
    ) -> None:
        self._describe(shape, dtype, weights, start)
        self._compute, self._for_notes = compute, for_notes
        self._held: NDArray[np.floating] | None = None
        self._notes = no_notes(self.n_features, dtype)

    @property
    def rows(self) -> NDArray[np.floating]:
        """All rows (n_rows, n_features)."""
        if self._held is None:
            self._held = self._computed()
        return self._held

    def note(self, positions: NDArray[np.integer]) -> None:
        """Keep a copy of these rows until the next note, if they are few."""
        self._notes = no_notes(self.n_features, self.dtype)
        self._notes = noted(self.rows, positions, self._for_notes)

    def take(self, positions: NDArray[np.integer]) -> NDArray[np.floating]:
        """A copy of the few rows at these positions."""
        try:
            return self._notes.take(positions)
        except NotAtHand:
            rows = self._computed() if self._held is None else self._held
            return read_only(rows[positions])

    def release(self) -> None:
        """Let the rows go."""
        self._held = None

    def _computed(self) -> NDArray[np.floating]:
        return read_only(np.ascontiguousarray(self._compute(), self.dtype))
