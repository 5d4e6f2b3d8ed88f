"""Certificates of models: what they are about, whom they refuse, and how they are said."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from model_cases import chains, sentences, trees

from robustruct import AGM, CRF, Graph, load
from robustruct.errors import InvalidInputError
from robustruct.features.digests import sample_digests
from robustruct.losses import CostMatrix
from robustruct.metrics import mean_loss

COST = CostMatrix([[0, 1, 1], [4, 0, 1], [1, 2, 0]], labels=[0, 1, 2])


@pytest.fixture(scope="module")
def fitted() -> CRF:
    return CRF(COST, alpha=0.1, random_state=0).fit(*chains(60))


@pytest.fixture(scope="module")
def held_out():
    return chains(150, seed=0, n_labels=3)[0][60:], chains(150, seed=0)[1][60:]


def test_the_mean_is_the_cost_of_predictions(fitted: CRF, held_out) -> None:
    X, y = held_out
    found, answers = fitted.certify(X, y), fitted.predict(X)
    each = [mean_loss([a], [b], COST) for a, b in zip(y, answers, strict=True)]
    assert found.mean == pytest.approx(np.mean(each))
    assert 0 <= found.lower < found.mean < found.upper <= 4
    assert (found.n, found.confidence, found.per) == (90, 0.95, "sample")
    per_node = fitted.certify(X, y, per="node")
    assert per_node.mean == pytest.approx(-fitted.score(X, y))
    assert per_node.lower < per_node.mean < per_node.upper


def test_groups_are_the_draws(fitted: CRF, held_out) -> None:
    X, y = held_out
    groups = np.arange(90) // 9
    found, answers = fitted.certify(X, y, groups=groups), fitted.predict(X)
    each = np.array([mean_loss([a], [b], COST) for a, b in zip(y, answers, strict=True)])
    assert found.n == 10
    assert found.mean == pytest.approx(each.reshape(10, 9).mean())
    assert found.upper > fitted.certify(X, y).upper  # ten draws prove less than ninety
    named = fitted.certify(X, y, groups=[f"text {g}" for g in groups])
    assert named == found
    assert "10 held-out groups" in str(found)


def test_per_node_by_groups_is_a_ratio(fitted: CRF, held_out) -> None:
    X, y = held_out
    found = fitted.certify(X, y, groups=np.arange(90) // 9, per="node")
    assert found.mean == pytest.approx(-fitted.score(X, y))
    assert found.lower < found.mean < found.upper
    wider = fitted.certify(X, y, per="node", longest=50)
    assert wider.upper > fitted.certify(X, y, per="node").upper
    assert "50 nodes" in str(wider)


def test_certainty_widens_and_samples_narrow(fitted: CRF, held_out) -> None:
    X, y = held_out
    uppers = [fitted.certify(X, y, confidence).upper for confidence in (0.5, 0.9, 0.99)]
    assert uppers == sorted(uppers)
    assert fitted.certify(X[:20], y[:20]).upper - fitted.certify(X, y).upper > 0.05


def test_weights_count(fitted: CRF, held_out) -> None:
    X, y = held_out
    first_only = [np.eye(1, len(labels))[0] for labels in y]
    found = fitted.certify(X, y, node_weight=first_only)
    answers = fitted.predict(X, first_only)
    cost = COST.matrix([0, 1, 2])
    each = [cost[a[0], b[0]] for a, b in zip(y, answers, strict=True)]
    assert found.mean == pytest.approx(np.mean(each))
    with pytest.raises(InvalidInputError, match="all node weights are 0"):
        fitted.certify(X, y, node_weight=[np.zeros(len(labels)) for labels in y])


def test_training_samples_are_refused(fitted: CRF, tmp_path: Path) -> None:
    X, y = chains(60)
    with pytest.raises(InvalidInputError, match="60 of 60 samples had a part in making") as error:
        fitted.certify(X, y)
    assert error.value.field == "X"
    fitted.save(tmp_path / "model")
    with pytest.raises(InvalidInputError, match="held out before training"):
        load(tmp_path / "model").certify(X[::-1], y[::-1])
    again = load(tmp_path / "model").certify(*(part[60:] for part in chains(90)))
    assert again == fitted.certify(*(part[60:] for part in chains(90)))


def test_samples_that_stopped_training_are_refused() -> None:
    X, y = chains(90)
    model = CRF(alpha=0.1).fit(X[:60], y[:60], validation=(X[60:], y[60:]))
    with pytest.raises(InvalidInputError, match="30 of 30"):
        model.certify(X[60:], y[60:])


@pytest.mark.parametrize("form", ["rows", "sparse", "trees", "dicts"])
def test_samples_of_every_form_are_recognised(form: str) -> None:
    if form == "trees":
        X, y = trees(30)
    elif form == "dicts":
        X, y = sentences(1)
        X, y = [[*x, {"n": i}] for i, x in enumerate(X * 5)], [[*labels, "N"] for labels in y * 5]
    else:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 3))
        y = (X[:, 0] > 0).astype(int)
        X = sp.csr_array(X * (X > 0)) if form == "sparse" else X
    model = CRF(alpha=0.1).fit(X, y)
    with pytest.raises(InvalidInputError, match="had a part in making"):
        model.certify(X, y)


def test_twins_by_chance_are_not_refused() -> None:
    """Short texts that come again and again are no sign of a leak."""
    rng = np.random.default_rng(0)
    words = np.array(list("abcdef"))
    X = [[{"w": w} for w in rng.choice(words, size=int(rng.integers(1, 4)))] for _ in range(400)]
    y = [["v" if node["w"] in "ae" else "c" for node in x] for x in X]
    model = CRF(alpha=0.1).fit(X[:200], y[:200])
    seen = np.isin(sample_digests(model._space.encode(X[200:])), model.sample_digests_)
    assert seen.mean() > 0.3
    model.certify(X[200:], y[200:])
    with pytest.raises(InvalidInputError, match="200 of 200"):
        model.certify(X[:200], y[:200])


def test_digests_tell_structures_apart_and_not_batches() -> None:
    rows = np.arange(8.0).reshape(4, 2)
    path, star = Graph(rows, [(0, 1), (1, 2), (2, 3)]), Graph(rows, [(0, 1), (0, 2), (0, 3)])
    square = Graph(rows, [(0, 1), (1, 2), (2, 3), (3, 0)])
    X = [rows, path, star, square, rows[::-1].copy(), rows[:2], rows]
    model = CRF().fit(X, [[0, 1, 0, 1]] * 5 + [[0, 1]] + [[0, 1, 0, 1]])
    found = sample_digests(model._space.encode(X))
    assert found[0] == found[-1]
    assert len(set(found.tolist())) >= 5
    assert len({found[i].item() for i in (0, 2, 3, 4, 5)}) == 5
    alone = [sample_digests(model._space.encode([x]))[0] for x in X]
    assert found.tolist() == [one.item() for one in alone]


def test_documents_taken_for_independent_are_warned_about() -> None:
    """Samples of a document share a direction in which labels are wrong."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 4))
    hard = np.repeat(rng.random(100) < 0.3, 15)
    y = (rows[:, 0] > 0) ^ (hard & (rng.random(1500) < 0.6))
    fresh = rng.normal(size=(300, 4))
    model = AGM(alpha=0.1).fit(fresh, fresh[:, 0] > 0)
    with pytest.warns(UserWarning, match="neighbouring samples cost alike"):
        taken = model.certify(rows, y)
    assert taken.warnings
    by_document = model.certify(rows, y, groups=np.repeat(np.arange(100), 15))
    assert not by_document.warnings
    assert by_document.upper > taken.upper


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"confidence": 1.0}, "confidence=1.0; it is the chance"),
        ({"confidence": 0}, "above 0 and below 1"),
        ({"confidence": 95}, "such as 0.95"),
        ({"confidence": "high"}, "confidence='high'"),
        ({"groups": [1, 2]}, "groups has 2 entries for 90 samples"),
        ({"per": "token"}, "per='token'; use 'sample'"),
        ({"per": "node", "longest": 2}, "longest=2, but a held-out sample has"),
    ],
)
def test_bad_arguments(fitted: CRF, held_out, given: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        fitted.certify(*held_out, **given)


def test_labels_that_training_never_saw_cost_as_much_as_the_dearest(fitted: CRF, held_out) -> None:
    X, y = held_out
    unknown = [np.full(len(labels), 9) for labels in y]
    found = fitted.certify(X, unknown)
    assert found.mean == found.upper == pytest.approx(4.0)


def test_the_sentence_says_what_was_proved(fitted: CRF, held_out) -> None:
    found = fitted.certify(*held_out)
    text = str(found)
    for part in ("95 %", f"{found.upper:.4g}", f"{found.mean:.4g}", "90 held-out samples", "if "):
        assert part in text
