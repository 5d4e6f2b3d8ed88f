"""Writes structs.h from the declarations of structs.py. Run: python -m robustruct.core.header"""

from __future__ import annotations

from pathlib import Path

from robustruct.core import structs
from robustruct.core.declare import c_text

TARGET = Path(__file__).with_name("structs.h")


def text() -> str:
    """Return the header for all structs with a C form, in the order of declaration.

    A test compares structs.h with it.
    """
    declared = [value for value in vars(structs).values() if hasattr(value, "c_struct")]
    opening = (
        "/* Made from structs.py, which says what arrays hold, by core/header.py. */"
        "\n#ifndef STRUCTS_H\n#define STRUCTS_H\n"
    )
    return opening + "\n" + "\n\n".join(map(c_text, declared)) + "\n#endif\n"


if __name__ == "__main__":
    TARGET.write_text(text())
