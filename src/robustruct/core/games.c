/* Bounds on a game from any pair of strategies, and repair of infeasible strategies.
 *
 * Upper bound of a predictor p: the score of the best labelling under unary + w L'p. Lower bound of an
 * adversary (r, q): <ψ, q> + Σ_i w_i min_a (L r_i)_a. */
#include "games.h"
#include "messages.h"

Forest forest_of(Index s, const Structure *structure, const ScoreArrays *scores, Index *parent)
{
    const Index lo = structure->offsets[s], n = structure->offsets[s + 1] - lo;
    const Index k = scores->n_labels;
    for (Index i = 0; i < n; i++) {
        const Index above = structure->parent[lo + i];
        parent[i] = above >= 0 ? above - lo : -1;
    }
    return (Forest){n, k, parent, scores->table_of + lo, scores->unary + lo * k, scores->tables};
}

Index longest_sample(Index first, Index last, const Index *offsets)
{
    Index longest = 0;
    for (Index s = first; s < last; s++) longest = max_index(longest, offsets[s + 1] - offsets[s]);
    return longest;
}

void add_costs(Index n, Index k, const double *unary, const double *cost, const double *weight,
               const double *p, double *restrict out)
{
    memset(out, 0, (size_t)(n * k) * sizeof *out);
    for (Index i = 0; i < n; i++) {
        double *row = out + i * k;
        for (Index a = 0; a < k; a++) {
            const double share = weight[i] * p[i * k + a];
            if (share != 0.0)
                for (Index b = 0; b < k; b++) row[b] += share * cost[a * k + b];
        }
        for (Index b = 0; b < k; b++) row[b] += unary[i * k + b];
    }
}

double best_score(const Forest *forest, const double *unary, double *best, double *message)
{
    const Index k = forest->k;
    max_product_up(0, forest->n, k, forest->parent, unary, forest->tables, forest->table_of, best,
                   message);
    double total = 0.0;
    for (Index i = 0; i < forest->n; i++) {
        if (forest->parent[i] >= 0) continue;
        double top = best[i * k];
        for (Index b = 1; b < k; b++) top = max_double(top, best[i * k + b]);
        total += top;
    }
    return total;
}

double least_cost(Index k, const double *cost, const double *unary, const double *r)
{
    double least = INFINITY;
    for (Index a = 0; a < k; a++) {
        if (unary[a] == -INFINITY) continue;
        double value = 0.0;
        for (Index b = 0; b < k; b++) value += cost[a * k + b] * r[b];
        least = min_double(least, value);
    }
    return least;
}

/* out (N, k): unary scores plus the costs w L'p. */
API Index augmented_unary(const GameArrays *game, const double *p, double *out)
{
    add_costs(game->n_nodes, game->n_labels, game->scores.unary, game->cost, game->weight, p, out);
    return 0;
}

/* Largest absolute value of n numbers, without infinite ones. */
static double largest_finite(Index n, const double *values)
{
    double largest = 0.0;
    for (Index j = 0; j < n; j++) {
        const double size = fabs(values[j]);
        if (largest < size && size < INFINITY) largest = size;
    }
    return largest;
}

/* out[s] = sum over nodes and edges of the largest finite score and weighted cost. */
API Index sum_largest(const GameArrays *game, double *out)
{
    const Structure *graph = &game->structure;
    const ScoreArrays *scores = &game->scores;
    const Index k = game->n_labels, n_nodes = game->n_nodes;
    double *of_table = NEW(double, scores->n_tables);
    if (!of_table) return NO_MEMORY;
    for (Index t = 0; t < scores->n_tables; t++)
        of_table[t] = largest_finite(k * k, scores->tables + t * k * k);
    const double dearest = largest_finite(k * k, game->cost);
    for (Index s = 0; s < graph->n_samples; s++) {
        double total = 0.0;
        for (Index i = graph->offsets[s]; i < graph->offsets[s + 1]; i++) {
            total += largest_finite(k, scores->unary + i * k) + game->weight[i] * dearest;
            if (graph->parent[i] >= 0) total += of_table[scores->table_of[i]];
        }
        for (Index c = graph->chord_offsets[s]; c < graph->chord_offsets[s + 1]; c++)
            total += of_table[scores->table_of[n_nodes + c]];
        out[s] = total;
    }
    free(of_table);
    return 0;
}

/* upper[s] = upper bound of the predictor p (N, k), on forests. */
API Index game_upper(Index first, Index last, const GameArrays *game, const double *p, double *upper)
{
    const Index k = game->n_labels, *offsets = game->structure.offsets;
    const Index longest = longest_sample(first, last, offsets);
    Index *parent = NEW(Index, longest);
    double *augmented = NEW(double, (2 * longest + 1) * k);
    if (!parent || !augmented) {
        free(parent), free(augmented);
        return NO_MEMORY;
    }
    double *best = augmented + longest * k, *message = best + longest * k;
    for (Index s = first; s < last; s++) {
        const Forest forest = forest_of(s, &game->structure, &game->scores, parent);
        const Index lo = offsets[s];
        add_costs(forest.n, k, forest.unary, game->cost, game->weight + lo, p + lo * k, augmented);
        upper[s] = best_score(&forest, augmented, best, message);
    }
    free(parent), free(augmented);
    return 0;
}

/* lower[s] = lower bound of a consistent adversary r (N, k), q (slots, k, k) [child, parent]. The
 * predictor answers with labels whose own score is not -inf. add_chords adds the chords. */
API Index game_lower(Index first, Index last, const GameArrays *game, const double *r,
                     const double *q, double *lower)
{
    const Index k = game->n_labels;
    const ScoreArrays *scores = &game->scores;
    for (Index s = first; s < last; s++) {
        double total = 0.0;
        for (Index i = game->structure.offsets[s]; i < game->structure.offsets[s + 1]; i++) {
            const double *unary = scores->unary + i * k;
            total = add_scores(k, r + i * k, unary, total);
            if (game->structure.parent[i] >= 0)
                total = add_scores(k * k, q + i * k * k,
                                   scores->tables + scores->table_of[i] * k * k, total);
            if (game->weight[i] != 0.0)
                total += game->weight[i] * least_cost(k, game->cost, unary, r + i * k);
        }
        lower[s] = total;
    }
    return 0;
}

/* Add the scores of chords under q to lower (S). */
API Index add_chords(const GameArrays *game, const double *q, double *lower)
{
    const Structure *graph = &game->structure;
    const ScoreArrays *scores = &game->scores;
    const Index k = game->n_labels;
    for (Index s = 0; s < graph->n_samples; s++)
        for (Index c = graph->chord_offsets[s]; c < graph->chord_offsets[s + 1]; c++) {
            const Index slot = game->n_nodes + c;
            const double *table = scores->tables + scores->table_of[slot] * k * k;
            lower[s] = add_scores(k * k, q + slot * k * k, table, lower[s]);
        }
    return 0;
}

/* Normalise p (k) over the labels whose score is not -inf; uniform if it has no mass. */
static void normalise_predictor(Index k, const double *unary, double *p)
{
    double total = 0.0;
    Index labels = 0;
    for (Index b = 0; b < k; b++) {
        p[b] = (p[b] > 0.0) & (unary[b] > -INFINITY) ? p[b] : 0.0; /* also where it is NaN */
        total += p[b];
        labels += unary[b] > -INFINITY;
    }
    for (Index b = 0; b < k; b++) {
        if (total > 0.0)
            p[b] /= total;
        else
            p[b] = unary[b] > -INFINITY ? 1.0 / (double)labels : 0.0;
    }
}

/* Make the predictors p (N, k) of nodes lo .. hi-1 feasible. */
API Index normalise_predictors(Index lo, Index hi, const ScoreArrays *scores, double *p)
{
    const Index k = scores->n_labels;
    for (Index i = lo; i < hi; i++) normalise_predictor(k, scores->unary + i * k, p + i * k);
    return 0;
}

/* Normalise r (k) of a root over labels of finite labellings; on the best of them if it has no mass. */
static void normalise_root(Index k, const double *best, double *r)
{
    double total = 0.0;
    Index choice = 0;
    for (Index b = 0; b < k; b++) {
        r[b] = (r[b] > 0.0) & (best[b] > -INFINITY) ? r[b] : 0.0;
        total += r[b];
    }
    for (Index b = 0; total > 0.0 && b < k; b++) r[b] /= total;
    if (total > 0.0) return;
    for (Index b = 1; b < k; b++)
        if (best[b] > best[choice]) choice = b;
    r[choice] = 1.0;
}

/* The best label of a child under label a of its parent. */
static Index best_partner(Index k, const double *best, const double *table, Index a)
{
    Index choice = 0;
    for (Index b = 1; b < k; b++)
        if (best[b] + table[b * k + a] > best[choice] + table[choice * k + a]) choice = b;
    return choice;
}

/* Scale columns q[:, a] of an edge to the mass of the parent's label a, on allowed pairs; r (k), out:
 * the row sums. scale (k): scratch. */
static void normalise_edge(Index k, const double *above, const double *best, const double *table,
                           double *restrict q, double *restrict r, double *restrict scale)
{
    memset(scale, 0, (size_t)k * sizeof *scale);
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++) {
            const double mass = q[b * k + a];
            const bool played = (mass > 0.0) & (best[b] + table[b * k + a] > -INFINITY);
            q[b * k + a] = played ? mass : 0.0;
            scale[a] += q[b * k + a];
        }
    for (Index a = 0; a < k; a++) {
        const bool empty = above[a] > 0.0 && !(scale[a] > 0.0);
        scale[a] = above[a] == 0.0 ? 0.0 : above[a] / scale[a];
        if (!empty) continue;
        scale[a] = 1.0;
        q[best_partner(k, best, table, a) * k + a] = above[a];
    }
    for (Index b = 0; b < k; b++) {
        for (Index a = 0; a < k; a++) q[b * k + a] *= scale[a];
        r[b] = 0.0;
        for (Index a = 0; a < k; a++) r[b] += q[b * k + a];
    }
}

/* Repair p, r and q in place: p and r on the simplex, q consistent with r on every edge.
 *
 * p is clipped and normalised, with no mass where a label's own score is -inf. The adversary is
 * rebuilt from the roots down, keeping each child's distribution given its parent's label; a label
 * of the parent whose column of q is empty takes the child's best labelling of its subtree instead,
 * so no forbidden pair is ever used. */
API Index make_feasible(Index first, Index last, const Structure *structure,
                        const ScoreArrays *scores, const Strategies *played)
{
    const Index k = scores->n_labels, longest = longest_sample(first, last, structure->offsets);
    Index *parent = NEW(Index, longest);
    double *best = NEW(double, (longest + 1) * k);
    if (!parent || !best) {
        free(parent), free(best);
        return NO_MEMORY;
    }
    double *scratch = best + longest * k;
    for (Index s = first; s < last; s++) {
        const Forest forest = forest_of(s, structure, scores, parent);
        const Index lo = structure->offsets[s];
        double *r = played->r + lo * k;
        best_score(&forest, forest.unary, best, scratch);
        for (Index i = forest.n - 1; i >= 0; i--) {
            double *q = played->q + (lo + i) * k * k, *own = r + i * k;
            normalise_predictor(k, forest.unary + i * k, played->p + (lo + i) * k);
            if (parent[i] < 0) {
                normalise_root(k, best + i * k, own);
                memset(q, 0, (size_t)(k * k) * sizeof *q);
                continue;
            }
            normalise_edge(k, r + parent[i] * k, best + i * k,
                           forest.tables + forest.table_of[i] * k * k, q, own, scratch);
        }
    }
    free(parent), free(best);
    return 0;
}
