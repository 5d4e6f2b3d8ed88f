"""Models on trees with the penalty chosen on development data, the same way for all methods.

Alpha runs over half-decades, from a strong penalty to a weak one, each fit starting from the one
before: ``GRID`` of them at first, continued for as long as the best lies at an end. AGM and SSVM
are trained for one cost and predict the best-scoring labelling; from the same fits, with an alpha
of its own, the AGM also decides by its predictor's strategy. A CRF is trained once and makes the
Bayes decision for each cost, with an alpha of its own for each.

Labels are the digits 0..9, so that the predictions for all nodes are a string.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from protocol import KINDS, Result, bootstrap_interval, certificate, worst_gaps
from robustruct import CRF, Graph
from robustruct.inference import bayes_decision
from robustruct.losses import CostMatrix
from tables import MODELS

TOL = {"AGM": 0.02, "SSVM": 0.02, "CRF": 2e-3}
MAX_ITER = {"AGM": 400, "SSVM": 400, "CRF": 500}
GRID, LONGEST_GRID = 3, 9
N_BOOTSTRAP = 2000
PREDICTOR, BY_PREDICTOR = "AGM predictor", ", predictor"
METHODS = (*MODELS, PREDICTOR)
COMPARED = {
    "AGM - CRF": ("AGM", "CRF"),
    "AGM - SSVM": ("AGM", "SSVM"),
    "predictor - CRF": (PREDICTOR, "CRF"),
}

Samples = tuple[list[Graph], list[np.ndarray]]
Costs = Mapping[str, np.ndarray]
"""Cost matrices [true, predicted] by name."""


def tuned(name: str, costs: Costs, train: Samples, dev: Samples, test: Samples) -> Result:
    """For each question: alpha, certificate, development costs, and labels of the test nodes."""
    asked = questions(name, costs)
    X_dev, truth = dev[0], np.concatenate(dev[1])
    model = new_model(name, next(iter(costs.values())))
    fitted: dict[int, Any] = {}

    def evaluate(step: int) -> dict[str, float]:
        model.set_params(alpha=half_decade(step))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is in the report
            model.fit(*train, warm_start=True)
        fitted[step] = copy.copy(model)
        found = decisions(model, X_dev, asked)
        return {name: float(cost[truth, found[name]].mean()) for name, cost in asked.items()}

    tried = search(evaluate, first_step(name, len(train[0]), max(c.max() for c in costs.values())))
    answers = {}
    for wanted, cost in asked.items():
        best = chosen(tried, wanted)
        labels = decisions(fitted[best], test[0], {wanted: cost})[wanted]
        answers[wanted] = certificate(fitted[best]) | {
            "dev": {f"{half_decade(step):.3g}": tried[step][wanted] for step in sorted(tried)},
            "at_end": best in (min(tried), max(tried)),
            "predicted": "".join(map(str, labels.tolist())),
        }
    return {"answers": answers}


def questions(name: str, costs: Costs) -> Costs:
    """What a model of the named kind is asked: each cost, of an AGM also by its predictor."""
    if name != "AGM":
        return costs
    return dict(costs) | {question(PREDICTOR, cost): costs[cost] for cost in costs}


def question(method: str, cost: str) -> str:
    """The name of a method's answer for a cost, among those of its model."""
    return cost + BY_PREDICTOR if method == PREDICTOR else cost


def answers_of(results: Sequence[Result], cost: str) -> dict[str, list[Result]]:
    """By method, all answers of the results for a cost; each knows the method as its model."""
    return {
        method: [
            result["answers"][question(method, cost)] | {"model": method}
            for result in results
            if result["model"] == method.split()[0] and cost in result["answers"]
        ]
        for method in METHODS
    }


def new_model(name: str, cost: np.ndarray, **parameters: Any) -> Any:
    """A model of the named kind, to be fitted along a path of alphas."""
    given = {"tol": TOL[name], "max_iter": MAX_ITER[name]} | parameters
    given |= {"standardize": False, "random_state": 0, "n_jobs": 1}
    return KINDS[name](CostMatrix(cost, np.arange(len(cost))), **given)


def decisions(model: Any, X: list[Graph], asked: Costs) -> dict[str, np.ndarray]:
    """Labels of all nodes in answer to each question."""
    if not isinstance(model, CRF):
        found = {}
        for name in asked:
            decision = "predictor" if name.endswith(BY_PREDICTOR) else "map"
            found[name] = np.concatenate(model.set_params(decision=decision).predict(X))
        return found
    known = model.classes_
    p = np.concatenate(model.predict_proba(X))
    return {
        name: known[bayes_decision(p, cost[np.ix_(known, known)])] for name, cost in asked.items()
    }


def decoded(predicted: str) -> np.ndarray:
    """The labels in a string of digits."""
    return np.frombuffer(predicted.encode(), np.uint8) - ord("0")


# ------------------------------------------------------------------------------------------ alpha


def half_decade(step: int) -> float:
    """10^(step / 2)."""
    return 10.0 ** (step / 2)


def first_step(name: str, n_samples: int, largest_cost: float) -> int:
    """Where the grid begins: near 1 / (largest cost * sqrt(n)), or 0.1 / sqrt(n) for a CRF."""
    scale = 10.0 if name == "CRF" else largest_cost
    return math.ceil(2 * math.log10(1 / (scale * math.sqrt(n_samples))))


def search(evaluate: Callable[[int], dict[str, float]], first: int) -> dict[int, dict[str, float]]:
    """Development costs by half-decade."""
    tried = {step: evaluate(step) for step in range(first, first - GRID, -1)}
    while len(tried) < LONGEST_GRID:
        best = {chosen(tried, cost) for cost in tried[first]}
        if min(tried) in best:
            step = min(tried) - 1
        elif max(tried) in best:
            step = max(tried) + 1
        else:
            break
        tried[step] = evaluate(step)
    return tried


def chosen(tried: Mapping[int, dict[str, float]], cost: str) -> int:
    """The half-decade of least development cost; among equals the strongest penalty."""
    return min(sorted(tried, reverse=True), key=lambda step: tried[step][cost])


# ------------------------------------------------------------------------------------- comparison

PerSample = Mapping[str, np.ndarray]
"""Cost of each test sample, by method; their mean is the mean cost."""


def difference(costs: PerSample, first: str, second: str) -> tuple[float, float, float]:
    """(mean, low, high) of what one method costs more than another."""
    low, high = bootstrap_interval(costs[first], costs[second], n_draws=N_BOOTSTRAP)
    return float(np.mean(costs[first] - costs[second])), low, high


def relative_difference(costs: PerSample, first: str, second: str) -> tuple[float, float, float]:
    """The same in per cent of the first method's cost."""
    scale = 100 / max(float(np.mean(costs[first])), 1e-12)
    middle, low, high = difference(costs, first, second)
    return scale * middle, scale * low, scale * high


def shown_difference(costs: PerSample, first: str, second: str) -> str:
    """The relative difference as a cell of a table."""
    middle, low, high = relative_difference(costs, first, second)
    return f"{middle:+.1f} % [{low:+.1f}, {high:+.1f}]"


def not_worse(costs: PerSample) -> set[str]:
    """The method of least mean cost, and those whose difference to it may be 0."""
    best = min(costs, key=lambda method: float(np.mean(costs[method])))
    return {method for method in costs if method == best or difference(costs, method, best)[1] <= 0}


def convergence(fits: Sequence[Result]) -> str:
    """How well the chosen models were trained, and whether the grids of alpha were wide enough."""
    at_end = sum(fit["at_end"] for fit in fits)
    note = f"; {at_end} alphas at the end of their grid" if at_end else ""
    text = worst_gaps(fits)
    return f"{text[0].upper()}{text[1:]}{note}."
