"""Centres, made ready to be compared with rows (`scores`).

Their inner products with rows are taken with an origin amid the centres, and in up to three
precisions: whole numbers of 16 bits, float32, and the dtype of the rows.

Costs for k centres, d features: k·d operations, once per move of the centres.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.dues import NOTHING_KNOWN, Bounds, Scaled, scaled
from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.own_center import columns_of
from robust_kmeans.kernels.words import FEATURES, NO_WORDS, Words, to_words, worth_words

Floats = NDArray[np.floating]

# So many centres show where the middle of all is.
SAMPLE = 9
# In float32, float64 values are scaled so that the farthest centre is 2⁴⁰ from the origin: rows may
# be a million times as far away, and centres by 2⁻⁸⁰ nearer, before squares leave its range.
FARTHEST = 40
# And by no more than 2⁴⁶⁰: squares that are lost in float64 are then lost in float32, too.
MOST_SCALED = 460
# Labels are floats while rows are compared: whole numbers up to this one are exact in float32.
MOST_LABELS = 2**24


class Packed(NamedTuple):
    """Centres, made ready for scores, less `origin` and times `scale`.

    `factors` holds −2c, for four centres at a time: feature by feature, the four values next to
    each other.  `norms` is ‖c‖², made so small that no score is too large; infinity for the
    centres that are missing from the last four.  `error` is what rounding can do to a score, as
    a share of ‖x‖² + ‖c‖², and to the difference of two, as a share of ‖x‖².  `columns` are the
    centres as they are, to look them up in; empty where that is not worth it.  `words` are the
    same as `factors` in fewer digits.  `journey` is for rows that are to be left alone for a while.
    """

    origin: Floats
    scale: float
    factors: Floats
    norms: Floats
    error: float
    columns: Floats
    words: Words
    journey: Scaled


class Comparable(NamedTuple):
    """Centres, packed for scores in float32, and for scores in the dtype of the rows."""

    coarse: Packed
    fine: Packed


def pack(centers: Floats, bounds: Bounds = NOTHING_KNOWN) -> Comparable:
    """Make centres ready to be compared, with what is known of them.

    The origin is the median, feature by feature, of a few centres: those that are far from all
    others, such as outliers drawn as seeds, do not take the digits of the rest.
    """
    some = centers[:: -(-len(centers) // SAMPLE)]
    origin = np.sort(some, axis=0)[len(some) // 2]
    fine = _packed(centers, origin, 1.0, centers.dtype, bounds)
    if centers.dtype == np.float32 or len(centers) >= MOST_LABELS:
        return Comparable(fine, fine)
    farthest = np.abs(centers - origin).max()
    scale = 2.0 ** min(FARTHEST - int(np.frexp(farthest)[1]), MOST_SCALED) if farthest > 0 else 1.0
    return Comparable(_packed(centers, origin, scale, np.dtype(np.float32), bounds), fine)


def _packed(
    centers: Floats, origin: Floats, scale: float, dtype: np.dtype[np.floating], bounds: Bounds
) -> Packed:
    n_groups = -(-len(centers) // 4)
    factors = np.zeros(4 * n_groups * centers.shape[1], dtype)
    norms = np.full(4 * n_groups, np.inf, dtype)
    error = _pack(centers, origin, scale, factors, norms)
    # In rounded values rows are only compared, not measured: there is nothing to look up.
    columns = columns_of(centers) if dtype == centers.dtype else np.empty(0, dtype)
    words = NO_WORDS
    if dtype == np.float32 and worth_words(*centers.shape):
        words = to_words(((centers - origin) * centers.dtype.type(scale)).astype(dtype))
    journey = scaled(bounds, scale, dtype)
    return Packed(origin, scale, factors, norms, error, columns, words, journey)


@jit
def _pack(centers, origin, scale, factors, norms):
    """Fill the parts of `Packed`, and return its `error`.

    A sum is off by at most eps/2 times its depth, how many additions a term goes through, as a
    share of all terms' size.  A score adds no more than 64 terms to ‖c‖², and one sum per 64 more
    features; its terms add up to no more than ‖x‖² + 2‖c‖².  ‖x‖² is summed in the same way.  The
    shift, which rounds x and c once each, adds four.  (In other digits than those of the rows they
    are rounded twice, the first time by next to nothing.)

    IN   centers (k, d), origin (d,), scale
    OUT  factors (⌈k/4⌉·d·4,), norms (⌈k/4⌉·4,)
    """
    n_centers, n_features = centers.shape
    real = factors.dtype.type
    depth = min(n_features, FEATURES) + n_features // FEATURES + 6
    error = depth * np.finfo(factors.dtype).eps
    for j in range(n_centers):
        square = 0.0
        for f in range(n_features):
            value = real((centers[j, f] - origin[f]) * centers.dtype.type(scale))
            square += np.float64(value) * np.float64(value)
            factors[(j // 4 * n_features + f) * 4 + j % 4] = real(-2) * value
        norms[j] = square * (1 - error)
    return error
