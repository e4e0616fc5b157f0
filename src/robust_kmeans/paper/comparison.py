"""Our figures beside the paper's, and a verdict on each line of its tables: see RULE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import sqrt
from typing import Literal, NamedTuple

from scipy import stats

from robust_kmeans.paper.data import STAND_IN
from robust_kmeans.paper.experiments import Experiment, Setting
from robust_kmeans.paper.impossible import RULE as IMPOSSIBLE
from robust_kmeans.paper.impossible import impossible, remarks
from robust_kmeans.paper.published import (
    REPETITIONS,
    Printed,
    decimals,
    published,
    stands_for,
)
from robust_kmeans.paper.summaries import Spread, Summary
from robust_kmeans.paper.trials import Circumstances, Protocol

Verdict = Literal["agrees", "differs", "impossible", "unjudged"]

RULE = f"""\
{IMPOSSIBLE}
A single repetition has no spread: any other line is then unjudged. From two repetitions on, it
agrees if the averages of cost, precision and recall all agree, either for the seeds as they are or
after trimmed Lloyd; else it differs. An average agrees if it is one of the values that the printed
figure stands for, or at most t · s · √(1/10 + 1/r) away from them: s is the standard deviation of
our r repetitions, the root makes it the standard error of a difference between the paper's average
of ten and ours, and t is the 97.5 % quantile of Student's distribution with r − 1 degrees of
freedom.

Costs are divided by the paper's unit. On a sample of the paper's rows they are also multiplied by
how many more rows the paper keeps (n − z): compared is the cost per kept row.

What this assumes:

- The paper's ten runs vary as ours do. On Synthetic, each of ours has a fresh instance; if the
  paper used one instance for all ten, its averages may lie farther from ours than this allows.
- Our noise is drawn once for all repetitions of a table, so s does not say how much another draw
  of it would change.
- Our methods and blocks share the random numbers of a repetition: lines are not independent, and
  what chance does to one it may do to several.
"""


@dataclass(frozen=True)
class Line:
    """One line of a table: what the paper prints, and what came out here.

    Attributes
    ----------
    printed : Printed
    seeds, lloyd : Summary
        Ours, for the seeds as they are and after trimmed Lloyd.
    verdict : {"agrees", "differs", "impossible", "unjudged"}
    reasons : tuple of str
        Why, in a few words each: for "agrees" in which protocols; for "differs" which averages,
        in the protocol that comes nearer; for "unjudged" that there is one repetition only.
    """

    printed: Printed
    seeds: Summary
    lloyd: Summary
    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """Our default beside the best of a block of the paper's table.

    Attributes
    ----------
    fit : Summary
        Of our default.
    paper_cost : str
        The least average cost that the paper prints, and of which method.
    paper_cost_method : str
    cost : str
        Our average, in the paper's unit and at its digits.
    cost_reached : bool
    paper_precision, paper_precision_method, precision : str
        The same for the largest average precision.
    precision_reached : bool
    """

    fit: Summary
    paper_cost: str
    paper_cost_method: str
    cost: str
    cost_reached: bool
    paper_precision: str
    paper_precision_method: str
    precision: str
    precision_reached: bool


def compare(experiment: Experiment, summaries: Sequence[Summary]) -> list[Line]:
    """A line for every line of the paper's table whose figures are among the summaries.

    Parameters
    ----------
    experiment : Experiment
    summaries : sequence of Summary
        Of this experiment. Those on stand-in data, and methods with only one of the protocols
        "seeds" and "lloyd", have no line.

    Returns
    -------
    list of Line
        In the order of the paper.
    """
    seeds = _of_protocol("seeds", summaries)
    lloyd = _of_protocol("lloyd", summaries)
    return [
        _line(printed, seeds[circumstances, method], lloyd[circumstances, method], experiment)
        for printed in _lines_of(experiment)
        for circumstances, method in seeds
        if method == printed.method
        and (circumstances, method) in lloyd
        and _same_block(circumstances, printed, experiment)
    ]


def targets(experiment: Experiment, summaries: Sequence[Summary]) -> list[Target]:
    """Our default beside the best of each block.

    Parameters
    ----------
    experiment : Experiment
    summaries : sequence of Summary
        Of this experiment. Those on stand-in data have no target.

    Returns
    -------
    list of Target
        In the order of the paper.
    """
    return [
        _target(fit, experiment)
        for setting in experiment.settings
        for fit in _of_protocol("fit", summaries).values()
        if _same_block(fit.circumstances, setting, experiment)
    ]


def in_unit(cost: float, summary: Summary, experiment: Experiment) -> float:
    """A cost in the paper's unit; on a sample of the paper's rows, as if it had all of them."""
    ours, paper = summary.circumstances, block_of(summary, experiment)[0]
    return cost / experiment.cost_unit * ((paper.n - paper.z) / (ours.n - ours.z))


def unit(experiment: Experiment) -> str:
    """What the paper divides costs by, such as 1e8."""
    return f"{experiment.cost_unit:.0e}".replace("e+0", "e")


def varying(at: Circumstances | Printed | Setting, experiment: Experiment) -> int:
    """The k or z by which the blocks of a table are told apart."""
    value: int = getattr(at, experiment.varies)
    return value


def block_of(summary: Summary, experiment: Experiment) -> list[Printed]:
    """The paper's lines for the same block."""
    return [
        line
        for line in _lines_of(experiment)
        if _same_block(summary.circumstances, line, experiment)
    ]


def _of_protocol(
    protocol: Protocol, summaries: Sequence[Summary]
) -> dict[tuple[Circumstances, str], Summary]:
    return {
        (summary.circumstances, summary.method): summary
        for summary in summaries
        if summary.protocol == protocol and summary.circumstances.data != STAND_IN
    }


def _lines_of(experiment: Experiment) -> list[Printed]:
    return [line for line in published() if line.table == experiment.name]


def _same_block(ours: Circumstances, paper: Printed | Setting, experiment: Experiment) -> bool:
    # Only what varies: on a sample of the paper's rows there are fewer outliers.
    return varying(ours, experiment) == varying(paper, experiment)


def _line(printed: Printed, seeds: Summary, lloyd: Summary, experiment: Experiment) -> Line:
    verdict, reasons = _judged(printed, seeds, lloyd, experiment)
    return Line(printed, seeds, lloyd, verdict, reasons + remarks(printed))


def _judged(
    printed: Printed, seeds: Summary, lloyd: Summary, experiment: Experiment
) -> tuple[Verdict, tuple[str, ...]]:
    if reasons := impossible(printed):
        return "impossible", reasons
    if min(seeds.repetitions, lloyd.repetitions) < 2:
        return "unjudged", ("one repetition has no spread",)
    misses = {
        "as seeds": _misses(printed, seeds, experiment),
        "after Lloyd": _misses(printed, lloyd, experiment),
    }
    if agreeing := tuple(protocol for protocol, found in misses.items() if not found):
        return "agrees", agreeing
    nearer = min(misses, key=lambda protocol: sum(miss.share for miss in misses[protocol]))
    # Where z is the number of true outliers, precision and recall are one figure: said once.
    measures: dict[str, list[str]] = {}
    for miss in misses[nearer]:
        measures.setdefault(miss.words, []).append(miss.measure)
    return "differs", (
        f"nearer {nearer}",
        *(f"{' and '.join(names)} {words}" for words, names in measures.items()),
    )


class _Miss(NamedTuple):
    """An average that does not agree: by which share of the paper's, and in words."""

    measure: str
    share: float
    words: str


def _misses(printed: Printed, summary: Summary, experiment: Experiment) -> list[_Miss]:
    cost = Spread(*(in_unit(value, summary, experiment) for value in astuple(summary.cost)))
    errors = stats.t.ppf(0.975, summary.repetitions - 1) * sqrt(
        1 / REPETITIONS + 1 / summary.repetitions
    )
    found = []
    for measure, figure, spread in (
        ("cost", printed.cost_avg, cost),
        ("precision", printed.precision_avg, summary.precision),
        ("recall", printed.recall_avg, summary.recall),
    ):
        low, high = stands_for(figure)
        margin = errors * spread.deviation
        if float(low) - margin <= spread.average < float(high) + margin:
            continue
        paper = float(figure)
        side = "below" if spread.average < paper else "above"
        found.append(
            _Miss(
                measure,
                abs(spread.average - paper) / paper,
                f"{_at_digits_of(figure, spread.average)} {side} {figure}",
            )
        )
    return found


def _at_digits_of(figure: str, value: float) -> str:
    return f"{value:.{decimals(figure)}f}"


def _target(fit: Summary, experiment: Experiment) -> Target:
    block = block_of(fit, experiment)
    cheapest = min(block, key=lambda line: float(line.cost_avg))
    most_precise = max(block, key=lambda line: float(line.precision_avg))
    cost = _at_digits_of(cheapest.cost_avg, in_unit(fit.cost.average, fit, experiment))
    precision = _at_digits_of(most_precise.precision_avg, fit.precision.average)
    return Target(
        fit,
        paper_cost=cheapest.cost_avg,
        paper_cost_method=cheapest.method,
        cost=cost,
        cost_reached=float(cost) <= float(cheapest.cost_avg),
        paper_precision=most_precise.precision_avg,
        paper_precision_method=most_precise.method,
        precision=precision,
        precision_reached=float(precision) >= float(most_precise.precision_avg),
    )
