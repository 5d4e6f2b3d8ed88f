/* Start of the interior-point method: the labels that matter, and a strictly feasible point.
 *
 * Of many labels the adversary plays few, and which ones is soon clear: an equilibrium plays only
 * what is best against its predictor, so against a predictor near it a label played is nearly best.
 * The labels and pairs of labellings that fall far behind are left out; -inf falls out the same way.
 * What is left is scaled so that costs span 1 and the largest weight is 1. */
#include "dense.h"
#include "interior.h"
#include "messages.h"

/* Mass of the adversary from which on a label or a pair stays in the game. */
#define PLAYED 1e-3

/* Weights in units of the heaviest; their sum. */
double scale_weights(const State *state, double heaviest)
{
    double total = 0.0;
    for (Index j = 0; j < state->forest.n; j++) {
        /* A weight this small moves the value by less than rounding does. */
        const double part = state->weight[j] / heaviest;
        state->nodes[j].weight = part > 1e-13 ? part : 0.0;
        total += part;
    }
    return total;
}

/* Labels of a root within reach; 0 if none is finite. */
static Index keep_root(Node *v, Index k, double reach, const double *r, const double *best,
                       double *gain)
{
    double top = best[0];
    for (Index b = 1; b < k; b++) top = max_double(top, best[b]);
    v->above = 1;
    v->count = 0;
    if (!(top > -INFINITY)) return 0;
    for (Index b = 0; b < k; b++) {
        gain[b] = best[b] - top;
        if (gain[b] >= -reach || (r[b] > PLAYED && gain[b] > -INFINITY)) {
            v->inverse[v->count] = 1.0;
            v->labels[v->count++] = b;
        }
    }
    return v->count;
}

/* Labels of a node, and pairs with those its parent keeps, within reach; the gain of each label.
 *
 * The gain, never positive, is how far the best labelling with a label falls short of the best. */
static Index keep_pairs(Node *v, const Node *up, Index k, const double *table, double reach,
                        const double *q, const double *best, const double *gain_above, double *gain,
                        double *message)
{
    const Index above = up->count;
    const Index *partner = up->labels;
    Index pairs = 0;
    v->above = above;
    v->count = 0;
    best_below(k, best, table, message);
    for (Index a = 0; a < above; a++) {
        /* What a label of the parent gains without this subtree. */
        v->v1[a] = gain_above[partner[a]] - message[partner[a]];
        v->v2[a] = message[partner[a]];
    }
    for (Index b = 0; b < k; b++) {
        Index partners = 0;
        double *row = v->inverse + v->count * above, most = -INFINITY;
        for (Index a = 0; a < above; a++) {
            const double here = best[b] + table[b * k + partner[a]], value = v->v1[a] + here;
            most = max_double(most, value);
            /* The best partner of each label stays, whatever rounding says. */
            const bool kept =
                (value >= -reach || here == v->v2[a] || q[b * k + partner[a]] > PLAYED) &&
                here > -INFINITY;
            row[a] = kept ? 1.0 : 0.0;
            partners += kept;
        }
        gain[b] = most;
        if (partners > 0) v->labels[v->count++] = b;
        pairs += partners;
    }
    return pairs;
}

/* Keep the labels and pairs of the labellings that score within ``reach`` of the best one.
 *
 * known: the strategies known so far; state->augmented: the scores against a predictor, overwritten
 * by the gains of labels. Fills the structure and, as 1 or 0 in ``inverse``, the pairs kept. Returns
 * their number, 0 if no labelling is finite. */
Index keep_labels(const State *state, double reach, const Played *known)
{
    const Forest *forest = &state->forest;
    const Index k = forest->k;
    double *gain = state->augmented, *best = state->best;
    Index pairs = 0;
    best_score(forest, gain, best, state->message);
    for (Index j = forest->n - 1; j >= 0; j--) {
        Node *v = state->nodes + j;
        const Index up = forest->parent[j];
        v->parent = up >= 0 ? up : j;
        if (up >= 0) {
            const double *table = forest->tables + forest->table_of[j] * k * k;
            pairs += keep_pairs(v, state->nodes + up, k, table, reach, known->q + j * k * k,
                                best + j * k, gain + up * k, gain + j * k, state->message);
        } else {
            const Index kept = keep_root(v, k, reach, known->r + j * k, best + j * k, gain + j * k);
            if (kept == 0) return 0;
            pairs += kept;
        }
    }
    return pairs;
}

/* List the predictor's answers: labels that can occur, and therefore have a score. */
void list_answers(const State *state)
{
    const Index k = state->forest.k;
    for (Index j = 0; j < state->forest.n; j++) {
        Node *v = state->nodes + j;
        v->n_answers = 0;
        for (Index a = 0; a < k; a++)
            if (state->forest.unary[j * k + a] > -INFINITY) v->answers[v->n_answers++] = a;
    }
}

/* The scaled costs of the answers against the labels kept. */
void collect_costs(const State *state)
{
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        for (Index a = 0; a < v->n_answers; a++) {
            const double *row = state->loss + v->answers[a] * state->forest.k;
            for (Index b = 0; b < v->count; b++) v->cost[a * v->count + b] = row[v->labels[b]];
        }
    }
}

/* s of a node, 0 for the predictor's best answer. */
static void node_slacks(const Node *v)
{
    product(v->n_answers, v->count, v->cost, v->r, v->s);
    double least = INFINITY;
    for (Index a = 0; a < v->n_answers; a++) least = min_double(least, v->s[a]);
    for (Index a = 0; a < v->n_answers; a++) v->s[a] -= least;
}

/* p inverse to the loosened slacks against the adversary's r. */
void answer(const State *state)
{
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        if (!(v->weight > 0.0)) continue;
        node_slacks(v);
        double total = 0.0;
        for (Index a = 0; a < v->n_answers; a++) {
            v->p[a] = 1.0 / (v->s[a] + 0.1);
            total += v->p[a];
        }
        for (Index a = 0; a < v->n_answers; a++) v->p[a] *= v->weight / total;
    }
}

/* p mixes the even predictor with ``share`` of the one given (n, k); rows without one stay even. */
void mix_predictor(const State *state, double share, const double *p)
{
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        const double *given = p + j * state->forest.k;
        double total = 0.0;
        for (Index a = 0; a < v->n_answers; a++) total += max_double(given[v->answers[a]], 0.0);
        const double mix = 0.0 < total && total < INFINITY ? share : 0.0;
        for (Index a = 0; a < v->n_answers; a++) {
            double part = (1.0 - mix) / (double)v->n_answers;
            if (mix > 0.0) part += mix * max_double(given[v->answers[a]], 0.0) / total;
            v->p[a] = v->weight * part;
        }
    }
}

/* z of the edge above a node, and its messages into v1, from c (count) of the node. */
static void edge_slacks(const Node *v, const Index *partner, Index k, const double *table,
                        double unit, const double *c)
{
    const Index above = v->above;
    for (Index a = 0; a < above; a++) v->v1[a] = -INFINITY;
    for (Index b = 0; b < v->count; b++) {
        const double *row = table + v->labels[b] * k;
        for (Index a = 0; a < above; a++) {
            if (!(v->inverse[b * above + a] > 0.0)) continue;
            const double value = partner ? c[b] + row[partner[a]] / unit : c[b];
            v->z[b * above + a] = value;
            v->v1[a] = max_double(v->v1[a], value);
        }
    }
    for (Index b = 0; b < v->count; b++)
        for (Index a = 0; a < above; a++)
            if (v->inverse[b * above + a] > 0.0) v->z[b * above + a] = v->v1[a] - v->z[b * above + a];
}

/* z of max-product against the predictor: 0 for the best label under each of the parent. */
void tight_slacks(const State *state, double unit)
{
    const Forest *forest = &state->forest;
    const Index k = forest->k;
    for (Index j = 0; j < forest->n; j++) {
        const Node *v = state->nodes + j;
        double *c = state->factor + j * k;
        for (Index b = 0; b < v->count; b++) c[b] = forest->unary[j * k + v->labels[b]] / unit;
        for (Index a = 0; a < v->n_answers; a++)
            for (Index b = 0; b < v->count; b++) c[b] += v->p[a] * v->cost[a * v->count + b];
    }
    for (Index j = 0; j < forest->n; j++) {
        const Node *v = state->nodes + j;
        const double *table = forest->tables + forest->table_of[j] * k * k;
        const bool root = v->parent == j;
        edge_slacks(v, root ? NULL : state->nodes[v->parent].labels, k, table, unit,
                    state->factor + j * k);
        if (root) continue;
        double *above = state->factor + v->parent * k, top = -INFINITY;
        for (Index a = 0; a < v->above; a++) {
            above[a] += v->v1[a];
            top = max_double(top, above[a]);
        }
        /* Only differences between messages matter: keep them small on long chains. */
        for (Index a = 0; a < v->above; a++) above[a] -= top;
    }
}

/* x of the edge above a node, before columns are scaled, and into dx the mass of the earlier
 * adversary; their column sums into v1 and v2. */
static void edge_masses(const Node *v, const Index *partner, Index k, double loosening,
                        bool earlier, const double *r, const double *q)
{
    const Index above = v->above;
    for (Index a = 0; a < above; a++) v->v1[a] = v->v2[a] = 0.0;
    for (Index b = 0; b < v->count; b++)
        for (Index a = 0; a < above; a++) {
            const Index at = b * above + a;
            v->x[at] = v->dx[at] = 0.0;
            if (!(v->inverse[at] > 0.0)) continue;
            v->x[at] = 1.0 / (v->z[at] + loosening);
            v->v1[a] += v->x[at];
            if (!earlier) continue;
            const double mass = partner ? q[v->labels[b] * k + partner[a]] : r[v->labels[b]];
            if (mass > 0.0) {
                v->dx[at] = mass;
                v->v2[a] += mass;
            }
        }
}

/* x and r: under each label of the parent, mass inverse to the loosened slack; ``share`` of the mass
 * follows the earlier adversary instead. */
void spread_marginals(const State *state, double loosening, double share, const Played *known)
{
    const Index k = state->forest.k;
    for (Index j = state->forest.n - 1; j >= 0; j--) {
        const Node *v = state->nodes + j, *up = state->nodes + v->parent;
        const bool root = up == v;
        edge_masses(v, root ? NULL : up->labels, k, loosening, share > 0.0, known->r + j * k,
                    known->q + j * k * k);
        for (Index a = 0; a < v->above; a++) {
            const double total = v->v1[a], earlier = v->v2[a], mass = root ? 1.0 : up->r[a];
            const double kept = 0.0 < earlier && earlier < INFINITY ? share : 0.0;
            v->v1[a] = mass * (1.0 - kept) / total;
            v->v2[a] = kept > 0.0 ? kept * (mass / earlier) : 0.0;
        }
        for (Index b = 0; b < v->count; b++) {
            double *x = v->x + b * v->above, *dx = v->dx + b * v->above;
            for (Index a = 0; a < v->above; a++) x[a] = v->v1[a] * x[a] + v->v2[a] * dx[a];
            v->r[b] = 0.0;
            for (Index a = 0; a < v->above; a++) v->r[b] += x[a];
        }
    }
}

/* Move z and s off 0, s so that the products p s are about as large as the products x z.
 *
 * Returns the gap, Σ x z + Σ p s. A loosening of 0 leaves z and s as they are. */
double loosen(const State *state, double loosening)
{
    double total = 0.0;
    Index pairs = 0;
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        for (Index at = 0; at < v->count * v->above; at++) {
            if (!(v->inverse[at] > 0.0)) {
                v->z[at] = 1.0;
                continue;
            }
            if (loosening > 0.0) {
                v->z[at] += loosening;
                v->inverse[at] = 1.0 / v->z[at];
            }
            total += v->x[at] * v->z[at];
            pairs++;
        }
    }
    const double each = loosening > 0.0 ? total / (double)pairs : 0.0;
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        if (!(v->weight > 0.0)) continue;
        node_slacks(v);
        for (Index a = 0; a < v->n_answers; a++) {
            v->s[a] += each * (double)v->n_answers / v->weight;
            total += v->p[a] * v->s[a];
        }
    }
    return total;
}
