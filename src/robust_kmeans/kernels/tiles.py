"""Tiles: rows transposed, so that a line holds one feature of many rows, and sums over lines.

Lines are as long as `Lanes`, or a few registers longer.  Rows are transposed in registers: as many
rows as a register has values, and as many features; or half as many features, or a quarter, where
no more are left.  For use in kernels only.
"""

# ruff: noqa: ARG001 - what is written in the place of a call has all arguments of the call

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from robust_kmeans.kernels.lanes import (
    IN_ORDER,
    LLVM_TYPES,
    REGISTER_BYTES,
    REGISTERS,
    everywhere,
    join,
    lanes_of,
    multiply_add,
    pointers,
    width_of_register,
)
from robust_kmeans.kernels.row_registers import lanes_below, load_some, prefetch

# Within so many bytes of a register values are interleaved by one instruction.
SECTION_BYTES = 16


def fill_tile(
    rows, positions, n_columns, first, n_values, origin, scale, tile, raw, stride, ahead, n_ahead
):
    """Copy features of some rows into a tile, less `origin`: row r becomes column r.

    Lines are filled to the end of a register: of features that do not exist, with 0 less what
    `origin` has for them.  Other values are asked for meanwhile; returns from where on to go on.

    IN   rows (m, d), positions (n_columns,): of as many rows as whole registers hold; first,
         n_values: the features; origin (d + a register,); scale: for a tile of fewer digits than
         rows have, by which values are multiplied before they are rounded, otherwise 1; stride: how
         far lines are apart; ahead, n_ahead: the first value of `rows` to ask for, and how many
         with every few rows
    OUT  tile: the lines; raw: the same, but with nothing subtracted, or (0,); for a tile of other
         digits than those of the rows it must be (0,)
    """
    raise NotImplementedError


# In place of the call, which would take a while for so many arrays and so few rows.
@overload(fill_tile, inline="always")
def _fill_tile(
    rows, positions, n_columns, first, n_values, origin, scale, tile, raw, stride, ahead, n_ahead
):
    def fill(
        rows, positions, n_columns, first, n_values, origin, scale, tile, raw, stride, ahead,
        n_ahead,
    ):  # fmt: skip
        width = width_of_register(tile)
        soon = ahead
        f = 0
        while f < n_values:
            left = n_values - f
            # The last features in the fewest steps; but where values are rounded, which takes
            # longer than to move them, rows are gone through less often.
            most = 3 * width // 4 if tile.itemsize == rows.itemsize else width // 2
            whole, half = left > most, 4 * left > width
            for i in range(0, n_columns, width):
                prefetch(rows, soon, n_ahead)
                soon += n_ahead
                to = f * stride + i
                if whole:
                    transpose_all(
                        rows, positions, i, first + f, left, origin, scale, tile, raw, to, stride
                    )
                elif half:
                    transpose_half(
                        rows, positions, i, first + f, left, origin, scale, tile, raw, to, stride
                    )
                else:
                    transpose_quarter(
                        rows, positions, i, first + f, left, origin, scale, tile, raw, to, stride
                    )
            f += width if whole else width // 2 if half else width // 4
        return soon

    return fill


@intrinsic
def add_terms(
    _typing, tile, _n_lines, factors, _at, _n_centers, _with_square, s0, _s1, _s2, _s3, _square
):
    """Sums for up to four centres, and for squares, with the terms of some lines added.

    To the sum of each centre the lines times their factors, one after the other; to `square` their
    squares, if asked for.  That must be asked for with less than four centres; other sums stay as
    they are.

    IN   tile (n_lines·lanes,); factors, at: for line f and centre c at `at` + 4·f + c
    """
    lanes = lanes_of(tile.dtype)
    sums = types.UniTuple(lanes, 5)

    def emit(context, builder, signature, arguments):
        lines, numbers = (
            cgutils.create_struct_proxy(signature.args[i])(context, builder, arguments[i]).data
            for i in (0, 2)
        )
        n_lines, at, n_centers, with_square = (arguments[i] for i in (1, 3, 4, 5))
        totals = [
            [
                cgutils.alloca_once_value(builder, builder.extract_value(total, register))
                for register in range(REGISTERS)
            ]
            for total in arguments[6:]
        ]
        length, four = n_lines.type(REGISTERS * lanes.width), n_lines.type(4)

        def add_lines(n_here, squared):
            with cgutils.for_range(builder, n_lines) as loop:
                places = pointers(builder, lines, builder.mul(loop.index, length), lanes)
                x = [builder.load(place) for place in places]
                for vector in x:
                    vector.align = tile.dtype.bitwidth // 8
                start = builder.add(at, builder.mul(loop.index, four))
                terms = []
                for c in range(n_here):
                    number = builder.load(builder.gep(numbers, [builder.add(start, at.type(c))]))
                    terms.append(
                        (totals[c], [everywhere(builder, number, lanes.width)] * REGISTERS)
                    )
                if squared:
                    terms.append((totals[4], x))
                for total, others in terms:
                    for place, left, right in zip(total, x, others, strict=True):
                        before = builder.load(place)
                        builder.store(multiply_add(builder, left, right, before), place)

        with builder.if_else(with_square) as (then, otherwise):
            with then:
                for n_here in range(5):
                    asked = builder.icmp_signed("==", n_centers, n_centers.type(n_here))
                    with builder.if_then(asked):
                        add_lines(n_here, squared=True)
            with otherwise:
                add_lines(4, squared=False)
        found = [join(builder, [builder.load(place) for place in total]) for total in totals]
        return context.make_tuple(builder, sums, found)

    whole = types.intp
    return sums(tile, whole, factors, whole, whole, types.boolean, *[s0] * 5), emit


def _transposer(parts: int) -> Any:
    """A step of `fill_tile`: features of a register's width, divided by `parts`."""

    @intrinsic
    def transpose(
        _typing, rows, positions, _at, _first, _n_left, origin, _scale, tile, raw, _to, _stride
    ):
        width = 8 * REGISTER_BYTES // tile.dtype.bitwidth
        n_lines = width // parts
        section = min(8 * SECTION_BYTES // tile.dtype.bitwidth, n_lines)
        stages, row_of, feature_of = _network(width, section, n_lines)
        alike = tile.dtype == rows.dtype
        integer = ir.IntType(32)

        def emit(context, builder, signature, arguments):
            values, listed, origins, lines, raw_lines = (
                cgutils.create_struct_proxy(signature.args[i])(context, builder, arguments[i])
                for i in (0, 1, 5, 7, 8)
            )
            at, first, n_left = arguments[2:5]
            scale = arguments[6]
            to, stride = arguments[9:11]
            n_features = cgutils.unpack_tuple(builder, values.shape)[1]
            mask = lanes_below(builder, builder.trunc(n_left, integer), n_lines)
            some = ir.VectorType(LLVM_TYPES[rows.dtype], n_lines)

            def part_of_row(r):
                place = builder.gep(listed.data, [builder.add(at, at.type(r))])
                row = builder.zext(builder.load(place), first.type)
                start = builder.add(builder.mul(row, n_features), first)
                place = builder.bitcast(builder.gep(values.data, [start]), some.as_pointer())
                values_here = load_some(builder, place, mask)
                if alike:
                    return values_here
                # Each by itself: all rows in all their digits would not fit in the registers.
                shifted = builder.fsub(values_here, shift, flags=IN_ORDER)
                return builder.fptrunc(builder.fmul(shifted, factor, flags=IN_ORDER), rounded)

            if not alike:
                place = builder.bitcast(builder.gep(origins.data, [first]), some.as_pointer())
                shift = builder.load(place)
                shift.align = rows.dtype.bitwidth // 8
                factor = everywhere(builder, scale, n_lines)
                rounded = ir.VectorType(LLVM_TYPES[tile.dtype], n_lines)
            square = [_joined(builder, [part_of_row(r) for r in those]) for those in row_of]
            for step, low, high in stages:
                for r in range(n_lines):
                    if not r & step:
                        pair = square[r], square[r + step]
                        square[r] = _picked(builder, *pair, low)
                        square[r + step] = _picked(builder, *pair, high)

            def write(array, f, line):
                position = builder.add(to, builder.mul(stride, stride.type(f)))
                place = builder.gep(array.data, [position])
                written = builder.store(line, builder.bitcast(place, line.type.as_pointer()))
                written.align = tile.dtype.bitwidth // 8

            if alike:
                kept = cgutils.unpack_tuple(builder, raw_lines.shape)[0]
                with builder.if_then(builder.icmp_signed(">", kept, kept.type(0))):
                    for f, line in zip(feature_of, square, strict=True):
                        write(raw_lines, f, line)
            for f, line in zip(feature_of, square, strict=True):
                if alike:
                    place = builder.gep(origins.data, [builder.add(first, first.type(f))])
                    shift = everywhere(builder, builder.load(place), width)
                    line = builder.fsub(line, shift, flags=IN_ORDER)
                write(lines, f, line)
            return context.get_dummy_value()

        whole = types.intp
        return (
            types.none(
                rows, positions, whole, whole, whole, origin, rows.dtype, tile, raw, whole, whole
            ),
            emit,
        )

    return transpose


def _network(
    width: int, section: int, n_lines: int
) -> tuple[list[tuple[int, list[int], list[int]]], list[list[int]], list[int]]:
    """How `n_lines` registers that hold parts of rows become lines of one feature each.

    Stages of exchange between registers `step` apart, each of one instruction per register: values
    are interleaved within sections of a register, and then whole sections.  Which rows' parts the
    registers must hold for that, and which features they hold at the end, is found by following
    every value on its way.
    """
    stages: list[tuple[int, list[int], list[int]]] = []
    step = 1
    while step < n_lines:
        if step < section:
            halves = [
                [
                    register * width + start + half + granule + e
                    for start in range(0, width, section)
                    for granule in range(0, section // 2, step)
                    for register in (0, 1)
                    for e in range(step)
                ]
                for half in (0, section // 2)
            ]
        else:
            halves = [
                [
                    register * width + start + e
                    for register in (0, 1)
                    for start in range(odd * section, width, 2 * section)
                    for e in range(section)
                ]
                for odd in (0, 1)
            ]
        stages.append((step, halves[0], halves[1]))
        step *= 2
    square = [[(r, e) for e in range(width)] for r in range(n_lines)]
    for step, low, high in stages:
        for r in range(n_lines):
            if not r & step:
                pair = square[r] + square[r + step]
                square[r], square[r + step] = [pair[e] for e in low], [pair[e] for e in high]
    row_of = [[0] * (width // n_lines) for _ in range(n_lines)]
    for line in square:
        for row, (r, e) in enumerate(line):
            row_of[r][e // n_lines] = row
    return stages, row_of, [line[0][1] % n_lines for line in square]


def _picked(builder: ir.IRBuilder, left: Any, right: Any, picks: list[int]) -> Any:
    numbers = ir.VectorType(ir.IntType(32), len(picks))
    return builder.shuffle_vector(left, right, ir.Constant(numbers, picks))


def _joined(builder: ir.IRBuilder, vectors: list[Any]) -> Any:
    """One vector after the other, as one; there are a power of two of them."""
    while len(vectors) > 1:
        together = list(range(2 * vectors[0].type.count))
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_picked(builder, *pair, together) for pair in pairs]
    return vectors[0]


transpose_all = _transposer(1)
transpose_half = _transposer(2)
transpose_quarter = _transposer(4)
