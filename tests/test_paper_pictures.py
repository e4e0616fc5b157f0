"""The pictures of the reproduction: what is drawn where, read back from the axes."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robust_kmeans.paper import pictures
from robust_kmeans.paper.comparison import compare, in_unit
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.studies.result import Curve, Panel
from robust_kmeans.paper.summaries import summarise
from robust_kmeans.plotting import new_figure
from tests.paper_results import made_trials

pytest.importorskip("matplotlib")


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn; to lay them out and to write them takes most of the time."""
    drawn = []

    def remembered(*shape, size):
        figure, axes = new_figure(*shape, size=size)
        monkeypatch.setattr(figure, "savefig", lambda _: None)
        drawn.append(figure)
        return figure, axes

    monkeypatch.setattr(pictures, "new_figure", remembered)
    return drawn


def draw(name, path, trials=None, lines=None):
    experiment = experiments()[name]
    trials = made_trials(name) if trials is None else trials
    lines = compare(experiment, summarise(trials)) if lines is None else lines
    pictures.draw_distributions(experiment, trials, lines, path / "picture.png")
    return experiment, trials, lines


def points(ax, gid):
    (dots,) = [dots for dots in ax.collections if dots.get_gid() == gid]
    return np.asarray(dots.get_offsets())


def legend_texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def band(ax, height):
    """The name of the band that holds a point of this height."""
    return [label.get_text() for label in ax.get_yticklabels()][round(float(height))]


@pytest.mark.parametrize("name", ["synthetic", "kdd"])
def test_every_repetition_is_a_dot_in_the_band_of_its_method(name, figures, tmp_path):
    experiment, trials, _ = draw(name, tmp_path)
    axes = np.reshape(figures[0].axes, (-1, 2))
    assert len(axes) == len(experiment.settings)
    blocks = list(dict.fromkeys(trial.circumstances for trial in trials))
    for summary in summarise(trials):
        costs, precisions = axes[blocks.index(summary.circumstances)]
        mine = [
            t
            for t in trials
            if (t.circumstances, t.method, t.protocol)
            == (summary.circumstances, summary.method, summary.protocol)
        ]
        for ax, values in (
            (costs, [in_unit(t.cost, summary, experiment) for t in mine]),
            (precisions, [t.precision for t in mine]),
        ):
            dots = points(ax, f"{summary.method} {summary.protocol}")
            assert_allclose(dots[:, 0], values)
            assert {band(costs, height) for height in dots[:, 1]} == {summary.method}
            left, right = ax.get_xlim()
            assert left <= min(values)
            assert max(values) <= right


def test_the_two_protocols_of_a_method_do_not_overlap(figures, tmp_path):
    draw("kdd", tmp_path, made_trials("kdd", repetitions=30))
    ax = figures[0].axes[0]
    assert points(ax, "rkm++ seeds")[:, 1].max() < points(ax, "rkm++ lloyd")[:, 1].min()


def test_diamonds_are_the_papers_averages(figures, tmp_path):
    _, _, lines = draw("shuttle", tmp_path)
    for i, k in enumerate((5, 10, 15)):
        printed = [line.printed for line in lines if line.printed.k == k]
        costs, precisions = figures[0].axes[2 * i : 2 * i + 2]
        assert [band(costs, height) for _, height in points(costs, "paper")] == [
            line.method for line in printed
        ]
        assert_allclose(points(costs, "paper")[:, 0], [float(line.cost_avg) for line in printed])
        assert_allclose(
            points(precisions, "paper")[:, 0], [float(line.precision_avg) for line in printed]
        )


def test_one_legend_names_each_kind_once(figures, tmp_path):
    draw("kdd", tmp_path)
    draw("kdd", tmp_path, lines=[])
    (with_paper,), (without,) = (figure.legends for figure in figures)
    kinds = ["seeds", "after trimmed Lloyd", "our default, whole fit", "average"]
    assert legend_texts(without) == kinds
    assert legend_texts(with_paper) == [*kinds, "the paper's average"]


@pytest.mark.parametrize(("span", "scale"), [(19, "linear"), (21, "log")])
def test_costs_that_span_a_factor_of_twenty_are_on_a_logarithmic_axis(
    span, scale, figures, tmp_path
):
    trials = [replace(trial, cost=1e7) for trial in made_trials("kdd")]
    trials[0] = replace(trials[0], cost=1e7 * span)
    draw("kdd", tmp_path, trials, lines=[])
    assert [ax.get_xscale() for ax in figures[0].axes] == [scale, "linear", "linear", "linear"]


def test_a_cost_of_nothing_can_be_drawn(figures, tmp_path):
    trials = [replace(trial, cost=0.0) for trial in made_trials("kdd")]
    draw("kdd", tmp_path, trials, lines=[])
    assert figures[0].axes[0].get_xscale() == "linear"


@pytest.mark.parametrize("span", [21, 200, 301, 1e7])
def test_the_labels_of_a_logarithmic_axis_do_not_overlap(span, figures, tmp_path):
    trials = made_trials("kdd")
    costs = np.geomspace(1.7e6, 1.7e6 * span, len(trials))
    trials = [replace(t, cost=cost) for t, cost in zip(trials, costs, strict=True)]
    draw("kdd", tmp_path, trials, lines=[])
    figures[0].draw_without_rendering()
    ax = figures[0].axes[0]
    labels = [x for x in ax.get_xticklabels(which="both") if x.get_text() and x.get_visible()]
    low, high = ax.get_xlim()
    boxes = sorted(
        (box.x0, box.x1)
        for label in labels
        if low <= label.get_position()[0] <= high
        for box in [label.get_window_extent()]
    )
    assert len(boxes) >= 2
    for (_, end), (start, _) in pairwise(boxes):
        assert end < start


def test_the_line_under_the_title_says_what_was_measured(figures, tmp_path):
    draw("skin-noise", tmp_path, made_trials("skin-noise", repetitions=1))
    title, line = (text.get_text() for text in figures[0].texts)
    assert title == experiments()["skin-noise"].title
    for said in ("made up", "n = 245,057", "k = 20 / 40 / 50", "z = 6,126",
                 "1 repetition ", "noise of 4.5 standard deviations"):  # fmt: skip
        assert said in line


def test_seeds_on_true_outliers_are_marked_and_counted(figures, tmp_path):
    X = np.array([[0.0, 0], [1, 0], [0, 1], [9, 9], [8, 8]])
    outliers = np.array([False, False, False, True, True])
    panels = [
        ("rows", X[[0, 3]]),
        ("none", X[:2]),
        ("means", np.array([[0.5, 0.0], [8.5, 8.5], [8.0, 8.0]])),
        ("two", X[[3, 4]]),
    ]
    pictures.draw_seeds(X, outliers, panels, tmp_path / "picture.png")
    axes = figures[0].axes
    assert [ax.get_title() for ax in axes] == [
        "rows: 1 of 2 seeds are outliers",
        "none: 0 of 2 seeds are outliers",
        "means: 1 of 3 centres are outliers",
        "two: 2 of 2 seeds are outliers",
    ]
    drawn = {dots.get_label(): np.asarray(dots.get_offsets()) for dots in axes[2].collections}
    assert_allclose(drawn["row of a cluster"], X[:3])
    assert_allclose(drawn["true outlier"], X[3:])
    assert_allclose(drawn["centre"], [[0.5, 0.0], [8.5, 8.5]])
    assert_allclose(drawn["centre on a true outlier"], [[8.0, 8.0]])


def panel(title, labels=("one", "two"), log=False):
    x = np.arange(1.0, 41.0)
    curves = [Curve(label, x, x * i, x * i / 2, x * i * 2) for i, label in enumerate(labels, 1)]
    return Panel(title, "across", "up", log, log, tuple(curves))


def draw_panels(panels, path):
    pictures.draw_study(SimpleNamespace(curves=tuple(panels)), path / "picture.png")


def test_a_study_is_drawn_as_it_is(figures, tmp_path):
    given = panel("left", log=True)
    draw_panels([given, panel("right", ("three",))], tmp_path)
    left, right = figures[0].axes
    assert (left.get_title(), left.get_xlabel(), left.get_ylabel()) == ("left", "across", "up")
    assert (left.get_xscale(), left.get_yscale()) == ("log", "log")
    assert (right.get_xscale(), right.get_yscale()) == ("linear", "linear")
    for line, area, curve in zip(left.lines, left.collections, given.curves, strict=True):
        assert_allclose(line.get_xydata(), np.column_stack([curve.x, curve.y]))
        heights = area.get_paths()[0].vertices[:, 1]
        assert_allclose([heights.min(), heights.max()], [curve.low.min(), curve.high.max()])


def test_panels_of_the_same_curves_share_a_legend(figures, tmp_path):
    draw_panels([panel("a"), panel("b")], tmp_path)
    assert legend_texts(figures[0].legends[0]) == ["one", "two"]
    assert all(ax.get_legend() is None for ax in figures[0].axes)
    draw_panels([panel("a"), panel("b", ("three",))], tmp_path)
    assert not figures[1].legends
    assert [legend_texts(ax.get_legend()) for ax in figures[1].axes] == [["one", "two"], ["three"]]


def test_a_common_legend_stays_in_the_picture(figures, tmp_path):
    draw_panels([panel("a", [f"a rather long name, number {i}" for i in range(5)])], tmp_path)
    figures[0].draw_without_rendering()
    (legend,) = figures[0].legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figures[0].bbox.width


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3))])
def test_panels_wrap_after_three_and_none_is_empty(count, shape, figures, tmp_path):
    draw_panels([panel(str(i)) for i in range(count)], tmp_path)
    assert len(figures[0].axes) == count
    assert figures[0].axes[0].get_gridspec().get_geometry() == shape


def test_pictures_are_png_files_and_leave_no_figure_open(tmp_path):
    from matplotlib import pyplot as plt

    draw("kdd", tmp_path)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert not plt.get_fignums()


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'robust-kmeans\[plot\]'"):
        draw_panels([panel("a")], tmp_path)
