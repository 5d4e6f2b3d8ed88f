"""The embedded data: handwritten digits that count."""

import numpy as np
import pytest

from robustruct.datasets import load_counter
from robustruct.errors import InvalidInputError


def test_shapes_and_labels():
    data = load_counter("train", n_sequences=30, length=7)
    assert len(data) == 30
    assert all(x.shape == (7, 16) for x in data.X)
    assert all(labels.shape == (7,) for labels in data.y)
    assert set(np.concatenate(data.y).tolist()) == set(range(10))


def test_same_seed_same_data_and_another_seed_other_data():
    first, again, other = (load_counter("test", n_sequences=5, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.y, other.y)


def test_train_and_test_differ_for_one_seed():
    train, test = load_counter("train", n_sequences=5), load_counter("test", n_sequences=5)
    assert not np.array_equal(train.y, test.y)


def test_no_image_is_in_both_train_and_test():
    seen = {}
    for split in ("train", "test"):
        clean = load_counter(split, n_sequences=2000, length=10, noise=0, smudged=0)
        seen[split] = {row.tobytes() for row in np.concatenate(clean.X)}
    assert len(seen["train"]) > 1000  # nearly all of them were drawn
    assert len(seen["test"]) > 650
    assert not seen["train"] & seen["test"]


def test_the_counter_mostly_counts():
    y = np.array(load_counter(n_sequences=400).y)
    step = (y[:, 1:] - y[:, :-1]) % 10
    assert 0.5 < (step == 1).mean() < 0.57  # 0.5, and a tenth of the jumps
    assert 0.15 < (step == 0).mean() < 0.22


def test_noise_and_smudges_are_as_asked():
    clean = np.array(load_counter(noise=0, smudged=0).X)
    smudged = np.array(load_counter(noise=0, smudged=0.5).X)
    noisy = np.array(load_counter(noise=0.3, smudged=0).X)
    blank = (smudged == 0).all(axis=2)
    assert 0.45 < blank.mean() < 0.55
    np.testing.assert_array_equal(smudged[~blank], clean[~blank])
    assert np.std(noisy - clean) == pytest.approx(0.3, rel=0.02)


def test_a_digit_alone_is_often_misread():
    from sklearn.neighbors import NearestCentroid

    train, test = load_counter("train"), load_counter("test")
    alone = NearestCentroid().fit(np.concatenate(train.X), np.concatenate(train.y))
    accuracy = alone.score(np.concatenate(test.X), np.concatenate(test.y))
    assert 0.4 < accuracy < 0.8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "split='dev' is not available; use 'train' or 'test'"),
        ({"length": 0}, "at least 1"),
        ({"noise": -1}, "noise=-1"),
        ({"smudged": 2}, "smudged=2"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        load_counter(**arguments)
