"""Starting is quick: nothing heavy is imported early."""

import os
import subprocess
import sys

import pytest

HEAVY = ("sklearn", "numpy", "scipy", "matplotlib")


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
for kind in ({models}):
    model = kind(alpha=1.0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder + "/model")
        robustruct.load(folder + "/model").predict(X)
"""
CHOICE = """
import sys
from robustruct import AutoModel

X, y = [[["a"], ["b"]], [["b"], ["a"]]], [["A", "B"], ["B", "A"]]
model = AutoModel(alpha=[1.0], tol=0.1, random_state=0).fit(X, y)
model.predict(X), model.predict_proba(X)
"""
GAME = """
import sys
from robustruct import solve_game

solve_game([[0.0, 1.0], [1.0, 0.5]], [(0, 1)], [[[0.0, 1.0], [1.0, 0.0]]], [[0, 1], [3, 0]])
"""


def test_a_fit_loads_neither_scikit_learn_nor_scipy_nor_solvers_of_games() -> None:
    slow = ("sklearn", "scipy.sparse", "scipy.linalg", "robustruct.game.solvers")
    loaded = f"[name for name in {slow} if name in sys.modules]"
    assert run(f"{FIT_AND_USE.format(models='AGM, SSVM')}\nprint({loaded})") == "[]\n"


@pytest.mark.parametrize("start", [FIT_AND_USE.format(models="CRF,"), CHOICE])
def test_the_crf_loads_scipy_but_no_scikit_learn(start) -> None:
    slow = ("sklearn", "scipy.stats")
    loaded = f"[name for name in {slow} if name in sys.modules]"
    assert run(f"{start}\nprint({loaded})") == "[]\n"


def test_a_game_loads_neither() -> None:
    slow = ("sklearn", "scipy.sparse", "scipy.linalg")
    loaded = f"[name for name in {slow} if name in sys.modules]"
    assert run(f"{GAME}\nprint({loaded})") == "[]\n"


def test_lazy_names_are_those_of_modules_whatever_was_loaded_first() -> None:
    first = "import robustruct.game.solvers, robustruct.game.solve"
    found = run(f"{first}\nfrom robustruct.game import *\nprint(GameSolver, Play.__name__)")
    assert found == "<class 'robustruct.game.solver.GameSolver'> Play\n"
