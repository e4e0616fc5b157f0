"""The figures that the paper prints in its five tables, read from published.csv."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files

REPETITIONS = 10
"""Over so many runs of a method the paper takes the best, the average and the median."""


@dataclass(frozen=True)
class Printed:
    """One line of one of the paper's tables; figures as printed, since their digits matter.

    Attributes
    ----------
    table : str
        The experiment's name.
    method : str
    k, z : int
        As the captions have them (for noise, z is the number of noisy rows).
    n : int
        Rows of the paper's data, outliers among them.
    true_outliers : int
    precision_max, precision_avg, precision_med : str
    recall_max, recall_avg, recall_med : str
    cost_min, cost_avg, cost_med : str
    seconds : str
        Seeding time on the paper's machine (Intel i5-3320M): never compared with ours.
    """

    table: str
    method: str
    k: int
    z: int
    n: int
    true_outliers: int
    precision_max: str
    precision_avg: str
    precision_med: str
    recall_max: str
    recall_avg: str
    recall_med: str
    cost_min: str
    cost_avg: str
    cost_med: str
    seconds: str


@cache
def published() -> tuple[Printed, ...]:
    """All 70 lines, in the order of the paper.

    Examples
    --------
    >>> from robust_kmeans.paper.published import published
    >>> first = published()[0]
    >>> first.table, first.method, first.z, first.cost_avg
    ('synthetic', 'random', 25, '1.20')
    """
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    counts = ("k", "z", "n", "true_outliers")
    return tuple(
        Printed(**row | {name: int(row[name]) for name in counts})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    )


def stands_for(figure: str) -> tuple[Fraction, Fraction]:
    """From where (included) to where (excluded) the value behind a printed figure may lie.

    That is from half a unit of the last digit below it to a whole unit above: the paper both
    rounds and cuts off (5/21 = 0.238 is printed as 0.23). Nothing it prints is negative.

    Examples
    --------
    >>> from robust_kmeans.paper.published import stands_for
    >>> low, high = stands_for("0.23")
    >>> float(low), float(high)
    (0.225, 0.24)
    """
    unit = Fraction(1, 10 ** decimals(figure))
    return max(Fraction(0), Fraction(figure) - unit / 2), Fraction(figure) + unit


def decimals(figure: str) -> int:
    """How many digits a printed figure has after its point."""
    return len(figure.partition(".")[2])
