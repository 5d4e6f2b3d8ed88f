"""Rules that keep misses below a target, and sets of labels."""

from pathlib import Path

import numpy as np
import pytest
from model_cases import chains

from robustruct import AGM, CRF, SSVM, load
from robustruct.datasets import make_chains
from robustruct.errors import InvalidInputError
from robustruct.guarantees import Rule

DATA = make_chains(n_samples=900, n_nodes=(2, 6), n_labels=3, n_features=2, noise=1.3, seed=1)


def part(first: int, last: int):
    return DATA.X[first:last], DATA.y[first:last]


@pytest.fixture
def model() -> CRF:
    return CRF(alpha=0.05, random_state=0).fit(*part(0, 100))


def missed(y, answers, label) -> tuple[int, int]:
    truth, found = np.concatenate(y), np.concatenate(answers)
    return int((found[truth != label] == label).sum()), int((truth != label).sum())


@pytest.mark.parametrize("kind", [CRF, AGM, SSVM])
def test_misses_are_below_the_target_and_cost_false_alarms(kind) -> None:
    """Over many splits of what was held out: the promise is about their mean."""
    heat = {} if kind is CRF else {"temperature": 1.0}
    model = kind(alpha=0.05, random_state=0, **heat).fit(*part(0, 100))
    rng, misses, nodes = np.random.default_rng(0), 0, 0
    usual = missed(part(100, 900)[1], model.predict(part(100, 900)[0]), 0)
    for _ in range(12):
        order = 100 + rng.permutation(800)
        X, y = [DATA.X[i] for i in order], [DATA.y[i] for i in order]
        rule = model.control(X[:400], y[:400], miss=0.05, label=0, most=6)
        found = missed(y[400:], model.predict(X[400:], rule=rule), 0)
        misses, nodes = misses + found[0], nodes + found[1]
    assert usual[0] / usual[1] > 0.06
    assert 0.02 < misses / nodes <= 0.05


def test_the_rule_is_what_it_says(model: CRF) -> None:
    X, y = part(100, 500)
    rule = model.control(X, y, miss=0.05, label=0, most=6)
    answers = model.predict(X, rule=rule)
    n_missed, n_other = missed(y, answers, 0)
    assert rule.missed == pytest.approx(n_missed / n_other)
    truth, found = np.concatenate(y), np.concatenate(answers)
    assert rule.price == pytest.approx(((truth == 0) & (found != 0)).mean())
    safe = [(1 - p[:, 1:].max(axis=1)) / (1 - p[:, 0]) for p in model.predict_proba(X)]
    assert (found == 0).tolist() == (np.concatenate(safe) > rule.threshold).tolist()
    assert (rule.n, rule.most, rule.miss) == (400, 6, 0.05)
    text = str(rule)
    for part_of_it in ("0.05", "400 calibration samples", "false alarms", "answered 0"):
        assert part_of_it in text


def test_lower_targets_cost_more(model: CRF) -> None:
    X, y = part(100, 900)
    prices = [model.control(X, y, miss, label=0, most=6).price for miss in (0.2, 0.1, 0.03)]
    assert prices == sorted(prices)
    assert prices[0] < prices[-1]


def test_rules_are_kept_with_the_model_and_its_file(model: CRF, tmp_path: Path) -> None:
    X, y = part(100, 500)
    rule = model.control(X, y, miss=0.05, label=0, most=6)
    sets = model.control(X, y, miss=0.1, most=6)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert {name: str(one) for name, one in again.rules_.items()} == {0: str(rule), None: str(sets)}
    new = DATA.X[500:600]
    expected = [labels.tolist() for labels in model.predict(new, rule=rule)]
    assert [labels.tolist() for labels in again.predict(new, rule=0)] == expected
    assert again.predict_sets(new) == model.predict_sets(new, sets)
    again.fit(*part(0, 50))
    assert not hasattr(again, "rules_")


def test_sets_hold_the_truth_as_often_as_promised(model: CRF) -> None:
    rng, inside, nodes = np.random.default_rng(0), 0, 0
    for _ in range(10):
        order = 100 + rng.permutation(800)
        X, y = [DATA.X[i] for i in order], [DATA.y[i] for i in order]
        rule = model.control(X[:400], y[:400], miss=0.1, most=6)
        for sets, labels in zip(model.predict_sets(X[400:]), y[400:], strict=True):
            inside += sum(label in some for label, some in zip(labels.tolist(), sets, strict=True))
            nodes += len(labels)
        own = [len(one) for sets in model.predict_sets(X[:400]) for one in sets]
        assert rule.price == pytest.approx(np.mean(own))
    assert 0.9 <= inside / nodes < 0.95


def test_rows_of_an_array() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    model = CRF(alpha=0.01).fit(X[:100], y[:100])
    model.control(X[100:200], y[100:200], miss=0.1, label=0, most=1)
    model.control(X[100:200], y[100:200], miss=0.1, most=1)
    assert model.predict(X[200:], rule=0).shape == (100,)
    assert all(isinstance(one, set) for one in model.predict_sets(X[200:]))


def test_constraints_hold(model: CRF) -> None:
    names = np.array(["B-X", "I-X", "O"])
    X, y = DATA.X[:400], []
    for labels in DATA.y[:400]:
        tags = names[labels].tolist()
        for i, tag in enumerate(tags):
            if tag == "I-X" and (i == 0 or tags[i - 1] == "O"):
                tags[i] = "B-X"
        y.append(tags)
    bio = CRF(alpha=0.05, constraints="BIO").fit(X[:100], y[:100])
    bio.control(X[100:300], y[100:300], miss=0.05, label="O", most=6)
    answers = bio.predict(X[300:], rule="O")
    for tags in answers:
        assert all(tag != "I-X" or (i and tags[i - 1] != "O") for i, tag in enumerate(tags))
    known = [["O", *[None] * (len(tags) - 1)] for tags in y[300:]]
    assert all(tags[0] == "O" for tags in bio.predict(X[300:], rule="O", known=known))


def test_certificates_of_rules_refuse_what_calibrated_them(model: CRF) -> None:
    X, y = part(100, 500)
    model.control(X, y, miss=0.05, label=0, most=6)
    with pytest.raises(InvalidInputError, match="400 of 400 samples had a part in calibrating"):
        model.certify(X, y, rule=0)
    found = model.certify(*part(500, 900), rule=0)
    assert found.mean > model.certify(*part(500, 900)).mean  # Hamming: false alarms cost


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"miss": 0.0}, "miss=0.0; it is the share of misses to allow"),
        ({"miss": 2}, "above 0 and below 1, such as 0.02"),
        ({"miss": "few"}, "miss='few'"),
        ({"label": 7}, "label=7 is none of the model's labels"),
        ({"most": None}, "most=None; it is the most nodes .* a calibration sample has 6"),
        ({"most": 3}, "most=3; .* has 6"),
        ({"miss": 0.0001}, "cannot be promised by 400 samples .* it takes about"),
    ],
)
def test_bad_targets(model: CRF, given: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        model.control(*part(100, 500), **{"miss": 0.05, "label": 0, "most": 6, **given})


def test_unknown_labels_cannot_be_covered(model: CRF) -> None:
    X, y = part(100, 500)
    strange = [np.where(labels == 2, 9, labels) for labels in y]
    with pytest.raises(InvalidInputError, match="unknown to the model"):
        model.control(X, strange, miss=0.1, most=6)


def test_training_samples_and_missing_rules_are_refused(model: CRF) -> None:
    with pytest.raises(InvalidInputError, match="had a part in making the model"):
        model.control(*part(0, 100), miss=0.3, label=0, most=6)
    with pytest.raises(InvalidInputError, match=r"no rule for the label 1 \(it has: none\)"):
        model.predict(DATA.X[100:], rule=1)
    with pytest.raises(InvalidInputError, match="no rule for sets of labels"):
        model.predict_sets(DATA.X[100:])
    sets = model.control(*part(100, 500), miss=0.2, most=6)
    with pytest.raises(InvalidInputError, match="use predict_sets"):
        model.predict(DATA.X[100:], rule=sets)
    rule = model.control(*part(100, 500), miss=0.2, label=0, most=6)
    assert isinstance(rule, Rule)
    with pytest.raises(InvalidInputError, match="sets need what control"):
        model.predict_sets(DATA.X[100:], rule)
    X, y = chains(20)
    with pytest.raises(InvalidInputError, match="no calibration sample has a node of another"):
        CRF().fit(X, y).control([X[0] + 1], [np.zeros(len(X[0]), int)], 0.1, label=0, most=5)
