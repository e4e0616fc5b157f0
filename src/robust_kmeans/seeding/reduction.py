"""From many candidate centres to exactly k.

Every row joins its nearest candidate, the z farthest rows are dropped, and a candidate stands
for the rest of its rows.  Two ways to go on:

``trimmed``  A drawn outlier is at distance 0 from itself, so the cut above keeps it.  So the
             candidates, at the means of their rows, are clustered with an outlier budget of
             their own: robust seeding, then trimmed Lloyd, several times.  How much of their
             weight is outliers is not known: at most z, and at most what the t − k lightest
             weigh; restarts take turns with that, a quarter, a sixteenth and a 64th of it (of
             ten times k candidates with six of its halves).  The best of each budget is
             measured on all rows, and the one with the least trimmed cost ρ wins.  Its centres
             are means: seeds are the rows next to them.
``plain``    Weighted k-means++ among the candidates, several times; the choice that is cheapest
             on them wins (Deshpande, Kacham & Pratap 2020).  A far outlier among the candidates
             then takes a centre.

A few candidates more than k are enough (docs/evaluation.md has figures).  Rows next to the means
cost a little more than the means themselves, and trimmed Lloyd ends at the same cost.

Cost: trimmed, a reading of X for the candidates, one for their means and one for the best of all
budgets together; plain, passes over the state.  The rest is on the candidates alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels.order import value_of
from robust_kmeans.lloyd import LloydRun, trimmed_lloyd
from robust_kmeans.seeding.drawing import Seeds, as_seeds, n_trials
from robust_kmeans.seeding.kmeans_plusplus import KMeansPlusPlus
from robust_kmeans.seeding.robust_draws import draw_robustly
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.means import CLUSTER_MASS, UPDATE, ClusterShared, UpdateShared
from robust_kmeans.sweeps.order import N_BINS, KeyRange, estimates
from robust_kmeans.sweeps.rivals import JUDGE, Rivals
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import END, OCTAVE, Placed, find_cut, place, where_to_look

Reduction = Literal["trimmed", "plain"]
REDUCTIONS = ("trimmed", "plain")

N_RESTARTS = 8
"""Twice each budget: enough for up to 2k candidates; the many of ``rkm++`` want more."""
BUDGETS = (1.0, 1 / 4, 1 / 16, 1 / 64)
"""Shares of the most that may be outliers among the candidates."""
MANY_BUDGETS = tuple(2.0**-i for i in range(6))
"""For ten times k candidates, of which many are outliers: how many matters more."""
ETA = 0.5
MAX_ITER = 20
# The cut of k centres is looked for so many octaves above that of the candidates.
WIDE = 16
# Costs that differ by less than this share are the same to a seeding.
SAME_COST = 1e-3


def check_reduction(reduction: object) -> None:
    """Refuse what is not the name of a reduction."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction={reduction!r} must be 'trimmed' or 'plain'.")


class ReducedSeeding(ABC):
    """A seeding that draws k or more rows, and reduces them to k."""

    @abstractmethod
    def draw_candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> list[Row]:
        """Rows to choose from; fewer than `n_clusters` only where these leave no cost."""

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """Choose `n_clusters` rows as centres."""
        rows = self.draw_candidates(data, n_clusters, n_outliers, random)
        if len(rows) <= n_clusters:
            return as_seeds(rows, n_clusters)
        return trimmed_reduction(data, rows, n_clusters, n_outliers, random)

    def candidates(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,
        random: np.random.RandomState,
    ) -> Seeds:
        """All rows that were drawn, `n_clusters` or more."""
        rows = self.draw_candidates(data, n_clusters, n_outliers, random)
        return as_seeds(rows, max(n_clusters, len(rows)))


def trimmed_reduction(
    data: Execution,
    candidates: list[Row],
    n_clusters: int,
    n_outliers: float,
    random: np.random.RandomState,
    n_restarts: int = N_RESTARTS,
) -> Seeds:
    """Choose `n_clusters` rows that serve all rows as the candidates together would."""
    placed = place(data, np.array([row.point for row in candidates]), n_outliers)
    return reduce_placed(
        data, placed, candidates, n_clusters, n_outliers, random, n_restarts, BUDGETS
    )


def reduce_placed(
    data: Execution,
    placed: Placed,
    candidates: list[Row],
    n_clusters: int,
    n_outliers: float,
    random: np.random.RandomState,
    n_restarts: int,
    budgets: tuple[float, ...],
) -> Seeds:
    """As `trimmed_reduction`, of candidates to which all rows are assigned already."""
    centers, cut = placed.centers, placed.cut
    totals = data.summarise(UPDATE, placed.states, UpdateShared(cut, centers))
    # Of equal candidates only the first has rows.
    useful = np.flatnonzero(totals.mass > 0)
    mass = totals.mass[useful]
    if len(useful) <= n_clusters:
        return as_seeds([candidates[i] for i in useful], n_clusters)
    means = centers[useful] + totals.sums[useful] / mass[:, np.newaxis]
    budget = min(n_outliers, float(np.sort(mass)[: len(mass) - n_clusters].sum()))
    parts = [budget * share for share in budgets]
    with InMemory(means.astype(data.dtype), mass, n_threads=1) as small:
        finalists = _best_per_budget(small, n_clusters, parts, random, n_restarts)
    rows = rows_next_to_best(data, finalists, n_outliers, cut)
    # A centre may have lost its last row: the heaviest candidates stand in.
    chosen = {row.index for row in rows}
    spare = [candidates[i] for i in useful[np.argsort(-mass, kind="stable")]]
    rows += [row for row in spare if row.index not in chosen][: n_clusters - len(rows)]
    return as_seeds(rows, n_clusters)


def _best_per_budget(
    small: Execution,
    n_clusters: int,
    budgets: list[float],
    random: np.random.RandomState,
    n_restarts: int,
) -> list[NDArray[np.floating]]:
    """For each outlier budget the centres of its cheapest run on the candidates."""
    best: dict[float, LloydRun] = {}
    for restart in range(n_restarts):
        part = budgets[restart % len(budgets)]
        rows = draw_robustly(
            small, n_clusters, part, random, eta=ETA, trials=n_trials(None, n_clusters)
        )
        start = place(small, np.array([row.point for row in rows]), part)
        run = trimmed_lloyd(small, start, part, max_iter=MAX_ITER, tol=1e-4)
        if part not in best or run.inertia < best[part].inertia:
            best[part] = run
    return [run.centers for run in best.values()]


def rows_next_to_best(
    data: Execution, finalists: list[NDArray[np.floating]], n_outliers: float, cut: Cut
) -> list[Row]:
    """The rows next to those centres that leave the least trimmed cost, unless they are trimmed.

    One reading for all finalists.  It shows each cost but for the part of the rows in one bin of
    a histogram: only where that could matter, which is rare, they are measured one by one.
    """
    keys = _above(where_to_look(data.dtype, cut), data.dtype)
    judged = data.summarise(JUDGE, None, Rivals(tuple(finalists), keys))
    nothing = np.zeros((2, 1, N_BINS + 2))
    looks = [each.look for each in judged if each.look is not None]
    found = [estimates(look, keys, nothing, n_outliers, data.dtype) for look in looks]
    costs, errors = np.array([(each.costs[0], each.errors[0]) for each in found]).T
    close = np.flatnonzero(costs - errors <= np.min(costs + errors))
    if len(close) > 1 and errors[close].max() > SAME_COST * costs.min():
        for i in close:
            costs[i] = place(data, finalists[i], n_outliers).inertia
    best = int(close[np.argmin(costs[close])])
    end, _ = looks[best].bin_past(n_outliers)
    beyond = value_of(keys.low + (end << keys.shift), data.dtype) if end <= N_BINS else np.inf
    nearest = judged[best].nearest
    return [
        Row(int(index), point)
        for d2, index, point in zip(*nearest, strict=True)
        if index >= 0 and (d2 < beyond or not n_outliers)
    ]


def _above(near: KeyRange, dtype: np.dtype[Any]) -> KeyRange:
    """Keys near a cut and above it, where the cut of fewer centres is."""
    end = END[dtype]
    return KeyRange(near.low, min(near.low + WIDE * OCTAVE[dtype], end) if near.low else end)


def plain_reduction(
    data: Execution,
    states: States,
    candidates: Seeds,
    n_clusters: int,
    n_outliers: float,
    n_restarts: int,
    random: np.random.RandomState,
) -> Seeds:
    """Choose `n_clusters` of the candidates to which `states` assign all rows."""
    cut = find_cut(data, states, n_outliers)
    shared = ClusterShared(cut, len(candidates.centers))
    retained = data.summarise(CLUSTER_MASS, states, shared)
    # Repeated candidates, and those that attracted only outliers, retain nothing.
    useful = np.flatnonzero(retained > 0)
    with InMemory(candidates.centers[useful], retained[useful], n_threads=1) as small:
        chosen = useful[_cheapest_choice(small, n_clusters, n_restarts, random).indices]
    return Seeds(candidates.centers[chosen], candidates.indices[chosen])


def _cheapest_choice(
    candidates: Execution, n_clusters: int, n_restarts: int, random: np.random.RandomState
) -> Seeds:
    best, best_cost = None, np.inf
    for _ in range(n_restarts):
        seeds = KMeansPlusPlus(n_local_trials=1).seed(candidates, n_clusters, 0, random)
        cost = place(candidates, seeds.centers, n_outliers=0).inertia
        if best is None or cost < best_cost:
            best, best_cost = seeds, cost
        if cost == 0:
            break
    assert best is not None
    return best
