"""Python and C agree on what is passed between them."""

from __future__ import annotations

import pickle
from ctypes import ArgumentError

import numpy as np
import pytest
from core_cases import forests, scores

from robustruct.core import header
from robustruct.core.messages import labelling_scores
from robustruct.core.structs import ScoreArrays


def test_the_header_is_made_from_the_declarations():
    assert header.TARGET.read_text() == header.text()


def test_arrays_of_a_struct_are_checked_when_it_is_passed():
    structure = forests(0, 3)
    given = scores(structure, 0, 3)
    labels, values = np.zeros(len(given.unary), np.intp), np.zeros(5)
    with pytest.raises(ArgumentError, match="float32"):
        labelling_scores(
            0, 1, structure, given._replace(unary=given.unary.astype(np.float32)), labels, values
        )
    with pytest.raises(ArgumentError, match="tables has shape"):
        labelling_scores(
            0, 1, structure, given._replace(tables=np.zeros((1, 2, 2))), labels, values
        )
    with pytest.raises(ArgumentError, match="contiguous"):
        labelling_scores(0, 1, structure, given, labels[::2], values)


def test_structs_travel_without_their_addresses():
    structure = forests(0, 3)
    assert structure.c.n_slots == len(structure.parent)
    again = pickle.loads(pickle.dumps(structure))
    for mine, other in zip(structure, again, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_an_interrupt_while_arguments_are_converted_stays_one() -> None:
    class Interrupted(ScoreArrays):
        @property
        def c(self):
            raise KeyboardInterrupt

    structure = forests(0, 3)
    given = Interrupted(*scores(structure, 0, 3))
    labels, values = np.zeros(len(given.unary), np.intp), np.zeros(5)
    with pytest.raises(KeyboardInterrupt):
        labelling_scores(0, 1, structure, given, labels, values)
