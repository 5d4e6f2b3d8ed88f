"""Some cases of every target of arrays.py; ``run.py`` takes as many as one likes."""

import arrays
import numpy as np
import pytest

CASES = 25


@pytest.mark.filterwarnings("ignore")  # hostile values warn while they are made
@pytest.mark.parametrize("name", arrays.TARGETS)
def test_hostile_arrays(name):
    for seed in range(CASES):
        try:
            arrays.TARGETS[name](np.random.default_rng([seed, len(name)]))
        except Exception as error:
            error.add_note(f"target {name!r}, seed {seed}")
            raise
