"""Parts of a kernel's work: each is done once, by whoever is awake, and nobody is waited for."""

import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans import RobustKMeans
from robust_kmeans.execution import threads
from robust_kmeans.execution.base import CHUNK_ROWS
from robust_kmeans.execution.helpers import Helpers
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.team import (
    ALONE,
    AT_ONCE,
    AWAKE,
    EVERY_PART,
    FEW_ROWS,
    PARTS,
    PATIENCE,
    WHOLE_ROWS,
    add_to,
    n_parts_of,
    part_of,
    parts_of_this,
    value_at,
    wait,
    work_off,
)
from robust_kmeans.sweeps.distances import ASSIGN, Centers

N_JOBS = 2000


@jit
def count(part, values, counts, sums, team):
    if part == EVERY_PART:
        work_off(team, parts_of_this((values, counts, sums, team)), counts.shape[0])
        return
    counts[part] += 1
    for value in values:
        sums[part] += np.sqrt(value + part)


def counted(values, n_parts, team):
    counts, sums = np.zeros(n_parts, np.int64), np.zeros(n_parts)
    count(EVERY_PART, values, counts, sums, team)
    return counts, sums


@pytest.mark.parametrize("n_threads", [2, 3, 4])
def test_every_part_is_done_once_whoever_does_it(n_threads):
    values = np.random.RandomState(0).uniform(size=300)
    _, expected = counted(values, 7, ALONE)
    with Helpers(n_threads) as helpers:
        for _ in range(N_JOBS):
            helpers.rouse()
            counts, sums = counted(values, 7, helpers.team)
            assert (counts == 1).all()
            np.testing.assert_array_equal(sums, expected)


def test_helpers_do_take_parts():
    """Of two parts each waits for the other to begin: one thread would wait in vain."""
    met = np.zeros(2, bool)
    meet(EVERY_PART, np.zeros(2, np.int64), met, 0, ALONE)
    assert not met.all()
    with Helpers(2) as helpers:
        # On a busy machine it may be asleep again by then.
        for _ in range(20):
            wait_until(lambda: roused(helpers))
            meet(EVERY_PART, np.zeros(2, np.int64), met, 10**5, helpers.team)
            if met.all():
                break
    assert met.all()


@jit
def meet(part, arrived, met, most_looks, team):
    if part == EVERY_PART:
        work_off(team, parts_of_this((arrived, met, most_looks, team)), 2)
        return
    add_to(arrived, part, 1)
    looks = 0
    while value_at(arrived, 1 - part) == 0 and looks < most_looks:
        wait(looks)
        looks += 1
    met[part] = value_at(arrived, 1 - part) == 1


def test_helpers_stay_awake_while_others_are_at_their_last_parts():
    """Kernels follow each other: who fell asleep would miss the next one, too."""
    awake = np.zeros(1, np.int64)
    with Helpers(2) as helpers:
        for _ in range(20):
            wait_until(lambda: roused(helpers))
            finished = np.zeros(1, np.int64)
            linger(EVERY_PART, finished, awake, 5 * PATIENCE, helpers.team)
            if awake[0] >= 0:
                break
    # Otherwise nobody has helped.
    assert awake[0] == 1


@jit
def linger(part, finished, awake, looks, team):
    """One part is done at once; another goes on for long, and then tells who is awake."""
    if part == EVERY_PART:
        work_off(team, parts_of_this((finished, awake, looks, team)), 2)
        return
    if part == 0:
        add_to(finished, 0, 1)
        return
    waited = 0
    while value_at(finished, 0) == 0 and waited < looks:
        wait(waited)
        waited += 1
    helped = value_at(finished, 0) == 1
    for _ in range(looks):
        wait(AT_ONCE)
    awake[0] = value_at(team, AWAKE) if helped else -1


def test_helpers_are_roused_for_each_chunk(monkeypatch):
    """While one chunk is worked on they may have fallen asleep."""
    roused_at = []
    monkeypatch.setattr(Helpers, "rouse", lambda _helpers: roused_at.append(len(done)))
    done = []

    def look(chunk, state, _shared):
        done.append(chunk.start)
        return state, None

    look.n_parts = lambda chunk, _shared: n_parts_of(chunk.n_rows)
    X = np.zeros((3 * FEW_ROWS, 2))
    with InMemory(X, n_threads=3, bounds=np.arange(4) * FEW_ROWS) as data:
        data.map(look, None, None)
    assert roused_at == [0, 1, 2]


def test_nobody_waits_for_a_team_without_helpers():
    with Helpers(2) as helpers:
        counts, _ = counted(np.ones(3), PARTS, helpers.team)
    assert (counts == 1).all()


def test_helpers_sleep_when_nothing_comes_and_wake_when_roused():
    with Helpers(3) as helpers:
        for _ in range(3):
            wait_until(lambda: roused(helpers))
            wait_until(lambda: helpers.team[AWAKE] == 0)
            assert counted(np.ones(3), PARTS, helpers.team)[0].tolist() == [1] * PARTS


def roused(helpers):
    helpers.rouse()
    return helpers.team[AWAKE] > 0


def wait_until(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(1e-4)


def test_helpers_start_when_the_work_is_worth_it():
    with Helpers(2, n_alone=3) as helpers:
        for _ in range(3):
            helpers.rouse()
            assert not helpers.started
        helpers.rouse()
        assert helpers.started


@given(n_rows=st.integers(0, 10**6), n_parts=st.integers(1, 8))
def test_parts_are_all_rows_in_order_and_whole_tiles(n_rows, n_parts):
    ends = [part_of(part, n_parts, n_rows) for part in range(n_parts)]
    assert ends[0][0] == 0
    assert ends[-1][1] == n_rows
    for (_, last), (first, _) in pairwise(ends):
        assert last == min(first, n_rows)
        assert first % WHOLE_ROWS == 0


def test_few_rows_and_large_sums_are_one_part():
    assert n_parts_of(FEW_ROWS, 1) == PARTS
    assert n_parts_of(FEW_ROWS - 1, 1) == 1
    assert n_parts_of(FEW_ROWS, FEW_ROWS // 8) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("n_features", "init", "n_rows"),
    [
        (3, "robust-k-means++", 3 * FEW_ROWS),
        (40, "k-means++", 3 * FEW_ROWS),
        (2, "robust-k-means++", CHUNK_ROWS[1] + FEW_ROWS),
    ],
    ids=["narrow", "wide", "two chunks"],
)
def test_shared_chunks_give_the_same_bits_with_any_number_of_threads(
    dtype, n_features, init, n_rows, monkeypatch
):
    monkeypatch.setattr(threads, "SOON_DONE", 0)
    random = np.random.RandomState(0)
    X = random.standard_normal((n_rows, n_features)) + 3 * random.randint(5, size=(n_rows, 1))
    X[:50] *= 100
    found = [
        RobustKMeans(
            9, n_outliers=50, init=init, max_iter=20, n_threads=n_threads, random_state=0
        ).fit(X.astype(dtype))
        for n_threads in (1, 2, 5)
    ]
    for other in found[1:]:
        assert other.inertia_history_.tolist() == found[0].inertia_history_.tolist()
        np.testing.assert_array_equal(other.cluster_centers_, found[0].cluster_centers_)
        np.testing.assert_array_equal(other.labels_, found[0].labels_)
        np.testing.assert_array_equal(other.outlier_scores_, found[0].outlier_scores_)


def test_no_helper_outlives_its_fit_even_after_an_error(monkeypatch):
    monkeypatch.setattr(threads, "SOON_DONE", 0)
    before = threading.active_count()

    def complain(_progress):
        assert threading.active_count() == before + 2
        raise RuntimeError("enough")

    X = np.random.RandomState(0).standard_normal((FEW_ROWS, 2))
    with pytest.raises(RuntimeError, match="enough"):
        RobustKMeans(3, n_threads=3, callback=complain).fit(X)
    assert threading.active_count() == before


def test_chunks_have_a_team_only_while_one_after_the_other_is_worked_on():
    X = np.random.RandomState(0).standard_normal((3 * FEW_ROWS, 2))
    bounds = np.arange(4) * FEW_ROWS
    centers = Centers(X[:2])
    teams = []

    def look(chunk, state, _shared):
        teams.append(chunk.team.size)
        return state, None

    with InMemory(X, n_threads=3, bounds=bounds) as data:
        data.map(look, None, None)
        assert teams == [0, 0, 0]
        look.n_parts = lambda chunk, shared: n_parts_of(chunk.n_rows, len(shared.centers))
        data.map(look, None, centers)
        assert all(teams[3:])
        teams.clear()
        # Kernels with so many sums of their own are not shared.
        data.map(look, None, Centers(X[:FEW_ROWS]))
        assert teams == [0, 0, 0]
        assert not any(chunk.team.size for chunk in data._chunks)
    with InMemory(X[:FEW_ROWS], n_threads=3) as data:
        data.summarise(ASSIGN, None, centers)
        assert data._chunks[0].team.size
    assert not data._chunks[0].team.size
