"""All that was measured as a Markdown page: the figures asked first, then every table."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import geometric_mean

import numpy as np

from speed.grid import DTYPES
from speed.machine import cache_bytes
from speed.peer_jobs import OURS
from speed.records import Place, Record
from speed.targets import BANDWIDTH_SHARE, COMPARISONS, MEMORY_PER_ROW, Comparison
from speed.tasks import CUT_AND_DRAW, READING, TO_COST

DASH = "–"
FIGURE = re.compile(rf"{DASH}|-?[\d.,]+(e[+-]\d+)?%?")
PLACE_COLUMNS = ("data", "n", "d", "k", "z", "dtype")
HEADINGS = {
    "seeding": "Seeding, one candidate per step (ms)",
    "greedy": "Greedy seeding, defaults of both (ms)",
    "filters": "Seeding with and without filters (ms)",
    "lloyd": "A Lloyd iteration without bounds (ms)",
    "converged": "An iteration of a run to rest, bounds and all else included (ms)",
    "fits": "Fits (ms), and the trimmed cost ρ of their centres",
}

Cells = Sequence[str]


def as_markdown(records: Sequence[Record], command: str, facts: Iterable[str]) -> str:
    """The page; sections for which nothing was measured are left out."""
    parts = [
        "# Speed beside other packages",
        f"Written by\n\n```\n{command}\n```\n\nDo not edit; [performance.md](../performance.md) "
        "says how it was measured.",
        "## Machine",
        "\n".join(f"- {fact}" for fact in [*facts, *_bandwidth_facts(records)]),
        "## Figures asked",
        "Ratios are times of the peer divided by ours, above 1 where we are faster.",
        _table(
            ("what", "beside", "dtype", "cells", "mean", "asked", "worst", "asked", "worst at", ""),
            [_verdict(records, each) for each in COMPARISONS if _ratios(records, each)],
        ),
    ]
    sections = {
        "Means and worst cases by dtype": _dtype_lines(records),
        "Seeding and the limit of memory": _limit_lines(records),
        "Memory beyond X": _memory_lines(records),
        "First calls": _cold_lines(records),
    }
    for heading, (columns, lines) in sections.items():
        if lines:
            parts += [f"## {heading}", _table(columns, lines)]
    for task in HEADINGS:
        columns, lines = _task_lines(records, task)
        if lines:
            parts += [f"## {HEADINGS[task]}", _table(columns, lines)]
    return "\n\n".join(parts) + "\n"


def _verdict(records: Sequence[Record], asked: Comparison) -> Cells:
    ratios = _ratios(records, asked)
    mean = geometric_mean(ratios.values())
    worst, where = min((ratio, place) for place, ratio in ratios.items())
    dtypes = sorted({place.dtype for place in ratios})
    failed = [
        word
        for word, value, least in (("mean", mean, asked.mean), ("worst", worst, asked.worst))
        if least is not None and value < least
    ]
    if asked.costs:
        failed += _cost_verdict(records, asked)
    judged = asked.mean is not None or asked.worst is not None or asked.costs
    return (
        asked.what, asked.peer, " and ".join(dtypes), str(len(ratios)), _ratio(mean),
        _ratio(asked.mean), _ratio(worst), _ratio(asked.worst), _place_name(where),
        ("not reached: " + ", ".join(failed) if failed else "reached") if judged else "",
    )  # fmt: skip


def _dtype_lines(records: Sequence[Record]) -> tuple[Cells, list[Cells]]:
    columns = ["what", "beside"]
    columns += [f"{dtype}, {each}" for dtype in DTYPES for each in ("mean", "worst")]
    lines: dict[tuple[str, str], Cells] = {}
    for asked in COMPARISONS:
        cells: list[str] = []
        for dtype in DTYPES:
            ratios = _ratios(records, replace(asked, dtypes=(dtype,))).values()
            both = (geometric_mean(ratios), min(ratios)) if ratios else (None, None)
            cells += map(_ratio, both)
        if set(cells) != {DASH}:
            lines[asked.what, asked.peer] = (asked.what, asked.peer, *cells)
    return columns, list(lines.values())


def _ratios(records: Sequence[Record], asked: Comparison) -> dict[Place, float]:
    """By place, where both were measured."""
    ours = _values(records, asked.task, asked.ours)
    theirs = _values(records, asked.task, asked.peer)
    return {
        place: ratio
        for place, mine in ours.items()
        if asked.covers(place) and (ratio := _quotient(theirs.get(place), mine))
    }


def _quotient(theirs: Record | None, ours: Record | None) -> float | None:
    """None, too, where a difference of two times was lost in noise."""
    if theirs is None or ours is None or min(theirs.value, ours.value) <= 0:
        return None
    return theirs.value / ours.value


def _cost_verdict(records: Sequence[Record], asked: Comparison) -> list[str]:
    """Where our trimmed cost is above theirs, and by how much."""
    ours, theirs = (_values(records, asked.task, peer) for peer in (asked.ours, asked.peer))
    excess = [ours[place].cost / theirs[place].cost - 1 for place in ours]
    # Sums of the same distances in another order differ by no more than this.
    higher = sum(each > 1e-6 for each in excess)
    told = f"ρ above theirs in {higher} of {len(excess)}, by {max(excess):.2%} at most"
    return [told] if higher else []


def _values(records: Sequence[Record], task: str, peer: str) -> dict[Place, Record]:
    return {
        record.place: record for record in records if (record.task, record.peer) == (task, peer)
    }


def _bandwidth_facts(records: Sequence[Record]) -> list[str]:
    read = {record.place.data: record.value for record in records if record.task == "bandwidth"}
    return [
        f"a plain streaming read by all threads, at the {when}: {value / 1e9:.1f} GB/s"
        for when, value in read.items()
    ]


def _limit_lines(records: Sequence[Record]) -> tuple[Cells, list[Cells]]:
    """Each step of seeding as if it read all rows once, beside the streaming read.

    And a reading by itself, which may serve several centres.
    """
    columns = (
        *PLACE_COLUMNS, "ms per centre", "GB/s of X", "share of the limit", "", "readings",
        "ms per reading", "GB/s of X", "share of the limit", "cut and draw of a centre (ms)",
    )  # fmt: skip
    limits = [record.value for record in records if record.task == "bandwidth"]
    readings, draws = (_values(records, "passes", name) for name in (READING, CUT_AND_DRAW))
    lines: list[Cells] = []
    for place, record in _values(records, "seeding", OURS).items():
        n_bytes = place.n * place.d * np.dtype(place.dtype).itemsize
        limit = max(limits) if limits and n_bytes > cache_bytes() else None
        step = record.value / place.k
        verdict = "in the cache"
        if limit:
            verdict = "reached" if n_bytes / step >= BANDWIDTH_SHARE * limit else "not reached"
        of_reading: Cells = (DASH,) * 5
        if place in readings:
            reading = readings[place]
            count = reading.note.split()[0]
            draw = f"{draws[place].value * 1e3:.2f}"
            of_reading = (count, *_speed(n_bytes, reading.value, limit), draw)
        lines.append((*_place(place), *_speed(n_bytes, step, limit), verdict, *of_reading))
    return columns, lines


def _speed(n_bytes: int, seconds: float, limit: float | None) -> Cells:
    """Milliseconds, GB/s, and that as a share of the limit."""
    speed = n_bytes / seconds
    share = f"{speed / limit:.0%}" if limit else DASH
    return f"{seconds * 1e3:.2f}", f"{speed / 1e9:.1f}", share


def _memory_lines(records: Sequence[Record]) -> tuple[Cells, list[Cells]]:
    """From peaks at n and n / 2 rows: what grows with n, and what does not."""
    columns = (
        *PLACE_COLUMNS, "what", "peak (MiB)", "bytes per row", "the rest (MiB)",
        f"at most {MEMORY_PER_ROW}",
    )  # fmt: skip
    found = [record for record in records if record.task == "memory"]
    peaks = {(record.place, record.peer): record.value for record in found}
    lines = []
    for record in found:
        n = record.place.n
        at_half = record.place._replace(n=n // 2, z=record.place.z // 2)
        half = peaks.get((at_half, record.peer))
        if half is not None:
            slope = (record.value - half) / (n - n // 2)
            constant = (record.value - slope * n) / 2**20
            verdict = "reached" if slope <= MEMORY_PER_ROW else "not reached"
            figures = (f"{record.value / 2**20:.1f}", f"{slope:.1f}", f"{constant:.1f}", verdict)
            lines.append((*_place(record.place), record.peer, *figures))
    return columns, lines


def _cold_lines(records: Sequence[Record]) -> tuple[Cells, list[Cells]]:
    return ("what", "seconds", ""), [
        (record.peer, f"{record.value:.3f}", record.note)
        for record in records
        if record.task == "cold"
    ]


def _task_lines(records: Sequence[Record], task: str) -> tuple[Cells, list[Cells]]:
    """A line per place: the time of each peer, its cost where fits have one, and our ratios."""
    found = [record for record in records if record.task == task]
    peers = list(dict.fromkeys(record.peer for record in found))
    judged = [
        peer for peer in peers if any(r.peer == peer and not math.isnan(r.cost) for r in found)
    ]
    asked = {
        f"× {each.peer}" + (", to its ρ" if each.ours == TO_COST else ""): each
        for each in COMPARISONS
        if each.task == task
    }
    columns = [*PLACE_COLUMNS, *peers, *(f"ρ, {peer}" for peer in judged), *asked, ""]
    at = {peer: _values(records, task, peer) for peer in peers}
    ratios = [
        _ratios(records, replace(each, dtypes=DTYPES, data=None, least_k=0))
        for each in asked.values()
    ]
    lines = []
    for place in dict.fromkeys(record.place for record in found):
        here = [at[peer].get(place) for peer in peers]
        costs = [_cost(at[peer].get(place)) for peer in judged]
        notes = dict.fromkeys(record.note for record in here if record and record.note)
        lines.append(
            (
                *_place(place),
                *map(_milliseconds, here),
                *costs,
                *(_ratio(each.get(place)) for each in ratios),
                "; ".join(notes),
            )
        )
    return columns, lines


def _place(place: Place) -> Cells:
    numbers = (place.n, place.d, place.k, place.z)
    return (place.data, *(f"{number:,}" for number in numbers), place.dtype)


def _place_name(place: Place) -> str:
    return f"{place.data}, {place.n:,} × {place.d}, k={place.k}, {place.dtype}"


def _milliseconds(record: Record | None) -> str:
    if record is None:
        return DASH
    return f"{record.value * 1e3:.4g}" if record.value > 0 else "lost in noise"


def _cost(record: Record | None) -> str:
    return DASH if record is None else f"{record.cost:.6g}"


def _ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def _table(columns: Cells, lines: Sequence[Cells]) -> str:
    """Markdown; columns of figures are aligned to the right."""
    marks = [
        "---:" if all(FIGURE.fullmatch(line[i]) for line in lines) else "---"
        for i in range(len(columns))
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, marks, *lines))
