"""What the rules for large data cost and save, on data that are small enough to know.

From 1 GiB of X on, "auto" takes few rounds of seeding (``robust-k-means||``) instead of one reading
per centre, and local search looks at a coreset.  Here both rules are switched on and off on the
same rows: ρ relative to the mean of the fits as they come for small data, with its standard error;
readings of X; and seconds, relative to the same.

    python benchmarks/large_data.py [--threads N] [--seeds N] [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import mean, median
from typing import NamedTuple

import numpy as np
from methods import Rows, counted_readings
from workloads import QUICK, WORKLOADS, Workload, blobs

from robust_kmeans import RobustKMeans
from robust_kmeans.execution import base

COLUMNS = ("data", "n", "d", "k", "z", "rules", "ρ", "±", "readings", "seconds")
NAMES = ("skin-noise-k50", "kdd10-k5")
GENERATED = [
    Workload(
        f"clusters-box{box}", "generated", 1_000_000, 10, 50, 50_000,
        partial(blobs, 950_000, 50, 50_000, 10, 30.0, float(box)),
    )
    for box in (60, 3000)
]  # fmt: skip
RULES = {"small": 2**62, "large": 0}


class Run(NamedTuple):
    """Trimmed cost, readings and seconds of one fit."""

    cost: float
    readings: int
    seconds: float


def main() -> None:
    options = parse_options()
    named = {workload.name: workload for workload in WORKLOADS}
    chosen = [QUICK] if options.quick else [named[name] for name in NAMES] + GENERATED
    seeds = range(2 if options.quick else options.seeds)
    print(line(COLUMNS))
    for workload in chosen:
        if workload.missing:
            print(f"{workload.name}: its file is missing; see benchmarks/real_data.py")
            continue
        X = workload.make(0).X
        # In turns for each seed, so that both meet the same machine.
        runs: dict[str, list[Run]] = {name: [] for name in RULES}
        for seed in seeds:
            for name in RULES:
                runs[name].append(run(name, X, workload, seed, options.threads))
        first = runs["small"]
        unit, second = mean(each.cost for each in first), median(each.seconds for each in first)
        shape = (workload.name, *X.shape, workload.n_clusters, workload.n_outliers)
        for name, found in runs.items():
            costs = [each.cost / unit for each in found]
            figures = (
                f"{mean(costs):.4f}",
                f"{np.std(costs, ddof=1) / len(costs) ** 0.5:.4f}",
                f"{mean(each.readings for each in found):.1f}",
                f"{median(each.seconds for each in found) / second:.2f}",
            )
            print(line((*shape, name, *figures)), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=int, help="all cores by default")
    parser.add_argument("--seeds", type=int, default=5, help="runs per rule (5)")
    parser.add_argument("--quick", action="store_true", help="tiny: only to see it run")
    return parser.parse_args()


def run(rules: str, X: Rows, workload: Workload, seed: int, n_threads: int | None) -> Run:
    model = RobustKMeans(
        workload.n_clusters,
        n_outliers=workload.n_outliers,
        n_threads=n_threads,
        random_state=seed,
    )
    with large_from(RULES[rules]), counted_readings(len(X)) as readings:
        began = time.perf_counter()
        model.fit(X)
        return Run(model.inertia_, len(readings), time.perf_counter() - began)


@contextmanager
def large_from(n_bytes: int) -> Iterator[None]:
    """Have X count as large from so many bytes on."""
    usual = base.LARGE
    base.LARGE = n_bytes
    try:
        yield
    finally:
        base.LARGE = usual


def line(cells: tuple[object, ...]) -> str:
    widths = (18, 8, 3, 3, 6, 6, 7, 7, 8, 7)
    return "  ".join(str(cell).rjust(width) for cell, width in zip(cells, widths, strict=True))


if __name__ == "__main__":
    main()
