"""Products of features: a step updates a sample's scores as gathering them anew would."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from training_cases import CASES

from robustruct.constraints import node_kinds
from robustruct.features import split_weights
from robustruct.kernels import changes as change_kernels
from robustruct.kernels import looks, steps
from robustruct.kernels.changes import no_change
from robustruct.optimizers.dual_variables import DualBlocks
from robustruct.optimizers.tuning import DENSE


def from_python(helper):
    """A helper of kernels as a function that Python can call."""

    @njit
    def call(*arguments):
        return helper(*arguments)

    return call


gather_scores = from_python(looks.gather_scores)
components = from_python(steps._components)
lay_out = from_python(steps._lay_out)
apply = from_python(steps._apply)
update_scores = from_python(steps.update_scores)
free_lines = from_python(change_kernels.free_lines)
forests = [name for name, case in CASES.items() if not case.problem().design.batch.n_chords]
every_case = pytest.mark.parametrize("name", forests)  # steps on cycles do without


@every_case
def test_they_are_the_products_of_the_rows(name):
    problem = CASES[name].problem()
    design, batch, blocks = problem.design, problem.design.batch, DualBlocks(problem, DENSE)
    node_start, table_start, node_gram, table_gram = blocks.grams
    for s in range(batch.n_samples):
        span = slice(batch.node_offsets[s], batch.node_offsets[s + 1])
        rows = design.nodes[span]
        found = node_gram[node_start[s] : node_start[s + 1]]
        np.testing.assert_allclose(found, (rows @ rows.T).ravel(), atol=1e-12)
        tables = design.table_of[span][batch.parent[span] >= 0]
        distinct = list(dict.fromkeys(tables.tolist()))
        rows = design.edges[design.table_row[distinct]]
        found = table_gram[table_start[s] : table_start[s + 1]]
        np.testing.assert_allclose(found, (rows @ rows.T).ravel(), atol=1e-12)


@every_case
def test_a_step_changes_the_scores_as_it_changes_the_weights(name):
    problem = CASES[name].problem()
    design, batch, k = problem.design, problem.design.batch, problem.n_labels
    blocks, rng = DualBlocks(problem, DENSE), np.random.default_rng(0)
    theta = rng.normal(size=problem.n_weights)
    node_theta, edge_theta = split_weights(design, theta, k)
    edge_theta = edge_theta.reshape(-1, k * k)
    x, f = blocks.nodes, blocks.edges
    node_start, table_start, node_gram, table_gram = blocks.grams
    rows = x.indptr, x.indices, x.data, node_theta, f.indptr, f.indices, f.data, edge_theta
    layout = design.table_of, design.table_row, design.table_turned.astype(np.intp)

    def gathered(lo, hi):
        n = hi - lo
        unary, tables = np.empty((n, k)), np.zeros((min(n, design.n_tables), k, k))
        slot, slot_turn = np.empty(n, np.intp), np.empty(n, np.intp)
        used = gather_scores(
            lo, hi, batch.parent, *rows, *layout, node_kinds(design),
            problem.constraints.unary_masks(), problem.constraints.pair_masks(),
            np.full(design.n_tables, -1, np.intp),
            unary, tables, slot, slot_turn,
        )  # fmt: skip
        return unary, tables[:used], slot, slot_turn

    for s in range(batch.n_samples):
        lo, hi = int(batch.node_offsets[s]), int(batch.node_offsets[s + 1])
        n = hi - lo
        up = np.where(batch.parent[lo:hi] < 0, -1, batch.parent[lo:hi] - lo)
        y, w = rng.integers(k, size=(2, n))
        component, owner, items = np.empty((3, n), np.intp)
        start = np.empty(n + 2, np.intp)
        unary, tables, slot, slot_turn = gathered(lo, hi)
        augmented = unary + 1.0
        for c in range(components(n, up, y, w, component, owner, start, items)):
            part = start[c], start[c + 1], items, up, y, w, component, owner
            changes = no_change(x.shape[1], x.shape[1], k), no_change(f.shape[1], f.shape[1], k * k)
            _, _, *used = lay_out(lo, *part, *rows, *layout, changes)
            apply(
                lo, *part, x.indptr, x.indices, node_theta, f.indptr, f.indices, edge_theta,
                *layout, changes, 0.3,
            )  # fmt: skip
            for lines, change in zip(used, changes, strict=True):
                free_lines(lines, change)
                assert (change[0] == -1).all()
                assert not change[2].any()
            update_scores(
                lo, n, *part, design.table_of, layout[2], slot, slot_turn,
                node_gram, node_start[s], table_gram, table_start[s],
                len(tables), 0.3, unary, augmented, tables,
            )  # fmt: skip
        expected, expected_tables, _, _ = gathered(lo, hi)
        np.testing.assert_allclose(unary, expected, atol=1e-12)
        np.testing.assert_allclose(augmented, expected + 1.0, atol=1e-12)
        np.testing.assert_allclose(tables, expected_tables, atol=1e-12)
