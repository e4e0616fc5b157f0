"""What a command is asked for: which rows, which files to write, and how to tell of it."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robust_kmeans.cli import summary
from robust_kmeans.cli.sources import DELIMITERS, format_of
from robust_kmeans.cli.tables import WRITABLE, Keep, Table, read_table
from robust_kmeans.cli.terminal import UserError, finished, note, output
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.plotting import new_figure
from robust_kmeans.reporting import Callback
from robust_kmeans.safe_files import replacing_all

MODELS = (".npz",)
PICTURES = (".png", ".svg", ".pdf")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
class Settings:
    """How to cluster."""

    n_clusters: int
    n_outliers: int | float | str
    scale: str = "none"
    seed: int = 0
    threads: int | None = None
    memory_limit: int | str | None = None
    checkpoint: Path | None = None

    def fitted(self, rows: Any, names: list[str], callback: Callback) -> RobustKMeans:
        """A model of these rows; it knows nothing of how they were read."""
        model = RobustKMeans(
            self.n_clusters,
            n_outliers=self.n_outliers,
            n_threads=self.threads,
            memory_limit=self.memory_limit,
            checkpoint=self.checkpoint,
            random_state=self.seed,
            callback=callback,
        )
        with columns_by_name(names):
            model.fit(rows)
        model.set_params(callback=None, checkpoint=None, memory_limit=None)
        model.feature_names_in_ = np.array(names, dtype=object)
        return model


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

    def check(self, *inputs: Path, checkpoint: Path | None = None) -> None:
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
        if checkpoint is not None:
            _check_folder(checkpoint)
            if os.path.realpath(checkpoint) in taken:
                raise UserError(f"{checkpoint} is an input too; give the checkpoint another name.")
            taken[os.path.realpath(checkpoint)] = "the checkpoint"
        for what, path in self.files().items():
            if path.is_dir():
                raise UserError(f"{path} is a folder; give the name of a file.")
            _check_folder(path)
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
        try:
            with replacing_all(list(files.values()), overwrite=self.force) as temporaries:
                yield dict(zip(files, temporaries, strict=True))
        except OSError as error:
            if error.errno not in FULL:
                raise
            named = " and ".join(self.names().values())
            raise UserError(
                f"There is no room for {named}: {os.strerror(error.errno)}. Free some, or choose "
                f"a folder on another disk."
            ) from error
        finished()


def _check_folder(path: Path) -> None:
    """Refuse a folder in which no file can be made: hours later would be too late."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"{path.parent} does not exist; make this folder first.")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: no file can be made in its folder ({error.strerror}). "
            f"Choose another folder, or change its permissions."
        ) from error


@contextmanager
def columns_by_name(names: list[str]) -> Iterator[None]:
    """Let errors about an array's columns use the names that they have in the file."""
    try:
        yield
    except ValueError as error:
        text = re.sub(
            r"\bcolumn (\d+)\b(?! \()", lambda m: f"column {names[int(m[1])]!r}", str(error)
        )
        raise ValueError(text) from error
