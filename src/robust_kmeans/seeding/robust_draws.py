"""The loop of robust-k-means++: row after row with chances ∝ min(D², τ).

    first row: uniform (by sample weight)
    repeat until there are enough:
        ρ ← trimmed cost of the rows as centres
        τ ← ∞ if z = 0, else min(previous τ, η·ρ/z)
        draw the next row with chance ∝ w·min(D², τ)
        D² ← min(D², distance to the new row)

Per step several candidates are drawn, some of them from inside the cut if so wished, and the
one with the least ρ is kept.  It is apart from the seeding so that the reduction can use it.

Cost per step: one reading of X for all candidates, one pass over D² for the draw, and per
candidate usually one for its cut and ρ.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.seeding.drawing import as_center, clipped, draw, draw_inside, first_row
from robust_kmeans.seeding.threshold import Threshold, next_threshold
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.distances import (
    ADD_CENTER,
    KEEP_TRIAL,
    LOOK_AT_TRIAL,
    TRY_CENTERS,
    Centers,
)
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import find_cut, run_and_cut, where_to_look


def draw_robustly(
    data: Execution,
    n_rows: int,
    n_outliers: float,
    random: np.random.RandomState,
    *,
    eta: float,
    trials: int,
    threshold: Threshold = "cost",
    inside: float = 0.0,
) -> list[Row]:
    """So many distinct rows; fewer where they already leave no cost."""
    n_inside = _share_of(trials, inside)
    states, row = first_row(data, random)
    states, cut = run_and_cut(data, ADD_CENTER, states, as_center(row), n_outliers)
    rows, tau = [row], np.inf
    while len(rows) < n_rows and cut.cost > 0:
        tau = next_threshold(data, states, cut, n_outliers, rule=threshold, eta=eta, last=tau)
        uniforms = random.uniform(size=trials)
        candidates = draw(data, states, clipped(tau), uniforms[n_inside:])
        if n_inside:
            candidates += draw_inside(data, states, cut, uniforms[:n_inside])
        if not candidates:  # all chances are too small for a float
            break
        states, row, cut = _best_candidate(data, states, candidates, n_outliers, cut)
        rows.append(row)
    return rows


def _share_of(trials: int, inside: float) -> int:
    """How many of a step's candidates come from inside the cut."""
    least = 1 if inside > 0 and trials > 1 else 0
    return max(least, int(np.floor(inside * trials + 0.5)))


def _best_candidate(
    data: Execution, states: States, candidates: list[Row], n_outliers: float, last: Cut
) -> tuple[States, Row, Cut]:
    """The states, row and cut of the candidate that leaves the least trimmed cost."""
    points = np.array([candidate.point for candidate in candidates])
    if len(candidates) == 1:
        states, cut = run_and_cut(data, ADD_CENTER, states, Centers(points), n_outliers, last)
        return states, candidates[0], cut
    keys = where_to_look(data.dtype, last) if n_outliers else None
    tried, histograms = data.run(TRY_CENTERS, states, Centers(points, keys))
    cuts = []
    for i, histogram in enumerate(histograms):
        trial, _ = data.run(LOOK_AT_TRIAL, tried, i)
        cuts.append(find_cut(data, trial, n_outliers, keys, histogram))
    best = min(range(len(cuts)), key=lambda i: cuts[i].cost)
    states, _ = data.run(KEEP_TRIAL, tried, best)
    return states, candidates[best], cuts[best]
