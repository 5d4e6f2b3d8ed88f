"""Spans such as entities: how probable each one is on a chain, and which of them to predict.

A labelling is read as `robustruct.metrics.span_scores` reads it. A span of type t begins at a label
B-t or S-t, or at an I-t or E-t that continues nothing; an I-t or E-t continues what a B-t or I-t
has begun or continued. Under a Markov chain with node marginals r and pair marginals q, a span of
nodes i .. j-1 has the probability

    P(i, j, t) = P(it begins at i) Π P(y_m = I-t | y_{m-1}) P(nothing continues it at j),

summed over the labels that it may begin and end with. Spans that begin at one node share factors,
so each costs one multiplication more than the one before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError, shown
from robustruct.graphs import Batch
from robustruct.labels import as_labels
from robustruct.metrics import SpanCost, is_span_labelling

Span = tuple[int, int, str, float]
"""(first node, node after the last, type, probability)."""
SpanRule = float | SpanCost
"""How to decide by spans: a least probability, or what mistakes cost."""


def least_probability(rule: SpanRule) -> float:
    """Of a span that the rule may predict."""
    return rule.threshold if isinstance(rule, SpanCost) else rule


@dataclass(frozen=True, eq=False)
class SpanLabels:
    """The labels of a model as marks of spans."""

    types: list[str]
    codes: np.ndarray
    """(4, types) the label of each type that starts with B, I, E and S; -1 where there is none."""
    outside: int

    @classmethod
    def of(cls, classes: np.ndarray) -> SpanLabels:
        """Refuse labels that follow no scheme."""
        names = as_labels(classes).tolist()
        if "O" not in names or not is_span_labelling(classes):
            wrong = next((n for n in names if n != "O" and not is_span_labelling([n])), "O")
            what = "is missing" if wrong == "O" else "is none of them"
            raise IncompatibleError(
                "spans need labels of a tagging scheme, BIO or BIOES: 'O', and B-, I-, E- or S- "
                f"followed by a type; {shown(wrong)} {what}."
            )
        types = sorted({name[2:] for name in names if name != "O"})
        place = {name: code for code, name in enumerate(names)}
        codes = [[place.get(f"{tag}-{kind}", -1) for kind in types] for tag in "BIES"]
        return cls(types, np.array(codes), names.index("O"))

    def written(
        self, n_nodes: int, first: np.ndarray, end: np.ndarray, kind: np.ndarray
    ) -> np.ndarray:
        """(n_nodes,) the labels of a set of spans without overlap."""
        labels = np.full(n_nodes, self.outside)
        begin, inside, last, single = self._marks
        sizes = end - first
        nodes = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        labels[nodes] = np.repeat(inside[kind], sizes)
        labels[end - 1] = last[kind]
        labels[first] = np.where(sizes == 1, single[kind], begin[kind])
        return labels

    @property
    def _marks(self) -> tuple[np.ndarray, ...]:
        """(types,) labels that begin, continue and end a span, and of one that is a node alone.

        Training data may lack some: then the next best that is read alike.
        """
        B, I, E, S = self.codes  # noqa: E741

        def either(*choices: np.ndarray) -> np.ndarray:
            found = choices[0]
            for other in choices[1:]:
                found = np.where(found < 0, other, found)
            return found

        closes = (self.codes[2:] >= 0).any()
        if not closes:
            return either(B, I), I, I, either(B, I)
        return either(B, I), I, either(E, I), either(S, B, E, I)


@dataclass(frozen=True, eq=False)
class SpanCandidates:
    """Spans of all samples, with the probability of each type there."""

    first: np.ndarray
    """(c,) in the user's order of all nodes."""
    end: np.ndarray
    """(c,) the node after the last."""
    probability: np.ndarray
    """(c, types)"""

    @classmethod
    def joined(cls, parts: Sequence[tuple[int, SpanCandidates]]) -> SpanCandidates:
        """Those of parts of the samples; each part comes with the number of its first node."""
        return cls(
            np.concatenate([part.first + start for start, part in parts]),
            np.concatenate([part.end + start for start, part in parts]),
            np.concatenate([part.probability for _, part in parts]),
        )

    def chosen(self, rule: SpanRule) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(first, end, number of the type, P) of the spans to predict, of which none overlap.

        By a threshold, those of at least this probability, the likeliest first. By costs, the set
        of least expected cost. That is the cost of predicting none less the sum of the gains of
        those in it, as true spans do not overlap either: a dynamic programme over ends finds it.
        """
        if isinstance(rule, SpanCost):
            worth, kind = rule.gains(self.probability)
            kept, resolved = np.flatnonzero(worth > 0), _most_in_all
        else:
            worth, kind = self.probability.max(axis=1), self.probability.argmax(axis=1)
            kept, resolved = np.flatnonzero(worth >= rule), _best_first
        kept = kept[np.lexsort((self.end[kept], self.first[kept]))]
        taken = kept[_disjoint(self.first[kept], self.end[kept], worth[kept], resolved)]
        kind = kind[taken]
        return self.first[taken], self.end[taken], kind, self.probability[taken, kind]


def _disjoint(
    first: np.ndarray, end: np.ndarray, worth: np.ndarray, resolved: Callable[..., list[int]]
) -> np.ndarray:
    """Which intervals, sorted by their first node, to take: those alone, the rest ``resolved``."""
    if not len(first):
        return np.zeros(0, np.intp)
    cuts = np.flatnonzero(first[1:] >= np.maximum.accumulate(end)[:-1]) + 1
    bounds = np.concatenate([[0], cuts, [len(first)]])
    alone = np.diff(bounds) == 1
    taken = bounds[:-1][alone].tolist()
    for a, b in zip(bounds[:-1][~alone].tolist(), bounds[1:][~alone].tolist(), strict=True):
        part = (x[a:b].tolist() for x in (first, end, worth))
        taken += [a + n for n in resolved(*part)]
    return np.sort(np.array(taken, np.intp))


def _best_first(first: list[int], end: list[int], worth: list[float]) -> list[int]:
    """The best interval, then the best of those that do not overlap it, and so on."""
    taken: list[int] = []
    for n in sorted(range(len(first)), key=lambda n: -worth[n]):
        if all(end[n] <= first[m] or end[m] <= first[n] for m in taken):
            taken.append(n)
    return taken


def _most_in_all(first: list[int], end: list[int], worth: list[float]) -> list[int]:
    """The intervals without overlap that are worth most in all."""
    order = sorted(range(len(first)), key=end.__getitem__)
    ends = [end[n] for n in order]
    best, before = [0.0], []
    for place, n in enumerate(order):
        before.append(bisect_right(ends, first[n], 0, place))
        best.append(max(best[place], best[before[place]] + worth[n]))
    taken, left = [], len(order)
    while left:
        if best[left] > best[left - 1]:
            taken.append(order[left - 1])
            left = before[left - 1]
        else:
            left -= 1
    return taken


def span_candidates(
    batch: Batch, nodes: np.ndarray, edges: np.ndarray, labels: SpanLabels, least: float
) -> SpanCandidates:
    """All spans whose probability, over all types, is at least ``least``.

    ``nodes`` (N, k) and ``edges`` (slots, k, k) are the marginals of Markov chains.
    """
    check_chains(batch)
    r = batch.to_user(nodes)
    chain = _Chain.of(r, _pairs(batch, edges, labels), labels, batch.node_offsets)
    return chain.spans(least)


def check_chains(batch: Batch) -> None:
    """Refuse samples other than chains, as spans are runs of neighbours."""
    others = _no_chains(batch)
    if others.any():
        sample = int(others.argmax())
        raise InvalidInputError(
            f"sample {sample}: spans are runs of neighbours on a chain, and this sample is a graph "
            "of another shape; join each node to the next, and no others.",
            sample=sample,
        )


def are_chains(batch: Batch) -> bool:
    """Whether all samples are chains."""
    return not _no_chains(batch).any()


def _no_chains(batch: Batch) -> np.ndarray:
    """(S,) whether a sample is anything else than nodes joined to the next."""
    ends = np.sort(batch.user_edges, axis=1)
    is_link = ends[:, 1] == ends[:, 0] + 1
    per_sample = np.diff(batch.node_offsets) - 1
    links = np.bincount(
        np.searchsorted(batch.node_offsets, ends[is_link, 0], side="right") - 1,
        minlength=batch.n_samples,
    )
    return (links != per_sample) | (np.diff(batch.edge_offsets) != per_sample)


def _pairs(batch: Batch, edges: np.ndarray, labels: SpanLabels) -> np.ndarray:
    """(2, 2, N, types) P(neighbour before has B, I; node has I, E), 0 at first nodes."""
    n_types = len(labels.types)
    pairs = np.zeros((2, 2, batch.n_nodes, n_types))
    slots = batch.slot_of_edge
    child, parent = batch.node_of[batch.child[slots]], batch.node_of[batch.parent[slots]]
    for b, before in enumerate(labels.codes[:2]):
        for a, after in enumerate(labels.codes[1:3]):
            there = (before >= 0) & (after >= 0)
            forward = edges[slots[:, None], before, after]  # the child is the earlier node
            backward = edges[slots[:, None], after, before]
            joint = np.where((child < parent)[:, None], forward, backward)
            pairs[b, a, np.maximum(child, parent)] = np.where(there, joint, 0.0)
    return pairs


@dataclass(frozen=True, eq=False)
class _Chain:
    """What the probabilities of spans are made of; arrays are (N, types), in the user's order."""

    starts: np.ndarray
    """(4, N, types) P(a span begins here, with B, I, E, S)."""
    goes_on: np.ndarray
    """(2, 2, N, types) P(node has I, E | neighbour before has B, I)."""
    closes: np.ndarray
    """(2, N, types) P(nothing continues it | B, I)."""
    is_last: np.ndarray
    """(N,) whether the sample ends here."""

    @classmethod
    def of(
        cls, r: np.ndarray, pairs: np.ndarray, labels: SpanLabels, offsets: np.ndarray
    ) -> _Chain:
        marks = np.where((labels.codes >= 0)[:, None], r[:, labels.codes].swapaxes(0, 1), 0.0)
        starts = marks.copy()
        starts[1:3] -= pairs.sum(axis=0)
        is_last = np.zeros(len(r), bool)
        is_last[offsets[1:] - 1] = True
        opened = np.roll(marks[:2], 1, axis=1)[:, None]
        goes_on = np.divide(pairs, opened, out=np.zeros_like(pairs), where=opened > 0)
        # Marginals are rounded: what is left over may be below 0, and a share of it above 1.
        closes = 1.0 - np.roll(goes_on.sum(axis=1), -1, axis=1)
        closes[:, is_last] = 1.0
        return cls(np.maximum(starts, 0.0), goes_on, np.maximum(closes, 0.0), is_last)

    def spans(self, least: float) -> SpanCandidates:
        """Those with P >= least: longer and longer ones, from starts that can still have some."""
        here = np.arange(len(self.is_last))  # where the spans that are looked at end
        first, opened = here, self.starts[:2]
        closed = self.starts[2] + self.starts[3]
        found = []
        while len(here):
            whole = closed + (opened * self.closes[:, here]).sum(axis=0)
            total = whole.sum(axis=1)
            kept = (total >= least) & (total > 0)
            found.append((first[kept], here[kept] + 1, whole[kept]))
            open_mass = opened.sum(axis=(0, 2))
            lives = ~self.is_last[here] & (open_mass >= least) & (open_mass > 0)
            first, here = first[lives], here[lives] + 1
            further = (opened[:, None, lives] * self.goes_on[:, :, here]).sum(axis=0)
            opened = np.stack([np.zeros_like(further[0]), further[0]])
            closed = further[1]
        return SpanCandidates(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
