"""Personal data in texts, where a token that is left in costs five times as much as one too many.

    ROBUSTRUCT_DATA=folder python experiments/personal_data.py

A tagger as people use it, a CRF that decides by the best labelling; a CRF that decides by the cost,
with the scale of its scores chosen; and the family. All choices are made on training texts, with
texts of one template held out together. Intervals draw templates of the test texts anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from robustruct import CRF, AutoModel
from robustruct.formats.corpus import Corpus, read_corpus
from robustruct.losses import CostMatrix

LEFT_IN = 5.0
DRAWS = 2000


def models(labels: list[str], seed: int = 0) -> dict[str, Any]:
    """Untrained, by name."""
    cost = CostMatrix({(label, "O"): LEFT_IN for label in labels if label != "O"})
    return {
        "CRF, best labelling": CRF(alpha="auto", decision="map", random_state=seed),
        "CRF, decision by cost": CRF(cost, alpha="auto", random_state=seed),
        "family": AutoModel(cost, random_state=seed),
    }


def token_costs(truth: list[Any], predicted: list[Any]) -> np.ndarray:
    """(n_texts,) what the mistakes in each text cost."""
    return np.array(
        [
            np.where(a == b, 0.0, np.where((b == "O") & (a != "O"), LEFT_IN, 1.0)).sum()
            for a, b in zip(truth, map(np.asarray, predicted), strict=True)
        ]
    )


def interval(total: np.ndarray, tokens: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """95 % interval of the mean cost of a token, by a bootstrap of groups."""
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    means = []
    for _ in range(DRAWS):
        drawn = np.concatenate([members[i] for i in rng.integers(len(members), size=len(members))])
        means.append(total[drawn].sum() / tokens[drawn].sum())
    return np.percentile(means, [2.5, 97.5])


def compared(train: Corpus, test: Corpus) -> None:
    """Train each model and print its test cost, and how much more it costs than the family."""
    truth = [np.asarray(labels) for labels in test.y]
    tokens, groups = np.array([len(labels) for labels in truth]), np.asarray(test.groups)
    found = {}
    for name, model in models(sorted({label for y in train.y for label in y.tolist()})).items():
        model.fit(train.X, train.y, groups=train.groups)
        predicted = [np.asarray(labels) for labels in model.predict(test.X)]
        found[name] = token_costs(truth, predicted)
        a, b = np.concatenate(truth), np.concatenate(predicted)
        low, high = interval(found[name], tokens, groups)
        print(
            f"{name}: {found[name].sum() / tokens.sum():.3f} ({low:.3f} to {high:.3f}), left in "
            f"{np.mean(b[a != 'O'] == 'O'):.1%}, needless {np.mean(b[a == 'O'] != 'O'):.1%}, "
            f"gap {model.duality_gap_:.2%}"
        )
    for name in list(found)[:-1]:
        more = found[name] - found["family"]
        low, high = interval(more, tokens, groups)
        print(f"{name} costs {more.sum() / tokens.sum():.3f} more ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    folder = Path(os.environ["ROBUSTRUCT_DATA"]) / "pii"
    columns: dict[str, Any] = {"columns": [0], "separator": "tab", "group_column": 1}
    first = read_corpus(folder / "train.txt.gz", "conll", **columns)
    compared(first, read_corpus(folder / "test.txt.gz", first.format))
