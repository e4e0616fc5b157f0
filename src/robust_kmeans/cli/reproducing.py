"""The command `reproduce`: the paper's tables and studies, run again, beside its figures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from robust_kmeans import __version__
from robust_kmeans.cli.fitting import Voice
from robust_kmeans.cli.machine import describe_machine
from robust_kmeans.cli.paper_tables import show, study_facts, table_facts
from robust_kmeans.cli.terminal import Tell, UserError, finished, progress, working
from robust_kmeans.datasets import DownloadProgress
from robust_kmeans.execution.memory import default_threads
from robust_kmeans.paper.comparison import compare, targets
from robust_kmeans.paper.data import Choices, Generated, Source, derived_seed, prepare
from robust_kmeans.paper.experiments import Experiment, experiments
from robust_kmeans.paper.methods import Problem, seeds_of
from robust_kmeans.paper.page import Results, StudySection, TableSection, as_markdown, write_csv
from robust_kmeans.paper.pictures import draw_distributions, draw_seeds, draw_study
from robust_kmeans.paper.runner import Task, missing_tasks, run_tasks, tasks_of, trials_of
from robust_kmeans.paper.studies import STUDIES, StudyResult
from robust_kmeans.paper.studies.result import part_of
from robust_kmeans.paper.summaries import summarise
from robust_kmeans.paper.trials import Trial, TrialFile
from robust_kmeans.plotting import new_figure
from robust_kmeans.safe_files import replacing_all
from robust_kmeans.validation import check_count, check_positive

ALL, NONE = "all", "none"
TRIALS, SUMMARY, PAGE = "trials.csv", "summary.csv", "results.md"
SEEDS_PICTURE = "seeds.png"


@dataclass(frozen=True)
class Order:
    """What the user asks for.

    Attributes
    ----------
    tables, studies : sequence of str
        Names, or "all" or "none"; no studies named means all of them with all tables, else none.
    repetitions : int or None
        None for as many as the paper has.
    choices : Choices
        About the data.
    jobs : int or None
        Processes; None for one per core.
    folder : Path
        Where everything is written.
    force : bool
        Whether to replace a page and pictures that are there.
    fresh : bool
        Whether to measure again what an earlier run has measured.
    """

    tables: Sequence[str]
    studies: Sequence[str]
    repetitions: int | None
    choices: Choices
    jobs: int | None
    folder: Path
    force: bool = False
    fresh: bool = False

    def check(self) -> None:
        """Refuse what cannot be done before any work is done."""
        for option, value in (("--repetitions", self.repetitions), ("--jobs", self.jobs)):
            if value is not None:
                check_count(option, value)
        check_positive("--noise-scale", self.choices.noise_scale)
        if not self.chosen_tables and not self.chosen_studies:
            raise UserError("--table none and --study none leave nothing to do.")
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"{self.folder} is a file; give the name of a folder.")
        if not self.folder.absolute().parent.is_dir():
            raise UserError(f"{self.folder.parent} does not exist; make this folder first.")
        for path in self.outputs():
            if path.exists() and not self.force:
                raise UserError(
                    f"{path} exists already; use --force to replace page and pictures (what was "
                    f"measured is kept), or another --output."
                )
        new_figure()  # without matplotlib this says what to install

    @property
    def chosen_tables(self) -> list[Experiment]:
        """In the order of the paper."""
        names = _chosen("--table", self.tables, list(experiments()))
        return [experiments()[name] for name in names]

    @property
    def chosen_studies(self) -> list[str]:
        """In the order of the page."""
        return _chosen("--study", self.studies or self._usual_studies, list(STUDIES))

    @property
    def _usual_studies(self) -> list[str]:
        return [ALL] if ALL in self.tables else [NONE]

    def outputs(self) -> list[Path]:
        """All files but that of the trials, which grows from run to run."""
        names = [
            SUMMARY,
            PAGE,
            *(_picture(experiment.name) for experiment in self.chosen_tables),
            *([SEEDS_PICTURE] if any(e.data == "synthetic" for e in self.chosen_tables) else []),
            *(_picture(study) for study in self.chosen_studies),
        ]
        return [self.folder / name for name in names]

    def command(self) -> str:
        """How to run it again; where files are is each user's own business."""
        options = [
            *(f"--table {name}" for name in self.tables),
            *(f"--study {name}" for name in self.studies),
            *([] if self.repetitions is None else [f"--repetitions {self.repetitions}"]),
            f"--seed {self.choices.seed}",
            f"--noise-scale {self.choices.noise_scale:g}",
            f"--kdd {self.choices.kdd}",
        ]
        return " ".join(["robust-kmeans reproduce", *options])


@dataclass(frozen=True)
class Measured:
    """An experiment, and all trials of it that were asked for."""

    experiment: Experiment
    trials: list[Trial]


def reproduce(order: Order, *, voice: Voice) -> None:
    """Measure what is missing, write page and pictures, and show the tables."""
    order.check()
    order.folder.mkdir(exist_ok=True)
    if order.fresh:
        (order.folder / TRIALS).unlink(missing_ok=True)
    file = TrialFile(order.folder / TRIALS)
    # Beside the results, where there is room for them; it may be more than a gigabyte.
    with tempfile.TemporaryDirectory(dir=order.folder, prefix=".rows-") as scratch:
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
        "machine": results.machine,
        "notes": notes,
        "tables": [table_facts(section) for section in results.tables],
        "studies": [study_facts(study) for study in studies],
        "outputs": outputs,
    }
    voice.tell(facts, lambda console, _: show(console, results, outputs))


def _chosen(option: str, names: Sequence[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in (ALL, NONE, *known):
            raise UserError(f"{option} {name} is unknown; use {', '.join(known)}, {ALL} or {NONE}.")
    return [name for name in known if name in names or ALL in names]


def _picture(name: str) -> str:
    return f"{name}.png"


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
            except OSError as error:
                if ALL not in order.tables:
                    raise
                notes.append(f"The table {experiment.name} is left out. {error}")
                voice.note(notes[-1])
    return sources, notes


def _telling_download(tell: Tell) -> Any:
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
    missing = missing_tasks(every, file)
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

        run_tasks(missing, file, order.jobs or default_threads(), report)
    return [
        Measured(experiments()[name], [t for task in group for t in trials_of(task, file)])
        for name, group in tasks.items()
    ]


def _study(order: Order, voice: Voice) -> tuple[list[StudyResult], list[str]]:
    """The studies; of all studies, those whose data can be had."""
    results, notes = [], []
    names = order.chosen_studies
    with progress(1.0, quiet=voice.quiet) as advance:
        for number, name in enumerate(names):
            report = part_of(partial(advance, what=f"study {name}"), number, len(names))
            try:
                result = STUDIES[name].run(order.choices, None, report)
            except OSError as error:
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
    measured: Iterable[Measured],
    studies: Sequence[StudyResult],
    notes: Sequence[str],
) -> Results:
    return Results(
        order.command(),
        __version__,
        order.choices.seed,
        f"{describe_machine()}; {order.jobs or default_threads()} processes of one thread each",
        [_section(each) for each in measured],
        [StudySection(study, _picture(study.name)) for study in studies],
        notes,
    )


def _section(measured: Measured) -> TableSection:
    experiment, summaries = measured.experiment, summarise(measured.trials)
    return TableSection(
        experiment,
        summaries,
        compare(experiment, summaries),
        targets(experiment, summaries),
        _picture(experiment.name),
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
            picture = places[_picture(section.experiment.name)]
            draw_distributions(section.experiment, each.trials, section.lines, picture)
            if section.seeds:
                _draw_seeds(order, section.experiment, places[section.seeds])
        for study in results.studies:
            draw_study(study.result, places[study.picture])
    finished()


def _written(order: Order, results: Results) -> list[Path]:
    left_out = {
        *(experiment.name for experiment in order.chosen_tables),
        *order.chosen_studies,
    } - {
        *(section.experiment.name for section in results.tables),
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
