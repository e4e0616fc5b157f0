"""What the evaluation compares: a list of methods, each from rows to centres.

To add one, write a function (X, k, z, seed, n_threads) → centres and put a `Method` into
`METHODS`.  `run` measures its time and readings; `judge` gives every method its cost and its
outliers from the centres alone, in plain NumPy, so that none is measured by its own yardstick.

A reading of X is a sweep whose step passes the rows of a chunk to a kernel: measuring them
against centres, totalling clusters, and the check for NaN.  Passes over D² alone, single rows,
and the few rows that a new cut brings back do not count, nor do sweeps over the candidates of
a reduction.  A reading counts in full even where bounds spare most rows the arithmetic.
scikit-learn's readings are not known.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import (
    KMeansPlusPlus,
    MixtureSeeding,
    RobustKMeans,
    RobustKMeansPlusPlus,
    TKMeansPlusPlus,
    robust_kmeans_plusplus,
    trimmed_kmeans,
)
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.seeding.drawing import Seeding
from robust_kmeans.sweeps.base import Work

Rows = NDArray[np.float64]
Fit = Callable[[Rows, int, int, int, int], Rows]
"""(X, number of clusters, number of outliers, seed, threads) → centres."""


@dataclass(frozen=True)
class Method:
    """A way to find centres; those `for_clean_data` also run where no row is an outlier."""

    name: str
    meaning: str
    fit: Fit
    for_clean_data: bool = False


class Run(NamedTuple):
    """Centres, and what it took to find them; `readings` is None where it is not known."""

    centers: Rows
    seconds: float
    readings: int | None


class Judgement(NamedTuple):
    """The trimmed cost of centres, and the rows that they leave out."""

    cost: float
    flagged: NDArray[np.int64]


def run(method: Method, X: Rows, k: int, z: int, seed: int, n_threads: int) -> Run:
    with warnings.catch_warnings(), counted_readings(len(X)) as readings:
        # Some instances have fewer distinct rows than some methods ask for.
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        centers = method.fit(X, k, z, seed, n_threads)
        seconds = time.perf_counter() - start
    return Run(centers, seconds, len(readings) or None)


def judge(X: Rows, centers: Rows, n_outliers: int) -> Judgement:
    """The cost without the farthest rows; of equally far ones the first are left out."""
    d2 = np.full(len(X), np.inf)
    for center in centers:
        difference = X - center
        np.minimum(d2, np.einsum("ij,ij->i", difference, difference), out=d2)
    order = np.argsort(-d2, kind="stable")
    left_out = order[:n_outliers]
    return Judgement(float(d2[order[n_outliers:]].sum()), left_out[d2[left_out] > 0])


# --------------------------------------------------------------------------- the methods


def default(X: Rows, k: int, z: int, seed: int, n_threads: int) -> Rows:
    model = RobustKMeans(k, n_outliers=z, random_state=seed, n_threads=n_threads)
    return model.fit(X).cluster_centers_


def then_lloyd(seeding: Seeding) -> Fit:
    """A seeding, and trimmed Lloyd from it without any swaps."""

    def fit(X: Rows, k: int, z: int, seed: int, n_threads: int) -> Rows:
        model = RobustKMeans(
            k,
            n_outliers=z,
            init=seeding,
            local_search=0,
            random_state=seed,
            n_threads=n_threads,
        )
        return model.fit(X).cluster_centers_

    return fit


def algorithm_1_seeds(X: Rows, k: int, z: int, seed: int, n_threads: int) -> Rows:
    return robust_kmeans_plusplus(
        X, k, n_outliers=z, eta=0.5, n_local_trials=1, random_state=seed, n_threads=n_threads
    ).centers


def sklearn_kmeans(X: Rows, k: int, _z: int, seed: int, _n_threads: int, n_init: int = 1) -> Rows:
    # Its threads are limited from outside, by threadpoolctl.
    return KMeans(k, n_init=n_init, random_state=seed).fit(X).cluster_centers_


def from_planted(centers: Rows) -> Method:
    """Trimmed Lloyd from the means that the data were made with: a figure to come close to."""

    def fit(X: Rows, _k: int, z: int, _seed: int, n_threads: int) -> Rows:
        return trimmed_kmeans(X, centers, n_outliers=z, n_threads=n_threads).cluster_centers

    return Method(PLANTED, "trimmed Lloyd from the planted means", fit)


DEFAULT, SKLEARN, PLANTED = "default", "sklearn", "planted"

METHODS = [
    Method(DEFAULT, "`RobustKMeans` as it comes", default, for_clean_data=True),
    Method(
        "greedy",
        "greedy robust seeding (η = 0.5), trimmed Lloyd, no swaps",
        then_lloyd(RobustKMeansPlusPlus()),
        for_clean_data=True,
    ),
    Method(
        "oversampling",
        "robust seeding of 2k candidates, trimmed reduction to k, trimmed Lloyd",
        then_lloyd(RobustKMeansPlusPlus(oversampling=1.0)),
    ),
    Method(
        "balanced",
        "greedy robust seeding with the balanced threshold, trimmed Lloyd",
        then_lloyd(RobustKMeansPlusPlus(threshold="balanced")),
    ),
    Method(
        "inside",
        "greedy robust seeding, half of the candidates from inside the cut, trimmed Lloyd",
        then_lloyd(RobustKMeansPlusPlus(inside=0.5)),
    ),
    Method("algorithm1-seeds", "the paper's Algorithm 1 (η = 0.5), seeds only", algorithm_1_seeds),
    Method(
        "algorithm1",
        "the paper's Algorithm 1 (η = 0.5), trimmed Lloyd",
        then_lloyd(RobustKMeansPlusPlus(eta=0.5, n_local_trials=1)),
    ),
    Method("tkm++", "thresholded k-means++, trimmed Lloyd", then_lloyd(TKMeansPlusPlus())),
    Method("rkm++", "mixture seeding and reduction, trimmed Lloyd", then_lloyd(MixtureSeeding())),
    Method("kmeans++", "greedy k-means++, trimmed Lloyd", then_lloyd(KMeansPlusPlus())),
    Method(
        SKLEARN,
        "scikit-learn's `KMeans(n_init=1)`; outliers are the farthest rows",
        sklearn_kmeans,
        for_clean_data=True,
    ),
]

# ------------------------------------------------------------------------------ readings

# These take so many rows that on a disk they cost as much as a reading.
TAKING_MANY = ("coreset._sample",)


@contextmanager
def counted_readings(n_rows: int) -> Iterator[list[str]]:
    """A list that gets the name of every step that reads all of `n_rows` rows meanwhile."""
    readings: list[str] = []
    original = InMemory.map

    def counting_map(
        data: InMemory, step: Any, states: Any, shared: Any, *, work: Work = Work.READING
    ) -> Any:
        if data.n_rows == n_rows and reads_rows(step, work):
            readings.append(step.__name__)
        return original(data, step, states, shared, work=work)

    InMemory.map = counting_map  # type: ignore[method-assign]
    try:
        yield readings
    finally:
        InMemory.map = original  # type: ignore[method-assign]


def reads_rows(step: Callable[..., Any], work: Work) -> bool:
    """Whether a sweep looks at all rows, or nearly."""
    name = f"{step.__module__.rpartition('.')[2]}.{step.__name__}"
    return work is Work.READING or name in TAKING_MANY
