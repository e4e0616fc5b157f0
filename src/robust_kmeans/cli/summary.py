"""What a fitted model says, as plain values (for --json) and as tables (for people)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.scaling import Scaling

if TYPE_CHECKING:
    from robust_kmeans.cli.tables import Table

N_STRONGEST = 10
N_REASONS = 3
# More columns than this do not fit beside each other on a terminal.
N_SHOWN_COLUMNS = 5


def clusters(
    sizes: NDArray[np.integer] | None,
    centers: NDArray[np.floating],
    scaling: Scaling,
    names: list[str],
) -> list[dict[str, Any]]:
    """Size (if known) and centre of each cluster, in the units of the file."""
    total = 1 if sizes is None else max(int(sizes.sum()), 1)
    return [
        {
            "label": label,
            "rows": None if sizes is None else int(sizes[label]),
            "share": None if sizes is None else int(sizes[label]) / total,
            "center": dict(zip(names, map(float, center), strict=True)),
        }
        for label, center in enumerate(scaling.undo(centers))
    ]


def strongest_outliers(
    scaled: NDArray[np.floating],
    flagged: NDArray[np.integer],
    scores: NDArray[np.floating],
    nearest: NDArray[np.integer],
    centers: NDArray[np.floating],
    scaling: Scaling,
    table: Table,
) -> list[dict[str, Any]]:
    """The outliers farthest from every centre, and the columns that make them so."""
    strongest = flagged[np.argsort(-scores[flagged], kind="stable")[:N_STRONGEST]]
    return [
        {
            "row": int(table.numbers[i]),
            "score": float(scores[i]),
            "nearest_cluster": int(nearest[i]),
            "columns": _reasons(scaled[i], centers[nearest[i]], scaling, table.names),
        }
        for i in strongest
    ]


def _reasons(
    row: NDArray[np.floating], center: NDArray[np.floating], scaling: Scaling, names: list[str]
) -> list[dict[str, Any]]:
    """The columns with the largest shares of the squared distance."""
    parts = (row.astype(np.float64) - center) ** 2
    total = parts.sum() or 1.0
    value, middle = scaling.undo(row[np.newaxis])[0], scaling.undo(center[np.newaxis])[0]
    return [
        {
            "column": names[j],
            "value": float(value[j]),
            "center": float(middle[j]),
            "share": float(parts[j] / total),
        }
        for j in np.argsort(-parts, kind="stable")[:N_REASONS]
        if parts[j] > 0
    ]


def model_facts(model: RobustKMeans, scaling: Scaling, names: list[str]) -> dict[str, Any]:
    """What is true of a model whatever it is used on."""
    return {
        "n_clusters": len(model.cluster_centers_),
        "columns": names,
        "scaling": scaling.method,
        "dtype": str(model.cluster_centers_.dtype),
        "cost": float(model.inertia_),
        "n_outliers": model.n_outliers_,
        "outlier_threshold": float(model.outlier_threshold_),
        "iterations": int(model.n_iter_),
    }


def print_json(facts: dict[str, Any]) -> None:
    """One JSON object; infinity, which JSON does not have, becomes null."""
    # ASCII: whatever the terminal's encoding is, programs read the same.
    print(json.dumps(_finite(facts)), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_clusters(console: Console, facts: dict[str, Any]) -> None:
    """A table of sizes and centres."""
    names = facts["columns"]
    shown = names[:N_SHOWN_COLUMNS]
    more = len(names) - len(shown)
    table = RichTable(
        title="Clusters"
        + (f" (centres: the first {len(shown)} of {len(names)} columns)" if more else "")
    )
    table.add_column("cluster", justify="right")
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    for name in shown:
        table.add_column(Text(name), justify="right", overflow="fold")
    for cluster in facts["clusters"]:
        table.add_row(
            str(cluster["label"]),
            "?" if cluster["rows"] is None else f"{cluster['rows']:,}",
            "?" if cluster["share"] is None else f"{cluster['share']:.1%}",
            *(number(cluster["center"][name]) for name in shown),
        )
    console.print(table)


def print_outliers(console: Console, facts: dict[str, Any]) -> None:
    """A table of the strongest outliers and their reasons."""
    if not facts["strongest_outliers"]:
        return
    table = RichTable(title="Strongest outliers (score: in units of the threshold)")
    table.add_column("row", justify="right")
    table.add_column("score", justify="right")
    table.add_column("cluster", justify="right")
    table.add_column("because of (in brackets: that cluster's centre)", overflow="fold")
    threshold = facts["outlier_threshold"]
    for outlier in facts["strongest_outliers"]:
        reasons = (
            f"{part['column']} = {number(part['value'])} ({number(part['center'])})"
            for part in outlier["columns"]
        )
        ratio = outlier["score"] / threshold if threshold > 0 else math.inf
        table.add_row(
            f"{outlier['row']:,}",
            f"{ratio:,.1f}",
            str(outlier["nearest_cluster"]),
            Text(", ".join(reasons)),
        )
    console.print(table)


def number(value: float) -> str:
    """A number as short as it is readable."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}"


def counted(n: int | float, noun: str) -> str:
    """So many of something."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
