"""The loop of robust-k-means++: row after row with chances ∝ min(D², τ).

    first row: uniform (by sample weight)
    repeat until there are enough:
        ρ ← trimmed cost of the rows as centres
        τ ← ∞ if z = 0, else min(previous τ, η·ρ/z)
        draw the next row with chance ∝ w·min(D², τ)
        D² ← min(D², distance to the new row)

Per step several candidates are drawn, some of them from inside the cut if so wished, and the
one with the least ρ is kept.  It is apart from the seeding so that the reduction can use it.

Cost per step: at most one reading of X for all candidates (see `growth`) and about two passes over
D²; the rest of ρ and the draw need only the rows with the largest D², unless those are many.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.execution.base import Execution
from robust_kmeans.seeding.drawing import clipped, draw, draw_inside
from robust_kmeans.seeding.growth import Growth
from robust_kmeans.seeding.threshold import Threshold, next_threshold
from robust_kmeans.sweeps.sampling import Row


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
    growth, tau = Growth(data, n_rows, n_outliers, random), np.inf
    while len(growth.rows) < n_rows and growth.cut.cost > 0:
        tau = next_threshold(
            data, growth.states, growth.cut, n_outliers, rule=threshold, eta=eta, last=tau
        )
        if trials == 1 and not n_inside:
            if not growth.add_drawn(tau):  # all chances are too small for a float
                break
            continue
        uniforms = random.uniform(size=trials)
        candidates = draw(data, growth.states, clipped(tau), uniforms[n_inside:])
        if n_inside:
            candidates += draw_inside(data, growth.states, growth.cut, uniforms[:n_inside])
        if not candidates:
            break
        growth.add_best(candidates)
    return growth.rows


def _share_of(trials: int, inside: float) -> int:
    """How many of a step's candidates come from inside the cut."""
    least = 1 if inside > 0 and trials > 1 else 0
    return max(least, int(np.floor(inside * trials + 0.5)))
