"""`warm_up`: compile everything at once, so that no later call has to wait for it.

Kernels are compiled when they are first called, and kept on disk for the next process where a
folder can be written.  A server, or a container whose folders are thrown away, can do that at
its start.  It runs all that this library has on a few made-up rows: a list of kernels could
miss one, or a type that one is called with.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from robust_kmeans.coreset import robust_coreset
from robust_kmeans.estimator import RobustKMeans
from robust_kmeans.execution import helpers
from robust_kmeans.metrics import trimmed_inertia
from robust_kmeans.seeding.registry import SEEDINGS
from robust_kmeans.seeding.robust_kmeans_plusplus import robust_kmeans_plusplus

DTYPES = ("float32", "float64")


def warm_up(dtypes: Sequence[str] = DTYPES) -> None:
    """Compile all that fits and predictions need, or load it from the cache.

    Parameters
    ----------
    dtypes : sequence of {"float32", "float64"}, default=("float32", "float64")
        Types of data to prepare for.  Integers are clustered as float64.

    Examples
    --------
    >>> import robust_kmeans
    >>> robust_kmeans.warm_up()
    """
    if isinstance(dtypes, str) or not set(dtypes) <= set(DTYPES):
        raise ValueError(f"dtypes={dtypes!r} must be a list of 'float32' and 'float64'.")
    helpers.prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for dtype in dtypes:
            _use_everything(np.dtype(dtype))


def _use_everything(dtype: np.dtype[np.floating]) -> None:
    random = np.random.RandomState(0)
    # Pairs of clusters: local search has something to swap.
    X = (random.randint(6, size=(900, 1)) ** 3 + random.standard_normal((900, 2))).astype(dtype)
    model = RobustKMeans(6, n_outliers=20, random_state=0, n_threads=1).fit(X)
    model.predict(X)
    model.transform(X)
    model.score_samples(X)
    # So wide rows, and so many clusters, that the seeding filters rows.
    wide = np.repeat(X, 32, axis=1)
    for trials in (1, 2):
        RobustKMeans(
            40, n_outliers=0, n_local_trials=trials, local_search=8, max_iter=2, n_threads=1
        ).fit(wide)
    # So many centres that a reading of narrow rows serves several.
    robust_kmeans_plusplus(X, 300, n_outliers=20, n_local_trials=1, n_threads=1)
    weights = random.uniform(size=len(X))
    RobustKMeans(6, n_outliers=20, max_iter=2, n_threads=1).fit(X, sample_weight=weights)
    for name in SEEDINGS:
        RobustKMeans(6, n_outliers=20, init=name, local_search=0, max_iter=1, n_threads=1).fit(X)
    robust_coreset(X, 100, 6, 20, n_threads=1)
    # So many rows at the same distance that the cut has to count them.
    trimmed_inertia(np.ones((3000, 2), dtype), np.zeros((1, 2)), n_outliers=10)
