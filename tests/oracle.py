"""The algorithms once more, slow and obvious: plain NumPy, float64, written from the papers.

Where the library and this file differ, the library is wrong.
"""

from __future__ import annotations

import numpy as np


def squared_distances(X, centers):
    """Of shape (n, k), as sums of squared differences."""
    X, centers = np.asarray(X, np.float64), np.asarray(centers, np.float64)
    return ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)


def kept_weights(d2, z, weights=None):
    """What each row weighs once z units of weight are trimmed, farthest rows first.

    Rows go in the order (−D², row index), and rows at distance 0 are never trimmed.
    """
    d2 = np.asarray(d2, np.float64)
    kept = np.ones(len(d2)) if weights is None else np.array(weights, np.float64)
    budget = z
    for i in sorted(range(len(d2)), key=lambda i: (-d2[i], i)):
        if d2[i] == 0:
            break
        taken = min(kept[i], budget)
        # Weights such as 0.1 do not add up exactly: a rest of rounding is no weight.
        budget = 0 if budget - taken < 1e-12 * z else budget - taken
        kept[i] = 0 if kept[i] - taken < 1e-12 * z else kept[i] - taken
        if budget == 0:
            break
    return kept


def outliers(d2, z, weights=None):
    """Rows of which nothing is kept; a row that weighed nothing goes with its neighbours."""
    kept = kept_weights(d2, z, weights)
    if not z:
        return np.zeros(len(kept), bool)
    inside = kept > 0
    if not inside.any():
        return np.asarray(d2) > 0
    value = np.asarray(d2)[inside].max()
    boundary = np.flatnonzero(inside & (d2 == value))[0]
    tied = (d2 == value) & (np.arange(len(d2)) < boundary) & (value > 0)
    return (d2 > value) | tied


def trimmed_cost(d2, z, weights=None):
    return float(np.sum(kept_weights(d2, z, weights) * np.asarray(d2, np.float64)))


def inverse_draw(chances, uniform):
    """The first row at which the running chance exceeds the uniform number's share."""
    running = np.cumsum(chances)
    return int(np.flatnonzero(running > uniform * running[-1])[0])


def robust_threshold(d2, z, eta, weights=None, before=np.inf):
    return min(before, eta * trimmed_cost(d2, z, weights) / z) if z else np.inf


def balanced_threshold(d2, z, eta, weights=None, before=np.inf):
    """The largest τ with Σ w·min(D², τ) = (1 + 1/η)·z·τ; η·ρ/z where there is none.

    While the rows with D² ≥ v are clipped, both sides are linear in τ: one root per v.
    """
    start = robust_threshold(d2, z, eta, weights, before)
    d2 = np.asarray(d2, np.float64)
    w = np.ones(len(d2)) if weights is None else np.asarray(weights, np.float64)
    factor = (1 + 1 / eta) * z
    if not z or w[d2 > 0].sum() < factor:
        return start
    roots = [
        (w @ np.where(d2 < v, d2, 0)) / (factor - w[d2 >= v].sum())
        for v in [*np.unique(d2[d2 > 0]), np.inf]
        if w[d2 >= v].sum() < factor
    ]
    return min([start, *roots])


def cut_value(d2, z, weights=None):
    """The largest D² of which something is kept; infinity where nothing is trimmed."""
    return np.max(np.asarray(d2)[kept_weights(d2, z, weights) > 0]) if z else np.inf


def robust_kmeans_plusplus(
    X, k, z, eta, n_trials, random, weights=None, threshold=robust_threshold, n_inside=0
):
    """Row numbers; fewer than k where no cost is left."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    rows = [inverse_draw(w, random.uniform(size=1)[0])]
    d2, tau = squared_distances(X, X[rows]).min(axis=1), np.inf
    while len(rows) < k and trimmed_cost(d2, z, weights) > 0:
        tau = threshold(d2, z, eta, weights, before=tau)
        chances = w * np.minimum(d2, tau)
        inside = w * np.where(d2 <= cut_value(d2, z, weights), d2, 0)
        uniforms = random.uniform(size=n_trials)
        candidates = [inverse_draw(chances, u) for u in uniforms[n_inside:]]
        candidates += [inverse_draw(inside, u) for u in uniforms[:n_inside]]
        trials = [np.minimum(d2, squared_distances(X, X[[c]])[:, 0]) for c in candidates]
        costs = [trimmed_cost(trial, z, weights) for trial in trials]
        best = int(np.argmin(costs))
        rows.append(candidates[best])
        d2 = trials[best]
    return rows


def kmeans_plusplus(X, k, n_trials, random, weights=None):
    return robust_kmeans_plusplus(X, k, 0, 1.0, n_trials, random, weights)


def tkmeans_plusplus(X, k, z, eta, guess, random, weights=None):
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    rows = [inverse_draw(w, random.uniform(size=1)[0])]
    d2 = squared_distances(X, X[rows]).min(axis=1)
    while len(rows) < k and trimmed_cost(d2, z, weights) > 0:
        chances = w * np.minimum(d2, eta * guess / z)
        rows.append(inverse_draw(chances, random.uniform(size=1)[0]))
        d2 = squared_distances(X, X[rows]).min(axis=1)
    return rows


def mixture_candidates(X, k, alpha, per_round, random, weights=None):
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    rows = [inverse_draw(w, random.uniform(size=1)[0])]
    for _ in range(k - 1):
        d2 = squared_distances(X, X[rows]).min(axis=1)
        chances = w * (alpha / w.sum() + (1 - alpha) * d2 / (w @ d2))
        rows += [inverse_draw(chances, u) for u in random.uniform(size=per_round)]
    return rows


def coins(seed, round_number, rows):
    """SplitMix64 at the place of each row, from a start of the round's own, as floats in [0, 1)."""

    def mixed(bits):
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
        return bits ^ (bits >> 31)

    step = 0x9E3779B97F4A7C15
    start = mixed(seed ^ mixed((round_number + 1) * step % 2**64))
    bits = [mixed((start + (row + 1) * step) % 2**64) for row in rows]
    return np.array([(b >> 11) / 2**53 for b in bits])


def parallel_candidates(X, k, z, eta, n_rounds, factor, random, weights=None):
    """Row numbers; of equal rows that join in the same round only the first."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    rows = [inverse_draw(w, random.uniform(size=1)[0])]
    seed = int(random.randint(2**64, dtype=np.uint64))
    tau, n_done = np.inf, 0
    while n_done < n_rounds or len(rows) < k:
        d2 = squared_distances(X, X[rows]).min(axis=1)
        if trimmed_cost(d2, z, weights) == 0:
            break
        tau = robust_threshold(d2, z, eta, weights, before=tau)
        chances = w * np.minimum(d2, tau)
        joins = coins(seed, n_done, range(len(X))) < max(1, factor * k) * chances / chances.sum()
        known = set()
        for i in np.flatnonzero(joins):
            if tuple(X[i]) not in known:
                known.add(tuple(X[i]))
                rows.append(int(i))
        n_done += 1
    return rows


def reduce_to_k(X, candidates, k, z, n_restarts, random):
    """Candidates weighted by the rows that they retain, then the cheapest of several k-means++."""
    distances = squared_distances(X, X[candidates])
    kept = kept_weights(distances.min(axis=1), z)
    weights = np.bincount(distances.argmin(axis=1), kept, minlength=len(candidates))
    useful = np.flatnonzero(weights)
    points, weights = X[candidates][useful], weights[useful]
    best, best_cost = None, np.inf
    for _ in range(n_restarts):
        rows = kmeans_plusplus(points, k, 1, random, weights)
        cost = weights @ squared_distances(points, points[rows]).min(axis=1)
        if best is None or cost < best_cost:
            best, best_cost = rows, cost
        if cost == 0:
            break
    return [candidates[useful[row]] for row in best]


def lloyd_iteration(X, centers, z, weights=None):
    """Assign, cut, means; an empty cluster moves to the farthest row that is kept."""
    distances = squared_distances(X, centers)
    labels, d2 = distances.argmin(axis=1), distances.min(axis=1)
    kept = kept_weights(d2, z, weights)
    moved = np.array(centers, np.float64)
    far = [i for i in sorted(range(len(X)), key=lambda i: (-d2[i], i)) if kept[i] > 0 and d2[i] > 0]
    for j in range(len(centers)):
        mine = kept * (labels == j)
        if mine.sum() > 0:
            moved[j] = mine @ np.asarray(X, np.float64) / mine.sum()
        elif far:
            moved[j] = X[far.pop(0)]
    return moved
