"""What the tables compare: the paper's five seedings, and our default.

A seeding is run in two protocols: its seeds as they are, as the paper's text says, and after
trimmed Lloyd from them, which fits more of the paper's figures.  Our default is a whole fit.
Everything runs on one thread, as the plain versions do; no result depends on that.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.clustering import trimmed_kmeans
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.inputs import opened
from robust_kmeans.metrics import outlier_precision_recall
from robust_kmeans.paper import plain
from robust_kmeans.paper.trials import Protocol
from robust_kmeans.seeding.drawing import Seeding, seed_rows
from robust_kmeans.seeding.kmeans_plusplus import KMeansPlusPlus
from robust_kmeans.seeding.rkmeans_plusplus import MixtureSeeding
from robust_kmeans.seeding.robust_kmeans_plusplus import RobustKMeansPlusPlus
from robust_kmeans.seeding.tkmeans_plusplus import TKMeansPlusPlus
from robust_kmeans.seeding.uniform import RandomSeeding
from robust_kmeans.sweeps.rows import labels_with_outliers
from robust_kmeans.trimming import place

Rows = NDArray[np.floating]
PlainSeeding = Callable[[Rows, int, int, float, np.random.RandomState], list[int]]

DEFAULT = "RobustKMeans"


@dataclass(frozen=True)
class SeedingMethod:
    """A seeding for the error parameter β, and the same in plain NumPy (None: not compared)."""

    seeding: Callable[[float], Seeding]
    plainly: PlainSeeding | None


SEEDINGS = {
    "random": SeedingMethod(lambda _: RandomSeeding(), None),
    "k-means++": SeedingMethod(lambda _: KMeansPlusPlus(n_local_trials=1), plain.kmeans_plusplus),
    "tkm++": SeedingMethod(lambda beta: TKMeansPlusPlus(eta=beta), plain.tkmeans_plusplus),
    "rkm++": SeedingMethod(lambda _: MixtureSeeding(alpha=0.5, delta=0.1), plain.rkmeans_plusplus),
    "algorithm-1": SeedingMethod(
        lambda beta: RobustKMeansPlusPlus(eta=beta, n_local_trials=1), plain.algorithm_1
    ),
}


class Outcome(NamedTuple):
    """What one run of a method gives in one protocol; see `trials.Trial`."""

    protocol: Protocol
    cost: float
    precision: float
    recall: float
    seconds: float
    plain_seconds: float | None = None


class Problem(NamedTuple):
    """Rows, which of them are outliers, and what is asked for."""

    X: Rows
    outliers: NDArray[np.bool_]
    k: int
    z: int
    beta: float


def run_method(
    name: str, problem: Problem, random_state: int, *, with_plain: bool
) -> list[Outcome]:
    """Run a method once; `with_plain` also in plain NumPy, to compare the times."""
    with warnings.catch_warnings():
        # Real data have equal rows, and a baseline may draw the same one twice.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if name == DEFAULT:
            return [_fit(problem, random_state)]
        return _seed(SEEDINGS[name], problem, random_state, with_plain=with_plain)


def seeds_of(name: str, problem: Problem, random_state: int) -> Rows:
    """The seeds that a method chooses; of our default, the centres that it ends with."""
    if name == DEFAULT:
        return _default(problem, random_state).cluster_centers_
    return _seeds(SEEDINGS[name], problem, random_state)


def _fit(problem: Problem, random_state: int) -> Outcome:
    started = time.perf_counter()
    model = _default(problem, random_state)
    seconds = time.perf_counter() - started
    found = outlier_precision_recall(np.flatnonzero(problem.outliers), model.outlier_indices_)
    return Outcome("fit", model.inertia_, found.precision, found.recall, seconds)


def _seed(
    method: SeedingMethod, problem: Problem, random_state: int, *, with_plain: bool
) -> list[Outcome]:
    started = time.perf_counter()
    seeds = _seeds(method, problem, random_state)
    seconds = time.perf_counter() - started
    plain_seconds = None
    if with_plain and method.plainly is not None:
        started = time.perf_counter()
        random = np.random.RandomState(random_state)
        method.plainly(problem.X, problem.k, problem.z, problem.beta, random)
        plain_seconds = time.perf_counter() - started
    moved = trimmed_kmeans(problem.X, seeds, n_outliers=problem.z, n_threads=1).cluster_centers
    return [
        Outcome("seeds", *judge(problem, seeds), seconds, plain_seconds),
        Outcome("lloyd", *judge(problem, moved), seconds, plain_seconds),
    ]


def _default(problem: Problem, random_state: int) -> RobustKMeans:
    model = RobustKMeans(problem.k, n_outliers=problem.z, random_state=random_state, n_threads=1)
    return model.fit(problem.X)


def _seeds(method: SeedingMethod, problem: Problem, random_state: int) -> Rows:
    return seed_rows(
        method.seeding(problem.beta),
        problem.X,
        problem.k,
        n_outliers=problem.z,
        random_state=random_state,
        n_threads=1,
    ).centers


def judge(problem: Problem, centers: Rows) -> tuple[float, float, float]:
    """Trimmed cost, and precision and recall of the rows that it leaves out."""
    with opened(problem.X, n_threads=1, centers=centers) as data:
        placed = place(data, centers, problem.z)
        labels = data.collect(labels_with_outliers, placed.states, placed.cut)
    found = outlier_precision_recall(problem.outliers, labels < 0)
    return placed.inertia, found.precision, found.recall
