"""Fitted models as files: a plain ``.npz``, which holds numbers and text and can run nothing.

A model file is a zip archive of ``.npy`` arrays that ``numpy.load(…, allow_pickle=False)``
reads too.  Nothing in it is trusted: sizes are compared with the file before memory is
taken for them, and values are checked before a model is made of them.

Entries of format version 1 (texts are scalars of unicode, numbers are scalars):

==========================  ==================================================================
``format``                  "robust-kmeans model"
``format_version``          1
``library_version``         the version of robust-kmeans that wrote the file
``cluster_centers``         float32 or float64, of shape (n_clusters, n_features)
``outlier_threshold``       the squared distance above which a row is an outlier
``outlier_share``           the share of the rows, or of the weight, that the fit could trim
``inertia``                 the trimmed cost of the fit
``n_outliers``              the rows, or the weight, that the fit trimmed
``n_iter``                  the iterations of the best run
``inertia_history``         the trimmed cost of the seeds and after each iteration
``cluster_sizes``           inliers per cluster; empty where they are not known
``feature_names``           unicode, of shape (n_features,); empty where there are none
``scaling_method``          "none", "standard" or "robust"
``scaling_offset``          of shape (n_features,)
``scaling_factor``          of shape (n_features,)
``scaling_constant``        the columns without spread
``parameters``              JSON: {"values": {name: value}, "not_saved": [name]}
``init_centers``            the parameter `init` where it is an array, else empty
``details``                 JSON: what the caller of `save` gave to be kept
==========================  ==================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_kmeans.scaling import Scaling
from robust_kmeans.untrusted_npz import FAULTS, Archive, reason, write_archive

FORMAT = "robust-kmeans model"
FORMAT_VERSION = 1

Plain = bool | int | float | str | None
"""The values of parameters that a file keeps."""

ENTRIES = {
    "format",
    "format_version",
    "library_version",
    "cluster_centers",
    "outlier_threshold",
    "outlier_share",
    "inertia",
    "n_outliers",
    "n_iter",
    "inertia_history",
    "cluster_sizes",
    "feature_names",
    "scaling_method",
    "scaling_offset",
    "scaling_factor",
    "scaling_constant",
    "parameters",
    "init_centers",
    "details",
}


class ModelFileError(ValueError):
    """A file that cannot be used as a model; the message says why and what to do."""


@dataclass(frozen=True, eq=False)
class ModelContents:
    """What a model file holds; see the entries above.

    Values that no fitted model can have are refused with a ValueError.
    """

    cluster_centers: NDArray[np.floating]
    outlier_threshold: float
    outlier_share: float
    inertia: float
    n_outliers: int | float
    n_iter: int
    inertia_history: NDArray[np.float64]
    scaling: Scaling
    cluster_sizes: NDArray[np.int64] | None = None
    feature_names: tuple[str, ...] | None = None
    parameters: Mapping[str, Plain] = field(default_factory=dict)
    init_centers: NDArray[Any] | None = None
    not_saved: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    library_version: str = field(default_factory=lambda: _library_version())

    def __post_init__(self) -> None:
        centers = self.cluster_centers
        if centers.ndim != 2 or 0 in centers.shape or centers.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"cluster_centers is {centers.dtype} of shape {centers.shape}, not float32 or "
                f"float64 of shape (n_clusters, n_features)"
            )
        if not np.isfinite(centers).all():
            raise ValueError("cluster_centers has NaN or infinite values")
        n_clusters, n_features = centers.shape
        for name in ("outlier_threshold", "inertia", "n_outliers", "n_iter"):
            # Written so that NaN is refused too.
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, not a number of at least 0")
        if not 0 <= self.outlier_share < 1:
            raise ValueError(f"outlier_share is {self.outlier_share}, not in [0, 1)")
        if self.inertia_history.ndim != 1 or np.isnan(self.inertia_history).any():
            raise ValueError("inertia_history is not one row of numbers")
        sizes = self.cluster_sizes
        if sizes is not None and (sizes.shape != (n_clusters,) or (sizes < 0).any()):
            raise ValueError(f"cluster_sizes is not {n_clusters} counts, one per cluster")
        if self.feature_names is not None and len(self.feature_names) != n_features:
            raise ValueError(
                f"feature_names has {len(self.feature_names)} names for {n_features} features"
            )
        if len(self.scaling.offset) != n_features:
            raise ValueError(
                f"scaling is for {len(self.scaling.offset)} columns and the centres have "
                f"{n_features}; it must be the scaling of the rows that were fitted"
            )
        if self.init_centers is not None and "init" in self.parameters:
            raise ValueError("init is stored twice, as a value and as an array")


def write_model(path: str | os.PathLike[str], contents: ModelContents) -> None:
    """Write a model file; an existing one is replaced only when the new one is complete."""
    write_archive(path, _entries(contents))


def read_model(path: str | os.PathLike[str], *, known_parameters: Collection[str]) -> ModelContents:
    """Read and check a model file.

    Parameters
    ----------
    path : path-like
    known_parameters : collection of str
        The parameters that the estimator has; a file with others is refused.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file.
    ModelFileError
        If it is not a model file, is damaged, or is from a newer version.
    """
    place = os.fspath(path)
    if Path(path).is_dir():
        raise IsADirectoryError(f"{place!r} is a folder; give the name of a model file.")
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below; only faults of opening are here
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no model file {place!r}; check the name, or save a model there first."
        ) from None
    with stream:
        try:
            return _read(stream, known_parameters)
        except _NewerVersionError as newer:
            raise ModelFileError(
                f"{place!r} was written by robust-kmeans {newer.library_version} in format "
                f"version {newer.format_version}; this is robust-kmeans {_library_version()}, "
                f"which reads version {FORMAT_VERSION}. Update robust-kmeans."
            ) from None
        except FAULTS as fault:
            raise ModelFileError(
                f"{place!r} is damaged or not a robust-kmeans model: "
                f"{reason(fault)}. Give a file that RobustKMeans.save wrote, or save it again."
            ) from fault


def parameters_to_keep(
    parameters: Mapping[str, Any],
) -> tuple[dict[str, Plain], NDArray[Any] | None, tuple[str, ...]]:
    """Parameters that are plain values, `init` if it is an array, and the other names."""
    values: dict[str, Plain] = {}
    init_centers = None
    not_saved = []
    for name, value in parameters.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if _is_plain(plain):
            values[name] = plain
        elif name == "init" and (init_centers := _array_of_centers(value)) is not None:
            continue
        else:
            not_saved.append(name)
    return values, init_centers, tuple(not_saved)


def _is_plain(value: object) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _array_of_centers(init: Any) -> NDArray[Any] | None:
    """An `init` that is an array, or None for seedings, callables and anything else."""
    try:
        array = np.asarray(init)
    except (TypeError, ValueError):
        return None
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        return None
    # Wider floats than float64 differ from machine to machine.
    return np.array(array, dtype=np.float64 if array.dtype.itemsize > 8 else array.dtype)


class _NewerVersionError(Exception):
    def __init__(self, format_version: int, library_version: str) -> None:
        super().__init__()
        self.format_version = format_version
        self.library_version = library_version


def _entries(contents: ModelContents) -> dict[str, ArrayLike]:
    parameters = {"values": dict(contents.parameters), "not_saved": list(contents.not_saved)}
    sizes, init = contents.cluster_sizes, contents.init_centers
    # What there is none of is written as an empty array: a missing entry is always damage.
    return {
        "format": FORMAT,
        "format_version": np.int64(FORMAT_VERSION),
        "library_version": contents.library_version,
        "cluster_centers": contents.cluster_centers,
        "outlier_threshold": np.float64(contents.outlier_threshold),
        "outlier_share": np.float64(contents.outlier_share),
        "inertia": np.float64(contents.inertia),
        "n_outliers": np.asarray(contents.n_outliers),
        "n_iter": np.int64(contents.n_iter),
        "inertia_history": np.asarray(contents.inertia_history, dtype=np.float64),
        "cluster_sizes": np.zeros(0, np.int64) if sizes is None else sizes.astype(np.int64),
        "feature_names": _names_array(contents.feature_names or ()),
        "scaling_method": contents.scaling.method,
        "scaling_offset": contents.scaling.offset,
        "scaling_factor": contents.scaling.factor,
        "scaling_constant": np.array(contents.scaling.constant_columns, dtype=np.int64),
        "parameters": json.dumps(parameters),
        "init_centers": np.zeros((0, 0)) if init is None else init,
        "details": _details_text(contents.details),
    }


def _details_text(details: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(details, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error)
    else:
        # Tuples and keys that are not text would come back as something else.
        if isinstance(details, dict) and json.loads(text) == details:
            return text
        reason = "something in it would be read back differently"
    raise ValueError(
        f"details={details!r} must be a dict of plain JSON values (str, int, finite float, bool, "
        f"None, and lists and dicts of them, with str keys): {reason}."
    )


def _names_array(names: tuple[str, ...]) -> NDArray[np.str_]:
    array = np.array(names, dtype=np.str_)
    for name, kept in zip(names, array.tolist(), strict=True):
        if name != kept:
            raise ValueError(
                f"The feature name {name!r} ends in a null character, which a model file cannot "
                f"keep; rename the column."
            )
    return array


def _read(stream: BinaryIO, known_parameters: Collection[str]) -> ModelContents:
    file = Archive(stream)
    _check_format(file)
    values, not_saved = _parameters(file.json("parameters"), known_parameters)
    names = file.array_or_none("feature_names", "U", 1)
    return ModelContents(
        cluster_centers=file.array("cluster_centers", "f", 2),
        outlier_threshold=float(file.number("outlier_threshold")),
        outlier_share=float(file.number("outlier_share")),
        inertia=float(file.number("inertia")),
        n_outliers=file.number("n_outliers"),
        n_iter=file.integer("n_iter"),
        inertia_history=file.array("inertia_history", "f", 1),
        scaling=Scaling(
            file.text("scaling_method"),
            file.array("scaling_offset", "f", 1),
            file.array("scaling_factor", "f", 1),
            tuple(file.array("scaling_constant", "i", 1).tolist()),
        ),
        cluster_sizes=file.array_or_none("cluster_sizes", "i", 1),
        feature_names=None if names is None else tuple(names.tolist()),
        parameters=values,
        init_centers=file.array_or_none("init_centers", "biuf", 2),
        not_saved=not_saved,
        details=file.json("details"),
        library_version=file.text("library_version"),
    )


def _check_format(file: Archive) -> None:
    if "format" not in file.names:
        raise ValueError("it is an archive of something else (it has no entry format)")
    if (found := file.text("format")) != FORMAT:
        raise ValueError(f"its format is {found!r}, not {FORMAT!r}")
    version = file.integer("format_version")
    if version > FORMAT_VERSION:
        raise _NewerVersionError(version, file.text("library_version"))
    if version != FORMAT_VERSION:
        raise ValueError(f"its format_version is {version}, which never existed")
    unknown = sorted(file.names - ENTRIES)
    if unknown:
        raise ValueError(f"it has unknown entries: {', '.join(map(repr, unknown))}")


def _parameters(
    given: dict[str, Any], known: Collection[str]
) -> tuple[dict[str, Plain], tuple[str, ...]]:
    values, not_saved = given.get("values"), given.get("not_saved")
    if not isinstance(values, dict) or not isinstance(not_saved, list):
        raise ValueError("the entry parameters lacks its values or its list of names not saved")
    unknown = [str(name) for name in [*values, *not_saved] if name not in known]
    if unknown:
        raise ValueError(
            f"it has parameters that robust-kmeans {_library_version()} does not know: "
            f"{', '.join(unknown)}"
        )
    for name, value in values.items():
        if not _is_plain(value):
            raise ValueError(f"the parameter {name} is {value!r}, not a plain value")
    return values, tuple(not_saved)


def _library_version() -> str:
    # Read when it is needed: the package itself imports this module.
    return str(import_module("robust_kmeans").__version__)
