"""Momentum: centres go on beyond their means, in the direction in which these have moved.

Where clusters are not apart, Lloyd comes nearer to its end by the same small share in each of
hundreds of iterations, all in one direction.  Nesterov's momentum goes that way in a fraction of
them (Nesterov, Soviet Mathematics Doklady 1983): from means m, and m′ of the iteration before,

    centres ← m + t/(t + 3)·(m − m′)        for t = 0, 1, 2, …

and t starts again at 0 where the means turn back (O'Donoghue & Candès, *Adaptive restart for
accelerated gradient schemes*, Foundations of Computational Mathematics 2015).  `lloyd` sees to it
that ρ never rises.  Where rows keep their clusters the means stay, and so do the centres: a run
ends as it does without momentum.

Cost: a few operations per value of the centres.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.sweeps.totals import ClusterTotals

Floats = NDArray[np.floating]

# Beyond the means centres may be outside of all rows: not where squares could leave the range.
FARTHEST = {np.dtype(real): sqrt(np.finfo(real).max) / 16 for real in (np.float32, np.float64)}


@dataclass(frozen=True, eq=False)
class Momentum:
    """The means (k, d) of the iteration before, and for how many they have not turned back."""

    means: Floats
    n_steps: int = 0

    def unless_turned(self, centers: Floats, means: Floats, totals: ClusterTotals) -> Momentum:
        """From the start where the means pull back the centres, each with its weight."""
        pull = means.astype(np.float64) - centers
        shares = (totals.mass / totals.mass.sum())[:, np.newaxis]
        turned = np.sum(shares * pull * self._way_to(means)) < 0
        return replace(self, n_steps=0) if turned else self

    def beyond(self, means: Floats) -> Floats:
        """Where the centres go from there; only to the means if those are too large."""
        share = self.n_steps / (self.n_steps + 3)
        beyond = means + share * self._way_to(means)
        if np.abs(beyond).max() * sqrt(means.shape[1]) > FARTHEST[means.dtype]:
            return means
        return beyond.astype(means.dtype)

    def after(self, means: Floats) -> Momentum:
        """With one more iteration."""
        return Momentum(means, self.n_steps + 1)

    def _way_to(self, means: Floats) -> NDArray[np.float64]:
        return means.astype(np.float64) - self.means
