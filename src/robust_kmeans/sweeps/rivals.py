"""The sweep that measures several sets of centres in one reading, and keeps no state of it.

Of each set it finds what its cost follows from, a histogram of D², and the rows next to its
centres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import order
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep
from robust_kmeans.sweeps.distances import assigned
from robust_kmeans.sweeps.order import Histogram, KeyRange, add_histograms, look_at

Floats = NDArray[np.floating]


class Rivals(NamedTuple):
    """Sets of centres (k, d) each, and the key range to make histograms of D² over."""

    sets: tuple[Floats, ...]
    keys: KeyRange


class NearestRows(NamedTuple):
    """Per centre, of its rows that weigh something the nearest: D² (∞ if none), index, values."""

    d2: NDArray[np.float64]
    indices: NDArray[np.int64]
    points: Floats


class Judged(NamedTuple):
    """What a set of centres makes of the rows."""

    look: Histogram | None
    nearest: NearestRows


def _judge(chunk: Chunk, _state: object, shared: Rivals) -> tuple[None, list[Judged]]:
    return None, [_judge_one(chunk, centers, shared.keys) for centers in shared.sets]


def _judge_one(chunk: Chunk, centers: Floats, keys: KeyRange) -> Judged:
    # A function of its own: the memory of this state is free before the next set is measured.
    state = assigned(chunk, centers)
    return Judged(look_at(chunk, state.d2, keys), _nearest_rows(chunk, state, len(centers)))


def _nearest_rows(chunk: Chunk, state: RowState, n_clusters: int) -> NearestRows:
    least, positions = np.full(n_clusters, np.inf), np.full(n_clusters, -1, np.int64)
    order.nearest_rows(state.d2, state.labels, chunk.weights, least, positions)
    found = positions >= 0
    points = np.zeros((n_clusters, chunk.n_features), chunk.dtype)
    points[found] = chunk.rows[positions[found]]
    return NearestRows(least, np.where(found, chunk.start + positions, -1), points)


def _merge(parts: Sequence[list[Judged]]) -> list[Judged]:
    return [
        Judged(
            add_histograms([judged.look for judged in one]),
            _nearest_of([judged.nearest for judged in one]),
        )
        for one in zip(*parts, strict=True)
    ]


def _nearest_of(parts: Sequence[NearestRows]) -> NearestRows:
    d2 = np.array([part.d2 for part in parts])
    # Of equals the first chunk's, so the lowest row index.
    chunk, cluster = np.argmin(d2, axis=0), np.arange(d2.shape[1])
    return NearestRows(
        d2[chunk, cluster],
        np.array([part.indices for part in parts])[chunk, cluster],
        np.array([part.points for part in parts])[chunk, cluster],
    )


JUDGE = Sweep(_judge, _merge)
