"""Drawings of samples: a sequence as a strip, other graphs as a tree, with p and q on each node."""

from __future__ import annotations

from typing import Any

from robustruct.charts import SampleChart
from robustruct.report.html import Html, scroll, shortened, tag

# In pixels. Nodes of a tree are apart by more than their boxes, which are BOX with a label above, a
# caption and marks below; MARGIN is half a column and some air.
BOX = (56.0, 40.0)  # width and height of the chart of p and q on a node
COLUMN, LEVEL = 84.0, 126.0  # between nodes of a tree
MARGIN = 52.0  # around a tree
LONGEST = 18  # characters of a label or word in a strip; longer ones would widen its column


def drawing(chart: SampleChart) -> Html:
    """Draw a sample with labels, predictor p (upwards) and adversary q (downwards)."""
    return scroll(_strip(chart) if chart.is_chain else _tree(chart), chart.title)


def _strip(chart: SampleChart) -> Html:
    n = chart.n_nodes
    rows = []
    if chart.captions is not None:
        words = [
            tag("td", shortened(caption, LONGEST), class_="word") for caption in chart.captions
        ]
        rows.append(tag("tr", tag("th", "", scope="row"), words))
    if chart.truth is not None:
        true = [tag("td", shortened(label, LONGEST)) for label in chart.truth]
        rows.append(tag("tr", tag("th", "true", scope="row"), true))
    for name, labels in chart.predicted.items():
        cells = [
            tag(
                "td",
                shortened(labels[i], LONGEST),
                class_=None if chart.is_right(name, i) else "wrong",
            )
            for i in range(n)
        ]
        head = tag("th", tag("i", class_=f"swatch {name.lower()}"), name, scope="row")
        rows.append(tag("tr", head, cells))
    strategies = [
        tag(
            "td",
            tag(
                "svg",
                _strategies(chart, i),
                viewBox=f"0 0 {BOX[0]:g} {BOX[1]:g}",
                width=BOX[0],
                height=BOX[1],
                data_tip=chart.tip(i),
                role="img",
            ),
        )
        for i in range(n)
    ]
    rows.append(tag("tr", tag("th", "p ↑ q ↓", scope="row"), strategies, class_="play"))
    return tag("table", tag("tbody", rows), class_="strip", data_rove=True)


def _tree(chart: SampleChart) -> Html:
    places = chart.places * [COLUMN, LEVEL] + [MARGIN, 34.0]
    width, height = places.max(axis=0) + [MARGIN, 92.0]
    drawn: list[Any] = [
        tag(
            "line",
            x1=places[a, 0],
            y1=places[a, 1] + 20,
            x2=places[b, 0],
            y2=places[b, 1] + 20,
            class_="edge",
        )
        for a, b in chart.edges
    ]
    for i, (x, y) in enumerate(places.tolist()):
        wrong = not all(chart.is_right(name, i) for name in chart.predicted)
        caption = chart.captions[i] if chart.captions is not None else ""
        head = shortened(chart.head(i), 8)
        inner = [
            tag(
                "rect",
                x=-BOX[0] / 2 - 4,
                y=-18.0,
                width=BOX[0] + 8,
                height=BOX[1] + 48,
                rx=6.0,
                class_="node wrong" if wrong else "node",
            ),
            tag("text", head, y=-4.0, class_="tick middle strong"),
            tag("g", _strategies(chart, i), transform=f"translate({-BOX[0] / 2:g} 0)"),
            tag("text", shortened(caption, 8), y=BOX[1] + 13, class_="tick middle"),
            _marks(chart, i),
        ]
        where = f"translate({x:.1f} {y:.1f})"
        drawn.append(tag("g", inner, transform=where, data_tip=chart.tip(i), role="img"))
    return tag(
        "svg",
        drawn,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        class_="tree",
        data_rove=True,
    )


def _marks(chart: SampleChart, node: int) -> list[Html]:
    """Draw a dot per method, filled where it is right."""
    drawn = []
    for m, name in enumerate(chart.predicted):
        right = chart.is_right(name, node)
        x = 14.0 * (m - (len(chart.predicted) - 1) / 2)
        kind = f"{'dot' if right else 'miss'} {name.lower()}"
        drawn.append(tag("circle", cx=x, cy=BOX[1] + 22, r=4.0, class_=kind))
    return drawn


def _strategies(chart: SampleChart, node: int) -> list[Html]:
    """Draw bars of p above a line and of q below it, one per label."""
    p, q = chart.predictor[node], chart.adversary[node]
    width, height = BOX
    middle = height / 2
    step = width / len(p)
    drawn = [tag("line", x1=0.0, x2=width, y1=middle, y2=middle, class_="base")]
    for a in range(len(p)):
        for share, kind, top in (
            (p[a], "p", middle - middle * p[a]),
            (q[a], "q", middle),
        ):
            if share > 0.01:
                drawn.append(
                    tag(
                        "rect",
                        x=a * step + 0.08 * step,
                        y=float(top),
                        width=0.84 * step,
                        height=float(middle * share),
                        class_=kind,
                    )
                )
    return drawn
