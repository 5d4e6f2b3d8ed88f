"""Constraints on labellings: forbidden transitions, and the rules of tagging schemes.

A transition is an edge as the user listed it: from the label of its first node to the label of its
second. A node that no edge enters starts a sequence, one that no edge leaves ends it; in a chain
these are the first and the last node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from robustruct._lazy import cached_property
from robustruct.arrays import is_sparse
from robustruct.errors import InvalidInputError, shown
from robustruct.features import Design
from robustruct.graphs import Batch
from robustruct.inference import allowed_labels
from robustruct.labels import as_classes, as_labels
from robustruct.losses import Labels
from robustruct.scores import Scores

SCHEMES = ("BIO", "BIOES")
BAD_LABELS = ("repair", "error", "drop")


@dataclass(frozen=True)
class Constraints:
    """Rules that labellings must keep, and the handling of training labels that break them.

    Models and layers also take the common cases without it: ``constraints="BIO"`` and
    ``constraints=[(label, next label), ...]``.

    Parameters
    ----------
    scheme : "BIO" or "BIOES", optional
        Tagging scheme whose rules must hold.
    forbidden : iterable of (label, next label)
        Transitions that may not be predicted.
    bad_labels : "repair", "error" or "drop", default="repair"
        What happens to training labels that break ``scheme``. "repair" reads them as the CoNLL
        scorer does: an I that continues nothing begins a span. "drop" leaves their samples out
        (``cv`` counts those that are left). Both warn, with the number and the first places.
        Labels that break ``forbidden`` are an error. Layers change no tags: bad ones are an error.

    Examples
    --------
    >>> from robustruct import CRF, Constraints
    >>> Constraints("BIO", forbidden=[("O", "B-LOC")], bad_labels="drop")
    Constraints(scheme='BIO', forbidden=(('O', 'B-LOC'),), bad_labels='drop')
    >>> model = CRF(constraints=Constraints("BIO", bad_labels="error"))
    """

    scheme: Literal["BIO", "BIOES"] | None = None
    forbidden: Iterable[tuple[Any, Any]] = ()
    bad_labels: Literal["repair", "error", "drop"] = "repair"

    def __post_init__(self) -> None:
        if not (self.scheme is None or _is_one_of(self.scheme, SCHEMES)):
            raise InvalidInputError(
                f"scheme={shown(self.scheme)} is not known; use 'BIO' or 'BIOES'."
            )
        if not _is_one_of(self.bad_labels, BAD_LABELS):
            raise InvalidInputError(
                f"bad_labels={shown(self.bad_labels)} is not known; use 'repair', 'error' or "
                "'drop'."
            )
        object.__setattr__(self, "forbidden", _checked_pairs(self.forbidden, "forbidden"))

    @classmethod
    def of(cls, given: ConstraintsLike) -> Constraints:
        """Convert any value of the parameter ``constraints`` of a model."""
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        if isinstance(given, str):
            if given not in SCHEMES:
                raise InvalidInputError(
                    f"constraints={shown(given)} is not known; use 'BIO', 'BIOES', a list of pairs "
                    "(label, next label), or Constraints(...)."
                )
            return cls(scheme=given)  # type: ignore[arg-type]
        if isinstance(given, Iterator):
            raise InvalidInputError(
                "constraints is an iterator, which is empty after one use; give a list."
            )
        return cls(forbidden=_checked_pairs(given, "constraints"))

    @property
    def cleans_labels(self) -> bool:
        """Whether training labels that break the scheme are repaired or dropped, not refused."""
        return self.scheme is not None and self.bad_labels != "error"


ConstraintsLike = Constraints | str | Iterable[tuple[Any, Any]] | None


def _is_one_of(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in names


@dataclass(frozen=True, eq=False)
class TransitionMasks:
    """The rules for the labels of a model, as masks of 0 and -inf to be added to scores."""

    pairs: np.ndarray
    """(k, k) [label of the first node, label of the second node of an edge]."""
    starts: np.ndarray
    """(k,) for nodes that no edge enters."""
    ends: np.ndarray
    """(k,) for nodes that no edge leaves."""
    types: np.ndarray
    """(T, k) for nodes of each type; one row of zeros where there are no types."""

    @classmethod
    def build(
        cls,
        classes: Labels,
        constraints: ConstraintsLike = None,
        type_labels: Mapping[Any, Labels] | None = None,
    ) -> TransitionMasks:
        """Build the masks of ``constraints`` for these labels.

        Pairs with a label that ``classes`` lack have no effect: it cannot be predicted anyway.
        ``type_labels`` lists the labels that nodes of each type may have.
        """
        rules = Constraints.of(constraints)
        labels = as_classes(classes).tolist()
        k = len(labels)
        place = {label: a for a, label in enumerate(labels)}
        types = np.zeros((1, k))
        if type_labels:
            types = np.full((len(type_labels), k), -np.inf)
            for t, allowed in enumerate(type_labels.values()):
                types[t, [place[label] for label in as_labels(allowed).tolist()]] = 0.0
        masks = cls(np.zeros((k, k)), np.zeros(k), np.zeros(k), types)
        for first, second in rules.forbidden:
            if first in place and second in place:
                masks.pairs[place[first], place[second]] = -np.inf
        if rules.scheme is not None:
            _add_scheme(masks, labels, rules.scheme)
        return masks

    @cached_property
    def empty(self) -> bool:
        """Whether nothing is forbidden; computed once, as masks do not change after `build`."""
        masks = (self.pairs, self.starts, self.ends, self.types)
        return not any(np.isinf(mask).any() for mask in masks)

    def unary_masks(self) -> np.ndarray:
        """(4 T, k) the mask of each kind of node: by type, and inner, start, end or both."""
        places = np.stack(
            [np.zeros_like(self.starts), self.starts, self.ends, self.starts + self.ends]
        )
        return (self.types[:, None] + places).reshape(-1, len(self.starts))

    def label_masks(self, design: Design) -> tuple[np.ndarray, np.ndarray]:
        """((N,) the row of each node, (rows, k) masks): -inf for labels that cannot occur there.

        Such labels occur in no labelling that keeps all rules. In samples too wide for exact
        inference, only the position and type of the node itself count.
        """
        kinds, own = node_kinds(design), self.unary_masks()
        if np.isfinite(self.pairs).all():
            return kinds, own
        transposed = design.table_transposed[design.table_of].astype(np.intp)
        allowed = allowed_labels(Scores(design.batch, own[kinds], self.pair_masks(), transposed))
        # Few different masks occur, so nodes share rows.
        rows, row_of = np.unique(allowed, axis=0, return_inverse=True)
        return row_of.reshape(-1), np.where(rows, 0.0, -np.inf)

    def pair_masks(self) -> np.ndarray:
        """(2, k, k) [child, parent] for edges listed (child, parent) and (parent, child)."""
        return np.stack([self.pairs, self.pairs.T])

    def apply(self, scores: Scores, design: Design) -> Scores:
        """Return the scores with -inf for forbidden labels and pairs."""
        if self.empty:
            return scores
        return Scores(
            scores.batch,
            scores.unary + self.unary_masks()[node_kinds(design)],
            scores.tables + self.pair_masks()[design.table_transposed.astype(np.intp)],
            scores.table_of,
        )

    def check_truth(self, design: Design, labels: np.ndarray, classes: np.ndarray) -> None:
        """Refuse training labels that break the rules; the error names the first."""
        if self.empty:
            return
        batch = design.batch
        first, second = _ends(batch)
        names = classes.tolist()
        bad = np.flatnonzero(np.isinf(self.pairs[labels[first], labels[second]]))
        if len(bad):
            node = int(first[bad[0]])
            before, after = shown(names[labels[node]]), shown(names[labels[second[bad[0]]]])
            _refuse_truth(batch, node, f"{before} is followed by {after}")
        kinds = node_kinds(design)
        for kind, mask, place in ((1, self.starts, "starts"), (2, self.ends, "ends")):
            bad = np.flatnonzero((kinds & kind > 0) & np.isinf(mask[labels]))
            if len(bad):
                node = int(bad[0])
                _refuse_truth(batch, node, f"{shown(names[labels[node]])} {place} a sequence")


def _checked_pairs(given: Any, name: str) -> tuple[tuple[Any, Any], ...]:
    """Check pairs of labels; errors call them ``name``."""
    listed = isinstance(given, Iterable) and not (
        isinstance(given, str)
        or is_sparse(given)
        or (isinstance(given, np.ndarray) and given.ndim == 0)
    )
    if not listed:
        raise InvalidInputError(
            f"{name} is {shown(given)}; give a list of pairs (label, next label)."
        )
    pairs = []
    for pair in given:
        if not isinstance(pair, list | tuple | np.ndarray) or len(pair) != 2:
            raise InvalidInputError(
                f"{name} holds {shown(pair)}; each entry is a pair (label, next label)."
            )
        try:
            hash((pair[0], pair[1]))
        except TypeError:
            raise InvalidInputError(
                f"{name} holds {shown(pair)}, but a list is no label."
            ) from None
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _refuse_truth(batch: Batch, node: int, what: str) -> None:
    sample = int(np.searchsorted(batch.node_offsets, node, side="right")) - 1
    where = batch.node_of[node] - batch.node_offsets[sample]
    raise InvalidInputError(
        f"y: sample {sample}, node {where}: {what}, which `constraints` rules out. Correct the "
        "labels, have those of a tagging scheme repaired (Constraints(..., bad_labels='repair')), "
        "or drop the rule.",
        sample=sample,
        node=where,
        field="y",
    )


def _ends(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """(M,) first and (M,) second node of every edge as the user listed it, in batch order."""
    slots = np.flatnonzero(batch.parent >= 0)
    child, above, flipped = batch.child[slots], batch.parent[slots], batch.flipped[slots]
    return np.where(flipped, above, child), np.where(flipped, child, above)


def node_kinds(design: Design) -> np.ndarray:
    """(N,) bit 0: no edge enters the node; bit 1: no edge leaves it; the rest is its type."""
    first, second = _ends(design.batch)
    kinds = np.full(design.batch.n_nodes, 3, np.intp)
    kinds[second] &= ~1
    kinds[first] &= ~2
    return kinds + 4 * design.type_of


def _add_scheme(rules: TransitionMasks, labels: list[Any], scheme: str) -> None:
    """Add the rules: I and E continue a span of their type; in BIOES, E closes it."""
    parts = [tag_parts(label, scheme) for label in labels]
    for b, (tag, kind) in enumerate(parts):
        continues = tag in ("I", "E")
        if continues:
            rules.starts[b] = -np.inf
        if scheme == "BIOES" and tag in ("B", "I"):
            rules.ends[b] = -np.inf
        for a, (before, before_kind) in enumerate(parts):
            is_open = before in ("B", "I")
            goes_on = is_open and continues and before_kind == kind
            if (continues or (is_open and scheme == "BIOES")) and not goes_on:
                rules.pairs[a, b] = -np.inf


def tag_parts(label: Any, scheme: str) -> tuple[str, str]:
    """Prefix and type of a label such as "B-PER"; ("O", "") outside."""
    if label == "O":
        return "O", ""
    tag, _, kind = str(label).partition("-")
    prefixes = [letter for letter in scheme if letter != "O"]
    if tag not in prefixes or not kind:
        raise InvalidInputError(
            f"constraints={scheme!r}, but {shown(label)} is not a {scheme} label; labels are 'O' "
            "or one "
            f"of {', '.join(prefixes)} followed by '-' and a type."
        )
    return tag, kind
