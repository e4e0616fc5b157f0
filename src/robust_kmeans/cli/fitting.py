"""The commands `fit`, `predict` and `inspect`."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.cli import summary
from robust_kmeans.cli.pictures import draw_clusters, new_figure
from robust_kmeans.cli.tables import (
    WRITABLE,
    Table,
    UserError,
    format_of,
    read_table,
    with_columns,
    write_table,
)
from robust_kmeans.cli.terminal import note, output, telling, working
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.safe_files import replacing
from robust_kmeans.saved import load_model
from robust_kmeans.scaling import Scaling, fit_scaling

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Source:
    """Which rows and columns to read."""

    path: Path
    columns: list[str] | None = None
    exclude: tuple[str, ...] = ()
    delimiter: str | None = None
    drop_missing: bool = False

    def read(self, *, keep_everything: bool = False) -> Table:
        """Read them, and tell what was left out."""
        table = read_table(
            self.path,
            columns=self.columns,
            exclude=self.exclude,
            delimiter=self.delimiter,
            drop_missing=self.drop_missing,
            keep_everything=keep_everything,
        )
        if table.n_dropped:
            total = len(table.rows) + table.n_dropped
            note(f"{table.n_dropped:,} of {total:,} rows have missing values and were dropped.")
        return table


@dataclass(frozen=True)
class Targets:
    """Which files to write, checked before any work is done."""

    output: Path | None = None
    model: Path | None = None
    plot: Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if self.output is not None:
            format_of(self.output, WRITABLE)
        if self.plot is not None:
            format_of(self.plot, PICTURES)
            new_figure(1)  # without matplotlib this says what to install
        given = [path for path in (self.output, self.model, self.plot) if path is not None]
        for path in given:
            if path.is_dir():
                raise UserError(f"{path} is a folder; give the name of a file.")
            if not path.absolute().parent.is_dir():
                raise UserError(f"{path.parent} does not exist; make this folder first.")
            if path.exists() and not self.force:
                raise UserError(f"{path} exists already; use --force to replace it.")
        if len({path.absolute() for path in given}) < len(given):
            raise UserError("Two outputs have the same name; give each its own.")

    def names(self) -> dict[str, str]:
        """What was written where."""
        named = {"output": self.output, "model": self.model, "plot": self.plot}
        return {what: str(path) for what, path in named.items() if path is not None}


@dataclass(frozen=True)
class Voice:
    """How results are told."""

    quiet: bool = False
    json: bool = False


def fit(
    source: Source,
    n_clusters: int,
    n_outliers: int | float,
    *,
    scale: str,
    seed: int,
    threads: int | None,
    targets: Targets,
    voice: Voice,
) -> None:
    """Cluster a file, write what was asked for, and sum it up."""
    _refuse_to_replace_input(source.path, targets)
    started = time.perf_counter()
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = source.read(keep_everything=targets.output is not None)
        scaling = fit_scaling(table.rows, scale)
        _note_constant_columns(scaling, table.names)
        scaled = scaling.apply(table.rows)
        tell("Clustering")
        model = RobustKMeans(
            n_clusters,
            n_outliers=n_outliers,
            n_threads=threads,
            random_state=seed,
            callback=telling(tell),
        ).fit(scaled)
        model.callback = None
        model.feature_names_in_ = np.array(table.names, dtype=object)
        facts = {
            "file": str(source.path),
            "rows": len(table.rows),
            "dropped_rows": table.n_dropped,
            **summary.model_facts(model, scaling, table.names),
            "clusters": summary.clusters(
                _sizes(model.labels_, n_clusters), model.cluster_centers_, scaling, table.names
            ),
            "strongest_outliers": summary.strongest_outliers(
                scaled, model.outlier_indices_, model.outlier_scores_, model.nearest_labels_,
                model.cluster_centers_, scaling, table,
            ),
        }  # fmt: skip
        tell("Writing")
        labelled = (model.labels_, model.nearest_labels_, model.outlier_scores_)
        _write_rows(table, labelled, targets.output)
        if targets.model is not None:
            model.save(targets.model, scaling=scaling, details={"file": source.path.name})
        if targets.plot is not None:
            tell("Drawing")
            _draw(model, scaling, table, scaled, targets.plot)
    facts |= {"seconds": time.perf_counter() - started, "outputs": targets.names()}
    _tell_fit(facts, voice)


def predict(model_path: Path, source: Source, *, targets: Targets, voice: Voice) -> None:
    """Label the rows of a file with a saved model."""
    _refuse_to_replace_input(source.path, targets)
    saved = load_model(model_path)
    model, scaling = saved.estimator, saved.scaling
    names = _names_of(model)
    by_name = source.path.suffix.lower() != ".npy" and hasattr(model, "feature_names_in_")
    started = time.perf_counter()
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = _read_for_model(source, names, by_name=by_name, targets=targets)
        tell("Predicting")
        scaled = scaling.apply(table.rows)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # the columns are in its order already
        scores = -model.score_samples(scaled)
        labels = model.predict(scaled)
        nearest = _nearest_labels(model, scaled)
        tell("Writing")
        _write_rows(table, (labels, nearest, scores), targets.output)
    flagged = np.flatnonzero(labels < 0)
    facts = {
        "file": str(source.path),
        "model": str(model_path),
        "rows": len(labels),
        "dropped_rows": table.n_dropped,
        "columns": names,
        "outliers": len(flagged),
        "outlier_threshold": float(model.outlier_threshold_),
        "clusters": summary.clusters(
            _sizes(labels, len(model.cluster_centers_)), model.cluster_centers_, scaling, names
        ),
        "strongest_outliers": summary.strongest_outliers(
            scaled, flagged, scores, nearest, model.cluster_centers_, scaling, table
        ),
        "seconds": time.perf_counter() - started,
        "outputs": targets.names(),
    }
    _tell(facts, voice, lambda console: _print_prediction(console, facts))


def inspect(model_path: Path, *, voice: Voice) -> None:
    """Show what is in a model file."""
    saved = load_model(model_path)
    model, scaling = saved.estimator, saved.scaling
    names = _names_of(model)
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
    _tell(facts, voice, lambda console: _print_model(console, facts))


def _read_for_model(source: Source, names: list[str], *, by_name: bool, targets: Targets) -> Table:
    """The model's columns of a file, in the model's order."""
    keep = targets.output is not None
    if by_name:
        try:
            chosen = Source(source.path, names, (), source.delimiter, source.drop_missing)
            return chosen.read(keep_everything=keep)
        except UserError as error:
            missing = str(error)
            if "has no column" not in missing:
                raise
            raise UserError(
                f"{missing} The model was fitted on {', '.join(map(repr, names))}."
            ) from error
    table = source.read(keep_everything=keep)
    if table.rows.shape[1] != len(names):
        raise UserError(
            f"{source.path} has {table.rows.shape[1]} columns, but the model was fitted on "
            f"{len(names)}: {', '.join(map(repr, names))}."
        )
    return table


def _names_of(model: RobustKMeans) -> list[str]:
    if hasattr(model, "feature_names_in_"):
        return list(map(str, model.feature_names_in_))
    return [f"column_{i}" for i in range(1, model.n_features_in_ + 1)]


def _sizes(labels: NDArray[np.int32], n_clusters: int) -> NDArray[np.integer]:
    return np.bincount(labels[labels >= 0], minlength=n_clusters)


def _nearest_labels(model: RobustKMeans, rows: NDArray[np.floating]) -> NDArray[np.int32]:
    """The nearest centre of each row, outliers too."""
    without_outliers = copy.copy(model)
    without_outliers.outlier_threshold_ = np.inf
    return without_outliers.predict(rows)


def _write_rows(
    table: Table,
    labelled: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating]],
    path: Path | None,
) -> None:
    if path is None:
        return
    names = ("label", "nearest_cluster", "outlier_score")
    rows = with_columns(table, dict(zip(names, labelled, strict=True)))
    with replacing(path) as temporary:
        write_table(rows, temporary, format_of(path, WRITABLE))


def _refuse_to_replace_input(path: Path, targets: Targets) -> None:
    if path.absolute() in {Path(name).absolute() for name in targets.names().values()}:
        raise UserError(f"{path} is the input; give the output another name.")


def _note_constant_columns(scaling: Scaling, names: list[str]) -> None:
    if scaling.constant_columns:
        named = ", ".join(repr(names[j]) for j in scaling.constant_columns)
        spread = "interquartile range" if scaling.method == "robust" else "standard deviation"
        note(f"The {spread} of {named} is 0: centred, but not scaled.")


def _draw(
    model: RobustKMeans,
    scaling: Scaling,
    table: Table,
    scaled: NDArray[np.floating],
    path: Path,
) -> None:
    with replacing(path) as temporary:
        draw_clusters(model, scaling, table.rows, scaled, table.names, temporary)


def _tell_fit(facts: dict[str, Any], voice: Voice) -> None:
    _tell(facts, voice, lambda console: _print_fit(console, facts))


def _tell(facts: dict[str, Any], voice: Voice, show: Callable[[Any], None]) -> None:
    console = output()
    if voice.json:
        summary.print_json(console, facts)
    elif not voice.quiet:
        show(console)


def _print_fit(console: Any, facts: dict[str, Any]) -> None:
    summary.print_clusters(console, facts)
    summary.print_outliers(console, facts)
    console.print(
        f"{facts['rows']:,} rows, {len(facts['columns'])} columns (scaling: {facts['scaling']}), "
        f"{facts['n_clusters']} clusters, {facts['n_outliers']:,} outliers"
    )
    console.print(
        f"cost on inliers {summary.number(facts['cost'])}, outlier threshold "
        f"{summary.number(facts['outlier_threshold'])} (squared distance), "
        f"iterations: {facts['iterations']}, {facts['seconds']:.1f} s"
    )
    _print_outputs(console, facts)


def _print_prediction(console: Any, facts: dict[str, Any]) -> None:
    summary.print_clusters(console, facts)
    summary.print_outliers(console, facts)
    share = facts["outliers"] / max(facts["rows"], 1)
    console.print(
        f"{facts['rows']:,} rows, {facts['outliers']:,} of them outliers ({share:.1%}), "
        f"{facts['seconds']:.1f} s"
    )
    _print_outputs(console, facts)


def _print_model(console: Any, facts: dict[str, Any]) -> None:
    summary.print_clusters(console, facts)
    console.print(
        f"{facts['n_clusters']} clusters of {len(facts['columns'])} columns "
        f"({facts['dtype']}, scaling: {facts['scaling']}), written by robust-kmeans "
        f"{facts['library_version']}"
    )
    console.print(
        f"cost on inliers {summary.number(facts['cost'])}, {facts['n_outliers']:,} outliers, "
        f"threshold {summary.number(facts['outlier_threshold'])} (squared distance)"
    )
    given = ", ".join(f"{k}={v!r}" for k, v in facts["parameters"].items() if v is not None)
    console.print(f"parameters: {given}", markup=False, soft_wrap=True)
    for what, value in facts["details"].items():
        console.print(f"{what}: {value}", markup=False, soft_wrap=True)


def _print_outputs(console: Any, facts: dict[str, Any]) -> None:
    for what, path in facts["outputs"].items():
        console.print(f"{what}: {path}", markup=False, soft_wrap=True)
