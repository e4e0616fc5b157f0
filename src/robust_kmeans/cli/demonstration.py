"""The command `demo`: generated dirty data, scikit-learn's KMeans and RobustKMeans side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as RichTable
from sklearn.cluster import KMeans

from robust_kmeans.cli.pictures import draw_side_by_side
from robust_kmeans.cli.request import Targets, Voice
from robust_kmeans.cli.terminal import working
from robust_kmeans.datasets import make_contaminated_blobs
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.metrics import outlier_precision_recall, trimmed_inertia

N_ROWS, N_CLUSTERS, N_OUTLIERS = 4000, 8, 200
CLUSTER_STD, NEAR = 3.0, 3.0
# The first seed whose clusters are so far apart (7 standard deviations) that anyone sees them.
SEED = 10

Rows = NDArray[np.floating]


@dataclass(frozen=True)
class Contestant:
    """One of the two models, and how long it took."""

    name: str
    model: Any
    seconds: float


def demonstrate(targets: Targets, *, voice: Voice) -> None:
    """Fit both to the same rows, print what each makes of them, and draw it."""
    targets.check()
    with working("Generating rows", quiet=voice.json) as tell:
        X, labels, means = dirty_rows()
        tell("Compiling the kernels (first run only)")
        RobustKMeans(2, random_state=0).fit(X[:100])
        tell("Clustering")
        # KMeans gets ten starts, of which the best counts, and RobustKMeans one.
        contestants = [
            _timed("KMeans, best of 10", KMeans(N_CLUSTERS, n_init=10, random_state=0), X),
            _timed(
                "RobustKMeans",
                RobustKMeans(N_CLUSTERS, n_outliers=N_OUTLIERS, random_state=0),
                X,
            ),
        ]
        methods = [judged(each, X, labels == -1, means) for each in contestants]
        tell("Drawing")
        titles = [
            f"{method['method']}: {method['clusters_found']} of {N_CLUSTERS} clusters found"
            for method in methods
        ]
        models = [each.model for each in contestants]
        with targets.written() as files:
            draw_side_by_side(list(zip(titles, models, strict=True)), X, files["plot"])
    facts = {
        "rows": len(X),
        "n_clusters": N_CLUSTERS,
        "n_outliers": N_OUTLIERS,
        "methods": methods,
        "outputs": targets.names(),
    }
    voice.tell(facts, _print)


def dirty_rows() -> tuple[Rows, NDArray[np.int32], Rows]:
    """Eight round clusters, and 5 % of uniform outliers from a box four times as wide."""
    X, labels, means = make_contaminated_blobs(
        N_ROWS - N_OUTLIERS,
        n_clusters=N_CLUSTERS,
        n_outliers=N_OUTLIERS,
        outlier_box=400,
        cluster_std=CLUSTER_STD,
        random_state=SEED,
    )
    return X, labels, means


def _timed(name: str, model: Any, X: Rows) -> Contestant:
    started = time.perf_counter()
    model.fit(X)
    return Contestant(name, model, time.perf_counter() - started)


def judged(
    contestant: Contestant, X: Rows, planted: NDArray[np.bool_], means: Rows
) -> dict[str, Any]:
    """Cost on the inliers, planted outliers found, and clusters that got a centre."""
    centers = contestant.model.cluster_centers_
    # KMeans flags nothing: the rows farthest from its centres are the best guess it allows.
    distances = np.sqrt(((X[:, np.newaxis] - centers) ** 2).sum(axis=2)).min(axis=1)
    farthest = np.argsort(-distances, kind="stable")[:N_OUTLIERS]
    match = outlier_precision_recall(np.flatnonzero(planted), farthest)
    nearest = np.sqrt(((means[:, np.newaxis] - centers) ** 2).sum(axis=2)).min(axis=1)
    return {
        "method": contestant.name,
        "cost_on_inliers": trimmed_inertia(X, centers, n_outliers=N_OUTLIERS),
        "precision": match.precision,
        "recall": match.recall,
        "clusters_found": int((nearest < NEAR * CLUSTER_STD).sum()),
        "seconds": contestant.seconds,
    }


def _print(console: Any, facts: dict[str, Any]) -> None:
    table = RichTable(
        title=f"{facts['rows']:,} rows: {facts['n_clusters']} clusters and "
        f"{facts['n_outliers']} planted outliers"
    )
    table.add_column("", no_wrap=True)
    for name in ("cost on inliers", "precision", "recall", "clusters found", "seconds"):
        table.add_column(name, justify="right")
    for method in facts["methods"]:
        table.add_row(
            method["method"],
            f"{method['cost_on_inliers']:,.0f}",
            f"{method['precision']:.2f}",
            f"{method['recall']:.2f}",
            f"{method['clusters_found']} of {facts['n_clusters']}",
            f"{method['seconds']:.3f}",
        )
    console.print(table)
    console.print(
        f"cost on inliers: squared distances summed over all rows but the {facts['n_outliers']} "
        f"farthest; precision and recall: of these {facts['n_outliers']} rows against the planted "
        f"outliers; clusters found: planted means with a centre within {NEAR:g} standard deviations"
    )
    console.print(f"picture: {facts['outputs']['plot']}", markup=False, soft_wrap=True)
