from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from robust_kmeans.datasets import RealData
from robust_kmeans.paper import data
from robust_kmeans.paper.data import Choices, Generated, derived_seed, prepare
from robust_kmeans.paper.experiments import Setting, experiments

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("ROBUST_KMEANS_DATA", BESIDE))
NEEDS_FILES = pytest.mark.skipif(
    not (FOLDER / "shuttle.trn.gz").is_file(),
    reason="the real data are neither in ROBUST_KMEANS_DATA nor in shared/data beside the project",
)


def test_the_experiments_are_those_of_the_paper():
    found = {
        name: ([(s.k, s.z) for s in e.settings], e.beta, e.n_noisy)
        for name, e in experiments().items()
    }
    assert found == {
        "synthetic": ([(20, 25), (20, 50), (20, 100)], 0.5, 0),
        "shuttle": ([(5, 21), (10, 34), (15, 51)], 0.1, 0),
        "kdd": ([(3, None), (5, None)], 0.1, 0),
        "skin-noise": ([(20, None), (40, None), (50, None)], 0.1, 6126),
        "shuttle-noise": ([(10, None), (20, None), (40, None)], 0.1, 1000),
    }
    assert {e.repetitions for e in experiments().values()} == {10}


def test_synthetic_data_are_fresh_for_every_repetition_and_the_same_again():
    setting = Setting(k=20, z=50)
    first, second, again = (Generated(4).instance(setting, r) for r in (0, 1, 0))
    assert first.X.shape == (1050, 2)
    assert first.outliers.sum() == 50
    assert not np.array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.X, again.X)


def test_no_two_derived_seeds_are_equal():
    seeds = [
        derived_seed(seed, repetition, purpose)
        for seed in range(10)
        for repetition in range(20)
        for purpose in ("data", "method")
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def made_up(n_outliers):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    outliers = np.arange(2000) < n_outliers
    return RealData(X, outliers.astype(int), outliers, ("a", "b", "c"), "made up", ())


def test_noise_has_the_chosen_scale_and_its_rows_are_the_outliers(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "load_shuttle", lambda **_: made_up(5))
    clean = made_up(5).X
    experiment = experiments()["shuttle-noise"]
    for scale in (2.0, 20.0):
        source = prepare(experiment, Choices(noise_scale=scale), tmp_path)
        X, outliers = source.instance(experiment.settings[0], 0)
        assert outliers.sum() == experiment.n_noisy
        np.testing.assert_array_equal(X[~outliers], clean[~outliers])
        noise = (X[outliers] - clean[outliers]) / clean.std(axis=0)
        assert noise.std() == pytest.approx(scale, rel=0.1)


def test_all_repetitions_map_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "load_shuttle", lambda **_: made_up(17))
    experiment = experiments()["shuttle"]
    source = prepare(experiment, Choices(), tmp_path)
    first, second = (source.instance(experiment.settings[0], r) for r in (0, 1))
    assert isinstance(first.X, np.memmap)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.outliers, made_up(17).outliers)


@pytest.mark.parametrize(
    ("kdd", "is_there", "subset"),
    [
        ("auto", True, "full"),
        ("auto", False, "10 percent"),
        ("10-percent", True, "10 percent"),
        ("full", False, "full"),
    ],
)
def test_the_full_kdd_file_is_used_if_it_is_there(tmp_path, monkeypatch, kdd, is_there, subset):
    asked = []

    def load(subset, **options):
        asked.append((subset, options["data_home"]))
        return made_up(9)

    monkeypatch.setattr(data, "load_kddcup", load)
    if is_there:
        (tmp_path / "kddcup.data.gz").touch()
    source = prepare(experiments()["kdd"], Choices(kdd=kdd, data_home=tmp_path), tmp_path)
    assert asked == [(subset, tmp_path)]
    assert source.name == f"KDD, {subset} file"


def test_the_stand_in_has_the_class_sizes_and_says_what_it_is(tmp_path, monkeypatch):
    assert sum(data.STAND_IN_SIZES) == 4_898_431
    assert data.STAND_IN_SIZES[-1] == 45_747
    monkeypatch.setattr(data, "STAND_IN_SIZES", (2800, 1070, 970, 46))
    source = prepare(experiments()["kdd"], Choices(kdd="stand-in"), tmp_path)
    X, outliers = source.instance(Setting(3), 0)
    assert X.shape == (4886, 34)
    assert outliers.sum() == 46
    assert np.isfinite(X).all()
    assert source.name.startswith("stand-in")


@NEEDS_FILES
@pytest.mark.parametrize(
    ("name", "shape", "n_outliers"),
    [
        ("shuttle", (43_500, 9), 17),
        ("kdd", (494_021, 34), 8752),
        ("skin-noise", (245_057, 3), 6126),
        ("shuttle-noise", (43_500, 9), 1000),
    ],
)
def test_real_data_have_the_paper_s_shape_and_outliers(tmp_path, name, shape, n_outliers):
    choices = Choices(data_home=FOLDER, download=False, kdd="10-percent")
    X, outliers = prepare(experiments()[name], choices, tmp_path).instance(Setting(3), 0)
    assert X.shape == shape
    assert outliers.sum() == n_outliers
