from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans.kernels import assign as kernels
from robust_kmeans.kernels.dues import direct_error
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.packing import pack
from robust_kmeans.kernels.row_registers import squared_distance
from robust_kmeans.kernels.scores import compare
from robust_kmeans.kernels.team import ALONE, EVERY_PART
from robust_kmeans.sweeps.base import all_positions
from tests import oracle
from tests.strategies import DTYPES

WIDTHS = [*range(1, 41), 63, 64, 65, 127, 128, 129, 130, 784]
BOTH_DTYPES = pytest.mark.parametrize("dtype", DTYPES)
NOBODY = np.empty(0, np.float32)
# One tile's width of features, and more.
NARROW_AND_WIDE = pytest.mark.parametrize(("n_features", "k"), [(3, 9), (130, 37)])


def gaussian(random, n_rows, n_features):
    return random.standard_normal((n_rows, n_features))


def far_from_the_origin(random, n_rows, n_features):
    return 1e6 + gaussian(random, n_rows, n_features)


def ties(random, n_rows, n_features):
    return random.randint(-1, 2, size=(n_rows, n_features)).astype(float)


def of_all_sizes(random, n_rows, n_features):
    return gaussian(random, n_rows, n_features) * 10.0 ** random.uniform(-6, 6, size=(n_rows, 1))


def tiny(random, n_rows, n_features):
    return 1e-30 * gaussian(random, n_rows, n_features)


def barely_above_nothing(random, n_rows, n_features):
    return 1e-21 * gaussian(random, n_rows, n_features)


def with_squares_below_float64(random, n_rows, n_features):
    return 10.0 ** random.choice([-160, -162, -170], size=(n_rows, 1)) * gaussian(
        random, n_rows, n_features
    )


def huge(random, n_rows, n_features):
    return 1e15 * gaussian(random, n_rows, n_features)


KINDS = [
    gaussian, far_from_the_origin, ties, of_all_sizes, tiny, barely_above_nothing,
    with_squares_below_float64, huge,
]  # fmt: skip


def data(kind, n_rows, n_features, k, dtype, seed=0):
    """Rows, and centres that are like them; some are equal to rows, and two to each other."""
    random = np.random.RandomState(seed)
    X = kind(random, n_rows, n_features).astype(dtype)
    centers = kind(random, k, n_features).astype(dtype)
    centers[: k // 3] = X[: k // 3]
    centers[-1] = centers[k // 2]
    return X, centers


def assigned(X, centers):
    labels, d2 = np.full(len(X), -1, np.int32), np.full(len(X), -1, X.dtype)
    others = np.full(len(X), -1, np.float32)
    packed = pack(centers)
    kernels.assign(
        EVERY_PART, 1, X, all_positions(len(X)), centers, packed, labels, d2, others, ALONE
    )
    return labels, d2, others


@jit
def plain_loop(rows, centers, out):
    for i in range(rows.shape[0]):
        for j in range(centers.shape[0]):
            out[i, j] = squared_distance(rows, i, centers, j)


def all_distances(X, centers):
    out = np.empty((len(X), len(centers)), X.dtype)
    plain_loop(X, centers, out)
    return out


def check_against_the_plain_loop(X, centers):
    labels, d2, others = assigned(X, centers)
    plain = all_distances(X, centers)
    np.testing.assert_array_equal(labels, plain.argmin(axis=1))
    np.testing.assert_array_equal(d2, plain.min(axis=1))
    truth = np.sqrt(oracle.squared_distances(X, centers))
    truth[np.arange(len(X)), labels] = np.inf
    assert (others <= truth.min(axis=1)).all()
    assert (others >= 0).all()


@BOTH_DTYPES
@pytest.mark.parametrize("n_features", WIDTHS)
def test_every_distance_equals_the_oracle(n_features, dtype):
    X, centers = data(gaussian, 50, n_features, 7, dtype)
    expected = oracle.squared_distances(X, centers)
    rounding = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(all_distances(X, centers), expected, rtol=rounding)


@BOTH_DTYPES
@pytest.mark.parametrize("n_features", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_distances_equal_the_plain_loop_for_any_width(kind, n_features, dtype):
    check_against_the_plain_loop(*data(kind, 150, n_features, 11, dtype))


@BOTH_DTYPES
@pytest.mark.parametrize("k", [*range(1, 10), 20, 63, 64, 65, 130])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_distances_equal_the_plain_loop_for_any_number_of_centers(kind, k, dtype):
    for n_features in (2, 70):
        check_against_the_plain_loop(*data(kind, 200, n_features, k, dtype))


@BOTH_DTYPES
@given(
    kind=st.sampled_from(KINDS),
    n_rows=st.integers(1, 150),
    n_features=st.integers(1, 150),
    k=st.integers(1, 40),
    seed=st.integers(0, 2**31 - 1),
)
@settings(max_examples=60)
def test_labels_and_distances_equal_the_plain_loop(dtype, kind, n_rows, n_features, k, seed):
    X = kind(np.random.RandomState(seed), n_rows + k, n_features).astype(dtype)
    check_against_the_plain_loop(X[k:].copy(), X[:k].copy())


@BOTH_DTYPES
@NARROW_AND_WIDE
def test_the_margin_leaves_few_rows_to_the_plain_loop(n_features, k, dtype):
    X, centers = data(gaussian, 1000, n_features, k, dtype)
    centers[-1] += 1  # the only one that is equal to another
    packed = pack(centers).fine
    X64 = X.astype(np.float64) - packed.origin
    scores = oracle.squared_distances(X64, centers.astype(np.float64) - packed.origin)
    best, second = np.sort(scores, axis=1)[:, :2].T
    size = np.sum(X64**2, axis=1) + 2 * packed.norms[:k].max()
    margin = (packed.error + direct_error(X)) * size
    assert np.mean(second - best < margin) < 0.02


def undecided_in_float32(X, centers):
    labels, d2 = np.empty(len(X), np.int32), np.empty(len(X))
    others, left = np.empty(len(X), np.float32), np.empty(len(X), np.int32)
    positions = all_positions(len(X))
    coarse = pack(centers).coarse
    assert coarse.factors.dtype == np.float32
    return compare(X, positions, centers, coarse, False, labels, d2, others, NOBODY, left) / len(X)


def far_apart_and_tight(n_rows, n_features, k):
    """Four clusters so far apart that float32 cannot tell centres within one from each other."""
    random = np.random.RandomState(0)
    middles = random.uniform(-1e7, 1e7, size=(4, n_features))
    X = middles[random.randint(4, size=n_rows)] + random.standard_normal((n_rows, n_features))
    return X, X[:k].copy()


@NARROW_AND_WIDE
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_float32_decides_nearly_all_float64_rows_of_any_scale(n_features, k, scale):
    X, centers = data(gaussian, 1000, n_features, k, np.float64)
    centers[-1] += 1
    assert undecided_in_float32(X * scale, centers * scale) < 0.02


def test_what_float64_cannot_tell_apart_float32_does_not_either():
    # All squares are 0: the first centre is the nearest, as in the plain loop.
    X, centers = np.full((100, 1), 2e-170), np.array([[1e-170], [0.0], [2e-170]])
    check_against_the_plain_loop(X, centers)
    assert (assigned(X, centers)[0] == 0).all()


@NARROW_AND_WIDE
def test_what_float32_cannot_decide_float64_does(n_features, k):
    n_rows = 3 * kernels.COMPARED + 77
    X, centers = far_apart_and_tight(n_rows, n_features, k)
    assert undecided_in_float32(X, centers) > kernels.OFTEN
    check_against_the_plain_loop(X, centers)
    # Where only the rows in the middle are of that kind, the others are decided in float32.
    X[: kernels.COMPARED] = X[-kernels.COMPARED :] = 1e9
    check_against_the_plain_loop(X, centers)


@BOTH_DTYPES
@pytest.mark.parametrize("n_features", [65, 130, 784])
def test_of_wide_rows_only_centers_are_measured_that_scores_cannot_tell_apart(n_features, dtype):
    # Two centres in each of a few clusters that are far apart.
    random = np.random.RandomState(0)
    middles = random.uniform(-1, 1, size=(6, n_features)) * (1e4 if dtype == np.float32 else 1e12)
    X = middles[np.arange(3000) % 6] + random.standard_normal((3000, n_features))
    X, centers = X.astype(dtype), X[:12].astype(dtype)
    for packed in {id(packed): packed for packed in pack(centers)}.values():
        labels, d2 = np.empty(3000, np.int32), np.empty(3000, dtype)
        others, left = np.empty(3000, np.float32), np.empty(3000, np.int32)
        positions = all_positions(3000)
        assert compare(X, positions, centers, packed, False, labels, d2, others, NOBODY, left) == 0
        plain = all_distances(X, centers)
        np.testing.assert_array_equal(labels, plain.argmin(axis=1))
        np.testing.assert_array_equal(d2, plain.min(axis=1))
        second = np.sqrt(np.sort(plain, axis=1)[:, 1])
        assert (others < second).all()
        assert (others > 0.9999 * second).all(), "the second centre was measured, too"


@BOTH_DTYPES
@NARROW_AND_WIDE
def test_the_bound_is_close_to_the_distance_of_the_second_center(n_features, k, dtype):
    X, centers = data(gaussian, 600, n_features, k, dtype)
    labels, _, others = assigned(X, centers)
    truth = np.sqrt(oracle.squared_distances(X, centers))
    truth[np.arange(600), labels] = np.inf
    assert np.median(others / truth.min(axis=1)) > 0.9995


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_bounds_beyond_the_range_of_float32_hold(scale):
    X, centers = data(gaussian, 300, 4, 6, np.float64)
    check_against_the_plain_loop(X * scale, centers * scale)


def test_a_single_center_leaves_no_other_to_come_near():
    X, centers = data(gaussian, 30, 4, 1, np.float64)
    assert (assigned(X, centers)[2] == np.inf).all()


@BOTH_DTYPES
@pytest.mark.parametrize("n_rows", [*range(1, 10), 15, 16, 17, 31, 32, 33, 63, 64, 65, 129])
def test_only_the_rows_that_are_asked_for_change(n_rows, dtype):
    X, centers = data(gaussian, 200, 5, 6, dtype)
    which = np.sort(np.random.RandomState(1).permutation(200)[:n_rows]).astype(np.int32)
    labels, d2 = np.full(200, -1, np.int32), np.full(200, -1, dtype)
    others = np.full(200, -1, np.float32)
    kernels.assign(EVERY_PART, 1, X, which, centers, pack(centers), labels, d2, others, ALONE)
    untouched = np.setdiff1d(np.arange(200), which)
    for found, expected in zip((labels, d2, others), assigned(X, centers), strict=True):
        np.testing.assert_array_equal(found[which], expected[which])
        assert (found[untouched] == -1).all()


@BOTH_DTYPES
@NARROW_AND_WIDE
@pytest.mark.parametrize("kind", [gaussian, ties])
def test_a_row_alone_gets_what_it_gets_among_others(kind, n_features, k, dtype):
    X, centers = data(kind, 300, n_features, k, dtype)
    together = assigned(X, centers)
    for i in range(0, 300, 7):
        for alone, all_ in zip(assigned(X[i : i + 1].copy(), centers), together, strict=True):
            assert alone[0] == all_[i]


@NARROW_AND_WIDE
def test_far_rows_and_centers_do_not_disturb_the_others(n_features, k):
    X, centers = data(gaussian, 600, n_features, k, np.float32)
    alone = assigned(X, centers)
    X[::7] *= 1e6
    mixed = assigned(X, np.vstack([centers, np.full((1, n_features), 1e9, np.float32)]))
    near = np.arange(600) % 7 != 0
    np.testing.assert_array_equal(mixed[0][near], alone[0][near])
    np.testing.assert_array_equal(mixed[1][near], alone[1][near])


def ties_and_far_outliers(random, n_rows, n_features):
    X = random.randint(-1, 2, size=(n_rows, n_features)).astype(float)
    X[::9] *= 1e6
    return X


@BOTH_DTYPES
@pytest.mark.parametrize("k", [*range(1, 10), *range(13, 18)])
@pytest.mark.parametrize("kind", [gaussian, ties_and_far_outliers])
def test_no_number_of_centers_needs_to_be_filled_up(kind, k, dtype):
    # The last of four centres may be missing, and the last of so many features as are transposed.
    for n_features in range(1, 41):
        check_against_the_plain_loop(*data(kind, 70, n_features, k, dtype))
