"""Trimmed Lloyd (k-means--): assign, cut the z farthest rows, move centres to the rest's means.

Chawla & Gionis, *k-means--: a unified approach to clustering and outlier detection*, SDM
2013; the trimmed k-means of Cuesta-Albertos, Gordaliza & Matrán, Annals of Statistics 1997.
Each of the three parts can only lower the trimmed cost ρ, so it never rises.

After the first move, bounds tell for most rows that their nearest centre is still the same, and
that they are still on the same side of the cut (`moving`).  They change no bit of the result.

The clusters' totals and ρ are kept up to date: only rows that change their cluster, or the side of
the cut, are added and taken away.  (With weights they are added up anew each time.)

Cost per iteration: a look at what is known of each row, and at those rows that are near a border
between clusters or near the cut; usually three passes over D².  With weights, or from a disk, D² of
all rows is kept exact: that is one reading of X (two with weights).  Rows that change sides are
taken one by one: where these are slow to get, those near the cut are noted for that.  At the end
one reading, where D² was not exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.moving import MovingCenters
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.means import (
    FARTHEST_KEPT,
    MARK_KEPT,
    UPDATE,
    UPDATE_CUT,
    FarthestShared,
    UpdateShared,
)
from robust_kmeans.sweeps.totals import ClusterTotals, add_totals
from robust_kmeans.trimming import Placed, place

# Totals that are kept up to date carry the rounding of the largest rows that were ever in
# them: no more than a digit or two as long as the cost has not fallen by more than this.
STALE = 64.0


@dataclass(frozen=True)
class LloydRun(Placed):
    """Where a run ended: ρ of its first centres and after each change of them.

    `n_iter` counts the iterations; where there were swaps, too, `history` is longer.
    """

    history: tuple[float, ...]
    n_iter: int


@dataclass(frozen=True)
class Midway:
    """Where a run is between two iterations: all that it needs to go on, but for states.

    Those follow from the centres and the cut.  `totals` are of the rows that the cut keeps, and
    were last added up anew when the cost was `cost_when_totalled`.
    """

    centers: NDArray[np.floating]
    totals: ClusterTotals
    cut: Cut
    cost_when_totalled: float
    history: tuple[float, ...]


class OtherRowsError(ValueError):
    """A run cannot go on, because the rows are not those with which it has begun."""


def trimmed_lloyd(
    data: Execution,
    start: Placed | Midway,
    n_outliers: float,
    *,
    max_iter: int,
    tol: float,
    report: Callable[[int, float], object] | None = None,
    keep: Callable[[Midway], object] | None = None,
    bounds: bool = True,
) -> LloydRun:
    """Iterate from the centres of `start` until they rest.

    Stops when the next move would be small: the squared movement of all centres together is
    at most `tol` times the mean squared deviation of an inlier per feature, ρ/((n − z)·d).
    (scikit-learn compares with the variance of X, which outliers inflate.)  Unchanged labels
    and cut give the same means, hence no movement, and end the run for any `tol`.  `report`
    is told each iteration's number and ρ, 0 for the initial centres, and `keep` gets what is
    needed to go on from there: a run from a `Midway` ends as the run would have that kept it.
    Without `bounds` every row is compared with every centre in every iteration; the result is
    the same.
    """
    if isinstance(start, Placed):
        states, now = _begin(data, start)
    else:
        states, now = _go_on(data, start, n_outliers)
    del start  # the memory of its states can then be used again
    _tell(now, report, keep)
    rows = MovingCenters(data, states, now.centers, n_outliers, bounds=bounds)
    del states
    # No cluster may end without an inlier: to mend that, a few iterations more are allowed.
    while len(now.history) <= max_iter + len(now.centers):
        centers, cut, totals = now.centers, now.cut, now.totals
        if len(now.history) > max_iter and totals.mass.all():
            break
        moved = _means_or_farthest_inliers(rows, cut, totals, centers)
        movement = np.sum((moved.astype(np.float64) - centers) ** 2, axis=1)
        mended = movement[totals.mass == 0].any()
        limit = tol * cut.cost / (totals.mass.sum() * data.n_features)
        if movement.sum() <= limit and not mended:
            break
        cut, changes = rows.move(moved, movement, cut)
        cost_when_totalled = now.cost_when_totalled
        if not data.weighted:
            same = replace(totals, cost=now.cut.cost).after_move(centers, moved)
            cut_changes = rows.run(UPDATE_CUT, UpdateShared(cut, moved))
            totals = add_totals([same, changes, cut_changes])
            cut = replace(cut, cost=totals.cost)
        if data.weighted or not cut.cost * STALE >= cost_when_totalled:
            cut = rows.exact_cut()
            totals, cost_when_totalled = rows.run(UPDATE, UpdateShared(cut, moved)), cut.cost
        now = Midway(moved, totals, cut, cost_when_totalled, (*now.history, cut.cost))
        _tell(now, report, keep)
    states = rows.settled()
    return LloydRun(now.centers, states, now.cut, now.history, n_iter=len(now.history) - 1)


def _begin(data: Execution, start: Placed) -> tuple[States, Midway]:
    cut, centers = start.cut, start.centers
    states, totals = data.run(UPDATE, start.states, UpdateShared(cut, centers))
    return states, Midway(centers, totals, cut, cut.cost, (cut.cost,))


def _go_on(data: Execution, start: Midway, n_outliers: float) -> tuple[States, Midway]:
    there = place(data, start.centers, n_outliers, last=start.cut)
    check_same_rows(there.cut, start.cut)
    states, _ = data.run(MARK_KEPT, there.states, start.cut)
    return states, start


def check_same_rows(here: Cut, kept: Cut) -> None:
    """Refuse to go on with other rows: the same centres would cut the same ones elsewhere."""
    if (here.value, here.row) != (kept.value, kept.row):
        raise OtherRowsError(
            "X has other values than those that the checkpoint belongs to. Delete it to begin "
            "anew, or choose another checkpoint."
        )


def _tell(
    now: Midway,
    report: Callable[[int, float], object] | None,
    keep: Callable[[Midway], object] | None,
) -> None:
    if report is not None:
        report(len(now.history) - 1, now.cut.cost)
    if keep is not None:
        keep(now)


def _means_or_farthest_inliers(
    rows: MovingCenters,
    cut: Cut,
    totals: ClusterTotals,
    centers: NDArray[np.floating],
) -> NDArray[np.floating]:
    """The clusters' means; a cluster without inliers moves to a row that still costs most.

    Never to an outlier: the row is the farthest of those that the cut keeps.  Where no
    inlier has a distance left, the centre stays, as there is nothing to gain.
    """
    moved = centers.copy()
    filled = totals.mass > 0
    moved[filled] += totals.sums[filled] / totals.mass[filled, np.newaxis]
    empty = np.flatnonzero(~filled)
    if empty.size:
        rows.measure()
        far = rows.run(FARTHEST_KEPT, FarthestShared(cut, len(empty)))
        useful = far.points[: len(empty)][far.d2[: len(empty)] > 0]
        moved[empty[: len(useful)]] = useful
    return moved
