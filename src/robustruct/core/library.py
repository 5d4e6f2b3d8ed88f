"""Loads the compiled core and declares its functions.

The C code never checks its arguments. Arrays are checked here: type and layout of single arrays,
and also the lengths of those in structs (declare.py).
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Any

from robustruct._version import __version__
from robustruct.core.declare import SCALARS, Kind

HERE = Path(__file__).parent

REMEDY = "Install a wheel made for this machine, or from source with a C compiler."


def _load() -> ctypes.CDLL:
    """Load the library for this processor; in a checkout, compile it first if stale."""
    level = os.environ.get("ROBUSTRUCT_CORE")  # for tests: the library of this level
    if (HERE / "build.py").exists():
        from robustruct.core.build import build

        return _open(build(level))
    paths = [path for path in HERE.glob("core*") if path.suffix in (".so", ".dylib", ".dll")]
    named = {path.stem.removeprefix("core").removeprefix("-"): path for path in paths}
    if level is not None:
        return _open(named.get(level, HERE / f"core-{level}"))
    if not named:
        raise ImportError(f"{HERE} has no compiled core. {REMEDY}")
    least = _open(named[min(named)])  # the only one, or that of x86-64-v2, which runs on v3 too
    better = named.get("x86-64-v3")
    return _open(better) if better and least.has_v3() else least


def _open(path: Path) -> ctypes.CDLL:
    """Open a library; refuse one of another version or machine."""
    try:
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"The compiled core {path} cannot be loaded on {platform.system()} "
            f"{platform.machine()}: {error}. {REMEDY}"
        ) from error
    opened.core_version.restype = ctypes.c_char_p
    version = opened.core_version().decode()
    if version != __version__:
        raise ImportError(
            f"The compiled core {path} is of robustruct {version}, and this is {__version__}. "
            "Install robustruct again."
        )
    return opened


library = _load()

NO_MEMORY = -1  # as in core.h


class _Struct:
    """Passes a struct by reference."""

    def __init__(self, declared: Any):
        self.declared = declared

    def from_param(self, value: Any) -> Any:
        if not isinstance(value, self.declared):
            raise TypeError(f"{type(value).__name__} is not {self.declared.__name__}")
        return ctypes.byref(value.c)


class Function:
    """A function of the core, callable from Python."""

    def __init__(self, c: Any):
        self.c = c

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.c(*arguments)
        except ctypes.ArgumentError as error:
            # ctypes turns any exception during conversion into this error, Ctrl-C included.
            if "KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise


def function(name: str, *takes: Any, gives: type = int) -> Function:
    """Declare a function of the core: ``takes`` are int, float, bool, kinds of arrays, structs.

    An int that it returns is a count, 0, or a negative error code.
    """
    c: Any = library[name]
    c.argtypes = [
        kind if isinstance(kind, Kind) else SCALARS.get(kind) or _Struct(kind) for kind in takes
    ]
    c.restype = SCALARS[gives]
    if gives is int:
        c.errcheck = _check
    return Function(c)


def _check(result: int, function: Any, arguments: Any) -> int:
    if result == NO_MEMORY:
        raise MemoryError(f"no memory for the scratch of {function.__name__}")
    return result
