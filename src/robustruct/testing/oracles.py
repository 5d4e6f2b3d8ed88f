"""Slow and obvious: enumeration and linear programs to hold fast code against.

Everything here is written from the definitions, in the user's order of nodes and edges, and shares
no code with the solvers. It also works on graphs with cycles.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog


def all_labellings(n_nodes: int, n_labels: int) -> np.ndarray:
    """(n_labels ** n_nodes, n_nodes) every labelling, in lexicographic order."""
    return np.array(list(product(range(n_labels), repeat=n_nodes)), dtype=np.intp)


def labelling_score(unary: Any, edges: Any, pairwise: Any, y: Any) -> float:
    """Σ_i unary[i, y_i] + Σ_e pairwise[e, y_first(e), y_second(e)]; -inf if ``y`` is forbidden."""
    nodes = sum(float(unary[i][label]) for i, label in enumerate(y))
    return nodes + sum(float(pairwise[e][y[i]][y[j]]) for e, (i, j) in enumerate(edges))


def map_value(unary: Any, edges: Any, pairwise: Any) -> float:
    """Score of the best labelling, by enumeration."""
    n_nodes, n_labels = np.shape(unary)
    labellings = all_labellings(n_nodes, n_labels)
    return max(labelling_score(unary, edges, pairwise, y) for y in labellings)


def possible_labels(unary: Any, edges: Any, pairwise: Any) -> np.ndarray:
    """(n, k) bool, the labels that some labelling has that is not forbidden, by enumeration."""
    unary, pairwise = np.asarray(unary, float), np.asarray(pairwise, float)
    y = all_labellings(*unary.shape)
    kept = np.isfinite(unary[np.arange(len(unary)), y]).all(axis=1)
    for e, (i, j) in enumerate(edges):
        kept &= np.isfinite(pairwise[e][y[:, i], y[:, j]])
    return (y[kept, :, None] == np.arange(unary.shape[1])).any(axis=0)


def full_game_value(
    unary: Any, edges: Any, pairwise: Any, cost: Any, node_weight: Any = None
) -> float:
    """Value of the game in which *both* players mix over all labellings.

    This is the game as first stated, before any marginals: a matrix with one column per labelling
    that is not forbidden, for the adversary, and one row per labelling whose label on each node
    some allowed labelling has there, for the predictor. That a game over marginals has the same
    value is Theorem 1 of the paper. ``cost``: rows: true label, which is the adversary's, columns:
    predicted label. Columns behind the labels are further actions, possible at every node.
    """
    cost = np.asarray(cost, float)
    n_nodes, n_labels = np.shape(unary)
    n_actions = cost.shape[1]
    weight = np.ones(n_nodes) if node_weight is None else np.asarray(node_weight, float)
    y = all_labellings(n_nodes, n_labels)
    scores = np.array([labelling_score(unary, edges, pairwise, labels) for labels in y])
    y_check, scores = y[scores > -np.inf], scores[scores > -np.inf]
    possible = np.ones((n_nodes, n_actions), bool)
    possible[:, :n_labels] = possible_labels(unary, edges, pairwise)
    y = all_labellings(n_nodes, n_actions)
    y = y[possible[np.arange(n_nodes), y].all(axis=1)]
    losses = sum(weight[i] * cost[y_check[:, i], y[:, i, None]] for i in range(n_nodes))
    return matrix_game(losses + scores)[0]


def local_polytope_value(
    unary: Any, edges: Any, pairwise: Any, cost: Any, node_weight: Any = None
) -> float:
    """max Σ w_i v_i + <ψ, (r, q)> with q's margins equal to r, constraint by constraint.

    On a forest this is the value of the game, else that of its relaxation. The predictor answers
    with labels that some allowed labelling has on a node. ``cost``: rows: true label, which is the
    adversary's, columns: predicted label.
    """
    unary, pairwise, cost = (np.asarray(values, float) for values in (unary, pairwise, cost))
    (n, k), m = unary.shape, len(edges)
    possible = np.ones((n, k), bool)
    if np.isneginf(unary).any() or np.isneginf(pairwise).any():
        possible = possible_labels(unary, edges, pairwise)
    weight = np.ones(n) if node_weight is None else np.asarray(node_weight, float)
    r = np.arange(n * k).reshape(n, k)
    q = n * k + np.arange(m * k * k).reshape(m, k, k)
    v = n * k + m * k * k + np.arange(n)
    equal: Any = sp.lil_array((n + 2 * m * k, v[-1] + 1))  # scipy's types know of no sparse ones
    least: Any = sp.lil_array((n * k, v[-1] + 1))
    target = np.append(np.ones(n), np.zeros(2 * m * k))
    for i in range(n):
        equal[i, r[i]] = 1.0
        for a in np.flatnonzero(possible[i]).tolist():
            least[i * k + a, v[i]] = 1.0
            least[i * k + a, r[i]] = -cost[:, a]
    for e, (i, j) in enumerate(edges):
        for a in range(k):
            row = n + 2 * (e * k + a)
            equal[row, q[e, a]], equal[row, r[i, a]] = 1.0, -1.0
            equal[row + 1, q[e, :, a]], equal[row + 1, r[j, a]] = 1.0, -1.0
    gain = np.concatenate([unary.ravel(), pairwise.ravel(), weight])
    never = gain == -np.inf
    found = linprog(
        -np.where(never, 0.0, gain),
        A_ub=least.tocsr(),
        b_ub=np.zeros(n * k),
        A_eq=equal.tocsr(),
        b_eq=target,
        bounds=[(0, 0 if barred else None) for barred in never[: v[0]]] + [(None, None)] * n,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0 or found.fun is None:
        raise RuntimeError(f"the linear program of the oracle failed: {found.message}")
    return float(-found.fun)


def matrix_game(payoff: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """(value, p, r) of the game in which rows pay columns, by linear programming.

    p (rows) minimises and r (columns) maximises p' payoff r.
    """
    payoff = np.asarray(payoff, float)
    # Entries near 1 keep the solver's absolute tolerances meaningful.
    shift, size = payoff.min(), max(float(np.ptp(payoff)), 1e-300)
    scaled = (payoff - shift) / size
    n_rows, n_columns = payoff.shape
    result = linprog(
        np.append(np.zeros(n_columns), -1.0),
        A_ub=np.hstack([-scaled, np.ones((n_rows, 1))]),
        b_ub=np.zeros(n_rows),
        A_eq=np.append(np.ones(n_columns), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n_columns + [(None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0 or result.x is None or result.fun is None:
        raise RuntimeError(f"the linear program of the oracle failed: {result.message}")
    p = np.maximum(-result.ineqlin.marginals, 0.0)
    return float(-result.fun) * size + shift, p / p.sum(), result.x[:-1]
