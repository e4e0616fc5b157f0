"""Every benchmark runs once, tiny: so that none has rotted when it is needed."""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DTYPES = ("float32", "float64")


@pytest.fixture
def run(tmp_path):
    def run_benchmark(name, *options):
        done = subprocess.run(
            [sys.executable, BENCHMARKS / name, "--quick", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run_benchmark


def test_comparison_has_a_row_for_every_task_and_dtype(run, tmp_path):
    printed = run("against_sklearn.py", "--threads", "1", "--csv", "rows.csv")
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    tasks = ("seeding", "greedy seeding", "Lloyd iterations 2-12")
    assert [(row["data"], row["dtype"], row["task"]) for row in rows[:-3]] == list(
        product(("gaussian", "clustered"), DTYPES, tasks)
    )
    assert {(row["n"], row["d"], row["k"], row["z"]) for row in rows[:-1]} == {
        ("20000", "9", "20", "200")
    }
    # Times are not judged here: a single tiny run says nothing about them.
    assert all(float(row["ratio"]) for row in rows[:-3])
    assert [row["task"] for row in rows[-3:]] == [
        "first call, writable",
        "first call, read-only",
        "import",
    ]
    assert [line.split() for line in printed[-len(rows) :]] == [
        " ".join(row.values()).split() for row in rows
    ]


def test_assignment_is_timed_for_every_shape(run):
    header, *lines = run("assignment.py")
    assert header.split()[:4] == ["dtype", "d", "k", "rows"]
    widths = (3, 9, 34, 64, 128, 256, 784)
    assert [tuple(line.split()[:3]) for line in lines] == [
        (dtype, str(d), str(k)) for dtype, k, d in product(DTYPES, (10, 50, 200, 1000), widths)
    ]


def test_counts_of_outliers_have_a_line_for_every_workload(run, tmp_path):
    header, *lines = run("outlier_counts.py", "--markdown", "page.md")
    assert header.split()[:5] == ["workload", "n", "d", "k", "box"]
    assert len(lines) == 58
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert sum(line.startswith("| ") for line in page.splitlines()) == 60


def test_steps_of_local_search_are_timed_for_every_shape(run):
    header, *lines = run("swap_steps.py", "--threads", "1")
    assert header.split()[:5] == ["data", "dtype", "n", "d", "k"]
    assert len(lines) == 32
    assert all(float(line.split()[-1]) > 0 for line in lines)
