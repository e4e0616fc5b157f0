"""What the repetitions of a method say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from robust_kmeans.paper.trials import Circumstances, Protocol, Trial


@dataclass(frozen=True)
class Spread:
    """A figure over the repetitions: best is the largest precision or recall, the least cost."""

    best: float
    average: float
    median: float
    deviation: float
    """Standard deviation (n − 1); 0 for a single repetition."""


@dataclass(frozen=True)
class Summary:
    """One method in one protocol, over all repetitions.

    Attributes
    ----------
    circumstances : Circumstances
    method : str
    protocol : {"seeds", "lloyd", "fit"}
    repetitions : int
    precision, recall, cost : Spread
    seconds : float
        Median of what the seeding took; for "fit" the whole fit.
    speedup : float or None
        Median over repetitions of the time in plain NumPy divided by ours.
    """

    circumstances: Circumstances
    method: str
    protocol: Protocol
    repetitions: int
    precision: Spread
    recall: Spread
    cost: Spread
    seconds: float
    speedup: float | None


def summarise(trials: Sequence[Trial]) -> list[Summary]:
    """One summary for each method, protocol and circumstances, in the order of the trials."""
    groups: dict[tuple[Circumstances, str, Protocol], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.circumstances, trial.method, trial.protocol), []).append(trial)
    return [
        Summary(
            circumstances,
            method,
            protocol,
            len(group),
            precision=_spread([trial.precision for trial in group], best=max),
            recall=_spread([trial.recall for trial in group], best=max),
            cost=_spread([trial.cost for trial in group], best=min),
            seconds=median(trial.seconds for trial in group),
            speedup=_speedup(group),
        )
        for (circumstances, method, protocol), group in groups.items()
    ]


def _spread(values: list[float], best: Callable[[list[float]], float]) -> Spread:
    return Spread(
        best(values), fmean(values), median(values), stdev(values) if len(values) > 1 else 0.0
    )


def _speedup(trials: list[Trial]) -> float | None:
    ratios = [
        trial.plain_seconds / trial.seconds for trial in trials if trial.plain_seconds is not None
    ]
    return median(ratios) if ratios else None
