"""The command `compare`: the default, every seeding alone, and KMeans, on the user's own file."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as RichTable
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from robust_kmeans.cli import summary
from robust_kmeans.cli.request import Source, Voice
from robust_kmeans.cli.terminal import working
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.metrics import trimmed_inertia
from robust_kmeans.scaling import fit_scaling
from robust_kmeans.seeding.registry import SEEDINGS
from robust_kmeans.validation import check_count

DEFAULT = "RobustKMeans"
PLAIN = "scikit-learn KMeans"

Rows = NDArray[np.floating]
Method = Callable[[Rows, int], tuple[Rows, int]]
"""(rows, seed) → centres and iterations."""


def compare(
    source: Source,
    n_clusters: int,
    n_outliers: int | float,
    *,
    scale: str,
    seed: int,
    runs: int,
    threads: int | None,
    voice: Voice,
) -> None:
    """Run all methods from the same seeds and show what they cost on the inliers."""
    check_count("--runs", runs)
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = source.read(voice)
        rows = fit_scaling(table.rows, scale).apply(table.rows)
        methods = _methods(n_clusters, n_outliers, threads)
        # Compiling and starting threads belong to no method.
        next(iter(methods.values()))(rows, seed)
        results = []
        for name, method in methods.items():
            tell(f"Trying {name}")
            seeds = [(seed + i) % 2**32 for i in range(runs)]
            trials = [_try(method, rows, n_outliers, each, threads) for each in seeds]
            results.append(_sum_up(name, trials))
    results.sort(key=lambda result: result["mean_cost"])
    facts = {
        "file": str(source.path),
        "rows": len(rows),
        "columns": table.names,
        "n_clusters": n_clusters,
        "runs": runs,
        "methods": results,
    }
    voice.tell(facts, _print)


def _methods(n_clusters: int, n_outliers: int | float, threads: int | None) -> dict[str, Method]:
    def robust(rows: Rows, seed: int, **options: Any) -> tuple[Rows, int]:
        model = RobustKMeans(
            n_clusters, n_outliers=n_outliers, n_threads=threads, random_state=seed, **options
        ).fit(rows)
        return model.cluster_centers_, model.n_iter_

    def plain(rows: Rows, seed: int) -> tuple[Rows, int]:
        with threadpool_limits(threads):
            model = KMeans(n_clusters, n_init=1, random_state=seed).fit(rows)
        return model.cluster_centers_, model.n_iter_

    # Local search would make up for what a seeding misses, and hide the differences.
    seedings = {init: partial(robust, init=init, local_search=0) for init in SEEDINGS}
    return {DEFAULT: robust, **seedings, PLAIN: plain}


def _try(
    method: Method, rows: Rows, n_outliers: int | float, seed: int, threads: int | None
) -> dict[str, float]:
    started = time.perf_counter()
    centers, n_iter = method(rows, seed)
    seconds = time.perf_counter() - started
    cost = trimmed_inertia(rows, centers, n_outliers=n_outliers, n_threads=threads)
    return {"cost": cost, "iterations": n_iter, "seconds": seconds}


def _sum_up(name: str, trials: list[dict[str, float]]) -> dict[str, Any]:
    costs = [trial["cost"] for trial in trials]
    return {
        "method": name,
        "mean_cost": float(np.mean(costs)),
        "best_cost": min(costs),
        "mean_iterations": float(np.mean([trial["iterations"] for trial in trials])),
        "mean_seconds": float(np.mean([trial["seconds"] for trial in trials])),
    }


def _print(console: Any, facts: dict[str, Any]) -> None:
    methods = facts["methods"]
    best = min(result["best_cost"] for result in methods)
    table = RichTable(title="Cost on the inliers, and what it took")
    table.add_column("method", no_wrap=True)
    for name in ("mean cost", "÷ least", "best cost", "iterations", "seconds"):
        table.add_column(name, justify="right")
    for result in methods:
        above = f"{result['mean_cost'] / best:,.2f}" if best > 0 else "-"
        table.add_row(
            result["method"],
            summary.number(result["mean_cost"]),
            above,
            summary.number(result["best_cost"]),
            f"{result['mean_iterations']:.0f}",
            f"{result['mean_seconds']:.3f}",
        )
    console.print(table)
    console.print(
        f"{summary.counted(facts['rows'], 'row')}, "
        f"{summary.counted(len(facts['columns']), 'column')}, "
        f"{summary.counted(facts['n_clusters'], 'cluster')}, "
        f"{summary.counted(facts['runs'], 'run')} each; the cost of all methods leaves out the "
        f"same number of rows; seedings by name are without local search",
        soft_wrap=True,
    )
