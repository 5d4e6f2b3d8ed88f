/* The game on the local polytope, for graphs too wide to be solved exactly.
 *
 * Node marginals r_i and edge marginals q_e need only agree on every edge; they need not belong to one
 * distribution over labellings. Multipliers u price the agreement:
 *
 *     max over r, q   min over p, u    <ψ, (r, q)> + Σ_i w_i p_i' L r_i
 *                                      + Σ_e u_e · (r of its ends - margins of q_e)
 *
 * is a linear program. It is solved by primal-dual hybrid gradient steps (Chambolle and Pock) with
 * diagonal step sizes, averages, and restarts whenever the gap has halved (Applegate et al., 2021).
 * For fixed p and u the maximum separates into nodes and edges: an upper bound on the relaxed and on the
 * exact game. For a lower bound on the relaxed game, edges are fitted to r by optimal transport. */
#include "elimination.h"
#include "games.h"
#include "messages.h"
#include "simplex.h"
#include "transport.h"

#define PLACED 1e-12 /* mass that may be missing where edge marginals count as fitted: rounding */

/* A sample, whose nodes and edges count from 0. */
typedef struct {
    Index n, m, k;
    Index *slots, *child, *parent; /* (m) of each edge: its slot and its ends */
    Index *degree;                 /* (n) how many edges a node has */
    const double **table;          /* (m) scores of each edge */
    const double *unary, *weight;  /* (n, k), (n) */
    const double *cost, *cost_t;   /* (k, k) [predicted label, adversary's], and transposed */
    double row_sum, column_sum, cost_range; /* of the costs, see `measure_costs` */
    double top_score; /* the largest size of a finite score of edges */
} Sample;

/* What both players play, and the multipliers, one behind the other. */
typedef struct {
    double *p, *r; /* (n, k) the predictor, and the adversary's node marginals */
    double *u;     /* (m, 2, k) */
    double *q;     /* (m, k, k) edge marginals [child, parent] */
} Point;

typedef struct {
    Point now;
    Point total;          /* the points since the last restart, added up */
    Point trial;          /* a point whose bounds are computed */
    Point best;           /* p and u of the least upper bound, r of the largest lower one */
    Point start;          /* the point of the last restart */
    Point ahead;          /* r and q extrapolated */
    double *gain;         /* (n, k) */
    double *wanted, *few; /* (k, k) */
    Routes routes;
} Work;

/* How many numbers of a point come before q, and in all. */
INLINE Index before_edges(const Sample *own) { return 2 * (own->n + own->m) * own->k; }
INLINE Index whole(const Sample *own) { return before_edges(own) + own->m * own->k * own->k; }

static Point point_at(const Sample *own, double *numbers)
{
    double *r = numbers + own->n * own->k, *u = r + own->n * own->k;
    return (Point){numbers, r, u, numbers + before_edges(own)};
}

/* ------------------------------------------------------------------------------------------ bounds */

/* out[b] = Σ_a factors[a] matrix[a, b]. */
INLINE void times_matrix(Index k, const double *factors, const double *matrix, double *restrict out)
{
    memset(out, 0, (size_t)k * sizeof *out);
    for (Index a = 0; a < k; a++) {
        const double factor = factors[a], *row = matrix + a * k;
        if (factor != 0.0)
            for (Index b = 0; b < k; b++) out[b] += factor * row[b];
    }
}

/* gain[i] = unary + w L'p + Σ u of the node's edges, the value of label b of node i on its own. */
INLINE void node_gains(Index k, const Sample *own, const Point *point, double *restrict gain)
{
    for (Index i = 0; i < own->n; i++) {
        double *restrict row = gain + i * k;
        times_matrix(k, point->p + i * k, own->cost, row);
        for (Index b = 0; b < k; b++) row[b] = own->unary[i * k + b] + own->weight[i] * row[b];
    }
    for (Index e = 0; e < own->m; e++) {
        const double *u = point->u + 2 * e * k;
        double *first = gain + own->child[e] * k, *second = gain + own->parent[e] * k;
        for (Index b = 0; b < k; b++) first[b] += u[b];
        for (Index b = 0; b < k; b++) second[b] += u[k + b];
    }
}

/* Upper bound on what any adversary, relaxed or not, gets against p. */
static double upper_bound(const Sample *own, const Point *point, const Work *work)
{
    const Index k = own->k;
    double total = 0.0, *below = work->wanted, *best = work->few;
    node_gains(k, own, point, work->gain);
    for (Index i = 0; i < own->n; i++) total += largest(k, work->gain + i * k);
    for (Index e = 0; e < own->m; e++) {
        const double *u = point->u + 2 * e * k;
        for (Index b = 0; b < k; b++) below[b] = -u[b];
        best_below(k, below, own->table[e], best);
        for (Index a = 0; a < k; a++) best[a] -= u[k + a];
        total += largest(k, best);
    }
    return total;
}

/* Lower bound of (r, q) in the relaxed game; see `game_lower`. */
static double lower_bound(const Sample *own, const Point *point)
{
    const Index k = own->k;
    double total = 0.0;
    for (Index i = 0; i < own->n; i++) {
        const double *unary = own->unary + i * k, *r = point->r + i * k;
        if (own->weight[i] != 0.0) total += own->weight[i] * least_cost(k, own->cost, unary, r);
        total = add_scores(k, r, unary, total);
    }
    for (Index e = 0; e < own->m; e++)
        total = add_scores(k * k, point->q + e * k * k, own->table[e], total);
    return total;
}

/* Edge marginals that agree with r and score best, into q; return the mass left unplaced. */
static double fit_edges(const Sample *own, const Point *point, const Routes *routes)
{
    const Index k = own->k;
    double missing = 0.0;
    for (Index e = 0; e < own->m; e++)
        missing += transport(k, own->table[e], point->r + own->child[e] * k,
                             point->r + own->parent[e] * k, point->q + e * k * k, routes);
    return missing;
}

/* out = total / count, the first n numbers of a point. */
static void mean(Index n, const Point *total, Index count, const Point *out)
{
    for (Index j = 0; j < n; j++) out->p[j] = total->p[j] / (double)count;
}

/* The bounds of a mean of points, given by their sum and number, where they are better. */
static void improve_bounds(const Sample *own, const Point *total, Index count, const Work *work,
                           double *lower, double *upper)
{
    const Index nodes = own->n * own->k;
    const Point *trial = &work->trial, *best = &work->best;
    mean(before_edges(own), total, count, trial);
    const double most = upper_bound(own, trial, work);
    if (most < *upper) {
        *upper = most;
        copy(nodes, trial->p, best->p);
        copy(2 * own->m * own->k, trial->u, best->u);
    }
    const double missing = fit_edges(own, trial, &work->routes);
    if (missing > PLACED) return;
    /* The missing mass changes the score by no more than this, wherever it goes. */
    const double least = lower_bound(own, trial) - missing * own->top_score;
    if (least > *lower) {
        *lower = least;
        copy(nodes, trial->r, best->r);
    }
}

/* ------------------------------------------------------------------------------------------- steps */

/* mass (n) becomes the distribution next to ``wanted``; ahead (n), out: 2 new - old. */
INLINE void project_ahead(Index n, double *restrict wanted, double *few, double *restrict mass,
                          double *restrict ahead)
{
    const double threshold = simplex_threshold(n, wanted, few);
    for (Index j = 0; j < n; j++) {
        const double more = wanted[j] - threshold, moved = wanted[j] > threshold ? more : 0.0;
        ahead[j] = 2.0 * moved - mass[j];
        mass[j] = moved;
    }
}

/* One step of the adversary against (p, u). size: ratio of multipliers to masses, the primal
 * weight that balances both sides. work->ahead, out: the extrapolated r and q, 2 new - old. */
INLINE void adversary_step(Index k, const Sample *own, double size, const Work *work)
{
    const Point *now = &work->now;
    double *restrict wanted = work->wanted;
    node_gains(k, own, now, work->gain);
    for (Index i = 0; i < own->n; i++) {
        const double pull = size * (double)own->degree[i] + own->weight[i] * own->column_sum;
        const double step = 1.0 / (pull + 1e-300), *gain = work->gain + i * k, *r = now->r + i * k;
        for (Index b = 0; b < k; b++) wanted[b] = r[b] + step * gain[b];
        project_ahead(k, wanted, work->few, now->r + i * k, work->ahead.r + i * k);
    }
    const double step = 0.5 / size;
    for (Index e = 0; e < own->m; e++) {
        const double *u = now->u + 2 * e * k, *table = own->table[e];
        double *mass = now->q + e * k * k;
        for (Index b = 0; b < k; b++)
            for (Index a = 0; a < k; a++) {
                const double score = table[b * k + a] - u[b] - u[k + a];
                wanted[b * k + a] = mass[b * k + a] + step * score;
            }
        project_ahead(k * k, wanted, work->few, mass, work->ahead.q + e * k * k);
    }
}

/* out[b] -= Σ_a q[b, a] for R rows; the sums go on side by side. */
INLINE void subtract_rows(int R, Index k, const double *q, double *out)
{
    double left[4];
    UNROLL for (int b = 0; b < R; b++) left[b] = out[b];
    for (Index a = 0; a < k; a++)
        UNROLL for (int b = 0; b < R; b++) left[b] -= q[b * k + a];
    UNROLL for (int b = 0; b < R; b++) out[b] = left[b];
}

/* first and second (k) less the margins of q (k, k). */
INLINE void subtract_margins(Index k, const double *q, double *restrict first,
                             double *restrict second)
{
    Index b = 0;
    for (; b + 4 <= k; b += 4) subtract_rows(4, k, q + b * k, first + b);
    for (; b < k; b++) subtract_rows(1, k, q + b * k, first + b);
    for (b = 0; b < k; b++)
        for (Index a = 0; a < k; a++) second[a] -= q[b * k + a];
}

/* One step of (p, u) against the extrapolated adversary. */
INLINE void predictor_step(Index k, const Sample *own, double size, const Work *work)
{
    const double step = size / (1.0 + (double)k);
    double *restrict line = work->wanted;
    for (Index e = 0; e < own->m; e++) {
        double *u = work->now.u + 2 * e * k;
        copy(k, work->ahead.r + own->child[e] * k, work->few);
        copy(k, work->ahead.r + own->parent[e] * k, work->few + k);
        subtract_margins(k, work->ahead.q + e * k * k, work->few, work->few + k);
        for (Index b = 0; b < 2 * k; b++) u[b] -= step * work->few[b];
    }
    if (!(own->row_sum > 0.0)) return;
    for (Index i = 0; i < own->n; i++) {
        const double *unary = own->unary + i * k;
        double *p = work->now.p + i * k;
        times_matrix(k, work->ahead.r + i * k, own->cost_t, line);
        for (Index a = 0; a < k; a++)
            line[a] = unary[a] > -INFINITY ? p[a] - line[a] / own->row_sum : -INFINITY;
        const double threshold = simplex_threshold(k, line, work->few);
        for (Index a = 0; a < k; a++) p[a] = line[a] > threshold ? line[a] - threshold : 0.0;
    }
}

/* One step of both; a constant number of labels keeps nearly all in registers. */
static void step(const Sample *own, double size, const Work *work)
{
    if (own->k == 2) {
        adversary_step(2, own, size, work);
        predictor_step(2, own, size, work);
    } else if (own->k == 3) {
        adversary_step(3, own, size, work);
        predictor_step(3, own, size, work);
    } else {
        adversary_step(own->k, own, size, work);
        predictor_step(own->k, own, size, work);
    }
}

INLINE double square(double x) { return x * x; }

/* The next size, by how far each side has moved since the last restart. */
static double balanced(double size, const Sample *own, const Point *now, const Point *start)
{
    const Index k = own->k;
    double far_dual = 0.0, far_primal = 0.0;
    for (Index j = 0; j < own->n * k; j++) far_primal += square(now->r[j] - start->r[j]);
    for (Index j = 0; j < own->m * k * k; j++) far_primal += square(now->q[j] - start->q[j]);
    for (Index j = 0; j < 2 * own->m * k; j++) far_dual += square(now->u[j] - start->u[j]);
    if (far_primal > 1e-20 && far_dual > 1e-20) return sqrt(size * sqrt(far_dual / far_primal));
    return size;
}

/* ----------------------------------------------------------------------------------------- samples */

/* Solve the game of a sample from work->now, which ends as the best found; return the number of
 * steps. size: of the multipliers, at the start. */
static Index descend(const Sample *own, double size, const Effort *effort, double allowed,
                     const Work *work, double *lower, double *upper)
{
    const Index length = whole(own);
    double last_gap = INFINITY;
    Index since = 0, t = 0;
    *lower = -INFINITY, *upper = INFINITY;
    copy(length, work->now.p, work->best.p);
    copy(length, work->now.p, work->start.p);
    for (; t <= effort->max_iter; t++) {
        if (t % effort->check_every == 0 || t == effort->max_iter) {
            improve_bounds(own, &work->now, 1, work, lower, upper);
            if (since > 0) improve_bounds(own, &work->total, since, work, lower, upper);
            const double gap = *upper - *lower;
            if (gap <= allowed) break;
            if (since > 0 && (gap <= 0.5 * last_gap || (double)since >= 0.4 * (double)t)) {
                mean(length, &work->total, since, &work->now);
                size = balanced(size, own, &work->now, &work->start);
                copy(length, work->now.p, work->start.p);
                since = 0, last_gap = gap;
            }
        }
        if (since == 0) memset(work->total.p, 0, (size_t)length * sizeof(double));
        step(own, size, work);
        since++;
        for (Index j = 0; j < length; j++) work->total.p[j] += work->now.p[j];
    }
    copy(own->n * own->k, work->best.p, work->now.p);
    copy(2 * own->m * own->k, work->best.u, work->now.u);
    if (*lower > -INFINITY) {
        copy(own->n * own->k, work->best.r, work->now.r);
        fit_edges(own, &work->now, &work->routes);
    }
    return min_index(t, effort->max_iter);
}

/* The largest sums of a row and of a column of costs above the least, and their range; cost_t, out. */
static void measure_costs(const GameArrays *game, double *cost_t, Sample *own)
{
    const Index k = game->n_labels;
    const double *cost = game->cost;
    double low = INFINITY, high = -INFINITY;
    for (Index j = 0; j < k * k; j++) {
        low = min_double(low, cost[j]);
        high = max_double(high, cost[j]);
    }
    own->row_sum = own->column_sum = 0.0;
    for (Index a = 0; a < k; a++) {
        double row = 0.0, column = 0.0;
        for (Index b = 0; b < k; b++) {
            row += cost[a * k + b] - low;
            column += cost[b * k + a] - low;
            cost_t[b * k + a] = cost[a * k + b];
        }
        own->row_sum = max_double(own->row_sum, row);
        own->column_sum = max_double(own->column_sum, column);
    }
    own->k = k, own->cost = cost, own->cost_t = cost_t, own->cost_range = high - low;
}

/* The rest of ``own`` becomes sample s, but for the scores of its edges, whose mean range is returned:
 * the size that multipliers will have. */
static double take_sample(Index s, const GameArrays *game, Sample *own)
{
    const Structure *graph = &game->structure;
    const Index k = own->k, lo = graph->offsets[s];
    double total = 0.0;
    own->n = graph->offsets[s + 1] - lo;
    own->m = edges_of_sample(s, graph, own->slots);
    own->unary = game->scores.unary + lo * k, own->weight = game->weight + lo;
    own->top_score = 0.0;
    memset(own->degree, 0, (size_t)own->n * sizeof *own->degree);
    for (Index e = 0; e < own->m; e++) {
        const Index slot = own->slots[e];
        const double *table = game->scores.tables + game->scores.table_of[slot] * k * k;
        double low = INFINITY, high = -INFINITY;
        for (Index j = 0; j < k * k; j++) {
            const double size = fabs(table[j]);
            if (size < INFINITY) own->top_score = max_double(own->top_score, size);
            if (table[j] == -INFINITY) continue;
            low = min_double(low, table[j]);
            high = max_double(high, table[j]);
        }
        if (high > low) total += high - low;
        own->table[e] = table;
        own->child[e] = graph->child[slot] - lo, own->parent[e] = graph->parent[slot] - lo;
        own->degree[own->child[e]]++, own->degree[own->parent[e]]++;
    }
    return total / (double)max_index(own->m, 1);
}

INLINE void move(bool out, Index n, double *all, double *own)
{
    copy(n, out ? own : all, out ? all : own);
}

/* Copy a sample that begins at node lo from the points of all samples, or back if ``out``. */
static void exchange(bool out, const Sample *own, Index lo, const RelaxedPoint *all, const Point *one)
{
    const Index k = own->k;
    move(out, own->n * k, all->p + lo * k, one->p);
    move(out, own->n * k, all->r + lo * k, one->r);
    for (Index e = 0; e < own->m; e++) {
        move(out, k * k, all->q + own->slots[e] * k * k, one->q + e * k * k);
        move(out, 2 * k, all->u + 2 * own->slots[e] * k, one->u + 2 * e * k);
    }
}

/* The relaxed games of samples first .. last-1, to a gap of effort->allowed[s].
 *
 * point, in: where to start, out: the best found, q fitted to r. lower, upper (S), out: bounds on the
 * relaxed game; lower is -inf where forbidden pairs kept edges from being fitted, and r and q are then
 * those of the last step. */
API Index solve_relaxed(Index first, Index last, const GameArrays *game, const Effort *effort,
                        const RelaxedPoint *point, double *lower, double *upper)
{
    const Index k = game->n_labels, *offsets = game->structure.offsets;
    const Index *chords = game->structure.chord_offsets;
    Index n = 0, m = 0;
    for (Index s = first; s < last; s++) {
        n = max_index(n, offsets[s + 1] - offsets[s]);
        m = max_index(m, offsets[s + 1] - offsets[s] + chords[s + 1] - chords[s]);
    }
    const Index length = 2 * (n + m) * k + m * k * k;
    Sample own = {.slots = NEW(Index, 3 * m + n), .table = NEW(const double *, m)};
    Work work = {.gain = NEW(double, 6 * length + n * k + 4 * k * k + k)};
    const bool routed = new_routes(k, &work.routes), enough = own.slots && own.table && work.gain;
    if (enough && routed) {
        double *points = work.gain + n * k;
        own.child = own.slots + m, own.parent = own.slots + 2 * m, own.degree = own.slots + 3 * m;
        work.wanted = points + 6 * length, work.few = work.wanted + k * k;
        measure_costs(game, work.few + 2 * k * k, &own);
        for (Index s = first; s < last; s++) {
            const double spread = take_sample(s, game, &own);
            const double heaviest = largest(own.n, own.weight);
            const double size = spread + 1e-3 * heaviest * own.cost_range + 1e-12;
            Point *const each[] = {&work.now,  &work.total, &work.trial,
                                   &work.best, &work.start, &work.ahead};
            for (int x = 0; x < 6; x++) *each[x] = point_at(&own, points + x * length);
            exchange(false, &own, offsets[s], point, &work.now);
            effort->n_iter[s] =
                descend(&own, size, effort, effort->allowed[s], &work, lower + s, upper + s);
            exchange(true, &own, offsets[s], point, &work.now);
        }
    }
    free(own.slots), free((void *)own.table), free(work.gain);
    if (routed) free_routes(&work.routes);
    return enough && routed ? 0 : NO_MEMORY;
}

/* Change edge marginals q (slots, k, k) as little as need be to agree with r (N, k), for n slots;
 * missing (1), out: the mass left unplaced. Rows and columns that are too heavy are scaled down, and
 * what is then missing is put back where it scores best. */
API Index adjust_edges(Index n, const Index *slots, const Structure *structure,
                       const ScoreArrays *scores, const double *r, double *q, double *missing)
{
    const Index k = scores->n_labels;
    Routes routes;
    double *row = NEW(double, 2 * k + k * k), *column = row + k, *plan = column + k;
    if (!row || !new_routes(k, &routes)) {
        free(row);
        return NO_MEMORY;
    }
    *missing = 0.0;
    for (Index x = 0; x < n; x++) {
        const Index slot = slots[x];
        double *pair = q + slot * k * k;
        const double *table = scores->tables + scores->table_of[slot] * k * k;
        const double *first = r + structure->child[slot] * k;
        scale_down(k, first, r + structure->parent[slot] * k, pair, row, column);
        *missing += transport(k, table, row, column, plan, &routes);
        for (Index j = 0; j < k * k; j++) pair[j] += plan[j];
    }
    free(row), free_routes(&routes);
    return 0;
}
