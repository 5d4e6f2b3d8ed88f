"""English Web Treebank: words labelled along the sentence or along its dependency tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset
from robustruct.formats.conll import TAB, sentences
from robustruct.formats.text import Lines
from robustruct.graphs.graph import Graph

_COLUMN = {"upos": 2, "xpos": 3, "deprel": 5}


def load_ewt_pos(
    split: str = "train",
    *,
    label: str = "upos",
    structure: str = "chain",
    data_home: DataHome = None,
) -> Dataset:
    """Parts of speech or dependency relations of English web texts.

    Parameters
    ----------
    split : "train", "dev" or "test"
        12544, 2001 and 2077 sentences.
    label : "upos", "xpos" or "deprel"
        Universal part of speech (17), Penn Treebank tag (49) or relation to the head (51).
    structure : "chain" or "tree"
        Which words are joined: each to the next, or each to its head in the dependency tree.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        The words of a sentence as lists of attributes (`word_attributes`); for relations also the
        universal part of speech. A tree is a `Graph` with edges (head, dependent) whose attribute
        is the side on which the dependent stands.
    """
    checked_choice(split, ("train", "dev", "test"), "split")
    checked_choice(label, _COLUMN, "label")
    checked_choice(structure, ("chain", "tree"), "structure")
    file = data_file(f"ewt_pos/{split}.conll.gz", "sentences of the web treebank", data_home)
    X: list[Any] = []
    y = []
    with Lines(file) as lines:
        trees = [list(sentence) for sentence in sentences(lines, [6], TAB, comment="# ")]
    for rows in trees:
        attributes = word_attributes([row[1] for row in rows])
        if label == "deprel":
            for row, of_word in zip(rows, attributes, strict=True):
                of_word.append(f"upos={row[2]}")
        if structure == "tree":
            X.append(_dependency_tree(attributes, np.array([int(row[4]) for row in rows]) - 1))
        else:
            X.append(attributes)
        y.append(np.array([row[_COLUMN[label]] for row in rows]))
    return Dataset(f"ewt_pos/{split}", X, y)


def word_attributes(words: list[str]) -> list[list[str]]:
    """What a word looks like: itself, its neighbours, beginnings, endings, capitals and digits.

    Examples
    --------
    >>> word_attributes(["Go", "2"])[1]
    ['word=2', 'before=go', 'after=</s>', 'start1=2', 'end1=2', 'digit']
    """
    lower = ["<s>", *(word.lower() for word in words), "</s>"]
    attributes = []
    for i, word in enumerate(words):
        here = lower[i + 1]
        of_word = [f"word={here}", f"before={lower[i]}", f"after={lower[i + 2]}"]
        of_word += [f"start{n}={here[:n]}" for n in (1, 2, 3) if n <= len(here)]
        of_word += [f"end{n}={here[-n:]}" for n in (1, 2, 3, 4) if n <= len(here)]
        if word[:1].isupper():
            of_word.append("capital" if i else "capital at the start")
        if len(word) > 1 and word.isupper():
            of_word.append("all capitals")
        if any(character.isdigit() for character in word):
            of_word.append("digit")
        if "-" in word:
            of_word.append("hyphen")
        attributes.append(of_word)
    return attributes


def _dependency_tree(attributes: list[list[str]], head: np.ndarray) -> Graph:
    dependent = np.flatnonzero(head >= 0)
    edges = np.stack([head[dependent], dependent], axis=1)
    sides = [["left" if word < its_head else "right"] for its_head, word in edges.tolist()]
    return Graph(attributes, edges, sides)
