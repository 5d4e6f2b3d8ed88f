"""Problems assembled from shards are, taken together, the problem of all samples at once."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.errors import FileFormatError, IncompatibleError, InvalidInputError
from robustruct.features import SparseRows
from robustruct.formats.corpus import Corpus
from robustruct.formats.json_lines import JsonLinesFormat
from robustruct.losses import Loss
from robustruct.objectives.build import Summary, in_memory, plan_of, summarise


def corpus(X, y, weight=None, node_weight=None, name="X", as_written=False):
    lines = list(range(1, len(X) + 1))
    return Corpus(X, y, weight, node_weight, lines, JsonLinesFormat(), None, name, as_written)


def shards_of(X, y, cuts, weight=None, node_weight=None, as_written=False):
    bounds = [0, *cuts, len(X)]
    return [
        corpus(
            X[a:b],
            y[a:b],
            None if weight is None else weight[a:b],
            None if node_weight is None else node_weight[a:b],
            f"shard {number}",
            as_written,
        )
        for number, (a, b) in enumerate(pairwise(bounds))
    ]


def merged(shards, **options) -> Summary:
    summary, *others = [summarise(shard, **options) for shard in shards]
    for other in others:
        summary = summary.merged(pickle.loads(pickle.dumps(other)))
    return summary


def planned(model, shards, **options):
    return pickle.loads(pickle.dumps(plan_of(model, merged(shards), **options)))


def sentences():
    X = [
        [{"w": "the"}, {"w": "cat", "long": True}, {"w": "sleeps"}],
        [{"w": "a"}, {"w": "dog"}],
        [{"w": "dogs", "end": "s"}, {"w": "bark"}],
        [{"w": "rare"}],
    ]
    return X, [["D", "N", "V"], ["D", "N"], ["N", "V"], ["X"]]


def trees():
    """Edges in both directions, attributes on them, types, and a star that is renumbered."""
    X = [
        Graph([["a"], ["b"], ["c"]], [(0, 1), (0, 2)], [["up"], ["down"]], ["t", "s", "t"]),
        Graph([["b"]], [], None, ["s"]),
        Graph([["c"], ["a"]], [(1, 0)], [["side"]], ["s", "t"]),
    ]
    return X, [[1, 2, 1], [3], [2, 4]]


def dense(rows):
    return rows.to_scipy().toarray() if isinstance(rows, SparseRows) else rows


def rows_of(problem, columns, edges):
    """Labels, weights, and feature rows by name: in the user's order, sample by sample."""
    design, batch = problem.design, problem.design.batch
    node_rows = batch.to_user(dense(design.nodes)[:, np.argsort(columns)])
    of_edges = dense(design.edges)[:, np.argsort(edges)]
    edge_rows = of_edges[design.table_row[design.table_of[batch.slot_of_edge]]]
    return {
        "labels": batch.to_user(problem.labels),
        "node_weight": batch.to_user(problem.node_weight),
        "share": problem.share,
        "sizes": np.diff(batch.node_offsets),
        "types": batch.to_user(design.type_of),
        "nodes": node_rows,
        "edges": edge_rows,
        "features": dense(design.nodes).sum(axis=1)[batch.node_offsets[:-1]],
    }


CASES = {"sentences": sentences, "trees": trees}
WEIGHTS = {
    "plain": lambda y: (None, None),
    "weighted": lambda y: (
        np.array([1.5, 0.0, 0.5, 2.0])[: len(y)],
        [np.linspace(0.5, 1.5, len(labels)) for labels in y],
    ),
}


class Places(Loss):
    """A loss of the user's own: how far apart labels are in whatever order they come."""

    def matrix(self, classes):
        place = np.arange(len(classes), dtype=float)
        return np.abs(place[:, None] - place)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "model",
    [
        AGM(),
        SSVM(alpha=0.3, class_weight="balanced"),
        CRF(constraints=[("V", "D")]),
        AGM(loss=Places(), class_weight={"N": 3.0, 2: 0.5}),
    ],
    ids=["agm", "balanced", "constraints", "class-weight"],
)
@pytest.mark.parametrize("cuts", [[], [1, 1], [0, 2]], ids=str)
@pytest.mark.filterwarnings("ignore:class_weight names")
def test_problems_of_shards_add_up_to_the_problem_of_all(case, weights, model, cuts):
    X, y = CASES[case]()
    weight, node_weight = WEIGHTS[weights](y)
    in_one, whole = in_memory(model, X, y, weight, node_weight)
    learnt = in_one.learnt()
    shards = shards_of(X, y, cuts, weight, node_weight)
    plan = planned(model, shards)
    found = plan.learnt()
    assert set(found) == set(learnt)
    np.testing.assert_array_equal(found["classes_"], learnt["classes_"])
    np.testing.assert_allclose(found["cost_"], learnt["cost_"], rtol=1e-14)
    assert plan.alpha == pytest.approx(whole.alpha)
    if case == "trees":
        assert {k: v.tolist() for k, v in plan.type_labels.items()} == {
            k: v.tolist() for k, v in learnt["type_labels_"].items()
        }
        np.testing.assert_array_equal(plan.rules.types, learnt["_rules"].types)

    problems = [plan.assembled(shard) for shard in shards]
    assert [problem is None for problem in problems] == [not len(shard) for shard in shards]
    problems = [problem for problem in problems if problem is not None]
    for problem in problems:
        np.testing.assert_allclose(problem.cost, whole.cost, rtol=1e-14)
        assert problem.truth_is_predictor == whole.truth_is_predictor
        assert not problem.relaxed
        np.testing.assert_array_equal(problem.constraints.pairs, whole.constraints.pairs)
    assert sum(problem.share.sum() for problem in problems) == pytest.approx(1.0)

    expected = rows_of(
        whole, learnt["_space"].node_feature_names, learnt["_space"].edge_feature_names
    )
    names = plan.space.node_feature_names, plan.space.edge_feature_names
    parts = [rows_of(problem, *names) for problem in problems]
    for field, values in expected.items():
        together = np.concatenate([part[field] for part in parts])
        np.testing.assert_allclose(together, values, rtol=1e-14, err_msg=field)

    # One number that depends on everything: the objective's data term at some weights.
    rng = np.random.default_rng(0)
    k = len(plan.classes)
    theta = rng.normal(size=problems[0].n_weights)
    theirs = reordered(theta, plan.space, learnt["_space"], k)
    p = np.full((len(whole.labels), k), 1.0 / k)
    offsets = np.cumsum([0, *(len(problem.labels) for problem in problems)])
    ours = [
        problem.regret(theta, p[a:b])
        for problem, (a, b) in zip(problems, pairwise(offsets), strict=True)
    ]
    assert sum(ours) == pytest.approx(whole.regret(theirs, p), rel=1e-12)


def test_a_shard_without_weight_has_no_problem_but_its_labels_and_features_count():
    X, y = sentences()
    shards = shards_of(X, y, [3], np.array([1.0, 2.0, 1.0, 0.0]))
    plan = planned(AGM(), shards)
    assert plan.assembled(shards[1]) is None
    assert plan.assembled(shards[0]).share.tolist() == [0.25, 0.5, 0.25]
    assert plan.alpha == 0.25
    assert "X" in plan.classes.tolist()
    assert "w:rare" in plan.space.node_feature_names


def reordered(theta, ours, theirs, k):
    """Weights for the columns of ``ours``, in the order of the columns of ``theirs``."""
    d = ours.n_node_features
    nodes, edges = theta[: d * k].reshape(d, k), theta[d * k :].reshape(-1, k, k)
    rows = [ours.node_feature_names.index(name) for name in theirs.node_feature_names]
    pairs = [ours.edge_feature_names.index(name) for name in theirs.edge_feature_names]
    return np.concatenate([nodes[rows].ravel(), edges[pairs].ravel()])


# ----------------------------------------------------------------- labels that are text in a file


@pytest.mark.parametrize(
    ("here", "there", "classes"),
    [
        (["1", "2"], ["10"], [1, 2, 10]),
        (["1", "2"], ["x"], ["1", "2", "x"]),
        (["0.5"], ["2.0", "10.0"], [0.5, 2.0, 10.0]),
        (["1"], ["01"], ["01", "1"]),
    ],
)
def test_whether_labels_are_numbers_is_decided_for_all_shards_together(here, there, classes):
    X, y = [[["a"]] * len(here), [["b"]] * len(there)], [np.array(here), np.array(there)]
    shards = shards_of(X, y, [1, 1], as_written=True)
    plan = planned(AGM(loss=Places(), class_weight="balanced"), shards)
    assert plan.classes.tolist() == classes
    first, none, second = (plan.assembled(shard) for shard in shards)
    assert none is None
    assert [str(plan.classes.tolist()[code]) for code in first.labels] == here
    assert [str(plan.classes.tolist()[code]) for code in second.labels] == there
    _, local = in_memory(
        AGM(loss=Places(), class_weight="balanced"),
        X,
        [[type(classes[0])(label) for label in labels] for labels in y],
    )
    np.testing.assert_allclose(first.cost, local.cost)
    np.testing.assert_allclose(second.cost, local.cost)


def test_labels_of_several_types_keep_their_types():
    shards = shards_of([[["a"]], [["b"]]], [[1], ["1"]], [1])
    plan = planned(AGM(), shards)
    assert plan.classes.tolist() == [1, "1"]
    assert [plan.assembled(shard).labels.tolist() for shard in shards] == [[0], [1]]


# ------------------------------------------------------------------------------ vocabularies


def test_min_count_counts_over_all_shards():
    X, y = [[["a", "b"]], [["a", "c"]], [["c"]]], [["A"], ["B"], ["A"]]
    plan = planned(AGM(), shards_of(X, y, [1, 2]), min_count=2)
    assert plan.space.node_feature_names == ["a", "c", "(bias)"]


def test_hashed_attributes_need_no_names():
    shards = shards_of([[["a"]], [["b", "c"]]], [["A"], ["B"]], [1])
    plan = plan_of(AGM(), merged(shards, hashed=32))
    assert plan.space.n_node_features == 33
    assert plan.assembled(shards[1]).design.nodes.shape == (1, 33)


# ------------------------------------------------------------------------------ bad input


def test_errors_name_the_shard_and_the_line():
    X, y = sentences()
    bad = [*y[:2], ["N"], ["X"]]
    with pytest.raises(
        FileFormatError, match=r"shard 1, line 2: y\[1\] has 1 labels but"
    ) as caught:
        merged(shards_of(X, bad, [1]))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is FileFormatError
    assert str(again) == str(caught.value)
    shards = shards_of(X, y, [1])
    plan = plan_of(AGM(constraints=[("D", "N")]), merged(shards[1:]))
    with pytest.raises(FileFormatError, match="shard 1, line 1: y: sample 0, node 0: 'D' is foll"):
        plan.assembled(shards[1])
    mixed = [corpus(X[:1], y[:1], name="words"), corpus([np.eye(1)], [["X"]], name="numbers")]
    with pytest.raises(InvalidInputError, match="strings in words, but a dense array in numbers"):
        merged(mixed)


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(InvalidInputError, match="all shards are empty"):
        plan_of(AGM(), merged([corpus([], []), corpus([], [])]))
    X, y = sentences()
    zero = merged(shards_of(X, y, [2], np.zeros(4)))
    with pytest.raises(InvalidInputError, match="sample_weight is zero for every sample"):
        plan_of(AGM(), zero)
    zero = merged(shards_of(X, y, [2], None, [np.zeros(len(labels)) for labels in y]))
    with pytest.raises(InvalidInputError, match="node_weight is zero for every node"):
        plan_of(AGM(), zero)


def test_relaxed_games_are_not_played_in_shards():
    ring = Graph(np.eye(3), [(0, 1), (1, 2), (2, 0)])
    shards = [corpus([np.eye(3)], [["a", "b", "a"]]), corpus([ring], [["a", "b", "b"]], name="B")]
    plan = plan_of(AGM(inference="relaxed"), merged(shards))
    assert plan.assembled(shards[0]) is not None
    with pytest.raises(IncompatibleError, match="B holds graphs with cycles"):
        plan.assembled(shards[1])
    assert plan_of(AGM(), merged(shards)).assembled(shards[1]).design.batch.n_chords == 1
