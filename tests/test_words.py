"""Scores of values that are rounded to 16 bits: what they tell is certain."""

from __future__ import annotations

import numpy as np
import pytest

from robust_kmeans.kernels import words
from robust_kmeans.kernels.packing import pack
from robust_kmeans.kernels.scores import compare
from robust_kmeans.sweeps.base import all_positions
from tests.test_assign import KINDS, NOBODY, all_distances, data, gaussian

pytestmark = pytest.mark.skipif(
    not words.AT_HAND, reason="this machine has no instruction that multiplies pairs of words"
)
BOTH_DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def told_by_words(X, centers):
    """Which rows are told, and what: labels, D² and the bound on other centres."""
    labels, d2 = np.full(len(X), -1, np.int32), np.full(len(X), -1, X.dtype)
    others, left = np.full(len(X), -1, np.float32), np.empty(len(X), np.int32)
    coarse = pack(centers).coarse
    assert coarse.words.pairs.size > 0
    positions = all_positions(len(X))
    n_left = compare(X, positions, centers, coarse, True, labels, d2, others, NOBODY, left)
    told = np.ones(len(X), bool)
    told[left[:n_left]] = False
    return told, labels, d2, others


@BOTH_DTYPES
@pytest.mark.parametrize("n_features", [65, 66, 127, 128, 130, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_what_words_tell_is_what_the_plain_loop_finds(kind, n_features, dtype):
    for k in (20, 21, 43):
        X, centers = data(kind, 400, n_features, k, dtype)
        told, labels, d2, others = told_by_words(X, centers)
        plain = all_distances(X, centers)
        np.testing.assert_array_equal(labels[told], plain.argmin(axis=1)[told])
        np.testing.assert_array_equal(d2[told], plain.min(axis=1)[told])
        second = np.sqrt(np.sort(plain.astype(np.float64), axis=1)[:, 1])
        assert (others[told] <= second[told] * (1 + 1e-6)).all()


@BOTH_DTYPES
@pytest.mark.parametrize("n_features", [65, 128, 784])
def test_words_tell_nearly_all_rows(n_features, dtype):
    X, centers = data(gaussian, 2000, n_features, 50, dtype)
    centers[-1] += 1  # the only one that is equal to another
    told, *_ = told_by_words(X, centers)
    assert told.mean() > 0.99


@pytest.mark.parametrize("n_features", [65, 100, 784])
def test_rounding_is_within_its_bound(n_features):
    random = np.random.default_rng(0)
    # Features of very different sizes, so that a few have nearly all of the norm.
    sizes = 10.0 ** random.uniform(-6, 3, n_features)
    centers = (random.standard_normal((24, n_features)) * sizes).astype(np.float32)
    rounded = words.to_words(centers)
    n_pairs = (n_features + 1) // 2
    pairs = rounded.pairs.reshape(-1, n_pairs, 4)
    for j, center in enumerate(centers):
        numbers = pairs[j // 4, :, j % 4].copy().view(np.int16)[:n_features].astype(np.int64)
        steps = rounded.steps.reshape(-1, 24)[:, j].repeat(words.FEATURES)[:n_features] / -2
        assert np.abs(numbers).max() < 2**15
        off = center - numbers * steps.astype(np.float64)
        # Half of what both sides may be off together, for the factor 2 of the score.
        assert 2 * np.linalg.norm(off) <= rounded.lengths[j] / 2
        for first in range(0, n_features, words.FEATURES):
            part = numbers[first : first + words.FEATURES]
            assert (part**2).sum() < 2**30


def test_words_are_for_wide_rows_and_many_centers():
    assert words.worth_words(50, 784)
    assert not words.worth_words(50, 64)
    assert not words.worth_words(10, 784)
    assert pack(np.ones((50, 784))).fine.words.pairs.size == 0
