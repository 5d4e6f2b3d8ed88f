"""Stochastic subgradient with exact games: slower, and certified all the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from training_cases import CASES, optimum

from robustruct import AGM, SSVM, Checkpoint, load
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.features import FeatureSpace, scores
from robustruct.game import DualDecomposition
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.subgradient import Subgradient, fit_subgradient

both_rules = pytest.mark.parametrize("rule", ["adagrad", "sgd"])


def descended(problem, rule, max_iter, seed=0, **options):
    progress = Progress(problem, 1e-9)
    start = options.pop("start", None)
    chosen = Subgradient(rule=rule, **{"batch_size": 2, **options})
    fit_subgradient(problem, progress, max_iter, seed, start, chosen)
    return progress


@both_rules
@pytest.mark.parametrize("name", [name for name in CASES if "one node" not in name])
def test_certificates_bracket_the_optimum(name, rule):
    lower, upper, _ = optimum(name, False)
    progress = descended(CASES[name].problem(), rule, 16)
    assert [record.n_iter for record in progress.history] == [1, 2, 4, 8, 16]
    for record in progress.history:
        assert record.dual <= upper * (1 + 1e-9)
        assert record.primal >= lower * (1 - 1e-9)


@both_rules
@pytest.mark.parametrize("name", ["chains", "trees", "chains, plain transitions"])
def test_the_gap_closes(name, rule):
    _, upper, _ = optimum(name, False)
    progress = descended(CASES[name].problem(), rule, 128)
    primal = [record.primal for record in progress.history]
    assert primal[-1] < primal[2] < primal[0]
    assert progress.primal <= 1.1 * upper
    assert progress.gap <= 0.2


def test_equal_seeds_give_equal_weights():
    problem = CASES["trees"].problem()
    one, other = (descended(problem, "adagrad", 4, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.theta, other.theta)


def test_good_weights_are_a_good_start():
    _, upper, best = optimum("chains", False)
    problem = CASES["chains"].problem()
    cold = descended(problem, "adagrad", 1, step=0.01)
    warm = descended(problem, "adagrad", 1, step=0.01, start=best)
    assert upper <= warm.primal < cold.primal


def test_the_estimator_offers_it():
    case = CASES["chains"]
    model = AGM(alpha=case.alpha, optimizer="subgradient", tol=0.2, random_state=0)
    model.fit(case.graphs, case.y)
    assert model.duality_gap_ <= 0.2
    assert model.objective_ >= optimum("chains", False)[0]


@both_rules
def test_the_papers_games_can_be_played_by_dual_decomposition(rule):
    """Games solved to 1 % still bracket the optimum; the gap closes to about as much."""
    lower, upper, _ = optimum("chains", False)
    options = {"solver": "dual_decomposition", "game_tol": 1e-2, "batch_size": 1}
    progress = descended(CASES["chains"].problem(), rule, 64, **options)
    for record in progress.history:
        assert record.dual <= upper * (1 + 1e-9)
        assert record.primal >= lower * (1 - 1e-9)
    assert progress.primal <= 1.1 * upper
    assert progress.gap <= 0.25


def test_the_estimator_takes_an_optimizer_with_options(tmp_path):
    case = CASES["chains"]
    paper = Subgradient(
        solver=DualDecomposition(max_iter=500), game_tol=1e-2, rule="sgd", batch_size=1
    )
    model = AGM(alpha=case.alpha, optimizer=paper, tol=0.3, random_state=0)
    model.fit(case.graphs, case.y)
    assert model.duality_gap_ <= 0.3
    assert model.objective_ >= optimum("chains", False)[0]
    assert clone(model).optimizer == paper
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.optimizer == "subgradient"
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_a_checkpoint_belongs_to_the_options(tmp_path):
    case = CASES["chains"]
    given = {"alpha": case.alpha, "max_iter": 2, "tol": 1e-9}
    with pytest.warns(ConvergenceWarning):
        AGM(optimizer=Subgradient(rule="sgd"), **given).fit(
            case.graphs, case.y, checkpoint=tmp_path
        )
    kept = Checkpoint(tmp_path, resume=True)
    other = AGM(optimizer=Subgradient(rule="adagrad"), **given)
    with pytest.raises(IncompatibleError, match=r"optimizer was .*rule='sgd'"):
        other.fit(case.graphs, case.y, checkpoint=kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "magic"}, "solver='magic' is not known"),
        ({"rule": "adam"}, "rule='adam' is not known; use 'adagrad' or 'sgd'"),
        ({"solver": 3}, "solver=3; give a name"),
        ({"step": 0.0}, "step=0.0; give a finite number > 0"),
        ({"step": "sgd"}, "step='sgd'; give a finite number > 0"),
        ({"game_tol": None}, "game_tol=None; give a finite number > 0"),
        ({"game_tol": float("nan")}, "game_tol=nan"),
        ({"batch_size": 0}, "batch_size=0; give an integer > 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Subgradient(**options)


def test_dual_decomposition_does_not_take_cycles():
    case = CASES["cycles"]
    model = AGM(alpha=case.alpha, optimizer=Subgradient(solver="dual_decomposition"))
    with pytest.raises(IncompatibleError, match="this graph has cycles; use solver='auto'"):
        model.fit(case.graphs, case.y)


def test_only_an_agm_takes_it():
    case = CASES["chains"]
    with pytest.raises(InvalidInputError, match="optimizer='subgradient' is not known"):
        SSVM(optimizer=Subgradient()).fit(case.graphs, case.y)
    with pytest.raises(InvalidInputError, match="optimizer=3 is not known"):
        AGM(optimizer=3).fit(case.graphs, case.y)


@pytest.mark.parametrize("name", ["trees, asymmetric, weighted", "chains, plain transitions"])
@pytest.mark.parametrize("samples", [[2, 0], [1], [0, 1, 2]])
def test_part_of_a_design_scores_as_in_the_whole(name, samples):
    case = CASES[name]
    space, design = FeatureSpace.fit(case.graphs)
    samples = np.array(samples)
    part = design.take(samples)
    alone = space.encode([case.graphs[s] for s in samples])
    theta = np.random.default_rng(0).normal(size=case.problem().n_weights)
    taken, expected = (scores(d, theta, case.n_labels) for d in (part, alone))
    np.testing.assert_allclose(taken.unary, expected.unary)
    np.testing.assert_array_equal(taken.batch.parent, expected.batch.parent)
    np.testing.assert_array_equal(taken.batch.node_of, expected.batch.node_of)
    np.testing.assert_array_equal(taken.batch.edge_of, expected.batch.edge_of)
    np.testing.assert_array_equal(taken.batch.flipped, expected.batch.flipped)
    inner = taken.batch.parent >= 0
    np.testing.assert_allclose(
        taken.tables[taken.table_of[inner]], expected.tables[expected.table_of[inner]]
    )


def test_part_of_a_sparse_design():
    X = [[["a", "b"], ["c"]], [["b"]], [["c"], ["a"], ["d"]]]
    space, design = FeatureSpace.fit(X)
    part, alone = design.take(np.array([2, 1])), space.encode([X[2], X[1]])
    np.testing.assert_array_equal(part.nodes.to_scipy().todense(), alone.nodes.to_scipy().todense())
    one_node = design.take(np.array([1]))  # no edge, yet one table, as every design has
    assert one_node.n_tables == 1
