"""Labels that some allowed labelling has, against enumeration."""

import numpy as np
from hypothesis import given, settings

from robustruct.graphs import Batch
from robustruct.inference import allowed_labels, best_labelling, without_impossible
from robustruct.scores import Scores
from robustruct.testing.oracles import possible_labels
from robustruct.testing.strategies import games


def scores_of(*samples):
    batch = Batch.build([(len(game.unary), game.edges) for game in samples])
    unary = np.concatenate([game.unary for game in samples])
    return Scores.from_user(batch, unary, np.concatenate([game.pairwise for game in samples]))


@settings(max_examples=60)
@given(
    forest=games(min_labels=3, max_labels=3, max_nodes=5),
    cyclic=games(min_labels=3, max_labels=3, max_nodes=5, max_width=3),
)
def test_allowed_labels_are_those_of_enumeration(forest, cyclic):
    scores = scores_of(cyclic, forest)
    expected = [possible_labels(*game[:3]) for game in (cyclic, forest)]
    np.testing.assert_array_equal(
        scores.batch.to_user(allowed_labels(scores)), np.concatenate(expected)
    )
    possible = without_impossible(scores)
    np.testing.assert_array_equal(np.isfinite(possible.unary), allowed_labels(scores))
    np.testing.assert_array_equal(best_labelling(possible)[0], best_labelling(scores)[0])


def test_chains_too_long_to_be_counted():
    """A label that one labelling in 2**2000 has is allowed all the same."""
    n = 2000
    pairwise = np.zeros((n - 1, 3, 3))
    pairwise[:, 0, 1:] = -np.inf  # once 0, always 0
    batch = Batch.build([(n, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1))])
    assert allowed_labels(Scores.from_user(batch, np.zeros((n, 3)), pairwise)).all()
    ended = np.zeros((n, 3))
    ended[-1, 0] = -np.inf
    allowed = allowed_labels(Scores.from_user(batch, ended, pairwise))
    assert not allowed[:, 0].any()
    assert allowed[:, 1:].all()
