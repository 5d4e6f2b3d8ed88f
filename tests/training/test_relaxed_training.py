"""Training with relaxed games: its certificates, and what it has to do with the exact problem."""

import numpy as np
import pytest
from training_cases import ASYMMETRIC, optimum, random_case

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.datasets import make_grids
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.inference import score_of
from robustruct.training.fit import Progress
from robustruct.training.pairwise import fit_pairwise
from robustruct.training.relaxed import ForestCopies, RelaxedAscent

GRIDS = make_grids(n_samples=8, shape=(3, 3), n_labels=2, noise=1.5, seed=1)


def relaxed_fit(problem, tol):
    progress = Progress(problem, tol)
    ascent = RelaxedAscent(problem)
    fit_pairwise(ascent, progress, 5000, 0)
    return progress, ascent


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_on_trees_the_optimum_is_the_exact_one(hinge):
    name = "trees, asymmetric, weighted"
    lower, upper, _ = optimum(name, hinge)
    case = random_case(
        5, sizes=(4, 4, 3, 2), tree=True, cost=ASYMMETRIC, weighted=True, alpha=0.05
    )  # the case of that name
    progress, _ = relaxed_fit(case.problem(hinge=hinge), 1e-4)
    assert progress.converged
    assert progress.dual <= upper
    assert progress.primal >= lower
    assert progress.primal == pytest.approx(upper, rel=2e-4)


@pytest.mark.parametrize("hinge", [False, True], ids=["agm", "ssvm"])
def test_the_relaxed_objective_is_at_least_the_exact_one(hinge):
    lower, _, _ = optimum("cycles", hinge)
    case = random_case(12, sizes=(4, 5, 4), n_labels=2, cycle=True, alpha=0.1)
    progress, ascent = relaxed_fit(case.problem(hinge=hinge), 1e-2)
    assert progress.converged
    for record in progress.history:
        assert record.primal >= lower * (1 - 1e-9)
        assert record.dual <= progress.primal
    recomputed = np.empty_like(ascent.theta)
    ascent.sites.moments(recomputed)
    np.testing.assert_allclose(ascent.moments(), recomputed, atol=1e-8)


def test_copies_hold_every_edge_once_and_every_node_in_each():
    problem = random_case(12, sizes=(5, 4, 2), n_labels=2, cycle=True).problem()
    copies = ForestCopies(problem)
    batch, inside = problem.design.batch, copies.problem()
    assert sorted(copies.edge_of.tolist()) == list(range(batch.n_edges))
    assert inside.design.batch.n_chords == 0
    np.testing.assert_array_equal(np.bincount(copies.node_of), copies.n_copies)
    theta = np.random.default_rng(0).normal(size=problem.n_weights)
    padded = np.zeros(inside.n_weights)
    cut = problem.design.n_node_features * problem.n_labels
    padded[:cut] = theta[:cut]
    padded[inside.n_weights - len(theta) + cut :] = theta[cut:]
    # Without multipliers the copies' scores of the truth add up to the truth's score.
    whole = score_of(problem.scores(theta), problem.labels)
    parts = score_of(inside.scores(padded), inside.labels)
    np.testing.assert_allclose(np.bincount(copies.sample_of, parts), whole)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_models_relax_when_asked_or_when_they_must(Model, monkeypatch):
    options = {"alpha": 0.05, "tol": 0.02, "random_state": 0}
    exact = Model(**options).fit(GRIDS.X, GRIDS.y)
    relaxed = Model(inference="relaxed", **options).fit(GRIDS.X, GRIDS.y)
    assert (exact.inference_, relaxed.inference_) == ("exact", "relaxed")
    assert relaxed.duality_gap_ <= 0.02
    assert relaxed.objective_ >= exact.objective_ * (1 - exact.duality_gap_)
    agreement = np.concatenate(relaxed.predict(GRIDS.X)) == np.concatenate(exact.predict(GRIDS.X))
    assert agreement.mean() > 0.9
    p = relaxed.predict_proba(GRIDS.X[:2])
    np.testing.assert_allclose(np.concatenate(p).sum(axis=1), 1.0)
    assert relaxed.predict_risk(GRIDS.X[:2]).shape == (2, 2)
    monkeypatch.setattr("robustruct.graphs.buckets.TABLE_LIMIT", 20)
    assert Model(**options).fit(GRIDS.X, GRIDS.y).inference_ == "relaxed"
    with pytest.raises(IncompatibleError, match="inference='relaxed'"):
        Model(inference="exact", **options).fit(GRIDS.X, GRIDS.y)


def test_what_cannot_be_relaxed_says_so():
    with pytest.raises(InvalidInputError, match="inference='relaxed' is not known"):
        CRF(inference="relaxed").fit(GRIDS.X, GRIDS.y)
    with pytest.raises(IncompatibleError, match="optimizer='pairwise'"):
        AGM(inference="relaxed", optimizer="subgradient").fit(GRIDS.X, GRIDS.y)
    squares = [Graph(x.node_features, [(0, 1), (0, 2), (3, 1), (3, 2)]) for x in GRIDS.X]
    tags = [["B-x", "E-x", "E-x", "B-x", *["O"] * 5]] + [["O"] * 9] * 7
    with pytest.raises(IncompatibleError, match="`forbidden`"):
        AGM(inference="relaxed", constraints="BIOES").fit(squares, tags)
