"""Block-coordinate ascent as in kernels/pairwise_ascent.py, for samples with cycles.

Node and edge marginals alone do not say which labellings make them up once there are cycles, so the
adversary of a sample is kept as a list of labellings with their masses. A step moves mass from the
worst of them to the best labelling; as on trees, each connected component of the nodes where they
differ takes its own step. Component C then has the best labels instead of the worst in a share
step_C of the mass of the worst; the shares are nested (a labelling that has the best labels on a
component has them on all with larger steps), so that c components make c new labellings.
"""

import numpy as np

from robustruct.core.structs import JunctionTrees, Mixtures, Move, SampleScores
from robustruct.kernels._jit import helper, kernel, part
from robustruct.kernels.buckets import bucket_max
from robustruct.kernels.component_steps import find_components, step_weights
from robustruct.kernels.edge_pairs import DUST
from robustruct.kernels.forests import edges_of_sample
from robustruct.kernels.labelling_oracle import (
    augment,
    cost_margins,
    gather_scores,
    own_design,
    own_predictor,
    own_scores,
    own_structure,
)


@kernel
def node_marginals(first, last, offsets, mixtures):
    """Masses scaled to sum to 1, and node marginals, of samples first .. last-1."""
    r, kept, mass, count = mixtures.r, mixtures.labelling, mixtures.mass, mixtures.count
    for s in range(first, last):
        total = 0.0
        for at in range(count[s]):
            total += mass[s, at]
        for at in range(count[s]):
            mass[s, at] /= total
        for i in range(offsets[s], offsets[s + 1]):
            for b in range(r.shape[1]):
                r[i, b] = 0.0
            for at in range(count[s]):
                r[i, kept[at, i]] += mass[s, at]


@kernel
def edge_marginals(structure, mixtures, q):
    """Edge marginals q (slots, k, k) of all samples, zero before."""
    child, parent, kept, mass = structure.child, structure.parent, mixtures.labelling, mixtures.mass
    slots = np.empty(len(parent), np.intp)
    for s in range(len(structure.offsets) - 1):
        n_edges = edges_of_sample(s, structure.offsets, structure.chord_offsets, parent, slots)
        for slot in slots[:n_edges]:
            for at in range(mixtures.count[s]):
                q[slot, kept[at, child[slot]], kept[at, parent[slot]]] += mass[s, at]


@kernel
def mixture_table_sums(structure, table_of, share, mixtures, out):
    """Add share[i] times the edge marginals of every node's edges to their tables in out."""
    child, parent, mass = structure.child, structure.parent, mixtures.mass
    slots = np.empty(len(parent), np.intp)
    for s in range(len(structure.offsets) - 1):
        n_edges = edges_of_sample(s, structure.offsets, structure.chord_offsets, parent, slots)
        for slot in slots[:n_edges]:
            i, j, table = child[slot], parent[slot], out[table_of[slot]]
            for at in range(mixtures.count[s]):
                labels = mixtures.labelling[at]
                table[labels[i], labels[j]] += share[i] * mass[s, at]


@helper
def _score(sample, scores, labels):
    """The score of labels (n,) with costs."""
    total = 0.0
    for i in range(sample.n):
        total += scores.augmented[i, labels[i]]
    for j in range(sample.m):
        if sample.parent[j] >= 0:
            table = scores.tables[scores.place[j]]
            total += table[labels[sample.child[j]], labels[sample.parent[j]]]
    return total


@helper
def _add_labelling(labels, amount, kept, lo, mass, count):
    """Give mass to a labelling (n,), which may be among those kept already.

    kept (capacity, N): the sample has the columns from ``lo`` on.
    """
    for at in range(count):
        same = True
        for i in range(len(labels)):
            if kept[at, lo + i] != labels[i]:
                same = False
                break
        if same:
            mass[at] += amount
            return count
    for i in range(len(labels)):
        kept[count, lo + i] = labels[i]
    mass[count] = amount
    return count + 1


@helper
def _split_labelling(worst, n_moved, moved, steps, move, of_node, kept, lo, mass, count):
    """Move nested shares of the labelling ``worst``; return the new number of labellings.

    moved and steps (n_moved,): the components and how much mass each moves.
    """
    order = np.empty(n_moved, np.intp)  # largest step first
    for c in range(n_moved):
        rank = c
        while rank > 0 and steps[order[rank - 1]] < steps[c]:
            order[rank] = order[rank - 1]
            rank -= 1
        order[rank] = c
    mass[worst] -= steps[order[0]]
    labels = kept[worst, lo : lo + len(move.best)].copy()
    for rank in range(n_moved):
        for i in range(len(labels)):
            if of_node[i] == moved[order[rank]]:
                labels[i] = move.best[i]
        amount = steps[order[rank]]
        if rank + 1 < n_moved:
            amount -= steps[order[rank + 1]]
        if amount > 0.0:
            count = _add_labelling(labels, amount, kept, lo, mass, count)
    at = 0
    while at < count:
        if mass[at] <= DUST:
            count -= 1
            mass[at] = mass[count]
            for i in range(len(labels)):
                kept[at, lo + i] = kept[count, lo + i]
        else:
            at += 1
    return count


@helper
def _worst_labelling(sample, scores, kept, lo, mass, count):
    """(The labelling with the lowest score, what all of them score on average)."""
    worst, lowest, total = 0, np.inf, 0.0
    for at in range(count):
        score = _score(sample, scores, kept[at, lo : lo + sample.n])
        total += mass[at] * score
        if score < lowest:
            worst, lowest = at, score
    return worst, total


@helper
def _step_mixture(
    worst, sample, move, components, rate, predictor, mixture, lo, design, weights, changes
):
    """A step of the best length for each component; return whether there was one."""
    kept, mass, count, r = mixture.labelling, mixture.mass[0], mixture.count, mixture.r
    number = find_components(sample, move, components)
    moved, steps = np.empty(number, np.intp), np.empty(number)
    n_moved = 0
    for c in range(number):
        if count[0] + n_moved >= len(mass):
            break
        step = step_weights(
            c, mass[worst], rate, sample, move, components, predictor, design, weights, changes
        )
        if step > 0.0:
            moved[n_moved] = c
            steps[n_moved] = step
            n_moved += 1
            for i in range(sample.n):
                if components.of_node[i] == c:
                    left = r[i, move.worst[i]] - step
                    r[i, move.worst[i]] = left if left > DUST else 0.0
                    r[i, move.best[i]] += step
    if n_moved > 0:
        count[0] = _split_labelling(
            worst, n_moved, moved, steps, move, components.of_node, kept, lo, mass, count[0]
        )
    return n_moved > 0


@part
def _own_mixture(mixtures, s, lo, hi):
    """The adversary of sample s alone, but for its labellings, which are columns from lo on."""
    return Mixtures(
        mixtures.r[lo:hi],
        mixtures.labelling,
        mixtures.mass[s : s + 1],
        mixtures.count[s : s + 1],
    )


@kernel
def visit_cyclic_samples(
    order,
    structure,
    buckets,
    design,
    weights,
    predictor,
    mixtures,
    visits,
    pending,
    buffers,
    scratch,
    changes,
):
    """Visit the samples of ``order`` one by one, as `visit_samples` visits those without cycles.

    pending and buffers: for one sample. Samples whose list could overflow are left alone; the
    caller makes the lists longer.
    """
    n_nodes, k = structure.offsets[-1], weights.node.shape[1]
    buffer, components = own_scores(0, buffers), scratch.components
    # Junction trees know the nodes and slots of all samples.
    augmented, best = np.empty((n_nodes, k)), np.zeros(n_nodes, np.intp)
    place, values = np.zeros(len(structure.parent), np.intp), np.empty(len(structure.offsets) - 1)
    trees = JunctionTrees(
        structure.parent, place, buckets[0], buckets[1], buckets[2], buckets[3], buckets[4]
    )
    for s in order:
        lo, hi = structure.offsets[s], structure.offsets[s + 1]
        n, first_chord = hi - lo, n_nodes + structure.chord_offsets[s]
        sample = own_structure(s, structure, design.tables.table_of, scratch.sample)
        own, player = own_design(lo, hi, design), own_predictor(lo, hi, predictor)
        mixture = _own_mixture(mixtures, s, lo, hi)
        scores = SampleScores(
            buffer.unary, augmented[lo:hi], buffer.tables, buffer.place, buffer.distinct
        )
        move = Move(best[lo:hi], pending.move.worst[0], pending.move.cost_margin[0])
        enough = predictor.tolerance * n
        for number in range(visits.inner):
            gather_scores(sample, own, weights, scratch.place_of, scores)
            for j in range(sample.m):
                place[lo + j if j < n else first_chord + j - n] = scores.place[j]
            regret = augment(n, player, mixture.r, scores.unary, scores.augmented)
            bucket_max(s, s + 1, structure.offsets, trees, augmented, buffer.tables, best, values)
            worst, average = _worst_labelling(
                sample, scores, mixture.labelling, lo, mixture.mass[0], mixture.count[0]
            )
            gap = values[s] - average
            if number == 0:
                visits.gap[s] = gap
                visits.predictor_regret[s] = regret
            if gap <= enough:
                break
            if number == 0:
                enough = max(enough, 0.1 * gap)
            for i in range(n):
                move.worst[i] = mixture.labelling[worst, lo + i]
            cost_margins(n, scores, move)
            if not _step_mixture(
                worst,
                sample,
                move,
                components,
                visits.rate[s],
                player,
                mixture,
                lo,
                own,
                weights,
                changes,
            ):
                break
