from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask")
import dask
import dask.array as da
import dask.dataframe as dd

from robust_kmeans.execution.dask import as_dask_rows, open_dask, rows_lazily
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.sweeps.base import Sweep, Work, in_chunk_order
from robust_kmeans.sweeps.checks import RANGES
from robust_kmeans.sweeps.rows import Model, distances_to, predicted_labels

X = np.random.RandomState(0).standard_normal((60, 4)).astype(np.float32)


class Count:
    """A function of blocks that counts how often it is called."""

    def __init__(self):
        self.n = 0

    def __call__(self, block):
        self.n += 1
        return block


def counted(chunks=(20, 4)):
    count = Count()
    array = da.from_array(X, chunks=chunks)
    return count, array.map_blocks(count, dtype=X.dtype, meta=np.empty((0, 0), X.dtype))


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [("float32", "float32"), ("float64", "float64"), ("float16", "float64"),
     ("int32", "float64"), ("uint8", "float64"), ("bool", "float64")],
)  # fmt: skip
def test_floats_are_kept_and_other_numbers_become_float64(dtype, kept):
    array, names = as_dask_rows(da.from_array(np.ones((6, 2), dtype), chunks=2))
    assert (array.dtype, array.chunks, names) == (kept, ((2, 2, 2), (2,)), None)
    np.testing.assert_array_equal(array.compute(scheduler="sync"), np.ones((6, 2)))


def test_columns_are_brought_into_one_block_and_rows_stay_in_theirs():
    array, _ = as_dask_rows(da.from_array(X, chunks=(20, 3)))
    assert array.chunks == ((20, 20, 20), (4,))
    np.testing.assert_array_equal(array.compute(scheduler="sync"), X)


def test_unknown_sizes_are_found_once():
    count, array = counted()
    unknown = array[da.from_array(X[:, 0] > 0, chunks=20)]
    rows, _ = as_dask_rows(unknown)
    assert count.n == 3
    assert rows.shape == (np.count_nonzero(X[:, 0] > 0), 4)
    with open_dask(rows) as data:
        assert data.n_rows == rows.shape[0]
    assert count.n == 3


def test_empty_blocks_are_left_out():
    array, _ = as_dask_rows(da.from_array(X, chunks=((20, 0, 40, 0), 4)))
    assert array.chunks == ((20, 40), (4,))
    np.testing.assert_array_equal(array.compute(scheduler="sync"), X)


def test_a_data_frame_has_names_and_rows_without_its_empty_partitions():
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["e"] = pd.array([*range(59), None], dtype="Int64")
    lazy = dd.from_pandas(frame, npartitions=4)
    array, names = as_dask_rows(lazy[lazy.e.isna() | (lazy.e >= 20)])
    assert names == list("abcde")
    assert array.dtype == np.float64
    assert 0 not in array.chunks[0]
    found = array.compute(scheduler="sync")
    np.testing.assert_array_equal(found[:, :4], X[20:])
    np.testing.assert_array_equal(found[:, 4], [*range(20, 59), np.nan])


def test_float32_columns_stay_float32():
    array, names = as_dask_rows(dd.from_pandas(pd.DataFrame(X), npartitions=2))
    assert (array.dtype, names) == (np.float32, None)


def test_a_column_that_is_not_numeric_is_named():
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "place": ["x", "y"]}), npartitions=1)
    with pytest.raises(ValueError, match="not numeric, 'place'"):
        as_dask_rows(frame)


@pytest.mark.parametrize(
    ("array", "kind", "message"),
    [
        (da.ones((0, 3)), ValueError, r"shape \(0, 3\); it needs at least one row"),
        (da.ones((3, 0)), ValueError, r"shape \(3, 0\); it needs at least one row"),
        (da.ones(3), ValueError, "1 dimensions; expected 2"),
        (da.ones((3, 2), dtype=complex), ValueError, "dtype complex128; expected real"),
        (da.ma.masked_greater(da.ones((3, 2)), 0), TypeError, "MaskedArray; expected NumPy"),
    ],
)
def test_what_cannot_be_clustered_is_refused(array, kind, message):
    with pytest.raises(kind, match=message):
        as_dask_rows(array)


def _n_rows(chunk, _state, _shared):
    return None, chunk.n_rows


def _first_row(chunk, _state, _shared):
    return None, float(chunk.take(np.array([0]))[0, 0])


def test_blocks_are_computed_once_per_reading_and_not_for_states():
    count, array = counted()
    with open_dask(array, n_threads=2) as data:
        assert data.summarise(Sweep(_n_rows, in_chunk_order, work=Work.LIGHT), None) == [20] * 3
        assert count.n == 0
        np.testing.assert_array_equal(data.summarise(RANGES, None).low, X.min(axis=0))
        assert count.n == 3
        assert data.summarise(Sweep(_first_row, in_chunk_order), None) == X[::20, 0].tolist()
        assert count.n == 6
        assert data.at(1, _first_row, None, None) == X[20, 0]


def test_blocks_in_memory_are_not_copied():
    array = da.from_array(X, chunks=(20, 4)).persist(scheduler="sync")
    blocks = [getattr(task, "value", task) for task in array.dask.values()]
    with open_dask(array) as data:
        for chunk, block in zip(data._chunks, blocks, strict=True):
            assert np.shares_memory(chunk.rows, block)


def test_lazy_steps_on_blocks_are_those_on_arrays():
    centers = X[:3].copy()
    model = Model(centers, 2.0)
    array = da.from_array(X, chunks=(20, 4))
    labels = rows_lazily(array, predicted_labels, model, np.int32)
    distances = rows_lazily(array, distances_to, centers, X.dtype, n_columns=3)
    assert (labels.chunks, distances.chunks) == (((20,) * 3,), ((20,) * 3, (3,)))
    with InMemory(X, None, 1, np.array([0, 60])) as data, dask.config.set(scheduler="sync"):
        np.testing.assert_array_equal(labels, data.collect(predicted_labels, None, model))
        np.testing.assert_array_equal(distances, data.collect(distances_to, None, centers))
