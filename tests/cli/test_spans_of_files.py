"""Spans and targets on the command line."""

from __future__ import annotations

import json

import pytest
from commands import TEST, TRAIN

import robustruct
from robustruct.formats.corpus import read_corpus
from robustruct.metrics import SpanCost


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spans")


def test_spans_are_listed_as_json_lines(folder, here):
    asked = ("train", TRAIN, "-o", "m", "--model", "crf", "--alpha", "0.05", "-q")
    assert here(*asked, cwd=folder)[0] == 0
    out = here("predict", "m", TEST, "--spans", "--threshold", "0.1", cwd=folder)[1]
    lines = [json.loads(line) for line in out.splitlines()]
    model, test = robustruct.load(folder / "m"), read_corpus(TEST)
    expected = model.predict_spans(test.X, 0.1)
    assert sum(map(len, expected)) > 3
    for line, labels, spans in zip(lines, model.predict(test.X), expected, strict=True):
        assert line["predicted"] == list(labels)
        assert [tuple(span.values()) for span in line["spans"]] == spans
    code, _, err = here("predict", "m", TEST, "--spans", "--threshold", "much", cwd=folder)
    assert code == 2
    assert "from 0 to 1, or auto" in err
    code, _, err = here("predict", "m", TEST, "--spans", "--threshold", "2", cwd=folder)
    assert code != 0
    assert "threshold=2.0; give the least probability" in err


def test_train_chooses_by_a_target(folder, here):
    asked = ("train", TRAIN, "-o", "f", "--model", "crf", "--folds", "2", "-q", "--json")
    result = json.loads(here(*asked, "--target", "span_f1", cwd=folder)[1])
    assert result["target"] == "span_f1"
    assert len(result["alpha_scores"]) > 1
    assert all(0 <= score <= 1 for score in result["alpha_scores"].values())
    assert robustruct.load(folder / "f").decision_ == result["decision"]
    said = here(*asked[:-1], "--decision", "spans", "--alpha", "0.1", cwd=folder)[1]
    rule = robustruct.load(folder / "f").span_rule_
    assert isinstance(rule, float)
    assert f"spans of probability {rule:g} or more" in said
    asked_for_costs = ("--target", "span_cost:5,1,2", "--decision", "spans", "--alpha", "0.1")
    result = json.loads(here(*asked, *asked_for_costs, cwd=folder)[1])
    assert set(result["span_rule"]) == {"miss", "false", "wrong_type"}
    assert isinstance(robustruct.load(folder / "f").span_rule_, SpanCost)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("span_f2", "did you mean 'span_f1'"),
        ("span_cost:5,1,2,3", "such as span_cost:5,1,2"),
        ("span_cost:", "such as span_cost:5,1,2"),
        ("span_cost:0,1", "miss=0.0; give a finite number > 0"),
        ("span_f1:CITY", "there is no type of span 'CITY'"),
    ],
)
def test_targets_that_are_none(folder, here, target, said):
    code, _, err = here("train", TRAIN, "-o", "no", "--target", target, "-q", cwd=folder)
    assert code != 0
    assert said in " ".join(err.split())
    assert not (folder / "no").exists()
