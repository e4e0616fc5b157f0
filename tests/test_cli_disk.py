"""The command where rows stay on disk: one file, folders, patterns."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from robust_kmeans import RobustKMeans
from robust_kmeans.cli import readings, stored, tables
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.reporting import Progress
from tests.commands import COMMAND, compile_kernels, run

NAMES = ["height", "width", "depth"]
BASE = ("-k", 4, "-z", 12)
LABELS = ["label", "nearest_cluster", "outlier_score"]


@pytest.fixture
def command():
    """The command within this process: (exit code, standard output, standard error)."""

    def run_wide(*arguments):
        done = run(*arguments, columns=200)
        return done.returncode, done.stdout, done.stderr

    return run_wide


@pytest.fixture
def succeed(command):
    def run(*arguments):
        code, out, err = command(*arguments)
        assert code == 0, err
        return json.loads(out) if "--json" in arguments else out

    return run


@pytest.fixture
def refuse(command, tmp_path):
    """The one line that says why nothing was done."""

    def run(*arguments):
        before = sorted(tmp_path.rglob("*"))
        code, out, err = command(*arguments, "-q")
        assert (code, out) == (1, "")
        assert sorted(tmp_path.rglob("*")) == before
        (line,) = err.strip().splitlines()
        return line

    return run


@pytest.fixture(scope="module")
def frame():
    X, _, _ = make_contaminated_blobs(
        300, n_clusters=4, n_outliers=12, n_features=3, outlier_box=2000, random_state=3
    )
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(0, "id", [f"row, {i}" for i in range(len(X))])
    return frame


WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False, row_group_size=40),
    "feather": lambda frame, path: frame.reset_index(drop=True).to_feather(path),
    "npy": lambda frame, path: np.save(path, frame[NAMES].to_numpy()),
}


def write_parts(frame, folder, kind="parquet"):
    folder.mkdir(exist_ok=True)
    for part, (start, stop) in enumerate([(0, 100), (100, 101), (101, len(frame))]):
        WRITERS[kind](frame.iloc[start:stop], folder / f"part-{part}.{kind}")
    return folder


@pytest.fixture
def parts(frame, tmp_path):
    return write_parts(frame, tmp_path / "parts")


@pytest.mark.parametrize("kind", list(WRITERS))
def test_a_folder_gives_the_model_and_labels_of_one_file(frame, tmp_path, succeed, kind):
    folder = write_parts(frame, tmp_path / "parts", kind)
    whole = tmp_path / f"whole.{kind}"
    WRITERS[kind](frame, whole)
    options = (*BASE, *([] if kind == "npy" else ["--exclude", "id"]), "--json")
    both = []
    for name, path in (("memory", whole), ("disk", folder), ("pattern", folder / f"*.{kind}")):
        output, model = tmp_path / f"{name}.parquet", tmp_path / f"{name}.npz"
        facts = succeed("fit", path, *options, "-o", output, "--model", model)
        for outlier in facts["strongest_outliers"]:
            outlier.pop("where", None)
        for key in ("file", "files", "readings", "seconds", "outputs"):
            facts.pop(key, None)
        labels = pd.read_parquet(output)[LABELS]
        predicted = tmp_path / f"{name}-predicted.parquet"
        succeed("predict", model, path, "-o", predicted)
        pd.testing.assert_frame_equal(pd.read_parquet(predicted)[LABELS], labels)
        loaded = RobustKMeans.load(model)
        both.append((facts, labels, loaded.cluster_centers_, loaded.get_params()))
    for other in both[1:]:
        assert other[0] == both[0][0]
        pd.testing.assert_frame_equal(other[1], both[0][1])
        np.testing.assert_array_equal(other[2], both[0][2])
        assert other[3] == both[0][3]


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_few_rows_are_scaled_as_in_memory(frame, parts, tmp_path, succeed, scale):
    WRITERS["csv"](frame, tmp_path / "whole.csv")
    options = (*BASE, "--exclude", "id", "--scale", scale, "--json")
    memory = succeed("fit", tmp_path / "whole.csv", *options)
    disk = succeed("fit", parts, *options)
    assert disk["cost"] == memory["cost"]
    assert disk["clusters"] == memory["clusters"]
    assert [o["row"] for o in disk["strongest_outliers"]] == [
        o["row"] for o in memory["strongest_outliers"]
    ]


def test_many_rows_are_scaled_and_drawn_by_a_sample_and_that_is_said(
    parts, tmp_path, command, monkeypatch
):
    monkeypatch.setattr(stored, "SAMPLE_VALUES", 600)
    arguments = ("fit", parts, *BASE, "--exclude", "id", "--scale", "robust", "--json")
    code, out, err = command(*arguments, "--plot", tmp_path / "picture.png")
    assert code == 0, err
    assert "scaling is that of 200 of 312 rows, drawn at random" in err
    assert "picture is of 200 of 312 rows" in err
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    # The strongest outliers are found among all rows, in the file's own units.
    facts = json.loads(out)
    assert (facts["rows"], facts["n_outliers"], facts["scaling"]) == (312, 12, "robust")
    assert all(
        max(abs(c["value"]) for c in o["columns"]) > 100 for o in facts["strongest_outliers"]
    )


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_labels_are_written_in_pieces(frame, parts, tmp_path, succeed, monkeypatch, ending):
    monkeypatch.setattr(tables, "ROWS_PER_PIECE", 100)
    output = tmp_path / f"labels.{ending}"
    said = succeed("fit", parts, *BASE, "--exclude", "id", "-o", output)
    readers = {
        "csv": pd.read_csv,
        "tsv": lambda path: pd.read_csv(path, sep="\t"),
        "parquet": pd.read_parquet,
        "feather": pd.read_feather,
    }
    written = readers[ending](output)
    model = RobustKMeans(4, n_outliers=12, random_state=0).fit(frame[NAMES])
    assert list(written) == LABELS
    np.testing.assert_array_equal(written["label"], model.labels_)
    np.testing.assert_array_equal(written["outlier_score"], model.outlier_scores_)
    if ending == "parquet":
        assert pq.ParquetFile(output).num_row_groups == 4
    assert "part-2.parquet, row group" in said


def test_large_files_stay_on_disk_and_others_where_they_are_asked_to(parts, tmp_path, monkeypatch):
    file = parts / "part-0.parquet"
    zipped = tmp_path / "rows.csv.gz"
    zipped.write_bytes(b"0" * 5000)
    assert not stored.stays_on_disk(file, None, None)
    assert stored.stays_on_disk(file, True, None)
    assert stored.stays_on_disk(file, None, "1 GB")
    monkeypatch.setattr(stored, "LARGE_FILE", 1000)
    assert stored.stays_on_disk(file, None, None)
    assert not stored.stays_on_disk(file, False, None)
    assert not stored.stays_on_disk(zipped, None, None)
    assert not stored.stays_on_disk(tmp_path / "missing.csv", None, None)


def test_text_may_have_other_delimiters_and_no_names(frame, tmp_path, succeed):
    for part, rows in enumerate((frame[:200], frame[200:])):
        rows[NAMES].to_csv(tmp_path / f"{part}.csv", index=False, header=False, sep=";")
    arguments = ("fit", tmp_path / "*.csv", *BASE, "--delimiter", ";", "--json")
    facts = succeed(*arguments)
    assert facts["columns"] == ["column_1", "column_2", "column_3"]
    assert facts["rows"] == 312
    assert succeed(*arguments, "--exclude", "column_2")["columns"] == ["column_1", "column_3"]


def test_an_index_of_pandas_is_left_out_and_that_is_said(frame, tmp_path, command):
    frame[NAMES].set_index(np.arange(312) ** 2).to_parquet(tmp_path / "rows.parquet")
    code, out, err = command("fit", tmp_path / "rows.parquet", *BASE, "--on-disk", "--json")
    assert code == 0
    assert json.loads(out)["columns"] == NAMES
    assert "index of a pandas data frame: __index_level_0__" in err


def test_mistakes_are_told_in_one_line(parts, frame, tmp_path, refuse):
    fit = ("fit", parts, *BASE, "--exclude", "id")
    assert "No file matches" in refuse("fit", tmp_path / "*.csv", *BASE)
    assert "has no column 'x'" in refuse("fit", parts, *BASE, "--columns", "x")
    assert "--columns 'height,width,depth' has" in refuse("fit", parts, *BASE)
    assert "--memory-limit '2 GX' must be" in refuse(*fit, "--memory-limit", "2 GX")
    assert "--memory-limit 7 is too little" in refuse(*fit, "--memory-limit", 7)
    assert "leave --in-memory out" in refuse(*fit, "--memory-limit", 7, "--in-memory")
    assert "--drop-missing is only for" in refuse(*fit, "--drop-missing")
    assert "--no-header is only for" in refuse(*fit, "--no-header")
    assert "is an input too" in refuse(*fit, "-o", parts / "part-0.parquet", "--force")
    assert "does not exist; make" in refuse(*fit, "--checkpoint", tmp_path / "no" / "c.npz")
    both = ("--checkpoint", tmp_path / "m.npz", "--model", tmp_path / "m.npz")
    assert "is the checkpoint too" in refuse(*fit, *both)
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert "has no rows" in refuse("fit", tmp_path / "empty.csv", *BASE, "--on-disk")
    WRITERS["npy"](frame, parts / "rows.npy")
    assert "several formats" in refuse(*fit)


def test_damaged_files_are_named(parts, frame, tmp_path, refuse):
    fit = ("fit", parts, *BASE, "--exclude", "id", "-o", tmp_path / "labels.csv")
    last = parts / "part-2.parquet"
    gaps = frame.iloc[101:].copy()
    gaps.iloc[-1, 2] = np.nan
    WRITERS["parquet"](gaps, last)
    for scale in ("none", "robust"):
        said = refuse(*fit, "--scale", scale)
        assert "'width'" in said
        assert f"{last}, row group 5, its row 10" in said
    WRITERS["parquet"](gaps.drop(columns="depth"), last)
    assert f"'depth' is not in {last}" in refuse(*fit)
    first = parts / "part-0.parquet"
    WRITERS["parquet"](frame.iloc[101:], last)
    column = pq.ParquetFile(last).metadata.row_group(3).column(1)
    damaged = bytearray(last.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    damaged[begin : begin + 60] = b"\xff" * 60
    last.write_bytes(damaged)
    assert f"{last}, row group 3 is damaged" in refuse(*fit)
    first.write_bytes(first.read_bytes()[:500])
    assert f"{first} is damaged" in refuse(*fit)


def test_no_room_for_the_output_leaves_nothing_behind(frame, parts, tmp_path, refuse, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robust_kmeans.cli.large.write_labels", fail)
    outputs = ("-o", tmp_path / "labels.csv", "--model", tmp_path / "model.npz")
    said = refuse("fit", parts, *BASE, "--exclude", "id", *outputs)
    assert f"no room for {tmp_path / 'labels.csv'}" in said


def test_an_interrupted_fit_goes_on_to_the_same_model(parts, tmp_path, command, monkeypatch):
    checkpoint = tmp_path / "half-way.npz"
    fit = ("fit", parts, *BASE, "--exclude", "id", "--json", "--checkpoint", checkpoint)
    monkeypatch.setattr("robust_kmeans.checkpoint.INTERVAL", 0.0)
    plain = json.loads(command(*fit)[1])
    assert not checkpoint.exists()
    hear = readings.Watch.__call__

    def interrupt(watch, progress):
        hear(watch, progress)
        if progress.stage == "swaps":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(readings.Watch, "__call__", interrupt)
        code, out, err = command(*fit, "-o", tmp_path / "labels.csv")
    assert (code, out) == (130, "")
    assert f"The same command goes on from {checkpoint}." in " ".join(err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint.name, "parts"]
    resumed = json.loads(command(*fit)[1])
    assert resumed["readings"] < plain["readings"]
    for facts in (plain, resumed):
        del facts["seconds"], facts["readings"]
    assert resumed == plain


def test_an_interrupt_of_the_real_command_leaves_nothing_behind(tmp_path):
    compile_kernels()
    rows = np.random.RandomState(0).standard_normal((400_000, 5)).astype(np.float32)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "rows.npy", rows)
    process = subprocess.Popen(
        [COMMAND, "fit", "data", "-k", "200", "-z", "1%", "-o", "out.csv", "--model", "m.npz"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "Note" in process.stderr.readline()
    assert "…" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Interrupted; nothing was left half-written." in said
    assert time.monotonic() - sent < 10
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def heard(watch, *events):
    for stage, step in events:
        watch(Progress(stage, 1, 1, step, 100 if stage == "reading" else 300, 2.5))


EVENTS = [
    *[("reading", n) for n in (40, 100, 30, 100)],
    ("seeding", 0),
    *[("reading", n) for n in (100, 100, 25)],
]


def test_readings_are_counted_and_what_was_done_last_is_kept():
    watch = readings.Watch("Opening")
    watch.tell("Looking", "Seeding")
    heard(watch, *EVENTS[:2])
    assert (watch.n_readings, watch.last) == (1, "Seeding")
    heard(watch, *EVENTS[2:])
    assert (watch.n_readings, watch.n_read) == (5, 25)
    assert watch.last == "seeded, cost 2.5"


@pytest.mark.parametrize("kind", [readings.OnTerminal, readings.InLog])
def test_a_reading_shows_its_share_and_the_time_left(monkeypatch, kind):
    clock = [0.0]
    monkeypatch.setattr(readings.time, "monotonic", lambda: clock[0])
    screen = io.StringIO()
    watch = kind(
        "Opening", Console(file=screen, width=150, force_terminal=kind is not readings.InLog)
    )
    watch.begin()
    for event in [*EVENTS, ("lloyd", 7), ("reading", 100), ("reading", 50)]:
        clock[0] += 11
        heard(watch, event)
    if kind is readings.OnTerminal:
        watch._bar.refresh()
    watch.end()
    said = screen.getvalue()
    assert "50%" in said
    assert "iteration 7 of at most 300, cost 2.5" in said
    if kind is readings.InLog:
        assert said.splitlines()[-1].endswith("reading 6: 50%, 11 s left")
