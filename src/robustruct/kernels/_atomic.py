"""Counters that several threads share while they run kernels.

Plain loads in a loop may be moved out of it by the compiler; these may not, and what one thread has
written before it writes a counter, another sees after it has read it.
"""

import os

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from robustruct.kernels._jit import helper

SPINS = 1000  # some microseconds; waking a thread that sleeps takes tens to hundreds

# What a thread that has spun for long calls to let others run.
_give_way = types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else None


def _place(context, builder, signature, arguments):
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@intrinsic
def read(typing_context, counters, i):
    """counters[i]."""

    def code(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(counters, types.intp), code


@intrinsic
def write(typing_context, counters, i, value):
    """counters[i] = value."""

    def code(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.intp, types.int64), code


@intrinsic
def add_one(typing_context, counters, i):
    """counters[i] += 1; return what it was."""

    def code(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(counters, types.intp), code


@intrinsic
def _replace(typing_context, counters, i, old, new):
    """Whether counters[i] was old, in which case it is new now."""

    def code(context, builder, signature, arguments):
        place = _place(context, builder, signature, arguments)
        result = builder.cmpxchg(place, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(result, 1)

    return types.boolean(counters, types.intp, types.int64, types.int64), code


@intrinsic
def fetch_row(typing_context, rows, i):
    """Have the cache fetch the first 128 bytes of rows[i], for whoever reads them soon."""

    def code(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(array.strides, 0)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(array.data, byte), [builder.mul(stride, arguments[1])])
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for line in (0, 64):
            at = builder.gep(place, [ir.Constant(ir.IntType(64), line)])
            builder.call(fetch, [at, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(rows, types.intp), code


@helper
def take_below(counters, i, limit):
    """counters[i] += 1 if it is less than limit; return what it was, or -1."""
    while True:
        at = read(counters, i)
        if at >= limit:
            return -1
        if _replace(counters, i, at, at + 1):
            return at


@helper
def wait_for(counters, i, value):
    """Until counters[i] is at least value."""
    spins = 0
    while read(counters, i) < value:
        spins += 1
        if _give_way is not None and spins > SPINS:
            _give_way()
