"""``robustruct warm-up``: afterwards nothing that users do first compiles anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from robustruct.cli import warm_up as module

# What users do first, in Python and from files; prints the functions that were compiled.
USE = """
import json, sys, tempfile
from pathlib import Path
import numpy as np
import scipy.sparse as sp
import robustruct
from robustruct import AGM, CRF, SSVM, AutoModel, Graph, solve_game
from robustruct.cli.train import train
from robustruct.cli.predict import predict
from robustruct.cli.evaluate import evaluate
from robustruct.kernels._compiling import counted

rng = np.random.default_rng(1)
dense = [rng.normal(size=(5, 3)) for _ in range(12)]
y = [rng.integers(0, 4, size=5) for _ in dense]
words = [[[f"w{int(v)}", "bias"] for v in sample[:, 0]] for sample in dense]
tags = [[f"tag{label}" for label in labels] for labels in y]
trees = [Graph(sample, [(4, 0), (0, 1), (0, 2), (2, 3)]) for sample in dense]
rings = [Graph(sample, [(0, 1), (1, 2), (2, 3), (3, 0)]) for sample in dense]
with counted() as compiled:
    tree = [(0, 1), (0, 2), (3, 2)]
    solve_game(rng.normal(size=(4, 5)), tree, rng.normal(size=(3, 5, 5)), rng.random((5, 5)))
    for X, labels in ((dense, y), ([sp.csr_array(x) for x in dense], y), (words, tags),
                      (trees, y), (rings, y)):
        for kind in (AGM, CRF, SSVM):
            model = kind(alpha=0.1, random_state=0, max_iter=20).fit(X, labels)
            model.predict(X), model.predict_proba(X)
    AGM("absolute", temperature=0.3, max_iter=20).fit(dense, y).predict(dense)
    AutoModel(random_state=0, alphas=[0.1], max_iter=20).fit(words, tags).predict(words)
    with tempfile.TemporaryDirectory() as folder:
        data, model, out = (str(Path(folder) / name) for name in ("data", "model", "out"))
        lines = ["\\n".join(f"{a[0]} {t}" for a, t in zip(x, t)) for x, t in zip(words, tags)]
        Path(data).write_text("\\n\\n".join(lines) + "\\n")
        train(data, model, model="agm", costs=["tag1>tag0=3"])
        predict(model, data, out, proba=True, k_best=2)
        evaluate(model, data)
print(json.dumps(compiled))
"""


def run(*arguments: str, cache: Path) -> str:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    ).stdout


@pytest.mark.slow  # minutes: it compiles everything
def test_after_warm_up_nothing_is_compiled(tmp_path: Path) -> None:
    cold = json.loads(run("-c", USE, cache=tmp_path / "cold"))
    told = json.loads(run("-m", "robustruct", "warm-up", "--json", cache=tmp_path))
    assert told["compiled"] >= len(cold) > 0
    assert Path(told["kept_in"]).parent == tmp_path
    assert json.loads(run("-c", USE, cache=tmp_path)) == []
    again = json.loads(run("-m", "robustruct", "warm-up", "--json", cache=tmp_path))
    assert again["compiled"] == 0


@pytest.fixture
def one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is compiled in a moment; other processes would not know of it."""
    monkeypatch.setattr(module, "STEPS", {"inference": module._inference})


def test_says_what_was_compiled_and_where_it_is(here, one_step) -> None:
    code, out, _ = here("warm-up", "--jobs", "1")
    assert code == 0
    assert "functions compiled in" in out
    assert f"kept in {os.environ['NUMBA_CACHE_DIR']}" in out


def test_says_that_nothing_can_be_kept(here, one_step, monkeypatch) -> None:
    monkeypatch.setattr("robustruct.kernels._compiling.folder", lambda: None)
    code, out, _ = here("warm-up", "--jobs", "2")
    assert code == 0
    assert "nothing is kept: no folder for compiled code can be written" in out
