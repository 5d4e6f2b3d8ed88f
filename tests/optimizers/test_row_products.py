"""Products of features: a step updates a sample's scores as gathering them anew would."""

from __future__ import annotations

import numpy as np
import pytest
from training_cases import CASES

from robustruct.features import split_weights
from robustruct.optimizers.dual_variables import DualVariables
from robustruct.optimizers.shards import PassSpec
from robustruct.optimizers.tuning import DENSE

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
    design, batch, k = problem.design, problem.design.batch, problem.n_labels
    dual, theta = DualVariables(problem, DENSE), np.zeros(problem.n_weights)
    rules, kept = dual._design.rules, dual._buffers
    moved = False
    for s in range(batch.n_samples):
        before = theta.copy()
        # A visit that ends before its last step has found nothing to do under the scores it has.
        dual.visit(np.array([s]), theta, PassSpec(1, 0, 0.1, 1000))
        nodes, edges = split_weights(design, theta, k)
        span = slice(batch.node_offsets[s], batch.node_offsets[s + 1])
        expected = design.nodes[span] @ nodes + rules.unary_mask[rules.node_kind[span]]
        np.testing.assert_allclose(kept.unary[0, : len(expected)], expected, atol=1e-12)
        tables = design.table_of[span][batch.parent[span] >= 0]
        for place, t in enumerate(dict.fromkeys(tables.tolist())):
            expected = design.edges[design.table_row[t]] @ edges.reshape(-1, k * k)
            expected = (expected + rules.pair_mask).reshape(k, k)
            expected = expected.T if design.table_transposed[t] else expected
            np.testing.assert_allclose(kept.tables[0, place], expected, atol=1e-12)
        moved |= bool((theta != before).any())
    assert moved
