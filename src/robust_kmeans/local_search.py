"""Trimmed local search: swaps of one centre for a better place, until none is found.

Lloyd cannot move a centre from where two share a cluster to where a cluster has none; a swap
can.  After Lattanzi & Sohler, *A better k-means++ algorithm via local search*, ICML 2019; with
outliers, Grunau & Rozhoň 2022 and Gupta et al. 2017; judged after one move of all centres to
their means, as Conrads et al. (*Local search k-means++ with foresight*, 2024) do.

    repeat:
        draw candidates, half ∝ min(D², η·ρ/z), half ∝ D² inside the cut
        price all their swaps with all k centres
        for the best few that promise to lower ρ:
            swap, move all centres to the means of their rows
            if ρ is lower: keep that, and go on from there
    until enough candidates have been tried, or many in a row for nothing

With costs clipped at the cut's value, and for each row the distances to the nearest and to
the second centre, one pass prices a candidate against all k centres that may go; the price
counts that the new centre will move to the mean of the rows that it wins.  Means of promising
candidates become candidates themselves.  A price is an estimate, the check is exact: ρ never
rises.

The second half of the draws cannot be outliers as things stand: so a missed small cluster is
found even where far outliers outnumber it.

Cost: eight to ten candidates share a reading of X; a check of a swap is about three readings, and
a success one assignment of all rows to all centres.  Together that is one to two plain readings
per candidate, and less for wide rows (benchmarks/swap_steps.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution
from robust_kmeans.seeding.drawing import clipped, draw, draw_inside
from robust_kmeans.sweeps.means import UPDATE, UpdateShared
from robust_kmeans.sweeps.swaps import (
    LOSSES,
    PRICES,
    SWAP,
    Candidates,
    Limit,
    Swap,
    how_far_apart,
)
from robust_kmeans.trimming import Placed, find_cut, place, where_to_look

# Candidates per reading: rows and their state are then read once for all of them.
BATCH = 8
# Of each batch, so many means become candidates of the next, and so many swaps are checked.
PROMISING = 2
# Swaps that seem to raise ρ by less than this share are checked, too: prices do not count that
# the centres around will move to their new means.
MARGIN = 0.002
# The search ends early when this share of all candidates has brought next to nothing in a row,
# that is, less than so much of ρ at a time.
PATIENCE = 0.5
NEXT_TO_NOTHING = 5e-4
# The clip of the first half of the draws, as in the seeding.
ETA = 0.5


class Search(NamedTuple):
    """Where a search ended, and ρ at its start and after each swap."""

    end: Placed
    history: tuple[float, ...]


class Offer(NamedTuple):
    """A swap: centre `gone` for candidate number `candidate`, and what it may change.

    `mean` is that of the rows which the candidate wins.
    """

    change: float
    gone: int
    candidate: int
    point: NDArray[np.floating]
    mean: NDArray[np.floating]


def default_steps(n_clusters: int) -> int:
    """How many candidates are tried by default."""
    return max(150, 15 * n_clusters)


def search_swaps(
    data: Execution,
    start: Placed,
    n_outliers: float,
    *,
    n_steps: int,
    random: np.random.RandomState,
    report: Callable[[int, float], object],
) -> Search:
    """Swap centres of `start` while that lowers ρ, trying up to `n_steps` candidates.

    `start` must be as `place` makes it: bounds that Lloyd has loosened would mislead prices.
    `report` is told after each batch how many candidates were tried, and ρ.
    """
    now, history = start, [start.inertia]
    del start  # the memory of its states can then be used again
    # A single centre without outliers has one best place, which Lloyd finds.
    if len(now.centers) == 1 and not n_outliers:
        return Search(now, tuple(history))
    patience = math.ceil(PATIENCE * n_steps)
    tried, last = 0, patience
    promising: list[NDArray[np.floating]] = []
    while tried < last and now.inertia > 0:
        loss = data.summarise(LOSSES, now.states, _limit(now))
        better, refused = None, set[tuple[int, bytes]]()
        while better is None and tried < last:
            drawn = _draw(data, now, n_outliers, random)
            offers = _offers(data, now, loss, [*drawn, *promising])
            better = _first_better(data, now, offers[:PROMISING], n_outliers, refused)
            # Only of rows: the mean of a mean would come back for ever.
            fresh = [offer for offer in offers if offer.candidate < len(drawn)]
            promising = [offer.mean for offer in fresh[:PROMISING]]
            tried += BATCH
            report(min(tried, n_steps), now.inertia if better is None else better.inertia)
        if better is not None:
            if better.inertia < (1 - NEXT_TO_NOTHING) * now.inertia:
                last = min(n_steps, tried + patience)
            now = better
            history.append(now.inertia)
    return Search(now, tuple(history))


def _draw(
    data: Execution, now: Placed, n_outliers: float, random: np.random.RandomState
) -> list[NDArray[np.floating]]:
    """Rows as candidates, from both distributions; some of them while ρ is above 0."""
    tau = ETA * now.inertia / n_outliers if n_outliers else np.inf
    uniforms = random.uniform(size=BATCH)
    anywhere = draw(data, now.states, clipped(tau), uniforms[::2])
    inside = draw_inside(data, now.states, now.cut, uniforms[1::2])
    return [row.point for row in anywhere + inside]


def _limit(now: Placed) -> Limit:
    return Limit(now.cut.value, len(now.centers))


def _offers(
    data: Execution,
    now: Placed,
    loss: NDArray[np.float64],
    candidates: list[NDArray[np.floating]],
) -> list[Offer]:
    """For each candidate the best centre to swap it for; the best offers first."""
    points = np.array(candidates)
    apart = how_far_apart(points, now.centers)
    shared = Candidates(points, _limit(now), data.total_weight, apart)
    prices = data.summarise(PRICES, now.states, shared)
    shifts = prices.sums / np.where(prices.mass > 0, prices.mass, 1)[:, np.newaxis]
    means = (points + shifts).astype(data.dtype)
    centred = np.sum(prices.sums * shifts, axis=1)
    changes = loss - prices.saved - (prices.gain + centred)[:, np.newaxis]
    gone = np.argmin(changes, axis=1)
    order = np.argsort(changes[np.arange(len(points)), gone], kind="stable")
    return [Offer(changes[i, gone[i]], gone[i], i, points[i], means[i]) for i in order]


def _first_better(
    data: Execution,
    now: Placed,
    offers: list[Offer],
    n_outliers: float,
    refused: set[tuple[int, bytes]],
) -> Placed | None:
    """The first of the offers that holds what it promises; others are noted as refused."""
    for offer in offers:
        key = (offer.gone, offer.point.tobytes())
        if offer.change < MARGIN * now.inertia and key not in refused:
            found = _checked(data, now, offer, n_outliers)
            if found is not None:
                return found
            refused.add(key)
    return None


def _checked(data: Execution, now: Placed, offer: Offer, n_outliers: float) -> Placed | None:
    """The clustering after a swap and one move to the means, if it has a lower ρ."""
    centers = now.centers.copy()
    centers[offer.gone] = offer.point
    keys = where_to_look(data.dtype, now.cut) if n_outliers else None
    swapped, look = data.run(SWAP, now.states, Swap(centers, offer.gone, keys))
    cut = find_cut(data, swapped, n_outliers, keys, look)
    totals = data.summarise(UPDATE, swapped, UpdateShared(cut, centers))
    shifts = totals.sums / np.where(totals.mass > 0, totals.mass, 1)[:, np.newaxis]
    # The rows' own means are the best places for them, and a new assignment is no worse.
    if not cut.cost - np.sum(totals.sums * shifts) < now.inertia:
        return None
    moved = (centers + shifts).astype(data.dtype)
    del swapped  # memory for the new assignment
    found = place(data, moved, n_outliers, last=cut)
    return found if found.inertia < now.inertia else None
