from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

distributed = pytest.importorskip("distributed")
import dask  # noqa: E402 - distributed brings it
import dask.array as da  # noqa: E402

from robust_kmeans.clustering import finish  # noqa: E402
from robust_kmeans.datasets import make_contaminated_blobs  # noqa: E402
from robust_kmeans.execution import dask_cluster  # noqa: E402
from robust_kmeans.execution.dask import OnBlocks, open_dask  # noqa: E402
from robust_kmeans.execution.dask_cluster import OnCluster  # noqa: E402
from robust_kmeans.execution.memory import InMemory  # noqa: E402
from robust_kmeans.pipeline import Plan, solve  # noqa: E402
from robust_kmeans.seeding.robust_kmeans_plusplus import RobustKMeansPlusPlus  # noqa: E402
from robust_kmeans.sweeps.base import RowState, Sweep, Work, in_chunk_order, nothing  # noqa: E402
from robust_kmeans.sweeps.distances import ASSIGN, ASSIGN_MOVED, Centers  # noqa: E402
from robust_kmeans.sweeps.rows import (  # noqa: E402
    labels_with_outliers,
    squared_distances,
)
from robust_kmeans.sweeps.seeding import PRICE  # noqa: E402
from robust_kmeans.sweeps.swaps import PRICES  # noqa: E402
from robust_kmeans.trimming import place  # noqa: E402
from tests.pickling import Pickling  # noqa: E402
from tests.test_execution import assert_identical  # noqa: E402

BLOCKS = (100, 250, 1, 449, 200, 30)
BOUNDS = np.cumsum([0, *BLOCKS])
X, _, _ = make_contaminated_blobs(
    990, n_clusters=6, n_outliers=40, n_features=3, random_state=0, dtype=np.float32
)
WEIGHTS = np.random.RandomState(0).uniform(0.5, 1.5, size=len(X))


def as_blocks(rows=X):
    """Blocks that are computed, from pieces of the array."""
    return da.from_array(rows, chunks=(BLOCKS, -1)).map_blocks(np.negative).map_blocks(np.negative)


@pytest.fixture(scope="module")
def processes():
    """Two workers in processes of their own, which are restarted when they are killed."""
    with (
        distributed.LocalCluster(
            processes=True, n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(processes):
    processes.wait_for_workers(2, timeout=60)
    with processes.as_current():
        yield processes


@pytest.fixture
def threads():
    """Three workers in this process, quick to start and to lose; their cluster has a client."""
    with (
        distributed.LocalCluster(
            processes=False, n_workers=3, threads_per_worker=2, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


def close_a_worker(cluster, client, address):
    """As it ends where nobody saves its data."""
    worker = next(worker for worker in cluster.workers.values() if worker.address == address)
    client.sync(worker.close)


def solved(data):
    """A fit with seeding, Lloyd and swaps."""
    plan = Plan(n_init=1, n_steps=24, max_iter=12, tol=0)
    random = np.random.RandomState(0)
    seeding = RobustKMeansPlusPlus()
    return finish(data, solve(data, 9, 40, seeding, plan, random, lambda _: None), 40)


def expected(weights=None):
    with InMemory(X, weights, 2, BOUNDS) as data:
        return solved(data)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_executions_agree_to_the_bit(client, worker, weights):
    with Pickling(worker, X, weights, BOUNDS) as data:
        pickled = solved(data)
    with open_dask(as_blocks(), weights) as data:
        assert isinstance(data, OnCluster)
        on_cluster = solved(data)
    with dask.config.set(scheduler="threads"), open_dask(as_blocks(), weights) as data:
        assert isinstance(data, OnBlocks)
        on_blocks = solved(data)
    for found in (pickled, on_cluster, on_blocks):
        assert_identical(found, expected(weights))


def test_kernels_are_warm_before_the_first_sweep(client):
    with open_dask(as_blocks()):
        warmed = client.run(_n_warmed)
    assert set(warmed.values()) == {1}


def _n_warmed():
    from robust_kmeans.execution import dask_worker

    return dask_worker._warm_up.cache_info().currsize


class DyingStep:
    """A step that kills the worker it runs on, once, at its chunk with this first row."""

    def __init__(self, step, start, note):
        self.step, self.start, self.note = step, start, note

    def __call__(self, chunk, state, shared):
        if chunk.start == self.start and not self.note.exists():
            self.note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.step(chunk, state, shared)


class OnDyingWorkers(OnCluster):
    """Where a worker dies in the middle of the second sweep of a kind."""

    def __init__(self, array, client, sweep, note):
        super().__init__(array, None, client)
        self.sweep, self.note = sweep, note
        self.n_seen = 0
        self.asked = []

    def map(self, step, states, shared, *, work=Work.READING):
        if step is self.sweep.step:
            self.n_seen += 1
            step = DyingStep(step, int(BOUNDS[2]), self.note) if self.n_seen == 2 else step
        return super().map(step, states, shared, work=work)

    def _ask(self, order):
        self.asked.append(order)
        return super()._ask(order)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("sweep", [PRICE, ASSIGN_MOVED, PRICES], ids=["seeding", "lloyd", "swaps"])
def test_a_killed_worker_changes_no_bit(client, tmp_path, sweep):
    note = tmp_path / "killed"
    with OnDyingWorkers(as_blocks(), client, sweep, note) as data:
        assert_identical(solved(data), expected())
    assert note.exists()
    first, *repeated = [order.numbers for order in data.asked if isinstance(order.step, DyingStep)]
    assert len(first) == len(BLOCKS)
    # The other worker has not done its part again.
    assert repeated
    assert all(0 < len(numbers) < len(BLOCKS) for numbers in repeated)


def _count_up(_chunk, state, step):
    value = step if state is None else int(state.d2[0]) + step
    return RowState(np.array([float(value)])), value


COUNT_UP = Sweep(_count_up, in_chunk_order, work=Work.LIGHT)


def held(client):
    """Per worker the versions that it has states of; empty where no fit is left."""
    return client.run(_held)


def _held(dask_worker):
    plugins = [plugin for name, plugin in dask_worker.plugins.items() if "robust-kmeans" in name]
    return [sorted(plugin._states) for plugin in plugins]


def test_states_are_values_and_leave_the_workers_when_nobody_has_them(threads):
    _, client = threads
    with open_dask(as_blocks()) as data:
        one, _ = data.run(COUNT_UP, None, 1)
        two, _ = data.run(COUNT_UP, one, 1)
        three, found = data.run(COUNT_UP, two, 1)
        assert found == [3] * len(BLOCKS)
        assert data.summarise(COUNT_UP, one, 5) == [6] * len(BLOCKS)
        assert data.at(2, _count_up, two, 5) == 7
        del one, two
        assert data.summarise(COUNT_UP, three, 1) == [4] * len(BLOCKS)
        assert all(versions == [[2, 4]] for versions in held(client).values())
    assert all(versions == [] for versions in held(client).values())


def _fail_in_the_third(chunk, _state, error):
    if chunk.start == BOUNDS[2]:
        raise error
    return None, None


# An OSError, too: that of a full disk is not that of a connection to a lost worker.
@pytest.mark.parametrize("error", [ZeroDivisionError("in a step"), OSError(28, "in a step")])
def test_an_error_in_a_step_reaches_the_caller_and_leaves_nothing(threads, error):
    _, client = threads
    with open_dask(as_blocks()) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        with pytest.raises(type(error), match="in a step"):
            data.run(Sweep(_fail_in_the_third, nothing), states, error)
    assert all(versions == [] for versions in held(client).values())


class OnLeavingWorkers(OnCluster):
    """Where workers leave, one after the other, before sweeps with these numbers."""

    def __init__(self, array, client, leave, sweeps):
        super().__init__(array, WEIGHTS, client)
        self.leave, self.sweeps = leave, list(sweeps)
        self.n_seen = 0

    def map(self, step, states, shared, *, work=Work.READING):
        self.n_seen += 1
        if self.n_seen in self.sweeps:
            self.leave(self._holders[0])
        return super().map(step, states, shared, work=work)


@pytest.mark.parametrize("how", ["retired", "lost"])
def test_workers_may_leave_until_there_is_one(threads, how):
    cluster, client = threads

    def leave(address):
        if how == "lost":
            close_a_worker(cluster, client, address)
        else:
            client.retire_workers([address])

    with OnLeavingWorkers(as_blocks(), client, leave, [9, 30]) as data:
        assert_identical(solved(data), expected(WEIGHTS))
    assert data.n_seen > 30
    assert len(client.nthreads()) == 1


def joined(cluster, client):
    """The address of a worker that has just joined."""
    before = set(client.nthreads())
    cluster.scale(len(cluster.worker_spec) + 1)
    client.wait_for_workers(len(before) + 1, timeout=60)
    (address,) = set(client.nthreads()) - before
    return address


def counted_until(data, states, seen):
    """Go on counting, and right, until something is seen."""
    _, found = data.run(COUNT_UP, states, 0)
    count, last = found[0], time.monotonic() + 60
    while not seen():
        assert time.monotonic() < last
        states, found = data.run(COUNT_UP, states, 1)
        count += 1
        assert found == [count] * len(BLOCKS)
    return states


def test_a_worker_that_joins_gets_its_share(threads, monkeypatch):
    cluster, client = threads
    monkeypatch.setattr(dask_cluster, "IDLE", 0.0)
    with open_dask(as_blocks()) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        close_a_worker(cluster, client, data._holders[0])
        newcomer = joined(cluster, client)
        states = counted_until(data, states, lambda: newcomer in data._holders.values())
        counted_until(data, states, lambda: not data._moves)
        assert data._borrowed == {}
        assert sorted(data._holders) == list(range(len(BLOCKS)))
        assert list(data._holders.values()).count(newcomer) == len(BLOCKS) // 3
        assert_identical(solved(data), expected())


def _thread(_chunk, state, _shared):
    time.sleep(0.1)
    return state, threading.get_ident()


@pytest.mark.parametrize(("n_threads", "most"), [(None, 6), (2, 2)], ids=["default", "given"])
def test_the_last_worker_of_a_machine_uses_all_its_threads(threads, n_threads, most):
    cluster, client = threads
    with open_dask(as_blocks(), n_threads=n_threads) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        for address in sorted(client.nthreads())[1:]:
            close_a_worker(cluster, client, address)
        states, _ = data.run(COUNT_UP, states, 1)
        assert len(set(data._holders.values())) == 1
        assert len(set(data.summarise(Sweep(_thread, in_chunk_order), states))) == most


def test_threads_are_not_lent_where_nobody_was_lost(threads):
    _, client = threads
    first, second, _ = sorted(client.nthreads())
    parts = [
        client.submit(np.ones, (10, 2), workers=[second if i == 9 else first], pure=False)
        for i in range(10)
    ]
    distributed.wait(parts)
    with open_dask(
        da.concatenate([da.from_delayed(part, (10, 2), float) for part in parts])
    ) as data:
        data.run(COUNT_UP, None, 1)
        assert Counter(data._holders.values())[first] > 6
        assert data._borrowed == {}


class OnLoadingWorkers(OnCluster):
    """Where a worker joins when the blocks have just been loaded."""

    def __init__(self, array, client, join):
        super().__init__(array, None, client)
        self.join, self.newcomer = join, None

    def _settle(self, numbers):
        super()._settle(numbers)
        if self.newcomer is None:
            self.newcomer = self.join()


def test_a_worker_that_joins_while_blocks_are_loaded_gets_its_share(threads, monkeypatch):
    cluster, client = threads
    monkeypatch.setattr(dask_cluster, "IDLE", 0.0)
    with OnLoadingWorkers(as_blocks(), client, lambda: joined(cluster, client)) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        counted_until(data, states, lambda: data.newcomer in data._holders.values())


def test_a_worker_that_joins_waits_before_others_work_for_it(threads):
    cluster, client = threads
    with open_dask(as_blocks()) as data:
        newcomer = joined(cluster, client)
        assert_identical(solved(data), expected())
        assert newcomer not in data._holders.values()


def test_a_worker_may_join_and_be_lost_before_its_blocks_have_come(threads, monkeypatch):
    cluster, client = threads
    monkeypatch.setattr(dask_cluster, "IDLE", 0.0)
    with open_dask(as_blocks()) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        newcomer = joined(cluster, client)
        states = counted_until(data, states, lambda: data._moves)
        distributed.wait([move.arrival for move in data._moves])
        close_a_worker(cluster, client, newcomer)
        states = counted_until(data, states, lambda: not data._moves)
        counted_until(data, states, lambda: newcomer not in data._holders.values())
        assert_identical(solved(data), expected())


def test_blocks_that_dask_cannot_compute_again_are_named(threads):
    cluster, client = threads
    first, second, _ = (worker.address for worker in cluster.workers.values())
    futures = [
        client.scatter(X[:500], workers=[first]), client.scatter(X[500:], workers=[second])
    ]  # fmt: skip
    parts = [da.from_delayed(future, (size, 3), X.dtype) for future, size in
             zip(futures, (500, len(X) - 500), strict=True)]  # fmt: skip
    with open_dask(da.concatenate(parts)) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        close_a_worker(cluster, client, data._holders[1])
        with pytest.raises(RuntimeError, match="block 1 of X was lost with its worker"):
            data.run(COUNT_UP, states, 1)


def test_a_cluster_without_workers_is_not_waited_for_for_ever(threads, monkeypatch):
    cluster, client = threads
    monkeypatch.setattr(dask_cluster, "PATIENCE", 1.0)
    with open_dask(as_blocks()) as data:
        states, _ = data.run(COUNT_UP, None, 1)
        for worker in list(cluster.workers.values()):
            client.sync(worker.close)
        with pytest.raises(RuntimeError, match="without workers for 1 seconds"):
            data.run(COUNT_UP, states, 1)


def test_lazy_results_stay_on_the_workers_and_can_be_made_again(threads):
    cluster, client = threads
    with InMemory(X, WEIGHTS, 1, BOUNDS) as memory:
        same = place(memory, X[:4].copy(), 40)
        labels = memory.collect(labels_with_outliers, same.states, same.cut)
    with open_dask(as_blocks(), WEIGHTS) as data:
        found = place(data, X[:4].copy(), 40)
        lazy = data.collect_lazily(labels_with_outliers, found.states, found.cut, np.int32)
        d2 = data.collect_lazily(squared_distances, found.states, None, np.float32)
        lost = data._holders[0]
    assert lazy.chunks == (BLOCKS,)
    assert len(distributed.futures_of(lazy)) == len(BLOCKS)
    close_a_worker(cluster, client, lost)
    np.testing.assert_array_equal(lazy.compute(), labels)
    assert d2.sum().compute() > 0


def test_blocks_in_fortran_order_are_brought_into_order_once(threads):
    centers = Centers(X[:4].copy())
    found = []
    for data in (
        InMemory(X, None, 1, BOUNDS),
        open_dask(as_blocks().map_blocks(np.asfortranarray)),
    ):
        with data:
            states, _ = data.run(ASSIGN, None, centers)
            found.append(data.collect(squared_distances, states, None))
    np.testing.assert_array_equal(*found)


def test_blocks_of_another_shape_than_announced_are_named(threads):
    lying = da.from_delayed(dask.delayed(np.ones)((5, 3), np.float32), (6, 3), np.float32)
    with (
        open_dask(lying) as data,
        pytest.raises(ValueError, match=r"shape \(5, 3\), but its dask array says \(6, 3\)"),
    ):
        data.run(ASSIGN, None, Centers(np.ones((1, 3), np.float32)))
