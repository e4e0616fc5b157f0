"""What all seedings share: checks, drawing rows, and how many candidates to draw."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.inputs import opened, rows_of
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.sampling import MASS, Row, Targets, Weighting, draw_rows
from robust_kmeans.sweeps.seeding import START
from robust_kmeans.validation import (
    RandomState,
    check_clusters,
    check_real,
    outlier_budget,
)

EQUAL_CHANCES = Weighting(flat=1.0, slope=0.0, clip=0.0)
"""Every row has a chance in proportion to its weight, whatever its D²."""


class Seeds(NamedTuple):
    """Centres (k, d), and the rows of X that they are (k,)."""

    centers: NDArray[np.floating]
    indices: NDArray[np.int64]


class Seeding(Protocol):
    """A configured seeding method: anything with this `seed`."""

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """Choose `n_clusters` rows as centres."""


class Oversampling(Seeding, Protocol):
    """A seeding that may draw more rows than it returns."""

    def candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """All rows that were drawn, `n_clusters` or more."""


def seed_rows(
    seeding: Seeding,
    X: ArrayLike,
    n_clusters: int,
    *,
    n_outliers: int | float = 0,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_threads: int | None = None,
) -> Seeds:
    """Check the input of a public function, and seed."""
    with opened(rows_of(X), sample_weight=sample_weight, n_threads=n_threads) as data:
        z = outlier_budget(data, n_outliers)
        check_clusters(data, n_clusters, z)
        return seeding.seed(data, n_clusters, z, check_random_state(random_state))


def seed_or_oversample(
    seeding: Oversampling,
    X: ArrayLike,
    n_clusters: int,
    *,
    reduce: bool,
    n_outliers: int | float,
    sample_weight: ArrayLike | None,
    random_state: RandomState,
    n_threads: int | None,
) -> Seeds:
    """As `seed_rows`; without `reduce`, all candidates."""
    if not isinstance(reduce, bool | np.bool_):
        raise TypeError(f"reduce={reduce!r} must be True (n_clusters centres) or False (all).")
    return seed_rows(
        seeding if reduce else _AllCandidates(seeding),
        X,
        n_clusters,
        n_outliers=n_outliers,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
    )


class _AllCandidates(NamedTuple):
    """A seeding whose seeds are the candidates of another."""

    seeding: Oversampling

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        return self.seeding.candidates(data, n_clusters, n_outliers, random)


def check_oversampling(oversampling: object) -> None:
    """Refuse what is not a number of at least 0."""
    expected = "a number of at least 0 (1 draws twice n_clusters candidates)"
    if check_real("oversampling", oversampling, expected) < 0:
        raise ValueError(f"oversampling={oversampling!r} must be {expected}.")


def n_candidates(oversampling: float, n_clusters: int, data: Execution) -> int:
    """(1 + c)·k, rounded up, and never more than there are rows to draw."""
    # 1e-9: 1.1 · 10 is 11, though the product is 11.000….
    wanted = min((1 + oversampling) * n_clusters - 1e-9, float(data.n_weighty_rows))
    return max(n_clusters, math.ceil(wanted))


def clipped(threshold: float) -> Weighting:
    """Chances ∝ w·min(D², threshold)."""
    return Weighting(flat=0.0, slope=1.0, clip=threshold)


def draw(
    data: Execution, states: States, weighting: Weighting, uniforms: NDArray[np.float64]
) -> list[Row]:
    """One row per uniform number in [0, 1), by inversion; none where all weights are 0.

    The row is the one at which the running weight, in row order, exceeds the uniform
    number's share of the total.  So it does not depend on the plan of chunks, and a row of
    weight 2 is drawn just as two equal rows would be.

    Cost: one pass over D² for any number of draws, or over the rows that states list, if all that
    is clipped is among them; and another over that of the chunks in which rows are drawn.
    """
    masses = data.summarise(MASS, states, weighting)
    until = list(accumulate(masses))
    total = until[-1]
    if not total > 0:
        return []
    last = next(chunk for chunk in reversed(range(len(masses))) if masses[chunk] > 0)
    targets = (uniforms * total).tolist()
    draws_in: dict[int, list[int]] = {}
    for number in sorted(range(len(targets)), key=targets.__getitem__):
        chunk = min(bisect_right(until, targets[number]), last)
        draws_in.setdefault(chunk, []).append(number)
    rows: dict[int, Row] = {}
    for chunk, numbers in draws_in.items():
        before = until[chunk - 1] if chunk else 0.0
        asked = Targets(weighting, np.array([targets[number] - before for number in numbers]))
        rows.update(zip(numbers, data.at(chunk, draw_rows, states, asked), strict=True))
    return [rows[number] for number in range(len(targets))]


def draw_inside(
    data: Execution, states: States, cut: Cut, uniforms: NDArray[np.float64]
) -> list[Row]:
    """Rows with chances ∝ w·D² among those with D² ≤ the cut's value, as `draw` draws them.

    Only rows that are inliers as things stand, or tied with one: so a small cluster without
    a centre is found however many outliers are farther away.
    """
    inside = Weighting(flat=0.0, slope=1.0, clip=np.inf, limit=cut.value)
    return draw(data, states, inside, uniforms)


def first_row(data: Execution, random: np.random.RandomState) -> tuple[States, Row]:
    """The states before any centre is chosen, and a row drawn uniformly (by weight)."""
    states, _ = data.run(START, None, False)
    (row,) = draw(data, states, EQUAL_CHANCES, random.uniform(size=1))
    return states, row


def n_trials(n_local_trials: int | None, n_clusters: int) -> int:
    """How many candidates a greedy step tries: 2 + ⌊ln k⌋ by default, as scikit-learn does."""
    return 2 + int(math.log(n_clusters)) if n_local_trials is None else n_local_trials


def as_seeds(rows: Sequence[Row], n_clusters: int) -> Seeds:
    """The chosen rows; repeated, with a warning, where fewer than k make sense."""
    if len(rows) < n_clusters:
        warnings.warn(
            f"{len(rows)} of {n_clusters} centres already leave no cost: fewer distinct rows "
            f"than n_clusters are left once the outliers are trimmed. The other centres "
            f"repeat them; lower n_clusters.",
            ConvergenceWarning,
            stacklevel=2,
        )
    chosen = [rows[i % len(rows)] for i in range(n_clusters)]
    return Seeds(
        np.array([row.point for row in chosen]),
        np.array([row.index for row in chosen], dtype=np.int64),
    )
