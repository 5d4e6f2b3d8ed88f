"""Facts that pages and help texts state in words, compared with the code that they are about."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from typer.testing import CliRunner

import robustruct
from robustruct import AGM, CRF, SSVM, AutoModel, NodeTransformer, solve_game
from robustruct.cli.app import app
from robustruct.compat.sklearn_crfsuite import estimator
from robustruct.models.fitting import selection, splitting

DOCS = Path(__file__).parent.parent / "docs"
WORDS = dict(enumerate(["two", "three", "four", "five", "six", "seven", "eight"], 2))


def text_of(thing: object) -> str:
    """A docstring or a page, with single spaces."""
    text = thing.read_text(encoding="utf-8") if isinstance(thing, Path) else inspect.getdoc(thing)
    return " ".join((text or "").split())


def test_every_public_name_is_in_the_reference() -> None:
    reference = (DOCS / "api.rst").read_text(encoding="utf-8")
    listed = re.findall(r"\.\. auto(?:class|function):: (?:robustruct\.)?(\w+)$", reference, re.M)
    assert set(robustruct.__all__) - {"__version__"} <= set(listed)


def test_the_help_of_tol_states_the_defaults() -> None:
    shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).output
    (common,) = {
        inspect.signature(kind).parameters["tol"].default for kind in (AGM, SSVM, AutoModel)
    }
    own = inspect.signature(CRF).parameters["tol"].default
    words = " ".join(re.sub(r"[│|]", " ", shown).split())
    assert f"by default {common:g}, for crf {own:g}." in words


def test_models_have_the_temperature_of_their_games() -> None:
    """In the attribute that `solve_game` names: the game is the one that the model plays."""
    (name,) = re.findall(r"T of its games in ``(\w+)``", text_of(solve_game))
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=4) for _ in range(8)]
    X = [[{f"w{(a + rng.integers(2)) % 3}": 1.0} for a in labels] for labels in y]
    model = AGM("absolute", alpha=0.1, temperature=0.5, random_state=0).fit(X, y)
    assert model.temperature_ != model.absolute_temperature_
    weights = dict(zip(model.get_feature_names_out(), model.node_weights_, strict=True))
    bias = sum(row for name, row in weights.items() if name not in {"w0", "w1", "w2"})
    unary = np.array([weights[next(iter(node))] + bias for node in X[0]])
    edges, pairs = [(0, 1), (1, 2), (2, 3)], np.stack([model.transitions_] * 3)
    solved = solve_game(unary, edges, pairs, model.cost_, temperature=getattr(model, name))
    played = model.predict_games(X)[0]
    np.testing.assert_allclose(solved.adversary_nodes, played.adversary_nodes, atol=1e-4)


def test_how_many_settings_run_on_further_folds() -> None:
    second, third, others = (WORDS[n] for n in selection.FINALISTS)
    assert f"the best {second} on the second" in text_of(AGM.fit)
    said = text_of(DOCS / "choosing.md")
    assert (
        f"{second} on the second, {third} on the third and {others} on each of the others" in said
    )
    for place in (AGM.fit, DOCS / "choosing.md"):
        assert f"from {splitting.LARGE:,} nodes on" in text_of(place)


def test_the_gaps_of_the_stand_in_for_crfsuite() -> None:
    stated = (
        f"a certified gap of {estimator.TOL:.0e} (with `c1` of {estimator.TOL_WITH_C1:.0e}, "
        f"without `c2` of {estimator.TOL_WITHOUT_C2:.0e})"
    )
    assert stated.replace("e-0", "e-") in text_of(DOCS / "coming-from.md")


def test_pipelines_do_what_the_first_page_says() -> None:
    """On rows of any steps, on sequences of steps in a `NodeTransformer`, or that take samples."""
    said = "those of scikit-learn need `NodeTransformer` around them"
    assert said in text_of(DOCS / "start.md")
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=n) for n in (3, 5, 4, 6)]
    X = [rng.normal(size=(len(labels), 2)) + labels[:, None] for labels in y]
    rows = make_pipeline(StandardScaler(), AGM(alpha=0.1)).fit(np.vstack(X), np.concatenate(y))
    assert rows.predict(np.vstack(X)).shape == (18,)
    with pytest.raises(ValueError, match=r"inhomogeneous|Expected 2D"):
        make_pipeline(StandardScaler(), AGM(alpha=0.1)).fit(X, y)
    wrapped = make_pipeline(NodeTransformer(StandardScaler()), AGM(alpha=0.1)).fit(X, y)
    assert [len(labels) for labels in wrapped.predict(X)] == [3, 5, 4, 6]
    scaler = StandardScaler().fit(np.vstack(X))
    each = FunctionTransformer(lambda samples: [scaler.transform(x) for x in samples])
    sequences = make_pipeline(each, AGM(alpha=0.1)).fit(X, y)
    assert [len(labels) for labels in sequences.predict(X)] == [3, 5, 4, 6]
