from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import robust_kmeans
from robust_kmeans import __version__
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.paper import runner
from robust_kmeans.paper.data import Choices, Generated, Stored, derived_seed
from robust_kmeans.paper.experiments import Setting, experiments
from robust_kmeans.paper.machine import code_fingerprint
from robust_kmeans.paper.methods import SEEDINGS, Problem, judge, run_method, seeds_of
from robust_kmeans.paper.runner import WorkerDiedError, run_tasks, tasks_of
from robust_kmeans.paper.trials import Circumstances, TrialFile

SYNTHETIC = experiments()["synthetic"]
COMPARED = [name for name, method in SEEDINGS.items() if method.plainly is not None]


def tasks(repetitions=1, seed=0):
    return tasks_of(SYNTHETIC, Generated(seed), Choices(seed=seed), repetitions)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """An experiment on rows of a file: other budgets than true outliers, and noise."""
    folder = tmp_path_factory.mktemp("rows")
    X, labels, _ = make_contaminated_blobs(
        300, n_clusters=6, n_outliers=20, n_features=3, random_state=0
    )
    np.save(folder / "rows.npy", X)
    np.save(folder / "outliers.npy", labels < 0)
    experiment = replace(
        experiments()["shuttle"], beta=0.3, n_noisy=20, settings=(Setting(6, 9), Setting(3))
    )
    source = Stored("made up", folder / "rows.npy", folder / "outliers.npy")
    return experiment, source, Choices(seed=4, noise_scale=2.5)


@pytest.fixture(scope="module")
def on_stored_rows(stored, tmp_path_factory):
    file = TrialFile(tmp_path_factory.mktemp("run") / "trials.csv")
    run_tasks(tasks_of(*stored, 4), file, 1, lambda _: None, machine="abacus")
    return file.trials


@pytest.fixture(autouse=True)
def no_process_stays():
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= before


def run_of(trial):
    return trial.circumstances, trial.method, trial.repetition


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


def test_trials_say_under_which_circumstances_they_were_made(on_stored_rows):
    found = {trial.circumstances for trial in on_stored_rows}
    common = dict(
        table="shuttle", data="made up", n=320, d=3, true_outliers=20, beta=0.3, noise_scale=2.5,
        seed=4, version=__version__, code=code_fingerprint(),
    )  # fmt: skip
    # Where a setting names no z, it is the number of true outliers.
    assert found == {Circumstances(k=6, z=9, **common), Circumstances(k=3, z=20, **common)}
    assert {trial.machine for trial in on_stored_rows} == {"abacus"}


def test_a_trial_is_what_its_method_gives_on_its_rows_from_its_own_seed(stored, on_stored_rows):
    _, source, choices = stored
    X, outliers = source.instance(Setting(6, 9), 0)
    for trial in on_stored_rows:
        problem = Problem(X, outliers, trial.circumstances.k, trial.circumstances.z, 0.3)
        seed = derived_seed(choices.seed, trial.repetition, "method")
        outcomes = run_method(trial.method, problem, seed, with_plain=False)
        (same,) = [outcome for outcome in outcomes if outcome.protocol == trial.protocol]
        assert trial.cost == same.cost
        assert (trial.precision, trial.recall) == (same.precision, same.recall)
        if trial.protocol == "seeds":
            assert trial.cost == judge(problem, seeds_of(trial.method, problem, seed))[0]


def test_repetitions_differ(on_stored_rows):
    seeds = [t for t in on_stored_rows if t.protocol == "seeds" and t.circumstances.k == 6]
    for method in SEEDINGS:
        costs = [trial.cost for trial in seeds if trial.method == method]
        assert len(set(costs)) == len(costs) == 4


def test_lloyd_moves_the_seeds_and_precision_is_not_recall(on_stored_rows):
    by_run = {}
    for trial in on_stored_rows:
        by_run.setdefault(run_of(trial), {})[trial.protocol] = trial
    pairs = [run for run in by_run.values() if "lloyd" in run]
    assert all(pair["lloyd"].cost < pair["seeds"].cost for pair in pairs)
    # Nine rows are flagged, of twenty: the same hits give a recall of 9/20 of the precision.
    for trial in on_stored_rows:
        if trial.circumstances.z == 9:
            assert trial.recall == pytest.approx(trial.precision * 9 / 20)
    assert all(trial.precision > 0 for trial in on_stored_rows if trial.protocol == "fit")


def test_the_first_repetitions_are_timed_in_plain_numpy_too(on_stored_rows):
    for trial in on_stored_rows:
        compared = trial.repetition < runner.PLAIN_REPETITIONS and trial.method in COMPARED
        assert (trial.plain_seconds is not None) == compared


@pytest.mark.parametrize(
    ("changed", "value"),
    [("beta", 0.4), ("noise_scale", 5.0), ("seed", 5), ("version", "x"), ("code", "x"), ("z", 8),
     ("data", "x"), ("n", 1), ("table", "x")],
)  # fmt: skip
def test_a_change_of_circumstances_is_another_run(on_stored_rows, tmp_path, changed, value):
    file = TrialFile(tmp_path / "trials.csv")
    pair = [t for t in on_stored_rows if t.method == "random" and t.repetition == 0][:2]
    file.add(pair)
    at = pair[0].circumstances
    assert file.of(at, "random", 0) == pair
    assert not file.of(replace(at, **{changed: value}), "random", 0)


def test_the_fingerprint_is_of_the_code_that_figures_come_from(tmp_path, monkeypatch):
    package = tmp_path / "robust_kmeans"
    shutil.copytree(Path(robust_kmeans.__file__).parent, package)
    monkeypatch.setattr(robust_kmeans, "__file__", str(package / "__init__.py"))

    def fingerprint(changed=None):
        if changed:
            with open(package / changed, "a") as file:
                file.write("# changed\n")
        code_fingerprint.cache_clear()
        return code_fingerprint()

    try:
        before = fingerprint()
        for other in ("cli/app.py", "plotting.py", "paper/page.py", "paper/studies/noise.py"):
            assert fingerprint(other) == before
        for code in ("lloyd.py", "kernels/swaps.py", "paper/methods.py", "datasets/synthetic.py"):
            after = fingerprint(code)
            assert after != before
            before = after
    finally:
        code_fingerprint.cache_clear()


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


@pytest.mark.skipif(os.name != "posix", reason="processes are killed by a signal")
@pytest.mark.parametrize("when", ["at its start", "between two tasks"])
def test_a_dead_worker_is_an_error_and_not_a_wait_without_end(tmp_path, monkeypatch, when):
    original = runner._workers

    def kill(worker):
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join()

    @contextmanager
    def killed(jobs):
        with original(jobs) as workers:
            if when == "at its start":
                kill(workers[0])
            living.extend(workers)
            yield workers

    living = []
    monkeypatch.setattr(runner, "_workers", killed)
    with pytest.raises(WorkerDiedError, match=r"exit code -9.*fewer --jobs"):
        run_tasks(
            tasks(), TrialFile(tmp_path / "trials.csv"), 2, lambda _: [kill(w) for w in living]
        )


SCRIPT = """
import signal
import sys
from pathlib import Path
from robust_kmeans.paper.data import Choices, Generated
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.runner import run_tasks, tasks_of
from robust_kmeans.paper.trials import TrialFile
if __name__ == "__main__":
    # A shell that starts something in the background has it ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
        process.communicate(timeout=20)
        assert process.returncode != 0
    # Python's own resource tracker ends a moment later.
    deadline = time.monotonic() + 10
    while is_alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert TrialFile(path).trials
    assert path.read_text().endswith("\n")
