"""The command `reproduce`: the paper's tables and studies, run again, beside its figures."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from robust_kmeans import __version__
from robust_kmeans.cli.paper_order import (
    ALL,
    PAGE,
    SEEDS_PICTURE,
    SUMMARY,
    TRIALS,
    Order,
    picture_of,
    rows_of,
)
from robust_kmeans.cli.paper_tables import show, study_facts, table_facts
from robust_kmeans.cli.request import Voice
from robust_kmeans.cli.terminal import Tell, UserError, finished, progress, working
from robust_kmeans.datasets import DataFileError, DownloadProgress
from robust_kmeans.datasets.download import DownloadCallback
from robust_kmeans.execution.threads import default_threads
from robust_kmeans.paper.comparison import compare, targets
from robust_kmeans.paper.data import STAND_IN, Generated, Source, derived_seed, prepare
from robust_kmeans.paper.experiments import Experiment, experiments
from robust_kmeans.paper.machine import describe_machine
from robust_kmeans.paper.methods import Problem, seeds_of
from robust_kmeans.paper.page import (
    Results,
    StudySection,
    TableSection,
    as_markdown,
    write_csv,
    write_study_csv,
)
from robust_kmeans.paper.pictures import draw_distributions, draw_seeds, draw_study
from robust_kmeans.paper.runner import (
    Task,
    WorkerDiedError,
    missing_tasks,
    run_tasks,
    tasks_of,
    warm_up,
)
from robust_kmeans.paper.studies import STUDIES, StudyResult
from robust_kmeans.paper.studies.result import part_of
from robust_kmeans.paper.summaries import summarise
from robust_kmeans.paper.trials import Trial, TrialFile
from robust_kmeans.safe_files import replacing_all

SCRATCH = ".rows-"
LEFT_BEHIND = 86400.0
"""Seconds after which rows of a run are those of one that was killed."""


@dataclass(frozen=True)
class Measured:
    """An experiment, and all trials of it that were asked for."""

    experiment: Experiment
    trials: list[Trial]


def reproduce(order: Order, *, voice: Voice) -> None:
    """Measure what is missing, write page and pictures, and show the tables."""
    order.check()
    with _folder(order.folder):
        file = TrialFile(order.folder / TRIALS)
        try:
            _reproduce(order, file, voice)
        except KeyboardInterrupt:
            if file.trials:
                voice.note(f"{file.path} has what was measured: run it again to go on from there.")
            raise
        except WorkerDiedError as error:
            raise UserError(str(error)) from error


def _reproduce(order: Order, file: TrialFile, voice: Voice) -> None:
    # Beside the results, where there is room for them; it may be more than a gigabyte.
    with tempfile.TemporaryDirectory(dir=order.folder, prefix=SCRATCH) as scratch:
        sources, notes = _sources(order, Path(scratch), voice)
        measured = _measure(order, sources, file, voice)
    studies, more_notes = _study(order, voice)
    notes += more_notes
    with working("Drawing", quiet=voice.quiet):
        results = _results(order, measured, studies, notes)
        _write(order, results, measured)
    kept = [file.path] if file.trials else []
    outputs = [str(path) for path in (*kept, *_written(order, results))]
    facts = {
        "command": results.command,
        "machines": results.machines,
        "notes": notes,
        "tables": [table_facts(section) for section in results.tables],
        "studies": [study_facts(study) for study in studies],
        "outputs": outputs,
    }
    voice.tell(facts, lambda console, _: show(console, results, outputs))


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder, made if need be; without rows that a killed run has left behind."""
    is_new = not path.exists()
    try:
        path.mkdir(exist_ok=True)
        for left in path.glob(f"{SCRATCH}*"):
            if time.time() - left.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{path} cannot be used: {error.strerror}.") from error
    if not os.access(path, os.W_OK):
        raise UserError(f"{path} cannot be written to; choose another --output.")
    try:
        yield
    finally:
        # One in which nothing was written is of no use, unless it was somebody's before.
        if is_new:
            with suppress(OSError):
                path.rmdir()


def _counted(jobs: int) -> str:
    return "one process" if jobs == 1 else f"{jobs} processes at a time, each of one thread"


# ------------------------------------------------------------------------------- measuring


def _sources(order: Order, scratch: Path, voice: Voice) -> tuple[dict[str, Source], list[str]]:
    """The data of each experiment; of all experiments, those whose data can be had."""
    sources, notes = {}, []
    with working("Reading data", quiet=voice.quiet) as tell:
        for experiment in order.chosen_tables:
            tell(f"Reading the data of {experiment.name}")
            try:
                sources[experiment.name] = prepare(
                    experiment, order.choices, scratch, _telling_download(tell)
                )
            except (OSError, DataFileError) as error:
                if ALL not in order.tables:
                    raise
                notes.append(f"The table {experiment.name} is left out. {error}")
                voice.note(notes[-1])
    return sources, notes


def _telling_download(tell: Tell) -> DownloadCallback:
    def report(step: DownloadProgress) -> None:
        of = f" of {step.n_total / 1e6:.1f}" if step.n_total else ""
        tell(f"Downloading {step.name}: {step.n_bytes / 1e6:.1f}{of} MB")

    return report


def _measure(
    order: Order, sources: dict[str, Source], file: TrialFile, voice: Voice
) -> list[Measured]:
    tasks = {
        experiment.name: tasks_of(
            experiment,
            sources[experiment.name],
            order.choices,
            order.repetitions or experiment.repetitions,
        )
        for experiment in order.chosen_tables
        if experiment.name in sources
    }
    every = [task for group in tasks.values() for task in group]
    if order.fresh:
        file.forget(task.run for task in every)
    missing = missing_tasks(every, file)
    if missing:
        with working("Compiling the kernels (first run only)", quiet=voice.quiet):
            warm_up()
    if len(missing) < len(every):
        voice.note(
            f"{len(every) - len(missing):,} of {len(every):,} runs are taken from {file.path}; "
            f"--fresh would measure them again."
        )
    with progress(sum(task.work for task in missing), quiet=voice.quiet) as advance:
        done = 0.0

        def report(task: Task) -> None:
            nonlocal done
            done += task.work
            advance(done, f"{task.circumstances.table} {task.repetition + 1}: {task.method}")

        jobs = order.jobs or default_threads()
        run_tasks(missing, file, jobs, report, f"{describe_machine()}; {_counted(jobs)}")
    return [
        Measured(experiments()[name], [trial for task in group for trial in file.of(*task.run)])
        for name, group in tasks.items()
    ]


def _study(order: Order, voice: Voice) -> tuple[list[StudyResult], list[str]]:
    """The studies; of all studies, those whose data can be had."""
    results, notes = [], []
    names = order.chosen_studies
    with progress(1.0 if names else 0.0, quiet=voice.quiet) as advance:
        for number, name in enumerate(names):
            report = part_of(partial(advance, what=f"study {name}"), number, len(names))
            try:
                result = STUDIES[name].run(order.choices, None, report)
            except (OSError, DataFileError) as error:
                if order.studies and ALL not in order.studies:
                    raise
                notes.append(f"The study {name} is left out. {error}")
                voice.note(notes[-1])
            else:
                results.append(result)
    return results, notes


# --------------------------------------------------------------------------------- writing


def _results(
    order: Order,
    measured: Sequence[Measured],
    studies: Sequence[StudyResult],
    notes: Sequence[str],
) -> Results:
    machines = dict.fromkeys(trial.machine for each in measured for trial in each.trials)
    return Results(
        order.command(),
        __version__,
        order.choices.seed,
        list(machines) or [f"{describe_machine()}; one process"],
        [_section(each) for each in measured],
        [StudySection(study, picture_of(study.name), rows_of(study.name)) for study in studies],
        notes,
    )


def _section(measured: Measured) -> TableSection:
    experiment, summaries = measured.experiment, summarise(measured.trials)
    # Figures of a stand-in say nothing: only its times are of interest.
    is_stand_in = summaries[0].circumstances.data == STAND_IN
    return TableSection(
        experiment,
        summaries,
        compare(experiment, summaries),
        targets(experiment, summaries),
        None if is_stand_in else picture_of(experiment.name),
        SEEDS_PICTURE if experiment.data == "synthetic" else None,
    )


def _write(order: Order, results: Results, measured: Sequence[Measured]) -> None:
    """All files appear together, or none."""
    paths = _written(order, results)
    with replacing_all(paths, overwrite=order.force) as temporaries:
        places = {path.name: temporary for path, temporary in zip(paths, temporaries, strict=True)}
        write_csv([s for section in results.tables for s in section.summaries], places[SUMMARY])
        places[PAGE].write_text(as_markdown(results), encoding="utf-8")
        for section, each in zip(results.tables, measured, strict=True):
            if section.distributions:
                picture = places[section.distributions]
                draw_distributions(section.experiment, each.trials, section.lines, picture)
            if section.seeds:
                _draw_seeds(order, section.experiment, places[section.seeds])
        for study in results.studies:
            draw_study(study.result, places[study.picture])
            write_study_csv(study.result, places[study.rows])
    finished()


def _written(order: Order, results: Results) -> list[Path]:
    """What there is something to write for."""
    left_out = {
        *(experiment.name for experiment in order.chosen_tables),
        *order.chosen_studies,
    } - {
        *(section.experiment.name for section in results.tables if section.distributions),
        *(study.result.name for study in results.studies),
    }
    return [path for path in order.outputs() if path.stem not in left_out]


def _draw_seeds(order: Order, experiment: Experiment, path: Path) -> None:
    """The first repetition of the last block, which has the most outliers."""
    setting, seed = experiment.settings[-1], order.choices.seed
    X, outliers = Generated(seed).instance(setting, 0)
    assert setting.z is not None
    problem = Problem(X, outliers, setting.k, setting.z, experiment.beta)
    panels = [
        (name, seeds_of(name, problem, derived_seed(seed, 0, "method")))
        for name in experiment.methods
    ]
    draw_seeds(X, outliers, panels, path)
