from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.summaries import summarise
from robust_kmeans.paper.trials import HEADER, Circumstances, Trial, TrialFile

SYNTHETIC = experiments()["synthetic"]
AT = Circumstances(
    "synthetic", "generated", 1025, 2, 20, 25, 25, 0.5, None, 0, version="1.0", code="c0de"
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"))
trials = st.builds(
    Trial,
    st.builds(
        Circumstances,
        *(texts for _ in range(2)),
        *(st.integers(0, 10**9) for _ in range(5)),
        numbers,
        st.none() | numbers,
        st.integers(0, 2**32),
        texts,
        texts,
    ),
    st.sampled_from(SYNTHETIC.methods),
    st.integers(0, 100),
    st.just("fit"),
    *(numbers for _ in range(4)),
    st.none() | numbers,
    texts,
)


def run_of(trial):
    return trial.circumstances, trial.method, trial.repetition


@given(st.lists(trials, min_size=1, max_size=5, unique_by=run_of), st.data())
def test_runs_that_are_forgotten_are_gone_and_the_others_stay(tmp_path, written, data):
    path = tmp_path / "trials.csv"
    path.unlink(missing_ok=True)
    file = TrialFile(path)
    for trial in written:
        file.add([trial])
    unwanted = data.draw(st.lists(st.sampled_from(written)))
    file.forget([*map(run_of, unwanted), (AT, "never run", 0)])
    left = [trial for trial in written if trial not in unwanted]
    assert file.trials == TrialFile(path).trials == left


def test_a_run_that_was_noted_twice_counts_once(tmp_path):
    path = tmp_path / "trials.csv"
    pair = [Trial(AT, "random", 0, protocol, 1.5, 0.1, 0.2, 0.3) for protocol in ("seeds", "lloyd")]
    first, second = TrialFile(path), TrialFile(path)
    first.add(pair)
    second.add([replace(trial, cost=9.0) for trial in pair])
    assert TrialFile(path).trials == pair


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "trials.csv"
    file = TrialFile(path)
    file.add([Trial(AT, "RobustKMeans", 0, "fit", 1.5, 0.1, 0.2, 0.3)])
    before = path.read_bytes()

    def full_disk(_descriptor):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        file.add([Trial(AT, "RobustKMeans", 1, "fit", 1.5, 0.1, 0.2, 0.3)])
    assert path.read_bytes() == before
    assert len(file.trials) == 1


@given(st.lists(trials, min_size=1, max_size=5, unique_by=run_of))
def test_trials_come_back_from_their_file_as_they_were(tmp_path, written):
    path = tmp_path / "trials.csv"
    path.unlink(missing_ok=True)
    for trial in written:
        TrialFile(path).add([trial])
    assert TrialFile(path).trials == written


@given(st.data())
def test_a_run_that_was_cut_off_is_dropped(tmp_path, data):
    path = tmp_path / "trials.csv"
    path.unlink(missing_ok=True)
    runs = [
        [Trial(AT, "random", r, protocol, 1.5, 0.1, 0.2, 0.3) for protocol in ("seeds", "lloyd")]
        for r in range(3)
    ]
    for run in runs:
        TrialFile(path).add(run)
    text = path.read_text()
    end = data.draw(st.integers(len(",".join(HEADER)) + 1, len(text)))
    path.write_text(text[:end])
    # A run of which a line is missing is no run.
    n_whole = (text[:end].count("\n") - 1) // 2
    assert TrialFile(path).trials == [trial for run in runs[:n_whole] for trial in run]
    for run in runs[n_whole:]:
        TrialFile(path).add(run)
    assert TrialFile(path).trials == [trial for run in runs for trial in run]


@pytest.mark.parametrize(
    "text",
    [
        "no line at all",
        "a,b\n1,2\n",
        ",".join(HEADER) + "\n1,2\n",
        ",".join(HEADER) + "\n" + "x," * (len(HEADER) - 1) + "x\n",
    ],
)
def test_another_file_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "trials.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"no file of trials.*delete it"):
        TrialFile(path)
    assert path.read_text() == text


def test_summaries_are_best_average_median_and_deviation():
    some = [
        Trial(AT, "k-means++", r, "seeds", cost, precision, 2 * precision, 0.1 * (r + 1), plain)
        for r, (cost, precision, plain) in enumerate([(4, 0.1, 0.2), (1, 0.4, None), (7, 0.1, 0.3)])
    ]
    (summary,) = summarise(some)
    assert (summary.cost.best, summary.cost.average, summary.cost.median) == (1, 4, 4)
    assert summary.cost.deviation == 3
    assert (summary.precision.best, summary.precision.median) == (0.4, 0.1)
    assert summary.recall.best == 0.8
    assert summary.precision.average == pytest.approx(0.2)
    assert summary.seconds == pytest.approx(0.2)
    assert summary.speedup == pytest.approx((0.2 / 0.1 + 0.3 / 0.3) / 2)
    assert summary.repetitions == 3


def test_an_empty_file_is_as_good_as_none(tmp_path):
    path = tmp_path / "trials.csv"
    path.touch()
    trial = Trial(AT, "RobustKMeans", 0, "fit", 1.5, 0.1, 0.2, 0.3)
    TrialFile(path).add([trial])
    assert TrialFile(path).trials == [trial]
