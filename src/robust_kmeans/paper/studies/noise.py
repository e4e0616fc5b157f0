"""How large the noise is: two of the paper's tables call it large, and say no more.

Rows of Skin and of Shuttle get Gaussian noise of several scales.  Precision and cost of the
paper's algorithm (its seeds, and after trimmed Lloyd) and of our default are held against what
the paper prints for its algorithm: where curves meet is the scale that would explain its figure.

Cost: a fit and a seeding with Lloyd for each scale and repetition, under a minute on one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robust_kmeans.datasets import add_row_noise
from robust_kmeans.paper.data import Choices, derived_seed, load
from robust_kmeans.paper.experiments import Experiment, experiments
from robust_kmeans.paper.methods import DEFAULT, Outcome, Problem, run_method
from robust_kmeans.paper.published import Printed, published
from robust_kmeans.paper.studies.result import (
    Cells,
    Curve,
    Floats,
    Panel,
    Report,
    StudyResult,
    Table,
    part_of,
    reported,
)
from robust_kmeans.paper.trials import Protocol

NAME = "noise"
TITLE = "How large the noise is"

PAPER = "algorithm-1"
SEEDS, LLOYD = f"{PAPER}, seeds", f"{PAPER}, after Lloyd"
LABELS: dict[Protocol, str] = {"seeds": SEEDS, "lloyd": LLOYD, "fit": DEFAULT}
SCALES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
REPETITIONS = 3
HEADER = ("data", "k", "result", "noise scale", "precision", "cost")


@dataclass(frozen=True)
class Figures:
    """Precision and cost in the paper's unit, of shape (repetitions, scales), by label."""

    experiment: Experiment
    printed: Printed
    precision: dict[str, Floats]
    cost: dict[str, Floats]


def run(choices: Choices, repetitions: int | None, report: Report) -> StudyResult:
    """Add noise of every scale to both data sets, and cluster them."""
    n_runs = repetitions or REPETITIONS
    noisy = [experiment for experiment in experiments().values() if experiment.n_noisy]
    figures = [
        measure(experiment, choices, n_runs, part_of(report, number, len(noisy)))
        for number, experiment in enumerate(noisy)
    ]
    return StudyResult(
        name=NAME,
        title=TITLE,
        text=_text(figures, n_runs),
        header=HEADER,
        rows=[row for one in figures for row in _rows(one)],
        curves=tuple(panel for one in figures for panel in _panels(one)),
        digest=_digest(figures),
    )


def measure(experiment: Experiment, choices: Choices, n_runs: int, report: Report) -> Figures:
    """Both methods on the first block of a table, with noise of every scale."""
    k = experiment.settings[0].k
    _, clean, _ = load(experiment, choices)
    outcomes: dict[str, list[Outcome]] = {label: [] for label in LABELS.values()}
    jobs = [(repetition, scale) for repetition in range(n_runs) for scale in SCALES]
    for repetition, scale in reported(jobs, report):
        seed = derived_seed(choices.seed, repetition, "data")
        X, noisy = add_row_noise(clean, experiment.n_noisy, scale=scale, random_state=seed)
        problem = Problem(X, noisy, k, experiment.n_noisy, experiment.beta)
        random_state = derived_seed(choices.seed, repetition, "method")
        for method in (PAPER, DEFAULT):
            for outcome in run_method(method, problem, random_state, with_plain=False):
                outcomes[LABELS[outcome.protocol]].append(outcome)
    shape = (n_runs, len(SCALES))
    return Figures(
        experiment,
        next(
            line
            for line in published()
            if (line.table, line.method, line.k) == (experiment.name, PAPER, k)
        ),
        {
            label: np.reshape([outcome.precision for outcome in found], shape)
            for label, found in outcomes.items()
        },
        {
            label: np.reshape([outcome.cost for outcome in found], shape) / experiment.cost_unit
            for label, found in outcomes.items()
        },
    )


# ------------------------------------------------------------------------ tables and curves


def _text(figures: Sequence[Figures], n_runs: int) -> str:
    data = " and ".join(
        f"{one.experiment.n_noisy:,} rows of {_name(one)} (k = {one.printed.k})" for one in figures
    )
    return (
        f"Gaussian noise was added to {data}; its standard deviation is the scale times that of "
        f"each feature. Means of {n_runs} repetitions with fresh noise (least and largest as "
        f"bands): the seeds of {PAPER}, the same after trimmed Lloyd, and our default. Figures are "
        f"precision / cost in the paper's unit; the paper's own are the averages that it prints."
    )


def _rows(figures: Figures) -> list[Cells]:
    return [
        (
            _name(figures),
            figures.printed.k,
            label,
            scale,
            float(figures.precision[label][:, i].mean()),
            float(figures.cost[label][:, i].mean()),
        )
        for label in LABELS.values()
        for i, scale in enumerate(SCALES)
    ]


def _panels(figures: Figures) -> tuple[Panel, Panel]:
    printed = figures.printed
    return (
        _panel(figures, "precision", figures.precision, float(printed.precision_avg)),
        _panel(figures, "cost, in the paper's unit", figures.cost, float(printed.cost_avg)),
    )


def _panel(
    figures: Figures, y_label: str, samples: dict[str, Floats], in_the_paper: float
) -> Panel:
    scales = np.array(SCALES)
    level = np.full(len(scales), in_the_paper)
    return Panel(
        title=f"{_name(figures)}, k = {figures.printed.k}",
        x_label="noise scale (standard deviations)",
        y_label=y_label,
        log_x=True,
        log_y=False,
        curves=(
            *(_mean_curve(label, scales, samples[label]) for label in LABELS.values()),
            Curve(f"{PAPER} in the paper", scales, level, level, level),
        ),
    )


def _mean_curve(label: str, x: Floats, samples: Floats) -> Curve:
    return Curve(label, x, samples.mean(axis=0), samples.min(axis=0), samples.max(axis=0))


def _digest(figures: Sequence[Figures]) -> Table:
    """A line for each scale; cells are precision / cost."""
    header = ["noise scale"]
    columns = [[f"{scale:g}" for scale in SCALES] + ["the paper"]]
    for one in figures:
        for label in LABELS.values():
            header.append(f"{_name(one)}: {label}")
            means = zip(
                one.precision[label].mean(axis=0), one.cost[label].mean(axis=0), strict=True
            )
            columns.append([f"{precision:.2f} / {cost:.2f}" for precision, cost in means])
            in_the_paper = f"{one.printed.precision_avg} / {one.printed.cost_avg}"
            columns[-1].append("" if label == DEFAULT else in_the_paper)
    return Table(tuple(header), list(zip(*columns, strict=True)))


def _name(figures: Figures) -> str:
    return figures.experiment.data.capitalize()
