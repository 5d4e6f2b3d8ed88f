/* Dual decomposition: one message per edge prices the agreement of a node with its parent.
 *
 * With A_i[b, a] = tables_i[b, a] + unary_i[b] - u_i[a] + Σ_children u_c[b], a_i = max over a of A_i,
 *
 *     g(u) = Σ_i  max over r_i   min over p_i    a_i·r_i + weight_i p_i' cost r_i
 *
 * is convex, bounds the game from above, and its minimum is the value of the game (Theorem 2 of Fathony
 * et al., Distributionally robust graphical models, 2018). */
#include "games.h"
#include "messages.h"
#include "node_games.h"
#include "transport.h"

/* ----------------------------------------------------------------------------------- the start */

/* Mark the labels (n, k) of labellings whose regret is at least ``worst`` <= 0. No other label is
 * ever played, as even the largest cost could not compensate for it. best (n, k): scores of subtrees;
 * regret (n, k), message (k): scratch. */
static void find_alive(const Forest *forest, double worst, const double *best, double *regret,
                       double *message, bool *alive)
{
    const Index k = forest->k;
    for (Index i = forest->n - 1; i >= 0; i--) {
        const Index up = forest->parent[i];
        const double *own = best + i * k, *table = forest->tables + forest->table_of[i] * k * k;
        double top = -INFINITY;
        if (up < 0)
            for (Index b = 0; b < k; b++) top = max_double(top, own[b]);
        else
            best_below(k, own, table, message);
        for (Index b = 0; b < k; b++) {
            double least = up < 0 ? own[b] - top : -INFINITY;
            for (Index a = 0; up >= 0 && a < k; a++)
                if (alive[up * k + a])
                    least = max_double(least, regret[up * k + a] +
                                                  (own[b] + table[b * k + a] - message[a]));
            regret[i * k + b] = least;
            alive[i * k + b] = least >= worst;
        }
    }
}

/* u := max-product messages of the augmented scores (N, k), so that g(u) <= the bound of that p;
 * prices->alive, out, with worst (S) as above. */
API Index start_messages(Index first, Index last, const Structure *structure,
                         const ScoreArrays *scores, const double *augmented, const double *worst,
                         const Prices *prices)
{
    const Index k = scores->n_labels, longest = longest_sample(first, last, structure->offsets);
    Index *parent = NEW(Index, longest);
    double *best = NEW(double, (2 * longest + 1) * k);
    if (!parent || !best) {
        free(parent), free(best);
        return NO_MEMORY;
    }
    double *regret = best + longest * k, *message = regret + longest * k;
    for (Index s = first; s < last; s++) {
        const Forest forest = forest_of(s, structure, scores, parent);
        const Index lo = structure->offsets[s];
        bool *alive = prices->alive + lo * k;
        best_score(&forest, forest.unary, best, message);
        find_alive(&forest, worst[s], best, regret, message, alive);
        best_score(&forest, augmented + lo * k, best, message);
        for (Index i = 0; i < forest.n; i++) {
            double *u = prices->u + (lo + i) * k;
            memset(u, 0, (size_t)k * sizeof *u);
            if (parent[i] < 0) continue;
            best_below(k, best + i * k, forest.tables + forest.table_of[i] * k * k, message);
            for (Index a = 0; a < k; a++)
                if (alive[parent[i] * k + a]) u[a] = message[a];
        }
    }
    free(parent), free(best);
    return 0;
}

/* size (N), out: scale of each message, by the weights of nearby nodes. */
API Index message_sizes(Index first, Index last, const Structure *structure, const double *weight,
                        double *size)
{
    const Index *parent = structure->parent;
    for (Index s = first; s < last; s++) {
        const Index lo = structure->offsets[s], hi = structure->offsets[s + 1];
        for (Index i = lo; i < hi; i++) size[i] = weight[i];
        for (Index i = lo; i < hi; i++)
            if (parent[i] >= 0) size[parent[i]] = max_double(size[parent[i]], 0.5 * size[i]);
        for (Index i = hi - 1; i >= lo; i--)
            if (parent[i] >= 0) size[i] = max_double(size[i], 0.5 * size[parent[i]]);
    }
    return 0;
}

/* ----------------------------------------------------------------------------------- the steps */

/* Scratch of the steps. */
typedef struct {
    double *line;  /* (k) */
    double *total; /* (n, k) scores and prices of the children */
    double *slope; /* (n, k) r of the parent minus the child's guess of it: the subgradient */
    Index *guess;  /* (n, k) best label of the parent for each label of the node */
    bool *carried; /* (n, 2, k) supports of the last equilibrium; only a simplex uses them */
    NodeScratch node;
} Descent;

static void free_descent(Descent *descent)
{
    free(descent->line), free(descent->guess), free(descent->carried);
}

static bool new_descent(Index n, Index k, Descent *descent)
{
    descent->line = NEW(double, (2 * n + 1) * k);
    descent->guess = NEW(Index, n * k);
    descent->carried = NEW(bool, 2 * n * k);
    if (!descent->line || !descent->guess || !descent->carried ||
        !new_node_scratch(k, &descent->node)) {
        free_descent(descent);
        return false;
    }
    descent->total = descent->line + k, descent->slope = descent->total + n * k;
    return true;
}

/* line[b] = max over a of A_i[b, a] and guess[b] its label, over labels of the parent that are alive. */
static void price_node(Index k, const double *total, const bool *alive, const double *table,
                       const bool *alive_above, const double *u, double *line, Index *guess)
{
    for (Index b = 0; b < k; b++) {
        line[b] = alive[b] ? total[b] : -INFINITY;
        if (!table || !alive[b]) continue;
        double best = -INFINITY;
        Index choice = 0;
        for (Index a = 0; a < k; a++) {
            const double value = table[b * k + a] - u[a];
            if (alive_above[a] && value > best) {
                best = value;
                choice = a;
            }
        }
        line[b] += best;
        guess[b] = choice;
    }
}

/* Solve the game of every node of a sample that begins at node lo, under the prices; return g. */
static double play_nodes(const Forest *forest, Index lo, const double *weight,
                         const CostArrays *form, const Prices *prices, const Descent *descent)
{
    const Index n = forest->n, k = forest->k;
    const double *u = prices->u + lo * k;
    const bool *alive = prices->alive + lo * k;
    double *total = descent->total, g = 0.0;
    memcpy(total, forest->unary, (size_t)(n * k) * sizeof *total);
    for (Index i = 0; i < n; i++)
        for (Index a = 0; forest->parent[i] >= 0 && a < k; a++)
            total[forest->parent[i] * k + a] += u[i * k + a];
    for (Index i = 0; i < n; i++) {
        const Index up = forest->parent[i], at = (lo + i) * k;
        const double *table = up < 0 ? NULL : forest->tables + forest->table_of[i] * k * k;
        price_node(k, total + i * k, alive + i * k, table, alive + max_index(up, 0) * k, u + i * k,
                   descent->line, descent->guess + i * k);
        bool *carried = descent->carried + 2 * i * k;
        const Support support = {carried, carried + k};
        g += node_equilibrium(form, weight[i], descent->line, forest->unary + i * k, prices->p + at,
                              prices->r + at, &support, &descent->node);
    }
    return g;
}

/* Fill the slopes; return their square in the metric of the steps, 0 if rounding may explain it. */
static double find_slopes(const Forest *forest, const double *r, const double *size,
                          const Descent *descent)
{
    const Index k = forest->k;
    double norm = 0.0, noise = 0.0;
    for (Index i = 0; i < forest->n; i++) {
        const Index up = forest->parent[i], *guess = descent->guess + i * k;
        if (up < 0) continue;
        double *slope = descent->slope + i * k;
        noise += 1e-26 * size[i];
        memcpy(slope, r + up * k, (size_t)k * sizeof *slope);
        for (Index b = 0; b < k; b++)
            if (r[i * k + b] > 0.0) slope[guess[b]] -= r[i * k + b];
        for (Index a = 0; a < k; a++) norm += size[i] * (slope[a] * slope[a]);
    }
    return norm > noise ? norm : 0.0;
}

/* Length of the step from the value g, for slopes of this squared norm. */
static double step_length(const StepRule *rule, Index s, double g, double norm)
{
    if (!(norm > 0.0)) return 0.0;
    double wanted = 1.0 / sqrt(norm);
    if (rule->polyak) wanted = max_double(g - rule->target[s], 0.0) / norm;
    return min_double(rule->step[s] * wanted, rule->longest[s] / sqrt(norm));
}

/* Move u of a sample that begins at node lo, and add its strategies to the averages. */
static void take_step(const Forest *forest, Index lo, double length, const Prices *prices,
                      const Descent *descent)
{
    const Index k = forest->k;
    for (Index at = lo * k; at < (lo + forest->n) * k; at++) {
        prices->p_sum[at] += length * prices->p[at];
        prices->r_sum[at] += length * prices->r[at];
    }
    for (Index i = 0; i < forest->n; i++) {
        double *u = prices->u + (lo + i) * k;
        for (Index a = 0; forest->parent[i] >= 0 && a < k; a++)
            u[a] -= length * prices->size[lo + i] * descent->slope[i * k + a];
    }
}

/* Subgradient steps on u for one sample, by ``rule``. */
static void descend_sample(Index s, const Forest *forest, Index lo, const double *weight,
                           const CostArrays *form, const StepRule *rule, const Prices *prices,
                           const Descent *descent)
{
    const Index k = forest->k;
    const size_t bytes = (size_t)(forest->n * k) * sizeof(double);
    memset(descent->carried, 0, (size_t)(2 * forest->n * k) * sizeof(bool));
    for (Index step = 0; step < rule->n_steps; step++) {
        const double g = play_nodes(forest, lo, weight, form, prices, descent);
        if (g < prices->g_best[s]) {
            prices->g_best[s] = g;
            memcpy(prices->p_best + lo * k, prices->p + lo * k, bytes);
        }
        const double norm = find_slopes(forest, prices->r + lo * k, prices->size + lo, descent);
        const double length = step_length(rule, s, g, norm);
        if (length == 0.0) {
            /* All nodes agree, or the target is reached: r itself is taken, not the average. */
            prices->mass[s] = 1.0;
            memcpy(prices->p_sum + lo * k, prices->p + lo * k, bytes);
            memcpy(prices->r_sum + lo * k, prices->r + lo * k, bytes);
            return;
        }
        prices->mass[s] += length;
        take_step(forest, lo, length, prices, descent);
    }
}

/* Subgradient steps on u for the active samples (S), by ``rule``. */
API Index descend(Index first, Index last, const GameArrays *game, const CostArrays *form,
                  const bool *active, const StepRule *rule, const Prices *prices)
{
    const Index *offsets = game->structure.offsets;
    const Index longest = longest_sample(first, last, offsets);
    Index *parent = NEW(Index, longest);
    Descent descent;
    if (!parent || !new_descent(longest, game->n_labels, &descent)) {
        free(parent);
        return NO_MEMORY;
    }
    for (Index s = first; s < last; s++) {
        if (!active[s]) continue;
        const Forest forest = forest_of(s, &game->structure, &game->scores, parent);
        descend_sample(s, &forest, offsets[s], game->weight + offsets[s], form, rule, prices,
                       &descent);
    }
    free(parent), free_node_scratch(&descent.node), free_descent(&descent);
    return 0;
}

/* q (N, k, k), out: on each edge the best joint distribution with the margins r (N, k), by optimal
 * transport. */
API Index recover_edges(Index first, Index last, const Structure *structure,
                        const ScoreArrays *scores, const bool *active, const double *r, double *q)
{
    const Index k = scores->n_labels;
    Routes routes;
    if (!new_routes(k, &routes)) return NO_MEMORY;
    for (Index s = first; s < last; s++)
        for (Index i = structure->offsets[s]; active[s] && i < structure->offsets[s + 1]; i++) {
            const Index up = structure->parent[i];
            if (up < 0) continue;
            const double *gain = scores->tables + scores->table_of[i] * k * k;
            transport(k, gain, r + i * k, r + up * k, q + i * k * k, &routes);
        }
    free_routes(&routes);
    return 0;
}
