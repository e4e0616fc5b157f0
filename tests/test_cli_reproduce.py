from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robust_kmeans.cli import paper_order, reproducing
from robust_kmeans.cli.paper_order import Order
from robust_kmeans.cli.reproducing import reproduce
from robust_kmeans.cli.request import Voice
from robust_kmeans.paper import data
from robust_kmeans.paper.data import Choices, Generated, derived_seed
from robust_kmeans.paper.experiments import Setting
from robust_kmeans.paper.methods import Problem, seeds_of
from robust_kmeans.paper.trials import TrialFile
from tests.commands import COMMAND

QUICK = ("--table", "synthetic", "--repetitions", "1", "--jobs", "1")
FILES = {"trials.csv", "summary.csv", "results.md", "synthetic.png", "seeds.png"}


def run(*arguments, cwd, **environment):
    return subprocess.run(
        [COMMAND, "reproduce", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"COLUMNS": "80"} | environment,
    )


def names(folder):
    return {path.name for path in folder.iterdir()}


def untimed(folder):
    trials = TrialFile(folder / "trials.csv").trials
    return sorted((replace(t, seconds=0, plain_seconds=None, machine="") for t in trials), key=repr)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a run's results, and what the command said."""
    folder = tmp_path_factory.mktemp("paper")
    done = run(*QUICK, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "robust-kmeans-paper", done


def test_page_pictures_and_figures_are_written_and_shown(finished):
    folder, done = finished
    assert names(folder) == FILES
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:25])) <= 80
    assert sum(line.split()[1:2] == ["algorithm-1"] for line in lines) == 3
    # One repetition has no spread to judge by.
    assert "Of 15 lines of the paper: 8 impossible, 7 unjudged." in lines
    for name in FILES:
        assert f"written: robust-kmeans-paper/{name}" in lines
    with open(folder / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    # Three blocks of five seedings in two protocols, and our default.
    assert len(rows) == 3 * (5 * 2 + 1)
    page = (folder / "results.md").read_text(encoding="utf-8")
    assert "robust-kmeans reproduce --table synthetic --repetitions 1 --seed 0" in page
    assert str(folder.parent) not in page


def test_a_page_that_is_there_is_replaced_only_by_force(finished):
    folder, _ = finished
    before = (folder / "results.md").stat().st_mtime_ns
    refused = run(*QUICK, cwd=folder.parent)
    assert refused.returncode == 1
    assert "exists already; use --force" in refused.stderr
    assert (folder / "results.md").stat().st_mtime_ns == before
    trials = (folder / "trials.csv").read_bytes()
    forced = run(*QUICK, "--force", "--json", cwd=folder.parent)
    assert forced.returncode == 0, forced.stderr
    assert "18 of 18 runs are taken from" in forced.stderr
    assert (folder / "trials.csv").read_bytes() == trials
    facts = json.loads(forced.stdout)
    assert len(facts["tables"][0]["lines"]) == 15
    assert len(facts["tables"][0]["targets"]) == 3
    assert {Path(path).name for path in facts["outputs"]} == FILES


def test_a_fresh_run_measures_again_what_it_was_asked_for(finished, tmp_path):
    folder, _ = finished
    again = tmp_path / "again"
    again.mkdir()
    file = TrialFile(again / "trials.csv")
    file.add([t for t in TrialFile(folder / "trials.csv").trials if t.protocol == "fit"][:1])
    other = replace(file.trials[0], circumstances=replace(file.trials[0].circumstances, seed=9))
    file.add([other])
    done = run(*QUICK, "-o", "again", "--fresh", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    after = TrialFile(again / "trials.csv")
    assert file.trials[0] not in after.trials
    assert other in after.trials
    assert untimed(again) == sorted(
        [*untimed(folder), replace(other, seconds=0, machine="")], key=repr
    )


def test_a_folder_that_was_there_stays_though_nothing_was_written(tmp_path):
    (tmp_path / "mine").mkdir()
    done = run(
        "--table", "shuttle", "--no-download", "--data-home", ".", "-o", "mine", cwd=tmp_path
    )
    assert done.returncode == 1
    assert names(tmp_path) == {"mine"}


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_nothing_is_lost_when_the_data_cannot_be_had(finished, tmp_path, fresh):
    known = (finished[0] / "trials.csv").read_bytes()
    (tmp_path / "trials.csv").write_bytes(known)
    done = run("--table", "shuttle", "--no-download", "--data-home", ".", "-o", ".", *fresh,
               cwd=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert "With --download this is done for you" in done.stderr
    assert names(tmp_path) == {"trials.csv"}
    assert (tmp_path / "trials.csv").read_bytes() == known


@pytest.mark.skipif(os.name != "posix", reason="a signal is sent to a group of processes")
def test_an_interrupted_run_goes_on_where_it_stopped(finished, tmp_path):
    with subprocess.Popen(
        [COMMAND, "reproduce", "--table", "synthetic", "--repetitions", "40", "--jobs", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        trials = tmp_path / "robust-kmeans-paper" / "trials.csv"
        while process.poll() is None and not (trials.exists() and trials.stat().st_size > 1000):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Interrupted" in errors
    assert "run it again to go on from there" in errors
    assert "Traceback" not in errors
    assert names(trials.parent) == {"trials.csv"}
    known = trials.read_bytes()
    done = run(*QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "runs are taken from" in done.stderr
    assert trials.read_bytes().startswith(known)
    first = {trial for trial in untimed(trials.parent) if trial.repetition == 0}
    assert first == set(untimed(finished[0]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--table", "shuttel"], "--table shuttel is unknown; use synthetic, shuttle, kdd"),
        (["--study", "lemma"], "--study lemma is unknown; use coverage"),
        (["--kdd", "half"], "--kdd half is unknown; use auto, 10-percent, full, stand-in"),
        (["--table", "none"], "leave nothing to do"),
        (["--repetitions", "0"], "--repetitions=0 must be"),
        (["--jobs", "-1"], "--jobs=-1 must be"),
        (["--noise-scale", "0"], "--noise-scale=0.0 must be"),
        (["--seed", "-1"], "--seed -1 must be between"),
        (["-o", "file"], "file is a file; give the name of a folder"),
        (["-o", "no/where"], "no does not exist; make this folder first"),
        (["--table", "skin-noise", "--no-download"], "'Skin_NonSkin.txt' is not in"),
    ],
)
def test_mistakes_get_one_clear_line_and_leave_nothing_behind(tmp_path, options, says):
    (tmp_path / "file").touch()
    done = run(*options, cwd=tmp_path, ROBUST_KMEANS_DATA=".")
    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_a_file_of_something_else_is_not_taken_for_trials(tmp_path, fresh):
    (tmp_path / "trials.csv").write_text("a,b\n1,2\n")
    done = run(*QUICK, "-o", ".", *fresh, cwd=tmp_path)
    assert done.returncode == 1
    assert "no file of trials" in done.stderr
    assert (tmp_path / "trials.csv").read_text() == "a,b\n1,2\n"


def test_of_all_tables_those_without_data_are_left_out_and_named(tmp_path):
    done = run(
        "--repetitions", "1", "--study", "none", "--no-download", "--data-home", ".", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for name in ("shuttle", "kdd", "skin-noise", "shuttle-noise"):
        assert f"The table {name} is left out." in done.stderr
    assert names(tmp_path / "robust-kmeans-paper") == FILES


@pytest.fixture
def in_process(tmp_path, monkeypatch):
    """Run an order here, where parts can be replaced by small ones."""
    monkeypatch.setattr(reproducing, "finished", lambda: None)
    order = Order(["none"], [], 1, Choices(), 1, tmp_path / "out")

    def run_order(**changes):
        reproduce(replace(order, **changes), voice=Voice(quiet=True))
        return tmp_path / "out"

    return run_order


def test_a_stand_in_is_timed_and_compared_with_nothing(in_process, monkeypatch):
    monkeypatch.setattr(data, "STAND_IN_SIZES", (2800, 1070, 970, 46))
    folder = in_process(tables=["kdd"], choices=Choices(kdd="stand-in"))
    page = (folder / "results.md").read_text(encoding="utf-8").lower()
    assert "stand-in" in page
    assert "| verdict |" not in page
    # A picture of its figures would be taken for one of the data.
    assert names(folder) == {"trials.csv", "summary.csv", "results.md"}
    assert {trial.circumstances.z for trial in TrialFile(folder / "trials.csv").trials} == {46}


def test_studies_come_with_all_tables_or_when_they_are_asked_for(in_process, monkeypatch):
    asked = []

    def shortened(name, study):
        run_study = study.run

        def run(seed, _repetitions, report):
            asked.append(name)
            return run_study(seed, 1, report)

        return run

    for name, study in reproducing.STUDIES.items():
        monkeypatch.setattr(study, "run", shortened(name, study))
    folder = in_process(studies=["bi-criteria", "coverage"])
    assert asked == ["coverage", "bi-criteria"]
    assert names(folder) == {
        "coverage.png", "coverage.csv", "bi-criteria.png", "bi-criteria.csv", "results.md",
        "summary.csv",
    }  # fmt: skip
    page = (folder / "results.md").read_text(encoding="utf-8")
    assert "--table none --study bi-criteria --study coverage --repetitions 1 --seed 0" in page
    usual = Order(["all"], [], 1, Choices(), 1, folder)
    assert usual.chosen_studies == list(reproducing.STUDIES)
    assert replace(usual, tables=["kdd"]).chosen_studies == []


@pytest.mark.parametrize("studies", [["noise"], []])
def test_a_study_without_data_is_an_error_only_if_it_was_named(in_process, tmp_path, studies):
    nowhere = Choices(data_home=tmp_path, download=False)
    if studies:
        with pytest.raises(FileNotFoundError, match="Skin"):
            in_process(studies=studies, choices=nowhere)
        assert not (tmp_path / "out").exists()
    else:
        order = Order(["all"], [], 1, nowhere, 1, tmp_path / "out")
        with pytest.MonkeyPatch.context() as patch:
            only_noise = {"noise": reproducing.STUDIES["noise"]}
            patch.setattr(reproducing, "STUDIES", only_noise)
            patch.setattr(paper_order, "STUDIES", only_noise)
            results, notes = reproducing._study(order, Voice(quiet=True))
        assert results == []
        assert notes[0].startswith("The study noise is left out.")


def test_the_picture_of_seeds_is_of_the_run_s_own_seed(in_process, monkeypatch):
    drawn = []
    monkeypatch.setattr(reproducing, "draw_seeds", lambda *arguments: drawn.append(arguments))
    in_process(tables=["synthetic"], choices=Choices(seed=3))
    X, outliers, panels, _ = drawn[0]
    expected = Generated(3).instance(Setting(20, 100), 0)
    np.testing.assert_array_equal(X, expected.X)
    np.testing.assert_array_equal(outliers, expected.outliers)
    names_and_centers = dict(panels)
    problem = Problem(X, outliers, 20, 100, 0.5)
    np.testing.assert_array_equal(
        names_and_centers["algorithm-1"],
        seeds_of("algorithm-1", problem, derived_seed(3, 0, "method")),
    )


def test_rows_that_a_killed_run_has_left_are_removed_after_a_day(in_process, tmp_path):
    out = tmp_path / "out"
    for name in (".rows-old", ".rows-new"):
        (out / name).mkdir(parents=True)
    os.utime(out / ".rows-old", (0, 0))
    in_process(tables=["synthetic"])
    assert names(out) == {*FILES, ".rows-new"}
