"""The sweep that looks at the input once: range of each feature, values that are not finite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import totals
from robust_kmeans.sweeps.base import Chunk, Sweep

ROWS_AT_ONCE = 16


@dataclass(frozen=True)
class Ranges:
    """Per feature the least and the largest value; and what is not finite.

    `bad_values` counts NaN and infinite values per feature; `first_bad` is the global
    index of the first row that has one, −1 for none.
    """

    low: NDArray[np.floating]
    high: NDArray[np.floating]
    bad_values: NDArray[np.int64]
    first_bad: int


def _ranges(chunk: Chunk, state: object, _shared: None) -> tuple[object, Ranges]:
    n_features = chunk.n_features
    lows = np.full((ROWS_AT_ONCE, n_features), np.inf, chunk.dtype)
    highs = np.full((ROWS_AT_ONCE, n_features), -np.inf, chunk.dtype)
    check = totals.periodic_ranges(chunk.rows.reshape(-1), lows.reshape(-1), highs.reshape(-1))
    low, high = lows.min(axis=0), highs.max(axis=0)
    if check == 0:
        return state, Ranges(low, high, np.zeros(n_features, np.int64), -1)
    bad = ~np.isfinite(chunk.rows)
    first = chunk.start + int(np.argmax(bad.any(axis=1)))
    return state, Ranges(low, high, bad.sum(axis=0), first)


def _join_ranges(parts: Sequence[Ranges]) -> Ranges:
    return Ranges(
        np.min([part.low for part in parts], axis=0),
        np.max([part.high for part in parts], axis=0),
        np.sum([part.bad_values for part in parts], axis=0),
        next((part.first_bad for part in parts if part.first_bad >= 0), -1),
    )


RANGES = Sweep(_ranges, _join_ranges)
