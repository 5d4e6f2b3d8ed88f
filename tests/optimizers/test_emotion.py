"""The paper's own data: every loss and penalty of its first experiment certifies 1 %."""

import numpy as np
import pytest

from corpora import emotion_splits, load_emotion
from robustruct import AGM
from robustruct.datasets import position_weights

pytestmark = pytest.mark.data


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("loss", ["hamming", "absolute", "squared"])
def test_every_penalty_of_the_grid_is_trained_to_one_percent(loss, weighted, data_home):
    data, (train, _) = load_emotion(), emotion_splits()[0]
    sequences = data.subset(train)
    equal = [np.full(len(labels), 1 / len(labels)) for labels in sequences.y]
    weights = position_weights(sequences.y) if weighted else equal
    for alpha in (3, 1, 0.3, 0.1):
        model = AGM(loss, alpha=alpha, random_state=0)
        model.fit(sequences.X, sequences.y, node_weight=weights)
        assert model.duality_gap_ <= 0.01
