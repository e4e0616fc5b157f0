"""The reproduction as pictures: every repetition as a dot, seeds on the data, studies as curves.

A repetition is a dot rather than part of a box: ten of them are few enough to show them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.paper.comparison import Line, in_unit, varying
from robust_kmeans.paper.experiments import Experiment
from robust_kmeans.paper.studies.result import StudyResult
from robust_kmeans.paper.summaries import Summary, each, repetitions_of, summarise
from robust_kmeans.paper.trials import Circumstances, Protocol, Trial
from robust_kmeans.plotting import DARK, HUES, new_figure

Floats = NDArray[np.floating]

# What each protocol is called, its colour, and where in a method's band it is drawn.
_LOOKS: dict[Protocol, tuple[str, str, float]] = {
    "seeds": ("seeds", HUES[1], -0.2),
    "lloyd": ("after trimmed Lloyd", HUES[0], 0.2),
    "fit": ("our default, whole fit", HUES[7], 0.0),
}
# The lightest hues come last: a thin line in them is hard to see.
_CURVES = [
    (HUES[j], marker) for j, marker in zip((0, 1, 7, 6, 4, 2, 3, 5), "osD^vP*X", strict=True)
]
_LIGHT = "#e4e4e4"
_GREY = "#8c8c8c"
_MOST_COLUMNS = 3
_MOST_MARKERS = 15
_SPAN_FOR_LOG = 20
_MOST_FOR_STEPS = 300


def draw_distributions(
    experiment: Experiment, trials: Sequence[Trial], lines: Sequence[Line], path: Path
) -> None:
    """Cost and precision of every repetition, a row of panels for each block of a table.

    Parameters
    ----------
    experiment : Experiment
    trials : sequence of Trial
        Of this experiment.
    lines : sequence of Line
        For the paper's averages; may be empty.
    path : Path
        Of the PNG file.
    """
    blocks = list(dict.fromkeys(trial.circumstances for trial in trials))
    summaries = summarise(trials)
    precisions = [trial.precision for trial in trials]
    # All panels start at 0 and have one scale, so that they can be compared by eye.
    top = 0.5 if max(precisions + [float(x.printed.precision_avg) for x in lines]) <= 0.5 else 1.0
    n_rows = len(blocks)
    figure, axes = new_figure(n_rows, 2, size=(10.0, 1.3 + 2.75 * n_rows))
    for (cost_ax, precision_ax), block in zip(axes, blocks, strict=True):
        here = [summary for summary in summaries if summary.circumstances == block]
        printed = [line for line in lines if line.seeds.circumstances == block]
        _draw_costs(cost_ax, experiment, here, trials, printed)
        _draw_precisions(precision_ax, here, trials, printed)
        precision_ax.set_xlim(-0.02 * top, 1.02 * top)
        name = f"{experiment.varies} = {varying(block, experiment):,}"
        cost_ax.set_title(name, loc="left", fontweight="bold")
    axes[-1, 0].set_xlabel(f"trimmed cost ÷ {_power(experiment.cost_unit)} (less is better)")
    axes[-1, 1].set_xlabel("precision (more is better)")
    _add_header(figure, experiment.title, _facts(blocks, repetitions_of(summaries)))
    _add_common_legend(figure)
    figure.savefig(path)


def draw_seeds(
    X: Floats, outliers: NDArray[np.bool_], panels: Sequence[tuple[str, Floats]], path: Path
) -> None:
    """Rows of two features, and on them the centres of one method in each panel.

    Parameters
    ----------
    X : array of shape (n_samples, 2)
    outliers : array of bool, of shape (n_samples,)
        Which rows are outliers by the data's own account.
    panels : sequence of (method, centers)
        Centres that are equal to an outlier's row are marked and counted.
    path : Path
        Of the PNG file.
    """
    n_rows, columns = _grid(len(panels))
    figure, axes = new_figure(n_rows, columns, size=(3.6 * columns, 0.4 + 3.65 * n_rows))
    bad_rows = set(map(tuple, X[outliers]))
    rows = set(map(tuple, X))
    for ax, (method, centers) in zip(axes.flat, panels, strict=False):
        bad = np.array([tuple(center) in bad_rows for center in centers])
        noun = "seeds" if all(tuple(center) in rows for center in centers) else "centres"
        for chosen, label, marker, colour, size in (
            (X[~outliers], "row of a cluster", "o", _GREY, 4),
            (X[outliers], "true outlier", "^", HUES[2], 12),
            (centers[~bad], "centre", "P", HUES[0], 60),
            (centers[bad], "centre on a true outlier", "X", HUES[1], 65),
        ):
            strong = label.startswith("centre")
            dots = ax.scatter(*chosen.T, s=size, marker=marker, color=colour, label=label)
            dots.set(edgecolor="white" if strong else "none", linewidth=0.7)
        ax.set_title(f"{method}: {bad.sum()} of {len(centers)} {noun} are outliers", fontsize=9.5)
        ax.set(xticks=[], yticks=[], aspect="equal")
    _remove_unused(axes, len(panels))
    _add_common_legend(figure)
    figure.savefig(path)


def draw_study(result: StudyResult, path: Path) -> None:
    """The curves of a study, each with the band that it states.

    Parameters
    ----------
    result : StudyResult
    path : Path
        Of the PNG file.
    """
    panels = result.curves
    n_rows, columns = _grid(len(panels))
    figure, axes = new_figure(n_rows, columns, size=(max(4.2 * columns, 6.4), 0.6 + 3.6 * n_rows))
    for ax, panel in zip(axes.flat, panels, strict=False):
        for number, curve in enumerate(panel.curves):
            colour, marker = _CURVES[number % len(_CURVES)]
            ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
            (line,) = ax.plot(curve.x, curve.y, color=colour, label=curve.label, marker=marker)
            line.set(markersize=4, markevery=math.ceil(len(curve.x) / _MOST_MARKERS))
        ax.set_title(panel.title, fontsize="medium")
        ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
        for which, log in (("x", panel.log_x), ("y", panel.log_y)):
            if log:
                _set_log(ax, which)
        ax.grid(color=_LIGHT)
        ax.set_axisbelow(True)
    _remove_unused(axes, len(panels))
    if len({tuple(curve.label for curve in panel.curves) for panel in panels}) == 1:
        _add_common_legend(figure)
    else:
        for ax in figure.axes:
            ax.legend(fontsize="small")
    figure.savefig(path)


def _draw_costs(
    ax: Any,
    experiment: Experiment,
    summaries: Sequence[Summary],
    trials: Sequence[Trial],
    lines: Sequence[Line],
) -> None:
    bands = [
        (summary, [in_unit(trial.cost, summary, experiment) for trial in _of(summary, trials)])
        for summary in summaries
    ]
    paper = {line.printed.method: float(line.printed.cost_avg) for line in lines}
    _draw_bands(ax, bands, paper)
    shown = [*paper.values(), *(value for _, values in bands for value in values)]
    if min(shown) > 0 and max(shown) > _SPAN_FOR_LOG * min(shown):
        _set_log(ax, "x")


def _set_log(ax: Any, which: str) -> None:
    """A logarithmic axis with ticks at 1, 2, 5, 10, …: its own are few, or overlap."""
    ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    low, high = axis.get_view_interval()
    steps = (1, 2, 5) if high < _MOST_FOR_STEPS * low else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    ticks = [step * 10.0**exponent for exponent in exponents for step in steps]
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def _draw_precisions(
    ax: Any, summaries: Sequence[Summary], trials: Sequence[Trial], lines: Sequence[Line]
) -> None:
    bands = [
        (summary, [trial.precision for trial in _of(summary, trials)]) for summary in summaries
    ]
    _draw_bands(
        ax, bands, {line.printed.method: float(line.printed.precision_avg) for line in lines}
    )
    ax.tick_params(labelleft=False)


def _of(summary: Summary, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that a summary is about."""
    return [
        trial
        for trial in trials
        if (trial.circumstances, trial.method, trial.protocol)
        == (summary.circumstances, summary.method, summary.protocol)
    ]


def _draw_bands(
    ax: Any, bands: Sequence[tuple[Summary, list[float]]], paper: dict[str, float]
) -> None:
    """A band for each method, the first on top: dots, a tick at their average, the paper's."""
    methods = list(dict.fromkeys(summary.method for summary, _ in bands))
    heights = [methods.index(summary.method) + _LOOKS[summary.protocol][2] for summary, _ in bands]
    for (summary, values), height in zip(bands, heights, strict=True):
        label, colour, _ = _LOOKS[summary.protocol]
        # Multiples of the golden ratio are spread evenly, however many there are.
        jitter = (np.arange(len(values)) * 0.618 % 1 - 0.5) * 0.2
        dots = ax.scatter(values, height + jitter, s=16, color=colour, alpha=0.6, label=label)
        dots.set(linewidth=0, gid=f"{summary.method} {summary.protocol}")
    averages = [np.mean(values) for _, values in bands]
    (ticks,) = ax.plot(averages, heights, "|", color=DARK, label="average", zorder=1)
    ticks.set(markersize=11, markeredgewidth=2)
    if paper:
        middles = [methods.index(method) for method in paper]
        diamonds = ax.scatter(list(paper.values()), middles, s=42, marker="D", gid="paper")
        diamonds.set(facecolor="none", edgecolor=DARK, linewidth=1.2, zorder=5)
        diamonds.set_label("the paper's average")
    ax.set_yticks(range(len(methods)), methods)
    ax.set_ylim(len(methods) - 0.5, -0.5)
    ax.tick_params(left=False)
    for edge in range(1, len(methods)):
        ax.axhline(edge - 0.5, color=_LIGHT, linewidth=1, zorder=0)
    ax.grid(axis="x", color=_LIGHT)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _power(unit: float) -> str:
    return f"$10^{round(math.log10(unit))}$"


def _facts(blocks: Sequence[Circumstances], repetitions: str) -> str:
    """What all panels have been measured on, in one line."""
    facts = [
        blocks[0].data,
        f"n = {each([block.n for block in blocks])}",
        f"k = {each([block.k for block in blocks])}",
        f"z = {each([block.z for block in blocks])}",
        repetitions,
    ]
    if blocks[0].noise_scale is not None:
        facts.append(f"noise of {blocks[0].noise_scale:g} standard deviations")
    return "   ·   ".join(facts)


def _add_header(figure: Any, title: str, line: str) -> None:
    """A title with a smaller line under it; the panels make room for both."""
    inches = figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.65 / inches))
    figure.text(0.5, 1 - 0.1 / inches, title, ha="center", va="top", fontsize="x-large")
    figure.text(0.5, 1 - 0.38 / inches, line, ha="center", va="top", color="#4d4d4d")


def _add_common_legend(figure: Any) -> None:
    """One legend under all panels: what is in several of them is named once."""
    handles = {
        label: handle
        for ax in figure.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    # In inches: a letter is about 0.09 wide, a mark with the space around it 0.6.
    width = 0.6 * len(handles) + 0.09 * len("".join(handles))
    n_lines = math.ceil(width / figure.get_figwidth())
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=math.ceil(len(handles) / n_lines),
        frameon=False,
    )


def _grid(n_panels: int) -> tuple[int, int]:
    """Rows and columns of panels, with as few panels short as may be."""
    n_rows = math.ceil(n_panels / _MOST_COLUMNS)
    return n_rows, math.ceil(n_panels / n_rows)


def _remove_unused(axes: NDArray[Any], used: int) -> None:
    for ax in list(axes.flat)[used:]:
        ax.remove()
