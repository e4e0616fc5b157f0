"""Many values at once, for kernels that the compiler does not vectorise well by itself.

A `Lanes` stands for as many values as a few vector registers hold.  Code that reads as if it
were about one value, such as `where(total < best, total, best)`, works on all of them, and
every lane is computed alike, so that no result depends on its neighbours.  The compiler, left
alone, uses half of a 512-bit register and keeps running totals in memory.

Arrays are one-dimensional, contiguous and of one floating-point dtype; a position is that of
the first lane.  All of this is for use in kernels only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from robust_kmeans.kernels.jit import jit
from robust_kmeans.kernels.target import has

WIDE = has("avx512f")
REGISTER_BYTES = 64 if WIDE else 32
# A kernel that keeps four sums in registers has so many independent ones that it hides how
# long one addition takes, and values are read once for four uses; there are 32 or 16 registers.
REGISTERS = 4 if WIDE else 2

# Operations with flags of their own keep them, and lose the freedom of `jit` to reorder sums:
# the same distance has the same bits in every kernel.
IN_ORDER = ("nsz",)

LLVM_TYPES = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.boolean: ir.IntType(1),
    types.int32: ir.IntType(32),
}


class Lanes(types.Type):
    """Numba's type of `REGISTERS` vectors, each of `width` values."""

    def __init__(self, dtype: types.Type, width: int) -> None:
        self.dtype = dtype
        self.width = width
        super().__init__(name=f"Lanes({dtype}, {REGISTERS}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        vector = ir.VectorType(LLVM_TYPES[lanes.dtype], lanes.width)
        super().__init__(manager, lanes, ir.ArrayType(vector, REGISTERS))


def constant_of(of_dtype: Callable[[Any], int]) -> Any:
    """A function of an array that is a constant for its dtype, so that the compiler knows it."""

    @intrinsic
    def function(_typing, array):
        value = of_dtype(array.dtype)

        def emit(context, _builder, _signature, _arguments):
            return context.get_constant(types.intp, value)

        return types.intp(array), emit

    return function


width_of_register = constant_of(lambda dtype: 8 * REGISTER_BYTES // dtype.bitwidth)
"""How many values of an array fit in one register."""
n_lanes = constant_of(lambda dtype: REGISTERS * 8 * REGISTER_BYTES // dtype.bitwidth)
"""How many values of an array are worked on at once."""


@jit
def aligned_empty(n, dtype):
    """An uninitialised array that starts where a register's worth of memory does.

    Otherwise every load would touch two lines of the cache.
    """
    memory = np.empty(n + REGISTER_BYTES, dtype)
    skip = (-memory.ctypes.data % REGISTER_BYTES) // memory.itemsize
    return memory[skip : skip + n]


def lanes_of(dtype: Any) -> Lanes:
    """The `Lanes` of a Numba dtype."""
    return Lanes(dtype, 8 * REGISTER_BYTES // dtype.bitwidth)


def join(builder: ir.IRBuilder, vectors: list[Any]) -> Any:
    """The `Lanes` of one vector per register."""
    joined = ir.Constant(ir.ArrayType(vectors[0].type, REGISTERS), ir.Undefined)
    for register, vector in enumerate(vectors):
        joined = builder.insert_value(joined, vector, register)
    return joined


def _on_each_register(
    builder: ir.IRBuilder, operation: Callable[..., Any], values: tuple[Any, ...]
) -> Any:
    return join(
        builder,
        [
            operation(*(builder.extract_value(value, register) for value in values))
            for register in range(REGISTERS)
        ],
    )


def pointers(builder: ir.IRBuilder, data: Any, position: Any, lanes: Lanes) -> list[Any]:
    """Where the vectors that start at `position` lie, one pointer per register."""
    vector = ir.VectorType(data.type.pointee, lanes.width)
    starts = (
        builder.add(position, ir.Constant(position.type, register * lanes.width))
        for register in range(REGISTERS)
    )
    return [builder.bitcast(builder.gep(data, [start]), vector.as_pointer()) for start in starts]


def everywhere(builder: ir.IRBuilder, value: Any, width: int) -> Any:
    """A vector of the same value."""
    nothing = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(first, nothing, zeros)


@intrinsic
def load(_typing, array, _position):
    """The values of `array` from a position on."""
    lanes = lanes_of(array.dtype)

    def emit(context, builder, _signature, arguments):
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        vectors = [builder.load(at) for at in pointers(builder, data, arguments[1], lanes)]
        for vector in vectors:
            vector.align = array.dtype.bitwidth // 8
        return join(builder, vectors)

    return lanes(array, types.intp), emit


@intrinsic
def store(_typing, array, _position, lanes):
    """Write all values into `array` from a position on; whole numbers into one of integers."""

    def emit(context, builder, _signature, arguments):
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        for register, at in enumerate(pointers(builder, data, arguments[1], lanes)):
            vector = builder.extract_value(arguments[2], register)
            if isinstance(array.dtype, types.Integer) and isinstance(lanes.dtype, types.Float):
                vector = builder.fptosi(vector, at.type.pointee)
            written = builder.store(vector, at)
            written.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.none(array, types.intp, lanes), emit


@intrinsic
def copy(_typing, array, _position, _values, like):
    """Write the first values of another array into `array`: as many as `like` has lanes."""

    def emit(context, builder, _signature, arguments):
        to, source = (
            cgutils.create_struct_proxy(array)(context, builder, arguments[i]).data for i in (0, 2)
        )
        start = ir.Constant(arguments[1].type, 0)
        places = (
            pointers(builder, data, at, like) for data, at in ((source, start), (to, arguments[1]))
        )
        for place, written_to in zip(*places, strict=True):
            value = builder.load(place)
            written = builder.store(value, written_to)
            value.align = written.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.none(array, types.intp, array, like), emit


@intrinsic
def store_times(_typing, array, _position, lanes, _factor):
    """Write all values into `array`, times a factor if its dtype is another; otherwise it is 1."""

    def emit(context, builder, _signature, arguments):
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        alike = array.dtype == lanes.dtype
        vector = ir.VectorType(data.type.pointee, lanes.width)
        factors = everywhere(builder, arguments[3], lanes.width)
        for register, at in enumerate(pointers(builder, data, arguments[1], lanes)):
            values = builder.extract_value(arguments[2], register)
            if not alike:
                values = builder.fmul(builder.fpext(values, vector), factors, flags=IN_ORDER)
            written = builder.store(values, at)
            written.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.none(array, types.intp, lanes, array.dtype), emit


@intrinsic
def spread(_typing, value):
    """The same value in all lanes."""
    lanes = lanes_of(value)

    def emit(_context, builder, _signature, arguments):
        return join(builder, [everywhere(builder, arguments[0], lanes.width)] * REGISTERS)

    return lanes(value), emit


@intrinsic
def where(_typing, mask, yes, no):
    """In each lane `yes` where the mask is set, otherwise `no`."""

    def emit(_context, builder, _signature, arguments):
        return _on_each_register(builder, builder.select, arguments)

    return yes(mask, yes, no), emit


@intrinsic
def all_of(_typing, mask):
    """Whether the mask is set in all lanes."""

    def emit(_context, builder, _signature, arguments):
        vectors = [builder.extract_value(arguments[0], register) for register in range(REGISTERS)]
        together = reduce(builder.and_, vectors)
        bits = ir.IntType(mask.width)
        return builder.icmp_unsigned("==", builder.bitcast(together, bits), bits(2**mask.width - 1))

    return types.boolean(mask), emit


@intrinsic
def fused(_typing, left, _right, _addend):
    """The sum left · right + addend, rounded once where the machine can do that."""

    def emit(_context, builder, _signature, arguments):
        return _on_each_register(builder, lambda *xyz: multiply_add(builder, *xyz), arguments)

    return left(left, left, left), emit


@intrinsic
def square_root(_typing, lanes):
    """The square root of each value."""

    def emit(_context, builder, _signature, arguments):
        def emit_one(x):
            name = f"llvm.sqrt.v{lanes.width}f{lanes.dtype.bitwidth}"
            kind = ir.FunctionType(x.type, [x.type])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x])

        return _on_each_register(builder, emit_one, arguments)

    return lanes(lanes), emit


def multiply_add(builder: ir.IRBuilder, x: Any, y: Any, z: Any) -> Any:
    """Emit x·y + z for one register."""
    bits = 32 if isinstance(x.type.element, ir.FloatType) else 64
    kind = ir.FunctionType(x.type, [x.type] * 3)
    name = f"llvm.fmuladd.v{x.type.count}f{bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y, z])


def _binary(emit_one: Callable[[Any, Any, Any], Any], *, gives_mask: bool = False) -> Any:
    """A function of two `Lanes` of the same type, from what it is on one register."""

    @intrinsic
    def function(_typing, left, right):
        result = Lanes(types.boolean, left.width) if gives_mask else left

        def emit(_context, builder, _signature, arguments):
            return _on_each_register(builder, lambda x, y: emit_one(builder, x, y), arguments)

        return result(left, right), emit

    return function


minimum = _binary(lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y))
maximum = _binary(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))
differ = _binary(lambda b, x, y: b.icmp_signed("!=", x, y), gives_mask=True)
"""Where two `Lanes` of whole numbers are not the same."""
_add = _binary(lambda b, x, y: b.fadd(x, y, flags=IN_ORDER))
_subtract = _binary(lambda b, x, y: b.fsub(x, y, flags=IN_ORDER))
_multiply = _binary(lambda b, x, y: b.fmul(x, y, flags=IN_ORDER))
_divide = _binary(lambda b, x, y: b.fdiv(x, y, flags=IN_ORDER))
_or = _binary(lambda b, x, y: b.or_(x, y))
_and = _binary(lambda b, x, y: b.and_(x, y))
_less = _binary(lambda b, x, y: b.fcmp_ordered("<", x, y), gives_mask=True)
_at_most = _binary(lambda b, x, y: b.fcmp_ordered("<=", x, y), gives_mask=True)


def _make_operator(symbol: Any, function: Any) -> None:
    @overload(symbol)
    def on_lanes(left, right):
        if isinstance(left, Lanes) and isinstance(right, Lanes):
            return lambda left, right: function(left, right)
        return None


_make_operator(operator.add, _add)
_make_operator(operator.sub, _subtract)
_make_operator(operator.mul, _multiply)
_make_operator(operator.truediv, _divide)
_make_operator(operator.or_, _or)
_make_operator(operator.and_, _and)
_make_operator(operator.lt, _less)
_make_operator(operator.le, _at_most)
