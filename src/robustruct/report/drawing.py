"""Samples drawn: a sequence as a strip, anything else as a tree, with p and q on every node."""

from __future__ import annotations

from typing import Any

import numpy as np

from robustruct.comparison import Example
from robustruct.graphs.layout import positions
from robustruct.report.html import Html, shortened, tag

BOX = (56.0, 40.0)  # of the small charts
COLUMN, LEVEL = 84.0, 126.0  # between nodes of a tree
MARGIN = 52.0
LONGEST = 18  # characters of a label or word in a strip


def drawing(example: Example) -> Html:
    """The sample with labels, predictor p (upwards) and adversary q (downwards)."""
    picture = _strip(example) if example.is_chain else _tree(example)
    return tag(
        "div",
        picture,
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=f"test sample {example.place}",
    )


def _strip(example: Example) -> Html:
    n = len(example.truth)
    rows = []
    if example.captions is not None:
        words = [
            tag("td", shortened(caption, LONGEST), class_="word") for caption in example.captions
        ]
        rows.append(tag("tr", tag("th", "", scope="row"), words))
    rows.append(
        tag(
            "tr",
            tag("th", "true", scope="row"),
            [tag("td", shortened(v, LONGEST)) for v in example.truth],
        )
    )
    for name, labels in example.predicted.items():
        cells = [
            tag(
                "td",
                shortened(labels[i], LONGEST),
                class_=None if labels[i] == example.truth[i] else "wrong",
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
                _strategies(example, i),
                viewBox=f"0 0 {BOX[0]:g} {BOX[1]:g}",
                width=BOX[0],
                height=BOX[1],
                data_tip=tip(example, i),
                role="img",
            ),
        )
        for i in range(n)
    ]
    rows.append(tag("tr", tag("th", "p ↑ q ↓", scope="row"), strategies, class_="play"))
    return tag("table", tag("tbody", rows), class_="strip", data_rove=True)


def _tree(example: Example) -> Html:
    n = len(example.truth)
    places = positions(n, example.edges) * [COLUMN, LEVEL] + [MARGIN, 34.0]
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
        for a, b in example.edges
    ]
    for i, (x, y) in enumerate(places.tolist()):
        wrong = any(labels[i] != example.truth[i] for labels in example.predicted.values())
        caption = example.captions[i] if example.captions is not None else ""
        head = shortened(example.truth[i], 8)
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
            tag("g", _strategies(example, i), transform=f"translate({-BOX[0] / 2:g} 0)"),
            tag("text", shortened(caption, 8), y=BOX[1] + 13, class_="tick middle"),
            _marks(example, i),
        ]
        where = f"translate({x:.1f} {y:.1f})"
        drawn.append(tag("g", inner, transform=where, data_tip=tip(example, i), role="img"))
    return tag(
        "svg",
        drawn,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        class_="tree",
        data_rove=True,
    )


def _marks(example: Example, node: int) -> list[Html]:
    """A dot per method, filled where it is right."""
    drawn = []
    for m, (name, labels) in enumerate(example.predicted.items()):
        right = labels[node] == example.truth[node]
        x = 14.0 * (m - (len(example.predicted) - 1) / 2)
        kind = f"{'dot' if right else 'miss'} {name.lower()}"
        drawn.append(tag("circle", cx=x, cy=BOX[1] + 22, r=4.0, class_=kind))
    return drawn


def _strategies(example: Example, node: int) -> list[Html]:
    """Bars of p above a line and of q below it, one per label."""
    p, q = example.predictor[node], example.adversary[node]
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


def tip(example: Example, node: int) -> str:
    """All there is to say about a node."""
    caption = "" if example.captions is None else f" “{example.captions[node]}”"
    lines = [f"node {node}{caption}: true {example.truth[node]}"]
    lines += [f"{name}: {labels[node]}" for name, labels in example.predicted.items()]
    lines.append(f"predictor p: {likely(example.predictor[node], example.classes)}")
    lines.append(f"adversary q: {likely(example.adversary[node], example.classes)}")
    return "\n".join(lines)


def likely(shares: np.ndarray, classes: np.ndarray) -> str:
    """The labels with the largest shares."""
    order = np.argsort(-shares, kind="stable")[:4]
    return ", ".join(f"{classes[a]} {shares[a]:.0%}" for a in order if shares[a] >= 0.005)
