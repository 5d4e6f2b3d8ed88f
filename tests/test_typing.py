"""Users' scripts pass pyright in strict mode; wrong choices do not."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from robustruct import AGM, CRF, SSVM
from robustruct.metrics import SpanCost
from robustruct.models import parameters
from robustruct.optimizers.registry import OPTIMIZERS

HERE = Path(__file__).parent
SCRIPT = HERE / "typing" / "users_script.py"
ROOT = HERE.parent

WRONG = """
from robustruct import AGM, CRF

AGM(decision="mpa")
CRF(optimizer="subgradient")
CRF(inference="loose")
AGM(temperature="warm")
CRF().fit([], []).member_of_nothing
"""


def complaints(folder: Path, text: str) -> list[str]:
    """What pyright has to say about a script, in strict mode."""
    pytest.importorskip("pyright")
    (folder / "script.py").write_text(text)
    settings = {
        "typeCheckingMode": "strict",
        "include": ["script.py"],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable]
    found = subprocess.run([*command, "--outputjson"], capture_output=True, text=True, check=False)
    return [
        f"{one['range']['start']['line'] + 1}: {one['message']}"
        for one in json.loads(found.stdout)["generalDiagnostics"]
    ]


def test_the_script_runs(capsys) -> None:
    runpy.run_path(str(SCRIPT))
    assert "the/D cat/N" in capsys.readouterr().out


def test_the_script_passes_in_strict_mode(tmp_path) -> None:
    assert complaints(tmp_path, SCRIPT.read_text()) == []


def test_wrong_choices_do_not(tmp_path) -> None:
    lines = {int(one.partition(":")[0]) for one in complaints(tmp_path, WRONG)}
    assert lines == {4, 5, 6, 7, 8}


def test_literals_list_what_is_accepted() -> None:
    accepted = SSVM._parameters
    names, other = get_args(parameters.Decision)
    assert other is SpanCost
    assert set(get_args(names)) == set(accepted["decision"].choices)
    assert set(get_args(parameters.Inference)) == set(accepted["inference"].choices)
    names = {"auto", *OPTIMIZERS}
    assert set(get_args(parameters.OptimizerName)) == names
    taken = [set(model._parameters["optimizer"].choices) for model in (AGM, CRF, SSVM)]
    assert set.union(*taken) == names
