"""What it brings to leave out more than z rows: Lemma 1 of the paper, as an experiment.

Say that seeds S have the trimmed cost ρ > α·OPT, and Σ min(D², η·ρ/z) ≤ γ·OPT.  Then, says the
lemma, at most γ·z/(α·η) rows have D² > η·ρ/z, and the others cost at most γ·OPT: a lower cost is
bought with more rows left out.  It is true, and is measured here in two ways: the cost when
z·(1 + ε) rows may be left out, and the lemma's own set, the rows with D² > η·ρ/z.

If that set has at most z rows, the others cost at least ρ, since ρ is the least cost with z rows
left out.  So it lowers the cost only by leaving out more than z.

Cost: on each of 100 instances four seedings and a fit, some seconds on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.metrics import trim_curve_of
from robust_kmeans.paper.data import Choices, derived_seed
from robust_kmeans.paper.studies.planted import (
    DESCRIPTION,
    N_CLUSTERS,
    N_OUTLIERS,
    OUTLIER_BOXES,
    nearest_squared_distances,
    panel_title,
    planted,
)
from robust_kmeans.paper.studies.result import (
    SPREAD,
    Cells,
    Floats,
    Panel,
    Report,
    StudyResult,
    Table,
    quartile_curve,
    reported,
    spread,
)
from robust_kmeans.seeding.kmeans_plusplus import kmeans_plusplus
from robust_kmeans.seeding.robust_kmeans_plusplus import robust_kmeans_plusplus

NAME = "trade-off"
TITLE = "Lemma 1: a lower cost for more rows left out"

ETAS = (0.1, 0.5, 1.0)
EPSILONS = np.arange(21) / 20
SHOWN = (0.0, 0.1, 0.25, 0.5, 1.0)
REPETITIONS = 50
HEADER = ("outlier box", "seeding", "figure", "ε", *SPREAD)


class LemmaSet(NamedTuple):
    """What the lemma says of one run."""

    left_out: float
    """How many rows have D² > η·ρ/z, over z."""
    bound: float
    """How many they are at most by the lemma, over z: ξ/(η·ρ), with ξ = Σ min(D², η·ρ/z)."""
    rest: float
    """What the other rows cost, relative to the reference."""


class Figures(NamedTuple):
    """All runs on one kind of data: by seeding, costs (runs, ε); by η, the lemma's set."""

    outlier_box: int
    costs: dict[str, Floats]
    lemma: dict[str, list[LemmaSet]]


def run(choices: Choices, repetitions: int | None, report: Report) -> StudyResult:
    """Seed fresh instances, and measure the seeds for all budgets."""
    n_runs = repetitions or REPETITIONS
    figures = measure(choices.seed, n_runs, report)
    return StudyResult(
        name=NAME,
        title=TITLE,
        text=_text(n_runs),
        header=HEADER,
        rows=[row for one in figures for row in _rows(one)],
        curves=tuple(map(_panel, figures)),
        digest=_digest(figures),
    )


def measure(seed: int, n_runs: int, report: Report) -> list[Figures]:
    """Every seeding, again and again, on both kinds of data."""
    costs: dict[int, dict[str, list[Floats]]] = {box: {} for box in OUTLIER_BOXES}
    lemma: dict[int, dict[str, list[LemmaSet]]] = {box: {} for box in OUTLIER_BOXES}
    etas = {_label(eta): eta for eta in ETAS}
    budgets = np.round(N_OUTLIERS * (1 + EPSILONS)).astype(int)
    jobs = [(box, repetition) for box in OUTLIER_BOXES for repetition in range(n_runs)]
    for box, repetition in reported(jobs, report):
        X, reference = planted(box, seed, repetition)
        random_state = derived_seed(seed, repetition, "method")
        for name, find_centers in CENTERS.items():
            d2 = nearest_squared_distances(X, find_centers(X, random_state))
            inertia = trim_curve_of(d2, budgets).inertia
            costs[box].setdefault(name, []).append(inertia / reference)
            if name in etas:
                found = lemma_set(d2, float(inertia[0]), etas[name], reference)
                lemma[box].setdefault(name, []).append(found)
    return [
        Figures(box, {name: np.array(runs) for name, runs in costs[box].items()}, lemma[box])
        for box in OUTLIER_BOXES
    ]


def lemma_set(d2: Floats, cost: float, eta: float, reference: float) -> LemmaSet:
    """The rows that the lemma leaves out, for squared distances of trimmed cost `cost`."""
    limit = eta * cost / N_OUTLIERS
    clipped = float(np.minimum(d2, limit).sum())
    return LemmaSet(
        left_out=np.count_nonzero(d2 > limit) / N_OUTLIERS,
        bound=clipped / (eta * cost),
        rest=float(d2[d2 <= limit].sum()) / reference,
    )


def _algorithm_1(eta: float) -> Callable[[Floats, int], Floats]:
    def find_centers(X: Floats, random_state: int) -> Floats:
        seeds = robust_kmeans_plusplus(
            X,
            N_CLUSTERS,
            n_outliers=N_OUTLIERS,
            eta=eta,
            n_local_trials=1,
            random_state=random_state,
            n_threads=1,
        )
        return np.asarray(seeds.centers, np.float64)

    return find_centers


def _plain(X: Floats, random_state: int) -> Floats:
    seeds = kmeans_plusplus(X, N_CLUSTERS, n_local_trials=1, random_state=random_state, n_threads=1)
    return np.asarray(seeds.centers, np.float64)


def _default(X: Floats, random_state: int) -> Floats:
    model = RobustKMeans(N_CLUSTERS, n_outliers=N_OUTLIERS, random_state=random_state, n_threads=1)
    return np.asarray(model.fit(X).cluster_centers_, np.float64)


def _label(eta: float) -> str:
    return f"Algorithm 1, η = {eta:g}"


CENTERS: dict[str, Callable[[Floats, int], Floats]] = {
    **{_label(eta): _algorithm_1(eta) for eta in ETAS},
    "k-means++": _plain,
    "RobustKMeans": _default,
}
"""From rows and a seed to centres."""

# ------------------------------------------------------------------------ tables and curves


def _text(n_runs: int) -> str:
    etas = ", ".join(f"{eta:g}" for eta in ETAS)
    return (
        f"Seeds of Algorithm 1 (η = {etas}) and of k-means++, without Lloyd, and for scale our "
        f"default's fit, on {DESCRIPTION}, {n_runs} repetitions. For each, ρ is measured with "
        f"z·(1 + ε) rows left out, ε = {EPSILONS[0]:g} to {EPSILONS[-1]:g}, relative to ρ of "
        f"trimmed Lloyd from the planted means with z rows left out; medians, and quartiles as "
        f"bands. The last three columns are the lemma's own set: how many rows have D² > η·ρ/z, "
        f"over z (mean), in which share of runs they are at most z, and what the other rows cost "
        f"(median)."
    )


def _rows(figures: Figures) -> list[Cells]:
    rows: list[Cells] = []
    for name, costs in figures.costs.items():
        rows += [
            (figures.outlier_box, name, "ρ", float(epsilon), *spread(costs[:, i]))
            for i, epsilon in enumerate(EPSILONS)
        ]
    for name, runs in figures.lemma.items():
        left_out, bound, rest = np.array(runs).T
        share = float((left_out <= 1).mean())
        rows += [
            (figures.outlier_box, name, "rows with D² > η·ρ/z, over z", "", *spread(left_out)),
            (figures.outlier_box, name, "the lemma's bound on them, over z", "", *spread(bound)),
            (figures.outlier_box, name, "share of runs with at most z", "", share, "", "", ""),
            (figures.outlier_box, name, "cost of the other rows", "", *spread(rest)),
        ]
    return rows


def _panel(figures: Figures) -> Panel:
    return Panel(
        title=panel_title(figures.outlier_box),
        x_label="ε: z·(1 + ε) rows left out",
        y_label="ρ, relative to the planted means'",
        log_x=False,
        log_y=True,
        curves=tuple(
            quartile_curve(name, EPSILONS, costs) for name, costs in figures.costs.items()
        ),
    )


def _digest(figures: list[Figures]) -> Table:
    columns = [EPSILONS.tolist().index(epsilon) for epsilon in SHOWN]
    rows: list[Cells] = []
    for outlier_box, all_costs, lemma in figures:
        for name, costs in all_costs.items():
            medians = [f"{np.median(costs[:, i]):.2f}" for i in columns]
            rows.append((outlier_box, name, *medians, *_lemma_cells(lemma.get(name))))
    epsilons = (f"ε = {epsilon:g}" for epsilon in SHOWN)
    return Table(
        ("outlier box", "seeding", *epsilons, "D² > η·ρ/z", "at most z", "cost of the rest"), rows
    )


def _lemma_cells(runs: list[LemmaSet] | None) -> tuple[str, ...]:
    if runs is None:
        return ("", "", "")
    left_out, _, rest = np.array(runs).T
    return f"{left_out.mean():.2f}", f"{(left_out <= 1).mean():.0%}", f"{np.median(rest):.2f}"
