"""The page: tabs for the comparison, convergence, mistakes, examples and weights."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from importlib.resources import files
from pathlib import Path

import numpy as np

from robustruct import charts
from robustruct._version import __version__
from robustruct.charts import number, percent
from robustruct.comparison import Comparison
from robustruct.models.base import StructuredModel
from robustruct.report.charts import bar_chart, heat_map, interval_chart, legend, line_chart
from robustruct.report.drawing import drawing
from robustruct.report.html import Html, scroll, tag, text

MOST_LABELS = 30  # of a matrix, those that cost most: more rows do not fit on a screen
TOP_FEATURES = 6  # for and against each label; more would crowd the table


def write(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the report of a comparison to an HTML file."""
    Path(path).write_text(render(comparison), encoding="utf-8")


def render(comparison: Comparison) -> str:
    """Return the report of a comparison as one HTML page."""
    tabs = {
        "Comparison": _comparison(comparison),
        "Convergence": _convergence(comparison),
        "Mistakes": _mistakes(comparison),
        "Examples": _examples(comparison),
        "Weights": _weights(comparison),
    }
    title = f"{comparison.data}: {comparison.loss} loss"
    style, script = _asset("style.css"), _asset("script.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"robustruct report: {title}"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("header", tag("h1", "What mistakes cost"), tag("p", _summary(comparison))),
        tag("main", tab_set("report", tabs)),
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("footer", f"robustruct {__version__}"),
        tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _policy(style: str, script: str) -> str:
    """Return a content security policy: no requests, no style or script but these two."""
    styles, scripts = (
        b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{styles}'; script-src 'sha256-{scripts}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("robustruct.report").joinpath(name).read_text(encoding="utf-8")


def tab_set(name: str, panels: dict[str, Html]) -> Html:
    """Build tabs; without scripts all panels appear one below the other under their headings."""
    buttons, bodies = [], []
    for i, (title, content) in enumerate(panels.items()):
        tab, panel = f"{name}-tab-{i}", f"{name}-panel-{i}"
        buttons.append(
            tag(
                "button",
                title,
                type="button",
                role="tab",
                id=tab,
                aria_controls=panel,
                aria_selected="true" if i == 0 else "false",
            )
        )
        bodies.append(
            tag(
                "section",
                tag("h2", title),
                content,
                role="tabpanel",
                id=panel,
                aria_labelledby=tab,
                tabindex=0,
            )
        )
    return tag("div", tag("div", buttons, role="tablist"), bodies, class_="tabs")


def _summary(comparison: Comparison) -> str:
    return (
        f"{comparison.data}, {comparison.loss} loss: trained on {comparison.n_train} samples, "
        f"tested on {comparison.how} ({comparison.n_test_nodes} labels)."
    )


# ------------------------------------------------------------------------------ the comparison


def _comparison(comparison: Comparison) -> Html:
    return text(
        tag("h3", "Recommended"),
        tag("p", comparison.recommendation.why),
        tag("h3", "Cost on test samples, with 95 % intervals"),
        interval_chart(charts.costs(comparison)),
        scroll(_table(comparison), "costs and training of each method"),
        _certified(comparison),
        tag("h3", "Which differences are real"),
        tag("ul", [tag("li", str(difference)) for difference in comparison.differences]),
        tag(
            "p",
            "Intervals: bootstrap over test samples, widened for few samples. Tests: paired sign "
            "flips over test samples, corrected for the number of pairs (Holm). Both speak of "
            "other test samples from the same source, not of other training samples. Expected is "
            "what held-out training samples said before the test, corrected for the choice among "
            "settings.",
            class_="note",
        ),
        tag("h3", "How alpha was chosen"),
        tag(
            "p",
            "Each method tried penalties on parts of its training samples, from strong to weak, "
            "until the held-out cost stopped falling; auto also tried the members of the family. "
            "The large dot is the choice.",
        ),
        line_chart(charts.regularisation_path(_models(comparison))),
        tag("ul", [tag("li", note) for note in comparison.notes], class_="note")
        if comparison.notes
        else None,
    )


def _certified(comparison: Comparison) -> Html | None:
    """Return what test samples prove about the cost of each model on new ones."""
    if not comparison.certificates:
        return None
    items = [
        tag("li", f"{method.name}: {certified}")
        for method, certified in zip(comparison.methods, comparison.certificates, strict=True)
    ]
    return text(
        tag("h3", "What each model costs at most on new samples"),
        tag("ul", items),
        tag(
            "p",
            "Each bound holds by itself; of several models the best one's is too low to be chosen "
            "by. They are about samples like the test samples, whose neighbours must not be alike.",
            class_="note",
        ),
    )


def _table(comparison: Comparison) -> Html:
    spans = any(method.span_f1 is not None for method in comparison.methods)
    heads = ["", "cost", "95 % interval", "expected", "accuracy", *(["span F1"] if spans else [])]
    heads += ["training", "with choice", "certified gap", "alpha", "chosen"]
    least = min((method.cost for method in comparison.methods if method.trained), default=None)
    rows = []
    for m in comparison.methods:
        alphas = sorted({number(alpha): alpha for alpha in m.alphas}.items(), key=lambda a: a[1])
        alpha = alphas[0][0] if len(alphas) == 1 else f"{alphas[0][0]} to {alphas[-1][0]}"
        cells = [
            number(m.cost),
            f"{number(m.low)} to {number(m.high)}",
            "" if m.forecast is None else number(m.forecast["mean"]),
            percent(m.accuracy),
            *([] if m.span_f1 is None else [percent(m.span_f1)]),
            f"{m.seconds:.2f} s",
            f"{m.seconds_in_all:.1f} s",
            percent(m.gap),
            alpha,
            m.chosen,
        ]
        head = tag("th", tag("i", class_=f"swatch {m.name.lower()}"), m.name, scope="row")
        best = "best" if m.trained and m.cost == least else None
        rows.append(tag("tr", head, [tag("td", cell) for cell in cells], class_=best))
    return tag(
        "table",
        tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
        tag("tbody", rows),
        class_="numbers",
    )


def _models(comparison: Comparison) -> dict[str, StructuredModel]:
    """Return the models of the first fold by name."""
    return {method.name: method.fits[0].model for method in comparison.methods}


# ------------------------------------------------------------------------------ convergence


def _convergence(comparison: Comparison) -> Html:
    models = _models(comparison)
    chart = charts.convergence(models)
    if not any(line.x for line in chart.lines):
        return tag("p", "All fits were exact at once.")
    worst = {name: model.worst_case_ for name, model in models.items() if _has_worst_case(model)}
    return text(
        tag(
            "p",
            "The gap is the certified distance to the best objective at most, relative to the "
            "objective; training stops when it is small enough"
            + (" (first fold)." if len(comparison.methods[0].fits) > 1 else "."),
        ),
        line_chart(chart),
        [
            tag(
                "p",
                f"{name}: the worst case that the fit guards against costs "
                f"{number(found['value'])} per training sample, over all label distributions whose "
                f"mean features are within {number(found['radius'])} of those seen. A diagnostic "
                "of the fit: it says nothing about new samples.",
                class_="note",
            )
            for name, found in worst.items()
        ],
    )


def _has_worst_case(model: StructuredModel) -> bool:
    return hasattr(model, "worst_case_")


# ------------------------------------------------------------------------------ mistakes


def _mistakes(comparison: Comparison) -> Html:
    shown = _costliest(comparison)
    labels = comparison.classes[shown]
    maps = [heat_map(charts.cost_matrix(comparison.cost_matrix[np.ix_(shown, shown)], labels))]
    for method in comparison.methods:
        counts, totals = method.confusion[np.ix_(shown, shown)], method.confusion.sum(axis=1)
        maps.append(
            heat_map(
                charts.confusion_matrix(counts, labels, name=method.name, totals=totals[shown])
            )
        )
    left_out = len(comparison.classes) - len(shown)
    return text(
        tag(
            "p",
            f"Shown are the {len(shown)} labels that cost most; {left_out} others are left out.",
        )
        if left_out
        else None,
        tag("h3", "What each mistake costs, and how often it was made"),
        tag(
            "p",
            "Colours of the counts: share of the nodes with the row's true label. Arrow keys "
            "move between cells.",
            class_="note",
        ),
        tag("div", maps, class_="maps"),
        tag("h3", "Part of the mean cost due to each true label"),
        bar_chart(charts.label_costs(comparison, shown)),
    )


def _costliest(comparison: Comparison) -> np.ndarray:
    """Return the indices of the MOST_LABELS costliest labels, ascending."""
    cost = np.max([method.label_costs for method in comparison.methods], axis=0)
    return np.sort(np.argsort(-cost, kind="stable")[:MOST_LABELS])


# ------------------------------------------------------------------------------ examples


def _examples(comparison: Comparison) -> Html:
    if not comparison.examples:
        return tag("p", "All methods cost the same on every test sample.")
    drawn = []
    for example in comparison.examples:
        costs = ", ".join(f"{name} {number(cost)}" for name, cost in example.costs.items())
        drawn.append(
            tag(
                "article",
                tag("h3", f"Test sample {example.place}"),
                tag("p", f"Cost: {costs}"),
                drawing(charts.example(example)),
            )
        )
    key: list[Html] = []
    if not all(example.is_chain for example in comparison.examples):
        key = [
            tag(
                "p",
                "Above a node of a tree stands its true label, below it a dot per method, "
                "filled where the method is right.",
            ),
            legend([method.name for method in comparison.methods]),
        ]
    return text(
        tag(
            "p",
            "The test samples on which the costs of the methods differ most. On every node "
            "the bars show the game behind the AGM's scores, a bar per label: upwards the "
            "distribution p of the predictor, downwards the distribution q of the adversary, who "
            "plays the labels that are hardest to guess.",
        ),
        key,
        drawn,
    )


# ------------------------------------------------------------------------------ weights


def _weights(comparison: Comparison) -> Html:
    folds = " (first fold)" if len(comparison.methods[0].fits) > 1 else ""
    panels = {m.name: _model_weights(m.fits[0].model, comparison) for m in comparison.methods}
    return text(
        tag("p", f"The features and transitions that speak most for and against a label{folds}."),
        tab_set("weights", panels),
    )


def _model_weights(model: StructuredModel, comparison: Comparison) -> Html:
    classes = set(model.classes_.tolist())
    shown = [c for c in comparison.classes[_costliest(comparison)].tolist() if c in classes]
    rows = [
        tag(
            "tr",
            tag("th", label, scope="row"),
            tag("td", _features(model.top_features(label, TOP_FEATURES), 1)),
            tag("td", _features(model.top_features(label, TOP_FEATURES, negative=True), -1)),
        )
        for label in shown
    ]
    codes = [model.classes_.tolist().index(label) for label in shown]
    transitions = model.transitions_[np.ix_(codes, codes)]
    heads = [tag("th", head, scope="col") for head in ("label", "for it", "against it")]
    return text(
        heat_map(charts.transition_matrix(transitions, shown)),
        scroll(
            tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="features"),
            "features for and against labels",
        ),
    )


def _features(features: list[tuple[str, float]], sign: int) -> list[Html]:
    """List the features whose weight has the given sign; there may be fewer than TOP_FEATURES."""
    return [
        tag("span", tag("code", name), f" {weight:+.3g}", class_="feature")
        for name, weight in features
        if sign * weight > 0
    ]
