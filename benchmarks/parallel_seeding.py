"""``robust-k-means||`` beside the seedings that draw one row after the other.

Of each seeding: ρ after trimmed Lloyd and ρ of its seeds, both relative to the mean of the first
line's ρ after trimmed Lloyd, as means over the methods' seeds with the standard error of the first;
readings of X; and the seconds of the seeding alone, relative to the first line's.  Every method
gets the same data; those that are generated have 5 % outliers.

    python benchmarks/parallel_seeding.py [--threads N] [--seeds N] [--quick]
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from statistics import mean, median
from typing import NamedTuple

import numpy as np
from methods import Rows, counted_readings
from workloads import QUICK, WORKLOADS, Workload, blobs

from robust_kmeans import RobustKMeansParallel, RobustKMeansPlusPlus, trimmed_kmeans
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.seeding.drawing import Seeding

COLUMNS = ("data", "n", "d", "k", "z", "seeding", "ρ", "±", "ρ of seeds", "readings", "seconds")
SEEDINGS: dict[str, Seeding] = {
    "robust-k-means++": RobustKMeansPlusPlus(),
    "one trial": RobustKMeansPlusPlus(n_local_trials=1),
    "robust-k-means||": RobustKMeansParallel(),
}
# Parameters were chosen on the first five and the generated ones, with smaller seeds.
NAMES = ("skin-noise-k50", "shuttle-k15", "kdd10-k5", "shuttle-noise-k20", "unbalanced")
NAMES += ("digits-noise", "heavy-tails", "mixture-d50", "small-clusters")
FIRST_SEED = 100
GENERATED = [
    Workload(
        f"clusters-box{box}", "generated", 100_000, 10, 30, 5000,
        partial(blobs, 95_000, 30, 5000, 10, 30.0, float(box)),
    )
    for box in (60, 3000)
]  # fmt: skip


class Run(NamedTuple):
    """Trimmed cost of the seeds, and after trimmed Lloyd; readings and seconds of the seeding."""

    seeds_cost: float
    cost: float
    readings: int
    seconds: float


def main() -> None:
    options = parse_options()
    named = {workload.name: workload for workload in WORKLOADS}
    chosen = [QUICK] if options.quick else [named[name] for name in NAMES] + GENERATED
    seeds = range(FIRST_SEED, FIRST_SEED + (2 if options.quick else options.seeds))
    print(line(COLUMNS))
    for workload in chosen:
        if workload.missing:
            print(f"{workload.name}: its file is missing; see benchmarks/real_data.py")
            continue
        k, z = workload.n_clusters, workload.n_outliers
        X = workload.make(FIRST_SEED).X
        # One after the other for each seed, so that all of them meet the same machine.
        runs: dict[str, list[Run]] = {name: [] for name in SEEDINGS}
        for seed in seeds:
            for name, seeding in SEEDINGS.items():
                runs[name].append(run(seeding, X, k, z, seed, options.threads))
        first = next(iter(runs.values()))
        unit, second = mean(each.cost for each in first), median(each.seconds for each in first)
        shape = (workload.name, *map(str, (*X.shape, k, z)))
        for name, found in runs.items():
            costs = [each.cost / unit for each in found]
            figures = (
                f"{mean(costs):.4f}",
                f"{np.std(costs, ddof=1) / len(costs) ** 0.5:.4f}",
                f"{mean(each.seeds_cost for each in found) / unit:.3f}",
                f"{mean(each.readings for each in found):.1f}",
                f"{median(each.seconds for each in found) / second:.2f}",
            )
            print(line((*shape, name, *figures)), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=int, help="all cores by default")
    parser.add_argument("--seeds", type=int, default=16, help="runs per method (16)")
    parser.add_argument("--quick", action="store_true", help="tiny: only to see it run")
    return parser.parse_args()


def run(seeding: Seeding, X: Rows, k: int, z: int, seed: int, n_threads: int | None) -> Run:
    with InMemory(X, n_threads=n_threads) as data, counted_readings(len(X)) as readings:
        began = time.perf_counter()
        centers = seeding.seed(data, k, z, np.random.RandomState(seed)).centers
        seconds = time.perf_counter() - began
    history = trimmed_kmeans(X, centers, n_outliers=z, n_threads=n_threads).inertia_history
    return Run(history[0], history[-1], len(readings), seconds)


def line(cells: tuple[str, ...]) -> str:
    widths = (18, 7, 3, 3, 5, 16, 7, 7, 10, 8, 7)
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


if __name__ == "__main__":
    main()
