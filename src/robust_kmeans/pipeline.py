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
from functools import partial

import numpy as np

from robust_kmeans.checkpoint import Checkpoint, Diary, PastRun
from robust_kmeans.coreset import make_coreset
from robust_kmeans.execution.base import Execution
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import LloydRun, check_same_rows, trimmed_lloyd
from robust_kmeans.local_search import Search, search_swaps
from robust_kmeans.reporting import Callback, Progress
from robust_kmeans.seeding.drawing import Seeding
from robust_kmeans.sweeps.distances import ASSIGN, Centers
from robust_kmeans.trimming import Placed, place
from robust_kmeans.validation import as_centers

# Lloyd iterations before the swaps, and before runs are compared.
FIRST_ITERATIONS = 5
# One of so many runs is finished.
FINISHED_SHARE = 2
# The coreset that local search looks at: of no more memory than a few chunks, but for enough of
# each cluster.  Lloyd on it costs next to nothing, and saves iterations on all rows.
CORESET_ROWS = 2**17
CORESET_VALUES = 2**24
CORESET_ROWS_PER_CLUSTER = 1000
CORESET_ITERATIONS = 100
CORESET_TOL = 1e-4


@dataclass(frozen=True)
class Plan:
    """How much is done: runs, candidates of local search per run, Lloyd iterations per run.

    The last of these, after the swaps, are with or without momentum.
    """

    n_init: int
    n_steps: int
    max_iter: int
    tol: float
    momentum: bool = True


def solve(
    data: Execution,
    n_clusters: int,
    n_outliers: float,
    seeding: Seeding,
    plan: Plan,
    random: np.random.RandomState,
    callback: Callback,
    checkpoint: Checkpoint | None = None,
) -> LloydRun:
    """The run that ends with the least trimmed cost; the first of equals.

    With a `checkpoint`, it goes on from what was saved there.
    """
    diary = Diary(random, checkpoint)
    halves = _Halves(data, n_clusters, n_outliers, seeding, plan, random, diary)
    if plan.n_init == 1 and not plan.n_steps:
        voice = _Voice(plan, callback, 1)
        return halves.begin(1, plan.max_iter, voice, momentum=plan.momentum)
    iterations = min(plan.max_iter, FIRST_ITERATIONS)
    for number in range(len(diary.begun) + 1, plan.n_init + 1):
        run = halves.begin(number, iterations, _Voice(plan, callback, number))
        diary.begin(PastRun.of(number, run))
        del run  # its states: memory for the next run
    promising = sorted(diary.begun, key=_cost)[: -(-plan.n_init // FINISHED_SHARE)]
    last: LloydRun | None = None
    for begun in promising[len(diary.finished) :]:
        del last  # its states: memory for the next run
        last = halves.finish(begun, _Voice(plan, callback, begun.number))
        diary.finish(PastRun.of(begun.number, last))
    best = min(diary.finished, key=_cost)
    if last is not None and last.centers is best.centers:
        return last
    states, _ = data.run(ASSIGN, None, Centers(best.centers))
    return LloydRun(best.centers, states, best.cut, best.history, best.n_iter)


def _cost(run: PastRun) -> float:
    return run.history[-1]


@dataclass(frozen=True)
class _Halves:
    """The two halves of a run, before and after runs are compared."""

    data: Execution
    n_clusters: int
    n_outliers: float
    seeding: Seeding
    plan: Plan
    random: np.random.RandomState
    diary: Diary

    def begin(
        self, number: int, iterations: int, voice: _Voice, *, momentum: bool = False
    ) -> LloydRun:
        """Seeds, and the first iterations."""
        left_off = self.diary.left_off("lloyd", number)
        return trimmed_lloyd(
            self.data,
            self._seeds() if left_off is None else left_off[0],
            self.n_outliers,
            max_iter=iterations,
            tol=self.plan.tol,
            with_momentum=momentum,
            report=voice.begun,
            keep=lambda midway: self.diary.keep("lloyd", number, midway),
        )

    def _seeds(self) -> Placed:
        data = self.data
        data.tidy()  # of what an earlier run has left
        seeds = self.seeding.seed(data, self.n_clusters, self.n_outliers, self.random)
        data.tidy()
        # A seeding may be the user's own.
        centers = as_centers(
            seeds.centers, self.n_clusters, data.n_features, data.dtype, "what the seeding returned"
        )
        return place(data, centers, self.n_outliers)

    def finish(self, begun: PastRun, voice: _Voice) -> LloydRun:
        """Swaps, and the last iterations."""
        left_off = self.diary.left_off("end", begun.number)
        start, swaps = self._swapped(begun, voice) if left_off is None else left_off
        # Handed over, not kept: Lloyd uses the memory of its states again.
        starts = [start]
        del start
        end = trimmed_lloyd(
            self.data,
            starts.pop(),
            self.n_outliers,
            max_iter=max(0, self.plan.max_iter - begun.n_iter),
            tol=self.plan.tol,
            with_momentum=self.plan.momentum,
            report=lambda step, inertia: voice.ended(begun.n_iter, step, inertia),
            keep=lambda midway: self.diary.keep("end", begun.number, midway, swaps),
        )
        history = (*begun.history[:-1], *swaps[:-1], *end.history)
        return replace(end, history=history, n_iter=begun.n_iter + end.n_iter)

    def _swapped(self, begun: PastRun, voice: _Voice) -> Search:
        search: Callable[..., Search] = search_swaps
        if self.data.large and self.plan.n_steps:
            search = partial(_search_coreset, with_momentum=self.plan.momentum)
        return search(
            self.data,
            self._placed(begun),
            self.n_outliers,
            n_steps=self.plan.n_steps,
            random=self.random,
            report=voice.tried,
        )

    def _placed(self, begun: PastRun) -> Placed:
        """Anew, because Lloyd loosens the bounds that local search takes for distances."""
        placed = place(self.data, begun.centers, self.n_outliers)
        if self.diary.goes_on:
            check_same_rows(placed.cut, begun.cut)
        return placed


def _search_coreset(
    data: Execution,
    start: Placed,
    n_outliers: float,
    *,
    n_steps: int,
    random: np.random.RandomState,
    report: Callable[[int, float], object],
    with_momentum: bool,
) -> Search:
    """Swap centres while that lowers ρ of a coreset; then see whether ρ of all rows is lower."""
    n_clusters, n_features = start.centers.shape
    size = max(
        min(CORESET_ROWS, CORESET_VALUES // n_features), CORESET_ROWS_PER_CLUSTER * n_clusters
    )
    few = make_coreset(data, start, size, random)
    with InMemory(few.points, few.weights, data.n_threads) as sample:
        swapped = search_swaps(
            sample,
            place(sample, start.centers, n_outliers),
            n_outliers,
            n_steps=n_steps,
            random=random,
            report=report,
        )
        found = trimmed_lloyd(
            sample,
            swapped.end,
            n_outliers,
            max_iter=CORESET_ITERATIONS,
            tol=CORESET_TOL,
            with_momentum=with_momentum,
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
