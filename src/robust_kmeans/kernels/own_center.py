"""D² of many narrow rows at once, each to its own centre.

One row by itself takes longer to add up, across its features, than to measure.  So a tile of rows
is measured feature by feature: what a feature is at each row's own centre is looked up in
registers, in a table that holds that feature of all centres.  Squares are added up in the order of
`squared_distance`, for the same bits.

Costs for m rows, k centres, d features: m·d values looked up, as many as a register holds with one
instruction per `block_of` centres.  For use in kernels only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import (
    LLVM_TYPES,
    REGISTER_BYTES,
    REGISTERS,
    WIDE,
    aligned_empty,
    constant_of,
    join,
    load,
    n_lanes,
    spread,
)

# Only so many features are worth it: with more, rows are as soon measured one by one.
MOST_FEATURES = 16
# With more blocks of centres than this, looking up takes longer, too.
MOST_BLOCKS = 2

block_of = constant_of(lambda dtype: 2 * 8 * REGISTER_BYTES // dtype.bitwidth)
"""How many values of an array are looked up at once: those in two registers."""


@jit
def columns_of(centers):
    """A table to look centres up in: a line per feature, with the values of all centres.

    There are 4, 8 or 16 lines, as long as whole blocks, filled up with 0.  The table is empty where
    looking up is not worth it.
    """
    n_centers, n_features = centers.shape
    block = block_of(centers)
    n_blocks = (n_centers + block - 1) // block
    # Wider rows than all registers hold are added up in another order.
    if n_features > min(MOST_FEATURES, n_lanes(centers)) or n_blocks > MOST_BLOCKS:
        return aligned_empty(0, centers.dtype)
    length = n_blocks * block
    columns = aligned_empty(lines_for(n_features) * length, centers.dtype)
    columns[:] = 0
    for j in range(n_centers):
        for f in range(n_features):
            columns[f * length + j] = centers[j, f]
    return columns


@jit
def lines_for(n_features):
    """How many lines a table or a tile of so many features has."""
    return 4 if n_features <= 4 else 8 if n_features <= 8 else 16


@jit
def distances_to_own(tile, columns, n_features, label):
    """D² of the rows of a tile, each to the centre with its label.

    Features are added up in pairs, those eight apart first, then four, two and one.

    IN   tile (n_lines·lanes,), columns; label: `Lanes`
    """
    n_lines = lines_for(n_features)
    lanes, length = n_lanes(tile), columns.shape[0] // n_lines
    total = half = quarter = spread(tile.dtype.type(0))
    for h in range(2):
        for g in range(h, h + 4, 2):
            for f in range(g, min(n_lines, 8), 4):
                difference = load(tile, f * lanes) - look_up(columns, f * length, length, label)
                pair = difference * difference
                other = f + 8
                if other < n_features:
                    difference = load(tile, other * lanes) - look_up(
                        columns, other * length, length, label
                    )
                    pair = pair + difference * difference
                quarter = pair if f == g else quarter + pair
            half = quarter if g == h else half + quarter
        total = half if h == 0 else total + half
    return total


@intrinsic
def look_up(_typing, table, _position, _length, label):
    """Values of a line of a table, which starts at a position: those with these labels."""
    width, bits = label.width, table.dtype.bitwidth
    kind = ir.VectorType(LLVM_TYPES[table.dtype], width)
    whole = ir.VectorType(ir.IntType(bits), width)

    def emit(context, builder, _signature, arguments):
        data = cgutils.create_struct_proxy(table)(context, builder, arguments[0]).data
        line, length = builder.gep(data, [arguments[1]]), arguments[2]
        numbers = [builder.extract_value(arguments[3], r) for r in range(REGISTERS)]
        indices = [builder.fptosi(each, whole) for each in numbers]

        def from_block(number):
            """What a block has for each register: for labels of other blocks, any value."""
            halves = []
            for half in (2 * number, 2 * number + 1):
                place = builder.gep(line, [length.type(half * width)])
                halves.append(builder.load(builder.bitcast(place, kind.as_pointer())))
                halves[-1].align = bits // 8
            find = _permuted if WIDE else _gathered
            return [find(builder, halves, index) for index in indices]

        found = [cgutils.alloca_once_value(builder, value) for value in from_block(0)]
        for block in range(1, MOST_BLOCKS):
            first = 2 * width * block
            with builder.if_then(builder.icmp_signed(">", length, length.type(first))):
                least = ir.Constant(whole, [first] * width)
                for place, index, value in zip(found, indices, from_block(block), strict=True):
                    here = builder.icmp_signed(">=", index, least)
                    builder.store(builder.select(here, value, builder.load(place)), place)
        return join(builder, [builder.load(place) for place in found])

    return label(table, types.intp, types.intp, label), emit


def _permuted(builder: ir.IRBuilder, halves: list[Any], index: Any) -> Any:
    """One instruction, which looks at no more of an index than counts within a block."""
    kind, bits = halves[0].type, index.type.element.width
    name = f"llvm.x86.avx512.vpermi2var.p{'s' if bits == 32 else 'd'}.512"
    signature = ir.FunctionType(kind, [kind, index.type, kind])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, [halves[0], index, halves[1]])


def _gathered(builder: ir.IRBuilder, halves: list[Any], index: Any) -> Any:
    """The same, lane by lane."""
    integer, width = ir.IntType(32), index.type.count
    both = ir.Constant(ir.VectorType(integer, 2 * width), list(range(2 * width)))
    block = builder.shuffle_vector(*halves, both)
    found = ir.Constant(halves[0].type, ir.Undefined)
    for lane in range(width):
        number = builder.extract_element(index, integer(lane))
        within = builder.and_(number, number.type(2 * width - 1))
        value = builder.extract_element(block, within)
        found = builder.insert_element(found, value, integer(lane))
    return found
