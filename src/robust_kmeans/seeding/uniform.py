"""``random``: k distinct rows, drawn uniformly.

The baseline of every comparison.  A drawn row is crossed out by giving it D² = 0, so that
chances ∝ min(D², 1) leave it out from then on.  Cost: k passes over the state, no reading
of X.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from robust_kmeans.execution.base import Execution
from robust_kmeans.seeding.drawing import Seeds, as_seeds, clipped, draw, first_row, seed_rows
from robust_kmeans.sweeps.sampling import CROSS_OUT
from robust_kmeans.validation import RandomState


@dataclass(frozen=True)
class RandomSeeding:
    """k distinct rows, uniformly; with weights, in proportion to them, one after the other."""

    def seed(
        self,
        data: Execution,
        n_clusters: int,
        n_outliers: float,  # noqa: ARG002 - every seeding is called alike
        random: np.random.RandomState,
    ) -> Seeds:
        """Draw `n_clusters` rows without replacement."""
        states, row = first_row(data, random)
        rows = [row]
        while len(rows) < n_clusters:
            states, _ = data.run(CROSS_OUT, states, rows[-1].index)
            rows += draw(data, states, clipped(1.0), random.uniform(size=1))
        return as_seeds(rows, n_clusters)


def random_rows(
    X: ArrayLike,
    n_clusters: int,
    *,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Seeds:
    """Choose k distinct rows uniformly.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    sample_weight : array-like of shape (n_samples,), optional
        Chances are in proportion to it; rows of weight 0 are never drawn.
    random_state : int, RandomState or None

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
    indices : ndarray of shape (n_clusters,)
        The rows of X that the centres are.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_kmeans import random_rows
    >>> centers, indices = random_rows(np.eye(4), 2, random_state=0)
    >>> indices
    array([2, 3])
    """
    return seed_rows(
        RandomSeeding(),
        X,
        n_clusters,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=1,
    )
