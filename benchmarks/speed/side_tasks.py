"""What is measured once rather than in every cell: a function per task.

bandwidth   a plain streaming read by all threads, at the start and at the end
memory      the peak beyond X of a default fit and of both seedings, at n and n / 2 rows
small       the default fit beside KMeans(n_init=1) on 1,000 rows, both warm
cold        the first fit with an empty cache of compiled code, and with a filled one; import
trimmed     the default fit beside other trimmed k-means, on as many rows as they can do
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median

from speed import our_jobs, peer_jobs
from speed.bandwidth import N_BYTES, streaming_read
from speed.grid import DTYPES, Cell, make_rows
from speed.jobs import Job
from speed.memory import can_measure, peak_beyond_rows
from speed.peer_jobs import ONE_TRIMKMEANS, OURS, SKLEARN, TRIMCLUSTER, TRIMKMEANS
from speed.processes import fresh_process, note, tell, thread_limits
from speed.records import Place, Record
from speed.tasks import TO_ITS_COST, Bench, Site, restarts, seconds_of

MEMORY_CELLS = [Cell("clustered", 1_000_000, 9, 20), Cell("clustered", 1_000_000, 34, 20)]
MEMORY_JOBS: Mapping[str, Job] = {
    "default fit": our_jobs.default_fit,
    "seeding": partial(our_jobs.seeding, trials=1),
    "greedy seeding": partial(our_jobs.seeding, trials=None),
}
SMALL_CELL = Cell("clustered", 1_000, 2, 20)
SMALL_RUNS = 25
TRIMMED_CELL = Cell("clustered", 10_000, 9, 5, outlier_share=0.05)
_IMPORT = (
    "import sklearn, sklearn.cluster, numba, time; start = time.perf_counter(); "
    "from robust_kmeans import RobustKMeans; print(time.perf_counter() - start)"
)


def bandwidth(bench: Bench, when: str) -> list[Record]:
    """Not a median but the best: it stands for what the machine can do."""
    n_bytes = N_BYTES // 64 if bench.quick else N_BYTES
    speed = bench.processes.run("memory", streaming_read, bench.processes.threads, n_bytes)
    note(f"bandwidth, {when}, {speed / 1e9:.1f} GB/s: {n_bytes >> 20} MiB", n_bytes / speed)
    return [Record("bandwidth", Place(when), "all threads", speed, "B/s")]


def memory(bench: Bench) -> list[Record]:
    """Each peak in a process of its own; from n and n / 2 rows what grows with n can be told."""
    if not can_measure():
        tell("memory is left out: peaks are only known on Linux.")
        return []
    wholes, dtypes, names = MEMORY_CELLS, DTYPES, list(MEMORY_JOBS)
    if bench.quick:
        wholes, dtypes, names = [Cell("clustered", 100_000, 9, 5)], DTYPES[:1], names[:1]
    records = []
    for cell in (replace(whole, n=n) for whole in wholes for n in (whole.n, whole.n // 2)):
        rows = make_rows(cell)
        for dtype in dtypes:
            site = bench.saved(cell, dtype, rows)
            records += [_peak(bench, site, name) for name in names]
            site.work.path.unlink()
    return records


def _peak(bench: Bench, site: Site, name: str) -> Record:
    with fresh_process(**thread_limits(bench.processes.threads)) as process:
        peak = process.submit(peak_beyond_rows, site.work, MEMORY_JOBS[name]).result()
    tell(f"{site.title('memory')}, {name}: {peak / 2**20:.1f} MiB")
    return Record("memory", site.place, name, peak, "B")


def small(bench: Bench) -> list[Record]:
    site = bench.saved(SMALL_CELL, "float64", make_rows(SMALL_CELL))
    jobs = {OURS: our_jobs.default_fit, SKLEARN: peer_jobs.sklearn_fit}
    repeats = 1 if bench.quick else SMALL_RUNS
    # At full size: with a few milliseconds per run, the first ones are cold in every sense.
    bench.processes.take_turns(jobs, site.work, 1, site.title("small, warm-up"))
    turns = bench.processes.take_turns(jobs, site.work, repeats, site.title("small"))
    return [site.record("small", peer, seconds_of(runs)) for peer, runs in turns.items()]


def cold(bench: Bench) -> list[Record]:
    """First fits and imports; a read-only input must not compile anything again."""
    site = bench.saved(SMALL_CELL, "float64", make_rows(SMALL_CELL))
    cache = bench.folder / "cache"
    cache.mkdir()
    first_fit = our_jobs.default_fit
    records = []

    def measure(what: str, process, job: Job) -> int:
        before = _n_compiled(cache)
        seconds = process.submit(job, site.work, 0).result().seconds
        n_new = _n_compiled(cache) - before
        note(f"cold, {what} ({n_new} kernels compiled)", seconds)
        records.append(site.record("cold", what, [seconds], remark=f"{n_new} kernels compiled"))
        return n_new

    environment = {"NUMBA_CACHE_DIR": str(cache), **thread_limits(bench.processes.threads)}
    with fresh_process(**environment) as process:
        measure("first fit, empty cache", process, first_fit)
        n_again = measure("fit of a read-only input", process, our_jobs.read_only_fit)
    if n_again:
        raise RuntimeError(f"{n_again} kernels were compiled once more for a read-only input.")
    with fresh_process(**environment) as process:
        measure("first fit, filled cache", process, first_fit)
    seconds = [_import_seconds() for _ in range(bench.repeats)]
    note("cold, import", median(seconds))
    return [*records, site.record("cold", "import, after scikit-learn's and Numba's", seconds)]


def trimmed(bench: Bench) -> list[Record]:
    """Peers with ten runs and one, and a default fit, seed after seed, judged by one function.

    And our fit without local search to the cost at which one run of theirs has ended.
    """
    cell = replace(TRIMMED_CELL, n=1_000) if bench.quick else TRIMMED_CELL
    site = bench.saved(cell, "float64", make_rows(cell))
    jobs: dict[str, Job] = {
        OURS: our_jobs.default_fit,
        TRIMKMEANS: partial(peer_jobs.trimkmeans_fit, n_runs=peer_jobs.N_TRIMMED_RUNS),
        ONE_TRIMKMEANS: partial(peer_jobs.trimkmeans_fit, n_runs=1),
        TRIMCLUSTER: peer_jobs.trimcluster_fit,
    }
    turns = bench.take_turns(jobs, site, "trimmed")
    records = []
    for peer, runs in turns.items():
        costs = [
            run.cost
            if run.centers is None
            else bench.processes.run(OURS, our_jobs.cost_of, site.work, run.centers)
            for run in runs
        ]
        records.append(site.record("trimmed", peer, seconds_of(runs), fmean(costs)))
        if peer == ONE_TRIMKMEANS:
            to_cost = [
                bench.processes.run(OURS, our_jobs.fit_to_cost, site.work, seed, cost)
                for seed, cost in enumerate(costs)
            ]
            note("trimmed, ours, to the cost of one run", median(seconds_of(to_cost)))
            remark = restarts(to_cost)
            records.append(
                site.record("trimmed", TO_ITS_COST, seconds_of(to_cost), fmean(costs), remark)
            )
    return records


def _n_compiled(cache: Path) -> int:
    return len(list(cache.rglob("*.nbc")))


def _import_seconds() -> float:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


SIDE_TASKS: Mapping[str, Callable[[Bench], list[Record]]] = {
    task.__name__: task for task in (memory, small, cold, trimmed)
}
