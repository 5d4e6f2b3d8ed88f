"""The temperature of AGM and SSVM: what models do with it, and what they refuse."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from robustruct import AGM, CRF, SSVM, Graph, load
from robustruct.engines.engine import MemorySamples
from robustruct.engines.local import LocalEngine, MemoryShards
from robustruct.errors import InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.inference import marginals
from robustruct.losses import as_loss
from robustruct.optimizers.checkpoints import Checkpoint
from robustruct.optimizers.registry import chosen
from robustruct.optimizers.tuning import Scales

COST = np.array([[0.0, 5.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])


def samples(seed: int = 0, n: int = 30) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(3, 4))
    y = [rng.integers(3, size=size) for size in rng.integers(1, 5, size=n)]
    return [means[labels] + rng.normal(size=(len(labels), 4)) for labels in y], y


@pytest.mark.parametrize("kind", [AGM, SSVM])
def test_infinity_is_a_crf_with_the_cost_in_the_decision(kind) -> None:
    X, y = samples()
    hot = kind(COST, alpha=0.1, temperature=np.inf, decision="bayes", tol=1e-5).fit(X, y)
    crf = CRF(COST, alpha=0.1, optimizer="lbfgs", tol=1e-8).fit(X, y)
    assert hot.objective_ == pytest.approx(crf.objective_, rel=1e-4)
    assert np.allclose(hot.coef_, crf.coef_, atol=0.02)
    together = zip(hot.predict(X), crf.predict(X), strict=True)
    assert np.mean(np.concatenate([a == b for a, b in together])) > 0.97
    for a, b in zip(hot.predict_proba(X), crf.predict_proba(X), strict=True):
        assert np.allclose(a, b, atol=0.02)


def test_optimizers_of_the_crf_agree() -> None:
    X, y = samples(1)
    natural, lbfgs = (
        CRF(alpha=0.05, optimizer=name, tol=1e-5, random_state=0).fit(X, y)
        for name in ("natural_ascent", "lbfgs")
    )
    assert natural.duality_gap_ <= 1e-5
    assert natural.objective_ == pytest.approx(lbfgs.objective_, rel=2e-5)


def test_the_unit_of_temperature() -> None:
    X, y = samples(2)
    weights = [np.full(len(labels), 4.0) for labels in y]
    model = AGM(COST, alpha=0.1, temperature=0.5).fit(X, y, node_weight=weights)
    mistakes = COST[~np.eye(3, dtype=bool)].mean()
    assert model.temperature_ == 0.5
    assert model.absolute_temperature_ == pytest.approx(0.5 * 4.0 * mistakes)
    # All costs, weights, temperatures and alpha times a constant: the same decisions.
    larger = AGM(10 * COST, alpha=0.1, temperature=0.5).fit(X, y, node_weight=weights)
    assert larger.absolute_temperature_ == pytest.approx(10 * model.absolute_temperature_)
    shifted = AGM(COST + 2.0, alpha=0.1, temperature=0.5, tol=1e-3).fit(X, y, node_weight=weights)
    assert shifted.absolute_temperature_ == pytest.approx(model.absolute_temperature_)


def test_decisions_and_probabilities() -> None:
    X, y = samples(3)
    model = AGM(COST, alpha=0.1, temperature=1.0, decision="predictor").fit(X, y)
    games = model.predict_games(X)
    for predicted, game in zip(model.predict(X), games, strict=True):
        clear = np.sort(game.predictor, axis=1)[:, -1] - np.sort(game.predictor, axis=1)[:, -2]
        sure = clear > 0.05
        assert np.array_equal(predicted[sure], model.classes_[game.predictor.argmax(axis=1)][sure])
    for q, game in zip(model.predict_proba(X), games, strict=True):
        assert np.allclose(q, game.adversary_nodes, atol=0.02)
    risks = model.predict_risk(X)
    for risk, labels, q in zip(risks, model.predict(X), model.predict_proba(X), strict=True):
        codes = np.searchsorted(model.classes_, labels)
        expected = (q @ COST)[np.arange(len(codes)), codes].sum()
        assert risk == pytest.approx([expected, expected], rel=1e-6)
    bayes = model.set_params(decision="bayes").predict(X)
    design, _ = model._encode(X)
    scores = model._scores(design)
    temperature = model.absolute_temperature_
    scaled = type(scores)(
        scores.batch,
        scores.unary / temperature,
        scores.tables / temperature,
        scores.table_of,
    )
    expected = marginals(scaled).nodes @ COST
    assert np.array_equal(np.concatenate(bayes), model.classes_[expected.argmin(axis=1)])


def test_rules_types_and_trees() -> None:
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(12):
        kinds = ["a", "b", "b", "a"]
        labels = [f"{kind}{rng.integers(2)}" for kind in kinds]
        if labels[1] == "b1" and labels[2] == "b1":
            labels[2] = "b0"
        rows = np.array([[float(label[1] == "1")] for label in labels]) + rng.normal(size=(4, 1))
        X.append(Graph(rows, [(0, 1), (1, 2), (3, 1)], node_types=kinds))
        y.append(labels)
    model = AGM(alpha=0.05, temperature=0.5, constraints=[("b1", "b1")], tol=1e-3).fit(X, y)
    assert model.duality_gap_ <= 1e-3
    for labels, q in zip(model.predict(X), model.predict_proba(X), strict=True):
        assert [label[0] for label in labels] == ["a", "b", "b", "a"]
        assert not (labels[1] == "b1" and labels[2] == "b1")
        of_type = np.array([label[0] for label in model.classes_])
        assert np.allclose(q[0, of_type == "b"], 0.0)


@pytest.mark.parametrize("temperature", [0.5, np.inf])
def test_files_keep_it(tmp_path, temperature) -> None:
    X, y = samples(4)
    model = AGM(COST, alpha=0.1, temperature=temperature, decision="predictor").fit(X, y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.temperature == temperature
    assert loaded.temperature_ == model.temperature_
    for a, b in zip(model.predict_proba(X), loaded.predict_proba(X), strict=True):
        assert np.array_equal(a, b)


def test_checkpoints_go_on(tmp_path) -> None:
    X, y = samples(5)
    options = {"alpha": 0.01, "temperature": 0.3, "tol": 1e-4, "random_state": 0}
    whole = AGM(COST, **options).fit(X, y)
    folder = tmp_path / "kept"
    with pytest.warns(UserWarning, match="certified"):
        AGM(COST, **options, max_iter=3).fit(X, y, checkpoint=Checkpoint(folder, every=1))
    going_on = Checkpoint(folder, every=1, resume=True)
    rest = AGM(COST, **options).fit(X, y, checkpoint=going_on)
    assert rest.objective_ == pytest.approx(whole.objective_, rel=1e-4)
    assert rest.duality_gap_ <= 1e-4


@pytest.mark.parametrize("value", [-0.1, np.nan, "hot", True, None])
def test_bad_temperatures(value) -> None:
    X, y = samples(n=3)
    with pytest.raises(InvalidInputError, match="temperature="):
        AGM(temperature=value).fit(X, y)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": 1.0, "optimizer": "subgradient"}, "optimizer='subgradient'"),
        ({"temperature": 1.0, "optimizer": "dual_ascent"}, "optimizer='dual_ascent'"),
        ({"optimizer": "natural_ascent"}, "temperature > 0"),
        ({"temperature": np.inf, "decision": "map"}, "decision='bayes'"),
        ({"temperature": "auto", "optimizer": "dual_ascent"}, "needs optimizer='auto'"),
        ({"decision": "bayes"}, "temperature > 0"),
    ],
)
def test_what_does_not_go_together(options, said) -> None:
    X, y = samples(n=3)
    with pytest.raises(InvalidInputError, match=said):
        AGM(**options).fit(X, y)


def test_shards_in_this_process_reach_the_same_optimum() -> None:
    X, y = samples(6)
    whole = AGM(COST, alpha=0.1, temperature=0.5, tol=1e-3, random_state=0).fit(X, y)
    shards = ShardedData.from_samples(X, y, 3)
    parts = AGM(COST, alpha=0.1, temperature=0.5, tol=1e-3, random_state=0).fit(shards)
    assert parts.temperature_ == pytest.approx(whole.temperature_)
    assert parts.objective_ == pytest.approx(whole.objective_, rel=2e-3)
    assert parts.duality_gap_ <= 1e-3


def test_a_constant_in_the_cost_moves_the_objective_and_nothing_else() -> None:
    X, y = samples(7)
    plain, moved = (
        AGM(COST + constant, alpha=0.1, temperature=0.5, random_state=0).fit(X, y)
        for constant in (0.0, 2.0)
    )
    nodes = np.mean([len(labels) for labels in y])
    assert np.allclose(plain.coef_, moved.coef_, atol=1e-6)
    assert moved.objective_ == pytest.approx(plain.objective_ + 2.0 * nodes)
    assert moved.duality_gap_ == pytest.approx(plain.duality_gap_)
    assert moved.history_[-1].dual == pytest.approx(plain.history_[-1].dual + 2.0 * nodes)


def test_impossible_labels_are_not_predicted() -> None:
    """1, the best answer where 0 and 2 are as likely, cannot follow any label."""
    rng = np.random.default_rng(0)
    y = [2 * rng.integers(2, size=3) for _ in range(20)]
    y[0][0] = 1
    X = [rng.normal(size=(3, 2)) for _ in y]
    model = AGM(
        "squared",
        alpha=1.0,
        temperature=0.1,
        constraints=[(a, 1) for a in range(3)],
        decision="predictor",
    ).fit(X, y)
    for game, labels in zip(model.predict_games(X), model.predict(X), strict=True):
        assert np.all(game.predictor[1:, 1] == 0.0)
        assert not np.any(labels[1:] == 1)
    assert model.duality_gap_ <= 1e-2


@pytest.mark.parametrize("temperature", [0.5, 1e-6])
def test_columns_of_any_size_have_a_certificate(temperature) -> None:
    X, y = samples(8)
    X = [rows * [1.0, 100.0, 1.0, 0.01] for rows in X]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AGM(COST, alpha=0.1, temperature=temperature, max_iter=200).fit(X, y)
    assert model.duality_gap_ < 0.5
    for record in model.history_:
        assert record.dual <= record.primal
        assert model.objective_ >= record.dual


def test_an_engine_takes_no_temperature_that_is_trained_as_none() -> None:
    X, y = samples(n=3)
    with pytest.raises(InvalidInputError, match="an engine trains with temperature=0 or at least"):
        AGM(temperature=1e-6).fit(X, y, engine=LocalEngine())


def test_automatic_optimizers() -> None:
    """The CRF's depends on the data: natural ascent for sparse features."""
    rng = np.random.default_rng(0)
    X = [[{f"w{rng.integers(2000)}": 1.0} for _ in range(4)] for _ in range(60)]
    y = [rng.integers(2, size=4) for _ in X]
    fits = {tol: CRF(alpha=0.1, tol=tol, random_state=0).fit(X, y) for tol in (1e-4, 1e-9)}
    names = {tol: optimizer_of(model, X, y) for tol, model in fits.items()}
    assert names == {1e-4: "natural_ascent", 1e-9: "lbfgs"}
    assert fits[1e-4].objective_ == pytest.approx(fits[1e-9].objective_, rel=1e-4)
    assert optimizer_of(CRF(), *samples()) == "lbfgs"
    assert optimizer_of(AGM(temperature=0.1), X, y) == "natural_ascent"
    assert optimizer_of(AGM(), X, y) == "dual_ascent"


def test_the_optimizer_does_not_depend_on_where_samples_are() -> None:
    rng = np.random.default_rng(0)
    X = [[{f"w{rng.integers(2000)}": 1.0} for _ in range(4)] for _ in range(60)]
    data = ShardedData.from_samples(X, [rng.integers(2, size=4) for _ in X], 3)
    with LocalEngine().shards(data) as shards:
        model = CRF()
        plan = shards.prepare(model, lambda _: None)
        assert model._chosen_optimizer(shards, plan).name == "natural_ascent"
        spread = replace(shards.tuning, scales=Scales.of(np.array([0.5]), (1, 0), 1))
        elsewhere = SimpleNamespace(
            local_problem=None, local_problems=None, outline=shards.outline, tuning=spread
        )
        assert model._chosen_optimizer(elsewhere, plan).name == "natural_ascent"
        elsewhere.tuning = replace(spread, even=False)
        assert model._chosen_optimizer(elsewhere, plan).name == "lbfgs"
        assert chosen("auto", "game", 1.0, 1e-2, elsewhere).name == "natural_ascent"


def optimizer_of(model, X, y) -> str:
    shards = MemoryShards(MemorySamples(X, y, None, None))
    plan = shards.prepare(model, lambda _: None)
    return model._chosen_optimizer(shards, plan).name


@pytest.mark.parametrize(
    ("forged", "said"), [(0.0, "contradict each other"), (np.nan, "not what a fit")]
)
def test_files_with_another_temperature_are_refused(tmp_path, forged, said) -> None:
    X, y = samples(4)
    model = AGM(COST, alpha=0.1, temperature=0.5).fit(X, y)
    model.temperature_ = forged
    model.save(tmp_path / "model")
    with pytest.raises(InvalidInputError, match=said):
        load(tmp_path / "model")


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}])
def test_one_label_needs_no_weights(options) -> None:
    X, y = samples(9)
    optimizer = "auto" if options else "natural_ascent"
    kind = AGM if options else CRF
    model = kind(alpha=0.1, optimizer=optimizer, **options).fit(X, [0 * labels for labels in y])
    assert model.duality_gap_ == 0.0
    assert not model.coef_.any()
    assert all(np.all(labels == 0) for labels in model.predict(X))


def fitted_to(kind, loss: str, distribution: dict[tuple[int, ...], float], temperature: float):
    """A model that can express any scores, at its optimum for a distribution of labellings."""
    n = len(next(iter(distribution)))
    X, y = [np.eye(n)] * len(distribution), [np.array(labels) for labels in distribution]
    model = kind(loss, alpha=1e-3, temperature=temperature, tol=1e-3)
    return model.fit(X, y, sample_weight=np.array(list(distribution.values())))


def cheapest(loss: str, distribution: dict[tuple[int, ...], float]) -> list[int]:
    """On each node the label of least expected cost, by the definition."""
    labels = np.unique(list(distribution))
    cost = as_loss(loss).matrix(labels)
    nodes = np.array(list(distribution)).T
    shares = np.array(list(distribution.values()))
    at = [[shares[row == label].sum() for label in labels] for row in nodes]
    return labels[(np.array(at) @ cost).argmin(axis=1)].tolist()


MIDDLE = {(0,): 0.40, (1,): 0.25, (2,): 0.35}
"""The label of least absolute cost is 1, the least likely one."""
RARE = dict.fromkeys(product(range(3), repeat=2), 0.03)
CROSSED = {**RARE, (0, 0): 0.34, (1, 1): 0.24, (1, 2): 0.24}
"""The likeliest labels of the nodes, 1 and 0, do not make up the likeliest labelling."""


@pytest.mark.parametrize("temperature", [1.0, 3.0, 10.0])
@pytest.mark.parametrize(
    ("loss", "distribution"), [("absolute", MIDDLE), ("hamming", CROSSED), ("absolute", CROSSED)]
)
def test_the_usual_decision_is_right_for_symmetric_costs(loss, distribution, temperature) -> None:
    model = fitted_to(AGM, loss, distribution, temperature)
    x = np.eye(len(next(iter(distribution))))
    assert model.predict([x])[0].tolist() == cheapest(loss, distribution)


@pytest.mark.parametrize("temperature", [3.0, 10.0])
def test_the_usual_decision_of_a_softmax_margin_is_right_where_it_is_much_like_a_crf(temperature):
    model = fitted_to(SSVM, "absolute", MIDDLE, temperature)
    assert model.predict([np.eye(1)])[0].tolist() == cheapest("absolute", MIDDLE)


def test_at_temperature_0_the_best_labelling_is_the_usual_decision() -> None:
    for loss, distribution in (("absolute", MIDDLE), ("hamming", CROSSED)):
        model = fitted_to(AGM, loss, distribution, 0.0)
        assert model.decision_ == "map"
        x = np.eye(len(next(iter(distribution))))
        assert model.predict([x])[0].tolist() == cheapest(loss, distribution)
