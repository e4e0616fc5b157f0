"""What this library does in its process."""

from __future__ import annotations

import math
import time
import warnings
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import (
    RobustKMeans,
    robust_kmeans_plusplus,
    trimmed_inertia,
    trimmed_kmeans,
)
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import trimmed_lloyd
from robust_kmeans.reporting import Progress
from robust_kmeans.seeding import growth
from robust_kmeans.seeding.growth import Growth
from robust_kmeans.seeding.threshold import next_threshold
from robust_kmeans.sweeps.seeding import READ_AND_TAKE
from robust_kmeans.trimming import place
from speed.jobs import Outcome, Window, Work, between, timed

# A fit that rests above the cost it is to reach starts again, so many times at most.
MOST_RUNS = 5


def seeding(work: Work, seed: int, trials: int | None) -> Outcome:
    rows = work.rows()
    seconds, _ = timed(
        lambda: robust_kmeans_plusplus(
            rows,
            work.n_clusters,
            n_outliers=work.n_outliers,
            n_local_trials=trials,
            n_threads=work.threads,
            random_state=seed,
        )
    )
    return Outcome(seconds)


def grown_seeding(
    work: Work, seed: int, filtered: bool | None = None, part: str = "all"
) -> Outcome:
    """`seeding` with one candidate per step; the rows it has measured, and its readings.

    With or without filters, or as it is.  All of it is timed; or the mean of its readings; or what
    else a centre takes in the mean: the cut, the threshold and the draw.
    """
    rows, z = work.rows(), work.n_outliers

    def grow() -> tuple[Growth, _Watched]:
        with _Watched(rows, n_threads=work.threads) as data:
            grown, tau = Growth(data, work.n_clusters, z, np.random.RandomState(seed)), np.inf
            more = True
            while more and len(grown.rows) < work.n_clusters:
                states, cut = grown.states, grown.cut
                tau = next_threshold(data, states, cut, z, rule="cost", eta=0.5, last=tau)
                more = grown.add_drawn(tau)
        return grown, data

    # From this many clusters on there are filters: always, and never.
    limits = {None: growth.FILTERED, True: 0, False: math.inf}
    with mock.patch.object(growth, "FILTERED", limits[filtered]):
        seconds, (grown, data) = timed(grow)
    n_readings = grown.work.n_readings
    if part == "reading":
        seconds = data.seconds_of_readings / n_readings
    elif part == "cut and draw":
        seconds = (seconds - data.seconds_of_readings) / len(grown.rows)
    return Outcome(seconds, n_iter=n_readings, n_rows=grown.work.n_rows)


def iterations_to_rest(work: Work, _seed: int, most: int) -> Outcome:
    seconds, end = timed(lambda: _lloyd(work, max_iter=most))
    return Outcome(seconds, end.n_iter)


def plain_iteration(work: Work, _seed: int, window: Window) -> Outcome:
    """Seconds of a Lloyd iteration in which every row is compared with every centre."""
    start = work.start()
    with InMemory(work.rows(), n_threads=work.threads) as data:
        # Placed anew each time: a run may use the memory of its first states again.
        return between(
            lambda max_iter: trimmed_lloyd(
                data,
                place(data, start, work.n_outliers),
                work.n_outliers,
                max_iter=max_iter,
                tol=0,
                bounds=False,
            ),
            window,
        )


def run_to_rest(work: Work, _seed: int, most: int) -> Outcome:
    """Seconds per iteration of a whole run, set-up and all figures at the end included."""
    seconds, end = timed(lambda: _lloyd(work, max_iter=most))
    return Outcome(seconds / max(1, end.n_iter), end.n_iter)


def default_fit(work: Work, seed: int) -> Outcome:
    rows = work.rows()
    model = _model(work, seed)
    seconds, _ = timed(lambda: model.fit(rows))
    return Outcome(seconds, model.n_iter_, model.inertia_)


def fit_to_cost(work: Work, seed: int, target: float) -> Outcome:
    """Seconds until fits without local search, one after the other, reach a trimmed cost.

    A fit goes on until it is there: `tol` would end some a moment before.  `n_iter` is the number
    of fits; beyond `MOST_RUNS` of them the cost was not reached.
    """
    rows = work.rows()
    start = time.perf_counter()
    for run in range(MOST_RUNS):
        model = _model(work, seed + 1000 * run, local_search=0, tol=0, callback=_Goal(target))
        try:
            model.fit(rows)
        except _ReachedError:
            return Outcome(time.perf_counter() - start, run + 1, target)
    return Outcome(time.perf_counter() - start, MOST_RUNS + 1, model.inertia_)


def cost_of(work: Work, centers: np.ndarray) -> float:
    """The trimmed cost of centres, whoever found them."""
    return trimmed_inertia(work.rows(), centers, n_outliers=work.n_outliers, n_threads=work.threads)


def read_only_fit(work: Work, seed: int) -> Outcome:
    work.rows().flags.writeable = False
    return default_fit(work, seed)


class _Watched(InMemory):
    """Knows how long the readings of a seeding have taken."""

    seconds_of_readings = 0.0

    def map(self, step, states, shared, **options):
        seconds, found = timed(lambda: super(_Watched, self).map(step, states, shared, **options))
        if step is READ_AND_TAKE.step:
            self.seconds_of_readings += seconds
        return found


class _ReachedError(Exception):
    """Ends a fit that has done what was asked."""


class _Goal:
    """A callback that ends the fit once the cost is low enough."""

    def __init__(self, target: float) -> None:
        self.target = target

    def __call__(self, progress: Progress) -> None:
        if progress.inertia <= self.target:
            raise _ReachedError


def _model(work: Work, seed: int, **options: object) -> RobustKMeans:
    return RobustKMeans(
        work.n_clusters,
        n_outliers=work.n_outliers,
        n_threads=work.threads,
        random_state=seed,
        **options,
    )


def _lloyd(work: Work, *, max_iter: int):
    with warnings.catch_warnings():
        # Real data may hold fewer distinct rows near the start than there are clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return trimmed_kmeans(
            work.rows(),
            work.start(),
            n_outliers=work.n_outliers,
            max_iter=max_iter,
            tol=0,
            n_threads=work.threads,
        )
