"""Speed beside scikit-learn's: the same data, the same number of threads, ratios in one run.

Each peer lives in a process of its own and is warmed up first; their jobs take turns, and
every figure is the median of the repeats.  ratio = scikit-learn's time / ours.

seeding          `robust_kmeans_plusplus` against `kmeans_plusplus`, both with n_local_trials=1
greedy seeding   the same with the default n_local_trials of both
Lloyd iterations `trimmed_kmeans` against `KMeans(algorithm="lloyd")`, both from the same random
                 rows with tol=0: the time of 12 iterations less that of 2, divided by 10;
                 and the same from the 10th to the 30th
first call       `robust_kmeans_plusplus` in a fresh process with an empty cache of compiled
                 code; then with a read-only input, which must not compile anything again
import           of `RobustKMeans` after scikit-learn and Numba, in fresh processes

Only our side trims outliers: z rows, 1 % of all.  On a busy machine trust --threads 1 only:
threads that wait for each other by spinning, as scikit-learn's do, then suffer far more.

    python benchmarks/against_sklearn.py [--threads N] [--repeats N] [--csv PATH] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from peers import N_CLUSTERS, TASKS, Job, n_outliers, our_first_call

from robust_kmeans.paper.machine import describe_machine

N_FEATURES = 9
DTYPES = ("float32", "float64")
COLUMNS = ("task", "data", "dtype", "n", "d", "k", "z", "ours (ms)", "scikit-learn (ms)", "ratio")
# OpenMP and every BLAS that NumPy comes with: whichever is there, both peers use it alike.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Threads of OpenMP and OpenBLAS spin for a while after their work: not into the other's turn.
PAUSE = 0.05


def main() -> None:
    options = parse_options()
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(options.threads)))
    before = CpuTimes.now()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured = [*beside_sklearn(options, folder), *first_calls(options, folder)]
        measured.append(import_time(options))
    cells = [COLUMNS, *(figure.cells() for figure in measured)]
    print(machine(options.threads))
    print(CpuTimes.now().competition_since(before))
    print(table(cells))
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            csv.writer(file).writerows(cells)


def parse_options() -> argparse.Namespace:
    from robust_kmeans.execution.memory import default_threads

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=int, default=default_threads(), help="for both peers")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs per figure (7)")
    parser.add_argument("--csv", type=Path, help="write the table to this file too")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    options = parser.parse_args()
    options.n = 20_000 if options.quick else 1_000_000
    options.repeats = 1 if options.quick else options.repeats
    return options


@dataclass(frozen=True)
class Figure:
    """One line of the table; times in seconds."""

    task: str
    data: str
    dtype: str
    n: int | None
    ours: float
    theirs: float | None = None

    def cells(self) -> tuple[str, ...]:
        """The figure as text, one cell per column."""
        shape = ("-",) * 4
        if self.n is not None:
            shape = (str(self.n), str(N_FEATURES), str(N_CLUSTERS), str(n_outliers(self.n)))
        theirs, ratio = "-", "-"
        if self.theirs is not None:
            theirs, ratio = f"{self.theirs * 1e3:.1f}", f"{self.theirs / self.ours:.2f}"
        return (self.task, self.data, self.dtype, *shape, f"{self.ours * 1e3:.1f}", theirs, ratio)


def beside_sklearn(options: argparse.Namespace, folder: Path) -> Iterator[Figure]:
    """Every task on every kind of data in both dtypes."""
    with fresh_process() as us, fresh_process() as them:
        for kind, make in {"gaussian": gaussian_rows, "clustered": clustered_rows}.items():
            rows = make(options.n, np.random.default_rng(0))
            for dtype in DTYPES:
                path = folder / f"{kind}-{dtype}.npy"
                np.save(path, rows.astype(dtype))
                for task, (ours, theirs) in TASKS.items():
                    if options.quick and task.endswith("30"):
                        continue  # so few rows may be at rest by then
                    peers = {"ours": (us, ours), "scikit-learn": (them, theirs)}
                    seconds = take_turns(peers, path, options, f"{task}, {kind}, {dtype}")
                    yield Figure(
                        task, kind, dtype, options.n, seconds["ours"], seconds["scikit-learn"]
                    )
                path.unlink()


def take_turns(
    peers: dict[str, tuple[Executor, Job]], path: Path, options: argparse.Namespace, what: str
) -> dict[str, float]:
    """The median time of each peer, after a run that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for repeat in range(options.repeats + 1):
        for name, (process, job) in peers.items():
            time.sleep(PAUSE)
            took = process.submit(job, path, options.threads, repeat).result()
            note(f"{what}, {f'run {repeat}' if repeat else 'warm-up'}, {name}", took)
            if repeat:
                seconds[name].append(took)
    return {name: median(times) for name, times in seconds.items()}


def first_calls(options: argparse.Namespace, folder: Path) -> list[Figure]:
    """The first call of all, and the first with a read-only input."""
    path, cache = folder / "first.npy", folder / "cache"
    np.save(path, gaussian_rows(options.n, np.random.default_rng(0)).astype(np.float32))
    cache.mkdir()
    figures = []
    with fresh_process(NUMBA_CACHE_DIR=str(cache)) as process:
        for what, writable in (("writable", True), ("read-only", False)):
            n_compiled = len(list(cache.rglob("*.nbc")))
            took = process.submit(our_first_call, path, options.threads, writable).result()
            n_new = len(list(cache.rglob("*.nbc"))) - n_compiled
            note(f"first call, {what} input ({n_new} kernels compiled)", took)
            figures.append(Figure(f"first call, {what}", "gaussian", "float32", options.n, took))
    if n_new:
        raise RuntimeError(f"{n_new} kernels were compiled once more for a read-only input.")
    return figures


def import_time(options: argparse.Namespace) -> Figure:
    program = (
        "import sklearn, sklearn.cluster, numba, time; start = time.perf_counter(); "
        "from robust_kmeans import RobustKMeans; print(time.perf_counter() - start)"
    )
    seconds = []
    for run in range(1, (1 if options.quick else 5) + 1):
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
        )
        seconds.append(float(done.stdout))
        note(f"import, run {run}", seconds[-1])
    return Figure("import", "-", "-", None, median(seconds))


@contextlib.contextmanager
def fresh_process(**environment: str) -> Iterator[Executor]:
    """A process that stays until the end of the block, with these variables set."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        before = dict(os.environ)
        os.environ.update(environment)
        # The process starts with its first job, and gets the variables of that moment.
        process.submit(os.getpid).result()
        os.environ.clear()
        os.environ.update(before)
        yield process


def gaussian_rows(n: int, random: np.random.Generator) -> np.ndarray:
    return random.standard_normal((n, N_FEATURES))


def clustered_rows(n: int, random: np.random.Generator) -> np.ndarray:
    """Unit Gaussians around points of a cube, in random order; 1 % of the rows far outside."""
    centers = random.uniform(-50, 50, (N_CLUSTERS, N_FEATURES))
    rows = centers[random.integers(N_CLUSTERS, size=n)] + gaussian_rows(n, random)
    far = random.choice(n, n_outliers(n), replace=False)
    rows[far] = random.uniform(-1000, 1000, (len(far), N_FEATURES))
    return rows


def machine(threads: int) -> str:
    return f"{describe_machine()}, cores used: {threads}"


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of a clock, of work done by all cores (None if unknown), and of our own work."""

    clock: float
    everybody: float | None
    ours: float

    @classmethod
    def now(cls) -> CpuTimes:
        """The counters since the machine and this process started."""
        everybody = None
        with contextlib.suppress(OSError):
            ticks = [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]
            # The fourth and fifth counters are the time in which a core was idle.
            everybody = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), everybody, sum(os.times()[:4]))

    def competition_since(self, before: CpuTimes) -> str:
        """How many cores others kept busy meanwhile; with many, the figures mean little."""
        if self.everybody is None or before.everybody is None:
            return "Load by other processes: unknown"
        others = (self.everybody - before.everybody) - (self.ours - before.ours)
        return f"Load by other processes: {others / (self.clock - before.clock):.2f} cores"


def table(cells: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    n_words = COLUMNS.index("n")
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < n_words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )


def note(what: str, seconds: float) -> None:
    print(f"{what}: {seconds * 1e3:.1f} ms", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
