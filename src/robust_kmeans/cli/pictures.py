"""The pictures that the commands draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.plotting import new_figure, plot_clusters
from robust_kmeans.scaling import Scaling

Rows = NDArray[np.floating]


def draw_clusters(
    model: RobustKMeans,
    scaling: Scaling,
    rows: Rows,
    scaled: Rows,
    names: list[str],
    path: Path,
    title: str = "",
) -> None:
    """One picture of a fitted model: up to two columns in the file's own units."""
    figure, axes = new_figure()
    if len(names) <= 2:
        plot_clusters(_InOwnUnits(model, scaling, names), rows, ax=axes[0, 0])
    else:
        plot_clusters(model, scaled, ax=axes[0, 0])
    axes[0, 0].set_title(title)
    figure.savefig(path)


def draw_side_by_side(models: Sequence[tuple[str, Any]], rows: Rows, path: Path) -> None:
    """Several models of the same two columns, in one view that holds all rows."""
    figure, axes = new_figure(columns=len(models), size=(4.6 * len(models), 5.0))
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = (high - low) * 0.03
    (left, bottom), (right, top) = low - margin, high + margin
    for ax, (title, model) in zip(axes[0], models, strict=True):
        plot_clusters(model, rows, ax=ax, view=((left, right), (bottom, top)))
        ax.set(title=title, xlabel="", ylabel="", aspect="equal")
    figure.savefig(path)


class _InOwnUnits(BaseEstimator):
    """A model of scaled columns that takes rows as they are in the file."""

    def __init__(self, model: RobustKMeans, scaling: Scaling, names: list[str]) -> None:
        self._model, self._scaling = model, scaling
        self.cluster_centers_ = scaling.undo(model.cluster_centers_)
        self.feature_names_in_ = np.array(names, dtype=object)

    def fit(self) -> None:
        """Fitted already: scikit-learn's checks expect the method."""

    def predict(self, rows: Rows) -> NDArray[np.int32]:
        return self._model.predict(self._scaling.apply(rows))
