"""The totals of clusters, from which their means follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.means import carry_over


@dataclass(frozen=True)
class ClusterTotals:
    """Per cluster, the weighted deviations of its kept rows from its centre, and their weight.

    `cost` is what the rows of all clusters cost, where it is kept: their squared deviations.
    """

    sums: NDArray[np.float64]
    mass: NDArray[np.float64]
    cost: float = 0.0

    def after_move(
        self, before: NDArray[np.floating], after: NDArray[np.floating]
    ) -> ClusterTotals:
        """The same rows' deviations from centres that have moved."""
        sums = np.empty_like(self.sums)
        change = carry_over(self.sums, self.mass, before, after, sums)
        return ClusterTotals(sums, self.mass, self.cost + change)


def no_totals(centers: NDArray[np.floating]) -> ClusterTotals:
    """Totals of no rows, to add to."""
    return ClusterTotals(np.zeros(centers.shape), np.zeros(len(centers)))


def add_totals(parts: Sequence[ClusterTotals]) -> ClusterTotals:
    """The totals of all parts, added in their order."""
    sums, mass, cost = parts[0].sums, parts[0].mass, parts[0].cost
    for part in parts[1:]:
        sums = sums + part.sums
        mass = mass + part.mass
        cost = cost + part.cost
    return ClusterTotals(sums, mass, cost)
