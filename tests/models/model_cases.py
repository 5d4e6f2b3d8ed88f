"""Small data sets and models that the tests of this folder share."""

from __future__ import annotations

import numpy as np

from robustruct import AGM, CRF, SSVM, Graph

MODELS = [AGM, CRF, SSVM]

SENTENCES = [
    "the/D cat/N sleeps/V",
    "a/D dog/N barks/V",
    "cats/N sleep/V",
    "the/D old/A dog/N",
    "dogs/N bark/V a/D lot/N",
    "the/D small/A cat/N barks/V",
]


def sentences(repeat: int = 1) -> tuple[list[list[dict[str, object]]], list[list[str]]]:
    """Words with a few string and number attributes, and their parts of speech."""
    X, y = [], []
    for line in SENTENCES * repeat:
        pairs = [token.split("/") for token in line.split()]
        X.append([{"w": w, "end": w[-1:], "long": len(w) > 3, "len": len(w) / 4} for w, _ in pairs])
        y.append([tag for _, tag in pairs])
    return X, y


def chains(
    n_samples: int = 12, n_features: int = 3, n_labels: int = 3, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Dense chains whose labels follow a noisy linear rule and stick to their neighbours."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n_features, n_labels))
    X, y = [], []
    for _ in range(n_samples):
        rows = rng.normal(size=(int(rng.integers(2, 6)), n_features))
        labels = np.argmax(rows @ weights + 0.7 * rng.normal(size=(len(rows), n_labels)), axis=1)
        X.append(rows)
        y.append(labels)
    y[0][: min(n_labels, len(y[0]))] = np.arange(min(n_labels, len(y[0])))
    return X, y


def trees(n_samples: int = 8, seed: int = 0) -> tuple[list[Graph], list[np.ndarray]]:
    """Random trees with edge features, edges listed in either direction."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_samples):
        n = int(rng.integers(2, 7))
        edges = [(int(rng.integers(i)), i) for i in range(1, n)]
        edges = [edge if rng.random() < 0.5 else edge[::-1] for edge in edges]
        rows = rng.normal(size=(n, 3))
        X.append(Graph(rows, edges, rng.normal(size=(n - 1, 2))))
        y.append(np.argmax(rows + rng.normal(size=rows.shape), axis=1))
    y[0][:2] = 0, 1
    y[1][:2] = 2, 1
    return X, y


BIO_WORDS = [
    ("Ada Lovelace met Bob", "B-PER I-PER O B-PER"),
    ("in Paris Texas", "O B-LOC I-LOC"),
    ("Bob sleeps", "B-PER O"),
    ("Paris is old", "B-LOC O O"),
]


def bio() -> tuple[list[list[list[str]]], list[list[str]]]:
    """Entities as lists of string features with BIO labels."""
    X = [[[word, word[0]] for word in words.split()] for words, _ in BIO_WORDS]
    return X, [tags.split() for _, tags in BIO_WORDS]


def same(a: list, b: list) -> bool:
    """Whether two predictions are equal, types included: arrays or lists, and of what."""

    def types(labels: object) -> object:
        return labels.dtype if isinstance(labels, np.ndarray) else [*map(type, labels)]

    return len(a) == len(b) and all(
        type(x) is type(y) and types(x) == types(y) and list(x) == list(y)
        for x, y in zip(a, b, strict=True)
    )
