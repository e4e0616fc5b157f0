"""Measures against their definitions in plain NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    f1_score,
    precision_score,
    recall_score,
    silhouette_score,
)

from robust_kmeans import (
    RobustKMeans,
    outlier_precision_recall,
    trimmed_calinski_harabasz_score,
    trimmed_davies_bouldin_score,
    trimmed_inertia,
    trimmed_silhouette_score,
)
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.metrics import trim_curve

X, LABELS, CENTERS = make_contaminated_blobs(
    300, n_clusters=5, n_outliers=20, n_features=3, random_state=0
)
MEASURES = [
    (trimmed_silhouette_score, silhouette_score),
    (trimmed_davies_bouldin_score, davies_bouldin_score),
    (trimmed_calinski_harabasz_score, calinski_harabasz_score),
]


def squared_distances(rows, centers):
    return cdist(rows, centers, "sqeuclidean").min(axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_outliers", [0, 1, 20, 315, 319])
def test_trimmed_inertia_leaves_out_the_farthest_rows(n_outliers, dtype):
    rows, centers = X.astype(dtype), CENTERS.astype(dtype)
    d2 = squared_distances(rows.astype(float), centers.astype(float))
    expected = np.sort(d2)[: len(d2) - n_outliers].sum()
    rel = 1e-5 if dtype == np.float32 else 1e-12
    assert trimmed_inertia(rows, centers, n_outliers=n_outliers) == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize(("share", "n_outliers"), [(0.0, 0), (0.05, 16), (0.1, 32), (0.999, 319)])
def test_a_share_of_outliers_is_rounded_down_to_whole_rows(share, n_outliers):
    by_share = trimmed_inertia(X, CENTERS, n_outliers=share)
    assert by_share == trimmed_inertia(X, CENTERS, n_outliers=n_outliers)


def test_a_share_that_means_a_whole_number_of_rows_is_not_rounded_below_it():
    # 0.29 · 100 is 28.999… in floating point.
    rows = np.arange(100.0)[:, np.newaxis]
    assert trimmed_inertia(rows, [[0.0]], n_outliers=0.29) == np.sum(np.arange(71.0) ** 2)


@pytest.mark.parametrize("n_outliers", [0, 3, 0.05, 0.37])
def test_weighted_trimmed_inertia_cuts_the_boundary_row_in_part(n_outliers):
    weights = np.random.RandomState(1).uniform(0, 2, len(X))
    weights[::7] = 0
    budget = n_outliers if isinstance(n_outliers, int) else n_outliers * weights.sum()
    d2 = squared_distances(X, CENTERS)
    order = np.argsort(-d2)
    before = np.cumsum(weights[order]) - weights[order]
    trimmed = np.clip(budget - before, 0, weights[order])
    expected = np.sum((weights[order] - trimmed) * d2[order])
    found = trimmed_inertia(X, CENTERS, n_outliers=n_outliers, sample_weight=weights)
    assert found == pytest.approx(expected, rel=1e-10)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.integers(-50, 50), min_size=2, max_size=30),
    centers=st.lists(st.integers(-50, 50), min_size=1, max_size=4),
    data=st.data(),
)
def test_trimmed_inertia_is_exact_on_small_integers(values, centers, data):
    n_outliers = data.draw(st.integers(0, len(values) - 1))
    rows, points = np.array(values, float)[:, np.newaxis], np.array(centers, float)[:, np.newaxis]
    d2 = np.sort(squared_distances(rows, points))
    assert trimmed_inertia(rows, points, n_outliers=n_outliers) == d2[: len(d2) - n_outliers].sum()


def test_trimmed_inertia_of_a_fit_is_its_inertia():
    fitted = RobustKMeans(5, n_outliers=20, random_state=0).fit(X)
    found = trimmed_inertia(X, fitted.cluster_centers_, n_outliers=20)
    assert found == pytest.approx(fitted.inertia_, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_precision_recall_and_f1_are_scikit_learns(pairs):
    true, flagged = np.array(pairs, dtype=bool).T
    found = outlier_precision_recall(true, flagged)
    assert found.precision == precision_score(true, flagged, zero_division=1)
    assert found.recall == recall_score(true, flagged, zero_division=1)
    assert found.f1 == pytest.approx(f1_score(true, flagged, zero_division=1), rel=1e-12)
    assert outlier_precision_recall(np.flatnonzero(true), np.flatnonzero(flagged)) == found


@pytest.mark.parametrize(
    ("true", "flagged", "expected"),
    [
        ([], [], (1, 1, 1)),
        ([], [3], (0, 1, 0)),
        ([3], [], (1, 0, 0)),
        ([3], [4], (0, 0, 0)),
        ([4, 3], [3, 4], (1, 1, 1)),
        ([0, 1, 2, 3], [3], (1, 0.25, 0.4)),
    ],
)
def test_edges_of_precision_and_recall(true, flagged, expected):
    assert outlier_precision_recall(true, flagged) == expected


def test_the_order_of_row_numbers_does_not_matter():
    rng = np.random.RandomState(0)
    true, flagged = rng.permutation(50)[:20], rng.permutation(50)[:10]
    expected = outlier_precision_recall(np.sort(true), np.sort(flagged))
    assert outlier_precision_recall(true, flagged) == expected


def test_fitted_outliers_can_be_compared_as_indices_and_as_a_mask():
    fitted = RobustKMeans(5, n_outliers=20, random_state=0).fit(X)
    by_mask = outlier_precision_recall(LABELS == -1, fitted.labels_ == -1)
    by_index = outlier_precision_recall(np.flatnonzero(LABELS == -1), fitted.outlier_indices_)
    assert by_mask == by_index
    assert by_mask.precision == np.isin(fitted.outlier_indices_, np.flatnonzero(LABELS < 0)).mean()


@pytest.mark.parametrize(("trimmed", "plain"), MEASURES)
def test_measures_are_scikit_learns_on_the_inliers(trimmed, plain):
    kept = LABELS >= 0
    value, share = trimmed(X, LABELS)
    assert value == pytest.approx(plain(X[kept], LABELS[kept]), rel=1e-12)
    assert share == 20 / 320
    assert value != plain(X, LABELS)


@pytest.mark.parametrize(("trimmed", "plain"), MEASURES)
def test_without_outliers_measures_are_scikit_learns(trimmed, plain):
    labels = np.arange(len(X)) % 3
    assert trimmed(X, labels) == (pytest.approx(plain(X, labels), rel=1e-12), 0.0)


@pytest.mark.parametrize(("trimmed", "plain"), MEASURES)
def test_measures_take_lists_and_frames(trimmed, plain):
    pandas = pytest.importorskip("pandas")
    expected = trimmed(X, LABELS)
    assert trimmed(X.tolist(), LABELS.tolist()) == expected
    assert trimmed(pandas.DataFrame(X), pandas.Series(LABELS)) == expected


def test_a_sampled_silhouette_uses_inliers_alone_and_its_random_state():
    kept = LABELS >= 0
    found = trimmed_silhouette_score(X, LABELS, sample_size=50, random_state=3)
    expected = silhouette_score(X[kept], LABELS[kept], sample_size=50, random_state=3)
    assert found == (pytest.approx(expected, rel=1e-12), 20 / 320)
    assert found.value != trimmed_silhouette_score(X, LABELS).value


def test_a_far_outlier_left_out_changes_nothing_but_the_share():
    far = np.vstack([X, [[1e6, 1e6, 1e6]]])
    value, share = trimmed_silhouette_score(far, np.append(LABELS, -1))
    assert value == pytest.approx(trimmed_silhouette_score(X, LABELS).value, rel=1e-12)
    assert share == 21 / 321


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_trim_curve_is_the_trimmed_inertia_of_each_number(dtype):
    rows, centers = X.astype(dtype), CENTERS.astype(dtype)
    curve = trim_curve(rows, centers, n_outliers=np.arange(len(X)))
    expected = [trimmed_inertia(rows, centers, n_outliers=z) for z in range(len(X))]
    np.testing.assert_allclose(curve.inertia, expected, rtol=1e-12)
    assert curve.inertia.dtype == np.float64
    some = trim_curve(rows, centers, n_outliers=[3, 20, 319])
    assert some.n_outliers.tolist() == [3, 20, 319]
    np.testing.assert_allclose(some.inertia, np.array(expected)[[3, 20, 319]], rtol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 7, 8, 9, 320])
def test_by_default_the_trim_curve_has_powers_of_two_and_their_middles(n_rows):
    numbers = trim_curve(X[:n_rows], CENTERS).n_outliers
    powers = [2**j for j in range(10)] + [3 * 2**j for j in range(10)]
    assert numbers.tolist() == [z for z in sorted({0, *powers}) if z < n_rows]


def test_a_far_row_does_not_swallow_the_costs_of_near_ones():
    rows = np.concatenate([np.full(1000, 1e-6), [1e10]])[:, np.newaxis]
    costs = trim_curve(rows, [[0.0]], n_outliers=[0, 1, 501]).inertia
    np.testing.assert_allclose(costs, [1e20, 1e-9, 5e-10], rtol=1e-12)


@pytest.mark.parametrize(
    ("n_outliers", "error", "match"),
    [
        (3, ValueError, r"shape \(\); expected one dimension"),
        ([], ValueError, "at least one"),
        ([[1, 2]], ValueError, r"shape \(1, 2\)"),
        ([0.0, 0.1], TypeError, "float64; expected ints"),
        ([True], TypeError, "bool; expected ints"),
        ([-1, 2], ValueError, "from -1 to 2"),
        ([0, 320], ValueError, "at most 319"),
        ([2, 1], ValueError, "ascending"),
        ([1, 1], ValueError, "without repeats"),
    ],
)
def test_bad_numbers_of_a_trim_curve_are_refused(n_outliers, error, match):
    with pytest.raises(error, match=match):
        trim_curve(X, CENTERS, n_outliers=n_outliers)
