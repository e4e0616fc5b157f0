"""The commands `fit`, `predict` and `inspect`."""

from __future__ import annotations

import copy
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from robust_kmeans.cli import summary
from robust_kmeans.cli.pictures import draw_clusters
from robust_kmeans.cli.sources import DELIMITERS, format_of
from robust_kmeans.cli.tables import (
    WRITABLE,
    Keep,
    Table,
    read_table,
    with_columns,
    write_table,
)
from robust_kmeans.cli.terminal import (
    MissingColumnError,
    UserError,
    finished,
    note,
    output,
    telling,
    working,
)
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.plotting import new_figure
from robust_kmeans.safe_files import replacing_all
from robust_kmeans.saved import load_model
from robust_kmeans.scaling import Scaling, fit_scaling

MODELS = (".npz",)
PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Voice:
    """How results are told."""

    quiet: bool = False
    json: bool = False

    def note(self, text: str) -> None:
        """Something worth knowing that is no error."""
        if not self.quiet:
            note(text)

    def tell(self, facts: dict[str, Any], show: Callable[[Console, dict[str, Any]], None]) -> None:
        """The results: as JSON, or shown to people, or not at all."""
        if self.json:
            summary.print_json(facts)
        elif not self.quiet:
            show(output(), facts)


@dataclass(frozen=True)
class Source:
    """Which rows and columns to read."""

    path: Path
    columns: str | list[str] | None = None
    exclude: str = ""
    delimiter: str | None = None
    header: bool | None = None
    drop_missing: bool = False

    def read(self, voice: Voice, keep: Keep = Keep.NOTHING) -> Table:
        """Read them, and tell what was left out."""
        table = read_table(
            self.path,
            columns=self.columns,
            exclude=self.exclude,
            delimiter=self.delimiter,
            header=self.header,
            drop_missing=self.drop_missing,
            keep=keep,
        )
        for text in table.notes:
            voice.note(text)
        return table


@dataclass(frozen=True)
class Targets:
    """Which files to write, checked before any work is done."""

    output: Path | None = None
    model: Path | None = None
    plot: Path | None = None
    force: bool = False

    def check(self, *inputs: Path) -> None:
        """Refuse names that cannot be written, or that would destroy something."""
        if self.output is not None:
            format_of(self.output, WRITABLE)
        if self.model is not None:
            format_of(self.model, MODELS)
        if self.plot is not None:
            format_of(self.plot, PICTURES)
            new_figure()  # without matplotlib this says what to install
        # Links and .. may hide that two names are one file.
        taken = {os.path.realpath(path): "an input" for path in inputs}
        for what, path in self.files().items():
            if path.is_dir():
                raise UserError(f"{path} is a folder; give the name of a file.")
            if not path.absolute().parent.is_dir():
                raise UserError(f"{path.parent} does not exist; make this folder first.")
            place = os.path.realpath(path)
            if place in taken:
                raise UserError(f"{path} is {taken[place]} too; give the {what} another name.")
            taken[place] = f"the {what}"
            if path.exists() and not self.force:
                raise UserError(f"{path} exists already; use --force to replace it.")

    def files(self) -> dict[str, Path]:
        """What is to be written where."""
        named = {"output": self.output, "model": self.model, "plot": self.plot}
        return {what: path for what, path in named.items() if path is not None}

    def names(self) -> dict[str, str]:
        """What was written where."""
        return {what: str(path) for what, path in self.files().items()}

    @property
    def keep(self) -> Keep:
        """What of the input is needed to write the output."""
        if self.output is None:
            return Keep.NOTHING
        return Keep.VERBATIM if format_of(self.output, WRITABLE) in DELIMITERS else Keep.TYPED

    @contextmanager
    def written(self) -> Iterator[dict[str, Path]]:
        """Temporary files to write; all of them take their places at the end, or none."""
        files = self.files()
        with replacing_all(list(files.values()), overwrite=self.force) as temporaries:
            yield dict(zip(files, temporaries, strict=True))
        finished()


def fit(
    source: Source,
    n_clusters: int,
    n_outliers: int | float | str,
    *,
    scale: str,
    seed: int,
    threads: int | None,
    targets: Targets,
    voice: Voice,
) -> None:
    """Cluster a file, write what was asked for, and sum it up."""
    targets.check(source.path)
    started = time.perf_counter()
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = source.read(voice, targets.keep)
        scaling = fit_scaling(table.rows, scale)
        _note_constant_columns(scaling, table.names, voice)
        scaled = scaling.apply(table.rows)
        tell("Clustering")
        model = RobustKMeans(
            n_clusters,
            n_outliers=n_outliers,
            n_threads=threads,
            random_state=seed,
            callback=telling(tell),
        )
        with _columns_by_name(table.names):
            model.fit(scaled)
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
        with targets.written() as files:
            tell("Writing")
            labelled = (model.labels_, model.nearest_labels_, model.outlier_scores_)
            _write_rows(table, labelled, files.get("output"))
            if "model" in files:
                model.save(files["model"], scaling=scaling, details={"file": source.path.name})
            if "plot" in files:
                tell("Drawing")
                draw_clusters(model, scaling, table.rows, scaled, table.names, files["plot"])
    facts |= {"seconds": time.perf_counter() - started, "outputs": targets.names()}
    voice.tell(facts, _print_fit)


def predict(model_path: Path, source: Source, *, targets: Targets, voice: Voice) -> None:
    """Label the rows of a file with a saved model."""
    targets.check(source.path, model_path)
    saved = load_model(model_path)
    model, scaling = saved.estimator, saved.scaling
    names = _names_of(model)
    by_name = source.path.suffix.lower() != ".npy" and hasattr(model, "feature_names_in_")
    started = time.perf_counter()
    with working(f"Reading {source.path.name}", quiet=voice.quiet) as tell:
        table = _read_for_model(source, names, targets.keep, voice, by_name=by_name)
        tell("Predicting")
        scaled = scaling.apply(table.rows)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # the columns are in its order already
        with _columns_by_name(table.names):
            scores = -model.score_samples(scaled)
        labels = model.predict(scaled)
        flagged = np.flatnonzero(labels < 0)
        nearest = labels.copy()
        if flagged.size:
            nearest[flagged] = _nearest_labels(model, scaled[flagged])
        with targets.written() as files:
            tell("Writing")
            _write_rows(table, (labels, nearest, scores), files.get("output"))
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
    voice.tell(facts, _print_prediction)


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
    voice.tell(facts, _print_model)


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


@contextmanager
def _columns_by_name(names: list[str]) -> Iterator[None]:
    """Let errors about an array's columns use the names that they have in the file."""
    try:
        yield
    except ValueError as error:
        text = re.sub(r"\bcolumn (\d+)", lambda m: f"column {names[int(m[1])]!r}", str(error))
        raise ValueError(text) from error


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
    write_table(rows, path, format_of(path, WRITABLE))


def _note_constant_columns(scaling: Scaling, names: list[str], voice: Voice) -> None:
    if scaling.constant_columns:
        named = ", ".join(repr(names[j]) for j in scaling.constant_columns)
        spread = "interquartile range" if scaling.method == "robust" else "standard deviation"
        voice.note(f"The {spread} of {named} is 0: centred, but not scaled.")


def _print_fit(console: Console, facts: dict[str, Any]) -> None:
    summary.print_clusters(console, facts)
    summary.print_outliers(console, facts)
    console.print(
        f"{summary.counted(facts['rows'], 'row')}, "
        f"{summary.counted(len(facts['columns']), 'column')} (scaling: {facts['scaling']}), "
        f"{summary.counted(facts['n_clusters'], 'cluster')}, "
        f"{summary.counted(facts['n_outliers'], 'outlier')}",
        soft_wrap=True,
    )
    console.print(
        f"cost on inliers {summary.number(facts['cost'])}, outlier threshold "
        f"{summary.number(facts['outlier_threshold'])} (squared distance), "
        f"{summary.counted(facts['iterations'], 'iteration')}, {facts['seconds']:.1f} s",
        soft_wrap=True,
    )
    _print_outputs(console, facts)


def _print_prediction(console: Console, facts: dict[str, Any]) -> None:
    summary.print_clusters(console, facts)
    summary.print_outliers(console, facts)
    share = facts["outliers"] / max(facts["rows"], 1)
    console.print(
        f"{summary.counted(facts['rows'], 'row')}, {facts['outliers']:,} of them outliers "
        f"({share:.1%}), {facts['seconds']:.1f} s",
        soft_wrap=True,
    )
    _print_outputs(console, facts)


def _print_model(console: Console, facts: dict[str, Any]) -> None:
    summary.print_clusters(console, facts)
    console.print(
        f"{summary.counted(facts['n_clusters'], 'cluster')} of "
        f"{summary.counted(len(facts['columns']), 'column')} ({facts['dtype']}, scaling: "
        f"{facts['scaling']}), written by robust-kmeans {facts['library_version']}",
        soft_wrap=True,
    )
    console.print(
        f"cost on inliers {summary.number(facts['cost'])}, "
        f"{summary.counted(facts['n_outliers'], 'outlier')}, threshold "
        f"{summary.number(facts['outlier_threshold'])} (squared distance)",
        soft_wrap=True,
    )
    given = ", ".join(f"{k}={v!r}" for k, v in facts["parameters"].items() if v is not None)
    console.print(f"parameters: {given}", markup=False, soft_wrap=True)
    for what, value in facts["details"].items():
        console.print(f"{what}: {value}", markup=False, soft_wrap=True)


def _print_outputs(console: Console, facts: dict[str, Any]) -> None:
    for what, path in facts["outputs"].items():
        console.print(f"{what}: {path}", markup=False, soft_wrap=True)
