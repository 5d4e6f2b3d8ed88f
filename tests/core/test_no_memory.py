"""Without memory the core raises MemoryError and writes nothing that is half done."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

INSTRUMENTED = os.environ.get("ROBUSTRUCT_CORE") in ("address", "thread")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or INSTRUMENTED, reason="limits memory as Linux does"
)

LIMITED = """
import resource
import warnings

import numpy as np

warnings.simplefilter("ignore")  # fits stop early


def limited(more, call):
    '''What call returns if the process may take ``more`` bytes beyond what it has.'''
    has = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + more, resource.RLIM_INFINITY))
    try:
        return call()
    except MemoryError as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
"""

KERNELS = """
from robustruct.core.games import game_upper, make_feasible
from robustruct.core.messages import k_best
from robustruct.core.structs import GameArrays, ScoreArrays, Strategies, Structure

n, k = 500_000, 3
parent = np.append(np.arange(1, n), -1)
structure = Structure(np.array([0, n]), np.zeros(2, np.intp), np.arange(n), parent)
scores = ScoreArrays(np.ones((n, k)), np.ones((1, k, k)), np.zeros(n, np.intp))
game = GameArrays(structure, scores, 1.0 - np.eye(k), np.ones(n))
p, r, q = np.full((n, k), -1.0), np.full((n, k), -1.0), np.full((n, k, k), -1.0)
strategies, value, labels = Strategies(p, r, q), np.full(2, -1.0), np.full((2, n), -1)
calls = {
    "game_upper": lambda: game_upper(0, 1, game, p, value),
    "make_feasible": lambda: make_feasible(0, 1, structure, scores, strategies),
    "k_best": lambda: k_best(0, n, structure, scores, 2, labels, value),
}
for name, call in calls.items():
    error = limited(1_000_000, call)
    assert isinstance(error, MemoryError) and name in str(error), (name, error)
    assert all((array == -1).all() for array in (p, r, q, value, labels)), name
assert all(call() >= 0 for call in calls.values())
"""

FITS = """
from robustruct import AGM, CRF
from robustruct.datasets import make_chains

data = make_chains(n_samples=10, n_nodes=(1000, 2000), seed=0)
models = {
    "AGM": lambda: AGM("absolute", max_iter=2, random_state=0, n_jobs=1),
    "AGM, smooth": lambda: AGM("absolute", temperature=1.0, max_iter=2, random_state=0, n_jobs=1),
    "CRF": lambda: CRF(optimizer="natural_ascent", max_iter=2, random_state=0, n_jobs=1),
    "CRF by L-BFGS": lambda: CRF(optimizer="lbfgs", max_iter=2, n_jobs=1),
}
for name, make in models.items():
    expected, failed = make().fit(data.X, data.y), 0
    for more in (0, 400_000, 1_000_000, 2_000_000, 64_000_000):
        model = make()
        given = limited(more, lambda: model.fit(data.X, data.y))
        if isinstance(given, MemoryError):
            failed += 1
            assert not hasattr(model, "coef_")
        else:
            np.testing.assert_array_equal(given.coef_, expected.coef_)
    assert 0 < failed < 5, (name, failed)
    np.testing.assert_array_equal(make().fit(data.X, data.y).coef_, expected.coef_)
"""


@pytest.mark.parametrize("script", [KERNELS, FITS], ids=["kernels", "fits"])
def test_memory_error(script: str) -> None:
    code = textwrap.dedent(LIMITED + script)
    # Freed memory goes back to the system at once, so that limits count.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
