"""Optimizers that the library does not know."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import robustruct
from robustruct import AGM, CRF
from robustruct.datasets import make_chains
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.optimizers.dual_ascent import DualAscent
from robustruct.optimizers.optimizer import Optimizer

DATA = make_chains(n_samples=10, n_nodes=(3, 6), n_features=4, seed=0)


@dataclass(frozen=True)
class Twice(Optimizer):
    """The usual one, which begins again with a finer tolerance."""

    name: ClassVar[str] = "twice"
    objectives: ClassVar[frozenset[str]] = frozenset({"game"})
    finer: float = 0.1

    def refusal(self, shards):
        return "it wants 10 samples" if shards.outline.n_samples < 10 else None

    def minimise(self, task):
        DualAscent().minimise(task)
        task.progress.tol *= self.finer
        DualAscent().minimise(task)


def model(**parameters):
    return AGM(alpha=0.1, tol=0.1, random_state=0, **parameters)


def test_an_object_is_an_optimizer():
    usual, mine = model().fit(DATA.X, DATA.y), model(optimizer=Twice()).fit(DATA.X, DATA.y)
    assert usual.duality_gap_ <= 0.1
    assert mine.duality_gap_ <= 0.01
    assert mine.history_[: len(usual.history_)] != mine.history_


def test_what_it_does_not_take():
    with pytest.raises(InvalidInputError, match="optimizer='twice' is not known; use one of"):
        CRF(optimizer=Twice()).fit(DATA.X, DATA.y)
    with pytest.raises(IncompatibleError, match="it wants 10 samples; use optimizer='auto'"):
        model(optimizer=Twice()).fit(DATA.X[:9], DATA.y[:9])
    with pytest.raises(InvalidInputError, match="is not known; use one of"):
        model(optimizer=Twice).fit(DATA.X, DATA.y)  # a class, not an object


def test_a_file_does_not_hold_it(tmp_path):
    mine = model(optimizer=Twice()).fit(DATA.X, DATA.y)
    mine.save(tmp_path / "m")
    found = robustruct.load(tmp_path / "m")
    assert found.optimizer == "auto"
    np.testing.assert_array_equal(found.coef_, mine.coef_)
