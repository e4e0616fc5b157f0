from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans import outlier_precision_recall
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.paper import plain
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.methods import DEFAULT, SEEDINGS, Problem, judge, run_method, seeds_of
from robust_kmeans.seeding.drawing import seed_rows
from tests import oracle

COMPARED = [name for name, method in SEEDINGS.items() if method.plainly is not None]


def blobs(seed, n_features=2):
    X, labels, _ = make_contaminated_blobs(
        150, n_clusters=4, n_outliers=12, n_features=n_features, random_state=seed
    )
    return Problem(X, labels < 0, 4, 12, 0.5)


def test_every_method_of_the_tables_is_known():
    named = {method for experiment in experiments().values() for method in experiment.methods}
    assert named == {*SEEDINGS, DEFAULT}


@pytest.mark.parametrize("name", COMPARED)
@given(seed=st.integers(0, 1000), beta=st.floats(0.05, 2))
def test_the_library_chooses_the_same_rows_as_plain_numpy(name, seed, beta):
    problem = blobs(seed % 5, n_features=1 + seed % 3)._replace(beta=beta)
    ours = seed_rows(
        SEEDINGS[name].seeding(beta), problem.X, 4, n_outliers=12, random_state=seed, n_threads=1
    )
    plainly = SEEDINGS[name].plainly(problem.X, 4, 12, beta, np.random.RandomState(seed))
    assert ours.indices.tolist() == plainly


def test_plain_algorithm_1_and_rkmeans_plusplus_follow_the_oracle():
    for seed in range(20):
        X, random = blobs(seed).X, np.random.RandomState
        assert plain.algorithm_1(X, 4, 12, 0.3, random(seed)) == oracle.robust_kmeans_plusplus(
            X, 4, 12, 0.3, 1, random(seed)
        )
        draws = random(seed)
        candidates = oracle.mixture_candidates(X, 4, 0.5, 10, draws)
        assert plain.rkmeans_plusplus(X, 4, 12, 0.3, random(seed)) == oracle.reduce_to_k(
            X, candidates, 4, 12, 60, draws
        )


@pytest.mark.parametrize("name", COMPARED)
def test_plain_seedings_stop_where_no_cost_is_left(name):
    X = np.repeat([[0.0], [1.0], [50.0]], (20, 20, 2), axis=0)
    rows = SEEDINGS[name].plainly(X, 4, 2, 1.0, np.random.RandomState(0))
    assert 2 <= len(set(rows)) <= 4
    assert oracle.trimmed_cost(oracle.squared_distances(X, X[rows]).min(axis=1), 2) == 0


def test_a_judgement_is_what_the_farthest_rows_say():
    problem = blobs(3)
    centers = problem.X[:4].copy()
    d2 = oracle.squared_distances(problem.X, centers).min(axis=1)
    found = outlier_precision_recall(problem.outliers, oracle.outliers(d2, 12))
    cost, precision, recall = judge(problem, centers)
    assert cost == pytest.approx(oracle.trimmed_cost(d2, 12), rel=1e-12)
    assert (precision, recall) == (found.precision, found.recall)


@pytest.mark.parametrize("name", SEEDINGS)
def test_lloyd_starts_from_the_same_seeds_and_never_costs_more(name):
    problem = blobs(1)
    seeds, lloyd = run_method(name, problem, 7, with_plain=True)
    assert (seeds.protocol, lloyd.protocol) == ("seeds", "lloyd")
    assert seeds.cost == judge(problem, seeds_of(name, problem, 7))[0]
    assert lloyd.cost <= seeds.cost
    assert lloyd.seconds == seeds.seconds > 0
    assert (seeds.plain_seconds is None) == (name == "random")
    without, _ = run_method(name, problem, 7, with_plain=False)
    assert without.plain_seconds is None
    assert without.cost == seeds.cost


def test_the_default_is_one_whole_fit():
    problem = blobs(2)
    (fit,) = run_method(DEFAULT, problem, 5, with_plain=True)
    assert fit.protocol == "fit"
    assert fit.plain_seconds is None
    assert fit.cost == pytest.approx(judge(problem, seeds_of(DEFAULT, problem, 5))[0], rel=1e-12)
    assert fit.precision == fit.recall > 0.8
