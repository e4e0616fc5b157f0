"""Inner products of values that are rounded to 16 bits: half the time of those in float32.

A row and a centre, less the origin, are divided by a step of their own and rounded to whole
numbers, 64 features at a time; machines that have an instruction for it multiply and add up two of
them per lane at once.  Steps are such that neither a number nor a sum can leave its range: the
numbers of 64 features have at most `LONGEST` for their norm.  Sums are exact, so all that can be
wrong is what was rounded, half a step per feature.  As a share of ‖x‖·‖c‖ that is the same for all
rows and centres (`SHARE`), and little enough to find the nearest centre of most.

For use in kernels only.
"""

# ruff: noqa: ARG001, ARG005 - what is for some dtypes only has all arguments for all of them

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from robust_kmeans.kernels.lanes import (
    REGISTERS,
    WIDE,
    Lanes,
    fused,
    join,
    load,
    maximum,
    n_lanes,
    spread,
    square_root,
    store,
)
from robust_kmeans.kernels.target import has

AT_HAND = WIDE and has("avx512vnni")
# Features per tile of rows, which then takes a third of the L1 cache; the longest sum in one go,
# which keeps rounding small for wide rows; and those that share a step.
FEATURES = 64
# With what is rounded up, below 2¹⁵, and below 2³¹ squared.
LONGEST = 32700.0
# What rounding can do to a score, as a share of ‖x‖·‖c‖.  A score is ‖c‖² − 2x·c; half a step per
# feature makes √64/2 steps in the norm, and a step is 1/LONGEST of it: for x, and for c.
SHARE = 2 * FEATURES**0.5 / LONGEST * 1.01
# Added to a number of no more than 22 bits, it leaves that number, rounded, in the lowest ones.
ROUNDED = np.float32(1.5 * 2**23)
# A step that is smaller would not have all of its digits.
SMALLEST = 1e-37
# From so many centres on it takes longer to compare rows with them than to round the rows; and only
# of rows with more features than a tile has are all scores kept, which decide what is left.
FEWEST_CENTERS = 20


class Words(NamedTuple):
    """Centres in whole numbers; all empty where these are not used.

    `pairs` holds two features of a centre in 32 bits; for four centres at a time: pair by pair, the
    four next to each other.  `steps` is what one number stands for in a score, per 64 features
    and centre; `lengths` what rounding can do to a score, as a share of ‖x‖, per centre.
    """

    pairs: NDArray[np.int32]
    steps: NDArray[np.float32]
    lengths: NDArray[np.float32]


NO_WORDS = Words(np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.float32))
"""Nothing to compare."""


def worth_words(n_centers: int, n_features: int) -> bool:
    """Whether so many centres of so many features should be compared in whole numbers."""
    return AT_HAND and n_features > FEATURES and n_centers >= FEWEST_CENTERS


def to_words(values: NDArray[np.floating]) -> Words:
    """Centres, less the origin, in whole numbers."""
    n_centers, n_features = values.shape
    n_parts, n_pairs = -(-n_features // FEATURES), -(-n_features // 2)
    parts = np.zeros((-(-n_centers // 4) * 4, n_parts, FEATURES))
    parts.reshape(len(parts), -1)[:n_centers, :n_features] = values
    steps = (np.sqrt(np.sum(parts**2, axis=2)) / LONGEST).astype(np.float32)
    # What is smaller is nothing beside the rounding of scores, and of 0 at the least.
    steps[steps < SMALLEST] = 0
    divisors = np.where(steps > 0, steps, np.inf)[:, :, np.newaxis]
    numbers = np.rint(parts / divisors).astype(np.int16).reshape(len(parts), -1)
    pairs = numbers.view(np.int32)[:, :n_pairs].reshape(-1, 4, n_pairs)
    return Words(
        np.ascontiguousarray(pairs.transpose(0, 2, 1)).ravel(),
        np.ascontiguousarray(-2 * steps.T).ravel(),
        (SHARE * np.sqrt(np.sum(parts**2, axis=(1, 2)))).astype(np.float32),
    )


def round_tile(tile, n_features, square, words):
    """Make whole numbers of a tile, two features in 32 bits; returns what one stands for.

    IN   tile (FEATURES·lanes,): features of rows; n_features: of them; square: `Lanes`, the sum of
         their squares
    OUT  words (FEATURES/2·lanes,)
    """
    raise NotImplementedError


@overload(round_tile, inline="always")
def _round_tile(tile, n_features, square, words):
    if not AT_HAND or tile.dtype != types.float32:
        return lambda tile, n_features, square, words: square

    def round_features(tile, n_features, square, words):
        lanes = n_lanes(tile)
        norm = square_root(maximum(square, spread(np.finfo(np.float32).tiny)))
        inverse, rounded = spread(np.float32(LONGEST)) / norm, spread(ROUNDED)
        for f in range(0, n_features - 1, 2):
            even = fused(load(tile, f * lanes), inverse, rounded)
            odd = fused(load(tile, (f + 1) * lanes), inverse, rounded)
            store(words, f // 2 * lanes, as_words(even, odd))
        if n_features % 2 == 1:
            even = fused(load(tile, (n_features - 1) * lanes), inverse, rounded)
            store(words, n_features // 2 * lanes, as_words(even, rounded))
        return norm * spread(np.float32(1 / LONGEST))

    return round_features


def add_products(tile, n_pairs, pairs, at, unit, steps, place, s0, s1, s2, s3):
    """Scores of a tile of words and four centres, with these features added.

    IN   tile (FEATURES/2·lanes,); n_pairs: of it; pairs, at: those of the centres; unit: `Lanes`,
         what a number of each row stands for; steps, place: and of these centres; s0, s1, s2, s3:
         `Lanes`, scores so far
    """
    raise NotImplementedError


@overload(add_products, inline="always")
def _add_products(tile, n_pairs, pairs, at, unit, steps, place, s0, s1, s2, s3):
    if not AT_HAND or unit.dtype != types.float32:
        return (
            lambda tile, n_pairs, pairs, at, unit, steps, place, s0, s1, s2, s3: (
                s0, s1, s2, s3,
            )
        )  # fmt: skip

    def add(tile, n_pairs, pairs, at, unit, steps, place, s0, s1, s2, s3):
        lanes = n_lanes(tile)
        nothing = spread(np.int32(0))
        t0, t1, t2, t3 = nothing, nothing, nothing, nothing
        for p in range(n_pairs):
            x = load(tile, p * lanes)
            t0 = multiply_pairs(t0, x, spread(pairs[at + 4 * p]))
            t1 = multiply_pairs(t1, x, spread(pairs[at + 4 * p + 1]))
            t2 = multiply_pairs(t2, x, spread(pairs[at + 4 * p + 2]))
            t3 = multiply_pairs(t3, x, spread(pairs[at + 4 * p + 3]))
        return (
            fused(as_floats(t0) * unit, spread(steps[place]), s0),
            fused(as_floats(t1) * unit, spread(steps[place + 1]), s1),
            fused(as_floats(t2) * unit, spread(steps[place + 2]), s2),
            fused(as_floats(t3) * unit, spread(steps[place + 3]), s3),
        )

    return add


def _of_integers(lanes: Lanes) -> Lanes:
    return Lanes(types.int32, lanes.width)


def _vectors(builder: ir.IRBuilder, lanes: Any) -> list[Any]:
    return [builder.extract_value(lanes, register) for register in range(REGISTERS)]


@intrinsic
def as_words(_typing, even, odd):
    """The lowest 16 bits of both, those of `odd` above those of `even`."""

    def emit(_context, builder, _signature, arguments):
        whole = ir.VectorType(ir.IntType(32), even.width)
        lowest, above = (ir.Constant(whole, [each] * even.width) for each in (0xFFFF, 16))
        evens, odds = (
            [builder.bitcast(vector, whole) for vector in _vectors(builder, lanes)]
            for lanes in arguments
        )
        return join(
            builder,
            [
                builder.or_(builder.and_(x, lowest), builder.shl(y, above))
                for x, y in zip(evens, odds, strict=True)
            ],
        )

    return _of_integers(even)(even, odd), emit


@intrinsic
def multiply_pairs(_typing, total, _left, _right):
    """The products of both words of each lane, added to a total."""

    def emit(_context, builder, _signature, arguments):
        totals, lefts, rights = (_vectors(builder, lanes) for lanes in arguments)
        kind = totals[0].type
        name = "llvm.x86.avx512.vpdpwssd.512"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), name
        )
        each = zip(totals, lefts, rights, strict=True)
        return join(builder, [builder.call(function, vectors) for vectors in each])

    return total(total, total, total), emit


@intrinsic
def as_floats(_typing, lanes):
    """Whole numbers as float32."""

    def emit(_context, builder, _signature, arguments):
        kind = ir.VectorType(ir.FloatType(), lanes.width)
        return join(builder, [builder.sitofp(x, kind) for x in _vectors(builder, arguments[0])])

    return Lanes(types.float32, lanes.width)(lanes), emit
