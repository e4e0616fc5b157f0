"""Checkpoints: what a long fit must remember, so that a killed run goes on as if nothing was.

States are not kept: they can be rebuilt from the rows and the centres.  All else is kept bit for
bit: where random numbers stand, runs that have begun or ended, and in the middle of Lloyd the
centres, the totals as they have been added up, the cut, the costs on the way and the momentum.

A checkpoint is an ``.npz`` file like a model's (see `model_file`): numbers and text, no Python
objects.  It is replaced as a whole, so that a run which is killed while it saves leaves the one
before.  It holds the fingerprint of its problem, and no other problem is continued from it.

Cost: a few copies of the centres per file, whatever the number of rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_kmeans.execution.base import Execution
from robust_kmeans.lloyd import LloydRun, Midway
from robust_kmeans.momentum import Momentum
from robust_kmeans.sweeps.cut import Cut
from robust_kmeans.sweeps.totals import ClusterTotals
from robust_kmeans.untrusted_npz import FAULTS, Archive, reason, write_archive

FORMAT = "robust-kmeans checkpoint"
FORMAT_VERSION = 2
GENERATOR, KEY_LENGTH = "MT19937", 624
# Seconds between two iterations that are saved: less is lost than it takes to begin again.
INTERVAL = 2.0

Floats = NDArray[np.floating]
Fingerprint = Mapping[str, bool | int | float | str | None]
"""What tells one problem from another: names, and values that JSON can keep."""


class CheckpointError(ValueError):
    """A file from which this fit cannot go on; the message says why and what to do."""


@dataclass(frozen=True, eq=False)
class RandomPosition:
    """Where a `RandomState` stands."""

    key: NDArray[np.uint32]
    place: int
    has_gauss: int
    gauss: float

    @classmethod
    def of(cls, random: np.random.RandomState) -> RandomPosition:
        """Where this one stands now."""
        state: Any = random.get_state(legacy=False)
        if state["bit_generator"] != GENERATOR:
            raise TypeError(
                f"random_state draws from {state['bit_generator']}, and a checkpoint keeps only "
                f"{GENERATOR}, the default; pass an int or numpy.random.RandomState(seed)."
            )
        key, place = state["state"]["key"], state["state"]["pos"]
        return cls(key.copy(), int(place), int(state["has_gauss"]), float(state["gauss"]))

    def restore(self, random: np.random.RandomState) -> None:
        """Let this one go on from here."""
        random.set_state((GENERATOR, self.key, self.place, self.has_gauss, self.gauss))


@dataclass(frozen=True, eq=False)
class PastRun:
    """A run that waits for its end, or has come to it: its number, and all but its states."""

    number: int
    centers: Floats
    cut: Cut
    history: tuple[float, ...]
    n_iter: int

    @classmethod
    def of(cls, number: int, run: LloydRun) -> PastRun:
        """A run without its states."""
        return cls(number, run.centers, run.cut, run.history, run.n_iter)


@dataclass(frozen=True, eq=False)
class Saved:
    """How far a fit has come.

    Attributes
    ----------
    stage : str
        What it was doing: Lloyd before the swaps ("lloyd"), or after them ("end").
    run : int
        In which of its runs.
    random : RandomPosition
    lloyd : Midway, optional
        Where it was within Lloyd.
    swaps : tuple of float
        ρ before the swaps and after each, if Lloyd came after them.
    begun, finished : tuple of PastRun
        Runs that have had their first iterations, and those that have ended.
    """

    stage: str
    run: int
    random: RandomPosition
    lloyd: Midway | None = None
    swaps: tuple[float, ...] = ()
    begun: tuple[PastRun, ...] = ()
    finished: tuple[PastRun, ...] = ()


class Checkpoint:
    """The file in which one fit keeps how far it has come.

    Parameters
    ----------
    path : path-like
    fingerprint : mapping
        Of the problem; see `fingerprint_of`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> random = np.random.RandomState(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(Path(folder) / "fit.npz", {"n_clusters": 3})
    ...     nothing = checkpoint.load()
    ...     checkpoint.save(Saved("seeding", 1, RandomPosition.of(random)))
    ...     _ = random.uniform(size=100)
    ...     checkpoint.load().random.restore(random)
    ...     checkpoint.remove()
    >>> nothing is None, random.uniform() == np.random.RandomState(0).uniform()
    (True, True)
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: Fingerprint) -> None:
        self.path = Path(path)
        self.fingerprint = dict(fingerprint)

    def load(self) -> Saved | None:
        """What was saved last; None where there is no file.

        Raises
        ------
        IsADirectoryError
            If the path is a folder.
        CheckpointError
            If the file is damaged, something else, or of another problem.
        """
        if self.path.is_dir():
            raise IsADirectoryError(
                f"checkpoint={str(self.path)!r} is a folder; give the name of a file in it."
            )
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:
            return None
        with stream:
            try:
                file = Archive(stream)
                _check_format(file)
                differences = _differences(self.fingerprint, file.json("fingerprint"))
                saved = None if differences else _saved(file)
            except FAULTS as fault:
                raise CheckpointError(
                    f"{str(self.path)!r} is damaged or not a checkpoint of robust-kmeans: "
                    f"{reason(fault)}. Delete it to begin anew, or choose another checkpoint."
                ) from fault
        if differences:
            raise CheckpointError(
                f"{str(self.path)!r} is the checkpoint of another fit: {'; '.join(differences)}. "
                f"Delete it to begin anew, or choose another checkpoint."
            )
        return saved

    def save(self, saved: Saved) -> None:
        """Put this in place of what was saved before."""
        head: dict[str, ArrayLike] = {
            "format": FORMAT,
            "format_version": np.int64(FORMAT_VERSION),
            "fingerprint": json.dumps(self.fingerprint),
        }
        write_archive(self.path, head | _entries(saved))

    def remove(self) -> None:
        """Leave no file, as the fit has come to its end."""
        self.path.unlink(missing_ok=True)


class Diary:
    """What one fit notes on its way: in memory, and in a checkpoint where there is one.

    Parameters
    ----------
    random : numpy.random.RandomState
        Of the fit; where a checkpoint is continued, it is put back to where it stood.
    checkpoint : Checkpoint, optional

    Attributes
    ----------
    begun, finished : list of PastRun
        Runs that have had their first iterations, and those that have ended.
    goes_on : bool
        Whether a checkpoint is continued.
    """

    def __init__(self, random: np.random.RandomState, checkpoint: Checkpoint | None = None) -> None:
        self._random, self._checkpoint = random, checkpoint
        self._last = None if checkpoint is None else checkpoint.load()
        self._due = 0.0
        self.goes_on = self._last is not None
        self.begun: list[PastRun] = []
        self.finished: list[PastRun] = []
        if self._last is not None:
            self._last.random.restore(random)
            self.begun += self._last.begun
            self.finished += self._last.finished

    def left_off(self, stage: str, run: int) -> tuple[Midway, tuple[float, ...]] | None:
        """Where Lloyd of this stage and run was left, and ρ of the swaps before it, if it was."""
        last = self._last
        if last is None or last.lloyd is None or (last.stage, last.run) != (stage, run):
            return None
        return last.lloyd, last.swaps

    def keep(self, stage: str, run: int, lloyd: Midway, swaps: tuple[float, ...] = ()) -> None:
        """Note an iteration; not every one is saved where they are quick."""
        if self._checkpoint is not None and time.monotonic() >= self._due:
            self._save(stage, run, lloyd, swaps)

    def begin(self, run: PastRun) -> None:
        """Note that a run has had its first iterations."""
        self.begun.append(run)
        self._save("lloyd", run.number)

    def finish(self, run: PastRun) -> None:
        """Note that a run has come to its end."""
        self.finished.append(run)
        self._save("end", run.number)

    def _save(
        self,
        stage: str,
        run: int,
        lloyd: Midway | None = None,
        swaps: tuple[float, ...] = (),
    ) -> None:
        if self._checkpoint is not None:
            here = RandomPosition.of(self._random)
            past = tuple(self.begun), tuple(self.finished)
            self._checkpoint.save(Saved(stage, run, here, lloyd, swaps, *past))
            self._due = time.monotonic() + INTERVAL


def fingerprint_of(
    data: Execution, n_clusters: int, n_outliers: float, parameters: Fingerprint
) -> dict[str, bool | int | float | str | None]:
    """What tells this problem from others.

    The version belongs to it: another one may come to other bits.
    """
    bounds = np.ascontiguousarray(data.bounds, dtype="<i8")
    return {
        "library_version": str(import_module("robust_kmeans").__version__),
        "n_rows": data.n_rows,
        "n_features": data.n_features,
        "dtype": str(data.dtype),
        "total_weight": data.total_weight,
        "chunks": hashlib.sha256(bounds.tobytes()).hexdigest()[:16],
        "n_clusters": int(n_clusters),
        "n_outliers": float(n_outliers),
        # JSON knows no numbers of NumPy's.
        **{k: v.item() if isinstance(v, np.generic) else v for k, v in parameters.items()},
    }


def _entries(saved: Saved) -> dict[str, ArrayLike]:
    entries: dict[str, ArrayLike] = {
        "stage": saved.stage,
        "run": np.int64(saved.run),
        "random_key": saved.random.key,
        "random_place": np.int64(saved.random.place),
        "random_has_gauss": np.int64(saved.random.has_gauss),
        "random_gauss": np.float64(saved.random.gauss),
        "swaps": np.array(saved.swaps, dtype=np.float64),
        "in_lloyd": np.int64(saved.lloyd is not None),
    }
    if saved.lloyd is not None:
        lloyd = saved.lloyd
        entries |= {
            "lloyd_centers": lloyd.centers,
            "lloyd_sums": lloyd.totals.sums,
            "lloyd_mass": lloyd.totals.mass,
            "lloyd_cost_when_totalled": np.float64(lloyd.cost_when_totalled),
            "lloyd_history": np.array(lloyd.history, dtype=np.float64),
            **_cut_entries("lloyd_cut", lloyd.cut),
        }
        if lloyd.momentum is not None:
            entries |= {
                "momentum_means": lloyd.momentum.means,
                "momentum_steps": np.int64(lloyd.momentum.n_steps),
            }
    return entries | _run_entries("begun", saved.begun) | _run_entries("finished", saved.finished)


def _run_entries(name: str, runs: Sequence[PastRun]) -> dict[str, ArrayLike]:
    entries: dict[str, ArrayLike] = {
        f"{name}_numbers": np.array([(run.number, run.n_iter) for run in runs], dtype=np.int64)
        .reshape(-1, 2)
    }  # fmt: skip
    for i, run in enumerate(runs):
        entries[f"{name}_{i}_centers"] = run.centers
        entries[f"{name}_{i}_history"] = np.array(run.history, dtype=np.float64)
        entries |= _cut_entries(f"{name}_{i}_cut", run.cut)
    return entries


def _cut_entries(name: str, cut: Cut) -> dict[str, ArrayLike]:
    return {
        f"{name}_reals": np.array([cut.value, cut.trimmed, cut.weight, cut.cost]),
        f"{name}_integers": np.array([cut.row, cut.nearby], dtype=np.int64),
    }


def _check_format(file: Archive) -> None:
    if "format" not in file.names:
        raise ValueError("it is an archive of something else (it has no entry format)")
    if (found := file.text("format")) != FORMAT:
        raise ValueError(f"its format is {found!r}, not {FORMAT!r}")
    if (version := file.integer("format_version")) != FORMAT_VERSION:
        raise ValueError(f"its format_version is {version}, and this one reads {FORMAT_VERSION}")


def _differences(here: Fingerprint, there: Fingerprint) -> list[str]:
    """In words, what differs; the values of both have to be those that JSON keeps."""
    kept: Fingerprint = json.loads(json.dumps(dict(here)))
    return [
        f"{name} is {kept.get(name)!r} here and {there.get(name)!r} there"
        for name in sorted({*kept, *there})
        if name not in kept or name not in there or kept[name] != there[name]
    ]


def _saved(file: Archive) -> Saved:
    return Saved(
        stage=file.text("stage"),
        run=file.integer("run"),
        random=_random(file),
        lloyd=_lloyd(file) if file.integer("in_lloyd") else None,
        swaps=tuple(file.array("swaps", "f", 1).tolist()),
        begun=_runs(file, "begun"),
        finished=_runs(file, "finished"),
    )


def _random(file: Archive) -> RandomPosition:
    key, place = file.array("random_key", "u", 1), file.integer("random_place")
    # NumPy would read beyond the key.
    if key.shape != (KEY_LENGTH,) or key.dtype != np.uint32 or not 0 <= place <= KEY_LENGTH:
        raise ValueError(f"its entry random_key is not a state of {GENERATOR}")
    gauss = float(file.number("random_gauss"))
    return RandomPosition(key, place, file.integer("random_has_gauss"), gauss)


def _lloyd(file: Archive) -> Midway:
    centers = file.array("lloyd_centers", "f", 2)
    totals = ClusterTotals(file.array("lloyd_sums", "f", 2), file.array("lloyd_mass", "f", 1))
    if totals.sums.shape != centers.shape or totals.mass.shape != centers.shape[:1]:
        raise ValueError("its centres and totals do not belong together")
    momentum = None
    if "momentum_means" in file.names:
        momentum = Momentum(file.array("momentum_means", "f", 2), file.integer("momentum_steps"))
        if momentum.means.shape != centers.shape or momentum.n_steps < 0:
            raise ValueError("its centres and their momentum do not belong together")
    return Midway(
        centers,
        totals,
        _cut(file, "lloyd_cut"),
        float(file.number("lloyd_cost_when_totalled")),
        tuple(file.array("lloyd_history", "f", 1).tolist()),
        momentum,
    )


def _cut(file: Archive, name: str) -> Cut:
    value, trimmed, weight, cost = file.array(f"{name}_reals", "f", 1).tolist()
    row, nearby = file.array(f"{name}_integers", "i", 1).tolist()
    return Cut(value, row, trimmed, weight, cost, nearby)


def _runs(file: Archive, name: str) -> tuple[PastRun, ...]:
    return tuple(
        PastRun(
            number,
            file.array(f"{name}_{i}_centers", "f", 2),
            _cut(file, f"{name}_{i}_cut"),
            tuple(file.array(f"{name}_{i}_history", "f", 1).tolist()),
            n_iter,
        )
        for i, (number, n_iter) in enumerate(file.array(f"{name}_numbers", "i", 2).tolist())
    )
