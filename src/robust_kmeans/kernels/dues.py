"""When rows have to be looked at again: a bound on the way that centres may come until then.

A row that was measured keeps its label while its own centre is nearer than all others, and it
stays on its side of the cut while it is far enough from there.  Both are certain until centres have
come a certain way, and that is all that is kept of it: a row's `due`.  If P is how far its own
centre has come in all, and Q how far any other has at most, the row is left alone while P + Q < due
(after Hamerly, *Making k-means even faster*, SDM 2010).  For how far other centres are there is a
second bound: at least as far as they are from its own centre, less its distance.

Rounding: ways are rounded up and dues down, so that a label is kept only where `assign` would find
it again.  For use in kernels only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    REGISTER_BYTES,
    aligned_empty,
    load,
    maximum,
    minimum,
    n_lanes,
    spread,
    square_root,
    where,
)
from robust_kmeans.kernels.own_center import MOST_BLOCKS, block_of, look_up

# By so much of it a sum of a few numbers in float32 may be too large.
ROUNDING = 8 * float(np.finfo(np.float32).eps)
# The least number that float32 holds with all its digits.
LEAST = float(np.finfo(np.float32).tiny)


class Ways(NamedTuple):
    """How far centres have come since a run began, added up and rounded up, per centre (k,).

    `others` is the way of all others, at most; `together` that and the centre's own.
    """

    together: NDArray[np.float32]
    others: NDArray[np.float32]


class Bounds(NamedTuple):
    """What is known of the centres, and the band of D² round the cut.

    `gaps` (k,) is a distance than which no other centre is nearer.  With `measure_first` rows that
    are due are measured before they are compared.
    """

    ways: Ways
    gaps: NDArray[np.float32]
    low: float
    high: float
    measure_first: bool


NOTHING: NDArray[np.float32] = np.empty(0, np.float32)
NOTHING_KNOWN = Bounds(Ways(NOTHING, NOTHING), NOTHING, 0.0, np.inf, False)
"""For comparing every row with every centre."""


@jit
def add_move(movement, slack, own, others, own_out, others_out, together, apart):
    """Add a move to the ways of centres.

    IN   movement (k,): squared; slack: what rounding can do to a distance, as a factor; own (k,)
         and others (k,), float64: how far each has come by itself, and any other at most
    OUT  own_out (k,), others_out (k,): the same after the move; together (k,) and apart (k,): as of
         `Ways`
    """
    farthest = second = 0.0
    first = -1
    for j in range(movement.shape[0]):
        way = np.sqrt(movement[j]) * slack
        own_out[j] = own[j] + way
        if way > farthest or first < 0:
            first, farthest, second = j, way, farthest
        elif way > second:
            second = way
    above = 1 + 2 * np.finfo(np.float32).eps
    for j in range(movement.shape[0]):
        others_out[j] = others[j] + (second if j == first else farthest)
        # Rounded up: to float32, which is off by half an eps, or by the least number there is.
        together[j] = np.float32((own_out[j] + others_out[j]) * above + LEAST)
        apart[j] = np.float32(others_out[j] * above + LEAST)


class Scaled(NamedTuple):
    """`Bounds` in the units in which centres are compared.

    `lines` holds, for all centres, their ways together, those of others, and gaps, one line after
    the other; as long as whole blocks, where they can be looked up in registers.
    """

    lines: NDArray[np.floating]
    low: float
    high: float


NO_LINES: dict[np.dtype[Any], NDArray[np.floating]] = {
    np.dtype(real): np.empty(0, real) for real in (np.float32, np.float64)
}
# Too short a way makes rows due too soon, an endless one would make them never due.
MOST_SCALED = {dtype: float(np.finfo(dtype).max) / 4 for dtype in NO_LINES}


def scaled(bounds: Bounds, scale: float, dtype: np.dtype[np.floating]) -> Scaled:
    """`Bounds` times a scale; with nothing known, nothing."""
    n_centers, block = len(bounds.gaps), 2 * REGISTER_BYTES // dtype.itemsize
    if not n_centers:
        return Scaled(NO_LINES[dtype], bounds.low, bounds.high)
    n_blocks = -(-n_centers // block)
    length = n_blocks * block if n_blocks <= MOST_BLOCKS else n_centers
    lines = np.zeros((3, length), dtype)
    values = np.array((*bounds.ways, bounds.gaps), np.float64) * scale
    lines[:, :n_centers] = np.minimum(values, MOST_SCALED[dtype])
    return Scaled(lines.ravel(), bounds.low, bounds.high)


@jit
def when_due(least, most, other, with_way, label, labels, journey, limits):
    """For a tile of rows: how certain their labels are, the bound on others, when they are due.

    That is by how much others are certainly farther than a row's own centre; how far they are at
    least, with their way; and the way at which the row is due.

    IN   least, most: D² of the rows is between them; other: how far other centres are away at
         least, `with_way` or without; label; these are `Lanes`; labels (lanes,): the same again;
         journey, and its `limits_of`
    """
    lines, lanes = journey.lines, n_lanes(labels)
    real, length = lines.dtype.type, lines.shape[0] // 3
    up, down, smallest, near, far = limits
    if length <= MOST_BLOCKS * block_of(lines):
        together = look_up(lines, 0, length, label)
        apart = look_up(lines, length, length, label)
        gap = look_up(lines, 2 * length, length, label)
    else:
        found = aligned_empty(3 * lanes, lines.dtype)
        for i in range(lanes):
            number = np.uint32(labels[i])
            found[i] = lines[number]
            found[lanes + i] = lines[length + number]
            found[2 * lanes + i] = lines[2 * length + number]
        together, apart, gap = load(found, 0), load(found, lanes), load(found, 2 * lanes)
    if with_way:
        # Where that is negative nothing is known, whatever it is rounded to.
        other = (other - apart) * spread(real(1 - ROUNDING))
    tiny = spread(np.finfo(lines.dtype).tiny)
    above = square_root(maximum(most, tiny)) * spread(real(up))
    below = square_root(maximum(least - tiny, spread(real(0)))) * spread(real(down))
    others = maximum(other, (gap - above) * spread(real(down)))
    room = others - above - spread(real(smallest))
    # Below the band or above it; in it, neither.
    side = maximum(spread(real(near)) - above, below - spread(real(far)))
    # In this order, as nothing is known where one has no value.
    until = minimum(side, room) + together
    # A sum is rounded down whatever its sign is.
    positive = spread(real(0)) < until
    until = until * where(positive, spread(real(1 - ROUNDING)), spread(real(1 + ROUNDING)))
    return room, (others + apart) * spread(real(1 - ROUNDING)), until


@jit
def limits_of(rows, bounds, scale):
    """What `when_due` needs to know of the dtype and of the band, times a scale.

    In float32: a factor that makes a distance certainly too large, another that makes it too small,
    a distance below which squares have lost digits; and the edges of the band, farther apart.
    """
    single, own = np.finfo(np.float32), np.finfo(rows.dtype)
    rounding = 2 * direct_error(rows) + ROUNDING
    near = np.sqrt(bounds.low) * scale * (1 - rounding)
    # Where nothing is cut there is no edge; otherwise it must be one that ways can reach.
    near = near if near == np.inf else min(near, single.max)
    far = np.sqrt(bounds.high) * scale * (1 + rounding)
    least = np.sqrt(own.tiny / own.eps) * scale * (1 + rounding)
    return (
        np.float32(1 + rounding), np.float32(1 - rounding), np.float32(least), np.float32(near),
        np.float32(far),
    )  # fmt: skip


@jit
def direct_error(rows):
    """What rounding can do to two values of `squared_distance` together, as a share of each.

    Its depth is one per `lanes` features, and log₂ lanes; differences are rounded, too.
    """
    return (rows.shape[1] // n_lanes(rows) + 10) * np.finfo(rows.dtype).eps
