"""Products of features: a step updates a sample's scores as gathering them anew would."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from training_cases import CASES

from robustruct.core.structs import (
    Components,
    Move,
    Products,
    Sample,
    SampleScores,
    WeightChange,
    WeightChanges,
    Weights,
)
from robustruct.features import split_weights
from robustruct.kernels import component_steps as steps
from robustruct.kernels import labelling_oracle as oracle
from robustruct.kernels import weight_changes
from robustruct.kernels._jit import Whole
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.tuning import DENSE

kernel = njit(pipeline_class=Whole)  # helpers are called as kernels call them


def from_python(helper):
    """A helper of kernels as a function that Python can call."""

    @kernel
    def call(*arguments):
        return helper(*arguments)

    return call


# Parts of kernels, which numba takes in only with their arguments spelt out.


@kernel
def lay_out(c, sample, move, components, features, tables, weights, changes):
    return steps.lay_out(c, sample, move, components, features, tables, weights, changes)


@kernel
def apply_change(c, sample, move, components, features, tables, weights, changes, step):
    steps.apply_change(c, sample, move, components, features, tables, weights, changes, step)


# Views of arrays in tuples are not for Python: these two run as it would.
own_structure, own_design = oracle.own_structure.py_func, oracle.own_design.py_func
gather_scores = from_python(oracle.gather_scores)
find_components = from_python(steps.find_components)
update_scores = from_python(steps.update_scores)
free_lines = from_python(weight_changes.free_lines)
forests = [name for name, case in CASES.items() if not case.problem().design.batch.n_chords]
every_case = pytest.mark.parametrize("name", forests)  # steps on cycles do without


@every_case
def test_they_are_the_products_of_the_rows(name):
    problem = CASES[name].problem()
    design, batch, dual = problem.design, problem.design.batch, DualVariables(problem, DENSE)
    node_start, table_start, node_products, table_products = dual.products
    for s in range(batch.n_samples):
        span = slice(batch.node_offsets[s], batch.node_offsets[s + 1])
        rows = design.nodes[span]
        found = node_products[node_start[s] : node_start[s + 1]]
        np.testing.assert_allclose(found, (rows @ rows.T).ravel(), atol=1e-12)
        tables = design.table_of[span][batch.parent[span] >= 0]
        distinct = list(dict.fromkeys(tables.tolist()))
        rows = design.edges[design.table_row[distinct]]
        found = table_products[table_start[s] : table_start[s + 1]]
        np.testing.assert_allclose(found, (rows @ rows.T).ravel(), atol=1e-12)


@every_case
def test_a_step_changes_the_scores_as_it_changes_the_weights(name):
    problem = CASES[name].problem()
    batch, k = problem.design.batch, problem.n_labels
    dual, rng = DualVariables(problem, DENSE), np.random.default_rng(0)
    nodes, edges = split_weights(problem.design, rng.normal(size=problem.n_weights), k)
    weights = Weights(nodes, edges.reshape(-1, k * k))
    design, n_tables = dual._design, problem.design.n_tables
    changes = WeightChanges(*(WeightChange.none(*w.shape[:1], *w.shape) for w in weights))
    starts = dual.products.node_start, dual.products.table_start
    for s in range(batch.n_samples):
        lo, hi = batch.node_offsets[s : s + 2]
        n = int(hi - lo)
        room = Sample(0, 0, *np.empty((3, n), np.intp))
        sample = own_structure(s, batch.structure, design.tables.table_of, room)
        own, components = own_design(lo, hi, design), Components.empty(n)
        kept = (
            each[start[s] : start[s + 1]]
            for each, start in zip(dual.products[2:], starts, strict=True)
        )
        products = Products(*starts, *kept)

        def gathered(sample=sample, own=own, n=n):
            one = SampleScores.empty(1, n, n, n_tables, k)
            scores = SampleScores(*(each[0] for each in one))
            scores.tables[:] = 0.0
            gather_scores(sample, own, weights, np.full(n_tables, -1, np.intp), scores)
            return scores

        scores = gathered()
        move = Move(*rng.integers(k, size=(2, n)), np.zeros(n))
        components.number[0] = find_components(sample, move, components)
        components.step[:] = rng.uniform(size=n)
        for c in range(components.number[0]):
            step = c, sample, move, components, own.features, own.tables, weights, changes
            _, _, *used = lay_out(*step)
            apply_change(*step, 0.3 * components.step[c])
            for lines, change in zip(used, changes, strict=True):
                free_lines(lines, change)
                assert (change.line_of == -1).all()
                assert not change.values.any()
        update_scores(0.3, sample, move, components, own.tables.transposed, products, scores)
        expected = gathered()
        np.testing.assert_allclose(scores.unary, expected.unary, atol=1e-12)
        distinct = len(set(sample.table_of[sample.parent[:n] >= 0].tolist()))
        np.testing.assert_allclose(scores.tables[:distinct], expected.tables[:distinct], atol=1e-12)
