"""The pipeline of `RobustKMeans`: seeding, a few Lloyd iterations, swaps, Lloyd to the end.

Swaps are priced against means rather than against single rows, so some iterations of Lloyd
come before them; the last ones are for what swaps leave behind.  With several runs, all get
the seeding and the first iterations, and the best few of them the rest (as R's tclust does).

Of large data (`Execution.large`) swaps, which take many readings, look at a coreset; what they
find there is taken if it costs less on all rows, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.coreset import make_coreset
from robust_kmeans.execution.base import Execution
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import LloydRun, trimmed_lloyd
from robust_kmeans.local_search import Search, search_swaps
from robust_kmeans.reporting import Callback, Progress
from robust_kmeans.seeding.drawing import Seeding
from robust_kmeans.trimming import Placed, place
from robust_kmeans.validation import as_centers

# Lloyd iterations before the swaps, and before runs are compared.
FIRST_ITERATIONS = 5
# One of so many runs is finished.
FINISHED_SHARE = 2
# The coreset that local search looks at: of no more memory than a few chunks, and enough of each
# cluster.  Lloyd on it costs next to nothing, and saves iterations on all rows.
CORESET_ROWS = 2**17
CORESET_ROWS_PER_CLUSTER = 1000
CORESET_ITERATIONS = 100
CORESET_TOL = 1e-4


@dataclass(frozen=True)
class Plan:
    """How much is done: runs, candidates of local search per run, Lloyd iterations per run."""

    n_init: int
    n_steps: int
    max_iter: int
    tol: float


@dataclass(frozen=True)
class Begun:
    """A run after its first iterations: its number, its centres, and ρ on the way."""

    number: int
    centers: NDArray[np.floating]
    history: tuple[float, ...]


def solve(
    data: Execution,
    n_clusters: int,
    n_outliers: float,
    seeding: Seeding,
    plan: Plan,
    random: np.random.RandomState,
    callback: Callback,
) -> LloydRun:
    """The run that ends with the least trimmed cost; the first of equals."""
    if plan.n_init == 1 and not plan.n_steps:
        return _begin(
            data, n_clusters, n_outliers, seeding, plan, plan.max_iter, random,
            _Voice(plan, callback, 1),
        )  # fmt: skip
    iterations = min(plan.max_iter, FIRST_ITERATIONS)
    begun = []
    for number in range(1, plan.n_init + 1):
        run = _begin(
            data, n_clusters, n_outliers, seeding, plan, iterations, random,
            _Voice(plan, callback, number),
        )  # fmt: skip
        begun.append(Begun(number, run.centers, run.history))
        del run  # its states: memory for the next run
    begun.sort(key=lambda run: run.history[-1])
    best: LloydRun | None = None
    for each in begun[: -(-plan.n_init // FINISHED_SHARE)]:
        found = _finish(data, n_outliers, each, plan, random, _Voice(plan, callback, each.number))
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    return best


def _begin(
    data: Execution,
    n_clusters: int,
    n_outliers: float,
    seeding: Seeding,
    plan: Plan,
    iterations: int,
    random: np.random.RandomState,
    voice: _Voice,
) -> LloydRun:
    seeds = seeding.seed(data, n_clusters, n_outliers, random)
    data.tidy()
    # A seeding may be the user's own.
    centers = as_centers(
        seeds.centers, n_clusters, data.n_features, data.dtype, "what the seeding returned"
    )
    return trimmed_lloyd(
        data,
        place(data, centers, n_outliers),
        n_outliers,
        max_iter=iterations,
        tol=plan.tol,
        report=voice.begun,
    )


def _finish(
    data: Execution,
    n_outliers: float,
    begun: Begun,
    plan: Plan,
    random: np.random.RandomState,
    voice: _Voice,
) -> LloydRun:
    n_first = len(begun.history) - 1
    search = _search_coreset if data.large and plan.n_steps else search_swaps
    swapped = search(
        data,
        # Anew, because Lloyd loosens the bounds that local search takes for distances.
        place(data, begun.centers, n_outliers),
        n_outliers,
        n_steps=plan.n_steps,
        random=random,
        report=voice.tried,
    )
    end = trimmed_lloyd(
        data,
        swapped.end,
        n_outliers,
        max_iter=max(0, plan.max_iter - n_first),
        tol=plan.tol,
        report=lambda step, inertia: voice.ended(n_first, step, inertia),
    )
    history = (*begun.history[:-1], *swapped.history[:-1], *end.history)
    return replace(end, history=history, n_iter=n_first + end.n_iter)


def _search_coreset(
    data: Execution,
    start: Placed,
    n_outliers: float,
    *,
    n_steps: int,
    random: np.random.RandomState,
    report: Callable[[int, float], object],
) -> Search:
    """Swap centres while that lowers ρ of a coreset; then see whether ρ of all rows is lower."""
    size = max(CORESET_ROWS, CORESET_ROWS_PER_CLUSTER * len(start.centers))
    few = make_coreset(data, start, size, random)
    with InMemory(few.points, few.weights) as sample:
        swapped = search_swaps(
            sample,
            place(sample, start.centers, n_outliers),
            n_outliers,
            n_steps=n_steps,
            random=random,
            report=report,
        )
        found = trimmed_lloyd(
            sample, swapped.end, n_outliers, max_iter=CORESET_ITERATIONS, tol=CORESET_TOL
        )
    after = place(data, found.centers, n_outliers, last=start.cut)
    if after.inertia < start.inertia:
        return Search(after, (start.inertia, after.inertia))
    return Search(start, (start.inertia,))


@dataclass(frozen=True)
class _Voice:
    """Tells the callback what one of the runs has done."""

    plan: Plan
    callback: Callback
    number: int

    def begun(self, step: int, inertia: float) -> None:
        self._tell("lloyd" if step else "seeding", step, self.plan.max_iter, inertia)

    def ended(self, n_first: int, step: int, inertia: float) -> None:
        # Step 0 is where the swaps ended, and they have told of it.
        if step:
            self._tell("lloyd", n_first + step, self.plan.max_iter, inertia)

    def tried(self, step: int, inertia: float) -> None:
        self._tell("swaps", step, self.plan.n_steps, inertia)

    def _tell(self, stage: str, step: int, n_steps: int, inertia: float) -> None:
        self.callback(Progress(stage, self.number, self.plan.n_init, step, n_steps, inertia))
