"""The real data of the paper's tables: Shuttle, Skin and KDD Cup 1999, as UCI publishes them.

Source: D. Dua and C. Graff, *UCI Machine Learning Repository* (data under CC BY 4.0).  Which
rows count as outliers is as in A. Deshpande and R. Pratap, *Improved Outlier Robust Seeding
for k-means*.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robust_kmeans.datasets import sources
from robust_kmeans.datasets.download import DownloadCallback
from robust_kmeans.datasets.packed import text_blocks
from robust_kmeans.datasets.text_tables import TableFormat, read_table

SHUTTLE = TableFormat(
    columns=tuple(f"A{number}" for number in range(1, 10)),
    left_out=frozenset(),
    delimiter=None,
    label=np.dtype(np.int64),
)
SHUTTLE_OUTLIERS = (6, 7)

SKIN = TableFormat(
    columns=("B", "G", "R"), left_out=frozenset(), delimiter=None, label=np.dtype(np.int64)
)

_KDDCUP_COLUMNS = """
    duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot
    num_failed_logins logged_in num_compromised root_shell su_attempted num_root
    num_file_creations num_shells num_access_files num_outbound_cmds is_host_login
    is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate
    same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count
    dst_host_same_srv_rate dst_host_diff_srv_rate dst_host_same_src_port_rate
    dst_host_srv_diff_host_rate dst_host_serror_rate dst_host_srv_serror_rate
    dst_host_rerror_rate dst_host_srv_rerror_rate
"""
# Words, and flags of 0 and 1.
_KDDCUP_LEFT_OUT = "protocol_type service flag land logged_in is_host_login is_guest_login"

KDDCUP = TableFormat(
    columns=tuple(_KDDCUP_COLUMNS.split()),
    left_out=frozenset(_KDDCUP_LEFT_OUT.split()),
    delimiter=",",
    label=np.dtype("S17"),
)
KDDCUP_CLUSTERS = ("normal", "neptune", "smurf")

ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class RealData:
    """A data set, and where it came from.

    It can be unpacked: ``X, target, outliers = load_shuttle()``.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    target : ndarray of shape (n_samples,)
        The class of each row.
    outliers : ndarray of bool of shape (n_samples,), or None
        Which rows the paper counts as outliers; None where it adds noise instead.
    feature_names : tuple of str
    description : str
        What it is, in a sentence.
    paths : tuple of Path
        The files that were read.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans.datasets import RealData
    >>> data = RealData(np.eye(2), np.array([1, 2]), None, ("a", "b"), "Two rows.", ())
    >>> X, target, outliers = data
    >>> X.shape, target.tolist(), outliers
    ((2, 2), [1, 2], None)
    """

    X: NDArray[np.floating]
    target: NDArray[Any]
    outliers: NDArray[np.bool_] | None
    feature_names: tuple[str, ...]
    description: str
    paths: tuple[Path, ...]

    def __iter__(self) -> Iterator[NDArray[Any] | None]:
        return iter((self.X, self.target, self.outliers))


def load_shuttle(
    subset: Literal["train", "test", "all"] = "train",
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    dtype: DTypeLike = np.float64,
    callback: DownloadCallback | None = None,
) -> RealData:
    """Statlog (Shuttle): 9 sensors of a space shuttle in 7 states, two of them very rare.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        43,500 rows with 17 outliers, as in the paper; 14,500 with 6; or one after the other.
    data_home : path-like, optional
        The folder to read from, and to download to.  By default the one that the environment
        variable ``ROBUST_KMEANS_DATA`` names, else ``robust-kmeans`` in ``$XDG_CACHE_HOME`` or,
        where that is not set, in ``~/.cache``.  Files may be as published, unpacked, or packed
        with gzip, compress or zip; their contents are checked by SHA-256.
    download_if_missing : bool, default=True
        Whether to download a file that is not there.  A download that broke off is continued
        by the next call.
    dtype : dtype, default=float64
        float32 or float64.
    callback : callable, optional
        Told a `DownloadProgress` after each block of a download.  Its begin and end are also
        logged, to the logger ``robust_kmeans``.

    Returns
    -------
    RealData
        `target` has the classes 1 to 7; the outliers are those of classes 6 and 7.

    Raises
    ------
    FileNotFoundError
        If a file is missing and is not to be downloaded.
    ConnectionError
        If a file is missing and cannot be downloaded.
    DataFileError
        If a file, or a download, is not the published one.

    Examples
    --------
    >>> from robust_kmeans.datasets import load_shuttle
    >>> X, target, outliers = load_shuttle()  # doctest: +SKIP
    >>> X.shape, int(outliers.sum())  # doctest: +SKIP
    ((43500, 9), 17)
    """
    parts = {"train": ("train",), "test": ("test",), "all": ("train", "test")}
    _check_option("subset", subset, tuple(parts))
    read = [
        _read(f"shuttle {part}", SHUTTLE, data_home, download_if_missing, dtype, callback)
        for part in parts[subset]
    ]
    X = np.concatenate([rows for rows, _, _ in read])
    target = np.concatenate([labels for _, labels, _ in read])
    outliers = np.isin(target, SHUTTLE_OUTLIERS)
    description = (
        f"Statlog (Shuttle), subset {subset!r}: {len(X):,} rows of {X.shape[1]} features, as "
        f"published; outliers are the {outliers.sum():,} rows of classes 6 and 7."
    )
    # Both parts may come from one archive.
    paths = tuple(dict.fromkeys(path for _, _, path in read))
    return RealData(X, target, outliers, SHUTTLE.features, description, paths)


def load_skin(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    dtype: DTypeLike = np.float64,
    callback: DownloadCallback | None = None,
) -> RealData:
    """Skin Segmentation: 245,057 colours (blue, green, red) of skin and of other things.

    It has no outliers of its own: the paper adds noise to some rows, as `add_row_noise` does.
    Only 51,433 colours are distinct.

    Parameters
    ----------
    data_home, download_if_missing, dtype, callback
        As for `load_shuttle`, which also lists the errors.

    Returns
    -------
    RealData
        `target` is 1 for skin (50,859 rows) and 2 for the rest; `outliers` is None.

    Examples
    --------
    >>> from robust_kmeans.datasets import add_row_noise, load_skin
    >>> data = load_skin()  # doctest: +SKIP
    >>> X, noisy = add_row_noise(data.X, 6000, random_state=0)  # doctest: +SKIP
    """
    X, target, path = _read("skin", SKIN, data_home, download_if_missing, dtype, callback)
    description = (
        f"Skin Segmentation: {len(X):,} rows of {X.shape[1]} features, as published; no outliers "
        f"are marked."
    )
    return RealData(X, target, None, SKIN.features, description, (path,))


def load_kddcup(
    subset: Literal["10 percent", "full"] = "10 percent",
    *,
    standardise: bool = True,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    dtype: DTypeLike = np.float64,
    callback: DownloadCallback | None = None,
) -> RealData:
    """KDD Cup 1999: connections of a network, 34 numbers each, most of them attacks.

    Parameters
    ----------
    subset : {"10 percent", "full"}, default="10 percent"
        494,021 rows with 8,752 outliers (a download of 2 MB), or 4,898,431 rows with 45,747
        (18 MB).  In memory the full set takes 1.3 GB as float64, half of it as float32, and
        0.3 GB for the classes.
    standardise : bool, default=True
        Whether each feature is shifted and scaled to mean 0 and standard deviation 1; one that
        is constant becomes 0.
    data_home, download_if_missing, dtype, callback
        As for `load_shuttle`, which also lists the errors.  The full file is taken only as
        ``kddcup.data.gz``, the form of which the SHA-256 has been published, by itself or in
        UCI's archive.

    Returns
    -------
    RealData
        `target` has the names of the classes; outliers are all but the three large ones,
        smurf, neptune and normal.

    Examples
    --------
    >>> from robust_kmeans.datasets import load_kddcup
    >>> X, target, outliers = load_kddcup()  # doctest: +SKIP
    >>> X.shape, int(outliers.sum())  # doctest: +SKIP
    ((494021, 34), 8752)
    """
    _check_option("subset", subset, ("10 percent", "full"))
    X, labels, path = _read(
        f"kddcup {subset}", KDDCUP, data_home, download_if_missing, dtype, callback
    )
    target = np.strings.rstrip(labels, b".").astype(f"U{KDDCUP.label.itemsize - 2}")
    outliers = ~np.isin(labels, [f"{name}.".encode() for name in KDDCUP_CLUSTERS])
    if standardise:
        _standardise(X)
    description = (
        f"KDD Cup 1999, {'the full file' if subset == 'full' else 'the 10 percent file'}: "
        f"{len(X):,} rows of {X.shape[1]} features, "
        f"{'standardised' if standardise else 'as published'}; outliers are the "
        f"{outliers.sum():,} rows of all classes but {', '.join(KDDCUP_CLUSTERS)}."
    )
    return RealData(X, target, outliers, KDDCUP.features, description, (path,))


def _read(
    key: str,
    layout: TableFormat,
    data_home: str | os.PathLike[str] | None,
    download_if_missing: bool,
    dtype: DTypeLike,
    callback: DownloadCallback | None,
) -> tuple[NDArray[np.floating], NDArray[Any], Path]:
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype={dtype!r} must be float32 or float64.")
    file = sources.FILES[key]
    path = sources.obtain(
        file, data_home, download_if_missing=download_if_missing, callback=callback
    )
    with closing(text_blocks(path, file.name)) as blocks:
        X, labels = read_table(blocks, layout, file.n_rows, np.dtype(dtype), path)
    return X, labels, path


def _standardise(X: NDArray[np.floating]) -> None:
    """Scale each column in place; block by block, as a copy of all may not fit."""
    blocks = [slice(start, start + ROWS_AT_ONCE) for start in range(0, len(X), ROWS_AT_ONCE)]
    mean = sum(X[rows].sum(axis=0, dtype=np.float64) for rows in blocks) / len(X)
    squares = sum(((X[rows] - mean) ** 2).sum(axis=0) for rows in blocks)
    # A rounded mean leaves a constant column with a deviation that is not quite 0.
    is_constant = X.min(axis=0) == X.max(axis=0)
    deviation = np.where(is_constant, 1.0, np.sqrt(squares / len(X)))
    for rows in blocks:
        X[rows] = np.where(is_constant, 0.0, (X[rows] - mean) / deviation)


def _check_option(name: str, value: object, options: tuple[str, ...]) -> None:
    if value not in options:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, options))}.")
