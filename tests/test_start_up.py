"""Starting is quick: nothing heavy is imported early, and nothing is compiled twice."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numba", "sklearn", "numpy", "scipy", "llvmlite", "matplotlib")


def run(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    ).stdout


@pytest.mark.parametrize(
    "start",
    [
        "import robustruct",
        "from robustruct.cli.app import app; app(['--help'], standalone_mode=False)",
        "from robustruct.cli.app import app; app(['--version'], standalone_mode=False)",
        "from robustruct.cli.app import app; app(['compare', '--help'], standalone_mode=False)",
        "from robustruct.cli.app import app; app(['train', '--help'], standalone_mode=False)",
    ],
)
def test_nothing_heavy_is_imported(start: str) -> None:
    loaded = f"[name for name in {HEAVY} if name in sys.modules]"
    output = run(f"import sys\n{start}\nassert not {loaded}, {loaded}\nprint('light')")
    assert output.endswith("light\n")


FIT_AND_USE = """
import sys, tempfile
import robustruct
from robustruct import AGM, CRF, SSVM

X, y = [[["a"], ["b"]], [["b"], ["a"]]], [["A", "B"], ["B", "A"]]
for kind in (AGM, CRF, SSVM):
    model = kind(alpha=1.0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder + "/model")
        robustruct.load(folder + "/model").predict(X)
"""
GAMES = """
import sys
from robustruct import AutoModel, solve_game

X, y = [[["a"], ["b"]], [["b"], ["a"]]], [["A", "B"], ["B", "A"]]
model = AutoModel(alphas=[1.0], tol=0.1, random_state=0).fit(X, y)
model.predict(X), model.predict_proba(X)
solve_game([[0.0, 1.0], [1.0, 0.5]], [(0, 1)], [[[0.0, 1.0], [1.0, 0.0]]], [[0, 1], [3, 0]])
"""


def test_a_fit_loads_neither_scikit_learn_nor_scipy_nor_solvers_of_games() -> None:
    slow = ("sklearn", "scipy.sparse", "scipy.linalg", "highspy", "robustruct.game.solvers")
    loaded = f"[name for name in {slow} if name in sys.modules]"
    assert run(f"{FIT_AND_USE}\nprint({loaded})") == "[]\n"


def test_neither_does_a_choice_or_a_game() -> None:
    slow = ("sklearn", "scipy.sparse", "scipy.linalg", "highspy")
    loaded = f"[name for name in {slow} if name in sys.modules]"
    assert run(f"{GAMES}\nprint({loaded})") == "[]\n"


def test_lazy_names_are_those_of_modules_whatever_was_loaded_first() -> None:
    first = "import robustruct.game.solvers, robustruct.core.node_games"
    found = run(
        f"{first}\nfrom robustruct.game import *\nprint(node_game.__name__, SOLVERS['auto'])"
    )
    assert found == "node_game <class 'robustruct.game.auto.Auto'>\n"


# Runs what users call first, then prints how often kernels were compiled and read from the cache.
WORK = """
import importlib, json, pkgutil
import numpy as np
import scipy.sparse as sp
import robustruct.kernels
from robustruct import AGM, CRF, SSVM, Graph, solve_game
from robustruct.graphs import Batch
from robustruct.inference import best_labelling, k_best, marginals
from robustruct.scores import Scores

rng = np.random.default_rng(0)
batch = Batch.build([(4, None), (4, np.array([[0, 1], [0, 2], [0, 3]]))])
scores = Scores.from_user(batch, rng.normal(size=(8, 3)), rng.normal(size=(6, 3, 3)))
best_labelling(scores)
marginals(scores, edges=True)
k_best(scores, 2)
for cost in (1 - np.eye(3), np.abs(np.subtract.outer(range(3), range(3))), rng.random((3, 3))):
    solve_game(rng.normal(size=(3, 3)), [(0, 1), (1, 2)], rng.normal(size=(2, 3, 3)), cost)
dense = [rng.normal(size=(4, 2)) for _ in range(4)]
forms = [
    dense,
    [sp.csr_array(sample) for sample in dense],
    [[{"w": str(int(value))} for value in sample[:, 0]] for sample in dense],
    [Graph(sample, [(0, 1), (0, 2), (0, 3)], np.ones((3, 1))) for sample in dense],
]
y = [rng.permutation([0, 1, 2, 2]) for _ in dense]
for kind in (AGM, CRF, SSVM):
    for X in forms:
        model = kind("absolute", alpha=1.0, random_state=0).fit(X, y)
        model.predict(X), model.predict_proba(X)

compiled, cached = {}, 0
for module in pkgutil.iter_modules(robustruct.kernels.__path__, "robustruct.kernels."):
    for name, value in vars(importlib.import_module(module.name)).items():
        if hasattr(value, "stats") and hasattr(value, "py_func"):
            misses = sum(value.stats.cache_misses.values())
            cached += sum(value.stats.cache_hits.values())
            if misses:
                compiled[f"{module.name}.{name}"] = misses
print(json.dumps({"compiled": compiled, "cached": cached}))
"""


def copy_cache(source: str, target: Path) -> None:
    """What other tests compiled so far; files that vanish meanwhile do not matter."""
    if Path(source).is_dir():
        with contextlib.suppress(shutil.Error):
            shutil.copytree(source, target)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "compiled"
    # A copy, as concurrent tests overwrite each other's index of the shared one.
    copy_cache(os.environ.get("NUMBA_CACHE_DIR", ""), cache)
    run(WORK, NUMBA_CACHE_DIR=str(cache))
    second = json.loads(run(WORK, NUMBA_CACHE_DIR=str(cache)))
    assert second["compiled"] == {}
    assert second["cached"] > 0
