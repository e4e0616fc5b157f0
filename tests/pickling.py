"""An execution for tests: every step runs in another process, through pickle.

What a step needs must travel: no step may lean on shared memory, on a change made to its
state in place, or on anything that cannot be pickled.  The sizes of all summaries that
travelled are kept, so that a test can show that they do not depend on the number of rows.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from robust_kmeans.execution.base import Execution, States, plan_chunks
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, Work


def worker_process() -> ProcessPoolExecutor:
    # Spawned, not forked: the test process has threads.
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


class KeptChunk(Chunk):
    """A chunk whose states are values: no step may change the one that it is given."""

    keeps_states = True

    def __reduce__(self):
        return KeptChunk, (self.rows, self.weights, self.start)


class Pickling(Execution):
    """Rows in chunks, steps in another process."""

    def __init__(self, pool, rows, weights=None, bounds=None) -> None:
        self.n_features = rows.shape[1]
        self.dtype = rows.dtype
        self.bounds = plan_chunks(*rows.shape) if bounds is None else bounds
        self.weighted = weights is not None
        self.total_weight = float(len(rows) if weights is None else weights.sum())
        self.n_weighty_rows = len(rows) if weights is None else int(np.count_nonzero(weights))
        self.least_weight = 1.0 if weights is None else float(weights[weights > 0].min())
        self.summary_sizes: dict[str, int] = {}
        self._pool = pool
        self._chunks = [
            pickle.dumps(
                KeptChunk(rows[a:b], NO_WEIGHTS if weights is None else weights[a:b], int(a))
            )
            for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def map(self, step, states: States, shared: Any, *, work=Work.READING):
        results = [
            self._run(i, step, None if states is None else states[i], shared)
            for i in range(len(self._chunks))
        ]
        for _, summary in results:
            self._note_size(step, summary)
        return [state for state, _ in results], [pickle.loads(summary) for _, summary in results]

    def at(self, chunk, step, states: States, shared: Any):
        _, summary = self._run(chunk, step, None if states is None else states[chunk], shared)
        self._note_size(step, summary)
        return pickle.loads(summary)

    def collect(self, step, states: States, shared: Any, *, work=Work.READING):
        parts = [
            self._run(i, step, None if states is None else states[i], shared)[1]
            for i in range(len(self._chunks))
        ]
        return np.concatenate([pickle.loads(part) for part in parts])

    def _run(self, i: int, step, state: bytes | None, shared: Any) -> tuple[bytes, bytes]:
        task = pickle.dumps((step, shared))
        return self._pool.submit(_run_step, task, self._chunks[i], state).result()

    def _note_size(self, step, summary: bytes) -> None:
        name = f"{step.__module__}.{step.__name__}"
        self.summary_sizes[name] = max(self.summary_sizes.get(name, 0), len(summary))


def _run_step(task: bytes, chunk: bytes, state: bytes | None) -> tuple[bytes, bytes]:
    step, shared = pickle.loads(task)
    before = None if state is None else pickle.loads(state)
    after, summary = step(pickle.loads(chunk), before, shared)
    if state is not None and pickle.dumps(before) != pickle.dumps(pickle.loads(state)):
        raise AssertionError(f"{step.__name__} changed the state that it was given")
    return pickle.dumps(after), pickle.dumps(summary)
