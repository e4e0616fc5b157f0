from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from robust_kmeans.cli import reproducing
from robust_kmeans.cli.fitting import Voice
from robust_kmeans.cli.reproducing import Order, reproduce
from robust_kmeans.paper import data
from robust_kmeans.paper.data import Choices
from robust_kmeans.paper.trials import TrialFile

COMMAND = Path(sys.executable).with_name("robust-kmeans")
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
    return sorted((replace(t, seconds=0, plain_seconds=None) for t in trials), key=repr)


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
    assert sum(word in done.stdout for word in ("agrees", "differs", "impossible")) == 3
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


def test_a_fresh_run_measures_everything_again(finished, tmp_path):
    folder, _ = finished
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "trials.csv").write_bytes((folder / "trials.csv").read_bytes())
    done = run(*QUICK, "-o", "again", "--fresh", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    again = tmp_path / "again"
    assert untimed(again) == untimed(folder)
    assert (again / "trials.csv").read_bytes() != (folder / "trials.csv").read_bytes()


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
        while process.poll() is None and not trials.exists():
            pass
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Interrupted" in errors
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
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {tmp_path / "file"}


def test_a_file_of_something_else_is_not_taken_for_trials(tmp_path):
    (tmp_path / "trials.csv").write_text("a,b\n1,2\n")
    done = run(*QUICK, "-o", ".", cwd=tmp_path)
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
    assert "impossible |" not in page
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
    assert names(folder) == {"coverage.png", "bi-criteria.png", "results.md", "summary.csv"}
    usual = Order(["all"], [], 1, Choices(), 1, folder)
    assert usual.chosen_studies == list(reproducing.STUDIES)
    assert replace(usual, tables=["kdd"]).chosen_studies == []
