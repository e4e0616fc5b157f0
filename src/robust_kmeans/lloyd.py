"""Trimmed Lloyd (k-means--): assign, cut the z farthest rows, move centres to the rest's means.

Chawla & Gionis, *k-means--: a unified approach to clustering and outlier detection*, SDM
2013; the trimmed k-means of Cuesta-Albertos, Gordaliza & Matrán, Annals of Statistics 1997.
Each of the three parts can only lower the trimmed cost ρ, so it never rises.

With momentum (`momentum`) centres go on beyond the means; should ρ rise, they go back to them,
from where it can only fall.

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
from robust_kmeans.momentum import Momentum
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
from robust_kmeans.sweeps.totals import ClusterTotals, add_totals, squared_ways
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
    were last added up anew when the cost was `cost_when_totalled`.  Without `momentum` centres
    move to the means.
    """

    centers: NDArray[np.floating]
    totals: ClusterTotals
    cut: Cut
    cost_when_totalled: float
    history: tuple[float, ...]
    momentum: Momentum | None = None


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
    with_momentum: bool = False,
    bounds: bool = True,
) -> LloydRun:
    """Iterate from the centres of `start` until they rest.

    Stops when the next move would be small: the squared movement of all centres together is
    at most `tol` times the mean squared deviation of an inlier per feature, ρ/((n − z)·d).
    (scikit-learn compares with the variance of X, which outliers inflate.)  Unchanged labels
    and cut give the same means, hence no movement, and end the run for any `tol`.  `report`
    is told each iteration's number and ρ, 0 for the initial centres, and `keep` gets what is
    needed to go on from there: a run from a `Midway` ends as the run would have that kept it.
    With momentum it takes fewer iterations, and may end elsewhere, mostly at a lower ρ.
    Without `bounds` every row is compared with every centre in every iteration; the result is
    the same.
    """
    if isinstance(start, Placed):
        states, now = _begin(data, start, Momentum(start.centers) if with_momentum else None)
    else:
        states, now = _go_on(data, start, n_outliers)
    del start  # the memory of its states can then be used again
    _tell(now, report, keep)
    rows = MovingCenters(data, states, now.centers, n_outliers, bounds=bounds)
    del states
    # No cluster may end without an inlier: to mend that, a few iterations more are allowed.
    while len(now.history) <= max_iter + len(now.centers):
        if len(now.history) > max_iter and now.totals.mass.all():
            break
        means = _means_or_farthest_inliers(rows, now)
        way = squared_ways(now.centers, means)
        mended = way[now.totals.mass == 0].any()
        limit = tol * now.cut.cost / (now.totals.mass.sum() * data.n_features)
        if way.sum() <= limit and not mended:
            break
        momentum = now.momentum
        now = _rush(rows, now, means, momentum) if momentum else _move(rows, now, means)
        now = replace(now, history=(*now.history, now.cut.cost))
        _tell(now, report, keep)
    states = rows.settled()
    return LloydRun(now.centers, states, now.cut, now.history, n_iter=len(now.history) - 1)


def _begin(data: Execution, start: Placed, momentum: Momentum | None) -> tuple[States, Midway]:
    cut, centers = start.cut, start.centers
    states, totals = data.run(UPDATE, start.states, UpdateShared(cut, centers))
    return states, Midway(centers, totals, cut, cut.cost, (cut.cost,), momentum)


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


def _move(rows: MovingCenters, now: Midway, centers: NDArray[np.floating]) -> Midway:
    """Centres elsewhere, and the cut and the totals there."""
    cut, changes = rows.move(centers, squared_ways(now.centers, centers), now.cut)
    if not rows.weighted:
        same = replace(now.totals, cost=now.cut.cost).after_move(now.centers, centers)
        cut_changes = rows.run(UPDATE_CUT, UpdateShared(cut, centers))
        totals = add_totals([same, changes, cut_changes])
        cut = replace(cut, cost=totals.cost)
        if cut.cost * STALE >= now.cost_when_totalled:
            return replace(now, centers=centers, totals=totals, cut=cut)
    cut = rows.exact_cut()
    totals = rows.run(UPDATE, UpdateShared(cut, centers))
    return replace(now, centers=centers, totals=totals, cut=cut, cost_when_totalled=cut.cost)


def _rush(
    rows: MovingCenters, now: Midway, means: NDArray[np.floating], momentum: Momentum
) -> Midway:
    """Centres beyond their means, if ρ is no higher there; otherwise at the means."""
    # A centre that is mended jumps: that is no direction to go on in.
    if now.totals.mass.all():
        onward = momentum.unless_turned(now.centers, means, now.totals)
        there = _move(rows, now, onward.beyond(means))
        if there.cut.cost <= now.cut.cost or not onward.n_steps:
            return replace(there, momentum=onward.after(means))
        # Totals on the way back carry the rounding of what was there.
        worst = max(there.cost_when_totalled, there.cut.cost)
        now = replace(there, cost_when_totalled=worst)
    return replace(_move(rows, now, means), momentum=Momentum(means))


def _tell(
    now: Midway,
    report: Callable[[int, float], object] | None,
    keep: Callable[[Midway], object] | None,
) -> None:
    if report is not None:
        report(len(now.history) - 1, now.cut.cost)
    if keep is not None:
        keep(now)


def _means_or_farthest_inliers(rows: MovingCenters, now: Midway) -> NDArray[np.floating]:
    """The clusters' means; a cluster without inliers moves to a row that still costs most.

    Never to an outlier: the row is the farthest of those that the cut keeps.  Where no
    inlier has a distance left, the centre stays, as there is nothing to gain.
    """
    moved, filled = now.totals.means(now.centers), now.totals.mass > 0
    if not filled.all():
        empty = np.flatnonzero(~filled)
        rows.measure()
        far = rows.run(FARTHEST_KEPT, FarthestShared(now.cut, len(empty)))
        useful = far.points[: len(empty)][far.d2[: len(empty)] > 0]
        moved[empty[: len(useful)]] = useful
    return moved
