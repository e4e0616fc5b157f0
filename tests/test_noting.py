"""Rows that are noted in one sweep for the next: they change how often a file is read, no bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from robust_kmeans import RobustKMeans
from robust_kmeans.coreset import N_ROUNDS, cover, make_coreset, usual_seeding
from robust_kmeans.execution import base
from robust_kmeans.execution.budget import Budget
from robust_kmeans.execution.disk import OnDisk, StoredChunk, memory_for_reading
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.execution.notes import Notes, no_notes, noted
from robust_kmeans.lloyd import trimmed_lloyd
from robust_kmeans.seeding.robust_kmeans_parallel import RobustKMeansParallel
from robust_kmeans.sources.opening import open_dataset
from robust_kmeans.sweeps.base import NotAtHand, Work
from robust_kmeans.trimming import place
from tests.source_files import write

K, Z = 8, 200
N_ROWS, N_FEATURES = 40_000, 3
BOUNDS = np.linspace(0, N_ROWS, 11).astype(np.int64)


@pytest.fixture(scope="module", params=["shuffled", "sorted"])
def X(request):
    """Clusters that overlap, and outliers; sorted, no chunk is like another."""
    rng = np.random.default_rng(0)
    centers = rng.uniform(-10, 10, (K, N_FEATURES))
    rows = centers[rng.integers(K, size=N_ROWS)] + 3 * rng.standard_normal((N_ROWS, N_FEATURES))
    rows[:Z] = rng.uniform(-1000, 1000, (Z, N_FEATURES))
    if request.param == "sorted":
        return rows[np.argsort(rows[:, 0])].astype(np.float32)
    return rng.permutation(rows).astype(np.float32)


@pytest.fixture(params=["parquet", "csv"])
def counted(X, request, tmp_path, monkeypatch):
    """A large data set whose few rows are slow to get, and a list of how many rows were decoded."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(base, "LARGE", 1)
    rows = X if request.param == "parquet" else X.astype(np.float64)
    dataset = open_dataset(write(tmp_path / f"rows.{request.param}", rows, piece=5_000))
    scan, decoded = dataset.scan, []

    def counting_scan(bounds):
        for rows in scan(bounds):
            decoded.append(len(rows))
            yield rows

    dataset.scan = counting_scan
    return rows, dataset, decoded


def in_units_of_scans(decoded):
    return sum(decoded) / N_ROWS


def test_notes_have_what_was_noted_and_nothing_else():
    notes = Notes(np.array([2, 5, 9]), np.array([[20.0], [50.0], [90.0]]))
    np.testing.assert_array_equal(notes.take(np.array([9, 2])), [[90.0], [20.0]])
    assert notes.take(np.array([], np.int64)).shape == (0, 1)
    for missing in (0, 3, 10):
        with pytest.raises(NotAtHand):
            notes.take(np.array([2, missing]))
    assert no_notes(4, np.dtype(np.float32)).take(np.array([], np.int64)).shape == (0, 4)
    with pytest.raises(NotAtHand):
        no_notes(4, np.dtype(np.float32)).take(np.array([0]))


def test_a_coreset_takes_a_scan_per_round_and_two(counted):
    X, dataset, decoded = counted
    with InMemory(X, None, 2, BOUNDS) as rows, OnDisk(dataset, None, 2, None, BOUNDS) as stored:
        found = []
        for data in (rows, stored):
            random = np.random.RandomState(0)
            placed = cover(data, usual_seeding(K), K, Z, random)
            found.append(make_coreset(data, placed, 400, random))
    for name in ("points", "weights", "indices"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    # One for the first candidate, one per round, one for the sample; a chunk for the first row.
    # (A reading that looks for values that are not finite comes before.)
    assert in_units_of_scans(decoded) <= N_ROUNDS + 2 + 0.11


def test_an_iteration_takes_one_scan_once_the_cut_has_settled(counted):
    X, dataset, decoded = counted
    # So many that the cut lies among the clusters' rows, of which some change sides each time.
    n_outliers = 10 * Z
    runs = []
    with InMemory(X, None, 2, BOUNDS) as rows, OnDisk(dataset, None, 2, None, BOUNDS) as stored:
        for data in (rows, stored):
            start = place(data, X[:: N_ROWS // K].copy(), n_outliers)
            decoded.clear()
            runs.append(trimmed_lloyd(data, start, n_outliers, max_iter=30, tol=0))
    assert runs[0].history == runs[1].history
    np.testing.assert_array_equal(runs[0].centers, runs[1].centers)
    assert runs[1].n_iter > 15
    assert in_units_of_scans(decoded) <= 1 + 1.3 * runs[1].n_iter


@pytest.mark.parametrize("weighted", [False, True])
def test_candidates_are_the_same_whatever_was_noted(counted, monkeypatch, weighted):
    X, dataset, _ = counted
    weights = np.random.default_rng(1).uniform(0, 3, N_ROWS) if weighted else None
    seeding = RobustKMeansParallel()

    def candidates(data):
        return seeding.candidates(data, K, Z, np.random.RandomState(1)).indices

    with InMemory(X, weights, 2, BOUNDS) as rows, OnDisk(dataset, weights, 2, None, BOUNDS) as data:
        expected = candidates(rows)
        np.testing.assert_array_equal(candidates(data), expected)
        note = StoredChunk.note
        every_other = lambda self, positions: note(self, positions[::2])  # noqa: E731
        monkeypatch.setattr(StoredChunk, "note", every_other)
        np.testing.assert_array_equal(candidates(data), expected)


def test_only_chunks_with_rows_that_are_missing_are_read(counted):
    X, dataset, decoded = counted

    def third_row(chunk, state, numbers):
        number = int(np.searchsorted(BOUNDS, chunk.start))
        wanted = np.array([3] if number in numbers else [], np.int64)
        return state, chunk.take(wanted)

    with OnDisk(dataset, None, 2, None, BOUNDS) as data:
        heard = []
        data.watch = heard.append
        _, found = data.map(third_row, None, {2, 3, 7}, work=Work.TAKING)
    assert decoded == [4_000, 4_000, 4_000]
    assert [len(rows) for rows in found] == [0, 0, 1, 1, 0, 0, 0, 1, 0, 0]
    np.testing.assert_array_equal(np.concatenate(found), X[BOUNDS[[2, 3, 7]] + 3])
    assert heard[-1] == N_ROWS
    assert min(heard) >= N_ROWS - sum(decoded)


def test_nothing_is_noted_where_there_is_no_memory_for_it(counted):
    X, dataset, _ = counted
    limit = memory_for_reading(dataset, BOUNDS, 1) + dataset.decoding_bytes
    with OnDisk(dataset, None, 1, limit, BOUNDS) as data:
        run = trimmed_lloyd(data, place(data, X[:K].copy(), Z), Z, max_iter=3, tol=0)
        assert data.budget.most_in_ram == 0
    with InMemory(X, None, 1, BOUNDS) as rows:
        same = trimmed_lloyd(rows, place(rows, X[:K].copy(), Z), Z, max_iter=3, tol=0)
    assert run.history == same.history


def test_rows_that_are_not_large_are_decoded_once(counted, monkeypatch):
    X, dataset, decoded = counted
    monkeypatch.setattr(base, "LARGE", 2**30)
    model = RobustKMeans(K, n_outliers=Z, random_state=0).fit(dataset)
    assert in_units_of_scans(decoded) == 1
    same = RobustKMeans(K, n_outliers=Z, random_state=0).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, same.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, same.labels_)


def test_they_are_decoded_again_where_memory_is_too_little_to_keep_them(counted, monkeypatch):
    _, dataset, decoded = counted
    monkeypatch.setattr(base, "LARGE", 2**30)
    limit = memory_for_reading(dataset, BOUNDS, 2) + dataset.decoding_bytes + 50 * N_ROWS
    with OnDisk(dataset, None, 2, limit, BOUNDS) as data:
        place(data, dataset.read(0, K).copy(), Z)
        place(data, dataset.read(0, K).copy(), Z)
    assert in_units_of_scans(decoded) >= 2


def test_blocks_that_dask_computes_anew_are_noted_from_too(X):
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    from robust_kmeans.execution.dask import OnBlocks

    decoded = []

    def part(start, stop):
        decoded.append(stop - start)
        return X[start:stop]

    parts = [
        da.from_delayed(dask.delayed(part)(start, stop), (stop - start, N_FEATURES), X.dtype)
        for start, stop in pairwise(BOUNDS.tolist())
    ]
    n_outliers, centers = 10 * Z, X[:: N_ROWS // K].copy()
    with InMemory(X, None, 2, BOUNDS) as rows:
        start = place(rows, centers, n_outliers)
        same = trimmed_lloyd(rows, start, n_outliers, max_iter=30, tol=0)
    with OnBlocks(da.concatenate(parts), None, 2) as data:
        start = place(data, centers, n_outliers)
        decoded.clear()
        run = trimmed_lloyd(data, start, n_outliers, max_iter=30, tol=0)
    assert run.history == same.history
    assert in_units_of_scans(decoded) <= 1 + 1.3 * run.n_iter


UNIT_WEIGHT = np.full(N_ROWS, 1 / N_ROWS)
HUGE = np.random.default_rng(0).uniform(-1, 1, (N_ROWS, 2))


@pytest.mark.parametrize(
    ("rows", "weights", "n_outliers"),
    [
        pytest.param(7e152 * HUGE, UNIT_WEIGHT, 0.3, id="sums"),
        pytest.param(1e152 * HUGE, UNIT_WEIGHT, 1e-8, id="quotients"),
        pytest.param((2e18 * np.sort(np.abs(HUGE), axis=0)).astype("f4"), None, 1, id="float32"),
        pytest.param(1e-160 * HUGE, None, 10, id="tiny"),
        pytest.param(np.round(HUGE), None, 10, id="equal"),
        pytest.param(HUGE, np.repeat([0.0, 1.0], N_ROWS // 2), 10, id="nothing"),
    ],
)
def test_a_guess_that_overflows_ends_nothing(rows, weights, n_outliers, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(base, "LARGE", 1)
    dataset = open_dataset(write(tmp_path / "rows.parquet", rows, piece=5_000))
    seeding = RobustKMeansParallel()
    with (
        InMemory(rows, weights, 2, BOUNDS) as memory,
        OnDisk(dataset, weights, 2, None, BOUNDS) as stored,
    ):
        expected, found = (
            seeding.candidates(data, 3, n_outliers, np.random.RandomState(1)).indices
            for data in (memory, stored)
        )
    np.testing.assert_array_equal(found, expected)


def test_notes_with_their_positions_are_counted_and_never_go_to_files():
    rows = np.zeros((1_000, 1), np.float32)
    budget = Budget(limit=1_000)
    few = noted(rows, np.arange(100), budget)
    assert budget.in_ram == 800
    assert len(few.take(np.arange(100))) == 100
    with pytest.raises(NotAtHand):
        noted(rows, np.arange(100), budget).take(np.array([0]))
    assert budget.in_ram == 800
    assert budget.in_files == 0
