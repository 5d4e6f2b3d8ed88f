"""What the values of kernels are: numbers, registers, arrays without gaps, and tuples of them.

A value is known by its parts in LLVM's code: a number by one, an array by the address of its data
and its sides, a tuple by the parts of its fields. Kinds are made once each, so that they are the
same object if they are the same kind.
"""

import struct
from functools import cache

import numpy as np


class Untranslatable(Exception):
    """Python that kernels of this library do not have; numba's own compiler may know it."""


class Kind:
    """What a value is."""

    parts: tuple = ()  # types of LLVM

    def __repr__(self):
        return str(self.name)


class Number(Kind):
    """A number as a processor has it."""

    def __init__(self, dtype, code, family):
        self.name, self.code, self.family = np.dtype(dtype).name, code, family
        self.dtype, self.size = np.dtype(dtype), np.dtype(dtype).itemsize
        self.parts = (code,)
        self.memory = "i8" if code == "i1" else code  # in arrays

    @property
    def floats(self):
        """Whether it has a fraction."""
        return self.family == "float"


BOOL = Number(np.bool_, "i1", "bool")
INT, UINT = Number(np.int64, "i64", "int"), Number(np.uint64, "i64", "uint")
FLOAT, SINGLE = Number(np.float64, "double", "float"), Number(np.float32, "float", "float")
_NARROW = [Number(np.dtype(f"i{n}"), f"i{8 * n}", "int") for n in (1, 2, 4)]
_NARROW += [Number(np.dtype(f"u{n}"), f"i{8 * n}", "uint") for n in (1, 2, 4)]
NUMBERS = {kind.dtype: kind for kind in (BOOL, INT, UINT, FLOAT, SINGLE, *_NARROW)}


class _Nothing(Kind):
    name = "None"


NOTHING = _Nothing()


class Register(Kind):
    """Eight numbers (kernels/registers.py)."""

    def __init__(self, item):
        self.item, self.name = item, f"eight {item.name}"
        self.parts = (f"<8 x {item.code}>",)


REGISTERS = {item: Register(item) for item in (FLOAT, SINGLE)}


class Array(Kind):
    """An array without gaps."""

    def __init__(self, item, n_sides, pointer, mutable):
        self.item, self.n_sides, self.name = item, n_sides, f"{item.name}[{n_sides}]"
        self.mutable = mutable  # whether it may be written to
        self.parts = (pointer, *["i64"] * n_sides)


class Tuple(Kind):
    """A tuple, or a named one."""

    def __init__(self, fields, maker):
        self.fields, self.maker = fields, maker
        self.names = getattr(maker, "_fields", ())
        self.name = f"{maker.__name__}{fields}"
        self.parts = tuple(part for kind in fields for part in kind.parts)


@cache
def array(item, n_sides, pointer, mutable):
    """The kind of an array."""
    return Array(item, n_sides, pointer, mutable)


@cache
def tuple_of(fields, maker=tuple):
    """The kind of a tuple."""
    return Tuple(fields, maker)


def has_arrays(kind):
    """Whether it is an array, or a tuple with one."""
    return isinstance(kind, Array) or (
        isinstance(kind, Tuple) and any(has_arrays(field) for field in kind.fields)
    )


class Value:
    """A value in LLVM's code."""

    __slots__ = ("kind", "natural", "parts")

    def __init__(self, kind, parts, natural=False):
        self.kind, self.parts = kind, parts
        self.natural = natural  # an integer that is known not to be negative

    def __getitem__(self, i):
        """A field of a tuple."""
        fields = self.kind.fields
        before = sum(len(kind.parts) for kind in fields[:i])
        return Value(fields[i], self.parts[before : before + len(fields[i].parts)])


class Known:
    """What is known before the kernel runs: a constant, a function, a module."""

    __slots__ = ("thing",)

    def __init__(self, thing):
        self.thing = thing


def text(kind, number):
    """A constant as LLVM reads it."""
    if kind is BOOL:
        return "true" if number else "false"
    if not kind.floats:
        return str(int(number))
    (bits,) = struct.unpack("<Q", struct.pack("<d", kind.dtype.type(number)))
    return f"0x{bits:016X}"


def value_of(thing):
    """The value of something known, or of a tuple of values, which is a list."""
    if isinstance(thing, Value):
        return thing
    if isinstance(thing, list):
        return together(thing)
    thing = thing.thing
    if thing is None:
        return Value(NOTHING, ())
    if isinstance(thing, tuple):
        return together(map(Known, thing), type(thing))
    if isinstance(thing, (bool, np.bool_)):
        kind = BOOL
    elif isinstance(thing, np.generic) and thing.dtype in NUMBERS:
        kind = NUMBERS[thing.dtype]
    elif isinstance(thing, int):
        kind = INT
    elif isinstance(thing, float):
        kind = FLOAT
    else:
        raise Untranslatable(f"{thing!r} as a value")
    return Value(kind, (text(kind, thing),), not kind.floats and thing >= 0)


def together(fields, maker=tuple):
    """A tuple of values."""
    fields = [value_of(field) for field in fields]
    kind = tuple_of(tuple(field.kind for field in fields), maker)
    return Value(kind, tuple(part for field in fields for part in field.parts))


def wide(kind):
    """What integers are when they are computed with."""
    return kind if kind.floats else (UINT if kind.family == "uint" else INT)


def common(one, other):
    """The kind of a sum of two numbers, as numba has it."""
    if one.floats or other.floats:
        exact = all(kind is SINGLE or (not kind.floats and kind.size < 4) for kind in (one, other))
        return SINGLE if exact else FLOAT
    return UINT if one.family == other.family == "uint" else INT


def joined(one, other):
    """The kind of a variable that is now of the one, now of the other."""
    if one is other:
        return one
    if isinstance(one, Number) and isinstance(other, Number):
        return common(one, other)
    if isinstance(one, Array) and isinstance(other, Array) and one.name == other.name:
        return other if one.mutable else one
    tuples = isinstance(one, Tuple) and isinstance(other, Tuple) and one.maker is other.maker
    if tuples and len(one.fields) == len(other.fields):
        return tuple_of(tuple(map(joined, one.fields, other.fields)), one.maker)
    raise Untranslatable(f"a variable that is {one} and {other}")
