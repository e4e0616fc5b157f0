from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.paper import runner
from robust_kmeans.paper.data import Choices, Generated
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.runner import run_tasks, tasks_of
from robust_kmeans.paper.summaries import summarise
from robust_kmeans.paper.trials import HEADER, Circumstances, Trial, TrialFile

SYNTHETIC = experiments()["synthetic"]
AT = Circumstances("synthetic", "generated", 1025, 2, 20, 25, 25, None, 0, "1.0")


def tasks(repetitions=1, seed=0):
    return tasks_of(SYNTHETIC, Generated(seed), Choices(seed=seed), repetitions)


def untimed(trials):
    """Times are another each time; an order is that of the finishes."""
    found = [replace(trial, seconds=0, plain_seconds=None) for trial in trials]
    return sorted(found, key=repr)


@pytest.fixture(scope="module")
def one_job(tmp_path_factory):
    file = TrialFile(tmp_path_factory.mktemp("run") / "trials.csv")
    run_tasks(tasks(2), file, 1, lambda _: None)
    return file


def test_there_is_a_trial_for_every_method_protocol_and_repetition(one_job):
    found = {(t.circumstances.z, t.method, t.repetition, t.protocol) for t in one_job.trials}
    expected = {
        (setting.z, method, repetition, protocol)
        for setting in SYNTHETIC.settings
        for method in SYNTHETIC.methods
        for repetition in range(2)
        for protocol in (("fit",) if method == "RobustKMeans" else ("seeds", "lloyd"))
    }
    assert found == expected
    assert len(one_job.trials) == len(expected)


def test_results_do_not_depend_on_the_number_of_processes(one_job, tmp_path):
    file = TrialFile(tmp_path / "trials.csv")
    run_tasks(tasks(2), file, 3, lambda _: None)
    assert untimed(file.trials) == untimed(one_job.trials)
    assert not multiprocessing.active_children()


def test_another_seed_gives_other_data(one_job, tmp_path):
    file = TrialFile(tmp_path / "trials.csv")
    run_tasks(tasks(1, seed=1)[:2], file, 1, lambda _: None)
    known = {trial.cost for trial in one_job.trials}
    assert not known & {trial.cost for trial in file.trials}


def test_a_run_goes_on_where_it_stopped(one_job, tmp_path):
    path = tmp_path / "trials.csv"
    stopped = []

    def stop_after_five(task):
        stopped.append(task)
        if len(stopped) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks(2), TrialFile(path), 1, stop_after_five)
    known = TrialFile(path)
    assert len({(t.circumstances, t.method, t.repetition) for t in known.trials}) == 5
    done = []
    run_tasks(tasks(2), known, 1, done.append)
    assert len(done) == len(tasks(2)) - 5
    assert not set(done) & set(stopped)
    assert untimed(TrialFile(path).trials) == untimed(one_job.trials)


def test_a_finished_run_measures_nothing_again(one_job):
    before = one_job.path.read_bytes()
    run_tasks(tasks(2), TrialFile(one_job.path), 2, pytest.fail)
    assert one_job.path.read_bytes() == before


def test_trials_under_other_circumstances_do_not_count(one_job):
    missing = tasks(2, seed=7)
    assert not any(one_job.of(t.circumstances, t.method, t.repetition) for t in missing)


def test_a_worker_s_error_is_raised_and_the_others_are_stopped(tmp_path):
    bad = replace(tasks()[0], method="unheard of")
    with pytest.raises(KeyError, match="unheard of"):
        run_tasks([tasks()[1], bad], TrialFile(tmp_path / "trials.csv"), 2, lambda _: None)
    assert not multiprocessing.active_children()


def test_a_dead_worker_is_an_error_and_not_a_wait_without_end(tmp_path, monkeypatch):
    original = runner._received

    def killed(worker):
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join()
        while worker.connection.poll():  # what it had sent before
            try:
                worker.connection.recv()
            except EOFError:
                break
        return original(worker)

    monkeypatch.setattr(runner, "_received", killed)
    with pytest.raises(RuntimeError, match=r"exit code -9.*fewer --jobs"):
        run_tasks(tasks(), TrialFile(tmp_path / "trials.csv"), 2, lambda _: None)


SCRIPT = """
import sys
from pathlib import Path
from robust_kmeans.paper.data import Choices, Generated
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.runner import run_tasks, tasks_of
from robust_kmeans.paper.trials import TrialFile
if __name__ == "__main__":
    tasks = tasks_of(experiments()["synthetic"], Generated(0), Choices(), 1000)
    print("ready", flush=True)
    run_tasks(tasks, TrialFile(Path(sys.argv[1])), 2, lambda task: print("done", flush=True))
"""


def is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(os.name != "posix", reason="signals are sent to a group of processes")
def test_an_interrupt_stops_all_processes_and_leaves_whole_lines(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    path = tmp_path / "trials.csv"
    with subprocess.Popen(
        [sys.executable, tmp_path / "script.py", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert "done\n" in process.stdout
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        assert process.wait(timeout=10) != 0
    # Python's own resource tracker ends a moment later.
    deadline = time.monotonic() + 10
    while is_alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert TrialFile(path).trials
    assert path.read_text().endswith("\n")


numbers = st.floats(allow_nan=False, allow_infinity=False)
trials = st.builds(
    Trial,
    st.builds(
        Circumstances,
        *(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")) for _ in range(2)),
        *(st.integers(0, 10**9) for _ in range(5)),
        st.none() | numbers,
        st.integers(0, 2**32),
        st.just("1.0"),
    ),
    st.sampled_from(SYNTHETIC.methods),
    st.integers(0, 100),
    st.sampled_from(["seeds", "lloyd", "fit"]),
    *(numbers for _ in range(4)),
    st.none() | numbers,
)


@given(st.lists(trials, min_size=1, max_size=5))
def test_trials_come_back_from_their_file_as_they_were(tmp_path, written):
    path = tmp_path / "trials.csv"
    path.unlink(missing_ok=True)
    for trial in written:
        TrialFile(path).add([trial])
    assert TrialFile(path).trials == written


@given(st.data())
def test_a_line_that_was_cut_off_is_dropped(tmp_path, data):
    path = tmp_path / "trials.csv"
    path.unlink(missing_ok=True)
    some = [Trial(AT, "random", r, "seeds", 1.5, 0.1, 0.2, 0.3) for r in range(3)]
    TrialFile(path).add(some)
    text = path.read_text()
    first_lines = len(",".join(HEADER)) + 1
    end = data.draw(st.integers(first_lines, len(text)))
    path.write_text(text[:end])
    n_whole = text[:end].count("\n") - 1
    assert TrialFile(path).trials == some[:n_whole]
    TrialFile(path).add(some[n_whole:])
    assert TrialFile(path).trials == some


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", ",".join(HEADER) + "\n1,2\n", ",".join(HEADER) + "\n" + "x," * 18 + "x\n"],
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
