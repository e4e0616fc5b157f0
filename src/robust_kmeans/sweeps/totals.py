"""The totals of clusters, from which their means follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels import means


@dataclass(frozen=True)
class ClusterTotals:
    """Per cluster, the weighted deviations of its kept rows from its centre, and their weight.

    `cost` is what the rows of all clusters cost, where it is kept: their squared deviations.
    """

    sums: NDArray[np.float64]
    mass: NDArray[np.float64]
    cost: float = 0.0

    def means(self, centers: NDArray[np.floating]) -> NDArray[np.floating]:
        """The means of the rows; a cluster without any keeps its centre."""
        found = np.empty_like(centers)
        means.to_means(centers, self.sums, self.mass, found)
        return found

    def after_move(
        self, before: NDArray[np.floating], after: NDArray[np.floating]
    ) -> ClusterTotals:
        """The same rows' deviations from centres that have moved."""
        sums = np.empty_like(self.sums)
        change = means.carry_over(self.sums, self.mass, before, after, sums)
        return ClusterTotals(sums, self.mass, self.cost + change)


def squared_ways(before: NDArray[np.floating], after: NDArray[np.floating]) -> NDArray[np.float64]:
    """How far each centre has come, squared."""
    ways = np.empty(len(before))
    means.squared_ways(before, after, ways)
    return ways


def no_totals(
    centers: NDArray[np.floating], n_parts: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Sums (p, k, d), mass (p, k) and cost (p,) of no rows in some parts, to add to."""
    return np.zeros((n_parts, *centers.shape)), np.zeros((n_parts, len(centers))), np.zeros(n_parts)


def add_totals(parts: Sequence[ClusterTotals]) -> ClusterTotals:
    """The totals of all parts, added in their order."""
    sums, mass, cost = parts[0].sums, parts[0].mass, parts[0].cost
    for part in parts[1:]:
        sums = sums + part.sums
        mass = mass + part.mass
        cost = cost + part.cost
    return ClusterTotals(sums, mass, cost)
