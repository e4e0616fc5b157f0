"""How many outliers there are, for a given number of clusters: ``n_outliers="auto"``.

The count z and the clusters depend on each other.  With z too low, far outliers take centres;
with z too high, whole clusters are left out.  Either mistake confirms itself: outliers with
centres of their own look like clusters, and a cluster without a centre looks like outliers.  So
several z are tried, from 0 to 24 % of the rows, and each is followed to where it settles:

    for each z:
        repeat a few times:
            fit centres with z outliers (the first time anew, then on from the last centres)
            put a fence around each cluster
            z ← the number of rows beyond all fences
    keep the z with the least description length; then look closer below it

**Fence.**  For a Gaussian cluster of any shape, ln P(D² > t) is close to a line in t or falls
faster.  The line through the median and the 0.8 quantile of the cluster's rows is followed to
where P = 3·10⁻⁵, or 2 % of the share that lies beyond if that is more.  (With two equal axes that
is exact; with a single long one 3·10⁻⁴ of the rows are beyond.)  The quantiles are those of the
rows within the fence; so this is repeated, from the inner rows outwards, until the fence stands
still.  It needs no covariances and no degrees of freedom.

**Description length.**  For clusters of weights mⱼ and mean squared distances sⱼ, with z rows
beyond the fences,

    Σⱼ mⱼ·(ν/2·ln sⱼ + ln(n/mⱼ)) + Σ_outliers (ν/2·ln D² + ln(n/z) + 2)

An outlier costs what it would as a Gaussian of its own width, so nothing depends on how far the
farthest outlier is; and a little more, as to leave a row out needs a reason.  ν is not the
number of features: halving a long Gaussian cluster divides its sⱼ by up to e^1.01 and costs ln 2
per row, so that for ν < 1.37 halving it never pays for leaving out another cluster.

An outlier within the range of a cluster cannot be told from the cluster's rows, and is not
counted.  Rows in heavier than Gaussian tails count as outliers, and so may a cluster for which
`n_clusters` leaves no centre.

Cost: about 8 to 14 fits, and for each two to five times a few Lloyd iterations, a pass over D²
and a pass that reads only the rows beyond their cluster's fence.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.execution.base import Execution
from robust_kmeans.lloyd import LloydRun, trimmed_lloyd
from robust_kmeans.sweeps.tails import (
    BEYOND_FENCES,
    BIN_EDGES,
    TAIL_HISTOGRAM,
    Fences,
    Sides,
    TailShared,
)
from robust_kmeans.trimming import Placed, place

# Shares of outliers from which to start: each about twice the one before, as a fit with up to
# twice the right number of outliers still finds all but the smallest clusters.
SHARES = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.24)
MOST = 0.3
# How closely to look below the best count, and how many fits that may take.
CLOSE = 0.1
CLOSER_FITS = 5
# A count settles in so many rounds, of so many Lloyd iterations, or is given up.
ROUNDS = 4
ROUND_ITERATIONS = 10
SETTLED = 0.01
# Counts that differ by less are of the same clusters.
SAME = 0.05

FIRST_QUANTILES = (0.3, 0.6)
QUANTILES = (0.5, 0.8)
BEYOND_FENCE = 3e-5
OF_THE_FOUND = 0.02
# In a cluster of fewer rows, quantiles say nothing.
FEWEST_ROWS = 20
MOST_FENCES = 50
DEGREES = 4 / 3
OUTLIER_COST = 2.0

Fit = Callable[[float], Placed]
"""A fit with so many outliers; each call may start from other random numbers."""


class Settled(NamedTuple):
    """Where a count came to rest: from which start, with which centres, and how well."""

    start: float
    n_outliers: float
    centers: NDArray[np.floating]
    length: float


def estimate_outliers(
    data: Execution, n_clusters: int, fit: Fit, *, max_iter: int, tol: float
) -> LloydRun:
    """Trimmed Lloyd's run with as many outliers as there seem to be (its `cut.weight`).

    Parameters
    ----------
    data : Execution
    n_clusters : int
    fit : callable
        Finds centres for a number of outliers (with sample weights: a weight).  It is called
        8 to 14 times.
    max_iter, tol
        When the last run ends, as in `trimmed_lloyd`.

    Returns
    -------
    LloydRun
        From the best centres that were found on the way.  At most 30 % of the data are
        outliers; a warning says where that limit is reached.
    """
    most = _most_outliers(data, n_clusters)
    tried: list[Settled] = []
    for start in dict.fromkeys(
        _as_budget(data, share * data.total_weight, most) for share in SHARES
    ):
        tried.append(_settle(data, fit, start, most))
        if tried[-1].length == -np.inf:  # no cost is left, and more outliers cannot help
            break
    else:
        _look_closer(data, fit, tried, most)
    best = _best(tried)
    if best.n_outliers >= most > 0:
        warnings.warn(
            f"The estimated number of outliers has reached its limit of {most:g} "
            f"({most / data.total_weight:.0%} of the data): {n_clusters} clusters with Gaussian "
            f"tails do not describe these rows. Give n_outliers as a number, or raise n_clusters.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _lloyd(data, best.centers, best.n_outliers, max_iter, tol)


def _look_closer(data: Execution, fit: Fit, tried: list[Settled], most: float) -> None:
    """Bisect between the best count and the next lower start, which led elsewhere.

    With a budget well above the truth, a fit may leave out small clusters and use their
    centres elsewhere; one just above the truth cannot afford to.
    """
    for _ in range(CLOSER_FITS):
        count = _best(tried).n_outliers
        same = [run.start for run in tried if abs(run.n_outliers - count) <= SAME * count]
        high = min([*same, count])
        low = max((run.start for run in tried if run.start < high), default=0.0)
        middle = _as_budget(data, (low + high) / 2, most)
        if high - low <= CLOSE * high or middle in (low, high):
            break
        tried.append(_settle(data, fit, middle, most))
    count = _best(tried).n_outliers
    if all(run.start != count for run in tried):
        tried.append(_settle(data, fit, count, most))


def _best(tried: list[Settled]) -> Settled:
    return min(tried, key=lambda run: run.length)


def _settle(data: Execution, fit: Fit, start: float, most: float) -> Settled:
    """Fit and count in turn until the count stands still; the best on the way."""
    run, budget = fit(start), start
    found = []
    for _ in range(ROUNDS):
        if run.inertia == 0:
            return Settled(start, run.cut.weight, run.centers, -np.inf)
        sides = _count_beyond(data, run)
        count = _as_budget(data, sides.mass_beyond, most)
        length = _description_length(data, sides)
        found.append(Settled(start, count, run.centers, length))
        if abs(count - budget) <= SETTLED * count:
            break
        run, budget = _lloyd(data, run.centers, count, ROUND_ITERATIONS, 0.0), count
    return _best(found)


def _lloyd(
    data: Execution, centers: NDArray[np.floating], n_outliers: float, max_iter: int, tol: float
) -> LloydRun:
    start = place(data, centers, n_outliers)
    return trimmed_lloyd(
        data, start, n_outliers, max_iter=max_iter, tol=tol, report=lambda _step, _inertia: None
    )


def _count_beyond(data: Execution, run: Placed) -> Sides:
    """What lies within and beyond the fences of a run's clusters."""
    n_clusters = len(run.centers)
    scale = run.inertia / (data.total_weight - run.cut.weight)
    histogram = data.summarise(TAIL_HISTOGRAM, run.states, TailShared(scale, n_clusters))
    fewest = FEWEST_ROWS * data.total_weight / data.n_weighty_rows
    fences = [_fence(weights, run.cut.value / scale, fewest) for weights in histogram]
    own = np.array([np.inf if fence is None else fence * scale for fence in fences])
    # A cluster too small for a fence of its own keeps its rows, and claims no others.
    reach = np.array([0.0 if fence is None else fence * scale for fence in fences])
    return data.summarise(BEYOND_FENCES, run.states, Fences(run.centers, own, reach))


def _fence(weights: NDArray[np.float64], cut: float, fewest: float) -> float | None:
    """The D² beyond which a cluster with this histogram has next to no rows of its own.

    Starts from the rows that the cut keeps, which may be more or fewer than the cluster's; None
    where they are too few.
    """
    until = np.concatenate([[0.0], np.cumsum(weights)])
    kept = float(np.interp(cut, BIN_EDGES, until))
    if kept < fewest:
        return None
    # Of bins without rows, the position of a quantile is the upper end.
    least, low, high = kept / 2, *FIRST_QUANTILES
    for _ in range(MOST_FENCES):
        near, far = np.interp([low * kept, high * kept], until, BIN_EDGES)
        slope = (far - near) / math.log((1 - low) / (1 - high))
        beyond = max(BEYOND_FENCE, OF_THE_FOUND * (1 - kept / until[-1]))
        fence = float(far + slope * math.log((1 - high) / beyond))
        inside = max(least, float(np.interp(fence, BIN_EDGES, until)))
        if abs(inside - kept) <= 1e-9 * kept and (low, high) == QUANTILES:
            break
        kept, (low, high) = inside, QUANTILES
    return fence


def _description_length(data: Execution, sides: Sides) -> float:
    """The description length of a clustering and its outliers, per unit of weight."""
    total, mass, cost = data.total_weight, sides.mass, sides.cost
    filled = mass > 0
    mass, cost = mass[filled], cost[filled]
    if not cost.sum() > 0:
        return -math.inf
    # Two rows of average cost are added: a cluster of two equal rows is no great find.
    two = 2 * total / data.n_weighty_rows
    spread = (cost + two * cost.sum() / mass.sum()) / (mass + two)
    half = min(data.n_features, DEGREES) / 2
    length = float(mass @ (half * np.log(spread) + np.log(total / mass)))
    if sides.mass_beyond:
        each = math.log(total / sides.mass_beyond) + OUTLIER_COST
        length += half * sides.logs_beyond + sides.mass_beyond * each
    return length / total


def _most_outliers(data: Execution, n_clusters: int) -> float:
    """The largest budget to try: some rows must remain for each cluster."""
    share = MOST * data.total_weight
    return share if data.weighted else min(math.floor(share), data.n_rows - n_clusters)


def _as_budget(data: Execution, n_outliers: float, most: float) -> float:
    """A number of outliers as fits take it: whole where rows have no weights."""
    budget = min(n_outliers, most)
    return budget if data.weighted else math.floor(budget + 1e-9)
