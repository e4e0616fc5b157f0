from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from robust_kmeans import (
    RobustKMeans,
    inputs,
    robust_kmeans_plusplus,
    trimmed_inertia,
    trimmed_kmeans,
    trimmed_silhouette_score,
)
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution import base
from robust_kmeans.execution import budget as budget_module
from robust_kmeans.execution.budget import Budget
from robust_kmeans.execution.disk import OnDisk, StoredChunk, memory_for_reading
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.lloyd import trimmed_lloyd
from robust_kmeans.reporting import Progress
from robust_kmeans.sources.npy import from_memmap
from robust_kmeans.sources.opening import open_dataset
from robust_kmeans.sweeps.base import NO_WEIGHTS
from robust_kmeans.trimming import place

N_ROWS, N_FEATURES = 3_000, 3
BOUNDS = np.linspace(0, N_ROWS, 6).astype(np.int64)


@pytest.fixture
def X():
    problem = make_contaminated_blobs(
        N_ROWS - 150, n_features=N_FEATURES, n_clusters=4, n_outliers=150, random_state=0
    )
    return problem.X.astype(np.float32)


@pytest.fixture
def path(X, tmp_path):
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "rows.npy", X)
    return tmp_path / "data" / "rows.npy"


def same_models(first, second):
    for name in vars(first):
        if name.endswith("_") and not name.startswith("_"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name), name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("init", ["robust-k-means++", "rkm++"])
def test_a_fit_from_disk_is_the_fit_in_memory_to_the_bit(X, tmp_path, dtype, init):
    np.save(tmp_path / "rows.npy", X.astype(dtype))
    model = RobustKMeans(4, init=init, random_state=0)
    in_memory = model.fit(X.astype(dtype))
    for threads in (1, 2):
        on_disk = RobustKMeans(4, init=init, random_state=0, n_threads=threads)
        same_models(in_memory, on_disk.fit(tmp_path / "rows.npy"))


@pytest.mark.parametrize("weighted", [False, True])
def test_what_does_not_fit_into_the_limit_goes_to_files_and_changes_nothing(X, path, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2, N_ROWS) if weighted else None
    dataset = open_dataset(path)
    limit = memory_for_reading(dataset, BOUNDS, 2) + N_ROWS * 8
    runs = []
    with (
        InMemory(X, weights, 2, BOUNDS) as rows,
        OnDisk(dataset, weights, 2, limit, BOUNDS) as stored,
    ):
        for data in (rows, stored):
            start = place(data, X[:4].copy(), 150)
            runs.append(trimmed_lloyd(data, start, 150, max_iter=20, tol=0))
        assert stored.budget.most_in_ram <= N_ROWS * 8
        assert stored.budget.in_files > 0
        np.testing.assert_array_equal(runs[0].centers, runs[1].centers)
        assert runs[0].history == runs[1].history


@pytest.mark.parametrize(
    "init", ["robust-k-means++", "k-means++", "robust-k-means||", "tkm++", "rkm++", "random"]
)
def test_a_fit_of_which_all_is_kept_on_files_is_the_fit_in_memory(X, path, init):
    limit = memory_for_reading(X, np.array([0, N_ROWS]), 1)
    model = RobustKMeans(4, init=init, n_threads=1, random_state=0)
    spilled = RobustKMeans(4, init=init, n_threads=1, random_state=0, memory_limit=limit)
    same_models(model.fit(X), spilled.fit(path))


@pytest.mark.parametrize("init", ["robust-k-means++", "robust-k-means||", "rkm++"])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_more_than_forty_bytes_are_kept_per_row(X, tmp_path, monkeypatch, init, large, dtype):
    monkeypatch.setattr(base, "LARGE", 1 if large else 2**30)
    np.save(tmp_path / "rows.npy", X.astype(dtype))
    budgets = []

    class Watched(OnDisk):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            budgets.append(self.budget)

    monkeypatch.setattr(inputs, "OnDisk", Watched)
    RobustKMeans(4, n_outliers=150, init=init, random_state=0).fit(tmp_path / "rows.npy")
    assert 0 < budgets[0].most_in_ram <= 40 * N_ROWS


@pytest.mark.parametrize("limit", [0, 10**6])
def test_memory_is_not_handed_out_again_while_a_view_of_it_is_in_use(path, limit):
    chunk = StoredChunk(
        open_dataset(path), 0, 100, NO_WEIGHTS, Budget(limit), Budget(0), keep=False
    )
    view = chunk.empty(np.float32)[:60].reshape(20, 3)
    view[:] = 1
    chunk.empty(np.float32)[:] = 7
    assert (view == 1).all()


def test_an_iteration_reads_the_file_once(path, monkeypatch):
    dataset = open_dataset(path)
    scans = []
    scan = type(dataset).scan
    monkeypatch.setattr(
        type(dataset), "scan", lambda self, bounds: (scans.append(1), scan(self, bounds))[1]
    )
    with OnDisk(dataset, bounds=BOUNDS) as data:
        start = place(data, dataset.read(0, 4).copy(), 150)
        n_before = len(scans)
        run = trimmed_lloyd(data, start, 150, max_iter=8, tol=0)
    # And once for the first totals.
    assert len(scans) == n_before + 1 + run.n_iter


def test_predictions_from_disk_are_those_in_memory(X, path):
    model = RobustKMeans(4, random_state=0).fit(X)
    for method in ("predict", "transform", "score_samples", "decision_function"):
        np.testing.assert_array_equal(getattr(model, method)(path), getattr(model, method)(X))
    assert model.score(path) == model.score(X)
    wide = RobustKMeans(4, random_state=0).fit(X.astype(np.float64))
    np.testing.assert_array_equal(wide.predict(path), wide.predict(X))


def test_functions_take_files_too(X, path):
    centers, indices = robust_kmeans_plusplus(X, 4, n_outliers=150, random_state=0)
    from_disk = robust_kmeans_plusplus(path, 4, n_outliers=150, random_state=0)
    np.testing.assert_array_equal(indices, from_disk[1])
    assert trimmed_inertia(path, centers, n_outliers=150) == trimmed_inertia(
        X, centers, n_outliers=150
    )
    found = trimmed_kmeans(path, centers, n_outliers=150)
    np.testing.assert_array_equal(found.labels, trimmed_kmeans(X, centers, n_outliers=150).labels)


def n_scans(path):
    """How often a fit reads a file from end to end."""
    dataset = open_dataset(path)
    scan, scans = dataset.scan, []
    dataset.scan = lambda bounds: (scans.append(1), scan(bounds))[1]
    RobustKMeans(4, random_state=0).fit(dataset)
    return len(scans)


def test_the_callback_hears_of_every_reading(path):
    heard: list[Progress] = []
    model = RobustKMeans(4, random_state=0, callback=heard.append)
    model.fit(path)
    readings = [progress for progress in heard if progress.stage == "reading"]
    assert readings
    assert {progress.n_steps for progress in readings} == {N_ROWS}
    ends = [progress for progress in readings if progress.step == N_ROWS]
    assert len(ends) == n_scans(path)
    in_memory: list[Progress] = []
    RobustKMeans(4, random_state=0, callback=in_memory.append).fit(np.load(path))
    assert [p for p in heard if p.stage != "reading"] == in_memory


def test_a_file_without_rows_or_columns_is_refused(tmp_path):
    for shape in ((0, 3), (5, 0)):
        np.save(tmp_path / "empty.npy", np.empty(shape))
        with pytest.raises(ValueError, match="it needs at least one row and one column"):
            RobustKMeans(2).fit(tmp_path / "empty.npy")


def test_float16_becomes_float64_wherever_it_is(X, tmp_path):
    np.save(tmp_path / "half.npy", X.astype(np.float16))
    model = RobustKMeans(4, random_state=0)
    same_models(
        RobustKMeans(4, random_state=0).fit(X.astype(np.float16)), model.fit(tmp_path / "half.npy")
    )
    assert model.cluster_centers_.dtype == np.float64


def test_measures_that_compare_rows_refuse_files(path):
    with pytest.raises(TypeError, match="must be an array for this measure"):
        trimmed_silhouette_score(path, np.zeros(N_ROWS))


def test_the_memory_for_reading_is_no_more_than_that_of_all_chunks(path):
    dataset = open_dataset(path)
    assert memory_for_reading(dataset, BOUNDS, 64) == memory_for_reading(dataset, BOUNDS, 2)


def test_values_that_are_not_finite_are_found_with_their_file(X, path):
    X[-1, 2] = np.nan
    np.save(path, X)
    with pytest.raises(ValueError, match=rf"column 2; the first is in row {N_ROWS - 1} \(.*rows"):
        RobustKMeans(4).fit(path)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_that_changes_while_it_is_read_is_refused(X, path, threads):
    with OnDisk(open_dataset(path), n_threads=threads, bounds=BOUNDS) as data:
        np.save(path, X[:-1])
        with pytest.raises(ValueError, match="was changed after the data set was opened"):
            place(data, X[:4].copy(), 150)


def test_values_that_are_not_finite_are_found_with_their_row_group(X, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    X[-1, 2] = np.nan
    table = pa.table([pa.array(column) for column in X.T], names=["a", "b", "c"])
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=1000)
    with pytest.raises(
        ValueError, match=r"column 2 \('c'\).*row 2999 \(.*rows.parquet, row group 2, its row 999"
    ):
        RobustKMeans(4).fit(tmp_path / "rows.parquet")


def test_a_limit_that_is_too_low_is_refused(path):
    with pytest.raises(ValueError, match=r"memory_limit=10 is too little.*Raise memory_limit"):
        RobustKMeans(4, memory_limit=10).fit(path)


@pytest.mark.parametrize("limit", ["much", "2 gigabytes", -1, 0, 1.5, True, "0 GB"])
def test_a_limit_must_be_a_size(path, limit):
    with pytest.raises((TypeError, ValueError), match=r"memory_limit=.*number of bytes"):
        RobustKMeans(4, memory_limit=limit).fit(path)


def test_other_columns_than_in_the_fit_are_refused(X, path, tmp_path):
    model = RobustKMeans(4, random_state=0).fit(path)
    np.save(tmp_path / "narrow.npy", X[:, :2])
    with pytest.raises(ValueError, match="X has 2 features, but RobustKMeans was fitted on 3"):
        model.predict(tmp_path / "narrow.npy")


def first_rows(X, n_clusters, random_state):
    return X[:n_clusters]


def test_a_callable_init_needs_an_array(path):
    with pytest.raises(TypeError, match=r"callable.*needs X as an array"):
        RobustKMeans(4, init=first_rows).fit(path)


def test_budget_counts_what_is_in_ram_and_gives_back(tmp_path):
    budget = Budget(limit=1000, folder=str(tmp_path))
    first = budget.empty((100,), np.float64)
    second = budget.empty((50, 2), np.float32)
    second[:] = 7
    assert (budget.in_ram, budget.in_files) == (800, budget_module.FILE_BYTES)
    assert second.shape == (50, 2)
    assert (second == 7).all()
    # Files have no name: nothing is left behind, however the process ends.
    assert not list(tmp_path.iterdir())
    del first
    assert budget.in_ram == 0


def test_room_is_claimed_by_writing_where_the_system_cannot_be_asked(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    array = Budget(limit=0, folder=str(tmp_path)).empty((10,), np.float64)
    array[:] = 3
    assert array.sum() == 30


def test_arrays_on_files_do_not_overlap(tmp_path):
    budget = Budget(limit=0, folder=str(tmp_path))
    arrays = [budget.empty((n,), np.int32) for n in (1, 17, 1000, 3)]
    for i, array in enumerate(arrays):
        array[:] = i
    assert [set(array) for array in arrays] == [{0}, {1}, {2}, {3}]


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path):
    """In a process whose files may not grow: the system refuses room as a full disk does."""
    code = textwrap.dedent("""
        import resource, sys
        from robust_kmeans.execution.budget import Budget
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
        try:
            Budget(limit=0, folder=sys.argv[1]).empty((2**21,), "u1")
        except OSError as error:
            print(error)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "has no room for 64 MiB more. Free some, set TMPDIR" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_estimator_as_it_was(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    limit = memory_for_reading(open_dataset(path), np.array([0, N_ROWS]), 2) + 100
    model = RobustKMeans(4, memory_limit=limit, n_threads=2)
    with pytest.raises(OSError, match="no room for 64 MiB more"):
        model.fit(path)
    assert not hasattr(model, "n_features_in_")


def test_a_folder_that_cannot_be_written_to_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(OSError, match=r"no file for it could be made.*Set TMPDIR"):
        Budget(limit=0, folder=str(tmp_path / "missing")).empty((10,), np.float64)


def test_an_error_on_the_way_stops_reading_and_closes_the_file(path):
    def stop(progress):
        if progress.stage == "lloyd":
            raise KeyboardInterrupt

    open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(KeyboardInterrupt):
        RobustKMeans(4, callback=stop, random_state=0).fit(path)
    if open_files:
        assert len(os.listdir("/proc/self/fd")) <= open_files


def test_rows_that_are_dear_to_take_are_read_in_the_order_of_the_file(X, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [pa.array(column) for column in X.T]
    table = pa.table(columns, names=[f"x{j}" for j in range(N_FEATURES)])
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    dataset = open_dataset(tmp_path / "rows.parquet")
    runs = []
    with InMemory(X, None, 2, BOUNDS) as rows, OnDisk(dataset, None, 2, None, BOUNDS) as stored:
        # Rows are only asked for in runs, never one by one.
        dataset.take = None
        for data in (rows, stored):
            start = place(data, X[:4].copy(), 150)
            runs.append(trimmed_lloyd(data, start, 150, max_iter=20, tol=0))
    assert runs[0].history == runs[1].history
    np.testing.assert_array_equal(runs[0].centers, runs[1].centers)


def test_a_large_memory_map_is_read_ahead_and_gives_what_its_array_gives(X, path, monkeypatch):
    monkeypatch.setattr(base, "LARGE", X.nbytes)
    opened_files = []
    monkeypatch.setattr(inputs, "from_memmap", lambda X: opened_files.append(1) or from_memmap(X))
    mapped = np.load(path, mmap_mode="r")
    model = RobustKMeans(4, random_state=0)
    same_models(RobustKMeans(4, random_state=0).fit(X), model.fit(mapped))
    assert opened_files
    # Of changes that never reach the file there is nothing to read.
    private = np.load(path, mmap_mode="c")
    same_models(RobustKMeans(4, random_state=0).fit(X), model.fit(private))
    # Nor of a file that has taken the name of the one that is mapped, or has gone.
    np.save(path.with_name("other.npy"), X + 100)
    os.replace(path.with_name("other.npy"), path)
    same_models(RobustKMeans(4, random_state=0).fit(X), model.fit(mapped))
    path.unlink()
    same_models(RobustKMeans(4, random_state=0).fit(X), model.fit(mapped))


def test_a_dataset_of_pyarrow_is_read_from_its_files(X, tmp_path):
    pa = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    names = [f"x{j}" for j in range(N_FEATURES)]
    dataset.write_dataset(
        pa.table([pa.array(column) for column in X.T], names=names),
        tmp_path / "d",
        format="parquet",
    )
    model = RobustKMeans(4, random_state=0).fit(dataset.dataset(tmp_path / "d"))
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(model.labels_, RobustKMeans(4, random_state=0).fit(X).labels_)
    swapped = dataset.dataset(tmp_path / "d")
    with pytest.raises(ValueError, match="X has column 'x2' where RobustKMeans was fitted on 'x0'"):
        model.predict(open_dataset(swapped.files[0], columns=names[::-1]))
