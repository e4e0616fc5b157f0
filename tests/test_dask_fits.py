"""`RobustKMeans` on dask collections: the results of an array with the same plan of chunks."""

from __future__ import annotations

import numpy as np
import pytest

from robust_kmeans import RobustKMeans, robust_coreset, trimmed_inertia
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.execution import base
from robust_kmeans.execution.base import plan_chunks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

N_ROWS = 12_000


@pytest.fixture
def X(monkeypatch):
    monkeypatch.setattr(base, "CHUNK_ROWS", (1000, 2000))
    problem = make_contaminated_blobs(N_ROWS - 600, n_clusters=5, n_outliers=600, random_state=0)
    return problem.X.astype(np.float32)


@pytest.fixture
def blocks(X):
    """The same rows in Dask, in the blocks of the plan that an array would have."""
    return da.from_array(X, chunks=(tuple(np.diff(plan_chunks(*X.shape)).tolist()), -1))


def computed(value):
    return value.compute() if hasattr(value, "compute") else value


@pytest.mark.parametrize("init", ["robust-k-means++", "robust-k-means||"])
def test_a_fit_is_that_of_an_array_with_the_same_plan(X, blocks, init):
    assert blocks.numblocks[0] > 4
    with dask.config.set(scheduler="threads"):
        lazy = RobustKMeans(5, init=init, random_state=0).fit(blocks)
    model = RobustKMeans(5, init=init, random_state=0).fit(X)
    assert isinstance(lazy.labels_, da.Array)
    assert lazy.labels_.chunks[0] == blocks.chunks[0]
    for name in vars(model):
        if name.endswith("_"):
            np.testing.assert_array_equal(computed(getattr(lazy, name)), getattr(model, name), name)


def test_predictions_are_lazy_and_the_same(X, blocks):
    model = RobustKMeans(5, random_state=0).fit(X)
    for method in ("predict", "transform", "score_samples", "decision_function"):
        found = getattr(model, method)(blocks)
        assert isinstance(found, da.Array), method
        expected = getattr(model, method)(X)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(found.compute(), expected)
    assert model.score(blocks) == model.score(X)


def test_a_prediction_of_values_that_are_not_finite_fails_when_it_is_computed(X, blocks):
    model = RobustKMeans(5, random_state=0).fit(X)
    lazy = model.predict(da.where(blocks > X.max() - 1e-3, np.nan, blocks))
    with pytest.raises(ValueError, match="X has NaN or infinite values"):
        lazy.compute()


def test_functions_take_dask_arrays(X, blocks):
    centers = X[:5].astype(np.float64)
    assert trimmed_inertia(blocks, centers, n_outliers=600) == trimmed_inertia(
        X, centers, n_outliers=600
    )
    few = robust_coreset(blocks, 300, 5, 600, random_state=0)
    np.testing.assert_array_equal(
        few.indices, robust_coreset(X, 300, 5, 600, random_state=0).indices
    )


def test_columns_of_a_frame_are_known_by_name(X):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=["height", "width"])
    lazy = dd.from_pandas(frame, npartitions=3)
    model = RobustKMeans(5, random_state=0).fit(lazy)
    assert list(model.feature_names_in_) == ["height", "width"]
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(frame))
    with pytest.raises(ValueError, match="X has column 'width' where RobustKMeans was fitted on"):
        model.predict(lazy[["width", "height"]])


def test_a_saved_model_of_a_lazy_fit_is_the_same(blocks, tmp_path):
    model = RobustKMeans(5, random_state=0).fit(blocks)
    model.save(tmp_path / "model.npz")
    loaded = RobustKMeans.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.cluster_centers_, model.cluster_centers_)
    assert loaded._cluster_sizes.sum() == N_ROWS - 600
