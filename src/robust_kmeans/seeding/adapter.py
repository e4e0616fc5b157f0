"""Any seeding as the `init=` of scikit-learn's KMeans and MiniBatchKMeans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_kmeans.seeding.drawing import Seeding, seed_rows
from robust_kmeans.seeding.registry import seeding_by_name
from robust_kmeans.validation import RandomState


@dataclass(frozen=True)
class SeedingInit:
    """A callable (X, n_clusters, random_state=…) → centres; made by `as_init`."""

    seeding: Seeding
    n_outliers: int | float
    n_threads: int | None = None

    def __call__(
        self, X: ArrayLike, n_clusters: int, random_state: RandomState = None
    ) -> NDArray[np.floating]:
        """Centres of shape (n_clusters, n_features) for X."""
        seeds = seed_rows(
            self.seeding,
            X,
            n_clusters,
            n_outliers=self.n_outliers,
            random_state=random_state,
            n_threads=self.n_threads,
        )
        return seeds.centers


def as_init(
    seeding: str | Seeding,
    *,
    n_outliers: int | float,
    eta: float | None = None,
    n_local_trials: int | None = None,
    oversampling: float | None = None,
    n_threads: int | None = None,
) -> SeedingInit:
    """Make a seeding usable as `init=` of scikit-learn's estimators.

    Parameters
    ----------
    seeding : str or seeding object
        A name, such as ``"rkm++"``, or a configured seeding, such as
        ``MixtureSeeding(delta=0.2)``.
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)).
        MiniBatchKMeans seeds on a sample of X, so there a share is what you want.
    eta, n_local_trials, oversampling : optional
        For a seeding given by name, where it has such a parameter.
    n_threads : int, optional
        By default the cores that the process may use.

    Returns
    -------
    callable
        It can be pickled, and cloned with its estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> from robust_kmeans import as_init
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = KMeans(2, init=as_init("robust-k-means++", n_outliers=1), random_state=0)
    >>> sorted(model.fit(X).cluster_centers_[:, 0])
    [np.float64(1.0), np.float64(10.0)]
    """
    options = {"eta": eta, "n_local_trials": n_local_trials, "oversampling": oversampling}
    if isinstance(seeding, str):
        seeding = seeding_by_name(seeding, **options)
    elif isinstance(seeding, type) or not hasattr(seeding, "seed"):
        raise TypeError(f"seeding={seeding!r} must be a name or a seeding object.")
    elif any(value is not None for value in options.values()):
        raise ValueError(
            "eta, n_local_trials and oversampling belong to a seeding given by name; set them "
            "on it."
        )
    return SeedingInit(seeding, n_outliers, n_threads)
