"""What the repetitions of a method say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
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


_SPREADS = ("precision", "recall", "cost")
HEADER = (
    *(field.name for field in fields(Circumstances)),
    *("method", "protocol", "repetitions"),
    *(f"{measure}_{field.name}" for measure in _SPREADS for field in fields(Spread)),
    *("seconds", "speedup"),
)


def as_cells(summary: Summary) -> tuple[object, ...]:
    """All of a summary, under the column names of `HEADER`."""
    return (
        *astuple(summary.circumstances),
        *(summary.method, summary.protocol, summary.repetitions),
        *(value for measure in _SPREADS for value in astuple(getattr(summary, measure))),
        *(summary.seconds, summary.speedup),
    )


def repetitions_of(summaries: Sequence[Summary]) -> str:
    """How many there are at most, in words."""
    most = max(summary.repetitions for summary in summaries)
    return f"{most} repetition{'' if most == 1 else 's'}"


def each(values: Sequence[int]) -> str:
    """Numbers in a row, those that come again only once."""
    return " / ".join(f"{value:,}" for value in dict.fromkeys(values))


def _spread(values: list[float], best: Callable[[list[float]], float]) -> Spread:
    return Spread(
        best(values), fmean(values), median(values), stdev(values) if len(values) > 1 else 0.0
    )


def _speedup(trials: list[Trial]) -> float | None:
    ratios = [
        trial.plain_seconds / trial.seconds for trial in trials if trial.plain_seconds is not None
    ]
    return median(ratios) if ratios else None
