"""Names of a package that load the module they live in when they are first asked for."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # typing itself would be most of what is loaded here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def names_from(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``, whose names live in the modules ``homes``."""

    def lookup(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return lookup, listing
