"""Semantic roles: the constituents around a verb as a tree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset
from robustruct.errors import InvalidInputError
from robustruct.formats.text import Lines

ROLES = ("A0", "A1", "A2", "R-A0", "R-A1", "R-A2", "V", "R", "O")  # names of the labels 0..8

_SPLITS = {"ewt": ("train", "dev", "test"), "wsj": ("train", "test")}


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PrunedTree:
    """A verb, its sentence, and the constituents that may fill its roles.

    Lists from ``label`` on have one entry per node, each node after its parent.

    Attributes
    ----------
    id, sent : str
        Names of the proposition and of the sentence.
    words, pos : list of str
        The sentence and its parts of speech.
    pred : int
        Index of the verb among the words; ``lemma``, ``roleset``, ``voice``, ``v_span`` and
        ``subcat`` (how its parent expands) describe it.
    label : list of str
        Category of the constituent, such as NP.
    parent : ndarray
        Parent of each node, -1 at the root.
    start, end : list of int
        The words of the constituent, ``end`` excluded.
    head, chead : list of int
        Its head word; for a prepositional phrase ``chead`` is the head of its object.
    kind : list of int
        0 on the path from the verb to the root, 1 sibling of the path, 2 child of a prepositional
        sibling, 3 the verb.
    side : list of int
        -1 before the verb, 0 around it, 1 after it.
    path : list of str
        Categories from the node to the verb, ``^`` up and ``!`` down.
    role : list of str
        The role in full, or O.
    lost : list
        Arguments [role, start, end] that no node matches.
    """

    id: str
    sent: str
    words: list[str]
    pos: list[str]
    pred: int
    lemma: str
    roleset: str
    voice: str
    v_span: list[int]
    subcat: str
    label: list[str]
    parent: np.ndarray
    start: list[int]
    end: list[int]
    head: list[int]
    chead: list[int]
    kind: list[int]
    side: list[int]
    path: list[str]
    role: list[str]
    lost: list[Any]

    @property
    def n_nodes(self) -> int:
        return len(self.parent)

    @property
    def edges(self) -> np.ndarray:
        """(n_edges, 2): parent and child."""
        child = np.flatnonzero(self.parent >= 0)
        return np.stack([self.parent[child], child], axis=1)


def load_srl(corpus: str = "ewt", split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Roles of constituents around main verbs (PropBank), nine classes named in `ROLES`.

    Parameters
    ----------
    corpus : "ewt" or "wsj"
        English Web Treebank, or a sample of the Wall Street Journal (non-commercial use only).
    split : "train", "dev" or "test"
        The journal has no "dev".
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        ``X`` is a list of `PrunedTree`, raw annotation without features; ``y`` holds 0..8.
    """
    checked_choice(corpus, _SPLITS, "corpus")
    checked_choice(split, _SPLITS[corpus], "split")
    path = f"srl/{corpus}.{split}.pruned.jsonl.gz"
    file = data_file(path, "pruned constituent trees with semantic roles", data_home)
    X, y = [], []
    with Lines(file) as lines:
        for line in lines:
            try:
                record = json.loads(line)
                y.append(np.array(record.pop("y"), dtype=np.int64))
                record["parent"] = np.array(record["parent"], dtype=np.intp)
                X.append(PrunedTree(**record))
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidInputError(
                    f"{file}, line {lines.number} is not a pruned tree ({error}); the file is "
                    "damaged or of another format, fetch it again."
                ) from error
    return Dataset(f"srl/{corpus}/{split}", X, y)
