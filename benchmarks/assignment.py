"""The assignment kernel beside the matrix product that others build theirs on.

`robust_kmeans.kernels.assign.assign` finds the nearest centre of each row, its exact D², and a
bound for all other centres.  This script times it on one thread beside `rows @ centers.T` alone,
a part of what scikit-learn and faiss do: on the same rows, in turns, for Gaussian rows and
centres that are random rows; median of 5.

ratio = product / assign: above 1, finding the labels takes less time than the product.

    python benchmarks/assignment.py [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from robust_kmeans.kernels.assign import assign
from robust_kmeans.kernels.packing import pack
from robust_kmeans.kernels.team import ALONE, EVERY_PART
from robust_kmeans.sweeps.base import all_positions

DTYPES = ("float32", "float64")
N_FEATURES = (3, 9, 34, 64, 128, 256, 784)
N_CENTERS = (10, 50, 200, 1000)
# As many values as a chunk of a few megabytes has, whatever the width.
N_VALUES = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    quick = parser.parse_args().quick
    n_values, repeats = (2**12, 1) if quick else (N_VALUES, 5)
    print(f"{'dtype':7}  {'d':>3}  {'k':>4}  {'rows':>6}  assign (ms)  product (ms)  ratio")
    with threadpool_limits(1, user_api="blas"):
        for dtype in DTYPES:
            for k in N_CENTERS:
                for d in N_FEATURES:
                    rows = gaussian_rows(max(k, n_values // d), d, dtype)
                    ours, product = times(rows, rows[:k].copy(), repeats)
                    print(
                        f"{dtype:7}  {d:3}  {k:4}  {len(rows):6}  {ours * 1e3:11.2f}  "
                        f"{product * 1e3:12.2f}  {product / ours:5.2f}",
                        flush=True,
                    )


def times(rows: np.ndarray, centers: np.ndarray, repeats: int) -> list[float]:
    """Median seconds of either, after a run that does not count."""
    labels, others = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)
    d2, products = np.empty(len(rows), rows.dtype), np.empty((len(rows), len(centers)), rows.dtype)
    everywhere = all_positions(len(rows))
    contenders: list[Callable[[], object]] = [
        lambda: assign(
            EVERY_PART, 1, rows, everywhere, centers, pack(centers), labels, d2, others, ALONE
        ),
        lambda: np.matmul(rows, centers.T, out=products),
    ]
    seconds: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for run, measured in zip(contenders, seconds, strict=True):
            start = time.perf_counter()
            run()
            measured.append(time.perf_counter() - start)
    return [median(measured[1:]) for measured in seconds]


def gaussian_rows(n: int, d: int, dtype: str) -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((n, d), np.float32).astype(dtype)
    # As chunks are: to Numba a read-only array is another type, compiled separately.
    rows.flags.writeable = False
    return rows


if __name__ == "__main__":
    main()
