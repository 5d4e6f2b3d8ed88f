"""Training at T = 0 in the core is equal to the kernels, to the bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from core_cases import forests

from robustruct.core import ascent as core
from robustruct.core.structs import (
    Ascent,
    Design,
    Features,
    KeptRows,
    Marginals,
    PendingMoves,
    Predictor,
    Products,
    Rows,
    Rules,
    SampleScores,
    Scratch,
    Structure,
    TableRows,
    Visits,
    WeightChange,
    WeightChanges,
    Weights,
)
from robustruct.kernels import pairwise_ascent, predictor, row_products
from robustruct.parallel import together

LABELS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 22, 24, 25, 33, 64]
D, E, TABLES = 30, 4, 6


def sparse(rng: np.random.Generator, n: int, d: int, most: int) -> Rows:
    """Rows of up to ``most`` different columns."""
    chosen = [rng.permutation(d)[: rng.integers(0, most + 1)] for _ in range(n)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in chosen])]).astype(np.intp)
    indices = np.concatenate([np.zeros(0, int), *chosen]).astype(np.int32)
    return Rows(indptr, indices, rng.normal(size=len(indices)).round(1))


def marginals_at(structure: Structure, labels: np.ndarray, k: int, room: int) -> Marginals:
    """All mass on one labelling."""
    n = len(labels)
    found = Marginals(
        np.eye(k)[labels],
        np.zeros((n, min(room, k * k)), np.int32),
        np.zeros((n, min(room, k * k))),
        (structure.parent >= 0).astype(np.int32),
    )
    edges = np.flatnonzero(structure.parent >= 0)
    found.pair[edges, 0] = labels[edges] * k + labels[structure.parent[edges]]
    found.mass[edges, 0] = 1.0
    return found


def a_case(
    seed: int,
    k: int,
    inner: int = 1,
    held: bool = False,
    paced: bool = False,
    forbidden: float = 0.0,
    at_once: int = 3,
    products: bool = False,
) -> tuple[Ascent, Marginals]:
    rng = np.random.default_rng([seed, k, inner, held, paced, products])
    structure = forests(seed, k, sizes=(5, 0, 1, 8, 2, 6, 3, 9))
    n, n_samples, k2 = len(structure.parent), len(structure.offsets) - 1, k * k
    masks = np.zeros((3, k))
    masks[:, 1:][rng.random((3, k - 1)) < forbidden] = -np.inf
    pairs = np.zeros((k, k))
    pairs[1:, 1:][rng.random((k - 1, k - 1)) < forbidden] = -np.inf
    design = Design(
        Features(sparse(rng, n, D, 7), sparse(rng, 5, E, 3)),
        TableRows(
            rng.integers(0, TABLES, n),
            rng.integers(0, 5, TABLES),
            rng.integers(0, 2, TABLES),
        ),
        Rules(rng.integers(0, 3, n), masks, pairs.ravel()),
    )
    weights = Weights(rng.normal(size=(D, k)), rng.normal(size=(E, k2)))
    cost = rng.integers(0, 3, (k, k)).astype(float)
    np.fill_diagonal(cost, 0.0)
    inv_mu = np.zeros(k) if held else rng.uniform(0.3, 2.0, k)
    centre = rng.dirichlet(np.full(k, 0.3), n)
    sure = rng.random(n) < 0.5
    centre[sure] = np.eye(k)[rng.integers(0, k, sure.sum())]
    centre[np.isinf(masks[design.rules.node_kind])] = 0.0
    centre /= np.maximum(centre.sum(1, keepdims=True), 1e-300)
    weight = rng.uniform(0.5, 2.0, n)
    kept = Products.none(n_samples)
    if products:
        sizes = np.diff(structure.offsets)
        distinct = [
            len(set(design.tables.table_of[lo:hi][structure.parent[lo:hi] >= 0]))
            for lo, hi in zip(structure.offsets[:-1], structure.offsets[1:], strict=True)
        ]
        starts = (
            np.concatenate([[0], np.cumsum(np.square(each))]).astype(np.intp)
            for each in (sizes, distinct)
        )
        node_start, table_start = starts
        kept = Products(
            node_start, table_start, np.empty(node_start[-1]), np.empty(table_start[-1])
        )
        row_products.all_products(structure, design.features, design.tables, D, kept)
    visits = Visits(
        inner,
        rng.uniform(0.1, 1.0, n_samples),
        kept,
        np.full(n_samples, np.inf),
        np.zeros(n_samples),
    )
    node, edge = WeightChange.none(D, D, k), WeightChange.none(E, E, k2)
    if paced:
        node = node._replace(pace=rng.uniform(0.2, 1.0, D), kept=KeptRows.none(D, k))
        edge = edge._replace(pace=rng.uniform(0.2, 1.0, E))
    ascent = Ascent(
        structure,
        design,
        weights,
        Predictor.of(cost, inv_mu, weight, centre),
        visits,
        PendingMoves.empty(at_once, 9),
        SampleScores.empty(at_once, 9, 9, TABLES, k),
        WeightChanges(node, edge),
    )
    return ascent, marginals_at(structure, np.zeros(n, np.intp), k, 6)


def old_visit(order: np.ndarray, ascent: Ascent, adversary: Marginals) -> None:
    ascent.pending.begin(len(order))
    structure, design, weights, player, visits, pending, scores, changes = ascent
    k = weights.node.shape[1]
    scratch = Scratch.empty(9, 9, TABLES, k)
    given = design, weights, player, adversary, visits, pending, scores, scratch, changes
    pairwise_ascent.visit_samples(0, order, structure, *given)
    n = len(player.centre)
    predictor.move_centres(0, n, player, design.rules, adversary.r)


def new_visit(order: np.ndarray, ascent: Ascent, adversary: Marginals, threads: int = 1) -> None:
    ascent.pending.begin(len(order))
    given = order, len(order), ascent, adversary
    together(core.visit_samples, [(thread, *given) for thread in range(threads)])
    n = len(ascent.predictor.centre)
    core.move_centres(0, n, ascent.predictor, ascent.design.rules, adversary.r)


def numbers(ascent: Ascent, adversary: Marginals) -> dict[str, Any]:
    """All that visits change; lists of pairs as far as they are in use."""
    visits, kept = ascent.visits, ascent.changes.node.kept
    used = np.arange(adversary.pair.shape[1]) < adversary.count[:, None]
    return {
        "node": ascent.weights.node,
        "edge": ascent.weights.edge,
        "centre": ascent.predictor.centre,
        "r": adversary.r,
        "pair": np.where(used, adversary.pair, 0),
        "mass": np.where(used, adversary.mass, 0.0),
        "count": adversary.count,
        "gap": visits.gap,
        "regret": visits.predictor_regret,
        "place": kept.place,
        "kept": kept.values[: kept.count[0]],
        "lines": ascent.changes.node.line_of,
        "change": ascent.changes.node.values,
    }


def compare(case: tuple[Ascent, Marginals], threads: int = 1, passes: int = 4) -> None:
    mine, theirs = copy.deepcopy(case), copy.deepcopy(case)
    rng = np.random.default_rng(0)
    n_samples = len(case[0].structure.offsets) - 1
    for _ in range(passes):
        order = rng.permutation(n_samples)
        new_visit(order, *mine, threads)
        old_visit(order, *theirs)
        for (name, one), other in zip(
            numbers(*mine).items(), numbers(*theirs).values(), strict=True
        ):
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("held", [False, True])
def test_one_step_a_visit(k, forbidden, held):
    compare(a_case(0, k, held=held, forbidden=forbidden))


@pytest.mark.parametrize("k", LABELS)
@pytest.mark.parametrize("products", [False, True])
def test_several_steps_a_visit(k, products):
    compare(a_case(1, k, inner=4, forbidden=0.2, products=products))


@pytest.mark.parametrize("k", [2, 3, 5, 9, 22, 33])
def test_paces_and_rows_as_they_were(k):
    compare(a_case(2, k, paced=True))


@pytest.mark.parametrize("k", [1, 3, 9, 22])
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("inner", [1, 3])
def test_threads(k, threads, inner):
    compare(a_case(3, k, inner=inner, products=inner > 1), threads, passes=20)
