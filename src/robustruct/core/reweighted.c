/* The game on the local polytope with an entropy, for graphs too wide to be summed over exactly.
 *
 *     V(ψ) = max over r, q   min over p   Σ_i w_i p_i' L r_i + <ψ, (r, q)> + T H(r, q)
 *     H = mean over spanning forests F of [ Σ_i H(r_i) - Σ_{e in F} I(q_e) ]
 *
 * Node marginals r_i and edge marginals q_e agree on every edge. A distribution on a forest has no more
 * than the entropy of its nodes less the mutual informations I of its edges, which is concave in them:
 * so V bounds the exact value from above (tree-reweighted: Wainwright, Jaakkola and Willsky 2005). By
 * duality, with an edge's scores divided by the share rho_e of forests that it is in,
 *
 *     V(ψ) = min over p, λ   mean over F of T log Z_F((ψ + w L'p + λ_F) / T),   Σ_F λ_F = 0.
 *
 * Any p and λ give an upper bound. It is minimised node by node: the best λ at a node makes its
 * marginals in all forests equal, the best p is that of a game on the node alone. Messages of all
 * forests go up and down in one order of the nodes (as in Kolmogorov 2006); where forests branch, some
 * are a sweep old, so steps are shortened if the bound should rise. For a lower bound on V the means of
 * the forests' marginals are made to agree. */
#include "elimination.h"
#include "games.h"
#include "simplex.h"
#include "transport.h"

#define PLACED 1e-12 /* mass that may be missing where edge marginals count as fitted: rounding */
#define LEAST 1e-200 /* smaller sums may have lost terms to underflow */
#define TRIES 20     /* steps of a node's predictor in a visit; visits follow */
#define PLAIN 8      /* sweeps before any begins ahead, which costs half a sweep more */
#define FREE 2       /* kind of predictor, as in gibbs.h */

/* A sample. Nodes count from 0 in the order of the forests, children first. */
typedef struct {
    Index n, m, k, count;  /* nodes, edges, labels, forests */
    Index actions;         /* of the predictor: labels, and any behind them */
    const Index *node;     /* (n) where each is in the batch */
    Index *first;          /* (n+1) edges of node i to later ones: first[i] .. first[i+1]-1 */
    Index *above;          /* (m) the later end of each edge */
    Index *slot, *kind;    /* (m) where it is in the batch; its scores below */
    bool *upright;         /* (m) whether the batch has it as [earlier end, later end] */
    double *score, *exps;  /* (kinds, k, k) ψ / (rho T) [earlier, later], exp of it less its largest */
    double *top;           /* (kinds) the largest */
    double T, allowed;     /* temperature; gap of a node's predictor that need not be closed */
    bool plays;            /* whether p is free */
    const SmoothGames *game;
} Sample;

/* A point that is kept. */
typedef struct {
    double *shift, *p; /* (n, count, k) λ / T; (n, actions) */
} Kept;

/* Everything about the nodes, divided by T. */
typedef struct {
    double *base;   /* (n, k) ψ + w L'p; -inf at labels that no forest, or not all, can have */
    double *shift;  /* (n, count, k) λ */
    double *up;     /* (n, count, k) messages to parents */
    double *below;  /* (n, count, k) those of all children, added up */
    double *down;   /* (n, count, k) messages from parents, 0 at roots */
    Kept best, last; /* the point of the least bound, and the one before */
    double *pace;   /* (n) step length of each predictor */
    double *belief, *other, *sum, *line, *few, *costs, *slopes, *before; /* (k), (actions) */
    double *pair, *plan;                               /* (k, k) */
    Routes routes;
} Work;

/* out = x - y, where -inf less -inf is -inf. */
INLINE void less(Index k, const double *x, const double *y, double *out)
{
    for (Index a = 0; a < k; a++) out[a] = x[a] == -INFINITY ? -INFINITY : x[a] - y[a];
}

/* out = exp(x - the largest); return the logarithm of Σ exp x. */
static double exponentials(Index k, const double *x, double *out)
{
    const double top = largest(k, x);
    double total = 0.0;
    if (top == -INFINITY) {
        memset(out, 0, (size_t)k * sizeof *out);
        return top;
    }
    for (Index a = 0; a < k; a++) total += out[a] = exp(x[a] - top);
    return top + log(total);
}

/* log Σ over x of exp(belief[x] + score[x stride]). */
static double log_sum(Index k, const double *belief, const double *score, Index stride)
{
    double top = -INFINITY, total = 0.0;
    for (Index x = 0; x < k; x++) top = max_double(top, belief[x] + score[x * stride]);
    if (top == -INFINITY) return top;
    for (Index x = 0; x < k; x++) total += exp(belief[x] + score[x * stride] - top);
    return top + log(total);
}

/* Message along an edge from its earlier end (``upward``) or its later one, given what is believed
 * there; exps (k): scratch. */
static void send(const Sample *own, Index kind, bool upward, const double *belief, double *exps,
                 double *message)
{
    const Index k = own->k;
    const double *table = own->exps + kind * k * k, *score = own->score + kind * k * k;
    const double top = largest(k, belief) + own->top[kind];
    exponentials(k, belief, exps);
    if (upward) {
        memset(message, 0, (size_t)k * sizeof *message);
        for (Index b = 0; b < k; b++)
            for (Index a = 0; a < k; a++) message[a] += exps[b] * table[b * k + a];
    } else {
        for (Index b = 0; b < k; b++) {
            double total = 0.0;
            for (Index a = 0; a < k; a++) total += table[b * k + a] * exps[a];
            message[b] = total;
        }
    }
    for (Index x = 0; x < k; x++)
        message[x] = message[x] > LEAST ? log(message[x]) + top
                     : upward           ? log_sum(k, belief, score + x, k)
                                        : log_sum(k, belief, score + x * k, 1);
}

/* The edge from node i to its parent in forest t; only where the node has later neighbours. */
INLINE Index edge_up(const Sample *own, Index i, Index t)
{
    return own->first[i] + t % (own->first[i + 1] - own->first[i]);
}

INLINE bool is_root(const Sample *own, Index i) { return own->first[i] == own->first[i + 1]; }

/* belief = what forest t says of node i, but for the message from its parent. */
INLINE void believe_below(const Sample *own, const Work *work, Index i, Index t, double *belief)
{
    const Index k = own->k, at = (i * own->count + t) * k;
    for (Index a = 0; a < k; a++)
        belief[a] = work->base[i * k + a] + work->shift[at + a] + work->below[at + a];
}

/* belief = what forest t says of the parent of node i, but for the message from i. */
INLINE void believe_above(const Sample *own, const Work *work, Index i, Index t, double *belief)
{
    const Index k = own->k, parent = own->above[edge_up(own, i, t)];
    const double *down = work->down + (parent * own->count + t) * k;
    believe_below(own, work, parent, t, belief);
    for (Index a = 0; a < k; a++) belief[a] += down[a];
    less(k, belief, work->up + (i * own->count + t) * k, belief);
}

/* ------------------------------------------------------------------------------ steps of one node */

/* slope[a] = w / T Σ_b L[a, b] r_b, for each action a. */
INLINE void cost_slopes(const Sample *own, double factor, const double *r, double *slope)
{
    const Index k = own->k;
    for (Index a = 0; a < own->actions; a++) {
        double total = 0.0;
        for (Index b = 0; b < k; b++) total += own->game->cost[a * k + b] * r[b];
        slope[a] = factor * total;
    }
}

/* Whether the predictor may take an action: a label of score -inf it may not. */
INLINE bool open_to(const Sample *own, Index i, Index action)
{
    return action >= own->k || own->game->scores.unary[own->node[i] * own->k + action] > -INFINITY;
}

/* out = gain + w / T L'p; r, exponentials of it that add up to 1 (0 if all are forbidden). */
static void answer(const Sample *own, double factor, const double *gain, const double *p, double *out,
                   double *r)
{
    const Index k = own->k;
    double total = 0.0;
    copy(k, gain, out);
    for (Index a = 0; factor > 0.0 && a < own->actions; a++)
        for (Index b = 0; p[a] != 0.0 && b < k; b++)
            out[b] += factor * p[a] * own->game->cost[a * k + b];
    exponentials(k, out, r);
    for (Index b = 0; b < k; b++) total += r[b];
    for (Index b = 0; total > 0.0 && b < k; b++) r[b] /= total;
}

/* trial = p - pace slope, on the simplex of open actions; return how much p gives away. */
static double project_step(const Sample *own, const Work *work, Index i, const double *p,
                           const double *slope, double *trial)
{
    double least = INFINITY, played = 0.0;
    for (Index a = 0; a < own->actions; a++) {
        const bool open = open_to(own, i, a);
        trial[a] = open ? p[a] - work->pace[i] * slope[a] : -INFINITY;
        if (!open) continue;
        least = min_double(least, slope[a]);
        played += p[a] * slope[a];
    }
    const double threshold = simplex_threshold(own->actions, trial, work->few);
    for (Index a = 0; a < own->actions; a++)
        trial[a] = trial[a] > threshold ? trial[a] - threshold : 0.0;
    return played - least;
}

/* Projected gradient steps of node i's predictor p towards the least log Σ exp(gain + w / T L'p),
 * ``part`` of which is taken; that replaces ``gain`` (k). Steps are accepted by slopes, as values
 * cancel. */
static void play_node(const Sample *own, const Work *work, Index i, double part, double *p,
                      double *gain)
{
    const Index n = own->actions;
    const double factor = own->game->weight[own->node[i]] / own->T;
    double *slope = work->costs, *trial = work->line, *out = work->other, *r = work->belief;
    double *reached = work->slopes, *before = work->before;
    copy(n, p, before);
    answer(own, factor, gain, p, out, r);
    cost_slopes(own, factor, r, slope);
    for (Index x = 0; x < TRIES && factor > 0.0; x++) {
        double bend = 0.0, length = 0.0;
        if (project_step(own, work, i, p, slope, trial) <= own->allowed / own->T) break;
        answer(own, factor, gain, trial, out, r);
        cost_slopes(own, factor, r, reached);
        for (Index a = 0; a < n; a++) {
            const double change = trial[a] - p[a];
            bend += change * (reached[a] - slope[a]);
            length += change * change;
        }
        if (bend * work->pace[i] > length) {
            work->pace[i] *= 0.4;
            continue;
        }
        copy(n, trial, p);
        copy(n, reached, slope);
        if (bend * work->pace[i] < 0.7 * length) work->pace[i] *= 1.4;
    }
    for (Index a = 0; a < n; a++) p[a] = before[a] + part * (p[a] - before[a]);
    answer(own, factor, gain, p, out, r);
    copy(own->k, out, gain);
}

/* Node i's marginals become alike in all forests, by ``part`` of what that would take. */
static void settle(const Sample *own, const Work *work, Index i, double part, double *p)
{
    const Index k = own->k, count = own->count, at = i * count * k;
    const double *unary = own->game->scores.unary + own->node[i] * k;
    double *base = work->base + i * k, *mean = work->sum;
    memset(mean, 0, (size_t)k * sizeof *mean);
    for (Index j = 0; j < count * k; j += k)
        for (Index a = 0; a < k; a++) mean[a] += work->below[at + j + a] + work->down[at + j + a];
    for (Index a = 0; a < k; a++) {
        mean[a] /= (double)count;
        if (mean[a] == -INFINITY) base[a] = -INFINITY; /* for good, as pairs are forbidden */
    }
    if (own->plays) {
        for (Index a = 0; a < k; a++)
            base[a] = base[a] == -INFINITY ? -INFINITY : mean[a] + unary[a] / own->T;
        play_node(own, work, i, part, p, base);
        less(k, base, mean, base);
    }
    if (count == 1) return;
    for (Index j = 0; j < count * k; j += k) {
        double *shift = work->shift + at + j, total = 0.0;
        const double *below = work->below + at + j, *down = work->down + at + j;
        Index alive = 0;
        for (Index a = 0; a < k; a++) {
            if (base[a] == -INFINITY) continue;
            shift[a] += part * (mean[a] - below[a] - down[a] - shift[a]);
            total += shift[a], alive++;
        }
        /* Constants add up to 0 over the forests as well; they would grow and cost digits. */
        for (Index a = 0; a < k; a++)
            shift[a] = base[a] == -INFINITY ? 0.0 : shift[a] - total / (double)alive;
    }
}

/* ----------------------------------------------------------------------------------------- sweeps */

/* From the leaves up; nodes settle by ``part``, if it is not 0. Return the upper bound. */
static double sweep_up(const Sample *own, const Work *work, double part, double *p)
{
    const Index k = own->k, count = own->count;
    double total = 0.0;
    memset(work->below, 0, (size_t)(own->n * count * k) * sizeof(double));
    for (Index i = 0; i < own->n; i++) {
        if (part > 0.0) settle(own, work, i, part, p + own->node[i] * own->actions);
        for (Index t = 0; t < count; t++) {
            believe_below(own, work, i, t, work->belief);
            if (is_root(own, i)) {
                total += exponentials(k, work->belief, work->other);
                continue;
            }
            const Index e = edge_up(own, i, t);
            double *message = work->up + (i * count + t) * k;
            double *sum = work->below + (own->above[e] * count + t) * k;
            send(own, own->kind[e], true, work->belief, work->other, message);
            for (Index a = 0; a < k; a++) sum[a] += message[a];
        }
    }
    return own->T * total / (double)count;
}

/* From the roots down, after a sweep up. */
static void sweep_down(const Sample *own, const Work *work, double part, double *p)
{
    const Index k = own->k, count = own->count;
    for (Index i = own->n - 1; i >= 0; i--) {
        for (Index t = 0; t < count && !is_root(own, i); t++) {
            believe_above(own, work, i, t, work->belief);
            send(own, own->kind[edge_up(own, i, t)], false, work->belief, work->other,
                 work->down + (i * count + t) * k);
        }
        if (part > 0.0) settle(own, work, i, part, p + own->node[i] * own->actions);
    }
}

/* -------------------------------------------------------------------------------------- marginals */

/* pair += exp(below[b] + score[b, a] + above[a]), divided by their sum; line, few (k): scratch. */
static void add_pairs(const Sample *own, const Work *work, Index kind, const double *below,
                      const double *above)
{
    const Index k = own->k;
    const double *table = own->exps + kind * k * k, *score = own->score + kind * k * k;
    double total = 0.0, *plan = work->plan;
    exponentials(k, below, work->line);
    exponentials(k, above, work->few);
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++)
            total += plan[b * k + a] = work->line[b] * table[b * k + a] * work->few[a];
    if (!(total > LEAST)) {
        double top = -INFINITY;
        total = 0.0;
        for (Index b = 0; b < k; b++)
            for (Index a = 0; a < k; a++)
                top = max_double(top, below[b] + score[b * k + a] + above[a]);
        if (top == -INFINITY) return;
        for (Index b = 0; b < k; b++)
            for (Index a = 0; a < k; a++)
                total += plan[b * k + a] = exp(below[b] + score[b * k + a] + above[a] - top);
    }
    for (Index j = 0; j < k * k; j++) work->pair[j] += plan[j] / total;
}

/* work->pair becomes node marginals' joint distribution, changed as little as need be; return the mass
 * that forbidden pairs keep from being placed. */
static double agree(const Sample *own, const Work *work, Index kind, const double *r_first,
                    const double *r_second)
{
    const Index k = own->k;
    const double *score = own->score + kind * k * k;
    double mass = 0.0, *row = work->line, *column = work->few;
    scale_down(k, r_first, r_second, work->pair, row, column);
    for (Index b = 0; b < k; b++) mass += row[b];
    if (!(mass > 0.0)) return 0.0;
    bool forbids = false;
    for (Index j = 0; j < k * k; j++) forbids = forbids || score[j] == -INFINITY;
    if (forbids) {
        const double missing = transport(k, score, row, column, work->plan, &work->routes);
        for (Index j = 0; j < k * k; j++) work->pair[j] += work->plan[j];
        return missing;
    }
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++) work->pair[b * k + a] += row[b] * column[a] / mass;
    return 0.0;
}

static double entropy(Index n, const double *mass)
{
    double total = 0.0;
    for (Index j = 0; j < n; j++)
        if (mass[j] > 0.0) total -= mass[j] * log(mass[j]);
    return total;
}

/* r of node i: the mean of what forests say. */
static void node_marginal(const Sample *own, const Work *work, Index i, double *r)
{
    const Index k = own->k, count = own->count;
    memset(r, 0, (size_t)k * sizeof *r);
    for (Index t = 0; t < count; t++) {
        const double *down = work->down + (i * count + t) * k;
        double total = 0.0;
        believe_below(own, work, i, t, work->belief);
        for (Index a = 0; a < k; a++) work->belief[a] += down[a];
        exponentials(k, work->belief, work->other);
        for (Index a = 0; a < k; a++) total += work->other[a];
        for (Index a = 0; total > 0.0 && a < k; a++) r[a] += work->other[a] / total / (double)count;
    }
}

/* The joint distribution on edge e of node i, between marginals that it agrees with, into q as the batch
 * has it. Return its scores plus T rho_e (H(q_e) - H of its ends); add what cannot be placed. */
static double edge_value(const Sample *own, const Work *work, Index i, Index e, const double *r,
                         double *q, double *missing)
{
    const Index k = own->k, others = own->first[i + 1] - own->first[i], parent = own->above[e];
    Index uses = 0;
    memset(work->pair, 0, (size_t)(k * k) * sizeof(double));
    for (Index t = e - own->first[i]; t < own->count; t += others, uses++) {
        believe_below(own, work, i, t, work->belief);
        believe_above(own, work, i, t, work->other);
        add_pairs(own, work, own->kind[e], work->belief, work->other);
    }
    for (Index j = 0; j < k * k; j++) work->pair[j] /= (double)uses;
    const double *r_first = r + own->node[i] * k, *r_second = r + own->node[parent] * k;
    *missing += agree(own, work, own->kind[e], r_first, r_second);
    const double rho = (double)uses / (double)own->count;
    const double information = entropy(k, r_first) + entropy(k, r_second) - entropy(k * k, work->pair);
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++)
            q[own->upright[e] ? b * k + a : a * k + b] = work->pair[b * k + a];
    const double *score = own->score + own->kind[e] * k * k;
    return own->T * rho * (add_scores(k * k, work->pair, score, 0.0) - information);
}

/* r and q from all messages, which are up to date; return a lower bound. */
static double marginals(const Sample *own, const Work *work, double *r, double *q)
{
    const Index k = own->k;
    double total = 0.0, missing = 0.0;
    for (Index i = 0; i < own->n; i++) {
        const Index at = own->node[i];
        const double *unary = own->game->scores.unary + at * k, weight = own->game->weight[at];
        node_marginal(own, work, i, r + at * k);
        total = add_scores(k, r + at * k, unary, total) + own->T * entropy(k, r + at * k);
        if (!own->plays) continue;
        double least = INFINITY;
        cost_slopes(own, weight, r + at * k, work->costs);
        for (Index a = 0; a < own->actions; a++)
            if (open_to(own, i, a)) least = min_double(least, work->costs[a]);
        total += least;
    }
    for (Index i = 0; i < own->n; i++)
        for (Index e = own->first[i]; e < own->first[i + 1]; e++)
            total += edge_value(own, work, i, e, r, q + own->slot[e] * k * k, &missing);
    return missing > PLACED ? -INFINITY : total;
}

/* ----------------------------------------------------------------------------------------- samples */

/* Potentials of node i without λ, from its scores and p, but for labels that are out of the game. */
static void set_base(const Sample *own, const Work *work, Index i, const double *p)
{
    const Index k = own->k, at = own->node[i];
    const double factor = own->plays ? own->game->weight[at] / own->T : 0.0;
    double *base = work->base + i * k;
    for (Index a = 0; a < k; a++)
        work->line[a] = base[a] == -INFINITY ? -INFINITY : own->game->scores.unary[at * k + a] / own->T;
    answer(own, factor, work->line, p + at * own->actions, base, work->other);
}

/* Copy multipliers and p of the sample to a point that is kept, or back if ``again``. */
static void keep(bool again, const Sample *own, const Work *work, const Kept *kept, double *p)
{
    const Index length = own->n * own->count * own->k, actions = own->actions;
    copy(length, again ? kept->shift : work->shift, again ? work->shift : kept->shift);
    for (Index i = 0; i < own->n && own->plays; i++) {
        double *now = p + own->node[i] * actions, *then = kept->p + i * actions;
        copy(actions, again ? then : now, again ? now : then);
        if (again) set_base(own, work, i, p);
    }
}

/* From the best point on along the last change, ``far`` times; the best becomes the one before. */
static void look_ahead(const Sample *own, const Work *work, double far, double *p)
{
    const Index length = own->n * own->count * own->k, actions = own->actions;
    for (Index j = 0; j < length; j++) {
        const double best = work->best.shift[j];
        work->shift[j] = best + far * (best - work->last.shift[j]);
        work->last.shift[j] = best;
    }
    for (Index i = 0; i < own->n && own->plays; i++) {
        double *now = p + own->node[i] * actions, total = 0.0;
        for (Index a = 0; a < actions; a++) {
            const double best = work->best.p[i * actions + a];
            now[a] = max_double(best + far * (best - work->last.p[i * actions + a]), 0.0);
            work->last.p[i * actions + a] = best;
            total += now[a];
        }
        for (Index a = 0; a < actions; a++) now[a] /= total;
        set_base(own, work, i, p);
    }
    sweep_up(own, work, 0.0, p);
}

/* Sweeps until the gap is allowed; return their number, both ways counted as one. After the first few they
 * begin ahead of the last point, as in Nesterov's method, until the bound rises. */
static Index descend(const Sample *own, const Effort *effort, double allowed, const RelaxedGibbs *point,
                     const Work *work, double *lower, double *upper)
{
    double part = 1.0, momentum = 1.0;
    Index sweeps = 0;
    *upper = sweep_up(own, work, 0.0, point->p);
    keep(false, own, work, &work->best, point->p);
    keep(false, own, work, &work->last, point->p);
    while (true) {
        sweep_down(own, work, 0.0, point->p);
        *lower = marginals(own, work, point->r, point->q);
        if (*upper - *lower <= allowed || sweeps >= effort->max_iter) return sweeps;
        for (Index x = 0; x < effort->check_every && sweeps < effort->max_iter; x++, sweeps++) {
            const double after = 0.5 * (1.0 + sqrt(1.0 + 4.0 * momentum * momentum));
            const double far = sweeps < PLAIN ? 0.0 : (momentum - 1.0) / after;
            if (far > 0.0)
                look_ahead(own, work, far, point->p);
            else
                keep(false, own, work, &work->last, point->p);
            sweep_down(own, work, part, point->p);
            const double value = sweep_up(own, work, part, point->p);
            /* Near the optimum the gap is like the square root of what values can tell: plain sweeps. */
            const double felt = 1e-3 * min_double(allowed, fabs(*upper)) + 1e-12 * fabs(*upper);
            if (value <= *upper + felt) {
                part = min_double(1.1 * part, 1.0), momentum = value < *upper - felt ? after : 1.0;
                *upper = value;
                keep(false, own, work, &work->best, point->p);
            } else {
                if (!(far > 0.0)) part *= 0.5;
                momentum = 1.0;
                keep(true, own, work, &work->best, point->p);
                sweep_up(own, work, 0.0, point->p);
            }
        }
    }
}

/* Number of the scores of edge e, which are computed unless another edge has had them. Keys are found in
 * a hash table of 2^bits places. */
static Index kind_of(const Sample *own, Index table, bool upright, Index uses, Index bits, Index *keys,
                     Index *place, Index *n_kinds)
{
    const Index k = own->k, key = (table * (own->count + 1) + uses) * 2 + upright;
    uint64_t at = (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
    for (; place[at] >= 0; at = (at + 1) & ((UINT64_C(1) << bits) - 1))
        if (keys[place[at]] == key) return place[at];
    const Index kind = (*n_kinds)++;
    place[at] = kind, keys[kind] = key;
    const double factor = (double)own->count / ((double)uses * own->T);
    const double *from = own->game->scores.tables + table * k * k;
    double *score = own->score + kind * k * k, *exps = own->exps + kind * k * k;
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++)
            score[b * k + a] = factor * from[upright ? b * k + a : a * k + b];
    const double top = largest(k * k, score);
    own->top[kind] = top > -INFINITY ? top : 0.0;
    for (Index j = 0; j < k * k; j++) exps[j] = exp(score[j] - own->top[kind]);
    return kind;
}

/* The edges of sample s between nodes in the order of the forests. position (n): scratch; keys (m) and
 * place (2^bits) as for `kind_of`. */
static void take_edges(Index s, Sample *own, Index *position, Index bits, Index *keys, Index *place)
{
    const Structure *graph = &own->game->structure;
    const Index lo = graph->offsets[s], n = own->n;
    Index n_kinds = 0;
    Index *slots = keys; /* keys of kinds are written behind the slots that are read */
    own->m = edges_of_sample(s, graph, slots);
    for (Index i = 0; i < n; i++) position[own->node[i] - lo] = i;
    memset(own->first, 0, (size_t)(n + 1) * sizeof *own->first);
    for (Index x = 0; x < own->m; x++) {
        const Index i = position[graph->child[slots[x]] - lo], j = position[graph->parent[slots[x]] - lo];
        own->first[min_index(i, j) + 1]++;
    }
    for (Index i = 0; i < n; i++) own->first[i + 1] += own->first[i];
    for (Index x = own->m - 1; x >= 0; x--) { /* first[i + 1] goes down to where node i begins */
        const Index i = position[graph->child[slots[x]] - lo], j = position[graph->parent[slots[x]] - lo];
        const Index e = --own->first[min_index(i, j) + 1];
        own->slot[e] = slots[x], own->above[e] = max_index(i, j), own->upright[e] = i < j;
    }
    memmove(own->first, own->first + 1, (size_t)n * sizeof *own->first);
    own->first[n] = own->m;
    for (Index x = 0; x < (Index)1 << bits; x++) place[x] = -1;
    for (Index i = 0; i < n; i++) {
        const Index others = own->first[i + 1] - own->first[i];
        for (Index e = own->first[i]; e < own->first[i + 1]; e++) {
            const Index t = e - own->first[i], uses = (own->count - 1 - t) / others + 1;
            const Index table = own->game->scores.table_of[own->slot[e]];
            own->kind[e] = kind_of(own, table, own->upright[e], uses, bits, keys, place, &n_kinds);
        }
    }
}

/* Where the sample begins: all potentials from its scores, p and multipliers. */
static void begin(const Sample *own, const RelaxedGibbs *point, const double *multipliers,
                  const Work *work)
{
    const Index k = own->k, length = own->n * own->count * k;
    const double range = largest(own->actions * k, own->game->cost);
    for (Index j = 0; j < length; j++) work->shift[j] = multipliers[j] / own->T;
    memset(work->down, 0, (size_t)length * sizeof(double));
    memset(work->base, 0, (size_t)(own->n * k) * sizeof(double));
    for (Index i = 0; i < own->n; i++) {
        const double factor = own->game->weight[own->node[i]] / own->T;
        set_base(own, work, i, point->p);
        /* Slopes change by at most the cost's range squared times the variance of an indicator. */
        work->pace[i] = 4.0 / (factor * factor * range * range * (double)k + 1e-300);
    }
}

/* Memory for samples of up to n nodes, m edges and ``rows`` nodes times forests; NULL if there is none.
 * All of it is behind own->score. */
static double *lay_out(Index n, Index m, Index rows, Sample *own, Work *work)
{
    const Index k = own->k, actions = own->actions, wide = max_index(k, actions);
    double **parts[] = {&own->score,        &own->exps,   &own->top,         &work->shift,
                        &work->up,          &work->below, &work->down,       &work->best.shift,
                        &work->last.shift,  &work->base,  &work->best.p,     &work->last.p,
                        &work->pace,        &work->belief, &work->other,     &work->sum,
                        &work->line,        &work->few,   &work->costs,      &work->slopes,
                        &work->before,      &work->pair,  &work->plan};
    const Index sizes[] = {m * k * k, m * k * k,   m,           rows * k, rows * k, rows * k,
                           rows * k,  rows * k,    rows * k,    n * k,    n * actions, n * actions,
                           n,         k,           k,           k,        wide,     wide,
                           wide,      wide,        wide,        k * k,    k * k};
    const int count = sizeof sizes / sizeof *sizes;
    Index total = 0;
    for (int x = 0; x < count; x++) total += sizes[x];
    double *numbers = NEW(double, total), *at = numbers;
    for (int x = 0; numbers && x < count; at += sizes[x++]) *parts[x] = at;
    return numbers;
}

/* Samples first .. last-1, to a gap of effort->allowed[s]; ``player`` is FREE where p is to be chosen,
 * else costs play no part. point, in: where to start, out: what was reached. lower, upper (S), out:
 * bounds on V; lower is -inf where forbidden pairs kept edges from being fitted. */
API Index solve_reweighted(Index first, Index last, const SmoothGames *game,
                           const SpanningForests *forests, const SmoothSettings *settings,
                           const Effort *effort, const RelaxedGibbs *point, double *lower,
                           double *upper)
{
    const Index k = game->n_labels, *offsets = game->structure.offsets;
    const Index *chords = game->structure.chord_offsets;
    Index n = 0, m = 0, rows = 0, bits = 1;
    for (Index s = first; s < last; s++) {
        n = max_index(n, offsets[s + 1] - offsets[s]);
        m = max_index(m, offsets[s + 1] - offsets[s] + chords[s + 1] - chords[s]);
        rows = max_index(rows, forests->rows[s + 1] - forests->rows[s]);
    }
    while ((Index)1 << bits < 2 * m) bits++;
    Sample own = {.k = k, .actions = game->n_actions, .T = settings->temperature, .game = game};
    Work work;
    Index *indices = NEW(Index, 2 * n + 1 + 4 * m + ((Index)1 << bits));
    double *numbers = lay_out(n, m, rows, &own, &work);
    own.upright = NEW(bool, m), own.plays = settings->player == FREE;
    const bool routed = new_routes(k, &work.routes), enough = indices && numbers && own.upright;
    if (enough && routed) {
        own.first = indices, own.above = indices + n + 1, own.slot = own.above + m;
        own.kind = own.slot + m;
        Index *keys = own.kind + m, *position = keys + m, *place = position + n;
        for (Index s = first; s < last; s++) {
            own.n = offsets[s + 1] - offsets[s];
            own.count = (forests->rows[s + 1] - forests->rows[s]) / max_index(own.n, 1);
            own.node = forests->order + offsets[s];
            own.allowed = 0.2 * effort->allowed[s] / (double)max_index(own.n, 1);
            double *multipliers = point->multipliers + forests->rows[s] * k;
            take_edges(s, &own, position, bits, keys, place);
            begin(&own, point, multipliers, &work);
            effort->n_iter[s] =
                descend(&own, effort, effort->allowed[s], point, &work, lower + s, upper + s);
            for (Index j = 0; j < own.n * own.count * k; j++) multipliers[j] = own.T * work.shift[j];
        }
    }
    free(indices), free(numbers), free(own.upright);
    if (routed) free_routes(&work.routes);
    return enough && routed ? 0 : NO_MEMORY;
}
