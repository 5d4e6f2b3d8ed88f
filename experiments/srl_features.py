"""Features and structures for semantic roles on pruned trees.

Node features, all of them strings of value 1 (Xue and Palmer, 2004; Cohn and Blunsom, 2005):

- of the verb: lemma, word form, part of speech, voice, subcategorisation;
- of the constituent: phrase type, path to the verb, path as far as the common ancestor, length of
  the path, position (before, around or after the verb), distance in words, whether on the path;
- of its words: head word and its part of speech, the same for the content head (in a prepositional
  phrase the head of the object), first and last word with their parts of speech;
- of its surroundings: type and head word of the parent, types of the left and right sibling, the
  syntactic frame (noun and prepositional phrases around the verb, this one marked);
- conjunctions: position with voice and type; the lemma with type, path, position, position and
  voice, head word, content head, frame, and type and voice; type with head word, parent type,
  first and last part of speech.

The poor set has the phrase type and the position alone.

A structure says which nodes are joined. "parents" is the tree as pruned: every node hangs on its
parent. Nodes on the path are never arguments, so these edges carry little; "siblings" hangs every
candidate on the candidate before it instead (the first one, the path and the verb keep their
parents), which is a tree as well. Edge features: the two phrase types, their sides of the verb with
its voice, and whether one holds the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.sparse as sp

from corpora import PrunedTree
from robustruct import Graph

FEATURES = ("full", "poor")
STRUCTURES = ("parents", "siblings")
NONE = "-"  # no parent, no sibling
PATH, SIBLING, PP_CHILD, VERB = range(4)  # kinds of node
SIDES = {-1: "before", 0: "around", 1: "after"}


def node_attributes(tree: PrunedTree, features: str = "full") -> list[list[str]]:
    """The feature strings of every node."""
    if features == "poor":
        return [
            [f"type={label}", f"position={SIDES[side]}", f"type&position={label}|{SIDES[side]}"]
            for label, side in zip(tree.label, tree.side, strict=True)
        ]
    left, right = _siblings(tree)
    frames = _frames(tree)
    return [
        _attributes(tree, node, _label(tree, left[node]), _label(tree, right[node]), frames[node])
        for node in range(tree.n_nodes)
    ]


def _attributes(tree: PrunedTree, i: int, left: str, right: str, frame: str) -> list[str]:
    words, pos = tree.words, tree.pos
    lemma, voice, label, path = tree.lemma, tree.voice, tree.label[i], tree.path[i]
    position = SIDES[tree.side[i]]
    head, content = words[tree.head[i]].lower(), words[tree.chead[i]].lower()
    first, last = words[tree.start[i]].lower(), words[tree.end[i] - 1].lower()
    first_pos, last_pos = pos[tree.start[i]], pos[tree.end[i] - 1]
    parent = int(tree.parent[i])
    parent_label = _label(tree, parent)
    parent_head = words[tree.head[parent]].lower() if parent >= 0 else NONE
    return [
        f"lemma={lemma}",
        f"verb={words[tree.pred].lower()}",
        f"verb_pos={pos[tree.pred]}",
        f"voice={voice}",
        f"subcat={tree.subcat}",
        f"type={label}",
        f"path={path}",
        f"up={path.split('!')[0]}",
        f"length={_binned(path.count('^') + path.count('!'))}",
        f"position={position}",
        f"distance={position}|{_binned(_distance(tree, i))}",
        f"kind={tree.kind[i]}",
        f"head={head}",
        f"head_pos={pos[tree.head[i]]}",
        f"content={content}",
        f"content_pos={pos[tree.chead[i]]}",
        f"first={first}",
        f"last={last}",
        f"first_pos={first_pos}",
        f"last_pos={last_pos}",
        f"parent={parent_label}",
        f"parent_head={parent_head}",
        f"left={left}",
        f"right={right}",
        f"frame={frame}",
        f"position&voice={position}|{voice}",
        f"position&voice&type={position}|{voice}|{label}",
        f"lemma&type={lemma}|{label}",
        f"lemma&path={lemma}|{path}",
        f"lemma&position={lemma}|{position}",
        f"lemma&position&voice={lemma}|{position}|{voice}",
        f"lemma&type&voice={lemma}|{label}|{voice}",
        f"lemma&head={lemma}|{head}",
        f"lemma&content={lemma}|{content}",
        f"lemma&frame={lemma}|{frame}",
        f"type&head={label}|{head}",
        f"type&content={label}|{content}",
        f"type&parent={label}|{parent_label}",
        f"type&parent_head={label}|{parent_head}",
        f"type&first_pos={label}|{first_pos}",
        f"type&last_pos={label}|{last_pos}",
    ]


def _label(tree: PrunedTree, node: int) -> str:
    return tree.label[node] if node >= 0 else NONE


def _binned(number: int) -> str:
    """Small numbers as they are, larger ones by powers of two."""
    return str(number) if number <= 4 else f"<{2 ** number.bit_length()}"


def _distance(tree: PrunedTree, i: int) -> int:
    """Words between the constituent and the verb."""
    return max(tree.start[i] - tree.pred - 1, tree.pred - tree.end[i], 0)


def _siblings(tree: PrunedTree) -> tuple[list[int], list[int]]:
    """For every node the sibling to its left and to its right, -1 where there is none."""
    left, right = [-1] * tree.n_nodes, [-1] * tree.n_nodes
    last: dict[int, int] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        if parent in last:
            left[node] = last[parent]
            right[last[parent]] = node
        last[parent] = node
    return left, right


def _frames(tree: PrunedTree) -> list[str]:
    """The noun and prepositional phrases around the verb in order, each node's own in capitals."""
    shown = [
        i
        for i in range(tree.n_nodes)
        if tree.kind[i] == VERB or (tree.kind[i] == SIBLING and tree.label[i] in ("NP", "PP"))
    ]
    names = ["v" if tree.kind[i] == VERB else tree.label[i].lower() for i in shown]
    plain = "_".join(names)
    frames = [plain] * tree.n_nodes
    for place, node in enumerate(shown):
        own = [*names[:place], names[place].upper(), *names[place + 1 :]]
        frames[node] = "_".join(own)
    return frames


def joined(tree: PrunedTree, structure: str) -> np.ndarray:
    """(n_edges, 2): the edges of a structure, the earlier node first."""
    above = tree.parent.copy()
    if structure == "siblings":
        candidates = np.flatnonzero(np.isin(tree.kind, (SIBLING, PP_CHILD)))
        above[candidates[1:]] = candidates[:-1]
    lower = np.flatnonzero(above >= 0)
    return np.stack([above[lower], lower], axis=1)


def edge_attributes(tree: PrunedTree, edges: np.ndarray) -> list[list[str]]:
    """The feature strings of every edge."""
    found = []
    for i, j in edges.tolist():
        inside = tree.start[i] <= tree.start[j] and tree.end[j] <= tree.end[i]
        sides = f"{SIDES[tree.side[i]]}>{SIDES[tree.side[j]]}"
        found.append(
            [
                f"types={tree.label[i]}>{tree.label[j]}",
                f"sides={sides}|{tree.voice}",
                f"inside={inside}",
            ]
        )
    return found


class Vocabulary:
    """Feature strings to sparse rows, with a column for each string of the training nodes."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {}

    def learn(self, rows: Iterable[list[str]]) -> sp.csr_array:
        """Encode the training nodes, giving every new string a column."""
        known = self.columns
        return self._encoded(rows, lambda name: known.setdefault(name, len(known)))

    def encode(self, rows: Iterable[list[str]]) -> sp.csr_array:
        """Encode other nodes; strings that training did not have are dropped."""
        return self._encoded(rows, lambda name: self.columns.get(name, -1))

    def _encoded(self, rows: Iterable[list[str]], column: Callable[[str], int]) -> sp.csr_array:
        entries, ends = array("i"), array("q", [0])
        for row in rows:
            entries.extend(place for place in map(column, row) if place >= 0)
            ends.append(len(entries))
        shape = (len(ends) - 1, len(self.columns))
        indices, indptr = np.array(entries, np.int32), np.array(ends)
        return sp.csr_array((np.ones(len(entries)), indices, indptr), shape=shape)


def graphs(trees: Sequence[PrunedTree], rows: sp.csr_array, structure: str) -> list[Graph]:
    """One graph per tree, joined as ``structure`` says; ``rows`` has the nodes of all of them."""
    found, first = [], 0
    for tree in trees:
        edges = joined(tree, structure)
        nodes = rows[first : first + tree.n_nodes]
        found.append(Graph(nodes, edges, edge_attributes(tree, edges)))
        first += tree.n_nodes
    return found
