"""Synthetic data is what its description says."""

from __future__ import annotations

import numpy as np
import pytest

from robust_kmeans.datasets import add_row_noise, make_contaminated_blobs


def by_cluster(blobs):
    return [blobs.X[blobs.labels == j] for j in range(len(blobs.centers))]


def test_the_default_is_the_generator_of_the_paper():
    X, labels, centers = make_contaminated_blobs(random_state=0)
    assert X.shape == (1100, 2)
    assert centers.shape == (20, 2)
    assert np.all(np.bincount(labels[labels >= 0]) == 50)
    assert np.sum(labels == -1) == 100
    points = np.vstack([centers, X[labels == -1]])
    assert points.min() >= 0
    assert points.max() <= 100


def test_rows_are_n_in_clusters_and_z_outliers():
    blobs = make_contaminated_blobs(
        600, n_clusters=6, n_outliers=30, n_features=7, shuffle=False, random_state=0
    )
    assert blobs.X.shape == (630, 7)
    assert blobs.X.dtype == np.float64
    assert blobs.labels.dtype == np.int32
    expected = np.concatenate([np.repeat(np.arange(6), 100), np.full(30, -1)])
    np.testing.assert_array_equal(blobs.labels, expected)


def test_centers_and_outliers_are_uniform_in_the_cube():
    blobs = make_contaminated_blobs(4000, n_clusters=4000, n_outliers=4000, random_state=0)
    for points in (blobs.centers, blobs.X[blobs.labels == -1]):
        assert points.min() >= 0
        assert points.max() <= 100
        # Each tenth of the side holds a tenth of the points, within five standard deviations.
        for column in points.T:
            counts = np.histogram(column, bins=10, range=(0, 100))[0]
            assert np.all(np.abs(counts - 400) < 5 * np.sqrt(4000 * 0.1 * 0.9))
        assert abs(np.corrcoef(points.T)[0, 1]) < 5 / np.sqrt(4000)


def test_clusters_are_unit_gaussians_around_their_centers():
    blobs = make_contaminated_blobs(20_000, n_clusters=4, n_outliers=5, random_state=0)
    for rows, center in zip(by_cluster(blobs), blobs.centers, strict=True):
        scaled = rows - center
        assert np.all(np.abs(scaled.mean(axis=0)) < 5 / np.sqrt(5000))
        np.testing.assert_allclose(np.cov(scaled.T), np.eye(2), atol=0.1)
        # 95 % of a Gaussian are within 1.96 standard deviations.
        assert np.mean(np.abs(scaled) < 1.96) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(("n_samples", "sizes"), [(11, [3, 3, 3, 2]), (4, [1, 1, 1, 1])])
def test_a_number_of_rows_is_split_as_evenly_as_possible(n_samples, sizes):
    labels = make_contaminated_blobs(n_samples, n_clusters=4, n_outliers=0, random_state=0).labels
    assert np.bincount(labels).tolist() == sizes


@pytest.mark.parametrize("as_array", [list, tuple, np.array])
def test_clusters_may_have_different_sizes(as_array):
    sizes = as_array([200, 1, 30])
    blobs = make_contaminated_blobs(sizes, n_clusters=3, n_outliers=4, random_state=0)
    assert [len(rows) for rows in by_cluster(blobs)] == [200, 1, 30]
    assert len(blobs.X) == 235


def test_clusters_may_have_different_spreads():
    stds = [0.0, 1.0, 10.0]
    blobs = make_contaminated_blobs(
        9000, n_clusters=3, n_outliers=0, cluster_std=stds, random_state=0
    )
    for rows, center, std in zip(by_cluster(blobs), blobs.centers, stds, strict=True):
        np.testing.assert_allclose((rows - center).std(axis=0), std, rtol=0.05, atol=1e-12)


def test_one_spread_scales_all_clusters():
    one = make_contaminated_blobs(shuffle=False, random_state=0)
    two = make_contaminated_blobs(cluster_std=2.0, shuffle=False, random_state=0)
    inlier = one.labels >= 0
    middle = one.centers[one.labels[inlier]]
    np.testing.assert_allclose(two.X[inlier] - middle, 2 * (one.X[inlier] - middle), atol=1e-12)


@pytest.mark.parametrize("outlier_box", [10.0, 1000.0])
def test_another_box_moves_the_outliers_alone(outlier_box):
    near = make_contaminated_blobs(n_outliers=500, random_state=0)
    far = make_contaminated_blobs(n_outliers=500, outlier_box=outlier_box, random_state=0)
    inlier = near.labels >= 0
    np.testing.assert_array_equal(far.X[inlier], near.X[inlier])
    np.testing.assert_array_equal(far.centers, near.centers)
    # The same middle, and filled to the sides.
    from_middle = far.X[~inlier] - 50
    assert np.abs(from_middle).max() <= outlier_box / 2
    assert from_middle.max() > 0.48 * outlier_box
    assert from_middle.min() < -0.48 * outlier_box


def test_the_box_scales_the_means():
    small = make_contaminated_blobs(box=1.0, random_state=0)
    np.testing.assert_allclose(
        make_contaminated_blobs(box=50.0, random_state=0).centers, 50 * small.centers, rtol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, "float32", np.float64])
def test_dtype_is_that_of_rows_and_centers(dtype):
    blobs = make_contaminated_blobs(dtype=dtype, random_state=0)
    assert blobs.X.dtype == blobs.centers.dtype == np.dtype(dtype)
    np.testing.assert_allclose(blobs.X, make_contaminated_blobs(random_state=0).X, rtol=1e-5)


def test_shuffling_changes_the_order_of_rows_and_labels_alone():
    mixed = make_contaminated_blobs(random_state=0)
    sorted_ = make_contaminated_blobs(shuffle=False, random_state=0)
    assert not np.array_equal(mixed.X, sorted_.X)
    one, two = np.lexsort(mixed.X.T), np.lexsort(sorted_.X.T)
    np.testing.assert_array_equal(mixed.X[one], sorted_.X[two])
    np.testing.assert_array_equal(mixed.labels[one], sorted_.labels[two])


def test_the_same_random_state_gives_the_same_data():
    options = {"n_noisy": 10, "outlier_box": 300.0}
    one = make_contaminated_blobs(random_state=7, **options)
    for same in (7, np.random.RandomState(7)):
        for a, b in zip(one, make_contaminated_blobs(random_state=same, **options), strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.X, make_contaminated_blobs(random_state=8, **options).X)


def test_noisy_rows_of_clusters_become_outliers():
    options = {"shuffle": False, "random_state": 0}
    clean = make_contaminated_blobs(**options)
    noisy = make_contaminated_blobs(n_noisy=40, noise_scale=3.0, **options)
    assert np.sum(noisy.labels == -1) == 140
    changed = np.any(noisy.X != clean.X, axis=1)
    np.testing.assert_array_equal(changed, (noisy.labels == -1) & (clean.labels >= 0))
    np.testing.assert_array_equal(noisy.labels[~changed], clean.labels[~changed])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_noise_is_in_standard_deviations_of_each_feature(scale, dtype):
    rng = np.random.RandomState(0)
    X = (rng.uniform(size=(20_000, 3)) * [1.0, 1000.0, 0.001] + [0.0, 5.0, 1.0]).astype(dtype)
    rows, noisy = add_row_noise(X, 5000, scale=scale, random_state=1)
    assert rows.dtype == dtype
    assert noisy.dtype == bool
    assert noisy.sum() == 5000
    np.testing.assert_array_equal(rows[~noisy], X[~noisy])
    noise = (rows[noisy].astype(float) - X[noisy]) / X.std(axis=0, dtype=float)
    np.testing.assert_allclose(noise.std(axis=0), scale, rtol=0.05)
    assert np.all(np.abs(noise.mean(axis=0)) < 5 * scale / np.sqrt(5000))
    assert np.all(np.abs(np.corrcoef(noise.T) - np.eye(3)) < 0.1)


def test_noise_is_added_to_a_copy():
    X = np.random.RandomState(0).uniform(size=(50, 2))
    before = X.copy()
    rows, noisy = add_row_noise(X, 50, random_state=0)
    np.testing.assert_array_equal(X, before)
    assert noisy.all()
    assert np.all(rows != X)


def test_noise_on_no_rows_changes_nothing():
    X = np.random.RandomState(0).uniform(size=(50, 2))
    rows, noisy = add_row_noise(X, 0, random_state=0)
    np.testing.assert_array_equal(rows, X)
    assert not noisy.any()


def test_a_constant_feature_gets_no_noise():
    X = np.column_stack([np.ones(100), np.arange(100.0)])
    rows, noisy = add_row_noise(X, 30, random_state=0)
    np.testing.assert_array_equal(rows[:, 0], 1)
    assert np.all(rows[noisy, 1] != X[noisy, 1])


def test_noisy_rows_are_drawn_by_the_random_state():
    X = np.random.RandomState(0).uniform(size=(50, 2))
    one, same, other = (add_row_noise(X, 9, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.noisy, same.noisy)
    assert not np.array_equal(one.noisy, other.noisy)
