"""What every study gives: a text, a table, and curves to draw; and how its curves are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.paper.data import Choices

Report = Callable[[float], None]
"""Told which part of a study is done, from 0 to 1."""

Cells = tuple[str | float | int, ...]
Floats = NDArray[np.float64]
Job = TypeVar("Job")

SPREAD = ("mean", "lower quartile", "median", "upper quartile")


class Table(NamedTuple):
    """Column names, and lines of as many cells."""

    header: tuple[str, ...]
    rows: list[Cells]


@dataclass(frozen=True, eq=False)
class Curve:
    """Points from left to right, and a band around them."""

    label: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves that share their axes."""

    title: str
    x_label: str
    y_label: str
    log_x: bool
    log_y: bool
    curves: tuple[Curve, ...]


@dataclass(frozen=True, eq=False)
class StudyResult:
    """A study that has been run.

    Attributes
    ----------
    name : str
        What the command calls it.
    title : str
    text : str
        What was run, in Markdown.
    header : tuple of str
        Column names of `rows`.
    rows : list of tuple
        All figures, one statement a line.
    curves : tuple of Panel
    digest : Table
        The figures worth reading, few enough for a page.
    """

    name: str
    title: str
    text: str
    header: tuple[str, ...]
    rows: list[Cells]
    curves: tuple[Panel, ...]
    digest: Table


class Study(Protocol):
    """A module with a study: its name, its title, and how to run it."""

    NAME: str
    TITLE: str

    def run(self, choices: Choices, repetitions: int | None, report: Report) -> StudyResult:
        """Run it; `repetitions` is None for as many as it has by default."""


def reported(jobs: Sequence[Job], report: Report) -> Iterator[Job]:
    """One job after the other, with a report after each."""
    for done, job in enumerate(jobs, start=1):
        yield job
        report(done / len(jobs))


def part_of(report: Report, number: int, n_parts: int) -> Report:
    """A report for one of several parts of equal length, the first of which has number 0."""
    return lambda share: report((number + share) / n_parts)


def spread(values: Floats) -> tuple[float, float, float, float]:
    """The cells for the columns of `SPREAD`."""
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(values.mean()), float(low), float(median), float(high)


def share_curve(label: str, x: Floats, samples: Floats) -> Curve:
    """Means of shares over the runs (rows of `samples`), give or take two standard errors."""
    mean, spread = samples.mean(axis=0), samples.std(axis=0)
    error = 2 * spread / np.sqrt(len(samples))
    return Curve(label, x, mean, np.maximum(mean - error, 0), np.minimum(mean + error, 1))


def quartile_curve(label: str, x: Floats, samples: Floats) -> Curve:
    """Medians over the runs (rows of `samples`), with the quartiles as a band."""
    low, median, high = np.quantile(samples, (0.25, 0.5, 0.75), axis=0)
    return Curve(label, x, median, low, high)
