"""Pictures of a fitted model: its clusters, its rows' scores, its cost by outliers left out.

The only module that imports matplotlib, and only when a picture is asked for; others draw on
the axes of `new_figure`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from robust_kmeans.metrics import trim_curve_of
from robust_kmeans.validation import RandomState, as_rows, check_count

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

View = tuple[tuple[float, float], tuple[float, float]]
Floats = NDArray[np.float64]

# Any two differ by more than 27 in CIELAB, to eyes without red, green or blue cones too; the
# first few differ most.  None is so light that it fades on white, or as dark as a cross.
HUES = ("#0047dd", "#a12700", "#efca12", "#71dfe0", "#70436f", "#b5c86b", "#c564d2", "#079a6a")
DARK = "#1a1a1a"
_DPI = 150
_NEEDED = "Plots need matplotlib: pip install 'robust-kmeans[plot]'."
_MARGIN = 0.12  # of the inliers' extent, left free on each side of the view
_SIZES = (4, 8, 64), (16, 30, 100)  # least and largest areas of dots, crosses and centres
_LOOKS: dict[str, tuple[str, str | None, float, float, float]] = {
    # shape, edge (None: the colour of the inside), width of the edge, opacity, layer
    "clustered row": ("o", "none", 0.0, 0.6, 1.0),
    "outlier": ("x", None, 1.2, 1.0, 3.0),
    "centre": ("P", "black", 1.2, 1.0, 5.0),
}


def plot_clusters(
    estimator: Any,
    X: ArrayLike,
    *,
    ax: Axes | None = None,
    view: View | None = None,
    max_rows: int = 20_000,
    random_state: RandomState = 0,
) -> Axes:
    """Draw the clusters, their centres and the outliers.

    Two features are drawn as they are, one against the row number, and more on the first two
    principal components of the inliers.  The view covers the inliers and the centres, however
    far the outliers are: those beyond it are triangles on the frame that point outwards.

    Parameters
    ----------
    estimator : RobustKMeans
        Fitted; or another fitted estimator with `cluster_centers_` and `predict`, such as
        scikit-learn's ``KMeans``.
    X : array-like of shape (n_samples, n_features)
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; by default in a new figure.
    view : ((left, right), (bottom, top)), optional
        The limits of the axes, for instance to give two panels the same view.
    max_rows : int, default=20_000
        Most inliers that are drawn (a random choice) and most outliers (the farthest); the
        numbers in the legend count all.
    random_state : int, RandomState or None, default=0
        Which inliers are drawn.

    Examples
    --------
    >>> from robust_kmeans import RobustKMeans
    >>> from robust_kmeans.plotting import plot_clusters
    >>> X = [[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]]
    >>> model = RobustKMeans(n_clusters=2, n_outliers=1, random_state=0).fit(X)
    >>> ax = plot_clusters(model, X)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['2 centres', '1 outlier beyond the frame']
    """
    plt = _pyplot(ax)
    check_count("max_rows", max_rows)
    _check_model(estimator, "cluster_centers_", "predict")
    labels = np.asarray(estimator.predict(X))
    rows, flagged = as_rows(X), labels < 0
    points, hubs, names = _plane(estimator, rows, ~flagged)
    # A row number is no distance: all of them are in view, and outliers keep theirs.
    numbered = rows.shape[1] == 1
    ends = [[0, hubs[0, 1]], [len(rows) - 1, hubs[0, 1]]] if numbered else hubs
    box = _box(np.vstack([points[~flagged], hubs, ends]), view)

    inliers, outliers = np.flatnonzero(~flagged), np.flatnonzero(flagged)
    if len(inliers) > max_rows:
        random = check_random_state(random_state)
        inliers = np.sort(random.choice(inliers, max_rows, replace=False))
    if len(outliers) > max_rows:
        _, distance = pairwise_distances_argmin_min(rows[outliers], estimator.cluster_centers_)
        outliers = np.sort(outliers[np.argsort(-distance, kind="stable")[:max_rows]])
    drawn = len(inliers) + len(outliers)

    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    ax.set(xlim=box[:, 0], ylim=box[:, 1])
    # Dollar signs in a column's name are no formula.
    ax.set_xlabel(names[0], parse_math=False)
    ax.set_ylabel(names[1], parse_math=False)
    # The more there are of a kind, the smaller: many should not hide what they lie on.
    sizes = np.clip([3e4 / max(drawn, 1), 6e3 / max(len(outliers), 1), 900 / len(hubs)], *_SIZES)
    colours = _colours(hubs)[labels[inliers]]
    entries = []
    for noun, chosen, every, colour, size in (
        ("centre", hubs, hubs, ["white"], sizes[2]),
        ("outlier", points[outliers], points[flagged], [DARK], sizes[1]),
        ("clustered row", points[inliers], points[~flagged], colours, sizes[0]),
    ):
        near, far = _scatter(ax, noun, chosen, colour, size, box, radial=not numbered)
        beyond = int(_beyond(every, box).sum())
        if near is not None and noun != "clustered row":
            entries.append((near, _counted(len(every) - beyond, noun)))
        if far is not None:
            entries.append((far, f"{_counted(beyond, noun)} beyond the frame"))
    if drawn < len(rows):
        entries.append((ax.plot([], [], " ")[0], f"{drawn:,} of {len(rows):,} rows drawn"))
    _add_legend(ax, entries)
    return ax


def plot_outlier_scores(estimator: Any, X: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the rows' squared distances to their centres, from the largest to the smallest.

    Outliers that stand apart show as a step at the threshold; where the curve runs smoothly
    through it, the number of outliers is a matter of choice.

    Parameters
    ----------
    estimator : RobustKMeans
        Fitted.
    X : array-like of shape (n_samples, n_features)
        More than 10,000 rows are thinned out, evenly on the logarithmic axis.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; by default in a new figure.

    Examples
    --------
    >>> from robust_kmeans import RobustKMeans
    >>> from robust_kmeans.plotting import plot_outlier_scores
    >>> X = [[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]]
    >>> model = RobustKMeans(n_clusters=2, n_outliers=1, random_state=0).fit(X)
    >>> ax = plot_outlier_scores(model, X)
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    """
    plt = _pyplot(ax)
    scores, threshold = _scores(estimator, X)
    scores = np.sort(scores)[::-1]
    n_outliers = int(np.count_nonzero(scores > threshold))
    n_zeros = int(np.count_nonzero(scores <= 0))
    ranks = _thinned_ranks(len(scores), n_outliers)
    heights = scores[ranks - 1]
    if n_zeros < len(scores):
        heights = np.maximum(heights, scores[len(scores) - n_zeros - 1])

    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    ax.set_xscale("log")
    # Where every score is 0 there is nothing that a logarithmic axis could show.
    ax.set_yscale("log" if n_zeros < len(scores) else "linear")
    at_zero = f" ({n_zeros:,} of them at distance 0)" if n_zeros else ""
    n_inliers = len(scores) - n_outliers
    for part, colour, marker, noun, label in (
        (ranks <= n_outliers, HUES[1], "x", "outlier", _counted(n_outliers, "outlier")),
        (ranks > n_outliers, HUES[0], ".", "inlier", _counted(n_inliers, "inlier") + at_zero),
    ):
        if part.any():
            (line,) = ax.plot(ranks[part], heights[part], color=colour, label=label, gid=noun)
            line.set(marker=marker, markersize=5, linewidth=1, rasterized=True)
    if np.isfinite(threshold):
        ax.axhline(threshold, color=DARK, linestyle="--", linewidth=1, gid="threshold")
        # At the right end the curve is below the threshold: there is room above the line.
        note = ax.text(0.99, threshold, f"threshold {threshold:.4g}", fontsize="small")
        note.set(transform=ax.get_yaxis_transform(), ha="right", va="bottom")
    ax.set(xlabel="rank of the row", ylabel="squared distance to the nearest centre")
    ax.legend(loc="lower left", fontsize="small")
    return ax


def plot_trim_curve(
    estimator: Any, X: ArrayLike, *, ax: Axes | None = None, n_outliers: ArrayLike | None = None
) -> Axes:
    """Draw the trimmed cost of the fitted centres against the number of rows left out.

    It falls steeply while outliers are left out, slowly once only rows of the clusters remain.

    Parameters
    ----------
    estimator : RobustKMeans
        Fitted.
    X : array-like of shape (n_samples, n_features)
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; by default in a new figure.
    n_outliers : array-like of int, optional
        How many rows are left out, in ascending order; by default from 0 to ten times the
        outliers or a tenth of the rows, whichever is more.

    Examples
    --------
    >>> from robust_kmeans import RobustKMeans
    >>> from robust_kmeans.plotting import plot_trim_curve
    >>> X = [[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]]
    >>> model = RobustKMeans(n_clusters=2, n_outliers=1, random_state=0).fit(X)
    >>> ax = plot_trim_curve(model, X, n_outliers=[0, 1, 2])
    >>> ax.lines[0].get_xdata().tolist()
    [0, 1, 2]
    """
    plt = _pyplot(ax)
    scores, threshold = _scores(estimator, X)
    fitted = int(np.count_nonzero(scores > threshold))
    if n_outliers is None:
        top = min(max(10 * fitted, len(scores) // 10, 1), len(scores) - 1)
        grid = np.round(np.geomspace(1, max(top, 1), 200)).astype(np.int64)
        n_outliers = np.unique(np.minimum(np.append(grid, [0, fitted]), top))
    curve = trim_curve_of(scores, n_outliers)

    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    ax.plot(*curve, color=HUES[0], marker=".", markersize=3, gid="curve")
    # With every row an outlier, as new data may have it, no cost is left to be marked.
    if fitted < len(scores):
        label = f"{_counted(fitted, 'outlier')} by the fitted threshold"
        (point,) = ax.plot(*trim_curve_of(scores, [fitted]), "o", label=label, gid="fitted")
        point.set(markersize=9, color=HUES[1], markeredgecolor="black")
        ax.legend(loc="upper right", fontsize="small")
    if curve.inertia[0] > 100 * curve.inertia[-1]:
        ax.set_yscale("log")
    ax.set(xlabel="rows left out", ylabel="trimmed cost")
    return ax


def new_figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (7.0, 5.2)
) -> tuple[Any, NDArray[Any]]:
    """A figure of so many inches and its axes, of shape (rows, columns), without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _pyplot(ax: object) -> Any:
    try:
        import matplotlib.axes
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    if ax is not None and not isinstance(ax, matplotlib.axes.Axes):
        raise TypeError(f"ax is a {type(ax).__name__}; expected one matplotlib Axes, or None.")
    return plt


def _check_model(estimator: Any, *needed: str) -> None:
    check_is_fitted(estimator)
    missing = [name for name in needed if not hasattr(estimator, name)]
    if missing:
        raise TypeError(
            f"estimator is a {type(estimator).__name__} without {' and '.join(missing)}; this "
            f"picture needs {' and '.join(needed)}: pass a fitted RobustKMeans."
        )


def _scores(estimator: Any, X: ArrayLike) -> tuple[Floats, float]:
    _check_model(estimator, "score_samples", "outlier_threshold_")
    # As float64, in which `predict` compares with the threshold.
    return -np.asarray(estimator.score_samples(X), np.float64), float(estimator.outlier_threshold_)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _plane(
    estimator: Any, rows: NDArray[np.floating], kept: NDArray[np.bool_]
) -> tuple[Floats, Floats, tuple[str, str]]:
    """Rows and centres as they are drawn, and the names of the two axes."""
    centers = np.asarray(estimator.cluster_centers_, np.float64)
    n_features = rows.shape[1]
    if n_features > 2:
        # Without any inlier, which new data may have, the centres are all there is to show.
        mean, axes, names = _components(rows[kept] if kept.any() else centers)
        points = np.vstack([(part - mean) @ axes.T for part in _parts(rows)])
        return points, (centers - mean) @ axes.T, names
    given = getattr(estimator, "feature_names_in_", [f"feature {j}" for j in range(n_features)])
    if n_features == 2:
        return rows.astype(np.float64), centers, (str(given[0]), str(given[1]))
    # A centre of one feature has no row of its own: it is drawn in the middle of them.
    middle = np.full(len(centers), (len(rows) - 1) / 2)
    points = np.column_stack([np.arange(len(rows)), rows[:, 0]]).astype(np.float64)
    return points, np.column_stack([middle, centers[:, 0]]), ("row number", str(given[0]))


def _components(rows: NDArray[np.floating]) -> tuple[Floats, Floats, tuple[str, str]]:
    """The mean, the first two principal axes, and what to write on them."""
    mean = rows.mean(axis=0, dtype=np.float64)
    # The triangular factor has the singular values of all rows, and needs few at a time; the
    # rows of zeros are for data of a single row, which still needs two axes.
    factor: Any = np.zeros((2, rows.shape[1]))
    for part in _parts(rows):
        factor = np.linalg.qr(np.vstack([factor, part - mean]), mode="r")
    _, singular, axes = np.linalg.svd(factor, full_matrices=False)
    axes = axes[:2]
    # An axis may point either way: its largest entry is made positive.
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.where(axes[[0, 1], largest] < 0, -1.0, 1.0)[:, np.newaxis]
    shares = 100 * singular**2 / max(float(np.sum(singular**2)), np.finfo(float).tiny)
    first, second = (f"({share:.0f} % of the inliers' variance)" for share in shares[:2])
    # Two lines on the vertical axis, which is short.
    return mean, axes, (f"principal component 1 {first}", f"principal component 2\n{second}")


def _parts(rows: NDArray[np.floating]) -> Iterator[Floats]:
    step = max(16_384, 4 * rows.shape[1])
    for start in range(0, len(rows), step):
        yield rows[start : start + step].astype(np.float64)


def _box(points: Floats, view: View | None) -> Floats:
    """The view as an array of its lower and its upper corner."""
    if view is not None:
        box = np.asarray(view, np.float64).T
        if box.shape != (2, 2) or not np.isfinite(box).all() or not (box[0] < box[1]).all():
            expected = "((left, right), (bottom, top)), finite and ascending"
            raise ValueError(f"view={view!r} must be {expected}.")
        return box
    low, high = points.min(axis=0), points.max(axis=0)
    flat = np.maximum(1.0, np.abs(low)) / 2
    pad = np.where(high > low, _MARGIN * (high - low), flat)
    return np.stack([low - pad, high + pad])


def _beyond(points: Floats, box: Floats) -> NDArray[np.bool_]:
    return np.asarray(((points < box[0]) | (points > box[1])).any(axis=1), np.bool_)


def _colours(centers: Floats) -> NDArray[Any]:
    """A colour for each cluster, by hue unlike those of the clusters around it."""
    from matplotlib.colors import to_rgb

    hues, colours = np.array([to_rgb(hue) for hue in HUES]), np.empty((len(centers), 3))
    chosen, used = np.empty(len(centers), np.int64), np.zeros(len(HUES), np.int64)
    for j, center in enumerate(centers):
        # Of the hues that none of the seven nearest has, the one used least.
        near = np.argsort(np.sum((centers[:j] - center) ** 2, axis=1), kind="stable")
        taken = np.isin(np.arange(len(hues)), chosen[near[: len(hues) - 1]])
        chosen[j] = np.argmin(np.where(taken, len(centers), used))
        # Its second and third use are darker and lighter.
        lightness = (0.0, -0.4, 0.35)[used[chosen[j]] % 3]
        colours[j] = hues[chosen[j]] * (1 - abs(lightness)) + max(lightness, 0.0)
        used[chosen[j]] += 1
    return colours


def _scatter(
    ax: Axes, noun: str, points: Floats, colours: Any, size: float, box: Floats, *, radial: bool
) -> tuple[Artist | None, Artist | None]:
    """Draw points, those beyond the view on its frame; return one of each for the legend."""
    own_shape, edge, width, alpha, layer = _LOOKS[noun]
    middle = box.mean(axis=0)
    reach = np.abs(points - middle) / (box[1] - middle)
    axis, outside = reach.argmax(axis=1), _beyond(points, box)
    above = (points > middle)[np.arange(len(points)), axis]
    places = np.clip(points, *box)
    if radial:
        # Towards the middle of the view, which keeps the direction and fills no corner.
        far = points[outside] - middle
        places[outside] = middle + far / reach[outside].max(axis=1, keepdims=True)
        places[outside, axis[outside]] = box[above.astype(int), axis][outside]
    side = np.where(outside, 2 * axis + above, 4)
    handles: dict[bool, Artist] = {}
    for number, shape in enumerate(("<", ">", "v", "^", own_shape)):
        here, beyond = side == number, number < 4
        if here.any():
            dots = ax.scatter(places[here, 0], places[here, 1], marker=shape, rasterized=True)
            dots.set(facecolor=colours[here] if len(colours) > 1 else colours)
            dots.set(edgecolor=edge or ("white" if beyond else colours))
            dots.set(sizes=[max(45.0, 0.8 * size) if beyond else size], zorder=layer + beyond)
            dots.set(linewidth=0.6 if beyond else width, alpha=1.0 if beyond else alpha)
            dots.set(gid=f"{noun} beyond" if beyond else noun, clip_on=not beyond)
            handles[beyond] = dots
    return handles.get(False), handles.get(True)


def _add_legend(ax: Axes, entries: list[tuple[Any, str]]) -> None:
    """A legend under the axes where the figure makes room for it, else in a corner."""
    from matplotlib.transforms import ScaledTranslation

    handles, texts = zip(*entries, strict=True)
    if ax.figure.get_layout_engine() is None:
        ax.legend(handles, texts, loc="upper right", fontsize="small")
        return
    inches = ax.get_window_extent().width / ax.figure.dpi
    one_row = 0.5 * len(texts) + 0.075 * len("".join(texts)) < inches
    columns = len(texts) if one_row else 2
    legend = ax.legend(handles, texts, ncols=columns, fontsize="small", frameon=False)
    legend.set_loc("upper center")
    below = ax.transAxes + ScaledTranslation(0, -0.45, ax.figure.dpi_scale_trans)
    legend.set_bbox_to_anchor((0.5, 0), below)


def _thinned_ranks(n_rows: int, n_outliers: int) -> NDArray[np.int64]:
    """Ranks from 1: all of few rows, else evenly on a logarithmic axis, and all at the cut."""
    ranks = np.arange(1, n_rows + 1)
    if n_rows <= 10_000:
        return ranks
    even = np.round(np.geomspace(1, n_rows, 3700)).astype(np.int64)
    cut = ranks[max(0, n_outliers - 100) : n_outliers + 100]
    return np.unique(np.concatenate([ranks[:100], even, cut]))
