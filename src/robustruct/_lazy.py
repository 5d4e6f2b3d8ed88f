"""What is there when it is first asked for: names of a package, and what an object works out."""

from __future__ import annotations

import functools
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


if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """A property that is worked out once; threads that ask together get the same value.

        That of Python before 3.12 has a lock, one for all objects of a class. A process that forks
        while another thread holds it leaves its child waiting for ever.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.attrname not in values:
                values.setdefault(self.attrname, self.func(instance))
            return values[self.attrname]
