"""`fit` and `predict` where rows stay on disk: files, folders and patterns, however large.

Rows are read piece by piece, as often as the fit needs them; nothing here grows with their number
but one label, one nearest cluster and one score per row, which are in files beyond the limit of
memory and are written out in pieces.  The result is that of `fitting` on the same rows, but for a
scaling of very many rows, which is found from a sample.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.cli import summary
from robust_kmeans.cli.fitting import names_of, note_constant_columns
from robust_kmeans.cli.pictures import draw_clusters
from robust_kmeans.cli.readings import Watch, watching
from robust_kmeans.cli.request import Settings, Source, Targets, Voice, columns_by_name
from robust_kmeans.cli.sources import format_of
from robust_kmeans.cli.stored import Stored, files_of, open_stored, sample_of, scaled
from robust_kmeans.cli.summary import Labelled
from robust_kmeans.cli.tables import NEW_COLUMNS, WRITABLE, write_labels
from robust_kmeans.cli.terminal import MissingColumnError, UserError
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.inputs import in_dtype, opened
from robust_kmeans.reporting import Readings
from robust_kmeans.saved import load_model
from robust_kmeans.scaling import Scaling, fit_scaling
from robust_kmeans.sources.base import Dataset
from robust_kmeans.sweeps.base import Chunk, RowState, Work
from robust_kmeans.sweeps.distances import ASSIGN, Centers
from robust_kmeans.sweeps.rows import nearest_labels, squared_distances
from robust_kmeans.validation import as_bytes


def fit(source: Source, settings: Settings, *, targets: Targets, voice: Voice) -> None:
    """Cluster files, write what was asked for, and sum it up."""
    started = time.perf_counter()
    with watching(f"Opening {source.path}", quiet=voice.quiet) as watch:
        files = files_of(source)
        targets.check(*files, checkpoint=settings.checkpoint)
        _note_output(targets, voice)
        stored = open_stored(source, files, voice)
        sample = None
        if settings.scale != "none" or targets.plot is not None:
            watch.tell("Drawing a sample of the rows")
            sample = sample_of(stored.rows, settings.seed)
        scaling = _scaling(stored, sample, settings.scale, voice)
        rows = scaled(stored.rows, scaling)
        resumed = settings.checkpoint is not None and settings.checkpoint.exists()
        watch.tell("Looking at all values", "Going on where it was left" if resumed else "Seeding")
        model = settings.fitted(rows, stored.names, watch)
        labelled = Labelled(model.labels_, model.nearest_labels_, model.outlier_scores_)
        facts = {
            **_about(source, stored),
            **summary.model_facts(model, scaling, stored.names),
            "readings": watch.n_readings,
            **_findings(stored, rows, labelled, model, scaling),
        }
        with targets.written() as outputs:
            _write_rows(labelled, outputs.get("output"), watch)
            if "model" in outputs:
                model.save(outputs["model"], scaling=scaling, details={"file": source.path.name})
            if sample is not None and "plot" in outputs:
                _draw(stored, model, scaling, sample, outputs["plot"], voice)
    facts |= {"seconds": time.perf_counter() - started, "outputs": targets.names()}
    voice.tell(facts, summary.print_fit)


def predict(
    model_path: Path,
    source: Source,
    memory_limit: int | str | None,
    *,
    targets: Targets,
    voice: Voice,
) -> None:
    """Label the rows of files with a saved model."""
    saved = load_model(model_path)
    model, scaling = saved.estimator, saved.scaling
    names = names_of(model)
    started = time.perf_counter()
    with watching(f"Opening {source.path}", quiet=voice.quiet) as watch:
        files = files_of(source)
        targets.check(*files, model_path)
        _note_output(targets, voice)
        stored = _open_for_model(source, files, model, names, voice)
        rows = scaled(stored.rows, scaling)
        watch.tell("Looking at all values", "Labelling")
        with columns_by_name(names):
            labelled = _labelled(rows, model, memory_limit, watch)
        found = _findings(stored, rows, labelled, model, scaling)
        with targets.written() as outputs:
            _write_rows(labelled, outputs.get("output"), watch)
    n_inliers = sum(cluster["rows"] for cluster in found["clusters"])
    facts = {
        **_about(source, stored),
        "model": str(model_path),
        "columns": names,
        "outliers": stored.rows.n_rows - n_inliers,
        "outlier_threshold": float(model.outlier_threshold_),
        **found,
        "seconds": time.perf_counter() - started,
        "outputs": targets.names(),
    }
    voice.tell(facts, summary.print_prediction)


def _note_output(targets: Targets, voice: Voice) -> None:
    if targets.output is not None:
        voice.note(
            f"{targets.output} gets {', '.join(NEW_COLUMNS)} of each row, in order, and no columns "
            f"of the input."
        )


def _scaling(
    stored: Stored, sample: NDArray[np.floating] | None, method: str, voice: Voice
) -> Scaling:
    if sample is None or method == "none":
        return Scaling.none(stored.rows.n_features)
    # Values that are not finite are refused by the fit, which names their file.
    whole = np.isfinite(sample).all(axis=1)
    if not whole.any():
        raise UserError(
            f"{stored.files[0]} has a missing or infinite value in every row; choose other columns."
        )
    if len(sample) < stored.rows.n_rows:
        voice.note(
            f"The scaling is that of {len(sample):,} of {stored.rows.n_rows:,} rows, drawn at "
            f"random."
        )
    with columns_by_name(stored.names):
        scaling = fit_scaling(sample[whole], method)
    note_constant_columns(scaling, stored.names, voice)
    return scaling


def _open_for_model(
    source: Source, files: list[Path], model: RobustKMeans, names: list[str], voice: Voice
) -> Stored:
    """The model's columns, in the model's order; by their numbers where files have no names."""
    by_name = hasattr(model, "feature_names_in_") and files[0].suffix.lower() != ".npy"
    try:
        chosen = replace(source, columns=names) if by_name else source
        stored = open_stored(chosen, files, voice)
    except MissingColumnError as error:
        raise UserError(
            f"{error} The model was fitted on {', '.join(map(repr, names))}."
        ) from error
    if stored.rows.n_features != len(names):
        raise UserError(
            f"{source.path} has {stored.rows.n_features} columns, but the model was fitted on "
            f"{len(names)}: {', '.join(map(repr, names))}."
        )
    return stored


def _labelled(
    rows: Dataset, model: RobustKMeans, memory_limit: int | str | None, watch: Watch
) -> Labelled:
    """All that a model says, of one reading after the one that checks the values."""
    centers = model.cluster_centers_
    with opened(
        in_dtype(rows, centers.dtype),
        memory_limit=as_bytes("memory_limit", memory_limit),
        feature_names=rows.feature_names,
        centers=centers,
    ) as data:
        data.watch = Readings(watch, data.n_rows)
        states, _ = data.run(ASSIGN, None, Centers(centers))
        return Labelled(
            data.collect(_labels, states, model.outlier_threshold_, work=Work.STATES),
            data.collect(nearest_labels, states, None, work=Work.STATES),
            data.collect(squared_distances, states, None, work=Work.STATES),
        )


def _labels(_chunk: Chunk, state: RowState, threshold: float) -> tuple[RowState, NDArray[np.int32]]:
    """As `RobustKMeans.predict` has it, of states."""
    return state, np.where(state.d2 > np.float64(threshold), np.int32(-1), state.labels)


def _about(source: Source, stored: Stored) -> dict[str, Any]:
    return {
        "file": str(source.path),
        "files": len(stored.files),
        "rows": stored.rows.n_rows,
        "dropped_rows": 0,
    }


def _findings(
    stored: Stored, rows: Dataset, labelled: Labelled, model: RobustKMeans, scaling: Scaling
) -> dict[str, Any]:
    centers = model.cluster_centers_
    found = summary.findings(labelled, centers, scaling, stored.names, rows.take)
    for outlier in found["strongest_outliers"]:
        outlier["where"] = stored.where(outlier["row"] - 1)
    return found


def _write_rows(labelled: Labelled, path: Path | None, watch: Watch) -> None:
    if path is not None:
        watch.tell("Writing")
        write_labels(labelled, path, format_of(path, WRITABLE))


def _draw(
    stored: Stored,
    model: RobustKMeans,
    scaling: Scaling,
    sample: NDArray[np.floating],
    path: Path,
    voice: Voice,
) -> None:
    title = ""
    if len(sample) < stored.rows.n_rows:
        title = f"{len(sample):,} of {stored.rows.n_rows:,} rows, drawn at random"
        voice.note(f"The picture is of {title}, and so are the numbers in it.")
    draw_clusters(model, scaling, sample, scaling.apply(sample), stored.names, path, title)
