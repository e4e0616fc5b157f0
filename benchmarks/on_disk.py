"""What a fit of rows on a disk costs: time beside that of reading the file, and memory.

A file of clustered rows with 1 % outliers is generated, as .npy and as Parquet.  With a cold cache
(the system is told to drop the file's pages) these are timed, in turns, and medians are shown:

    read     the file read from end to end in pieces of 16 MB (Parquet: pyarrow's own scan)
    sweep    one D² update: all rows against one more centre, as seeding does it

Then a fit as it comes, in a process of its own: its seconds, its readings, and the most anonymous
memory (RssAnon of Linux) beyond what it had before, with what of it is kept per row.

    python benchmarks/on_disk.py [--rows N] [--features D] [--clusters K] [--folder F]
                                 [--limit BYTES] [--repeats R] [--only FORMAT …] [--quick]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np

from robust_kmeans import RobustKMeans, open_dataset
from robust_kmeans.execution.disk import OnDisk
from robust_kmeans.sweeps.seeding import READ_AND_TAKE, START, ReadAndTake, Reading, Taking

PIECE = 2**24
BLOCK_ROWS = 2**20
OUTLIER_SHARE = 0.01
FORMATS = ("npy", "parquet")


def main() -> None:
    options = parse_options()
    if options.quick:
        options.rows, options.features, options.clusters, options.repeats = 20_000, 5, 4, 1
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in options.only:
            path = Path(folder) / f"rows.{kind}"
            (write_npy if kind == "npy" else write_parquet)(path, options)
            report(path, options)
            path.unlink()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--folder", help="for the files; the system's temporary folder by default")
    parser.add_argument("--limit", default="2 GB", help='memory_limit of the fit ("2 GB")')
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    return parser.parse_args()


def blocks(options):
    """Rows of the file, a block at a time."""
    random = np.random.default_rng(0)
    places = random.uniform(-50, 50, (options.clusters, options.features)).astype(np.float32)
    for start in range(0, options.rows, BLOCK_ROWS):
        n = min(BLOCK_ROWS, options.rows - start)
        rows = random.standard_normal((n, options.features), np.float32)
        rows += places[random.integers(options.clusters, size=n)]
        far = random.integers(n, size=round(OUTLIER_SHARE * n))
        rows[far] *= 10
        yield rows


def write_npy(path, options):
    shape = (options.rows, options.features)
    with open(path, "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for rows in blocks(options):
            rows.tofile(file)


def write_parquet(path, options):
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{j}" for j in range(options.features)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=False) as writer:
        for rows in blocks(options):
            writer.write_table(pa.table([pa.array(column) for column in rows.T], names=names))


def report(path, options):
    read = read_npy if path.suffix == ".npy" else scan_parquet
    dataset = open_dataset(path)
    centers = dataset.take(np.arange(options.repeats + 1))
    seconds = {"read": [], "sweep": []}
    with OnDisk(dataset) as data:
        states, _ = data.run(START, None, False)
        for repeat in range(options.repeats):
            forget(path)
            seconds["read"].append(timed(read, path))
            forget(path)
            point = centers[repeat : repeat + 1]
            shared = ReadAndTake(Reading(point), Taking(0, 0))
            began = time.perf_counter()
            states, _ = data.run(READ_AND_TAKE, states, shared)
            seconds["sweep"].append(time.perf_counter() - began)
    size = path.stat().st_size
    whole, sweep = median(seconds["read"]), median(seconds["sweep"])
    print(f"{path.suffix}: {options.rows:,} × {options.features} float32, {size / 1e9:.2f} GB")
    print(f"  read   {whole:8.2f} s  {size / whole / 1e9:6.2f} GB/s")
    print(f"  sweep  {sweep:8.2f} s  {size / sweep / 1e9:6.2f} GB/s, {whole / sweep:.0%} of read")
    forget(path)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=fit, args=(path, options))
    process.start()
    process.join()
    sys.exit(process.exitcode) if process.exitcode else None


def fit(path, options):
    """In a process of its own: nothing else has used memory there."""
    RobustKMeans(2).fit(np.random.default_rng(0).normal(size=(1000, options.features)).astype("f4"))
    ends = []

    def hear(progress):
        if progress.stage == "reading" and progress.step == progress.n_steps:
            ends.append(time.perf_counter())

    model = RobustKMeans(
        options.clusters,
        n_outliers=OUTLIER_SHARE,
        memory_limit=options.limit,
        callback=hear,
        random_state=0,
    )
    with PeakMemory() as memory:
        began = time.perf_counter()
        model.fit(path)
        took = time.perf_counter() - began
    print(
        f"  fit    {took:8.2f} s  {len(ends)} readings, {model.n_iter_} iterations; anonymous "
        f"memory {memory.peak / 1e9:.2f} GB with memory_limit={options.limit!r}"
    )


class PeakMemory:
    """The most anonymous memory while a block runs, beyond that at its start."""

    def __enter__(self):
        self._start, self._most, self._over = anonymous_bytes(), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()

    @property
    def peak(self):
        """In bytes."""
        return self._most - self._start

    def _watch(self):
        while not self._over.wait(0.05):
            self._most = max(self._most, anonymous_bytes())


def anonymous_bytes():
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def read_npy(path):
    buffer = bytearray(PIECE)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def scan_parquet(path):
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for _ in file.iter_batches():
            pass


def timed(function, *arguments):
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def forget(path):
    """Have the system drop the pages of a file, so that it is read from the disk again."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
