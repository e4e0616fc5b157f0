"""The page of the reproduction: what it says, read back from its tables."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans.paper.comparison import RULE, in_unit
from robust_kmeans.paper.data import STAND_IN
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.page import (
    Results,
    StudySection,
    as_markdown,
    write_csv,
    write_study_csv,
)
from robust_kmeans.paper.published import published
from robust_kmeans.paper.reading import CHOICES, TIMES
from robust_kmeans.paper.studies.result import Curve, Panel, StudyResult, Table
from tests.paper_results import made_section

NAMES = list(experiments())


def page(*sections, studies=(), notes=(), machines=("two cores",)):
    command = "robust-kmeans reproduce --seed 7"
    return as_markdown(Results(command, "1.2.3", 7, machines, sections, studies, notes))


def cells(line):
    """The cells of a table's line; an escaped | belongs to its cell."""
    assert line.startswith("| ")
    assert line.endswith(" |")
    return [cell.replace(r"\|", "|") for cell in re.split(r"(?<!\\) \| ", line[2:-2])]


def tables(text):
    """Each table by the heading above it: lists of cells, the header first."""
    found, heading = {}, ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.strip("# ").partition(":")[0].partition(",")[0]
        elif line.startswith("|"):
            found.setdefault(heading, []).append(cells(line))
    return found


def study():
    one = np.ones(2)
    panel = Panel("p", "x", "y", False, False, (Curve("c", one, one, one, one),))
    digest = Table(("instance", "share | of runs"), [("A", 0.123456), ("B|C", 12345)])
    rows = [("A, B", 1, 0.1 + 0.2), ("ρ", 20, "")]
    return StudyResult("s", "A study", "Its *text*.", ("η", "t", "x"), rows, (panel,), digest)


@settings(max_examples=20, deadline=None)
@given(
    names=st.lists(st.sampled_from(NAMES), unique=True),
    repetitions=st.integers(1, 3),
    reason=st.text(st.sampled_from("a|\\\n `*"), max_size=8),
    with_study=st.booleans(),
)
def test_every_line_of_a_table_has_as_many_cells_as_its_header(
    names, repetitions, reason, with_study
):
    sections = [made_section(name, repetitions) for name in names]
    sections = [
        replace(s, lines=[replace(line, reasons=(reason, "x|y")) for line in s.lines])
        for s in sections
    ]
    text = page(*sections, studies=[StudySection(study(), "s.png", "s.csv")] if with_study else [])
    header = None
    for line in text.splitlines():
        if not line.startswith("|"):
            header = None
        elif header is None:
            header = cells(line)
        else:
            assert len(cells(line)) == len(header)


def test_a_bar_in_a_reason_stays_in_its_cell():
    section = made_section("kdd")
    lines = [replace(section.lines[0], reasons=("1|2", "and\nmore"))]
    found = tables(page(replace(section, lines=lines)))["Verdicts"]
    assert found[2][3] == "1|2; and more"


@pytest.mark.parametrize("name", NAMES)
def test_every_line_has_the_papers_figures_beside_ours(name):
    section = made_section(name)
    found = tables(page(section))
    for measure, best in (("Cost", "min"), ("Precision", "max")):
        shown = {(row[0], row[1]): row[2:] for row in found[measure]}
        for line in section.lines:
            block = str(getattr(line.seeds.circumstances, section.experiment.varies))
            paper, seeds, lloyd = shown[block, line.printed.method]
            figures = [
                getattr(line.printed, f"{measure.lower()}_{x}") for x in (best, "avg", "med")
            ]
            assert paper == " / ".join(figures)
            for text, summary in ((seeds, line.seeds), (lloyd, line.lloyd)):
                spread = getattr(summary, measure.lower())
                ours = [spread.best, spread.average, spread.median]
                if measure == "Cost":
                    ours = [in_unit(value, summary, section.experiment) for value in ours]
                assert text == " / ".join(f"{value:.2f}" for value in ours)


def test_lines_that_are_not_judged_have_a_column_only_if_there_are_some():
    judged, once = made_section("shuttle"), made_section("shuttle", repetitions=1)
    assert "unjudged" not in tables(page(judged))["Overview"][0]
    header, _, *rows = tables(page(judged, once))["Overview"]
    assert header[2:6] == ["agrees", "differs", "impossible", "unjudged"]
    impossible = sum(line.verdict == "impossible" for line in once.lines)
    assert [row[5] for row in rows] == ["0", str(len(once.lines) - impossible)]
    assert rows[1][2:5] == ["0", "0", str(impossible)]


def test_the_overview_counts_all_verdicts():
    sections = [made_section(name) for name in NAMES]
    overview = tables(page(*sections))["Overview"][2:]
    assert [row[0] for row in overview] == [section.experiment.title for section in sections]
    assert [int(row[1]) for row in overview] == [len(section.lines) for section in sections]
    for row, section in zip(overview, sections, strict=True):
        assert sum(map(int, row[2:5])) == int(row[1])
        impossible = sum(line.verdict == "impossible" for line in section.lines)
        assert int(row[4]) == impossible
        reached = sum(target.cost_reached for target in section.targets)
        assert row[5] == f"{reached} of {len(section.targets)}"


def test_the_page_says_how_it_was_made_and_judged():
    text = page(made_section("skin-noise", repetitions=1), notes=["kdd is left out."])
    for said in ("robust-kmeans reproduce --seed 7", "robust-kmeans 1.2.3", "seed 7", "two cores"):
        assert said in text
    assert RULE.strip() in text
    assert CHOICES.strip() in text
    assert "- kdd is left out." in text
    assert "1 repetition." in text
    assert "4.5 times that of each feature" in text


def test_all_machines_are_named():
    assert "on\n\n- one; 2 processes\n- another; 4 processes\n" in page(
        machines=("one; 2 processes", "another; 4 processes")
    )


def test_noise_is_spoken_of_only_where_there_is_some():
    assert "noise's standard deviation" not in page(made_section("synthetic"))


def test_a_sample_of_the_rows_has_its_factor_stated():
    assert "multiplied by 10, " in page(made_section("kdd", share=0.1))
    assert "multiplied by 1" not in page(made_section("kdd"))


def test_recall_is_shown_where_it_is_not_precision():
    # Synthetic data: the paper's pairs differ for z = 100 only.
    assert {row[0] for row in tables(page(made_section("synthetic")))["Recall"][2:]} == {"100"}
    assert {row[0] for row in tables(page(made_section("shuttle")))["Recall"][2:]} == {
        "5", "10", "15",
    }  # fmt: skip
    assert "Recall" not in tables(page(made_section("kdd")))


def test_targets_say_whether_they_are_reached():
    section = made_section("kdd")
    first = replace(section.targets[0], cost_reached=False, precision_reached=True)
    found = tables(page(replace(section, targets=[first])))[
        "Our default beside the paper's best average"
    ]
    assert found[2][0] == "3"
    assert found[2][2] == f"{first.paper_cost} ({first.paper_cost_method})"
    assert [found[2][3], found[2][6]] == ["not reached", "reached"]


@pytest.mark.parametrize("name", NAMES)
def test_times_are_ours_and_the_papers_are_quoted(name):
    _, _, *rows = tables(page(made_section(name)))["Seeding times"]
    found = {(row[0], row[1]): row[2:] for row in rows}
    # Seeds have one time, whether Lloyd follows or not.
    assert len(rows) == len(found) == 6 * len(experiments()[name].settings)
    varies = experiments()[name].varies
    for line in (line for line in published() if line.table == name):
        assert found[str(getattr(line, varies)), line.method] == ["12.3", "2", line.seconds]
    fits = [row for (_, method), row in found.items() if method == "RobustKMeans, whole fit"]
    assert fits == [["500", "–", "–"]] * len(experiments()[name].settings)


def test_of_a_stand_in_only_times_are_shown():
    section = made_section("kdd", data=STAND_IN)
    text = page(section)
    assert "**A stand-in" in text
    assert list(tables(text)) == ["Seeding times"]
    assert "![" not in text


def test_how_times_were_taken_is_said_once_and_linked_from_every_table():
    text = page(made_section("kdd", data=STAND_IN), made_section("synthetic"))
    assert text.count(f"## How times were taken\n\n{TIMES}") == 1
    assert text.count("(#how-times-were-taken)") == 2
    assert "times were taken" not in page(studies=[StudySection(study(), "s.png", "s.csv")])


def test_pictures_are_linked_where_there_are_some():
    text = page(made_section("synthetic", distributions="a.png", seeds="b.png"))
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text) == ["a.png", "b.png"]
    assert "![" not in page(made_section("synthetic"))


def test_a_study_has_its_text_its_picture_and_its_digest():
    text = page(studies=[StudySection(study(), "s.png", "s.csv")])
    assert "Its *text*.\n\n![A study](s.png)" in text
    assert tables(text)["A study"] == [
        ["instance", "share | of runs"], ["---", "---"], ["A", "0.123"], ["B|C", "12345"],
    ]  # fmt: skip
    assert "[s.csv](s.csv)" in text


def test_the_rows_of_a_study_are_written_with_all_digits(tmp_path):
    write_study_csv(study(), tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text(encoding="utf-8").splitlines() == [
        "η,t,x", '"A, B",1,0.30000000000000004', "ρ,20,",
    ]  # fmt: skip


def test_the_csv_file_has_every_figure(tmp_path):
    summaries = made_section("skin-noise").summaries
    write_csv(summaries, tmp_path / "summary.csv")
    with open(tmp_path / "summary.csv", encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(summaries)
    for row, summary in zip(read, summaries, strict=True):
        assert (row["method"], row["protocol"]) == (summary.method, summary.protocol)
        assert int(row["k"]) == summary.circumstances.k
        assert float(row["noise_scale"]) == 4.5
        assert float(row["cost_best"]) == summary.cost.best
        assert float(row["precision_average"]) == summary.precision.average
        assert float(row["recall_median"]) == summary.recall.median
        assert float(row["cost_deviation"]) == summary.cost.deviation
        assert row["speedup"] == ("" if summary.speedup is None else "2.0")
