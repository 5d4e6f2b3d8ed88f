/* Primal-dual interior point on a game and its tree: Mehrotra's steps, and bounds.
 *
 * The game is a pair of linear programs, the adversary's over edge marginals and the predictor's
 * over max-product messages with p as a variable. It is solved in rounds. Each round is restricted to
 * labels that are nearly best against the predictor known so far, and starts near the strategies found.
 * Both bounds are those of the whole game, so a missing label shows as a gap that stays; the next round
 * then includes more labels. (Mehrotra, 1992.) */
#include "interior.h"
#include "messages.h"

/* How far slacks start from 0, in units of the cost: fewest steps on random games of many sizes. A
 * warm start stays closer, by its gap per node times the second number. */
#define LOOSENING 0.15
#define WARMTH 2.0

/* How far behind the best labelling a label may stay and be kept, in units of the cost: against a
 * guessed predictor, and against one that is known to a gap of ROUGH per node. */
#define GUESSED 2.0
#define KNOWN 0.5
#define ROUGH 0.02

/* Steps without progress after which to stop: single steps may fail near the boundary. */
#define PATIENCE 5

/* The state of the search for the equilibrium of one game. */
typedef struct {
    double allowed; /* the gap at which it counts as solved */
    Index max_iter;
    double unit;   /* factor from the scaled game to the given one */
    double total;  /* the sum of the scaled weights */
    double middle; /* the largest loosening of a round but the last */
    bool many;     /* among many nodes some label is always missed: one round with many labels */

    double lower, upper;
    Index n_iter;
    double reach, loosening, share; /* of the next round */
    double goal;                    /* gap at which a round ends that only selects labels */
    Index idle;                     /* steps without progress */
    bool rough, near, last;         /* whether a rough, a near round was played; this is the last */
} Search;

/* ------------------------------------------------------------------------------------- memory */

static void free_state(State *state)
{
    free(state->nodes), free(state->numbers), free(state->indices);
}

/* Memory for one game after the other, of up to n nodes each; false if there is none. */
static bool new_state(Index n, Index k, State *state)
{
    const Index square = k * k, vectors = (VECTORS + 3) * k, matrices = MATRICES * square;
    state->nodes = NEW(Node, n);
    state->numbers = NEW(double, n * (vectors + matrices) + 3 * square + k);
    state->indices = NEW(Index, n * (2 * k + 2));
    if (!state->nodes || !state->numbers || !state->indices) {
        free_state(state);
        return false;
    }
    double *next = state->numbers;
    Index *index = state->indices;
    for (Index j = 0; j < n; j++) {
        Node *v = state->nodes + j;
        double **vector[VECTORS] = {&v->r,    &v->p,  &v->s,  &v->d,  &v->unit, &v->e,
                                    &v->kappa, &v->rho_s, &v->t, &v->half, &v->side, &v->du,
                                    &v->step, &v->dr, &v->dp, &v->ds, &v->v1,   &v->v2};
        double **matrix[MATRICES] = {&v->x, &v->z, &v->inverse, &v->ratio, &v->upper,
                                     &v->w, &v->g, &v->dx,      &v->dz,    &v->cost};
        for (int i = 0; i < VECTORS; i++, next += k) *vector[i] = next;
        for (int i = 0; i < MATRICES; i++, next += square) *matrix[i] = next;
        v->labels = index, v->answers = index + k, index += 2 * k;
    }
    for (int i = 0; i < 3; i++, next += square) state->spare[i] = next;
    state->best = next, state->augmented = next + n * k, state->factor = next + 2 * n * k;
    state->message = next + 3 * n * k;
    state->parent = index, state->star = index + n;
    return true;
}

/* --------------------------------------------------------------------------------- strategies */

/* No mass anywhere. */
static void clear_adversary(Index n, Index k, const Played *found)
{
    memset(found->r, 0, (size_t)(n * k) * sizeof(double));
    memset(found->q, 0, (size_t)(n * k * k) * sizeof(double));
}

/* Without costs the adversary plays the best labelling, and any predictor is optimal. */
static void play_labelling(const State *state, const Played *found)
{
    const Forest *forest = &state->forest;
    const Index n = forest->n, k = forest->k, *labels = state->star;
    best_score(forest, forest->unary, state->best, state->message);
    max_product_down(0, n, k, forest->parent, forest->tables, forest->table_of, state->best,
                     state->star);
    clear_adversary(n, k, found);
    for (Index i = 0; i < n; i++) {
        for (Index a = 0; a < k; a++) found->p[i * k + a] = 1.0 / (double)k;
        found->r[i * k + labels[i]] = 1.0;
        if (forest->parent[i] >= 0)
            found->q[(i * k + labels[i]) * k + labels[forest->parent[i]]] = 1.0;
    }
}

/* p (n, k) of the current point, normalised; even where the node has no weight. */
static void write_predictor(const State *state, double *p)
{
    const Index k = state->forest.k;
    memset(p, 0, (size_t)(state->forest.n * k) * sizeof *p);
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        double total = 0.0;
        for (Index a = 0; a < v->n_answers; a++) total += v->p[a];
        for (Index a = 0; a < v->n_answers; a++)
            p[j * k + v->answers[a]] =
                v->weight > 0.0 ? v->p[a] / total : 1.0 / (double)v->n_answers;
    }
}

/* r and q of the current point, over all labels again, columns rescaled by ``factor``. */
static void write_adversary(const State *state, const Played *found)
{
    const Index k = state->forest.k;
    clear_adversary(state->forest.n, k, found);
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j, *up = state->nodes + v->parent;
        const double *factor = state->factor + j * k;
        for (Index b = 0; b < v->count; b++) {
            const Index row = j * k + v->labels[b];
            found->r[row] = v->r[b];
            for (Index a = 0; up != v && a < v->above; a++)
                found->q[row * k + up->labels[a]] = v->x[b * v->above + a] * factor[a];
        }
    }
}

/* ------------------------------------------------------------------------------------- bounds */

/* Upper bound by the predictor of the iterate. */
static double predictor_value(const State *state)
{
    const Forest *forest = &state->forest;
    const Index k = forest->k;
    memset(state->augmented, 0, (size_t)(forest->n * k) * sizeof(double));
    for (Index i = 0; i < forest->n; i++) {
        const Node *v = state->nodes + i;
        double *restrict row = state->augmented + i * k, total = 0.0;
        for (Index a = 0; a < v->n_answers; a++) total += v->p[a];
        for (Index a = 0; state->weight[i] > 0.0 && a < v->n_answers; a++) {
            double part = v->weight > 0.0 ? v->p[a] / total : 1.0 / (double)v->n_answers;
            part *= state->weight[i];
            const double *cost = state->cost + v->answers[a] * k;
            for (Index b = 0; b < k; b++) row[b] += part * cost[b];
        }
        for (Index b = 0; b < k; b++) row[b] += forest->unary[i * k + b];
    }
    return best_score(forest, state->augmented, state->best, state->message);
}

/* Cost of the predictor's best answer to r of a node. */
static double least_answer(const State *state, const Node *v)
{
    double least = INFINITY;
    for (Index a = 0; a < v->n_answers; a++) {
        const double *cost = state->cost + v->answers[a] * state->forest.k;
        double value = 0.0;
        for (Index b = 0; b < v->count; b++) value += cost[v->labels[b]] * v->r[b];
        least = min_double(least, value);
    }
    return least;
}

/* Lower bound by the adversary of the iterate, made consistent from the roots down.
 *
 * Leaves the consistent node marginals in r, and in factor[j, a] what column a of x is scaled by. */
static double adversary_value(const State *state)
{
    const Forest *forest = &state->forest;
    const Index k = forest->k;
    double total = 0.0;
    for (Index j = forest->n - 1; j >= 0; j--) {
        const Node *v = state->nodes + j, *up = state->nodes + v->parent;
        const Index above = v->above;
        const bool root = up == v;
        double *restrict factor = state->factor + j * k;
        memset(factor, 0, (size_t)above * sizeof *factor);
        for (Index b = 0; b < v->count; b++)
            for (Index a = 0; a < above; a++) factor[a] += v->x[b * above + a];
        for (Index a = 0; a < above; a++)
            factor[a] = factor[a] > 0.0 ? (root ? 1.0 : up->r[a]) / factor[a] : 0.0;
        const double *table = forest->tables + forest->table_of[j] * k * k;
        for (Index b = 0; b < v->count; b++) {
            const Index label = v->labels[b];
            double mass = 0.0;
            for (Index a = 0; a < above; a++) {
                const double share = v->x[b * above + a] * factor[a];
                mass += share;
                if (!root && share > 0.0) total += share * table[label * k + up->labels[a]];
            }
            v->r[b] = mass;
            total += mass * forest->unary[j * k + label];
        }
        if (state->weight[j] > 0.0) total += state->weight[j] * least_answer(state, v);
    }
    return total;
}

/* Improve the bounds by those of the iterate; write its strategies where they are better. */
static void take_bounds(const State *state, const Played *found, Search *search)
{
    double value = predictor_value(state);
    if (value < search->upper) {
        search->upper = value;
        write_predictor(state, found->p);
    }
    value = adversary_value(state);
    if (value > search->lower) {
        search->lower = value;
        write_adversary(state, found);
    }
}

/* ------------------------------------------------------------------------------------- rounds */

/* Go along the direction; returns the complementarity Σ x z + Σ p s, which is the gap. */
static double move(const State *state, double primal, double dual)
{
    double gap = 0.0;
    for (Index j = 0; j < state->forest.n; j++) {
        const Node *v = state->nodes + j;
        const Index above = v->above;
        double *restrict x = v->x, *restrict z = v->z, *restrict inverse = v->inverse;
        if (primal > 0.0)
            for (Index at = 0; at < v->count * above; at++) {
                x[at] += primal * v->dx[at];
                z[at] += dual * v->dz[at];
                const double one = 1.0 / z[at];
                inverse[at] = x[at] > 0.0 ? one : 0.0;
            }
        for (Index b = 0; b < v->count; b++) {
            double total = 0.0;
            for (Index a = 0; a < above; a++) {
                total += x[b * above + a];
                gap += x[b * above + a] * z[b * above + a];
            }
            v->r[b] = total;
        }
        for (Index a = 0; v->weight > 0.0 && a < v->n_answers; a++) {
            if (primal > 0.0) {
                v->s[a] += primal * v->ds[a];
                v->p[a] += dual * v->dp[a];
            }
            gap += v->p[a] * v->s[a];
        }
    }
    return gap;
}

/* One predictor-corrector step of Mehrotra; the gap after it, or -1 without a direction. */
static double take_step(const State *state, double gap, Index pairs)
{
    factorise(state);
    Steps steps = predict(state);
    double primal = min_double(1.0, 1.0 / steps.primal), dual = min_double(1.0, 1.0 / steps.dual);
    const double after =
        gap - primal * (gap + steps.slope) + dual * steps.slope + primal * dual * steps.curve;
    const double ratio = after / gap, squared = ratio * ratio;
    const double residual = correct(state, squared * squared * gap / (double)pairs);
    steps = longest_steps(state);
    if (!(residual < 1e-2 && steps.primal + steps.dual < INFINITY)) return -1.0;
    primal = min_double(1.0, 0.995 / steps.primal);
    dual = min_double(1.0, 0.995 / steps.dual);
    return move(state, primal, dual);
}

/* Restrict the game to what is within reach of the best answer to the predictor held in p; how many
 * numbers x and p have, 0 if no labelling is finite. */
static Index labels_within(const State *state, double reach, double unit, const Played *known,
                           const Played *found)
{
    const Forest *forest = &state->forest;
    write_predictor(state, found->p);
    add_costs(forest->n, forest->k, forest->unary, state->cost, state->weight, found->p,
              state->augmented);
    Index kept = keep_labels(state, reach * unit, known);
    if (kept == 0) return 0;
    collect_costs(state);
    for (Index j = 0; j < forest->n; j++)
        if (state->nodes[j].weight > 0.0) kept += state->nodes[j].n_answers;
    return kept;
}

/* A feasible p and x; ``share`` of them from the earlier strategies, the rest spread. */
static void begin(const State *state, double unit, double loosening, double share,
                  const Played *known)
{
    if (share > 0.0) mix_predictor(state, share, known->p);
    tight_slacks(state, unit);
    spread_marginals(state, loosening, share, known);
}

/* Take the steps of one round on ``pairs`` pairs. */
static void play_round(const State *state, Index pairs, const Played *found, Search *search)
{
    const double allowed = search->allowed, unit = search->unit;
    const double near = ROUGH * (double)state->forest.n;
    const bool warm = search->loosening == 0.0; /* only the bounds of the start are wanted */
    double gap = loosen(state, search->loosening), least = gap;
    search->idle = 0;
    while (true) {
        /* Bounds cost a tenth of a step: look when they may do, or before rounding spoils x. */
        const bool tired = search->idle > PATIENCE;
        if (gap * unit <= 10.0 * allowed || gap < near || tired || warm) {
            take_bounds(state, found, search);
            /* A gap far above the complementarity means that labels are missing, or that rounding
             * broke feasibility. */
            const double proved = search->upper - search->lower;
            if (proved <= allowed || proved > 2.0 * gap * unit + allowed) return;
        }
        if (gap < search->goal || tired || search->n_iter >= search->max_iter || warm) return;
        search->n_iter++;
        gap = take_step(state, gap, pairs);
        search->idle = gap > 0.99 * least ? search->idle + 1 : 0;
        if (!(gap >= 0.0)) { /* no direction, or rounding broke it */
            gap = least;
            search->idle = PATIENCE + 1;
        }
        least = min_double(least, gap);
    }
}

/* Choose reach, loosening and share of the next round; false if there is none. */
static bool plan_round(Index n, Search *search)
{
    const double gap = search->upper - search->lower;
    const bool tired = search->idle > PATIENCE;
    /* What a missing label moves stays within some thirty nodes. */
    const double wrong = gap / (search->unit * (double)min_index(n, 30));
    if (search->goal > 0.0 || search->loosening == 0.0) {
        search->reach = KNOWN;
    } else if (tired && !search->near) {
        /* Labels far behind spoil the condition of a step: begin with those near the best. */
        search->reach = min_double(search->reach, KNOWN + 2.0 * wrong);
        search->near = true;
    } else if (search->reach < 2.0 * search->total) {
        /* Beyond twice the weights no predictor can make up for what a label lacks. */
        search->reach = tired && !search->many ? 2.0 * search->total : 1.5 * search->reach;
    } else {
        /* A start too close to the border may end early: a last one far from it. */
        search->last = true;
        if (gap <= 1e-5 * search->unit * (double)n) return false;
    }
    search->loosening = min_double(search->middle, WARMTH * wrong);
    search->share = 1.0 - search->loosening / search->middle;
    if (search->last) search->loosening = 1.0, search->share = 0.0;
    return true;
}

/* A first predictor, where no strategies are known; false if no labelling is finite. */
static bool guess_predictor(const State *state, const Played *found, const Search *search)
{
    clear_adversary(state->forest.n, state->forest.k, found);
    if (labels_within(state, GUESSED, search->unit, found, found) == 0) return false;
    begin(state, search->unit, search->middle, 0.0, found);
    answer(state);
    return true;
}

/* Solve one game; start holds strategies of a similar game, or is NULL. False if none were found. */
static bool play_game(const State *state, double heaviest, const Played *start, const Played *found,
                      Search *search)
{
    const Index n = state->forest.n, k = state->forest.k;
    const Played *known = start ? start : found;
    search->unit = state->spread * heaviest;
    search->lower = -INFINITY, search->upper = INFINITY;
    list_answers(state);
    search->total = scale_weights(state, heaviest);
    /* The more nodes, the more centred the start has to be. */
    search->middle = min_double(4.0, pow((double)n / 20.0, 0.25)) * LOOSENING;
    mix_predictor(state, start ? 1.0 : 0.0, known->p);
    if (!start && !guess_predictor(state, found, search)) return false;
    search->many = n > 200; /* another round would cost more than it saves */
    search->reach = search->many ? max_double(GUESSED, 2.0 * search->total) : GUESSED;
    search->loosening = search->middle;
    if (start) search->reach = KNOWN, search->loosening = 0.0, search->share = 1.0;
    search->rough = start != NULL;
    while (true) {
        const Index pairs = labels_within(state, search->reach, search->unit, known, found);
        if (pairs == 0) break;
        /* A rough solution selects the few labels that matter; it pays if there are many. */
        const bool few = search->many || search->rough || pairs <= (k + 16) * n;
        search->goal = few ? 0.0 : ROUGH * (double)n;
        search->rough = true;
        begin(state, search->unit, max_double(search->loosening, 1e-3), search->share, known);
        play_round(state, pairs, found, search);
        if (search->upper - search->lower <= search->allowed ||
            search->n_iter >= search->max_iter || search->last)
            break;
        known = found;
        mix_predictor(state, 1.0, found->p);
        if (!plan_round(n, search)) break;
    }
    return search->upper - search->lower < INFINITY;
}

/* The strategies of sample nodes lo .. */
static Played played_from(const Strategies *all, Index lo, Index k)
{
    return (Played){all->p + lo * k, all->r + lo * k, all->q + lo * k * k};
}

/* Solve samples first .. last-1 until their gap is at most effort->allowed.
 *
 * loss (k, k): the costs between 0 and 1, ``spread``: what they were divided by. If ``warm``, start
 * holds strategies for a similar game. found, out: the best predictor and the best adversary. */
API Index interior_point(Index first, Index last, const GameArrays *game, const double *loss,
                         double spread, const Effort *effort, bool warm, const Strategies *start,
                         const Strategies *found)
{
    const Index k = game->n_labels, *offsets = game->structure.offsets;
    State state = {.cost = game->cost, .loss = loss, .spread = spread};
    if (!new_state(longest_sample(first, last, offsets), k, &state)) return NO_MEMORY;
    for (Index s = first; s < last; s++) {
        const Index lo = offsets[s];
        state.forest = forest_of(s, &game->structure, &game->scores, state.parent);
        state.weight = game->weight + lo;
        const Played known = played_from(start, lo, k), own = played_from(found, lo, k);
        double heaviest = 0.0;
        for (Index i = 0; i < state.forest.n; i++)
            heaviest = max_double(heaviest, state.weight[i]);
        Search search = {.allowed = effort->allowed[s], .max_iter = effort->max_iter};
        const bool done = spread * heaviest > 0.0 &&
                          play_game(&state, heaviest, warm ? &known : NULL, &own, &search);
        effort->n_iter[s] = search.n_iter;
        effort->exhausted[s] = search.n_iter >= search.max_iter &&
                               !(search.upper - search.lower <= search.allowed);
        if (!done) play_labelling(&state, &own);
    }
    free_state(&state);
    return 0;
}
