"""How many clusters get a seed, draw after draw, on the instances where the theorems fail.

Algorithm 1 draws one seed after the other, so the first t of a longer run are a run with t: one
run gives a whole curve.  It ends when it leaves no cost; what it has covered by then stays.

Cost: 3,000 runs of up to 61 draws and 600 fits, a quarter of a minute on one thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.inputs import opened
from robust_kmeans.paper.data import Choices, derived_seed
from robust_kmeans.paper.instances import Counterexample, instance_a, instance_b, instance_c
from robust_kmeans.paper.studies.result import (
    Cells,
    Floats,
    Panel,
    Report,
    StudyResult,
    Table,
    reported,
    share_curve,
)
from robust_kmeans.seeding.drawing import n_trials
from robust_kmeans.seeding.robust_draws import draw_robustly
from robust_kmeans.seeding.robust_kmeans_plusplus import RobustKMeansPlusPlus

NAME = "coverage"
TITLE = "Clusters that get a seed, where the theorems fail"

ETAS = (0.1, 0.5, 1.0, 2.0)
GREEDY = "greedy"
FIT = "RobustKMeans"
HEADER = ("instance", "seeding", "t", "t/k", "runs", "clusters", "all clusters", "ρ = 0")


@dataclass(frozen=True)
class Setting:
    """An instance, how often and how far it is drawn from, and which t the digest shows."""

    name: str
    make: Callable[[], Counterexample]
    repetitions: int
    n_draws: int
    shown: tuple[int, ...]


SETTINGS = (
    Setting("A", instance_a, repetitions=100, n_draws=60, shown=(20, 30, 40, 60)),
    Setting("B", instance_b, repetitions=400, n_draws=5, shown=(1, 2)),
    Setting("C", instance_c, repetitions=100, n_draws=60, shown=(2, 10, 20, 40, 60)),
)


class Draws(NamedTuple):
    """What runs have after 1, 2, … draws (columns): their share of the clusters, and ρ = 0 or not.

    Both of shape (runs, draws), or of one run (draws,).
    """

    covered: Floats
    no_cost: NDArray[np.bool_]


class Figures(NamedTuple):
    """All runs on one instance: the draws of each seeding, and whether fits end with ρ = 0."""

    setting: Setting
    instance: Counterexample
    draws: dict[str, Draws]
    fits: NDArray[np.bool_]


def run(choices: Choices, repetitions: int | None, report: Report) -> StudyResult:
    """Draw from the three instances, and fit them."""
    figures = measure(choices.seed, repetitions, report)
    return StudyResult(
        name=NAME,
        title=TITLE,
        text=_text(figures),
        header=HEADER,
        rows=[row for one in figures for row in _rows(one)],
        curves=(*map(_covered_panel, figures), *map(_no_cost_panel, figures)),
        digest=_digest(figures),
    )


def measure(seed: int, repetitions: int | None, report: Report) -> list[Figures]:
    """Every seeding and a fit on each instance, again and again."""
    instances = [setting.make() for setting in SETTINGS]
    draws: list[list[dict[str, Draws]]] = [[] for _ in SETTINGS]
    fits: list[list[bool]] = [[] for _ in SETTINGS]
    jobs = [
        (i, repetition)
        for i, setting in enumerate(SETTINGS)
        for repetition in range(repetitions or setting.repetitions)
    ]
    for i, repetition in reported(jobs, report):
        random_state = derived_seed(seed, repetition, "method")
        draws[i].append(draw_all(instances[i], SETTINGS[i].n_draws, random_state))
        fits[i].append(fit_leaves_no_cost(instances[i], random_state))
    return [
        Figures(SETTINGS[i], instances[i], _stacked(draws[i]), np.array(fits[i]))
        for i in range(len(SETTINGS))
    ]


def draw_all(instance: Counterexample, n_draws: int, random_state: int) -> dict[str, Draws]:
    """One run of each seeding, each from random numbers of its own."""
    options = {f"η = {eta:g}": (eta, 1) for eta in ETAS}
    options[GREEDY] = (RobustKMeansPlusPlus.eta, n_trials(None, instance.n_clusters))
    random = np.random.RandomState(random_state)
    with opened(instance.X, n_threads=1) as data:
        found = {}
        for name, (eta, trials) in options.items():
            # One draw more than asked for tells whether the last of them left a cost.
            rows = draw_robustly(
                data, n_draws + 1, instance.n_outliers, random, eta=eta, trials=trials
            )
            found[name] = _draws([row.index for row in rows], instance, n_draws)
    return found


def _draws(indices: list[int], instance: Counterexample, n_draws: int) -> Draws:
    hits = np.zeros((n_draws, instance.n_clusters), dtype=bool)
    for step, cluster in enumerate(instance.clusters[indices[:n_draws]]):
        if cluster >= 0:
            hits[step:, cluster] = True
    return Draws(hits.mean(axis=1), np.arange(1, n_draws + 1) >= len(indices))


def fit_leaves_no_cost(instance: Counterexample, random_state: int) -> bool:
    """Whether our default finds the optimum."""
    model = RobustKMeans(
        instance.n_clusters,
        n_outliers=instance.n_outliers,
        random_state=random_state,
        n_threads=1,
    )
    with warnings.catch_warnings():
        # The rows of a cluster are equal, so seeds may run out of rows that cost.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return bool(model.fit(instance.X).inertia_ == 0)


def _stacked(runs: list[dict[str, Draws]]) -> dict[str, Draws]:
    return {
        name: Draws(
            np.array([one[name].covered for one in runs]),
            np.array([one[name].no_cost for one in runs]),
        )
        for name in runs[0]
    }


# ------------------------------------------------------------------------ tables and curves


def _text(figures: list[Figures]) -> str:
    sizes = "; ".join(
        f"{setting.name}: {len(instance.X):,} rows, k = {instance.n_clusters}, "
        f"z = {instance.n_outliers:,}, {len(fits)} runs"
        for setting, instance, _, fits in figures
    )
    return (
        f"Seeds are drawn one after the other from three instances whose optimum is 0 ({sizes}): "
        f"by Algorithm 1 with η = {', '.join(f'{eta:g}' for eta in ETAS)}, and by the greedy "
        f"seeding of our default (η = {RobustKMeansPlusPlus.eta:g}, 2 + ⌊ln k⌋ candidates a "
        f"step). Figures are the share of the clusters that have a seed among the first t, and "
        f"in brackets the share of runs with ρ = 0, that is, without any cost once z rows are "
        f"left out; {FIT} is a whole fit with k centres. Bands in the picture are two standard "
        f"errors wide on each side. On A and B, ρ = 0 means a seed in every cluster. On C it does "
        f"not: once 50 outliers have become seeds, the z rows to leave out have room for all 50 "
        f"rows of the small cluster. Nor does η matter there once the large cluster has a seed: "
        f"all other rows are clipped, and the curves differ by chance only."
    )


def _rows(figures: Figures) -> list[Cells]:
    setting, instance, draws, fits = figures
    k = instance.n_clusters
    rows: list[Cells] = [
        (
            setting.name,
            name,
            step + 1,
            (step + 1) / k,
            len(covered),
            float(covered[:, step].mean()),
            float((covered[:, step] == 1).mean()),
            float(no_cost[:, step].mean()),
        )
        for name, (covered, no_cost) in draws.items()
        for step in range(setting.n_draws)
    ]
    return [*rows, (setting.name, FIT, k, 1.0, len(fits), "", "", float(fits.mean()))]


def _covered_panel(figures: Figures) -> Panel:
    return _panel(
        figures,
        "share of clusters with a seed",
        {name: draws.covered for name, draws in figures.draws.items()},
    )


def _no_cost_panel(figures: Figures) -> Panel:
    return _panel(
        figures,
        "share of runs with ρ = 0",
        {name: draws.no_cost.astype(float) for name, draws in figures.draws.items()},
    )


def _panel(figures: Figures, y_label: str, samples: dict[str, Floats]) -> Panel:
    instance = figures.instance
    ratios = np.arange(1, figures.setting.n_draws + 1) / instance.n_clusters
    return Panel(
        title=f"{figures.setting.name}: k = {instance.n_clusters}, z = {instance.n_outliers:,}",
        x_label="t/k",
        y_label=y_label,
        log_x=False,
        log_y=False,
        curves=tuple(share_curve(name, ratios, values) for name, values in samples.items()),
    )


def _digest(figures: list[Figures]) -> Table:
    names = tuple(figures[0].draws)
    rows: list[Cells] = []
    for setting, instance, draws, fits in figures:
        for t in setting.shown:
            cells = [
                f"{draws[name].covered[:, t - 1].mean():.0%} "
                f"({draws[name].no_cost[:, t - 1].mean():.0%})"
                for name in names
            ]
            fitted = f"({fits.mean():.0%})" if t == instance.n_clusters else ""
            rows.append((setting.name, t, t / instance.n_clusters, *cells, fitted))
    return Table(("instance", "t", "t/k", *names, FIT), rows)
