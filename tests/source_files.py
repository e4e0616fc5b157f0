"""Small data files of every format."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq


def numbered_rows(n_rows, n_features=3, dtype=np.float32):
    """No two values are equal, and all are exact in either dtype."""
    return np.arange(n_rows * n_features, dtype=dtype).reshape(n_rows, n_features)


def as_table(rows):
    names = [f"f{j}" for j in range(rows.shape[1])]
    return pa.table(dict(zip(names, map(np.ascontiguousarray, rows.T), strict=True)))


def write(path, rows, piece=4):
    """One file, in pieces of so many rows where its format has any."""
    match path.suffix:
        case ".npy":
            np.save(path, rows)
        case ".parquet":
            pq.write_table(as_table(rows), path, row_group_size=piece)
        case ".feather":
            pa.feather.write_feather(as_table(rows), path, chunksize=piece)
        case ".csv":
            pa.csv.write_csv(as_table(rows), path)
    return path


def write_parts(folder, kind, rows, cuts, piece=4):
    edges = [0, *cuts, len(rows)]
    for i, (start, stop) in enumerate(pairwise(edges)):
        write(folder / f"part-{i}.{kind}", rows[start:stop], piece)
    return folder


def stored(kind, dtype):
    """Text has no dtype: its numbers are float64."""
    return np.dtype(np.float64) if kind == "csv" else np.dtype(dtype)
