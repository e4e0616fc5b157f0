"""Cluster rows that lie on the workers of a Dask cluster, and lose a worker on the way.

    python examples/on_dask.py

Starts two workers on this machine, makes dirty data on them, and fits twice.  In the middle of
the second fit one worker is killed: what it had is computed again, and the result is the same.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import time
from collections.abc import Callable

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from robust_kmeans import Progress, RobustKMeans, trimmed_inertia

N_CLUSTERS, N_FEATURES, N_BLOCKS, N_WORKERS = 20, 10, 16, 2
FEW_ROWS = 20_000
# One row of so many is an outlier.
ONE_IN = 100
# The reading of all rows before which a worker is killed, of about thirty.
UNLUCKY_READING = 12


def main() -> None:
    """Start a cluster, fit, kill a worker in another fit, compare."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="with a hundredth of the rows")
    n_rows = FEW_ROWS if parser.parse_args().quick else 2_000_000
    # That a worker has gone is no news here.
    dask.config.set({"logging.distributed": "critical"})
    with (
        LocalCluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            # Any free port: the usual one may be another cluster's.
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        centers = np.random.default_rng(0).uniform(0, 100, (N_CLUSTERS, N_FEATURES))
        print("compiling what is not compiled on this machine yet …", flush=True)
        fit(dirty_rows(FEW_ROWS, centers), Watch())
        X = dirty_rows(n_rows, centers).persist()
        print(f"{n_rows:,} rows in {N_BLOCKS} blocks on {N_WORKERS} workers", flush=True)

        watch = Watch()
        model, seconds = fit(X, watch)
        planted = da.arange(n_rows, chunks=X.chunks[:1]) % ONE_IN == 0
        flagged = int(((model.labels_ == -1) & planted).sum().compute())
        cost = trimmed_inertia(X, centers.astype(X.dtype), n_outliers=n_rows // ONE_IN)

        pids = list(client.run(os.getpid).values())
        unlucky = Watch(lambda: os.kill(pids[0], signal.SIGKILL))
        again, seconds_again = fit(X, unlucky)
        lost = set(pids) - set(client.run(os.getpid).values())

        labels, labels_again = dask.compute(model.labels_, again.labels_)
        same = np.array_equal(model.cluster_centers_, again.cluster_centers_)
        same = same and np.array_equal(labels, labels_again) and model.inertia_ == again.inertia_
    row = "{:<28}{:>14}{:>20}".format
    print(row("", "all is well", "a worker is killed"))
    print(row("seconds", f"{seconds:.1f}", f"{seconds_again:.1f}"))
    print(row("readings of all rows", watch.n_readings, unlucky.n_readings))
    print(row("workers lost", 0, len(lost)))
    print(row("cost on inliers", f"{model.inertia_:.6g}", f"{again.inertia_:.6g}"))
    print(row("cost of the planted centres", f"{cost:.6g}", ""))
    print(row("planted outliers flagged", f"{flagged:,}", f"of {n_rows // ONE_IN:,}"))
    print(f"Centres, labels and cost are {'identical' if same else 'DIFFERENT'}.")


def dirty_rows(n_rows: int, centers: np.ndarray) -> da.Array:
    """Gaussian clusters with uniform outliers among them, made where they will lie."""
    size = n_rows // N_BLOCKS
    blocks = [
        da.from_delayed(dask.delayed(make_block)(size, i, centers), (size, N_FEATURES), np.float32)
        for i in range(N_BLOCKS)
    ]
    return da.concatenate(blocks)


def make_block(size: int, number: int, centers: np.ndarray) -> np.ndarray:
    random = np.random.default_rng([1, number])
    rows = centers[random.integers(0, len(centers), size)]
    rows += random.standard_normal(rows.shape)
    outliers = (np.arange(size) + number * size) % ONE_IN == 0
    rows[outliers] = random.uniform(-100, 200, (outliers.sum(), centers.shape[1]))
    return rows.astype(np.float32)


def fit(X: da.Array, watch: Watch) -> tuple[RobustKMeans, float]:
    started = time.perf_counter()
    model = RobustKMeans(
        N_CLUSTERS,
        n_outliers=1 / ONE_IN,
        init="robust-k-means||",
        callback=watch,
        random_state=0,
    ).fit(X)
    return model, time.perf_counter() - started


class Watch:
    """Counts how often all rows were read, and does something after some readings."""

    def __init__(self, strike: Callable[[], object] = lambda: None) -> None:
        self.n_readings = 0
        self.strike = strike

    def __call__(self, progress: Progress) -> None:
        """Hear from the fit."""
        if progress.stage == "reading" and progress.step == progress.n_steps:
            self.n_readings += 1
            if self.n_readings == UNLUCKY_READING:
                self.strike()


if __name__ == "__main__":
    main()
