"""What is measured in each cell of the grid, in both dtypes: a function per task.

seeding     `robust_kmeans_plusplus` beside `kmeans_plusplus`, n_local_trials=1
passes      our seeding: a reading of X by itself, and what the cut and the draw of a centre take
greedy      the same as seeding with the default n_local_trials of both
filters     our seeding with and without exact filters, and the rows that it measures
lloyd       a Lloyd iteration of which nothing is known beforehand: ours without bounds
converged   a whole run to rest, or of 300 iterations, divided by its iterations
fits        the default fit, and fits without local search to the cost at which KMeans ends

All start Lloyd from the same random rows.  `lloyd` is timed by difference, in a window in which
nobody is at rest; in `converged` set-up and results count for all, as in a user's run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.seeding import growth
from speed import our_jobs, peer_jobs
from speed.grid import Cell
from speed.jobs import Job, Outcome, Window, Work
from speed.peer_jobs import FAISS, INTELEX, OURS, SKLEARN
from speed.processes import Processes, note
from speed.records import Place, Record

TO_COST = "ours, local_search=0, to the cost of KMeans"
TO_ITS_COST = "ours, local_search=0, to the cost of one run of trimkmeans"
TEN_RUNS = "scikit-learn, n_init=10"
FILTERED, UNFILTERED = "ours, filtered", "ours, unfiltered"
READING, CUT_AND_DRAW = "ours, a reading of X", "ours, cut and draw of a centre"
N_INIT = 10
# Fits of scikit-learn beyond these seconds together get no more seeds, once there are a few.
FIT_BUDGET, FEW_SEEDS = 12.0, 3
WINDOW = Window(2, 22)
# A run is at rest, or ends here as a fit does by default.  Peers take the same time for each
# iteration, and need not do all of them: so many that their set-up hardly counts.
MOST_TO_REST = 300
MOST_OF_SKLEARN = 100
MOST_OF_OTHERS = 50


@dataclass(frozen=True)
class Bench:
    """Where jobs run, how often, who takes part, and where rows are kept meanwhile."""

    processes: Processes
    repeats: int
    peers: Sequence[str]
    folder: Path
    quick: bool

    @property
    def n_seeds(self) -> int:
        """Most fits per figure."""
        return 2 if self.quick else N_INIT

    def saved(self, cell: Cell, dtype: str, rows: NDArray[np.floating]) -> Site:
        """The rows of a cell in a file, for processes to read."""
        path = self.folder / f"{cell.name}-{dtype}.npy"
        np.save(path, np.ascontiguousarray(rows, dtype))
        return Site(cell, dtype, Work(path, cell.k, cell.z, self.processes.threads))

    def take_turns(
        self, jobs: Mapping[str, Job], site: Site, task: str
    ) -> dict[str, list[Outcome]]:
        """The outcomes of all who take part."""
        return self.processes.take_turns(
            self.taking_part(jobs), site.work, self.repeats, site.title(task)
        )

    def taking_part(self, jobs: Mapping[str, Job]) -> dict[str, Job]:
        """The jobs of those who are there."""
        return {peer: job for peer, job in jobs.items() if peer in self.peers}


@dataclass(frozen=True)
class Site:
    """A cell in one dtype, and its rows."""

    cell: Cell
    dtype: str
    work: Work

    def record(
        self, task: str, peer: str, seconds: Sequence[float], cost: float = float("nan"),
        remark: str = "",
    ) -> Record:  # fmt: skip
        """The median of some runs."""
        return Record(
            task, self.place, peer, median(seconds), runs=len(seconds), cost=cost, note=remark
        )

    @property
    def place(self) -> Place:
        """As records have it."""
        return Place.of(self.cell, self.dtype, self.work.threads)

    def title(self, task: str) -> str:
        """What progress lines begin with."""
        return f"{task}, {self.cell.name}, {self.dtype}"


def seeding(bench: Bench, site: Site) -> list[Record]:
    return _seedings(bench, site, "seeding", 1)


def greedy(bench: Bench, site: Site) -> list[Record]:
    return _seedings(bench, site, "greedy", None)


def _seedings(bench: Bench, site: Site, task: str, trials: int | None) -> list[Record]:
    jobs = {
        OURS: partial(our_jobs.seeding, trials=trials),
        SKLEARN: partial(peer_jobs.sklearn_seeding, trials=trials),
    }
    turns = bench.take_turns(jobs, site, task)
    return [site.record(task, peer, seconds_of(runs)) for peer, runs in turns.items()]


def passes(bench: Bench, site: Site) -> list[Record]:
    """Each the mean of one run, and the median of runs; how many readings there were."""
    jobs = {
        READING: partial(our_jobs.grown_seeding, part="reading"),
        CUT_AND_DRAW: partial(our_jobs.grown_seeding, part="cut and draw"),
    }
    turns = bench.processes.take_turns(jobs, site.work, bench.repeats, site.title("passes"))
    return [
        site.record("passes", name, seconds_of(runs), remark=f"{runs[0].n_iter} readings")
        for name, runs in turns.items()
    ]


def filters(bench: Bench, site: Site) -> list[Record]:
    """Both variants take turns; how many rows each has measured.  Nothing where there are none."""
    row = site.cell.d * np.dtype(site.dtype).itemsize
    if site.cell.k < growth.FILTERED or row < growth.FILTERED_ROW:
        return []
    jobs = {
        name: partial(our_jobs.grown_seeding, filtered=filtered)
        for name, filtered in ((FILTERED, True), (UNFILTERED, False))
    }
    turns = bench.processes.take_turns(jobs, site.work, bench.repeats, site.title("filters"))
    return [
        site.record("filters", name, seconds_of(runs), remark=_touched(name, runs, row))
        for name, runs in turns.items()
    ]


def _touched(name: str, runs: Sequence[Outcome], row: int) -> str:
    n_rows = round(median(run.n_rows for run in runs))
    return f"{name}: {n_rows:,} rows, {n_rows * row / 1e9:.3g} GB"


def lloyd(bench: Bench, site: Site) -> list[Record]:
    window = _window(bench, site)
    jobs: dict[str, Callable[..., Outcome]] = {
        OURS: our_jobs.plain_iteration,
        SKLEARN: peer_jobs.sklearn_iteration,
        INTELEX: peer_jobs.sklearn_iteration,
    }
    jobs = {peer: partial(job, window=window) for peer, job in jobs.items()}
    turns = bench.take_turns(jobs, site, "lloyd")
    remark = f"iterations {window.few + 1} to {window.many}"
    return [
        site.record("lloyd", peer, seconds_of(runs), remark=remark) for peer, runs in turns.items()
    ]


def _window(bench: Bench, site: Site) -> Window:
    """Iterations in which nobody is at rest: fewer than usual where clusters are found at once."""
    most = WINDOW.many + 1
    jobs: dict[str, Callable[..., Outcome]] = {
        OURS: our_jobs.iterations_to_rest,
        SKLEARN: peer_jobs.sklearn_iterations_to_rest,
        INTELEX: peer_jobs.sklearn_iterations_to_rest,
    }
    least = most
    for peer, job in bench.taking_part(jobs).items():
        seconds, n_iter, *_ = bench.processes.run(peer, partial(job, most=most), site.work, 0)
        note(f"{site.title('lloyd')}, first {n_iter} iterations, {peer}", seconds)
        least = min(least, n_iter)
    many = max(2, least - 1)
    return Window(min(WINDOW.few, many - 1), many)


def converged(bench: Bench, site: Site) -> list[Record]:
    to_rest = peer_jobs.sklearn_run_to_rest
    jobs: dict[str, Callable[..., Outcome]] = {
        OURS: partial(our_jobs.run_to_rest, most=MOST_TO_REST),
        SKLEARN: partial(to_rest, most=MOST_OF_SKLEARN),
        INTELEX: partial(to_rest, most=MOST_OF_OTHERS),
    }
    if site.dtype == "float32" and FAISS in bench.peers:
        # faiss does not stop by itself: it does as many iterations as we need.
        n_iter = bench.processes.run(OURS, jobs[OURS], site.work, 0).n_iter
        jobs[FAISS] = partial(peer_jobs.faiss_run, n_iter=min(n_iter, MOST_OF_OTHERS))
    turns = bench.take_turns(jobs, site, "converged")
    remark = "iterations: " + ", ".join(f"{peer} {runs[0].n_iter}" for peer, runs in turns.items())
    return [
        site.record("converged", peer, seconds_of(runs), remark=remark)
        for peer, runs in turns.items()
    ]


def fits(bench: Bench, site: Site) -> list[Record]:
    """Seed after seed: KMeans, our fit to its cost, our default fit.

    n_init=10 is what ten seeds of n_init=1 take together, and the least of their costs; where
    there are fewer, in proportion.
    """
    run, work, title = bench.processes.run, site.work, site.title("fits")
    theirs, costs, to_cost, ours = [], [], [], []
    for peer, job in ((SKLEARN, peer_jobs.sklearn_fit), (OURS, our_jobs.default_fit)):
        run(peer, job, work.warm_up(), 0)
    for seed in range(bench.n_seeds):
        theirs.append(run(SKLEARN, peer_jobs.sklearn_fit, work, seed))
        note(f"{title}, seed {seed}, {SKLEARN}", theirs[-1].seconds)
        costs.append(run(OURS, our_jobs.cost_of, work, theirs[-1].centers))
        to_cost.append(run(OURS, our_jobs.fit_to_cost, work, seed, costs[-1]))
        note(f"{title}, seed {seed}, {TO_COST}", to_cost[-1].seconds)
        ours.append(run(OURS, our_jobs.default_fit, work, seed))
        note(f"{title}, seed {seed}, {OURS}", ours[-1].seconds)
        if seed + 1 >= FEW_SEEDS and sum(seconds_of(theirs)) > FIT_BUDGET:
            break
    record = partial(site.record, "fits")
    return [
        record(OURS, seconds_of(ours), fmean(each.cost for each in ours)),
        record(TO_COST, seconds_of(to_cost), remark=restarts(to_cost)),
        record(SKLEARN, seconds_of(theirs), fmean(costs)),
        record(
            TEN_RUNS,
            [fmean(seconds_of(theirs)) * N_INIT],
            min(costs),
            f"from {len(theirs)} seeds",
        ),
    ]


def restarts(runs: Sequence[Outcome]) -> str:
    """In how many of the runs one fit was not enough, and where even some were not."""
    again = sum(1 < run.n_iter <= our_jobs.MOST_RUNS for run in runs)
    missed = sum(run.n_iter > our_jobs.MOST_RUNS for run in runs)
    told = [f"started again in {again} of {len(runs)}"] if again else []
    told += [f"not reached in {missed} of {len(runs)}"] if missed else []
    return ", ".join(told)


def seconds_of(runs: Sequence[Outcome]) -> list[float]:
    return [run.seconds for run in runs]


GRID_TASKS: Mapping[str, Callable[[Bench, Site], list[Record]]] = {
    task.__name__: task for task in (seeding, passes, greedy, filters, lloyd, converged, fits)
}
