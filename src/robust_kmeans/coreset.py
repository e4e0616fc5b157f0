"""Coresets with outliers: few weighted rows that stand for all, whatever the centres.

From centres that a seeding has found, k or more, and the assignment and the cut that belong to
them:

    outliers   all z rows beyond the cut where they are few; otherwise some, with equal chances
    inliers    with chances ∝ w·(½·D²/ΣwD² + ½/(number of clusters·weight of the row's cluster))
    weights    w/chance, then corrected: each cluster, and the outliers together, weigh in the
               coreset what they weigh in the data

Inliers are sampled by sensitivity (Feldman & Langberg, *A unified framework for approximating and
clustering data*, STOC 2011).  Rows are not drawn one by one: they stand in line, cluster after
cluster and each in the order of the data, and a comb with equal gaps picks them (systematic
sampling).  So every cluster, and every stretch of the data, gets its due number of rows.  A coreset
for z outliers must hold in the order of z rows (Huang, Jiang, Lou & Wu, *Near-optimal coresets for
robust clustering*, ICLR 2023): where outliers are sampled, too, expect less of it
(benchmarks/coresets.py).

Cost in readings of X: k for up to six clusters, otherwise one per round of ``robust-k-means||``
and one more; at most one for the rows that are picked; and one where values are checked: no more
than k + 2 or 8, whichever is less.  Where single rows cannot be had without their neighbours
(Parquet, Feather, text), parts of X are read again that hold rows which were not foreseen.  The
rest are passes over D².  `size` rows travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.inputs import opened, rows_of
from robust_kmeans.seeding.drawing import Seeding
from robust_kmeans.seeding.registry import Init, resolve_init
from robust_kmeans.seeding.robust_kmeans_parallel import RobustKMeansParallel
from robust_kmeans.seeding.robust_kmeans_plusplus import RobustKMeansPlusPlus
from robust_kmeans.sweeps.coreset import (
    EXPECTED,
    PART_TOTALS,
    SAMPLE,
    Chances,
    Comb,
    PartsShared,
)
from robust_kmeans.trimming import Placed, find_cut, place
from robust_kmeans.validation import (
    RandomState,
    as_bytes,
    as_centers,
    check_clusters,
    check_count,
    outlier_budget,
)

# Rounds of ``robust-k-means||``, in each of which about so many rows per cluster join.
N_ROUNDS = 5
PER_ROUND = 1.0
# Outliers get this part of the coreset, if there are so many: they decide where the cut is, and
# the inliers where the centres are.
OUTLIERS_PART = 4
# A sample of the inliers has a row of each of k clusters if it has more than two for each.
LEAST_PER_CLUSTER = 4
# Chances are raised until all but this share of the size is used.
UNUSED = 0.005
MOST_RAISES = 20
# Chances add up to a little less than the size, so that rounding never adds a row to it.
WITHIN = 1 - 1e-9


@dataclass(frozen=True)
class Coreset:
    """Weighted rows that stand for all.

    Attributes
    ----------
    points : ndarray of shape (m, n_features)
        In the order of the data.
    weights : ndarray of shape (m,)
        How much weight of the data each point stands for; together all of it.
    indices : ndarray of shape (m,)
        The rows of the data that the points are.
    outliers : ndarray of shape (m,), bool
        Which points were outliers for the centres that the coreset was made with.
    """

    points: NDArray[np.floating]
    weights: NDArray[np.float64]
    indices: NDArray[np.int64]
    outliers: NDArray[np.bool_]


def robust_coreset(
    X: ArrayLike,
    size: int,
    n_clusters: int,
    n_outliers: int | float,
    *,
    sample_weight: ArrayLike | None = None,
    init: Init = "auto",
    random_state: RandomState = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
) -> Coreset:
    """Weighted rows on which k centres cost about what they cost on all rows but z.

    Any method that takes weights can then work on them instead of on `X`: pass `weights` as
    `sample_weight`, and the same `n_outliers`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), path, Dataset or dask collection
    size : int
        Most points of the coreset.  With thirty for each cluster, and more where outliers are
        many, a fit comes within a few per cent of one on all rows.  If there are no more rows
        than that, all of them are returned with their weights.
    n_clusters : int
        Up to how many centres it is for.
    n_outliers : int or float
        How many rows are outliers (int), or which share of them (float in [0, 1)).
    sample_weight : array-like of shape (n_samples,), optional
        An int `n_outliers` is then in units of weight, a share is of the total weight.  Rows
        that weigh nothing are left out.
    init : str, array, callable or seeding, default="auto"
        The centres to begin with, as in `RobustKMeans`.  "auto" takes few readings: up to six
        clusters "robust-k-means++" with one candidate per step; for more the candidates of
        five rounds of "robust-k-means||", which need not be reduced to `n_clusters`.
    random_state : int, RandomState or None
    n_threads : int, optional
        By default the cores that this process may use.  It never changes the result.
    memory_limit : int or str, optional
        For rows on a disk, as in `RobustKMeans`.

    Returns
    -------
    Coreset
        With `points`, `weights`, `indices` and `outliers`.

    Examples
    --------
    >>> from robust_kmeans import RobustKMeans, trimmed_inertia
    >>> from robust_kmeans.coreset import robust_coreset
    >>> from robust_kmeans.datasets import make_contaminated_blobs
    >>> X = make_contaminated_blobs(20_000, n_clusters=5, n_outliers=100, random_state=0).X
    >>> few = robust_coreset(X, 400, 5, 100, random_state=0)
    >>> len(few.points), round(few.weights.sum())
    (400, 20100)
    >>> model = RobustKMeans(5, n_outliers=100, random_state=0)
    >>> centers = model.fit(few.points, sample_weight=few.weights).cluster_centers_
    >>> trimmed_inertia(X, centers, n_outliers=100) < 1.05 * model.fit(X).inertia_
    True
    """
    rows = rows_of(X)
    random = check_random_state(random_state)
    with opened(
        rows,
        sample_weight=sample_weight,
        n_threads=n_threads,
        memory_limit=as_bytes("memory_limit", memory_limit),
    ) as data:
        z = outlier_budget(data, n_outliers)
        check_clusters(data, n_clusters, z)
        check_size(data, size, n_clusters)
        if isinstance(init, str) and init == "auto":
            seeding = usual_seeding(n_clusters)
        else:
            seeding = resolve_init(init, rows, eta=None, n_local_trials=None)
        return make_coreset(data, cover(data, seeding, n_clusters, z, random), size, random)


def usual_seeding(n_clusters: int) -> Seeding:
    """The one that takes fewer readings: one per cluster, or one per round."""
    if n_clusters <= N_ROUNDS + 1:
        return RobustKMeansPlusPlus(n_local_trials=1)
    return RobustKMeansParallel(n_rounds=N_ROUNDS, factor=PER_ROUND)


def cover(
    data: Execution,
    seeding: Seeding,
    n_clusters: int,
    n_outliers: float,
    random: np.random.RandomState,
) -> Placed:
    """The seeding's centres, or all candidates where it has measured these on the way.

    More centres than clusters only help here: rows of the same one are then more alike.
    """
    if isinstance(seeding, RobustKMeansParallel):
        states, candidates = seeding.draw_candidates(data, n_clusters, n_outliers, random)
        centers = np.array([row.point for row in candidates])
        return Placed(centers, states, find_cut(data, states, n_outliers))
    seeds = seeding.seed(data, n_clusters, n_outliers, random)
    # A seeding may be the user's own.
    centers = as_centers(
        seeds.centers, n_clusters, data.n_features, data.dtype, "what the seeding returned"
    )
    return place(data, centers, n_outliers)


def check_size(data: Execution, size: int, n_clusters: int) -> None:
    """Refuse a size that has no room for all clusters and some outliers."""
    check_count("size", size)
    least = LEAST_PER_CLUSTER * (n_clusters + 1)
    if size < min(least, data.n_weighty_rows):
        raise ValueError(
            f"size={size} is too small for n_clusters={n_clusters}: {LEAST_PER_CLUSTER} points "
            f"for each cluster and for the outliers make {least}. Raise size."
        )


def make_coreset(
    data: Execution, placed: Placed, size: int, random: np.random.RandomState
) -> Coreset:
    """A coreset for centres about as good as those that are `placed`, and their outliers."""
    n_clusters = len(placed.centers)
    shared = PartsShared(placed.cut, n_clusters)
    n_rows, mass, cost = data.summarise(PART_TOTALS, placed.states, shared)
    room = _room(n_rows, size)
    chances = _chances(placed, room, n_rows, mass, cost)
    chances, expected = _raised(data, placed.states, chances, room)
    comb = Comb(chances, data.bounds[:-1], _before(expected, random.uniform()))
    found = data.summarise(SAMPLE, placed.states, comb)
    sampled = np.bincount(found.parts, found.weights, minlength=n_clusters + 1)
    correction = np.divide(mass, sampled, out=np.zeros(n_clusters + 1), where=sampled > 0)
    # What clusters weigh that have no point goes to the others.
    correction[:-1] *= mass[:-1].sum() / mass[:-1][sampled[:-1] > 0].sum()
    return Coreset(
        found.points,
        found.weights * correction[found.parts],
        found.indices,
        found.parts == n_clusters,
    )


class Room(NamedTuple):
    """How many inliers and how many outliers the coreset may have."""

    inliers: float
    outliers: float


def _room(n_rows: NDArray[np.float64], size: int) -> Room:
    """All of the inliers or of the outliers, if they are few; otherwise their share."""
    n_inliers, n_outliers = n_rows[:-1].sum(), n_rows[-1]
    outliers = min(n_outliers, max(size // OUTLIERS_PART, size - n_inliers))
    return Room(min(n_inliers, size - outliers), outliers)


def _chances(
    placed: Placed,
    room: Room,
    n_rows: NDArray[np.float64],
    mass: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> Chances:
    """Chances that add up to the room, but for rows whose chance would exceed 1."""
    flat, slope = np.zeros(len(mass)), np.zeros(len(mass))
    filled = np.flatnonzero(mass[:-1])
    if room.inliers == n_rows[:-1].sum():
        flat[filled] = np.inf
    else:
        half = WITHIN * room.inliers / 2
        total = cost[:-1].sum()
        flat[filled] = half / len(filled) / mass[filled]
        slope[filled] = half / total if total > 0 else 0.0
    if room.outliers == n_rows[-1]:
        flat[-1] = np.inf
    else:
        flat[-1] = WITHIN * room.outliers / mass[-1]
    return Chances(placed.cut, flat, slope)


def _raised(
    data: Execution, states: States, chances: Chances, room: Room
) -> tuple[Chances, NDArray[np.float64]]:
    """Chances that use the room, though none exceeds 1; and what they add up to per chunk.

    A row is picked once at most, so heavy rows leave room to others.  In a factor that all
    chances get, what is used is concave: so it never gets more than the room.
    """
    for _ in range(MOST_RAISES):
        expected = np.array(data.summarise(EXPECTED, states, chances))
        used = expected.sum(axis=0)
        inliers = max(1.0, WITHIN * room.inliers / used[:-1].sum())
        outliers = max(1.0, WITHIN * room.outliers / used[-1]) if room.outliers else 1.0
        if max(inliers, outliers) <= 1 + UNUSED:
            break
        factor = np.append(np.full(len(used) - 1, inliers), outliers)
        chances = chances._replace(flat=chances.flat * factor, slope=chances.slope * factor)
    return chances, expected


def _before(expected: NDArray[np.float64], offset: float) -> NDArray[np.float64]:
    """How long the line is before each chunk's rows of each part: one part after the other."""
    line = np.cumsum(expected.T.reshape(-1))
    before = np.concatenate([[0.0], line[:-1]])
    return offset + before.reshape(expected.shape[::-1]).T.copy()
