"""The commands `fit`, `predict` and `inspect`."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.cli import summary
from robust_kmeans.cli.pictures import draw_clusters
from robust_kmeans.cli.request import Settings, Source, Targets, Voice, columns_by_name
from robust_kmeans.cli.sources import format_of
from robust_kmeans.cli.summary import Labelled
from robust_kmeans.cli.tables import (
    NEW_COLUMNS,
    WRITABLE,
    Keep,
    Table,
    with_columns,
    write_table,
)
from robust_kmeans.cli.terminal import MissingColumnError, UserError, telling, working
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.saved import load_model
from robust_kmeans.scaling import Scaling, fit_scaling


def fit(source: Source, settings: Settings, *, targets: Targets, voice: Voice) -> None:
    """Cluster a file, write what was asked for, and sum it up."""
    targets.check(source.path, checkpoint=settings.checkpoint)
    started = time.perf_counter()
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = source.read(voice, targets.keep)
        scaling = fit_scaling(table.rows, settings.scale)
        note_constant_columns(scaling, table.names, voice)
        scaled = scaling.apply(table.rows)
        tell("Clustering")
        model = settings.fitted(scaled, table.names, telling(tell))
        labelled = Labelled(model.labels_, model.nearest_labels_, model.outlier_scores_)
        facts = {
            "file": str(source.path),
            "rows": len(table.rows),
            "dropped_rows": table.n_dropped,
            **summary.model_facts(model, scaling, table.names),
            **_findings(table, labelled, model, scaling, scaled),
        }
        with targets.written() as files:
            tell("Writing")
            _write_rows(table, labelled, files.get("output"))
            if "model" in files:
                model.save(files["model"], scaling=scaling, details={"file": source.path.name})
            if "plot" in files:
                tell("Drawing")
                draw_clusters(model, scaling, table.rows, scaled, table.names, files["plot"])
    facts |= {"seconds": time.perf_counter() - started, "outputs": targets.names()}
    voice.tell(facts, summary.print_fit)


def predict(model_path: Path, source: Source, *, targets: Targets, voice: Voice) -> None:
    """Label the rows of a file with a saved model."""
    targets.check(source.path, model_path)
    saved = load_model(model_path)
    model, scaling = saved.estimator, saved.scaling
    names = names_of(model)
    by_name = source.path.suffix.lower() != ".npy" and hasattr(model, "feature_names_in_")
    started = time.perf_counter()
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = _read_for_model(source, names, targets.keep, voice, by_name=by_name)
        tell("Predicting")
        scaled = scaling.apply(table.rows)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # the columns are in its order already
        with columns_by_name(table.names):
            scores = -model.score_samples(scaled)
        labels = model.predict(scaled)
        flagged = np.flatnonzero(labels < 0)
        nearest = labels.copy()
        if flagged.size:
            nearest[flagged] = _nearest_labels(model, scaled[flagged])
        labelled = Labelled(labels, nearest, scores)
        with targets.written() as files:
            tell("Writing")
            _write_rows(table, labelled, files.get("output"))
    facts = {
        "file": str(source.path),
        "model": str(model_path),
        "rows": len(labels),
        "dropped_rows": table.n_dropped,
        "columns": names,
        "outliers": len(flagged),
        "outlier_threshold": float(model.outlier_threshold_),
        **_findings(table, labelled, model, scaling, scaled),
        "seconds": time.perf_counter() - started,
        "outputs": targets.names(),
    }
    voice.tell(facts, summary.print_prediction)


def inspect(model_path: Path, *, voice: Voice) -> None:
    """Show what is in a model file."""
    saved = load_model(model_path)
    model, scaling = saved.estimator, saved.scaling
    names = names_of(model)
    facts = {
        "model": str(model_path),
        "library_version": saved.library_version,
        "details": saved.details,
        **summary.model_facts(model, scaling, names),
        "parameters": {
            name: value
            for name, value in model.get_params().items()
            if value is None or isinstance(value, bool | int | float | str)
        },
        "clusters": summary.clusters(saved.cluster_sizes, model.cluster_centers_, scaling, names),
    }
    voice.tell(facts, summary.print_model)


def _read_for_model(
    source: Source, names: list[str], keep: Keep, voice: Voice, *, by_name: bool
) -> Table:
    """The model's columns of a file, in the model's order."""
    if by_name:
        try:
            return replace(source, columns=names).read(voice, keep)
        except MissingColumnError as error:
            raise UserError(
                f"{error} The model was fitted on {', '.join(map(repr, names))}."
            ) from error
    table = source.read(voice, keep)
    if table.rows.shape[1] != len(names):
        raise UserError(
            f"{source.path} has {table.rows.shape[1]} columns, but the model was fitted on "
            f"{len(names)}: {', '.join(map(repr, names))}."
        )
    return table


def names_of(model: RobustKMeans) -> list[str]:
    """The columns that a model was fitted on."""
    if hasattr(model, "feature_names_in_"):
        return list(map(str, model.feature_names_in_))
    return [f"column_{i}" for i in range(1, model.n_features_in_ + 1)]


def _findings(
    table: Table,
    labelled: Labelled,
    model: RobustKMeans,
    scaling: Scaling,
    scaled: NDArray[np.floating],
) -> dict[str, Any]:
    centers = model.cluster_centers_
    found = summary.findings(labelled, centers, scaling, table.names, lambda few: scaled[few])
    for outlier in found["strongest_outliers"]:
        # Rows that were left out count, too.
        outlier["row"] = int(table.numbers[outlier["row"] - 1])
    return found


def _nearest_labels(model: RobustKMeans, rows: NDArray[np.floating]) -> NDArray[np.int32]:
    """The nearest centre of each row, outliers too."""
    without_outliers = copy.copy(model)
    without_outliers.outlier_threshold_ = np.inf
    return without_outliers.predict(rows)


def _write_rows(
    table: Table,
    labelled: Labelled,
    path: Path | None,
) -> None:
    if path is None:
        return
    rows = with_columns(table, dict(zip(NEW_COLUMNS, labelled, strict=True)))
    write_table(rows, path, format_of(path, WRITABLE))


def note_constant_columns(scaling: Scaling, names: list[str], voice: Voice) -> None:
    """Tell of columns without spread."""
    if scaling.constant_columns:
        named = ", ".join(repr(names[j]) for j in scaling.constant_columns)
        spread = "interquartile range" if scaling.method == "robust" else "standard deviation"
        voice.note(f"The {spread} of {named} is 0: centred, but not scaled.")
