"""Time against n, d, k and threads: a picture per axis, with a panel per figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robust_kmeans.plotting import HUES, new_figure
from speed.peer_jobs import FAISS, INTELEX, OURS, SKLEARN
from speed.records import Record

TO_REST = "ours, run to rest"
AXES = {
    "n": "rows n",
    "d": "features d",
    "k": "clusters k",
    "threads": "threads",
}
PANELS = {
    "seeding": "seeding, one candidate per step",
    "lloyd": "a Lloyd iteration (ours: without bounds)",
    "fit": "a whole fit (KMeans: n_init=1)",
}
LOOKS = {
    OURS: (HUES[0], "o", "-"),
    TO_REST: (HUES[0], "o", ":"),
    SKLEARN: (HUES[1], "s", "-"),
    INTELEX: (HUES[7], "^", "-"),
    FAISS: (HUES[6], "D", "-"),
}
_GREY, _LIGHT = "#4d4d4d", "#e0e0e0"


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """The pictures of all axes that were measured; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for axis, label in AXES.items():
        found = [record for record in records if record.task.endswith(f" by {axis}")]
        if not found:
            continue
        figure, axes = new_figure(1, len(PANELS), size=(12.0, 4.4))
        sizes = sorted({getattr(record.place, axis) for record in found})
        for ax, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
            here = [record for record in found if record.task == f"{name} by {axis}"]
            _draw_panel(ax, axis, sizes, here)
            ax.set(title=title, xlabel=label)
        axes.flat[0].set_ylabel("seconds")
        _add_header(figure, f"Time against {label}", _facts(found, axis))
        _add_legend(figure)
        paths.append(folder / f"scaling-{axis}.png")
        figure.savefig(paths[-1])
    return paths


def _draw_panel(ax: Any, axis: str, sizes: Sequence[int], records: Sequence[Record]) -> None:
    for peer, (colour, marker, line) in LOOKS.items():
        points = sorted(
            (getattr(record.place, axis), record.value)
            for record in records
            # A difference of two times can be lost in noise.
            if record.peer == peer and record.value > 0
        )
        if points:
            at, seconds = zip(*points, strict=True)
            ax.plot(at, seconds, line, color=colour, marker=marker, markersize=5, label=peer)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(sizes, [_number(size) for size in sizes])
    # Whole decades: a range within one would be labelled by many fractions of it.
    low, high = np.log10(ax.get_ylim())
    ax.set_ylim(10.0 ** np.floor(low), 10.0 ** np.ceil(high))
    ax.minorticks_off()
    ax.grid(color=_LIGHT)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _number(size: int) -> str:
    """Short enough for a tick."""
    power = round(math.log10(size))
    return f"$10^{power}$" if power > 3 and size == 10**power else f"{size:,}"


def _facts(records: Sequence[Record], axis: str) -> str:
    """What all points of a picture have in common."""
    place = records[0].place
    shape = {"n": place.n, "d": place.d, "k": place.k, "threads": place.threads}
    told = [f"{name} = {value:,}" for name, value in shape.items() if name != axis]
    return "   ·   ".join([f"{place.data} rows in {place.dtype}", *told, "z = 1 % of the rows"])


def _add_header(figure: Any, title: str, line: str) -> None:
    """A title with a smaller line under it; the panels make room for both."""
    inches = figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.65 / inches))
    figure.text(0.5, 1 - 0.1 / inches, title, ha="center", va="top", fontsize="x-large")
    figure.text(0.5, 1 - 0.38 / inches, line, ha="center", va="top", color=_GREY)


def _add_legend(figure: Any) -> None:
    """One legend under all panels, in the same order in all pictures."""
    drawn = {
        label: handle
        for ax in figure.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    peers = [peer for peer in LOOKS if peer in drawn]
    figure.legend(
        [drawn[peer] for peer in peers],
        peers,
        loc="outside lower center",
        ncols=len(peers),
        frameon=False,
    )
