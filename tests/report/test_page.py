"""The report as text: complete, self-contained, and safe whatever labels and words hold."""

import base64
import hashlib
import math
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import NASTY

from robustruct.charts import Axis, Line, LineChart, magnitude, ticks
from robustruct.comparison import Comparison
from robustruct.report import render, write
from robustruct.report.charts import DrawnScale, line_chart, scale_for
from robustruct.report.html import tag, text

VOID = {"br", "link", "meta"}


class Page(HTMLParser):
    """Reads a page, checks that elements are closed in order, and keeps what tests ask for."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def tips(self) -> list[str]:
        return [tip for _, attributes in self.elements if (tip := attributes.get("data-tip"))]


@pytest.fixture(scope="session", params=["sequences", "trees"])
def page(request: pytest.FixtureRequest) -> Page:
    source = render(request.getfixturevalue(request.param))
    assert len(source) < 1_000_000
    return Page(source)


def test_elements_are_closed_in_order(page: Page) -> None:
    assert page.open == []


def test_nothing_is_fetched(page: Page) -> None:
    for name, attributes in page.elements:
        assert name not in ("img", "iframe", "object", "embed", "base")
        assert "src" not in attributes
        assert not any(key.startswith("on") for key in attributes), attributes
        assert attributes.get("href", "data:,") == "data:,"
        assert "style" not in attributes


@pytest.mark.parametrize("name", ["sequences", "trees"])
def test_the_policy_allows_the_style_and_the_script_of_the_page_alone(
    name: str, request: pytest.FixtureRequest
) -> None:
    source = render(request.getfixturevalue(name))
    (policy,) = (
        attributes["content"]
        for _, attributes in Page(source).elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    for element in ("style", "script"):
        (text,) = re.findall(f"<{element}[^>]*>(.*?)</{element}>", source, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{element}-src"] == f"'sha256-{digest}'"
        assert "url(" not in text


def test_every_depth_of_colour_is_in_the_style(page: Page) -> None:
    used = {c for _, a in page.elements for c in (a.get("class") or "").split() if "heat-" in c}
    style = files("robustruct.report").joinpath("style.css").read_text()
    assert used
    assert all(f".{name} {{ --heat: {name[5:]}%; }}" in style for name in used)


def test_names_are_unique_and_lead_somewhere(page: Page) -> None:
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(names) == len(set(names))
    for _, attributes in page.elements:
        for key in ("aria-controls", "aria-labelledby"):
            if key in attributes:
                assert attributes[key] in names


def test_text_from_outside_arrives_as_text(trees: Comparison) -> None:
    page = Page(render(trees))
    assert any(NASTY in word for word in page.words)
    assert any(NASTY in tip for tip in page.tips())


def test_what_was_measured_is_in_the_page(sequences: Comparison) -> None:
    page = Page(render(sequences))
    words = "".join(page.words)
    for method in sequences.methods:
        assert f"{method.cost:.3g}" in page.words
        assert f"{method.low:.3g} to {method.high:.3g}" in page.words
    for difference in sequences.differences:
        assert str(difference) in words
    for example in sequences.examples:
        assert f"Test sample {example.place}" in words
    counts = [m.confusion for m in sequences.methods]
    for method, count in zip(sequences.methods, counts, strict=True):
        tip = f"{method.name} predicted 3 where 2 is true: {count[2, 3]} of {count[2].sum()} times"
        assert tip in page.tips()
    assert f"predicting 9 where 0 is true costs {sequences.cost_matrix[9, 0]:g}" in page.tips()


def test_every_node_shows_both_strategies(trees: Comparison) -> None:
    tips = Page(render(trees)).tips()
    drawn = [tip for tip in tips if "predictor p:" in tip and "adversary q:" in tip]
    assert len(drawn) == 5 * len(trees.examples)
    shares = [float(s) for tip in drawn for s in re.findall(r"(\d+)%", tip)]
    assert min(shares) >= 0
    assert max(shares) <= 100


def test_write(sequences: Comparison, tmp_path: Path) -> None:
    write(sequences, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(sequences)


# ------------------------------------------------------------------------------------------- parts


def test_children_are_escaped_unless_they_are_elements() -> None:
    assert tag("p", "<b>", tag("b", "&"), None, [1, "x"]) == "<p>&lt;b&gt;<b>&amp;</b>1x</p>"
    assert tag("i", title='"<&', hidden=True, id=None) == '<i title="&quot;&lt;&amp;" hidden></i>'
    assert text("a", tag("br")) == "a<br>"


def test_scales_place_values_and_mark_round_numbers() -> None:
    scale = DrawnScale(0.0, 10.0)
    assert [scale.place(v) for v in (0, 5, 10, 99)] == [0, 0.5, 1, 1]
    assert scale.ticks() == [0, 2, 4, 6, 8, 10]
    line, log = Axis(""), Axis("", log=True)
    assert scale_for(log, [1e-3, 1.0]).place(0.1) == pytest.approx(2 / 3)
    same = scale_for(line, [3.0, 3.0])
    assert same.low < 3 < same.high
    assert scale_for(log, [0.0, -1.0]).low > 0


@given(st.floats(1e-9, 1e9), st.floats(1.0001, 1e12), st.booleans())
def test_ticks_are_few_round_and_inside(low: float, factor: float, log: bool) -> None:
    high = low * factor
    found = ticks(low, high, log=log)
    assert 2 <= len(found) <= 9
    assert found == sorted(set(found))
    room = 1e-4 * low if log else 1e-6 * (high - low)
    assert all(low - room <= tick <= high * 1.0001 for tick in found)
    if factor > 100 and log:
        assert all(
            round(tick / 10 ** math.floor(math.log10(tick * 1.001)), 6) in (1, 2, 3, 5)
            for tick in found
        )


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.013, 0.5, "0.02 0.05 0.1 0.2 0.5"),
        (1e-3, 1e2, "0.001 0.01 0.1 1 10 100"),
        (1e-20, 1e4, "1e-20 1e-16 1e-12 1e-8 1e-4 1 1e4"),
        (0.012, 0.04, "0.015 0.02 0.025 0.03 0.035 0.04"),
    ],
)
def test_ticks_of_logarithmic_axes(low: float, high: float, wanted: str) -> None:
    assert " ".join(map(magnitude, ticks(low, high, log=True))) == wanted


def test_a_long_line_is_thinned_but_keeps_its_ends_and_its_mark() -> None:
    n = 5000
    line = Line("AGM", range(1, n + 1), [1.0] * n, [f"point {i}" for i in range(n)], marked=4321)
    chart = LineChart("", [line], Axis("", log=True), Axis(""))
    tips = Page(line_chart(chart)).tips()
    assert len(tips) <= 121
    assert {"point 0", "point 4321", f"point {n - 1}"} <= set(tips)


def test_bounds_and_worst_cases_are_in_the_page(sequences: Comparison) -> None:
    text = re.sub(r"<[^>]*>", "", render(sequences))
    assert len(sequences.certificates) == len(sequences.methods)
    for method, certificate in zip(sequences.methods, sequences.certificates, strict=True):
        assert certificate.mean <= certificate.upper <= sequences.cost_matrix.max()
        assert certificate.n == sequences.n_test
        assert f"a node costs at most {certificate.upper:.4g}" in text
        assert f"{method.name}: With 95 % confidence" in text
    for method in sequences.methods:
        guarded = f"{method.name}: the worst case that the fit guards against" in text
        assert guarded == hasattr(method.model, "worst_case_")
