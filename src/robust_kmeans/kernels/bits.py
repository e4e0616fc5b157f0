"""Which lanes of a comparison are true, as the bits of an integer, to go through them one by one.

    bits = as_bits(load(values, first) < limit)
    while bits != 0:
        ... first + lowest(bits) ...
        bits &= bits - 1

Where few lanes are true that is several times as fast as to look at each, and where many are it
is as fast.  For use in kernels only.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.lanes import REGISTER_BYTES, REGISTERS, everywhere


@intrinsic
def as_bits(_typing, mask):
    """The lanes that are true, the first one as the lowest bit."""

    def emit(_context, builder, _signature, arguments):
        integer = ir.IntType(64)
        bits = integer(0)
        for register in range(REGISTERS):
            lanes = builder.extract_value(arguments[0], register)
            part = builder.zext(builder.bitcast(lanes, ir.IntType(mask.width)), integer)
            bits = builder.or_(bits, builder.shl(part, integer(register * mask.width)))
        return bits

    return types.int64(mask), emit


@intrinsic
def below(_typing, table, _position, _limit):
    """Which values of a register's worth of an array, from a position on, are less than a limit."""

    def emit(context, builder, _signature, arguments):
        data = cgutils.create_struct_proxy(table)(context, builder, arguments[0]).data
        width = 8 * REGISTER_BYTES // table.dtype.bitwidth
        kind = ir.VectorType(data.type.pointee, width)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), kind.as_pointer())
        values = builder.load(place)
        values.align = table.dtype.bitwidth // 8
        limit = everywhere(builder, arguments[2], width)
        less = builder.bitcast(builder.fcmp_ordered("<", values, limit), ir.IntType(width))
        return builder.zext(less, ir.IntType(64))

    return types.int64(table, types.intp, table.dtype), emit


@intrinsic
def lowest(_typing, _bits):
    """The number of the lowest bit that is set; there must be one."""

    def emit(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), emit


@intrinsic
def n_set(_typing, _bits):
    """How many bits are set."""

    def emit(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), emit


@jit
def lowest_bits(n):
    """So many bits, from 1 to 64, that are set: the others of a complement are no lanes."""
    return np.int64(-1) if n == 64 else (np.int64(1) << np.int64(n)) - np.int64(1)
