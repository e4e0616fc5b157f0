from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from robust_kmeans import RobustKMeans, robust_kmeans_plusplus
from robust_kmeans.clustering import finish
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.base import CHUNK_ROWS, plan_chunks
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.execution.threads import default_threads
from robust_kmeans.pipeline import Plan, solve
from robust_kmeans.seeding.registry import SEEDINGS
from robust_kmeans.sweeps.base import Chunk, Sweep, nothing
from tests.pickling import Pickling
from tests.strategies import DTYPES


def solved(data, init, seed=0, k=6, z=40):
    run = solve(
        data,
        k,
        z,
        SEEDINGS[init](),
        Plan(n_init=3, n_steps=40, max_iter=20, tol=1e-4),
        np.random.RandomState(seed),
        callback=lambda _: None,
    )
    return finish(data, run, z)


def assert_identical(a, b):
    for name in ("cluster_centers", "labels", "outlier_scores", "inertia_history"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.inertia, a.outlier_threshold, a.n_iter) == (b.inertia, b.outlier_threshold, b.n_iter)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [2, 64])
@pytest.mark.parametrize("init", list(SEEDINGS))
def test_threads_and_executions_agree_to_the_bit(worker, init, n_features, dtype):
    X, _, _ = make_contaminated_blobs(
        960, n_clusters=6, n_outliers=40, n_features=n_features, random_state=0, dtype=dtype
    )
    weights = np.random.RandomState(0).uniform(0.5, 1.5, size=len(X))
    bounds = np.array([0, 100, 350, 351, 800, 1000])
    for w in (None, weights):
        results = []
        for n_threads in (1, 2, 3):
            with InMemory(X, w, n_threads, bounds) as data:
                results.append(solved(data, init))
        with Pickling(worker, X, w, bounds) as data:
            results.append(solved(data, init))
        for other in results[1:]:
            assert_identical(results[0], other)


@pytest.mark.parametrize("init", list(SEEDINGS))
def test_the_number_of_threads_changes_no_bit_of_a_large_fit(init):
    X, _, _ = make_contaminated_blobs(
        300_000, n_clusters=6, n_outliers=3000, n_features=5, random_state=0, dtype=np.float32
    )
    assert len(plan_chunks(*X.shape)) > 3
    fits = [
        RobustKMeans(6, n_outliers=0.01, init=init, n_threads=n, max_iter=4, random_state=1).fit(X)
        for n in (1, 2, 3)
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.cluster_centers_, fits[0].cluster_centers_)
        np.testing.assert_array_equal(other.labels_, fits[0].labels_)
        assert other.inertia_ == fits[0].inertia_


@pytest.mark.parametrize("init", list(SEEDINGS))
def test_summaries_do_not_grow_with_the_number_of_rows(worker, init):
    sizes = []
    for n in (600, 6000):
        X, _, _ = make_contaminated_blobs(n, n_clusters=6, n_outliers=40, random_state=0)
        with Pickling(worker, X, None, np.array([0, n // 3, len(X)])) as data:
            solved(data, init)
        sizes.append(data.summary_sizes)
    both = sizes[0].keys() & sizes[1].keys()
    assert any(name.endswith("swaps._prices") for name in both)
    for name in both:
        small = sizes[0][name]
        # Rows near the cut travel one by one, up to a fixed number, and those that join as
        # many as are asked for, more or less; all else is constant.
        several = {"_rows_within": 24 * 1024 + 1000, "coins._join": 24 * 4 * 12 + 1000}
        limit = next((several[end] for end in several if name.endswith(end)), small + 200)
        assert sizes[1][name] <= limit, name


@pytest.mark.parametrize("n_features", [1, 9, 784, 10**6])
@pytest.mark.parametrize("n_rows", [1, 1000, 10**6, 10**9])
def test_the_plan_covers_all_rows_with_chunks_of_bounded_size(n_rows, n_features):
    bounds = plan_chunks(n_rows, n_features)
    sizes = np.diff(bounds)
    assert (bounds[0], bounds[-1]) == (0, n_rows)
    assert sizes.min() >= 1
    assert sizes.max() <= CHUNK_ROWS[1]


def test_chunks_are_views_and_read_only():
    X = np.arange(12.0).reshape(6, 2)
    chunk = Chunk(X[2:4], np.ones(2), 2)
    assert np.shares_memory(chunk.rows, X)
    assert X.flags.writeable
    for same in (chunk, pickle.loads(pickle.dumps(chunk))):
        assert not same.rows.flags.writeable
        assert not same.weights.flags.writeable


def test_memory_is_reused_only_once_nobody_has_it():
    chunk = Chunk(np.zeros((5, 2)), np.empty(0), 0)
    first = chunk.empty(np.float64)
    view = chunk.empty(np.float64)[:2]
    addresses = {first.ctypes.data, view.ctypes.data}
    assert len(addresses) == 2
    assert chunk.empty(np.int32).dtype == np.int32
    third = chunk.empty(np.float64)
    assert third.ctypes.data not in addresses
    del view
    again = [chunk.empty(np.float64), chunk.empty(np.float64)]
    assert len({array.ctypes.data for array in again} & addresses) == 1
    assert first.ctypes.data not in {array.ctypes.data for array in again}


def _fail_on_third(chunk, _state, _shared):
    if chunk.start == 2:
        raise ZeroDivisionError("in a step")
    return None, None


def test_an_error_in_a_step_reaches_the_caller(open_data):
    with open_data(np.zeros((6, 1)), None, 6) as data, pytest.raises(ZeroDivisionError):
        data.run(Sweep(_fail_on_third, nothing), None)


def test_no_thread_outlives_a_fit():
    before = threading.active_count()
    X = np.random.RandomState(0).standard_normal((200_000, 5))
    RobustKMeans(3, n_threads=3, max_iter=2, random_state=0).fit(X)
    assert threading.active_count() == before


@pytest.mark.parametrize(("value", "limit"), [("1", 1), ("1,4", 1), ("0", None), ("many", None)])
def test_default_threads_respect_omp_num_threads(monkeypatch, value, limit):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = default_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert default_threads() == (cores if limit is None else limit)


def test_fits_in_several_threads_at_once_do_not_disturb_each_other():
    X, _, _ = make_contaminated_blobs(100_000, n_features=5, random_state=0)
    expected = robust_kmeans_plusplus(X, 5, n_outliers=100, random_state=0).indices
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(
                robust_kmeans_plusplus(X, 5, n_outliers=100, random_state=0).indices
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results:
        np.testing.assert_array_equal(found, expected)


INTERRUPTED = """
import numpy as np
from robust_kmeans import RobustKMeans
X = np.random.RandomState(0).standard_normal((400_000, 8)).astype(np.float32)
RobustKMeans(3, max_iter=1, random_state=0).fit(X)
print("ready", flush=True)
try:
    RobustKMeans(500, n_init=50, n_threads=2, tol=0, random_state=0).fit(X)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class InterruptedWhileWaiting:
    """A pool whose futures end as Python's do when an interrupt hits the release of a lock."""

    def submit(self, _work):
        return self

    def result(self):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot release un-acquired lock")


def test_an_interrupt_while_waiting_for_threads_stays_an_interrupt(monkeypatch):
    with InMemory(np.eye(40), None, 2, np.array([0, 20, 40])) as data:
        monkeypatch.setattr(data, "_pool", InterruptedWhileWaiting())
        with pytest.raises(KeyboardInterrupt):
            data.map(lambda _chunk, state, _shared: (state, None), None, None)


def test_an_error_of_a_step_stays_what_it_is():
    def fail(_chunk, _state, _shared):
        raise RuntimeError("of the step")

    with (
        InMemory(np.eye(40), None, 2, np.array([0, 20, 40])) as data,
        pytest.raises(RuntimeError, match="of the step"),
    ):
        data.map(fail, None, None)


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process on Windows")
def test_an_interrupt_ends_a_fit_quickly():
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(1.0)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert output == "interrupted\n"
    assert process.returncode == 0
