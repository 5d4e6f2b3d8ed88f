/* Exact inference over the cliques of a triangulated graph: bucket elimination (Dechter, 1999).
 *
 * Bucket i holds node i and its m later neighbours s_1 < ... < s_m. Its table is indexed
 * [label of i, label of s_1, ..., label of s_m], the last running fastest: k^(m+1) numbers. Its
 * message to its parent s_1 leaves out the label of i: k^m numbers. All later neighbours of a child
 * bucket are in its parent's bucket, so messages are added to the parent's table. Only messages are
 * stored; tables are filled when needed, in memory that buckets share. */
#include "cliques.h"
#include "messages.h"
#include "simd.h"

static Index power(Index k, Index m)
{
    Index result = 1;
    for (; m > 0; m--) result *= k;
    return result;
}

/* Number of later neighbours of node i, among all nodes. */
INLINE Index n_later(const JunctionTrees *trees, Index i)
{
    return trees->offsets[i + 1] - trees->offsets[i];
}

/* Edges of node i, among all nodes: number -1 is its own, the others are its chords. */
#define EACH_EDGE(e, trees, i) \
    for (Index e = -1; e < (trees)->chord_start[(i) + 1] - (trees)->chord_start[i]; e++)

/* The other end of edge e of node i, or -1. */
INLINE Index edge_parent(const JunctionTrees *trees, Index i, Index e)
{
    return trees->parent[e < 0 ? i : trees->n_nodes + trees->chord_start[i] + e];
}

/* The number of edge e of node i among the sample's chords. */
INLINE Index chord_number(const JunctionTrees *trees, Index lo, Index i, Index e)
{
    return trees->chord_start[i] - trees->chord_start[lo] + e;
}

INLINE Index edge_table(const CliqueSample *sample, Index i, Index e)
{
    return e < 0 ? sample->table_of[i - sample->lo]
                 : sample->chord_table_of[chord_number(sample->trees, sample->lo, i, e)];
}

#define EACH_CHILD(c, trees, i) \
    for (Index c = (trees)->first_child[i]; c >= 0; c = (trees)->next_child[c])

/* ------------------------------------------------------------------------------ tables and messages
 *
 * Arrays indexed by the labels of node i and of some of its later neighbours (scores of an edge, the
 * message of a child) are broadcast against the table of i in runs. The last members of the bucket
 * either all index the array, and entries of both run side by side, or none does, and one entry serves
 * the whole run. The members before them form groups that index the array or not. */
typedef struct {
    Index size;                              /* entries of the table */
    Index run;                               /* entries of a run */
    bool along;                              /* whether its members take part */
    int n_groups;                            /* the first is the run itself */
    Index length[64], stride[64], digit[64]; /* k^m fits into 63 bits: there are no more for k > 1 */
} Walk;

/* Lay out the walk over an array indexed by i and by the n_inner nodes ``inner``. */
static void lay_out(const JunctionTrees *trees, Index k, Index i, Index n_inner, const Index *inner,
                    Walk *walk)
{
    const Index *members = trees->members + trees->offsets[i];
    Index step = 1;
    int n = 0;
    walk->size = 1;
    for (Index j = k > 1 ? n_later(trees, i) - 1 : -1; j >= -1; j--) {
        const bool inside = j < 0 || (n_inner > 0 && members[j] == inner[n_inner - 1]);
        if (n > 0 && inside == (walk->stride[n - 1] > 0)) {
            walk->length[n - 1] *= k;
        } else {
            walk->length[n] = k;
            walk->stride[n] = inside ? step : 0;
            walk->digit[n++] = 0;
        }
        if (inside) {
            step *= k;
            n_inner--;
        }
        walk->size *= k;
    }
    walk->n_groups = n;
    walk->run = walk->length[0];
    walk->along = walk->stride[0] > 0;
}

static void lay_out_child(const JunctionTrees *trees, Index k, Index i, Index child, Walk *walk)
{
    const Index *members = trees->members + trees->offsets[child];
    lay_out(trees, k, i, n_later(trees, child) - 1, members + 1, walk);
}

/* Offset of the next runs in the array, after those of the first two groups from ``at`` on. */
INLINE Index next_runs(Walk *walk, Index at)
{
    for (int g = 2; g < walk->n_groups; g++) {
        at += walk->stride[g];
        if (++walk->digit[g] < walk->length[g]) return at;
        at -= walk->length[g] * walk->stride[g];
        walk->digit[g] = 0;
    }
    return at;
}

/* For every run: its offset in the table (base) and in the array (at). */
#define EACH_RUN(walk, base, at)                                                               \
    for (Index first_ = 0, base = 0, n_ = (walk)->n_groups > 1 ? (walk)->length[1] : 1,        \
               step_ = (walk)->n_groups > 1 ? (walk)->stride[1] : 0;                           \
         base < (walk)->size; first_ = next_runs(walk, first_))                                \
        for (Index at = first_, left_ = n_; left_ > 0; left_--, base += run, at += step_)

/* table += values. */
static void add_to_table(Walk *walk, const double *restrict values, double *restrict table)
{
    const Index run = walk->run;
    if (walk->along) {
        EACH_RUN(walk, base, at)
        for (Index a = 0; a < run; a++) table[base + a] += values[at + a];
    } else {
        EACH_RUN(walk, base, at)
        for (Index a = 0; a < run; a++) table[base + a] += values[at];
    }
}

/* out += the table summed over labels that do not index out, ``portion`` entries of a run at a time. */
static void sum_table(Walk *walk, Index portion, const double *restrict table, double *restrict out)
{
    const Index run = walk->run;
    if (walk->along) {
        EACH_RUN(walk, base, at)
        for (Index a = 0; a < run; a++) out[at + a] += table[base + a];
    } else {
        EACH_RUN(walk, base, at)
        for (Index begin = base; begin < base + run; begin += portion) {
            double total = 0.0;
            for (Index a = 0; a < portion; a++) total += table[begin + a];
            out[at] += total;
        }
    }
}

/* messages begin at start (n + 1), out; return how many numbers they have. */
static Index message_starts(Index lo, Index hi, const JunctionTrees *trees, Index k, Index *start)
{
    start[0] = 0;
    for (Index i = lo; i < hi; i++)
        start[i - lo + 1] = start[i - lo] + power(k, n_later(trees, i));
    return start[hi - lo];
}

CliqueSample clique_sample(Index lo, Index hi, const JunctionTrees *trees, const ScoreArrays *scores)
{
    const Index k = scores->n_labels, first_chord = scores->n_nodes + trees->chord_start[lo];
    return (CliqueSample){trees,          lo, hi, k, scores->unary + lo * k, scores->tables,
                          scores->table_of + lo, scores->table_of + first_chord};
}

bool clique_scratch(Index first, Index last, const Index *offsets, const JunctionTrees *trees, Index k,
                    bool sums, CliqueScratch *scratch)
{
    Index nodes = 0, messages = 0, message = 1;
    for (Index s = first; s < last; s++) {
        Index total = 0;
        for (Index i = offsets[s]; i < offsets[s + 1]; i++) {
            const Index size = power(k, n_later(trees, i));
            total += size;
            message = max_index(message, size);
        }
        nodes = max_index(nodes, offsets[s + 1] - offsets[s]);
        messages = max_index(messages, total);
    }
    scratch->start = NEW(Index, nodes + 1);
    scratch->messages = NEW(double, messages);
    scratch->down = sums ? NEW(double, messages) : NULL;
    scratch->table = NEW(double, message * k);
    scratch->top = NEW(double, sums ? message : 0);
    scratch->joint = NEW(double, k * k);
    return scratch->start && scratch->messages && (scratch->down || !sums) && scratch->table &&
           scratch->top && scratch->joint;
}

void free_clique_scratch(CliqueScratch *scratch)
{
    free(scratch->start);
    free(scratch->messages);
    free(scratch->down);
    free(scratch->table);
    free(scratch->top);
    free(scratch->joint);
}

/* table, out: the scores of bucket i and the messages of its children. */
static void fill_table(const CliqueSample *sample, Index i, const Index *start,
                       const double *messages, double *table)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo, size = power(k, n_later(trees, i));
    Walk walk;
    for (Index x = 0; x < k; x++) {
        const double score = sample->unary[(i - lo) * k + x];
        for (Index rest = x * size; rest < (x + 1) * size; rest++) table[rest] = score;
    }
    EACH_EDGE(e, trees, i)
    {
        const Index above = edge_parent(trees, i, e);
        if (above < 0) continue;
        lay_out(trees, k, i, 1, &above, &walk);
        add_to_table(&walk, sample->tables + edge_table(sample, i, e) * k * k, table);
    }
    EACH_CHILD(c, trees, i)
    {
        lay_out_child(trees, k, i, c, &walk);
        add_to_table(&walk, messages + start[c - lo], table);
    }
}

INLINE void best_stretch(int R, Index first, Index size, Index k, const double *table, double *out)
{
    Vec best[4];
    UNROLL for (int r = 0; r < R; r++) best[r] = load(table + place(first, r, size));
    for (Index x = 1; x < k; x++)
        UNROLL for (int r = 0; r < R; r++)
            best[r] = maximum(load(table + x * size + place(first, r, size)), best[r]);
    UNROLL for (int r = 0; r < R; r++) store(out + place(first, r, size), best[r]);
}

/* out[rest] = max over x of table[x, rest]. */
static void best_labels(Index k, Index size, const double *table, double *out)
{
    if (size >= LANES) {
        FOR_LABELS(size, best_stretch, k, table, out)
        return;
    }
    for (Index rest = 0; rest < size; rest++) {
        out[rest] = table[rest];
        for (Index x = 1; x < k; x++)
            out[rest] = table[x * size + rest] > out[rest] ? table[x * size + rest] : out[rest];
    }
}

/* ------------------------------------------------------------------------------ the best labelling */

/* messages, out: the best score below each bucket, by the labels of its later neighbours. */
static void max_up(const CliqueSample *sample, const CliqueScratch *scratch)
{
    const JunctionTrees *trees = sample->trees;
    const Index *start = scratch->start;
    for (Index i = sample->lo; i < sample->hi; i++) {
        double *out = scratch->messages + start[i - sample->lo];
        fill_table(sample, i, start, scratch->messages, scratch->table);
        best_labels(sample->k, power(sample->k, n_later(trees, i)), scratch->table, out);
    }
}

/* Offset in the message of c of the labels (n) of its later neighbours, without its parent's. */
static Index place_in(const CliqueSample *sample, Index c, const Index *labels)
{
    const JunctionTrees *trees = sample->trees;
    Index at = 0;
    for (Index j = trees->offsets[c] + 1; j < trees->offsets[c + 1]; j++)
        at = at * sample->k + labels[trees->members[j] - sample->lo];
    return at;
}

/* out[x] = the score of label x at node i and of its edges, given the labels (n) of later nodes. */
static void scores_given(const CliqueSample *sample, Index i, const Index *labels, double *out)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo;
    memcpy(out, sample->unary + (i - lo) * k, (size_t)k * sizeof *out);
    EACH_EDGE(e, trees, i)
    {
        const Index above = edge_parent(trees, i, e);
        if (above < 0) continue;
        const double *column = sample->tables + edge_table(sample, i, e) * k * k + labels[above - lo];
        for (Index x = 0; x < k; x++) out[x] += column[x * k];
    }
}

double best_over_cliques(const CliqueSample *sample, const CliqueScratch *scratch, Index *labels)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo, *start = scratch->start;
    double total = 0.0, *score = scratch->joint;
    message_starts(lo, sample->hi, trees, k, scratch->start);
    max_up(sample, scratch);
    for (Index i = sample->hi - 1; i >= lo; i--) {
        if (n_later(trees, i) == 0) total += scratch->messages[start[i - lo]];
        scores_given(sample, i, labels, score);
        EACH_CHILD(c, trees, i)
        {
            const Index step = power(k, n_later(trees, c) - 1);
            const double *message = scratch->messages + start[c - lo] + place_in(sample, c, labels);
            for (Index x = 0; x < k; x++) score[x] += message[x * step];
        }
        Index choice = 0;
        for (Index x = 1; x < k; x++)
            if (score[x] > score[choice]) choice = x;
        labels[i - lo] = choice;
    }
    return total;
}

/* Best labelling and its score for samples first .. last-1; labels (N), values (S), out. */
API Index clique_max(Index first, Index last, const Structure *structure, const JunctionTrees *trees,
                     const ScoreArrays *scores, Index *labels, double *values)
{
    const Index *offsets = structure->offsets;
    CliqueScratch scratch;
    const bool room = clique_scratch(first, last, offsets, trees, scores->n_labels, false, &scratch);
    for (Index s = first; room && s < last; s++) {
        const CliqueSample sample = clique_sample(offsets[s], offsets[s + 1], trees, scores);
        values[s] = best_over_cliques(&sample, &scratch, labels + offsets[s]);
    }
    free_clique_scratch(&scratch);
    return room ? 0 : NO_MEMORY;
}

/* -------------------------------------------------------------------------------------- marginals */

/* messages, out: the log-sum of exp(score) below each bucket. */
static void log_sum_up(const CliqueSample *sample, const CliqueScratch *scratch)
{
    const Index k = sample->k, *start = scratch->start;
    double *top = scratch->top;
    for (Index i = sample->lo; i < sample->hi; i++) {
        const Index size = start[i - sample->lo + 1] - start[i - sample->lo];
        double *out = scratch->messages + start[i - sample->lo];
        fill_table(sample, i, start, scratch->messages, scratch->table);
        best_labels(k, size, scratch->table, top);
        for (Index rest = 0; rest < size; rest++) out[rest] = 0.0;
        for (Index x = 0; x < k; x++) {
            const double *row = scratch->table + x * size;
            for (Index rest = 0; rest < size; rest++)
                if (row[rest] > -INFINITY) out[rest] += exp(row[rest] - top[rest]);
        }
        for (Index rest = 0; rest < size; rest++)
            out[rest] = out[rest] > 0.0 ? top[rest] + log(out[rest]) : -INFINITY;
    }
}

/* Scores of a bucket become masses: above[rest] P(label | rest), relative to the largest term:
 * beside scores of 1e17 a logarithm of the sum would be lost. top and total (size): scratch. */
static void conditionals(Index k, Index size, const double *above, double *table, double *top,
                         double *total)
{
    best_labels(k, size, table, top);
    for (Index rest = 0; rest < size; rest++) total[rest] = 0.0;
    for (Index x = 0; x < k; x++) {
        double *row = table + x * size;
        for (Index rest = 0; rest < size; rest++) {
            const bool occurs = row[rest] > -INFINITY && above[rest] > 0.0;
            row[rest] = occurs ? exp(row[rest] - top[rest]) : 0.0;
            total[rest] += row[rest];
        }
    }
    for (Index rest = 0; rest < size; rest++)
        total[rest] = total[rest] > 0.0 ? above[rest] / total[rest] : 0.0;
    for (Index x = 0; x < k; x++)
        for (Index rest = 0; rest < size; rest++) table[x * size + rest] *= total[rest];
}

/* r (k) = the table (k, size) summed over all but the label of its node. */
static void node_marginal(Index k, Index size, const double *table, double *r)
{
    for (Index x = 0; x < k; x++) {
        r[x] = 0.0;
        for (Index rest = x * size; rest < (x + 1) * size; rest++) r[x] += table[rest];
    }
}

/* Marginals of the edges of node i, from the masses of its table. */
static void edge_marginals(const CliqueSample *sample, Index i, const CliqueScratch *scratch,
                           double share, const CliqueMarginals *out)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo;
    double *joint = scratch->joint;
    EACH_EDGE(e, trees, i)
    {
        const Index above = edge_parent(trees, i, e);
        memset(joint, 0, (size_t)(k * k) * sizeof *joint);
        if (above >= 0) {
            Walk walk;
            double *sums = out->table_sums + edge_table(sample, i, e) * k * k;
            lay_out(trees, k, i, 1, &above, &walk);
            sum_table(&walk, walk.run, scratch->table, joint);
            for (Index j = 0; j < k * k; j++) sums[j] += share * joint[j];
        }
        if (!out->q) continue;
        double *q = e < 0 ? out->q + (i - lo) * k * k
                          : out->chord_q + chord_number(trees, lo, i, e) * k * k;
        memcpy(q, joint, (size_t)(k * k) * sizeof *q);
    }
}

/* Marginalise the table of node i to the messages of its children, on the way down. */
static void tell_children(const CliqueSample *sample, Index i, const double *table,
                          const Index *start, double *down)
{
    EACH_CHILD(c, sample->trees, i)
    {
        Walk walk;
        lay_out_child(sample->trees, sample->k, i, c, &walk);
        sum_table(&walk, sample->k, table, down + start[c - sample->lo]);
    }
}

double sum_over_cliques(const CliqueSample *sample, const CliqueScratch *scratch, double share,
                        const CliqueMarginals *out)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo, *start = scratch->start;
    double log_z = 0.0, *down = scratch->down;
    const Index total = message_starts(lo, sample->hi, trees, k, scratch->start);
    log_sum_up(sample, scratch);
    memset(down, 0, (size_t)total * sizeof *down);
    for (Index i = sample->hi - 1; i >= lo; i--) {
        const Index size = start[i - lo + 1] - start[i - lo];
        double *message = scratch->messages + start[i - lo];
        if (n_later(trees, i) == 0) {
            log_z += message[0];
            down[start[i - lo]] = 1.0;
        }
        fill_table(sample, i, start, scratch->messages, scratch->table);
        /* The message of i is no longer needed; its memory takes the totals. */
        conditionals(k, size, down + start[i - lo], scratch->table, scratch->top, message);
        node_marginal(k, size, scratch->table, out->r + (i - lo) * k);
        edge_marginals(sample, i, scratch, share, out);
        tell_children(sample, i, scratch->table, start, down);
    }
    return log_z;
}

/* Log-partition functions and marginals of samples first .. last-1, as in sum_product. */
API Index clique_sum(Index first, Index last, const Structure *structure, const JunctionTrees *trees,
                     const ScoreArrays *scores, const double *share, Gibbs *gibbs)
{
    const Index k = scores->n_labels, *offsets = structure->offsets;
    CliqueScratch scratch;
    const bool room = clique_scratch(first, last, offsets, trees, k, true, &scratch);
    for (Index s = first; room && s < last; s++) {
        const Index lo = offsets[s], first_chord = scores->n_nodes + trees->chord_start[lo];
        const CliqueSample sample = clique_sample(lo, offsets[s + 1], trees, scores);
        CliqueMarginals out = {gibbs->r + lo * k, NULL, NULL, gibbs->table_sums};
        if (gibbs->n_slots) {
            out.q = gibbs->q + lo * k * k;
            out.chord_q = gibbs->q + first_chord * k * k;
        }
        gibbs->log_partition[s] = sum_over_cliques(&sample, &scratch, share[s], &out);
    }
    free_clique_scratch(&scratch);
    return room ? 0 : NO_MEMORY;
}

/* --------------------------------------------------------------------------- labels that can occur */

/* allowed (n, k), out. down: above 0 where the labels of a bucket's later neighbours can occur. */
static void allowed_over_cliques(const CliqueSample *sample, const CliqueScratch *scratch,
                                 bool *allowed)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo, *start = scratch->start;
    double *down = scratch->down, *table = scratch->table;
    const Index total = message_starts(lo, sample->hi, trees, k, scratch->start);
    max_up(sample, scratch);
    memset(down, 0, (size_t)total * sizeof *down);
    for (Index i = sample->hi - 1; i >= lo; i--) {
        const Index size = start[i - lo + 1] - start[i - lo];
        const double *above = down + start[i - lo];
        if (n_later(trees, i) == 0) down[start[i - lo]] = 1.0;
        fill_table(sample, i, start, scratch->messages, table);
        for (Index x = 0; x < k; x++) {
            bool any = false;
            for (Index rest = 0; rest < size; rest++) {
                const bool occurs = table[x * size + rest] > -INFINITY && above[rest] > 0.0;
                table[x * size + rest] = occurs ? 1.0 : 0.0;
                any |= occurs;
            }
            allowed[(i - lo) * k + x] = any;
        }
        tell_children(sample, i, table, start, down);
    }
}

/* allowed (N, k), out: as in forest_allowed, for samples first .. last-1. */
API Index clique_allowed(Index first, Index last, const Structure *structure,
                         const JunctionTrees *trees, const ScoreArrays *scores, bool *allowed)
{
    const Index k = scores->n_labels, *offsets = structure->offsets;
    CliqueScratch scratch;
    const bool room = clique_scratch(first, last, offsets, trees, k, true, &scratch);
    for (Index s = first; room && s < last; s++) {
        const CliqueSample sample = clique_sample(offsets[s], offsets[s + 1], trees, scores);
        allowed_over_cliques(&sample, &scratch, allowed + offsets[s] * k);
    }
    free_clique_scratch(&scratch);
    return room ? 0 : NO_MEMORY;
}

/* ------------------------------------------------------------------------------- K best labellings
 *
 * Messages are lists of the best scores, descending; the labels behind them are recomputed on the way
 * back. */
typedef struct {
    Index size;           /* K */
    Index *start;         /* (n + 1) */
    double *messages;     /* (messages, K) */
    double *lists;        /* (k, K) the best scores with each label */
    double *sums;         /* (K) */
    double *total;        /* (K) of all components */
    double *scores;       /* (k) */
    Index *left, *right;  /* (children, k, K) which entry of the list before was added to which entry
                             of the child's message */
    Index *label, *rank;  /* (K) the label of each entry of the lists merged, its place in the list */
    Index *pointer;       /* (the larger of k and K) */
    Index *roots;         /* (n) buckets without parent, root by root the same as left and right: */
    Index *root_left, *root_right; /* (roots, K) */
    Index *current, *wanted; /* (n) labels, and the entry of each message that they are to make */
} BestLists;

/* lists->sums: the best scores of i's part of the junction tree, given the labels of later nodes. */
static void merge_bucket(const CliqueSample *sample, Index i, const Index *labels, BestLists *best)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, size = best->size;
    scores_given(sample, i, labels, best->scores);
    for (Index x = 0; x < k; x++) {
        double *list = best->lists + x * size;
        Index number = 0;
        for (Index rank = 0; rank < size; rank++) list[rank] = rank ? -INFINITY : best->scores[x];
        EACH_CHILD(c, trees, i)
        {
            const Index at = best->start[c - sample->lo] + place_in(sample, c, labels) +
                             x * power(k, n_later(trees, c) - 1);
            const Index made = (number++ * k + x) * size;
            merge_sums(size, list, best->messages + at * size, best->sums, best->left + made,
                       best->right + made, best->pointer);
            memcpy(list, best->sums, (size_t)size * sizeof *list);
        }
    }
    merge_labels(k, size, best->lists, NULL, 0, best->sums, best->label, best->rank, best->pointer);
}

/* Find the entry of each child's message behind the wanted entry of i, with label x. Lists were added
 * child by child; this is traced back from the last child to the first. */
static void want_of_children(const CliqueSample *sample, Index i, Index x, BestLists *best)
{
    const JunctionTrees *trees = sample->trees;
    Index number = 0, entry = best->rank[best->wanted[i - sample->lo]];
    EACH_CHILD(c, trees, i) number++;
    for (Index last = number - 1; last >= 0; last--) {
        const Index made = (last * sample->k + x) * best->size + entry;
        Index child = trees->first_child[i];
        for (Index before = 0; before < last; before++) child = trees->next_child[child];
        best->wanted[child - sample->lo] = best->right[made];
        entry = best->left[made];
    }
}

/* Compute the messages of all buckets, then sums over components; return the number of components. */
static Index lists_up(const CliqueSample *sample, BestLists *best)
{
    const JunctionTrees *trees = sample->trees;
    const Index k = sample->k, lo = sample->lo, size = best->size;
    const size_t bytes = (size_t)size * sizeof(double);
    Index n_roots = 0;
    for (Index rank = 0; rank < size; rank++) best->total[rank] = rank ? -INFINITY : 0.0;
    for (Index i = lo; i < sample->hi; i++) {
        const Index *members = trees->members + trees->offsets[i], m = n_later(trees, i);
        const Index begin = best->start[i - lo], n_messages = best->start[i - lo + 1] - begin;
        for (Index rest = 0; rest < n_messages; rest++) {
            Index code = rest;
            for (Index j = m - 1; j >= 0; j--) {
                best->current[members[j] - lo] = code % k;
                code /= k;
            }
            merge_bucket(sample, i, best->current, best);
            memcpy(best->messages + (begin + rest) * size, best->sums, bytes);
        }
        if (m > 0) continue;
        merge_sums(size, best->total, best->messages + begin * size, best->sums,
                   best->root_left + n_roots * size, best->root_right + n_roots * size,
                   best->pointer);
        memcpy(best->total, best->sums, bytes);
        best->roots[n_roots++] = i;
    }
    return n_roots;
}

/* labels (n), out: labelling number ``choice``. */
static void trace_labelling(const CliqueSample *sample, Index choice, Index n_roots, BestLists *best,
                            Index *labels)
{
    const Index lo = sample->lo;
    for (Index number = n_roots - 1; number >= 0; number--) {
        best->wanted[best->roots[number] - lo] = best->root_right[number * best->size + choice];
        choice = best->root_left[number * best->size + choice];
    }
    for (Index i = sample->hi - 1; i >= lo; i--) {
        merge_bucket(sample, i, labels, best);
        labels[i - lo] = best->label[best->wanted[i - lo]];
        want_of_children(sample, i, labels[i - lo], best);
    }
}

/* The most children of a bucket; count (n): scratch. */
static Index most_children(const JunctionTrees *trees, Index lo, Index hi, Index *count)
{
    Index most = 0;
    memset(count, 0, (size_t)(hi - lo) * sizeof *count);
    for (Index i = lo; i < hi; i++)
        if (n_later(trees, i) > 0)
            most = max_index(most, ++count[trees->members[trees->offsets[i]] - lo]);
    return most;
}

/* The ``size`` best labellings of nodes lo .. hi-1, best first; return how many are possible.
 * labels (size, n) and values (size), out. */
API Index clique_k_best(Index lo, Index hi, const JunctionTrees *trees, const ScoreArrays *scores,
                        Index size, Index *labels, double *values)
{
    const CliqueSample sample = clique_sample(lo, hi, trees, scores);
    const Index n = hi - lo, k = sample.k;
    Index *small = NEW(Index, 4 * n + 1 + 2 * size + max_index(k, size)), *made = NULL;
    if (!small) return NO_MEMORY;
    BestLists best = {.size = size, .start = small, .roots = small + n + 1};
    best.current = best.roots + n;
    best.wanted = best.current + n;
    best.label = best.wanted + n;
    best.rank = best.label + size;
    best.pointer = best.rank + size;
    const Index branches = most_children(trees, lo, hi, best.wanted) * k * size;
    const Index n_messages = message_starts(lo, hi, trees, k, best.start);
    made = calloc((size_t)(2 * branches + 2 * n * size + 1), sizeof *made);
    best.messages = NEW(double, (n_messages + k + 2) * size + k);
    Index possible = NO_MEMORY;
    if (made && best.messages) {
        best.left = made;
        best.right = made + branches;
        best.root_left = made + 2 * branches;
        best.root_right = best.root_left + n * size;
        best.lists = best.messages + n_messages * size;
        best.sums = best.lists + k * size;
        best.total = best.sums + size;
        best.scores = best.total + size;
        const Index n_roots = lists_up(&sample, &best);
        for (possible = 0; possible < size && best.total[possible] > -INFINITY; possible++) {
            values[possible] = best.total[possible];
            trace_labelling(&sample, possible, n_roots, &best, labels + possible * n);
        }
    }
    free(small);
    free(made);
    free(best.messages);
    return possible;
}

/* ------------------------------------------------------- games on junction trees as linear programs
 *
 * Here the tables of all buckets of a sample are stored in the order of their messages: that of node i
 * begins at k start[i]. */

/* out[at] = the largest entry of the table in the runs of ``at``. */
static void best_of_table(Walk *walk, const double *restrict table, double *restrict out)
{
    const Index run = walk->run, step = walk->along;
    EACH_RUN(walk, base, at)
    for (Index a = 0; a < run; a++) {
        double *best = out + at + a * step;
        *best = table[base + a] > *best ? table[base + a] : *best;
    }
}

/* Reparametrise the scores of the sample with nodes lo .. hi-1 so that the best labelling scores 0 in
 * every bucket. start (n + 1), out: where messages begin. regret, out: score of an entry of a bucket's
 * table minus that of the best label of the bucket's node; a labelling scores the best score plus the
 * sum of its regrets. total, out: score of the best labelling through an entry minus the best score.
 * Both are -inf where forbidden. */
API Index clique_regrets(Index lo, Index hi, const JunctionTrees *trees, const ScoreArrays *scores,
                         Index *start, double *regret, double *total)
{
    const CliqueSample sample = clique_sample(lo, hi, trees, scores);
    const Index n = hi - lo, k = sample.k, n_messages = message_starts(lo, hi, trees, k, start);
    double *messages = NEW(double, 2 * n_messages), *best_of = messages + n_messages;
    if (!messages) return NO_MEMORY;
    for (Index i = 0; i < n; i++) {
        const Index size = start[i + 1] - start[i];
        double *table = regret + k * start[i], *best = messages + start[i];
        fill_table(&sample, lo + i, start, messages, table);
        best_labels(k, size, table, best);
        for (Index x = 0; x < k; x++)
            for (Index rest = 0; rest < size; rest++)
                table[x * size + rest] =
                    best[rest] > -INFINITY ? table[x * size + rest] - best[rest] : -INFINITY;
        for (Index rest = 0; rest < size; rest++)
            best_of[start[i] + rest] = n_later(trees, lo + i) ? -INFINITY : 0.0;
    }
    for (Index i = n - 1; i >= 0; i--) {
        const Index size = start[i + 1] - start[i];
        const double *loss = best_of + start[i], *own = regret + k * start[i];
        double *table = total + k * start[i];
        for (Index x = 0; x < k; x++)
            for (Index rest = 0; rest < size; rest++)
                table[x * size + rest] = loss[rest] + own[x * size + rest];
        EACH_CHILD(c, trees, lo + i)
        {
            Walk walk;
            lay_out_child(trees, k, lo + i, c, &walk);
            best_of_table(&walk, table, best_of + start[c - lo]);
        }
    }
    free(messages);
    return 0;
}

/* Sparse rows under construction. */
typedef struct {
    Index *row, *column, n;
    double *value;
} Entries;

INLINE void add_entry(Entries *entries, Index row, Index column, double value)
{
    entries->row[entries->n] = row;
    entries->column[entries->n] = column;
    entries->value[entries->n++] = value;
}

/* Margins of the cliques as sparse rows; return how many entries were written.
 *
 * Columns: the tables (k start[n]), then r (n k). Rows: r_i(x) against the table of i (n k); then for
 * every entry of a message, the bucket's table against its parent's; a bucket without parent has one
 * entry, its total. rows, columns, values with room for all, out. */
API Index clique_rows(Index lo, Index hi, const JunctionTrees *trees, Index k, const Index *start,
                      Index *rows, Index *columns, double *values)
{
    const Index n = hi - lo, r = k * start[n];
    Entries entries = {rows, columns, 0, values};
    for (Index i = 0; i < n; i++) {
        const Index size = start[i + 1] - start[i], table = k * start[i];
        for (Index x = 0; x < k; x++) {
            add_entry(&entries, i * k + x, r + i * k + x, -1.0);
            for (Index at = x * size; at < (x + 1) * size; at++)
                add_entry(&entries, i * k + x, table + at, 1.0);
        }
        for (Index x = 0; x < k; x++)
            for (Index rest = 0; rest < size; rest++)
                add_entry(&entries, n * k + start[i] + rest, table + x * size + rest, 1.0);
        EACH_CHILD(c, trees, lo + i)
        {
            Walk walk;
            lay_out_child(trees, k, lo + i, c, &walk);
            const Index run = walk.run, first = n * k + start[c - lo];
            EACH_RUN(&walk, base, at)
            for (Index a = 0; a < run; a++)
                add_entry(&entries, first + at + (walk.along ? a : 0), table + base + a, -1.0);
        }
    }
    return entries.n;
}

/* Scale a bucket's table to the mass wanted (size) of its later neighbours, keeping the conditional
 * distribution of its node. Where that is empty the node takes its best label, never a forbidden one. */
static void scale_table(Index k, Index size, const double *wanted, const double *regret,
                        double *table)
{
    for (Index rest = 0; rest < size; rest++) {
        double mass = 0.0;
        for (Index at = rest; at < size * k; at += size) {
            if (!(table[at] > 0.0) || regret[at] == -INFINITY) table[at] = 0.0;
            mass += table[at];
        }
        const double factor = mass > 0.0 ? wanted[rest] / mass : 0.0;
        Index choice = rest;
        for (Index at = rest; at < size * k; at += size) {
            table[at] *= factor;
            if (regret[at] > regret[choice]) choice = at;
        }
        if (mass == 0.0) table[choice] = wanted[rest];
    }
}

/* Make clique tables exactly consistent, in place, from the roots down, and read node and edge
 * marginals off them: r (N, k) and q (slots, k, k), out, of a distribution over labellings. */
API Index consistent_marginals(Index lo, Index hi, const JunctionTrees *trees, Index k,
                               const Index *start, const double *regret, double *tables, double *r,
                               double *q)
{
    const CliqueSample sample = {.trees = trees, .lo = lo, .hi = hi, .k = k};
    double *wanted = calloc((size_t)start[hi - lo] + 1, sizeof *wanted);
    if (!wanted) return NO_MEMORY;
    for (Index i = hi - 1; i >= lo; i--) {
        const Index size = start[i - lo + 1] - start[i - lo];
        double *table = tables + k * start[i - lo], *goal = wanted + start[i - lo];
        if (n_later(trees, i) == 0) goal[0] = 1.0;
        scale_table(k, size, goal, regret + k * start[i - lo], table);
        node_marginal(k, size, table, r + i * k);
        EACH_EDGE(e, trees, i)
        {
            const Index above = edge_parent(trees, i, e);
            double *joint = q + (e < 0 ? i : trees->n_nodes + trees->chord_start[i] + e) * k * k;
            Walk walk;
            memset(joint, 0, (size_t)(k * k) * sizeof *joint);
            if (above < 0) continue;
            lay_out(trees, k, i, 1, &above, &walk);
            sum_table(&walk, 1, table, joint);
        }
        tell_children(&sample, i, table, start, wanted);
    }
    free(wanted);
    return 0;
}
