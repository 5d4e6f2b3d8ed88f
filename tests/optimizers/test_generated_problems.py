"""Every member of the family on generated problems, against generic convex solvers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from generated_problems import MEMBERS, Generated, Reference, generated
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

TOL = 1e-3  # the CRF's L-BFGS can do more, Gibbs distributions in float32 not much
TRAINED = 0.9
"""A gap that no fit may be left with: at 1 nothing has been learnt."""

every_member = pytest.mark.parametrize(
    ("member", "temperature"),
    [(name, T) for name in ("AGM", "SSVM") for T in (0.0, 0.03, 0.3, 1.0, 3.0, 30.0)]
    + [("CRF", 1.0)],
)


def test_every_member_is_generated() -> None:
    assert {mark[0] for mark in every_member.args[1]} == set(MEMBERS)


def check(made: Generated, **options: Any) -> None:
    """A fit brackets the optimum, and is as close to it as it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = made.fitted(tol=TOL, **options)
    reference = Reference(made, model.absolute_temperature_)
    lower, upper = reference.optimum()
    slack = 1e-7 * upper  # of the reference's own arithmetic
    assert lower <= upper + slack
    for record in model.history_:
        assert record.dual <= upper + slack
        assert record.primal >= lower - slack
    assert model.objective_ >= lower - slack
    scale = max(model.objective_, 0.01 * reference.untrained())
    assert model.objective_ - upper <= model.duality_gap_ * scale + slack
    assert model.duality_gap_ <= TRAINED


@every_member
@settings(max_examples=5)
@given(data=st.data())
def test_fits_bracket_the_optimum(member: str, temperature: float, data: st.DataObject) -> None:
    check(data.draw(generated(member, temperature, most=1.0)), max_iter=500)


@pytest.mark.slow
@every_member
@settings(max_examples=100)
@given(data=st.data())
def test_fits_bracket_the_optimum_at_all_sizes(
    member: str, temperature: float, data: st.DataObject
) -> None:
    check(data.draw(generated(member, temperature)), max_iter=2000)
