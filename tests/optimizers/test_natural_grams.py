"""Products of feature rows, sparse and dense, against numpy's."""

import numpy as np
import pytest
from test_smooth_training import smooth_problem
from training_cases import random_case

from robustruct.optimizers import natural_variables
from robustruct.optimizers.natural_variables import NaturalVariables
from robustruct.optimizers.tuning import SMOOTH


@pytest.mark.parametrize("n_features", [2, 60])
@pytest.mark.parametrize("small", [0, 64])
def test_products_of_rows(n_features: int, small: int, monkeypatch) -> None:
    monkeypatch.setattr(natural_variables, "SMALL", small)
    case = random_case(0, sizes=(9, 4, 1, 20), n_features=n_features, n_edge_features=2, tree=True)
    rng = np.random.default_rng(0)
    for graph in case.graphs:
        graph.node_features[rng.random(graph.node_features.shape) < 0.8] = 0.0
    variables = NaturalVariables(smooth_problem(case, "free", 1.0), SMOOTH)
    grams, samples = variables.grams, variables.objective.samples
    nodes, edges = (
        rows.to_scipy().toarray() for rows in (variables.objective.nodes, variables.objective.edges)
    )
    for s in range(len(case.graphs)):
        rows = nodes[samples.offsets[s] : samples.offsets[s + 1]]
        found = grams.nodes[grams.node_start[s] : grams.node_start[s + 1]]
        if len(found):
            assert np.allclose(found, (rows @ rows.T).ravel(), rtol=1e-6)
        else:
            assert grams.n_columns[s] == np.count_nonzero(rows.any(axis=0))
        own = samples.row[samples.table_start[s] : samples.table_start[s + 1]]
        found = grams.tables[grams.table_start[s] : grams.table_start[s + 1]]
        assert np.allclose(found, (edges[own] @ edges[own].T).ravel(), rtol=1e-5)
