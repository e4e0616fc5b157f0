"""Steps whose result has one entry per row, to be collected: the output of a fit or a predict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import distances as kernels
from robust_kmeans.sweeps.base import Chunk, RowState
from robust_kmeans.sweeps.cut import Cut, flagged_rows
from robust_kmeans.sweeps.distances import assigned


class Model(NamedTuple):
    """What prediction needs: the centres, and the D² beyond which a row is an outlier."""

    centers: NDArray[np.floating]
    threshold: float


def labels_with_outliers(
    chunk: Chunk, state: RowState, cut: Cut
) -> tuple[RowState, NDArray[np.int32]]:
    """Nearest labels, −1 for outliers."""
    minus_one = np.int32(-1)
    return state, np.where(flagged_rows(chunk, state, cut), minus_one, state.labels)


def nearest_labels(_chunk: Chunk, state: RowState, _: None) -> tuple[RowState, NDArray[np.int32]]:
    """The label of the nearest centre."""
    return state, state.labels


def squared_distances(
    _chunk: Chunk, state: RowState, _: None
) -> tuple[RowState, NDArray[np.floating]]:
    """D²."""
    return state, state.d2


def predicted_labels(chunk: Chunk, _state: object, model: Model) -> tuple[None, NDArray[np.int32]]:
    """Nearest labels, −1 beyond the threshold: each row by itself, whatever its batch."""
    state = assigned(chunk, model.centers)
    # As float64: between two neighbouring float32 values there is room for a threshold.
    beyond = state.d2 > np.float64(model.threshold)
    return None, np.where(beyond, np.int32(-1), state.labels)


def predicted_d2(
    chunk: Chunk, _state: object, centers: NDArray[np.floating]
) -> tuple[None, NDArray[np.floating]]:
    """D² to the nearest centre."""
    return None, assigned(chunk, centers).d2


def distances_to(
    chunk: Chunk, _state: object, centers: NDArray[np.floating]
) -> tuple[None, NDArray[np.floating]]:
    """Euclidean distances to every centre, of shape (m, k)."""
    out = np.empty((chunk.n_rows, len(centers)), chunk.dtype)
    kernels.pairwise(chunk.rows, centers, out)
    return None, out
