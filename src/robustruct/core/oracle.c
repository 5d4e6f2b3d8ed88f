/* The labelling oracle of training: the scores of a sample, the predictor's answer, the best and the
 * worst labelling.
 *
 * The predictor minimises p'L r + sum of mu_a (p_a - p0_a)^2 / 2, beside its centre p0; zeros of
 * inv_mu = 1 / mu hold it there. */
#include "ascent.h"
#include "messages.h"
#include "simd.h"

/* out (k) = base (k) + the sum of factor[j] rows[index[j]], begin <= j < end. */
INLINE void combine(const int R, Index k, Index begin, Index end, const int32_t *index,
                    const double *factor, const double *rows, const double *base, double *out)
{
    if (R == 0) {
        row_product(begin, end, index, factor, k, rows, base, out);
        return;
    }
    Vec sum[MOST_REGISTERS];
    EACH(r) sum[r] = load(base + PLACE(r));
    for (Index j = begin; j < end; j++) {
        const double *row = rows + index[j] * k;
        const Vec value = broadcast(factor[j]);
        EACH(r) sum[r] += value * load(row + PLACE(r));
    }
    EACH(r) store(out + PLACE(r), sum[r]);
}

/* The labels whose number is above ``threshold``, ascending; return how many there are. */
INLINE Index labels_above(const int R, Index k, const double *row, double threshold, int32_t *labels)
{
    Index count = 0;
    if (R == 0) {
        for (Index a = 0; a < k; a++) {
            labels[count] = (int32_t)a;
            count += row[a] > threshold;
        }
        return count;
    }
    unsigned found = 0;
    EACH(r) found |= bits(load(row + PLACE(r)) > broadcast(threshold)) << PLACE(r);
    for (; found; found &= found - 1) labels[count++] = __builtin_ctz(found);
    return count;
}

/* ---------------------------------------------------------------------------------- the scores */

/* Rows of weights are far apart in memory: those of the next node are prefetched meanwhile. */
INLINE void gather_nodes(const int R, Index k, const Ascent *ascent, const Sample *sample,
                         double *unary)
{
    const Rows *nodes = &ascent->design.features.nodes;
    const Rules *rules = &ascent->design.rules;
    const double *weights = ascent->weights.node;
    for (Index i = sample->lo; i < sample->lo + sample->n; i++) {
        const Index begin = nodes->indptr[i], end = nodes->indptr[i + 1];
        if (i + 1 < sample->lo + sample->n)
            for (Index j = end; j < nodes->indptr[i + 2]; j++)
                for (Index a = 0; a < k; a += 8)
                    __builtin_prefetch(weights + nodes->indices[j] * k + a);
        combine(R, k, begin, end, nodes->indices, nodes->data, weights,
                rules->unary_mask + rules->node_kind[i] * k, unary + (i - sample->lo) * k);
    }
}

static void gather_unary(Index k, const Ascent *ascent, const Sample *sample, double *unary)
{
    SPECIALISED(gather_nodes, k, ascent, sample, unary)
}

static void gather_table(Index k, Index t, const Ascent *ascent, double *table)
{
    const Rows *edges = &ascent->design.features.edges;
    const Index row = ascent->design.tables.row[t];
    row_product(edges->indptr[row], edges->indptr[row + 1], edges->indices, edges->data, k * k,
                ascent->weights.edge, ascent->design.rules.pair_mask, table);
    if (!ascent->design.tables.transposed[t]) return;
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < b; a++) {
            const double kept = table[b * k + a];
            table[b * k + a] = table[a * k + b];
            table[a * k + b] = kept;
        }
}

void gather_scores(const Ascent *ascent, const Scratch *scratch, const SampleScores *scores)
{
    const Index k = ascent->weights.n_labels;
    const Sample *sample = &scratch->sample;
    Index used = 0, *place_of = scratch->place_of;
    gather_unary(k, ascent, sample, scores->unary);
    for (Index j = 0; j < sample->m; j++) {
        scores->place[j] = 0;
        if (sample->parent[j] < 0) continue;
        const Index t = sample->table_of[j];
        if (place_of[t] < 0) {
            gather_table(k, t, ascent, scores->tables + used * k * k);
            scores->distinct[used] = t;
            place_of[t] = used++;
        }
        scores->place[j] = place_of[t];
    }
    for (Index u = 0; u < used; u++) place_of[scores->distinct[u]] = -1;
}

/* ------------------------------------------------------------------------------- the predictor */

/* Scratch of the predictor's answer: rows of k numbers. */
typedef struct {
    double *expected, *value, *p;
    int32_t *labels;
} Lines;

/* p of one node, given L r: p_a = max(0, mu_a p0_a - (L r)_a - t) / mu_a, by Newton on t from below.
 * Where L r is infinite p is 0. Where one label is left its p is 1 to the last bit. Return how many
 * labels have p > 0: these and their p are in ``lines``. */
INLINE Index answer(const int R, Index k, const Predictor *predictor, const double *p0,
                    const Lines *lines)
{
    const double *mu = predictor->mu, *inv_mu = predictor->inv_mu, *expected = lines->expected;
    double *value = lines->value, *p = lines->p;
    int32_t *labels = lines->labels;
    double threshold = -INFINITY;
    if (R == 0) {
        for (Index a = 0; a < k; a++) {
            value[a] = mu[a] * p0[a] - expected[a];
            threshold = value[a] - mu[a] > threshold ? value[a] - mu[a] : threshold;
        }
    } else {
        Vec top = broadcast(-INFINITY);
        EACH(r) {
            const Vec own = load(mu + PLACE(r));
            const Vec v = own * load(p0 + PLACE(r)) - load(expected + PLACE(r));
            top = maximum(v - own, top);
            store(value + PLACE(r), v);
        }
        threshold = top_of(top);
    }
    Index left = labels_above(R, k, value, threshold, labels), above = left;
    for (Index round = 0; round <= k; round++) {
        double excess = -1.0, slope = 0.0;
        above = 0; /* the threshold grows, so the set above it shrinks */
        for (Index j = 0; j < left; j++) {
            const int32_t a = labels[j];
            if (!(value[a] > threshold)) continue;
            excess += inv_mu[a] * (value[a] - threshold);
            slope += inv_mu[a];
            labels[above++] = a;
        }
        left = above;
        if (excess <= 1e-15 * (double)above) break;
        threshold += excess / slope;
    }
    Index count = 0;
    for (Index j = 0; j < left; j++) {
        const int32_t a = labels[j];
        if (!(value[a] > threshold)) continue;
        labels[count] = a;
        p[count] = above == 1 ? 1.0 : inv_mu[a] * (value[a] - threshold);
        count += p[count] > 0.0;
    }
    return count;
}

/* The label with p0 = 1, or -1. */
INLINE Index sure_label(const int R, Index k, const double *p0)
{
    if (R == 0) {
        for (Index a = 0; a < k; a++)
            if (p0[a] == 1.0) return a;
        return -1;
    }
    unsigned found = 0;
    EACH(r) found |= bits(load(p0 + PLACE(r)) == broadcast(1.0)) << PLACE(r);
    return found ? __builtin_ctz(found) : -1;
}

/* lines->expected = L r, or infinity where mask is -inf; return the least. */
INLINE double expected_cost(const int R, Index k, const Predictor *predictor, const double *r,
                            const double *mask, const Lines *lines)
{
    double *base = lines->value, least = INFINITY;
    const Index count = labels_above(R, k, r, 0.0, lines->labels);
    for (Index j = 0; j < count; j++) lines->p[j] = r[lines->labels[j]];
    if (R == 0) {
        for (Index a = 0; a < k; a++) base[a] = mask[a] > -INFINITY ? 0.0 : INFINITY;
    } else {
        EACH(g) {
            const Mask allowed = load(mask + PLACE(g)) > broadcast(-INFINITY);
            store(base + PLACE(g), choose(allowed, broadcast(0.0), broadcast(INFINITY)));
        }
    }
    combine(R, k, 0, count, lines->labels, lines->p, predictor->cost_t, base, lines->expected);
    if (R == 0) {
        for (Index a = 0; a < k; a++)
            least = lines->expected[a] < least ? lines->expected[a] : least;
        return least;
    }
    Vec low = broadcast(INFINITY);
    EACH(g) low = minimum(load(lines->expected + PLACE(g)), low);
    return -top_of(-low);
}

INLINE double augment_rows(const int R, Index k, const Ascent *ascent, const Scratch *scratch,
                           const double *r, const SampleScores *scores)
{
    const Predictor *predictor = &ascent->predictor;
    const bool held = predictor->inv_mu[0] == 0.0;
    const Lines lines = {scratch->rows, scratch->rows + k, scratch->rows + 2 * k, scratch->labels};
    double regret = 0.0;
    for (Index i = 0; i < scratch->sample.n; i++) {
        const double *unary = scores->unary + i * k;
        const double *p0 = predictor->centre + (scratch->sample.lo + i) * k;
        const double weight = predictor->weight[scratch->sample.lo + i];
        Index count;
        if (held) {
            count = labels_above(R, k, p0, 0.0, lines.labels);
            for (Index j = 0; j < count; j++) lines.p[j] = weight * p0[lines.labels[j]];
        } else {
            const double least = expected_cost(R, k, predictor, r + i * k, unary, &lines);
            const Index label = sure_label(R, k, p0);
            if (label >= 0 && lines.expected[label] == least) { /* it stays: most nodes */
                count = 1;
                lines.labels[0] = (int32_t)label;
                lines.p[0] = weight;
            } else {
                count = answer(R, k, predictor, p0, &lines);
                regret -= weight * least;
                for (Index j = 0; j < count; j++) {
                    lines.p[j] *= weight;
                    regret += lines.p[j] * lines.expected[lines.labels[j]];
                }
            }
        }
        combine(R, k, 0, count, lines.labels, lines.p, predictor->cost, unary,
                scores->augmented + i * k);
    }
    return regret;
}

double augment(const Ascent *ascent, const Scratch *scratch, const double *r,
               const SampleScores *scores)
{
    const Index k = ascent->weights.n_labels;
    SPECIALISED(augment_rows, k, ascent, scratch, r, scores)
}

INLINE void move_rows(const int R, Index k, Index lo, Index hi, const Predictor *predictor,
                      const Rules *rules, const double *r, const Lines *lines)
{
    for (Index i = lo; i < hi; i++) {
        double *p0 = predictor->centre + i * k;
        const double *mask = rules->unary_mask + rules->node_kind[i] * k;
        const double least = expected_cost(R, k, predictor, r + i * k, mask, lines);
        const Index label = sure_label(R, k, p0);
        if (label >= 0 && lines->expected[label] == least) continue;
        const Index count = answer(R, k, predictor, p0, lines);
        memset(p0, 0, (size_t)k * sizeof *p0);
        for (Index j = 0; j < count; j++) p0[lines->labels[j]] = lines->p[j];
    }
}

static void move_all(Index k, Index lo, Index hi, const Predictor *predictor, const Rules *rules,
                     const double *r, const Lines *lines)
{
    SPECIALISED(move_rows, k, lo, hi, predictor, rules, r, lines)
}

/* Move the centres p0 of nodes lo .. hi-1 to the predictor's answer to r (N, k). */
API Index move_centres(Index lo, Index hi, const Predictor *predictor, const Rules *rules,
                       const double *r)
{
    const Index k = predictor->n_labels;
    double *rows = NEW(double, 4 * k); /* the last for labels */
    if (!rows) return NO_MEMORY;
    const Lines lines = {rows, rows + k, rows + 2 * k, (int32_t *)(rows + 3 * k)};
    move_all(k, lo, hi, predictor, rules, r, &lines);
    free(rows);
    return 0;
}

/* --------------------------------------------------------------------------- the best labelling */

/* best[i, b]: score of the best labelling of i's subtree with label b at i. */
INLINE void best_up(const int R, Index k, const Sample *sample, const SampleScores *scores,
                    double *best)
{
    memcpy(best, scores->augmented, (size_t)(sample->n * k) * sizeof *best);
    for (Index i = 0; i < sample->n; i++) {
        if (sample->parent[i] < 0) continue;
        const double *below = best + i * k, *table = scores->tables + scores->place[i] * k * k;
        double *above = best + sample->parent[i] * k;
        Vec message[MOST_REGISTERS];
        EACH(r) message[r] = broadcast(-INFINITY);
        for (Index b = 0; b < k; b++, table += k) {
            const Vec score = broadcast(below[b]);
            EACH(r) message[r] = maximum(score + load(table + PLACE(r)), message[r]);
        }
        EACH(r) message[r] += load(above + PLACE(r));
        EACH(r) store(above + PLACE(r), message[r]);
    }
}

/* The first largest of own[b] + column[b k], or of own[b] where there is no column. */
INLINE Index first_largest(const int R, Index k, const double *own, const double *column)
{
    Vec top = broadcast(-INFINITY), at = broadcast(0.0);
    EACH(r) {
        const Index b = PLACE(r);
        Vec v = load(own + b);
        if (column) v += load_apart(column + b * k, k);
        at = choose(v > top, COUNTING + (double)b, at);
        top = maximum(v, top);
    }
    double value = top[0], label = at[0];
    UNROLL for (int j = 1; j < LANES; j++) {
        const bool better = (top[j] > value) | ((top[j] == value) & (at[j] < label));
        label = better ? at[j] : label;
        value = better ? top[j] : value;
    }
    return (Index)label;
}

/* The best labelling into labels (n); return its score. best (n, k): scratch. */
INLINE double best_labelling(const int R, Index k, const Sample *sample, const SampleScores *scores,
                             double *best, double *message, Index *labels)
{
    if (R == 0) {
        max_product_up(0, sample->n, k, sample->parent, scores->augmented, scores->tables,
                       scores->place, best, message);
        return max_product_down(0, sample->n, k, sample->parent, scores->tables, scores->place,
                                best, labels);
    }
    double total = 0.0;
    best_up(R, k, sample, scores, best);
    for (Index i = sample->n - 1; i >= 0; i--) {
        const double *own = best + i * k;
        if (sample->parent[i] < 0) {
            labels[i] = first_largest(R, k, own, NULL);
            total += own[labels[i]];
        } else {
            const double *table = scores->tables + scores->place[i] * k * k;
            labels[i] = first_largest(R, k, own, table + labels[sample->parent[i]]);
        }
    }
    return total;
}

/* ----------------------------------------------------- the worst labelling, and both in a move */

/* Score of the sample's marginals, <augmented, r> + <tables, q>. labels (k): scratch. */
INLINE double own_score(const int R, Index k, const Sample *sample, const Marginals *adversary,
                        const SampleScores *scores, int32_t *labels)
{
    double value = 0.0;
    for (Index i = 0; i < sample->n; i++) {
        const double *r = adversary->r + i * k, *augmented = scores->augmented + i * k;
        const Index count = labels_above(R, k, r, 0.0, labels), first = i * adversary->n_room;
        for (Index j = 0; j < count; j++) value += r[labels[j]] * augmented[labels[j]];
        if (sample->parent[i] < 0) continue;
        const double *table = scores->tables + scores->place[i] * k * k;
        for (Index at = first; at < first + adversary->count[i]; at++)
            value += adversary->mass[at] * table[adversary->pair[at]];
    }
    return value;
}

/* lowest (n, k): score of the lowest labelling of a node's subtree that carries mass, by label. */
static void lowest_up(Index k, const Sample *sample, const Marginals *adversary,
                      const SampleScores *scores, double *restrict lowest, double *restrict message)
{
    const double *restrict r = adversary->r, *restrict augmented = scores->augmented;
    for (Index j = 0; j < sample->n * k; j++) lowest[j] = r[j] > 0.0 ? augmented[j] : INFINITY;
    for (Index i = 0; i < sample->n; i++) {
        if (sample->parent[i] < 0) continue;
        const double *table = scores->tables + scores->place[i] * k * k;
        const Index first = i * adversary->n_room;
        for (Index a = 0; a < k; a++) message[a] = INFINITY;
        for (Index at = first; at < first + adversary->count[i]; at++) {
            const uint32_t code = (uint32_t)adversary->pair[at];
            const uint32_t b = code / (uint32_t)k, a = code % (uint32_t)k;
            const double value = lowest[i * k + b] + table[code];
            message[a] = value < message[a] ? value : message[a];
        }
        double *above = lowest + sample->parent[i] * k;
        for (Index a = 0; a < k; a++) above[a] += message[a];
    }
}

/* Lowest-scoring labelling whose nodes and edges all carry mass, into labels (n). False if there is
 * none: marginals that rounding made inconsistent. */
static bool worst_in_support(Index k, const Scratch *scratch, const Marginals *adversary,
                             const SampleScores *scores, Index *labels)
{
    const Sample *sample = &scratch->sample;
    lowest_up(k, sample, adversary, scores, scratch->messages, scratch->rows);
    for (Index i = sample->n - 1; i >= 0; i--) {
        const double *own = scratch->messages + i * k;
        Index choice = -1;
        double value = INFINITY;
        if (sample->parent[i] < 0) {
            for (Index b = 0; b < k; b++)
                if (own[b] < value) {
                    value = own[b];
                    choice = b;
                }
        } else {
            const Index above = labels[sample->parent[i]], first = i * adversary->n_room;
            const double *table = scores->tables + scores->place[i] * k * k;
            for (Index at = first; at < first + adversary->count[i]; at++) {
                const uint32_t code = (uint32_t)adversary->pair[at], b = code / (uint32_t)k;
                if (code - b * (uint32_t)k == above && own[b] + table[code] < value) {
                    value = own[b] + table[code];
                    choice = b;
                }
            }
        }
        if (choice < 0) return false;
        labels[i] = choice;
    }
    return true;
}

void cost_margins(Index n, const SampleScores *scores, const Move *move)
{
    const Index k = scores->n_labels;
    for (Index i = 0; i < n; i++) {
        const double *unary = scores->unary + i * k, *augmented = scores->augmented + i * k;
        const Index a = move->best[i], b = move->worst[i];
        move->cost_margin[i] = augmented[a] - unary[a] - augmented[b] + unary[b];
    }
}

INLINE Found find(const int R, Index k, const Ascent *ascent, const Scratch *scratch,
                  const Marginals *adversary, const SampleScores *scores, double enough,
                  const Move *move)
{
    const Sample *sample = &scratch->sample;
    Found found;
    found.regret = augment_rows(R, k, ascent, scratch, adversary->r, scores);
    found.gap =
        best_labelling(R, k, sample, scores, scratch->messages, scratch->rows, move->best);
    found.gap -= own_score(R, k, sample, adversary, scores, scratch->labels);
    found.moves = found.gap > enough
                  && worst_in_support(k, scratch, adversary, scores, move->worst);
    if (found.moves) cost_margins(sample->n, scores, move);
    return found;
}

Found find_move(const Ascent *ascent, const Scratch *scratch, const Marginals *adversary,
                const SampleScores *scores, double enough, const Move *move)
{
    const Index k = ascent->weights.n_labels;
    SPECIALISED(find, k, ascent, scratch, adversary, scores, enough, move)
}
