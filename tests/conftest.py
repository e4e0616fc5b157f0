from __future__ import annotations

import os
import signal
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from robust_kmeans.execution.disk import OnDisk, memory_for_reading
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.sources.opening import open_dataset
from tests.pickling import Pickling, worker_process

# Compiling a kernel takes longer than any deadline; the fixture `open_data` keeps nothing
# between examples; and the same examples every time make a failure one that can be repeated.
settings.register_profile(
    "robust-kmeans",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("robust-kmeans")

# A shell that starts the tests in the background has them, and all that they start, ignore
# interrupts; some tests send one.
with suppress(ValueError):  # not the main thread
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def worker():
    """The other process of the pickling execution, started on first use."""
    with worker_process() as pool:
        yield pool


@pytest.fixture(params=["threads", "disk", "pickling"])
def open_data(request, tmp_path):
    """Open rows for sweeps, on each execution: `open_data(rows, weights=None, n_chunks=…)`."""
    worker = request.getfixturevalue("worker") if request.param == "pickling" else None

    def open_rows(rows, weights=None, n_chunks=3, n_threads=2):
        bounds = np.linspace(0, len(rows), min(n_chunks, len(rows)) + 1).astype(np.int64)
        if request.param == "threads":
            return InMemory(rows, weights, n_threads, bounds)
        if request.param == "disk":
            path = tmp_path / f"{len(os.listdir(tmp_path))}.npy"
            np.save(path, rows)
            # A limit that leaves room for a few arrays only: the others go to files.
            limit = memory_for_reading(rows, bounds, n_threads) + 2 * rows.nbytes
            return OnDisk(open_dataset(path), weights, n_threads, limit, bounds)
        return Pickling(worker, rows, weights, bounds)

    return open_rows
