"""Tests of robustruct.torch run where torch is installed."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run beside each other, and tensors are small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
