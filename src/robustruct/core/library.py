"""Loads the compiled core and declares its functions.

The C code never checks what it is given: an array is checked here, for its type and layout where it
is passed alone, and for its lengths as well where it is part of a struct (declare.py).
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robustruct.core.declare import SCALARS, Kind

HERE = Path(__file__).parent


def _path() -> Path:
    """The library for this processor; compiled first where sources that are newer lie beside it."""
    level = os.environ.get("ROBUSTRUCT_CORE")  # for tests: the library of another level
    if (HERE / "build.py").exists():
        from robustruct.core.build import build

        return build(level)
    kept = sorted(HERE.glob(f"core-{level or '*'}.*"), reverse=True)  # v3 before v2
    for path in kept:
        if level or path == kept[-1] or ctypes.CDLL(str(kept[-1])).runs_on_this_processor():
            return path
    raise ImportError(
        f"The compiled core of robustruct is missing: {HERE} has no core-{level or '*'}.* for "
        f"{platform.machine()}. Install a wheel made for this machine, or from source with a C "
        "compiler."
    )


library = ctypes.CDLL(str(_path()))

NO_MEMORY = -1


class _Struct:
    """Passes a struct by reference."""

    def __init__(self, declared: Any):
        self.declared = declared

    def from_param(self, value: Any) -> Any:
        if not isinstance(value, self.declared):
            raise TypeError(f"{type(value).__name__} is not {self.declared.__name__}")
        return ctypes.byref(value.c)


def function(name: str, *takes: Any, gives: type = int) -> Callable[..., Any]:
    """A function of the core: ``takes`` are int, float, bool, kinds of arrays and structs.

    One that gives an int gives a count, 0, or a negative number where something went wrong.
    """
    found = library[name]
    found.argtypes = [
        kind if isinstance(kind, Kind) else SCALARS.get(kind) or _Struct(kind) for kind in takes
    ]
    found.restype = SCALARS[gives]
    if gives is int:
        found.errcheck = _check
    return found


def _check(result: int, function: Any, arguments: Any) -> int:
    if result == NO_MEMORY:
        raise MemoryError(f"no memory for the scratch of {function.__name__}")
    return result
