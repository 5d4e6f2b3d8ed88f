"""From `fit` to the kernel that trains there are few functions to read."""

import sys

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.models.base import StructuredModel
from robustruct.optimizers import dual_variables, natural_variables

MOST_FRAMES = 8

CHAINS = [np.eye(3)] * 4
CYCLES = [Graph(np.eye(3), [(0, 1), (1, 2), (2, 0)])] * 4
LABELS = [["a", "b", "a"], ["b", "b", "a"]] * 2

FITS = {
    "agm": (AGM(), CHAINS, dual_variables, "visit_samples"),
    "ssvm with cycles": (SSVM(), CYCLES, dual_variables, "visit_cyclic_samples"),
    "agm with a temperature": (AGM(temperature=1.0), CHAINS, natural_variables, "natural_visits"),
    "crf": (CRF(optimizer="natural_ascent"), CHAINS, natural_variables, "natural_visits"),
}


def frames_since_fit() -> int:
    """Python functions that are under way, from `fit` to the caller of our caller."""
    frame, depth = sys._getframe(2), 1
    while frame.f_code is not StructuredModel.fit.__code__:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.parametrize("name", FITS)
def test_few_functions_lead_from_fit_to_the_kernel(name, monkeypatch):
    model, X, module, kernel = FITS[name]
    compiled, depths = getattr(module, kernel), []

    def counted(*arguments):
        depths.append(frames_since_fit())
        return compiled(*arguments)

    monkeypatch.setattr(module, kernel, counted)
    model.set_params(alpha=0.1, tol=0.5, random_state=0).fit(X, LABELS)
    assert depths
    assert max(depths) <= MOST_FRAMES
