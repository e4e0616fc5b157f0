"""Pictures: what is drawn where, read back from the axes."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import DBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from robust_kmeans import RobustKMeans, trimmed_inertia
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.plotting import plot_clusters, plot_outlier_scores, plot_trim_curve

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402 - the backend comes first

PLOTS = [plot_clusters, plot_outlier_scores, plot_trim_curve]


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def blobs(n_features=2, n_clusters=4, n_outliers=15, n_samples=300, outlier_box=300):
    return make_contaminated_blobs(
        n_samples,
        n_clusters=n_clusters,
        n_outliers=n_outliers,
        n_features=n_features,
        outlier_box=outlier_box,
        random_state=0,
    )[0]


def fitted(X, n_clusters=4, n_outliers=15):
    return RobustKMeans(n_clusters, n_outliers=n_outliers, n_init=3, random_state=0).fit(X)


def drawn(ax, gid):
    """The points of one kind, of shape (n, 2)."""
    found = [np.asarray(dots.get_offsets()) for dots in ax.collections if dots.get_gid() == gid]
    return np.vstack([np.empty((0, 2)), *found])


def line(ax, gid):
    (found,) = [line for line in ax.lines if line.get_gid() == gid]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def in_view(ax, points):
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    return ((points >= low) & (points <= high)).all(axis=1)


def on_frame(ax, points):
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    return in_view(ax, points) & ((points == low) | (points == high)).any(axis=1)


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize(("n_clusters", "n_outliers"), [(1, 0), (4, 15)])
def test_every_picture_is_drawn_on_the_axes_given(plot, n_features, n_clusters, n_outliers):
    X = blobs(n_features)
    figure, axes = plt.subplots(1, 2)
    assert plot(fitted(X, n_clusters, n_outliers), X, ax=axes[1]) is axes[1]
    figure.canvas.draw()
    assert axes[1].get_xlabel()
    assert axes[1].get_ylabel()
    assert not axes[0].has_data()
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("plot", PLOTS)
def test_without_axes_a_figure_is_made(plot):
    X = blobs()
    ax = plot(fitted(X), X)
    assert plt.get_fignums() == [ax.figure.number]
    assert ax.figure.get_layout_engine() is not None
    # Everything, the legend too, is within the figure.
    ax.figure.canvas.draw()
    inside, outside = ax.get_tightbbox(), ax.figure.bbox
    assert min(inside.x0, inside.y0) >= 0
    assert (inside.x1, inside.y1) <= (outside.x1, outside.y1)


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_each_row_is_drawn_once_and_outliers_beyond_the_view_on_its_frame(n_features):
    X = blobs(n_features)
    model = fitted(X)
    ax = plot_clusters(model, X)
    near, far = drawn(ax, "outlier"), drawn(ax, "outlier beyond")
    assert len(drawn(ax, "clustered row")) == (model.labels_ >= 0).sum()
    assert len(near) + len(far) == 15
    assert len(far) >= 5
    assert in_view(ax, near).all()
    assert on_frame(ax, far).all()
    counts = [len(near)] * bool(len(near)) + [len(far)]
    assert [int(text.split()[0]) for text in legend(ax)] == [4, *counts]


def test_triangles_point_to_where_the_outlier_is():
    X = np.vstack([blobs(n_outliers=0), [[900, 50], [-900, 50], [50, 900], [50, -900]]])
    ax = plot_clusters(fitted(X, n_outliers=4), X)
    limits = np.array([ax.get_xlim(), ax.get_ylim()])
    tips = set()
    for dots in ax.collections:
        if dots.get_gid() == "outlier beyond":
            (place,) = np.asarray(dots.get_offsets())
            tip = np.sign(np.round(dots.get_paths()[0].vertices[0], 6)).astype(int)
            (axis,) = np.flatnonzero(tip)
            assert place[axis] == limits[axis, int(tip[axis] > 0)]
            tips.add(tuple(tip.tolist()))
    assert tips == {(1, 0), (-1, 0), (0, 1), (0, -1)}


@pytest.mark.parametrize("n_features", [1, 2])
def test_rows_and_centres_are_drawn_where_they_are(n_features):
    X = blobs(n_features)
    model = fitted(X)
    ax = plot_clusters(model, X)
    rows = X if n_features == 2 else np.column_stack([np.arange(len(X)), X])
    inliers = rows[model.labels_ >= 0]
    assert_array_equal(drawn(ax, "clustered row"), inliers)
    assert_array_equal(drawn(ax, "centre")[:, 2 - n_features :], model.cluster_centers_)
    assert in_view(ax, inliers).all()
    assert in_view(ax, drawn(ax, "centre")).all()


def test_far_outliers_do_not_widen_the_view():
    X = blobs()
    model = fitted(X)
    far = X.copy()
    far[model.outlier_indices_] *= 1e6
    near, wide = plot_clusters(model, X), plot_clusters(model, far)
    assert (near.get_xlim(), near.get_ylim()) == (wide.get_xlim(), wide.get_ylim())
    assert len(drawn(wide, "outlier beyond")) == 15


def test_a_row_number_keeps_its_place_however_far_the_row():
    X = blobs(1)
    X[:100] = 1e6 + np.arange(100)[:, np.newaxis]  # so many that inliers begin at row 100
    model = fitted(X, 2, 110)
    ax = plot_clusters(model, X)
    numbers = np.concatenate([drawn(ax, "outlier"), drawn(ax, "outlier beyond")])[:, 0]
    assert_array_equal(np.sort(numbers), model.outlier_indices_)


def test_many_features_are_drawn_on_the_principal_components_of_the_inliers():
    X = blobs(5)
    model = fitted(X)
    kept = model.labels_ >= 0
    ax = plot_clusters(model, X)
    pca = PCA(2, svd_solver="full").fit(X[kept])
    expected, found = pca.transform(X[kept]), drawn(ax, "clustered row")
    signs = np.sign(np.sum(expected * found, axis=0))
    assert_allclose(found, expected * signs, atol=1e-8)
    assert_allclose(drawn(ax, "centre"), pca.transform(model.cluster_centers_) * signs, atol=1e-8)
    labels = [ax.get_xlabel(), ax.get_ylabel()]
    for label, share in zip(labels, pca.explained_variance_ratio_, strict=True):
        assert f"({100 * share:.0f} % of the inliers' variance)" in label


@given(factor=st.floats(1, 1e6), sign=st.sampled_from([-1, 1]))
@settings(max_examples=5)
def test_components_do_not_change_when_an_outlier_moves_further_away(factor, sign):
    X = blobs(5, n_samples=60)
    model = fitted(X)
    moved = X.copy()
    moved[model.outlier_indices_[0]] = sign * 1000 * factor
    before, after = plot_clusters(model, X), plot_clusters(model, moved)
    assert_array_equal(drawn(before, "clustered row"), drawn(after, "clustered row"))
    assert before.get_xlabel() == after.get_xlabel()
    plt.close("all")


def test_components_of_many_parts_are_those_of_all_rows():
    X = blobs(4, n_samples=40_000, n_outliers=0)
    ax = plot_clusters(fitted(X, n_outliers=0), X, max_rows=10)
    expected = PCA(2).fit(X).explained_variance_ratio_
    assert f"({100 * expected[0]:.0f} %" in ax.get_xlabel()


@pytest.mark.parametrize("n_rows", [1, 4])
def test_new_data_may_be_all_outliers_or_very_few_rows(n_rows):
    X = blobs(5)
    model = fitted(X)
    for rows in (X[model.labels_ >= 0][:n_rows], np.full((n_rows, 5), 1e4)):
        for plot in PLOTS:
            plot(model, rows).figure.canvas.draw()
    assert len(drawn(plot_clusters(model, np.full((n_rows, 5), 1e4)), "outlier beyond")) == n_rows


def test_column_names_are_on_the_axes():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(blobs(), columns=["height", "weight"])
    ax = plot_clusters(fitted(frame), frame)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "weight")
    ax = plot_clusters(fitted(frame[["weight"]]), frame[["weight"]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("row number", "weight")


def test_k_means_can_be_drawn_beside_in_the_same_view():
    X = blobs()
    robust = plot_clusters(fitted(X), X)
    view = (robust.get_xlim(), robust.get_ylim())
    plain = KMeans(4, random_state=0).fit(X)
    ax = plot_clusters(plain, X, view=view)
    assert (ax.get_xlim(), ax.get_ylim()) == view
    assert len(drawn(ax, "outlier")) + len(drawn(ax, "outlier beyond")) == 0
    assert len(drawn(ax, "clustered row")) + len(drawn(ax, "clustered row beyond")) == len(X)
    assert len(drawn(ax, "centre")) == in_view(ax, plain.cluster_centers_).sum()
    assert len(drawn(ax, "centre")) + len(drawn(ax, "centre beyond")) == 4
    assert on_frame(ax, drawn(ax, "clustered row beyond")).all()


def test_rows_of_a_cluster_share_a_colour_that_no_cluster_near_it_has():
    X = blobs(n_clusters=30, n_samples=900, n_outliers=0)
    model = fitted(X, 30, 0)
    ax = plot_clusters(model, X)
    (dots,) = [dots for dots in ax.collections if dots.get_gid() == "clustered row"]
    colours = dots.get_facecolors()[:, :3]
    by_cluster = [np.unique(colours[model.labels_ == j], axis=0) for j in range(30)]
    assert all(len(unique) == 1 for unique in by_cluster)
    assert len(np.unique(np.vstack(by_cluster), axis=0)) >= 16
    distance = np.linalg.norm(model.cluster_centers_[:, None] - model.cluster_centers_, axis=2)
    for j, row in enumerate(distance):
        for near in np.argsort(row)[1:4]:
            assert np.abs(by_cluster[j] - by_cluster[near]).max() > 0.15


def test_of_many_rows_a_part_is_drawn_and_the_legend_says_so():
    X = blobs(n_samples=3000, n_outliers=60)
    model = fitted(X, n_outliers=60)
    ax = plot_clusters(model, X, max_rows=20)
    rows = drawn(ax, "clustered row")
    assert len(rows) == 20
    assert legend(ax)[-1] == "40 of 3,060 rows drawn"
    assert_array_equal(rows, drawn(plot_clusters(model, X, max_rows=20), "clustered row"))
    other = plot_clusters(model, X, max_rows=20, random_state=1)
    assert not np.array_equal(rows, drawn(other, "clustered row"))
    # The outliers drawn are the 20 farthest; those counted are all.
    outliers = X[model.outlier_indices_]
    farthest = X[np.sort(np.argsort(-model.outlier_scores_)[:20])]
    assert_array_equal(drawn(ax, "outlier"), farthest[in_view(ax, farthest)])
    assert len(drawn(ax, "outlier beyond")) == 20 - in_view(ax, farthest).sum()
    n_beyond = 60 - in_view(ax, outliers).sum()
    assert f"{n_beyond} outliers beyond the frame" in legend(ax)
    assert "drawn" not in "".join(legend(plot_clusters(model, X, max_rows=3000)))


def test_the_dots_are_rasterised():
    X = blobs()
    assert all(dots.get_rasterized() for dots in plot_clusters(fitted(X), X).collections)


def test_scores_are_sorted_and_split_at_the_threshold():
    X = blobs()
    model = fitted(X)
    ax = plot_outlier_scores(model, X)
    (ranks, out), (more_ranks, kept) = line(ax, "outlier"), line(ax, "inlier")
    assert_array_equal(np.concatenate([ranks, more_ranks]), np.arange(1, len(X) + 1))
    assert_array_equal(np.concatenate([out, kept]), np.sort(model.outlier_scores_)[::-1])
    assert out.min() > model.outlier_threshold_ > kept.max()
    assert set(line(ax, "threshold")[1]) == {model.outlier_threshold_}
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert legend(ax) == ["15 outliers", "300 inliers"]


def test_without_outliers_there_is_no_threshold_to_draw():
    X = blobs()
    ax = plot_outlier_scores(fitted(X, n_outliers=0), X)
    assert [found.get_gid() for found in ax.lines] == ["inlier"]
    assert legend(ax) == ["315 inliers"]


def test_scores_of_zero_are_drawn_at_the_smallest_that_is_not():
    X = np.array([[0.0], [0.0], [0.0], [1.0], [50.0]])
    model = RobustKMeans(1, n_outliers=0, random_state=0).fit(X[:3])
    model.outlier_threshold_ = 100.0
    ax = plot_outlier_scores(model, X)
    assert_array_equal(line(ax, "outlier")[1], [2500])
    assert_array_equal(line(ax, "inlier")[1], [1, 1, 1, 1])
    assert legend(ax) == ["1 outlier", "4 inliers (3 of them at distance 0)"]
    assert plot_outlier_scores(model, X[:3]).get_yscale() == "linear"


def test_a_long_curve_is_thinned_out_but_not_at_its_head_or_its_cut():
    X = blobs(n_samples=30_000, n_outliers=2000)
    model = fitted(X, n_outliers=2000)
    ax = plot_outlier_scores(model, X)
    ranks, heights = np.hstack([line(ax, "outlier"), line(ax, "inlier")])
    assert len(ranks) <= 4000
    assert {1, 100, 1901, 2000, 2001, 2100, 32_000} <= set(ranks)
    assert set(range(1, 101)) | set(range(1901, 2101)) <= set(ranks)
    assert_array_equal(heights, np.sort(model.outlier_scores_)[::-1][ranks.astype(int) - 1])
    assert (np.diff(heights) <= 0).all()
    assert np.diff(np.log10(ranks)).max() < 0.01 + np.log10(2)


def test_the_trim_curve_is_the_trimmed_cost_at_each_number():
    X = blobs()
    model = fitted(X)
    ax = plot_trim_curve(model, X)
    numbers, costs = line(ax, "curve")
    assert (numbers[0], numbers[-1]) == (0, 150)
    assert 15 in numbers
    expected = [trimmed_inertia(X, model.cluster_centers_, n_outliers=int(z)) for z in numbers]
    assert_allclose(costs, expected, rtol=1e-12)
    assert_allclose(np.ravel(line(ax, "fitted")), [15, model.inertia_], rtol=1e-12)
    assert ax.get_yscale() == "log"


def test_numbers_for_the_trim_curve_can_be_chosen():
    X = blobs(outlier_box=60)
    ax = plot_trim_curve(fitted(X), X, n_outliers=[15, 20, 30])
    assert_array_equal(line(ax, "curve")[0], [15, 20, 30])
    assert ax.get_yscale() == "linear"
    with pytest.raises(ValueError, match="at most 314"):
        plot_trim_curve(fitted(X), X, n_outliers=[0, 315])


@pytest.mark.parametrize("plot", PLOTS)
def test_bad_models_data_and_axes_are_refused(plot):
    X = blobs()
    with pytest.raises(NotFittedError):
        plot(RobustKMeans(), X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        plot(fitted(X), blobs(3))
    with pytest.raises(TypeError, match="expected one matplotlib Axes"):
        plot(fitted(X), X, ax=plt.subplots(1, 2)[1])
    with pytest.raises(TypeError, match=r"DBSCAN without .* pass a fitted RobustKMeans"):
        plot(DBSCAN().fit(X), X)
    assert len(plt.get_fignums()) == 1  # that of this test: a refusal leaves no empty figure


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"max_rows": 0}, ValueError, "max_rows=0 must be at least 1"),
        ({"max_rows": 1.5}, TypeError, r"max_rows=1\.5 must be an int"),
        ({"view": ((0, 1), (1, 0))}, ValueError, "ascending"),
        ({"view": (0, 1)}, ValueError, "left, right"),
        ({"view": ((0, np.inf), (0, 1))}, ValueError, "finite"),
    ],
)
def test_bad_options_are_refused(options, error, match):
    X = blobs()
    with pytest.raises(error, match=match):
        plot_clusters(fitted(X), X, **options)


@pytest.mark.parametrize("plot", PLOTS)
def test_without_matplotlib_the_message_says_what_to_install(plot, monkeypatch):
    X = blobs()
    model = fitted(X)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'robust-kmeans\[plot\]'"):
        plot(model, X)
