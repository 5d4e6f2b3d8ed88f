"""The example with spaCy and datasets; the component runs where spaCy is installed."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "spacy_component.py"))
NAMES = ["O", "B-PER", "I-PER"]
ROWS = [
    (["Ada", "Lovelace", "met", "Charles"], [1, 2, 0, 1]),
    (["They", "met", "."], [0, 0, 0]),
    (["Charles", "Babbage", "wrote", "."], [1, 2, 0, 0]),
    (["He", "wrote", "Ada"], [0, 0, 1]),
] * 3


class Table(dict):
    """As much of a table of datasets as the example uses."""

    def __init__(self, rows):
        words, tags = zip(*rows, strict=True)
        super().__init__(tokens=words, ner_tags=tags)
        kind = SimpleNamespace(feature=SimpleNamespace(names=NAMES))
        self.features = {"ner_tags": kind}


TABLE = Table(ROWS)


def test_tables_become_samples_with_names_as_labels(tmp_path) -> None:
    X, y = EXAMPLE["samples"](TABLE)
    assert y[0] == ["B-PER", "I-PER", "O", "B-PER"]
    assert [x["before"] for x in X[0]] == ["<s>", "ada", "lovelace", "met"]
    model = EXAMPLE["trained"](TABLE, tmp_path / "m")
    assert model.predict(X[:1])[0] == y[0]
    assert (tmp_path / "m").exists()


def test_the_component_writes_entities_and_scores(tmp_path) -> None:
    spacy = pytest.importorskip("spacy")
    EXAMPLE["trained"](TABLE, tmp_path / "m")
    EXAMPLE["register"]()
    nlp = spacy.blank("en")
    nlp.add_pipe("robustruct_ner", config={"model": str(tmp_path / "m")})
    doc = nlp("Ada Lovelace met Charles")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [
        ("Ada Lovelace", "PER"),
        ("Charles", "PER"),
    ]
    assert len(doc.user_data["robustruct_scores"]) == 4
    assert len(nlp("").ents) == 0
