"""How time grows with n, d, k and threads, for us and peers: lines of a CSV file, and pictures.

Per size: seeding with one candidate per step, a Lloyd iteration (ours without bounds, and of a
run to rest), and a default fit beside KMeans(n_init=1).  Clustered rows in float32, z = 1 %; how
each is timed is said in `speed/tasks.py`.  Who would take longer than a limit at the next size,
to judge by the last one, is left out from there on.

    python benchmarks/scaling.py [--csv PATH] [--pictures FOLDER] [--only AXIS ...]
        [--threads N] [--repeats N] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from speed import our_jobs, peer_jobs, tasks
from speed.grid import Cell, make_rows
from speed.jobs import Job
from speed.machine import description
from speed.peer_jobs import FAISS, INTELEX, OURS, SKLEARN, missing
from speed.pictures import TO_REST, draw
from speed.processes import Processes, tell
from speed.records import Place, Record, Store, setting_of
from speed.tasks import Bench, Site, seconds_of

from robust_kmeans.execution.threads import default_threads

DTYPE = "float32"
# Seconds that one job may take, to judge by the last size.
LIMIT = 40.0
# Jobs that take longer than so many seconds are run once.
LONG = 2.0
CELLS = {
    "n": [Cell("clustered", n, 9, 20) for n in (10_000, 100_000, 1_000_000, 10_000_000)],
    "d": [Cell("clustered", 50_000, d, 20) for d in (2, 9, 34, 128, 1_000)],
    "k": [Cell("clustered", 100_000, 9, k) for k in (2, 20, 200, 2_000)],
    "threads": [Cell("clustered", 1_000_000, 9, 20)],
}
QUICK_CELLS = {
    "n": [Cell("clustered", n, 9, 5) for n in (1_000, 4_000)],
    "d": [Cell("clustered", 1_000, d, 5) for d in (2, 9)],
    "k": [Cell("clustered", 1_000, 9, k) for k in (2, 5)],
    "threads": [Cell("clustered", 1_000, 9, 5)],
}


def main() -> None:
    options = parse_options()
    left_out = {peer: reason for peer in (SKLEARN, INTELEX, FAISS) if (reason := missing(peer))}
    for line in left_out.values():
        tell(line)
    peers = [peer for peer in (OURS, SKLEARN, INTELEX, FAISS) if peer not in left_out]
    store = Store(options.csv, setting_of(description(), options.repeats, options.quick))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for threads in thread_counts(options.threads):
            with Processes(threads) as processes:
                bench = Bench(processes, options.repeats, peers, Path(folder), options.quick)
                for axis, cells in (QUICK_CELLS if options.quick else CELLS).items():
                    wanted = axis == "threads" or threads == options.threads
                    if axis in options.only and wanted:
                        for records in along(bench, axis, cells, store):
                            store.add(records)
    tell(f"done in {(time.perf_counter() - start) / 60:.1f} minutes")
    for record in store.records:
        print(f"{record.task}, {record.place}, {record.peer}: {record.value * 1e3:.3f} ms")
    if options.pictures:
        for path in draw(store.records, options.pictures):
            tell(f"drawn: {path}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--csv", type=Path, help="append lines to this file; skip what is there")
    parser.add_argument("--pictures", type=Path, help="draw scaling-….png into this folder")
    parser.add_argument("--only", nargs="+", choices=CELLS, default=CELLS, help="these axes")
    parser.add_argument("--threads", type=int, default=default_threads(), help="for all peers")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs per figure (3)")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    options = parser.parse_args()
    options.repeats = 1 if options.quick else options.repeats
    return options


def thread_counts(most: int) -> list[int]:
    """1, 2, 4 and so on, and at last as many as there may be."""
    return [*(2**i for i in range(most.bit_length()) if 2**i < most), most]


def along(bench: Bench, axis: str, cells: Sequence[Cell], store: Store) -> Iterator[list[Record]]:
    """The records of one axis, size after size, figure after figure."""
    pace = Pace()
    for cell in cells:
        place = Place.of(cell, DTYPE, bench.processes.threads)
        figures = {f"{name} by {axis}": figure for name, figure in FIGURES.items()}
        todo = [task for task in figures if not store.has(task, place)]
        if todo:
            site = bench.saved(cell, DTYPE, make_rows(cell))
            for task in todo:
                measured = figures[task](pace.limited(bench, task, cell), site)
                yield [replace(record, task=task) for record in measured]
            site.work.path.unlink()
        pace.note([record for record in store.records if record.place == place], cell)


class Pace:
    """How long jobs took at the last size, to foresee who would take too long at the next."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[Cell, float]] = {}

    def note(self, records: Sequence[Record], cell: Cell) -> None:
        """Remember what has been measured in a cell."""
        for record in records:
            n_iterations = sum(tasks.WINDOW) if record.task.startswith("lloyd") else 1
            self._last[record.task, record.peer] = cell, record.value * n_iterations

    def limited(self, bench: Bench, task: str, cell: Cell) -> Bench:
        """Those who will be in time, and once only where somebody takes long."""
        expected = {peer: self._expected(task, peer, cell) for peer in bench.peers}
        peers = [peer for peer in bench.peers if expected[peer] <= LIMIT]
        long = any(expected[peer] > LONG for peer in peers)
        return replace(bench, peers=peers, repeats=1 if long else bench.repeats)

    def _expected(self, task: str, peer: str, cell: Cell) -> float:
        """In proportion to n·d·k."""
        if (task, peer) not in self._last:
            return 0.0
        last, seconds = self._last[task, peer]
        return seconds * (cell.n * cell.d * cell.k) / (last.n * last.d * last.k)


def lloyd(bench: Bench, site: Site) -> list[Record]:
    """An iteration without bounds beside the peers', and one of our run to rest."""
    if OURS not in bench.peers:
        return tasks.lloyd(bench, site)
    alone = replace(bench, peers=[OURS])
    rest = [replace(record, peer=TO_REST) for record in tasks.converged(alone, site)]
    return tasks.lloyd(bench, site) + rest


def fit(bench: Bench, site: Site) -> list[Record]:
    jobs: dict[str, Job] = {
        OURS: our_jobs.default_fit,
        SKLEARN: peer_jobs.sklearn_fit,
        INTELEX: peer_jobs.sklearn_fit,
    }
    turns = bench.take_turns(jobs, site, "fit")
    return [site.record("fit", peer, seconds_of(runs)) for peer, runs in turns.items()]


FIGURES: dict[str, Callable[[Bench, Site], list[Record]]] = {
    "seeding": tasks.seeding,
    "lloyd": lloyd,
    "fit": fit,
}


if __name__ == "__main__":
    main()
