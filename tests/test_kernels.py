from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.kernels import distances, order, totals
from robust_kmeans.sweeps.base import all_positions
from tests import oracle
from tests.strategies import DTYPES

# From this many features and centres on a matrix product is used.
WIDE, MANY = distances.SHORTLIST_FEATURES, distances.SHORTLIST_CENTERS
BOTH_KERNELS = pytest.mark.parametrize(("n_features", "k"), [(3, 9), (WIDE, MANY)])
# Around the tile, the rows of a matrix product, and where one is used.
SHAPES = [
    (1, 1, 1),
    (5, 2, 3),
    (distances.TILE, 3, 4),
    (distances.TILE + 1, 9, 20),
    (300, WIDE - 1, MANY),
    (300, WIDE, MANY - 1),
    (300, WIDE, MANY),
    (distances.SHORTLIST_ROWS + 3, WIDE + 2, MANY + 1),
]


def data(shape, dtype, offset=0.0):
    n_rows, n_features, n_centers = shape
    random = np.random.RandomState(n_rows)
    X = (random.standard_normal((n_rows, n_features)) + offset).astype(dtype)
    centers = (random.standard_normal((n_centers, n_features)) + offset).astype(dtype)
    return X, centers


def assigned(X, centers):
    d2, labels = np.full(len(X), np.inf, X.dtype), np.zeros(len(X), np.int32)
    others = np.empty_like(d2)
    distances.assign(X, all_positions(len(X)), centers, labels, others, d2)
    return d2, labels, others


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_assign_equals_the_oracle(shape, dtype):
    X, centers = data(shape, dtype)
    d2, labels, _ = assigned(X, centers)
    expected = oracle.squared_distances(X, centers)
    np.testing.assert_allclose(d2, expected.min(axis=1), rtol=20 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_other_center_is_nearer_than_the_bound(shape, offset, dtype):
    X, centers = data(shape, dtype, offset)
    _, labels, others = assigned(X, centers)
    distance = np.sqrt(oracle.squared_distances(X, centers))
    distance[np.arange(len(X)), labels] = np.inf
    assert (others <= distance.min(axis=1)).all()
    # And it is not far from the truth, or it would be of no use.
    if len(centers) > 1 and offset == 0:
        assert np.median(others / distance.min(axis=1)) > 0.99


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_are_not_doubtful_keep_their_label(dtype):
    X, centers = data((2000, 5, 12), dtype)
    _, labels, others = assigned(X, centers)
    step = np.random.RandomState(0).standard_normal(centers.shape) * 0.05
    moved = (centers + step).astype(dtype)
    far = np.sqrt(((moved.astype(np.float64) - centers) ** 2).sum(axis=1)).max()
    d2, after = np.empty(2000, dtype), np.empty(2000, dtype)
    out = np.empty(2000, np.int32)
    slack = np.full(12, far * (1 + 1e-6), dtype)
    found = distances.doubtful_rows(X, moved, slack, labels, others, d2, after, out)
    doubtful = np.zeros(2000, bool)
    doubtful[out[:found]] = True
    truth = oracle.squared_distances(X, moved)
    assert 0 < found < 1500
    np.testing.assert_array_equal(truth.argmin(axis=1)[~doubtful], labels[~doubtful])
    truth[np.arange(2000), labels] = np.inf
    assert (after <= np.sqrt(truth.min(axis=1))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_features", "k"), [*((d, 10) for d in range(1, 40)), (WIDE, MANY)])
def test_reassigning_changes_no_bit(n_features, k, dtype):
    # More than two blocks, so that positions within and across blocks are mixed up if at all.
    X, centers = data((2 * distances.BLOCK + 77, n_features, k), dtype)
    everywhere = all_positions(len(X))
    moved = (centers * 1.02).astype(dtype)
    slack = np.full(len(centers), np.sqrt(((moved - centers) ** 2).sum(axis=1)).max() * 1.001)
    _, labels, others = assigned(X, centers)
    after, bound, d2 = np.empty_like(labels), np.empty_like(others), np.empty_like(others)
    kept = (np.arange(len(X)) % 7 > 0).astype(np.uint8)
    sums, mass = np.zeros(moved.shape), np.zeros(k)
    distances.reassign(
        X, moved, slack.astype(dtype), labels, others, kept, after, bound, d2, sums, mass
    )

    expected_labels, expected_bound = np.empty_like(labels), np.empty_like(others)
    distances.assign(X, everywhere, moved, expected_labels, expected_bound)
    expected_d2 = np.empty_like(others)
    distances.own_distances(X, everywhere, moved, expected_labels, expected_d2)
    assert (labels != after).any()
    np.testing.assert_array_equal(after, expected_labels)
    np.testing.assert_array_equal(d2, expected_d2)
    assert (bound <= expected_bound * (1 + 4 * np.finfo(dtype).eps)).all()
    # What the rows with a new label change in the sums of deviations and in the counts.
    expected_sums, expected_mass = np.zeros(moved.shape), np.zeros(k)
    for i in np.flatnonzero((labels != after) & (kept == 1)):
        for label, sign in ((labels[i], -1), (after[i], 1)):
            expected_sums[label] += sign * (X[i].astype(np.float64) - moved[label])
            expected_mass[label] += sign
    np.testing.assert_allclose(sums, expected_sums, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(mass, expected_mass)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_rows", [*range(1, 10), *range(15, 18), *range(31, 34), *range(63, 66)])
def test_assign_equals_the_oracle_wherever_a_tile_ends(n_rows, dtype):
    X, centers = data((distances.TILE + n_rows, 4, 6), dtype)
    which = np.random.RandomState(1).permutation(len(X))[:n_rows].astype(np.int32)
    labels, others = np.full(len(X), -1, np.int32), np.full(len(X), -1, dtype)
    distances.assign(X, which, centers, labels, others)
    expected = oracle.squared_distances(X, centers).argmin(axis=1)
    np.testing.assert_array_equal(labels[which], expected[which])
    untouched = np.setdiff1d(np.arange(len(X)), which)
    assert (labels[untouched] == -1).all()
    assert (others[untouched] == -1).all()


@pytest.mark.parametrize("dtype", DTYPES)
@BOTH_KERNELS
def test_assign_does_not_depend_on_neighbouring_rows(n_features, k, dtype):
    X, centers = data((700, n_features, k), dtype)
    d2, labels, _ = assigned(X, centers)
    for i in (0, 17, 255, 256, 511, 699):
        alone = assigned(X[i : i + 1].copy(), centers)
        assert (alone[0][0], alone[1][0]) == (d2[i], labels[i])


@BOTH_KERNELS
def test_far_from_the_origin_distances_keep_their_digits(n_features, k):
    # ‖x‖² − 2x·c + ‖c‖² would lose all of them: 1e4² · 128 has no float32 digit left for 1.
    X, centers = data((600, n_features, k), np.float32, offset=1e4)
    expected = oracle.squared_distances(X, centers)
    d2, labels, _ = assigned(X, centers)
    np.testing.assert_allclose(d2, expected.min(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))


@BOTH_KERNELS
def test_far_rows_do_not_disturb_the_others(n_features, k):
    X, centers = data((600, n_features, k), np.float32)
    alone = assigned(X, centers)
    X[::7] *= 1e6
    mixed = assigned(X, centers)
    near = np.arange(600) % 7 != 0
    np.testing.assert_array_equal(mixed[0][near], alone[0][near])
    np.testing.assert_array_equal(mixed[1][near], alone[1][near])


@BOTH_KERNELS
def test_ties_between_centers_go_to_the_lowest_label(n_features, k):
    X, centers = data((50, n_features, k), np.float64)
    repeated = np.concatenate([centers, centers])
    np.testing.assert_array_equal(assigned(X, repeated)[1], assigned(X, centers)[1])


@BOTH_KERNELS
def test_assigning_in_parts_equals_assigning_at_once(n_features, k):
    X, centers = data((300, n_features, 2 * k), np.float64)
    d2, labels = np.full(300, np.inf), np.zeros(300, np.int32)
    everywhere, others = all_positions(300), np.empty(300)
    distances.assign(X, everywhere, centers[:k].copy(), labels, others, d2)
    distances.assign(X, everywhere, centers[k:].copy(), labels, others, d2, first_label=k)
    whole = assigned(X, centers)
    np.testing.assert_array_equal(d2, whole[0])
    np.testing.assert_array_equal(labels, whole[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_pairwise_equals_the_oracle(shape, dtype):
    X, centers = data(shape, dtype)
    expected = oracle.squared_distances(X, centers)
    out = np.empty(expected.shape, dtype)
    distances.pairwise(X, centers, out)
    np.testing.assert_allclose(out, np.sqrt(expected), rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 100, 999])
def test_values_that_are_not_finite_are_noticed(bad, position):
    values = np.arange(1000, dtype=np.float32)
    low, high = np.full(48, np.inf, np.float32), np.full(48, -np.inf, np.float32)
    assert totals.periodic_ranges(values, low, high) == 0
    values[position] = bad
    assert np.isnan(totals.periodic_ranges(values, low, high))


def test_a_row_without_weight_is_never_located():
    d2, weights = np.array([0.0, 3.0, 1.0, 0.0]), np.array([1.0, 0.0, 2.0, 1.0])
    for target in (0.0, 1.9, 2.0, 99.0):
        assert totals.locate_mass(d2, weights, 0.0, 1.0, np.inf, target) == 2
    assert totals.locate_mass(np.zeros(4), weights, 0.0, 1.0, np.inf, 0.0) == -1


@st.composite
def masses(draw):
    """Counts per bin, and weights that are counts too or any numbers."""
    counts = np.array(draw(st.lists(st.integers(0, 3), min_size=1, max_size=30)), np.int64)
    counts[draw(st.integers(0, len(counts) - 1))] += 1
    if draw(st.booleans()):
        return counts, counts
    weights = draw(st.lists(st.floats(0.01, 10), min_size=len(counts), max_size=len(counts)))
    return counts, np.where(counts > 0, weights, 0.0)


@given(masses(), st.floats(0, 1.1))
def test_the_bin_of_the_cut_is_the_first_from_the_top_beyond_the_budget(found, share):
    counts, mass = found
    budget = share * float(mass.sum())
    bin_, above = order.bin_past(counts, mass, budget)
    from_top = np.cumsum(mass[::-1])
    filled = np.flatnonzero(counts[::-1])
    past = [position for position in filled if from_top[position] > budget] or [filled[-1]]
    assert bin_ == len(counts) - 1 - past[0]
    assert above == (from_top[past[0] - 1] if past[0] else 0)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=30), st.floats(0, 5), st.floats(0, 1.1))
def test_the_row_of_the_cut_is_the_first_beyond_the_budget(weights, above, share):
    weights = np.array(weights)
    ranking = np.random.RandomState(len(weights)).permutation(len(weights))
    budget = above + share * float(weights.sum())
    position, until = order.row_past(weights, ranking, above, budget)
    running = above + np.cumsum(weights[ranking])
    past = np.flatnonzero(running > budget)
    assert position == (past[0] if past.size else len(weights) - 1)
    assert until == running[position]
