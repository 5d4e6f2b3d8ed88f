"""Hostile values for every argument that takes an array.

``TARGETS`` maps a name to a function that draws one case from a generator, runs it, and returns if
the case was refused by an error of ours or answered with numbers that make sense. Anything else is
a failure: an error of another kind, an answer that is not finite, a message without end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from robustruct import AGM, CRF, SSVM, Graph, solve_game, solve_games
from robustruct.constraints import Constraints, TransitionMasks
from robustruct.errors import LONGEST_MESSAGE, RobustructError
from robustruct.features import FeatureSpace
from robustruct.formats.shards import ShardedData
from robustruct.graphs import Batch, chain_edges
from robustruct.inference import best_labelling, marginals
from robustruct.losses import Absolute, CostMatrix, Hamming, LabelSets, Squared, class_weighted
from robustruct.metrics import confusion, label_scores, mean_loss, span_scores
from robustruct.multilabel import MultiLabel, label_graph
from robustruct.scores import Scores

Rng = np.random.Generator
REFUSED = object()

SPARSE = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
NUMBERS = (
    np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e99, 1e-320, -0.0, 2.0**53, 2**53 + 1, 2**63,
    10**400, -1, 0, 1, 1e9, True, 1j, "1", "a", b"a", None, np.ma.masked, np.datetime64("NaT"),
    (), [], {},
)  # fmt: skip


# ------------------------------------------------------------------------------------ what is drawn


def pick(rng: Rng, options: Any) -> Any:
    """One of some options, left as it is."""
    return options[int(rng.integers(len(options)))]


def same_values(rng: Rng, good: np.ndarray) -> Any:
    """The same numbers in another form; most of them ought to be accepted."""
    form = int(rng.integers(14))
    if form == 0:
        return good[::-1].copy()[::-1]
    if form == 1:
        frozen = good.copy()
        frozen.flags.writeable = False
        return frozen
    if form == 2:
        return np.repeat(good, 2, axis=-1)[..., ::2]
    if form == 3:
        return np.asfortranarray(good)
    if form == 4:
        return good.astype(good.dtype.newbyteorder())
    if form == 5:
        return good.astype(pick(rng, (np.float16, np.float32, np.longdouble)))
    if form == 6:
        return good.tolist()
    if form == 7 and good.ndim == 2:
        return np.matrix(good)
    if form == 8:
        return np.ma.array(good)
    if form == 9:
        return good.astype(object)
    if form == 10 and good.ndim == 2:
        return sparse(rng, good)
    if form == 11:
        return tuple(good.tolist())
    if form == 12:
        return np.round(good).astype(pick(rng, (np.int8, np.int64, np.uint64, bool)))
    return good.view(type("Sub", (np.ndarray,), {}))


def other_values(rng: Rng, good: np.ndarray) -> Any:
    """Something that has one thing wrong, or everything."""
    form = int(rng.integers(20))
    if form < 5:  # one entry is what it should not be
        values = good.astype(object)
        if values.size:
            values.flat[int(rng.integers(values.size))] = pick(rng, NUMBERS)
        if rng.random() < 0.5:
            return values.tolist()
        try:
            return values.astype(float) if rng.random() < 0.7 else values
        except (TypeError, ValueError, OverflowError):
            return values
    if form == 5:
        return np.ma.array(good, mask=rng.random(good.shape) < 0.3)
    if form == 6:  # another shape
        return pick(rng, (good[:0], good[..., :0], good[None], good.ravel(), np.float64(1.5)))
    if form == 7:
        return np.concatenate([good, good], axis=int(rng.integers(good.ndim)))
    if form == 8:
        return good.astype(pick(rng, ("U8", "S8", "datetime64[s]", "timedelta64[s]", complex)))
    if form == 9:
        return np.zeros(good.shape, dtype=[("a", float), ("b", int)])
    if form == 10 and good.ndim == 2:
        return broken(rng, good)
    if form == 11:
        return good * pick(rng, (1e308, 1e300, 1e-300, 1e160, -1e12, 0.0))
    if form == 12:  # ragged
        rows = good.tolist()
        return [*rows, rows[:1]] if isinstance(rows, list) else rows
    if form == 13:
        return (value for value in np.ravel(good))
    if form == 14:
        return {"a": good} if rng.random() < 0.5 else set(np.ravel(good).tolist())
    if form == 15:
        return pick(rng, ([], (), "", "abc", b"abc", 5, -1, 1.5, None, object(), np.array(3.0)))
    if form == 16:
        return [good]
    if form == 17:
        return np.array([good, None, "a"], dtype=object)
    if form == 18:
        return "x" * 50_000
    return [["a" * 3000] * 50] * 50


def sparse(rng: Rng, good: np.ndarray) -> Any:
    """The array in a sparse format."""
    make = sp.coo_array if rng.random() < 0.5 else sp.coo_matrix
    if good.dtype.kind not in "iufb" or not good.dtype.isnative or good.dtype.itemsize == 2:
        return good  # no type of a sparse matrix
    found = make(good).asformat(pick(rng, SPARSE))
    if rng.random() < 0.2 and found.format in ("csr", "csc"):
        found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def broken(rng: Rng, good: np.ndarray) -> Any:
    """A sparse matrix whose arrays were changed behind SciPy's back."""
    dense = np.where(rng.random(good.shape) < 0.7, good, 0.0)
    found = sp.coo_array(dense).asformat(pick(rng, ("csr", "csc", "bsr", "coo")))
    field = pick(rng, ("row", "col") if found.format == "coo" else ("indices", "indptr"))
    values = getattr(found, field)
    if rng.random() < 0.2:
        values = values.astype(pick(rng, (np.int64, np.uint64, np.int16, float)))
    if rng.random() < 0.2:
        values = values[: int(rng.integers(len(values) + 1))]
    elif len(values):
        values = values.copy()
        worst = np.array(pick(rng, (-1, 1, 3, 100, 2**15 - 1))).astype(values.dtype)
        values[int(rng.integers(len(values)))] = worst
    if found.format == "coo":
        coords = list(found.coords)
        coords[field == "col"] = values
        found.coords = tuple(coords)
    else:
        setattr(found, field, values)
    return found


def hostile(rng: Rng, good: Any) -> Any:
    """The good values, the same in another form, or something else."""
    draw = rng.random()
    good = np.asarray(good)
    if draw < 0.3:
        return good
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they warn while they are made
        return same_values(rng, good) if draw < 0.6 else other_values(rng, good)


def labels(rng: Rng, n: int) -> Any:
    """Labels of n nodes, of types that may or may not go together."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.integers(0, 3, n),
        lambda: np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
        lambda: [pick(rng, ("O", "B-x", "I-x")) for _ in range(n)],
        lambda: [pick(rng, (2**53, 2**53 + 1, 0.5)) for _ in range(n)],
        lambda: [pick(rng, (1, "1", True, 1.0)) for _ in range(n)],
        lambda: [pick(rng, NUMBERS) for _ in range(n)],
        lambda: rng.uniform(-1.0, 1.0, n) * pick(rng, (1.0, 1.7e308)),
        lambda: np.array([b"a", b"b"])[rng.integers(0, 2, n)],
        lambda: np.array(["2001-01-01", "2002-01-01"], "datetime64[D]")[rng.integers(0, 2, n)],
    ]
    chosen = pick(rng, [*kinds, kinds[0], kinds[0], kinds[1]])()
    if rng.random() < 0.2 and isinstance(chosen, np.ndarray) and chosen.dtype.kind in "if":
        return hostile(rng, chosen)
    return chosen


def chain_samples(rng: Rng, d: int = 3) -> tuple[Any, Any]:
    """Some chains, one of which may be hostile, and labels for them."""
    sizes = rng.integers(1, 5, int(rng.integers(1, 4))).tolist()
    X: list[Any] = [rng.normal(size=(n, d)) for n in sizes]
    y: list[Any] = [rng.integers(0, 3, n) for n in sizes]
    s = int(rng.integers(len(X)))
    if rng.random() < 0.6:
        X[s] = hostile(rng, X[s])
    if rng.random() < 0.2:
        X = [sparse(rng, x) if type(x) is np.ndarray and x.ndim == 2 else x for x in X]
    if rng.random() < 0.3:
        y[s] = labels(rng, sizes[s])
    if rng.random() < 0.05:
        X, y = pick(rng, ((X, None), (None, y), (tuple(X), tuple(y)), (X, y[:-1]), (iter(X), y)))
    return X, y


def any_samples(rng: Rng) -> tuple[Any, Any]:
    """Rows, chains or graphs, and labels for them."""
    form = rng.random()
    if form < 0.35:
        n = int(rng.integers(2, 6))
        X = hostile(rng, rng.normal(size=(n, 3)))
        return X, labels(rng, n) if rng.random() < 0.5 else rng.integers(0, 3, n)
    if form < 0.75:
        return chain_samples(rng)
    return [hostile_graph(rng) for _ in range(2)], [rng.integers(0, 3, 4) for _ in range(2)]


def hostile_graph(rng: Rng) -> Graph:
    """A graph of four nodes with one hostile argument."""
    edges = pick(rng, ([(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 1), (2, 3), (3, 0)]))
    arguments: list[Any] = [rng.normal(size=(4, 3)), np.array(edges), None, None]
    if rng.random() < 0.5:
        arguments[2] = rng.normal(size=(len(edges), 2))
    if rng.random() < 0.2:
        arguments[3] = np.array([0, 0, 1, 1])
    which = int(rng.integers(4))
    if arguments[which] is not None:
        arguments[which] = hostile(rng, arguments[which])
    return Graph(*arguments)


def weights(rng: Rng, y: Any, per_node: bool) -> Any:
    """Weights for labels y: of samples, or of nodes."""
    try:
        sizes = [1 if np.ndim(labels) == 0 else len(labels) for labels in y]
    except (TypeError, ValueError, NotImplementedError):  # the last is SciPy's, of blocks
        sizes = [1, 1]
    if not per_node:
        return hostile(rng, rng.random(len(sizes)))
    found: list[Any] = [rng.random(n) for n in sizes]
    if found:
        s = int(rng.integers(len(found)))
        found[s] = hostile(rng, found[s])
    return hostile(rng, np.ones(len(sizes))) if rng.random() < 0.2 else found


# --------------------------------------------------------------------------- what must come of it


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or REFUSED if it raises an error of ours that can be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except RobustructError as error:
        message = str(error)
    assert 10 <= len(message) <= LONGEST_MESSAGE, f"a message of {len(message)} characters"
    return REFUSED


def check_finite(*arrays: Any) -> None:
    """Every number is finite."""
    for array in arrays:
        assert np.isfinite(np.asarray(array, float)).all(), f"not finite: {array}"


def check_fitted(model: Any) -> None:
    """A fit that was accepted has finite weights and a certificate."""
    k = len(model.classes_)
    assert k == len(set(model.classes_.tolist()))
    check_finite(model.coef_, model.objective_, model.duality_gap_, model.cost_)
    assert model.duality_gap_ >= -1e-6, model.duality_gap_
    assert model.cost_.shape == (k, k)


def check_distributions(rows: Any) -> None:
    """Rows are distributions."""
    check_finite(rows)
    assert (np.asarray(rows) >= 0).all()
    np.testing.assert_allclose(np.sum(rows, axis=-1), 1.0, atol=1e-6)


@cache
def fitted(kind: str) -> Any:
    """A model to predict with."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(4, 3)) for _ in range(4)]
    y = [np.array([0, 1, 2, 1]), *(rng.integers(0, 3, 4) for _ in range(3))]
    if kind == "rows":
        return CRF(alpha=0.5).fit(np.concatenate(rows), np.concatenate(y))
    if kind == "graphs":
        edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
        return AGM(alpha=0.5).fit([Graph(x, edges, rng.normal(size=(4, 2))) for x in rows], y)
    return pick(rng, (AGM, SSVM))(alpha=0.5).fit(rows, y)


# ------------------------------------------------------------------------------------------ targets


def fit(rng: Rng) -> None:
    """fit(X, y, sample_weight, node_weight)."""
    made = outcome(lambda: any_samples(rng))
    if made is REFUSED:
        return
    X, y = made
    arguments: list[Any] = [None, None]
    if rng.random() < 0.3:
        which = int(rng.integers(2))
        arguments[which] = weights(rng, y, per_node=which == 1)
    model = pick(rng, (AGM, CRF, SSVM))(alpha=0.5, tol=0.5, max_iter=20, random_state=0)
    if outcome(lambda: model.fit(X, y, *arguments)) is REFUSED:
        assert not hasattr(model, "coef_")
    else:
        check_fitted(model)


def options(rng: Rng) -> None:
    """Parameters that hold arrays: loss, class_weight, constraints, alpha."""
    cost = 1.0 - np.eye(3)
    pairs = [(0, 1), (1, 2)]
    given = pick(
        rng,
        [
            lambda: {"loss": hostile(rng, cost)},
            lambda: {"loss": pick(rng, ("absolute", "squared", "x" * 9000, 5, None))},
            lambda: {"class_weight": {pick(rng, (0, 1, "a")): pick(rng, NUMBERS)}},
            lambda: {"class_weight": hostile(rng, np.ones(3))},
            lambda: {"constraints": hostile(rng, np.array(pairs))},
            lambda: {"constraints": [(pick(rng, NUMBERS), pick(rng, NUMBERS))]},
            lambda: {"constraints": pick(rng, ("BIO", "BIOES", "x", 5, ["BIO"]))},
            lambda: {"alpha": same_values(rng, np.array([0.5, 1.0]))},
            lambda: {"alpha": pick(rng, ([], [0.5, "a"], [[0.5], 1.0], [None], -1.0, "b", {}))},
            lambda: {"alpha": pick(rng, (np.nan, np.inf, -1, 0, True, 1j, "a", None, (), 10**400))},
        ],
    )()
    X = [rng.normal(size=(4, 3)) for _ in range(3)]
    y = [np.array([0, 0, 0, 0]), np.array([1, 1, 0, 2]), np.array([2, 2, 2, 2])]
    model = pick(rng, (AGM, CRF))(**{"alpha": 0.5, "tol": 0.5, "max_iter": 20, **given})
    if outcome(lambda: model.fit(X, y, cv=2)) is not REFUSED:
        check_fitted(model)


def predict(rng: Rng) -> None:
    """X of predict, predict_proba, predict_risk, predict_k_best, decision_function."""
    kind = pick(rng, ("rows", "chains", "graphs"))
    model = fitted(kind)
    if kind == "rows":
        X = hostile(rng, rng.normal(size=(3, 3)))
    else:
        make = (lambda: chain_samples(rng)[0]) if kind == "chains" else lambda: [hostile_graph(rng)]
        X = outcome(make)
        if X is REFUSED:
            return
    name = pick(rng, ("predict", "predict_proba", "predict_risk", "predict_k_best", "log"))
    if name == "log":
        name = "decision_function"
    found = outcome(lambda: getattr(model, name)(X))
    if found is REFUSED:
        return
    if name == "predict":
        assert {*np.concatenate([np.ravel(part) for part in found]).tolist()} <= {0, 1, 2}
    elif name == "predict_proba":
        for part in found if isinstance(found, list) else [found]:
            check_distributions(part)
    elif name == "predict_risk":
        check_finite(found)
    elif name == "predict_k_best":
        check_finite([score for sample in found for _, score in sample])


def score(rng: Rng) -> None:
    """Arguments of score and log_score."""
    kind = pick(rng, ("rows", "chains"))
    model = fitted(kind)
    n = [3] if kind == "rows" else [3, 2]
    X: Any = [rng.normal(size=(m, 3)) for m in n]
    y: Any = [labels(rng, m) for m in n]
    X, y = (X[0], y[0]) if kind == "rows" else (X, y)
    arguments: list[Any] = [X, y, None, None]
    if rng.random() < 0.6:
        which = int(rng.integers(2, 4))
        arguments[which] = weights(rng, y, per_node=which == 3)
    elif kind == "rows":
        arguments[0] = hostile(rng, X)
    if rng.random() < 0.2:
        found = outcome(lambda: model.log_score(*arguments[:2]))
    else:
        found = outcome(lambda: model.score(*arguments))
    if found is not REFUSED:
        check_finite(found)


def graph(rng: Rng) -> None:
    """Graph(...), alone."""
    found = outcome(lambda: hostile_graph(rng))
    if found is not REFUSED:
        assert found.edges.dtype == np.intp
        assert found.edges.shape == (found.n_edges, 2)
        assert ((found.edges >= 0) & (found.edges < found.n_nodes)).all()


def game(rng: Rng) -> None:
    """solve_game and solve_games."""
    n, k = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    edges = chain_edges(n)
    if n == 3 and rng.random() < 0.3:
        edges = np.array([(0, 1), (1, 2), (2, 0)])
    arguments: list[Any] = [
        rng.normal(size=(n, k)),
        edges,
        rng.normal(size=(len(edges), k, k)),
        1.0 - np.eye(k),
        rng.random(n) + 0.1,
    ]
    which = int(rng.integers(5))
    arguments[which] = hostile(rng, arguments[which])
    if rng.random() < 0.2:
        many = [[one] if i != 3 else one for i, one in enumerate(arguments)]
        found = outcome(lambda: solve_games(*many)[0])
    else:
        found = outcome(lambda: solve_game(*arguments))
    if found is REFUSED:
        return
    check_finite(found.lower, found.upper, found.value)
    assert found.lower <= found.upper
    check_distributions(found.predictor)
    check_distributions(found.adversary_nodes)
    assert found.predictor.shape == found.adversary_nodes.shape


def scores(rng: Rng) -> None:
    """Scores of a batch that users give, and what inference makes of them."""
    n, k = 4, 3
    edges = pick(rng, (chain_edges(n), np.array([(0, 1), (1, 2), (2, 3), (3, 0)])))
    batch = Batch.build([(n, np.asarray(edges))])
    arguments: list[Any] = [rng.normal(size=(n, k)), rng.normal(size=(len(edges), k, k))]
    which = int(rng.integers(2))
    arguments[which] = hostile(rng, arguments[which])
    found = outcome(lambda: Scores.from_user(batch, *arguments))
    if found is REFUSED:
        return
    codes, _ = best_labelling(found)
    assert ((codes >= 0) & (codes < k)).all()
    if max(abs(found.unary).max(), abs(found.tables).max()) < 1e100:  # and nothing is ruled out
        check_distributions(marginals(found).nodes)


def losses(rng: Rng) -> None:
    """Losses: the matrix, the labels of its rows, what they are asked to price."""
    k = int(rng.integers(1, 4))
    make = pick(
        rng,
        [
            lambda: CostMatrix(hostile(rng, 1.0 - np.eye(k))),
            lambda: CostMatrix(1.0 - np.eye(k), labels(rng, k)),
            lambda: LabelSets(CostMatrix(hostile(rng, 1.0 - np.eye(k)), labels(rng, k))),
            Absolute,
            Squared,
            Hamming,
        ],
    )
    loss = outcome(make)
    if loss is REFUSED:
        return
    assert len(repr(loss)) < LONGEST_MESSAGE
    n = int(rng.integers(0, 4))
    given = [labels(rng, n), labels(rng, n if rng.random() < 0.9 else n + 1)]
    classes = None if rng.random() < 0.5 else labels(rng, k)
    found = outcome(lambda: loss.evaluate(*given, classes))
    if found is not REFUSED:
        check_finite(found)
        assert found.ndim == 1
    classes = outcome(lambda: class_weighted(np.eye(2), ["a", "b"], {"a": pick(rng, NUMBERS)}))
    if classes is not REFUSED:
        check_finite(classes)


def metrics(rng: Rng) -> None:
    """y_true, y_pred, node_weight and classes of metrics."""
    sizes = rng.integers(0, 4, int(rng.integers(1, 4))).tolist()
    true: Any = [labels(rng, n) for n in sizes]
    predicted: Any = [labels(rng, n) for n in sizes] if rng.random() < 0.7 else true
    if rng.random() < 0.3:
        true, predicted = labels(rng, 3), labels(rng, 3)
    if rng.random() < 0.1:
        true = hostile(rng, np.arange(6).reshape(2, 3))
    classes = None if rng.random() < 0.6 else labels(rng, 3)
    which = int(rng.integers(4))
    if which == 0:
        weight = None if rng.random() < 0.5 else weights(rng, true, per_node=True)
        loss = pick(rng, ("hamming", "absolute", "squared"))
        average = pick(rng, ("node", "sample", "x" * 5000))
        found = outcome(lambda: mean_loss(true, predicted, loss, weight, average, classes))
        if found is not REFUSED:
            check_finite(found)
    elif which == 1:
        found = outcome(lambda: confusion(true, predicted, classes))
        assert found is REFUSED or (found.ndim == 2 and (found >= 0).all())
    elif which == 2:
        outcome(lambda: label_scores(true, predicted, classes))
    else:
        outcome(lambda: span_scores(true, predicted))


def rules(rng: Rng) -> None:
    """Labels and pairs that constraints are made of."""
    names = labels(rng, int(rng.integers(1, 4)))
    pairs = pick(
        rng,
        ((), [(0, 1)], hostile(rng, np.array([[0, 1], [1, 2]])), [(pick(rng, NUMBERS), "a")]),
    )
    scheme = pick(rng, (None, None, "BIO", "BIOES", "x" * 5000))
    found = outcome(lambda: TransitionMasks.build(names, Constraints(scheme, pairs)))
    if found is not REFUSED:
        assert not np.isnan(found.pairs).any()


def questions(rng: Rng) -> None:
    """X, Y and edges of MultiLabel."""
    X = rng.normal(size=(4, 2))
    Y = rng.integers(0, 2, (4, 3))
    given: list[Any] = [X, Y, None]
    which = int(rng.integers(3))
    given[which] = hostile(rng, np.array([(0, 1)]) if which == 2 else given[which])
    if rng.random() < 0.3:
        found = outcome(lambda: label_graph(given[1], pick(rng, (1, 2, 0, 1.5, "a"))))
        assert found is REFUSED or found.shape[1] == 2
        return
    model = MultiLabel(CRF(alpha=0.5, tol=0.5), edges=given[2])
    if outcome(lambda: model.fit(given[0], given[1])) is REFUSED:
        return
    check_fitted(model.model_)
    found = outcome(lambda: model.predict(hostile(rng, X)))
    assert found is REFUSED or found.shape[1] == len(np.asarray(model.predict(X))[0])


def space(rng: Rng) -> None:
    """Attributes of nodes."""
    good: list[Any] = [{"w": "a", "n": 1.5}, ["w:b", "c"], "d", {"e": {"f": [1]}}]
    nodes = [pick(rng, good) for _ in range(3)]
    if rng.random() < 0.7:
        nodes[1] = pick(
            rng,
            [
                lambda: {"w": pick(rng, NUMBERS)},
                lambda: {pick(rng, ("a", 1, None, b"\xff", "x" * 9000)): "v"},
                lambda: [pick(rng, ("a", 1, None, b"\xff"))],
                lambda: pick(rng, (None, 5, b"a", set("ab"), {"a": np.ones(2)}, np.ones(2))),
            ],
        )()
    found = outcome(lambda: FeatureSpace.fit([nodes]))
    if found is not REFUSED:
        learnt, design = found
        assert design.nodes.shape == (3, learnt.n_node_features)
        check_finite(getattr(design.nodes, "data", design.nodes))


def dealt(rng: Rng) -> None:
    """Samples that are dealt out to shards."""
    made = outcome(lambda: any_samples(rng))
    if made is REFUSED:
        return
    X, y = made
    given: dict[str, Any] = {}
    if rng.random() < 0.3:
        given["sample_weight"] = weights(rng, y, per_node=False)
    if rng.random() < 0.3:
        given["node_weight"] = weights(rng, y, per_node=True)
    model = CRF(alpha=0.5, tol=0.5, max_iter=20)
    if outcome(lambda: model.fit(ShardedData.from_samples(X, y, 2, **given))) is not REFUSED:
        check_fitted(model)


TARGETS: dict[str, Callable[[np.random.Generator], None]] = {
    "fit": fit,
    "options": options,
    "predict": predict,
    "score": score,
    "graph": graph,
    "game": game,
    "scores": scores,
    "losses": losses,
    "metrics": metrics,
    "rules": rules,
    "questions": questions,
    "space": space,
    "dealt": dealt,
}
