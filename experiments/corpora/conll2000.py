"""CoNLL-2000: text chunking, sentences as chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset
from robustruct.formats.conll import sentences
from robustruct.formats.text import Lines

Token = tuple[str, str]  # word, part of speech

# The template of the CRF++ chunking example: offsets of the words, then of the parts of speech.
_WORDS: dict[str, tuple[int, ...]] = {
    **{f"U{i:02d}": (i - 2,) for i in range(5)},
    "U05": (-1, 0),
    "U06": (0, 1),
}
_PARTS_OF_SPEECH: dict[str, tuple[int, ...]] = {
    **{f"U{i + 10}": (i - 2,) for i in range(5)},
    **{f"U{i + 15}": (i - 2, i - 1) for i in range(4)},
    **{f"U{i + 20}": (i - 2, i - 1, i) for i in range(3)},
}


def load_conll2000(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Chunk tags (B-NP, I-NP, O, ...) of Wall Street Journal sentences.

    Parameters
    ----------
    split : "train" or "test"
        8936 and 2012 sentences.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        A sentence is a list of (word, part of speech) pairs; turn it into features with
        `chunking_attributes`.
    """
    checked_choice(split, ("train", "test"), "split")
    file = data_file(f"conll2000/{split}.txt.gz", "sentences of CoNLL-2000", data_home)
    X: list[list[Token]] = []
    y = []
    with Lines(file) as lines:
        for sentence in sentences(lines, [3]):
            X.append(list(zip(sentence.column(0), sentence.column(1), strict=True)))
            y.append(np.array(sentence.column(2)))
    return Dataset(f"conll2000/{split}", X, y)


def chunking_attributes(sentence: Sequence[Token]) -> list[list[str]]:
    """The 19 attributes per token of the CRF++ chunking template, as lists of strings.

    Words in a window of two to each side and their pairs around the token (U00..U06), parts of
    speech with their pairs and triples (U10..U22). Beyond the sentence they read ``_B-1``,
    ``_B+1`` and so on. The first token also has ``__BOS__``, the last ``__EOS__``.

    Examples
    --------
    >>> chunking_attributes([("He", "PRP"), ("runs", "VBZ")])[0][:6]
    ['U00:_B-2', 'U01:_B-1', 'U02:He', 'U03:runs', 'U04:_B+1', 'U05:_B-1/He']
    """
    words = [word for word, _ in sentence]
    tags = [pos for _, pos in sentence]
    columns = [*_columns(words, _WORDS), *_columns(tags, _PARTS_OF_SPEECH)]
    attributes = [list(of_token) for of_token in zip(*columns, strict=True)]
    if attributes:
        attributes[0].append("__BOS__")
        attributes[-1].append("__EOS__")
    return attributes


def _columns(values: list[str], template: dict[str, tuple[int, ...]]) -> Iterator[list[str]]:
    """For each line of the template, its attribute at every token."""
    padded = ["_B-2", "_B-1", *values, "_B+1", "_B+2"]
    for name, offsets in template.items():
        shifted = [padded[2 + offset : 2 + offset + len(values)] for offset in offsets]
        yield [f"{name}:{'/'.join(parts)}" for parts in zip(*shifted, strict=True)]
