"""`RobustKMeans`: k-means that knows that some rows are outliers, as a scikit-learn estimator."""

from __future__ import annotations

import hashlib
import os
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from robust_kmeans.checkpoint import Checkpoint, fingerprint_of
from robust_kmeans.clustering import finish
from robust_kmeans.execution.base import Execution
from robust_kmeans.inputs import elsewhere, in_dtype, opened, per_row
from robust_kmeans.lloyd import LloydRun
from robust_kmeans.local_search import default_steps
from robust_kmeans.outlier_count import estimate_outliers
from robust_kmeans.persistence import KeptInFiles
from robust_kmeans.pipeline import Plan, solve
from robust_kmeans.reporting import (
    LOGGER,
    Callback,
    Progress,
    log_progress,
    verbose_logging,
)
from robust_kmeans.seeding.drawing import Seeding, check_oversampling
from robust_kmeans.seeding.registry import Init, is_seeding, resolve_init
from robust_kmeans.sweeps.distances import ASSIGN, Centers
from robust_kmeans.sweeps.rows import Model, distances_to, predicted_d2, predicted_labels
from robust_kmeans.trimming import run_and_cut
from robust_kmeans.validation import (
    ROW_OPTIONS,
    RandomState,
    as_bytes,
    check_auto,
    check_clusters,
    check_columns,
    check_count,
    check_stopping,
    clear_errors,
    outlier_budget,
)


class RobustKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, KeptInFiles):
    """k-means that leaves out the farthest rows, by default 5 % of them, as outliers.

    Finds k centres that minimise the sum of squared distances over all rows but the z
    farthest, and says which rows those are.

    Parameters
    ----------
    n_clusters : int, default=8
    n_outliers : int, float or "auto", default=0.05
        How many rows are outliers (int), or which share of them (float in [0, 1)).  "auto"
        counts the rows that stand apart from all clusters; it takes about ten fits, wants
        thousands of rows in clusters that are separated, and takes rows in heavier than
        Gaussian tails for outliers.
    init : str, array, callable or seeding, default="auto"
        Where to start: "robust-k-means++", "robust-k-means||", "k-means++", "tkm++", "rkm++"
        or "random"; an array of shape (n_clusters, n_features); a callable
        (X, n_clusters, random_state) that returns one; or a configured seeding such as
        ``MixtureSeeding(delta=0.2)``.  "auto" means "robust-k-means++", and
        "robust-k-means||", which reads X less often, where X has 1 GiB or more.  Given an array,
        clusters stay near its centres: there is no local search unless asked for, and no momentum.
    eta : float, optional
        The factor of the threshold of "robust-k-means++" and "tkm++" (0.5 by default), and of
        "robust-k-means||" (0.1).
    n_local_trials : int, optional
        Candidates per step of "robust-k-means++" and "k-means++" (2 + ⌊ln k⌋ by default).
    oversampling : float, default=0.0
        "robust-k-means++", "tkm++" and "rkm++" draw 1 + `oversampling` times `n_clusters`
        rows, and reduce them to `n_clusters` centres.
    local_search : "auto" or int, default="auto"
        How many rows, in steps of eight, are tried as new places for a centre, once Lloyd has
        run a little: that finds clusters which the seeding has missed.  0 leaves it out;
        "auto" means 15 for each cluster, at least 150, and none where `init` is an array of
        centres.  It ends early when half of them in a row have brought next to nothing.  Where
        X has 1 GiB or more it looks at a coreset (131,072 rows or 16 million values, whatever is
        less, but at least 1,000 rows for each cluster).
    n_init : int, default=1
        Runs from different seeds.  The better half after five iterations are finished, and
        the one with the least trimmed cost is kept.
    max_iter : int, default=300
        Most Lloyd iterations of a run, of which the first five come before local search (a
        few more, if a cluster is left without an inlier).
    tol : float, default=1e-4
        A run ends when the centres' squared movement is at most `tol` times the inliers'
        mean squared deviation per feature.
    n_threads : int, optional
        By default the cores that this process may use.  It never changes the result.
    memory_limit : int or str, optional
        For rows on a disk: how much RAM (bytes, or text such as "2 GB") may be used for rows
        being read and for what is kept per row, by default half of the machine's.  Rows that
        are slow to decode stay in it if they are less than 1 GiB, and there is room.  What is
        kept per row beyond it goes to files without a name, in the folder for temporary files
        (TMPDIR).  It never changes the result.
    checkpoint : path-like, optional
        A file in which a long fit keeps, every few seconds, how far it has come.  If the fit is
        interrupted or killed, the next one with the same file, data and parameters goes on from
        there, and ends with the same result; then the file is removed.  A few
        other values in X may go unnoticed.  Not with ``n_outliers="auto"``.
    callback : callable, optional
        Called with a `Progress` after each seeding, each iteration and each few candidates of
        local search; what it returns is ignored, and what it raises ends the fit.
    verbose : int, default=0
        1 logs each run, 2 each iteration, to the logger ``robust_kmeans`` (standard error
        where logging is not set up).
    random_state : int, RandomState or None

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    labels_ : ndarray of shape (n_samples,), int32
        The cluster of each row; −1 for outliers.
    nearest_labels_ : ndarray of shape (n_samples,), int32
        The nearest centre of each row, outliers too.
    inertia_ : float
        Sum of squared distances over the inliers (the trimmed cost).
    outlier_indices_ : ndarray of shape (n_outliers_,)
        The outliers' rows, in ascending order.
    outlier_scores_ : ndarray of shape (n_samples,)
        Squared distance of each row to its nearest centre.
    outlier_threshold_ : float
        The score above which `predict` calls a row an outlier: the middle between the
        largest score kept and the smallest flagged; infinity where none is flagged.
    n_outliers_ : int or float
        How many rows were trimmed; with `sample_weight`, how much weight.
    n_iter_ : int
        Lloyd iterations of the best run.
    inertia_history_ : ndarray
        The trimmed cost of the seeds of the best run, and after each iteration and swap; with
        ``n_outliers="auto"``, of its last iterations, once the outliers had been counted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where X had column names.

    Notes
    -----
    All figures come from one last assignment and cut on the returned centres.  Ties at the
    cut go to the lowest row index, and rows at distance 0 are never outliers.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans import RobustKMeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [900, 900]])
    >>> model = RobustKMeans(n_clusters=2, n_outliers=1, random_state=0).fit(X)
    >>> model.outlier_indices_
    array([6])
    >>> model.predict([[1, 1], [9, 3], [5000, 0]]) == [*model.labels_[[0, 3]], -1]
    array([ True,  True,  True])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_outliers: int | float | str = 0.05,
        init: Init = "auto",
        eta: float | None = None,
        n_local_trials: int | None = None,
        oversampling: float = 0.0,
        local_search: int | str = "auto",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        callback: Callback | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_outliers = n_outliers
        self.init = init
        self.eta = eta
        self.n_local_trials = n_local_trials
        self.oversampling = oversampling
        self.local_search = local_search
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: None = None,  # noqa: ARG002 - scikit-learn's convention
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Find the centres and the outliers of `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), path, Dataset or dask collection
            float32 and float64 are used as they are, anything else becomes float64; a float
            array in C order is not copied.  Rows may also stay where they are, and give the
            same result: a file, a folder or a pattern such as ``"data/*.parquet"`` (.npy,
            .parquet, .feather, .csv), what `open_dataset` returns, a `pyarrow.dataset`, or a
            dask array or data frame.
        y : None
            Not used; scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), optional
            An int `n_outliers` is then in units of weight, a share is of the total weight;
            the row at the boundary counts with what is left of its weight, as an inlier.

        Returns
        -------
        self
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, sample_weight)
        except BaseException:
            # scikit-learn's checks have already noted the new columns: all or nothing.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        self._check_parameters()
        rows = self._rows(X, reset=True)
        seeding = resolve_init(
            self.init,
            rows,
            eta=self.eta,
            n_local_trials=self.n_local_trials,
            oversampling=self.oversampling,
        )
        with (
            verbose_logging(self.verbose),
            self._open(rows, sample_weight=sample_weight, callback=self.callback) as data,
        ):
            run, z = self._solve(data, seeding)
            result = finish(data, run, z)
            if (checkpoint := self._checkpoint(data, z)) is not None:
                checkpoint.remove()
            self._outlier_share = z / data.total_weight
        self._cluster_sizes = result.cluster_sizes
        self.cluster_centers_ = result.cluster_centers
        self.labels_ = result.labels
        self.nearest_labels_ = result.nearest_labels
        self.inertia_ = result.inertia
        self.outlier_indices_ = result.outlier_indices
        self.outlier_scores_ = result.outlier_scores
        self.outlier_threshold_ = result.outlier_threshold
        self.n_outliers_ = result.n_outliers
        self.n_iter_ = result.n_iter
        self.inertia_history_ = result.inertia_history
        return self

    def _solve(self, data: Execution, seeding: Seeding) -> tuple[LloydRun, float]:
        """The best run, and its number of outliers."""
        plan = Plan(
            n_init=self.n_init,
            n_steps=self._search_steps(),
            max_iter=self.max_iter,
            tol=self.tol,
            # Who gives centres wants clusters near them: momentum may carry them away.
            momentum=not self._starts_from_array(),
        )
        random = check_random_state(self.random_state)

        def fit(z: float) -> LloydRun:
            LOGGER.info("%d rows, %d clusters, %g outliers", data.n_rows, self.n_clusters, z)
            checkpoint = self._checkpoint(data, z)
            return solve(data, self.n_clusters, z, seeding, plan, random, self._report, checkpoint)

        if not isinstance(self.n_outliers, str):
            z = outlier_budget(data, self.n_outliers)
            check_clusters(data, self.n_clusters, z)
            return fit(z), z
        check_clusters(data, self.n_clusters)
        run = estimate_outliers(
            data, self.n_clusters, fit, max_iter=self.max_iter, tol=self.tol, random=random
        )
        return run, run.cut.weight

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """The cluster of each row; −1 where its score exceeds `outlier_threshold_`.

        Each row is judged by itself, so flags do not depend on the batch.  On the training
        data this gives `labels_`, but for rows tied at the cut.  Of a dask collection it is a
        lazy dask array, as with `transform`, `score_samples` and `decision_function`.
        """
        check_is_fitted(self)
        model = Model(self.cluster_centers_, self.outlier_threshold_)
        labels: NDArray[np.int32] = self._per_row(X, predicted_labels, model, np.int32)
        return labels

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Euclidean distance of each row to each centre, of shape (n_samples, n_clusters)."""
        check_is_fitted(self)
        centers = self.cluster_centers_
        distances: NDArray[np.floating] = self._per_row(
            X, distances_to, centers, centers.dtype, len(centers)
        )
        return distances

    def score_samples(self, X: ArrayLike) -> NDArray[np.floating]:
        """How normal each row is: minus its squared distance to the nearest centre."""
        check_is_fitted(self)
        centers = self.cluster_centers_
        d2: NDArray[np.floating] = self._per_row(X, predicted_d2, centers, centers.dtype)
        return -d2

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """`outlier_threshold_` minus the squared distance: negative for outliers."""
        scores = self.score_samples(X)
        return np.float64(self.outlier_threshold_) + scores

    def score(
        self,
        X: ArrayLike,
        y: None = None,  # noqa: ARG002 - scikit-learn's convention
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Minus the trimmed cost of `X` at the share of outliers of the fit.

        The one method that cuts per batch: otherwise a model that flags everything would
        win a search over parameters.
        """
        with self._open_new(X, sample_weight=sample_weight) as data:
            z = outlier_budget(data, self._outlier_share)
            return -run_and_cut(data, ASSIGN, None, Centers(self.cluster_centers_), z)[1].cost

    def _check_parameters(self) -> None:
        check_count("n_clusters", self.n_clusters)
        check_count("n_init", self.n_init)
        check_count("verbose", self.verbose, least=0)
        check_stopping(self.max_iter, self.tol)
        check_auto(
            "n_outliers",
            self.n_outliers,
            "an int (how many rows), a float in [0, 1) (which share of them)",
        )
        check_auto("local_search", self.local_search, "an int of at least 0 (how many rows to try)")
        if not isinstance(self.local_search, str):
            check_count("local_search", self.local_search, least=0)
        check_oversampling(self.oversampling)
        if self.checkpoint is not None and isinstance(self.n_outliers, str):
            raise ValueError(
                'checkpoint works with a number or a share of outliers; n_outliers="auto" is many '
                "fits. Leave checkpoint out, or count the outliers on a sample first."
            )
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback={self.callback!r} must be callable with one argument.")
        if self._starts_from_array() and self.n_init > 1:
            raise ValueError(
                f"n_init={self.n_init} runs from one array of centres would all be equal; "
                f"use n_init=1."
            )

    def _starts_from_array(self) -> bool:
        named = isinstance(self.init, str) or callable(self.init)
        return not named and not is_seeding(self.init)

    def _search_steps(self) -> int:
        if not isinstance(self.local_search, str):
            return self.local_search
        # Who gives centres wants clusters near them, and in their order.
        return 0 if self._starts_from_array() else default_steps(self.n_clusters)

    def _checkpoint(self, data: Execution, z: float) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        # Seedings are values: what they show is what they do.
        given = repr(self.init)
        if self._starts_from_array():
            given = hashlib.sha256(np.asarray(self.init).tobytes()).hexdigest()
        elif callable(self.init):
            given = getattr(self.init, "__qualname__", type(self.init).__qualname__)
        seed = self.random_state if isinstance(self.random_state, Integral) else None
        names = ("eta", "n_local_trials", "oversampling", "n_init", "max_iter", "tol")
        parameters = {name: getattr(self, name) for name in names} | {
            "init": given,
            "local_search": self._search_steps(),
            "random_state": None if seed is None else int(seed),
        }
        return Checkpoint(self.checkpoint, fingerprint_of(data, self.n_clusters, z, parameters))

    def _report(self, progress: Progress) -> None:
        log_progress(progress)
        if self.callback is not None:
            self.callback(progress)

    def _open(self, rows: Any, **options: Any) -> Any:
        return opened(rows, **self._opening(), **options)

    def _opening(self) -> dict[str, Any]:
        return {
            "n_threads": self.n_threads,
            "memory_limit": as_bytes("memory_limit", self.memory_limit),
            "feature_names": getattr(self, "feature_names_in_", None),
        }

    def _per_row(
        self, X: ArrayLike, step: Any, shared: Any, dtype: DTypeLike, n_columns: int | None = None
    ) -> Any:
        rows = self._new_rows(X)
        centers = self.cluster_centers_
        return per_row(rows, step, shared, dtype, n_columns, centers=centers, **self._opening())

    def _open_new(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        check_is_fitted(self)
        rows = self._new_rows(X)
        return self._open(rows, sample_weight=sample_weight, centers=self.cluster_centers_)

    def _new_rows(self, X: ArrayLike) -> Any:
        """Rows of new data in the dtype of the centres, whose kernels decided the threshold."""
        return in_dtype(self._rows(X, reset=False), self.cluster_centers_.dtype)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """`X` as an array, or as it is where it is not in memory; its columns are those of fit."""
        found = elsewhere(X)
        if found is None:
            with clear_errors(X):
                return validate_data(self, X, reset=reset, **ROW_OPTIONS)
        check_columns(self, found.rows.shape[1], found.feature_names, reset=reset)
        return found.rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])
