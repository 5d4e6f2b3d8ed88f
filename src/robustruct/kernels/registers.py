"""Eight numbers in vector registers, as a type that kernels compute with.

Rows over labels are padded to a multiple of eight. Left to the compiler, a loop over such a row is
made into vectors for any length, with a rest, checks for overlaps and several rounds at a time:
many times the code, which takes its time to compile, and most of which never runs.

A place in an array is counted in numbers from its first one, whatever its shape: rows are
contiguous, so that row i of width w begins at i * w. Nobody checks it.
"""

import math
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

_WORD, _LONG = ir.IntType(32), ir.IntType(64)
_QUICK = ("contract", "reassoc", "nsz", "arcp")  # as kernels/_jit.py has it


class Eight(types.Type):
    """The type of eight float32, or of eight float64."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(f"eight({dtype})")


EIGHTS = _OF = {types.float32: Eight(types.float32), types.float64: Eight(types.float64)}
_NUMBER = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}


@register_model(Eight)
class _Register(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(_NUMBER[kind.dtype], 8))


def _constant(kind, number):
    return ir.Constant(ir.VectorType(_NUMBER[kind.dtype], 8), [number] * 8)


def _spread(builder, number):
    alone = ir.Constant(ir.VectorType(number.type, 8), ir.Undefined)
    alone = builder.insert_element(alone, number, _WORD(0))
    return builder.shuffle_vector(alone, alone, ir.Constant(ir.VectorType(_WORD, 8), [0] * 8))


def _define(function, instruction):
    """An operator on two eights, or on eight numbers and one."""
    sides = [case for number, kind in _OF.items() for case in ((kind, kind), (kind, number))]

    @infer_global(function)
    class _Cases(ConcreteTemplate):
        cases = [signature(left, left, right) for left, right in sides]  # noqa: RUF012

    def code(context, builder, signature, arguments):
        left, right = arguments
        if not isinstance(signature.args[1], Eight):
            right = _spread(builder, right)
        return getattr(builder, instruction)(left, right, flags=_QUICK)

    for left, right in sides:
        lower_builtin(function, left, right)(code)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")


def _address(context, builder, kind, array, place):
    return builder.gep(context.make_array(kind)(context, builder, array).data, [place])


@intrinsic
def compact(typing_context):
    """Whatever function calls this is compiled for size: loops over registers are not unrolled."""

    def code(context, builder, signature, arguments):
        builder.function.attributes.add("optsize")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def eight(typing_context, array, place):
    """The eight numbers that begin at a place of an array."""
    kind = _OF[array.dtype]

    def code(context, builder, signature, arguments):
        data = _address(context, builder, array, *arguments)
        data = builder.bitcast(data, ir.VectorType(_NUMBER[array.dtype], 8).as_pointer())
        return builder.load(data, align=array.dtype.bitwidth // 8)

    return kind(array, types.intp), code


@intrinsic
def put(typing_context, value, array, place):
    """Write eight numbers to where a place of an array begins."""

    def code(context, builder, signature, arguments):
        value, *where = arguments
        data = _address(context, builder, array, *where)
        data = builder.bitcast(data, value.type.as_pointer())
        builder.store(value, data, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(value, array, types.intp), code


@intrinsic
def number(typing_context, array, place):
    """The number at a place of an array."""

    def code(context, builder, signature, arguments):
        return builder.load(_address(context, builder, array, *arguments))

    return array.dtype(array, types.intp), code


@intrinsic
def zeros(typing_context, array):
    """Eight zeros, of the type of an array."""
    kind = _OF[array.dtype]
    return kind(array), lambda context, builder, signature, arguments: _constant(kind, 0.0)


@intrinsic
def same(typing_context, number):
    """Eight times a number."""

    def code(context, builder, signature, arguments):
        return _spread(builder, arguments[0])

    return _OF[number](number), code


@intrinsic
def larger(typing_context, a, b):
    """Of each two numbers the larger one; b where they cannot be compared."""

    def code(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return a(a, b), code


@intrinsic
def beyond(typing_context, a, b):
    """1 where a is above b, and 0 elsewhere."""

    def code(context, builder, signature, arguments):
        above = builder.fcmp_ordered(">", *arguments)
        return builder.select(above, _constant(a, 1.0), _constant(a, 0.0))

    return a(a, b), code


@intrinsic
def ratios(typing_context, a, b):
    """a / b where b is above 0, and 0 elsewhere."""

    def code(context, builder, signature, arguments):
        nothing = _constant(a, 0.0)
        ratio = builder.fdiv(*arguments)
        return builder.select(builder.fcmp_ordered(">", arguments[1], nothing), ratio, nothing)

    return a(a, b), code


def _fold(builder, vector, join):
    """The eight numbers joined in pairs, then these, and so on: always in the same order."""
    for half in (4, 2, 1):
        parts = [
            ir.Constant(ir.VectorType(_WORD, half), list(range(a, a + half))) for a in (0, half)
        ]
        vector = join(*(builder.shuffle_vector(vector, vector, part) for part in parts))
    return builder.extract_element(vector, _WORD(0))


@intrinsic
def total(typing_context, a):
    """The sum of the eight."""

    def code(context, builder, signature, arguments):
        return _fold(builder, arguments[0], builder.fadd)

    return a.dtype(a), code


@intrinsic
def largest(typing_context, a):
    """The largest of the eight."""

    def code(context, builder, signature, arguments):
        def join(x, y):
            return builder.select(builder.fcmp_ordered(">", x, y), x, y)

        return _fold(builder, arguments[0], join)

    return a.dtype(a), code


@intrinsic
def single(typing_context, a):
    """The eight in float32."""

    def code(context, builder, signature, arguments):
        return builder.fptrunc(arguments[0], ir.VectorType(_NUMBER[types.float32], 8))

    return _OF[types.float32](a), code


@intrinsic
def double(typing_context, a):
    """The eight in float64."""

    def code(context, builder, signature, arguments):
        return builder.fpext(arguments[0], ir.VectorType(_NUMBER[types.float64], 8))

    return _OF[types.float64](a), code


# log 2 in two parts, of which multiples of the first are exact; where exp counts as 0; terms of its
# series that are needed for |x| <= log(2) / 2; bits of the exponent's zero, and where it begins.
_EXP = {
    types.float32: (0.693359375, -2.12194440e-4, -86.0, 8, 127, 23, _WORD),
    types.float64: (0.693145751953125, 1.42860682030941723212e-6, -700.0, 14, 1023, 52, _LONG),
}


@intrinsic
def exponentials(typing_context, a):
    """exp of eight numbers <= 0, relative error about 2e-7 and 3e-14; 0 below -86 and -700."""
    high, low, least, n_terms, zero, shift, whole = _EXP[a.dtype]

    def code(context, builder, signature, arguments):
        def times_plus(x, y, z):
            return builder.fadd(builder.fmul(x, y, flags=["contract"]), z, flags=["contract"])

        def of_all(number):
            return _constant(a, number)

        vector = arguments[0].type
        outside = builder.fcmp_ordered("<", arguments[0], of_all(least))
        x = builder.select(outside, of_all(least), arguments[0])
        floor = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector]),
            f"llvm.floor.v8f{a.dtype.bitwidth}",
        )
        doublings = builder.call(floor, [times_plus(x, of_all(1 / math.log(2)), of_all(0.5))])
        x = times_plus(doublings, of_all(-low), times_plus(doublings, of_all(-high), x))
        series = of_all(1 / math.factorial(n_terms - 1))
        for i in range(n_terms - 2, -1, -1):
            series = times_plus(series, x, of_all(1 / math.factorial(i)))
        power = builder.fptosi(doublings, ir.VectorType(_WORD, 8))
        wholes = ir.VectorType(whole, 8)
        if whole is _LONG:
            power = builder.sext(power, wholes)
        power = builder.add(power, ir.Constant(wholes, [zero] * 8))
        power = builder.shl(power, ir.Constant(wholes, [shift] * 8))
        value = builder.fmul(series, builder.bitcast(power, vector))
        return builder.select(outside, of_all(0.0), value)

    return a(a), code
