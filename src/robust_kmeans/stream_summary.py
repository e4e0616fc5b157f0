"""Merge and reduce: all rows that a stream has brought, as few weighted points.

Rows wait until there are `size` of them; then they are a block, which is reduced to a coreset
of that size (Bentley & Saxe's logarithmic method, as Har-Peled & Mazumdar, *On coresets for
k-means and k-median clustering*, STOC 2004, use it).  A block of 2^l·size rows and more is at
level l, and where two are at the same level they are merged, reduced again and go one up.

Coresets with outliers do not merge as freely as others: what is an outlier of a block may have
company in another one.  So each block keeps outliers of its own, all of them while they are at
most a quarter of its points, otherwise a sample of them with weights.  When blocks are merged,
outliers that have become near to a cluster are inliers again, because centres and cut are found
anew for both together.

Cost: at most size·(2 + log₂(n/size)) points for n rows.  A batch of b rows takes a seeding and
an assignment of it, and on average one of 2·size points for each size rows at most.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.coreset import cover, make_coreset, usual_seeding
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.validation import outlier_budget

# Blocks that weigh less than this share of all are forgotten.
NOTHING = 1e-9


@dataclass(frozen=True)
class Points:
    """Weighted points; weights are as of the moment when so many rows had come."""

    points: NDArray[np.floating]
    weights: NDArray[np.float64]
    moment: int

    def aged(self, moment: int, half_life: float | None) -> Points:
        """The same points later, when every `half_life` rows have halved their weights."""
        if half_life is None or moment == self.moment:
            return replace(self, moment=moment)
        left = np.exp2((self.moment - moment) / half_life)
        return Points(self.points, self.weights * left, moment)


@dataclass(frozen=True)
class Reduction:
    """How points are reduced: to how many, and for how many clusters and outliers."""

    size: int
    n_clusters: int
    outlier_share: float
    half_life: float | None
    n_threads: int | None

    def __call__(self, parts: list[Points], random: np.random.RandomState) -> Points:
        """Points that stand for those of all parts, at the moment of the last one."""
        together = joined(parts, parts[-1].moment, self.half_life)
        weights = None if (together.weights == 1).all() else together.weights
        with InMemory(together.points, weights, self.n_threads) as data:
            if data.n_weighty_rows <= self.size:
                return together
            z = outlier_budget(data, self.outlier_share)
            with warnings.catch_warnings():
                # That a part of a stream has few distinct rows is nothing to warn of.
                warnings.simplefilter("ignore", ConvergenceWarning)
                seeding = usual_seeding(self.n_clusters)
                placed = cover(data, seeding, self.n_clusters, z, random)
            few = make_coreset(data, placed, self.size, random)
        return Points(few.points, few.weights, together.moment)


@dataclass(frozen=True)
class StreamSummary:
    """What is known of a stream: rows that wait, and a block at some levels.

    A value: adding rows makes a new one.
    """

    waiting: Points
    levels: dict[int, Points] = field(default_factory=dict)

    @property
    def n_seen(self) -> int:
        """How many rows have come."""
        return self.waiting.moment

    def with_rows(
        self,
        rows: NDArray[np.floating],
        weights: NDArray[np.float64] | None,
        reduction: Reduction,
        random: np.random.RandomState,
    ) -> StreamSummary:
        """The summary when these rows have come, one after the other."""
        n_seen = self.n_seen + len(rows)
        new = Points(rows, _weights_of(rows, weights, reduction.half_life), n_seen)
        waiting = joined([self.waiting, new], n_seen, reduction.half_life)
        if len(waiting.points) < reduction.size:
            return replace(self, waiting=waiting)
        levels = dict(self.levels)
        level = (len(waiting.points) // reduction.size).bit_length() - 1
        block = reduction([waiting], random)
        while level in levels:
            block = reduction([levels.pop(level), block], random)
            level += 1
        levels[level] = block
        return StreamSummary(
            nothing_yet(rows.shape[1], rows.dtype, n_seen),
            _without_forgotten(levels, n_seen, reduction.half_life),
        )

    def all_points(self, half_life: float | None) -> Points:
        """All points, as of now; the oldest first."""
        parts = [self.levels[level] for level in sorted(self.levels, reverse=True)]
        return joined([*parts, self.waiting], self.n_seen, half_life)


def nothing_yet(n_features: int, dtype: np.dtype[Any], moment: int = 0) -> Points:
    """No points at that moment."""
    return Points(np.empty((0, n_features), dtype), np.empty(0), moment)


def joined(parts: list[Points], moment: int, half_life: float | None) -> Points:
    """The points of all parts that weigh something at that moment."""
    aged = [part.aged(moment, half_life) for part in parts]
    weights = np.concatenate([part.weights for part in aged])
    points = np.concatenate([part.points for part in aged])
    if not (weights > 0).all():
        points, weights = points[weights > 0], weights[weights > 0]
    return Points(points, weights, moment)


def _weights_of(
    rows: NDArray[np.floating], weights: NDArray[np.float64] | None, half_life: float | None
) -> NDArray[np.float64]:
    """What rows weigh when the last of them has come."""
    ages = np.arange(len(rows) - 1, -1, -1)
    left = np.ones(len(rows)) if half_life is None else np.exp2(-ages / half_life)
    return left if weights is None else left * weights


def _without_forgotten(
    levels: dict[int, Points], moment: int, half_life: float | None
) -> dict[int, Points]:
    masses = {
        level: float(block.aged(moment, half_life).weights.sum()) for level, block in levels.items()
    }
    least = NOTHING * sum(masses.values())
    return {level: block for level, block in levels.items() if masses[level] > least}
