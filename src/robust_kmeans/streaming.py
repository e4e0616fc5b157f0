"""`StreamingRobustKMeans`: k-means with outliers on rows that come in batches and do not stay.

All rows are kept as few weighted points (see `stream_summary`), and `RobustKMeans` is fitted to
these: lazily, when centres or predictions are first asked for after a batch.

Cost: a batch is read about k + 2 times when it comes.  A fit is one of at most
coreset_size·(2 + log₂(n/coreset_size)) weighted points, where n rows have come.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from robust_kmeans.coreset import LEAST_PER_CLUSTER
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.inputs import elsewhere, in_dtype, opened
from robust_kmeans.sources.base import Dataset
from robust_kmeans.stream_summary import Points, Reduction, StreamSummary, nothing_yet
from robust_kmeans.validation import (
    ROW_OPTIONS,
    RandomState,
    as_weights,
    check_auto,
    check_columns,
    check_count,
    check_positive,
    check_share,
    clear_errors,
)

# "auto": enough that a fit on a coreset is within a few per cent of one on all rows.
AUTO_PER_CLUSTER = 200
AUTO_LEAST = 2000
# Of longer batches so many rows are taken in at a time.
BATCH_ROWS = 2**16


class StreamingRobustKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """`RobustKMeans` for batches of rows, by default with 5 % of all rows as outliers.

    Memory is bounded: all rows that have come are kept as a few thousand weighted points.  The
    result is close to that of one fit on all rows, in whichever order they come.

    Parameters
    ----------
    n_clusters : int, default=8
    n_outliers : float, default=0.05
        Which share of all rows that have come (of their weight) are outliers, in [0, 1); never
        a number of rows, because there is no last one.  Single batches may have more or fewer.
    coreset_size : int or "auto", default="auto"
        To how many points blocks of rows are reduced, at least four for each cluster and four
        more.  "auto" is 200 for each cluster, and at least 2000.
    half_life : float, optional
        After so many rows a row counts half.  By default all rows count alike, for ever:
        clusters that are no longer fed stay.  With a half-life they fade, and rows that were
        outliers become a cluster once enough of the recent rows are like them.
    n_threads : int, optional
        By default the cores that this process may use.  It never changes the result.
    random_state : int, RandomState or None

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Fitted when first asked for after a batch, as all that depends on them.  Clusters may
        then be numbered anew.
    outlier_threshold_ : float
        The squared distance above which `predict` calls a row an outlier.
    inertia_ : float
        An estimate of the trimmed cost of all rows that have come, as they count now.  It may
        be far off where outliers are far and `n_outliers` is just their share.
    model_ : RobustKMeans
        The fit to the summary.  Its `save` writes a file that predicts the same; to go on with
        the stream later, pickle this estimator.
    summary_points_ : ndarray of shape (m, n_features)
    summary_weights_ : ndarray of shape (m,)
        The points that stand for all rows; m is at most
        coreset_size · (2 + log₂(n_seen_ / coreset_size)), or coreset_size if that is less.
    n_seen_ : int
        Rows that have come.
    labels_ : ndarray of shape (n_samples,), int32
        After `fit`, what `predict` says of its rows; not after `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the first batch had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans.streaming import StreamingRobustKMeans
    >>> random = np.random.RandomState(0)
    >>> model = StreamingRobustKMeans(2, n_outliers=0.02, random_state=0)
    >>> for _ in range(50):
    ...     batch = random.normal(size=(100, 1)) + random.choice([10, 30], size=(100, 1))
    ...     batch[0] = 1e4 * random.uniform()
    ...     model = model.partial_fit(batch)
    >>> model.n_seen_
    5000
    >>> np.sort(model.cluster_centers_[:, 0]).round().tolist()
    [10.0, 30.0]
    >>> model.predict([[9000.0]])
    array([-1], dtype=int32)
    """

    _model: RobustKMeans | None

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_outliers: float = 0.05,
        coreset_size: int | str = "auto",
        half_life: float | None = None,
        n_threads: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_outliers = n_outliers
        self.coreset_size = coreset_size
        self.half_life = half_life
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: None = None,  # noqa: ARG002 - scikit-learn's convention
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Forget everything, and take in the rows of `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), path or Dataset
            As in `partial_fit`.
        y : None
            Not used; scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            rows, weights = self._checked(X, sample_weight, reset=True)
            self._begin(rows.dtype)
            self._take_in(rows, weights)
            self.labels_ = self.predict(X)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: None = None,  # noqa: ARG002 - scikit-learn's convention
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Take in a batch of rows.  A batch that raises an error leaves the model as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), path or Dataset
            Of any length, also a file, a folder or a pattern such as ``"data/*.parquet"``, or
            what `open_dataset` returns.  The first batch decides on the columns and on float32
            or float64.
        y : None
            Not used; scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            first = not self.__sklearn_is_fitted__()
            rows, weights = self._checked(X, sample_weight, reset=first)
            if first:
                self._begin(rows.dtype)
            self._take_in(rows, weights)
            self.__dict__.pop("labels_", None)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """The cluster of each row; −1 where its squared distance exceeds `outlier_threshold_`."""
        return self.model_.predict(X)

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Euclidean distance of each row to each centre, of shape (n_samples, n_clusters)."""
        return self.model_.transform(X)

    def score_samples(self, X: ArrayLike) -> NDArray[np.floating]:
        """How normal each row is: minus its squared distance to the nearest centre."""
        return self.model_.score_samples(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """`outlier_threshold_` minus the squared distance: negative for outliers."""
        return self.model_.decision_function(X)

    def score(
        self,
        X: ArrayLike,
        y: None = None,  # noqa: ARG002 - scikit-learn's convention
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Minus the trimmed cost of `X`, at the share `n_outliers`."""
        return self.model_.score(X, sample_weight=sample_weight)

    @property
    def model_(self) -> RobustKMeans:
        """The fit to the summary, made when it is first asked for."""
        check_is_fitted(self)
        if self._model is None:
            now = self._now()
            model = RobustKMeans(
                self.n_clusters,
                n_outliers=float(self.n_outliers),
                n_threads=self.n_threads,
                random_state=self._fit_seed,
            )
            model.fit(now.points, sample_weight=now.weights)
            if hasattr(self, "feature_names_in_"):
                model.feature_names_in_ = self.feature_names_in_
            self._model = model
        return self._model

    @property
    def cluster_centers_(self) -> NDArray[np.floating]:
        """The centres."""
        return self.model_.cluster_centers_

    @property
    def outlier_threshold_(self) -> float:
        """The squared distance above which a row is an outlier."""
        return self.model_.outlier_threshold_

    @property
    def inertia_(self) -> float:
        """An estimate of the trimmed cost of all rows."""
        return self.model_.inertia_

    @property
    def summary_points_(self) -> NDArray[np.floating]:
        """The points that stand for all rows."""
        return self._now().points

    @property
    def summary_weights_(self) -> NDArray[np.float64]:
        """What these points weigh now."""
        return self._now().weights

    @property
    def n_seen_(self) -> int:
        """Rows that have come."""
        check_is_fitted(self)
        return self._summary.n_seen

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _checked(
        self, X: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Any, NDArray[np.float64] | None]:
        """Rows (an array or a `Dataset`) whose columns and values are as they must be."""
        self._check_parameters()
        found = elsewhere(X)
        if found is None:
            with clear_errors(X):
                rows = validate_data(self, X, reset=reset, **ROW_OPTIONS)
        elif isinstance(found.rows, Dataset):
            rows = found.rows
            check_columns(self, rows.n_features, found.feature_names, reset=reset)
        else:
            raise TypeError(
                f"X is a {type(X).__name__}; give its blocks to partial_fit one after the other, "
                f"as arrays, or use RobustKMeans, which leaves them where they are."
            )
        corners = None if reset else self._corners
        if not reset:
            rows = in_dtype(rows, self._summary.waiting.points.dtype)
        with opened(
            rows,
            n_threads=self.n_threads,
            feature_names=getattr(self, "feature_names_in_", None),
            centers=corners,
        ):
            return rows, as_weights(sample_weight, rows.shape[0])

    def _check_parameters(self) -> None:
        check_count("n_clusters", self.n_clusters)
        if isinstance(self.n_outliers, Integral) and self.n_outliers != 0:
            raise TypeError(
                f"n_outliers={self.n_outliers!r} must be a float in [0, 1): which share of all "
                f"rows. A stream has no last row, so no number of outliers."
            )
        check_share("n_outliers", self.n_outliers)
        if self.n_outliers == 1:
            raise ValueError("n_outliers=1.0 leaves no inliers; it must be a float in [0, 1).")
        least = LEAST_PER_CLUSTER * (self.n_clusters + 1)
        check_auto("coreset_size", self.coreset_size, f"an int of at least {least}")
        if not isinstance(self.coreset_size, str):
            check_count("coreset_size", self.coreset_size, least)
        if self.half_life is not None:
            check_positive("half_life", self.half_life)

    def _begin(self, dtype: np.dtype[Any]) -> None:
        """An empty summary, and random numbers of its own for this stream and for its fits.

        Fits do not take theirs from the stream's, so that asking for centres in between does
        not change what comes after.
        """
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        self._random_state = np.random.RandomState(seeds[0]).get_state()
        self._fit_seed = int(seeds[1])
        self._summary = StreamSummary(nothing_yet(self.n_features_in_, dtype))
        # Of the box around all rows: distances within it must not overflow.
        self._corners: NDArray[np.floating] | None = None

    def _take_in(self, rows: Any, weights: NDArray[np.float64] | None) -> None:
        random = np.random.RandomState()
        random.set_state(self._random_state)
        reduction = self._reduction()
        bounds = [*range(0, rows.shape[0], BATCH_ROWS), rows.shape[0]]
        batches = (
            rows.scan(bounds)
            if isinstance(rows, Dataset)
            else (rows[start:end] for start, end in pairwise(bounds))
        )
        for (start, end), batch in zip(pairwise(bounds), batches, strict=True):
            part = None if weights is None else weights[start:end]
            self._summary = self._summary.with_rows(batch, part, reduction, random)
            known = batch if self._corners is None else np.concatenate([self._corners, batch])
            self._corners = np.array([known.min(axis=0), known.max(axis=0)])
        self._random_state = random.get_state()
        self._model = None

    def _reduction(self) -> Reduction:
        size = self.coreset_size
        if isinstance(size, str):
            size = max(AUTO_LEAST, AUTO_PER_CLUSTER * self.n_clusters)
        return Reduction(
            size, self.n_clusters, float(self.n_outliers), self.half_life, self.n_threads
        )

    def _now(self) -> Points:
        check_is_fitted(self)
        return self._summary.all_points(self.half_life)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_summary")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters)
