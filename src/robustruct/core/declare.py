"""Declares arguments of C functions: arrays with type and lengths, and structs of them.

A struct is a NamedTuple in structs.py, annotated by the kinds below. From it are derived the ctypes
structure, the check of its arrays, and its declaration in structs.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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

    A name stands for one length throughout a struct; its C form has it as ``n_nodes``.
    "nodes + 1" is one more; "*" is any length, which is not checked.
    """

    def __init__(self, dtype: Any, lengths: tuple[str, ...] = ()):
        self.dtype, self.lengths = np.dtype(dtype), lengths

    def __getitem__(self, lengths: str | tuple[str, ...]) -> Kind:
        return Kind(self.dtype, lengths if isinstance(lengths, tuple) else (lengths,))

    def from_param(self, array: Any) -> Any:
        """Convert an array that is an argument of its own to what ctypes passes."""
        if array.dtype != self.dtype:
            raise InternalError(f"an array {_told(array)}; the core takes {self.dtype}")
        try:
            return ctypes.byref(ctypes.c_char.from_buffer(array))
        except (TypeError, ValueError):  # empty, read-only or not contiguous
            return ctypes.c_void_p(address(array))

    @property
    def sides(self) -> list[tuple[str, int]]:
        """(name, increment) of each length, such as ("nodes", 1); name "" for any length."""
        named = [name.partition(" + ") for name in self.lengths]
        return [("" if base == "*" else base, int(more or 0)) for base, _, more in named]


def address(array: Any) -> int:
    """Return the address of a contiguous array."""
    try:  # a third of the time of ``array.ctypes``
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # empty, read-only or not contiguous
        if not array.flags.c_contiguous:
            raise InternalError(f"an array {_told(array)}; the core takes contiguous") from None
        return int(array.ctypes.data)


def _told(array: np.ndarray) -> str:
    contiguous = "contiguous" if array.flags.c_contiguous else "not contiguous"
    return f"has shape {array.shape}, holds {array.dtype} and is {contiguous}"


Floats, Singles, Indices = Kind(np.float64), Kind(np.float32), Kind(np.intp)
Ints32, Ints64, Flags, Bytes = Kind(np.int32), Kind(np.int64), Kind(np.bool_), Kind(np.uint8)

T = TypeVar("T")

SCALARS: dict[Any, Any] = {int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_bool}


def struct(declared: type[T]) -> type[T]:
    """Give a NamedTuple its C form: attribute ``c`` of an instance, made on first use."""
    kinds = {name: _kind(hint) for name, hint in declared.__annotations__.items()}
    names = list(declared._fields)  # type: ignore[attr-defined]
    sides = [kind.sides for kind in kinds.values() if isinstance(kind, Kind)]
    lengths = list({base: None for each in sides for base, _ in each if base})
    fields = [(name, _c_type(kinds[name])) for name in names]
    fields += [(f"n_{length}", ctypes.c_int64) for length in lengths]
    structure = type(declared.__name__, (ctypes.Structure,), {"_fields_": fields})
    checked = _checked(kinds, lengths)

    def c_form(self: Any) -> ctypes.Structure:
        c = self.__dict__.get("_c")
        if c is None:
            c = self.__dict__["_c"] = structure(*checked(self))
        return c

    def reduce(self: Any) -> tuple[Any, ...]:  # a pickle holds the arrays, not their addresses
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


def _kind(hint: Any) -> Any:
    """Return the kind in ``Annotated[np.ndarray, kind]``; a struct or scalar stays."""
    return hint.__metadata__[0] if hasattr(hint, "__metadata__") else hint


def _c_type(kind: Any) -> Any:
    if isinstance(kind, Kind):
        return ctypes.c_void_p
    return SCALARS.get(kind) or kind.c_struct


def _checked(kinds: dict[str, Any], lengths: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that checks the arrays of a struct and returns its C values.

    Its code is generated field by field: small games make several structs each, and a loop over
    fields takes three times as long.
    """
    text = ["def values(self):", f"    {', '.join(kinds)}, = self"]
    values: list[str] = []
    known: set[str] = set()
    names: dict[str, Any] = {"address": address, "refuse": _refuse}
    for name, kind in kinds.items():
        if not isinstance(kind, Kind):
            values.append(name if kind in SCALARS else f"{name}.c")
            continue
        names[f"{name}_dtype"] = kind.dtype
        values.append(f"address({name})")
        wrong = f"{name}.dtype != {name}_dtype or {name}.ndim != {len(kind.lengths)}"
        text.append(f"    if {wrong}: refuse(self, '{name}')")
        text.append("    shape = " + name + ".shape")
        for axis, (base, more) in enumerate(kind.sides):
            if base in known:
                text.append(f"    if shape[{axis}] != n_{base} + {more}: refuse(self, '{name}')")
            elif base:
                text.append(f"    n_{base} = shape[{axis}] - {more}")
                known.add(base)
    text.append(f"    return {', '.join([*values, *(f'n_{length}' for length in lengths)])},")
    exec("\n".join(text), names)
    function: Callable[[Any], tuple[Any, ...]] = names["values"]
    return function


def _refuse(instance: Any, name: str) -> None:
    kind = type(instance).__annotations__[name]
    raise InternalError(
        f"{type(instance).__name__}.{name} {_told(getattr(instance, name))}; the core takes "
        f"{kind.dtype} of lengths {kind.lengths}, like those of the arrays before"
    )


def c_text(declared: Any) -> str:
    """Return the declaration of a struct in C."""
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
