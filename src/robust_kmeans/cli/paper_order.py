"""What `reproduce` is asked for: which tables and studies, how often, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robust_kmeans.cli.terminal import UserError
from robust_kmeans.paper.data import Choices
from robust_kmeans.paper.experiments import Experiment, experiments
from robust_kmeans.paper.studies import STUDIES
from robust_kmeans.plotting import new_figure
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
            *(picture_of(experiment.name) for experiment in self.chosen_tables),
            *([SEEDS_PICTURE] if any(e.data == "synthetic" for e in self.chosen_tables) else []),
            *(
                name
                for study in self.chosen_studies
                for name in (picture_of(study), rows_of(study))
            ),
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


def _chosen(option: str, names: Sequence[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in (ALL, NONE, *known):
            raise UserError(f"{option} {name} is unknown; use {', '.join(known)}, {ALL} or {NONE}.")
    return [name for name in known if name in names or ALL in names]


def picture_of(name: str) -> str:
    """The picture of a table or a study."""
    return f"{name}.png"


def rows_of(name: str) -> str:
    """The figures of a study."""
    return f"{name}.csv"
