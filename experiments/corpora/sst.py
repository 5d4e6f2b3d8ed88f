"""Stanford Sentiment Treebank: a label on every phrase of a sentence."""

from __future__ import annotations

import re

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset
from robustruct.errors import InvalidInputError
from robustruct.formats.text import Lines
from robustruct.graphs.graph import Graph

_TOKEN = re.compile(r"\((\d)|(\))|([^\s()]+)")


def load_sst(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Sentiment of phrases, 0 (very negative) to 4 (very positive), on binary trees.

    Parameters
    ----------
    split : "train", "dev" or "test"
        8544, 1101 and 2210 trees.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        A `Graph` per sentence. Nodes are phrases, the sentence first and each phrase before its
        parts; edges are (phrase, part). The attributes of a phrase are its distinct words
        (``word=...``) and the whole phrase (``phrase=...``).
    """
    checked_choice(split, ("train", "dev", "test"), "split")
    file = data_file(f"sst/{split}.txt.gz", "trees of the Stanford Sentiment Treebank", data_home)
    X, y = [], []
    with Lines(file) as lines:
        for line in lines:
            try:
                graph, labels = parsed_tree(line)
            except (IndexError, InvalidInputError) as error:
                raise InvalidInputError(
                    f"{file}, line {lines.number} is not a tree such as '(3 (2 very) (3 good))'; "
                    "the file is damaged or of another format, fetch it again."
                ) from error
            X.append(graph)
            y.append(labels)
    return Dataset(f"sst/{split}", X, y)


def parsed_tree(line: str) -> tuple[Graph, np.ndarray]:
    """The graph and the labels of a bracketed tree.

    Examples
    --------
    >>> graph, labels = parsed_tree("(3 (2 very) (3 good))")
    >>> labels, graph.edges.tolist()
    (array([3, 2, 3]), [[0, 1], [0, 2]])
    >>> graph.node_features[0]
    ['word=very', 'word=good', 'phrase=very good']
    """
    labels: list[int] = []
    edges: list[tuple[int, int]] = []
    words: list[str] = []
    span: list[tuple[int, int]] = []  # first word and the one after the last, of each node
    open_nodes: list[int] = []
    for label, close, word in _TOKEN.findall(line):
        if label:
            node = len(labels)
            if open_nodes:
                edges.append((open_nodes[-1], node))
            labels.append(int(label))
            span.append((len(words), -1))
            open_nodes.append(node)
        elif close:
            node = open_nodes.pop()
            span[node] = (span[node][0], len(words))
        else:
            words.append(word)
    if open_nodes:
        raise InvalidInputError(f"{len(open_nodes)} brackets of the tree are never closed.")
    phrases = [words[start:end] for start, end in span]
    return Graph([_attributes(phrase) for phrase in phrases], edges), np.array(labels)


def _attributes(phrase: list[str]) -> list[str]:
    return [f"word={word}" for word in dict.fromkeys(phrase)] + [f"phrase={' '.join(phrase)}"]
