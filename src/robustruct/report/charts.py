"""Charts as inline SVG and tables; colours are classes, so that the page decides on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.report.html import Html, shortened, tag

WIDTH, HEIGHT = 640.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 14.0, 30.0, 56.0  # room for the larger type of small screens


@dataclass(frozen=True)
class Axis:
    """From values to places on the page."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value is drawn."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        share = 0.5 if high == low else (at - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers between the ends."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if len(powers) <= 4 else (1,)
            marks = [10.0**power * factor for power in powers for factor in factors]
            inside = [mark for mark in marks if self.low <= mark <= self.high]
            return inside[:: 1 + len(inside) // 8]
        unit = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / unit - 1e-9)
        return [i * unit for i in range(first, math.floor(self.high / unit + 1e-9) + 1)]


def log_axis(values: Sequence[float], start: float, end: float) -> Axis:
    """A logarithmic axis over the positive values."""
    positive = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = min(positive), max(positive)
    return Axis(low, high * 1.0001 if high > low else low * 10, start, end, log=True)


def linear_axis(values: Sequence[float], start: float, end: float) -> Axis:
    """A linear axis with a little room at both ends."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return Axis(low - room if low != 0 else 0.0, high + room, start, end)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)


def number(value: float) -> str:
    """Three digits, short."""
    return f"{value:.3g}"


def short(label: str) -> str:
    """A label that fits beside a chart; tooltips have all of it."""
    return shortened(label, 16)


def percent(value: float) -> str:
    """A share as a percentage, two digits."""
    shown = f"{100 * value:.2g}" if abs(value) < 1 else f"{100 * value:.0f}"
    return f"{shown} %"


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    tips: Sequence[str]
    marked: int | None = None
    """Place of a point to be emphasised."""


def line_chart(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    log_y: bool,
    x_text: Callable[[float], str] = number,
    y_text: Callable[[float], str] = number,
) -> Html:
    """Lines over a logarithmic x axis; every point has a tooltip."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    x_axis = log_axis(xs, LEFT, WIDTH - RIGHT)
    y_axis = (log_axis if log_y else linear_axis)(ys, HEIGHT - BOTTOM, TOP)
    drawn: list[Any] = [_axes(x_axis, y_axis, x_label, y_label, x_text, y_text)]
    for one in series:
        places = [(x_axis.place(x), y_axis.place(y)) for x, y in one.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        name = one.name.lower()
        drawn.append(tag("polyline", points=path, class_=f"line {name}"))
        for i, ((x, y), tip) in enumerate(zip(places, one.tips, strict=True)):
            size = 6.0 if i == one.marked else 3.5
            drawn.append(
                tag("circle", cx=x, cy=y, r=size, class_=f"dot {name}", data_tip=tip, role="img")
            )
    picture = tag(
        "svg",
        drawn,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="group",
        aria_label=title,
        data_rove=True,
    )
    return tag("figure", legend([one.name for one in series]), picture, class_="chart")


def _axes(
    x_axis: Axis,
    y_axis: Axis,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
) -> list[Html]:
    bottom = HEIGHT - BOTTOM
    drawn = []
    for value in x_axis.ticks():
        x = x_axis.place(value)
        drawn.append(tag("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid"))
        drawn.append(tag("text", x_text(value), x=x, y=bottom + 20, class_="tick middle"))
    for value in y_axis.ticks():
        y = y_axis.place(value)
        drawn.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", y_text(value), x=LEFT - 6, y=y + 4, class_="tick end"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(tag("text", x_label, x=middle, y=HEIGHT - 8, class_="axis middle"))
    drawn.append(tag("text", y_label, x=0.0, y=16.0, class_="axis"))
    return drawn


def legend(names: Sequence[str]) -> Html:
    """The colour of each method."""
    entries = [
        tag("span", tag("i", class_=f"swatch {name.lower()}"), name, class_="entry")
        for name in names
    ]
    return tag("div", entries, class_="legend")


def interval_chart(title: str, rows: Sequence[tuple[str, float, float, float]], unit: str) -> Html:
    """(name, low, value, high) as dots with whiskers."""
    step, left = 34.0, 80.0
    height = step * len(rows) + 54
    ends = [value for _, low, _, high in rows for value in (low, high)]
    axis = linear_axis(ends, left, WIDTH - RIGHT)
    drawn: list[Any] = []
    for value in axis.ticks():
        x = axis.place(value)
        drawn.append(tag("line", x1=x, x2=x, y1=4.0, y2=height - 50, class_="grid"))
        drawn.append(tag("text", number(value), x=x, y=height - 30, class_="tick middle"))
    drawn.append(tag("text", unit, x=(left + WIDTH) / 2, y=height - 6, class_="axis middle"))
    for i, (name, low, value, high) in enumerate(rows):
        y = step * (i + 0.5) + 2
        kind = name.lower()
        tip = f"{name}: {number(value)}, 95 % interval {number(low)} to {number(high)}"
        drawn.append(tag("text", name, x=left - 10, y=y + 4, class_="tick end strong"))
        drawn.append(
            tag("line", x1=axis.place(low), x2=axis.place(high), y1=y, y2=y, class_=f"line {kind}")
        )
        drawn.append(
            tag(
                "circle",
                cx=axis.place(value),
                cy=y,
                r=6.0,
                class_=f"dot {kind}",
                data_tip=tip,
                role="img",
            )
        )
    return tag(
        "figure",
        tag(
            "svg",
            drawn,
            viewBox=f"0 0 {WIDTH:g} {height:g}",
            role="group",
            aria_label=title,
            data_rove=True,
        ),
        class_="chart",
    )


def heat_map(
    title: str,
    values: np.ndarray,
    labels: Sequence[str],
    *,
    heat: np.ndarray,
    tips: Callable[[int, int], str],
    rows: str,
    columns: str,
    written: Callable[[float], str] = number,
) -> Html:
    """A (k, k) table coloured by ``heat`` in [-1, 1]; arrow keys go from cell to cell."""
    small = len(labels) > 12
    head = tag(
        "tr", tag("td"), [tag("th", tag("span", short(name)), scope="col") for name in labels]
    )
    body = []
    for a, name in enumerate(labels):
        cells = []
        for b in range(len(labels)):
            strength = abs(float(heat[a, b]))
            colour = "against" if heat[a, b] < 0 else "for"
            cells.append(
                tag(
                    "td",
                    None if small else written(float(values[a, b])),
                    class_=f"{colour} deep" if strength > 0.6 else colour,
                    style=f"--heat:{100 * strength:.0f}%",
                    data_tip=tips(a, b),
                )
            )
        body.append(tag("tr", tag("th", short(name), scope="row"), cells))
    table = tag("table", tag("thead", head), tag("tbody", body), class_="heat", data_rove=True)
    return tag(
        "figure",
        tag("figcaption", tag("b", title), f" rows: {rows}, columns: {columns}"),
        tag("div", table, class_="scroll"),
        class_="map small" if small else "map",
    )


def bars(title: str, labels: Sequence[str], values: Mapping[str, np.ndarray], unit: str) -> Html:
    """For each label one bar per method."""
    largest = max((float(v.max()) for v in values.values()), default=0.0) or 1.0
    rows = []
    for i, label in enumerate(labels):
        drawn = [
            tag(
                "i",
                class_=f"bar {name.lower()}",
                style=f"width:{100 * float(of[i]) / largest:.1f}%",
                data_tip=f"{label}, {name}: {number(float(of[i]))} {unit}",
            )
            for name, of in values.items()
        ]
        rows.append(tag("tr", tag("th", short(label), scope="row"), tag("td", drawn)))
    table = tag("table", tag("tbody", rows), class_="bars", data_rove=True, aria_label=title)
    return tag("figure", legend(list(values)), table, class_="chart")
