"""docs/paper.md quotes what the command has written to docs/paper: here is checked that it does."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from robust_kmeans.paper.comparison import compare, targets
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.studies import STUDIES
from robust_kmeans.paper.summaries import Spread, Summary
from robust_kmeans.paper.trials import Circumstances

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "paper" / "results.md"
NAMES = {
    "Synthetic": "synthetic",
    "Shuttle, small classes as outliers": "shuttle",
    "KDD Cup 1999": "kdd",
    "Skin, noise added": "skin-noise",
    "Shuttle, noise added": "shuttle-noise",
}


def spread(cell, measure):
    parts = ("best", "average", "median", "deviation")
    return Spread(*(float(cell[f"{measure}_{part}"]) for part in parts))


@pytest.fixture(scope="module")
def summaries():
    with open(DOCS / "paper" / "summary.csv", newline="", encoding="utf-8") as file:
        return [
            Summary(
                Circumstances(
                    cell["table"], cell["data"], int(cell["n"]), int(cell["d"]), int(cell["k"]),
                    int(cell["z"]), int(cell["true_outliers"]), float(cell["beta"]),
                    float(cell["noise_scale"]) if cell["noise_scale"] else None,
                    int(cell["seed"]), cell["version"], cell["code"],
                ),
                cell["method"], cell["protocol"], int(cell["repetitions"]),
                *(spread(cell, measure) for measure in ("precision", "recall", "cost")),
                float(cell["seconds"]), float(cell["speedup"]) if cell["speedup"] else None,
            )
            for cell in csv.DictReader(file)
        ]  # fmt: skip


@pytest.fixture(scope="module")
def text():
    return (DOCS / "paper.md").read_text(encoding="utf-8")


def of(name, summaries):
    return experiments()[name], [s for s in summaries if s.circumstances.table == name]


def test_all_tables_are_complete(summaries):
    assert {summary.repetitions for summary in summaries} == {10}
    for name, experiment in experiments().items():
        here = of(name, summaries)[1]
        assert len(here) == len(experiment.settings) * 11
        assert len(compare(experiment, here)) == len(experiment.settings) * 5


def test_the_table_in_short_counts_the_verdicts(summaries, text):
    quoted = {}
    for line in text.splitlines():
        name, *cells = line.strip("| ").split(" | ")
        if name in NAMES and all(cell.isdigit() for cell in cells):
            quoted[NAMES[name]] = tuple(map(int, cells))
    counted = {}
    for name in experiments():
        lines = compare(*of(name, summaries))
        found = Counter(line.verdict for line in lines)
        counted[name] = (len(lines), found["agrees"], found["differs"], found["impossible"])
    assert quoted == counted
    assert f"**{sum(c[3] for c in counted.values())} lines cannot be right" in text


def test_our_default_reaches_what_the_page_says(summaries, text):
    reached = [
        target.cost_reached for name in experiments() for target in targets(*of(name, summaries))
    ]
    assert f"in {sum(reached)} of {len(reached)} settings" in text
    for name in ("synthetic", "skin-noise", "shuttle-noise"):
        assert all(target.precision_reached for target in targets(*of(name, summaries)))


def test_every_picture_is_there_and_shown(text):
    for shown in re.findall(r"!\[.*?\]\((.*?)\)", text + RESULTS.read_text(encoding="utf-8")):
        assert (DOCS / shown).is_file() or (RESULTS.parent / shown).is_file()
    for study in STUDIES:
        assert f"(paper/{study}.png)" in text


def test_the_page_of_results_names_the_command_and_no_folder():
    page = RESULTS.read_text(encoding="utf-8")
    assert "robust-kmeans reproduce --table all --seed 0 --noise-scale 5 --kdd auto\n" in page
    assert not re.search(r"(?<![\w/])/(home|work|tmp|root|Users)/", page)
