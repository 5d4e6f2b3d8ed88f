"""Block-coordinate ascent on the dual of training, one sample (block) at a time.

For a sample with adversary marginals (r, q) a step takes the best labelling for the adversary and
its worst labelling inside the support of q (kernels/labelling_oracle.py) and moves mass from the
worst to the best (kernels/component_steps.py), θ following. To gather the scores and find the two
takes most of the time and moves nothing, so several samples are worked on by several threads before
the first of them steps. Where a visit is several steps, the later ones start from the same scores,
less what the sample's own steps did to them.

The predictor is kept close to a centre p0 (method of multipliers, kernels/predictor.py). With
1/mu = 0 it stays at p0; with p0 at the truth that is a structured SVM.
"""

from robustruct.core.structs import Move, Products
from robustruct.kernels._atomic import add_one, read, take_below, wait_for, write
from robustruct.kernels._jit import kernel, part
from robustruct.kernels.component_steps import take_steps, update_scores
from robustruct.kernels.labelling_oracle import (
    find_move,
    gather_scores,
    own_design,
    own_marginals,
    own_predictor,
    own_scores,
    own_structure,
)

TAKEN, ANSWERED, OPEN = 0, 1, 2  # counters of `visit_samples`


@kernel
def visit_samples(
    thread,
    order,
    structure,
    design,
    weights,
    predictor,
    adversary,
    visits,
    pending,
    buffers,
    scratch,
    changes,
):
    """Visit the samples of ``order``: moves are found for some, these step in order, and so on.

    Several threads may call this together, of which number 0 leads: it alone steps. Each takes the
    next sample that nobody has taken; what comes out does not depend on who did what, and the
    leader waits only for threads that have taken a sample. Other samples may have moved θ since a
    move was found: it may no longer be the best one, but its step has the best length under θ as
    it is.

    pending: shared, for the samples that are worked on together. buffers: for their scores, or for
    those of every thread if a visit is one step. scratch: of this thread. changes: scratch of the
    leader.
    """
    counters, at_once = pending.counters, len(pending.moves)
    stepped, answered = 0, 0
    while True:
        number = 0
        if stepped < answered:
            at, number = stepped, 1
            stepped += 1
        else:
            ready = read(counters, OPEN)
            at = take_below(counters, TAKEN, ready)
            if at < 0 and thread > 0:
                if ready == len(order):
                    return
                wait_for(counters, OPEN, ready + 1)
                continue
            if at < 0:
                wait_for(counters, ANSWERED, ready)
                if ready == stepped:
                    return
                answered = ready
                continue
        place = at % at_once
        if number == 0 or pending.moves[place]:
            pending.moves[place] = _visit(
                order[at],
                number,
                structure,
                design,
                weights,
                predictor,
                adversary,
                visits,
                Move(
                    pending.move.best[place],
                    pending.move.worst[place],
                    pending.move.cost_margin[place],
                ),
                own_scores(place if visits.inner > 1 else thread, buffers),
                scratch,
                changes,
            )
        if number == 0:
            add_one(counters, ANSWERED)
        elif stepped == answered:
            write(counters, OPEN, min(answered + at_once, len(order)))


@part
def _visit(
    s,
    number,
    structure,
    design,
    weights,
    predictor,
    adversary,
    visits,
    move,
    scores,
    scratch,
    changes,
):
    """Find the first move of sample s (number 0); or make it and find and make later ones (1).

    A move is made as far as it is still worth it. Return whether there is another one. One
    function for both, so that what it calls is compiled once.
    """
    lo, hi = structure.offsets[s], structure.offsets[s + 1]
    sample = own_structure(s, structure, design.tables.table_of, scratch.sample)
    own = own_design(lo, hi, design)
    player = own_predictor(lo, hi, predictor)
    marginals = own_marginals(lo, hi, adversary)
    kept = len(visits.products.nodes) > 0
    enough = predictor.tolerance * (hi - lo)
    if number > 0:
        enough = max(enough, 0.1 * visits.gap[s])
    while True:
        if number > 0:
            moved = take_steps(
                sample,
                move,
                scratch.components,
                visits.rate[s],
                player,
                marginals,
                own,
                weights,
                changes,
            )
            if not moved or number == visits.inner:
                return False
            if kept:
                transposed, rate = design.tables.transposed, visits.rate[s]
                products = _own_products(s, visits.products)
                update_scores(rate, sample, move, scratch.components, transposed, products, scores)
        if number == 0 or not kept:
            gather_scores(sample, own, weights, scratch.place_of, scores)
        gap, regret, moves = find_move(
            sample, player, marginals, scores, scratch.messages, enough, move
        )
        if number == 0:
            visits.gap[s], visits.predictor_regret[s] = gap, regret
            return moves
        if not moves:
            return False
        number += 1


@part
def _own_products(s, products):
    """The products of sample s."""
    nodes, tables = products.node_start, products.table_start
    return Products(
        nodes,
        tables,
        products.nodes[nodes[s] : nodes[s + 1]],
        products.tables[tables[s] : tables[s + 1]],
    )
