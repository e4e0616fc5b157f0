"""Rows and centres that move: which rows have to be looked at again, and the new cut.

Bounds tell for most rows that their nearest centre is still the same, and that they are still on
the same side of the cut: what other centres and their own have come since a row was looked at is
not enough to change that (`kernels.bounds`).  They hold for outliers too, which can come back.

D² is then exact only within a band round the cut, where the next cut is expected.  It is found
from these rows as it would be from all (`trimming`).  Where it falls outside, all rows are
measured; where it comes near the edge of the band, the next move looks at all rows for another.

Where a reading takes as long for a few rows as for all, and with weights, when all are needed for
the totals, the band is everywhere: every row is measured in every move.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.kernels.bounds import gaps_between
from robust_kmeans.kernels.dues import NOTHING_KNOWN, Bounds, Ways, add_move
from robust_kmeans.kernels.packing import pack
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, Sweep
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.distances import (
    ASSIGN_MOVED,
    BEYOND,
    EVERYWHERE,
    MEASURE,
    SETTLE,
    Band,
    Moved,
    assigned,
)
from robust_kmeans.sweeps.totals import ClusterTotals
from robust_kmeans.trimming import find_cut, where_to_look

Merged = TypeVar("Merged")

# Centres are compared with each other while they are no more than this share of the rows.
MOST_GAPS = 1 / 64
# All of them directly, if that takes no more differences: they are not worth to be made ready.
FEW_TERMS = 2**17
# How far the cut is expected to move, as the logarithm of its D²: at least, and at most.
LEAST_MOVED, MOST_MOVED = 0.01, 0.25
# Where centres have so many values, it takes long to compare a row with all: it is measured first.
MUCH = 1000


class MovingCenters:
    """Rows with their states, which belong to centres that move.

    Parameters
    ----------
    data, states
        Any execution, and states as `place` makes them.
    centers : ndarray of shape (k, d)
        Where they belong to.
    n_outliers : float
        The weight to trim.
    bounds : bool
        Otherwise every row is compared with every centre, in every move.
    """

    def __init__(
        self,
        data: Execution,
        states: States,
        centers: NDArray[np.floating],
        n_outliers: float,
        *,
        bounds: bool,
    ) -> None:
        self._data, self._states, self._centers = data, states, centers
        self._n_outliers, self._bounds = n_outliers, bounds
        self._exact = data.weighted or data.reads_whole
        self._journey = Journey.at_start(len(centers))
        self._outlook = Outlook()

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self._data.weighted

    def move(
        self, centers: NDArray[np.floating], movement: NDArray[np.float64], cut: Cut
    ) -> tuple[Cut, ClusterTotals]:
        """Move the centres, by these squared distances from where they were with this cut.

        Returns the new cut, and what new labels change in the totals.
        """
        data = self._data
        before = self._journey
        self._centers = centers
        if self._bounds:
            self._journey = before.after(movement, data.dtype, data.n_features)
        self._outlook = self._outlook.after(cut, everywhere=self._exact)
        keys = where_to_look(data.dtype, cut) if self._n_outliers else None
        known = self._known()
        step = Moved(centers, pack(centers, known), before.ways, known, keys, self._outlook.near)
        look, changes = self.run(ASSIGN_MOVED, step)
        if self._n_outliers:
            cut = find_cut(data, self._states, self._n_outliers, keys, look)
            if not self._outlook.band.holds(Band(cut.value, cut.value)):
                cut = self.exact_cut()
        return cut, changes

    def exact_cut(self) -> Cut:
        """The cut, with a cost that is added up anew."""
        self.measure()
        return find_cut(self._data, self._states, self._n_outliers)

    def measure(self) -> None:
        """Make D² exact for all rows."""
        if not self._exact:
            self.run(MEASURE, self._centers)

    def settled(self) -> States:
        """States as those of an assignment to the centres."""
        self.measure()
        self.run(SETTLE, self._journey.ways)
        return self._states

    def run(self, sweep: Sweep[Any, Merged], shared: Any) -> Merged:
        """Run a sweep over the states as they are; they become what it makes of them."""
        self._states, merged = self._data.run(sweep, self._states, shared)
        return merged

    def _known(self) -> Bounds:
        low, high = self._outlook.band
        if not self._bounds:
            return NOTHING_KNOWN._replace(low=low, high=high)
        measure_first = self._exact or self._centers.size >= MUCH
        return Bounds(self._journey.ways, self._gaps(), low, high, measure_first)

    def _gaps(self) -> NDArray[np.float32]:
        """For each centre a distance than which no other is nearer, unless there are many."""
        n_clusters = len(self._centers)
        if n_clusters > MOST_GAPS * self._data.n_rows:
            return np.zeros(n_clusters, np.float32)
        if n_clusters * self._centers.size <= FEW_TERMS:
            gaps = np.empty(n_clusters, np.float32)
            gaps_between(self._centers, gaps)
            return gaps
        return assigned(Chunk(self._centers, NO_WEIGHTS, 0), self._centers).others


class Journey(NamedTuple):
    """How far centres have come in all, (k,): each by itself, and the farthest of all others.

    `ways` is the same as kernels know it, rounded up.
    """

    own: NDArray[np.float64]
    others: NDArray[np.float64]
    ways: Ways

    @classmethod
    def at_start(cls, n_clusters: int) -> Journey:
        """Nowhere yet."""
        nowhere = np.zeros(n_clusters)
        return cls(nowhere, nowhere, Ways(*np.zeros((2, n_clusters), np.float32)))

    def after(
        self, movement: NDArray[np.float64], dtype: np.dtype[Any], n_features: int
    ) -> Journey:
        """With one more move, of these squared distances."""
        # More than rounding can do to a distance.
        slack = 1.001 + n_features * float(np.finfo(dtype).eps)
        own, others = np.empty((2, len(movement)))
        ways = Ways(*np.empty((2, len(movement)), np.float32))
        add_move(movement, slack, self.own, self.others, own, others, *ways)
        return Journey(own, others, ways)


@dataclass(frozen=True)
class Outlook:
    """Where the next cut is expected, as it hardly moves farther than it did before.

    It is most likely `near`; D² is exact within `band`, which takes a reading of all rows to
    shift, and nothing to make narrower.
    """

    band: Band = EVERYWHERE
    near: Band | None = None
    last: float = np.inf

    def after(self, cut: Cut, *, everywhere: bool = False) -> Outlook:
        """The next one, if this is where the cut has come to be."""
        if not 0 < cut.value < np.inf:
            return Outlook(BEYOND if cut.value and not everywhere else EVERYWHERE)
        moved = MOST_MOVED
        if 0 < self.last < np.inf:
            moved = abs(log(cut.value) - log(self.last))
        near = _around(cut, min(max(1.5 * moved, LEAST_MOVED), MOST_MOVED))
        band = _around(cut, min(max(8 * moved, 5 * LEAST_MOVED), 2 * MOST_MOVED))
        if self.band.holds(near) and not self.band.holds(band):
            band = self.band
        return Outlook(EVERYWHERE if everywhere else band, near, cut.value)


def _around(cut: Cut, distance: float) -> Band:
    factor = exp(distance)
    return Band(cut.value / factor, cut.value * factor)
