"""A team: threads that wait, in compiled code, for parts of what a kernel has to do.

To wake a Python thread and wait for it takes longer than many a sweep over few rows, most of it for
the interpreter's lock.  So a helper of a team does not come back to Python between two kernels: it
looks again and again whether there is something to do, for a moment, and only then goes to sleep
(`execution.helpers`).  A kernel that can be split has the number of
a part as its first argument, and calls itself for all of them:

    def kernel(part, rows, …, team):
        if part == EVERY_PART:
            work_off(team, parts_of_this((rows, …, team)), n_parts)
            return
        first, last = part_of(part, n_parts, rows.shape[0])
        …

Whoever is free takes the next part.  Nobody waits for a helper that sleeps: all parts may be done
by the caller.  How many parts there are, and what they are, depends on the shape alone
(`n_parts_of`, `part_of`); so no result depends on who does them.

A kernel is as serial as ever with `ALONE`, a team of nobody.  Parts must not raise.  All of this is
for use in kernels only, but for `n_parts_of`, `new_team`, `help_out` and `close`.

Cost: to share a job and to wait for its end takes about a microsecond.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from robust_kmeans.kernels.jit import jit

ALONE: NDArray[np.int64] = np.empty(0, np.int64)
EVERY_PART = -1

# Where things are: what threads write at different times, in different lines of the cache.  A
# ticket is the number of the job, and of its parts that nobody has taken.  The team is busy until
# all are done.
TICKET, DONE, FUNCTION, ARGUMENTS, CLOSED, AWAKE, BUSY, LENGTH = 0, 8, 16, 17, 24, 32, 40, 48
MOST_PARTS = 2**16
# So few rows are sooner done than shared.  Parts are whole tiles and whole lines of the cache.
FEW_ROWS = 2**13
PARTS = 4
WHOLE_ROWS = 64
# Sums that every part has for itself are no more lines than this share of all rows: the system
# would take as long to hand out their memory as the rows take to be read.
MOST_SUMS = 1 / 512
# A helper looks so often whether there is something to do: about a millisecond.  After the first
# looks others may use the core in between, as where cores are too few the one waited for may be
# among them.
PATIENCE = 2_500
AT_ONCE = 500

ADDRESS = ir.IntType(8).as_pointer()
WHOLE = ir.IntType(64)
# Instructions of LLVM's, with their arguments, by which a thread says that it only waits.
PAUSE, YIELD = ("llvm.x86.sse2.pause", ()), ("llvm.aarch64.hint", (1,))
BREATHE: dict[str, tuple[str, tuple[int, ...]]] = {
    "x86_64": PAUSE, "amd64": PAUSE, "aarch64": YIELD, "arm64": YIELD,
}  # fmt: skip


def new_team() -> NDArray[np.int64]:
    """A team with nothing to do, and nobody in it."""
    memory = np.zeros(LENGTH + 8, np.int64)
    skip = (-memory.ctypes.data % 64) // 8
    return memory[skip : skip + LENGTH]


@jit
def help_out(team):
    """Take parts of jobs until none comes for a while, or the team is closed.

    INOUT  team
    """
    add_to(team, AWAKE, 1)
    idle = looks = 0
    while idle < PATIENCE and value_at(team, CLOSED) == 0:
        looks = 0 if take_part(team) else looks + 1
        # While others are at their last parts, there may soon be another job.
        idle = 0 if looks == 0 or value_at(team, BUSY) > 0 else idle + 1
        wait(looks)
    add_to(team, AWAKE, -1)


@jit
def close(team):
    """Let all helpers come back.

    INOUT  team
    """
    add_to(team, CLOSED, 1)


@jit
def work_off(team, job, n_parts):
    """Do all parts of a job, 0 to n_parts − 1, with the helpers that are awake.

    IN     job: of `parts_of_this`; n_parts
    INOUT  team
    """
    function, arguments = job
    if team.shape[0] == 0 or n_parts == 1:
        for part in range(n_parts):
            call(function, arguments, part)
        return
    team[FUNCTION], team[ARGUMENTS] = function, arguments
    put(team, BUSY, 1)
    put(team, DONE, 0)
    # From here on helpers may take parts, and the number of the job tells it from the last one.
    put(team, TICKET, (value_at(team, TICKET) // MOST_PARTS + 1) * MOST_PARTS + n_parts)
    while take_part(team):
        pass
    waited = 0
    while value_at(team, DONE) < n_parts:
        wait(waited)
        waited += 1
    put(team, BUSY, 0)


def n_parts_of(n_rows: int, n_sums: int = 0) -> int:
    """How many parts some rows are split into, if each has so many lines of sums for itself."""
    return PARTS if n_rows >= FEW_ROWS and n_sums <= MOST_SUMS * n_rows else 1


@jit
def part_of(part, n_parts, n_rows):
    """The rows of a part: from the first up to, not including, the last."""
    tiles = (n_rows + WHOLE_ROWS - 1) // WHOLE_ROWS
    first, last = tiles * part // n_parts, tiles * (part + 1) // n_parts
    return first * WHOLE_ROWS, min(last * WHOLE_ROWS, n_rows)


@jit
def own_sums(sums, part):
    """Zeros for the sums of a part, where no other part's are near; to be handed in.

    A line of the cache that two cores write to goes to and fro between them.

    IN   sums (n_parts, …), zeros; part
    """
    return sums[part] if sums.shape[0] == 1 else np.zeros(sums.shape[1:], sums.dtype)


@jit
def hand_in(own, sums, part):
    """Put what `own_sums` has come to be in its place.

    IN   own; part
    OUT  sums (n_parts, …): of that part
    """
    if sums.shape[0] > 1:
        sums[part] = own


@jit
def add_up(sums):
    """Add the sums of all parts to those of the first, in their order.

    INOUT  sums (n_parts, …), contiguous
    """
    values, n_values = sums.ravel(), sums.size // sums.shape[0]
    for i in range(n_values, sums.size):
        values[i % n_values] += values[i]


@jit
def take_part(team):
    """Do the next part of the job, if there is one; whether there was.

    INOUT  team
    """
    ticket = value_at(team, TICKET)
    if ticket % MOST_PARTS == 0:
        return False
    function, arguments = team[FUNCTION], team[ARGUMENTS]
    # Where another was first, or has even begun another job, there is nothing taken.
    if exchange(team, TICKET, ticket, ticket - 1):
        call(function, arguments, ticket % MOST_PARTS - 1)
        add_to(team, DONE, 1)
    return True


@intrinsic
def parts_of_this(_typing, arguments):
    """The calls of this very kernel for its parts, as two addresses, until it returns.

    It gets the number of a part, and these arguments; it must return nothing.
    """
    kinds = (types.intp, *arguments.types)

    def emit(context, builder, _signature, values):
        parts = cgutils.unpack_tuple(builder, values[0], len(arguments.types))
        kept = ir.LiteralStructType([part.type for part in parts])
        place = cgutils.alloca_once(builder, kept)
        for number, part in enumerate(parts):
            builder.store(part, cgutils.gep_inbounds(builder, place, 0, number))
        name = builder.module.get_unique_name(f"{builder.function.name}.part")
        caller = ir.Function(builder.module, PART_CALLER, name)
        caller.linkage = "internal"
        _emit_caller(context, caller, kept, builder.function, kinds)
        addresses = [builder.ptrtoint(each, WHOLE) for each in (caller, place)]
        return context.make_tuple(builder, types.UniTuple(types.int64, 2), addresses)

    return types.UniTuple(types.int64, 2)(arguments), emit


PART_CALLER = ir.FunctionType(ir.VoidType(), [ADDRESS, WHOLE])


def _emit_caller(
    context: Any, caller: ir.Function, kept: ir.Type, kernel: ir.Function, kinds: tuple[Any, ...]
) -> None:
    """A function of an address and of a part's number, which calls the kernel."""
    builder = ir.IRBuilder(caller.append_basic_block("entry"))
    place = builder.bitcast(caller.args[0], kept.as_pointer())
    values = [
        builder.load(cgutils.gep_inbounds(builder, place, 0, number))
        for number in range(len(kept.elements))
    ]
    context.call_conv.call_function(builder, kernel, types.none, kinds, [caller.args[1], *values])
    for instruction in builder.block.instructions:
        if isinstance(instruction, ir.CallInstr):
            # Otherwise there would be another copy of it in here.
            instruction.attributes.add("noinline")
    builder.ret_void()


@intrinsic
def call(_typing, _function, _arguments, _part):
    """Call the kernel of a job for one of its parts."""

    def emit(context, builder, _signature, values):
        function = builder.inttoptr(values[0], PART_CALLER.as_pointer())
        builder.call(function, [builder.inttoptr(values[1], ADDRESS), values[2]])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.intp), emit


def _place(context: Any, builder: ir.IRBuilder, array: Any, values: Any) -> Any:
    data = cgutils.create_struct_proxy(array)(context, builder, values[0]).data
    return builder.gep(data, [values[1]])


@intrinsic
def value_at(_typing, array, _at):
    """What is there, and all that was written before that."""

    def emit(context, builder, _signature, values):
        return builder.load_atomic(_place(context, builder, array, values), "acquire", 8)

    return types.int64(array, types.intp), emit


@intrinsic
def put(_typing, array, _at, _value):
    """Write a value; who sees it sees all that was written before."""

    def emit(context, builder, _signature, values):
        builder.store_atomic(values[2], _place(context, builder, array, values), "release", 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, types.int64), emit


@intrinsic
def add_to(_typing, array, _at, _value):
    """Add to a value, whoever else does."""

    def emit(context, builder, _signature, values):
        builder.atomic_rmw("add", _place(context, builder, array, values), values[2], "acq_rel")
        return context.get_dummy_value()

    return types.none(array, types.intp, types.int64), emit


@intrinsic
def exchange(_typing, array, _at, _expected, _value):
    """Write a value if another is there as expected; whether it was."""

    def emit(context, builder, _signature, values):
        place = _place(context, builder, array, values)
        found = builder.cmpxchg(place, values[2], values[3], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), emit


@jit
def wait(looks):
    """Wait a moment, after so many looks for what does not come.

    IN   looks
    """
    if looks < AT_ONCE:
        breathe()
    else:
        let_others()


@intrinsic
def breathe(_typing):
    """Let the machine know that this thread only waits."""

    def emit(context, builder, _signature, _values):
        name, numbers = BREATHE.get(platform.machine().lower(), (None, ()))
        if name is not None:
            _call(builder, name, ir.VoidType(), [ir.IntType(32)(number) for number in numbers])
        return context.get_dummy_value()

    return types.none(), emit


@intrinsic
def let_others(_typing):
    """Let other threads have the core, where the system has such a call."""

    def emit(context, builder, _signature, _values):
        if os.name == "posix":
            _call(builder, "sched_yield", ir.IntType(32), [])
        return context.get_dummy_value()

    return types.none(), emit


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[Any]) -> None:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
