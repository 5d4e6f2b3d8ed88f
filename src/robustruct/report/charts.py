"""Charts as inline SVG and tables; colours are CSS classes, defined by the page.

No element has a style of its own: the content security policy allows one style sheet only.
Positions are percentages of the chart's box, so that a chart fills the width of the page while its
text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.charts import Axis, BarChart, IntervalChart, Line, LineChart, Matrix, ticks
from robustruct.report.html import Html, scroll, shortened, tag

HEIGHT, ROW = 280, 34  # pixels: of a line chart, and of a row of intervals with its label
MOST_POINTS = 120  # of a line; each is an element with a tooltip, which makes the file larger


@dataclass(frozen=True)
class DrawnScale:
    """Maps values to positions, 0 at the low end and 1 at the high one."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value, clipped to the ends."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return 0.5 if high == low else (at - low) / (high - low)

    def ticks(self) -> list[float]:
        """Return round numbers between the ends."""
        return ticks(self.low, self.high, log=self.log)


def scale_for(axis: Axis, values: Sequence[float]) -> DrawnScale:
    """Return a scale over values, or over the positive ones on a logarithmic axis."""
    if axis.log:
        positive = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
        low, high = min(positive), max(positive)
        return DrawnScale(low, high if high > low else low * 10, log=True)
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return DrawnScale(low - room if low != 0 else 0.0, high + room)


def short(label: str) -> str:
    """Shorten a label to fit beside a chart; tooltips show all of it."""
    return shortened(label, 16)


def line_chart(chart: LineChart) -> Html:
    """Draw lines; every point has a tooltip."""
    lines = [line for line in chart.lines if len(line.x)]
    x_scale = scale_for(chart.x, [x for line in lines for x in line.x])
    y_scale = scale_for(chart.y, [y for line in lines for y in line.y])
    drawn: list[Any] = [_grid(chart.x, x_scale)]
    for value in y_scale.ticks():
        y = _percent(1 - y_scale.place(value))
        drawn.append(tag("line", x1="0%", x2="100%", y1=y, y2=y, class_="grid"))
        drawn.append(
            tag("text", chart.y.written(value), x="0%", y=y, dx=-6, dy=4, class_="tick end")
        )
    drawn.append(tag("text", chart.y.label, x="0%", y="0%", dx=-58, dy=-14, class_="axis"))
    drawn += [_line(line, x_scale, y_scale) for line in lines]
    names = [line.name for line in chart.lines]
    return tag("figure", legend(names), _box(chart.title, drawn, HEIGHT), class_="chart")


def _line(line: Line, x_scale: DrawnScale, y_scale: DrawnScale) -> list[Html]:
    points = _spread(len(line.x), line.marked)
    places = [(x_scale.place(line.x[i]), 1 - y_scale.place(line.y[i])) for i in points]
    name = line.name.lower()
    path = " ".join(f"{1000 * x:.1f},{1000 * y:.1f}" for x, y in places)
    stroke = tag("polyline", points=path, class_=f"line {name}", vector_effect="non-scaling-stroke")
    # Points of a polyline cannot be percentages: an inner SVG is stretched over the box.
    drawn = [
        tag(
            "svg",
            stroke,
            viewBox="0 0 1000 1000",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
        )
    ]
    for i, (x, y) in zip(points, places, strict=True):
        size = 6.0 if i == line.marked else 3.5
        drawn.append(
            tag(
                "circle",
                cx=_percent(x),
                cy=_percent(y),
                r=size,
                class_=f"dot {name}",
                data_tip=line.tips[i],
                role="img",
            )
        )
    return drawn


def _spread(n: int, marked: int | None) -> list[int]:
    """Choose at most MOST_POINTS of n points, both ends among them, and the marked one."""
    if n <= MOST_POINTS:
        return list(range(n))
    points = set((np.geomspace(1, n, MOST_POINTS).astype(int) - 1).tolist())
    return sorted(points if marked is None else points | {marked})


def _grid(axis: Axis, scale: DrawnScale) -> list[Html]:
    """Draw the x axis with its grid."""
    drawn = []
    for value in scale.ticks():
        x = _percent(scale.place(value))
        drawn.append(tag("line", x1=x, x2=x, y1="0%", y2="100%", class_="grid"))
        drawn.append(tag("text", axis.written(value), x=x, y="100%", dy=20, class_="tick middle"))
    drawn.append(tag("text", axis.label, x="50%", y="100%", dy=42, class_="axis middle"))
    return drawn


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _box(title: str, drawn: list[Any], height: int) -> Html:
    """Wrap a drawing in a box that leaves room for tick labels."""
    picture = tag("svg", drawn, height=height, role="group", aria_label=title, data_rove=True)
    return tag("div", picture, class_="box")


def legend(names: Sequence[str]) -> Html:
    """Draw the colour of each method with its name."""
    entries = [
        tag("span", tag("i", class_=f"swatch {name.lower()}"), name, class_="entry")
        for name in names
    ]
    return tag("div", entries, class_="legend")


def interval_chart(chart: IntervalChart) -> Html:
    """Draw dots with whiskers."""
    ends = [value for one in chart.intervals for value in (one.low, one.high)]
    scale = scale_for(chart.axis, ends)
    n = len(chart.intervals)
    drawn: list[Any] = [_grid(chart.axis, scale)]
    for i, one in enumerate(chart.intervals):
        y = _percent((i + 0.5) / n)
        low, middle, high = (_percent(scale.place(v)) for v in (one.low, one.value, one.high))
        kind = one.name.lower()
        drawn += [
            tag("text", one.name, x="0%", y=y, dx=-10, dy=4, class_="tick end strong"),
            tag("line", x1=low, x2=high, y1=y, y2=y, class_=f"line {kind}"),
            tag(
                "circle", cx=middle, cy=y, r=6.0, class_=f"dot {kind}", data_tip=one.tip, role="img"
            ),
        ]
    return tag("figure", _box(chart.title, drawn, ROW * n), class_="chart")


def heat_map(chart: Matrix) -> Html:
    """Draw a table coloured by its values; arrow keys go from cell to cell."""
    labels = chart.labels
    small = len(labels) > 12
    head = tag(
        "tr", tag("td"), [tag("th", tag("span", short(name)), scope="col") for name in labels]
    )
    body = []
    for a, name in enumerate(labels):
        cells = []
        for b in range(len(labels)):
            heat = float(chart.values[a, b]) / chart.full
            colour = "against" if heat < 0 else "for"
            depth = f"heat-{5 * round(20 * min(abs(heat), 1.0))}"
            cells.append(
                tag(
                    "td",
                    None if small else chart.cell(a, b),
                    class_=f"{colour} {depth} deep" if abs(heat) > 0.6 else f"{colour} {depth}",
                    data_tip=chart.tip(a, b),
                )
            )
        body.append(tag("tr", tag("th", short(name), scope="row"), cells))
    table = tag("table", tag("thead", head), tag("tbody", body), class_="heat", data_rove=True)
    return tag(
        "figure",
        tag("figcaption", tag("b", chart.title), f" rows: {chart.rows}, columns: {chart.columns}"),
        scroll(table),
        class_="map small" if small else "map",
    )


def bar_chart(chart: BarChart) -> Html:
    """Draw for each label one bar per method."""
    largest = max((float(v.max()) for v in chart.heights.values()), default=0.0) or 1.0
    rows = []
    for i, label in enumerate(chart.labels):
        drawn = [
            tag(
                "svg",
                width=_percent(float(heights[i]) / largest),
                class_=f"bar {name.lower()}",
                data_tip=chart.tip(name, i),
                role="img",
            )
            for name, heights in chart.heights.items()
        ]
        rows.append(tag("tr", tag("th", short(label), scope="row"), tag("td", drawn)))
    table = tag("table", tag("tbody", rows), class_="bars", data_rove=True, aria_label=chart.title)
    return tag("figure", legend(list(chart.heights)), table, class_="chart")
