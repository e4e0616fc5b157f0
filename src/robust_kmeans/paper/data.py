"""The rows of an experiment, and which of them are outliers.

Generated data are made where they are needed, fresh for every repetition.  Files are read and
noise is added once for all repetitions of a table; the rows then wait in a file that every process
maps into its memory, so that none has a copy of its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.datasets import (
    add_row_noise,
    load_kddcup,
    load_shuttle,
    load_skin,
    make_contaminated_blobs,
)
from robust_kmeans.datasets.download import DownloadCallback
from robust_kmeans.datasets.sources import FILES, data_folder
from robust_kmeans.paper.experiments import Experiment, Setting

KddFile = Literal["auto", "10-percent", "full", "stand-in"]
KDD_FILES = get_args(KddFile)
STAND_IN = "stand-in, generated"

N_SYNTHETIC = 1000
# The classes of the full KDD file: smurf, neptune, normal, and all the others together.
STAND_IN_SIZES = (2_807_886, 1_072_017, 972_781, 45_747)
STAND_IN_FEATURES = 34
ROWS_AT_ONCE = 2**16


class Instance(NamedTuple):
    """Rows, and a mask of the true outliers."""

    X: NDArray[np.floating]
    outliers: NDArray[np.bool_]


@dataclass(frozen=True)
class Choices:
    """What the user may choose about the data.

    Attributes
    ----------
    seed : int
        From which all random numbers are derived.
    noise_scale : float
        Standard deviation of the noise, in those of each feature.
    data_home : path-like, optional
        As for the functions of `robust_kmeans.datasets`.
    download : bool
        Whether to download what is missing.
    kdd : {"auto", "10-percent", "full", "stand-in"}
        Which KDD data; "auto" is the full file if it is there, else the 10 percent file.
    """

    seed: int = 0
    noise_scale: float = 5.0
    data_home: str | os.PathLike[str] | None = None
    download: bool = True
    kdd: KddFile = "auto"


@dataclass(frozen=True)
class Generated:
    """The paper's synthetic data: small enough to be made anew by any process."""

    seed: int
    name: str = "generated as in the paper"

    def instance(self, setting: Setting, repetition: int) -> Instance:
        """Twenty unit Gaussians in a square, and uniform outliers: a fresh one each time."""
        assert setting.z is not None
        X, labels, _ = make_contaminated_blobs(
            N_SYNTHETIC,
            n_clusters=setting.k,
            n_outliers=setting.z,
            random_state=derived_seed(self.seed, repetition, "data"),
        )
        return Instance(X, labels < 0)


@dataclass(frozen=True)
class Stored:
    """Rows in a file of the run's own, the same for all repetitions."""

    name: str
    rows: Path
    outliers: Path

    def instance(self, _setting: Setting, _repetition: int) -> Instance:
        """The rows, mapped into memory."""
        return Instance(np.load(self.rows, mmap_mode="r"), np.load(self.outliers))


Source = Generated | Stored


def prepare(
    experiment: Experiment,
    choices: Choices,
    folder: Path,
    callback: DownloadCallback | None = None,
) -> Source:
    """Get the data of an experiment ready; large ones wait in `folder`."""
    if experiment.data == "synthetic":
        return Generated(choices.seed)
    rows = folder / f"{experiment.name}.rows.npy"
    outliers = folder / f"{experiment.name}.outliers.npy"
    if experiment.data == "kddcup" and choices.kdd == "stand-in":
        _write_stand_in(choices.seed, rows, outliers)
        return Stored(STAND_IN, rows, outliers)
    name, X, true_outliers = load(experiment, choices, callback)
    if experiment.n_noisy:
        X, true_outliers = add_row_noise(
            X,
            experiment.n_noisy,
            scale=choices.noise_scale,
            random_state=derived_seed(choices.seed, 0, "data"),
        )
    assert true_outliers is not None
    np.save(rows, X)
    np.save(outliers, true_outliers)
    return Stored(name, rows, outliers)


def load(
    experiment: Experiment,
    choices: Choices,
    callback: DownloadCallback | None = None,
) -> tuple[str, NDArray[np.floating], NDArray[np.bool_] | None]:
    """Which file it is, its rows as published, and its outliers where it has some."""
    home, download = choices.data_home, choices.download
    if experiment.data == "shuttle":
        shuttle = load_shuttle(data_home=home, download_if_missing=download, callback=callback)
        return "Shuttle, training file", shuttle.X, shuttle.outliers
    if experiment.data == "skin":
        skin = load_skin(data_home=home, download_if_missing=download, callback=callback)
        return "Skin", skin.X, None
    full = choices.kdd == "full" or (choices.kdd == "auto" and _has_full_kdd(home))
    kdd = load_kddcup(
        "full" if full else "10 percent",
        data_home=home,
        download_if_missing=download,
        callback=callback,
    )
    return "KDD, full file" if full else "KDD, 10 percent file", kdd.X, kdd.outliers


def derived_seed(seed: int, repetition: int, purpose: Literal["data", "method"]) -> int:
    """A seed of its own for each repetition and purpose, so that none repeats another's draws.

    Examples
    --------
    >>> from robust_kmeans.paper.data import derived_seed
    >>> derived_seed(0, 1, "data") != derived_seed(0, 1, "method")
    True
    """
    words = np.random.SeedSequence((seed, repetition, ("data", "method").index(purpose)))
    return int(words.generate_state(1)[0])


def _has_full_kdd(data_home: str | os.PathLike[str] | None) -> bool:
    # Not the archive: it may be there for the sake of the 10 percent file.
    return (data_folder(data_home) / f"{FILES['kddcup full'].name}.gz").is_file()


def _write_stand_in(seed: int, rows: Path, outliers: Path) -> None:
    """Gaussian clusters as large as the classes of the full KDD file: to measure times only."""
    random = np.random.default_rng(derived_seed(seed, 0, "data"))
    labels = np.repeat(np.arange(len(STAND_IN_SIZES), dtype=np.int8), STAND_IN_SIZES)
    random.shuffle(labels)
    np.save(outliers, labels == len(STAND_IN_SIZES) - 1)
    centers = random.standard_normal((len(STAND_IN_SIZES), STAND_IN_FEATURES))
    # What is left of the file is many small classes: one wide cloud stands for them.
    widths = np.array([0.2, 0.2, 0.7, 3.0])
    X = np.lib.format.open_memmap(
        rows, mode="w+", dtype=np.float64, shape=(len(labels), STAND_IN_FEATURES)
    )
    for start in range(0, len(labels), ROWS_AT_ONCE):
        here = labels[start : start + ROWS_AT_ONCE]
        noise = random.standard_normal((len(here), STAND_IN_FEATURES))
        X[start : start + ROWS_AT_ONCE] = centers[here] + widths[here, np.newaxis] * noise
    X.flush()
