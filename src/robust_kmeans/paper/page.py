"""The reproduction as a page of Markdown, and its summaries as a CSV file.

The page is made from what was measured and from nothing else, so that it can be made again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from robust_kmeans.paper.comparison import RULE, Line, Target, in_unit
from robust_kmeans.paper.data import STAND_IN
from robust_kmeans.paper.experiments import Experiment
from robust_kmeans.paper.published import decimals, published
from robust_kmeans.paper.studies.result import StudyResult
from robust_kmeans.paper.summaries import Spread, Summary
from robust_kmeans.paper.trials import Circumstances
from robust_kmeans.safe_files import replacing

NOTHING = "–"
VERDICTS = ("agrees", "differs", "impossible")


@dataclass(frozen=True)
class TableSection:
    """One of the paper's tables, as it came out here.

    Attributes
    ----------
    experiment : Experiment
    summaries : sequence of Summary
        At least one.
    lines : sequence of Line
        Beside the paper's figures; none for a stand-in, as `compare` has it.
    targets : sequence of Target
    distributions, seeds : str, optional
        The pictures' file names, relative to the page.
    """

    experiment: Experiment
    summaries: Sequence[Summary]
    lines: Sequence[Line] = ()
    targets: Sequence[Target] = ()
    distributions: str | None = None
    seeds: str | None = None

    @property
    def stand_in(self) -> bool:
        """Whether it ran on generated rows in place of the paper's data."""
        return self.summaries[0].circumstances.data == STAND_IN


@dataclass(frozen=True)
class StudySection:
    """A study, and its picture's file name, relative to the page."""

    result: StudyResult
    picture: str


@dataclass(frozen=True)
class Results:
    """All that a page says.

    Attributes
    ----------
    command : str
        The command that was run.
    version : str
        Of robust-kmeans.
    seed : int
    machine : str
        What it ran on.
    tables : sequence of TableSection
    studies : sequence of StudySection
    notes : sequence of str
        What the reader must know, such as which table was left out.
    """

    command: str
    version: str
    seed: int
    machine: str
    tables: Sequence[TableSection]
    studies: Sequence[StudySection] = ()
    notes: Sequence[str] = ()


def as_markdown(results: Results) -> str:
    """The page."""
    parts = [
        *_opening(results),
        *_overview(results.tables),
        *(part for section in results.tables for part in _table_section(section)),
        *(part for study in results.studies for part in _study_section(study)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def write_csv(summaries: Iterable[Summary], path: Path) -> None:
    """Write a line for each summary, with all its figures and circumstances."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(_cells(summary) for summary in summaries)


_SPREADS = ("precision", "recall", "cost")
HEADER = (
    *(field.name for field in fields(Circumstances)),
    *("method", "protocol", "repetitions"),
    *(f"{measure}_{field.name}" for measure in _SPREADS for field in fields(Spread)),
    *("seconds", "speedup"),
)


def _cells(summary: Summary) -> tuple[object, ...]:
    # csv writes None as nothing, and floats with all their digits.
    return (
        *astuple(summary.circumstances),
        *(summary.method, summary.protocol, summary.repetitions),
        *(value for measure in _SPREADS for value in astuple(getattr(summary, measure))),
        *(summary.seconds, summary.speedup),
    )


def _opening(results: Results) -> Iterator[str]:
    yield "# The paper's experiments, run again"
    yield (
        "Figures of A. Deshpande and R. Pratap, *Improved Outlier Robust Seeding for k-means*, "
        "beside ours. This page was written by"
    )
    yield f"```\n{results.command}\n```"
    yield f"with robust-kmeans {results.version} and seed {results.seed}, on {results.machine}."
    if results.notes:
        yield "\n".join(f"- {note}" for note in results.notes)


def _overview(sections: Sequence[TableSection]) -> Iterator[str]:
    compared = [section for section in sections if section.lines]
    if not compared:
        return
    yield "## Overview"
    yield _table(
        (
            "table",
            "lines",
            *VERDICTS,
            "our default: cost reached",
            "our default: precision reached",
        ),
        [
            (
                section.experiment.title,
                len(section.lines),
                *(sum(line.verdict == verdict for line in section.lines) for verdict in VERDICTS),
                _share([target.cost_reached for target in section.targets]),
                _share([target.precision_reached for target in section.targets]),
            )
            for section in compared
        ],
    )
    yield (
        "Each method of the paper was run in two protocols: the seeds as they are, as the paper's "
        "text has it, and the seeds followed by trimmed Lloyd. Our default is a whole fit of "
        "`RobustKMeans(n_clusters=k, n_outliers=z)`; it reaches a figure if its average is at "
        "least as good as the best average of the block, at the paper's digits."
    )
    yield "## How lines are judged"
    yield RULE


def _share(reached: list[bool]) -> str:
    return f"{sum(reached)} of {len(reached)}" if reached else NOTHING


def _table_section(section: TableSection) -> Iterator[str]:
    yield f"## {section.experiment.title}"
    if section.stand_in:
        yield (
            "**A stand-in: generated rows, as many as the paper's data have. Only the times mean "
            "anything; no other figure would say anything about the data.**"
        )
    yield _facts(section)
    if section.lines:
        yield from _verdicts(section)
        yield from _measures(section)
        yield from _targets(section)
    yield from _times(section)
    yield from _pictures(section)


def _facts(section: TableSection) -> str:
    """What it was measured on, and how costs are to be read."""
    blocks = _blocks(section)
    first, experiment = blocks[0], section.experiment
    repetitions = max(summary.repetitions for summary in section.summaries)
    facts = [
        f"Data: {first.data}; {_each([at.n for at in blocks])} rows of "
        f"{first.d} features; z = {_each([at.z for at in blocks])} rows are left out, "
        f"{_each([at.true_outliers for at in blocks])} are true outliers.",
        f"β = {experiment.beta:g}; {repetitions} repetition{'' if repetitions == 1 else 's'}.",
    ]
    if first.noise_scale is not None:
        facts.append(
            f"The noise's standard deviation is {first.noise_scale:g} times that of each feature: "
            f"the paper does not say how large its own is."
        )
    factor = in_unit(experiment.cost_unit, section.summaries[0], experiment)
    if abs(factor - 1) > 1e-9:
        facts.append(
            f"The paper's data have more rows: our costs are multiplied by {factor:.4g}, the ratio "
            f"of the rows that are not left out, so that costs per row are compared."
        )
    return " ".join(facts)


def _verdicts(section: TableSection) -> Iterator[str]:
    yield "### Verdicts"
    yield _table(
        (section.experiment.varies, "method", "verdict", "why"),
        [
            (
                _block_name(section, line.seeds),
                line.printed.method,
                line.verdict,
                "; ".join(line.reasons) or NOTHING,
            )
            for line in section.lines
        ],
    )


def _measures(section: TableSection) -> Iterator[str]:
    """Cost, precision and recall: the paper's, and ours in both protocols."""
    blocks = _blocks(section)
    apart = [block for block in blocks if _recall_is_not_precision(section, block)]
    power = f"{section.experiment.cost_unit:.0e}".replace("e+0", "e")
    yield f"### Cost, divided by {power}: min / avg / med"
    yield _measure_table(section, "cost", blocks)
    yield f"### Precision{'' if apart else ', and recall, which is the same'}: max / avg / med"
    yield _measure_table(section, "precision", blocks)
    if apart:
        yield "### Recall, where it is not the same as precision: max / avg / med"
        yield _measure_table(section, "recall", apart)


def _recall_is_not_precision(section: TableSection, block: Circumstances) -> bool:
    return block.z != block.true_outliers or any(
        list(map(float, _printed(line, "precision"))) != list(map(float, _printed(line, "recall")))
        for line in section.lines
        if line.seeds.circumstances == block
    )


def _measure_table(section: TableSection, measure: str, blocks: Sequence[Circumstances]) -> str:
    # The same for all, as the paper prints 2.8 among figures of two digits.
    digits = max(decimals(text) for line in section.lines for text in _printed(line, measure))

    def ours(summary: Summary) -> str:
        spread: Spread = getattr(summary, measure)
        values = [spread.best, spread.average, spread.median]
        if measure == "cost":
            values = [in_unit(value, summary, section.experiment) for value in values]
        return " / ".join(f"{value:.{digits}f}" for value in values)

    rows = []
    for block in blocks:
        rows += [
            (line.seeds, " / ".join(_printed(line, measure)), ours(line.seeds), ours(line.lloyd))
            for line in section.lines
            if line.seeds.circumstances == block
        ]
        rows += [
            (summary, NOTHING, NOTHING, ours(summary))
            for summary in section.summaries
            if summary.circumstances == block and summary.protocol == "fit"
        ]
    return _table(
        (section.experiment.varies, "method", "paper", "ours, seeds", "ours, after Lloyd"),
        [(_block_name(section, summary), _method(summary), *cells) for summary, *cells in rows],
    )


def _printed(line: Line, measure: str) -> list[str]:
    best = "min" if measure == "cost" else "max"
    return [getattr(line.printed, f"{measure}_{which}") for which in (best, "avg", "med")]


def _targets(section: TableSection) -> Iterator[str]:
    yield "### Our default beside the paper's best average"
    yield _table(
        (
            section.experiment.varies,
            *("cost, ours", "cost, paper's least", "", "precision, ours"),
            *("precision, paper's largest", ""),
        ),
        [
            (
                _block_name(section, target.fit),
                target.cost,
                f"{target.paper_cost} ({target.paper_cost_method})",
                "reached" if target.cost_reached else "not reached",
                target.precision,
                f"{target.paper_precision} ({target.paper_precision_method})",
                "reached" if target.precision_reached else "not reached",
            )
            for target in section.targets
        ],
    )


def _times(section: TableSection) -> Iterator[str]:
    yield "### Seeding times"
    yield _table(
        (
            section.experiment.varies,
            "method",
            "ours on one thread, ms",
            "plain NumPy ÷ ours (above 1: ours is faster)",
            "the paper's, s (i5-3320M; context, never a speed-up)",
        ),
        [
            (
                _block_name(section, summary),
                _method(summary),
                _short(1000 * summary.seconds),
                NOTHING if summary.speedup is None else _short(summary.speedup),
                _paper_seconds(section.experiment, summary),
            )
            for summary in section.summaries
            if summary.protocol != "lloyd"
        ],
    )


def _paper_seconds(experiment: Experiment, summary: Summary) -> str:
    at = summary.circumstances
    for line in published():
        if (line.table, line.method, line.k) == (experiment.name, summary.method, at.k) and (
            experiment.varies == "k" or line.z == at.z
        ):
            return line.seconds
    return NOTHING


def _pictures(section: TableSection) -> Iterator[str]:
    title = section.experiment.title
    if section.distributions is not None:
        yield f"![{title}: cost and precision of every repetition]({section.distributions})"
    if section.seeds is not None:
        yield f"![{title}: the seeds of each method on the data]({section.seeds})"


def _study_section(study: StudySection) -> Iterator[str]:
    result = study.result
    yield f"## {result.title}"
    yield result.text
    yield f"![{result.title}]({study.picture})"
    yield _table(
        result.digest.header,
        [map(_shown, row) for row in result.digest.rows],
    )


def _table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines: list[Iterable[object]] = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: object) -> str:
    return " ".join(str(cell).replace("|", r"\|").split())


def _blocks(section: TableSection) -> list[Circumstances]:
    return list(dict.fromkeys(summary.circumstances for summary in section.summaries))


def _block_name(section: TableSection, summary: Summary) -> int:
    at = summary.circumstances
    return at.k if section.experiment.varies == "k" else at.z


def _method(summary: Summary) -> str:
    return f"{summary.method}, whole fit" if summary.protocol == "fit" else summary.method


def _each(values: Sequence[int]) -> str:
    return " / ".join(f"{value:,}" for value in dict.fromkeys(values))


def _shown(cell: str | float | int) -> str:
    return _short(cell) if isinstance(cell, float) else str(cell)


def _short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
