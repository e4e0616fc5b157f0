"""What runs on the workers of a Dask cluster: steps on the chunks that each of them holds.

A worker has one `HeldChunks` per fit, a worker plugin: Dask gives it to workers that join later,
too, and takes it away at the end.  It holds no rows: blocks stay Dask's own, which may spill
them.  It holds the chunks' states, in versions, as the driver has names for them.  Where a block
leaves the worker, for whatever reason, its states go with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from distributed import Worker, WorkerPlugin, get_worker
from numpy.typing import NDArray

from robust_kmeans.execution.threads import OnThreads
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, Step, Work, read_only
from robust_kmeans.sweeps.distances import assigned
from robust_kmeans.sweeps.means import UPDATE, UPDATE_CUT, UpdateShared

Recipe = tuple[tuple[Step[Any], Any], ...]
"""Steps, and what they were told, that lead from nothing to a state."""


class Part(NamedTuple):
    """A chunk as the driver describes it: the key of its block, and what is known of its rows."""

    key: Any
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    weights: NDArray[np.float64]
    start: int


class Order(NamedTuple):
    """A step to run on these chunks of a fit, where a worker holds them.

    It gets the states of version `before` (None: it needs none) and makes those of version
    `after` (None: nobody wants them).  Versions that are `gone` have no name on the driver any
    more.  `tidy` gives memory back that was kept for more sweeps.  `threads` are for workers, by
    their addresses, that should use more than usually.
    """

    fit: str
    numbers: Sequence[int]
    step: Step[Any]
    shared: Any
    work: Work
    before: int | None
    after: int | None
    gone: Sequence[int] = ()
    tidy: bool = False
    threads: Mapping[str, int] = {}


class Failed(NamedTuple):
    """An error of the step itself; others are of the way to the worker."""

    error: Exception


async def carry_out(order: Order, dask_worker: Worker) -> dict[int, Any] | Failed | None:
    """Summaries of those chunks that this worker holds with the states that are needed.

    None where it cannot hold any: it has no plugin, or not yet.
    """
    held = dask_worker.plugins.get(order.fit)
    if held is None:
        return None
    try:
        # In a thread, because the worker has to answer the scheduler meanwhile.
        return await asyncio.to_thread(held.carry_out, order, dask_worker.address)
    except Exception as error:
        return Failed(error)


async def hold(fit: str, parts: Mapping[int, Part], dask_worker: Worker) -> None:
    """Make this worker the one that works on these chunks."""
    held = dask_worker.plugins.get(fit)
    if held is not None:
        held.hold(parts)


async def warm(dtype: str) -> None:
    """Compile the kernels, or load them from the cache, once in the life of a worker."""
    await asyncio.to_thread(_warm_up, dtype)


@cache
def _warm_up(dtype: str) -> None:
    # By name: `warm_up` uses everything, so it lies above executions, which must not lean on it.
    import_module("robust_kmeans.warming").warm_up([dtype])


def arrived(block: NDArray[np.floating], dtype: str) -> None:  # noqa: ARG001
    """A task that has a block come to a worker, which is then ready to work on it."""
    _warm_up(dtype)


async def let_go(fit: str, numbers: Sequence[int], dask_worker: Worker) -> None:
    """Others work on these chunks from now on."""
    held = dask_worker.plugins.get(fit)
    if held is not None:
        held.let_go(numbers)


def replay(chunk: Chunk, _state: object, recipe: Recipe) -> tuple[Any, None]:
    """The step that makes a state from nothing."""
    state = None
    for step, shared in recipe:
        state, _ = step(chunk, state, shared)
    return state, None


def extended(recipe: Recipe, step: Step[Any], shared: Any) -> Recipe:
    """The recipe of the state that `step` makes; earlier steps are left out if it allows."""
    if step in (UPDATE.step, UPDATE_CUT.step):
        return ((_assigned_and_cut, shared),)
    return (*recipe, (step, shared))


def _assigned_and_cut(chunk: Chunk, _state: object, shared: UpdateShared) -> tuple[Any, Any]:
    """What Lloyd's steps lead to: rows assigned to these centres, and marked by this cut.

    Only bounds may be other ones, and they change no bit of what follows.
    """
    return UPDATE.step(chunk, assigned(chunk, shared.centers), shared)


def values_of(
    block: NDArray[np.floating],
    part: Part,
    told: tuple[Recipe, Step[NDArray[Any]], Any],
    place: tuple[str, int, int],
) -> NDArray[Any]:
    """A task: the result of a step that has one entry per row, of one block.

    It uses the state that the worker holds, or else makes it from the rows: so Dask can compute
    the block again at any time.
    """
    recipe, step, shared = told
    chunk = Chunk(_contiguous(block, part), NO_WEIGHTS, part.start)
    state = _held_state(*place)
    if state is None:
        state, _ = replay(chunk, None, recipe)
    return step(chunk, state, shared)[1]


def _held_state(fit: str, version: int, number: int) -> Any:
    with suppress(ValueError):  # not on a worker
        held = get_worker().plugins.get(fit)
        return None if held is None else held.state(version, number)
    return None


class BlockGone(Exception):
    """A block has left the worker."""


GONE = object()
"""Instead of a summary."""


def _if_there(step: Step[Any], chunk: Chunk, state: Any, shared: Any) -> tuple[Any, Any]:
    try:
        return step(chunk, state, shared)
    except BlockGone:
        return None, GONE


class BlockChunk(Chunk):
    """A chunk whose rows are a block in the memory of a worker, or spilled by it.

    A step is asked for again where the driver has not heard what came of it.
    """

    keeps_states = True

    def __init__(self, part: Part, blocks: MutableMapping[Any, Any]) -> None:
        self._describe(part.shape, part.dtype, part.weights, part.start)
        self._part, self._blocks = part, blocks
        self._copy: NDArray[np.floating] | None = None

    @property
    def rows(self) -> NDArray[np.floating]:
        """All rows (n_rows, n_features)."""
        copy = self._copy  # which `close` may take away meanwhile
        if copy is not None:
            return copy
        try:
            block = self._blocks[self._part.key]
        except KeyError:
            raise BlockGone from None
        rows = _contiguous(block, self._part)
        if rows is not block:
            self._copy = read_only(rows)
        return read_only(rows)

    def close(self) -> None:
        """Stop who still works on it."""
        self._blocks, self._copy = {}, None


def _contiguous(block: Any, part: Part) -> NDArray[np.floating]:
    rows = np.ascontiguousarray(block, part.dtype)
    if rows.shape != part.shape:
        raise ValueError(
            f"the block of X that begins with row {part.start} has shape {rows.shape}, but its "
            f"dask array says {part.shape}; call compute_chunk_sizes() on it first."
        )
    return rows


class HeldChunks(WorkerPlugin):
    """The chunks of one fit that one worker holds, and their states.

    Parameters
    ----------
    n_threads : int or None
        Threads that work on them; by default as many as the worker has.
    """

    def __init__(self, n_threads: int | None) -> None:
        self._n_threads = n_threads

    def setup(self, worker: Worker) -> None:
        """Dask tells which worker it is."""
        self._blocks = worker.data
        self._threads = self._n_threads or worker.state.nthreads
        self._numbers: dict[Any, int] = {}
        self._chunks: dict[int, BlockChunk] = {}
        self._states: dict[int, dict[int, Any]] = {}
        # A sweep that the driver has given up may still be at work when the next one comes.
        self._one_sweep = Lock()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's convention
        """The fit is over, or the worker is."""
        for key in list(self._numbers):
            self._drop(key)

    def transition(self, key: Any, start: str, finish: str, **_kwargs: Any) -> None:  # noqa: ARG002
        """Dask tells what becomes of a task and its result."""
        if finish in ("released", "forgotten") and key in self._numbers:
            self._drop(key)

    def hold(self, parts: Mapping[int, Part]) -> None:
        """Work on these chunks, too."""
        for number, part in parts.items():
            if number not in self._chunks:
                self._numbers[part.key] = number
                self._chunks[number] = BlockChunk(part, self._blocks)

    def let_go(self, numbers: Sequence[int]) -> None:
        """Do not work on these chunks any more."""
        for key in [key for key, number in self._numbers.items() if number in numbers]:
            self._drop(key)

    def state(self, version: int, number: int) -> Any:
        """The state of a chunk, None where it is not here."""
        return self._states.get(version, {}).get(number)

    def carry_out(self, order: Order, address: str) -> dict[int, Any]:
        """Summaries of the chunks that are here with their states, and do not leave meanwhile."""
        with self._one_sweep:
            for version in order.gone:
                self._states.pop(version, None)
            chunks, states = self._ready(order)
            if not chunks:
                return {}
            if order.tidy:
                for chunk in chunks.values():
                    chunk.forget()
            n_threads = order.threads.get(address, self._threads)
            with OnThreads(list(chunks.values()), None, n_threads) as data:
                step = partial(_if_there, order.step)
                made, summaries = data.map(step, states, order.shared, work=order.work)
            done = {
                number: (state, summary)
                for number, state, summary in zip(chunks, made, summaries, strict=True)
                if summary is not GONE
            }
            if order.after is not None:
                kept = self._states.setdefault(order.after, {})
                kept.update({number: state for number, (state, _) in done.items()})
            return {number: summary for number, (_, summary) in done.items()}

    def _ready(self, order: Order) -> tuple[dict[int, BlockChunk], list[Any] | None]:
        # Copies, because a block may leave meanwhile.
        chunks = self._chunks.copy()
        if order.before is None:
            return {number: chunks[number] for number in order.numbers if number in chunks}, None
        states = self._states.get(order.before, {}).copy()
        ready = [number for number in order.numbers if number in chunks and number in states]
        return {number: chunks[number] for number in ready}, [states[number] for number in ready]

    def _drop(self, key: Any) -> None:
        number = self._numbers.pop(key)
        self._chunks.pop(number).close()
        for states in list(self._states.values()):
            states.pop(number, None)
