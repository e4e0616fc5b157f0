"""What a sweep is: a pure step on each chunk, and a merge of the small summaries.

    step(chunk, state, shared) → (state, summary)        anywhere, in any order
    merge([summary, …])        → summary                 on the driver, in chunk order

A chunk is a run of consecutive rows.  Its state is what the algorithm remembers per row;
it is a value: a step returns a new one and never changes the one it got, and it can be
rebuilt from the rows and the centres.  `shared` is what the driver tells every chunk.
Summaries travel, so their size must not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import count
from sys import getrefcount
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.kernels.team import ALONE

Summary = TypeVar("Summary")
Merged = TypeVar("Merged")
Step = Callable[[Any, Any, Any], tuple[Any, Summary]]
AnyStep = TypeVar("AnyStep", bound=Callable[..., Any])

NO_WEIGHTS: NDArray[np.float64] = np.empty(0)
NO_LABELS: NDArray[np.int32] = np.empty(0, np.int32)
NO_BOUNDS: NDArray[np.floating] = np.empty(0)
NO_FLAGS: NDArray[np.uint8] = np.empty(0, np.uint8)


class NotAtHand(Exception):
    """A few rows of a chunk were asked for that only a reading of all of them can give."""


class Chunk:
    """Consecutive rows, their weights (empty when each weighs 1) and where they start.

    Here they are an array; elsewhere they may lie on a disk and be read when asked for.
    """

    keeps_states = False
    """Whether a step may be asked again to go on from a state that it has been given before."""
    team = ALONE
    """Threads that take parts of its kernels, if there are any."""
    takes_notes = False
    """Whether a few rows by themselves are as slow to get as all: `note` those in need soon."""

    def __init__(
        self, rows: NDArray[np.floating], weights: NDArray[np.float64], start: int
    ) -> None:
        self._describe(rows.shape, rows.dtype, weights, start)
        self._rows = read_only(rows)

    def _describe(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        weights: NDArray[np.float64],
        start: int,
    ) -> None:
        self.n_rows, self.n_features = shape
        self.dtype = dtype
        self.weights = read_only(weights)
        self.start = start
        self._spare: dict[np.dtype[Any], list[NDArray[Any]]] = {}

    @property
    def rows(self) -> NDArray[np.floating]:
        """All rows (n_rows, n_features)."""
        return self._rows

    def take(self, positions: NDArray[np.integer]) -> NDArray[np.floating]:
        """A copy of the few rows at these positions."""
        return read_only(self.rows[positions])

    def note(self, positions: NDArray[np.integer]) -> None:
        """Keep the rows at these positions, ascending, at hand for `take`, until the next note.

        Nothing is kept where memory is too little for all of them.  No result depends on what is
        noted, only how often rows are read.
        """

    def release(self) -> None:
        """Let go of rows that were read for one step only."""

    def empty(self, dtype: DTypeLike) -> NDArray[Any]:
        """An array with one entry per row, in memory that an earlier state has let go of.

        Asking the system for fresh memory in every sweep costs as much as the arithmetic.
        """
        arrays = self._spare.setdefault(np.dtype(dtype), [])
        array = _unused(arrays, _REFERENCES_WHEN_UNUSED)
        if array is None:
            array = self._fresh(dtype)
            arrays.append(array)
        return array

    def forget(self) -> None:
        """Give the memory back that no state has."""
        self._spare.clear()

    def _fresh(self, dtype: DTypeLike) -> NDArray[Any]:
        return np.empty(self.n_rows, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunk, (self.rows, self.weights, self.start)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that nobody can write through.

    Nobody's data is then changed by mistake, and Numba, to which a read-only array is another
    type, compiles each kernel for one of the two only.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def _unused(arrays: list[NDArray[Any]], references: int) -> NDArray[Any] | None:
    """An array that nobody has but the list: it has no more than so many references."""
    for array in arrays:
        if getrefcount(array) <= references:
            return array
    return None


# The list's own and those of the loop and the call, which differ between versions of Python:
# found with the very function that will use it.
_REFERENCES_WHEN_UNUSED = next(n for n in count(1) if _unused([np.empty(0)], n) is not None)


@lru_cache(maxsize=8)
def all_positions(n_rows: int) -> NDArray[np.int32]:
    """0, 1, … as a list of the rows of a chunk; the chunks of a plan have few sizes."""
    return np.arange(n_rows, dtype=np.int32)


class RowState(NamedTuple):
    """D² of each row to its nearest centre.

    For assigned rows also that centre's label, and a distance than which no other centre is
    nearer; and 1 where the row counts in its cluster's totals, 0 where it was cut.  All three
    are empty where they are not known.
    """

    d2: NDArray[np.floating]
    labels: NDArray[np.int32] = NO_LABELS
    others: NDArray[np.floating] = NO_BOUNDS
    kept: NDArray[np.uint8] = NO_FLAGS


def in_parts(count: Callable[[Chunk, Any], int]) -> Callable[[AnyStep], AnyStep]:
    """Mark a step whose long work is done by kernels that share it with a chunk's team.

    `count` tells, of a chunk and what the step is told, in how many parts.
    """

    def marked(step: AnyStep) -> AnyStep:
        step.n_parts = count  # type: ignore[attr-defined]
        return step

    return marked


def n_parts_to_share(step: Step[Any], chunk: Chunk, shared: Any) -> int:
    """In how many parts the kernels of a step share their work, where they do."""
    count: Callable[[Chunk, Any], int] | None = getattr(step, "n_parts", None)
    return 1 if count is None else count(chunk, shared)


class Work(Enum):
    """What a step looks at, which decides how an execution hands it out."""

    READING = "all rows"
    STATES = "the state of each row, and no rows"
    LIGHT = "the same, and it is over before another thread would be awake"
    GLANCE = "the same, and it does nothing but to compare or to add up one value per row"
    TAKING = "as light, but for a few rows that it takes here and there"


@dataclass(frozen=True)
class Sweep(Generic[Summary, Merged]):
    """One reading of all rows (or of their state): a step and the merge of its summaries."""

    step: Step[Summary]
    merge: Callable[[Sequence[Summary]], Merged]
    work: Work = Work.READING


def in_chunk_order(parts: Sequence[Summary]) -> Sequence[Summary]:
    """The merge that keeps one small summary per chunk."""
    return parts


def nothing(parts: Sequence[None]) -> None:
    """The merge of sweeps that only change the state."""


def add_numbers(parts: Sequence[float]) -> float:
    """The merge of numbers that add up, in chunk order."""
    return float(sum(parts))


def least_number(parts: Sequence[float]) -> float:
    """The merge of numbers of which the least counts."""
    return min(parts)


def add_arrays(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The merge of arrays that add up, in chunk order."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
