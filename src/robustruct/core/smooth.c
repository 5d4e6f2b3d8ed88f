/* Block-coordinate ascent on the dual of smooth training (T > 0), one sample (block) at a time.
 *
 * The adversary of a sample is a Gibbs distribution, stored by its natural parameters psi, with node
 * marginals r, edge marginals summed by own table, and entropy. A visit mixes the natural parameters
 * with the present scores of the sample, divided by T:
 *
 *     X = (theta Phi + w L'p) / T,  p = Proj(p0 - L r / mu);      psi <- psi + gamma (X - psi)
 *
 * Along the change delta of the marginals the curvature of the dual is
 * b(delta) = rate |Phi' delta|^2 + sum_i w_i |L delta_i|^2 / mu, and its slope at the new point is
 * (1 - gamma) <X - psi, delta> - b(delta) / T. gamma is accepted when that is small against
 * <X - psi, delta>: float resolves slopes, but not differences of values. gamma = 1 gives the Gibbs
 * distribution of the scores. (Cf. exponentiated gradient, Collins et al., 2008.) */
#define REAL float
#define REAL_IS_DOUBLE 0
#include "gibbs.h"
#include "counters.h"

#define TRIES 20       /* most trials of gamma: 4 are too few under weak penalties; few samples need 3 */
/* Relative slope at which a step ends: short of the best length, and beyond it. Samples visited under the
 * same weights add up, so too long costs more. CoNLL-2000, gap of a CRF after 6 passes and of an AGM (T = .3)
 * after 8: .8 and 7.3 %; with .15 for both 1.2 and 9.4 % (10 % fewer trials), with .05 and .15 1.4 and 9.5 %,
 * with .3 for both 4.5 and 23 % (20 % fewer). */
#define SHORT 0.15f
#define LONG 0.05f
#define LOWEST -2.0f   /* floor of relative slopes: below, the step is much too long anyway */

/* Scratch of one thread: rows of a sample, and of one node. */
typedef struct {
    GibbsScratch gibbs;
    float *goal;     /* X */
    float *way;      /* from the natural parameters to X */
    float *trial;    /* natural parameters on that way */
    float *new;      /* and their marginals */
    float *delta;    /* less the marginals before */
    float *expected; /* L r of a node, also for sums of rows */
    float *played;   /* p of a node */
    float *added;    /* w L'p of a node */
    float *columns;  /* of a sample without products of nodes */
} VisitScratch;

/* Arguments and scratch of a visit. */
typedef struct {
    const SmoothProblem *problem;
    const PaddedWeights *weights;
    const PaddedCosts *costs;
    const SmoothSettings *settings;
    const double *rates;
    GibbsAdversary *adversary;
    const Grams *grams;
    VisitScratch work;
} Visit;

/* ------------------------------------------------------------------------------- sparse products */

INLINE void gather_block(int R, Index y, Index begin, Index end, const Rows *features,
                         Index stride, const float *rows, float *out)
{
    Lanes sum[4];
    UNROLL for (int r = 0; r < R; r++) sum[r] = all(0);
    for (Index j = begin; j < end; j++) {
        const float *row = rows + features->indices[j] * stride + y, factor = (float)features->data[j];
        UNROLL for (int r = 0; r < R; r++) sum[r] += factor * get(row + r * STEP);
    }
    UNROLL for (int r = 0; r < R; r++) put(out + y + r * STEP, sum[r]);
}

/* out = sum over entries begin .. end-1 of their value times the row at column * stride of rows. */
static void gather_rows(Index width, Index begin, Index end, const Rows *features, Index stride,
                        const float *rows, float *out)
{
    FOR_ROW(width, gather_block, begin, end, features, stride, rows, out)
}

/* Add ``change`` times the values of entries begin .. end-1 to the rows at index * stride. */
static void scatter_row(Index width, Index begin, Index end, const int32_t *indices,
                        const double *data, Index stride, const float *change, float *rows)
{
    for (Index j = begin; j < end; j++) {
        float *row = rows + indices[j] * stride, factor = (float)data[j];
        for (Index y = 0; y < width; y += STEP) put(row + y, get(row + y) + factor * get(change + y));
    }
}

/* --------------------------------------------------------------------------------- the predictor */

/* v <- the nearest point of the simplex, by Newton on the threshold from below. */
static void project(Index width, float *v)
{
    float threshold = row_top(width, v) - 1.0f;
    for (int round = 0; round < 30; round++) {
        Lanes mass = all(0), above = all(0);
        for (Index y = 0; y < width; y += STEP) {
            const Lanes over = get(v + y) - threshold;
            mass += top_of(over, all(0));
            above += PICK(over > 0, all(1), all(0));
        }
        const float next = threshold + (total(mass) - 1.0f) / total(above);
        if (next <= threshold) break;
        threshold = next;
    }
    for (Index y = 0; y < width; y += STEP) put(v + y, top_of(get(v + y) - threshold, all(0)));
}

/* expected = L r of a node; out = Proj(p0 - L r / mu) among allowed labels. */
static void new_predictor(const PaddedCosts *costs, Index node, const float *r, const float *mask,
                          float inv_mu, float *expected, float *out)
{
    const Index width = costs->n_width;
    const float *p0 = costs->p0 + node * width;
    times_rows(width, r, 1, costs->of_labels, costs->n_labels, expected);
    for (Index y = 0; y < width; y += STEP)
        put(out + y, get(p0 + y) - get(expected + y) * inv_mu + get(mask + y));
    project(width, out);
}

/* work.added = w L'p for a node; return the regret of p, w (p'L r - min L r). Labels that cannot
 * occur are not predicted. */
static float predictor_costs(const Visit *visit, Index node, const float *r, const float *mask)
{
    const PaddedCosts *costs = visit->costs;
    const VisitScratch *work = &visit->work;
    const Index width = costs->n_width;
    const float weight = costs->weight[node];
    if (visit->settings->player == TRUTH) {
        const float *row = costs->of_predictor + visit->problem->samples.labels[node] * width;
        for (Index y = 0; y < width; y += STEP) put(work->added + y, get(row + y) * weight);
        return 0.0f;
    }
    new_predictor(costs, node, r, mask, (float)visit->settings->inv_mu, work->expected, work->played);
    times_rows(width, work->played, 1, costs->of_predictor, costs->n_labels, work->added);
    Lanes least = all(-INFINITY); /* times -1 */
    for (Index y = 0; y < width; y += STEP) {
        least = top_of(get(mask + y) - get(work->expected + y), least);
        put(work->added + y, get(work->added + y) * weight);
    }
    return weight * (dot(width, work->played, work->expected) + greatest(least));
}

/* ------------------------------------------------------------------------------------- the scores */

/* Rows of scores, less the largest that is allowed, times ``inverse``, plus masks. */
static void make_relative(Index length, float inverse, const float *masks, float *rows)
{
    Lanes best = all(-INFINITY);
    for (Index y = 0; y < length; y += STEP) best = top_of(get(rows + y) + get(masks + y), best);
    const float top = greatest(best);
    for (Index y = 0; y < length; y += STEP)
        put(rows + y, (get(rows + y) - top) * inverse + get(masks + y));
}

/* work.goal = X up to constants. Out: the predictor's regret, and its cost on the truth,
 * sum_i w_i (L'p_i)_{y_i}. */
static void make_scores(const Visit *visit, const Sample *own, double *regret, double *paid)
{
    const SmoothProblem *problem = visit->problem;
    const Rows *nodes = &problem->features.nodes, *edges = &problem->features.edges;
    const PaddedRules *rules = &problem->rules;
    const Index width = own->width, k = own->k;
    const float inverse = (float)(1.0 / visit->settings->temperature);
    const float *r = visit->adversary->marginals + own->first_row * width;
    *regret = *paid = 0.0;
    for (Index i = 0; i < own->n; i++) {
        const Index node = own->lo + i;
        float *goal = visit->work.goal + i * width, *added = visit->work.added;
        const float *mask = rules->unary_mask + rules->node_kind[node] * width;
        gather_rows(width, nodes->indptr[node], nodes->indptr[node + 1], nodes, width,
                    visit->weights->rows, goal);
        if (visit->settings->player != NOBODY) {
            *regret += (double)predictor_costs(visit, node, r + i * width, mask);
            for (Index y = 0; y < width; y += STEP) put(goal + y, get(goal + y) + get(added + y));
            *paid += (double)added[own->all->labels[node]];
        }
        make_relative(width, inverse, mask, goal);
    }
    const Index *rows = own->all->row + own->all->table_start[own->s];
    for (Index t = 0; t < own->m; t++) {
        float *goal = visit->work.goal + (own->n + t * k) * width;
        /* The k rows of an edge feature lie side by side. */
        const float *weights = visit->weights->rows + visit->weights->d * width;
        gather_rows(k * width, edges->indptr[rows[t]], edges->indptr[rows[t] + 1], edges, k * width,
                    weights, goal);
        make_relative(k * width, inverse, rules->pair_mask, goal);
    }
}

/* ----------------------------------------------------------------------------------- the products */

/* |Phi' delta|^2 of the nodes of a sample, column by column. */
static float moved_features(const Visit *visit, const Sample *own)
{
    const Rows *nodes = &visit->problem->features.nodes;
    const Index length = visit->grams->n_columns[own->s] * own->width;
    float *columns = visit->work.columns;
    memset(columns, 0, (size_t)length * sizeof *columns);
    for (Index i = 0; i < own->n; i++) {
        const Index begin = nodes->indptr[own->lo + i], end = nodes->indptr[own->lo + i + 1];
        scatter_row(own->width, begin, end, visit->grams->local, nodes->data, own->width,
                    visit->work.delta + i * own->width, columns);
    }
    return dot(length, columns, columns);
}

/* delta = new - old for the rows of a node or a table, whose masses are equal.
 *
 * Changes sum to 0, but rounding loses small amounts that leave a mass of nearly 1. The missing sum is
 * therefore added where the mass is. */
INLINE void changes_of(Index length, const float *new, const float *old, float *delta)
{
    Lanes mass = all(0), sum = all(0);
    for (Index y = 0; y < length; y += STEP) {
        const Lanes change = get(new + y) - get(old + y);
        put(delta + y, change);
        mass += get(new + y);
        sum += change;
    }
    const float lost = -total(sum) / total(mass);
    for (Index y = 0; y < length; y += STEP) put(delta + y, get(delta + y) + get(new + y) * lost);
}

/* Slope <X - psi, delta> and curvature b(delta) for the change of the marginals to work.new. */
static void products(const Visit *visit, const Sample *own, float *slope, float *bend)
{
    const VisitScratch *work = &visit->work;
    const Grams *grams = visit->grams;
    const Index n = own->n, m = own->m, k = own->k, width = own->width;
    const float *old = visit->adversary->marginals + own->first_row * width, *delta = work->delta;
    float moved = 0.0f, costs = 0.0f;
    for (Index i = 0; i < n; i++)
        changes_of(width, work->new + i * width, old + i * width, work->delta + i * width);
    for (Index t = n * width; t < own->n_rows * width; t += k * width)
        changes_of(k * width, work->new + t, old + t, work->delta + t);
    *slope = dot(own->n_rows * width, work->way, delta);
    const float *gram = grams->nodes + grams->node_start[own->s];
    const bool multiplied = grams->node_start[own->s + 1] > grams->node_start[own->s];
    for (Index i = 0; i < n; i++) {
        const float *change = delta + i * width;
        if (multiplied) { /* symmetric: what is below the diagonal counts twice */
            times_rows(width, gram + i * n, 1, delta, i, work->expected);
            moved += 2.0f * dot(width, work->expected, change);
            moved += gram[i * n + i] * dot(width, change, change);
        }
        if (visit->settings->player == FREE) {
            times_rows(width, change, 1, visit->costs->of_labels, k, work->expected);
            costs += visit->costs->weight[own->lo + i] * dot(width, work->expected, work->expected);
        }
    }
    if (!multiplied) moved += moved_features(visit, own);
    gram = grams->tables + grams->table_start[own->s];
    for (Index t = 0; t < m; t++)
        for (Index u = 0; u <= t; u++) {
            const float product = gram[t * m + u];
            if (product != 0.0f)
                moved += (u == t ? 1.0f : 2.0f) * product *
                         dot(k * width, delta + (n + t * k) * width, delta + (n + u * k) * width);
        }
    *bend = (float)visit->rates[own->s] * moved + (float)visit->settings->inv_mu * costs;
}

/* <scores, marginals> in double, row by row. */
static double inner(const Sample *own, const float *scores, const float *marginals)
{
    double sum = 0.0;
    for (Index i = 0; i < own->n_rows; i++)
        sum += (double)dot(own->width, scores + i * own->width, marginals + i * own->width);
    return sum;
}

/* --------------------------------------------------------------------------------------- the step */

typedef enum { MOVED, STAYED, FAILED } Outcome; /* FAILED: no memory */

/* Move the adversary of a sample towards the scores in work.goal. Out: its gap, log Z of the goal,
 * and the rows of ``change`` by which theta is to follow. */
static Outcome step(const Visit *visit, const Sample *own, double *gap, double *log_z_goal,
                    float *change)
{
    const VisitScratch *work = &visit->work;
    GibbsAdversary *adversary = visit->adversary;
    const Index length = own->n_rows * own->width;
    float *natural = adversary->natural + own->first_row * own->width;
    float *old = adversary->marginals + own->first_row * own->width;
    const float rate = (float)visit->rates[own->s];
    const float inverse = (float)(1.0 / visit->settings->temperature);
    for (Index y = 0; y < length; y += STEP) {
        put(work->way + y, get(work->goal + y) - get(natural + y));
    }
    double log_z = 0.0;
    if (!marginals(own, &visit->problem->trees, work->goal, &work->gibbs, false, work->new, log_z_goal))
        return FAILED;
    /* T KL(q | Gibbs distribution of the scores) */
    *gap = *log_z_goal - adversary->entropy[own->s] - inner(own, work->goal, old);
    *gap *= visit->settings->temperature;
    /* gamma by false position: the slope, relative to that at 0, falls from 1. */
    float gamma = adversary->gamma[own->s], low = 0.0f, at_low = 1.0f, high = 1.0f, at_high = 0.0f;
    for (int attempt = 0;; attempt++) {
        float slope, bend;
        for (Index y = 0; y < length; y += STEP)
            put(work->trial + y, get(natural + y) + get(work->way + y) * gamma);
        if (!marginals(own, &visit->problem->trees, work->trial, &work->gibbs, true, work->new, &log_z))
            return FAILED;
        products(visit, own, &slope, &bend);
        if (attempt == 0 && !(slope > 1e-12f * gamma * (float)own->n)) return STAYED;
        float left = 1.0f - gamma - bend * inverse / slope;
        if (!(slope > 0.0f && left > LOWEST)) left = LOWEST; /* or not a number */
        if ((left <= SHORT && left >= -LONG) || attempt == TRIES) break;
        if (left > 0.0f) {
            low = gamma, at_low = left;
        } else {
            high = gamma, at_high = left;
        }
        if (attempt + 1 == TRIES) { /* too far could mean downhill */
            if (low == 0.0f) return STAYED;
            gamma = low;
        } else if (at_high < 0.0f) {
            const float part = at_low / (at_low - at_high);
            gamma = low + (high - low) * fminf(fmaxf(part, 0.1f), 0.9f);
        } else { /* no trial was too long yet */
            gamma = fminf(1.0f, gamma / (1.0f - left));
        }
    }
    adversary->gamma[own->s] = gamma;
    for (Index y = 0; y < length; y += STEP) {
        put(change + y, get(work->delta + y) * -rate);
        put(natural + y, get(work->trial + y));
        put(old + y, get(work->new + y));
    }
    adversary->entropy[own->s] = log_z - inner(own, work->trial, old);
    return MOVED;
}

/* Apply the change of a sample to theta. */
static void apply_change(const Visit *visit, const Sample *own, const float *change)
{
    const Rows *nodes = &visit->problem->features.nodes, *edges = &visit->problem->features.edges;
    const Index k = own->k, width = own->width;
    for (Index i = 0; i < own->n; i++)
        scatter_row(width, nodes->indptr[own->lo + i], nodes->indptr[own->lo + i + 1],
                    nodes->indices, nodes->data, width, change + i * width, visit->weights->rows);
    const Index *rows = own->all->row + own->all->table_start[own->s];
    for (Index t = 0; t < own->m; t++)
        scatter_row(k * width, edges->indptr[rows[t]], edges->indptr[rows[t] + 1], edges->indices,
                    edges->data, k * width, change + (own->n + t * k) * width,
                    visit->weights->rows + visit->weights->d * width);
}

/* ------------------------------------------------------------------------------------- the visits */

/* Scratch for the samples of ``order``; NULL if there is no memory. */
static float *make_scratch(const Visit *visit, Index n_order, const Index *order, VisitScratch *out)
{
    const LabelledGraphs *samples = &visit->problem->samples;
    const Index k = visit->costs->n_labels, width = visit->costs->n_width;
    Index n = 0, m = 1, columns = 0;
    for (Index j = 0; j < n_order; j++) {
        const Index s = order[j];
        n = max_index(n, samples->offsets[s + 1] - samples->offsets[s]);
        m = max_index(m, samples->table_start[s + 1] - samples->table_start[s]);
        columns = max_index(columns, visit->grams->n_columns[s]);
    }
    const Index rows = (n + m * k) * width, size = gibbs_size(n, m, k, width);
    float *memory = calloc((size_t)(size + 5 * rows + (3 + columns) * width), sizeof *memory);
    if (!memory) return NULL;
    float *at = memory + size, *last = at + 5 * rows;
    *out = (VisitScratch){lay_out(memory, n, m, k, width),
                          at,
                          at + rows,
                          at + 2 * rows,
                          at + 3 * rows,
                          at + 4 * rows,
                          last,
                          last + width,
                          last + 2 * width,
                          last + 3 * width};
    return memory;
}

/* Prefetch the weights of the sample that is visited next. */
static void fetch_weights(const Visit *visit, Index s)
{
    const Rows *nodes = &visit->problem->features.nodes;
    const Index *offsets = visit->problem->samples.offsets, width = visit->weights->n_width;
    for (Index j = nodes->indptr[offsets[s]]; j < nodes->indptr[offsets[s + 1]]; j++) {
        const float *row = visit->weights->rows + nodes->indices[j] * width;
        __builtin_prefetch(row);
        __builtin_prefetch(row + 16);
    }
}

/* Visit one sample; its change of theta is to be applied later. */
static Outcome visit_sample(const Visit *visit, Index s, VisitStats *stats, float *change)
{
    const Sample own =
        sample_of(&visit->problem->samples, s, visit->costs->n_labels, visit->costs->n_width);
    double paid, log_z = 0.0;
    make_scores(visit, &own, &stats->predictor_regret[s], &paid);
    const Outcome outcome = step(visit, &own, &stats->gap[s], &log_z, change);
    double truth = true_edges(&own, visit->work.goal);
    for (Index i = 0; i < own.n; i++)
        truth += (double)visit->work.goal[i * own.width + own.all->labels[own.lo + i]];
    stats->regret[s] = visit->settings->temperature * (log_z - truth) + paid;
    return outcome;
}

enum { TAKEN, VISITED, OPEN, STOPPED }; /* counters */

/* Visit the samples of ``order``: some under the same theta, then theta moves, and so on.
 *
 * Several threads may call this together, one of which ``leads``: it alone moves theta, by the
 * changes of the samples in their order, so the result does not depend on which thread visits which.
 *
 * shared (4), counters: samples taken, visited, and open for visits, and whether a thread found no
 * memory; at first 0, 0, the number of the first samples, 0. */
API Index natural_visits(bool leads, Index *shared, Index n_order, const Index *order,
                         const SmoothCall *call)
{
    Visit visit = {.problem = &call->problem,
                   .weights = &call->weights,
                   .costs = &call->costs,
                   .settings = &call->settings,
                   .rates = call->rates,
                   .adversary = (GibbsAdversary *)&call->adversary,
                   .grams = &call->grams};
    const GibbsChanges *changes = &call->changes;
    VisitStats stats = call->stats;
    const Index at_once = changes->n_at_once, k = call->costs.n_labels, width = call->costs.n_width;
    const Index most = changes->n_rows / at_once * width;
    Counter *counters = (Counter *)shared;
    float *memory = make_scratch(&visit, n_order, order, &visit.work);
    if (!memory) write_counter(counters + STOPPED, 1);
    Index done = 0;
    while (true) {
        const Index ready = read_counter(counters + OPEN);
        const Index at = take_below(counters + TAKEN, ready);
        if (at < 0 && !leads) {
            if (ready == n_order) break;
            wait_for(counters + OPEN, ready + 1);
            continue;
        }
        if (at < 0) {
            wait_for(counters + VISITED, ready);
            for (Index j = done; j < ready; j++)
                if (changes->moved[j - done]) {
                    const Sample own = sample_of(&call->problem.samples, order[j], k, width);
                    apply_change(&visit, &own, changes->rows + (j - done) * most);
                }
            if (ready == n_order) break;
            done = ready;
            write_counter(counters + OPEN, min_index(ready + at_once, n_order));
            continue;
        }
        if (at + 1 < n_order) fetch_weights(&visit, order[at + 1]); /* loads overlap with this visit */
        Outcome outcome = STAYED;
        if (!read_counter(counters + STOPPED)) {
            outcome = visit_sample(&visit, order[at], &stats, changes->rows + at % at_once * most);
            if (outcome == FAILED) write_counter(counters + STOPPED, 1);
        }
        changes->moved[at % at_once] = outcome == MOVED;
        add_one(counters + VISITED);
    }
    free(memory);
    return read_counter(counters + STOPPED) ? NO_MEMORY : 0;
}

/* p0 <- Proj(p0 - L r / mu) for the nodes of samples first .. last-1. */
API Index move_predictors(Index first, Index last, const LabelledGraphs *samples,
                          const PaddedCosts *costs, const PaddedRules *rules, double inv_mu,
                          const float *marginals)
{
    const Index width = costs->n_width;
    float *expected = NEW(float, width);
    if (!expected) return NO_MEMORY;
    for (Index s = first; s < last; s++)
        for (Index i = samples->offsets[s]; i < samples->offsets[s + 1]; i++) {
            const float *mask = rules->unary_mask + rules->node_kind[i] * width;
            const float *r = marginals + (i + costs->n_labels * samples->table_start[s]) * width;
            new_predictor(costs, i, r, mask, (float)inv_mu, expected, costs->p0 + i * width);
        }
    free(expected);
    return 0;
}

/* From the given rows of theta (d + k e, k) to padded rows in float. */
API Index to_single(Index n_rows, const Index *rows, Index k, Index width, const double *theta,
                    float *single)
{
    for (Index j = 0; j < n_rows; j++)
        for (Index y = 0; y < k; y++)
            single[rows[j] * width + y] = (float)theta[rows[j] * k + y];
    return 0;
}

/* From padded rows in float back to theta. */
API Index from_single(Index n_rows, const Index *rows, Index k, Index width, double *theta,
                      const float *single)
{
    for (Index j = 0; j < n_rows; j++)
        for (Index y = 0; y < k; y++)
            theta[rows[j] * k + y] = (double)single[rows[j] * width + y];
    return 0;
}
