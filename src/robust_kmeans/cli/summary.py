"""What a fitted model says, as plain values (for --json) and as tables (for people)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.scaling import Scaling

N_STRONGEST = 10
N_REASONS = 3
# More columns than this do not fit beside each other on a terminal.
N_SHOWN_COLUMNS = 5
ROWS_AT_A_TIME = 2**20


class Labelled(NamedTuple):
    """What a model says of each row."""

    labels: NDArray[np.int32]
    """Its cluster, −1 for outliers."""
    nearest: NDArray[np.int32]
    """Its cluster, for outliers too."""
    scores: NDArray[np.floating]
    """D²."""


Take = Callable[[NDArray[np.int64]], NDArray[np.floating]]
"""A few rows, scaled, by their places in ascending order."""


def findings(
    labelled: Labelled,
    centers: NDArray[np.floating],
    scaling: Scaling,
    names: list[str],
    take: Take,
) -> dict[str, Any]:
    """The clusters and the strongest outliers; rows count from 1 among those labelled."""
    return {
        "clusters": clusters(_sizes(labelled.labels, len(centers)), centers, scaling, names),
        "strongest_outliers": _strongest_outliers(labelled, centers, scaling, names, take),
    }


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


def _sizes(labels: NDArray[np.int32], n_clusters: int) -> NDArray[np.integer]:
    sizes = np.zeros(n_clusters + 1, np.int64)
    # Labels may be in a file, and more than fit into memory.
    for start in range(0, len(labels), ROWS_AT_A_TIME):
        sizes += np.bincount(labels[start : start + ROWS_AT_A_TIME] + 1, minlength=n_clusters + 1)
    return sizes[1:]


def _strongest_outliers(
    labelled: Labelled,
    centers: NDArray[np.floating],
    scaling: Scaling,
    names: list[str],
    take: Take,
) -> list[dict[str, Any]]:
    """The outliers farthest from every centre, and the columns that make them so."""
    places = _strongest(np.flatnonzero(labelled.labels < 0), labelled.scores)
    if not places.size:
        return []
    order = np.argsort(places)
    rows = take(places[order])[np.argsort(order)]
    return [
        {
            "row": int(place) + 1,
            "score": float(labelled.scores[place]),
            "nearest_cluster": int(labelled.nearest[place]),
            "columns": _reasons(row, centers[labelled.nearest[place]], scaling, names),
        }
        for place, row in zip(places, rows, strict=True)
    ]


def _strongest(flagged: NDArray[np.int64], scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """The places with the highest scores; the first of equals."""
    found = scores[flagged]
    if len(found) > N_STRONGEST:
        # No order of all: there may be millions.
        strong = found >= np.partition(found, -N_STRONGEST)[-N_STRONGEST]
        flagged, found = flagged[strong], found[strong]
    return flagged[np.argsort(-found, kind="stable")[:N_STRONGEST]]


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


def print_fit(console: Console, facts: dict[str, Any]) -> None:
    """What a fit has found."""
    print_clusters(console, facts)
    print_outliers(console, facts)
    console.print(
        f"{counted(facts['rows'], 'row')}, "
        f"{counted(len(facts['columns']), 'column')} (scaling: {facts['scaling']}), "
        f"{counted(facts['n_clusters'], 'cluster')}, "
        f"{counted(facts['n_outliers'], 'outlier')}",
        soft_wrap=True,
    )
    console.print(
        f"cost on inliers {number(facts['cost'])}, outlier threshold "
        f"{number(facts['outlier_threshold'])} (squared distance), "
        f"{counted(facts['iterations'], 'iteration')}, {_readings(facts)}{facts['seconds']:.1f} s",
        soft_wrap=True,
    )
    print_outputs(console, facts)


def _readings(facts: dict[str, Any]) -> str:
    return f"{counted(facts['readings'], 'reading')}, " if "readings" in facts else ""


def print_prediction(console: Console, facts: dict[str, Any]) -> None:
    """What a model says of new rows."""
    print_clusters(console, facts)
    print_outliers(console, facts)
    share = facts["outliers"] / max(facts["rows"], 1)
    console.print(
        f"{counted(facts['rows'], 'row')}, {facts['outliers']:,} of them outliers "
        f"({share:.1%}), {facts['seconds']:.1f} s",
        soft_wrap=True,
    )
    print_outputs(console, facts)


def print_model(console: Console, facts: dict[str, Any]) -> None:
    """What is in a model file."""
    print_clusters(console, facts)
    console.print(
        f"{counted(facts['n_clusters'], 'cluster')} of "
        f"{counted(len(facts['columns']), 'column')} ({facts['dtype']}, scaling: "
        f"{facts['scaling']}), written by robust-kmeans {facts['library_version']}",
        soft_wrap=True,
    )
    console.print(
        f"cost on inliers {number(facts['cost'])}, "
        f"{counted(facts['n_outliers'], 'outlier')}, threshold "
        f"{number(facts['outlier_threshold'])} (squared distance)",
        soft_wrap=True,
    )
    given = ", ".join(f"{k}={v!r}" for k, v in facts["parameters"].items() if v is not None)
    console.print(f"parameters: {given}", markup=False, soft_wrap=True)
    for what, value in facts["details"].items():
        console.print(f"{what}: {value}", markup=False, soft_wrap=True)


def print_outputs(console: Console, facts: dict[str, Any]) -> None:
    """What was written where."""
    for what, path in facts["outputs"].items():
        console.print(f"{what}: {path}", markup=False, soft_wrap=True)


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
    places = [outlier["where"] for outlier in facts["strongest_outliers"] if "where" in outlier]
    if places:
        table.add_column("where (rows from 0, lines from 1)", overflow="fold")
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
            *([Text(outlier["where"])] if places else []),
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
