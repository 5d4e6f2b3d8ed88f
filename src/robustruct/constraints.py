"""What may not be predicted: forbidden transitions, and the rules of tagging schemes.

A transition is an edge as the user listed it: from the label of its first node to the label of its
second. A node that no edge enters starts a sequence, one that no edge leaves ends it; in a chain
these are the first and the last node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError
from robustruct.features import Design
from robustruct.graphs import Batch
from robustruct.losses import as_labels
from robustruct.scores import Scores

SCHEMES = {"BIO": "BIO", "BIOES": "BIOES"}


@dataclass(frozen=True, eq=False)
class Constraints:
    """Masks of 0 and -inf to be added to scores."""

    pairs: np.ndarray
    """(k, k) [label of the first node, label of the second node of an edge]."""
    starts: np.ndarray
    """(k,) for nodes that no edge enters."""
    ends: np.ndarray
    """(k,) for nodes that no edge leaves."""

    @classmethod
    def build(
        cls,
        classes: Sequence[Any],
        forbidden: Iterable[tuple[Any, Any]] | None = None,
        scheme: str | None = None,
    ) -> Constraints:
        labels = as_labels(classes).tolist()
        place = {label: a for a, label in enumerate(labels)}
        rules = cls(np.zeros((len(labels), len(labels))), np.zeros(len(labels)), np.zeros(len(labels)))
        for pair in forbidden or ():
            if isinstance(pair, str) or len(pair) != 2:
                raise InvalidInputError(
                    f"forbidden holds {pair!r}; each entry is a pair (label, next label)."
                )
            if pair[0] in place and pair[1] in place:  # a label the data lack cannot be predicted
                rules.pairs[place[pair[0]], place[pair[1]]] = -np.inf
        if scheme is not None:
            _add_scheme(rules, labels, scheme)
        return rules

    @property
    def empty(self) -> bool:
        return not (np.isinf(self.pairs).any() or np.isinf(self.starts).any() or np.isinf(self.ends).any())

    def unary_masks(self) -> np.ndarray:
        """(4, k) the mask of each kind of node: inner, start, end, both."""
        return np.stack([np.zeros_like(self.starts), self.starts, self.ends, self.starts + self.ends])

    def pair_masks(self) -> np.ndarray:
        """(2, k, k) [child, parent] for edges listed (child, parent) and (parent, child)."""
        return np.stack([self.pairs, self.pairs.T])

    def apply(self, scores: Scores, design: Design) -> Scores:
        """Scores in which what is ruled out scores -inf."""
        if self.empty:
            return scores
        return Scores(
            scores.batch,
            scores.unary + self.unary_masks()[node_kinds(design.batch)],
            scores.tables + self.pair_masks()[design.table_turned.astype(np.intp)],
            scores.table_of,
        )


    def check_truth(self, design: Design, labels: np.ndarray, classes: np.ndarray) -> None:
        """The training labels must keep the rules; the error names the first that does not."""
        if self.empty:
            return
        batch = design.batch
        kinds = node_kinds(batch)
        broken = np.isinf(self.unary_masks()[kinds, labels])
        child = np.flatnonzero(batch.parent >= 0)
        above, turned = batch.parent[child], batch.flipped[child]
        first, second = np.where(turned, above, child), np.where(turned, child, above)
        bad = np.isinf(self.pairs[labels[first], labels[second]])
        if not (broken.any() or bad.any()):
            return
        if bad.any():
            e = int(bad.argmax())
            node, what = first[e], f"{classes[labels[first[e]]]!r} followed by {classes[labels[second[e]]]!r}"
        else:
            node = int(broken.argmax())
            what = f"{classes[labels[node]]!r} at the start or end of a sequence"
        sample = int(np.searchsorted(batch.node_offsets, node, side="right")) - 1
        where = batch.node_of[node] - batch.node_offsets[sample]
        raise InvalidInputError(
            f"sample {sample}, node {where}: the labels hold {what}, which `forbidden` or `constraints` "
            "rules out. Correct the labels or drop the rule."
        )


def node_kinds(batch: Batch) -> np.ndarray:
    """(N,) bit 0: no edge enters the node; bit 1: no edge leaves it."""
    child = np.flatnonzero(batch.parent >= 0)
    above, turned = batch.parent[child], batch.flipped[child]
    kinds = np.full(batch.n_nodes, 3, np.intp)
    kinds[np.where(turned, child, above)] &= ~1
    kinds[np.where(turned, above, child)] &= ~2
    return kinds


def _add_scheme(rules: Constraints, labels: list[Any], scheme: str) -> None:
    if scheme not in SCHEMES:
        raise InvalidInputError(f"constraints={scheme!r} is not known; use 'BIO' or 'BIOES'.")
    prefixes = set(SCHEMES[scheme])
    parts = []
    for label in labels:
        prefix, dash, kind = str(label).partition("-")
        if not (prefix == "O" and not dash) and not (prefix in prefixes - {"O"} and kind):
            raise InvalidInputError(
                f"constraints={scheme!r}, but {label!r} is not a {scheme} label; labels are 'O' or "
                f"one of {', '.join(sorted(prefixes - {'O'}))} followed by '-' and a type."
            )
        parts.append((prefix, kind))
    opens, inner = ("B", "I"), "I"
    if scheme == "BIOES":
        opens = ("B", "I")
        inner = "IE"
    for b, (prefix, kind) in enumerate(parts):
        if prefix in inner:
            rules.starts[b] = -np.inf
        for a, (before, before_kind) in enumerate(parts):
            continues = before in opens and before_kind == kind
            if prefix in inner and not continues:
                rules.pairs[a, b] = -np.inf
            if scheme == "BIOES" and before in opens and not (prefix in inner and continues):
                rules.pairs[a, b] = -np.inf
        if scheme == "BIOES" and prefix in opens:
            rules.ends[b] = -np.inf
