"""What more than k seeds bring: t = (1 + c)·k of them, all kept or reduced to k.

The paper's second theorem is about all t seeds of Algorithm 1.  Who wants k clusters has to
reduce them (see `robust_kmeans.seeding.reduction`).  The plain reduction, weighted k-means++ on the
seeds as is usual, chooses k of them, which cost at least what all t cost.  The trimmed reduction is
no such choice: it clusters the means of the seeds' rows with an outlier budget of their own, and
ends at the rows next to its centres, which may cost less than all t seeds together.  The first t
seeds of a longer run are a run with t, so one run serves all c.

Cost: mostly 300 trimmed reductions, half a minute on one thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution
from robust_kmeans.inputs import opened
from robust_kmeans.paper.data import Choices, derived_seed
from robust_kmeans.paper.instances import instance_a
from robust_kmeans.paper.studies.planted import (
    DESCRIPTION,
    N_CLUSTERS,
    N_OUTLIERS,
    OUTLIER_BOXES,
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
    share_curve,
    spread,
)
from robust_kmeans.seeding.drawing import as_seeds
from robust_kmeans.seeding.reduction import N_RESTARTS, plain_reduction, trimmed_reduction
from robust_kmeans.seeding.robust_draws import draw_robustly
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import place

NAME = "bi-criteria"
TITLE = "More than k seeds: t = (1 + c)·k"

ETAS = (1.0, 0.1)
OVERSAMPLING = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 3.0])
REPETITIONS = 15
REPETITIONS_ON_A = 100
KEPT, TRIMMED, PLAIN = "all t kept", "k, trimmed reduction", "k, plain reduction"
HEADER = ("data", "η", "c", "t", "centres", "figure", "runs", *SPREAD)


class Figures(NamedTuple):
    """All runs with one η: costs (runs, c) by data and centres; on A whether ρ = 0 (runs, c)."""

    costs: dict[tuple[int, str], Floats]
    no_cost: NDArray[np.bool_]


def run(choices: Choices, repetitions: int | None, report: Report) -> StudyResult:
    """Draw t seeds for each c, keep or reduce them, and measure what they leave."""
    n_runs, n_runs_on_a = repetitions or REPETITIONS, repetitions or REPETITIONS_ON_A
    figures = measure(choices.seed, n_runs, n_runs_on_a, report)
    return StudyResult(
        name=NAME,
        title=TITLE,
        text=_text(n_runs, n_runs_on_a),
        header=HEADER,
        rows=_rows(figures),
        curves=(*_cost_panels(figures), _no_cost_panel(figures)),
        digest=_digest(figures),
    )


def measure(seed: int, n_runs: int, n_runs_on_a: int, report: Report) -> dict[float, Figures]:
    """By η, what the seeds cost on planted data, and whether they cost nothing on A."""
    # First, since it takes little time and is not reported.
    no_cost = {eta: no_cost_on_a(eta, seed, n_runs_on_a) for eta in ETAS}
    costs: dict[float, dict[tuple[int, str], list[list[float]]]] = {eta: {} for eta in ETAS}
    jobs = [
        (repetition, box, eta)
        for repetition in range(n_runs)
        for box in OUTLIER_BOXES
        for eta in ETAS
    ]
    for repetition, box, eta in reported(jobs, report):
        X, reference = planted(box, seed, repetition)
        random = np.random.RandomState(derived_seed(seed, repetition, "method"))
        with opened(X, n_threads=1) as data:
            found = costs_by_oversampling(data, eta, random)
        for centers, values in found.items():
            relative = [value / reference for value in values]
            costs[eta].setdefault((box, centers), []).append(relative)
    return {
        eta: Figures({key: np.array(runs) for key, runs in costs[eta].items()}, no_cost[eta])
        for eta in ETAS
    }


def costs_by_oversampling(
    data: Execution, eta: float, random: np.random.RandomState
) -> dict[str, list[float]]:
    """ρ of the first t seeds of one run, kept and reduced, for each c."""
    k, z = N_CLUSTERS, N_OUTLIERS
    most = int(n_seeds(k)[-1])
    drawn = draw_robustly(data, most, z, random, eta=eta, trials=1)
    found: dict[str, list[float]] = {KEPT: [], TRIMMED: [], PLAIN: []}
    for t in n_seeds(k):
        rows = drawn[:t]
        kept = place(data, _points(rows), z)
        found[KEPT].append(kept.inertia)
        if t == k:
            found[TRIMMED].append(kept.inertia)
            found[PLAIN].append(kept.inertia)
            continue
        trimmed = trimmed_reduction(data, rows, k, z, random)
        plain = plain_reduction(
            data, kept.states, as_seeds(rows, len(rows)), k, z, N_RESTARTS, random
        )
        found[TRIMMED].append(place(data, trimmed.centers, z).inertia)
        found[PLAIN].append(place(data, plain.centers, z).inertia)
    return found


def no_cost_on_a(eta: float, seed: int, n_runs: int) -> NDArray[np.bool_]:
    """For each run on instance A and each c, whether the first t seeds leave no cost."""
    instance = instance_a()
    k, z = instance.n_clusters, instance.n_outliers
    lengths = []
    with opened(instance.X, n_threads=1) as data:
        for repetition in range(n_runs):
            random = np.random.RandomState(derived_seed(seed, repetition, "method"))
            # One more than asked for: a run that ends before it left no cost.
            most = int(n_seeds(k)[-1]) + 1
            lengths.append(len(draw_robustly(data, most, z, random, eta=eta, trials=1)))
    no_cost: NDArray[np.bool_] = np.array(lengths)[:, np.newaxis] <= n_seeds(k)
    return no_cost


def n_seeds(n_clusters: int) -> NDArray[np.int64]:
    """The t for each c."""
    return np.round((1 + OVERSAMPLING) * n_clusters).astype(np.int64)


def _points(rows: list[Row]) -> Floats:
    return np.array([row.point for row in rows])


# ------------------------------------------------------------------------ tables and curves


def _text(n_runs: int, n_runs_on_a: int) -> str:
    etas = " and ".join(f"{eta:g}" for eta in ETAS)
    more = ", ".join(f"{c:g}" for c in OVERSAMPLING)
    return (
        f"Algorithm 1 (η = {etas}) draws t = (1 + c)·k seeds, c = {more}, on {DESCRIPTION}, "
        f"{n_runs} repetitions. ρ is measured for all t seeds, and for k centres after each of two "
        f"reductions ({N_RESTARTS} restarts each). The plain one chooses k of the seeds by "
        f"weighted k-means++, so it never costs less than all t. The trimmed one gathers the rows "
        f"of each seed, clusters the means of these groups by trimmed Lloyd with several outlier "
        f"budgets, and takes the rows next to the centres that are best on the data: they need "
        f"not be among the seeds, and may cost less than all t together. No Lloyd follows. Costs "
        f"are relative to ρ of trimmed Lloyd from the planted means; medians, and quartiles as "
        f"bands. With more than k centres they may be below 1. On instance A, whose optimum is 0, "
        f"it is the share of {n_runs_on_a} runs in which all t seeds together leave no cost; its "
        f"bands are two standard errors wide on each side."
    )


def _rows(figures: dict[float, Figures]) -> list[Cells]:
    rows: list[Cells] = []
    for eta, (costs, no_cost) in figures.items():
        for (box, centers), runs in costs.items():
            rows += [
                (f"outlier box {box}", eta, c, t, centers, "ρ", len(runs), *spread(runs[:, i]))
                for i, (c, t) in enumerate(_steps())
            ]
        rows += [
            ("instance A", eta, c, t, KEPT, "share of runs with ρ = 0", len(no_cost),
             float(no_cost[:, i].mean()), "", "", "")
            for i, (c, t) in enumerate(_steps())
        ]  # fmt: skip
    return rows


def _steps() -> list[tuple[float, int]]:
    """All c and t; instance A has as many clusters as the planted data."""
    return list(zip(OVERSAMPLING.tolist(), n_seeds(N_CLUSTERS).tolist(), strict=True))


def _cost_panels(figures: dict[float, Figures]) -> list[Panel]:
    return [
        Panel(
            title=f"η = {eta:g}, {panel_title(box)}",
            x_label="t/k",
            y_label="ρ, relative to the planted means'",
            log_x=False,
            log_y=True,
            curves=tuple(
                quartile_curve(centers, 1 + OVERSAMPLING, one.costs[box, centers])
                for centers in (KEPT, TRIMMED, PLAIN)
            ),
        )
        for eta, one in figures.items()
        for box in OUTLIER_BOXES
    ]


def _no_cost_panel(figures: dict[float, Figures]) -> Panel:
    return Panel(
        title="instance A, all t kept",
        x_label="t/k",
        y_label="share of runs with ρ = 0",
        log_x=False,
        log_y=False,
        curves=tuple(
            share_curve(f"η = {eta:g}", 1 + OVERSAMPLING, one.no_cost.astype(float))
            for eta, one in figures.items()
        ),
    )


def _digest(figures: dict[float, Figures]) -> Table:
    rows: list[Cells] = []
    for eta, (costs, no_cost) in figures.items():
        for (box, centers), runs in costs.items():
            medians = [f"{median:.2f}" for median in np.median(runs, axis=0)]
            rows.append((f"outlier box {box}: ρ", f"{eta:g}", centers, *medians))
        shares = [f"{share:.0%}" for share in no_cost.mean(axis=0)]
        rows.append(("instance A: runs with ρ = 0", f"{eta:g}", KEPT, *shares))
    return Table(("data", "η", "centres", *(f"c = {c:g}" for c in OVERSAMPLING)), rows)
