"""Where chances are clipped: the threshold τ of robust-k-means++, by one of two rules.

``cost``      τ = η·ρ/z, from the trimmed cost ρ (Deshpande & Pratap).  If no inlier is clipped,
              an outlier is drawn with chance at most η/(1 + η).
``balanced``  the τ with Σ w·min(D², τ) = (1 + 1/η)·z·τ (after Huang et al. 2024, who need a guess
              of the optimum).  No z rows weigh more than z·τ, so η/(1 + η) bounds the chance
              of an outlier whatever is clipped.  It is never above η·ρ/z, and equal to it
              where exactly z rows are clipped.

The balanced τ does not exist where less than (1 + 1/η)·z units of weight are at a distance
above 0: then the first rule is used.

Cost: none for the first; for the second usually three or four passes over D², none over X.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.sampling import BELOW

Threshold = Literal["cost", "balanced"]
RULES = ("cost", "balanced")


def check_threshold(threshold: object) -> None:
    """Refuse what is not the name of a rule."""
    if threshold not in RULES:
        raise ValueError(f"threshold={threshold!r} is not a rule; expected 'cost' or 'balanced'.")


def next_threshold(
    data: Execution,
    states: States,
    cut: Cut,
    n_outliers: float,
    *,
    rule: Threshold,
    eta: float,
    last: float,
) -> float:
    """The τ for these states; not above the `last`, which belongs to fewer centres."""
    if not n_outliers:
        return np.inf
    tau = min(last, eta * cut.cost / n_outliers)
    return tau if rule == "cost" else _balanced(data, states, tau, (1 + 1 / eta) * n_outliers)


def _balanced(data: Execution, states: States, start: float, factor: float) -> float:
    """The τ ≤ start with Σ w·min(D², τ) = factor·τ; `start` where there is none.

    The difference of the two sides is concave and piecewise linear in τ, and negative at
    `start`: so Newton's steps fall to the root, and end on the piece that holds it.
    """
    if data.total_weight - data.summarise(BELOW, states, 0.0).weight < factor:
        return start
    tau, weight = start, np.inf
    while True:
        below = data.summarise(BELOW, states, tau)
        room = factor - (data.total_weight - below.weight)
        if below.cost == 0 or room <= 0:  # only by rounding
            return tau
        root = below.cost / room
        if below.weight >= weight or root >= tau:
            return min(tau, root)
        tau, weight = root, below.weight
