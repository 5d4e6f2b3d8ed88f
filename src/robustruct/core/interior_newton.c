/* One Newton step of the interior point: an elimination up the tree, substitution down.
 *
 * Per edge, with D = x / z, d its row sums, C = D' diag(1/d) and, per node, E = p / s:
 *
 *     node     H = L'(diag E - EE'/ΣE) L                      what the predictor does about Δr
 *     columns  K = diag(1/d) + J,  J = H + Σ_children G       Δr = P (κ/d + t - C'Δu), 1'Δr = 0
 *     rows     M = diag(D'1) - D' diag(1/d) D + C P C'        M Δu = m - Δr_parent,  G = M⁻¹
 *
 * Σ Δr = 0 on every node, and u and c enter only through their difference. P is therefore K⁻¹
 * projected so that P1 = 0, M1 = 0 holds exactly, and M is inverted with one label grounded at 0. No
 * difference of large numbers is formed: diagonals are sums of positive terms. */
#include "dense.h"
#include "interior.h"
#include "simd.h"

/* Mass of a label below which it need not be met to a relative precision. Labels far behind the best
 * have masses of 1e-10 and less, which no Newton system in floating point resolves; their
 * errors are repaired when bounds are computed. */
#define NEGLIGIBLE 1e-6

/* ------------------------------------------------------------------------------- elimination, up */

/* J += H = Σ_a E_a (L_a - mean)(L_a - mean)' over the answers, the mean weighted by E. */
static void add_node_matrix(Node *v, double *restrict centred)
{
    const Index m = v->count, k = v->n_answers;
    double *restrict mean = v->v1, total = 0.0;
    memset(mean, 0, (size_t)m * sizeof *mean);
    for (Index a = 0; a < k; a++) {
        const double e = v->p[a] / v->s[a], *row = v->cost + a * m;
        v->e[a] = e;
        total += e;
        for (Index b = 0; b < m; b++) mean[b] += e * row[b];
    }
    v->e_sum = total;
    for (Index b = 0; b < m; b++) mean[b] /= total;
    for (Index a = 0; a < k; a++) {
        const double root = sqrt(v->e[a]), *row = v->cost + a * m;
        for (Index b = 0; b < m; b++) centred[a * m + b] = root * (row[b] - mean[b]);
    }
    add_gram(k, m, centred, v->upper);
}

/* D and d; v1 becomes the diagonal of diag(D'1) - D' diag(1/d) D, without cancellation. */
static void row_sums(const Node *v)
{
    const Index above = v->above;
    double *restrict diagonal = v->v1, *restrict ratio = v->ratio;
    memset(diagonal, 0, (size_t)above * sizeof *diagonal);
    for (Index at = 0; at < v->count * above; at++) ratio[at] = v->x[at] * v->inverse[at];
    for (Index b = 0; b < v->count; b++) {
        double *restrict row = ratio + b * above;
        Index top = 0;
        for (Index a = 0; a < above; a++)
            if (row[a] > row[top]) top = a;
        const double largest = row[top];
        row[top] = 0.0;
        double rest = 0.0;
        for (Index a = 0; a < above; a++) rest += row[a];
        const double total = rest + largest, scale = 1.0 / total;
        v->d[b] = total;
        for (Index a = 0; a < above; a++) diagonal[a] += row[a] * (total - row[a]) * scale;
        diagonal[top] += largest * rest * scale;
        row[top] = largest;
    }
}

/* G = inverse of M (n, n) without the row and column of its largest diagonal, 0 there. */
static void invert_grounded(Index n, double *M, double *scratch, double *inverse, double *g)
{
    const Index last = n - 1;
    Index ground = 0;
    for (Index a = 1; a < n; a++)
        if (M[a * n + a] > M[ground * n + ground]) ground = a;
    swap_symmetric(n, ground, last, M);
    cholesky(n, 0.0, true, M);
    inverse_from_cholesky(last, M, n, scratch, inverse);
    for (Index a = 0; a < last; a++) {
        double *row = g + (a == ground ? last : a) * n; /* which was exchanged with the ground */
        memcpy(row, inverse + a * last, (size_t)last * sizeof *row);
        row[last] = row[ground];
        row[ground] = 0.0;
    }
    memset(g + ground * n, 0, (size_t)n * sizeof *g);
}

/* W = the factor's solution for C', projected, so that C P C' = W'W; and G. */
static void eliminate_edge(const State *state, const Node *v)
{
    const Index m = v->count, above = v->above;
    double *restrict M = state->spare[0], *restrict rooted = state->spare[1];
    double *restrict along = v->v2, *restrict diagonal = v->v1, *restrict w = v->w;
    for (Index b = 0; b < m; b++) {
        const double scale = 1.0 / v->d[b], root = sqrt(scale), *row = v->ratio + b * above;
        for (Index a = 0; a < above; a++) {
            w[b * above + a] = row[a] * scale;
            rooted[b * above + a] = row[a] * root;
        }
    }
    solve_transposed_rows(m, above, v->upper, w);
    memset(along, 0, (size_t)above * sizeof *along);
    add_transposed_product(m, above, w, v->unit, along);
    for (Index b = 0; b < m; b++) {
        const double share = v->unit[b];
        for (Index a = 0; a < above; a++) {
            const double value = w[b * above + a] - share * along[a];
            w[b * above + a] = value;
            diagonal[a] += value * value;
        }
    }
    gram_difference(m, above, w, rooted, M);
    for (Index a = 0; a < above; a++) M[a * above + a] = diagonal[a];
    invert_grounded(above, M, rooted, state->spare[2], v->g);
}

/* Eliminate from the leaves up. */
void factorise(const State *state)
{
    const Index n = state->forest.n;
    for (Index j = 0; j < n; j++) {
        const Node *v = state->nodes + j;
        memset(v->upper, 0, (size_t)(v->count * v->count) * sizeof(double));
    }
    for (Index j = 0; j < n; j++) {
        Node *v = state->nodes + j;
        const Index m = v->count, above = v->above;
        if (v->weight > 0.0) add_node_matrix(v, state->spare[0]);
        row_sums(v);
        for (Index b = 0; b < m; b++) {
            v->upper[b * m + b] += 1.0 / v->d[b];
            v->unit[b] = 1.0;
        }
        cholesky(m, 1e-15, false, v->upper);
        solve_transposed(m, v->upper, v->unit);
        double length = 0.0;
        for (Index b = 0; b < m; b++) length += v->unit[b] * v->unit[b];
        length = 1.0 / sqrt(length);
        for (Index b = 0; b < m; b++) v->unit[b] *= length;
        if (v->parent == j) continue;
        eliminate_edge(state, v);
        double *restrict sum = state->nodes[v->parent].upper;
        for (Index at = 0; at < above * above; at++) sum[at] += v->g[at];
    }
}

/* ------------------------------------------------------------------------------ substitution */

/* The sums of the children's messages start at zero. */
static void clear_messages(const State *state)
{
    for (Index j = 0; j < state->forest.n; j++)
        memset(state->nodes[j].t, 0, (size_t)state->nodes[j].count * sizeof(double));
}

/* Add L'q to the right-hand side of a node, q = ρ_s/s - E Σ(ρ_s/s) / ΣE. */
static void add_node_side(const Node *v)
{
    double total = 0.0;
    for (Index a = 0; a < v->n_answers; a++) total += v->rho_s[a];
    total /= v->e_sum;
    for (Index a = 0; a < v->n_answers; a++) v->v2[a] = v->rho_s[a] - v->e[a] * total;
    add_transposed_product(v->n_answers, v->count, v->cost, v->v2, v->half);
}

/* Half-solve a node, send g of its edge to the parent. v1: ρ̄ - Cκ less the residual. */
static void solve_up(const Node *v, const Node *up)
{
    const Index m = v->count, above = v->above;
    for (Index b = 0; b < m; b++) v->half[b] += v->t[b];
    solve_transposed(m, v->upper, v->half);
    double along = 0.0;
    for (Index b = 0; b < m; b++) along += v->unit[b] * v->half[b];
    for (Index b = 0; b < m; b++) v->half[b] -= along * v->unit[b];
    if (up == v) return;
    add_transposed_product(m, above, v->w, v->half, v->v1);
    symmetric_product(above, v->g, v->v1, v->side);
    for (Index a = 0; a < above; a++) up->t[a] += v->side[a];
}

/* Δu of the edge above a node into du, Δr of the node into step, D Δu into v1. */
static void solve_down(const Node *v, const Node *up)
{
    const Index m = v->count, above = v->above;
    if (up == v) {
        v->du[0] = 0.0;
        for (Index b = 0; b < m; b++) {
            v->step[b] = v->half[b];
            v->v1[b] = 0.0;
        }
    } else {
        symmetric_product(above, v->g, up->step, v->du);
        for (Index a = 0; a < above; a++) v->du[a] = v->side[a] - v->du[a];
        product(m, above, v->w, v->du, v->step);
        for (Index b = 0; b < m; b++) v->step[b] = v->half[b] - v->step[b];
        product(m, above, v->ratio, v->du, v->v1);
    }
    solve_upper(m, v->upper, v->step);
}

/* Δs and Δp of a node for Δr (count). */
static void node_direction(const Node *v, const double *dr)
{
    product(v->n_answers, v->count, v->cost, dr, v->ds);
    double shift = 0.0;
    for (Index a = 0; a < v->n_answers; a++) shift += v->e[a] * v->ds[a] - v->rho_s[a];
    shift /= v->e_sum;
    for (Index a = 0; a < v->n_answers; a++) {
        v->ds[a] -= shift;
        v->dp[a] = v->rho_s[a] - v->e[a] * v->ds[a];
    }
}

/* Steps no longer than what leaves s and p of a node non-negative. */
static void bound_by_node(const Node *v, Steps *steps)
{
    for (Index a = 0; a < v->n_answers; a++) {
        steps->primal = max_double(steps->primal, -v->ds[a] / v->s[a]);
        steps->dual = max_double(steps->dual, -v->dp[a] / v->p[a]);
    }
}

/* ------------------------------------------------------------------------------- the predictor */

/* The right-hand side of a node and its edge for a gap of 0. */
static void predictor_side(const Node *v, const Node *up)
{
    const Index above = v->above;
    double *restrict side = v->v1;
    for (Index a = 0; a < above; a++) side[a] = -up->r[a];
    for (Index b = 0; b < v->count; b++) {
        v->kappa[b] = -v->r[b];
        const double share = v->kappa[b] / v->d[b], *row = v->ratio + b * above;
        v->half[b] = share;
        for (Index a = 0; a < above; a++) side[a] -= share * row[a];
    }
    if (v->weight > 0.0) {
        for (Index a = 0; a < v->n_answers; a++) v->rho_s[a] = -v->p[a];
        add_node_side(v);
    }
    solve_up(v, up);
}

/* Δx∘Δz of the edge above a node into dz. */
static void predict_edge(const Node *v, Steps *steps)
{
    const Index above = v->above;
    double low = 0.0, high = 0.0, slope = steps->slope, curve = steps->curve;
    for (Index b = 0; b < v->count; b++) {
        const double dc = (v->step[b] - v->kappa[b] + v->v1[b]) / v->d[b];
        const double *inverse = v->inverse + b * above, *x = v->x + b * above;
        double *dz = v->dz + b * above;
        for (Index a = 0; a < above; a++) {
            const double change = v->du[a] - dc, part = change * inverse[a];
            low = part < low ? part : low;
            high = part > high ? part : high;
            const double weighted = x[a] * change, second = -weighted * (1.0 + part);
            slope += weighted;
            curve += second;
            dz[a] = second;
        }
    }
    steps->slope = slope;
    steps->curve = curve;
    steps->primal = max_double(steps->primal, 1.0 + high);
    steps->dual = max_double(steps->dual, -low);
}

/* The direction that aims at a gap of 0; keeps only Δx∘Δz in dz and Δp∘Δs in ds. */
Steps predict(const State *state)
{
    const Index n = state->forest.n;
    clear_messages(state);
    for (Index j = 0; j < n; j++)
        predictor_side(state->nodes + j, state->nodes + state->nodes[j].parent);
    Steps steps = {0.0, 0.0, 0.0, 0.0};
    for (Index j = n - 1; j >= 0; j--) {
        const Node *v = state->nodes + j;
        solve_down(v, state->nodes + v->parent);
        predict_edge(v, &steps);
        if (!(v->weight > 0.0)) continue;
        node_direction(v, v->step);
        bound_by_node(v, &steps);
        for (Index a = 0; a < v->n_answers; a++) {
            steps.slope += v->s[a] * v->dp[a];
            v->ds[a] *= v->dp[a];
            steps.curve += v->ds[a];
        }
    }
    return steps;
}

/* ------------------------------------------------------------------------------- the corrector */

/* ρ / z into dx and the right-hand side of a node and its edge. */
static void corrector_side(const Node *v, const Node *up, double target)
{
    const Index above = v->above;
    double *restrict side = v->v1; /* ρ̄ - Cκ less the residual of Σ_b x(b, a) = r_parent(a) */
    for (Index a = 0; a < above; a++) side[a] = -up->r[a];
    for (Index b = 0; b < v->count; b++) {
        double *restrict dx = v->dx + b * above, total = 0.0;
        const double *dz = v->dz + b * above, *inverse = v->inverse + b * above;
        const double *x = v->x + b * above, *ratio = v->ratio + b * above;
        for (Index a = 0; a < above; a++) dx[a] = (target - dz[a]) * inverse[a] - x[a];
        for (Index a = 0; a < above; a++) total += dx[a];
        const double share = total / v->d[b];
        v->kappa[b] = total;
        v->half[b] = share;
        for (Index a = 0; a < above; a++) side[a] += dx[a] - share * ratio[a] + x[a];
    }
    if (v->weight > 0.0) {
        for (Index a = 0; a < v->n_answers; a++)
            v->rho_s[a] = (target - v->ds[a]) / v->s[a] - v->p[a];
        add_node_side(v);
    }
    solve_up(v, up);
}

/* Δr of a node, Δx and Δz of the edge above it, or with ``again`` what to add to them.
 *
 * side becomes the residual of Σ_b (x + Δx)(b, a) = (r + Δr)_parent(a); returns its largest entry,
 * relative to r, or to NEGLIGIBLE where r is smaller. */
static double edge_direction(const Node *v, const Node *up, bool again)
{
    const Index above = v->above;
    solve_down(v, up);
    double *restrict sums = v->v2;
    memset(sums, 0, (size_t)above * sizeof *sums);
    for (Index b = 0; b < v->count; b++) {
        const double dr = v->step[b], *x = v->x + b * above, *ratio = v->ratio + b * above;
        double *restrict dx = v->dx + b * above, *restrict dz = v->dz + b * above;
        const double dc = ((again ? dr : dr - v->kappa[b]) + v->v1[b]) / v->d[b];
        v->dr[b] = again ? v->dr[b] + dr : dr;
        if (!again) memset(dz, 0, (size_t)above * sizeof *dz);
        for (Index a = 0; a < above; a++) {
            const double change = v->du[a] - dc;
            dz[a] += change;
            dx[a] -= ratio[a] * change;
            sums[a] += x[a] + dx[a];
        }
    }
    double worst = 0.0;
    if (up == v) return worst;
    for (Index a = 0; a < above; a++) {
        const double residual = up->r[a] + up->dr[a] - sums[a];
        v->side[a] = residual;
        worst = max_double(worst, fabs(residual) / max_double(up->r[a], NEGLIGIBLE));
    }
    return worst;
}

/* All directions from the roots down; the largest residual. */
static double directions(const State *state, bool again)
{
    double worst = 0.0;
    for (Index j = state->forest.n - 1; j >= 0; j--) {
        const Node *v = state->nodes + j;
        worst = max_double(worst, edge_direction(v, state->nodes + v->parent, again));
    }
    return worst;
}

/* Direction for the complementarity ``target``, with the second-order terms held in dz and ds.
 *
 * Refined until Σ_b x(b, a) = r_parent(a) will hold; returns how far it will not, relative to r. */
double correct(const State *state, double target)
{
    const Index n = state->forest.n;
    clear_messages(state);
    for (Index j = 0; j < n; j++)
        corrector_side(state->nodes + j, state->nodes + state->nodes[j].parent, target);
    double worst = directions(state, false);
    for (int sweep = 0; sweep < 3 && !(worst < 1e-10); sweep++) {
        const double before = worst;
        clear_messages(state);
        for (Index j = 0; j < n; j++) {
            const Node *v = state->nodes + j, *up = state->nodes + v->parent;
            for (Index a = 0; up != v && a < v->above; a++) v->v1[a] = -v->side[a];
            memset(v->half, 0, (size_t)v->count * sizeof(double));
            solve_up(v, up);
        }
        worst = directions(state, true);
        if (worst > 0.5 * before) break;
    }
    for (Index j = 0; j < n; j++) {
        const Node *v = state->nodes + j;
        if (v->weight > 0.0) node_direction(v, v->dr);
    }
    return worst;
}

/* Inverses of the longest steps for (x, s) and for (z, p) that leave them non-negative. */
Steps longest_steps(const State *state)
{
    Steps steps = {0.0, 0.0, 0.0, 0.0};
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        const Index size = v->count * v->above;
        Vec primal = broadcast(steps.primal), dual = broadcast(steps.dual);
        Index at = 0;
        for (; at + LANES <= size; at += LANES) { /* 0/0 of dropped pairs is NaN: does not count */
            dual = maximum(-load(v->dz + at) * load(v->inverse + at), dual);
            primal = maximum(-load(v->dx + at) / load(v->x + at), primal);
        }
        for (int lane = 0; lane < LANES; lane++) {
            steps.primal = max_double(steps.primal, primal[lane]);
            steps.dual = max_double(steps.dual, dual[lane]);
        }
        for (; at < size; at++) {
            steps.dual = max_double(steps.dual, -v->dz[at] * v->inverse[at]);
            steps.primal = max_double(steps.primal, -v->dx[at] / v->x[at]);
        }
        if (v->weight > 0.0) bound_by_node(v, &steps);
    }
    return steps;
}
