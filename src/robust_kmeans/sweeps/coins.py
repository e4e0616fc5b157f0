"""The sweep in which each row tosses a coin: those that win join the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import coins
from robust_kmeans.sweeps.base import Chunk, RowState, Sweep, Work

# Rows are noted as if so many times those that are expected to join did: of a chunk at least so
# many, and at most this share.
RAISED = 32.0
LEAST_NOTED, MOST_NOTED = 64.0, 1 / 32


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


class NextCoins(NamedTuple):
    """What is known of a round before its threshold: the last one, and what that follows from."""

    seed: int
    round_number: int
    expected: float
    last_clip: float
    eta: float
    n_outliers: float
    total_weight: float


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


def note_likely(chunk: Chunk, d2: NDArray[np.floating], ahead: NextCoins) -> None:
    """Note the rows that may join in the next round, where they would be slow to get then.

    Their chances will follow from all rows; they are guessed from those of this chunk, and raised
    so much that one may be rather unlike the others.
    """
    if not chunk.takes_notes:
        return
    share = ahead.n_outliers / ahead.total_weight
    # Of huge values the guess may be infinite; then too few rows are noted, or none.
    with np.errstate(over="ignore", invalid="ignore"):
        clip = min(ahead.last_clip, _guessed_threshold(d2, share, ahead.eta))
        masses = np.minimum(d2, np.float64(clip))
        mass = float(chunk.weights @ masses if chunk.weights.size else masses.sum())
    weight = chunk.weights.sum() if chunk.weights.size else chunk.n_rows
    wanted = max(LEAST_NOTED, RAISED * ahead.expected * weight / ahead.total_weight)
    found = np.empty(chunk.n_rows, np.int64)
    n_found = coins.joining_rows(
        d2, chunk.weights, chunk.start, np.uint64(ahead.seed), ahead.round_number, clip,
        min(wanted, MOST_NOTED * chunk.n_rows), mass, found,
    )  # fmt: skip
    chunk.note(found[:n_found])


def _guessed_threshold(d2: NDArray[np.floating], share: float, eta: float) -> float:
    """η·ρ/z, if all chunks were like this one, and weights equal."""
    n_kept = len(d2) - int(share * len(d2))
    cost = np.partition(d2, n_kept - 1)[:n_kept].sum(dtype=np.float64)
    return float(eta * cost / (share * len(d2))) if share and cost else np.inf


JOIN = Sweep(_join, _join_parts, work=Work.TAKING)
"""Its summary holds as many rows as join: that depends on what is expected, not on their number."""
