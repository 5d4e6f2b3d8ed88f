"""Labels known in part in training: against enumeration, convex solvers, and plain fits."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.losses import CostMatrix
from robustruct.status import Status

LABELS = ["a", "b", "c"]
COST = np.array([[0, 1, 3], [1, 0, 1], [2, 1, 0.0]])  # [true, predicted]
LOSS = CostMatrix(COST, LABELS)
ALPHA = 0.1
CHAIN, CYCLE = [(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)]
WEIGHED = [{"a": 3, "b": 1}, "b", {"a": 1, "c": 1}]
OPEN = [["a", None, "b"], [{"a", "c"}, "b", None], ["c", "c", "a"], [None, None, "a"]]


def samples(edges=CHAIN, n=4, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    return X if edges is CHAIN else [Graph(x, np.array(edges)) for x in X]


Y = np.array(list(product(range(3), repeat=3)))  # all labellings of three nodes


def scores(theta, x, edges):
    """(27,) the score of every labelling; weights of features and bias, then transitions."""
    x = x.node_features if isinstance(x, Graph) else x
    nodes = np.column_stack([x, np.ones(3)]) @ theta[:9].reshape(3, 3)
    pairs = theta[9:].reshape(3, 3)
    return nodes[range(3), Y].sum(axis=1) + sum(pairs[Y[:, i], Y[:, j]] for i, j in edges)


def weights_of(labels):
    """(3, k) weights of labels and (3,) node weights, 0 where nothing is known."""
    rows, known = np.zeros((3, 3)), np.ones(3)
    for i, label in enumerate(labels):
        if label is None:
            rows[i], known[i] = 1.0, 0.0
        elif isinstance(label, dict):
            for name, weight in label.items():
                rows[i, LABELS.index(name)] = weight / sum(label.values())
        else:
            rows[i, [LABELS.index(name) for name in label]] = 1.0
    return rows, known


def answer(objective, T, psi, node_weight, held, game_p=None):
    """V(ψ) of a hinge held at p, of a likelihood, or of a game whose predictor plays p."""
    p = held if game_p is None else game_p
    added = 0.0
    if objective != "likelihood":
        cost = COST if objective == "hinge" else COST.T  # [p's label, adversary's label]
        added = ((node_weight[:, None] * (p @ cost))[range(3), Y]).sum(axis=1)
    total = psi + added
    return total.max() if T == 0 else T * logsumexp(total / T)


def kept_score(T, psi, rows, open_sample):
    """What takes the place of the truth's score: of weights, or of all labellings that agree."""
    log_weight = np.full(27, -np.inf)
    inside = (rows[range(3), Y] > 0).all(axis=1)
    log_weight[inside] = np.log(rows[range(3), Y[inside]]).sum(axis=1)
    if not open_sample:
        return np.exp(log_weight) @ np.where(inside, psi, 0.0)
    if T == 0:
        return psi[inside].max()
    return T * logsumexp(psi / T + log_weight)


def value(model, theta, X, y, edges, T, players=None):
    """The objective by enumeration; ``players`` (S, 3, 3) are the predictors of games."""
    total = 0.5 * ALPHA * theta @ theta
    for s, (x, labels) in enumerate(zip(X, y, strict=True)):
        rows, known = weights_of(labels)
        held = rows / rows.sum(axis=1, keepdims=True)
        psi = scores(theta, x, edges)
        open_sample = any(label is None or isinstance(label, set) for label in labels)
        p = None if players is None else players[s]
        here = answer(model.objective, T, psi, known, held, p)
        total += (here - kept_score(T, psi, rows, open_sample)) / len(X)
    return total


MODELS = {
    "CRF": (CRF(LOSS, alpha=ALPHA, tol=1e-4), 1.0),
    "SSVM": (SSVM(LOSS, alpha=ALPHA, tol=1e-3), 0.0),
    "softmax margin": (SSVM(LOSS, alpha=ALPHA, tol=1e-3, temperature=0.5), 0.5),
    "smooth AGM": (AGM(LOSS, alpha=ALPHA, tol=1e-3, temperature=0.5), 0.5),
}


def absolute(model, T):
    return 1.0 if model.objective == "likelihood" else getattr(model, "absolute_temperature_", T)


@pytest.mark.parametrize("edges", [CHAIN, CYCLE])
@pytest.mark.parametrize("name", MODELS)
def test_weights_of_labels_against_a_convex_solver(name, edges):
    model, _ = MODELS[name]
    model.set_params(standardize=False)
    X, y = samples(edges, 2), [WEIGHED, ["c", "c", "a"]]
    model.fit(X, y)
    assert model.status_ is Status.CONVERGED
    T = absolute(model, 0.0)

    def objective(z):
        theta, players = z[:18], None
        if model.objective == "game":
            players = np.exp(z[18:]).reshape(2, 3, 3)
            players /= players.sum(axis=2, keepdims=True)
        return value(model, theta, X, y, edges, T, players)

    start = np.concatenate([model.coef_, np.zeros(18 if model.objective == "game" else 0)])
    method = "Nelder-Mead" if T == 0 else "BFGS"
    found = minimize(objective, start, method=method, options={"maxiter": 2000})
    below = model.duality_gap_ * model.objective_
    assert model.objective_ - below - 1e-6 <= found.fun <= model.objective_ + 1e-6
    if model.objective != "game":
        np.testing.assert_allclose(objective(model.coef_), model.objective_, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_weights_are_worth_as_much_as_samples_of_each_labelling(temperature):
    X, y = samples(), [["a", "b", "c"], WEIGHED, ["c", "a", "a"], ["b", "b", "a"]]
    model = AGM(LOSS, alpha=ALPHA, tol=1e-4, temperature=temperature, standardize=False)
    one = model.fit(X, y).coef_
    labellings = [[a, "b", c] for a, c in product("ab", "ac")]
    many_X = [X[0], *[X[1]] * 4, X[2], X[3]]
    many_y = [y[0], *labellings, y[2], y[3]]
    weight = [1, 3 / 8, 3 / 8, 1 / 8, 1 / 8, 1, 1]
    other = model.fit(many_X, many_y, sample_weight=weight).coef_
    np.testing.assert_allclose(one, other, atol=0.02)


@pytest.mark.parametrize("edges", [CHAIN, CYCLE])
@pytest.mark.parametrize("name", ["CRF", "SSVM", "softmax margin"])
def test_the_value_is_that_of_the_labellings_that_agree(name, edges):
    model, _ = MODELS[name]
    X = samples(edges)
    model.set_params(standardize=False).fit(X, OPEN)
    assert model.status_ is Status.LOCAL_OPTIMUM
    T = absolute(model, 0.0)
    exact = value(model, model.coef_, X, OPEN, edges, T)
    values = model.fill_in_values_
    assert exact <= values[-1] + 1e-6  # what is filled in bounds the value from above
    assert (np.diff(values) <= 1e-9).all()
    if T == 0:
        return
    again = minimize(lambda theta: value(model, theta, X, OPEN, edges, T), model.coef_)
    assert exact - again.fun <= 0.02 * exact  # nothing near is much better


@pytest.mark.parametrize("edges", [CHAIN, CYCLE])
@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_the_value_never_rises_in_games(edges, temperature):
    rng = np.random.default_rng(1)
    X, y = samples(edges, 40), []
    for x in X:
        x = x.node_features if isinstance(x, Graph) else x
        true = [LABELS[a] for a in (x @ [[1, 0, -1], [0, 1, -1]]).argmax(axis=1)]
        kinds = rng.integers(4, size=3)
        y.append([(a, None, {a, "c"}, {a: 2, "b": 1})[t] for a, t in zip(true, kinds, strict=True)])
    model = AGM(LOSS, temperature=temperature, alpha=0.02, tol=1e-3).fit(X, y)
    values = model.fill_in_values_
    assert len(values) >= 2
    assert values[0] > values[-1]
    assert (np.diff(values) <= 1e-9).all()
    assert model.duality_gap_ <= 1e-3
    again = [model.fit(X, y, warm_start=True).fill_in_values_[-1] for _ in range(2)]
    assert again[-1] <= values[-1] * 1.01


@pytest.mark.parametrize("model", [AGM, CRF, SSVM])
def test_labels_that_are_known_after_all_change_nothing(model):
    X = samples()
    plain = model(random_state=0).fit(X, [["a", "b", "c"]] * 4)
    other = model(random_state=0).fit(X, [[{"a"}, {"b": 2.0, "c": 0.0}, ["c"]]] * 4)
    assert np.array_equal(plain.coef_, other.coef_)
    assert other.status_ is Status.CONVERGED


def test_samples_with_nothing_known_are_left_out_and_counted():
    X, y = samples(), [["a", "b", "c"], [None] * 3, ["c", "a", "b"], None]
    with pytest.warns(UserWarning, match="no label is known in 2 of 4 samples"):
        model = CRF(random_state=0, standardize=False).fit(X, y)
    rest = CRF(random_state=0, standardize=False).fit([X[0], X[2]], [y[0], y[2]])
    assert model.alpha_ == rest.alpha_
    np.testing.assert_allclose(model.coef_, rest.coef_, atol=1e-3)


def test_known_labels_alone_judge():
    X, y = samples(), [["a", "b", "c"]] * 4
    model = CRF(LOSS).fit(X, y)
    hidden = [["a", None, {"b", "c"}]] * 4
    predicted = [labels[0] for labels in model.predict(X)]
    expected = -np.mean([COST[0, LABELS.index(a)] for a in predicted])
    assert model.score(X, hidden) == pytest.approx(expected)


def test_a_choice_with_hidden_labels():
    X, rng = samples(n=30), np.random.default_rng(0)
    y = [["a" if row[0] > 0 else "b" for row in x] for x in X]
    hidden = [[None if rng.random() < 0.3 else a for a in labels] for labels in y]
    model = AGM(alpha=[0.01, 1.0], random_state=0).fit(X, hidden)
    assert model.alpha_ in (0.01, 1.0)
    assert -model.score(X, y) < 0.2


def test_rules_narrow_what_is_unknown():
    X = samples(n=6)
    y = [["O", None, "I-x"], ["B-x", "I-x", "O"], [None, "I-x", "O"]] * 2
    model = CRF(constraints="BIO", random_state=0).fit(X, y)
    # Before I-x nothing but B-x or I-x fits, and after O I-x does not.
    sure = [["O", "B-x", "I-x"], ["B-x", "I-x", "O"], ["B-x", "I-x", "O"]] * 2
    other = CRF(constraints="BIO", random_state=0, tol=1e-5).fit(X, sure)
    plain = model.fill_in_values_[-1] + 0.0
    assert abs(plain - other.objective_) < 1.0
    with pytest.raises(InvalidInputError, match="keeps the rules") as error:
        model.fit(X, [["O", "I-x", None], *y[1:]])
    assert (error.value.sample, error.value.node) == (0, 1)


@pytest.mark.parametrize(
    ("labels", "node", "part"),
    [
        (["a", set(), None], 1, "set of labels is empty"),
        (["a", {"a", "z"}, None], 1, "'z' is not among"),
        (["a", {"a": -1.0, "b": 2.0}, None], 1, "weights of labels"),
        (["a", {"a": 0.0}, None], 1, "weights of labels"),
        (["a", {"a": float("nan"), "b": 1.0}, None], 1, "weights of labels"),
        (["a", [None], None], 1, "no label"),
    ],
)
def test_bad_options_are_errors_with_their_place(labels, node, part):
    X, y = samples(), [["a", "b", "c"]] * 4
    with pytest.raises(InvalidInputError, match=part) as error:
        CRF().fit(X, [*y[:2], labels, y[3]])
    assert (error.value.sample, error.value.node, error.value.field) == (2, node, "y")


def test_what_cannot_go_with_labels_known_in_part(tmp_path):
    X = samples()
    with pytest.raises(IncompatibleError, match="takes no checkpoint"):
        CRF().fit(X, OPEN, checkpoint=tmp_path)
    with pytest.raises(IncompatibleError, match="subgradient"):
        AGM(optimizer="subgradient").fit(X, OPEN)
    with pytest.raises(InvalidInputError, match="no label that is known"):
        CRF().fit(X, [[None] * 3] * 4)
