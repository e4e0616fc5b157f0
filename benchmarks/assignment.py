"""Which assignment kernel is faster for which width of rows: tiles or a shortlist.

`robust_kmeans.kernels.distances.assign` measures rows tile by tile, and wide ones with many
centres through a matrix product that leaves a shortlist of centres; `SHORTLIST_FEATURES` and
`SHORTLIST_CENTERS` say where it changes over.  This script times both on the same rows, in
turns, on one thread, for a first assignment of Gaussian rows to centres that are random rows:
median of 5.

ratio = tiles / shortlist: above 1 the shortlist is faster.

    python benchmarks/assignment.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time
from statistics import median
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from robust_kmeans.kernels import distances
from robust_kmeans.sweeps.base import all_positions

DTYPES = ("float32", "float64")
N_FEATURES = (4, 9, 34, 64, 128, 256, 784)
N_CENTERS = (10, 50, 200, 1000)
# As many values as a chunk of a few megabytes has, whatever the width.
N_VALUES = 2**20
# `assign` uses the shortlist from this many features on: never, and always.
CHANGE_OVER = {"tiles": math.inf, "shortlist": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    quick = parser.parse_args().quick
    n_values, repeats = (2**12, 1) if quick else (N_VALUES, 5)
    print(f"{'dtype':7}  {'d':>3}  {'k':>3}  {'rows':>6}  tiles (ms)  shortlist (ms)  ratio")
    with threadpool_limits(1, user_api="blas"):
        for dtype in DTYPES:
            for k in N_CENTERS:
                ratios = {}
                for d in N_FEATURES:
                    rows = gaussian_rows(max(k, n_values // d), d, dtype)
                    tiles, shortlist = times(rows, rows[:k].copy(), repeats)
                    ratios[d] = tiles / shortlist
                    print(
                        f"{dtype:7}  {d:3}  {k:3}  {len(rows):6}  {tiles * 1e3:10.2f}  "
                        f"{shortlist * 1e3:14.2f}  {ratios[d]:5.2f}",
                        flush=True,
                    )
                print(f"{dtype}, k={k}: {crossover(ratios)}", flush=True)


def times(rows: np.ndarray, centers: np.ndarray, repeats: int) -> list[float]:
    """Median seconds of each kernel, after a run that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in CHANGE_OVER}
    for _ in range(repeats + 1):
        for name, features in CHANGE_OVER.items():
            labels = np.empty(len(rows), np.int32)
            others = np.empty(len(rows), rows.dtype)
            with mock.patch.multiple(distances, SHORTLIST_FEATURES=features, SHORTLIST_CENTERS=0):
                start = time.perf_counter()
                distances.assign(rows, all_positions(len(rows)), centers, labels, others)
                seconds[name].append(time.perf_counter() - start)
    return [median(runs[1:]) for runs in seconds.values()]


def crossover(ratios: dict[int, float]) -> str:
    """The width from which on the shortlist always won."""
    slower = [d for d, ratio in ratios.items() if ratio <= 1]
    wider = [d for d in ratios if d > max(slower, default=0)]
    return f"shortlist from {wider[0]} features on" if wider else "tiles for all widths"


def gaussian_rows(n: int, d: int, dtype: str) -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((n, d), np.float32).astype(dtype)
    # As chunks are: to Numba a read-only array is another type, compiled separately.
    rows.flags.writeable = False
    return rows


if __name__ == "__main__":
    main()
