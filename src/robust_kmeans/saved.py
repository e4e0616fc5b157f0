"""Models as they were saved: the estimator, and what belongs to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.scaling import Scaling


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model from a file.

    Attributes
    ----------
    estimator : RobustKMeans
        Fitted, but without what concerns single training rows (such as `labels_`).
    scaling : Scaling
        What `estimator` expects to have been applied to its rows.
    library_version : str
        The version of robust-kmeans that wrote the file.
    details : dict
        What was given to `RobustKMeans.save` to be kept.
    cluster_sizes : ndarray of shape (n_clusters,) or None
        The inliers of the fit in each cluster, where they are known.
    not_saved : tuple of str
        The parameters that a file cannot keep; `estimator` has the defaults.
    """

    estimator: RobustKMeans
    scaling: Scaling
    library_version: str
    details: dict[str, Any]
    cluster_sizes: NDArray[np.int64] | None
    not_saved: tuple[str, ...]


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model that `RobustKMeans.save` wrote, with its scaling and details.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    SavedModel

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file.
    ModelFileError
        If it is not a model file, is damaged, or is from a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from robust_kmeans import RobustKMeans
    >>> from robust_kmeans.saved import load_model
    >>> from robust_kmeans.scaling import fit_scaling
    >>> X = [[1.0, 20.0], [2.0, 40.0], [9.0, 20.0], [8.0, 40.0], [900.0, 90.0]]
    >>> scaling = fit_scaling(X, "robust")
    >>> model = RobustKMeans(n_clusters=2, n_outliers=1, random_state=0).fit(scaling.apply(X))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "model.npz"
    ...     model.save(file, scaling=scaling, details={"source": "rows.csv"})
    ...     saved = load_model(file)
    >>> saved.details
    {'source': 'rows.csv'}
    >>> (saved.estimator.predict(saved.scaling.apply(X)) == model.labels_).all()
    np.True_
    """
    contents = RobustKMeans._read(path)
    return SavedModel(
        estimator=RobustKMeans._from_contents(contents),
        scaling=contents.scaling,
        library_version=contents.library_version,
        details=dict(contents.details),
        cluster_sizes=contents.cluster_sizes,
        not_saved=contents.not_saved,
    )
