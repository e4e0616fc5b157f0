"""The evaluation as text for a terminal, and as the page docs/evaluation.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from methods import METHODS, from_planted
from results import Summary
from verdicts import Timing, Verdict
from workloads import NOISE_SCALE, Workload

METHOD_COLUMNS = (
    "method", "mean ρ", "ρ / best", "largest", "precision", "recall", "time (ms)", "readings",
)  # fmt: skip
VERDICT_COLUMNS = ("figure", "to reach", "measured", "reached")
TIME_COLUMNS = ("workload", "ours (ms)", "KMeans, n_init=1 (ms)", "KMeans, n_init=10 (ms)")
DASH = "–"

Cells = Sequence[str]


@dataclass(frozen=True)
class Report:
    """All that was found, and where."""

    workloads: Sequence[Workload]
    summaries: Sequence[Summary]
    verdicts: Sequence[Verdict]
    timings: Sequence[Timing]
    seeds: Sequence[int]
    without_reference: Sequence[str]
    left_out: Sequence[str]
    machine: str


def as_text(report: Report) -> str:
    """For a terminal: a table per workload, and the verdicts last, where they stay in sight."""
    parts = [
        f"{_title(workload)}\n{_text_table(METHOD_COLUMNS, lines)}"
        for workload, lines in _tables(report)
    ]
    if report.timings:
        parts.append(_text_table(TIME_COLUMNS, [_time_cells(t) for t in report.timings]))
    parts += [*report.left_out, *_without_reference(report)]
    if report.verdicts:
        parts.append(_text_table(VERDICT_COLUMNS, [_verdict_cells(v) for v in report.verdicts]))
    return "\n\n".join([*parts, _score(report.verdicts)])


def as_markdown(report: Report) -> str:
    """The page: the verdicts first, then how it was measured, then every table."""
    first, last = report.seeds[0], report.seeds[-1]
    parts = [
        "# Evaluation",
        "Written by `python benchmarks/evaluation.py --markdown docs/evaluation.md`; do not edit.",
        f"Every method on every workload, seeds {first} to {last}. Parameters are chosen on "
        "seeds 0 to 9, and never on the hold-out data.",
        "## Figures to reach",
        _score(report.verdicts),
        _markdown_table(VERDICT_COLUMNS, [_verdict_cells(v) for v in report.verdicts], n_words=2),
        "## How it is measured",
        _HOW,
        *_without_reference(report),
        f"Measured with {report.machine}.",
        "## Methods",
        _markdown_table(("method", "what it does"), _legend(), n_words=2),
    ]
    if report.timings:
        parts += [
            "## Time beside scikit-learn",
            "Fits in one process that take turns, the same data and threads; medians. The rows "
            "include the outliers for both.",
            _markdown_table(TIME_COLUMNS, [_time_cells(timing) for timing in report.timings]),
        ]
    group = ""
    for workload, lines in _tables(report):
        if workload.group != group:
            group = workload.group
            parts.append(f"## Workloads: {group}")
        parts += [f"### {_title(workload)}", _markdown_table(METHOD_COLUMNS, lines)]
    return "\n\n".join([*parts, *report.left_out]) + "\n"


_HOW = f"""\
- **ρ** is the sum of squared distances to the nearest centre over all rows but the z farthest,
  computed from a method's centres in plain NumPy, for all methods alike.
- **ρ / best** is relative to the best solution known of the same instance: the best of 40 long
  runs with many swaps (`benchmarks/reference.csv`), or of any run on this page. Mean and
  largest over the seeds.
- **Precision and recall** compare the z farthest rows with the planted or labelled outliers.
  On Shuttle and KDD the labelled rows are not the farthest ones: there a lower ρ can come with
  a lower precision.
- **Time** is the median over the seeds, with compiled code at hand.
- **Readings** are sweeps in which all rows go through a kernel: measuring them against centres,
  totalling clusters, the check for NaN. Passes over squared distances alone do not count. They
  are not known for scikit-learn.
- Noisy rows got Gaussian noise of {NOISE_SCALE:g} standard deviations of each feature. Skin has
  2.5 % of them and Shuttle 1,000, as in the paper, which does not say how large its noise is."""


def _without_reference(report: Report) -> list[str]:
    if not report.without_reference:
        return []
    names = ", ".join(report.without_reference)
    return [f"Without long runs, so relative to the best of the runs here only: {names}."]


def _tables(report: Report) -> Iterator[tuple[Workload, list[Cells]]]:
    for workload in report.workloads:
        here = [summary for summary in report.summaries if summary.workload == workload.name]
        if here:
            yield workload, [_method_cells(summary) for summary in here]


def _title(workload: Workload) -> str:
    return (
        f"{workload.name} ({workload.n_rows:,} × {workload.n_features}, "
        f"k = {workload.n_clusters}, z = {workload.n_outliers:,})"
    )


def _method_cells(summary: Summary) -> Cells:
    def shown(value: float | None, spec: str) -> str:
        return DASH if value is None else format(value, spec).replace("inf", "∞")

    return (
        summary.method,
        f"{summary.cost:.4g}",
        shown(summary.ratio, ".3f"),
        shown(summary.worst_ratio, ".3f"),
        shown(summary.precision, ".3f"),
        shown(summary.recall, ".3f"),
        f"{summary.seconds * 1e3:.1f}",
        shown(summary.readings, ".0f"),
    )


def _verdict_cells(verdict: Verdict) -> Cells:
    return (
        verdict.figure,
        verdict.to_reach,
        verdict.measured,
        {True: "yes", False: "NO", None: "no reference"}[verdict.reached],
    )


def _time_cells(timing: Timing) -> Cells:
    seconds = (timing.ours, timing.once, timing.ten_times)
    return (timing.workload, *(f"{value * 1e3:.0f}" for value in seconds))


def _score(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return "No figure to reach among these workloads and methods."
    n_reached = sum(verdict.reached is True for verdict in verdicts)
    n_open = sum(verdict.reached is None for verdict in verdicts)
    score = f"{n_reached} of {len(verdicts)} figures reached"
    return f"{score}, {n_open} not judged for lack of long runs." if n_open else f"{score}."


def _legend() -> list[Cells]:
    planted = from_planted(np.empty((0, 0)))
    return [(method.name, method.meaning) for method in [*METHODS, planted]]


def _text_table(header: Cells, lines: Sequence[Cells], n_words: int = 1) -> str:
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < n_words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (header, *lines)
    )


def _markdown_table(header: Cells, lines: Sequence[Cells], n_words: int = 1) -> str:
    rule = ["---" if column < n_words else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *lines))
