from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans import moving
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels import bounds as kernels
from robust_kmeans.kernels.dues import Bounds
from robust_kmeans.kernels.packing import pack
from robust_kmeans.lloyd import trimmed_lloyd
from robust_kmeans.moving import Journey, Outlook
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, RowState
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.distances import (
    ASSIGN_MOVED,
    BEYOND,
    EVERYWHERE,
    MEASURE,
    SETTLE,
    Band,
    BoundedState,
    Moved,
)
from robust_kmeans.trimming import place
from tests import oracle
from tests.strategies import DTYPES
from tests.test_assign import KINDS, assigned, data, gaussian

BOTH_DTYPES = pytest.mark.parametrize("dtype", DTYPES)
MEASURE_FIRST = pytest.mark.parametrize("measure_first", [False, True], ids=["at once", "first"])


@BOTH_DTYPES
@pytest.mark.parametrize("k", [2, 5, 40])
def test_no_centre_is_nearer_to_another_than_their_gap(dtype, k):
    random = np.random.RandomState(k)
    for scale in (1.0, 1e-12, 1e15):
        centers = (random.standard_normal((k, 7)) * scale).astype(dtype)
        gaps = np.empty(k, np.float32)
        kernels.gaps_between(centers, gaps)
        wide = centers.astype(np.longdouble)
        apart = np.sqrt(((wide[:, np.newaxis] - wide) ** 2).sum(axis=2))
        np.fill_diagonal(apart, np.inf)
        assert (gaps <= apart.min(axis=1)).all()
        np.testing.assert_allclose(gaps, apart.min(axis=1).astype(float), rtol=1e-5)
    centers[1] = centers[0]
    kernels.gaps_between(centers, gaps)
    assert gaps[0] == gaps[1] == 0


def test_a_single_centre_has_no_gap():
    gaps = np.empty(1, np.float32)
    kernels.gaps_between(np.ones((1, 3)), gaps)
    assert gaps[0] == np.inf


@BOTH_DTYPES
@given(
    moves=st.lists(
        st.lists(st.sampled_from([0, 1e-40, 1e-9, 1.0, 3.0, 1e20]), min_size=3, max_size=3),
        min_size=1, max_size=6,
    )
)  # fmt: skip
def test_ways_of_centres_are_no_shorter_than_they_are(dtype, moves):
    journey = Journey.at_start(3)
    for move in moves:
        journey = journey.after(np.square(move), np.dtype(dtype), 5)
    own = np.sum(moves, axis=0)
    others = np.sum([[max(m[1:]), max(m[::2]), max(m[:2])] for m in moves], axis=0)
    for way, expected in zip(journey.ways, (own + others, others), strict=True):
        assert (way >= expected).all()
        np.testing.assert_allclose(way, expected, rtol=2e-3, atol=1e-37)


class Walk:
    """Rows and centres that move, with what Lloyd knows of them."""

    def __init__(self, X, centers, kept=None):
        self.chunk = Chunk(X, NO_WEIGHTS, 0)
        self.X, self.centers = X, centers
        labels, d2, others = assigned(X, centers)
        self.state = RowState(
            d2, labels, others, np.ones(len(X), np.uint8) if kept is None else kept
        )
        self.journey = Journey.at_start(len(centers))

    def move(self, centers, band, measure_first=False):
        """Returns what changed in the totals."""
        movement = np.sum((centers.astype(np.float64) - self.centers) ** 2, axis=1)
        before, self.journey = (
            self.journey, self.journey.after(movement, self.X.dtype, self.X.shape[1])
        )  # fmt: skip
        gaps = assigned(centers.copy(), centers)[2]
        known = Bounds(self.journey.ways, gaps, *band, measure_first)
        step = Moved(centers, pack(centers, known), before.ways, known)
        self.state, (_, changes) = ASSIGN_MOVED.step(self.chunk, self.state, step)
        self.centers = centers
        return changes

    def due(self):
        return ~(self.state.due > self.journey.ways.together[self.state.labels])


def check_what_is_known(walk, band):
    """Labels are right, D² is exact within the band, and elsewhere on the right side of it."""
    labels, d2, _ = assigned(walk.X, walk.centers)
    state = walk.state
    np.testing.assert_array_equal(state.labels, labels)
    below, above = d2 < band.low, d2 > band.high
    np.testing.assert_array_equal(state.d2[~below & ~above], d2[~below & ~above])
    assert (state.d2[below] < band.low).all()
    assert (state.d2[above] > band.high).all()


def second_distances(X, centers):
    truth = np.sqrt(oracle.squared_distances(X, centers))
    return np.sort(truth, axis=1)[:, 1]


@BOTH_DTYPES
@MEASURE_FIRST
@pytest.mark.parametrize("kind", KINDS)
@given(
    n_features=st.sampled_from([1, 2, 9, 17, 34, 130]), k=st.integers(2, 40),
    step=st.sampled_from([1e-4, 0.01, 0.3]), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=12)
def test_rows_left_alone_are_as_if_they_had_been_looked_at(
    kind, measure_first, dtype, n_features, k, step, seed
):
    X, centers = data(kind, 700, n_features, k, dtype, seed)
    random = np.random.RandomState(seed)
    walk = Walk(X, centers)
    low, high = np.quantile(assigned(X, centers)[1], [0.9, 0.95])
    band = Band(float(low), float(high))
    for _ in range(6):
        factors = 1 + step * random.standard_normal(centers.shape)
        centers = (centers * factors).astype(dtype)
        walk.move(centers, band, measure_first)
        check_what_is_known(walk, band)


@BOTH_DTYPES
@MEASURE_FIRST
@pytest.mark.parametrize(("n_features", "k"), [(1, 20), (3, 20), (9, 20), (9, 100), (130, 37)])
def test_small_moves_leave_most_rows_alone(n_features, k, measure_first, dtype):
    X, centers = data(gaussian, 6000, n_features, k, dtype)
    d2 = assigned(X, centers)[1]
    band = Band(*map(float, np.quantile(d2, [0.98, 0.995])))
    walk = Walk(X, centers)
    for _ in range(5):
        centers = (centers * 1.0001).astype(dtype)
        walk.move(centers, band, measure_first)
    d2 = assigned(X, walk.centers)[1]
    inside = (d2 >= band.low) & (d2 <= band.high)
    assert walk.due()[inside].all(), "rows within the band are always looked at"
    assert walk.due().mean() < 0.15
    check_what_is_known(walk, band)


@BOTH_DTYPES
def test_nothing_is_due_once_nothing_moves_and_nothing_is_cut(dtype):
    X, _ = data(gaussian, 3000, 4, 7, dtype)
    centers = X[:7].copy()
    walk = Walk(X, centers)
    walk.move(centers, BEYOND)
    truth = np.sqrt(oracle.squared_distances(X, centers))
    first, second = np.sort(truth, axis=1)[:, :2].T
    # But for rows as far from two centres as rounding can tell.
    assert (second - first)[walk.due()].max(initial=0) < 1e-5 * second.max()


@BOTH_DTYPES
def test_a_single_center_leaves_rows_to_the_band_alone(dtype):
    X = data(gaussian, 500, 3, 3, dtype)[0]
    walk = Walk(X, X[:1].copy())
    for _ in range(4):
        walk.move((walk.centers + dtype(0.5)).astype(dtype), BEYOND)
        check_what_is_known(walk, BEYOND)
    assert not walk.due().any()


@BOTH_DTYPES
@pytest.mark.parametrize("moved", [1, 6])
def test_rows_of_the_center_that_moved_most_are_approached_by_the_others_only(moved, dtype):
    X, centers = data(gaussian, 2000, 5, 12, dtype)
    walk = Walk(X, centers)
    walk.move(centers, BEYOND)
    after = centers.copy()
    after[moved] += dtype(0.1)
    walk.move(after, BEYOND)
    ways = walk.journey.ways
    far = 0.1 * np.sqrt(5)
    assert ways.others[moved] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(np.delete(ways.others, moved), far, rtol=2e-3)
    np.testing.assert_allclose(ways.together, far, rtol=2e-3)
    assert (ways.others >= np.where(np.arange(12) == moved, 0, far * (1 - 1e-6))).all()


@BOTH_DTYPES
def test_rows_nearer_than_half_the_gap_between_centers_are_left_alone(dtype):
    random = np.random.RandomState(0)
    middles = 30 * np.arange(8)[:, np.newaxis] * np.ones(5)
    X = (middles[random.randint(8, size=2000)] + random.standard_normal((2000, 5))).astype(dtype)
    centers = middles.astype(dtype)
    walk = Walk(X, centers)
    # One centre comes from far away, so that the way of others is longer than any distance.
    far = centers.copy()
    far[0] -= dtype(10_000)
    walk.move(far, BEYOND)
    walk.move(centers, BEYOND)
    walk.move((centers + dtype(0.01)).astype(dtype), BEYOND)
    check_what_is_known(walk, BEYOND)
    assert walk.due().mean() < 0.01


@BOTH_DTYPES
@pytest.mark.parametrize("step", [0.001, 0.02, 0.5])
@pytest.mark.parametrize(("n_features", "k"), [*((d, 10) for d in range(1, 34, 4)), (130, 37)])
def test_rows_with_a_new_label_change_the_totals(n_features, k, step, dtype):
    # More than two blocks, so that positions within and across blocks are mixed up if at all.
    X, centers = data(gaussian, 2 * kernels.BLOCK_ROWS[1] + 77, n_features, k, dtype)
    kept = (np.arange(len(X)) % 7 > 0).astype(np.uint8)
    moved = (centers * (1 + step)).astype(dtype)
    labels = assigned(X, centers)[0]
    for measure_first in (False, True):
        walk = Walk(X, centers, kept)
        changes = walk.move(moved, EVERYWHERE, measure_first)
        check_what_is_known(walk, EVERYWHERE)
        after = walk.state.labels
        assert (labels != after).any()
        expected_sums, expected_mass, expected_cost = np.zeros(moved.shape), np.zeros(k), 0.0
        added_up = 0.0
        for i in np.flatnonzero((labels != after) & (kept == 1)):
            for label, sign in ((labels[i], -1), (after[i], 1)):
                deviation = X[i].astype(np.float64) - moved[label]
                expected_sums[label] += sign * deviation
                expected_mass[label] += sign
                expected_cost += sign * np.sum(deviation**2)
                added_up += np.sum(deviation**2)
        np.testing.assert_allclose(changes.sums, expected_sums, rtol=1e-12, atol=1e-10)
        np.testing.assert_array_equal(changes.mass, expected_mass)
        # Both D² of each row are rounded, and so is their sum, part by part.
        rounding = 20 * float(np.finfo(dtype).eps * added_up)
        assert changes.cost == pytest.approx(expected_cost, abs=rounding)


@BOTH_DTYPES
@MEASURE_FIRST
def test_a_settled_state_is_that_of_an_assignment(measure_first, dtype):
    X, centers = data(gaussian, 3000, 6, 15, dtype)
    walk = Walk(X, centers)
    for _ in range(5):
        walk.move((walk.centers * 1.003).astype(dtype), Band(9.0, 12.0), measure_first)
    labels, d2, _ = assigned(X, walk.centers)
    assert (walk.state.d2 != d2).any()
    measured, _ = MEASURE.step(walk.chunk, walk.state, walk.centers)
    settled, _ = SETTLE.step(walk.chunk, measured, walk.journey.ways)
    np.testing.assert_array_equal(settled.labels, labels)
    np.testing.assert_array_equal(settled.d2, d2)
    assert (settled.others <= second_distances(X, walk.centers) * (1 + 1e-6)).all()
    assert (settled.others > 0).mean() > 0.9


def test_another_band_has_all_rows_looked_at_and_a_narrower_one_does_not():
    X, centers = data(gaussian, 2000, 3, 5, np.float64)
    walk = Walk(X, centers)
    walk.move((centers * 1.001).astype(float), Band(4.0, 8.0))
    stale = walk.state.d2.copy()
    walk.move(walk.centers * 1.001, Band(5.0, 7.0))
    assert (walk.state.d2 == stale).mean() > 0.5
    check_what_is_known(walk, Band(5.0, 7.0))
    stale = walk.state.d2.copy()
    walk.move(walk.centers * 1.001, Band(4.5, 7.0))
    assert (walk.state.d2 == stale).mean() < 0.01
    check_what_is_known(walk, Band(4.5, 7.0))


def test_states_are_revised_in_place_only_where_nobody_asks_for_them_again():
    X, centers = data(gaussian, 300, 3, 5, np.float64)
    walk = Walk(X, centers)
    first = walk.state
    walk.move(centers * 1.1, BEYOND)
    np.testing.assert_array_equal(first.d2, assigned(X, centers)[1])
    second = walk.state
    walk.move(centers * 1.2, BEYOND)
    assert walk.state.labels is second.labels
    walk.chunk.keeps_states = True
    before = BoundedState(*(np.copy(part) for part in walk.state[:5]), walk.state.band)
    third = walk.state
    walk.move(centers * 1.5, BEYOND)
    for now, then in zip(third[:5], before[:5], strict=True):
        np.testing.assert_array_equal(now, then)
    check_what_is_known(walk, BEYOND)


def cut_at(value):
    return Cut(value=value, row=0, trimmed=0.0, weight=1, cost=1.0)


def test_the_band_follows_the_cut():
    outlook = Outlook().after(cut_at(10.0))
    assert outlook.band.low < 10 < outlook.band.high
    wide = outlook.band
    for value in (9.9, 9.89, 9.889):
        outlook = outlook.after(cut_at(value))
        assert wide.holds(outlook.band)
        assert outlook.band.holds(outlook.near)
    assert outlook.band.high / outlook.band.low < 1.2
    jumped = outlook.after(cut_at(20.0))
    assert jumped.band.low < 20 < jumped.band.high
    assert Outlook().after(cut_at(np.inf)).band == BEYOND
    assert Outlook().after(cut_at(0.0)).band == EVERYWHERE


@BOTH_DTYPES
@pytest.mark.parametrize("z", [0, 60])
def test_a_cut_that_leaves_the_band_is_found_all_the_same(monkeypatch, z, dtype):
    X, centers = data(gaussian, 3000, 4, 12, dtype)
    X[:40] *= dtype(50)

    def run(bounds):
        with InMemory(X) as rows:
            return trimmed_lloyd(
                rows, place(rows, centers, z), z, max_iter=15, tol=0, bounds=bounds
            )

    expected = run(bounds=False)
    # So narrow that the cut leaves it in every iteration.
    monkeypatch.setattr(moving, "_around", lambda cut, _: Band(cut.value, cut.value))
    found = run(bounds=True)
    assert found.history == expected.history
    assert found.cut == expected.cut
    np.testing.assert_array_equal(found.centers, expected.centers)
    np.testing.assert_array_equal(found.states[0].d2, expected.states[0].d2)


@BOTH_DTYPES
def test_the_cost_that_is_kept_is_that_of_all_rows(dtype):
    X, centers = data(gaussian, 4000, 5, 20, dtype)
    X[:40] *= dtype(1000)
    seen = []
    with InMemory(X) as rows:
        trimmed_lloyd(rows, place(rows, centers, 60), 60, max_iter=40, tol=0, keep=seen.append)
    assert len(seen) > 20
    for midway in seen:
        d2 = oracle.squared_distances(X, midway.centers).min(axis=1)
        assert midway.cut.cost == pytest.approx(oracle.trimmed_cost(d2, 60), rel=1e-6)
        if dtype == np.float64:
            assert midway.cut.cost == pytest.approx(oracle.trimmed_cost(d2, 60), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-30, 1e30, 1e140])
def test_bounds_hold_where_float32_has_no_such_numbers(scale):
    X, centers = data(gaussian, 800, 3, 9, np.float64)
    X, centers = X * scale, centers * scale
    band = Band(*map(float, np.quantile(assigned(X, centers)[1], [0.9, 0.95])))
    walk = Walk(X, centers)
    for _ in range(4):
        walk.move(walk.centers * 1.01, band)
        check_what_is_known(walk, band)


def test_a_row_beyond_the_range_of_float32_is_looked_at_again():
    X, centers = data(gaussian, 100, 130, 4, np.float64)
    X[7] = 1e30
    walk = Walk(X, centers)
    walk.move(centers * 1.0001, Band(50.0, 60.0))
    centers = walk.centers.copy()
    centers[3] = X[7]
    walk.move(centers, Band(50.0, 60.0))
    check_what_is_known(walk, Band(50.0, 60.0))


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("scale", [1e-17, 1e-22, 1e-31, 1e-44, 1e-100])
def test_bounds_change_nothing_where_squares_are_lost_in_float32(scale, k):
    X = np.random.RandomState(0).standard_normal((2000, 5)) ** 3 * scale
    check_that_bounds_change_nothing(X, X[:k].copy(), 200)


def test_bounds_change_nothing_where_a_cluster_is_a_point_beside_the_way_to_another():
    X = np.concatenate(
        [1e-33 * np.random.RandomState(0).standard_normal((900, 3)), np.ones((100, 3))]
    )
    check_that_bounds_change_nothing(X, X[[0, 950]], 150)


@BOTH_DTYPES
@given(
    kind=st.sampled_from(KINDS), n_features=st.sampled_from([2, 9, 34, 65, 130]),
    k=st.integers(1, 24), share=st.sampled_from([0.0, 0.05, 0.25]), seed=st.integers(0, 999),
)  # fmt: skip
@settings(max_examples=25)
def test_bounds_change_no_bit_of_a_run(dtype, kind, n_features, k, share, seed):
    X, _ = data(kind, 700, n_features, k, dtype, seed)
    check_that_bounds_change_nothing(X, X[:k].copy(), int(share * len(X)))


def check_that_bounds_change_nothing(X, centers, n_outliers):
    ends = []
    for bounds in (True, False):
        with InMemory(X) as rows:
            start = place(rows, centers, n_outliers)
            ends.append(trimmed_lloyd(rows, start, n_outliers, max_iter=12, tol=0, bounds=bounds))
    ours, plain = ends
    assert ours.history == plain.history
    np.testing.assert_array_equal(ours.centers, plain.centers)
    assert (ours.cut.value, ours.cut.row) == (plain.cut.value, plain.cut.row)
    for one, other in zip(ours.states, plain.states, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(one.d2, other.d2)
