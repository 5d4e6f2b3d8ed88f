"""What `compare` measures, checked against other ways to compute it."""

from itertools import combinations

import numpy as np
import pytest

from robustruct import Graph
from robustruct.comparison import Comparison, Samples, compare
from robustruct.comparison.compare import Difference, recommendation
from robustruct.comparison.examples import edges_of
from robustruct.comparison.samples import splits
from robustruct.datasets import load_counter
from robustruct.errors import InvalidInputError
from robustruct.losses import Absolute
from robustruct.metrics import mean_loss, span_scores


def counter(part: str, n: int, *, weighted: bool = False) -> Samples:
    data = load_counter(part, n_sequences=n, length=5)
    weights = [np.arange(1.0, 6.0) for _ in data.X] if weighted else None
    return Samples(data.X, data.y, node_weight=weights)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(counter("train", 20), counter("test", 15), "absolute", n_examples=3)


def test_costs_are_those_of_the_models(compared: Comparison) -> None:
    test = counter("test", 15)
    for method in compared.methods:
        model = method.fits[0].model
        assert method.cost == pytest.approx(-model.score(test.X, test.y))
        assert method.low <= method.cost <= method.high
        assert method.costs.sum() == pytest.approx(method.cost * 75)
        assert method.label_costs.sum() == pytest.approx(method.cost)
        assert method.confusion.sum() == 75
        assert np.trace(method.confusion) / 75 == pytest.approx(method.accuracy)
        assert (method.confusion * compared.cost_matrix).sum() / 75 == pytest.approx(method.cost)
        assert method.gap <= model.tol
        assert 0 < method.seconds <= method.seconds_in_all


def test_alpha_is_chosen_on_training_samples(compared: Comparison) -> None:
    for method in compared.methods:
        model = method.fits[0].model
        assert method.alphas == [model.alpha_]
        tried = {one.alpha for one in model.trials_}
        assert model.alpha_ in tried
        if method.name != "auto":  # the usual penalty, and one at least to either side of it
            train = counter("train", 20)
            usual = type(model)("absolute").fit(train.X, train.y).alpha_
            assert min(tried) < usual < max(tried)


def test_differences_are_between_all_pairs(compared: Comparison) -> None:
    cost = {method.name: method.cost for method in compared.methods}
    pairs = [(d.first, d.second) for d in compared.differences]
    names = ["auto", "AGM", "CRF", "SSVM"]
    assert pairs == list(combinations(names, 2))
    for d in compared.differences:
        assert d.mean == pytest.approx(cost[d.first] - cost[d.second])
        assert d.low <= d.mean <= d.high
        assert 0 < d.p_value <= 1


def test_examples_are_those_with_the_largest_disagreement(compared: Comparison) -> None:
    table = np.array([method.costs for method in compared.methods])
    spread = np.ptp(table, axis=0)
    assert [spread[e.place] for e in compared.examples] == sorted(spread, reverse=True)[:3]
    test = counter("test", 15)
    for example in compared.examples:
        assert example.is_chain
        np.testing.assert_array_equal(example.truth, test.y[example.place])
        np.testing.assert_allclose(example.predictor.sum(axis=1), 1)
        np.testing.assert_allclose(example.adversary.sum(axis=1), 1)
        # At equilibrium the predictor's expected cost is the least against the adversary.
        answers = example.adversary @ compared.cost_matrix
        expected = (example.predictor * answers).sum()
        assert expected <= answers.min(axis=1).sum() + example.gap + 1e-9


def test_equal_seeds_give_equal_comparisons() -> None:
    train, test = counter("train", 12), counter("test", 8)
    once, again = (compare(train, test, "absolute", alpha=[0.1, 0.01], seed=3) for _ in range(2))
    for one, other in zip(once.methods, again.methods, strict=True):
        assert (one.cost, one.low, one.high) == (other.cost, other.low, other.high)
    assert once.differences == again.differences


def test_node_weights_count_in_training_and_in_the_test() -> None:
    train, test = counter("train", 12, weighted=True), counter("test", 8, weighted=True)
    found = compare(train, test, Absolute(), alpha=[0.1, 0.01], n_examples=1)
    assert found.weighted
    assert test.node_weight is not None
    for method in found.methods:
        wanted = mean_loss(test.y, method.predicted, "absolute", test.node_weight)
        assert method.cost == pytest.approx(wanted)
        assert method.label_costs.sum() == pytest.approx(wanted)


def test_folds_test_every_sample_once_by_a_model_that_did_not_see_it() -> None:
    samples = counter("train", 12)
    found = compare(samples, folds=2, alpha=[0.1, 0.01], n_examples=2)
    assert found.n_test == 12
    parts, how = splits(samples, None, 2, 0)
    assert found.how == how == "each of them once, in 2 folds"
    tested = [id(x) for part in parts for x in part.test.X]
    assert sorted(tested) == sorted(map(id, samples.X))
    for part in parts:
        assert not {id(x) for x in part.train.X} & {id(x) for x in part.test.X}
        assert len(part.train) == 6
    for method in found.methods:
        one_by_one = [
            labels
            for fit, part in zip(method.fits, parts, strict=True)
            for labels in fit.model.predict(part.test.X)
        ]
        for labels, other in zip(method.predicted, one_by_one, strict=True):
            np.testing.assert_array_equal(labels, other)


def test_a_third_is_held_out_by_default() -> None:
    (part,), how = splits(counter("train", 10), None, None, 0)
    assert (len(part.train), len(part.test)) == (6, 4)
    assert "held out" in how


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 5 to train on"):
        compare(counter("train", 3))
    with pytest.raises(InvalidInputError, match="2 to test"):
        compare(counter("train", 5), counter("test", 1))
    with pytest.raises(InvalidInputError, match="7 folds of 5 samples"):
        compare(counter("train", 5), folds=7)


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (
            Difference("AGM", "CRF", -0.2, -0.3, -0.1, 1e-4),
            "AGM costs less than CRF: by 0.2 (0.1 to 0.3, p < 0.001)",
        ),
        (
            Difference("AGM", "CRF", 0.2, 0.1, 0.3, 0.02),
            "CRF costs less than AGM: by 0.2 (0.1 to 0.3, p = 0.02)",
        ),
        (
            Difference("AGM", "CRF", 0.2, -0.1, 0.3, 0.2),
            "AGM and CRF: no significant difference (p = 0.2)",
        ),
    ],
)
def test_differences_in_words(difference: Difference, said: str) -> None:
    assert str(difference) == said


def test_edges_of_samples() -> None:
    assert edges_of(np.zeros((3, 2)))[0].tolist() == [[0, 1], [1, 2]]
    assert edges_of(Graph(np.zeros((3, 2)), [(1, 0), (1, 2)]))[1]
    assert not edges_of(Graph(np.zeros((3, 2)), [(0, 1), (0, 2)]))[1]


def method(name: str, cost: float, model=None, gap: float = 0.0, cut_short: int | None = None):
    class Named:
        def __init__(self) -> None:
            self.name, self.cost, self.chosen, self.model = name, cost, f"as {name}", model
            self.trained, self.gap, self.cut_short = gap <= 0.03, gap, cut_short

    return Named()


class Fitted:
    alpha_, temperature_, decision_, decision_scale_, member_ = 0.25, 1.0, "bayes", 1.0, "SSVM"


def pairs_with(p_values: dict[tuple[str, str], float]) -> list[Difference]:
    return [Difference(a, b, 0.0, 0.0, 0.0, p) for (a, b), p in p_values.items()]


def test_what_is_recommended_is_the_family_unless_it_is_clearly_worse() -> None:
    methods = [method("auto", 1.1, Fitted()), method("AGM", 1.0, Fitted()), method("CRF", 2.0)]
    level = {("auto", "AGM"): 0.4, ("auto", "CRF"): 0.01, ("AGM", "CRF"): 0.01}
    found = recommendation(methods, pairs_with(level))
    assert found.model == "auto"
    assert found.options == {
        "model": "ssvm",
        "alpha": "0.25",
        "temperature": "1",
        "decision": "bayes",
    }
    assert found.why == (
        "auto (as auto), at a cost of 1.1; significantly less than CRF; level with AGM as far as "
        "these test samples can tell."
    )
    worse = {**level, ("auto", "AGM"): 0.01}
    assert recommendation(methods, pairs_with(worse)).model == "AGM"
    methods[0].model.decision_scale_ = 0.5  # no option of train: it has to be chosen again
    assert recommendation(methods, pairs_with(level)).options["alpha"] == "auto"


def test_what_was_not_trained_is_neither_worse_nor_better() -> None:
    pairs = [("auto", "AGM"), ("auto", "CRF"), ("AGM", "CRF")]
    differences = [
        Difference(a, b, -0.5, -0.6, -0.4, 0.001, [n for n in (a, b) if n == "AGM"])
        for a, b in pairs
    ]
    for cost in (0.5, 2.0):  # even where an accident made it cheap
        methods = [
            method("auto", 1.0, Fitted(), cut_short=3),
            method("AGM", cost, Fitted(), gap=0.8, cut_short=1),
            method("CRF", 1.5, Fitted()),
        ]
        found = recommendation(methods, differences)
        assert found.model == "auto"
        assert found.why == (
            "auto (as auto), at a cost of 1; significantly less than CRF. Not trained, hence not "
            "judged: AGM (gap 0.8). Time ended the choice of settings: auto after 3, AGM after 1. "
            "With more time this may change."
        )
    assert not differences[0].significant
    assert str(differences[0]) == "auto and AGM: not compared, as AGM was not trained"
    untrained = [method(name, 1.0, Fitted(), gap=0.8) for name in ("auto", "AGM", "CRF")]
    assert "no method was trained" in recommendation(untrained, differences).why


def test_fits_cut_by_time_are_said_to_be() -> None:
    """So little time that each choice ends after its first setting."""
    found = compare(
        counter("train", 30), counter("test", 15), "absolute", max_time=1e-3, n_examples=0
    )
    cut = [m for m in found.methods if m.cut_short is not None]
    assert [m.cut_short for m in cut] == [1] * len(found.methods)
    for m in found.methods:
        assert m.trained == (m.gap <= max(m.model.tol, 0.03))
        assert ("not trained" in m.chosen) == (not m.trained)
    missed = {m.name for m in found.methods if not m.trained}
    assert missed
    for d in found.differences:
        assert set(d.not_trained) == {d.first, d.second} & missed
    beaten = found.recommendation.why.partition("significantly less than")[2].partition(".")[0]
    assert not any(name in beaten for name in missed)
    assert all(
        entry["trained"] == (entry["model"] not in missed) for entry in found.as_dict()["models"]
    )


def test_spans_have_an_f1() -> None:
    X = [[[f"w{i}"] for i in range(4)] for _ in range(8)]
    y = [["O", "B-x", "I-x", "O"], ["O", "O", "B-x", "O"]] * 4
    samples = Samples(X, [np.array(labels) for labels in y])
    given = {"constraints": "BIO", "alpha": [0.1, 0.01], "max_time": 60.0, "n_examples": 0}
    found = compare(samples, samples, **given)
    for one in found.methods:
        assert one.span_f1 == pytest.approx(span_scores(samples.y, one.predicted)[0].f1)
        assert one.model.constraints == "BIO"
    assert compare(counter("train", 6), counter("test", 2), alpha=[0.1]).methods[0].span_f1 is None


def test_a_decision_that_a_model_cannot_make_is_noted() -> None:
    found = compare(counter("train", 6), counter("test", 2), decision="bayes", alpha=[1.0])
    assert any("AGM cannot decide by 'bayes'" in note for note in found.notes)
    assert {m.name: m.model.decision_ for m in found.methods}["CRF"] == "bayes"


def test_methods_are_compared_by_a_target() -> None:
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(60):
        labels = rng.choice(["B-x", "O", "O"], size=5)
        X.append(rng.normal(size=(5, 1)) + 1.5 * (labels == "B-x")[:, None])
        y.append(labels.tolist())
    train, test = Samples(X[:35], y[:35]), Samples(X[35:], y[35:])
    compared = compare(train, test, alpha=[0.1, 0.01], target="span_f1", loss_name="1 - span_f1")
    for method in compared.methods:
        assert method.cost == pytest.approx(1 - method.span_f1, abs=1e-9)
        assert method.span_f1 == pytest.approx(span_scores(y[35:], method.predicted)[0].f1)
        assert method.low <= method.cost <= method.high
        assert not hasattr(method.model, "forecast_")
    assert {method.model.decision_ for method in compared.methods} <= {"map", "bayes", "spans"}
    assert "1 - span_f1" in compared.as_dict()["loss"]
