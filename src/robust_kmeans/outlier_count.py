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
    swap centres while that makes the description shorter (`description_length`)

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

Each sⱼ takes in two more rows of typical cost, so that two equal rows are no great find and equal
rows have a length, too.  What is typical is the same for all z, the least that any of them leaves
per row: so that neither far outliers nor the width of other clusters decide how tight one is.

**Weak spots.**  An outlier within the range of a cluster cannot be told from the cluster's rows,
and is not counted: so on a line (d = 1), or where clusters overlap, few can.  Rows in heavier than
Gaussian tails count as outliers, and so may a cluster for which `n_clusters` leaves no centre.
Where clusters overlap, the description may be shorter with one centre for two of them; the other
may then stay with a few far outliers, which are not counted.  Clusters of fewer than 20 rows get
no fence: where most are so small, a warning asks for a number.

Cost: at most 14 fits, usually 8 to 14 and fewer for small n, and for each two to five times a few
Lloyd iterations, a pass over D² and a pass that reads only the rows beyond their cluster's fence.
For swaps 3 to 12 times an assignment and two readings, and up to three tries of a few iterations
each: together less than the fits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.description_length import (
    FEWEST_ROWS,
    description_length,
    fewest_rows,
    promising_swaps,
)
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
# Swaps: so many batches of candidates at most, or so many in a row for nothing.  Of each batch the
# best few are tried, with so many Lloyd iterations and counts.
SWAP_ROUNDS = 12
SWAP_PATIENCE = 3
SWAPS_TRIED = 3
SWAP_ITERATIONS = 5
SWAP_COUNTS = 2

FIRST_QUANTILES = (0.3, 0.6)
QUANTILES = (0.5, 0.8)
BEYOND_FENCE = 3e-5
OF_THE_FOUND = 0.02
MOST_FENCES = 50

Fit = Callable[[float], LloydRun]
"""A fit with so many outliers; each call may start from other random numbers."""


class Settled(NamedTuple):
    """Where a count came to rest: from which start, with which centres, and what they leave.

    `n_iter` are the iterations that led to the centres; `n_fences` of the clusters have enough
    rows for a fence.
    """

    start: float
    n_outliers: float
    centers: NDArray[np.floating]
    n_iter: int
    n_fences: int
    sides: Sides


def estimate_outliers(
    data: Execution,
    n_clusters: int,
    fit: Fit,
    *,
    max_iter: int,
    tol: float,
    random: np.random.RandomState | None = None,
) -> LloydRun:
    """Trimmed Lloyd's run with as many outliers as there seem to be (its `cut.weight`).

    Parameters
    ----------
    data : Execution
    n_clusters : int
    fit : callable
        Finds centres for a number of outliers (with sample weights: a weight).  It is called
        at most 14 times: usually 8 to 14, for fewer than about 200 rows less often.
    max_iter, tol
        When the last run ends, as in `trimmed_lloyd`.
    random : RandomState, optional
        For the candidates of swaps; None draws the same numbers each time.

    Returns
    -------
    LloydRun
        From the best centres that were found on the way.  `history` is that of the last run
        alone; `n_iter` counts the iterations of the fit behind its centres, and of the rounds
        and swaps in which the count settled, too.  At most 30 % of the data are outliers.

    Warns
    -----
    ConvergenceWarning
        Where that limit is reached, or clusters have too few rows to tell outliers from them.
    """
    most = _most_outliers(data, n_clusters)
    tried: list[Settled] = []
    for start in dict.fromkeys(
        _as_budget(data, share * data.total_weight, most) for share in SHARES
    ):
        tried.append(_settle(data, fit, start, most))
        if not tried[-1].sides.cost.any():  # more outliers cannot help
            break
    _look_closer(data, fit, tried, most)
    _swap(data, tried, most, random or np.random.RandomState(0))
    best = _best(data, tried)
    _warn_of_doubts(data, n_clusters, best, most)
    last = _lloyd(data, best.centers, best.n_outliers, max_iter, tol)
    return replace(last, n_iter=best.n_iter + last.n_iter)


def _warn_of_doubts(data: Execution, n_clusters: int, best: Settled, most: float) -> None:
    doubts = []
    if best.n_outliers >= most > 0:
        doubts.append(
            f"The estimated number of outliers has reached its limit of {most:g} "
            f"({most / data.total_weight:.0%} of the data): {n_clusters} clusters with Gaussian "
            f"tails do not describe these rows. Give n_outliers as a number, or raise n_clusters."
        )
    n_filled = np.count_nonzero(best.sides.mass)
    if data.n_weighty_rows < FEWEST_ROWS * n_clusters or 2 * best.n_fences < n_filled:
        doubts.append(
            f"The estimated number of outliers, {best.n_outliers:g}, may be too low: only "
            f"{best.n_fences} of {n_filled} clusters ({data.n_weighty_rows} rows in all) have the "
            f"{FEWEST_ROWS} rows that it takes to tell outliers from a cluster. Give n_outliers "
            f"as a number, or lower n_clusters."
        )
    for doubt in doubts:
        # From here to the caller of RobustKMeans.fit, by way of its _fit and _solve.
        warnings.warn(doubt, ConvergenceWarning, stacklevel=6)


def _look_closer(data: Execution, fit: Fit, tried: list[Settled], most: float) -> None:
    """Bisect between the best count and the next lower start, which led elsewhere.

    With a budget well above the truth, a fit may leave out small clusters and use their
    centres elsewhere; one just above the truth cannot afford to.
    """
    for _ in range(CLOSER_FITS):
        count = _best(data, tried).n_outliers
        same = [run.start for run in tried if abs(run.n_outliers - count) <= SAME * count]
        high = min([*same, count])
        low = max((run.start for run in tried if run.start < high), default=0.0)
        middle = _as_budget(data, (low + high) / 2, most)
        if high - low <= CLOSE * high or middle in (low, high):
            break
        tried.append(_settle(data, fit, middle, most))
    count = _best(data, tried).n_outliers
    if all(run.start != count for run in tried):
        tried.append(_settle(data, fit, count, most))


def _settle(data: Execution, fit: Fit, start: float, most: float) -> Settled:
    """Fit and count in turn until the count stands still; the best on the way."""
    with warnings.catch_warnings():
        # That a try leaves fewer distinct rows than clusters says nothing about the result.
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = fit(start)
    return _follow(data, run, start, start, most, ROUNDS)


def _follow(
    data: Execution, run: LloydRun, start: float, budget: float, most: float, n_counts: int
) -> Settled:
    """Go on from a run with some budget: count and fit in turn; the best on the way."""
    n_iter = run.n_iter
    found: list[Settled] = []
    while True:
        fences = _fences(data, run)
        sides = data.summarise(BEYOND_FENCES, run.states, fences)
        count = _as_budget(data, sides.mass_beyond, most)
        n_fences = int(np.isfinite(fences.own).sum())
        found.append(Settled(start, count, run.centers, n_iter, n_fences, sides))
        if abs(count - budget) <= SETTLED * count or len(found) == n_counts:
            return _best(data, found)
        run, budget = _lloyd(data, run.centers, count, ROUND_ITERATIONS, 0.0), count
        n_iter += run.n_iter


def _swap(
    data: Execution, tried: list[Settled], most: float, random: np.random.RandomState
) -> None:
    """Go on from the best try by swaps of a centre, as long as they shorten the description."""
    if len(tried[0].centers) == 1:
        return
    best, idle = _best(data, tried), 0
    for _ in range(SWAP_ROUNDS):
        if idle == SWAP_PATIENCE or not best.sides.cost.any():
            break
        now = place(data, best.centers, best.n_outliers)
        swaps = promising_swaps(data, now, _fences(data, now), _typical(tried), random)
        before, idle = best, idle + 1
        for swap in swaps[:SWAPS_TRIED]:
            if swap.change >= 0:
                break
            budget = _as_budget(data, before.n_outliers + swap.freed, most)
            run = _lloyd(data, swap.centers, budget, SWAP_ITERATIONS, 0.0)
            run = replace(run, n_iter=before.n_iter + run.n_iter)
            tried.append(_follow(data, run, before.start, budget, most, SWAP_COUNTS))
            best = _best(data, tried)
            if best is not before:
                idle = 0
                break


def _lloyd(
    data: Execution, centers: NDArray[np.floating], n_outliers: float, max_iter: int, tol: float
) -> LloydRun:
    start = place(data, centers, n_outliers)
    return trimmed_lloyd(data, start, n_outliers, max_iter=max_iter, tol=tol)


def _fences(data: Execution, run: Placed) -> Fences:
    """The fences of a run's clusters."""
    n_clusters = len(run.centers)
    scale = run.inertia / (data.total_weight - run.cut.weight)
    histogram = data.summarise(TAIL_HISTOGRAM, run.states, TailShared(scale, n_clusters))
    fewest = fewest_rows(data)
    if scale > 0:
        cut, least = run.cut.value / scale, 0.0
    else:
        # Rows that are kept have no cost to speak of: no D² is larger than their whole cost.
        cut, least = BIN_EDGES[1], run.inertia / data.least_weight
    fences = [_fence(weights, cut, fewest) for weights in histogram]
    own = np.array([np.inf if fence is None else max(fence * scale, least) for fence in fences])
    # A cluster too small for a fence of its own keeps its rows, and claims no others.
    return Fences(run.centers, own, np.where(np.isfinite(own), own, 0.0))


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


def _best(data: Execution, tried: list[Settled]) -> Settled:
    """The try with the least description length; the first of those that tie."""
    typical = _typical(tried)
    return min(tried, key=lambda run: description_length(data, run.sides, typical))


def _typical(tried: list[Settled]) -> float:
    """The least mean D² above 0 of a try."""
    costs = [run.sides.cost.sum() / run.sides.mass.sum() for run in tried]
    return min((cost for cost in costs if cost > 0), default=0.0)


def _most_outliers(data: Execution, n_clusters: int) -> float:
    """The largest budget to try: some rows must remain for each cluster."""
    share = MOST * data.total_weight
    return share if data.weighted else min(math.floor(share), data.n_rows - n_clusters)


def _as_budget(data: Execution, n_outliers: float, most: float) -> float:
    """A number of outliers as fits take it: whole where rows have no weights."""
    budget = min(n_outliers, most)
    return budget if data.weighted else math.floor(budget + 1e-9)
