"""The least trimmed cost known of each instance, kept in reference.csv beside this file.

It is the best of `N_RUNS` long runs: greedy robust seeding, many swaps, and trimmed Lloyd until
nothing moves; where the means are planted, trimmed Lloyd from them too.  The file is written
after every run, so that making it can be interrupted and continued.  A line belongs to the
instance that the workload made when it was written: delete the lines of a workload that you
change.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from methods import Method, Rows, from_planted, judge, run
from workloads import Instance, Workload

from robust_kmeans import RobustKMeans

REFERENCE = Path(__file__).with_name("reference.csv")
N_RUNS = 40
FIRST_SEED = 1000
# Several times the default, or a default fit would be measured by the best of its own kind.
STEPS_PER_CLUSTER, LEAST_STEPS = 50, 1000
COLUMNS = ("workload", "seed", "runs", "cost")

Key = tuple[str, int]
"""A workload's name, and the seed of its instance (0 where all seeds share one)."""


class Best(NamedTuple):
    """The least cost so far, and of how many long runs."""

    runs: int
    cost: float


def key_of(workload: Workload, seed: int) -> Key:
    return workload.name, seed if workload.fresh else 0


def has_reference(workload: Workload, seed: int, references: Mapping[Key, Best]) -> bool:
    """Whether all long runs on the instance have been done."""
    return references.get(key_of(workload, seed), Best(0, float("inf"))).runs >= N_RUNS


def load_references(path: Path = REFERENCE) -> dict[Key, Best]:
    if not path.is_file():
        return {}
    with open(path, newline="") as file:
        return {
            (line["workload"], int(line["seed"])): Best(int(line["runs"]), float(line["cost"]))
            for line in csv.DictReader(file)
        }


def long_runs(
    workload: Workload, seed: int, instance: Instance, n_threads: int, path: Path = REFERENCE
) -> Iterator[Best]:
    """Do the runs that the instance still lacks; the best so far, after each."""
    known, key = load_references(path), key_of(workload, seed)
    best = known.get(key, Best(0, float("inf")))
    k, z = workload.n_clusters, workload.n_outliers

    def cost(method: Method, run_seed: int) -> float:
        centers = run(method, instance.X, k, z, run_seed, n_threads).centers
        return judge(instance.X, centers, z).cost

    if best.runs == 0 and instance.centers is not None:
        best = Best(0, min(best.cost, cost(from_planted(instance.centers), 0)))
    while best.runs < N_RUNS:
        best = Best(best.runs + 1, min(best.cost, cost(LONG, FIRST_SEED + best.runs)))
        known[key] = best
        _save(known, path)
        yield best


def _long_run(X: Rows, k: int, z: int, seed: int, n_threads: int) -> Rows:
    model = RobustKMeans(
        k,
        n_outliers=z,
        local_search=max(STEPS_PER_CLUSTER * k, LEAST_STEPS),
        tol=0,
        random_state=seed,
        n_threads=n_threads,
    )
    return model.fit(X).cluster_centers_


LONG = Method(
    "long", "greedy robust seeding, many swaps, trimmed Lloyd until nothing moves", _long_run
)


def _save(known: dict[Key, Best], path: Path) -> None:
    # All or nothing: an interrupt must not cost the runs of hours.
    partial = path.with_suffix(".partial")
    with open(partial, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*key, best.runs, repr(best.cost)) for key, best in sorted(known.items()))
    os.replace(partial, path)
