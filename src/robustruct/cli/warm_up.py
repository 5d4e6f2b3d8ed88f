"""``robustruct warm-up``: compile beforehand what others would wait for.

Compiled code depends on the types of arrays that a kernel is given, so nothing is compiled by name:
small samples go through what users call, in two processes that share the folder on disk.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any

import typer

from robustruct.cli import errors
from robustruct.cli.options import JsonOption, QuietOption
from robustruct.errors import RobustructError

PROCESSES = 2


def warm_up_cli(
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes that compile side by side.")
    ] = PROCESSES,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile everything beforehand, for images of containers and for continuous integration.

    The code is kept in the folder that the environment variable NUMBA_CACHE_DIR names, by default
    beside the package or in the user's own cache. It fits machines with the same processor; set
    NUMBA_CPU_NAME=generic here and there for code that runs on any.

    Example: NUMBA_CACHE_DIR=/opt/robustruct robustruct warm-up
    """
    with errors.ready(quiet):
        result = warm_up(jobs, progress_wanted=not quiet)
    print(json.dumps(result, indent=2) if as_json else _summary(result))


def warm_up(jobs: int = PROCESSES, progress_wanted: bool = False) -> dict[str, Any]:
    """Compile what the models, games and commands use.

    Parameters
    ----------
    jobs : int
        Processes.
    progress_wanted : bool
        Show what is compiled.

    Returns
    -------
    dict
        ``compiled``: how many functions; ``seconds``; ``kept_in``: the folder, None if there is
        none that can be written.
    """
    from robustruct.kernels._compiling import folder

    started = time.monotonic()
    compiled = 0
    if folder() is not None and jobs > 1:  # else every process would compile for itself
        for name, count in _side_by_side(list(STEPS), jobs):
            compiled += count
            _say(f"compiled {name}: {count} functions", progress_wanted)
    for name in STEPS:  # what is there by now is read; processes can overwrite each other's lists
        count = _step(name)[1]
        compiled += count
        if count:
            _say(f"compiled {name}: {count} functions", progress_wanted)
    seconds = time.monotonic() - started
    return {"compiled": compiled, "seconds": round(seconds, 1), "kept_in": folder()}


def _say(text: str, wanted: bool) -> None:
    if wanted:
        print(f"robustruct: {text}", file=sys.stderr, flush=True)


def _summary(result: dict[str, Any]) -> str:
    if result["kept_in"] is None:
        return (
            "nothing is kept: no folder for compiled code can be written; name one in "
            "NUMBA_CACHE_DIR"
        )
    return (
        f"{result['compiled']} functions compiled in {result['seconds']:.0f} s, kept in "
        f"{result['kept_in']}"
    )


def _side_by_side(names: list[str], jobs: int) -> Iterator[tuple[str, int]]:
    """What the steps have compiled, as they end."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(jobs, len(names)), get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_step, name) for name in names]):
            yield done.result()


def _step(name: str) -> tuple[str, int]:
    """Its name, and how many functions it compiled."""
    import warnings

    from robustruct.kernels._compiling import counted

    with counted() as compiled, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such small samples need not converge
        STEPS[name]()
    return name, len(compiled)


# ----------------------------------------------------------------------------- what is run


def _samples(form: str) -> tuple[list[Any], list[Any]]:
    """(X, y) of a few samples in one of the forms that users have."""
    import numpy as np
    import scipy.sparse as sp

    from robustruct.graphs import Graph

    draw = np.random.default_rng(0)
    dense = [draw.normal(size=(4, 2)) for _ in range(8)]
    y = [draw.permutation([0, 1, 2, 2]) for _ in dense]
    forms: dict[str, Callable[[np.ndarray], Any]] = {
        "arrays": lambda x: x,
        "sparse arrays": sp.csr_array,
        "attributes": lambda x: [[f"w={value:.0f}", "bias"] for value in x[:, 0]],
        "dicts": lambda x: [{"w": f"{value:.0f}", "size": value} for value in x[:, 0]],
        "trees": lambda x: Graph(x, [(0, 1), (0, 2), (0, 3)], np.ones((3, 1))),
        "cycles": lambda x: Graph(x, [(0, 1), (1, 2), (0, 2), (2, 3)]),
    }
    return [forms[form](x) for x in dense], y


def _model(kind: str, forms: tuple[str, ...], **parameters: Any) -> Callable[[], None]:
    """A step that trains, saves and loads, and asks all that there is to ask."""

    def run() -> None:
        import robustruct

        cost = [[0, 1, 4], [2, 0, 1], [3, 1, 0]]
        for form in forms:
            X, y = _samples(form)
            for loss in ("hamming", cost):
                model = getattr(robustruct, kind)(
                    loss, alpha=1.0, max_iter=3, random_state=0, **parameters
                ).fit(X, y)
                for asked in (model, _saved_and_loaded(model)):
                    _ask(asked, X, y)

    return run


def _saved_and_loaded(model: Any) -> Any:
    import tempfile
    from pathlib import Path

    import robustruct

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model"
        model.save(path)
        return robustruct.load(path)


def _ask(model: Any, X: list[Any], y: list[Any]) -> None:
    for decision in ("map", "predictor", "bayes"):
        with suppress(RobustructError):  # not every model has every decision
            model.set_params(decision=decision).predict(X)
    model.predict_proba(X)
    model.predict_k_best(X, 2)
    model.score(X, y)
    with suppress(RobustructError):
        model.predict_risk(X)


def _inference() -> None:
    import numpy as np

    from robustruct.graphs import Batch
    from robustruct.inference import best_labelling, k_best, marginals
    from robustruct.scores import Scores

    batch = Batch.build([(4, None), (4, np.array([[0, 1], [0, 2], [0, 3]]))])
    scores = Scores.from_user(batch, np.zeros((8, 3)), np.zeros((6, 3, 3)))
    best_labelling(scores)
    marginals(scores, edges=True)
    k_best(scores, 2)


def _games() -> None:
    import numpy as np

    from robustruct import solve_game

    draw = np.random.default_rng(0)
    unary, tables = draw.normal(size=(3, 3)), draw.normal(size=(3, 3, 3))
    distance = np.abs(np.subtract.outer(range(3), range(3)))
    for cost in (1.0 - np.eye(3), distance, distance**2, draw.random((3, 3))):
        for edges in ([], [(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)]):
            found = solve_game(unary, edges, tables[: len(edges)], cost)
            solve_game(unary, edges, tables[: len(edges)], cost, warm_start=found)
            solve_game(unary, edges, tables[: len(edges)], cost, temperature=0.5)


def _auto() -> None:
    from robustruct import AutoModel

    X, y = _samples("arrays")
    model = AutoModel("hamming", alphas=[1.0], max_iter=3, random_state=0).fit(X, y)
    model.predict(X)


CHAINS = ("arrays", "sparse arrays", "attributes", "dicts", "trees")

# In an order in which processes side by side seldom need the same function at once.
STEPS: dict[str, Callable[[], None]] = {
    "games": _games,
    "SSVM": _model("SSVM", CHAINS),
    "CRF by natural ascent": _model("CRF", CHAINS, optimizer="natural_ascent"),
    "CRF": _model("CRF", CHAINS),
    "AGM": _model("AGM", CHAINS),
    "inference": _inference,
    "AGM with a temperature": _model("AGM", CHAINS, temperature=1.0),
    "SSVM with a temperature": _model("SSVM", CHAINS, temperature=1.0),
    "AutoModel": _auto,
    "AGM on graphs with cycles": _model("AGM", ("cycles",)),
    "CRF on graphs with cycles": _model("CRF", ("cycles",)),
    "SSVM on graphs with cycles": _model("SSVM", ("cycles",)),
    "AGM with a temperature on graphs with cycles": _model("AGM", ("cycles",), temperature=1.0),
}
