"""From `fit` to the kernels that train and that certify there are few functions to read."""

import sys

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM, Graph
from robustruct.game import game
from robustruct.models.base import StructuredModel
from robustruct.objectives import smooth
from robustruct.optimizers import dual_variables, natural_variables

MOST_FRAMES = 8
MOST_FRAMES_OF_CERTIFICATES = 12

CHAINS = [np.eye(3)] * 4
CYCLES = [Graph(np.eye(3), [(0, 1), (1, 2), (2, 0)])] * 4
LABELS = [["a", "b", "a"], ["b", "b", "a"]] * 2

FITS = {
    "agm": (AGM(), CHAINS, dual_variables, "visit_samples"),
    "ssvm with cycles": (SSVM(), CYCLES, dual_variables, "visit_cyclic_samples"),
    "agm with a temperature": (AGM(temperature=1.0), CHAINS, natural_variables, "natural_visits"),
    "crf": (CRF(optimizer="natural_ascent"), CHAINS, natural_variables, "natural_visits"),
}
CERTIFICATES = {
    "agm": (AGM(), CHAINS, game, "game_upper"),
    "ssvm with cycles": (SSVM(), CYCLES, game, "augmented_unary"),
    "agm with a temperature": (AGM(temperature=1.0), CHAINS, smooth, "smooth_regrets"),
}


def frames_since_fit() -> int:
    """Python functions that are under way, from `fit` to the caller of our caller."""
    frame, depth = sys._getframe(2), 1
    while frame.f_code is not StructuredModel.fit.__code__:
        frame, depth = frame.f_back, depth + 1
    return depth


def depth_of(fit, monkeypatch) -> int:
    """Functions under way in the caller of a kernel, at most."""
    model, X, module, kernel = fit
    compiled, depths = getattr(module, kernel), []

    def counted(*arguments):
        depths.append(frames_since_fit())
        return compiled(*arguments)

    monkeypatch.setattr(module, kernel, counted)
    model.set_params(alpha=0.1, tol=0.5, random_state=0).fit(X, LABELS)
    return max(depths)


@pytest.mark.parametrize("name", FITS)
def test_few_functions_lead_from_fit_to_the_kernel(name, monkeypatch):
    assert depth_of(FITS[name], monkeypatch) <= MOST_FRAMES


@pytest.mark.parametrize("name", CERTIFICATES)
def test_few_functions_lead_from_fit_to_the_certificate(name, monkeypatch):
    assert depth_of(CERTIFICATES[name], monkeypatch) <= MOST_FRAMES_OF_CERTIFICATES
