"""What a step of local search costs: its time as a multiple of one plain reading of the rows.

A plain reading measures all rows against one centre (the sweep of a seeding's step).  The search
starts from the default seeding and five Lloyd iterations, as in a fit; its time holds everything,
draws, prices, checks of swaps and the assignments after successes, and is divided by the
candidates tried.  Ratios are medians over seeds, both parts timed in turn.

    python benchmarks/swap_steps.py [--threads N] [--seeds N] [--quick]
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import NamedTuple

import numpy as np

from robust_kmeans import robust_kmeans_plusplus, trimmed_kmeans
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.local_search import default_steps, search_swaps
from robust_kmeans.sweeps.seeding import READ_AND_TAKE, START, ReadAndTake, Reading, Taking
from robust_kmeans.trimming import place

COLUMNS = ("data", "dtype", "n", "d", "k", "tried", "swaps", "reading (ms)", "step (ms)", "ratio")
SHAPES = ((3, 20), (3, 50), (9, 5), (9, 20), (9, 100), (34, 5), (34, 20), (100, 20))


class Shape(NamedTuple):
    """Clusters are separated where their width is 1, and one cloud where it is 30."""

    name: str
    width: float
    dtype: str
    n_features: int
    n_clusters: int


def main() -> None:
    options = parse_options()
    n_rows = 5_000 if options.quick else 200_000
    print(line(COLUMNS))
    for n_features, n_clusters in SHAPES:
        for name, width in (("clusters", 1.0), ("cloud", 30.0)):
            for dtype in ("float32", "float64"):
                shape = Shape(name, width, dtype, n_features, n_clusters)
                seeds = range(1 if options.quick else options.seeds)
                runs = [step_and_reading(shape, n_rows, seed, options.threads) for seed in seeds]
                tried, swaps, reading, step = (median(values) for values in zip(*runs, strict=True))
                ratio = median(step / reading for _, _, reading, step in runs)
                cells = (name, dtype, n_rows, n_features, n_clusters, round(tried), round(swaps))
                figures = (f"{reading * 1e3:.3f}", f"{step * 1e3:.3f}", f"{ratio:.2f}")
                print(line((*map(str, cells), *figures)), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=int, help="all cores by default")
    parser.add_argument("--seeds", type=int, default=5, help="instances per shape (5)")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    return parser.parse_args()


def step_and_reading(
    shape: Shape, n_rows: int, seed: int, n_threads: int | None
) -> tuple[int, int, float, float]:
    """Candidates tried, swaps made, seconds of a plain reading and per candidate."""
    z, k = n_rows // 50, shape.n_clusters
    X, _, _ = make_contaminated_blobs(
        n_rows - z,
        n_clusters=k,
        n_outliers=z,
        n_features=shape.n_features,
        outlier_box=300,
        cluster_std=shape.width,
        random_state=seed,
        dtype=shape.dtype,
    )
    seeds = robust_kmeans_plusplus(X, k, n_outliers=z, random_state=seed, n_threads=n_threads)
    centers = trimmed_kmeans(X, seeds.centers, n_outliers=z, max_iter=5).cluster_centers
    tried: list[int] = []
    with InMemory(X, n_threads=n_threads) as data:
        states, _ = data.run(START, None, False)
        start = place(data, centers, z)
        readings = []
        for _ in range(7):
            began = time.perf_counter()
            data.run(READ_AND_TAKE, states, ReadAndTake(Reading(X[:1]), Taking(0, 0)))
            readings.append(time.perf_counter() - began)
        began = time.perf_counter()
        found = search_swaps(
            data,
            start,
            z,
            n_steps=default_steps(k),
            random=np.random.RandomState(seed),
            report=lambda step, _cost: tried.append(step),
        )
        seconds = time.perf_counter() - began
    return tried[-1], len(found.history) - 1, median(readings), seconds / tried[-1]


def line(cells: tuple[str, ...]) -> str:
    return "  ".join(
        cell.rjust(max(8, len(name))) for cell, name in zip(cells, COLUMNS, strict=True)
    )


if __name__ == "__main__":
    main()
