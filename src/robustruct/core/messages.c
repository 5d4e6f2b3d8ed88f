/* Messages on forests: the best labelling, the Gibbs distribution, the K best labellings, and which
 * labels can occur. Nodes are numbered so that children come before parents; -1 is the parent of a
 * root. tables are [table, label of the child, label of the parent]. */
#include "messages.h"
#include "simd.h"

/* ------------------------------------------------------------------------------------ max-product */

/* The parent's label runs innermost, so that rows are contiguous and no arg-max is needed: sweeping
 * down recovers it. */
INLINE void best_stretch(int R, Index first, Index k, const double *below, const double *table,
                         double *message)
{
    Vec best[4];
    UNROLL for (int r = 0; r < R; r++) best[r] = broadcast(-INFINITY);
    for (Index b = 0; b < k; b++) {
        const Vec score = broadcast(below[b]);
        UNROLL for (int r = 0; r < R; r++)
            best[r] = maximum(score + load(table + b * k + place(first, r, k)), best[r]);
    }
    UNROLL for (int r = 0; r < R; r++) store(message + place(first, r, k), best[r]);
}

/* For fewer labels than a register holds; k is a constant where it is called. */
INLINE void best_of_few(Index k, const double *below, const double *table, double *message)
{
    UNROLL for (Index a = 0; a < k; a++) {
        double best = -INFINITY;
        UNROLL for (Index b = 0; b < k; b++) {
            const double score = below[b] + table[b * k + a];
            best = score > best ? score : best;
        }
        message[a] = best;
    }
}

void best_below(Index k, const double *below, const double *table, double *message)
{
    if (k >= LANES)
        FOR_LABELS(k, best_stretch, below, table, message)
    else if (k == 3)
        best_of_few(3, below, table, message);
    else if (k == 2)
        best_of_few(2, below, table, message);
    else
        best_of_few(1, below, table, message);
}

INLINE void sweep_up(Index lo, Index hi, Index k, const Index *parent, const double *tables,
                     const Index *table_of, double *best, double *message)
{
    for (Index i = lo; i < hi; i++) {
        if (parent[i] < 0) continue;
        double *above = best + parent[i] * k;
        best_below(k, best + i * k, tables + table_of[i] * k * k, message);
        for (Index a = 0; a < k; a++) above[a] += message[a];
    }
}

void max_product_up(Index lo, Index hi, Index k, const Index *parent, const double *unary,
                    const double *tables, const Index *table_of, double *best, double *message)
{
    memcpy(best + lo * k, unary + lo * k, (size_t)((hi - lo) * k) * sizeof *best);
    double few[3]; /* with a constant number of labels all is in registers */
    if (k == 2)
        sweep_up(lo, hi, 2, parent, tables, table_of, best, few);
    else if (k == 3)
        sweep_up(lo, hi, 3, parent, tables, table_of, best, few);
    else
        sweep_up(lo, hi, k, parent, tables, table_of, best, message);
}

INLINE double sweep_down(Index lo, Index hi, Index k, const Index *parent, const double *tables,
                         const Index *table_of, const double *best, Index *labels)
{
    double total = 0.0;
    for (Index i = hi - 1; i >= lo; i--) {
        const double *own = best + i * k;
        Index label = 0;
        if (parent[i] < 0) {
            for (Index b = 1; b < k; b++)
                if (own[b] > own[label]) label = b;
            total += own[label];
        } else {
            const double *column = tables + table_of[i] * k * k + labels[parent[i]];
            double value = own[0] + column[0];
            for (Index b = 1; b < k; b++) { /* without a branch, which would often be mispredicted */
                const double candidate = own[b] + column[b * k];
                label = candidate > value ? b : label;
                value = candidate > value ? candidate : value;
            }
        }
        labels[i] = label;
    }
    return total;
}

double max_product_down(Index lo, Index hi, Index k, const Index *parent, const double *tables,
                        const Index *table_of, const double *best, Index *labels)
{
    if (k == 2) return sweep_down(lo, hi, 2, parent, tables, table_of, best, labels);
    if (k == 3) return sweep_down(lo, hi, 3, parent, tables, table_of, best, labels);
    return sweep_down(lo, hi, k, parent, tables, table_of, best, labels);
}

/* Best labelling and its score for samples first .. last-1. best (N, k): scratch; labels (N), out;
 * values (S), out. */
API Index max_product(Index first, Index last, const Structure *structure, const ScoreArrays *scores,
                      double *best, Index *labels, double *values)
{
    const Index k = scores->n_labels;
    double *message = NEW(double, k);
    if (!message) return NO_MEMORY;
    for (Index s = first; s < last; s++) {
        const Index lo = structure->offsets[s], hi = structure->offsets[s + 1];
        max_product_up(lo, hi, k, structure->parent, scores->unary, scores->tables,
                       scores->table_of, best, message);
        values[s] = max_product_down(lo, hi, k, structure->parent, scores->tables, scores->table_of,
                                     best, labels);
    }
    free(message);
    return 0;
}

API Index labelling_scores(Index first, Index last, const Structure *structure,
                           const ScoreArrays *scores, const Index *labels, double *values)
{
    const Index k = scores->n_labels, n_nodes = scores->n_nodes;
    const Index *child = structure->child, *parent = structure->parent;
    for (Index s = first; s < last; s++) {
        double total = 0.0;
        for (Index i = structure->offsets[s]; i < structure->offsets[s + 1]; i++) {
            total += scores->unary[i * k + labels[i]];
            if (parent[i] >= 0)
                total += scores->tables[(scores->table_of[i] * k + labels[i]) * k + labels[parent[i]]];
        }
        for (Index e = n_nodes + structure->chord_offsets[s];
             e < n_nodes + structure->chord_offsets[s + 1]; e++)
            total +=
                scores->tables[(scores->table_of[e] * k + labels[child[e]]) * k + labels[parent[e]]];
        values[s] = total;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------ sum-product
 *
 * Messages are sums of products of exponentials taken relative to their largest term, with the
 * exponentials of unary scores and tables computed beforehand, all at once. Where such a sum falls
 * below TINY, terms that matter may have underflowed: the sample is then done once more with
 * messages as logarithms, and entries that are still too small in log space. So the result is exact
 * at any scale of the scores, almost always at the price of one logarithm per node. */

#define TINY 1e-200 /* lost terms are below 1e-307, hence negligible against any sum above this */
#define FAINT 1e-50 /* a largest product above this loses no term above 1e-257 */

static double log_sum(Index k, const double *inside, const double *table, Index a)
{
    double top = -INFINITY;
    for (Index b = 0; b < k; b++) {
        const double value = inside[b] + table[b * k + a];
        top = value > top ? value : top;
    }
    if (top == -INFINITY) return top;
    double total = 0.0;
    for (Index b = 0; b < k; b++) total += exp(inside[b] + table[b * k + a] - top);
    return top + log(total);
}

static double largest(Index k, const double *row)
{
    double top = row[0];
    for (Index b = 1; b < k; b++) top = row[b] > top ? row[b] : top;
    return top;
}

/* sums[a] += sum over b of factors[b] rows[b, a], rows with factor 0 left out. */
static void add_rows(Index k, const double *factors, const double *rows, double *sums)
{
    for (Index b = 0; b < k; b++) {
        const double factor = factors[b];
        if (factor > 0.0)
            for (Index a = 0; a < k; a++) sums[a] += factor * rows[b * k + a];
    }
}

void messages_up(Index lo, Index hi, const Index *parent, const ScoreArrays *scores,
                 const double *exp_tables, const double *table_top, const Messages *messages)
{
    const Index k = scores->n_labels;
    memcpy(messages->inside, scores->unary + lo * k, (size_t)((hi - lo) * k) * sizeof(double));
    for (Index i = lo; i < hi; i++) {
        double *inside = messages->inside + (i - lo) * k;
        double *relative = messages->relative + (i - lo) * k, *sums = messages->total + (i - lo) * k;
        const double top = largest(k, inside);
        for (Index b = 0; b < k; b++) relative[b] = top > -INFINITY ? exp(inside[b] - top) : 0.0;
        if (parent[i] < 0) continue;
        const Index t = scores->table_of[i];
        memset(sums, 0, (size_t)k * sizeof *sums);
        add_rows(k, relative, exp_tables + t * k * k, sums);
        double *message = messages->message + (i - lo) * k;
        double *above = messages->inside + (parent[i] - lo) * k;
        for (Index a = 0; a < k; a++) {
            if (sums[a] >= TINY) {
                message[a] = top + table_top[t] + log(sums[a]);
            } else {
                sums[a] = -1.0;
                message[a] = log_sum(k, inside, scores->tables + t * k * k, a);
            }
            above[a] += message[a];
        }
    }
}

/* out[:, a] = mass P(child | parent = a), in log space, relative to the largest term: beside scores
 * of 1e17 a logarithm of the sum would be lost. */
static void conditional(Index k, const double *inside, const double *table, Index a, double mass,
                        double *out)
{
    double top = -INFINITY, total = 0.0;
    for (Index b = 0; b < k; b++) {
        const double value = inside[b] + table[b * k + a];
        top = value > top ? value : top;
    }
    for (Index b = 0; b < k; b++) {
        out[b * k + a] = exp(inside[b] + table[b * k + a] - top);
        total += out[b * k + a];
    }
    for (Index b = 0; b < k; b++) out[b * k + a] *= mass / total;
}

/* share[a] = r_above[a] / total[a]; false if a total that matters was too small to trust. */
static bool shares(Index k, const double *r_above, const double *total, double *share)
{
    bool trusted = true;
    for (Index a = 0; a < k; a++) {
        share[a] = total[a] > 0.0 ? r_above[a] / total[a] : 0.0;
        trusted = trusted && (total[a] > 0.0 || r_above[a] <= 0.0);
    }
    return trusted;
}

void edge_marginal(Index k, const double *r_above, Index node, const Messages *messages,
                   const double *table, const double *exp_table, double *share, double *out)
{
    const double *inside = messages->inside + node * k, *relative = messages->relative + node * k;
    const double *total = messages->total + node * k;
    const bool trusted = shares(k, r_above, total, share);
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++) out[b * k + a] = relative[b] * exp_table[b * k + a] * share[a];
    if (trusted) return;
    for (Index a = 0; a < k; a++)
        if (total[a] < 0.0 && r_above[a] > 0.0) conditional(k, inside, table, a, r_above[a], out);
}

/* r[b] = sum over a of relative[b] exp_table[b, a] share[a]; its terms times factor go to sums. */
static void spread(Index k, const double *relative, const double *exp_table, const double *share,
                   double factor, double *r, double *sums)
{
    for (Index b = 0; b < k; b++) {
        const double here = relative[b], *row = exp_table + b * k;
        if (here == 0.0) {
            r[b] = 0.0;
            continue;
        }
        const double c = factor * here;
        for (Index a = 0; a < k; a++) sums[b * k + a] += c * row[a] * share[a];
        double m[4] = {0.0, 0.0, 0.0, 0.0}; /* side by side, they become vectors */
        for (Index a = 0; a + 4 <= k; a += 4)
            for (int j = 0; j < 4; j++) m[j] += row[a + j] * share[a + j];
        for (Index a = k - k % 4; a < k; a++) m[0] += row[a] * share[a];
        r[b] = here * ((m[0] + m[1]) + (m[2] + m[3]));
    }
}

/* relative and total of messages_up, by products alone; false if one became too small. scale[i]:
 * logarithm of what relative[i] is to be multiplied by, to be sums over i's subtree. */
static bool quick_up(Index lo, Index hi, Index k, const Index *parent, const Index *table_of,
                     const Exponentials *exponentials, const Messages *messages, double *scale)
{
    double *relative = messages->relative;
    memcpy(relative, exponentials->unary + lo * k, (size_t)((hi - lo) * k) * sizeof(double));
    memcpy(scale, exponentials->top + lo, (size_t)(hi - lo) * sizeof(double));
    for (Index i = lo; i < hi; i++) {
        double *own = relative + (i - lo) * k, *sums = messages->total + (i - lo) * k;
        double top = 0.0;
        for (Index b = 0; b < k; b++) top = own[b] > top ? own[b] : top;
        if (!(top >= FAINT)) return false;
        double inverse = 1.0 / top;
        for (Index b = 0; b < k; b++) own[b] *= inverse;
        scale[i - lo] += log(top);
        if (parent[i] < 0) continue;
        const Index t = table_of[i];
        const double *exp_table = exponentials->tables + t * k * k;
        for (Index a = 0; a < k; a++) sums[a] = 0.0 + own[0] * exp_table[a];
        for (Index b = 1; b < k; b++)
            for (Index a = 0; a < k; a++) sums[a] += own[b] * exp_table[b * k + a];
        double least = sums[0];
        top = sums[0];
        for (Index a = 1; a < k; a++) {
            least = sums[a] < least ? sums[a] : least;
            top = sums[a] > top ? sums[a] : top;
        }
        if (!(least >= TINY)) return false;
        inverse = 1.0 / top;
        double *above = relative + (parent[i] - lo) * k;
        for (Index a = 0; a < k; a++) above[a] *= sums[a] * inverse;
        scale[parent[i] - lo] += scale[i - lo] + exponentials->table_top[t] + log(top);
    }
    return true;
}

/* r of a root; return the log-partition of its tree. */
static double root_marginal(Index k, const double *relative, double scale, double *r)
{
    double mass = 0.0;
    for (Index b = 0; b < k; b++) mass += relative[b];
    for (Index b = 0; b < k; b++) r[b] = mass > 0.0 ? relative[b] / mass : 0.0;
    return mass > 0.0 ? scale + log(mass) : -INFINITY;
}

/* r of node i, number ``node`` of its sample, and the marginal of the edge to its parent. joint
 * (k, k) and portion (k): scratch. */
static void marginals_below(Index i, Index node, Index above, double share,
                            const ScoreArrays *scores, const Exponentials *exponentials,
                            const Messages *messages, double *joint, double *portion, Gibbs *gibbs)
{
    const Index k = scores->n_labels, t = scores->table_of[i];
    const double *exp_table = exponentials->tables + t * k * k;
    double *r = gibbs->r + i * k, *sums = gibbs->table_sums + t * k * k;
    const double *r_above = gibbs->r + above * k;
    if (!gibbs->n_slots && shares(k, r_above, messages->total + node * k, portion)) {
        spread(k, messages->relative + node * k, exp_table, portion, share, r, sums);
        return;
    }
    edge_marginal(k, r_above, node, messages, scores->tables + t * k * k, exp_table, portion, joint);
    for (Index b = 0; b < k; b++) {
        r[b] = 0.0;
        for (Index a = 0; a < k; a++) r[b] += joint[b * k + a];
    }
    if (gibbs->n_slots) memcpy(gibbs->q + i * k * k, joint, (size_t)(k * k) * sizeof *joint);
    for (Index j = 0; j < k * k; j++) sums[j] += share * joint[j];
}

static void sum_sample(Index s, const Structure *structure, const ScoreArrays *scores,
                       const Exponentials *exponentials, double share, const Messages *messages,
                       double *scale, double *joint, double *portion, Gibbs *gibbs)
{
    const Index k = scores->n_labels, lo = structure->offsets[s], hi = structure->offsets[s + 1];
    const Index *parent = structure->parent;
    if (!quick_up(lo, hi, k, parent, scores->table_of, exponentials, messages, scale)) {
        messages_up(lo, hi, parent, scores, exponentials->tables, exponentials->table_top, messages);
        for (Index i = 0; i < hi - lo; i++) scale[i] = largest(k, messages->inside + i * k);
    }
    double log_z = 0.0;
    for (Index i = hi - 1; i >= lo; i--) {
        const Index node = i - lo;
        if (parent[i] < 0) {
            log_z += root_marginal(k, messages->relative + node * k, scale[node], gibbs->r + i * k);
            if (gibbs->n_slots) memset(gibbs->q + i * k * k, 0, (size_t)(k * k) * sizeof(double));
        } else {
            marginals_below(i, node, parent[i], share, scores, exponentials, messages, joint,
                            portion, gibbs);
        }
    }
    gibbs->log_partition[s] = log_z;
}

/* Log-partition and marginals of samples first .. last-1; share (S) weighs table sums. A component
 * whose every labelling is forbidden has marginals 0 and log-partition -inf. */
API Index sum_product(Index first, Index last, const Structure *structure,
                      const ScoreArrays *scores, const Exponentials *exponentials,
                      const double *share, Gibbs *gibbs)
{
    const Index k = scores->n_labels;
    Index longest = 0;
    for (Index s = first; s < last; s++)
        longest = max_index(longest, structure->offsets[s + 1] - structure->offsets[s]);
    const Index size = longest * k;
    double *scratch = NEW(double, 4 * size + longest + k * k + k);
    if (!scratch) return NO_MEMORY;
    const Messages messages = {scratch, scratch + size, scratch + 2 * size, scratch + 3 * size};
    double *scale = scratch + 4 * size, *joint = scale + longest, *portion = joint + k * k;
    for (Index s = first; s < last; s++)
        sum_sample(s, structure, scores, exponentials, share[s], &messages, scale, joint, portion,
                   gibbs);
    free(scratch);
    return 0;
}

/* ------------------------------------------------------------------------------- K best labellings
 *
 * Max-product with sorted lists in place of numbers. */

void merge_labels(Index k, Index size, const double *lists, const double *table, Index a,
                  double *out, Index *out_label, Index *out_rank, Index *pointer)
{
    for (Index b = 0; b < k; b++) pointer[b] = 0;
    for (Index rank = 0; rank < size; rank++) {
        double best = -INFINITY;
        Index choice = -1;
        for (Index b = 0; b < k; b++) {
            if (pointer[b] == size) continue;
            const double own = lists[b * size + pointer[b]];
            const double value = table ? own + table[b * k + a] : own;
            if (value > best) {
                best = value;
                choice = b;
            }
        }
        out[rank] = best;
        if (choice < 0) continue;
        out_label[rank] = choice;
        out_rank[rank] = pointer[choice]++;
    }
}

void merge_sums(Index size, const double *left, const double *right, double *out, Index *out_left,
                Index *out_right, Index *pointer)
{
    for (Index x = 0; x < size; x++) pointer[x] = 0;
    for (Index rank = 0; rank < size; rank++) {
        double best = -INFINITY;
        Index choice = -1;
        for (Index x = 0; x < size; x++) {
            if (pointer[x] < size && left[x] + right[pointer[x]] > best) {
                best = left[x] + right[pointer[x]];
                choice = x;
            }
            if (pointer[x] == 0) break; /* later entries cannot do better before this one is used */
        }
        out[rank] = best;
        if (choice < 0) continue;
        out_left[rank] = choice;
        out_right[rank] = pointer[choice]++;
    }
}

/* How the lists of one sample were made: for each node and label above, which entry of the list
 * before (left) was added to which of the child's message (right), and what that message was. */
typedef struct {
    Index *label, *rank, *left, *right; /* (n, k, size) each */
} Origins;

/* Read labelling number ``choice`` off the origins. label, rank (n): scratch. */
static void trace(Index choice, Index n, Index k, Index size, const Index *parent, Index lo,
                  const Origins *from, Index *label, Index *rank)
{
    Index rest = choice;
    for (Index i = n - 1; i >= 0; i--) {
        const Index above = parent[lo + i] - lo;
        const bool root = parent[lo + i] < 0;
        const Index a = root ? 0 : label[above], entry = root ? rest : rank[above];
        const Index *left = from->left + (i * k + a) * size;
        const Index place = from->right[(i * k + a) * size + entry];
        if (root)
            rest = left[entry];
        else
            rank[above] = left[entry];
        label[i] = from->label[(i * k + a) * size + place];
        rank[i] = from->rank[(i * k + a) * size + place];
    }
}

/* The ``size`` best labellings of nodes lo .. hi-1, a forest; return how many there are. labels
 * (size, n) and values (size), out. */
API Index k_best(Index lo, Index hi, const Structure *structure, const ScoreArrays *scores,
                 Index size, Index *labels, double *values)
{
    const Index n = hi - lo, k = scores->n_labels, *parent = structure->parent;
    const Index all = n * k * size;
    double *numbers = NEW(double, all + 3 * size);
    Index *indices = calloc((size_t)(4 * all + max_index(k, size) + 2 * n + 1), sizeof(Index));
    if (!numbers || !indices) {
        free(numbers);
        free(indices);
        return NO_MEMORY;
    }
    double *lists = numbers, *message = lists + all, *merged = message + size, *total = merged + size;
    const Origins from = {indices, indices + all, indices + 2 * all, indices + 3 * all};
    Index *pointer = indices + 4 * all, *label = pointer + max_index(k, size), *rank = label + n;
    for (Index j = 0; j < all; j++) lists[j] = -INFINITY;
    for (Index j = 0; j < n * k; j++) lists[j * size] = scores->unary[lo * k + j];
    for (Index j = 0; j < size; j++) total[j] = -INFINITY;
    total[0] = 0.0;
    for (Index i = 0; i < n; i++) {
        const Index above = parent[lo + i];
        const double *table = above < 0 ? NULL : scores->tables + scores->table_of[lo + i] * k * k;
        for (Index a = 0; a < (above < 0 ? 1 : k); a++) {
            const Index at = (i * k + a) * size;
            double *target = above < 0 ? total : lists + ((above - lo) * k + a) * size;
            merge_labels(k, size, lists + i * k * size, table, a, message, from.label + at,
                         from.rank + at, pointer);
            merge_sums(size, target, message, merged, from.left + at, from.right + at, pointer);
            memcpy(target, merged, (size_t)size * sizeof *target);
        }
    }
    Index found = 0;
    for (; found < size && total[found] > -INFINITY; found++) {
        trace(found, n, k, size, parent, lo, &from, label, rank);
        memcpy(labels + found * n, label, (size_t)n * sizeof *label);
        values[found] = total[found];
    }
    free(numbers);
    free(indices);
    return found;
}

/* --------------------------------------------------------------------------- labels that can occur */

/* allowed (N, k), out: the labels of samples first .. last-1 that some labelling has without a score
 * of -inf. Up the tree a label needs a partner below each of its edges, then down one above. */
API Index forest_allowed(Index first, Index last, const Structure *structure,
                         const ScoreArrays *scores, bool *allowed)
{
    const Index k = scores->n_labels, *parent = structure->parent;
    for (Index s = first; s < last; s++) {
        const Index lo = structure->offsets[s], hi = structure->offsets[s + 1];
        for (Index j = lo * k; j < hi * k; j++) allowed[j] = scores->unary[j] > -INFINITY;
        for (Index i = lo; i < hi; i++) {
            if (parent[i] < 0) continue;
            const double *table = scores->tables + scores->table_of[i] * k * k;
            for (Index a = 0; a < k; a++) {
                bool partner = false;
                for (Index b = 0; b < k; b++)
                    partner |= allowed[i * k + b] && table[b * k + a] > -INFINITY;
                allowed[parent[i] * k + a] &= partner;
            }
        }
        for (Index i = hi - 1; i >= lo; i--) {
            if (parent[i] < 0) continue;
            const double *table = scores->tables + scores->table_of[i] * k * k;
            for (Index b = 0; b < k; b++) {
                bool partner = false;
                for (Index a = 0; a < k; a++)
                    partner |= allowed[parent[i] * k + a] && table[b * k + a] > -INFINITY;
                allowed[i * k + b] &= partner;
            }
        }
    }
    return 0;
}
