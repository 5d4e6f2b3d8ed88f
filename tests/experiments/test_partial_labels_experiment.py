"""The experiment on labels known in part: what each way trains on, and what is counted."""

import numpy as np

import partial_labels

Y = [["B-x", "I-x", "O"], ["O", "O"]] * 20
X = [[["w=a"]] * len(labels) for labels in Y]


def test_each_way_gets_what_is_known() -> None:
    sets = partial_labels.training_sets(X, Y, 0.5, np.random.default_rng(0))
    part = sets["in part"][1]
    known = sum(a is not None for labels in part for a in labels)
    assert sum(map(len, sets["pieces"][1])) == known
    assert abs(sum(map(len, sets["whole"][1])) - known) <= 3
    assert all(len(x) == len(y) for x, y in zip(*sets["pieces"], strict=True))
    for given, true in zip(part, Y, strict=True):
        assert all(a in (None, b) for a, b in zip(given, true, strict=True))
    assert sets["O"][1] == [["O" if a is None else a for a in labels] for labels in part]


def test_the_table_says_where_training_in_part_costs_less() -> None:
    costs = {"all": [0.0] * 20, "in part": [1.0] * 20, "whole": [2.0] * 20, "pieces": [0.5] * 20}
    seconds = {"all": 1.0, "in part": 4.0}
    result = {"data": "CoNLL-2000", "hidden": 0.5, "model": "CRF", "n": 40, "gap": 0.01}
    (table,) = partial_labels.tables([{**result, "costs": costs, "seconds_of": seconds}])
    expected = ["0.0000", "0.5000", "1.0000 (+*)", "0.2500 (-*)", "", "", "4.0"]
    assert table.rows[0][1:] == expected
