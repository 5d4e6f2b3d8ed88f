/* Marginals of one sample's Gibbs distribution by sum-product in the linear domain, in REAL.
 *
 * Scores enter as exponentials relative to the largest of each row; messages are scaled by their
 * largest entry. Where sums come close to underflow, the sample is computed again in log space; samples
 * with cycles go through their cliques.
 *
 * Scores and marginals of a sample are rows of one matrix: those of its n nodes, then k of each of
 * its m own tables, [label of the first node, label of the second] as users list edges, in which
 * marginals of edges are added up. */
#ifndef GIBBS_H
#define GIBBS_H
#include "cliques.h"
#include "rows.h"

#define LEAST (IS_SINGLE ? (REAL)1e-24 : (REAL)1e-200) /* smaller sums may have lost terms */
#define NEAR 1e-3                                      /* tolerance of sums of marginals, which are 1 */

/* Kinds of predictor. */
enum { NOBODY = 0, TRUTH = 1, FREE = 2 };

/* One sample: its graph, and the offset of its rows among those of all samples. */
typedef struct {
    const LabelledGraphs *all;
    Index s, lo, n, m, k, width, first_row, n_rows;
    const Index *parent, *table, *transposed; /* of its nodes */
} Sample;

INLINE Sample sample_of(const LabelledGraphs *graphs, Index s, Index k, Index width)
{
    const Index lo = graphs->offsets[s], start = graphs->table_start[s];
    Sample own = {.all = graphs, .s = s, .lo = lo, .k = k, .width = width};
    own.n = graphs->offsets[s + 1] - lo;
    own.m = graphs->table_start[s + 1] - start;
    own.first_row = lo + k * start;
    own.n_rows = own.n + k * own.m;
    own.parent = graphs->parent + lo;
    own.table = graphs->table + lo;
    own.transposed = graphs->transposed + lo;
    return own;
}

INLINE Index slots_of(const Sample *own)
{
    return own->n + own->all->chord_offsets[own->s + 1] - own->all->chord_offsets[own->s];
}

/* Slot ``at`` of the sample among those of all samples, where chords follow all nodes. */
INLINE Index slot_of(const Sample *own, Index at)
{
    const LabelledGraphs *all = own->all;
    return at < own->n ? own->lo + at : all->n_nodes + all->chord_offsets[own->s] + at - own->n;
}

/* Scratch of one sample's marginals, in rows of ``width``. */
typedef struct {
    REAL *exps;       /* scores as exp relative to the largest of each row or table */
    REAL *transposed; /* those of tables, transposed; its padding stays 0 */
    REAL *message;    /* of each node */
    REAL *share;
} GibbsScratch;

/* How many numbers `lay_out` takes, for samples of up to n nodes and m own tables. */
INLINE Index gibbs_size(Index n, Index m, Index k, Index width)
{
    return (n + m * k + m * k + n + n) * width;
}

INLINE GibbsScratch lay_out(REAL *zeroed, Index n, Index m, Index k, Index width)
{
    REAL *transposed = zeroed + (n + m * k) * width, *message = transposed + m * k * width;
    return (GibbsScratch){zeroed, transposed, message, message + n * width};
}

/* out = exp(scores - the largest), numbers that lie side by side; return the largest. */
INLINE REAL relative_exponentials(Index length, const REAL *scores, REAL *out)
{
    const REAL top = row_top(length, scores);
    for (Index y = 0; y < length; y += STEP) put(out + y, exponentials(get(scores + y) - top));
    return top;
}

/* Compute exponentials of the scores, and of transposed tables; return the sum of the maxima. */
static double enter_exponentials(const Sample *own, const REAL *scores, const GibbsScratch *work)
{
    const Index n = own->n, k = own->k, width = own->width;
    double log_z = 0.0;
    for (Index i = 0; i < n; i++)
        log_z += relative_exponentials(width, scores + i * width, work->exps + i * width);
    for (Index t = 0; t < own->m; t++) {
        const Index at = (n + t * k) * width;
        /* The array of messages is still free, and a forest has fewer tables than nodes. */
        work->message[t * width] = relative_exponentials(k * width, scores + at, work->exps + at);
        for (Index x = 0; x < k; x++)
            for (Index y = 0; y < k; y++)
                work->transposed[(t * k + y) * width + x] = work->exps[at + x * width + y];
    }
    for (Index i = 0; i < n; i++)
        if (own->parent[i] >= 0) log_z += work->message[own->table[i] * width];
    return log_z;
}

/* The exponentials of the table on node i's edge, [i's label, its parent's] or the other way. */
INLINE const REAL *edge_table(const Sample *own, const GibbsScratch *work, Index i, bool downward)
{
    const Index first = own->table[i] * own->k;
    const bool flipped = own->transposed[i] == 1;
    return flipped != downward ? work->transposed + first * own->width
                               : work->exps + (own->n + first) * own->width;
}

/* Messages from the leaves to the roots; exps of nodes become sums over their
 * subtrees. Add log Z of the exponentials; false where a sum, or a product of two neighbouring sums, fell
 * below LEAST: a term that one lost to underflow may be the only one that the other allows. */
static bool upward(const Sample *own, const GibbsScratch *work, double *log_z)
{
    const Index width = own->width;
    double scales = 1.0;
    for (Index i = 0; i < own->n; i++) work->share[i * width + 1] = 1;
    for (Index i = 0; i < own->n; i++) {
        if (scales < 1e-100 || scales > 1e100) { /* logarithms of many scales at once */
            *log_z += log(scales);
            scales = 1.0;
        }
        REAL *exps = work->exps + i * width, scale;
        if (own->parent[i] < 0) {
            scale = row_sum(width, exps);
        } else {
            REAL *message = work->message + i * width;
            REAL *above = work->exps + (own->parent[i] - own->lo) * width;
            times_rows(width, exps, 1, edge_table(own, work, i, false), own->k, message);
            scale = row_top(width, message);
            const REAL inverse = 1 / scale;
            for (Index y = 0; y < width; y += STEP) {
                const Lanes scaled = get(message + y) * inverse;
                put(message + y, scaled);
                put(above + y, get(above + y) * scaled);
            }
            /* The factor of the message; next to it, the least factor of the children. */
            work->share[i * width] = inverse;
            REAL *least = work->share + (own->parent[i] - own->lo) * width + 1;
            *least = scale < *least ? scale : *least;
        }
        if (!(scale * work->share[i * width + 1] >= LEAST)) return false;
        scales *= (double)scale;
    }
    *log_z += log(scales);
    return true;
}

/* Rows of table t: sum over its edges of (first node's factor) x (second node's factor). */
static void add_up_edges(const Sample *own, const GibbsScratch *work, REAL *out)
{
    const Index n = own->n, k = own->k, width = own->width;
    bool plain = own->m == 1;
    for (Index i = 0; i < n; i++) plain = plain && own->transposed[i] == 0;
    if (plain) { /* a row of sums over all edges stays in registers */
        for (Index x = 0; x < k; x++)
            times_rows(width, work->exps + x, width, work->share, n, out + (n + x) * width);
        return;
    }
    memset(out + n * width, 0, (size_t)(own->m * k * width) * sizeof(REAL));
    for (Index i = 0; i < n; i++) {
        if (own->parent[i] < 0) continue;
        const REAL *exps = work->exps + i * width, *share = work->share + i * width;
        const bool flipped = own->transposed[i] == 1;
        const REAL *first = flipped ? share : exps, *second = flipped ? exps : share;
        for (Index x = 0; x < k; x++) {
            REAL *to = out + (n + own->table[i] * k + x) * width;
            for (Index y = 0; y < width; y += STEP) put(to + y, get(to + y) + first[x] * get(second + y));
        }
    }
}

/* Compute the marginals, after `upward`; false unless they sum to 1. */
static bool downward(const Sample *own, const GibbsScratch *work, REAL *out)
{
    const Index n = own->n, width = own->width;
    for (Index i = n - 1; i >= 0; i--) {
        const REAL *exps = work->exps + i * width, *message = work->message + i * width;
        REAL *share = work->share + i * width, *own_out = out + i * width;
        if (own->parent[i] < 0) {
            const REAL factor = 1 / row_sum(width, exps);
            for (Index y = 0; y < width; y += STEP) {
                put(own_out + y, get(exps + y) * factor);
                put(share + y, all(0));
            }
            continue;
        }
        const REAL scale = share[0], *above = out + (own->parent[i] - own->lo) * width;
        for (Index y = 0; y < width; y += STEP)
            put(share + y, ratios(scale * get(above + y), get(message + y)));
        times_rows(width, share, 1, edge_table(own, work, i, true), own->k, own_out);
        for (Index y = 0; y < width; y += STEP) put(own_out + y, get(own_out + y) * get(exps + y));
        if (!(fabs((double)row_sum(width, own_out) - 1.0) < NEAR)) return false; /* terms were lost */
    }
    add_up_edges(own, work, out);
    for (Index y = n * width; y < own->n_rows * width; y += STEP)
        put(out + y, get(out + y) * get(work->exps + y));
    return true;
}

static double log_sum_of(Index k, const double *values)
{
    double top = values[0], sum = 0.0;
    for (Index b = 1; b < k; b++) top = values[b] > top ? values[b] : top;
    for (Index b = 0; b < k; b++) sum += exp(values[b] - top);
    return top + log(sum);
}

/* The score of the edge above node i: [its own label, its parent's]. */
INLINE double edge_score(const Sample *own, const REAL *scores, Index i, Index b, Index a)
{
    const bool flipped = own->transposed[i] == 1;
    const Index x = flipped ? a : b, y = flipped ? b : a;
    return (double)scores[(own->n + own->table[i] * own->k + x) * own->width + y];
}

/* Compute the marginals in log space: slower, for any scale of scores; false if there is no memory. */
static bool log_space_marginals(const Sample *own, const REAL *scores, REAL *out, double *log_z)
{
    const Index n = own->n, k = own->k, width = own->width;
    double *inside = NEW(double, 2 * n * k + k), *message = inside + n * k, *term = message + n * k;
    if (!inside) return false;
    *log_z = 0.0;
    for (Index i = 0; i < n; i++)
        for (Index y = 0; y < k; y++) inside[i * k + y] = (double)scores[i * width + y];
    for (Index i = 0; i < n; i++) {
        const Index up = own->parent[i] - own->lo;
        if (own->parent[i] < 0) {
            *log_z += log_sum_of(k, inside + i * k);
            continue;
        }
        for (Index a = 0; a < k; a++) {
            for (Index b = 0; b < k; b++)
                term[b] = inside[i * k + b] + edge_score(own, scores, i, b, a);
            message[i * k + a] = log_sum_of(k, term);
            inside[up * k + a] += message[i * k + a];
        }
    }
    memset(out, 0, (size_t)(own->n_rows * width) * sizeof(REAL));
    for (Index i = n - 1; i >= 0; i--) {
        const Index up = own->parent[i] - own->lo, first = n + own->table[i] * k;
        const bool flipped = own->transposed[i] == 1;
        if (own->parent[i] < 0) {
            const double size = log_sum_of(k, inside + i * k);
            for (Index b = 0; b < k; b++) out[i * width + b] = (REAL)exp(inside[i * k + b] - size);
            continue;
        }
        for (Index a = 0; a < k; a++) {
            const double mass_above = (double)out[up * width + a];
            if (mass_above <= 0.0) continue;
            for (Index b = 0; b < k; b++) {
                const double score = inside[i * k + b] + edge_score(own, scores, i, b, a);
                const REAL mass = (REAL)(mass_above * exp(score - message[i * k + a]));
                out[i * width + b] += mass;
                out[(first + (flipped ? a : b)) * width + (flipped ? b : a)] += mass;
            }
        }
    }
    free(inside);
    return true;
}

/* Compute the marginals over the junction tree of a sample with cycles, in double; false if there is no
 * memory.
 *
 * Own tables appear twice: as they are, and transposed for edges listed (parent, child). */
static bool clique_marginals(const Sample *own, const JunctionTrees *trees, const REAL *scores,
                             REAL *out, double *log_z)
{
    const Index n = own->n, m = own->m, k = own->k, width = own->width, n_slots = slots_of(own);
    const Index ends[2] = {own->lo, own->lo + n}, square = k * k;
    CliqueScratch scratch;
    const bool made = clique_scratch(0, 1, ends, trees, k, true, &scratch);
    Index *table_of = NEW(Index, n_slots);
    double *numbers = calloc((size_t)(2 * n * k + 4 * m * square + 1), sizeof *numbers);
    const bool enough = made && table_of && numbers;
    if (enough) {
        double *unary = numbers, *r = unary + n * k, *both = r + n * k, *sums = both + 2 * m * square;
        for (Index at = 0; at < n_slots; at++) {
            const Index slot = slot_of(own, at);
            table_of[at] = own->all->table[slot] + m * own->all->transposed[slot];
        }
        for (Index i = 0; i < n; i++)
            for (Index y = 0; y < k; y++) unary[i * k + y] = (double)scores[i * width + y];
        for (Index t = 0; t < m; t++)
            for (Index xy = 0; xy < square; xy++) {
                const Index x = xy / k, y = xy % k;
                const double score = (double)scores[(n + t * k + x) * width + y];
                both[t * square + xy] = both[(m + t) * square + y * k + x] = score;
            }
        const CliqueSample sample = {trees, own->lo,  own->lo + n, k,
                                     unary, both, table_of,    table_of + n};
        const CliqueMarginals found = {r, NULL, NULL, sums};
        *log_z = sum_over_cliques(&sample, &scratch, 1.0, &found);
        memset(out, 0, (size_t)(own->n_rows * width) * sizeof(REAL));
        for (Index i = 0; i < n; i++)
            for (Index y = 0; y < k; y++) out[i * width + y] = (REAL)r[i * k + y];
        for (Index t = 0; t < m; t++)
            for (Index xy = 0; xy < square; xy++) {
                const Index x = xy / k, y = xy % k;
                out[(n + t * k + x) * width + y] =
                    (REAL)(sums[t * square + xy] + sums[(m + t) * square + y * k + x]);
            }
    }
    free_clique_scratch(&scratch);
    free(table_of);
    free(numbers);
    return enough;
}

/* Compute log Z of a sample under its scores and, if ``wanted``, its marginals; false if there is no
 * memory. */
static bool marginals(const Sample *own, const JunctionTrees *trees, const REAL *scores,
                      const GibbsScratch *work, bool wanted, REAL *out, double *log_z)
{
    const Index *chords = own->all->chord_offsets + own->s;
    if (chords[1] > chords[0]) return clique_marginals(own, trees, scores, out, log_z);
    *log_z = enter_exponentials(own, scores, work);
    if (upward(own, work, log_z) && (!wanted || downward(own, work, out))) return true;
    return log_space_marginals(own, scores, out, log_z);
}

/* A slot of a sample, counted from 0: its own table, -1 where it holds no edge, and the true labels
 * of the nodes listed first and second. */
typedef struct {
    Index table, x, y;
} TruePair;

INLINE TruePair true_pair(const Sample *own, Index at)
{
    const LabelledGraphs *all = own->all;
    const Index slot = slot_of(own, at);
    if (all->parent[slot] < 0) return (TruePair){-1, 0, 0};
    const Index below = all->labels[all->child[slot]], above = all->labels[all->parent[slot]];
    const bool flipped = all->transposed[slot] == 1;
    return (TruePair){all->table[slot], flipped ? above : below, flipped ? below : above};
}

/* Score of the edges under the true labels. */
static double true_edges(const Sample *own, const REAL *scores)
{
    double sum = 0.0;
    for (Index at = 0; at < slots_of(own); at++) {
        const TruePair pair = true_pair(own, at);
        if (pair.table >= 0)
            sum += (double)scores[(own->n + pair.table * own->k + pair.x) * own->width + pair.y];
    }
    return sum;
}
#endif
