"""Plain tables: they look the same on a terminal, in a file and in a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel


def table(rows: Sequence[Sequence[str]], indent: str = "  ", *, text_columns: int = 1) -> str:
    """Format rows in columns; those after the first ``text_columns`` are right-aligned.

    >>> print(table([["label", "n"], ["O", "12"]]))
      label   n
      O      12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < text_columns else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def number(value: float) -> str:
    """Format a number for a table: integers as they are, others with four digits."""
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else f"{value:.4g}"


def finite_or_word(value: float) -> float | str:
    """Return a number as JSON can hold it: inf and nan become text."""
    return value if math.isfinite(value) else f"{value:g}"


def forecast_of(model: StructuredModel) -> dict[str, Any] | None:
    """Return what a choice expects new samples to cost, ready for JSON."""
    forecast = getattr(model, "forecast_", None)
    return None if forecast is None else forecast._asdict()


def expected(forecast: dict[str, Any]) -> str:
    """Return a forecast in words."""
    low, high = number(forecast["lower"]), number(forecast["upper"])
    return f"{number(forecast['mean'])} per node ({low} to {high}), on samples like these"
