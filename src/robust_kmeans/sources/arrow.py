"""Columns of Arrow tables as numbers: which ones, of which dtype, and as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from robust_kmeans.sources.base import DatasetError

UNREADABLE = (pa.ArrowException, OSError)
"""What pyarrow raises when a file is damaged."""


def choose_columns(
    paths: Sequence[str], schemas: Sequence[pa.Schema], columns: Sequence[str | int] | None
) -> tuple[list[str], np.dtype[Any]]:
    """The names of the columns to use, and the dtype that holds them all.

    By default all columns but those that pandas keeps its index in.
    """
    names = _columns_of(schemas[0]) if columns is None else list(columns)
    for path, schema in zip(paths, schemas, strict=True):
        for name in names:
            if not isinstance(name, str) or schema.names.count(name) != 1:
                times = "twice" if name in schema.names else "not"
                raise DatasetError(
                    f"Column {name!r} is {times} in {path}, whose columns are "
                    f"{_listed(schema.names)}; every file must have it once. columns= chooses "
                    f"others."
                )
            if not _is_number(schema.field(name).type):
                numeric = [field.name for field in schema if _is_number(field.type)]
                raise DatasetError(
                    f"{path}: column {name!r} is {schema.field(name).type}, not numeric. Leave it "
                    f"out: columns={_listed(numeric)} has the numeric ones."
                )
        extra = set(_columns_of(schema)).difference(names)
        if columns is None and extra:
            raise DatasetError(
                f"{path} has a column {min(extra)!r} that {paths[0]} has not; every file must "
                f"have the same columns. columns= chooses those that all of them have."
            )
    small = all(schema.field(name).type == pa.float32() for schema in schemas for name in names)
    return [str(name) for name in names], np.dtype(np.float32 if small else np.float64)


def as_block(batch: pa.RecordBatch, names: Sequence[str]) -> list[NDArray[Any]]:
    """The columns as NumPy arrays, without a copy where that is possible; nulls are NaN."""
    return [_as_array(batch.column(name)) for name in names]


def _columns_of(schema: pa.Schema) -> list[str]:
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _is_number(kind.value_type)
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _as_array(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        column = pa.compute.cast(column, pa.float64())
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def _listed(names: Sequence[str]) -> str:
    return repr(list(names[:20]))[:-1] + (", …]" if len(names) > 20 else "]")
