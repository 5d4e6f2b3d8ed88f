"""The names and signatures users may rely on."""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import robustruct
from robustruct import AGM, CRF, SSVM, AutoModel, Graph, solve_game
from robustruct.losses import Absolute, CostMatrix, Hamming, Squared
from robustruct.metrics import mean_loss

MODELS = [AGM, CRF, SSVM]
ROOT = Path(__file__).parents[1]
PUBLIC = [
    "robustruct",
    "robustruct.comparison",
    "robustruct.compat.sklearn_crfsuite",
    "robustruct.datasets",
    "robustruct.engines",
    "robustruct.errors",
    "robustruct.evaluation",
    "robustruct.formats",
    "robustruct.game",
    "robustruct.guarantees",
    "robustruct.inference",
    "robustruct.losses",
    "robustruct.metrics",
    "robustruct.multilabel",
    "robustruct.objectives.likelihood",
    "robustruct.optimizers",
    "robustruct.plots",
    "robustruct.tables",
    "robustruct.torch",
]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
MOST_NAMES = 90  # whoever adds one takes another away


def public_names() -> set[str]:
    return {
        f"{module}.{name}"
        for module in PUBLIC
        for name in importlib.import_module(module).__all__
        if not name.startswith("__")
    }


def python_of_docs() -> list[str]:
    """Code that tests or the build of the documentation run: snippets of pages, and examples."""
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    blocks = [block for text in texts for block in re.findall(SNIPPET, text)]
    examples = [path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*.py")]
    return [textwrap.dedent(block) for block in blocks] + examples


def doctests() -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("src/**/*.py")]
    return [line for text in texts for line in re.findall(r"(?m)^ *(?:>>>|\.\.\.) (.*)$", text)]


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default


def test_every_public_name_can_be_imported() -> None:
    assert {"AGM", "CRF", "SSVM", "Graph", "load", "solve_game"} <= set(robustruct.__all__)
    for name in robustruct.__all__:
        assert getattr(robustruct, name) is not None
    assert set(robustruct.__all__) <= set(dir(robustruct))


def test_public_names_are_few_and_those_of_the_reference() -> None:
    pytest.importorskip("torch")
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    found = set(re.findall(r"^\.\. auto(?:class|function|module):: (\S+)$", text, re.MULTILINE))
    listed = {name if name.startswith("robustruct") else f"robustruct.{name}" for name in found}
    names = public_names()
    assert names <= listed
    modules = {name for name in listed if name.rpartition(".")[2].islower()} - names
    assert listed - names - modules == set()  # nothing internal is documented
    assert len(names) <= MOST_NAMES
    for name in names:
        module, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(module), last) is not None


def test_every_public_name_is_used_in_an_example_that_runs() -> None:
    pytest.importorskip("torch")
    # An engine of one's own is made of internal parts too, so it is not among `python_of_docs`.
    engine = (ROOT / "examples" / "clusters" / "train_with_torchrun.py").read_text(encoding="utf-8")
    code = "\n".join([*python_of_docs(), *doctests(), engine])
    last = {name.rpartition(".")[2] for name in public_names()}
    assert [name for name in last if not re.search(rf"\b{name}\b", code)] == []


def test_pages_import_public_names_only() -> None:
    pytest.importorskip("torch")
    imported = {
        f"{statement.module}.{alias.name}"
        for code in python_of_docs()
        for statement in ast.walk(ast.parse(code))
        if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("robustruct")
        for alias in statement.names
    }
    assert imported - public_names() - set(PUBLIC) == set()


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = robustruct.no_such_name


@pytest.mark.parametrize("model", MODELS)
def test_models_take_the_loss_first_and_the_rest_by_keyword(model: type) -> None:
    signature = inspect.signature(model).parameters
    first, *others = signature.values()
    assert first.name == "loss"
    assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(other.kind is inspect.Parameter.KEYWORD_ONLY for other in others)
    promised = {
        "alpha",
        "optimizer",
        "tol",
        "max_iter",
        "decision",
        "class_weight",
        "constraints",
        "inference",
        "n_jobs",
        "random_state",
        "verbose",
    }
    assert promised <= set(signature)
    assert default(model, "alpha") is None
    assert len(signature) == 14
    assert default(model, "optimizer") == "auto"


def test_default_tolerance_and_decision() -> None:
    for model in (AGM, SSVM):
        assert default(model, "tol") == 1e-2
        assert default(model, "temperature") == 0.0  # the models of the literature
    for model in (*MODELS, AutoModel):
        assert default(model, "decision") == "auto"


@pytest.mark.parametrize("model", MODELS)
def test_methods_of_models(model: type) -> None:
    assert parameters(model.fit)[:4] == ["X", "y", "sample_weight", "node_weight"]
    for method in (model.predict, model.predict_proba, model.predict_risk):
        assert parameters(method)[:3] == ["X", "node_weight", "known"]
    assert parameters(model.score)[:2] == ["X", "y"]


@pytest.mark.parametrize("model", MODELS)
def test_fitted_attributes_and_forms_of_output(model: type) -> None:
    X = [np.eye(2), np.eye(2)[:1]]
    y = [["a", "b"], ["a"]]
    fitted = model(alpha=0.1, random_state=0).fit(X, y)
    assert fitted.classes_.tolist() == ["a", "b"]
    assert 0 <= fitted.duality_gap_ <= fitted.tol
    assert fitted.n_iter_ >= 1
    assert len(fitted.history_) >= 1
    predicted, strategies = fitted.predict(X), fitted.predict_proba(X)
    assert isinstance(predicted, list)
    assert isinstance(strategies, list)
    assert [(type(labels), len(labels)) for labels in predicted] == [(list, 2), (list, 1)]
    assert [rows.shape for rows in strategies] == [(2, 2), (1, 2)]
    assert fitted.score(X, y) == -mean_loss(y, predicted, "hamming")


def test_models_are_saved_and_loaded(tmp_path: Path) -> None:
    X, y = [np.eye(2)], [["a", "b"]]
    path = tmp_path / "model.safetensors"
    AGM(alpha=0.1, random_state=0).fit(X, y).save(path)
    assert robustruct.load(path).predict(X)[0] == ["a", "b"]


def test_graph_and_losses() -> None:
    names = ["node_features", "edges", "edge_features", "node_types"]
    assert parameters(Graph.__init__) == names
    assert default(Graph.__init__, "edge_features") is None
    assert default(Graph.__init__, "node_types") is None
    assert parameters(CostMatrix.__init__) == ["matrix", "labels", "default"]
    assert default(CostMatrix.__init__, "labels") is None
    for loss, far in ((Hamming(), 1.0), (Absolute(), 2.0), (Squared(), 4.0)):
        assert loss.matrix([0, 1, 2])[0, 2] == far


def test_solve_game() -> None:
    names = ["unary", "edges", "pairwise", "cost", "node_weight", "solver", "tol"]
    assert parameters(solve_game)[:7] == names
    assert default(solve_game, "node_weight") is None
    assert default(solve_game, "solver") == "auto"
    assert default(solve_game, "tol") == 1e-6
    solution = solve_game(np.zeros((2, 3)), [(0, 1)], np.zeros((1, 3, 3)), 1.0 - np.eye(3))
    assert solution.value == pytest.approx(4 / 3, abs=1e-6)
    assert solution.lower - 1e-12 <= solution.value <= solution.upper + 1e-12
    assert solution.gap == pytest.approx(solution.upper - solution.lower)
    assert solution.predictor.shape == solution.adversary_nodes.shape == (2, 3)
    assert solution.adversary_edges.shape == (1, 3, 3)
    assert isinstance(solution.solver, str)
    assert isinstance(solution.n_iter, int)
    assert solution.status


def test_mean_loss() -> None:
    names = ["y_true", "y_pred", "loss", "node_weight", "average"]
    assert parameters(mean_loss)[:5] == names
    assert default(mean_loss, "average") == "node"
