/* The game on a single node: max over r, min over p of scores·r + weight p' cost r, exactly.
 *
 * Closed forms where the cost has one (see game/single_node.py for how it is recognised), else the
 * simplex method on the k x k matrix game. cost[a, b] is offset[b] plus: unit where a != b
 * (ZERO_ONE), |place[a] - place[b]| (ABSOLUTE), its square (SQUARED), or anything (ANY). */
#include "node_games.h"

void free_node_scratch(NodeScratch *scratch) { free(scratch->line), free(scratch->kept); }

bool new_node_scratch(Index k, NodeScratch *scratch)
{
    scratch->line = NEW(double, 3 * k + k * k + (k + 1) * (k + 1) + k * (k + 1));
    scratch->kept = NEW(Index, 3 * k);
    if (!scratch->line || !scratch->kept) {
        free_node_scratch(scratch);
        return false;
    }
    scratch->y = scratch->line + k, scratch->z = scratch->y + k;
    scratch->payoff = scratch->z + k, scratch->tableau = scratch->payoff + k * k;
    scratch->square = scratch->tableau + (k + 1) * (k + 1);
    scratch->rows = scratch->kept + k, scratch->columns = scratch->rows + k;
    return true;
}

INLINE void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

/* p even over the labels that the predictor may answer with. */
static void spread_evenly(Index k, const double *mask, double *p)
{
    Index n = 0;
    for (Index a = 0; a < k; a++) n += mask[a] > -INFINITY;
    for (Index a = 0; a < k; a++) p[a] = mask[a] > -INFINITY ? 1.0 / (double)n : 0.0;
}

/* ------------------------------------------------------------------------------- closed forms */

/* Shell's sort; of a few numbers all neighbours are exchanged, which takes no branch. */
INLINE void sort_descending(Index n, double *x)
{
    if (n <= 8) {
        for (Index i = 1; i < n; i++)
            for (Index j = i; j > 0; j--) {
                const double one = x[j - 1], other = x[j];
                x[j - 1] = max_double(one, other);
                x[j] = min_double(one, other);
            }
        return;
    }
    for (Index gap = n > 2 ? n / 2 : 1; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (Index i = gap; i < n; i++) {
            const double value = x[i];
            Index j = i;
            for (; j >= gap && x[j - gap] < value; j -= gap) x[j] = x[j - gap];
            x[j] = value;
        }
}

/* V = max over m of (sum of the m largest a + w (m - 1)) / m; r is even on those m labels. */
INLINE double zero_one(Index k, const double *restrict a, double w, double *restrict p,
                       double *restrict r, double *restrict ranked)
{
    memcpy(ranked, a, (size_t)k * sizeof *a);
    sort_descending(k, ranked);
    double total = 0.0, value = -INFINITY, mass = 0.0;
    Index size = 1;
    for (Index m = 1; m <= k && ranked[m - 1] > -INFINITY; m++) {
        total += ranked[m - 1];
        const double candidate = (total + w * (double)(m - 1)) / (double)m;
        size = candidate > value ? m : size;
        value = max_double(value, candidate);
    }
    const double least = ranked[size - 1], share = 1.0 / (double)size;
    Index left = size; /* of those that tie for the last place, the first are played */
    for (Index b = 0; b < k; b++) left -= a[b] > least;
    for (Index b = 0; b < k; b++) {
        const bool ties = (a[b] == least) & (left > 0);
        left -= ties;
        r[b] = (a[b] > least) | ties ? share : 0.0;
        /* The label is worth the value, and no more, once it is predicted this often. */
        p[b] = max_double(0.0, 1.0 + (a[b] - value) / w);
        mass += p[b];
    }
    for (Index b = 0; b < k; b++) p[b] /= mass;
    return value;
}

/* Mass on the two places next to c with mean c (or on the last place before it). */
static void predict_around(Index k, double c, const double *place, const double *mask, double *p)
{
    Index below = -1, above = -1;
    for (Index b = 0; b < k; b++) {
        if (mask[b] == -INFINITY) continue;
        if (place[b] <= c && (below < 0 || place[b] > place[below])) below = b;
        if (place[b] >= c && (above < 0 || place[b] < place[above])) above = b;
    }
    if (below < 0) {
        p[above] = 1.0;
    } else if (above < 0 || place[above] == place[below]) {
        p[below] = 1.0;
    } else {
        const double share = (c - place[below]) / (place[above] - place[below]);
        p[above] = share;
        p[below] = 1.0 - share;
    }
}

/* V = max over pairs (i, j) of (a_i + a_j + w |x_j - x_i|) / 2: two separate maxima. */
static double absolute(Index k, const double *a, double w, const double *place, const double *mask,
                       double *p, double *r)
{
    Index left = 0, right = 0;
    double most_left = a[0] - w * place[0], most_right = a[0] + w * place[0];
    for (Index b = 1; b < k; b++) {
        const double value_left = a[b] - w * place[b], value_right = a[b] + w * place[b];
        if (value_left > most_left) most_left = value_left, left = b;
        if (value_right > most_right) most_right = value_right, right = b;
    }
    r[left] += 0.5;
    r[right] += 0.5;
    /* Predicting the point c on average makes both labels worth the value, and no label more. */
    const double c = 0.5 * (place[left] + place[right] + (a[right] - a[left]) / w);
    predict_around(k, c, place, mask, p);
    return 0.5 * (a[left] + a[right] + w * fabs(place[right] - place[left]));
}

/* The upper envelope of the lines a_b + w x_b^2 - 2 w c x_b from left to right, where slopes
 * increase as x_b falls: its labels, and from which c on each counts. Returns how many. */
static Index envelope(Index k, const double *a, double w, const double *x, const Index *order,
                      Index *hull, double *start)
{
    Index n = 0;
    for (Index at = k - 1; at >= 0; at--) {
        const Index b = order[at];
        if (a[b] == -INFINITY) continue;
        double entry = -INFINITY;
        bool hidden = false;
        for (; n > 0; n--) {
            const Index top = hull[n - 1];
            if (x[top] == x[b]) {
                hidden = a[b] <= a[top];
                if (hidden) break;
                continue;
            }
            entry = 0.5 * (x[top] + x[b] + (a[b] - a[top]) / (w * (x[b] - x[top])));
            if (entry > start[n - 1]) break;
        }
        if (hidden) continue;
        start[n] = n > 0 ? entry : -INFINITY;
        hull[n++] = b;
    }
    return n;
}

/* The places of the predictor from left to right, each once. Returns how many. */
static Index list_places(Index k, const double *x, const Index *order, const double *mask,
                         Index *stop)
{
    Index n = 0;
    for (Index at = 0; at < k; at++) {
        const Index b = order[at];
        if (mask[b] > -INFINITY && (n == 0 || x[b] > x[stop[n - 1]])) stop[n++] = b;
    }
    return n;
}

/* A predictor with mean c costs h(c) - 2 c x_b + x_b^2 at label b; h joins the points (x, x^2).
 *
 * So the game is a minimum over c alone of w h(c) + max_b (a_b + w x_b^2 - 2 w c x_b): a walk along
 * the kinks of h (the places) and of the envelope of lines until the slope turns. A pair of labels
 * is enough for either player. */
static void walk_envelope(const double *x, Index n_lines, const Index *hull, const double *start,
                          Index n_stops, const Index *stop, double *p, double *r)
{
    Index t = 0;
    while (t + 1 < n_lines && start[t + 1] <= x[stop[0]]) t++;
    for (Index j = 0;; j++) {
        const Index here = stop[j], b = hull[t];
        if (j + 1 == n_stops || x[here] + x[stop[j + 1]] >= 2.0 * x[b]) {
            p[here] = 1.0;
            r[b] = 1.0;
            return;
        }
        const Index ahead = stop[j + 1];
        const double middle = 0.5 * (x[here] + x[ahead]);
        for (; t + 1 < n_lines && start[t + 1] <= x[ahead]; t++) {
            const Index one = hull[t], other = hull[t + 1];
            if (!(middle >= x[other])) continue;
            r[one] = (middle - x[other]) / (x[one] - x[other]);
            r[other] = 1.0 - r[one];
            const double share = (start[t + 1] - x[here]) / (x[ahead] - x[here]);
            p[ahead] = min_double(1.0, max_double(0.0, share));
            p[here] = 1.0 - p[ahead];
            return;
        }
    }
}

/* The squared distance on a line: walk_envelope, and what it is worth. */
static double squared(const CostArrays *form, const double *a, double w, const double *mask,
                      double *p, double *r, const NodeScratch *scratch)
{
    const Index k = form->n_labels;
    const double *x = form->place;
    Index *hull = scratch->kept, *stop = scratch->rows;
    const Index n_lines = envelope(k, a, w, x, form->order, hull, scratch->y);
    const Index n_stops = list_places(k, x, form->order, mask, stop);
    walk_envelope(x, n_lines, hull, scratch->y, n_stops, stop, p, r);
    double value = 0.0;
    for (Index b = 0; b < k; b++) {
        if (!(r[b] > 0.0)) continue;
        double loss = 0.0;
        for (Index c = 0; c < k; c++) loss += p[c] * ((x[c] - x[b]) * (x[c] - x[b]));
        value += r[b] * (a[b] + w * loss);
    }
    return value;
}

/* ------------------------------------------------------------------------------ linear systems */

/* x (n) clipped and divided by its sum; false if that is not positive. */
static bool normalise(Index n, double *x)
{
    double total = 0.0;
    for (Index i = 0; i < n; i++) {
        x[i] = max_double(x[i], 0.0);
        total += x[i];
    }
    if (!(total > 0.0)) return false;
    for (Index i = 0; i < n; i++) x[i] /= total;
    return true;
}

/* Rows of a square system with a right-hand side of 1, which is column m, become triangular, by
 * Gauss with partial pivoting; false if it is singular. Rows are ``width`` apart. */
static bool triangulate(Index m, Index width, double *square)
{
    for (Index j = 0; j < m; j++) {
        Index pivot = j;
        for (Index i = j + 1; i < m; i++)
            if (fabs(square[i * width + j]) > fabs(square[pivot * width + j])) pivot = i;
        double *restrict own = square + j * width;
        if (fabs(square[pivot * width + j]) < 1e-14) return false;
        for (Index c = j; pivot != j && c <= m; c++) swap(own + c, square + pivot * width + c);
        for (Index i = j + 1; i < m; i++) {
            double *restrict row = square + i * width;
            const double factor = row[j] / own[j];
            if (factor == 0.0) continue;
            for (Index c = j + 1; c <= m; c++) row[c] -= factor * own[c];
        }
    }
    return true;
}

/* x[at] with square x[at] = const and Σ x = 1, zero elsewhere among n. */
static bool solve_square(Index m, Index width, double *square, const Index *at, Index n, double *x)
{
    for (Index j = 0; j < m; j++) square[j * width + m] = 1.0;
    if (!triangulate(m, width, square)) return false;
    memset(x, 0, (size_t)n * sizeof *x);
    for (Index j = m - 1; j >= 0; j--) {
        double *row = square + j * width, value = row[m];
        for (Index c = j + 1; c < m; c++) value -= row[c] * square[c * width + m];
        row[m] = value / row[j];
        x[at[j]] = row[m];
    }
    return normalise(n, x);
}

/* --------------------------------------------------------------------------------- matrix games */

/* List the columns worth playing in ``kept``; return how many, and the range of their payoffs.
 *
 * What can never earn as much as another label always does is not played. It would also blow up the
 * range of the payoffs when scores dwarf the costs. least, most (k): scratch. */
static Index contenders(Index k, const double *scores, double w, const double *cost,
                        const double *mask, const NodeScratch *scratch, double *low, double *high)
{
    double *least = scratch->y, *most = scratch->z, secure = -INFINITY;
    for (Index b = 0; b < k; b++) least[b] = INFINITY, most[b] = -INFINITY;
    for (Index a = 0; a < k; a++)
        for (Index b = 0; mask[a] > -INFINITY && b < k; b++) {
            const double payoff = scores[b] + w * cost[a * k + b];
            least[b] = min_double(least[b], payoff);
            most[b] = max_double(most[b], payoff);
        }
    for (Index b = 0; b < k; b++) secure = max_double(secure, least[b]);
    Index n = 0;
    *low = INFINITY, *high = -INFINITY;
    for (Index b = 0; b < k; b++)
        if (most[b] >= secure) {
            *low = min_double(*low, least[b]);
            *high = max_double(*high, most[b]);
            scratch->kept[n++] = b;
        }
    return n;
}

/* The least payoff that r (n) secures, and the most that p (k) concedes. */
static void brackets(Index k, Index n, const NodeScratch *scratch, double *lower, double *upper)
{
    const double *p = scratch->y, *r = scratch->z;
    *lower = INFINITY, *upper = -INFINITY;
    for (Index a = 0; a < k; a++) {
        double value = 0.0;
        for (Index j = 0; j < n; j++) value += scratch->payoff[a * k + j] * r[j];
        *lower = min_double(*lower, value);
    }
    for (Index j = 0; j < n; j++) {
        double value = 0.0;
        for (Index a = 0; a < k; a++) value += scratch->payoff[a * k + j] * p[a];
        *upper = max_double(*upper, value);
    }
}

/* Strategies y (k) and z (n) on the labels of a support that make the other player's labels equally
 * good; false if there are none. */
static bool from_support(Index k, Index n, const Support *support, const NodeScratch *scratch)
{
    Index m = 0, found = 0;
    for (Index a = 0; a < k; a++)
        if (support->rows[a]) scratch->rows[m++] = a;
    for (Index j = 0; j < n; j++)
        if (support->columns[scratch->kept[j]]) scratch->columns[found++] = j;
    if (m == 0 || m != found) return false;
    double *square = scratch->square;
    for (Index i = 0; i < m; i++)
        for (Index j = 0; j < m; j++)
            square[i * (k + 1) + j] = scratch->payoff[scratch->rows[i] * k + scratch->columns[j]];
    if (!solve_square(m, k + 1, square, scratch->columns, n, scratch->z)) return false;
    for (Index i = 0; i < m; i++)
        for (Index j = 0; j < m; j++)
            square[i * (k + 1) + j] = scratch->payoff[scratch->rows[j] * k + scratch->columns[i]];
    return solve_square(m, k + 1, square, scratch->rows, k, scratch->y);
}

/* The column that enters the basis, by the most negative price, or the first by Bland's rule. */
static Index entering(Index k, const double *price, const Index *free_of, bool bland)
{
    Index enter = -1;
    for (Index a = 0; a < k; a++)
        if (price[a] < -1e-12 &&
            (enter < 0 || (bland ? free_of[a] < free_of[enter] : price[a] < price[enter])))
            enter = a;
    return enter;
}

/* The row that leaves the basis. */
static Index leaving(Index n, Index k, const double *tableau, const Index *basic, Index enter)
{
    Index leave = -1;
    double least = INFINITY;
    for (Index j = 0; j < n; j++) {
        const double *row = tableau + j * (k + 1);
        if (!(row[enter] > 1e-11)) continue;
        const double ratio = row[k] / row[enter];
        if (ratio < least || (ratio == least && basic[j] < basic[leave])) {
            least = ratio;
            leave = j;
        }
    }
    return leave;
}

static void pivot_at(Index n_rows, Index n_columns, Index leave, Index enter, double *tableau)
{
    double *restrict own = tableau + leave * n_columns;
    const double inverse = 1.0 / own[enter];
    for (Index j = 0; j < n_columns; j++) own[j] *= inverse;
    own[enter] = 0.0; /* so that its column needs no care below */
    for (Index i = 0; i < n_rows; i++) {
        if (i == leave) continue;
        double *restrict row = tableau + i * n_columns;
        const double factor = row[enter];
        if (factor != 0.0)
            for (Index j = 0; j < n_columns; j++) row[j] -= factor * own[j];
        row[enter] = -factor * inverse;
    }
    own[enter] = inverse;
}

/* Matrix game with payoffs >= 1: max Σ y s.t. payoff' y <= 1, y >= 0; p = y V, V = 1 / Σ y.
 *
 * Condensed tableau: a row per basic and a column per nonbasic variable; variables 0..k-1 are y,
 * k.. the slacks of the adversary's labels. Out: strategies y and z, the labels that carry them. */
static void simplex(Index k, Index n, const Support *support, const NodeScratch *scratch)
{
    Index *basic = scratch->rows, *nonbasic = scratch->columns, stalled = 0;
    double *tableau = scratch->tableau, *price = tableau + n * (k + 1);
    double *p = scratch->y, *r = scratch->z;
    for (Index j = 0; j < n; j++) {
        basic[j] = k + j;
        for (Index a = 0; a < k; a++) tableau[j * (k + 1) + a] = scratch->payoff[a * k + j];
        tableau[j * (k + 1) + k] = 1.0;
    }
    for (Index a = 0; a < k; a++) {
        nonbasic[a] = a;
        price[a] = -1.0;
    }
    price[k] = 0.0;
    for (Index step = 0; step < 1000 + 100 * (k + n); step++) {
        /* Bland's rule cannot cycle, but it is slow: only when nothing moves. */
        const Index enter = entering(k, price, nonbasic, stalled > k + n);
        if (enter < 0) break;
        const Index leave = leaving(n, k, tableau, basic, enter);
        if (leave < 0) break;
        const double before = price[k];
        pivot_at(n + 1, k + 1, leave, enter, tableau);
        const Index left = basic[leave];
        basic[leave] = nonbasic[enter];
        nonbasic[enter] = left;
        stalled = price[k] > before ? 0 : stalled + 1;
    }
    memset(p, 0, (size_t)k * sizeof *p);
    memset(r, 0, (size_t)n * sizeof *r);
    memset(support->rows, 0, (size_t)k * sizeof(bool));
    memset(support->columns, 0, (size_t)k * sizeof(bool));
    for (Index j = 0; j < n; j++)
        if (basic[j] < k) {
            p[basic[j]] = tableau[j * (k + 1) + k];
            support->rows[basic[j]] = true;
        }
    for (Index a = 0; a < k; a++)
        if (nonbasic[a] >= k) {
            r[nonbasic[a] - k] = price[a];
            support->columns[scratch->kept[nonbasic[a] - k]] = true;
        }
    normalise(k, p);
    normalise(n, r);
}

/* z (n) over the columns kept becomes r (k). */
static void place_columns(Index k, Index n, const NodeScratch *scratch, double *r)
{
    memset(r, 0, (size_t)k * sizeof *r);
    for (Index j = 0; j < n; j++) r[scratch->kept[j]] = scratch->z[j];
}

/* Rows pay columns payoff[a, j] = w cost[a, b] + scores[b], b = kept[j], brought to [1, 2].
 *
 * Rows that the predictor may not play pay 3: no equilibrium plays what is dearer than all else. */
static double any_cost(Index k, const double *scores, double w, const double *cost,
                       const double *mask, double *p, double *r, const Support *support,
                       const NodeScratch *scratch)
{
    double low, high, lower = -INFINITY, upper = INFINITY;
    const Index n = contenders(k, scores, w, cost, mask, scratch, &low, &high), *kept = scratch->kept;
    const double size = high - low;
    if (!(size > 0.0)) {
        spread_evenly(k, mask, p);
        r[n > 0 ? kept[0] : 0] = 1.0;
        return high;
    }
    for (Index a = 0; a < k; a++)
        for (Index j = 0; j < n; j++)
            scratch->payoff[a * k + j] =
                mask[a] > -INFINITY
                    ? 1.0 + (scores[kept[j]] - low + w * cost[a * k + kept[j]]) / size
                    : 3.0;
    if (from_support(k, n, support, scratch)) {
        brackets(k, n, scratch, &lower, &upper);
        memcpy(p, scratch->y, (size_t)k * sizeof *p);
        place_columns(k, n, scratch, r);
    }
    if (!(upper - lower <= 1e-13)) {
        simplex(k, n, support, scratch);
        brackets(k, n, scratch, &lower, &upper);
        memcpy(p, scratch->y, (size_t)k * sizeof *p);
        place_columns(k, n, scratch, r);
        /* The tableau gathers rounding errors; the equations of the final support do not. */
        if (from_support(k, n, support, scratch)) {
            double new_lower, new_upper;
            brackets(k, n, scratch, &new_lower, &new_upper);
            if (new_upper < upper) {
                upper = new_upper;
                memcpy(p, scratch->y, (size_t)k * sizeof *p);
            }
            if (new_lower > lower) {
                lower = new_lower;
                place_columns(k, n, scratch, r);
            }
        }
    }
    return low + size * (0.5 * (lower + upper) - 1.0);
}

double node_equilibrium(const CostArrays *form, double weight, const double *scores,
                        const double *mask, double *p, double *r, const Support *support,
                        const NodeScratch *scratch)
{
    const Index k = form->n_labels;
    double *line = scratch->line;
    Index best = 0;
    for (Index b = 0; b < k; b++) {
        line[b] = scores[b] + weight * form->offset[b];
        if (line[b] > line[best]) best = b;
        p[b] = r[b] = 0.0;
    }
    if (weight == 0.0 || (form->kind == ZERO_ONE && form->unit == 0.0)) {
        r[best] = 1.0;
        spread_evenly(k, mask, p);
        return line[best];
    }
    switch (form->kind) {
    case ZERO_ONE:
        if (k == 2) return zero_one(2, line, weight * form->unit, p, r, scratch->y);
        if (k == 3) return zero_one(3, line, weight * form->unit, p, r, scratch->y);
        return zero_one(k, line, weight * form->unit, p, r, scratch->y);
    case ABSOLUTE: return absolute(k, line, weight, form->place, mask, p, r);
    case SQUARED: return squared(form, line, weight, mask, p, r, scratch);
    default: return any_cost(k, scores, weight, form->cost, mask, p, r, support, scratch);
    }
}

/* Equilibria of nodes lo .. hi-1 by themselves, whose scores (N, k) are the masks as well; weight
 * (N). Out: p, r (N, k), value (N). */
API Index node_equilibria(Index lo, Index hi, const CostArrays *form, const double *weight,
                          const double *scores, double *p, double *r, double *value)
{
    const Index k = form->n_labels;
    NodeScratch scratch;
    bool *carried = calloc((size_t)(2 * k), sizeof(bool));
    if (!carried || !new_node_scratch(k, &scratch)) {
        free(carried);
        return NO_MEMORY;
    }
    const Support support = {carried, carried + k};
    for (Index i = lo; i < hi; i++)
        value[i] = node_equilibrium(form, weight[i], scores + i * k, scores + i * k, p + i * k,
                                    r + i * k, &support, &scratch);
    free(carried), free_node_scratch(&scratch);
    return 0;
}
