"""Blocks of narrow rows: the distances of as many of them as a register has values, at once.

The distance of one narrow row leaves most of a register empty, and takes as many steps to add its
lanes up as that of a wide one.  Here the squares of all rows of a block are added up together, so
that every addition fills a register.  Distances are those of `row_registers.squared_distance`, to
the bit.  For use in kernels only; see `lanes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from robust_kmeans.kernels.lanes import (
    IN_ORDER,
    LLVM_TYPES,
    REGISTER_BYTES,
    REGISTERS,
    lanes_of,
    multiply_add,
)
from robust_kmeans.kernels.row_registers import lanes_below, load_some

# Rows of fewer bytes are narrow.
WIDE = 160


@intrinsic
def distances_of_block(_typing, rows, _i, centers, _j, out, _to):
    """D² of as many rows as a register has values, from row i on, from centre j.

    IN   rows (m, d), i; centers (k, d), j
    OUT  out: from `to` on
    """
    whole = types.intp

    def emit(context, builder, signature, arguments):
        near = cgutils.create_struct_proxy(signature.args[4])(context, builder, arguments[4])

        def use(found, _):
            place = builder.bitcast(builder.gep(near.data, [arguments[5]]), found.type.as_pointer())
            builder.store(found, place).align = rows.dtype.bitwidth // 8

        _block_distances(context, builder, signature, arguments, use)
        return context.get_dummy_value()

    return types.none(rows, whole, centers, whole, out, whole), emit


@intrinsic
def nearer_of_block(_typing, rows, _i, centers, _j, d2):
    """Give D² of as many rows as a register has values, from row i on, the centre j too.

    IN     rows (m, d), i; centers (k, d), j
    INOUT  d2 (m,)
    """
    whole = types.intp

    def emit(context, builder, signature, arguments):
        near = cgutils.create_struct_proxy(signature.args[4])(context, builder, arguments[4])

        def use(found, first):
            align = rows.dtype.bitwidth // 8
            place = builder.bitcast(builder.gep(near.data, [first]), found.type.as_pointer())
            before = builder.load(place)
            before.align = align
            nearer = builder.fcmp_ordered("<", found, before)
            builder.store(builder.select(nearer, found, before), place).align = align

        _block_distances(context, builder, signature, arguments, use)
        return context.get_dummy_value()

    return types.none(rows, whole, centers, whole, d2), emit


@intrinsic
def won_of_block(_typing, rows, _i, centers, _j, d2, out):
    """Which of as many rows as a register has values, from row i on, are nearer to centre j.

    As the bits of an integer.

    IN   rows (m, d), i; centers (k, d), j; d2 (m,)
    OUT  out: their distances from it
    """
    whole = types.intp

    def emit(context, builder, signature, arguments):
        near, new = (
            cgutils.create_struct_proxy(signature.args[a])(context, builder, arguments[a])
            for a in (4, 5)
        )
        bits = ir.IntType(64)
        won = cgutils.alloca_once_value(builder, bits(0))

        def use(found, first):
            align = rows.dtype.bitwidth // 8
            place = builder.bitcast(builder.gep(near.data, [first]), found.type.as_pointer())
            before = builder.load(place)
            before.align = align
            builder.store(found, builder.bitcast(new.data, found.type.as_pointer())).align = align
            nearer = builder.fcmp_ordered("<", found, before)
            flags = builder.bitcast(nearer, ir.IntType(found.type.count))
            builder.store(builder.zext(flags, bits), won)

        _block_distances(context, builder, signature, arguments, use)
        return builder.load(won)

    return types.int64(rows, whole, centers, whole, d2, out), emit


def _block_distances(
    context: Any,
    builder: ir.IRBuilder,
    signature: Any,
    arguments: Any,
    use: Callable[[Any, Any], None],
) -> None:
    """Hand D² of as many narrow rows as a register has values to `use`, and where they begin.

    The arguments are an array, its first row; another, and one row of it.
    """
    rows, centers = (
        cgutils.create_struct_proxy(signature.args[a])(context, builder, arguments[a])
        for a in (0, 2)
    )
    first, j = arguments[1], arguments[3]
    dtype = signature.args[0].dtype
    width = lanes_of(dtype).width
    vector = ir.VectorType(LLVM_TYPES[dtype], width)
    n_features = cgutils.unpack_tuple(builder, rows.shape)[1]
    whole = n_features.type
    center = builder.gep(centers.data, [builder.mul(j, n_features)])
    lines = [
        builder.gep(rows.data, [builder.mul(builder.add(first, whole(r)), n_features)])
        for r in range(width)
    ]
    for n_registers in range(1, (WIDE - 1) // REGISTER_BYTES + 2):
        # So many that none but the last is filled in part only.
        n_before = whole((n_registers - 1) * width)
        longer = builder.icmp_signed(">", n_features, n_before)
        not_longer = builder.icmp_signed("<=", n_features, whole(n_registers * width))
        with builder.if_then(builder.and_(longer, not_longer)):
            count = builder.trunc(builder.sub(n_features, n_before), ir.IntType(32))
            mask = lanes_below(builder, count, width)
            own = _row_values(builder, center, vector, n_registers, mask)
            totals = [
                _lane_totals(builder, _row_values(builder, line, vector, n_registers, mask), own)
                for line in lines
            ]
            use(_totals_in_lanes(builder, totals), first)


def _row_values(
    builder: ir.IRBuilder, line: Any, vector: ir.VectorType, n_registers: int, mask: Any
) -> list[Any]:
    """A row in so many registers, of which the last is masked."""
    values = []
    for register in range(n_registers):
        start = builder.gep(line, [ir.IntType(64)(register * vector.count)])
        place = builder.bitcast(start, vector.as_pointer())
        if register == n_registers - 1:
            values.append(load_some(builder, place, mask))
        else:
            values.append(builder.load(place))
            values[-1].align = 4 if isinstance(vector.element, ir.FloatType) else 8
    return values


def _lane_totals(builder: ir.IRBuilder, x: list[Any], y: list[Any]) -> Any:
    """The squared differences of two rows, added up lane by lane as `squared_distance` does."""
    totals: list[Any] = [None] * REGISTERS
    for number, (a, b) in enumerate(zip(x, y, strict=True)):
        register = number % REGISTERS
        difference = builder.fsub(a, b, flags=IN_ORDER)
        if totals[register] is None:
            totals[register] = builder.fmul(difference, difference, flags=IN_ORDER)
        else:
            totals[register] = multiply_add(builder, difference, difference, totals[register])
    while len(totals) > 1:
        # What is not there is 0.
        totals = [
            a if b is None else builder.fadd(a, b, flags=IN_ORDER)
            for a, b in zip(totals[::2], totals[1::2], strict=True)
        ]
    return totals[0]


def _totals_in_lanes(builder: ir.IRBuilder, vectors: list[Any]) -> Any:
    """The total of each of as many vectors as they have lanes, as `squared_distance` adds them up.

    Lanes of two vectors are added at a time, one half of them to the other; what is left of both
    fills one vector.
    """
    width = vectors[0].type.count
    picks = ir.VectorType(ir.IntType(32), width)
    half = width // 2
    while half:
        lower = [e if not e & half else width + e - half for e in range(width)]
        upper = [e + half if not e & half else width + e for e in range(width)]
        vectors = [
            builder.fadd(
                builder.shuffle_vector(a, b, ir.Constant(picks, lower)),
                builder.shuffle_vector(a, b, ir.Constant(picks, upper)),
                flags=IN_ORDER,
            )
            for a, b in zip(vectors[:half], vectors[half:], strict=True)
        ]
        half //= 2
    return vectors[0]
