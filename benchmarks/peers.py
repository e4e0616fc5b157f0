"""The jobs of `against_sklearn.py`: what its two peers do, each in a process of its own.

A job is told where the rows are, how many threads it may use (scikit-learn learns that from
the environment) and a seed; it returns seconds.  The packages are imported by the jobs that
need them, so that a fresh process starts with neither.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

N_CLUSTERS = 20
OUTLIER_SHARE = 0.01
# While centres still travel far bounds rule out little; later is what most of a run is like.
WINDOWS = ((2, 12), (10, 30))

Job = Callable[[Path, int, int], float]
"""(file of rows, threads, seed) → seconds."""


def our_seeding(path: Path, threads: int, seed: int, trials: int | None = 1) -> float:
    from robust_kmeans import robust_kmeans_plusplus

    rows = load(path)
    return timed(
        lambda: robust_kmeans_plusplus(
            rows,
            N_CLUSTERS,
            n_outliers=n_outliers(len(rows)),
            n_local_trials=trials,
            n_threads=threads,
            random_state=seed,
        )
    )


def their_seeding(path: Path, _threads: int, seed: int, trials: int | None = 1) -> float:
    from sklearn.cluster import kmeans_plusplus

    rows = load(path)
    return timed(
        lambda: kmeans_plusplus(rows, N_CLUSTERS, n_local_trials=trials, random_state=seed)
    )


def our_iteration(path: Path, threads: int, seed: int, window: tuple[int, int]) -> float:
    from robust_kmeans import trimmed_kmeans

    rows = load(path)
    z = n_outliers(len(rows))

    def iterate(centers: np.ndarray, max_iter: int) -> int:
        return trimmed_kmeans(
            rows, centers, n_outliers=z, tol=0, max_iter=max_iter, n_threads=threads
        ).n_iter

    return per_iteration(iterate, random_centers(rows, seed), window)


def their_iteration(path: Path, _threads: int, seed: int, window: tuple[int, int]) -> float:
    from sklearn.cluster import KMeans

    rows = load(path)

    def iterate(centers: np.ndarray, max_iter: int) -> int:
        options = {"n_init": 1, "tol": 0, "max_iter": max_iter, "algorithm": "lloyd"}
        return KMeans(N_CLUSTERS, init=centers, **options).fit(rows).n_iter_

    return per_iteration(iterate, random_centers(rows, seed), window)


def our_first_call(path: Path, threads: int, writable: bool) -> float:
    import robust_kmeans  # noqa: F401 - the import has a line of its own in the table

    load(path).flags.writeable = writable
    return our_seeding(path, threads, seed=0)


TASKS: dict[str, tuple[Job, Job]] = {
    "seeding": (our_seeding, their_seeding),
    "greedy seeding": (
        functools.partial(our_seeding, trials=None),
        functools.partial(their_seeding, trials=None),
    ),
} | {
    f"Lloyd iterations {few}-{many}": (
        functools.partial(our_iteration, window=(few, many)),
        functools.partial(their_iteration, window=(few, many)),
    )
    for few, many in WINDOWS
}


def per_iteration(
    iterate: Callable[[np.ndarray, int], int], centers: np.ndarray, window: tuple[int, int]
) -> float:
    """Seconds per iteration within the window: set-up and last assignment cancel out."""
    few, many = window
    seconds = {}
    for max_iter in window:
        start = time.perf_counter()
        n_iter = iterate(centers, max_iter)
        seconds[max_iter] = time.perf_counter() - start
        if n_iter != max_iter:
            raise RuntimeError(f"{n_iter} iterations instead of {max_iter}: nothing to compare.")
    return (seconds[many] - seconds[few]) / (many - few)


@functools.lru_cache(maxsize=1)
def load(path: Path) -> np.ndarray:
    return np.load(path)


def random_centers(rows: np.ndarray, seed: int) -> np.ndarray:
    return rows[np.random.default_rng(seed).choice(len(rows), N_CLUSTERS, replace=False)]


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def n_outliers(n: int) -> int:
    return int(OUTLIER_SHARE * n)
