from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from robust_kmeans import RobustKMeans, __version__
from robust_kmeans.cli import fitting
from robust_kmeans.cli.request import Settings, Source, Targets, Voice
from robust_kmeans.datasets import make_contaminated_blobs
from tests.commands import COMMAND, run, run_installed

NAMES = ["height", "width", "depth"]
N_CLUSTERS, N_OUTLIERS = 4, 12
BASE = ("-k", N_CLUSTERS, "-z", N_OUTLIERS)


def succeed(*arguments, cwd=None):
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def frame():
    X, _, _ = make_contaminated_blobs(
        300,
        n_clusters=N_CLUSTERS,
        n_outliers=N_OUTLIERS,
        n_features=3,
        outlier_box=2000,
        random_state=3,
    )
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(0, "id", [f"row, {i}" for i in range(len(X))])
    return frame


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    """The same rows in every format."""
    folder = tmp_path_factory.mktemp("files")
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_csv(folder / "rows.tsv", index=False, sep="\t")
    frame.to_csv(folder / "rows.csv.gz", index=False)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(table, folder / "rows.parquet")
    pa.feather.write_feather(table, str(folder / "rows.feather"))
    np.save(folder / "rows.npy", frame[NAMES].to_numpy())
    return folder


@pytest.fixture(scope="module")
def fitted(frame):
    """What Python gives for the same rows."""
    return RobustKMeans(N_CLUSTERS, n_outliers=N_OUTLIERS, random_state=0).fit(
        frame[NAMES].to_numpy()
    )


@pytest.fixture(scope="module")
def model_file(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    succeed("fit", files / "rows.csv", "-k", N_CLUSTERS, "-z", N_OUTLIERS, "--exclude", "id",
            "--model", path, "--quiet")  # fmt: skip
    return path


@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.tsv", "rows.csv.gz", "rows.parquet", "rows.feather", "rows.npy"]
)
def test_fit_equals_python_in_every_format(files, fitted, tmp_path, name):
    options = [] if name.endswith("npy") else ["--exclude", "id"]
    done = succeed("fit", files / name, "-k", N_CLUSTERS, "-z", N_OUTLIERS, *options,
                   "-o", "labelled.parquet", "--json", cwd=tmp_path)  # fmt: skip
    facts = json.loads(done.stdout)
    assert facts["cost"] == fitted.inertia_
    assert facts["n_outliers"] == N_OUTLIERS
    assert facts["outlier_threshold"] == fitted.outlier_threshold_
    assert [c["rows"] for c in facts["clusters"]] == np.bincount(
        fitted.labels_[fitted.labels_ >= 0]
    ).tolist()
    order = np.argsort(-fitted.outlier_scores_, kind="stable")[:10]
    assert [o["row"] for o in facts["strongest_outliers"]] == (order + 1).tolist()
    written = pd.read_parquet(tmp_path / "labelled.parquet")
    np.testing.assert_array_equal(written["label"], fitted.labels_)
    np.testing.assert_array_equal(written["nearest_cluster"], fitted.nearest_labels_)
    np.testing.assert_array_equal(written["outlier_score"], fitted.outlier_scores_)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_output_has_all_rows_and_columns_of_the_input(files, frame, fitted, tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    succeed("fit", files / "rows.csv", "-k", N_CLUSTERS, "-z", N_OUTLIERS, "--columns",
            "height,width,depth", "--output", path, "--quiet")  # fmt: skip
    readers = {
        "csv": pd.read_csv,
        "tsv": lambda name: pd.read_csv(name, sep="\t"),
        "parquet": pd.read_parquet,
        "feather": pd.read_feather,
    }
    written = readers[ending](path)
    assert list(written) == ["id", *NAMES, "label", "nearest_cluster", "outlier_score"]
    assert written["id"].tolist() == frame["id"].tolist()
    np.testing.assert_array_equal(written[NAMES], frame[NAMES])
    np.testing.assert_array_equal(written["label"], fitted.labels_)


@pytest.mark.parametrize(
    "arguments", [("rows.csv", *BASE, "--exclude", "id", "--json", "-q"), ("rows.csv", "-k", 0)]
)
def test_the_installed_command_does_the_same(files, arguments):
    installed, here = (command("fit", *arguments, cwd=files) for command in (run_installed, run))
    assert installed.returncode == here.returncode
    # The first two lines name the command, which here is that of the tests.
    assert installed.stderr.splitlines()[2:] == here.stderr.splitlines()[2:]
    assert "Traceback" not in installed.stderr
    if here.returncode == 0:
        first, second = (json.loads(each.stdout) for each in (installed, here))
        assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.parametrize("scale", ["none", "standard", "robust"])
def test_predicting_the_training_rows_gives_their_labels(files, tmp_path, scale):
    succeed("fit", files / "rows.csv", "-k", N_CLUSTERS, "-z", "4%", "--exclude", "id",
            "--scale", scale, "-o", "fit.csv", "--model", "model.npz", "-q",
            cwd=tmp_path)  # fmt: skip
    succeed("predict", "model.npz", files / "rows.parquet", "-o", "new.csv", "-q", cwd=tmp_path)
    columns = ["label", "nearest_cluster", "outlier_score"]
    fit, new = (pd.read_csv(tmp_path / name)[columns] for name in ("fit.csv", "new.csv"))
    pd.testing.assert_frame_equal(fit, new)
    assert (fit["label"] == -1).sum() == 12


def test_predict_takes_columns_by_name(files, frame, model_file, tmp_path):
    frame[["depth", "id", "height", "width"]].to_csv(tmp_path / "mixed.csv", index=False)
    plain = json.loads(succeed("predict", model_file, files / "rows.csv", "--json").stdout)
    mixed = json.loads(succeed("predict", model_file, tmp_path / "mixed.csv", "--json").stdout)
    assert plain["clusters"] == mixed["clusters"]
    assert plain["outliers"] == mixed["outliers"] == N_OUTLIERS


def test_the_summary_names_clusters_outliers_and_reasons(files, frame, tmp_path):
    worst = frame.copy()
    worst.loc[41, "width"] = 1e6
    worst.to_csv(tmp_path / "worst.csv", index=False)
    done = succeed(
        "fit", "worst.csv", "-k", N_CLUSTERS, "-z", "13", "--exclude", "id", cwd=tmp_path
    )
    assert "Clusters" in done.stdout
    assert "Strongest outliers" in done.stdout
    line = next(line for line in done.stdout.splitlines() if "width = 1e+06" in line)
    assert line.split("│")[1].strip() == "42"
    assert "cost on inliers" in done.stdout
    assert "outlier threshold" in done.stdout
    # Nothing but progress, where kernels had to be compiled first.
    assert all(line.startswith("Clustering") for line in done.stderr.splitlines())


def test_quiet_says_nothing(files, tmp_path):
    done = succeed(
        "fit", files / "rows.csv", "-k", 2, "-z", 5, "--exclude", "id", "-q", cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_missing_values_are_dropped_when_asked(frame, tmp_path):
    gaps = frame.copy()
    gaps.loc[7, "depth"] = np.nan
    gaps.loc[9, "width"] = np.inf
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    options = ("fit", "gaps.csv", "-k", 4, "-z", 12, "--exclude", "id")
    refused = run(*options, cwd=tmp_path)
    assert refused.returncode == 1
    assert "2 missing or infinite values in column 'width' (1), 'depth' (1)" in refused.stderr
    assert "first is in row 8" in refused.stderr
    done = succeed(*options, "--drop-missing", "-o", "out.csv", cwd=tmp_path)
    assert "2 of 312 rows have missing values" in done.stderr
    labels = pd.read_csv(tmp_path / "out.csv")["label"]
    assert np.flatnonzero(labels.isna()).tolist() == [7, 9]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
@pytest.mark.parametrize("columns", ["height,width", "height,width,depth"])
def test_plot_writes_a_picture(files, tmp_path, columns, ending):
    path = tmp_path / f"picture.{ending}"
    succeed("fit", files / "rows.csv", "-k", 4, "-z", 12, "--columns", columns,
            "--scale", "robust", "--plot", path)  # fmt: skip
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)


def test_inspect_shows_the_model(model_file, fitted):
    facts = json.loads(succeed("inspect", model_file, "--json").stdout)
    assert facts["columns"] == NAMES
    assert facts["cost"] == fitted.inertia_
    assert facts["scaling"] == "none"
    assert facts["details"] == {"file": "rows.csv"}
    centers = [list(c["center"].values()) for c in facts["clusters"]]
    np.testing.assert_array_equal(centers, fitted.cluster_centers_)
    shown = succeed("inspect", model_file).stdout
    assert "height" in shown
    assert "4 clusters of 3 columns" in shown


def test_auto_counts_the_outliers_and_the_model_remembers(files, tmp_path):
    model_file = tmp_path / "model.npz"
    done = succeed("fit", files / "rows.csv", "-k", 4, "-z", "auto", "--exclude", "id",
                   "--model", model_file, "--json")  # fmt: skip
    facts = json.loads(done.stdout)
    assert abs(facts["n_outliers"] - N_OUTLIERS) <= 2
    assert RobustKMeans.load(model_file).n_outliers == "auto"
    assert f"{facts['n_outliers']} outliers" in succeed("inspect", model_file).stdout


def test_compare_tries_every_seeding_and_scikit_learn(files):
    done = succeed("compare", files / "rows.csv", "-k", 4, "-z", "4%", "--exclude", "id",
                   "--runs", 2, "--json")  # fmt: skip
    methods = json.loads(done.stdout)["methods"]
    assert {m["method"] for m in methods} == {
        "RobustKMeans", "random", "k-means++", "robust-k-means++", "tkm++", "rkm++",
        "robust-k-means||",
        "scikit-learn KMeans",
    }  # fmt: skip
    costs = [m["mean_cost"] for m in methods]
    assert costs == sorted(costs)
    assert all(m["best_cost"] <= m["mean_cost"] for m in methods)
    table = succeed("compare", files / "rows.csv", "-k", 4, "-z", "4%", "--exclude", "id").stdout
    assert "robust-k-means++" in table


def test_demo_shows_that_robust_wins(tmp_path):
    done = succeed("demo", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout)
    plain, robust = facts["methods"]
    assert robust["cost_on_inliers"] < plain["cost_on_inliers"] / 2
    assert robust["clusters_found"] == facts["n_clusters"] > plain["clusters_found"]
    assert (tmp_path / "robust-kmeans-demo.png").read_bytes().startswith(b"\x89PNG")
    again = run("demo", cwd=tmp_path)
    assert again.returncode == 1
    assert "--force" in again.stderr
    assert "RobustKMeans" in succeed("demo", "--force", cwd=tmp_path).stdout


MISTAKES = [
    (("fit", "none.csv", *BASE), "none.csv does not exist"),
    (("compare", ".", *BASE), "is a folder"),
    (("fit", ".", *BASE, "--in-memory"), "is a folder"),
    (("fit", "empty.csv", *BASE), "empty.csv is empty"),
    (("fit", "header.csv", *BASE), "has no rows, only names"),
    (("fit", "rows.csv", *BASE), "column 'id' is not numeric.*'row, 0' in row 1.*--exclude"),
    (("fit", "book.xlsx", *BASE), "no known format; expected a name that ends in .csv"),
    (
        ("fit", "rows.npy", "-k", 400, "-z", 12),
        "-z 12 leaves 300 of 312 rows for -k 400",
    ),
    (("fit", "rows.npy", "-k", 4, "-z", 312), "-z 312 leaves nothing"),
    (("fit", "rows.npy", "-k", 4, "-z", "100%"), "-z 100% must be"),
    (("fit", "rows.npy", "-k", 4, "-z", "few"), "-z few must be a number of rows"),
    (("compare", "rows.npy", "-k", 4, "-z", "auto"), "-z auto must be a number of rows"),
    (("fit", "rows.npy", "-k", 0, "-z", 1), "-k 0 must be at least 1"),
    (("fit", "rows.npy", *BASE, "--threads", 0), "--threads 0 must be at least 1"),
    (("fit", "rows.npy", *BASE, "--scale", "log"), "--scale log is unknown; use none"),
    (("fit", "rows.npy", *BASE, "--seed", -1), "--seed -1 must be between"),
    (("fit", "rows.npy", *BASE, "--columns", "x"), "has no column 'x'; it has 'column_1'"),
    (("fit", "rows.npy", *BASE, "--exclude", "y"), "has no column 'y'"),
    (("fit", "rows.npy", *BASE, "--delimiter", "ab"), "--delimiter 'ab' must be one character"),
    (("fit", "rows.npy", *BASE, "-o", "out.xlsx"), "out.xlsx has no known format"),
    (("fit", "rows.npy", *BASE, "-o", "no/out.csv"), "no does not exist; make this folder"),
    (("fit", "rows.npy", *BASE, "-o", "old.csv"), "old.csv exists already; use --force"),
    (
        ("fit", "rows.npy", *BASE, "--model", "old.csv"),
        "old.csv has no known format.*npz",
    ),
    (("fit", "rows.npy", *BASE, "--plot", "old.csv"), "old.csv has no known format"),
    (("fit", "rows.npy", *BASE, "--columns", ","), "has no column ''"),
    (("fit", "huge.csv", "-k", 1, "-z", 0), "column 'big'.*overflow"),
    (("fit", "rows.csv", *BASE, "-o", "rows.csv", "--force"), "rows.csv is an input too"),
    (("fit", "link.csv", *BASE, "-o", "rows.csv", "--force"), "rows.csv is an input too"),
    (("fit", "rows.csv", *BASE, "-o", "link.csv", "--force"), "link.csv is an input too"),
    (("predict", "model.npz", "rows.csv", "-o", "hidden.csv", "--force"), "is an input too"),
    (("predict", "none.npz", "rows.csv"), "none.npz"),
    (("predict", "rows.npy", "rows.csv"), "rows.npy"),
    (("predict", "cut.npz", "rows.csv"), "cut.npz"),
    (("predict", "model.npz", "other.csv"), "has no column 'width'.*fitted on 'height'"),
    (("predict", "model.npz", "two.npy"), "has 2 columns, but the model was fitted on 3"),
    (("inspect", "old.csv"), "old.csv"),
    (("compare", "rows.npy", *BASE, "--runs", 0), "--runs=0 must be at least 1"),
]


@pytest.fixture(scope="module")
def mistakes(files, model_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    for name in ("rows.csv", "rows.npy"):
        (folder / name).write_bytes((files / name).read_bytes())
    (folder / "model.npz").write_bytes(model_file.read_bytes())
    (folder / "cut.npz").write_bytes(model_file.read_bytes()[:500])
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("a,b\n")
    (folder / "huge.csv").write_text("small,big\n1,1e200\n2,-1e200\n")
    (folder / "link.csv").symlink_to(folder / "rows.csv")
    (folder / "hidden.csv").symlink_to(folder / "model.npz")
    (folder / "book.xlsx").write_text("?")
    (folder / "old.csv").write_text("precious")
    (folder / "other.csv").write_text("height,depth\n1,2\n")
    np.save(folder / "two.npy", np.zeros((3, 2)))
    return folder


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[:60])
def test_mistakes_get_one_clear_line_and_change_nothing(mistakes, arguments, message):
    before = {path.name: path.read_bytes() for path in mistakes.iterdir()}
    done = run(*arguments, cwd=mistakes)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    assert re.search(message, lines[0]), lines[0]
    assert {path.name: path.read_bytes() for path in mistakes.iterdir()} == before


def test_wrong_usage_exits_with_2(files):
    done = run("fit", files / "rows.csv", "-k", 4)
    assert done.returncode == 2
    assert "--outliers" in done.stderr


def test_force_replaces_outputs(files, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    succeed("fit", files / "rows.npy", *BASE, "-o", "out.csv", "--force", "-q", cwd=tmp_path)
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 313
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_output_of_text_is_the_input_to_the_character(tmp_path):
    rows = [f"{2**53 + 1 + i},{i}.50,:id:[b] $x" for i in range(9)]
    (tmp_path / "in.csv").write_text("id,:id:[x],text\n" + "\n".join(rows) + "\n")
    done = succeed("fit", "in.csv", "-k", 2, "-z", 1, "--columns", ":id:[x]", "-o", "out.csv",
                   "--json", cwd=tmp_path)  # fmt: skip
    written = (tmp_path / "out.csv").read_text().splitlines()
    assert [",".join(line.split(",")[:3]) for line in written[1:]] == rows
    assert json.loads(done.stdout)["columns"] == [":id:[x]"]
    shown = succeed("fit", "in.csv", "-k", 2, "-z", 1, "--columns", ":id:[x]", cwd=tmp_path).stdout
    assert ":id:[x] = " in shown


def test_column_names_are_no_formulas(tmp_path):
    (tmp_path / "in.csv").write_text("a$b_c$d,$\\frac$\n1,2\n3,4\n5,6\n")
    done = succeed("fit", "in.csv", "-k", 1, "-z", 0, "--plot", "p.png", "-q", cwd=tmp_path)
    assert done.stderr == ""


def test_no_outliers_make_valid_json(files):
    done = succeed("fit", files / "rows.npy", "-k", 2, "-z", "0%", "--json")
    facts = json.loads(done.stdout)
    assert (facts["n_outliers"], facts["outlier_threshold"]) == (0, None)
    assert facts["strongest_outliers"] == []


def test_a_file_that_appears_meanwhile_is_not_replaced(files, tmp_path):
    arguments = [COMMAND, "fit", files / "rows.npy", *map(str, BASE), "-o", "out.csv", "-q"]
    both = [
        subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    messages = [process.communicate(timeout=60)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert "exists" in "".join(messages)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("late", ["draw_clusters", "write_table"])
def test_an_interrupt_while_writing_leaves_no_output(files, tmp_path, monkeypatch, late):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, late, interrupt)
    paths = [tmp_path / name for name in ("out.csv", "model.npz", "plot.png")]
    with pytest.raises(KeyboardInterrupt):
        fitting.fit(
            Source(files / "rows.npy"),
            Settings(N_CLUSTERS, N_OUTLIERS),
            targets=Targets(*paths),
            voice=Voice(quiet=True),
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fit", "predict", "inspect", "compare", "demo"])
def test_help_has_an_example(command):
    shown = succeed(command, "--help").stdout
    assert f"robust-kmeans {command}" in shown
    assert "Example" in shown


def test_version_and_bare_call():
    assert succeed("--version").stdout.strip() == f"robust-kmeans {__version__}"
    assert "fit" in run().stdout
