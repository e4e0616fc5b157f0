"""Scans of files beside plain readings of them: speed, and memory that is not the system's cache.

Gaussian float32 rows are written as .npy, Parquet, Feather and CSV files (a tenth of the rows as
CSV) and opened.  Then each contender goes over its file in a process of its own, in turns, with
the file dropped from the system's cache before ("cold") and not ("warm"); the median of
`--repeats` turns.  Our scans give chunks of rows; one value of each page of a chunk is looked at,
since mapped rows are only read then.

    npy       read(2) into one buffer of 16 MiB, and chunks of numpy's memory map
    parquet   pyarrow's iter_batches by default, and with pre_buffer=False
    feather   pyarrow's batches through read(2), one value of each page looked at
    csv       pyarrow.csv.open_csv

ratio = seconds of the first contender of the format / seconds: above 1 is faster than that.
memory = largest anonymous memory of the process beyond what it had before.

    python benchmarks/reading.py [--quick] [--folder DIR] [--gigabytes G] [--repeats R]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from robust_kmeans.sources import Dataset, open_dataset

N_FEATURES = 30
CHUNK_ROWS = 2**17
PAGE_VALUES = 1024
PRELOADED = [f"robust_kmeans.sources.{name}" for name in ("parquet", "feather", "text")]
NAMES = [f"f{j}" for j in range(N_FEATURES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    parser.add_argument("--folder", help="where the files are written; a temporary one by default")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the .npy file")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n_rows = int(1e5 if options.quick else options.gigabytes * 1e9 / (4 * N_FEATURES))
    repeats = 1 if options.quick else options.repeats
    print("format   cache  contender               seconds   GB/s  ratio  memory (MB)")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind, write in WRITERS.items():
            path = Path(folder) / f"rows.{kind}"
            write(path, n_rows)
            for cache in ("cold", "warm"):
                compare(kind, path, cache, repeats)
            path.unlink()


def compare(kind: str, path: Path, cache: str, repeats: int) -> None:
    contenders = (*CONTENDERS[kind], "ours")
    # Forked from a process that has imported everything and started no thread.
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name in contenders:
            # A new process each time: what one contender leaves behind is not the next one's.
            with ProcessPoolExecutor(1, context) as process:
                measured[name].append(process.submit(run, kind, name, path, cache).result())
    medians = {name: median(seconds for seconds, _ in runs) for name, runs in measured.items()}
    first = next(iter(medians.values()))
    for name, seconds in medians.items():
        memory = max(size for _, size in measured[name])
        speed = path.stat().st_size / seconds / 1e9
        print(
            f"{kind:8} {cache:6} {name:23} {seconds:7.3f} {speed:6.2f} {first / seconds:6.2f} "
            f"{memory:12.0f}",
            flush=True,
        )


def prepare(path: Path, cache: str) -> None:
    with path.open("rb+") as file:
        if cache == "cold":
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            while file.read(2**24):
                pass


def run(kind: str, name: str, path: Path, cache: str) -> tuple[float, float]:
    """Seconds, and megabytes of anonymous memory."""
    # What is imported on first use is not what is measured.
    dataset = open_dataset(path)
    prepare(path, cache)
    with watched_memory() as sizes:
        start = time.perf_counter()
        if name == "ours":
            scan(dataset)
        else:
            CONTENDERS[kind][name](str(path))
        seconds = time.perf_counter() - start
    return seconds, max(sizes) - sizes[0]


def scan(dataset: Dataset) -> None:
    for rows in dataset.scan([*range(0, dataset.n_rows, CHUNK_ROWS), dataset.n_rows]):
        look_at(rows.reshape(-1))


def read_bytes(path: str) -> None:
    buffer = bytearray(2**24)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def map_rows(path: str) -> None:
    rows = np.load(path, mmap_mode="r")
    for start in range(0, len(rows), CHUNK_ROWS):
        look_at(rows[start : start + CHUNK_ROWS].reshape(-1))


def parquet_batches(path: str) -> None:
    exhaust(pq.ParquetFile(path).iter_batches())


def parquet_unbuffered(path: str) -> None:
    exhaust(pq.ParquetFile(path, pre_buffer=False).iter_batches())


def feather_batches(path: str) -> None:
    with pa.OSFile(path) as source, pa.ipc.open_file(source) as file:
        for i in range(file.num_record_batches):
            for column in file.get_batch(i).columns:
                look_at(column.to_numpy())


def csv_batches(path: str) -> None:
    kinds = pa.csv.ConvertOptions(column_types=dict.fromkeys(NAMES, pa.float64()))
    exhaust(pa.csv.open_csv(path, convert_options=kinds))


def look_at(values: np.ndarray) -> None:
    values[::PAGE_VALUES].max()


def exhaust(batches: Iterable[object]) -> None:
    for _ in batches:
        pass


CONTENDERS: dict[str, dict[str, Callable[[str], object]]] = {
    "npy": {"read": read_bytes, "mapped": map_rows},
    "parquet": {
        "pyarrow": parquet_batches,
        "pyarrow, pre_buffer off": parquet_unbuffered,
    },
    "feather": {"pyarrow": feather_batches},
    "csv": {"pyarrow": csv_batches, "ours, opening": open_dataset},
}


@contextmanager
def watched_memory() -> Iterator[list[float]]:
    """The process's anonymous memory in megabytes, again and again while the block runs."""
    sizes = [anonymous_memory()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            sizes.append(anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield sizes
    finally:
        done.set()
        watcher.join()


def anonymous_memory() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split("RssAnon:")[1].split()[0]) / 1e3


def write_npy(path: Path, n_rows: int) -> None:
    array = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_FEATURES))
    start = 0
    for rows in gaussian_rows(n_rows):
        array[start : start + len(rows)] = rows
        start += len(rows)
    array.flush()


def write_parquet(path: Path, n_rows: int) -> None:
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for rows in gaussian_rows(n_rows):
            writer.write_batch(as_batch(rows))


def write_feather(path: Path, n_rows: int) -> None:
    with pa.ipc.new_file(path, SCHEMA) as writer:
        for rows in gaussian_rows(n_rows):
            writer.write_batch(as_batch(rows))


def write_csv(path: Path, n_rows: int) -> None:
    with pa.csv.CSVWriter(path, SCHEMA) as writer:
        for rows in gaussian_rows(n_rows // 10):
            writer.write_batch(as_batch(rows))


WRITERS = {
    "npy": write_npy,
    "parquet": write_parquet,
    "feather": write_feather,
    "csv": write_csv,
}
SCHEMA = pa.schema([(name, pa.float32()) for name in NAMES])


def gaussian_rows(n_rows: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(0)
    for start in range(0, n_rows, 2**20):
        size = min(2**20, n_rows - start)
        yield random.standard_normal((size, N_FEATURES), np.float32)


def as_batch(rows: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch([np.ascontiguousarray(column) for column in rows.T], SCHEMA)


if __name__ == "__main__":
    main()
