"""Every method of the tables, repetition after repetition, on several processes.

Processes and not threads, because the plain versions and the driver loops hold the GIL, and
because a process can be stopped at once.  Each has one thread.  The calling process hands out
tasks and notes what comes back, so that a run that ends early loses no more than the tasks at
work.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from robust_kmeans import __version__
from robust_kmeans.paper.data import Choices, Generated, Source, derived_seed
from robust_kmeans.paper.experiments import Experiment, Setting
from robust_kmeans.paper.machine import code_fingerprint
from robust_kmeans.paper.methods import DEFAULT, SEEDINGS, Problem, run_method
from robust_kmeans.paper.trials import Circumstances, Run, Trial, TrialFile

# More would make the slowest part of the run longer still; the median of three is steady enough.
PLAIN_REPETITIONS = 3

Answer = list[Trial] | Exception


@dataclass(frozen=True)
class Task:
    """One repetition of one method; small, so that it can be sent to another process."""

    circumstances: Circumstances
    source: Source
    setting: Setting
    method: str
    repetition: int

    @property
    def run(self) -> Run:
        """What it is known by in a file of trials."""
        return self.circumstances, self.method, self.repetition

    @property
    def work(self) -> float:
        """Roughly what it takes, in no particular unit."""
        at = self.circumstances
        # Measured: seedings with trimmed Lloyd are alike, RKM++ has ten times the candidates.
        factor = {DEFAULT: 2.0, "rkm++": 2.0}.get(self.method, 1.0)
        return 1000 + factor * at.n * (at.d + 5) * at.k


def tasks_of(
    experiment: Experiment, source: Source, choices: Choices, repetitions: int
) -> list[Task]:
    """All tasks of an experiment; methods take turns, so that a busy spell hits all of them."""
    settings = [
        (setting, _circumstances(experiment, setting, source, choices))
        for setting in experiment.settings
    ]
    return [
        Task(circumstances, source, setting, method, repetition)
        for repetition in range(repetitions)
        for setting, circumstances in settings
        for method in experiment.methods
    ]


def run_tasks(
    tasks: Sequence[Task],
    file: TrialFile,
    jobs: int,
    done: Callable[[Task], object],
    machine: str = "",
) -> None:
    """Run the tasks that the file does not know, and note their trials in it.

    Call `warm_up` first: it compiles what is missing, where the processes will find it.
    """
    missing = missing_tasks(tasks, file)
    with closing(_results(missing, min(jobs, len(missing)))) as results:
        for task, trials in results:
            file.add([replace(trial, machine=machine) for trial in trials])
            done(task)


def missing_tasks(tasks: Sequence[Task], file: TrialFile) -> list[Task]:
    """Those of which the file has no trials."""
    return [task for task in tasks if not file.of(*task.run)]


def run_task(task: Task) -> list[Trial]:
    """A trial for each protocol of the method."""
    at = task.circumstances
    X, outliers = task.source.instance(task.setting, task.repetition)
    outcomes = run_method(
        task.method,
        Problem(X, outliers, at.k, at.z, at.beta),
        derived_seed(at.seed, task.repetition, "method"),
        with_plain=task.repetition < PLAIN_REPETITIONS,
    )
    return [Trial(at, task.method, task.repetition, *outcome) for outcome in outcomes]


def warm_up() -> None:
    """Compile, or load, what the methods need: no time is about that."""
    # Large enough for swaps to be tried and made.
    setting = Setting(k=20, z=25)
    X, outliers = Generated(seed=0).instance(setting, 0)
    for method in (*SEEDINGS, DEFAULT):
        run_method(method, Problem(X, outliers, 20, 25, 0.5), 0, with_plain=True)


def _circumstances(
    experiment: Experiment, setting: Setting, source: Source, choices: Choices
) -> Circumstances:
    X, outliers = source.instance(setting, 0)
    true_outliers = int(outliers.sum())
    return Circumstances(
        table=experiment.name,
        data=source.name,
        n=X.shape[0],
        d=X.shape[1],
        k=setting.k,
        z=true_outliers if setting.z is None else setting.z,
        true_outliers=true_outliers,
        beta=experiment.beta,
        noise_scale=choices.noise_scale if experiment.n_noisy else None,
        seed=choices.seed,
        version=__version__,
        code=code_fingerprint(),
    )


def _results(tasks: list[Task], jobs: int) -> Generator[tuple[Task, list[Trial]]]:
    """Tasks and their trials, in the order in which they are finished."""
    if jobs <= 1:
        with threadpool_limits(1):
            for task in tasks:
                yield task, run_task(task)
        return
    todo = iter(tasks)
    with _workers(jobs) as workers:
        at_work: dict[Worker, Task] = {}
        idle = list(workers)
        while True:
            for worker, task in zip(idle, todo, strict=False):
                with _while_alive(worker):
                    worker.connection.send(task)
                at_work[worker] = task
            if not at_work:
                return
            ready = wait([worker.connection for worker in at_work])
            idle = [worker for worker in at_work if worker.connection in ready]
            for worker in idle:
                yield at_work.pop(worker), _received(worker)


class Worker(NamedTuple):
    """A process, and the line to it."""

    process: BaseProcess
    connection: Connection[Task, Answer]


class WorkerDiedError(RuntimeError):
    """A process has ended, or was ended, before its work was done."""


@contextmanager
def _while_alive(worker: Worker) -> Iterator[None]:
    """Whatever goes wrong on the line to a process that has died, say that it has died."""
    try:
        yield
    except (EOFError, OSError):
        worker.process.join()
        raise WorkerDiedError(
            f"A process of the run has died (exit code {worker.process.exitcode}; -9 often means "
            f"that memory ran out). Run the command again, with fewer --jobs, to go on from here."
        ) from None


def _received(worker: Worker) -> list[Trial]:
    with _while_alive(worker):
        answer = worker.connection.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


@contextmanager
def _workers(jobs: int) -> Iterator[list[Worker]]:
    """Processes that wait for tasks; at the end they are stopped, whatever they are doing."""
    # A process that is forked off one with threads may hang.
    context = multiprocessing.get_context("spawn")
    workers: list[Worker] = []
    try:
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            workers.append(Worker(process, ours))
        yield workers
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.connection.close()


def _work(connection: Connection[Answer, Task]) -> None:
    """Run the tasks that arrive, until there is nobody left to send them."""
    # An interrupt goes to all processes of a terminal; the one that hands out tasks ends the rest.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with threadpool_limits(1):
        warm_up()
        # Whoever sends tasks may end, or be ended, at any time.
        with suppress(EOFError, OSError):
            while True:
                task = connection.recv()
                connection.send(_answer(task))


def _answer(task: Task) -> Answer:
    try:
        return run_task(task)
    except Exception as error:
        return error
