from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans import RobustKMeans, outlier_count
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.description_length import promising_swaps
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.outlier_count import Settled, estimate_outliers
from robust_kmeans.pipeline import Plan, solve
from robust_kmeans.seeding.robust_kmeans_plusplus import RobustKMeansPlusPlus
from robust_kmeans.sweeps.rows import labels_with_outliers
from robust_kmeans.sweeps.tails import (
    BEYOND_FENCES,
    BIN_EDGES,
    N_TAIL_BINS,
    WON_ROWS,
    Newcomers,
    Sides,
)
from robust_kmeans.trimming import place
from tests import oracle
from tests.pickling import Pickling
from tests.strategies import DTYPES, problems


def estimate(data, k, n_steps=100, seed=0):
    random = np.random.RandomState(seed)

    def fit(z):
        plan = Plan(n_init=1, n_steps=n_steps, max_iter=100, tol=1e-4)
        return solve(data, k, z, RobustKMeansPlusPlus(), plan, random, callback=lambda _: None)

    return estimate_outliers(data, k, fit, max_iter=100, tol=1e-4)


def count(X, k, weights=None, n_threads=1, bounds=None):
    with InMemory(X, weights, n_threads, bounds) as data:
        return estimate(data, k).cut.weight


def contaminated(n, k, d, share, box, seed=0, side=100.0, **options):
    """Outliers from a cube of `box` times the side of the one that holds the clusters."""
    z = round(share * n)
    options.setdefault("n_samples", n - z)
    X, labels, _ = make_contaminated_blobs(
        n_clusters=k, n_outliers=z, n_features=d, box=side, outlier_box=box * (side + 6),
        random_state=seed, **options,
    )  # fmt: skip
    return X, labels, z


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 2), (1, 50), (3, 2), (3, 10), (8, 5), (20, 10)])
def test_clean_gaussian_clusters_have_next_to_no_outliers(k, d, dtype):
    stds = np.geomspace(1, 5, k)
    X, _, _ = contaminated(10_000, k, d, 0.0, 1, cluster_std=stds, side=250.0, dtype=dtype)
    assert count(X, k) < 0.001 * len(X)


@pytest.mark.parametrize("n_long", [1, 5])
def test_clean_stretched_clusters_have_next_to_no_outliers(n_long):
    random = np.random.RandomState(0)
    widths = np.where(np.arange(10) < n_long, 5.0, 1.0)
    turn = np.linalg.qr(random.standard_normal((10, 10)))[0]
    centers = random.uniform(0, 250, (3, 10))
    X = centers[random.randint(3, size=10_000)]
    X += (random.standard_normal(X.shape) * widths) @ turn
    assert count(X, 3) < 0.001 * len(X)


@pytest.mark.parametrize("box", [2, 100])
@pytest.mark.parametrize("share", [0.005, 0.05, 0.15])
@pytest.mark.parametrize(("k", "d"), [(3, 2), (8, 5), (20, 50)])
def test_far_outliers_are_counted(k, d, share, box):
    X, labels, z = contaminated(10_000, k, d, share, box)
    with InMemory(X, n_threads=1) as data:
        run = estimate(data, k)
        flagged = data.collect(labels_with_outliers, run.states, run.cut) < 0
    assert run.cut.weight == pytest.approx(z, rel=0.25)
    assert np.mean(flagged[labels < 0]) > 0.75


@pytest.mark.parametrize("share", [0.005, 0.15])
@pytest.mark.parametrize("seed", [1, 2])
def test_clusters_smaller_than_the_count_are_kept(share, seed):
    sizes = np.array([200, 300, 400, 600, 800, 1200, 2000, 3000])
    stds = np.array([1.0, 5.0, 2.0, 3.0, 1.0, 4.0, 1.0, 2.0])
    X, _, z = contaminated(
        10_000, 8, 5, share, 3, seed, 250.0, n_samples=sizes.tolist(), cluster_std=stds
    )
    assert count(X, 8) == pytest.approx(z, rel=0.25)


def test_one_cluster_in_one_dimension():
    random = np.random.RandomState(0)
    X = np.concatenate([random.standard_normal(9500), random.uniform(20, 1000, 500)])
    assert count(X[:, np.newaxis], 1) == pytest.approx(500, rel=0.1)


def test_scale_and_shift_do_not_matter():
    X, _, z = contaminated(4000, 4, 3, 0.05, 3)
    expected = count(X, 4)
    assert expected == pytest.approx(z, rel=0.1)
    assert count(X * 2.0**40, 4) == count(X * 2.0**-40, 4) == expected
    assert count(X * 0.37 + [5, -300, 1000], 4) == pytest.approx(expected, rel=0.01)


def test_order_of_rows_does_not_matter():
    X, _, z = contaminated(4000, 4, 3, 0.05, 3)
    expected = count(X, 4)
    assert expected == pytest.approx(z, rel=0.1)
    assert count(X[np.random.RandomState(1).permutation(len(X))], 4) == pytest.approx(
        expected, rel=0.01
    )


def test_one_very_far_row_does_not_hide_the_others():
    X, _, z = contaminated(4000, 4, 3, 0.05, 3)
    X[np.argmin(X[:, 0])] = 1e9
    assert count(X, 4) == pytest.approx(z, rel=0.1)


def test_weights_count_as_repeated_rows():
    X, _, z = contaminated(3000, 3, 2, 0.05, 3)
    assert count(X, 3, np.full(len(X), 4.0)) == pytest.approx(4 * z, rel=0.1)
    heavy = np.where(np.arange(len(X)) % 2, 1.0, 2.0)
    repeated = np.repeat(X, heavy.astype(int), axis=0)
    assert count(X, 3, heavy) == pytest.approx(count(repeated, 3), rel=0.02)


def test_rows_that_are_no_clusters_give_a_warning():
    X = np.exp(5 * np.random.RandomState(0).standard_normal((2000, 2)))
    with pytest.warns(ConvergenceWarning, match="reached its limit of 600"):
        assert count(X, 1) == 600


def test_equal_rows_have_no_outliers():
    assert count(np.ones((500, 3)), 1) == 0
    assert count(np.ones((500, 3)), 4) == 0


def test_rows_apart_from_a_few_values_are_outliers():
    X = np.repeat([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]], [400, 300, 270], axis=0)
    X = np.concatenate([X, np.random.RandomState(0).uniform(-200, 200, (30, 2))])
    assert count(X, 3) == 30


@pytest.mark.parametrize("width", [0.0, 1e-12, 1e-6, 1e-3, 1 / 300, 0.1])
def test_a_wide_cluster_beside_a_tight_one_is_kept(width):
    random = np.random.RandomState(0)
    tight = width * random.standard_normal((800, 2))
    wide = random.standard_normal((200, 2)) + 10
    assert count(np.concatenate([tight, wide]), 2) == 0


def test_a_large_wide_cluster_beside_a_tight_one_is_kept():
    random = np.random.RandomState(0)
    tight = random.standard_normal((8000, 2)) / 1000
    wide = random.standard_normal((2000, 2)) + 10
    assert count(np.concatenate([tight, wide]), 2) < 10


def test_outliers_beside_a_tight_and_a_wide_cluster_are_counted():
    random = np.random.RandomState(0)
    rows = [random.standard_normal((800, 2)) / 1000, random.standard_normal((200, 2)) + 30]
    X = np.concatenate([*rows, random.uniform(200, 900, (40, 2))])
    assert count(X, 2) == pytest.approx(40, abs=2)


@pytest.mark.parametrize("n_outliers", [0, 30])
def test_a_cluster_beside_a_few_values_is_kept(n_outliers):
    random = np.random.RandomState(0)
    values = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 300, axis=0)
    cluster = random.standard_normal((150, 2)) + 20
    far = random.uniform(200, 900, (n_outliers, 2))
    assert count(np.concatenate([values, cluster, far]), 4) == pytest.approx(n_outliers, abs=2)


# Of the clusters below, the least cost has two centres in the first and none in the second.
HALVES = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 200.0]])


def tight_beside_wide(seed):
    """Rows of three clusters, and their means."""
    random = np.random.RandomState(seed)
    wide = 4 * random.standard_normal((3000, 2))
    tight = random.standard_normal((40, 2)) / 2 + [30, 0]
    other = random.standard_normal((300, 2)) + np.array([0, 200])
    return np.concatenate([wide, tight, other]), np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 200.0]])


@pytest.mark.parametrize("n_outliers", [0, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_tight_cluster_that_the_least_cost_leaves_out_is_kept(seed, n_outliers):
    X, planted = tight_beside_wide(seed)
    far = np.random.RandomState(seed).uniform(400, 900, (n_outliers, 2))
    X = np.concatenate([X, far])
    with InMemory(X, n_threads=1) as data:
        z = 40 + n_outliers
        assert place(data, HALVES, z).inertia < place(data, planted, z).inertia
        run = estimate(data, 3)
    assert run.cut.weight == pytest.approx(n_outliers, abs=2)
    assert oracle.squared_distances(planted, run.centers).min(axis=1).max() < 4**2


def test_swaps_depend_on_nothing_but_the_random_state():
    X, _ = tight_beside_wide(0)
    with InMemory(X, n_threads=1) as data:
        now = place(data, HALVES, 40)
        fences = outlier_count._fences(data, now)
        first, again, other = (
            promising_swaps(data, now, fences, 30.0, np.random.RandomState(seed))
            for seed in (0, 0, 1)
        )
    assert [swap.change for swap in first] == [swap.change for swap in again]
    assert [swap.change for swap in first] != [swap.change for swap in other]


def test_the_best_swap_leaves_a_halved_cluster_for_one_without_a_centre():
    X, planted = tight_beside_wide(0)
    with InMemory(X, n_threads=1) as data:
        now = place(data, HALVES, 40)
        fences = outlier_count._fences(data, now)
        best, *_ = promising_swaps(data, now, fences, 30.0, np.random.RandomState(0))
    assert best.change < 0
    assert best.freed == 0
    assert oracle.squared_distances(planted, best.centers).min(axis=1).max() < 4**2


def test_the_best_swap_gives_up_a_centre_among_far_rows():
    X, planted = tight_beside_wide(0)
    far = np.random.RandomState(0).uniform(900, 1900, (10, 2))
    X = np.concatenate([X, far])
    with InMemory(X, n_threads=1) as data:
        now = place(data, np.array([planted[0], far.mean(axis=0), planted[2]]), 45)
        fences = outlier_count._fences(data, now)
        best, *_ = promising_swaps(data, now, fences, 30.0, np.random.RandomState(0))
    assert best.change < 0
    assert best.freed == 10
    assert oracle.squared_distances(planted, best.centers).min(axis=1).max() < 4**2


@pytest.mark.filterwarnings("ignore:The estimated number of outliers")
@pytest.mark.parametrize(
    ("n", "k"), [(5, 4), (10, 8), (12, 10), (20, 16), (20, 20), (50, 40), (50, 45)]
)
def test_nearly_as_many_clusters_as_rows_leave_no_outliers(n, k):
    X = np.random.RandomState(n).standard_normal((n, 2))
    assert count(X, k) == 0


def test_clusters_of_few_rows_give_a_warning():
    X, _, _ = contaminated(60, 6, 2, 0.05, 3)
    with pytest.warns(ConvergenceWarning, match=r"\(60 rows in all\).*Give n_outliers as a number"):
        count(X, 6)


@pytest.mark.parametrize(
    ("sizes", "fenced"), [([300, 300, *[10] * 6], 2), ([*[28] * 5, *[3] * 3], 5)]
)
def test_large_clusters_among_many_small_ones_give_a_warning(sizes, fenced):
    X, _, _ = contaminated(0, 8, 2, 0.0, 1, n_samples=sizes)
    with pytest.warns(ConvergenceWarning, match=f"only {fenced} of 8 clusters"):
        count(X, 8)


def test_clusters_of_enough_rows_give_no_warning():
    X, _, _ = contaminated(200, 4, 2, 0.05, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert count(X, 4) == pytest.approx(10, abs=2)


def test_a_warning_points_at_the_call_of_fit():
    X = np.random.RandomState(0).standard_normal((12, 2))
    with pytest.warns(ConvergenceWarning, match="Give n_outliers as a number") as caught:
        RobustKMeans(3, n_outliers="auto", random_state=0, n_threads=1).fit(X)
    assert {warning.filename for warning in caught} == {__file__}


def test_a_try_of_huge_cost_does_not_change_which_other_is_best():
    def settled(mass, cost):
        sides = Sides(np.array(mass), np.array(cost), 0.0, 0.0)
        return Settled(0, 0, np.zeros((2, 1)), 0, 2, sides)

    tight = settled([500.0, 500.0], [0.05, 0.05])
    wide = settled([1000.0, 0.0], [1000.0, 0.0])
    huge = settled([500.0, 500.0], [1e23, 1e23])
    with InMemory(np.zeros((1000, 1)), n_threads=1) as data:
        for tried in ([wide, tight], [huge, wide, tight], [tight, wide, huge]):
            assert outlier_count._best(data, tried) is tight


def test_iterations_of_fit_rounds_and_last_run_are_added_up():
    X, _, _ = contaminated(2000, 4, 3, 0.05, 3)
    fits, rounds = [], []

    def watched_fit(z):
        random = np.random.RandomState(0)
        plan = Plan(n_init=1, n_steps=20, max_iter=100, tol=1e-4)
        run = solve(data, 4, z, RobustKMeansPlusPlus(), plan, random, callback=lambda _: None)
        fits.append(replace(run, n_iter=1000))
        return fits[-1]

    def watched_lloyd(*arguments):
        rounds.append(replace(real_lloyd(*arguments), n_iter=10))
        return rounds[-1]

    real_lloyd = outlier_count._lloyd
    with InMemory(X, n_threads=1) as data, pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlier_count, "_lloyd", watched_lloyd)
        run = estimate_outliers(data, 4, watched_fit, max_iter=100, tol=1e-4)
    n_lloyd, rest = divmod(run.n_iter - 1000, 10)
    assert rest == 0
    most_swaps = outlier_count.SWAP_ROUNDS * outlier_count.SWAP_COUNTS
    assert 1 <= n_lloyd <= outlier_count.ROUNDS + most_swaps
    assert run.history == rounds[-1].history
    assert len(fits) <= 14


@pytest.mark.parametrize("scale", [1e-150, 1e-158, 1e-160, 1e-161])
def test_tiny_rows_are_counted_like_others(scale):
    X, _, z = contaminated(1000, 2, 2, 0.05, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count(X * scale, 2) == pytest.approx(z, rel=0.1)


@pytest.mark.parametrize("scale", [1e-162, 1e-163, 1e-165, 0.0])
def test_rows_whose_distances_vanish_give_a_valid_count_without_warnings(scale):
    X, _, z = contaminated(1000, 2, 2, 0.05, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count(X * scale, 2) <= 1.1 * z


@pytest.mark.parametrize("power", [600, -560])
def test_unit_of_weights_does_not_matter(power):
    X, _, z = contaminated(1000, 3, 2, 0.05, 3)
    weights = np.random.RandomState(0).uniform(0.5, 1.5, len(X))
    expected = count(X, 3, weights)
    assert expected == pytest.approx(z, rel=0.2)
    assert count(X, 3, weights * 2.0**power) == expected * 2.0**power


@given(problem=problems(), weighted=st.booleans())
@settings(max_examples=30)
def test_so_few_rows_that_nothing_can_be_said_give_a_valid_count(problem, weighted):
    X, k, _, _, seed, _ = problem
    weights = np.random.RandomState(seed).uniform(0.1, 2, len(X)) if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = count(X, k, weights)
    total = len(X) if weights is None else weights.sum()
    assert 0 <= found <= 0.3 * total


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weights"])
def test_executions_agree(open_data, weighted):
    X, _, _ = contaminated(800, 3, 2, 0.05, 3, dtype=np.float32)
    weights = np.random.RandomState(0).uniform(0.5, 1.5, len(X)) if weighted else None
    bounds = np.linspace(0, len(X), 4).astype(np.int64)
    with InMemory(X, weights, 1, bounds) as data:
        expected = estimate(data, 3, n_steps=16)
    with open_data(X, weights, n_chunks=3) as data:
        found = estimate(data, 3, n_steps=16)
    np.testing.assert_array_equal(found.centers, expected.centers)
    assert found.cut == expected.cut
    assert found.cut.weight > 0


def test_summaries_do_not_grow_with_rows(worker):
    sizes = []
    for n in (600, 2400):
        X, _, _ = contaminated(n, 3, 2, 0.05, 3)
        bounds = np.array([0, n // 2, n])
        with Pickling(worker, X, None, bounds) as data:
            run = place(data, X[:3], 30)
            fences = outlier_count._fences(data, run)
            data.summarise(BEYOND_FENCES, run.states, fences)
            data.summarise(WON_ROWS, run.states, Newcomers(X[3:7], fences, 1.0))
            sizes.append({k: v for k, v in data.summary_sizes.items() if "tails" in k})
    assert len(sizes[0]) == 3
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("degrees", [1, 2, 5, 50])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_fence_lies_just_beyond_a_gaussian_cluster(degrees, share):
    """So that next to none of its rows, or few beside those found, are beyond; and not far out."""
    shape = stats.chi2(degrees)
    quantiles = np.linspace(0, 1, 20_001)[1:-1]
    d2 = np.concatenate([shape.ppf(quantiles), np.full(round(share * 20_000), 1e5)])
    weights, _ = np.histogram(d2, BIN_EDGES)
    fence = outlier_count._fence(weights.astype(float), np.inf, 20.0)
    assert shape.sf(fence) < max(1e-3, 0.1 * share)
    assert fence < 2 * shape.isf(1e-4)


def test_a_cluster_of_few_rows_has_no_fence():
    weights = np.zeros(N_TAIL_BINS)
    weights[400:419] = 1
    assert outlier_count._fence(weights, np.inf, 20.0) is None
    weights[419] = 1
    assert outlier_count._fence(weights, np.inf, 20.0) is not None
