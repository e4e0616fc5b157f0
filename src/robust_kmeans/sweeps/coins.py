"""The sweep in which each row tosses a coin: those that win join the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import coins
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work


class Coins(NamedTuple):
    """A row joins with chance expected·w·min(D², clip)/total, by its coin of this round.

    With `total` the sum of w·min(D², clip) over all rows, about `expected` of them join, and
    fewer where some chances are cut off at 1.
    """

    seed: int
    round_number: int
    clip: float
    expected: float
    total: float


@dataclass(frozen=True)
class Joined:
    """Rows that have joined, ascending: their indices (p,) and values (p, d)."""

    indices: NDArray[np.int64]
    points: NDArray[np.floating]


def _join(chunk: Chunk, state: RowState, toss: Coins) -> tuple[RowState, Joined]:
    found = np.empty(chunk.n_rows, np.int64)
    n_found = coins.joining_rows(
        state.d2, chunk.weights, chunk.start, np.uint64(toss.seed), toss.round_number, toss.clip,
        toss.expected, toss.total, found,
    )  # fmt: skip
    positions = found[:n_found]
    return state, Joined(chunk.start + positions, chunk.take(positions))


def _join_parts(parts: Sequence[Joined]) -> Joined:
    return Joined(
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.points for part in parts]),
    )


JOIN = Sweep(_join, _join_parts, work=Work.TAKING)
"""Its summary holds as many rows as join: that depends on what is expected, not on their number."""
