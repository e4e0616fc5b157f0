"""The paper's tables beside ours, as plain values (for --json) and for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from robust_kmeans.paper.comparison import Line, Verdict, in_unit, unit, varying
from robust_kmeans.paper.page import Results, TableSection
from robust_kmeans.paper.studies import StudyResult
from robust_kmeans.paper.summaries import Summary, repetitions_of
from robust_kmeans.paper.trials import Protocol

STYLES: dict[Verdict, str] = {
    "agrees": "green",
    "differs": "yellow",
    "impossible": "magenta",
    "unjudged": "dim",
}

Run = dict[Protocol, Summary]
"""A method's summaries by protocol."""


def table_facts(section: TableSection) -> dict[str, Any]:
    """All figures of a table."""
    return {
        "table": section.experiment.name,
        "lines": [asdict(line) for line in section.lines],
        "targets": [asdict(target) for target in section.targets],
        "summaries": [asdict(summary) for summary in section.summaries],
    }


def study_facts(study: StudyResult) -> dict[str, Any]:
    """All figures of a study."""
    rows = [dict(zip(study.header, row, strict=True)) for row in study.rows]
    return {"name": study.name, "title": study.title, "rows": rows}


def show(console: Console, results: Results, outputs: Sequence[str]) -> None:
    """Print the tables, what they come to, and where everything is."""
    for section in results.tables:
        console.print(_table(section))
    for sentence in _conclusions(results.tables):
        console.print(sentence, soft_wrap=True)
    for path in outputs:
        console.print(f"written: {path}", markup=False, soft_wrap=True)


def _table(section: TableSection) -> RichTable:
    experiment = section.experiment
    # Narrow enough for a terminal of 80 columns.
    table = RichTable(title=_title(section), box=box.SIMPLE_HEAD, padding=0)
    table.add_column(experiment.varies, justify="right")
    table.add_column("method", no_wrap=True)
    for name in (
        "cost\npaper", "\nseeds", "\nLloyd", "prec.\npaper", "\nseeds", "\nLloyd", "time\nms",
        "NumPy\n÷ ours",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    table.add_column("verdict", no_wrap=True)
    lines = {(line.seeds.circumstances, line.seeds.method): line for line in section.lines}
    before = None
    for (block, method), run in _runs(section).items():
        if before not in (None, block):
            table.add_section()
        before = block
        table.add_row(
            f"{varying(block, experiment):,}",
            method,
            *_cells(section, run, lines.get((block, method))),
        )
    return table


def _title(section: TableSection) -> str:
    at = section.summaries[0].circumstances
    noise = "" if at.noise_scale is None else f", noise of {at.noise_scale:g} standard deviations"
    what = "stand-in for the data, for times only" if section.stand_in else at.data
    return (
        f"{section.experiment.title} ({what}{noise}; costs ÷ {unit(section.experiment)}; averages "
        f"of {repetitions_of(section.summaries)})"
    )


def _runs(section: TableSection) -> dict[tuple[Any, str], Run]:
    runs: dict[tuple[Any, str], Run] = {}
    for summary in section.summaries:
        run = runs.setdefault((summary.circumstances, summary.method), {})
        run[summary.protocol] = summary
    return dict(sorted(runs.items(), key=lambda item: (item[0][0].k, item[0][0].z)))


def _cells(section: TableSection, run: Run, line: Line | None) -> Iterator[str]:
    """Paper, seeds and after Lloyd, for cost and precision; times; the verdict."""
    # Our default is a whole fit: its figures stand where seedings have theirs after Lloyd.
    seeds, moved = run.get("seeds"), run.get("lloyd") or run.get("fit")
    if section.stand_in:
        yield from [""] * 6
    else:
        yield line.printed.cost_avg if line else ""
        yield from (_cost(section, summary) for summary in (seeds, moved))
        yield line.printed.precision_avg if line else ""
        yield from (_precision(summary) for summary in (seeds, moved))
    summary = next(iter(run.values()))
    yield _milliseconds(summary.seconds) + ("*" if "fit" in run else "")
    yield "" if summary.speedup is None else f"{summary.speedup:.1f}"
    yield f"[{STYLES[line.verdict]}]{line.verdict}[/]" if line else ""


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.{0 if seconds >= 0.1 else 1}f}"


def _precision(summary: Summary | None) -> str:
    return "" if summary is None else f"{summary.precision.average:.2f}"


def _cost(section: TableSection, summary: Summary | None) -> str:
    if summary is None:
        return ""
    return f"{in_unit(summary.cost.average, summary, section.experiment):.2f}"


def _conclusions(sections: Sequence[TableSection]) -> Iterator[str]:
    if not sections:
        return
    yield (
        "prec.: precision; time: of the seeding, median, on one thread (* of a whole fit); NumPy ÷ "
        "ours: the time of the same seeding, done plainly in NumPy in this run, over ours."
    )
    lines = [line for section in sections for line in section.lines]
    if lines:
        found = Counter(line.verdict for line in lines)
        counts = ", ".join(f"{found[verdict]} {verdict}" for verdict in STYLES if found[verdict])
        yield f"Of {len(lines)} lines of the paper: {counts}."
    targets = [target for section in sections for target in section.targets]
    if targets:
        cost = sum(target.cost_reached for target in targets)
        precision = sum(target.precision_reached for target in targets)
        yield (
            f"RobustKMeans, in {len(targets)} settings: average cost at or below the paper's "
            f"least in {cost}, average precision at or above the paper's largest in {precision}."
        )
