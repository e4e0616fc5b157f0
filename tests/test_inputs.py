"""What X may be: every form gives the same result, and none is copied without need."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from robust_kmeans import RobustKMeans, as_init, kmeans_plusplus, trimmed_inertia, trimmed_kmeans
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.inputs import opened, rows_of

# Whole numbers: they are the same as integers, float32 and float64.
ROWS = np.round(
    make_contaminated_blobs(
        200, n_clusters=4, n_outliers=8, n_features=3, box=1000.0, cluster_std=20.0, random_state=0
    ).X
)
NAMES = ["height", "width", "weight"]


def fit(X, **fit_parameters):
    return RobustKMeans(4, n_outliers=8, random_state=0).fit(X, **fit_parameters)


def assert_same_result(X):
    expected, found = fit(ROWS), fit(X)
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.outlier_scores_, expected.outlier_scores_)
    assert found.cluster_centers_.dtype == np.float64
    assert found.inertia_ == expected.inertia_
    np.testing.assert_array_equal(found.predict(X), expected.labels_)
    np.testing.assert_array_equal(found.transform(X), expected.transform(ROWS))
    assert found.score(X) == expected.score(ROWS)
    return found


def read_only():
    rows = ROWS.copy()
    rows.flags.writeable = False
    return rows


def unaligned():
    buffer = bytearray(1 + ROWS.nbytes)
    rows = np.frombuffer(buffer, dtype=np.float64, offset=1).reshape(ROWS.shape)
    rows[...] = ROWS
    assert not rows.flags.aligned
    return rows


FORMS = {
    "fortran order": lambda: np.asfortranarray(ROWS),
    "read-only": read_only,
    "unaligned": unaligned,
    "every other column": lambda: np.repeat(ROWS, 2, axis=1)[:, ::2],
    "every other row": lambda: np.repeat(ROWS, 2, axis=0)[::2],
    "negative strides": lambda: ROWS[::-1].copy()[::-1],
    "transposed": lambda: ROWS.T.copy().T,
    "a part of a larger array": lambda: np.pad(ROWS, 2)[2:-2, 2:-2],
    "int64": lambda: ROWS.astype(np.int64),
    "int16": lambda: ROWS.astype(np.int16),
    "big-endian": lambda: ROWS.astype(">f8"),
    "objects": lambda: ROWS.astype(object),
    "list of lists": ROWS.tolist,
    "tuple of arrays": lambda: tuple(ROWS),
    "masked array with nothing masked": lambda: np.ma.array(ROWS),
}


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_every_form_of_an_array_gives_the_same_result(make):
    assert not hasattr(assert_same_result(make()), "feature_names_in_")


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_file_mapped_into_memory_gives_the_same_result(tmp_path, mode):
    ROWS.tofile(tmp_path / "rows")
    rows = np.memmap(tmp_path / "rows", dtype=np.float64, mode=mode, shape=ROWS.shape)
    assert_same_result(rows)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "rows").reshape(ROWS.shape), ROWS)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("mixed", [False, True], ids=["floats", "floats and integers"])
def test_frames_give_the_same_result_and_keep_their_names(library, mixed):
    frames = pytest.importorskip(library)
    columns = dict(zip(NAMES, ROWS.T.copy(), strict=True))
    if mixed:
        columns["width"] = columns["width"].astype(np.int32)
    fitted = assert_same_result(frames.DataFrame(columns))
    assert list(fitted.feature_names_in_) == NAMES


def test_a_pyarrow_table_gives_the_same_result():
    pyarrow = pytest.importorskip("pyarrow")
    fitted = assert_same_result(pyarrow.table(dict(zip(NAMES, ROWS.T.copy(), strict=True))))
    assert list(fitted.feature_names_in_) == NAMES


@pytest.mark.parametrize("order", ["C", "F"])
def test_float32_stays_float32(order):
    fitted = fit(ROWS.astype(np.float32, order=order))
    assert fitted.cluster_centers_.dtype == np.float32
    assert fitted.outlier_scores_.dtype == np.float32
    assert fitted.transform(ROWS.astype(np.float32)).dtype == np.float32
    assert isinstance(fitted.inertia_, float)
    expected = fit(ROWS)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    np.testing.assert_allclose(fitted.cluster_centers_, expected.cluster_centers_, rtol=1e-6)
    # New rows are measured in the dtype of the centres, whatever their own.
    np.testing.assert_array_equal(fitted.predict(ROWS), fitted.labels_)


def test_float32_frames_stay_float32():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=NAMES).astype(np.float32)
    assert fit(frame).cluster_centers_.dtype == np.float32


@pytest.mark.parametrize(
    "make",
    [lambda w: w.tolist(), lambda w: w.astype(int), lambda w: np.repeat(w, 2)[::2]],
    ids=["list", "integers", "non-contiguous"],
)
def test_every_form_of_weights_gives_the_same_result(make):
    weight = np.arange(len(ROWS)) % 3 + 1.0
    expected, found = fit(ROWS, sample_weight=weight), fit(ROWS, sample_weight=make(weight))
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert found.inertia_ == expected.inertia_
    assert found.inertia_ != fit(ROWS).inertia_


def test_weights_of_one_are_no_weights():
    expected, found = fit(ROWS), fit(ROWS, sample_weight=np.ones(len(ROWS)))
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert found.inertia_ == expected.inertia_


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_functions_take_the_same_forms(make):
    centers = ROWS[:4].copy()
    cost = trimmed_inertia(make(), centers, n_outliers=8)
    assert cost == trimmed_inertia(ROWS, centers, n_outliers=8)
    labels = trimmed_kmeans(make(), centers.tolist(), n_outliers=8).labels
    np.testing.assert_array_equal(labels, trimmed_kmeans(ROWS, centers, n_outliers=8).labels)
    seeds = kmeans_plusplus(make(), 4, random_state=0)
    np.testing.assert_array_equal(seeds.indices, kmeans_plusplus(ROWS, 4, random_state=0).indices)
    np.testing.assert_array_equal(seeds.centers, ROWS[seeds.indices])


def chunk_rows(chunk, state, _shared):
    return state, chunk.rows


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_are_views_of_a_float_array_in_c_order(dtype, writeable):
    # Enough for several chunks.
    rows = np.arange(1_200_000, dtype=dtype).reshape(-1, 6)
    rows.flags.writeable = writeable
    with opened(rows_of(rows)) as data:
        _, chunks = data.map(chunk_rows, None, None)
    assert len(chunks) > 1
    assert all(np.shares_memory(chunk, rows) for chunk in chunks)
    assert sum(chunk.nbytes for chunk in chunks) == rows.nbytes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_works_on_the_array_itself(dtype):
    seen = []

    def init(rows, n_clusters, random_state):
        seen.append(rows)
        return as_init("random", n_outliers=0)(rows, n_clusters, random_state)

    rows = ROWS.astype(dtype)
    RobustKMeans(4, n_outliers=8, init=init, random_state=0).fit(rows)
    assert seen[0].shape == rows.shape
    assert np.shares_memory(seen[0], rows)


def peak_memory(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [20, 40])
def test_a_large_array_is_never_copied(n_features, dtype):
    n_rows = 40_000_000 // (n_features * np.dtype(dtype).itemsize)
    rows = np.random.default_rng(0).standard_normal((n_rows, n_features), dtype=dtype)
    model = RobustKMeans(3, n_outliers=10, n_local_trials=2, max_iter=2, tol=0, random_state=0)
    assert rows.nbytes == 40_000_000
    model.fit(rows[:1000])  # compiled code takes memory, too
    # Labels, squared distances and candidates' distances are a few numbers per row.
    assert peak_memory(lambda: model.fit(rows)) < 0.5 * rows.nbytes
    assert peak_memory(lambda: model.predict(rows)) < 0.5 * rows.nbytes
    assert peak_memory(lambda: model.score(rows)) < 0.5 * rows.nbytes
