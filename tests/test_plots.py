"""Plots: what is drawn is what was given."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from robustruct import AGM, CRF, SSVM, solve_game
from robustruct.comparison import Samples, compare
from robustruct.datasets import load_counter, make_chains, make_trees
from robustruct.errors import InvalidInputError

mpl.use("Agg")
from matplotlib import pyplot

from robustruct import plots


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def models():
    """Fits whose passes take a tenth of a second each, so that pictures are the same everywhere."""
    data = make_chains(n_samples=15, seed=0)
    fitted = [
        kind(alpha=[1.0, 0.1, 0.01], random_state=0).fit(data.X, data.y, cv=3)
        for kind in (AGM, CRF, SSVM)
    ]
    for model in fitted:
        model.history_ = [
            replace(at, time=0.1 * number) for number, at in enumerate(model.history_, 1)
        ]
    return fitted


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


@pytest.mark.parametrize("against", ["time", "pass"])
def test_convergence_draws_every_certificate(models, against):
    ax = plots.convergence(models, against=against)
    drawn = lines(ax)
    assert list(drawn) == ["AGM", "CRF", "SSVM"]
    for model in models:
        wanted = [
            (r.time if against == "time" else r.n_iter, r.gap) for r in model.history_ if r.gap > 0
        ]
        np.testing.assert_allclose(drawn[type(model).__name__], wanted)
    assert ax.get_yscale() == "log"


def written_ticks(axis):
    axis.figure.canvas.draw()
    low, high = sorted(axis.get_view_interval())
    shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 for tick in shown]


@pytest.mark.parametrize("against", ["time", "pass"])
@pytest.mark.parametrize("size", [(3.2, 2.4), (6.4, 4.8)])
def test_ticks_of_convergence_can_be_read(models, against, size):
    _, ax = pyplot.subplots(figsize=size, layout="constrained")
    plots.convergence(models, against=against, ax=ax)
    for axis, along in ((ax.xaxis, 0), (ax.yaxis, 1)):
        labels = written_ticks(axis)
        assert len(labels) >= 3
        assert not any("$" in label.get_text() for label in labels)  # no 3 x 10^-2
        boxes = [label.get_window_extent().get_points()[:, along] for label in labels]
        for one, other in pairwise(sorted(map(tuple, boxes))):
            assert one[1] < other[0], "labels overlap"
        assert not any(tick.label1.get_text() for tick in axis.get_minor_ticks())
    assert all(label.get_text().endswith(" %") for label in written_ticks(ax.yaxis))


def test_ticks_follow_a_zoom(models):
    ax = plots.convergence(models)
    ax.set_ylim(0.012, 0.04)
    assert [label.get_text() for label in written_ticks(ax.yaxis)] == [
        "1.5 %",
        "2 %",
        "2.5 %",
        "3 %",
        "3.5 %",
        "4 %",
    ]


@pytest.fixture(scope="module")
def comparison():
    train, test = (load_counter(part, n_sequences=10, length=3) for part in ("train", "test"))
    return compare(
        Samples(train.X, train.y),
        Samples(test.X, test.y),
        "absolute",
        alpha=[0.1, 0.01],
        n_examples=1,
    )


def test_costs_of_a_comparison(comparison):
    ax = plots.costs(comparison)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["auto", "AGM", "CRF", "SSVM"]
    for bar, method in zip(ax.containers, comparison.methods, strict=True):
        (dot, _, (whisker,)) = bar
        assert dot.get_xdata()[0] == method.cost
        (segment,) = whisker.get_segments()
        np.testing.assert_allclose(segment[:, 0], [method.low, method.high])


def test_costs_by_label_of_a_comparison(comparison):
    ax = plots.label_costs(comparison)
    for bars, method in zip(ax.containers, comparison.methods, strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in bars], method.label_costs)
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == [str(label) for label in comparison.classes]


def test_models_may_be_named_or_alone(models):
    assert list(lines(plots.convergence({"mine": models[0]}))) == ["mine"]
    assert list(lines(plots.convergence(models[1]))) == ["CRF"]
    assert list(lines(plots.convergence([models[0], models[0]]))) == ["AGM 0", "AGM 1"]


def test_an_axes_given_is_the_one_used(models):
    _, (left, right) = pyplot.subplots(1, 2)
    assert plots.convergence(models, ax=right) is right
    assert not left.has_data()


def test_cost_matrix_has_a_row_per_true_label():
    cost = np.array([[0.0, 5.0], [1.0, 0.0]])  # [true, predicted]
    ax = plots.cost_matrix(cost, ["entity", "other"])
    np.testing.assert_array_equal(ax.images[0].get_array(), cost)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted", "true")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["entity", "other"]
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written[(1, 0)] == "5"  # true entity, predicted other
    assert written[(0, 1)] == "1"


def test_cost_matrix_of_a_model(models):
    ax = plots.cost_matrix(models[0])
    np.testing.assert_array_equal(ax.images[0].get_array(), models[0].cost_)


@pytest.mark.parametrize("normalise", [True, False])
def test_confusion_matrix(normalise):
    y_true, y_pred = [["a", "b", "b"], ["b"]], [["a", "a", "b"], ["b"]]
    ax = plots.confusion_matrix(y_true, y_pred, normalise=normalise)
    wanted = np.array([[1, 0], [1, 2]], float)
    if normalise:
        wanted /= [[1], [3]]
    np.testing.assert_allclose(ax.images[0].get_array(), wanted)


@pytest.mark.parametrize("tree", [False, True])
def test_strategies_are_bars_on_the_nodes(tree):
    rng = np.random.default_rng(0)
    edges = [(0, 1), (0, 2), (2, 3)] if tree else [(0, 1), (1, 2), (2, 3)]
    cost = np.abs(np.subtract.outer(range(3), range(3))).astype(float)
    scores = rng.normal(size=(4, 3)), edges, rng.normal(size=(3, 3, 3))
    game = solve_game(*scores, cost, solver="pairwise", tol=1e-2)
    ax = plots.strategies(
        game, ["x", "y", "z"], edges=edges if tree else None, captions=["w0", "w1", "w2", "w3"]
    )
    up, down = ax.containers
    heights = [np.array([bar.get_height() for bar in bars]).reshape(4, 3) for bars in (up, down)]
    np.testing.assert_allclose(heights[0] / plots.BAR_HEIGHT, game.predictor)
    np.testing.assert_allclose(-heights[1] / plots.BAR_HEIGHT, game.adversary_nodes)
    assert len(ax.get_lines()) == 3
    words = [text.get_text() for text in ax.texts]
    assert {"w0", "w1", "w2", "w3"} <= set(words)
    assert words[0] == "xyz"[int(game.predictor[0].argmax())]
    if tree:
        depth = [bar.get_y() for bar in up][::3]
        assert depth[0] > depth[1] == depth[2] > depth[3]


def test_strategies_of_a_model_on_its_own_data(models):
    data = make_chains(n_samples=1, seed=3)
    (game,) = models[0].predict_games(data.X, solver="pairwise", tol=1e-2)
    ax = plots.strategies(game, models[0].classes_)
    assert len(ax.patches) == 2 * game.predictor.size


def test_regularisation_path_marks_the_choice(models):
    ax = plots.regularisation_path(models)
    for model in models:
        path = lines(ax)[type(model).__name__]
        wanted = sorted((alpha, -score) for alpha, score in model.alpha_scores_.items())
        np.testing.assert_allclose(path, wanted)
    marks = [line.get_xydata()[0] for line in ax.get_lines() if len(line.get_xydata()) == 1]
    assert [mark[0] for mark in marks] == [model.alpha_ for model in models]


def test_reliability_is_that_of_scikit_learn(models):
    data = make_chains(n_samples=40, seed=1)
    n_nodes = np.cumsum([len(labels) for labels in data.y])
    even = 1 + np.flatnonzero(n_nodes % 5 == 0)[-1]  # groups of one size, as its quantiles are
    X, y, crf = data.X[:even], data.y[:even], models[1]
    p = np.concatenate(crf.predict_proba(X))
    right = crf.classes_[p.argmax(axis=1)] == np.concatenate(y)
    share, said = calibration_curve(right, p.max(axis=1), n_bins=5, strategy="quantile")
    drawn = lines(plots.reliability(crf, X, y, n_bins=5))
    np.testing.assert_allclose(drawn["CRF"], np.column_stack([said, share]), atol=1e-12)
    np.testing.assert_array_equal(drawn["as sure as right"], [[0, 0], [1, 1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.reliability([], [[0]], [[0]], n_bins=2), "n_bins=2; expected 1 to 1"),
        (lambda: plots.convergence(AGM()), "has no history_; fit it first"),
        (lambda: plots.convergence([], against="moon"), "use 'time' or 'pass'"),
        (lambda: plots.cost_matrix(np.eye(2), ["a"]), "there are 1 labels"),
        (
            lambda: plots.regularisation_path(CRF().fit(*make_two())),
            "fit it with alpha='auto'",
        ),
        (
            lambda: plots.strategies(
                solve_game([[0.0, 0.0]], [], [], np.eye(2), solver="pairwise"), ["a"]
            ),
            "1 nodes and 2 labels",
        ),
    ],
)
def test_wrong_input_is_explained(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def make_two():
    data = make_trees(n_samples=5, seed=0)
    return data.X, data.y


def test_the_extra_is_named_when_matplotlib_is_missing():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from robustruct import plots\n"
        "try: plots.cost_matrix([[0, 1], [1, 0]])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "plots need matplotlib; install it with pip install 'robustruct[plots]'.\n"
    )


def test_importing_plots_does_not_import_matplotlib():
    code = "import sys, robustruct.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
