"""Results of single runs, kept in a file as they come.

A line of the file says under which circumstances it was measured, so that a later run takes
the lines that fit, and measures only what is missing.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal

from robust_kmeans.safe_files import replacing

Protocol = Literal["seeds", "lloyd", "fit"]
"""The seeds as they are; after trimmed Lloyd from them; or a whole fit of our default."""


@dataclass(frozen=True)
class Circumstances:
    """What the figures of a run depend on, besides the method and the repetition.

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
    beta : float
        The error parameter.
    noise_scale : float or None
        The noise's standard deviation in those of each feature; None without noise.
    seed : int
        From which all random numbers are derived.
    version : str
        Of robust-kmeans.
    code : str
        A fingerprint of the code that figures come from.
    """

    table: str
    data: str
    n: int
    d: int
    k: int
    z: int
    true_outliers: int
    beta: float
    noise_scale: float | None
    seed: int
    version: str
    code: str


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
    machine : str
        What it ran on, for the times' sake.
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
    machine: str = ""


COMPLETE: tuple[set[Protocol], ...] = ({"seeds", "lloyd"}, {"fit"})
"""The protocols that a run of a method has."""

Run = tuple[Circumstances, str, int]
"""Circumstances, method, repetition."""


class TrialFile:
    """Trials in a CSV file, of whole runs only.

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
        self._runs: dict[Run, list[Trial]] = {}
        if path.exists():
            self._runs = _whole_runs(_read(path))

    @property
    def trials(self) -> list[Trial]:
        """All of them."""
        return [trial for run in self._runs.values() for trial in run]

    def of(self, circumstances: Circumstances, method: str, repetition: int) -> list[Trial]:
        """What is known of a method's run: a trial for each protocol, or nothing."""
        return self._runs.get((circumstances, method, repetition), [])

    def add(self, trials: Sequence[Trial]) -> None:
        """Note the trials of a run; if they cannot be written, the file stays as it was."""
        with open(self.path, "ab") as file:
            before = file.tell()
            try:
                file.write(_as_text(trials, header=not before))
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(before)
                raise
        self._runs[_run_of(trials[0])] = list(trials)

    def forget(self, runs: Iterable[Run]) -> None:
        """Take runs out of the file, so that they are measured again."""
        unwanted = set(runs) & set(self._runs)
        if unwanted:
            for run in unwanted:
                del self._runs[run]
            with replacing(self.path) as temporary:
                temporary.write_bytes(_as_text(self.trials, header=True))


def _run_of(trial: Trial) -> Run:
    return trial.circumstances, trial.method, trial.repetition


def _whole_runs(trials: Iterable[Trial]) -> dict[Run, list[Trial]]:
    """Runs with a trial for each protocol; of one that was noted twice, the first."""
    runs: dict[Run, dict[Protocol, Trial]] = {}
    for trial in trials:
        runs.setdefault(_run_of(trial), {}).setdefault(trial.protocol, trial)
    return {run: list(found.values()) for run, found in runs.items() if set(found) in COMPLETE}


HEADER = (
    *(field.name for field in fields(Circumstances)),
    *(field.name for field in fields(Trial) if field.name != "circumstances"),
)


def _as_text(trials: Iterable[Trial], *, header: bool) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(HEADER)
    writer.writerows(_cells(trial) for trial in trials)
    return text.getvalue().encode()


def _cells(trial: Trial) -> tuple[object, ...]:
    # csv writes None as nothing, and floats with all their digits.
    _, *rest = (getattr(trial, field.name) for field in fields(Trial))
    return (*astuple(trial.circumstances), *rest)


def _read(path: Path) -> list[Trial]:
    try:
        text = path.read_text(encoding="utf-8")
        # A run that was cut off may have left a part of a line behind.
        whole = text[: text.rfind("\n") + 1]
        if not text:
            return []
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
        with replacing(path) as temporary:
            temporary.write_text(whole, encoding="utf-8")
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
        beta=float(cell["beta"]),
        noise_scale=float(cell["noise_scale"]) if cell["noise_scale"] else None,
        seed=int(cell["seed"]),
        version=cell["version"],
        code=cell["code"],
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
        machine=cell["machine"],
    )
