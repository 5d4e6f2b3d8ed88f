"""How Python declares what C takes: arrays with their type and lengths, structs of them.

A struct is a NamedTuple whose annotations are the kinds below, declared once, in structs.py. From
it follow the ctypes structure that is passed, the check of its arrays, and its text in structs.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from robustruct.errors import InternalError

C_NAME = {
    np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
    np.dtype(np.int64): "Index",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.bool_): "bool",
}


class Kind:
    """An array of one type: ``Floats["nodes", "labels"]`` names its lengths.

    A name stands for one length throughout a struct, whose C form has it as ``n_nodes``.
    "nodes + 1" is one more than that; "*" is any length, known to the code that uses it.
    """

    def __init__(self, dtype: Any, lengths: tuple[str, ...] = ()):
        self.dtype, self.lengths = np.dtype(dtype), lengths

    def __getitem__(self, lengths: str | tuple[str, ...]) -> Kind:
        return Kind(self.dtype, lengths if isinstance(lengths, tuple) else (lengths,))

    def from_param(self, array: np.ndarray) -> ctypes.c_void_p:
        """What ctypes passes for an array given as an argument of its own."""
        return ctypes.c_void_p(self.address(array))

    def address(self, array: np.ndarray) -> int:
        """Where the numbers are, of an array of the right type and layout."""
        if array.dtype != self.dtype or not array.flags.c_contiguous:
            raise InternalError(
                f"an array of {array.dtype} (contiguous: {array.flags.c_contiguous}) was passed to "
                f"the core, which takes contiguous {self.dtype}"
            )
        if array.flags.writeable and array.nbytes:
            # A third of the time of ``array.ctypes``.
            return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
        return array.ctypes.data

    def sizes(self, array: np.ndarray) -> Iterator[tuple[str, int]]:
        """(name, length) of the sides that have a name."""
        if array.ndim != len(self.lengths):
            raise InternalError(f"{array.ndim} sides where the core takes {self.lengths}")
        for name, length in zip(self.lengths, array.shape, strict=True):
            if name != "*":
                base, _, more = name.partition(" + ")
                yield base, length - int(more or 0)


Floats, Singles, Indices = Kind(np.float64), Kind(np.float32), Kind(np.intp)
Ints32, Ints64, Flags, Bytes = Kind(np.int32), Kind(np.int64), Kind(np.bool_), Kind(np.uint8)

T = TypeVar("T")

SCALARS: dict[Any, Any] = {int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_bool}


def struct(declared: type[T]) -> type[T]:
    """Give a NamedTuple its C form: attribute ``c`` of an instance, made when first asked for."""
    kinds = declared.__annotations__
    names = list(declared._fields)  # type: ignore[attr-defined]
    lengths: list[str] = []
    for name in names:
        if isinstance(kinds[name], Kind):
            for length in kinds[name].lengths:
                base = length.partition(" + ")[0]
                if base != "*" and base not in lengths:
                    lengths.append(base)
    fields = [(name, _c_type(kinds[name])) for name in names]
    fields += [(f"n_{length}", ctypes.c_int64) for length in lengths]
    structure = type(declared.__name__, (ctypes.Structure,), {"_fields_": fields})

    def c_form(self: Any) -> ctypes.Structure:
        made = self.__dict__.get("_c")
        if made is None:
            made = self.__dict__["_c"] = structure(*_values(self, names, kinds, lengths))
        return made

    def reduce(self: Any) -> tuple[Any, ...]:  # a pickle has the arrays, not where they were
        return type(self), tuple(self)

    members = {
        "__annotations__": kinds,
        "__doc__": declared.__doc__,
        "__module__": declared.__module__,
        "__reduce__": reduce,
        "c": property(c_form),
        "c_struct": structure,
    }
    return type(declared.__name__, (declared,), members)


def _c_type(kind: Any) -> Any:
    if isinstance(kind, Kind):
        return ctypes.c_void_p
    return SCALARS.get(kind) or kind.c_struct


def _values(instance: Any, names: list[str], kinds: dict[str, Any], lengths: list[str]) -> list:
    values: list[Any] = []
    known: dict[str, int] = {}
    for name, value in zip(names, instance, strict=True):
        kind = kinds[name]
        if isinstance(kind, Kind):
            values.append(kind.address(value))
            for length, size in kind.sizes(value):
                if known.setdefault(length, size) != size:
                    raise InternalError(
                        f"{type(instance).__name__}.{name} has shape {value.shape}, which does not "
                        f"fit {length} = {known[length]} of the arrays before"
                    )
        else:
            values.append(value if kind in SCALARS else value.c)
    return values + [known[length] for length in lengths]


def c_text(declared: Any) -> str:
    """The declaration of a struct in C."""
    lines = ["typedef struct {"]
    for name, kind in declared.__annotations__.items():
        if isinstance(kind, Kind):
            sides = f" /* ({', '.join(kind.lengths)}) */" if kind.lengths else ""
            lines.append(f"    {C_NAME[kind.dtype]} *{name};{sides}")
        else:
            scalars = {int: "Index", float: "double", bool: "bool"}
            lines.append(f"    {scalars.get(kind) or kind.__name__} {name};")
    own = [name for name, _ in declared.c_struct._fields_]
    lines += [f"    Index {name};" for name in own if name not in declared.__annotations__]
    size = ctypes.sizeof(declared.c_struct)
    name = declared.__name__
    return "\n".join([*lines, f"}} {name};", f"SIZE({name}, {size})"])
