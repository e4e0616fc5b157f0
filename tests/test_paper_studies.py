"""The studies of the paper's lemma and theorems: their laws, and the known facts."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import robust_kmeans_plusplus, trimmed_inertia
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.paper.data import Choices, derived_seed
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.instances import instance_a, instance_b, instance_c
from robust_kmeans.paper.methods import DEFAULT
from robust_kmeans.paper.studies import STUDIES, bicriteria, coverage, noise, trade_off
from robust_kmeans.paper.studies.planted import N_CLUSTERS, N_OUTLIERS, planted
from robust_kmeans.paper.studies.result import quartile_curve, reported, share_curve
from robust_kmeans.seeding.robust_draws import draw_robustly
from tests import oracle
from tests.strategies import problems

INSTANCES = (instance_a, instance_b, instance_c)
CHOICES = Choices(seed=3)
N_RUNS = {"coverage": 2, "trade-off": 2, "bi-criteria": 1, "noise": 2}


@pytest.fixture(scope="module", autouse=True)
def few_noisy_rows():
    """Small data in place of the files, and few scales."""
    clean = make_contaminated_blobs(3000, n_clusters=20, n_outliers=0, random_state=0).X
    fewer = {
        name: replace(experiment, n_noisy=min(experiment.n_noisy, 100))
        for name, experiment in experiments().items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "load", lambda _experiment, _choices: ("made up", clean, None))
        patch.setattr(noise, "experiments", lambda: fewer)
        patch.setattr(noise, "SCALES", (0.01, 0.1, 5.0))
        yield


@pytest.fixture(scope="module")
def results(few_noisy_rows):
    """Every study, run once, with the fractions that it reported."""
    found = {}
    for name, study in STUDIES.items():
        fractions = []
        found[name] = study.run(CHOICES, N_RUNS[name], fractions.append), fractions
    return found


def candidates(X, n_clusters, n_outliers, eta, oversampling, seed):
    """The rows that the public function draws; only repeats stand for missing ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        indices = robust_kmeans_plusplus(
            X, n_clusters, n_outliers=n_outliers, eta=eta, n_local_trials=1,
            oversampling=oversampling, reduce=False, random_state=seed,
        ).indices  # fmt: skip
    return list(dict.fromkeys(indices.tolist()))


# -------------------------------------------------------------------------------- instances


@pytest.mark.parametrize("make", INSTANCES)
def test_rows_of_a_cluster_are_equal_and_outliers_are_elsewhere(make):
    instance = make()
    assert len(instance.centers) == instance.n_clusters
    assert np.count_nonzero(instance.clusters < 0) == instance.n_outliers
    inside = instance.clusters >= 0
    assert np.array_equal(instance.X[inside], instance.centers[instance.clusters[inside]])
    outliers = oracle.squared_distances(instance.X[~inside], instance.centers)
    between = oracle.squared_distances(instance.centers, instance.centers)
    assert outliers.min() > between.max()


# ------------------------------------------------------------------------------- all studies


def test_studies_go_by_their_names(results):
    assert list(STUDIES) == ["coverage", "trade-off", "bi-criteria", "noise"]
    for name, (result, _) in results.items():
        assert (result.name, result.title) == (name, STUDIES[name].TITLE)


def test_tables_are_rectangular_and_of_plain_finite_cells(results):
    for result, _ in results.values():
        for header, rows in ((result.header, result.rows), result.digest):
            assert len(set(header)) == len(header)
            for row in rows:
                assert len(row) == len(header)
                assert all(type(cell) in (str, int, float) for cell in row)
                assert all(math.isfinite(cell) for cell in row if not isinstance(cell, str))
        assert len(result.digest.rows) <= 60


def test_lines_of_the_tables_are_told_apart_by_their_first_columns(results):
    for name, columns in (("coverage", 3), ("trade-off", 4), ("bi-criteria", 6), ("noise", 4)):
        keys = [row[:columns] for row in results[name][0].rows]
        assert len(set(keys)) == len(keys)


def test_bands_hold_their_curves(results):
    for result, _ in results.values():
        for panel in result.curves:
            for curve in panel.curves:
                assert len(curve.x) == len(curve.y) == len(curve.low) == len(curve.high)
                assert (np.diff(curve.x) > 0).all()
                assert (curve.low <= curve.y).all()
                assert (curve.y <= curve.high).all()
                assert (curve.low > 0).all() or not panel.log_y


def test_reports_rise_to_one(results):
    for _, fractions in results.values():
        assert len(fractions) > 1
        assert (np.diff(fractions) > 0).all()
        assert fractions[-1] == 1


def test_jobs_are_reported_once_they_are_done():
    told = []
    for job in reported("abcd", told.append):
        assert len(told) == "abcd".index(job)
    assert told == [0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("name", STUDIES)
def test_the_same_seed_gives_the_same_figures(name, results):
    again = STUDIES[name].run(CHOICES, N_RUNS[name], lambda _: None)
    assert again.rows == results[name][0].rows
    assert again.text == results[name][0].text


def test_texts_say_how_many_runs_there_were(results):
    for name, (result, _) in results.items():
        assert any(f"{N_RUNS[name]} {noun}" in result.text for noun in ("runs", "repetitions"))


def test_curves_are_made_of_means_or_medians():
    samples = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    x = np.arange(2.0)
    shares = share_curve("a", x, samples)
    assert shares.y.tolist() == [0.75, 1]
    # The standard error is √(0.75 · 0.25 / 4).
    assert shares.low == pytest.approx([0.75 - 2 * math.sqrt(0.75 * 0.25 / 4), 1])
    assert shares.high.tolist() == [1, 1]
    medians = quartile_curve("a", x, samples)
    assert (medians.low[0], medians.y[0], medians.high[0]) == (0.75, 1, 1)


# --------------------------------------------------------------------------------- coverage


@given(problems(), st.sampled_from([0.1, 0.5, 1.0, 2.0]), st.floats(0, 3), st.floats(0, 3))
def test_the_first_seeds_of_a_longer_run_are_a_shorter_run(problem, eta, one, other):
    X, k, z, _, seed, _ = problem
    shorter = candidates(X, k, z, eta, min(one, other), seed)
    longer = candidates(X, k, z, eta, max(one, other), seed)
    assert longer[: len(shorter)] == shorter
    with InMemory(X, None, 1) as data:
        rows = draw_robustly(data, len(longer), z, np.random.RandomState(seed), eta=eta, trials=1)
    assert [row.index for row in rows] == longer


@pytest.mark.parametrize("make", INSTANCES)
def test_coverage_is_what_counting_seeds_and_costs_gives(make):
    X, k, z, clusters = instance = make()
    n_draws, first = 9, f"η = {coverage.ETAS[0]:g}"
    for seed in range(3):
        found = coverage.draw_all(instance, n_draws, seed)[first]
        drawn = candidates(X, k, z, coverage.ETAS[0], max(0, n_draws / k - 1), seed)
        for t in range(1, n_draws + 1):
            seeds = drawn[:t]
            assert found.covered[t - 1] == len(set(clusters[seeds]) - {-1}) / k
            assert found.no_cost[t - 1] == (trimmed_inertia(X, X[seeds], n_outliers=z) == 0)


def test_coverage_never_falls_and_no_cost_stays_no_cost():
    for one in coverage.measure(5, 3, lambda _: None):
        for covered, no_cost in one.draws.values():
            assert covered.shape == no_cost.shape == (3, one.setting.n_draws)
            assert (np.diff(covered, axis=1) >= 0).all()
            assert (np.diff(no_cost.astype(int), axis=1) >= 0).all()
            # On C the outliers that have become seeds leave room for the small cluster.
            if one.setting.name != "C":
                assert np.array_equal(no_cost, covered == 1)
            else:
                assert no_cost[covered == 1].all()
                assert no_cost[:, -1].all()


def test_runs_of_a_shorter_study_are_the_first_of_a_longer_one():
    shorter, longer = (coverage.measure(5, n, lambda _: None) for n in (1, 2))
    for few, many in zip(shorter, longer, strict=True):
        for name, draws in few.draws.items():
            assert np.array_equal(draws.covered, many.draws[name].covered[:1])


def test_each_repetition_draws_and_fits_from_its_own_seed():
    for one in coverage.measure(5, 2, lambda _: None):
        for repetition, fitted in enumerate(one.fits):
            seed = derived_seed(5, repetition, "method")
            expected = coverage.draw_all(one.instance, one.setting.n_draws, seed)
            for name, (covered, no_cost) in one.draws.items():
                assert np.array_equal(covered[repetition], expected[name].covered)
                assert np.array_equal(no_cost[repetition], expected[name].no_cost)
            assert fitted == coverage.fit_leaves_no_cost(one.instance, seed)


def test_a_smaller_eta_covers_more_of_instance_a_and_the_default_leaves_no_cost():
    instance = instance_a()
    runs = [coverage.draw_all(instance, instance.n_clusters, seed) for seed in range(40)]
    covered = {
        name: np.mean([run[name].covered[-1] for run in runs]) * instance.n_clusters
        for name in runs[0]
    }
    assert covered["η = 0.1"] == pytest.approx(18, abs=1)
    assert covered["η = 1"] == pytest.approx(11, abs=1.5)
    assert covered["η = 2"] < covered["η = 1"] < covered["η = 0.5"] < covered["η = 0.1"]
    assert covered[coverage.GREEDY] > 19
    for make in INSTANCES:
        assert all(coverage.fit_leaves_no_cost(make(), seed) for seed in range(3))


# -------------------------------------------------------------------------------- trade-off


@given(
    st.integers(0, 2**31 - 1),
    st.integers(2 * N_OUTLIERS, 600),
    st.sampled_from([0.01, 0.1, 0.5, 1.0, 3.0]),
    st.sampled_from([0.0, 1.0, 5.0]),
)
def test_the_lemma_holds_and_lowers_the_cost_only_beyond_z_rows(seed, n_rows, eta, tail):
    random = np.random.RandomState(seed)
    d2 = random.standard_normal(n_rows) ** 2 * np.exp(tail * random.standard_normal(n_rows))
    cost = oracle.trimmed_cost(d2, N_OUTLIERS)
    found = trade_off.lemma_set(d2, cost, eta, reference=1.0)
    clipped = found.bound * eta * cost
    rounding = 1 + 1e-9
    assert found.left_out <= found.bound * rounding
    assert found.rest <= clipped * rounding
    assert clipped <= (1 + eta) * cost * rounding
    assert clipped * rounding >= min(1, eta * (N_OUTLIERS + 1) / N_OUTLIERS) * cost
    if found.left_out <= 1:
        assert found.rest * rounding >= cost


def test_costs_never_rise_with_the_rows_left_out_and_start_at_the_trimmed_cost():
    figures = trade_off.measure(7, 2, lambda _: None)
    for one in figures:
        for costs in one.costs.values():
            assert costs.shape == (2, len(trade_off.EPSILONS))
            assert (np.diff(costs, axis=1) <= 0).all()
        assert one.costs["RobustKMeans"][:, 0] == pytest.approx(1, abs=0.05)
    near, far = figures
    assert far.costs["k-means++"][0, 0] > 5 * near.costs["k-means++"][0, 0]
    X, reference = planted(far.outlier_box, 7, 1)
    seeds = candidates(X, N_CLUSTERS, N_OUTLIERS, 0.5, 0, derived_seed(7, 1, "method"))
    for epsilon, z in ((0, 100), (1, 105), (20, 200)):
        expected = trimmed_inertia(X, X[seeds], n_outliers=z) / reference
        measured = far.costs["Algorithm 1, η = 0.5"][1, epsilon]
        assert measured == pytest.approx(expected)


def test_a_set_of_just_z_rows_counts_as_at_most_z(monkeypatch):
    sizes = (0.5, 1.0, 1.0, 1.01)
    name = "Algorithm 1, η = 1"
    one = trade_off.Figures(
        100,
        {name: np.ones((len(sizes), len(trade_off.EPSILONS)))},
        {name: [trade_off.LemmaSet(left_out=size, bound=2.0, rest=1.0) for size in sizes]},
    )
    monkeypatch.setattr(trade_off, "measure", lambda *_: [one])
    result = trade_off.run(CHOICES, len(sizes), lambda _: None)
    (share,) = [row[4] for row in result.rows if row[2] == "share of runs with at most z"]
    assert share == 0.75
    assert dict(zip(result.digest.header, result.digest.rows[0], strict=True))["at most z"] == "75%"


# ------------------------------------------------------------------------------ bi-criteria


@pytest.fixture(scope="module")
def planted_costs():
    """Of one repetition, by η, data and centres."""
    return {
        (eta, *key): costs
        for eta, one in bicriteria.measure(2, 1, 1, lambda _: None).items()
        for key, (costs,) in one.costs.items()
    }


def test_repetitions_are_seeded_and_measured_as_stated(planted_costs):
    X, reference = planted(1000, 2, 0)
    random = np.random.RandomState(derived_seed(2, 0, "method"))
    with InMemory(X, None, 1) as data:
        expected = bicriteria.costs_by_oversampling(data, 0.1, random)
    for centers, costs in expected.items():
        assert planted_costs[0.1, 1000, centers] == pytest.approx(np.array(costs) / reference)


def test_what_chooses_among_the_seeds_never_costs_less_than_all_of_them(planted_costs):
    for eta in bicriteria.ETAS:
        for box in (100, 1000):
            kept = planted_costs[eta, box, bicriteria.KEPT]
            assert (planted_costs[eta, box, bicriteria.PLAIN] >= kept * (1 - 1e-12)).all()


def test_the_trimmed_reduction_is_no_such_choice(planted_costs):
    kept = planted_costs[0.1, 1000, bicriteria.KEPT]
    assert (planted_costs[0.1, 1000, bicriteria.TRIMMED] < kept).any()


def test_more_seeds_never_cost_more_and_none_more_need_no_reduction():
    X, reference = planted(1000, 0, 0)
    with InMemory(X, None, 1) as data:
        found = bicriteria.costs_by_oversampling(data, 0.1, np.random.RandomState(4))
    kept = found[bicriteria.KEPT]
    assert (np.diff(kept) <= 0).all()
    assert found[bicriteria.TRIMMED][0] == found[bicriteria.PLAIN][0] == kept[0]
    for c, cost in zip(bicriteria.OVERSAMPLING, kept, strict=True):
        seeds = candidates(X, N_CLUSTERS, N_OUTLIERS, 0.1, c, 4)
        assert len(seeds) == (1 + c) * N_CLUSTERS
        assert cost == pytest.approx(trimmed_inertia(X, X[seeds], n_outliers=N_OUTLIERS))
    # Among many candidates, far outliers take the centres of the plain reduction.
    assert found[bicriteria.TRIMMED][-1] < 1.5 * reference < found[bicriteria.PLAIN][-1] / 2


def test_instance_a_without_cost_stays_so_with_more_seeds():
    no_cost = bicriteria.no_cost_on_a(1.0, 0, 10)
    assert no_cost.shape == (10, len(bicriteria.OVERSAMPLING))
    assert (np.diff(no_cost.astype(int), axis=1) >= 0).all()
    assert not no_cost[:, 0].any()
    assert no_cost[:, -1].all()
    X, k, z, _ = instance_a()
    for run in range(3):
        seed = derived_seed(0, run, "method")
        for c, free in zip(bicriteria.OVERSAMPLING, no_cost[run], strict=True):
            seeds = candidates(X, k, z, 1.0, c, seed)
            assert free == (trimmed_inertia(X, X[seeds], n_outliers=z) == 0)


def test_a_run_that_ends_with_just_t_seeds_left_no_cost_with_t(monkeypatch):
    lengths = iter([20, 21, 25, 80, 81])
    asked = []

    def draws(_data, n_draws, *_, **__):
        asked.append(n_draws)
        return [None] * next(lengths)

    monkeypatch.setattr(bicriteria, "draw_robustly", draws)
    # t is 20, 25, 30, 40, 60 and 80.
    assert bicriteria.no_cost_on_a(1.0, 0, 5).sum(axis=1).tolist() == [6, 5, 5, 1, 0]
    assert asked == [81] * 5


# ------------------------------------------------------------------------------------ noise


def test_the_larger_the_noise_the_more_of_its_rows_are_found(results):
    result, _ = results["noise"]
    for data in ("Skin", "Shuttle"):
        for method in (noise.LLOYD, DEFAULT):
            found = [row[4] for row in result.rows if (row[0], row[2]) == (data, method)]
            assert found == sorted(found)
            assert found[-1] > found[0] + 0.3


def test_the_paper_s_own_average_is_a_level_line(results):
    result, _ = results["noise"]
    levels = [panel.curves[-1].y for panel in result.curves]
    assert [set(level.tolist()) for level in levels] == [{0.16}, {1.35}, {0.81}, {0.38}]
    assert result.digest.rows[-1][:2] == ("the paper", "0.16 / 1.35")
