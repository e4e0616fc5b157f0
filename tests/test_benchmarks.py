"""Every benchmark runs once, tiny: so that none has rotted when it is needed."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DTYPES = ("float32", "float64")
GRID_TASKS = ("seeding", "passes", "greedy", "filters", "lloyd", "converged", "fits")
AXES = ("n", "d", "k", "threads")


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


def read_lines(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def installed(module):
    return importlib.util.find_spec(module) is not None


def test_comparison_has_a_line_for_every_task_peer_and_dtype(run, tmp_path):
    page = run("against_peers.py", "--threads", "1", "--csv", "lines.csv", "--only", *GRID_TASKS)
    lines = read_lines(tmp_path / "lines.csv")
    to_cost = "ours, local_search=0, to the cost of KMeans"
    peers = {
        "seeding": ["ours", "scikit-learn"],
        "passes": ["ours, a reading of X", "ours, cut and draw of a centre"],
        "greedy": ["ours", "scikit-learn"],
        # Filters are for wide rows and many clusters.
        "filters": [],
        "lloyd": ["ours", "scikit-learn"],
        "converged": ["ours", "scikit-learn"],
        "fits": ["ours", to_cost, "scikit-learn", "scikit-learn, n_init=10"],
    }
    for task in ("lloyd", "converged"):
        peers[task] += ["scikit-learn-intelex"] if installed("sklearnex") else []
    to_rest = {
        "float32": peers["converged"] + (["faiss"] if installed("faiss") else []),
        "float64": peers["converged"],
    }
    assert [(line["data"], line["dtype"], line["task"], line["peer"]) for line in lines] == [
        (data, dtype, task, peer)
        for data, dtype, task in product(("Gaussian", "clustered"), DTYPES, peers)
        for peer in (to_rest[dtype] if task == "converged" else peers[task])
    ]
    assert {(line["n"], line["z"], line["threads"]) for line in lines} == {("4000", "40", "1")}
    # Times are not judged here: a single tiny run says nothing about them.
    assert "## Figures asked" in page
    assert "## Seeding and the limit of memory" in page


def test_comparison_measures_memory_small_data_and_first_calls(run, tmp_path):
    tasks = ("bandwidth", "memory", "small", "cold", "trimmed")
    page = run("against_peers.py", "--threads", "1", "--csv", "lines.csv", "--only", *tasks)
    lines = read_lines(tmp_path / "lines.csv")
    assert {line["task"] for line in lines} == set(tasks)
    assert all(float(line["value"]) > 0 for line in lines)
    assert [line["data"] for line in lines if line["task"] == "bandwidth"] == ["start", "end"]
    first = next(line for line in lines if line["peer"] == "first fit, empty cache")
    assert not first["note"].startswith("0 kernels")
    again = next(line for line in lines if line["peer"] == "first fit, filled cache")
    assert again["note"] == "0 kernels compiled"
    left_out = [line for line in page if line.startswith("- trimkmeans") and "left out" in line]
    assert bool(left_out) != installed("trimkmeans")


def test_comparison_goes_on_where_it_stopped(run, tmp_path):
    options = ("--threads", "1", "--csv", "lines.csv", "--grid", "gaussian")
    run("against_peers.py", *options, "--only", "seeding")
    before = (tmp_path / "lines.csv").read_text()
    run("against_peers.py", *options, "--only", "seeding", "passes")
    after = (tmp_path / "lines.csv").read_text()
    assert after.startswith(before)
    assert after.count("seeding,") == before.count("seeding,") == 4
    assert after.count("passes,") == 4


def test_scaling_draws_a_picture_per_axis(run, tmp_path):
    run("scaling.py", "--threads", "2", "--csv", "lines.csv", "--pictures", "pictures")
    lines = read_lines(tmp_path / "lines.csv")
    assert {line["task"] for line in lines} == {
        f"{figure} by {axis}" for figure, axis in product(("seeding", "lloyd", "fit"), AXES)
    }
    assert {line["threads"] for line in lines if line["task"].endswith("by threads")} == {"1", "2"}
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {
        f"scaling-{axis}.png" for axis in AXES
    }


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


def test_coresets_are_compared_with_full_fits(run):
    header, line = run("coresets.py", "--threads", "1")
    assert header.split()[:7] == ["data", "n", "d", "k", "z", "points", "readings"]
    cells = line.split()
    assert cells[:5] == ["quick", "210", "2", "4", "10"]
    # A size is the most that a coreset may have: a comb may fall one short of it.
    assert 62 <= int(cells[5]) <= 63
    assert int(cells[6]) <= 4 + 3


def test_seeding_in_rounds_is_compared_with_drawing_one_after_the_other(run):
    header, *lines = run("parallel_seeding.py", "--threads", "1")
    assert header.split()[:6] == ["data", "n", "d", "k", "z", "seeding"]
    assert [line.split()[5:7] for line in lines][1:] == [
        ["one", "trial"],
        ["robust-k-means||", lines[2].split()[6]],
    ]
    assert lines[0].split()[6] == "1.0000"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the system for its memory")
def test_readings_are_timed_for_every_format_cold_and_warm(run):
    header, *lines = run("reading.py")
    assert header.split()[:4] == ["format", "cache", "contender", "seconds"]
    contenders = {"npy": 3, "parquet": 3, "feather": 2, "csv": 3}
    cells = product(contenders, ("cold", "warm"))
    assert [tuple(line.split()[:2]) for line in lines] == [
        cell for cell in cells for _ in range(contenders[cell[0]])
    ]
    assert all(float(line.split()[-2]) > 0 for line in lines)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the system for its memory")
def test_sweeps_over_files_are_timed_beside_reading_them(run):
    lines = run("on_disk.py")
    assert [line.split()[0] for line in lines] == [
        *(".npy:", "read", "sweep", "fit"),
        *(".parquet:", "read", "sweep", "fit"),
    ]


def test_the_rules_for_large_data_are_compared_with_those_for_small_data(run):
    header, *lines = run("large_data.py", "--threads", "1")
    assert header.split()[5:7] == ["rules", "ρ"]
    assert [line.split()[5] for line in lines] == ["small", "large"]
    assert lines[0].split()[6] == "1.0000"


@pytest.mark.skipif(not installed("distributed"), reason="needs robust-kmeans[dask]")
def test_a_cluster_is_timed_beside_memory(run):
    lines = dict(line.split("  ", 1) for line in run("on_dask.py"))
    assert float(lines["cost / cost in memory"]) == 1
    assert float(lines["longer / blocks and sweeps"]) > 0
    assert float(lines["longer / again"]) > 0
