"""What a fit on a coreset is worth: its trimmed cost on all rows beside that of a full fit.

`RobustKMeans` as it comes is fitted to all rows, and to a coreset of 1 % of them with the same k
and z.  `StreamingRobustKMeans` gets the rows in the order of the data, in a hundred batches, and
reduces blocks of them to the same 1 %.  All are judged on all rows.  Costs are ratios to the mean
cost of the full fits, times are means, and both are over the same seeds.  Readings of X are those
for the coreset, with the check of the values and with the one that takes the points.

    python benchmarks/coresets.py [--only NAME …] [--share S] [--seeds N] [--threads N] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import mean
from typing import NamedTuple

import numpy as np
from methods import counted_readings
from workloads import QUICK, WORKLOADS, Workload

from robust_kmeans import RobustKMeans, trimmed_inertia
from robust_kmeans.coreset import robust_coreset
from robust_kmeans.streaming import StreamingRobustKMeans

NAMES = (
    "shuttle-k5", "shuttle-k10", "shuttle-k15", "shuttle-noise-k10", "shuttle-noise-k20",
    "skin-noise-k20", "skin-noise-k40", "skin-noise-k50", "kdd10-k3", "kdd10-k5",
)  # fmt: skip
N_BATCHES = 100
# Parameters of coresets were chosen with seeds below this, on the same data.
FIRST_SEED = 100
COLUMNS = (
    "data", "n", "d", "k", "z", "points", "readings", "cost", "worst", "coreset (s)",
    "its fit (s)", "streamed", "stream (s)", "full fit (s)",
)  # fmt: skip


class Run(NamedTuple):
    """One coreset and the fit on it, one stream, and one full fit."""

    n_points: int
    n_readings: int
    cost: float
    seconds: float
    fit_seconds: float
    streamed_cost: float
    stream_seconds: float
    full_cost: float
    full_seconds: float


def main() -> None:
    options = parse_options()
    share, seeds = (0.3, 1) if options.quick else (options.share, options.seeds)
    known = {workload.name: workload for workload in WORKLOADS}
    chosen = [QUICK] if options.quick else [known[name] for name in options.only]
    print(line(COLUMNS))
    for workload in chosen:
        if workload.missing:
            print(f"{workload.name}: {workload.file} is not there", file=sys.stderr)
            continue
        runs = [run(workload, share, FIRST_SEED + i, options.threads) for i in range(seeds)]
        full_cost = mean(each.full_cost for each in runs)
        print(
            line(
                (
                    workload.name,
                    workload.n_rows,
                    workload.n_features,
                    workload.n_clusters,
                    workload.n_outliers,
                    max(each.n_points for each in runs),
                    max(each.n_readings for each in runs),
                    f"{mean(each.cost for each in runs) / full_cost:.4f}",
                    f"{max(each.cost for each in runs) / full_cost:.4f}",
                    f"{mean(each.seconds for each in runs):.3f}",
                    f"{mean(each.fit_seconds for each in runs):.3f}",
                    f"{mean(each.streamed_cost for each in runs) / full_cost:.4f}",
                    f"{mean(each.stream_seconds for each in runs):.3f}",
                    f"{mean(each.full_seconds for each in runs):.3f}",
                )
            ),
            flush=True,
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=NAMES, metavar="NAME", help="workloads")
    parser.add_argument("--share", type=float, default=0.01, help="points per row (0.01)")
    parser.add_argument("--seeds", type=int, default=10, help="runs per workload (10)")
    parser.add_argument("--threads", type=int, help="all cores by default")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    return parser.parse_args()


def run(workload: Workload, share: float, seed: int, n_threads: int | None) -> Run:
    X, k, z = workload.make(seed).X, workload.n_clusters, workload.n_outliers
    model = RobustKMeans(k, n_outliers=z, random_state=seed, n_threads=n_threads)
    with counted_readings(len(X)) as readings:
        began = time.perf_counter()
        few = robust_coreset(X, int(share * len(X)), k, z, random_state=seed, n_threads=n_threads)
        made = time.perf_counter()
    centers = model.fit(few.points, sample_weight=few.weights).cluster_centers_
    fitted = time.perf_counter()
    stream = StreamingRobustKMeans(
        k,
        n_outliers=z / len(X),
        coreset_size=int(share * len(X)),
        random_state=seed,
        n_threads=n_threads,
    )
    for batch in np.array_split(X, N_BATCHES):
        stream.partial_fit(batch)
    streamed_centers = stream.cluster_centers_
    streamed = time.perf_counter()
    model.fit(X)
    full = time.perf_counter()
    return Run(
        len(few.points),
        len(readings),
        trimmed_inertia(X, centers, n_outliers=z, n_threads=n_threads),
        made - began,
        fitted - made,
        trimmed_inertia(X, streamed_centers, n_outliers=z, n_threads=n_threads),
        streamed - fitted,
        model.inertia_,
        full - streamed,
    )


def line(cells: tuple[object, ...]) -> str:
    widths = [max(8, len(name)) for name in COLUMNS]
    widths[0] = 17
    return "  ".join(str(cell).rjust(width) for cell, width in zip(cells, widths, strict=True))


if __name__ == "__main__":
    main()
