"""The container that every loader returns."""

import subprocess
import sys

import numpy as np
import pytest

from robustruct.datasets import Dataset
from robustruct.errors import InvalidInputError


@pytest.fixture
def data() -> Dataset:
    return Dataset("toy", ["a", "b", "c"], [[0], [1, 1], [2]], groups=np.array([7, 8, 9]))


def test_size_and_nodes_are_shown(data):
    assert len(data) == 3
    assert data.n_nodes == 4
    assert repr(data) == "Dataset('toy': 3 samples, 4 nodes)"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (slice(1, None), ["b", "c"]),
        ([2, 0], ["c", "a"]),
        (np.array([True, False, True]), ["a", "c"]),
        (1, ["b"]),
    ],
)
def test_subset_takes_slices_indices_and_masks(data, chosen, expected):
    part = data.subset(chosen)
    assert list(part.X) == expected
    assert len(part.y) == len(part.groups) == len(expected)
    assert [chr(ord("a") + g - 7) for g in part.groups] == expected


def test_subset_of_arrays_is_an_array():
    data = Dataset("table", np.arange(6).reshape(3, 2), np.eye(3))
    np.testing.assert_array_equal(data.subset([2, 1]).X, [[4, 5], [2, 3]])


def test_y_of_another_length_is_refused():
    with pytest.raises(InvalidInputError, match="'toy' has 2 samples in X but 1 in y"):
        Dataset("toy", ["a", "b"], [[0]])


def test_import_does_not_load_scikit_learn():
    code = "import sys, robustruct.datasets; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
