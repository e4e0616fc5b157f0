"""The reproduction as a page of Markdown, and its summaries as a CSV file.

The page is made from what was measured and from nothing else, so that it can be made again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from robust_kmeans.paper.comparison import (
    RULE,
    Line,
    Target,
    Verdict,
    block_of,
    in_unit,
    unit,
    varying,
)
from robust_kmeans.paper.data import STAND_IN
from robust_kmeans.paper.experiments import Experiment
from robust_kmeans.paper.published import decimals
from robust_kmeans.paper.reading import CHOICES, PROTOCOLS, STAND_IN_NOTE, TIMES
from robust_kmeans.paper.studies.result import StudyResult
from robust_kmeans.paper.summaries import HEADER, Spread, Summary, as_cells, each, repetitions_of
from robust_kmeans.paper.trials import Circumstances

NOTHING = "–"


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
        The pictures' file names, relative to the page; a stand-in has none.
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
    """A study, and the names of its picture and of the file with its rows, as in a link."""

    result: StudyResult
    picture: str
    rows: str


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
    machines : sequence of str
        What it ran on; several if trials of earlier runs were taken over.
    tables : sequence of TableSection
    studies : sequence of StudySection
    notes : sequence of str
        What the reader must know, such as which table was left out.
    """

    command: str
    version: str
    seed: int
    machines: Sequence[str]
    tables: Sequence[TableSection]
    studies: Sequence[StudySection] = ()
    notes: Sequence[str] = ()


def as_markdown(results: Results) -> str:
    """The page."""
    parts = [
        *_opening(results),
        *_overview(results.tables),
        *(("## How times were taken", TIMES) if results.tables else ()),
        *(part for section in results.tables for part in _table_section(section)),
        *(part for study in results.studies for part in _study_section(study)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def write_csv(summaries: Iterable[Summary], path: Path) -> None:
    """Write a line for each summary, with all its figures and circumstances."""
    _write_rows([HEADER, *map(as_cells, summaries)], path)


def write_study_csv(result: StudyResult, path: Path) -> None:
    """Write all rows of a study, its column names first."""
    _write_rows([result.header, *result.rows], path)


def _write_rows(rows: Iterable[Iterable[object]], path: Path) -> None:
    # csv writes None as nothing, and floats with all their digits.
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _opening(results: Results) -> Iterator[str]:
    yield "# The paper's experiments, run again"
    yield (
        "Figures of A. Deshpande and R. Pratap, *Improved Outlier Robust Seeding for k-means*, "
        "beside ours. This page was written by"
    )
    yield f"```\n{results.command}\n```"
    yield f"with robust-kmeans {results.version} and seed {results.seed}, on"
    yield "\n".join(f"- {machine}" for machine in results.machines)
    if results.notes:
        yield "\n".join(f"- {note}" for note in results.notes)


def _overview(sections: Sequence[TableSection]) -> Iterator[str]:
    compared = [section for section in sections if section.lines]
    if not compared:
        return
    found = {line.verdict for section in compared for line in section.lines}
    verdicts = [name for name in get_args(Verdict) if name != "unjudged" or name in found]
    yield "## Overview"
    yield _table(
        (
            "table",
            "lines",
            *verdicts,
            "our default: cost reached",
            "our default: precision reached",
        ),
        [
            (
                section.experiment.title,
                len(section.lines),
                *(sum(line.verdict == verdict for line in section.lines) for verdict in verdicts),
                _share([target.cost_reached for target in section.targets]),
                _share([target.precision_reached for target in section.targets]),
            )
            for section in compared
        ],
    )
    yield PROTOCOLS
    yield CHOICES
    yield "## How lines are judged"
    yield RULE


def _share(reached: list[bool]) -> str:
    return f"{sum(reached)} of {len(reached)}" if reached else NOTHING


def _table_section(section: TableSection) -> Iterator[str]:
    yield f"## {section.experiment.title}"
    if section.stand_in:
        yield STAND_IN_NOTE
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
    facts = [
        f"Data: {first.data}; {each([at.n for at in blocks])} rows of "
        f"{first.d} features; z = {each([at.z for at in blocks])} rows are left out, "
        f"{each([at.true_outliers for at in blocks])} are true outliers.",
        f"β = {experiment.beta:g}; {repetitions_of(section.summaries)}.",
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
    yield f"### Cost, divided by {unit(section.experiment)}: min / avg / med"
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
    yield "See [how times were taken](#how-times-were-taken)."


def _paper_seconds(experiment: Experiment, summary: Summary) -> str:
    block = {line.method: line for line in block_of(summary, experiment)}
    return block[summary.method].seconds if summary.method in block else NOTHING


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
    yield _table(result.digest.header, [map(_shown, row) for row in result.digest.rows])
    yield f"All figures: [{study.rows}]({study.rows})"


def _table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines: list[Iterable[object]] = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: object) -> str:
    return " ".join(str(cell).replace("|", r"\|").split())


def _blocks(section: TableSection) -> list[Circumstances]:
    return list(dict.fromkeys(summary.circumstances for summary in section.summaries))


def _block_name(section: TableSection, summary: Summary) -> int:
    return varying(summary.circumstances, section.experiment)


def _method(summary: Summary) -> str:
    return f"{summary.method}, whole fit" if summary.protocol == "fit" else summary.method


def _shown(cell: str | float | int) -> str:
    return _short(cell) if isinstance(cell, float) else str(cell)


def _short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
