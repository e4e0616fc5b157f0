"""Results of single runs, kept in a file as they come.

A line of the file says under which circumstances it was measured, so that a later run takes
the lines that fit, and measures only what is missing.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal

Protocol = Literal["seeds", "lloyd", "fit"]
"""The seeds as they are; after trimmed Lloyd from them; or a whole fit of our default."""


@dataclass(frozen=True)
class Circumstances:
    """What a result depends on, besides the method and the repetition.

    Attributes
    ----------
    table : str
        The experiment's name.
    data : str
        Which data it ran on, such as "KDD, 10 percent file".
    n : int
        Rows.
    d : int
        Features.
    k : int
        Clusters.
    z : int
        Rows left out.
    true_outliers : int
        Rows that are outliers by the data's own account.
    noise_scale : float or None
        The noise's standard deviation in those of each feature; None without noise.
    seed : int
        From which all random numbers are derived.
    version : str
        Of robust-kmeans.
    """

    table: str
    data: str
    n: int
    d: int
    k: int
    z: int
    true_outliers: int
    noise_scale: float | None
    seed: int
    version: str


@dataclass(frozen=True)
class Trial:
    """One run of one method.

    Attributes
    ----------
    circumstances : Circumstances
    method : str
    repetition : int
        From 0.
    protocol : {"seeds", "lloyd", "fit"}
    cost : float
        Sum of squared distances over all rows but the z farthest.
    precision, recall : float
        Of the z farthest rows against the true outliers.
    seconds : float
        What the seeding took, on one thread; for "fit" the whole fit.
    plain_seconds : float or None
        What the same seeding took in plain NumPy, just after; None where that was not run.
    """

    circumstances: Circumstances
    method: str
    repetition: int
    protocol: Protocol
    cost: float
    precision: float
    recall: float
    seconds: float
    plain_seconds: float | None = None


class TrialFile:
    """Trials in a CSV file, which grows by whole lines only.

    Parameters
    ----------
    path : Path
        Need not exist.

    Raises
    ------
    ValueError
        If the file is something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trials: list[Trial] = []
        self._by_run: dict[tuple[Circumstances, str, int], list[Trial]] = {}
        if path.exists():
            self._note(_read(path))

    def of(self, circumstances: Circumstances, method: str, repetition: int) -> list[Trial]:
        """What is known of a method's run: a trial for each protocol, or nothing."""
        return self._by_run.get((circumstances, method, repetition), [])

    def add(self, trials: Iterable[Trial]) -> None:
        """Note trials that belong together: all of their lines are written, or none."""
        new = list(trials)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.path.exists():
            writer.writerow(HEADER)
        writer.writerows(_cells(trial) for trial in new)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        self._note(new)

    def _note(self, trials: list[Trial]) -> None:
        self.trials += trials
        for trial in trials:
            run = (trial.circumstances, trial.method, trial.repetition)
            self._by_run.setdefault(run, []).append(trial)


HEADER = (
    *(field.name for field in fields(Circumstances)),
    *(field.name for field in fields(Trial) if field.name != "circumstances"),
)


def _cells(trial: Trial) -> tuple[object, ...]:
    # csv writes None as nothing, and floats with all their digits.
    _, *rest = (getattr(trial, field.name) for field in fields(Trial))
    return (*astuple(trial.circumstances), *rest)


def _read(path: Path) -> list[Trial]:
    try:
        text = path.read_text(encoding="utf-8")
        # A run that was cut off may have left a part of a line behind.
        whole = text[: text.rfind("\n") + 1]
        header, *lines = csv.reader(io.StringIO(whole))
        if tuple(header) != HEADER:
            raise ValueError(f"its columns are {', '.join(header)}")
        trials = [_parsed(dict(zip(header, line, strict=True))) for line in lines]
    except (ValueError, csv.Error) as error:
        raise ValueError(
            f"{str(path)!r} is no file of trials of this version ({error}); delete it, or choose "
            f"another folder."
        ) from error
    if whole != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(whole)
    return trials


def _parsed(cell: dict[str, str]) -> Trial:
    circumstances = Circumstances(
        table=cell["table"],
        data=cell["data"],
        n=int(cell["n"]),
        d=int(cell["d"]),
        k=int(cell["k"]),
        z=int(cell["z"]),
        true_outliers=int(cell["true_outliers"]),
        noise_scale=float(cell["noise_scale"]) if cell["noise_scale"] else None,
        seed=int(cell["seed"]),
        version=cell["version"],
    )
    protocol = cell["protocol"]
    if protocol not in ("seeds", "lloyd", "fit"):
        raise ValueError(f"there is no protocol {protocol!r}")
    return Trial(
        circumstances,
        method=cell["method"],
        repetition=int(cell["repetition"]),
        protocol=protocol,  # type: ignore[arg-type]
        cost=float(cell["cost"]),
        precision=float(cell["precision"]),
        recall=float(cell["recall"]),
        seconds=float(cell["seconds"]),
        plain_seconds=float(cell["plain_seconds"]) if cell["plain_seconds"] else None,
    )
