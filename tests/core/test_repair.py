"""Strategies that training stores, made exactly consistent again."""

from __future__ import annotations

import numpy as np

from robustruct.core.ascent import repair_pairs
from robustruct.core.structs import Marginals, Structure


def test_masses_that_rounding_left_behind_are_dropped() -> None:
    """A pair whose label has no mass below, one whose label has none above, and a wrong total."""
    structure = Structure(*(np.array(x, np.intp) for x in ([0, 2], [0, 0], [0, 1], [1, -1])))
    r = np.array([[0.5, 0.5, 0.0], [0.6, 0.7, 0.0]])
    pairs = [(0, 0, 0.2), (1, 1, 0.3), (2, 1, 1e-18), (1, 2, 1e-18), (0, 1, 0.1)]
    given = Marginals(
        r,
        np.array([[3 * below + above for below, above, _ in pairs], [0] * 5], np.int32),
        np.array([[mass for *_, mass in pairs], [0.0] * 5]),
        np.array([5, 0], np.int32),
    )
    repair_pairs(0, 1, structure, given)
    np.testing.assert_allclose(r[1], [6 / 13, 7 / 13, 0.0], rtol=1e-15)
    q = np.zeros((3, 3))
    for code, mass in zip(given.pair[0, : given.count[0]], given.mass[0], strict=False):
        q[divmod(int(code), 3)] += mass
    expected = [[6 / 13, 7 / 13 * 0.25, 0.0], [0.0, 7 / 13 * 0.75, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(q, expected, rtol=1e-15)
    np.testing.assert_allclose(q.sum(axis=1), r[0], rtol=1e-15)
    np.testing.assert_allclose(q.sum(axis=0), r[1], rtol=1e-15)
    assert given.count[0] == 3
