from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """What an example prints, run as a script in an empty folder."""

    def run_example(name, *arguments):
        matplotlib.use("Agg")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return run_example


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"flag_outliers.py", "on_dask.py"}


def test_outliers_are_flagged_and_drawn(run, tmp_path):
    assert "labels of two known rows" in run("flag_outliers.py")
    assert len(list((tmp_path / "output").iterdir())) == 3


def test_a_fit_on_dask_survives_the_loss_of_a_worker(run, tmp_path):
    pytest.importorskip("distributed")
    said = run("on_dask.py", "--quick")
    assert "workers lost                             0                   1" in said
    assert "Centres, labels and cost are identical." in said
    assert list(tmp_path.iterdir()) == []
