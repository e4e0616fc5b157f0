"""A fit on a Dask cluster beside the same fit in memory, and what a killed worker costs.

The cluster is two processes of one thread each on this machine, the rows are persisted there in
the blocks that an array in memory would have as chunks; in memory two threads work on them.  Both
runs must give the same centres to the bit.  Seeding is `robust-k-means||`, then trimmed Lloyd to
rest.  Runs take turns, and ratios are of medians.

What else is timed: a sweep that does nothing, as a message to the workers and as tasks; and fits
in which a worker is killed halfway.  How much longer they take is compared with what is lost: the
time in which that worker, beside the other one, had made its blocks and done its part of the sweeps
so far, both timed in the same cluster before.  And with the one sweep in which what is lost is made
again, which is less work than all sweeps so far: states are made from the last centres.

    python benchmarks/on_dask.py [--rows N] [--repeats N] [--quick]
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import dask
import dask.array
import numpy as np
from distributed import Client, LocalCluster, wait
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, plan_chunks
from robust_kmeans.execution.dask_cluster import OnCluster
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import LloydRun
from robust_kmeans.pipeline import Plan, solve
from robust_kmeans.seeding.robust_kmeans_parallel import RobustKMeansParallel
from robust_kmeans.sweeps.base import Work

N_FEATURES, N_CLUSTERS, N_WORKERS = 10, 20, 2
# Clusters that overlap, so that Lloyd has something to do.
WIDTH = 15.0


def main() -> None:
    options = parse_options()
    bounds = plan_chunks(options.rows, N_FEATURES)
    compare(bounds, options.repeats)
    kill(bounds, options.repeats)


@contextmanager
def workers(n_workers: int) -> Iterator[Client]:
    with (
        LocalCluster(
            processes=True, n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def persisted(client: Client, lazy: Any) -> Any:
    blocks = client.persist(lazy)
    wait(blocks)
    return blocks


def compare(bounds: NDArray[np.int64], repeats: int) -> None:
    """A fit on the cluster beside one in memory."""
    X = np.concatenate([make_block(size, i) for i, size in enumerate(np.diff(bounds))])

    def in_memory() -> LloydRun:
        with InMemory(X, None, N_WORKERS, bounds) as data:
            return fit(data)

    def on_cluster() -> tuple[LloydRun, Watched]:
        with Watched(blocks, client) as data:
            return fit(data), data

    with workers(N_WORKERS) as client:
        blocks = persisted(client, lazy_rows(bounds))
        in_memory(), on_cluster()  # compile, and load on the workers
        memory, cluster = [], []
        for _ in range(repeats):
            seconds, here = timed(in_memory)
            memory.append(seconds)
            seconds, (there, data) = timed(on_cluster)
            cluster.append(seconds)
            np.testing.assert_array_equal(here.centers, there.centers)
        told = message_seconds(client, blocks), task_seconds(client)
    say("rows, features, clusters, outliers", *X.shape, N_CLUSTERS, n_outliers(len(X)))
    say("sweeps, Lloyd iterations", len(data.seconds), here.n_iter)
    say("in memory (s)", median(memory))
    say("on the cluster (s)", median(cluster))
    say("cluster / memory", median(cluster) / median(memory))
    say("cost / cost in memory", there.inertia / here.inertia)
    say("an empty sweep: message, tasks (ms)", *(1e3 * seconds for seconds in told))


def kill(bounds: NDArray[np.int64], repeats: int) -> None:
    """What a worker costs that is killed halfway."""
    runs = []
    for _ in range(repeats):
        # A cluster of its own, because afterwards one worker has nearly all blocks.
        with workers(N_WORKERS) as client:
            persisted(client, lazy_rows(bounds))  # load what makes blocks
            made, blocks = timed(lambda client=client: persisted(client, lazy_rows(bounds)))
            usual, centers = sweep_seconds(client, blocks)
            half = len(usual) // 2
            with Watched(blocks, client, kill_at=half) as data:
                np.testing.assert_array_equal(fit(data).centers, centers)
        longer, again = sum(data.seconds) - usual.sum(), data.seconds[half] - usual[half]
        runs.append((longer, made, usual[:half].sum(), again))
    for run in runs:
        say("killed: longer; blocks, sweeps; again", *run)
    say("longer / blocks and sweeps", np.median([run[0] / (run[1] + run[2]) for run in runs]))
    say("longer / again", np.median([run[0] / run[3] for run in runs]))


def sweep_seconds(client: Client, blocks: Any) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
    """How long each sweep of a fit takes, and where the fit ends."""
    runs = []
    for _ in range(3):  # the first one loads the kernels
        with Watched(blocks, client) as data:
            centers = fit(data).centers
            runs.append(data.seconds)
    return np.mean(runs[1:], axis=0), centers


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each (3)")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.repeats = 20_000, 1
    return options


def lazy_rows(bounds: NDArray[np.int64]) -> Any:
    """Blocks that workers make by themselves, and can make again."""
    make = dask.delayed(make_block)
    return dask.array.concatenate(
        [
            dask.array.from_delayed(make(int(size), i), (int(size), N_FEATURES), np.float32)
            for i, size in enumerate(np.diff(bounds))
        ]
    )


def make_block(n_rows: int, number: int) -> NDArray[np.floating]:
    """The same clusters in every block, and 1 % outliers."""
    centers = np.random.RandomState(0).uniform(-30, 30, size=(N_CLUSTERS, N_FEATURES))
    random = np.random.RandomState(1 + number)
    rows = centers[random.randint(N_CLUSTERS, size=n_rows)]
    rows += WIDTH * random.standard_normal(rows.shape)
    far = random.uniform(size=n_rows) < 0.01
    rows[far] = random.uniform(-500, 500, size=(np.count_nonzero(far), N_FEATURES))
    return rows.astype(np.float32)


def n_outliers(n_rows: int) -> int:
    return n_rows // 100


def fit(data: Execution) -> LloydRun:
    plan = Plan(n_init=1, n_steps=0, max_iter=300, tol=1e-4)
    random = np.random.RandomState(0)
    z = n_outliers(data.n_rows)
    return solve(data, N_CLUSTERS, z, RobustKMeansParallel(), plan, random, lambda _: None)


class Watched(OnCluster):
    """Times sweeps, and kills a worker before one of them."""

    def __init__(self, blocks: Any, client: Client, kill_at: int = -1) -> None:
        super().__init__(blocks, None, client)
        self.seconds: list[float] = []
        self._kill_at = kill_at

    def map(self, *arguments: Any, **options: Any) -> Any:
        """As ever, but for one sweep."""
        if len(self.seconds) == self._kill_at:
            pids = self._client.run(os.getpid)
            os.kill(pids[self._holders[0]], signal.SIGKILL)
        seconds, found = timed(lambda: super(Watched, self).map(*arguments, **options))
        self.seconds.append(seconds)
        return found


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def message_seconds(client: Client, blocks: Any) -> float:
    with OnCluster(blocks, None, client) as data:
        return median(
            timed(lambda: data.map(idle, None, None, work=Work.LIGHT))[0] for _ in range(50)
        )


def task_seconds(client: Client) -> float:
    """The same as one task per worker."""

    def sweep() -> None:
        tasks = [
            client.submit(idle, None, None, None, workers=[address], pure=False)
            for address in client.nthreads()
        ]
        client.gather(tasks)

    return median(timed(sweep)[0] for _ in range(50))


def idle(_chunk: object, state: object, _shared: object) -> tuple[object, None]:
    return state, None


def say(name: str, *values: float) -> None:
    print(f"{name:40}", *(f"{value:.4g}" for value in values), flush=True)


if __name__ == "__main__":
    main()
