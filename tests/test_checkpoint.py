"""Checkpoints: every bit comes back, and no other file is taken for one."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from robust_kmeans import RobustKMeans, __version__
from robust_kmeans.checkpoint import (
    Checkpoint,
    CheckpointError,
    Midway,
    PastRun,
    RandomPosition,
    Saved,
    fingerprint_of,
)
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.momentum import Momentum
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.totals import ClusterTotals
from robust_kmeans.untrusted_npz import npy

PROBLEM = {"n_rows": 1000, "n_clusters": 3, "dtype": "float32", "tol": 1e-4, "init": "rkm++"}
any_float = st.floats(allow_nan=False)
histories = st.lists(any_float, min_size=1, max_size=5).map(tuple)


@st.composite
def centers(draw, dtype, shape):
    width = 8 * np.dtype(dtype).itemsize
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
    return draw(arrays.arrays(dtype, shape, elements=finite))


cuts = st.builds(
    Cut,
    value=any_float,
    row=st.integers(0, 2**62),
    trimmed=any_float,
    weight=any_float,
    cost=any_float,
    nearby=st.integers(-(2**62), 2**62),
)


@st.composite
def runs(draw, dtype, shape):
    number = st.integers(1, 10**6)
    return tuple(
        PastRun(
            draw(number), draw(centers(dtype, shape)), draw(cuts), draw(histories), draw(number)
        )
        for _ in range(draw(st.integers(0, 3)))
    )


@st.composite
def random_positions(draw):
    random = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    random.uniform(size=draw(st.integers(0, 700)))
    random.standard_normal(size=draw(st.integers(0, 3)))
    return RandomPosition.of(random)


@st.composite
def saved_fits(draw):
    dtype = draw(st.sampled_from(["float32", "float64"]))
    k, d = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    lloyd = None
    if draw(st.booleans()):
        lloyd = Midway(
            draw(centers(dtype, (k, d))),
            ClusterTotals(draw(centers("float64", (k, d))), draw(centers("float64", (k,)))),
            draw(cuts),
            draw(any_float),
            draw(histories),
            draw(st.none() | st.builds(Momentum, centers(dtype, (k, d)), st.integers(0, 1000))),
        )
    return Saved(
        stage=draw(st.sampled_from(["seeding", "lloyd", "swaps"])),
        run=draw(st.integers(1, 100)),
        random=draw(random_positions()),
        lloyd=lloyd,
        swaps=draw(histories),
        begun=draw(runs(dtype, (k, d))),
        finished=draw(runs(dtype, (k, d))),
    )


def bits(value):
    """All that a value holds, to the bit, and of which type it is."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, float):
        return ("float", np.float64(value).tobytes())
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    if hasattr(value, "__dict__"):
        return {name: bits(part) for name, part in vars(value).items()}
    return (type(value), value)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "fit.npz"


def example():
    rest = ClusterTotals(np.array([[0.1], [1 / 3]]), np.array([5.0, 7.0]))
    cut = Cut(value=np.inf, row=3, trimmed=0.25, weight=2.0, cost=1 / 7, nearby=-5)
    return Saved(
        "lloyd",
        2,
        RandomPosition.of(np.random.RandomState(3)),
        Midway(
            np.array([[1.5], [2.5]], np.float32),
            rest,
            cut,
            1 / 3,
            (2.0, 1 / 7),
            Momentum(np.array([[1.25], [2.75]], np.float32), 3),
        ),
        begun=(PastRun(1, np.array([[1.0], [2.0]], np.float32), cut, (9.0, 1 / 3), 1),),
    )


@given(saved=saved_fits())
@settings(max_examples=60)
def test_every_bit_comes_back(file, saved):
    checkpoint = Checkpoint(file, PROBLEM)
    checkpoint.save(saved)
    assert bits(checkpoint.load()) == bits(saved)


@given(seed=st.integers(0, 2**32 - 1), n_uniform=st.integers(0, 1300), n_gauss=st.integers(0, 3))
@settings(max_examples=30)
def test_random_numbers_go_on_where_they_stood(file, seed, n_uniform, n_gauss):
    random = np.random.RandomState(seed)
    random.uniform(size=n_uniform)
    random.standard_normal(size=n_gauss)
    Checkpoint(file, PROBLEM).save(Saved("seeding", 1, RandomPosition.of(random)))
    expected = [random.standard_normal(3), random.uniform(size=700), random.randint(10**9, size=5)]
    other = np.random.RandomState(0)
    Checkpoint(file, PROBLEM).load().random.restore(other)
    found = [other.standard_normal(3), other.uniform(size=700), other.randint(10**9, size=5)]
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_position_does_not_move_with_its_generator():
    random = np.random.RandomState(0)
    position = RandomPosition.of(random)
    before = bits(position)
    random.uniform(size=2000)
    assert bits(position) == before


def test_other_generators_are_refused():
    with pytest.raises(TypeError, match=r"draws from PCG64, and a checkpoint keeps only MT19937"):
        RandomPosition.of(np.random.RandomState(np.random.PCG64(0)))


def test_without_a_file_there_is_nothing_to_load(file):
    assert Checkpoint(file, PROBLEM).load() is None


def test_the_last_save_counts_and_leaves_one_file(file):
    checkpoint = Checkpoint(file, PROBLEM)
    for run in range(1, 4):
        checkpoint.save(Saved("seeding", run, example().random))
    assert checkpoint.load().run == 3
    assert [path.name for path in file.parent.iterdir()] == ["fit.npz"]
    checkpoint.remove()
    assert not list(file.parent.iterdir())
    checkpoint.remove()


def test_equal_contents_give_equal_bytes(file, tmp_path):
    other = tmp_path / "other.npz"
    Checkpoint(file, PROBLEM).save(example())
    Checkpoint(other, PROBLEM).save(example())
    assert file.read_bytes() == other.read_bytes()


def test_an_interrupted_save_leaves_the_last_one(file, monkeypatch):
    checkpoint = Checkpoint(file, PROBLEM)
    checkpoint.save(example())
    write, calls = npy.write_array, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        write(*arguments, **options)

    monkeypatch.setattr(npy, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(Saved("swaps", 9, example().random))
    assert [path.name for path in file.parent.iterdir()] == ["fit.npz"]
    assert bits(checkpoint.load()) == bits(example())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_clusters": 4}, "n_clusters is 4 here and 3 there"),
        ({"dtype": "float64"}, "dtype is 'float64' here and 'float32' there"),
        ({"tol": np.nextafter(1e-4, 1)}, r"tol is 0\.0001\d+ here and 0\.0001 there"),
        ({"eta": 0.5}, r"eta is 0\.5 here and None there"),
        (
            {"n_rows": 7, "init": "random"},
            "init is 'random' here and 'rkm.*' there; n_rows is 7 here and 1000 there",
        ),
    ],
)
def test_the_checkpoint_of_another_problem_is_refused_and_kept(file, changes, message):
    Checkpoint(file, PROBLEM).save(example())
    with pytest.raises(CheckpointError, match=rf"another fit: {message}\. Delete it to begin anew"):
        Checkpoint(file, {**PROBLEM, **changes}).load()
    assert bits(Checkpoint(file, PROBLEM).load()) == bits(example())


def test_a_parameter_that_is_missing_here_differs_too(file):
    Checkpoint(file, PROBLEM).save(example())
    rest = {name: value for name, value in PROBLEM.items() if name != "tol"}
    with pytest.raises(CheckpointError, match=r"tol is None here and 0\.0001 there"):
        Checkpoint(file, rest).load()


@given(data=st.data())
@settings(max_examples=150)
def test_damage_is_refused_or_changes_nothing(file, data):
    checkpoint = Checkpoint(file, PROBLEM)
    checkpoint.save(example())
    content = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    with suppress(CheckpointError):
        assert bits(checkpoint.load()) == bits(example())


def changed(file, **entries):
    """The file with other entries; None leaves one out."""
    with zipfile.ZipFile(file) as archive:
        members = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            if name not in entries:
                archive.writestr(f"{name}.npy", content)
            elif entries[name] is not None:
                with archive.open(f"{name}.npy", "w") as stream:
                    npy.write_array(stream, np.asanyarray(entries[name]))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": "robust-kmeans model"}, "its format is 'robust-kmeans model'"),
        ({"format": None}, "an archive of something else"),
        ({"format_version": 1}, "its format_version is 1, and this one reads 2"),
        ({"fingerprint": json.dumps([1])}, "fingerprint is not a JSON object"),
        ({"lloyd_mass": np.zeros(3)}, "its centres and totals do not belong together"),
        ({"momentum_means": np.zeros((3, 1))}, "their momentum do not belong together"),
        ({"momentum_steps": -1}, "their momentum do not belong together"),
        ({"lloyd_sums": None}, "its entry lloyd_sums is missing"),
        ({"begun_0_centers": None}, "its entry begun_0_centers is missing"),
        ({"random_key": np.zeros(5, np.uint32)}, "random_key is not a state of MT19937"),
        ({"random_key": np.zeros(624, np.uint64)}, "random_key is not a state of MT19937"),
        ({"random_place": np.int64(-9)}, "random_key is not a state of MT19937"),
        ({"random_place": np.int64(625)}, "random_key is not a state of MT19937"),
        ({"lloyd_cut_reals": np.zeros(3)}, "values to unpack"),
        ({"stage": np.array([None])}, "Python objects"),
    ],
)
def test_contents_that_no_fit_has_saved_are_refused(file, entries, message):
    Checkpoint(file, PROBLEM).save(example())
    changed(file, **entries)
    with pytest.raises(CheckpointError, match=f"damaged or not a checkpoint.*{message}"):
        Checkpoint(file, PROBLEM).load()


def test_a_model_a_text_and_a_folder_are_no_checkpoints(file, tmp_path):
    RobustKMeans(1, n_outliers=0).fit([[1.0], [2.0]]).save(file)
    with pytest.raises(CheckpointError, match="its format is 'robust-kmeans model'"):
        Checkpoint(file, PROBLEM).load()
    file.write_text("label\n1\n")
    with pytest.raises(CheckpointError, match="it is not a zip archive"):
        Checkpoint(file, PROBLEM).load()
    with pytest.raises(IsADirectoryError, match=r"checkpoint='.*' is a folder; give the name"):
        Checkpoint(tmp_path, PROBLEM).load()


def test_a_save_to_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="Create it first"):
        Checkpoint(tmp_path / "no" / "fit.npz", PROBLEM).save(example())


def fingerprint(X, weights=None, bounds=None, k=2, z=1.0, **parameters):
    with InMemory(X, weights, 1, bounds) as data:
        return fingerprint_of(data, k, z, parameters)


def test_a_fingerprint_tells_problems_apart_and_equal_ones_not():
    X = np.arange(12.0).reshape(6, 2)
    base = fingerprint(X, tol=1e-4)
    assert base == fingerprint(X + 1, tol=1e-4)
    assert base["library_version"] == __version__
    assert json.loads(json.dumps(base)) == base
    others = [
        fingerprint(X[:5], tol=1e-4),
        fingerprint(X[:, :1], tol=1e-4),
        fingerprint(X.astype(np.float32), tol=1e-4),
        fingerprint(X, np.full(6, 2.0), tol=1e-4),
        fingerprint(X, bounds=np.array([0, 2, 6]), tol=1e-4),
        fingerprint(X, k=3, tol=1e-4),
        fingerprint(X, z=2.0, tol=1e-4),
        fingerprint(X, tol=1e-3),
        fingerprint(X, tol=1e-4, init="random"),
    ]
    assert len({json.dumps(each) for each in [base, *others]}) == 10
