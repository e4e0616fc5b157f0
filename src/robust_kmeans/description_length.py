"""How long the description of a clustering is, and which swaps of a centre may shorten it.

`outlier_count` tells what the length is made of, and why.  Fits look for the least ρ, which may
have two centres in a wide cluster, or one among far outliers, and none in a small tight cluster.
The description is then longer than it need be, and a swap can mend that:

    draw rows as candidates, half ∝ min(D², η·ρ/z), half ∝ D² inside the cut
    move each, by itself, to the mean of the rows that it would win
    length with it = length − parts of the clusters that lose rows + its own part
    then let go the centre that is worth least: its cluster joins the one next to it, or, with
    too few rows for a fence, its rows become outliers

Sums per candidate and cluster are all that this takes; nobody but the candidate moves, so what a
swap changes is an estimate, to be checked by Lloyd iterations.

Cost: an assignment, and two readings of X with a distance for each row and candidate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution
from robust_kmeans.seeding.drawing import clipped, draw, draw_inside
from robust_kmeans.sweeps.tails import BEYOND_FENCES, WON_ROWS, Fences, Newcomers, Sides, WonRows
from robust_kmeans.trimming import Placed

DEGREES = 4 / 3
OUTLIER_COST = 2.0
# In a cluster of fewer rows, quantiles say nothing.
FEWEST_ROWS = 20
LEAST_POSITIVE = math.ulp(0.0)
# Candidates per reading.
BATCH = 16
# The clip of the first half of the draws, as in the seeding.
ETA = 0.5


class Swap(NamedTuple):
    """Centres after a swap, what it may change, and the weight that it gives to the outliers."""

    change: float
    centers: NDArray[np.floating]
    freed: float


class Farewell(NamedTuple):
    """Centre `gone` goes and `into` moves to `mean` (or nothing moves: then they are the same)."""

    change: float
    gone: int
    into: int
    mean: NDArray[np.float64]
    freed: float


def fewest_rows(data: Execution) -> float:
    """The weight of so many rows that a cluster can have a fence."""
    return FEWEST_ROWS * data.total_weight / data.n_weighty_rows


def description_length(data: Execution, sides: Sides, typical: float) -> float:
    """The description length of a clustering and its outliers, per unit of weight.

    `typical` is the mean D² of a row, and has to be the same for all that are compared: how
    tight a cluster is must not depend on how wide the others are, or whether they are left out.
    """
    length = float(_cluster_lengths(data, sides.mass, sides.cost, typical).sum())
    if sides.mass_beyond:
        each = math.log(data.total_weight / sides.mass_beyond) + OUTLIER_COST
        length += _half_degrees(data) * sides.logs_beyond + sides.mass_beyond * each
    return length / data.total_weight


def promising_swaps(
    data: Execution,
    now: Placed,
    fences: Fences,
    typical: float,
    random: np.random.RandomState,
) -> list[Swap]:
    """The best swap for each of a few random rows, those that shorten the description most first.

    Only for two clusters or more.  Rows that would win fewer rows than a fence takes are left
    out.
    """
    points = _draw(data, now, random)
    if not points.size:
        return []
    for _ in range(2):
        won = data.summarise(WON_ROWS, now.states, Newcomers(points, fences, now.cut.value))
        mass = won.mass.sum(axis=1)
        shifts = won.sums / np.where(mass > 0, mass, 1)[:, np.newaxis]
        points = (points + shifts).astype(data.dtype)
    cost = np.maximum(won.cost - np.sum(won.sums * shifts, axis=1), 0)
    sides = data.summarise(BEYOND_FENCES, now.states, fences)
    present = description_length(data, sides, typical)
    gaps = _gaps(now.centers)
    swaps = []
    for i in np.flatnonzero(mass >= fewest_rows(data)):
        after = _with_newcomer(sides, won, int(i), mass[i], cost[i])
        leaves = _cheapest_farewell(data, now.centers, gaps, after, typical)
        centers = now.centers.copy()
        centers[leaves.into] = leaves.mean
        centers[leaves.gone] = points[i]
        change = description_length(data, after, typical) - present + leaves.change
        swaps.append(Swap(change, centers, leaves.freed))
    return sorted(swaps, key=lambda swap: swap.change)


def _draw(data: Execution, now: Placed, random: np.random.RandomState) -> NDArray[np.floating]:
    """Rows from both distributions, as local search draws them."""
    tau = ETA * now.inertia / now.cut.weight if now.cut.weight else np.inf
    uniforms = random.uniform(size=BATCH)
    rows = draw(data, now.states, clipped(tau), uniforms[::2])
    rows += draw_inside(data, now.states, now.cut, uniforms[1::2])
    return np.array([row.point for row in rows])


def _with_newcomer(sides: Sides, won: WonRows, which: int, mass: float, cost: float) -> Sides:
    """The sides after a newcomer has won its rows; it comes last."""
    return Sides(
        np.append(np.maximum(sides.mass - won.mass[which, :-1], 0), mass),
        np.append(np.maximum(sides.cost - won.before[which, :-1], 0), cost),
        max(sides.mass_beyond - won.mass[which, -1], 0.0),
        sides.logs_beyond - won.before[which, -1],
    )


def _cheapest_farewell(
    data: Execution,
    centers: NDArray[np.floating],
    gaps: NDArray[np.float64],
    sides: Sides,
    typical: float,
) -> Farewell:
    """The centre without which the description is shortest."""
    every = np.arange(len(centers))
    into = gaps.argmin(axis=1)
    nearest = gaps[every, into]
    mass, cost = sides.mass[every], sides.cost[every]
    own = _cluster_lengths(data, mass, cost, typical)

    both = mass + mass[into]
    part = mass / np.where(both > 0, both, 1)
    joined = _cluster_lengths(data, both, cost + cost[into] + part * mass[into] * nearest, typical)
    joining = joined - own - own[into]

    share = np.where(mass > 0, sides.mass_beyond + mass, data.total_weight) / data.total_weight
    far = _half_degrees(data) * np.log(np.maximum(nearest, LEAST_POSITIVE))
    leaving_out = mass * (far - np.log(share) + OUTLIER_COST) - own
    # A larger cluster would not stand for outliers that have a centre.
    leaving_out[mass >= fewest_rows(data)] = np.inf

    gone = int(np.minimum(joining, leaving_out).argmin())
    if leaving_out[gone] < joining[gone]:
        change = leaving_out[gone] / data.total_weight
        return Farewell(change, gone, gone, centers[gone].astype(np.float64), mass[gone])
    near = int(into[gone])
    mean = centers[near] + part[gone] * (centers[gone].astype(np.float64) - centers[near])
    return Farewell(joining[gone] / data.total_weight, gone, near, mean, 0.0)


def _gaps(centers: NDArray[np.floating]) -> NDArray[np.float64]:
    """Squared distances between centres; each is infinitely far from itself."""
    places = centers.astype(np.float64)
    gaps = np.array([np.sum((places - place) ** 2, axis=1) for place in places])
    np.fill_diagonal(gaps, np.inf)
    return gaps


def _cluster_lengths(
    data: Execution, mass: NDArray[np.float64], cost: NDArray[np.float64], typical: float
) -> NDArray[np.float64]:
    """The part that each cluster has in the length, times the total weight."""
    # Two typical rows are added: a cluster of two equal rows is no great find.
    two = 2 * data.total_weight / data.n_weighty_rows
    spread = np.maximum((cost + two * typical) / (mass + two), LEAST_POSITIVE)
    share = np.where(mass > 0, mass, data.total_weight) / data.total_weight
    lengths: NDArray[np.float64] = mass * (_half_degrees(data) * np.log(spread) - np.log(share))
    return lengths


def _half_degrees(data: Execution) -> float:
    return min(data.n_features, DEGREES) / 2
