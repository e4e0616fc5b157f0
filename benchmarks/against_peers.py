"""Speed beside scikit-learn, scikit-learn-intelex, faiss and other trimmed k-means.

The same data and the same number of threads for all; each peer lives in a process of its own and
is warmed up first; their jobs take turns, and figures are medians.  Ratios are times of the peer
divided by ours.  What each task measures is said in `speed/tasks.py` and `speed/side_tasks.py`, the
grid is in `speed/grid.py`, the figures asked are in `speed/targets.py`.

Only our side trims outliers: z rows, 1 % of all.  On a busy machine trust --threads 1 only:
threads that wait for each other by spinning, as OpenMP's do, then suffer far more.

    python benchmarks/against_peers.py [--csv PATH] [--markdown PATH] [--quote PATH]
        [--fresh] [--only TASK ...] [--grid TEXT] [--threads N] [--repeats N] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from speed.grid import DTYPES, Cell, full_grid, make_rows, quick_grid
from speed.machine import CpuTimes, description
from speed.page import as_markdown
from speed.peer_jobs import (
    FAISS,
    INTELEX,
    ONE_TRIMKMEANS,
    OURS,
    SKLEARN,
    TRIMCLUSTER,
    TRIMKMEANS,
    missing,
)
from speed.processes import Processes, tell
from speed.quotes import filled
from speed.records import Place, Record, Store, setting_of
from speed.side_tasks import SIDE_TASKS, bandwidth
from speed.tasks import GRID_TASKS, Bench

from robust_kmeans.execution.threads import default_threads

PEERS = (SKLEARN, INTELEX, FAISS, TRIMKMEANS, ONE_TRIMKMEANS, TRIMCLUSTER)
TASKS = ("bandwidth", *SIDE_TASKS, *GRID_TASKS)
# Where all lines are there already, nobody's load matters.
SHORT = 10.0


def main() -> None:
    options = parse_options()
    left_out = {peer: reason for peer in PEERS if (reason := missing(peer))}
    for line in left_out.values():
        tell(line)
    setting = setting_of(description(), options.threads, options.repeats, options.quick)
    store = Store(options.csv, setting)
    if options.fresh:
        store.forget(lambda record: is_asked_for(record, options))
    if store.records or store.n_stale:
        tell(
            f"{options.csv}: {len(store.records)} lines are there (--fresh measures them again), "
            f"{store.n_stale} of another code, machine or setting are dropped."
        )
    start, before = time.perf_counter(), CpuTimes.now()
    with tempfile.TemporaryDirectory() as name, Processes(options.threads) as processes:
        peers = [OURS, *(peer for peer in PEERS if peer not in left_out)]
        bench = Bench(processes, options.repeats, peers, Path(name), options.quick)
        absent = measure(bench, store, options)
    facts = [description(), f"threads: {options.threads}", *left_out.values(), *absent]
    if time.perf_counter() - start > SHORT:
        facts.append(CpuTimes.now().competition_since(before))
    tell(f"done in {(time.perf_counter() - start) / 60:.1f} minutes")
    page = as_markdown(store.records, command(), facts)
    print(page)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(page, encoding="utf-8")
    if options.quote:
        document = options.quote.read_text(encoding="utf-8")
        options.quote.write_text(filled(document, page), encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--csv", type=Path, help="append lines to this file; skip what is there")
    parser.add_argument("--markdown", type=Path, help="write the page to this file too")
    parser.add_argument("--quote", type=Path, help="fill in the quotes of the page in this file")
    parser.add_argument("--fresh", action="store_true", help="measure again what is in the file")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=TASKS, help="these tasks")
    parser.add_argument("--grid", default="", metavar="TEXT", help="cells with this in their name")
    parser.add_argument("--threads", type=int, default=default_threads(), help="for all peers")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs per figure (5)")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    options = parser.parse_args()
    options.repeats = 1 if options.quick else options.repeats
    cells = quick_grid() if options.quick else full_grid()
    options.cells = [cell for cell in cells if options.grid in cell.name]
    if not options.cells:
        names = ", ".join(cell.name for cell in cells)
        parser.error(f"--grid {options.grid} is in none of the names: {names}")
    return options


def is_asked_for(record: Record, options: argparse.Namespace) -> bool:
    shapes = [(cell.data, cell.n, cell.d, cell.k) for cell in options.cells]
    here = record.task not in GRID_TASKS or record.place[:4] in shapes
    return record.task in options.only and here


def measure(bench: Bench, store: Store, options: argparse.Namespace) -> list[str]:
    """All that was asked for and is not there yet; which cells were left out, and why."""
    left_out = []
    read_memory(bench, store, options, "start")
    for name, task in SIDE_TASKS.items():
        if name in options.only and not any(record.task == name for record in store.records):
            store.add(task(bench))
    for cell in options.cells:
        try:
            for records in grid_records(bench, store, cell, options.only):
                store.add(records)
        except FileNotFoundError as error:
            tell(f"{cell.data} is left out: {error}")
            left_out.append(f"{cell.data} is left out: its file was not there")
    read_memory(bench, store, options, "end")
    return left_out


def read_memory(bench: Bench, store: Store, options: argparse.Namespace, when: str) -> None:
    if "bandwidth" in options.only and not store.has("bandwidth", Place(when)):
        store.add(bandwidth(bench, when))


def grid_records(bench: Bench, store: Store, cell: Cell, only: list[str]) -> Iterator[list[Record]]:
    """Task after task in one cell, in both dtypes."""
    todo = {
        dtype: [
            task
            for name, task in GRID_TASKS.items()
            if name in only and not store.has(name, Place.of(cell, dtype, bench.processes.threads))
        ]
        for dtype in DTYPES
    }
    if not any(todo.values()):
        return
    rows = make_rows(cell)
    for dtype, tasks in todo.items():
        site = bench.saved(cell, dtype, rows)
        for task in tasks:
            yield task(bench, site)
        site.work.path.unlink()


def command() -> str:
    return " ".join(["python benchmarks/against_peers.py", *sys.argv[1:]])


if __name__ == "__main__":
    main()
