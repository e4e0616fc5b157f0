"""A fit that was stopped goes on from its checkpoint, and ends as if it had not been."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from robust_kmeans import MixtureSeeding, RobustKMeans, estimator
from robust_kmeans import checkpoint as checkpoint_module
from robust_kmeans.checkpoint import CheckpointError
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution import base
from tests.test_disk import same_models


@pytest.fixture
def X():
    return make_contaminated_blobs(2_000, n_clusters=6, n_outliers=100, random_state=1).X


@pytest.fixture(autouse=True)
def every_iteration(monkeypatch):
    monkeypatch.setattr(checkpoint_module, "INTERVAL", 0.0)


class StoppedError(Exception):
    """What stops a fit in these tests."""


class StopAt:
    """A callback that stops the fit at the n-th word it hears."""

    def __init__(self, n):
        self.n = n

    def __call__(self, progress):
        self.n -= 1
        if self.n == 0:
            raise StoppedError


def n_words(X, **parameters):
    heard = []
    RobustKMeans(6, random_state=0, callback=heard.append, **parameters).fit(X)
    return len(heard)


@pytest.mark.parametrize(
    "parameters",
    [{"tol": 0.0}, {"n_init": 4}, {"local_search": 0, "tol": 0.0}, {"n_init": 3, "tol": 0.0}],
)
@pytest.mark.parametrize("large", [False, True])
def test_a_fit_goes_on_wherever_it_was_stopped(X, tmp_path, monkeypatch, parameters, large):
    if large:
        monkeypatch.setattr(base, "LARGE", 1)
    path = tmp_path / "fit.npz"
    whole = RobustKMeans(6, random_state=0, **parameters).fit(X)
    total = n_words(X, **parameters)
    for stop in np.unique(np.linspace(1, total, 6).astype(int)):
        model = RobustKMeans(6, random_state=0, checkpoint=path, **parameters)
        with pytest.raises(StoppedError):
            model.set_params(callback=StopAt(stop)).fit(X)
        same_models(whole, model.set_params(callback=None).fit(X))
        assert not path.exists()


def test_a_fit_may_be_stopped_again_and_again(X, tmp_path):
    path = tmp_path / "fit.npz"
    whole = RobustKMeans(6, random_state=0, tol=0.0).fit(X)
    model = RobustKMeans(6, random_state=0, tol=0.0, checkpoint=path, callback=StopAt(3))
    n_stops = 0
    while True:
        model.callback = StopAt(3 + n_stops)
        try:
            model.fit(X)
        except StoppedError:
            n_stops += 1
        else:
            break
    assert n_stops > 3
    same_models(whole, model)


def test_weighted_fits_go_on_too(X, tmp_path):
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    whole = RobustKMeans(6, random_state=0, tol=0.0).fit(X, sample_weight=weights)
    model = RobustKMeans(6, random_state=0, tol=0.0, checkpoint=tmp_path / "fit.npz")
    with pytest.raises(StoppedError):
        model.set_params(callback=StopAt(4)).fit(X, sample_weight=weights)
    same_models(whole, model.set_params(callback=None).fit(X, sample_weight=weights))


def test_a_process_that_was_killed_goes_on_from_its_checkpoint(X, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    code = textwrap.dedent("""
        import os, signal, sys
        from robust_kmeans import RobustKMeans, checkpoint
        checkpoint.INTERVAL = 0.0

        def kill(progress):
            if progress.stage == "lloyd" and progress.step == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        RobustKMeans(6, tol=0.0, random_state=0, checkpoint="fit.npz", callback=kill).fit(
            "rows.npy"
        )
    """)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.npz", "rows.npy"]
    heard = []
    model = RobustKMeans(
        6, tol=0.0, random_state=0, checkpoint=tmp_path / "fit.npz", callback=heard.append
    )
    same_models(RobustKMeans(6, tol=0.0, random_state=0).fit(X), model.fit(tmp_path / "rows.npy"))
    assert not [progress for progress in heard if progress.stage == "seeding"]


def test_parameters_may_be_numbers_of_numpy(X, tmp_path):
    path = tmp_path / "fit.npz"
    model = RobustKMeans(6, n_init=np.int64(2), tol=np.float32(0.1), checkpoint=path)
    with pytest.raises(StoppedError):
        model.set_params(callback=StopAt(3)).fit(X)
    assert path.exists()
    model.set_params(callback=None).fit(X)
    assert not path.exists()


def test_a_checkpoint_of_another_fit_is_refused(X, tmp_path):
    path = tmp_path / "fit.npz"
    model = RobustKMeans(6, random_state=0, checkpoint=path, callback=StopAt(3))
    with pytest.raises(StoppedError):
        model.fit(X)
    model.callback = None
    for change in ({"random_state": 1}, {"n_clusters": 5}, {"tol": 0.5}, {"n_outliers": 7}):
        other = RobustKMeans(**model.get_params() | change)
        with pytest.raises(CheckpointError, match=rf"another fit: .*{next(iter(change))}"):
            other.fit(X)
    with pytest.raises(CheckpointError, match="n_rows is 2099 here and 2100 there"):
        model.fit(X[:-1])


@pytest.mark.parametrize("stop", [2, 9])
def test_a_checkpoint_is_not_continued_with_other_rows(X, tmp_path, stop):
    model = RobustKMeans(6, random_state=0, checkpoint=tmp_path / "fit.npz", tol=0.0)
    with pytest.raises(StoppedError):
        model.set_params(callback=StopAt(stop)).fit(X)
    with pytest.raises(ValueError, match="X has other values than those that the checkpoint"):
        model.set_params(callback=None).fit(X[::-1].copy() * 1.5)


def test_a_checkpoint_of_another_seeding_is_refused(X, tmp_path):
    def model(delta):
        seeding = MixtureSeeding(delta=delta)
        return RobustKMeans(6, init=seeding, random_state=0, checkpoint=tmp_path / "fit.npz")

    with pytest.raises(StoppedError):
        model(0.2).set_params(callback=StopAt(3)).fit(X)
    with pytest.raises(CheckpointError, match=r"another fit: init is .*delta=0\.4"):
        model(0.4).fit(X)


def test_the_checkpoint_is_there_until_all_results_are(X, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "fit.npz"
    model = RobustKMeans(6, random_state=0, checkpoint=path)
    with monkeypatch.context() as patch:
        patch.setattr(estimator, "finish", full)
        with pytest.raises(OSError, match="No space left"):
            model.fit(X)
    assert path.exists()
    same_models(RobustKMeans(6, random_state=0).fit(X), model.fit(X))
    assert not path.exists()


def test_counting_outliers_has_no_checkpoint(X, tmp_path):
    with pytest.raises(ValueError, match="checkpoint works with a number or a share of outliers"):
        RobustKMeans(6, n_outliers="auto", checkpoint=tmp_path / "fit.npz").fit(X)


def test_a_checkpoint_that_cannot_be_written_is_an_error(X, tmp_path):
    with pytest.raises(OSError, match="missing"):
        RobustKMeans(6, checkpoint=tmp_path / "missing" / "fit.npz").fit(X)
