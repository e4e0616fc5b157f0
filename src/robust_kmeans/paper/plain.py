"""The seedings of the paper's experiments, done plainly in NumPy.

They are what the times of this library are held against: the same method on the same data,
on one thread, from the same random numbers, so that both choose the same rows.  Each function
takes (X, k, z, β, random), whether its method needs them or not, and returns the rows of the
seeds.  Uniform seeds are left out: to draw k random numbers takes next to no time.

Distances are computed in blocks of rows that fit a cache: on large data that is twice as fast as
to subtract a row from all others at once.  Cost: one reading of X per candidate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.floating]
Distances = NDArray[np.floating]
ALPHA, PER_ROUND, RESTARTS = 0.5, 10, 60
BLOCK = 4096


def kmeans_plusplus(
    X: Rows, k: int, _z: int, _beta: float, random: np.random.RandomState
) -> list[int]:
    """Chances ∝ D²."""
    rows = _draw(np.ones(len(X)), random)
    d2 = _squared_distances(X, rows[0])
    while len(rows) < k and d2.any():
        rows += _draw(d2, random)
        np.minimum(d2, _squared_distances(X, rows[-1]), out=d2)
    return rows


def tkmeans_plusplus(
    X: Rows, k: int, z: int, beta: float, random: np.random.RandomState
) -> list[int]:
    """Chances ∝ min(D², β·G/z), with G the trimmed cost of one k-means++."""
    guessed = kmeans_plusplus(X, k, z, beta, random)
    guess = _trimmed_cost(np.min([_squared_distances(X, row) for row in guessed], axis=0), z)
    if guess == 0:
        return guessed
    rows = _draw(np.ones(len(X)), random)
    d2 = _squared_distances(X, rows[0])
    while len(rows) < k and _trimmed_cost(d2, z) > 0:
        rows += _draw(np.minimum(d2, beta * guess / z), random)
        np.minimum(d2, _squared_distances(X, rows[-1]), out=d2)
    return rows


def algorithm_1(X: Rows, k: int, z: int, beta: float, random: np.random.RandomState) -> list[int]:
    """Chances ∝ min(D², β·ρ/z), with ρ the trimmed cost of the seeds so far."""
    rows = _draw(np.ones(len(X)), random)
    d2, threshold = _squared_distances(X, rows[0]), np.inf
    while len(rows) < k and (cost := _trimmed_cost(d2, z)) > 0:
        threshold = min(threshold, beta * cost / z)
        rows += _draw(np.minimum(d2, threshold), random)
        np.minimum(d2, _squared_distances(X, rows[-1]), out=d2)
    return rows


def rkmeans_plusplus(
    X: Rows, k: int, z: int, _beta: float, random: np.random.RandomState
) -> list[int]:
    """Candidates ∝ α/n + (1 − α)·D²/ΣD², ten per round, reduced by weighted k-means++."""
    candidates = _draw(np.ones(len(X)), random)
    d2 = _squared_distances(X, candidates[0])
    nearest = np.zeros(len(X), dtype=np.int64)
    for _ in range(k - 1):
        total = d2.sum()
        chances = ALPHA / len(X) + (1 - ALPHA) * d2 / total if total else np.ones(len(X))
        for row in _draw(chances, random, PER_ROUND):
            distances = _squared_distances(X, row)
            closer = distances < d2
            d2[closer], nearest[closer] = distances[closer], len(candidates)
            candidates.append(row)
    kept = np.argpartition(d2, len(X) - z - 1)[: len(X) - z]
    weights = np.bincount(nearest[kept], minlength=len(candidates)).astype(np.float64)
    useful = np.flatnonzero(weights)
    chosen = _cheapest_choice(X[np.array(candidates)[useful]], weights[useful], k, random)
    return [candidates[useful[row]] for row in chosen]


def _cheapest_choice(
    points: Rows, weights: NDArray[np.float64], k: int, random: np.random.RandomState
) -> list[int]:
    best: list[int] = []
    best_cost = np.inf
    for _ in range(RESTARTS):
        rows = _draw(weights, random)
        d2 = _squared_distances(points, rows[0])
        while len(rows) < k and d2.any():
            rows += _draw(weights * d2, random)
            np.minimum(d2, _squared_distances(points, rows[-1]), out=d2)
        cost = float(weights @ d2)
        if cost < best_cost:
            best, best_cost = rows, cost
        if cost == 0:
            break
    return best


def _squared_distances(X: Rows, row: int) -> Distances:
    d2 = np.empty(len(X), X.dtype)
    for start in range(0, len(X), BLOCK):
        difference = X[start : start + BLOCK] - X[row]
        np.einsum("ij,ij->i", difference, difference, out=d2[start : start + BLOCK])
    return d2


def _trimmed_cost(d2: Distances, z: int) -> float:
    return float(np.partition(d2, len(d2) - z - 1)[: len(d2) - z].sum())


def _draw(chances: NDArray[np.floating], random: np.random.RandomState, size: int = 1) -> list[int]:
    """Rows by inversion: where the running chance first exceeds a uniform number's share."""
    running = np.cumsum(chances)
    found = np.searchsorted(running, random.uniform(size=size) * running[-1], side="right")
    return [int(row) for row in found]
