/* Exact inference over the cliques of a triangulated graph (bucket elimination).
 *
 * Bucket i holds node i and its m later neighbours s_1 < ... < s_m. Its table is indexed
 * [label of i, label of s_1, ..., label of s_m], the last running fastest: k^(m+1) numbers. Its
 * message to its parent s_1 leaves out the label of i: k^m numbers. All later neighbours of a child
 * bucket are in its parent's bucket, so that messages are added to the parent's table. Only messages
 * are kept; tables are made when they are needed, in memory used by one bucket after the other. */
#include "cliques.h"
#include "messages.h"
#include "simd.h"

static Index power(Index k, Index m)
{
    Index result = 1;
    for (; m > 0; m--) result *= k;
    return result;
}

/* How many later neighbours node i, among all nodes, has. */
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
 * Whatever is indexed by the labels of node i and of some of its later neighbours, as scores of an
 * edge or the message of a child, is walked beside the table of i in runs: the last members of the
 * bucket either all take part, and the entries of both go side by side, or none does, and one entry
 * serves the whole run. Before them come groups of members that take part or not. */
typedef struct {
    Index size;                              /* entries of the table */
    Index run;                               /* entries of a run */
    bool along;                              /* whether its members take part */
    int n_groups;                            /* the first is the run itself */
    Index length[64], stride[64], digit[64]; /* k^m fits into 63 bits: there are no more for k > 1 */
} Walk;

/* Beside the table of node i goes what is indexed by i and by the n_inner nodes ``inner``. */
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

/* Where the next runs begin beside the table, after those of the first two groups from ``at`` on. */
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

/* For every run: where it begins in the table (base) and beside it (at). */
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

/* out += the table summed over what it is not indexed by, ``portion`` entries of a run at a time. */
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

/* Where the labels (n) of all later neighbours of c but the first, its parent, are in its message. */
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

/* What the table of node i says from above to the messages of its children. */
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
        /* The message of i has served; its room takes the totals. */
        conditionals(k, size, down + start[i - lo], scratch->table, scratch->top, message);
        node_marginal(k, size, scratch->table, out->r + (i - lo) * k);
        edge_marginals(sample, i, scratch, share, out);
        tell_children(sample, i, scratch->table, start, down);
    }
    return log_z;
}

/* Log-partition and marginals of samples first .. last-1, as sum_product has them. */
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
