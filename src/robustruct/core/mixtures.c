/* Block-coordinate ascent as in ascent.c, for samples with cycles.
 *
 * Node and edge marginals alone do not say which labellings make them up once there are cycles, so the
 * adversary of a sample is kept as a list of labellings with their masses. A step moves mass from the
 * worst of them to the best labelling; as on trees, each connected component of the nodes where they
 * differ takes its own step. Component C then has the best labels instead of the worst in a share
 * step_C of the mass of the worst; the shares are nested (a labelling that has the best labels on a
 * component has them on all with larger steps), so that c components make c new labellings. */
#include "ascent.h"
#include "cliques.h"

/* The adversary of one sample. */
typedef struct {
    double *r;        /* (n, k) */
    Index *labelling; /* labels (n) of each, ``stride`` apart */
    Index stride, room;
    double *mass; /* (room) */
    Index *count;
} Mixture;

/* What a call needs beside the scratch of ascent.c. */
typedef struct {
    CliqueScratch cliques;
    Index *order;  /* (nodes) components that have moved, largest step first */
    Index *labels; /* (nodes) */
} MixtureScratch;

static Mixture own_mixture(const Mixtures *all, Index s, Index lo)
{
    return (Mixture){all->r + lo * all->n_labels, all->labelling + lo, all->n_nodes, all->n_room,
                     all->mass + s * all->n_room, all->count + s};
}

/* The score of labels (n) with costs. */
static double score(const Sample *sample, const SampleScores *scores, const Index *labels)
{
    const Index k = scores->n_labels;
    double total = 0.0;
    for (Index i = 0; i < sample->n; i++) total += scores->augmented[i * k + labels[i]];
    for (Index j = 0; j < sample->m; j++) {
        if (sample->parent[j] < 0) continue;
        const double *table = scores->tables + scores->place[j] * k * k;
        total += table[labels[sample->child[j]] * k + labels[sample->parent[j]]];
    }
    return total;
}

/* The labelling with the lowest score; average, out: what all of them score together. */
static Index worst_labelling(const Sample *sample, const SampleScores *scores,
                             const Mixture *mixture, double *average)
{
    double lowest = INFINITY, total = 0.0;
    Index worst = 0;
    for (Index at = 0; at < *mixture->count; at++) {
        const double own = score(sample, scores, mixture->labelling + at * mixture->stride);
        total += mixture->mass[at] * own;
        if (own < lowest) {
            lowest = own;
            worst = at;
        }
    }
    *average = total;
    return worst;
}

/* Give mass to a labelling (n), which may be in the list already. */
static void add_labelling(Index n, const Index *labels, double amount, const Mixture *mixture)
{
    const size_t size = (size_t)n * sizeof *labels;
    Index at = 0;
    while (at < *mixture->count && memcmp(mixture->labelling + at * mixture->stride, labels, size))
        at++;
    if (at == *mixture->count) {
        memcpy(mixture->labelling + at * mixture->stride, labels, size);
        mixture->mass[at] = 0.0;
        ++*mixture->count;
    }
    mixture->mass[at] += amount;
}

/* Labellings with hardly any mass leave the list; the last one takes their place. */
static void drop_dust(Index n, const Mixture *mixture)
{
    for (Index at = 0; at < *mixture->count;) {
        if (mixture->mass[at] > DUST) {
            at++;
            continue;
        }
        const Index last = --*mixture->count;
        mixture->mass[at] = mixture->mass[last];
        memmove(mixture->labelling + at * mixture->stride,
                mixture->labelling + last * mixture->stride, (size_t)n * sizeof(Index));
    }
}

/* Move the steps of n_moved components of the labelling ``worst``, which are nested. */
static void split_labelling(Index worst, Index n_moved, const Scratch *scratch, const Move *move,
                            const Mixture *mixture, const MixtureScratch *more)
{
    const Components *components = &scratch->components;
    const Index n = scratch->sample.n, *order = more->order;
    const double *step = components->step;
    Index *labels = more->labels;
    mixture->mass[worst] -= step[order[0]];
    memcpy(labels, mixture->labelling + worst * mixture->stride, (size_t)n * sizeof *labels);
    for (Index rank = 0; rank < n_moved; rank++) {
        for (Index i = 0; i < n; i++)
            if (components->of_node[i] == order[rank]) labels[i] = move->best[i];
        double amount = step[order[rank]];
        if (rank + 1 < n_moved) amount -= step[order[rank + 1]];
        if (amount > 0.0) add_labelling(n, labels, amount, mixture);
    }
    drop_dust(n, mixture);
}

/* A step of the best length for each component, as far as the list has room; return whether there
 * was one. */
static bool step_mixture(Index worst, double rate, const Ascent *ascent, Scratch *scratch,
                         const Move *move, const Mixture *mixture, const MixtureScratch *more)
{
    Components *components = &scratch->components;
    const Index k = ascent->weights.n_labels;
    Index n_moved = 0, *order = more->order;
    find_components(move, scratch);
    for (Index c = 0; c < components->number && *mixture->count + n_moved < mixture->room; c++) {
        const double step = step_weights(c, mixture->mass[worst], rate, ascent, scratch, move);
        if (!(step > 0.0)) continue;
        components->step[c] = step;
        Index rank = n_moved++;
        for (; rank > 0 && components->step[order[rank - 1]] < step; rank--)
            order[rank] = order[rank - 1];
        order[rank] = c;
        for (Index i = 0; i < scratch->sample.n; i++) {
            if (components->of_node[i] != c) continue;
            double *r = mixture->r + i * k;
            const double left = r[move->worst[i]] - step;
            r[move->worst[i]] = left > DUST ? left : 0.0;
            r[move->best[i]] += step;
        }
    }
    if (n_moved > 0) split_labelling(worst, n_moved, scratch, move, mixture, more);
    return n_moved > 0;
}

/* Find and make the moves of sample s. */
static void visit_cyclic(Index s, const Ascent *ascent, const JunctionTrees *trees,
                         const Mixtures *mixtures, Scratch *scratch, const MixtureScratch *more)
{
    take_sample(s, ascent, scratch);
    const Sample *sample = &scratch->sample;
    const Index lo = sample->lo, n = sample->n;
    const Visits *visits = &ascent->visits;
    const SampleScores scores = own_scores(&ascent->scores, 0);
    const Move move = own_move(&ascent->pending.move, 0);
    const Mixture mixture = own_mixture(mixtures, s, lo);
    const CliqueSample graph = {trees,         lo,           lo + n,           scores.n_labels,
                                scores.augmented, scores.tables, scores.place, scores.place + n};
    double enough = ascent->predictor.tolerance * (double)n;
    for (Index number = 0; number < visits->inner; number++) {
        gather_scores(ascent, scratch, &scores);
        const double regret = augment(ascent, scratch, mixture.r, &scores);
        double average, gap = best_over_cliques(&graph, &more->cliques, move.best);
        const Index worst = worst_labelling(sample, &scores, &mixture, &average);
        gap -= average;
        if (number == 0) {
            visits->gap[s] = gap;
            visits->predictor_regret[s] = regret;
        }
        if (gap <= enough) return;
        if (number == 0) enough = max_double(enough, 0.1 * gap);
        memcpy(move.worst, mixture.labelling + worst * mixture.stride, (size_t)n * sizeof(Index));
        cost_margins(n, &scores, &move);
        if (!step_mixture(worst, visits->rate[s], ascent, scratch, &move, &mixture, more)) return;
    }
}

/* Visit n samples, in ``order``, one by one. Samples whose list could overflow are left alone; the
 * caller makes the lists longer. */
API Index visit_cyclic_samples(const Index *order, Index n, const Ascent *ascent,
                               const JunctionTrees *trees, const Mixtures *mixtures)
{
    const Structure *structure = &ascent->structure;
    const Index longest = ascent->scores.n_nodes;
    Scratch scratch;
    MixtureScratch more;
    bool ready = new_scratch(ascent, &scratch);
    ready &= clique_scratch(0, structure->n_samples, structure->offsets, trees,
                            ascent->weights.n_labels, false, &more.cliques);
    more.order = NEW(Index, 2 * longest);
    more.labels = more.order + longest;
    ready &= more.order != NULL;
    for (Index at = 0; ready && at < n; at++)
        visit_cyclic(order[at], ascent, trees, mixtures, &scratch, &more);
    free_scratch(&scratch);
    free_clique_scratch(&more.cliques);
    free(more.order);
    return ready ? 0 : NO_MEMORY;
}
