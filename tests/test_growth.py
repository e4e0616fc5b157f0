"""What saves readings in the seedings changes no bit of D², and no chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_kmeans import KMeansPlusPlus, RobustKMeansPlusPlus, TKMeansPlusPlus
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels import candidates, order
from robust_kmeans.kernels.distances import WIDE
from robust_kmeans.kernels.team import ALONE, EVERY_PART
from robust_kmeans.seeding import growth
from robust_kmeans.seeding.drawing import clipped, draw
from robust_kmeans.seeding.growth import Growth
from robust_kmeans.sweeps import seeding as sweep
from robust_kmeans.sweeps.base import NO_WEIGHTS, Chunk, all_positions
from robust_kmeans.sweeps.order import N_BINS, KeyRange
from robust_kmeans.sweeps.sampling import Row
from robust_kmeans.trimming import where_to_look
from tests import oracle
from tests.strategies import DTYPES, problems
from tests.test_sampling import (
    ALGORITHM_1,
    PLAIN,
    WEIGHTS,
    exact_chances,
    fixed_chances,
    p_value,
    picks,
    robust_chances,
    seeds_of,
)

# On both sides of where rows count as wide: 20 features of float64, 40 of float32; and such that
# nine of them do not fit in the L1 cache.
WIDTHS = (1, 2, 9, 19, 20, 39, 40, 63, 64, 128, 200, 784)


@pytest.fixture
def proposing(monkeypatch):
    """Proposals are always worth it: a reading serves several centres."""
    monkeypatch.setattr(growth, "WORTH_PROPOSALS", 0)


def clustered(n, d, k, dtype, seed=0):
    random = np.random.RandomState(seed)
    centers = random.uniform(-50, 50, (k, d))
    return (centers[random.randint(k, size=n)] + random.standard_normal((n, d))).astype(dtype)


def tried(X, points, d2, which=None, keys=None, weights=NO_WEIGHTS, capacity=None, n_parts=1):
    """What a reading finds: rows won and their D² per candidate, and what bins gain or lose."""
    n_points, capacity = len(points), len(X) if capacity is None else capacity
    n_won = np.zeros((n_points, n_parts), np.int64)
    rows = np.empty((n_points, capacity), np.int32)
    values = np.empty((n_points, capacity), X.dtype)
    changes = np.zeros((2, n_parts, n_points, N_BINS + 2 if keys else 1))
    low, shift, least = 0, 0, X.dtype.type(np.inf)
    if keys:
        low, shift, least = keys.low, keys.shift, order.value_of(keys.low, X.dtype)
    X.flags.writeable = False
    candidates.try_candidates(
        EVERY_PART, X, all_positions(len(X)) if which is None else which, d2, order.keys_of(d2),
        weights, points, least, low, shift,
        n_won, rows, values, changes[0], changes[1], ALONE,
    )  # fmt: skip
    return n_won[:, 0], rows, values, changes[:, 0]


def add_center(X, point, label, d2, labels):
    candidates.add_center(EVERY_PART, 2, X, point, label, d2, labels, ALONE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", WIDTHS)
@pytest.mark.parametrize("n_points", [1, 3, 9])
def test_a_reading_finds_the_rows_that_candidates_win(n_features, n_points, dtype):
    X = clustered(301, n_features, 5, dtype)
    points = X[7 * np.arange(n_points)].copy()
    d2 = oracle.squared_distances(X, X[10:12]).min(axis=1).astype(dtype)
    expected = oracle.squared_distances(X, points)
    n_won, rows, values, _ = tried(X, points, d2)
    for i in range(n_points):
        # Where rounding may decide, either answer is right.
        close = np.isclose(expected[:, i], d2, rtol=1e-5)
        won = np.isin(np.arange(301), rows[i, : n_won[i]])
        np.testing.assert_array_equal(won[~close], (expected[:, i] < d2)[~close])
        assert (np.diff(rows[i, : n_won[i]]) > 0).all()
        np.testing.assert_allclose(
            values[i, : n_won[i]],
            expected[rows[i, : n_won[i]], i],
            rtol=50 * np.finfo(dtype).eps,
            atol=1e-20,
        )
    assert 0 in rows[0, : n_won[0]]
    assert values[0, 0] == 0, "a row is at distance 0 from itself"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [3, 40])
def test_parts_find_together_what_one_finds(n_features, dtype):
    X = clustered(701, n_features, 5, dtype)
    points = X[7 * np.arange(3)].copy()
    d2 = oracle.squared_distances(X, X[10:12]).min(axis=1).astype(dtype)
    keys = where_to_look(np.dtype(dtype))
    one = tried(X, points, d2, keys=keys)
    many = tried(X, points, d2, keys=keys, capacity=4 * len(X), n_parts=4)
    np.testing.assert_array_equal(one[0], many[0])
    for c in range(3):
        for found, expected in zip(many[1:3], one[1:3], strict=True):
            np.testing.assert_array_equal(found[c, : one[0][c]], expected[c, : one[0][c]])
    np.testing.assert_allclose(many[3], one[3], rtol=1e-12, atol=1e-9 * d2.sum())
    n_won, *_ = tried(X, points, d2, keys=keys, capacity=8, n_parts=4)
    assert (n_won == 9).all(), "where not all fit, one more than that"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", WIDTHS)
def test_candidates_are_measured_alike_alone_and_together(n_features, dtype):
    X = clustered(130, n_features, 5, dtype)
    d2 = np.full(130, np.inf, dtype)
    points = X[7 * np.arange(9)].copy()
    _, _, together, _ = tried(X, points, d2)
    for i in range(9):
        _, _, alone, _ = tried(X, points[i : i + 1].copy(), d2)
        np.testing.assert_array_equal(together[i], alone[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", WIDTHS)
def test_a_distance_has_the_same_bits_in_every_kernel(n_features, dtype):
    # 130 rows: whole tiles and blocks, and a rest; and rows here and there.
    X, scattered = clustered(130, n_features, 5, dtype), np.flatnonzero(np.arange(130) % 3)
    point, labels = X[7:8].copy(), np.zeros(130, np.int32)
    d2, labelled, listed = np.full((3, 130), np.inf, dtype)
    _, _, values, _ = tried(X, point, d2)
    add_center(X, point, 1, d2, labels[:0])
    add_center(X, point, 1, labelled, labels)
    candidates.add_center_to(X, all_positions(130), point, 1, listed, labels)
    for other in (values[0], labelled, listed):
        np.testing.assert_array_equal(d2, other)
    _, _, values, _ = tried(X, point, np.full(130, np.inf, dtype), scattered.astype(np.int32))
    np.testing.assert_array_equal(d2[scattered], values[0, : len(scattered)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 9, 19])
@pytest.mark.parametrize(("capacity", "n_parts"), [(301, 1), (301, 4), (40, 1), (40, 4), (0, 1)])
def test_the_first_is_added_and_the_others_are_tried_after_that(
    n_features, capacity, n_parts, dtype
):
    X = clustered(301, n_features, 5, dtype)
    points, d2 = X[7 * np.arange(3)].copy(), np.full(301, np.inf, dtype)
    for center in (X[10:11], X[11:12]):
        add_center(X, center.copy(), 0, d2, np.empty(0, np.int32))
    together, after = d2.copy(), d2.copy()
    n_won, rows = np.zeros((3, n_parts), np.int64), np.empty((3, capacity), np.int32)
    values = np.empty((3, capacity), dtype)
    X.flags.writeable = False
    candidates.add_first_and_try(EVERY_PART, X, points, together, n_won, rows, values, ALONE)
    n_won = n_won[:, 0]
    add_center(X, points[:1].copy(), 0, after, np.empty(0, np.int32))
    np.testing.assert_array_equal(together, after)
    expected_n, expected_rows, expected_values, _ = tried(X, points[1:].copy(), after)
    assert n_won[0] == 0
    # Where the parts have room for so many rows at least, wherever these are.
    room = capacity // n_parts
    assert (n_won[1:][expected_n <= room] == expected_n[expected_n <= room]).all()
    assert (n_won[1:][expected_n > capacity] == capacity + 1).all()
    for c in range(2):
        if n_won[c + 1] <= capacity:
            won = slice(0, expected_n[c])
            np.testing.assert_array_equal(rows[c + 1, won], expected_rows[c, won])
            np.testing.assert_array_equal(values[c + 1, won], expected_values[c, won])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_features", [2, WIDE])
def test_prices_are_the_differences_of_histograms(n_features, weighted):
    X = clustered(500, n_features, 5, np.float64)
    weights = np.random.RandomState(1).randint(0, 4, 500).astype(float) if weighted else NO_WEIGHTS
    w = weights if weighted else np.ones(500)
    d2 = oracle.squared_distances(X, X[10:12]).min(axis=1)
    low, high = np.sort(d2)[[350, 450]].view(np.int64).tolist()
    keys = KeyRange(low, high)
    points = X[:4].copy()
    _, _, _, (mass, sums) = tried(X, points, d2, keys=keys, weights=weights)

    def bins(values):
        return np.clip(
            ((values.view(np.int64) - keys.low) >> keys.shift) + 1, 0, N_BINS + 1
        ).astype(int)

    for i, after in enumerate(np.minimum(d2[:, np.newaxis], oracle.squared_distances(X, points)).T):
        after = np.ascontiguousarray(after)
        for found, values in ((mass[i], (w, w)), (sums[i], (w * after, w * d2))):
            expected = np.bincount(bins(after), values[0], N_BINS + 2) - np.bincount(
                bins(d2), values[1], N_BINS + 2
            )
            np.testing.assert_allclose(found, expected, atol=1e-9 * values[1].sum())


@pytest.mark.parametrize("dtype", DTYPES)
def test_candidates_that_win_too_many_rows_to_note_are_read_again(dtype, monkeypatch):
    X = clustered(4000, 3, 8, dtype)

    def seeds():
        with InMemory(X, n_threads=1) as data:
            seeding = RobustKMeansPlusPlus(n_local_trials=4)
            return seeding.seed(data, 12, 40, np.random.RandomState(3)).indices

    expected = seeds()
    monkeypatch.setattr(sweep, "ROOM", 0.0)
    np.testing.assert_array_equal(seeds(), expected)


@pytest.mark.parametrize("n_features", [3, 40])
def test_proposals_that_win_too_many_rows_to_note_are_read_again(n_features, monkeypatch):
    X = clustered(4000, n_features, 8, np.float64)
    monkeypatch.setattr(growth, "WORTH_PROPOSALS", 0)
    chosen = []
    for room in (1.0, 0.0):
        monkeypatch.setattr(sweep, "ROOM", room)
        with InMemory(X, n_threads=1, bounds=np.array([0, 900, 4000])) as data:
            seeding = RobustKMeansPlusPlus(n_local_trials=1)
            chosen.append(seeding.seed(data, 12, 40, np.random.RandomState(3)).indices.tolist())
    assert chosen[0] == chosen[1]


def test_more_than_one_candidate_is_read_where_rows_come_slowly_or_often():
    assert growth._most_proposals(row_bytes=72, n_rows=10**6, most=20) == 2
    assert growth._most_proposals(row_bytes=36, n_rows=10**6, most=20) == 1, "they come fast"
    assert growth._most_proposals(row_bytes=72, n_rows=10**4, most=20) == 1, "they are in a cache"
    assert growth._most_proposals(row_bytes=136, n_rows=10**6, most=5) == 1, "there are few"
    assert growth._most_proposals(row_bytes=512, n_rows=10**4, most=20) == growth.MOST_PROPOSALS


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 3, 9, WIDE])
@pytest.mark.parametrize("trials", [1, 4])
def test_the_filter_changes_no_bit(n_features, trials, dtype, monkeypatch):
    X = clustered(3000, n_features, 40, dtype, seed=n_features)
    results = []
    for first in (0, 1000):
        monkeypatch.setattr(growth, "FILTERED", first)
        monkeypatch.setattr(growth, "FILTERED_ROW", 0)
        monkeypatch.setattr(sweep, "ASTRAY", 0)
        with InMemory(X, n_threads=1, bounds=np.array([0, 700, 3000])) as data:
            random = np.random.RandomState(2)
            grown = Growth(data, 60, 30, random)
            while len(grown.rows) < 59:
                if trials == 1:
                    grown.add_drawn(1e4)
                else:
                    rows = draw(data, grown.states, clipped(1e4), random.uniform(size=trials))
                    grown.add_best(rows)
            d2 = np.concatenate([state.d2 for state in grown.states])
        results.append(([row.index for row in grown.rows], d2, grown.work))
    (filtered, filtered_d2, little), (plain, plain_d2, much) = results
    assert filtered == plain
    np.testing.assert_array_equal(filtered_d2, plain_d2)
    assert much.n_rows == much.n_readings * 3000
    assert little.n_rows < 0.7 * much.n_rows, "clusters that are apart are hardly looked at"


def test_the_filter_pauses_where_it_is_no_help(monkeypatch):
    X = np.random.RandomState(0).standard_normal((2000, 30))
    monkeypatch.setattr(growth, "FILTERED", 0)
    monkeypatch.setattr(growth, "FILTERED_ROW", 0)
    calls = []
    doubtful_rows = candidates.doubtful_rows
    monkeypatch.setattr(
        candidates, "doubtful_rows", lambda *given: calls.append(1) or doubtful_rows(*given)
    )
    with InMemory(X, n_threads=1) as data:
        grown = Growth(data, 60, 0, np.random.RandomState(0))
        while len(grown.rows) < 59:
            grown.add_drawn(np.inf)
    assert 1 <= len(calls) <= 1 + 60 // growth.PAUSE


@pytest.mark.usefixtures("proposing")
@pytest.mark.parametrize(("X", "weights", "z", "eta"), ALGORITHM_1[2:4])
def test_proposals_keep_the_chances_of_algorithm_1(X, weights, z, eta):
    expected = exact_chances(X, weights, robust_chances(X, weights, z, eta))
    seeding = RobustKMeansPlusPlus(eta, n_local_trials=1)
    assert p_value(picks(X, weights, seeds_of(seeding, z)), expected) > 1e-3


@pytest.mark.usefixtures("proposing")
@pytest.mark.parametrize(
    ("seeding", "weights", "z", "clip"),
    [
        pytest.param(KMeansPlusPlus(n_local_trials=1), None, 0, np.inf, id="k-means++"),
        pytest.param(TKMeansPlusPlus(eta=0.5, opt_guess=40.0), WEIGHTS, 1, 20.0, id="tkm++"),
    ],
)
def test_proposals_keep_the_chances_of_a_fixed_threshold(seeding, weights, z, clip):
    expected = exact_chances(PLAIN, weights, fixed_chances(PLAIN, weights, 0.0, clip))
    assert p_value(picks(PLAIN, weights, seeds_of(seeding, z)), expected) > 1e-3


@pytest.mark.usefixtures("proposing")
def test_proposals_that_are_always_accepted_are_noticed(monkeypatch):
    expected = exact_chances(PLAIN, None, robust_chances(PLAIN, None, 2, 0.5))
    monkeypatch.setattr(Growth, "_d2_of", lambda *_: np.inf)
    seeding = RobustKMeansPlusPlus(0.5, n_local_trials=1)
    with pytest.raises(AssertionError, match="without a chance"):
        p_value(picks(PLAIN, None, seeds_of(seeding, 2)), expected)


@pytest.mark.usefixtures("proposing")
def test_proposals_save_readings():
    X = np.random.RandomState(0).standard_normal((500, 40))
    with InMemory(X, n_threads=1) as data:
        grown = Growth(data, 40, 5, np.random.RandomState(0))
        while len(grown.rows) < 40:
            grown.add_drawn(grown.cut.cost / 10)
        assert grown.work.n_readings <= 20


@given(data=st.data(), trials=st.integers(2, 5))
@settings(max_examples=60)
def test_prices_never_rule_out_the_best_candidate(data, trials):
    X, _, z, weights, seed, _ = data.draw(problems(weighted=data.draw(st.booleans())))
    random = np.random.RandomState(seed)
    with InMemory(X, weights, n_threads=1) as rows:
        grown = Growth(rows, 3, z, random)
        chosen = [grown.rows[0].index]
        picks = random.randint(len(X), size=trials)
        grown.add_best([Row(int(i), X[i]) for i in picks])
    w = np.ones(len(X)) if weights is None else weights
    costs = [
        oracle.trimmed_cost(oracle.squared_distances(X, X[[*chosen, i]]).min(axis=1), z, weights)
        for i in picks
    ]
    assert w.sum() > z
    best = grown.rows[1].index
    assert costs[picks.tolist().index(best)] == pytest.approx(min(costs), rel=1e-12)


def test_states_are_revised_in_place_only_where_nobody_asks_for_them_again():
    X = np.random.RandomState(0).standard_normal((300, 5))
    chunk = Chunk(X, NO_WEIGHTS, 0)
    state, _ = sweep.START.step(chunk, None, True)
    candidates = sweep.Reading(X[[3, 200]])
    first, _ = sweep.READ_AND_TAKE.step(
        chunk, state, sweep.ReadAndTake(candidates, sweep.Taking(0, 0, more=True))
    )
    assert first.d2 is state.d2
    expected = np.sum((X - X[3]) ** 2, axis=1)
    np.testing.assert_allclose(first.d2, expected)
    tried, _ = sweep.TAKE.step(chunk, first, sweep.Taking(1, 1, tried=True))
    np.testing.assert_allclose(first.d2, expected)
    chunk.keeps_states = True
    kept, _ = sweep.TAKE.step(chunk, first, sweep.Taking(1, 1))
    np.testing.assert_allclose(first.d2, expected)
    chunk.keeps_states = False
    taken, _ = sweep.TAKE.step(chunk, first, sweep.Taking(1, 1))
    assert taken.d2 is first.d2
    for other in (tried, kept):
        np.testing.assert_array_equal(other.d2, taken.d2)
        np.testing.assert_array_equal(other.labels, taken.labels)
    nearer = np.sum((X - X[200]) ** 2, axis=1) < expected
    np.testing.assert_array_equal(taken.labels, nearer)
