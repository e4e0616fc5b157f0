"""Rows on a Dask cluster: blocks and their states stay on the workers, summaries travel.

A sweep is one message to every worker and one answer (`Client.run`): a task would take several
times as long to schedule as a pass over D² takes (`benchmarks/on_dask.py`).  What the driver
calls states is the name of a version, of which each chunk's part lies beside its block.

*Lost workers.*  Dask computes lost blocks again, on other workers or on a restarted one.  Their
states are made again from the rows, by the steps that have led to them: the driver keeps, for
each version, the steps since the last one that needed no earlier state.  A sweep is repeated for
the lost chunks only.  Workers that have the chunks of a lost one use its threads, too, if it was
on the same machine.

*Workers that join*, restarted ones above all, get their share of the blocks after a while: a small
task per block brings it there and warms the kernels, while others go on.

Cost: a sweep takes a few milliseconds more than on threads; states are memory of the workers
that Dask does not manage.
"""

from __future__ import annotations

import time
import uuid
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import dask
import dask.array
import numpy as np
from distributed import Client, Future, futures_of, wait
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.execution.dask_worker import (
    Failed,
    HeldChunks,
    Order,
    Part,
    Recipe,
    arrived,
    carry_out,
    extended,
    hold,
    let_go,
    replay,
    values_of,
    warm,
)
from robust_kmeans.sweeps.base import NO_WEIGHTS, Step, Summary, Work

# Seconds for which a cluster may be without workers: a nanny restarts a lost one in a few.
PATIENCE = 60.0
# Seconds within which the scheduler notices that a worker has gone that did not answer.
NOTICED = 5.0
# Seconds after which a worker that has joined gets blocks.  To bring them, and to make their
# states, may take as long, and the fit may be over before.
IDLE = 5.0
# So often chunks may be lost while one and the same sweep is tried.
MOST_LOSSES = 20


class Version:
    """The name of the states of all chunks, and how to make them from the rows."""

    def __init__(self, number: int, recipe: Recipe) -> None:
        self.number = number
        self.recipe = recipe


class Move(NamedTuple):
    """A chunk whose block is brought to another worker, by a task that ends when it is there."""

    number: int
    address: str
    arrival: Future[None]


class OnCluster(Execution):
    """Chunks that are the blocks of a dask array, worked on where they lie.

    Parameters
    ----------
    array : dask.array.Array of shape (n, d), float32 or float64, in one block of columns
        As `as_dask_rows` prepares it.  It is persisted, if it is not already.
    weights : ndarray of shape (n,), float64, optional
        One weight per row; 1 each by default.
    client : distributed.Client
    n_threads : int, optional
        Per worker; by default as many as it has for tasks.
    """

    def __init__(
        self,
        array: Any,
        weights: NDArray[np.float64] | None,
        client: Client,
        n_threads: int | None = None,
    ) -> None:
        self.n_features, self.dtype = array.shape[1], array.dtype
        self.bounds = np.cumsum([0, *array.chunks[0]], dtype=np.int64)
        self.weighted = weights is not None
        self.total_weight = float(self.n_rows if weights is None else weights.sum())
        self.n_weighty_rows = self.n_rows if weights is None else int(np.count_nonzero(weights))
        self.least_weight = 1.0 if weights is None else float(weights[weights > 0].min())
        self._array, self._weights, self._client = array, weights, client
        self._n_threads = n_threads
        self._all = range(len(self.bounds) - 1)
        self._blocks: list[Future[Any]] = []
        self._holders: dict[int, str] = {}
        self._silent: set[str] = set()
        # Since when, by the clock, the workers are there that have answered last.
        self._present: dict[str, float] = {}
        self._moves: list[Move] = []
        # Per machine the most threads of workers with chunks so far; who uses more than its own.
        self._lost = False
        self._most_threads: dict[str, int] = {}
        self._borrowed: dict[str, int] = {}
        # A name that no other fit on the cluster has.
        self._fit = f"robust-kmeans-{uuid.uuid4().hex}"
        self._n_versions = 0
        self._gone: deque[int] = deque()
        self._tidy = False

    def __enter__(self) -> Self:
        try:
            self._client.register_plugin(HeldChunks(self._n_threads), name=self._fit)
            self._warm_up()
            self._present = dict.fromkeys(self._client.nthreads(), -np.inf)
            self._array = self._client.persist(self._array)
            futures = {future.key: future for future in futures_of(self._array)}
            self._blocks = [futures[key] for (key,) in self._array.__dask_keys__()]
            self._settle(self._all)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._blocks, self._moves = [], []
        with suppress(OSError):  # without a scheduler there is nothing left to give back
            self._client.unregister_worker_plugin(self._fit)

    def map(
        self, step: Step[Summary], states: States, shared: Any, *, work: Work = Work.READING
    ) -> tuple[States, Sequence[Summary]]:
        """Run `step` on every chunk; the new states, and the summaries in chunk order."""
        after = self._new_version(step, states, shared)
        found = self._carry_out(self._order(step, states, shared, work, after), states)
        if self.watch is not None and work is Work.READING:
            self.watch(self.n_rows)
        return after, [found[number] for number in self._all]

    def at(self, chunk: int, step: Step[Summary], states: States, shared: Any) -> Summary:
        """Run `step` on one chunk for its summary; no state changes."""
        order = self._order(step, states, shared, Work.STATES, None, (chunk,))
        summary: Summary = self._carry_out(order, states)[chunk]
        return summary

    def collect(
        self,
        step: Step[NDArray[Any]],
        states: States,
        shared: Any,
        *,
        work: Work = Work.READING,
    ) -> NDArray[Any]:
        """Run a step whose result has one entry per row, and join the results."""
        found = self._carry_out(self._order(step, states, shared, work, None), states)
        return np.concatenate([found[number] for number in self._all])

    def collect_lazily(
        self, step: Step[NDArray[Any]], states: Version, shared: Any, dtype: DTypeLike
    ) -> Any:
        """The same, with one number per row, as a dask array that stays on the workers.

        It is computed before this returns; where a worker is lost later, Dask makes its blocks
        again from those of X.  The step must not look at weights.
        """
        told = dask.delayed((states.recipe, step, shared), traverse=False)
        blocks = self._array.to_delayed(optimize_graph=False).ravel()
        parts = [
            dask.array.from_delayed(
                dask.delayed(values_of)(
                    block,
                    dask.delayed(self._part(number)._replace(weights=NO_WEIGHTS), traverse=False),
                    told,
                    (self._fit, states.number, number),
                ),
                shape=(self._array.chunks[0][number],),
                dtype=dtype,
            )
            for number, block in enumerate(blocks)
        ]
        values = self._client.persist(dask.array.concatenate(parts))
        self._wait_for(futures_of(values), range(len(parts)))
        return values

    def tidy(self) -> None:
        """Give memory back that was kept for more sweeps like the last ones: with the next one."""
        self._tidy = True

    def _new_version(self, step: Step[Any], states: Version | None, shared: Any) -> Version:
        recipe = extended(() if states is None else states.recipe, step, shared)
        version = Version(self._n_versions, recipe)
        self._n_versions += 1
        weakref.finalize(version, self._gone.append, version.number).atexit = False
        return version

    def _order(
        self,
        step: Step[Any],
        states: Version | None,
        shared: Any,
        work: Work,
        after: Version | None,
        numbers: Sequence[int] | None = None,
    ) -> Order:
        return Order(
            self._fit,
            self._all if numbers is None else numbers,
            step,
            shared,
            work,
            None if states is None else states.number,
            None if after is None else after.number,
        )

    def _carry_out(self, order: Order, states: Version | None) -> dict[int, Any]:
        """The summaries of all chunks, whatever becomes of the workers meanwhile."""
        self._welcome()
        found: dict[int, Any] = {}
        for _ in range(MOST_LOSSES):
            found |= self._ask(order)
            lost = [number for number in order.numbers if number not in found]
            if not lost:
                return found
            self._lost |= any(self._holders.get(number) not in self._present for number in lost)
            self._settle(lost)
            if states is not None:
                self._ask(self._order(replay, None, states.recipe, Work.READING, states, lost))
            order = order._replace(numbers=lost)
        raise RuntimeError(
            f"{len(lost)} of {len(self._all)} blocks of X were lost {MOST_LOSSES} times in a "
            f"row; look at the logs of the workers, which may need more memory."
        )

    def _ask(self, order: Order) -> dict[int, Any]:
        """One message to all workers; what comes back from those that are still there.

        To all, because the scheduler knows them: an address that is none any more would be tried
        for half a minute.
        """
        gone = [self._gone.popleft() for _ in range(len(self._gone))]
        order = order._replace(gone=gone, tidy=self._tidy, threads=self._borrowed)
        self._tidy = False
        found: dict[int, Any] = {}
        answers = self._client.run(carry_out, order, on_error="return")
        able = [address for address, answer in answers.items() if isinstance(answer, dict)]
        now = time.monotonic()
        self._present = {address: self._present.get(address, now) for address in able}
        for address, answer in answers.items():
            if isinstance(answer, Failed):
                raise answer.error
            if answer is None:
                continue
            if not isinstance(answer, Exception):
                found |= answer
            elif isinstance(answer, OSError):
                self._silent.add(address)
            # Others may have nothing to do with this fit, and lack the packages for it.
            elif address in self._holders.values():
                raise answer
        return found

    def _settle(self, numbers: Iterable[int]) -> None:
        """Have the blocks of these chunks computed, and tell workers which of them they hold."""
        self._wait_for_removal()
        self._wait_for([self._blocks[number] for number in numbers], numbers)
        places = self._client.who_has([self._blocks[number] for number in numbers])
        held: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            addresses = places[self._blocks[number].key]
            if addresses:  # else it has just been lost again
                least = min(addresses, key=lambda address: len(held[address]))
                last = self._holders.get(number, least)
                held[last if last in addresses else least].append(number)
        for address, theirs in held.items():
            parts = {number: self._part(number) for number in theirs}
            self._client.run(hold, self._fit, parts, workers=[address], on_error="ignore")
            self._holders |= dict.fromkeys(parts, address)
        self._lend_threads()

    def _lend_threads(self) -> None:
        """Workers that have the chunks of others use their threads, too: those of their machine."""
        self._borrowed = {}
        threads, n_held = self._client.nthreads(), Counter(self._holders.values())
        machines: dict[str, list[str]] = defaultdict(list)
        for address in n_held.keys() & threads.keys():
            machines[_machine(address)].append(address)
        for machine, workers in machines.items():
            n_threads = sum(threads[address] for address in workers)
            most = self._most_threads.get(machine, 0)
            most = self._most_threads[machine] = max(n_threads, most)
            n_chunks = sum(n_held[address] for address in workers)
            for address in workers:
                due = round(most * n_held[address] / n_chunks)
                if due > threads[address] and self._lost and self._n_threads is None:
                    self._borrowed[address] = due

    def _welcome(self) -> None:
        """Leave chunks to workers that have joined, in two steps: blocks first, while others go on.

        Each gets as many as others then have.  When all blocks have come, states follow as if they
        had been lost.
        """
        if self._moves:
            if all(move.arrival.done() for move in self._moves):
                self._move_chunks()
            return
        now = time.monotonic()
        newcomers = [who for who, since in self._present.items() if 0 < since < now - IDLE]
        if not newcomers:
            return
        held: dict[str, list[int]] = {address: [] for address in self._present}
        for number, address in self._holders.items():
            if address in held:
                held[address].append(number)
        share = sum(map(len, held.values())) // len(held)
        for address in newcomers:
            self._present[address] = -np.inf
            while len(held[address]) < share:
                number = max(held.values(), key=len).pop()
                held[address].append(number)
                self._moves.append(Move(number, address, self._bring(number, address)))

    def _bring(self, number: int, address: str) -> Future[None]:
        # If the worker is lost, too, any other one may run the task: else it would never end.
        return self._client.submit(
            arrived, self._blocks[number], self.dtype.name, pure=False, workers=[address],
            allow_other_workers=True,
        )  # fmt: skip

    def _move_chunks(self) -> None:
        moves, self._moves = self._moves, []
        places = self._client.who_has([self._blocks[move.number] for move in moves])
        there = {
            move.number: move.address
            for move in moves
            if move.address in places[self._blocks[move.number].key]
        }
        if there:
            self._holders |= there
            self._client.run(let_go, self._fit, list(there), on_error="ignore")
            self._settle(there)

    def _part(self, number: int) -> Part:
        start, end = int(self.bounds[number]), int(self.bounds[number + 1])
        weights = NO_WEIGHTS if self._weights is None else self._weights[start:end]
        shape = end - start, self.n_features
        return Part(self._blocks[number].key, shape, self.dtype, weights, start)

    def _wait_for_removal(self) -> None:
        """Until the scheduler does not name workers any more that did not answer."""
        last = time.monotonic() + NOTICED
        while self._silent & self._client.nthreads().keys() and time.monotonic() < last:
            time.sleep(0.01)
        self._silent.clear()

    def _wait_for(self, futures: Sequence[Future[Any]], numbers: Iterable[int]) -> None:
        """Until all are computed; an error if one cannot be, or if there is nobody to do it."""
        last_seen = time.monotonic()
        while True:
            try:
                wait(futures, timeout=1.0)
                break
            except TimeoutError:
                now = time.monotonic()
                if self._client.nthreads():
                    last_seen = now
                elif now - last_seen > PATIENCE:
                    raise RuntimeError(
                        f"the cluster has been without workers for {PATIENCE:g} seconds; start "
                        f"some, and fit again."
                    ) from None
            except CancelledError:
                break
        for number, future in zip(numbers, futures, strict=True):
            if future.status == "error":
                future.result()
            if future.status == "cancelled":
                raise RuntimeError(
                    f"block {number} of X was lost with its worker and cannot be computed again, "
                    f"because it was sent there as it is (scatter). Load X on the workers, with "
                    f"dask.array or dask.dataframe, and fit again."
                )

    def _warm_up(self) -> None:
        """Warm the kernels, on one worker per machine first: others then find them on its disk."""
        workers = sorted(self._client.nthreads())
        first = list({_machine(address): address for address in workers}.values())
        for group in (first, [address for address in workers if address not in first]):
            if group:
                self._client.run(warm, self.dtype.name, workers=group, on_error="ignore")


def _machine(address: str) -> str:
    """Where a worker is: its address without the port."""
    return address.rpartition(":")[0]
