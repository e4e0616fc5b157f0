"""From many candidate centres to exactly k.

Every row has joined its nearest candidate; the z farthest rows are dropped, and a candidate
weighs what it kept.  Weighted k-means++ on the candidates, several times, then chooses k of
them, and the choice that is cheapest on the weighted candidates wins.

Cost: passes over the state, no reading of X; the rest is on the candidates alone.
"""

from __future__ import annotations

import numpy as np

from robust_kmeans.execution.base import Execution, States
from robust_kmeans.execution.memory import InMemory
from robust_kmeans.seeding.drawing import Seeds
from robust_kmeans.seeding.kmeans_plusplus import KMeansPlusPlus
from robust_kmeans.sweeps.distances import ASSIGN, Centers
from robust_kmeans.sweeps.means import CLUSTER_MASS, ClusterShared
from robust_kmeans.trimming import find_cut, run_and_cut


def reduce_to_k(
    data: Execution,
    states: States,
    candidates: Seeds,
    n_clusters: int,
    n_outliers: float,
    n_restarts: int,
    random: np.random.RandomState,
) -> Seeds:
    """Choose `n_clusters` of the candidates to which `states` assign all rows."""
    cut = find_cut(data, states, n_outliers)
    shared = ClusterShared(cut, len(candidates.centers))
    retained = data.summarise(CLUSTER_MASS, states, shared)
    # Repeated candidates, and those that attracted only outliers, retain nothing.
    useful = np.flatnonzero(retained > 0)
    with InMemory(candidates.centers[useful], retained[useful], n_threads=1) as small:
        chosen = useful[_cheapest_choice(small, n_clusters, n_restarts, random).indices]
    return Seeds(candidates.centers[chosen], candidates.indices[chosen])


def _cheapest_choice(
    candidates: Execution, n_clusters: int, n_restarts: int, random: np.random.RandomState
) -> Seeds:
    best, best_cost = None, np.inf
    for _ in range(n_restarts):
        seeds = KMeansPlusPlus(n_local_trials=1).seed(candidates, n_clusters, 0, random)
        cost = run_and_cut(candidates, ASSIGN, None, Centers(seeds.centers), n_outliers=0)[1].cost
        if best is None or cost < best_cost:
            best, best_cost = seeds, cost
        if cost == 0:
            break
    assert best is not None
    return best
