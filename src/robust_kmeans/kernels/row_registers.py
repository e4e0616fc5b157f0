"""Whole rows in vector registers: the distance between two, and sums of deviations.

Both are written register by register, as the compiler would not do by itself: sums over the
features have a fixed order, so that a distance has the same bits in every kernel, and rows need
not be as long as a register.  For use in kernels only; see `lanes`.
"""

from __future__ import annotations

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
    everywhere,
    lanes_of,
    multiply_add,
    pointers,
)


@intrinsic
def squared_distance(_typing, rows, _i, centers, _j):
    """D² between row i and centre j, both C-contiguous, across the features.

    Each lane adds up its share of them, and the lanes are added in pairs: so the rounding of
    wide rows stays small, and is the same wherever a row lies.
    """

    def emit(context, builder, signature, arguments):
        return _squared_distances(context, builder, signature, arguments, 1, 1)[0]

    return rows.dtype(rows, types.intp, centers, types.intp), emit


@intrinsic
def four_squared_distances(_typing, rows, _i, centers, _j):
    """`squared_distance`, to the bit, of row i and each of the centres j to j + 3.

    The row is read once for all of them.
    """
    four = types.UniTuple(rows.dtype, 4)

    def emit(context, builder, signature, arguments):
        found = _squared_distances(context, builder, signature, arguments, 1, 4)
        return context.make_tuple(builder, four, found)

    return four(rows, types.intp, centers, types.intp), emit


@intrinsic
def two_by_two_squared_distances(_typing, rows, _i, _other, centers, _j):
    """`squared_distance`, to the bit, of rows i and `other`, and of the centres j and j + 1.

    Of row i first.  Each centre is read once for both.
    """
    four = types.UniTuple(rows.dtype, 4)

    def emit(context, builder, signature, arguments):
        found = _squared_distances(context, builder, signature, arguments, 2, 2)
        return context.make_tuple(builder, four, found)

    return four(rows, types.intp, types.intp, centers, types.intp), emit


def _squared_distances(
    context: Any,
    builder: ir.IRBuilder,
    signature: Any,
    arguments: Any,
    n_rows: int,
    n_centers: int,
) -> list[Any]:
    """Of each row all centres: the arguments are an array, some rows of it; another, the first."""
    lanes = lanes_of(signature.args[0].dtype)
    width = lanes.width
    row_data, center_data = (
        cgutils.create_struct_proxy(signature.args[i])(context, builder, arguments[i])
        for i in (0, 1 + n_rows)
    )
    n_features = cgutils.unpack_tuple(builder, row_data.shape)[1]
    whole = n_features.type

    def line(data, number):
        number = builder.sext(number, whole) if number.type != whole else number
        return builder.gep(data, [builder.mul(number, n_features)])

    rows = [line(row_data.data, i) for i in arguments[1 : 1 + n_rows]]
    first_center = builder.sext(arguments[-1], whole)
    centers = [
        line(center_data.data, builder.add(first_center, whole(c))) for c in range(n_centers)
    ]
    nothing = ir.Constant(ir.VectorType(LLVM_TYPES[lanes.dtype], width), None)
    totals = [
        [[cgutils.alloca_once_value(builder, nothing) for _ in range(REGISTERS)] for _ in centers]
        for _ in rows
    ]

    def add(register, first, load):
        """Add the squares of one register's differences to all totals."""
        y = [load(pointers(builder, center, first, lanes)[register]) for center in centers]
        for row, row_totals in zip(rows, totals, strict=True):
            x = load(pointers(builder, row, first, lanes)[register])
            for center, total in zip(y, row_totals, strict=True):
                difference = builder.fsub(x, center, flags=IN_ORDER)
                before = builder.load(total[register])
                after = multiply_add(builder, difference, difference, before)
                builder.store(after, total[register])

    def load_all(place):
        value = builder.load(place)
        value.align = lanes.dtype.bitwidth // 8
        return value

    step = whole(REGISTERS * width)
    n_left = builder.srem(n_features, step)
    n_whole = builder.sub(n_features, n_left)
    with cgutils.for_range_slice(builder, whole(0), n_whole, step) as (first, _):
        for register in range(REGISTERS):
            add(register, first, load_all)
    count = builder.trunc(n_left, ir.IntType(32))
    for register in range(REGISTERS):
        with builder.if_then(builder.icmp_signed(">", n_left, whole(register * width))):
            mask = lanes_below(builder, count, width, register * width)
            add(register, n_whole, lambda place, mask=mask: load_some(builder, place, mask))
    return [
        _total(builder, [builder.load(part) for part in total])
        for row_totals in totals
        for total in row_totals
    ]


@intrinsic
def add_deviation(_typing, rows, _i, centers, _j, sums, _weight):
    """Add row i less centre j, in float64 and times a weight, to line j of `sums` (k, d)."""
    width = REGISTER_BYTES // 8
    narrow, wide = (ir.VectorType(LLVM_TYPES[each], width) for each in (rows.dtype, sums.dtype))

    def emit(context, builder, signature, arguments):
        x, y, total = (
            cgutils.create_struct_proxy(signature.args[a])(context, builder, arguments[a])
            for a in (0, 2, 4)
        )
        n_features = cgutils.unpack_tuple(builder, x.shape)[1]
        whole = n_features.type
        row, center, line = (
            builder.gep(array.data, [builder.mul(arguments[number], n_features)])
            for array, number in ((x, 1), (y, 3), (total, 3))
        )
        weight = everywhere(builder, arguments[5], width)

        def at(data, first, kind):
            return builder.bitcast(builder.gep(data, [first]), kind.as_pointer())

        def add(first, mask):
            value, own = (
                builder.fpext(vector, wide) if narrow != wide else vector
                for vector in (
                    load_some(builder, at(row, first, narrow), mask),
                    load_some(builder, at(center, first, narrow), mask),
                )
            )
            place = at(line, first, wide)
            deviation = builder.fsub(value, own, flags=IN_ORDER)
            before = load_some(builder, place, mask)
            _store_some(builder, multiply_add(builder, deviation, weight, before), place, mask)

        n_left = builder.srem(n_features, whole(width))
        n_whole = builder.sub(n_features, n_left)
        everyone = ir.Constant(ir.VectorType(ir.IntType(1), width), [1] * width)
        with cgutils.for_range_slice(builder, whole(0), n_whole, whole(width)) as (first, _):
            add(first, everyone)
        with builder.if_then(builder.icmp_signed(">", n_left, whole(0))):
            add(n_whole, lanes_below(builder, builder.trunc(n_left, ir.IntType(32)), width))
        return context.get_dummy_value()

    whole = types.intp
    return types.none(rows, whole, centers, whole, sums, types.float64), emit


@intrinsic
def prefetch(_typing, rows, _position, _n_values):
    """Ask for some values, from a position on, to be brought to the L2 cache.

    It does no harm to ask for what lies beyond the array.
    """
    line = 64 * 8 // rows.dtype.bitwidth

    def emit(context, builder, _signature, arguments):
        data = cgutils.create_struct_proxy(rows)(context, builder, arguments[0]).data
        position, n_values = arguments[1:]
        integer, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for_reading, second_level, as_data = integer(0), integer(2), integer(1)
        whole = n_values.type
        with cgutils.for_range_slice(builder, whole(0), n_values, whole(line)) as (offset, _):
            place = builder.bitcast(builder.gep(data, [builder.add(position, offset)]), byte)
            builder.call(function, [place, for_reading, second_level, as_data])
        return context.get_dummy_value()

    return types.none(rows, types.intp, types.intp), emit


def _total(builder: ir.IRBuilder, vectors: list[Any]) -> Any:
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [builder.fadd(x, y, flags=IN_ORDER) for x, y in pairs]
    (vector,) = vectors
    half = vector.type.count
    while half > 1:
        half //= 2
        picks = ir.VectorType(ir.IntType(32), half)
        lower, upper = (
            builder.shuffle_vector(
                vector, vector, ir.Constant(picks, list(range(start, start + half)))
            )
            for start in (0, half)
        )
        vector = builder.fadd(lower, upper, flags=IN_ORDER)
    return builder.extract_element(vector, ir.IntType(32)(0))


def load_some(builder: ir.IRBuilder, place: Any, mask: Any) -> Any:
    """The values at a vector's place where the mask is set, elsewhere 0; only those are read."""
    vector, integer = place.type.pointee, ir.IntType(32)
    bits = 32 if isinstance(vector.element, ir.FloatType) else 64
    kind = ir.FunctionType(vector, [place.type, integer, mask.type, vector])
    name = f"llvm.masked.load.v{vector.count}f{bits}.p0"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [place, integer(bits // 8), mask, ir.Constant(vector, None)])


def _store_some(builder: ir.IRBuilder, vector: Any, place: Any, mask: Any) -> None:
    """Write the values of a vector of float64 where the mask is set, and nothing elsewhere."""
    integer = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [vector.type, place.type, integer, mask.type])
    name = f"llvm.masked.store.v{vector.type.count}f64.p0"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(function, [vector, place, integer(8), mask])


def lanes_below(builder: ir.IRBuilder, count: Any, width: int, skipped: int = 0) -> Any:
    """The mask of those lanes, numbered from `skipped` on, whose number is below `count`."""
    own = ir.Constant(ir.VectorType(count.type, width), list(range(skipped, skipped + width)))
    return builder.icmp_signed("<", own, everywhere(builder, count, width))
