"""Emotion intensity: fair choices, and the reduced experiment."""

import json

import numpy as np
import pytest

import emotion
from corpora import emotion_splits, load_emotion
from robustruct import AGM, CRF, SSVM

pytestmark = pytest.mark.data


def test_penalties_are_chosen_on_training_sequences_of_split_1_alone(data_home):
    train = set(emotion_splits()[0][0].tolist())
    for selection in ("cv", "holdout"):
        for fit, held_out in emotion.folds(selection, None):
            assert set(fit.tolist()) | set(held_out.tolist()) == train
            assert not set(fit.tolist()) & set(held_out.tolist())
    [(fit, held_out)] = emotion.folds("holdout", None)
    assert (len(fit), len(held_out)) == (84, 36)


def test_penalty_and_decision_of_least_validation_loss_are_chosen():
    def path(model):
        losses = {"AGM": [(3, 5), (2, 4), (2, 1)], "CRF": [(1, 2), (1, 0), (3, 3)]}
        return [
            {"alpha": alpha, "losses": dict(zip(emotion.DECISIONS[model], values, strict=True))}
            for alpha, values in zip((10, 3, 1), losses.get(model, [(1,), (0,), (2,)]), strict=True)
        ]

    validation = [
        {"loss": loss, "weights": weights, "model": model, "path": path(model)}
        for loss, weights in emotion.LOSSES
        for model in emotion.DECISIONS
    ]
    for chosen in emotion.choices_of(validation).values():
        assert chosen == {
            "AGM": (1, "predictor"),
            "CRF": (3, "map"),
            "SSVM": (3, "map"),
            "AGM MAP": (3, "map"),  # the stronger of two that are equally good
            "AGM predictor": (1, "predictor"),
            "CRF Bayes": (10, "bayes"),
            "CRF MAP": (3, "map"),
        }


@pytest.mark.parametrize(
    ("alpha", "beside"), [(3, (10, 1)), (0.1, (0.3, 0.03)), (300, (1000, 100))]
)
def test_neighbours_are_half_a_decade_away(alpha, beside):
    assert emotion.neighbours(alpha) == beside


def test_shared_features_are_those_of_the_own_kind_once_more(data_home):
    plain, shared = emotion.data(), emotion.data("shared")
    for kind, before, after in zip(plain.groups, plain.X, shared.X, strict=True):
        for rows, more in (
            (before.node_features, after.node_features),
            (before.edge_features, after.edge_features),
        ):
            first = 26 * (kind - 1)
            np.testing.assert_array_equal(more[:, :156], rows)
            np.testing.assert_array_equal(more[:, 156:], rows[:, first : first + 25])


@pytest.mark.parametrize("model", emotion.DECISIONS)
def test_ordered_labels_never_decrease(data_home, model):
    part = emotion.data().subset(slice(0, 30))
    key = {"model": model, "loss": "absolute", "ordered": True}
    fitted = emotion.new_model(key, alpha=0.01).fit(part.X, part.y)
    decreases = {}
    for decision in emotion.DECISIONS[model]:
        labels = fitted.set_params(decision=decision).predict(emotion.data().X)
        decreases[decision] = sum((np.diff(y) < 0).any() for y in labels)
    assert set(decreases.values()) == {0}
    free = emotion.new_model(key | {"ordered": False}, alpha=0.01).fit(part.X, part.y)
    assert any((np.diff(y) < 0).any() for y in free.predict(emotion.data().X))


def test_the_search_ends_two_decades_after_the_best(data_home):
    key = {"task": "choose", "selection": "holdout", "limit": 30, "model": "CRF"}
    key |= {"loss": "hamming", "weights": "equal", "features": "paper", "ordered": False}
    path = emotion.validated(key)["path"]
    alphas = [fit["alpha"] for fit in path]
    assert alphas[:4] == [1000, 300, 100, 30]
    best = {d: [fit["losses"][d] for fit in path] for d in ("bayes", "map")}
    last_improvement = max(losses.index(min(losses)) for losses in best.values())
    assert len(alphas) == last_improvement + 1 + emotion.PATIENCE


@pytest.mark.parametrize(
    ("place", "cost", "by_position"),
    [
        ("squared, unweighted", lambda away: away**2, False),
        ("zero-one, weighted", lambda away: away != 0, True),
    ],
)
def test_a_reduced_run_tells_what_the_models_do(data_home, reduced, place, cost, by_position):
    report, _ = reduced
    loss = {"squared": "squared", "zero-one": "hamming"}[place.split(",")[0]]
    data = load_emotion()

    def weights(y):
        if by_position:
            return [
                np.arange(1, len(labels) + 1) / np.arange(1, len(labels) + 1).sum() for labels in y
            ]
        return [np.full(len(labels), 1 / len(labels)) for labels in y]

    for variant, model in (
        ("AGM", AGM(loss, alpha=3, max_iter=10_000, random_state=0)),
        ("CRF", CRF(loss, alpha=3, tol=1e-4, max_iter=10_000, random_state=0)),
        ("SSVM", SSVM(loss, alpha=3, max_iter=10_000, random_state=0)),
    ):
        expected = []
        for train, test in emotion_splits()[:2]:
            known, new = data.subset(train[:60]), data.subset(test)
            model.set_params(standardize=False)
            model.fit(known.X, known.y, node_weight=weights(known.y))
            predicted = model.predict(new.X)
            expected.append(
                np.mean(
                    [
                        w @ cost(np.asarray(labels) - np.asarray(truth))
                        for w, labels, truth in zip(weights(new.y), predicted, new.y, strict=True)
                    ]
                )
            )
        np.testing.assert_allclose(report["results"]["test_losses"][place][variant], expected)


@pytest.fixture(scope="module")
def reduced(data_home, tmp_path_factory):
    """The report of a small run, and its folder."""
    folder = tmp_path_factory.mktemp("emotion")
    arguments = "--limit 60 --splits 2 --alpha 3 --jobs 1 --results"
    emotion.main([*arguments.split(), str(folder)])
    return json.loads((folder / "emotion.json").read_text()), folder


def test_a_reduced_run_is_certified_and_drawn(reduced):
    report, folder = reduced
    for fit in report["results"]["tests"]:
        assert fit["gap"] <= fit["tol"]
    assert (folder / "emotion.svg").exists()
