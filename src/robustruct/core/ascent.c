/* Block-coordinate ascent on the dual of training, one sample (block) at a time.
 *
 * For a sample with adversary marginals (r, q) a step takes the best labelling for the adversary and
 * its worst labelling inside the support of q (oracle.c) and moves mass from the worst to the best
 * (steps.c); theta follows. Gathering scores and finding the two labellings takes most of the time and
 * changes nothing, so threads do it for several samples before the first of them steps. Later steps of
 * a visit start from the same scores, updated by the sample's own steps.
 *
 * The predictor is kept close to a centre p0 (method of multipliers). With 1/mu = 0 it stays at p0;
 * with p0 at the truth this is a structured SVM (block-coordinate Frank-Wolfe: Lacoste-Julien et al.,
 * 2013; with pairwise steps). */
#include "ascent.h"
#include "counters.h"

bool new_scratch(const Ascent *ascent, Scratch *scratch)
{
    const Index k = ascent->weights.n_labels, n = ascent->scores.n_nodes, m = ascent->scores.n_slots;
    const Index n_tables = ascent->design.tables.n_tables;
    Index *indices = NEW(Index, 7 * m + 2 + n_tables);
    double *numbers = NEW(double, m + n * k + 3 * k);
    scratch->sample = (Sample){0, 0, 0, indices, NULL, NULL};
    scratch->components.step = numbers;
    scratch->labels = NEW(int32_t, k);
    if (!indices || !numbers || !scratch->labels) return false;
    scratch->sample.parent = indices + m;
    scratch->sample.table_of = indices + 2 * m;
    scratch->components = (Components){indices + 3 * m, indices + 4 * m, indices + 5 * m,
                                       indices + 6 * m, numbers, 0};
    scratch->place_of = indices + 7 * m + 2;
    for (Index t = 0; t < n_tables; t++) scratch->place_of[t] = -1;
    scratch->messages = numbers + m;
    scratch->rows = scratch->messages + n * k;
    return true;
}

void free_scratch(Scratch *scratch)
{
    free(scratch->sample.child);
    free(scratch->components.step);
    free(scratch->labels);
}

void take_sample(Index s, const Ascent *ascent, Scratch *scratch)
{
    const Structure *structure = &ascent->structure;
    const Index lo = structure->offsets[s], *table_of = ascent->design.tables.table_of;
    const Index n_nodes = structure->offsets[structure->n_samples];
    const Index first = n_nodes + structure->chord_offsets[s];
    Sample *sample = &scratch->sample;
    sample->lo = lo;
    sample->n = structure->offsets[s + 1] - lo;
    sample->m = sample->n + structure->chord_offsets[s + 1] - structure->chord_offsets[s];
    for (Index j = 0; j < sample->m; j++) {
        const Index slot = j < sample->n ? lo + j : first + j - sample->n;
        const Index above = structure->parent[slot];
        sample->child[j] = structure->child[slot] - lo;
        sample->parent[j] = above >= 0 ? above - lo : -1;
        sample->table_of[j] = table_of[slot];
    }
}

Marginals own_marginals(const Marginals *all, Index lo)
{
    Marginals own = *all;
    own.r += lo * own.n_labels;
    own.pair += lo * own.n_room;
    own.mass += lo * own.n_room;
    own.count += lo;
    return own;
}

SampleScores own_scores(const SampleScores *all, Index number)
{
    SampleScores own = *all;
    own.unary += number * own.n_nodes * own.n_labels;
    own.augmented += number * own.n_nodes * own.n_labels;
    own.tables += number * own.n_tables * own.n_labels * own.n_labels;
    own.place += number * own.n_slots;
    own.distinct += number * own.n_tables;
    return own;
}

Move own_move(const Move *all, Index number)
{
    Move own = *all;
    own.best += number * own.n_longest;
    own.worst += number * own.n_longest;
    own.cost_margin += number * own.n_longest;
    return own;
}

/* Find the first move of sample s; return whether there is one. */
static bool find_first(Index s, const Ascent *ascent, Scratch *scratch, const Marginals *adversary,
                       const SampleScores *scores, const Move *move)
{
    take_sample(s, ascent, scratch);
    const Marginals own = own_marginals(adversary, scratch->sample.lo);
    const double enough = ascent->predictor.tolerance * (double)scratch->sample.n;
    gather_scores(ascent, scratch, scores);
    const Found found = find_move(ascent, scratch, &own, scores, enough, move);
    ascent->visits.gap[s] = found.gap;
    ascent->visits.predictor_regret[s] = found.regret;
    return found.moves;
}

/* Make the move of sample s as far as it still gains under theta; find and make later ones. */
static void make_moves(Index s, const Ascent *ascent, Scratch *scratch, const Marginals *adversary,
                       const SampleScores *scores, const Move *move)
{
    const Visits *visits = &ascent->visits;
    const bool kept = visits->products.n_kept > 0;
    take_sample(s, ascent, scratch);
    const Marginals own = own_marginals(adversary, scratch->sample.lo);
    const double enough = max_double(ascent->predictor.tolerance * (double)scratch->sample.n,
                                     0.1 * visits->gap[s]);
    for (Index number = 1;; number++) {
        const double rate = visits->rate[s];
        if (!take_steps(rate, ascent, scratch, move, &own) || number == visits->inner) return;
        if (kept)
            update_scores(s, rate, ascent, scratch, move, scores);
        else
            gather_scores(ascent, scratch, scores);
        if (!find_move(ascent, scratch, &own, scores, enough, move).moves) return;
    }
}

/* Indices of pending.counters, which threads share. */
enum { TAKEN, ANSWERED, OPEN };

/* Find moves of samples of ``order`` until all open ones are taken; return the number found. */
static Index find_open(Index thread, const Index *order, const Ascent *ascent,
                       const Marginals *adversary, Scratch *scratch)
{
    const PendingMoves *pending = &ascent->pending;
    Counter *counters = (Counter *)pending->counters;
    const Index open = read_counter(counters + OPEN);
    for (Index at; (at = take_below(counters + TAKEN, open)) >= 0;) {
        const Index place = at % pending->n_at_once;
        const Move move = own_move(&pending->move, place);
        const SampleScores scores =
            own_scores(&ascent->scores, ascent->visits.inner > 1 ? place : thread);
        pending->moves[place] = find_first(order[at], ascent, scratch, adversary, &scores, &move);
        add_one(counters + ANSWERED);
    }
    return open;
}

/* Visit n samples, in ``order``: moves are found for some, these step in order, and so on.
 *
 * Several threads may call this together; only thread 0, the leader, steps. Each thread takes the next
 * free sample; the result does not depend on which thread takes it, and the leader waits only for
 * threads that have taken a sample. Other samples may have moved theta since a move was found: it may
 * no longer be the best one, but its step has the best length under the present theta. */
API Index visit_samples(Index thread, const Index *order, Index n, const Ascent *ascent,
                        const Marginals *adversary)
{
    const PendingMoves *pending = &ascent->pending;
    Counter *counters = (Counter *)pending->counters;
    Scratch scratch;
    const bool ready = new_scratch(ascent, &scratch);
    if (!ready && thread == 0) { /* no thread waits for a leader that has failed */
        write_counter(counters + TAKEN, n);
        write_counter(counters + OPEN, n);
    }
    for (Index stepped = 0; ready && stepped < n;) {
        const Index open = find_open(thread, order, ascent, adversary, &scratch);
        if (thread > 0) {
            if (open == n) break;
            wait_for(counters + OPEN, open + 1);
            continue;
        }
        wait_for(counters + ANSWERED, open);
        for (; stepped < open; stepped++) {
            const Index place = stepped % pending->n_at_once;
            if (!pending->moves[place]) continue;
            const Move move = own_move(&pending->move, place);
            const SampleScores scores =
                own_scores(&ascent->scores, ascent->visits.inner > 1 ? place : 0);
            make_moves(order[stepped], ascent, &scratch, adversary, &scores, &move);
        }
        write_counter(counters + OPEN, min_index(open + pending->n_at_once, n));
    }
    free_scratch(&scratch);
    return ready ? 0 : NO_MEMORY;
}
