"""Probabilities of spans and the decisions by them, against an enumeration of all labellings."""

import copy
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustruct import AGM, CRF, SSVM, Constraints, Graph
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.metrics import SpanCost, span_scores
from robustruct.spans import SpanLabels
from robustruct.testing.oracles import all_labellings

SCHEMES = {
    "BIO": ["B-x", "B-y", "I-x", "I-y", "O"],
    "BIOES": ["B-x", "E-x", "I-x", "O", "S-x"],
}


def read(labels):
    """The spans of a labelling as conlleval reads them, one label at a time."""
    spans, start = [], None
    for i, label in enumerate([*labels, "O"]):
        before = labels[i - 1] if i else "O"
        continues = label[0] in "IE" and before[0] in "BI" and before[1:] == label[1:]
        if start is not None and not continues:
            spans.append((start, i, before[2:]))
            start = None
        if label != "O" and not continues:
            start = i
    return spans


def tagged_model(scheme, ruled=True, seed=0, **parameters):
    """A CRF with random weights, whose labels follow a scheme; weights do not matter otherwise."""
    rng = np.random.default_rng(seed)
    classes = SCHEMES[scheme]
    X = [rng.normal(size=(2, 2)) for _ in classes]
    y = [["O", "O"] for _ in classes]
    y[0] = ["B-x", "I-x"] if scheme == "BIO" else ["B-x", "E-x"]
    y[1] = ["B-y", "I-y"] if scheme == "BIO" else ["S-x", "O"]
    if scheme == "BIOES":
        X[2], y[2] = rng.normal(size=(3, 2)), ["B-x", "I-x", "E-x"]
    parameters = {"alpha": 0.1, **parameters}
    kind = parameters.pop("kind", CRF)
    model = kind(constraints=scheme if ruled else None, **parameters).fit(X, y)
    model.coef_ = rng.normal(scale=1.5, size=model.coef_.shape)
    assert model.classes_.tolist() == classes
    return model


def distribution(model, x, added=0.0):
    """Every labelling of a chain that keeps the rules, with its probability.

    ``added`` (n, k) is added to the scores of nodes.
    """
    found = model._scores(model._encode([x])[0])
    every = all_labellings(len(x), len(model.classes_))
    scores = (found.unary + added)[np.arange(len(x)), every].sum(axis=1)
    for i in range(len(x) - 1):
        scores = scores + found.tables[found.table_of[i]][every[:, i], every[:, i + 1]]
    mass = np.exp((scores - scores.max()) / model.absolute_temperature_)
    mass /= mass.sum()
    texts = model.classes_[every[mass > 0]].tolist()
    return list(zip(texts, mass[mass > 0].tolist(), strict=True))


def enumerated(every):
    found = {}
    for labels, p in every:
        for span in read(labels):
            found[span] = found.get(span, 0.0) + p
    return found


def assert_equal_spans(listed, expected):
    found = {span[:3]: span[3] for span in listed}
    assert set(found) <= set(expected)
    for span, p in expected.items():
        assert found.get(span, 0.0) == pytest.approx(p, abs=1e-10)


@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
@given(seed=st.integers(0, 2**20), n_nodes=st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_probabilities_are_those_of_an_enumeration(scheme, ruled, seed, n_nodes):
    model = tagged_model(scheme, ruled, seed)
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in (n_nodes, 1, 3)]
    for x, spans in zip(X, model.predict_spans(X, 0.0, overlapping=True), strict=True):
        assert_equal_spans(spans, enumerated(distribution(model, x)))
        assert spans == sorted(spans)


def test_forbidden_transitions_have_no_mass():
    rng = np.random.default_rng(0)
    y = [["B-x", "O"], ["B-y", "I-y"], ["I-x", "O"]]
    X = [rng.normal(size=(2, 2)) for _ in y]
    model = CRF(alpha=0.1, constraints=[("B-x", "I-x"), ("O", "B-y")]).fit(X, y)
    x = rng.normal(size=(4, 2))
    (spans,) = model.predict_spans([x], 0.0, overlapping=True)
    assert_equal_spans(spans, enumerated(distribution(model, x)))


@pytest.mark.parametrize("kind", [AGM, SSVM])
def test_above_temperature_0_it_is_the_adversary(kind):
    """Its distribution is Gibbs((scores + L'p) / T) for the predictor p of the same game."""
    model = tagged_model("BIO", kind=kind, temperature=0.7)
    x = np.random.default_rng(1).normal(size=(4, 2))
    ((game, play),) = model._games(model._feasible(model._scores(model._encode([x])[0])))
    (spans,) = model.predict_spans([x], 0.0, overlapping=True)
    assert_equal_spans(spans, enumerated(distribution(model, x, play.p @ game.cost)))


@given(
    seed=st.integers(0, 2**20),
    miss=st.floats(0.1, 10),
    false=st.floats(0.1, 10),
    wrong=st.one_of(st.none(), st.floats(0, 10)),
)
@settings(max_examples=12, deadline=None)
def test_no_set_of_spans_is_expected_to_cost_less(seed, miss, false, wrong):
    model = tagged_model("BIO", seed=seed)
    cost = SpanCost(miss, false, wrong)
    model.decision = cost
    x = np.random.default_rng(seed).normal(size=(3, 2))
    every = distribution(model, x)
    sets = {tuple(read(labels)): labels for labels, _ in every}  # all sets of disjoint spans
    mass = dict.fromkeys(sets, 0.0)
    for labels, p in every:
        mass[tuple(read(labels))] += p
    texts, p = list(sets.values()), np.array(list(mass.values()))

    def expected(labels):
        return float(p @ cost.per_sample(texts, [labels] * len(texts)))

    decided = model.predict([x])[0]
    assert expected(decided) <= min(map(expected, texts)) + 1e-9
    listed = model.predict_spans([x])[0]
    assert [span[:3] for span in listed] == read(decided)


def test_costs_of_spans_count_misses_false_ones_and_wrong_types():
    cost = SpanCost(miss=5, false=1, wrong_type=2)
    true = ["B-x", "I-x", "O", "B-y", "O"]
    for predicted, expected in [
        (true, 0),
        (["O"] * 5, 10),
        (["B-y", "I-y", "O", "B-y", "O"], 2),
        (["B-x", "O", "O", "B-y", "O"], 6),
        (["B-x", "I-x", "O", "B-y", "B-x"], 1),
    ]:
        assert cost.per_sample([true, true], [true, predicted]).tolist() == [0, expected]
    assert SpanCost(3, 2).mean([["B-x"]], [["B-y"]]) == 5


def test_labels_of_spans_are_read_as_these_spans():
    """Also where a scheme lacks a label, as small data may."""
    for classes in (["B-x", "I-x", "O"], ["B-x", "E-x", "I-x", "O", "S-x"], ["B-x", "O"]):
        labels = SpanLabels.of(np.array(classes))
        for a, b in combinations(range(6), 2):
            if b - a > 1 and "I-x" not in classes:
                continue
            codes = labels.written(6, np.array([a]), np.array([b]), np.array([0]))
            assert read(np.array(classes)[codes].tolist()) == [(a, b, "x")]


def test_other_rules_are_kept_too():
    rng = np.random.default_rng(0)
    y = [["B-x", "I-x", "O"], ["B-x", "B-x", "I-x"], ["O", "B-x", "O"]]
    X = [rng.normal(size=(3, 2)) for _ in y]
    model = CRF(alpha=0.1, constraints=Constraints("BIO", forbidden=[("I-x", "O")]))
    with pytest.raises(InvalidInputError, match="rules out"):
        model.fit(X, y)
    model = CRF(alpha=0.1, constraints=Constraints("BIO", forbidden=[("I-x", "B-x")])).fit(X, y)
    model.decision = SpanCost(miss=50, false=1)
    for _ in range(20):
        (labels,) = model.predict([rng.normal(size=(6, 2))])
        assert ("I-x", "B-x") not in list(pairwise(labels))


def test_chains_may_be_given_as_graphs_with_edges_in_any_order():
    model = tagged_model("BIO")
    x = np.random.default_rng(0).normal(size=(4, 2))
    chain = model.predict_spans([x], 0.0, overlapping=True)
    graph = model.predict_spans([Graph(x, [(2, 3), (0, 1), (1, 2)])], 0.0, overlapping=True)
    assert len(chain[0]) > 5
    for one, two in zip(chain[0], graph[0], strict=True):
        assert one[:3] == two[:3]
        assert one[3] == pytest.approx(two[3], abs=1e-12)


def test_thresholds_and_samples_without_nodes():
    model = tagged_model("BIO")
    x = np.random.default_rng(3).normal(size=(30, 2))
    every = model.predict_spans([x], 0.0, overlapping=True)[0]
    for threshold in (0.05, 0.2, 0.5, 0.9):
        listed = model.predict_spans([x], threshold, overlapping=True)[0]
        assert listed == [span for span in every if span[3] >= threshold]
        taken = model.predict_spans([x], threshold)[0]
        assert set(taken) <= set(listed)
        assert all(a[1] <= b[0] for a, b in pairwise(taken))
        for span in set(listed) - set(taken):
            others = [one for one in taken if one[0] < span[1] and span[0] < one[1]]
            assert max(one[3] for one in others) >= span[3]
        if threshold > 0.5:
            assert taken == listed
    nothing, something = model.predict_spans([np.zeros((0, 2)), x])
    assert nothing == []
    assert something == model.predict_spans([x], 0.5)[0]


@pytest.mark.parametrize("threshold", [-0.1, 1.5, "most", float("nan"), True])
def test_thresholds_that_are_none(threshold):
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        tagged_model("BIO").predict_spans([np.zeros((2, 2))], threshold)


def test_no_spans_at_temperature_0_without_scheme_or_chain():
    X = [np.zeros((2, 2))]
    model = tagged_model("BIO", kind=AGM)
    with pytest.raises(IncompatibleError, match="temperature 0"):
        model.predict_spans(X)
    model = CRF(alpha=1.0).fit(X, [["B-x", "noun"]])
    with pytest.raises(IncompatibleError, match="'noun' is none of them"):
        model.predict_spans(X)
    model = tagged_model("BIO")
    star = Graph(np.zeros((4, 2)), [(0, 1), (0, 2), (2, 3)])
    with pytest.raises(InvalidInputError, match="sample 1: spans are runs") as error:
        model.predict_spans([np.zeros((2, 2)), star])
    assert error.value.sample == 1


@pytest.mark.parametrize(
    "given", [{"miss": 0}, {"false": -1}, {"miss": "5"}, {"wrong_type": -1}, {"false": np.inf}]
)
def test_costs_of_spans_that_are_none(given):
    with pytest.raises(InvalidInputError, match="finite number") as error:
        SpanCost(**given)
    assert error.value.field == next(iter(given))


def test_parts_of_the_samples_are_put_together(monkeypatch):
    model = tagged_model("BIO")
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(n, 2)) for n in (3, 1, 7, 2)]
    whole = model.predict_spans(X, 0.1)
    parts = [model.predict_spans([x], 0.1)[0] for x in X]
    for one, two in zip(whole, parts, strict=True):
        assert [span[:3] for span in one] == [span[:3] for span in two]
    monkeypatch.setattr("robustruct.models.spans.chunks", lambda batch, _: [(0, 2), (2, 4)])
    assert model.predict_spans(X, 0.1) == whole
    decided = copy.copy(model)
    decided.set_params(decision="spans").span_rule_ = 0.1
    overall, _ = span_scores(decided.predict(X), decided.predict(X))
    assert overall.n_predicted == sum(map(len, whole))


def test_spans_agree_with_known_labels_and_take_no_actions():
    model = tagged_model("BIO")
    model.decision = SpanCost(5, 1)
    x = np.random.default_rng(0).normal(size=(4, 2))
    known = [["B-y", "I-y", None, None]]
    (every,) = model.predict_spans([x], 1e-9, overlapping=True, known=known)
    ruled = [(labels, p) for labels, p in distribution(model, x) if labels[:2] == ["B-y", "I-y"]]
    whole = sum(p for _, p in ruled)
    assert_equal_spans(every, enumerated([(labels, p / whole) for labels, p in ruled]))
    assert list(model.predict([x], known=known)[0][:2]) == ["B-y", "I-y"]
    with pytest.raises(IncompatibleError, match="prices of spans"):
        model.predict([x], actions={"review": 0.1})
