/* Repairs and sums of the adversary that training stores: on forests node marginals and, for the edge of
 * each node, a short list of pairs of labels with masses; with cycles a list of labellings with masses
 * for each sample. A pair is the code b k + a of label b of the child and a of the parent. */
#include "core.h"

INLINE Index label_below(int32_t pair, Index k) { return (uint32_t)pair / (uint32_t)k; }
INLINE Index label_above(int32_t pair, Index k) { return (uint32_t)pair % (uint32_t)k; }

/* Remove pair ``at`` of node i; the last pair takes its place. */
static void drop_pair(const Marginals *marginals, Index i, Index at)
{
    const Index first = i * marginals->n_room, last = first + --marginals->count[i];
    marginals->pair[first + at] = marginals->pair[last];
    marginals->mass[first + at] = marginals->mass[last];
}

/* Drop the pairs whose label below has no mass, and the labels above that have no pair left. total
 * (k): scratch. */
static void drop_upwards(Index i, Index above, const Marginals *marginals, double *total)
{
    const Index k = marginals->n_labels, first = i * marginals->n_room;
    memset(total, 0, (size_t)k * sizeof *total);
    for (Index at = 0; at < marginals->count[i];) {
        const int32_t pair = marginals->pair[first + at];
        if (marginals->r[i * k + label_below(pair, k)] == 0.0)
            drop_pair(marginals, i, at);
        else
            total[label_above(pair, k)] += marginals->mass[first + at++];
    }
    for (Index a = 0; a < k; a++)
        if (total[a] == 0.0) marginals->r[above * k + a] = 0.0;
}

/* Scale the pairs of node i to the marginals of its parent, and sum them to its own marginals. */
static void scale_downwards(Index i, Index above, const Marginals *marginals, double *total)
{
    const Index k = marginals->n_labels, first = i * marginals->n_room;
    const double *r_above = marginals->r + above * k;
    double *mass = marginals->mass + first, *r = marginals->r + i * k;
    const int32_t *pair = marginals->pair + first;
    memset(total, 0, (size_t)k * sizeof *total);
    memset(r, 0, (size_t)k * sizeof *r);
    for (Index at = 0; at < marginals->count[i]; at++) total[label_above(pair[at], k)] += mass[at];
    for (Index at = 0; at < marginals->count[i];) {
        const Index a = label_above(pair[at], k);
        if (r_above[a] == 0.0) {
            drop_pair(marginals, i, at);
            continue;
        }
        mass[at] *= r_above[a] / total[a];
        r[label_below(pair[at], k)] += mass[at];
        at++;
    }
}

/* Make r and the pairs of samples first .. last-1 exactly consistent. Steps move masses with
 * rounding, and masses below DUST are removed from nodes and edges separately. */
API Index repair_pairs(Index first, Index last, const Structure *structure, const Marginals *marginals)
{
    const Index k = marginals->n_labels, *parent = structure->parent;
    const Index lo = structure->offsets[first], hi = structure->offsets[last];
    double *total = NEW(double, k);
    if (!total) return NO_MEMORY;
    for (Index i = lo; i < hi; i++)
        if (parent[i] >= 0) drop_upwards(i, parent[i], marginals, total);
    for (Index i = hi - 1; i >= lo; i--) {
        if (parent[i] >= 0) {
            scale_downwards(i, parent[i], marginals, total);
            continue;
        }
        double *r = marginals->r + i * k, whole = 0.0;
        for (Index b = 0; b < k; b++) whole += r[b];
        for (Index b = 0; b < k; b++) r[b] /= whole;
    }
    free(total);
    return 0;
}

/* Add share[i] times the edge marginals of every node to its table in out (T, k, k). */
API Index pair_sums(const Structure *structure, const Index *table_of, const double *share,
                    const Marginals *marginals, double *out)
{
    const Index k = marginals->n_labels;
    for (Index i = 0; i < marginals->n_nodes; i++) {
        if (structure->parent[i] < 0) continue;
        double *table = out + table_of[i] * k * k;
        const Index first = i * marginals->n_room;
        for (Index at = first; at < first + marginals->count[i]; at++)
            table[marginals->pair[at]] += share[i] * marginals->mass[at];
    }
    return 0;
}

/* Normalise the masses of samples first .. last-1, and compute their node marginals. */
API Index repair_mixtures(Index first, Index last, const Structure *structure,
                          const Mixtures *mixtures)
{
    const Index k = mixtures->n_labels;
    for (Index s = first; s < last; s++) {
        const Index lo = structure->offsets[s], hi = structure->offsets[s + 1];
        double *mass = mixtures->mass + s * mixtures->n_room, total = 0.0;
        for (Index at = 0; at < mixtures->count[s]; at++) total += mass[at];
        for (Index at = 0; at < mixtures->count[s]; at++) mass[at] /= total;
        memset(mixtures->r + lo * k, 0, (size_t)((hi - lo) * k) * sizeof(double));
        for (Index at = 0; at < mixtures->count[s]; at++) {
            const Index *labels = mixtures->labelling + at * mixtures->n_nodes;
            for (Index i = lo; i < hi; i++) mixtures->r[i * k + labels[i]] += mass[at];
        }
    }
    return 0;
}

/* Add share[i] times the edge marginals of every node's edges to their tables in out (T, k, k). */
API Index mixture_sums(const Structure *structure, const Index *table_of, const double *share,
                       const Mixtures *mixtures, double *out)
{
    const Index k = mixtures->n_labels, n_nodes = mixtures->n_nodes;
    for (Index s = 0; s < structure->n_samples; s++) {
        const double *mass = mixtures->mass + s * mixtures->n_room;
        const Index lo = structure->offsets[s], n = structure->offsets[s + 1] - lo;
        const Index first_chord = n_nodes + structure->chord_offsets[s];
        const Index m = n + structure->chord_offsets[s + 1] - structure->chord_offsets[s];
        for (Index j = 0; j < m; j++) {
            const Index slot = j < n ? lo + j : first_chord + j - n;
            const Index i = structure->child[slot], above = structure->parent[slot];
            if (above < 0) continue;
            double *table = out + table_of[slot] * k * k;
            for (Index at = 0; at < mixtures->count[s]; at++) {
                const Index *labels = mixtures->labelling + at * n_nodes;
                table[labels[i] * k + labels[above]] += share[i] * mass[at];
            }
        }
    }
    return 0;
}
