"""Saving and loading a fitted estimator, as a part of its class.

What is in the file, and how little a file is trusted, is in `model_file`; here is which
attributes go in and come back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from robust_kmeans.model_file import (
    ModelContents,
    ModelFileError,
    parameters_to_keep,
    read_model,
    write_model,
)
from robust_kmeans.scaling import Scaling


class KeptInFiles(BaseEstimator):
    """An estimator with `save` and `load`: what `RobustKMeans` is besides clustering."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        scaling: Scaling | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the fitted model to a file that `load` reads: plain numbers and text, no pickle.

        What concerns single training rows, such as `labels_`, is not kept.  Neither are
        parameters that are objects (a `RandomState`, a callback, a callable or a configured
        seeding as `init`): the loaded model has the defaults for them.

        Parameters
        ----------
        path : path-like
            An existing file is replaced, once the new one is complete.
        scaling : Scaling, optional
            What was applied to the rows before the fit, to be kept for new rows; such a
            model is read by `robust_kmeans.load_model`.
        details : dict, optional
            Plain JSON values to be kept, such as where the data came from.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from robust_kmeans import RobustKMeans
        >>> model = RobustKMeans(2, n_outliers=1).fit([[0.0], [1.0], [9.0], [10.0], [500.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(Path(folder) / "model.npz")
        ...     loaded = RobustKMeans.load(Path(folder) / "model.npz")
        >>> (loaded.predict([[2.0], [600.0]]) == model.predict([[2.0], [600.0]])).all()
        np.True_
        """
        check_is_fitted(self)
        if scaling is not None and not isinstance(scaling, Scaling):
            raise TypeError(
                f"scaling={scaling!r} must be a robust_kmeans.Scaling, which fit_scaling "
                f"gives; leave it out if the rows were not scaled by one."
            )
        n_features = self.cluster_centers_.shape[1]
        parameters, init_centers, not_saved = parameters_to_keep(self.get_params(deep=False))
        names = getattr(self, "feature_names_in_", None)
        contents = ModelContents(
            cluster_centers=self.cluster_centers_,
            outlier_threshold=float(self.outlier_threshold_),
            outlier_share=float(self._outlier_share),
            inertia=float(self.inertia_),
            n_outliers=self.n_outliers_,
            n_iter=self.n_iter_,
            inertia_history=self.inertia_history_,
            scaling=Scaling.none(n_features) if scaling is None else scaling,
            cluster_sizes=self._cluster_sizes,
            feature_names=None if names is None else tuple(names),
            parameters=parameters,
            init_centers=init_centers,
            not_saved=not_saved,
            details={} if details is None else details,
        )
        write_model(path, contents)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote; it predicts the same, to the last bit.

        Raises
        ------
        FileNotFoundError, IsADirectoryError
            If there is no such file.
        ModelFileError
            If it is not a model file, is damaged, is from a newer version, or expects scaled
            columns.
        """
        contents = cls._read(path)
        # Without its scaling the model would answer, and be wrong.
        if contents.scaling.method != "none":
            raise ModelFileError(
                f"{os.fspath(path)!r} is a model of columns with {contents.scaling.method} "
                f"scaling. Read it with robust_kmeans.load_model and pass "
                f"scaling.apply(X) to its estimator, or use the command robust-kmeans predict."
            )
        return cls._from_contents(contents)

    @classmethod
    def _read(cls, path: str | os.PathLike[str]) -> ModelContents:
        return read_model(path, known_parameters=cls._get_param_names())

    @classmethod
    def _from_contents(cls, contents: ModelContents) -> Self:
        model = cls()
        model.set_params(**contents.parameters)
        if contents.init_centers is not None:
            model.set_params(init=contents.init_centers)
        model.n_features_in_ = contents.cluster_centers.shape[1]
        if contents.feature_names is not None:
            model.feature_names_in_ = np.array(contents.feature_names, dtype=object)
        model._outlier_share = contents.outlier_share
        model._cluster_sizes = contents.cluster_sizes
        model.cluster_centers_ = contents.cluster_centers
        model.inertia_ = contents.inertia
        model.outlier_threshold_ = contents.outlier_threshold
        model.n_outliers_ = contents.n_outliers
        model.n_iter_ = contents.n_iter
        model.inertia_history_ = contents.inertia_history
        return model
