"""What hypothesis draws: small sets of rows, with ties and duplicates, and budgets for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

DTYPES = (np.float32, np.float64)


class Problem(NamedTuple):
    X: np.ndarray
    n_clusters: int
    n_outliers: int
    weights: np.ndarray | None
    seed: int
    n_chunks: int


@st.composite
def problems(draw, weighted=False):
    """Integer coordinates: every D² is exact in both dtypes, and ties are common."""
    n_rows = draw(st.integers(4, 40))
    n_features = draw(st.integers(1, 4))
    largest = draw(st.sampled_from([1, 3, 10, 50]))
    seed = draw(st.integers(0, 2**31 - 1))
    random = np.random.RandomState(seed)
    X = random.randint(-largest, largest + 1, size=(n_rows, n_features))
    far = draw(st.integers(0, n_rows // 4))
    X[:far] *= 1000
    n_outliers = draw(st.integers(0, n_rows // 3))
    n_clusters = draw(st.integers(1, min(6, n_rows - n_outliers)))
    weights = random.randint(0, 4, size=n_rows).astype(float) if weighted else None
    if weights is not None:
        weights[-n_clusters:] = 1 + n_outliers
    dtype = draw(st.sampled_from(DTYPES))
    return Problem(X.astype(dtype), n_clusters, n_outliers, weights, seed, draw(st.integers(1, 4)))


@st.composite
def distances(draw, dtype):
    """D² of many kinds: spread over the whole range, tied, and zero."""
    n_rows = draw(st.integers(2, 60))
    random = np.random.RandomState(draw(st.integers(0, 2**31 - 1)))
    info = np.finfo(dtype)
    kind = draw(st.sampled_from(["spread", "ties", "gaussian", "zeros"]))
    if kind == "spread":
        exponents = random.uniform(np.log2(info.tiny), np.log2(info.max) - 8, size=n_rows)
        d2 = np.exp2(exponents)
    elif kind == "ties":
        d2 = random.randint(0, 3, size=n_rows).astype(float)
    elif kind == "gaussian":
        d2 = random.standard_normal(n_rows) ** 2
    else:
        d2 = np.where(random.uniform(size=n_rows) < 0.7, 0.0, random.uniform(size=n_rows))
    return d2.astype(dtype)
