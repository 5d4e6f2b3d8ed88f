"""Tables written once, shown in a terminal and in Markdown; the look of all figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich.table
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape

MODELS = ("AGM", "CRF", "SSVM")
LOOK: dict[str, dict[str, Any]] = {
    "AGM": {"color": "#0b6e99", "marker": "o"},
    "CRF": {"color": "#d1721f", "marker": "s"},
    "SSVM": {"color": "#7a5195", "marker": "^"},
    "AGM predictor": {"color": "#2a9d8f", "marker": "D"},
}


@dataclass(frozen=True)
class Table:
    """Cells are Markdown; ``bold(text)`` marks the winners."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def markdown(self) -> str:
        """The table for the documentation: title, columns, rows, caption."""
        ruler = ["---", *["---:"] * (len(self.columns) - 1)]
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.columns, ruler, *self.rows)]
        caption = f"\n{self.caption}\n" if self.caption else ""
        return f"**{self.title}**\n\n" + "\n".join(lines) + "\n" + caption

    def rich(self) -> Group:
        """The table for a terminal."""
        table = rich.table.Table(box=SIMPLE_HEAD)
        for place, column in enumerate(self.columns):
            table.add_column(column, justify="right" if place else "left", no_wrap=place == 0)
        for row in self.rows:
            table.add_row(*(_BOLD.sub(r"[bold]\1[/bold]", escape(cell)) for cell in row))
        return Group(f"[bold]{escape(self.title)}[/bold]", table, escape(self.caption))


def bold(text: str, yes: bool = True) -> str:
    """The cell in bold, if ``yes``."""
    return f"**{text}**" if yes else text


_BOLD = re.compile(r"\*\*(.+?)\*\*")


def new_figure(n_rows: int, n_columns: int, **options: Any) -> tuple[Any, Any]:
    """(figure, axes (n_rows, n_columns)) for panels of one size, ready for `save`."""
    from matplotlib.figure import Figure  # needs no display

    figure = Figure(figsize=(3.1 * n_columns, 2.6 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    return figure, axes


def save(figure: Any, file: Path) -> None:
    """Write the figure; equal figures give equal files, and those of SVG are kept small."""
    from matplotlib import rc_context

    if file.suffix != ".svg":
        figure.savefig(file, dpi=120)
        return
    with rc_context({"svg.hashsalt": "robustruct", "svg.fonttype": "none"}):
        figure.savefig(file, metadata={"Date": None})
    file.write_text(_TAG.sub(_rounded, file.read_text("utf-8")), encoding="utf-8")


_TAG = re.compile(r"<[^>]*>")
_LONG_NUMBER = re.compile(r"\d+\.\d{3,}")


def _rounded(tag: re.Match[str]) -> str:
    """The tag with hundredths of a point; what stands between tags is text to be read."""
    return _LONG_NUMBER.sub(lambda number: f"{float(number.group()):.2f}", tag.group())
