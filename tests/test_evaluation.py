"""The evaluation runs, its workloads are what they say, and its verdicts are fair."""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from robust_kmeans.local_search import default_steps
from tests import oracle

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import evaluation  # noqa: E402
import methods  # noqa: E402
import reference  # noqa: E402
import results  # noqa: E402
import verdicts  # noqa: E402
import workloads  # noqa: E402

BY_NAME = {workload.name: workload for workload in workloads.WORKLOADS}
# With the squared distance of the nearest outlier from the planted centres.
OPTIMUM_ZERO = {
    "instance-a": 1000**2 + 100**2,
    "instance-b": 10_000**2,
    "instance-c": 9999**2 + 10_000**2,
}


def result(workload, method, seed, cost, precision=1.0):
    return results.Result(workload, method, seed, cost, precision, precision, 1.0, 1)


# ------------------------------------------------------------------------- the whole script


def test_quick_evaluation_has_a_row_for_every_method(tmp_path):
    options = ("--quick", "--threads", "1", "--csv", "table.csv", "--markdown", "page.md")
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "evaluation.py", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [method.name for method in methods.METHODS] + [methods.PLANTED]
    assert [(row["workload"], row["method"]) for row in rows] == [("quick", n) for n in names]
    assert {(row["n"], row["d"], row["k"], row["z"], row["seeds"]) for row in rows} == {
        ("210", "2", "4", "10", "1")
    }
    ratios = [float(row["ratio"]) for row in rows]
    assert min(ratios) == 1
    assert all(float(row["worst_ratio"]) >= float(row["ratio"]) for row in rows)
    assert all(0 <= float(row["precision"]) <= 1 for row in rows)
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert [row["method"] for row in rows if not row["readings"]] == [methods.SKLEARN]
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert all(f"\n| {name} | " in page for name in names)
    assert done.stdout.splitlines()[-1].endswith("of 2 figures reached.")


def test_results_on_file_are_not_run_again(tmp_path):
    path = tmp_path / "runs.csv"
    noted = [result("quick", "default", 3, 0.1 + 0.2), result("quick", "sklearn", 3, 7.0, None)]
    file = results.ResultFile(path)
    for one in noted:
        file.add(one)
    again = results.ResultFile(path)
    assert again.results == noted
    assert again.has("quick", "default", 3)
    assert not again.has("quick", "default", 4)


def test_seeds_are_a_number_or_a_range():
    assert evaluation.seed_range("10-19") == range(10, 20)
    assert evaluation.seed_range("3") == range(3, 4)
    for wrong in ("", "a", "5-3", "1-2-3", "-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="such as 10-19"):
            evaluation.seed_range(wrong)


def test_unknown_names_are_refused_with_those_there_are():
    with pytest.raises(SystemExit, match=r"shuttel.*There is: .*shuttle-k5"):
        evaluation.matching(workloads.WORKLOADS, "shuttel*")


def test_hold_out_data_are_kept_from_the_seeds_for_choosing():
    for workload in workloads.HOLD_OUT:
        assert "hold-out" in evaluation.reason_to_leave_out(workload, range(9, 20))
        assert evaluation.reason_to_leave_out(workload, range(10, 20)) is None


def test_missing_files_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ROBUST_KMEANS_DATA", str(tmp_path))
    reason = evaluation.reason_to_leave_out(BY_NAME["kdd10-k3"], range(10, 20))
    assert "kddcup.data_10_percent.gz" in reason
    assert evaluation.reason_to_leave_out(BY_NAME["unbalanced"], range(10, 20)) is None


# -------------------------------------------------------------------------------- workloads


@pytest.mark.parametrize("workload", [*workloads.WORKLOADS, workloads.QUICK], ids=lambda w: w.name)
def test_workloads_are_what_they_say(workload):
    if workload.missing:
        pytest.skip(f"no file {workload.file}")
    instance = workload.make(1)
    assert instance.X.shape == (workload.n_rows, workload.n_features)
    assert instance.X.dtype == np.float64
    assert np.isfinite(instance.X).all()
    if workload.group == "clean":
        assert workload.n_outliers == 0
        assert instance.outliers is None
    else:
        # On Shuttle the paper flags more rows than are labelled.
        n_true = 17 if workload.group == "shuttle" else workload.n_outliers
        assert instance.outliers.dtype == bool
        assert instance.outliers.shape == (workload.n_rows,)
        assert instance.outliers.sum() == n_true
    if instance.centers is not None:
        assert instance.centers.shape == (workload.n_clusters, workload.n_features)
    assert np.array_equal(workload.make(1).X, instance.X)
    assert np.array_equal(workload.make(2).X, instance.X) != workload.fresh


def test_names_are_unique():
    for named in (workloads.WORKLOADS, methods.METHODS):
        names = [one.name for one in named]
        assert len(set(names)) == len(names)


def test_every_group_has_a_judge_or_is_only_reported():
    groups = {workload.group for workload in workloads.WORKLOADS}
    assert groups - set(verdicts.JUDGES) == {"mixture", "hold-out"}
    assert set(verdicts.SHUTTLE_COSTS) == {workload.name for workload in workloads.SHUTTLE}
    assert set(evaluation.TIMED) <= set(BY_NAME)


@pytest.mark.parametrize("name", OPTIMUM_ZERO)
def test_planted_centres_of_the_instances_cost_nothing(name):
    workload = BY_NAME[name]
    X, outliers, centers = workload.make(0)
    cost, flagged = methods.judge(X, centers, workload.n_outliers)
    assert cost == 0
    assert np.array_equal(np.sort(flagged), np.flatnonzero(outliers))
    distances = oracle.squared_distances(X[outliers], centers).min(axis=1)
    assert distances.min() == OPTIMUM_ZERO[name]


def test_outliers_of_the_generated_workloads_are_mostly_the_farthest_rows():
    for name in ("mixture-d50", "mixture-d200", "unbalanced", "small-clusters", "heavy-tails"):
        workload = BY_NAME[name]
        X, outliers, centers = workload.make(0)
        flagged = methods.judge(X, centers, workload.n_outliers).flagged
        assert outliers[flagged].mean() > 0.95, name


# ---------------------------------------------------------------------- methods and figures


def test_judge_agrees_with_the_oracle():
    random = np.random.default_rng(0)
    # Whole numbers, so that there are ties.
    X, centers = random.integers(0, 5, (60, 2)) * 1.0, random.integers(0, 5, (3, 2)) * 1.0
    d2 = oracle.squared_distances(X, centers).min(axis=1)
    for z in (0, 1, 17, 59):
        cost, flagged = methods.judge(X, centers, z)
        assert cost == pytest.approx(oracle.trimmed_cost(d2, z))
        assert set(flagged) == set(np.lexsort((np.arange(60), -d2))[:z]) - set(
            np.flatnonzero(d2 == 0)
        )


def test_algorithm_1_reads_all_rows_once_per_centre_but_the_last_and_once_to_check_them():
    workload = workloads.QUICK
    X = workload.make(0).X
    method = next(m for m in methods.METHODS if m.name == "algorithm1-seeds")
    found = methods.run(method, X, workload.n_clusters, workload.n_outliers, 0, 1)
    assert found.readings == workload.n_clusters - 1 + 1
    assert found.centers.shape == (workload.n_clusters, workload.n_features)


def test_steps_that_count_as_readings_though_they_only_take_rows_exist():
    for name in methods.TAKING_MANY:
        module, step = name.split(".")
        assert callable(getattr(import_module(f"robust_kmeans.sweeps.{module}"), step))


def test_costs_are_relative_to_the_best_that_anybody_found():
    fresh, fixed = BY_NAME["unbalanced"], BY_NAME["digits-noise"]
    runs = [result(w.name, m, s, c) for w in (fresh, fixed) for m, s, c in (
        ("default", 10, 12.0), ("greedy", 10, 10.0), ("default", 11, 8.0), ("greedy", 11, 9.0),
    )]  # fmt: skip
    known = {("unbalanced", 11): reference.Best(40, 4.0)}
    assert results.cost_ratios(runs, fresh, known) == {
        ("default", 10): 1.2, ("greedy", 10): 1.0, ("default", 11): 2.0, ("greedy", 11): 2.25,
    }  # fmt: skip
    # All seeds share the instance, and with it the best cost.
    assert results.cost_ratios(runs, fixed, {})["greedy", 10] == 10 / 8


def test_a_cost_where_the_optimum_is_zero_is_infinitely_worse():
    workload = BY_NAME["instance-c"]
    runs = [result("instance-c", "default", 10, 0.0), result("instance-c", "default", 11, 50.0)]
    assert list(results.cost_ratios(runs, workload, {}).values()) == [1.0, np.inf]
    (verdict,) = verdicts.all_verdicts(runs, [workload], {}, [])
    assert (verdict.measured, verdict.reached) == ("50%", False)


def test_ratios_without_long_runs_are_not_judged():
    workload = BY_NAME["skin-noise-k20"]
    runs = [result(workload.name, "default", seed, 1.05) for seed in (10, 11)]
    for n_runs, reached in ((0, None), (3, None), (reference.N_RUNS, False)):
        known = {(workload.name, 0): reference.Best(n_runs, 1.0)}
        mean, worst = verdicts.all_verdicts(runs, [workload], known, [])
        assert mean.reached is reached
        assert worst.reached is (None if reached is None else True)
    assert verdicts.all_verdicts(runs, [workload], {}, [])[0].reached is None


def test_a_difference_by_rounding_is_not_less_inertia():
    workload = BY_NAME["clean-iris"]
    for ours, reached in ((1.0 - 1e-12, False), (0.99, True)):
        runs = [result(workload.name, "default", 10, ours), result(workload.name, "sklearn", 10, 1)]
        each, most = verdicts.all_verdicts(runs, [workload], {}, [])
        assert each.reached
        assert most.reached is reached


def test_synthetic_figures_compare_with_planted_means():
    workload = BY_NAME["synthetic-z25-box100"]
    runs = [
        result(workload.name, "default", 10, 1.01, 0.9),
        result(workload.name, "planted", 10, 1.0, 0.95),
    ]
    cost, precision = verdicts.all_verdicts(runs, [workload], {}, [])
    assert cost.reached
    assert not precision.reached
    assert verdicts.all_verdicts(runs[:1], [workload], {}, []) == []


def test_times_are_judged_against_one_and_ten_starts():
    slow = verdicts.Timing("shuttle-k5", ours=4.0, once=1.0, ten_times=5.0)
    once, ten = verdicts.all_verdicts([], [], {}, [slow])
    assert (once.reached, ten.reached) == (False, True)


def test_reference_continues_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "N_RUNS", 3)
    path, workload = tmp_path / "reference.csv", workloads.QUICK
    instance = workload.make(5)
    first = next(reference.long_runs(workload, 5, instance, 1, path))
    assert reference.load_references(path) == {("quick", 5): first}
    rest = list(reference.long_runs(workload, 5, instance, 1, path))
    assert [best.runs for best in (first, *rest)] == [1, 2, 3]
    assert list(reference.long_runs(workload, 5, instance, 1, path)) == []


def test_long_runs_try_several_times_as_many_swaps_as_the_default():
    for workload in workloads.WORKLOADS:
        k = workload.n_clusters
        steps = max(reference.STEPS_PER_CLUSTER * k, reference.LEAST_STEPS)
        assert steps >= 3 * default_steps(k), workload.name


def test_reference_is_no_worse_than_the_planted_means(tmp_path, monkeypatch):
    poor = methods.Method("poor", "", lambda X, k, *_: X[:k])
    monkeypatch.setattr(reference, "LONG", poor)
    workload = workloads.QUICK
    instance, k, z = workload.make(5), workload.n_clusters, workload.n_outliers
    best = next(reference.long_runs(workload, 5, instance, 1, tmp_path / "reference.csv"))
    planted = methods.run(methods.from_planted(instance.centers), instance.X, k, z, 0, 1)
    cost = methods.judge(instance.X, planted.centers, z).cost
    assert best == reference.Best(1, cost)
    assert cost < methods.judge(instance.X, instance.X[:k], z).cost
