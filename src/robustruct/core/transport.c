/* Optimal transport, max Σ gain·plan with given margins, by shortest augmenting paths (see
 * transport.h). */
#include "transport.h"
#include "simd.h"

#define TINY 1e-15 /* mass that rounding leaves behind */

bool new_routes(Index k, Routes *routes)
{
    double *numbers = NEW(double, 10 * k); /* the last 2k hold indices */
    if (!numbers) return false;
    routes->left = numbers, routes->need = numbers + k;
    routes->potential = numbers + 2 * k, routes->distance = numbers + 4 * k;
    routes->open = numbers + 6 * k, routes->previous = (Index *)(numbers + 8 * k);
    return true;
}

void free_routes(Routes *routes) { free(routes->left); }

/* Index of the first minimum of n numbers. */
static Index first_least(Index n, const double *values)
{
    Index first = 0;
    if (n >= LANES) {
        Vec least = load(values);
        for (Index x = LANES; x < n; x += LANES)
            least = minimum(load(values + min_index(x, n - LANES)), least);
        double value = least[0];
        for (int lane = 1; lane < LANES; lane++) value = min_double(value, least[lane]);
        while (values[first] != value) first++;
        return first;
    }
    for (Index x = 1; x < n; x++)
        if (values[x] < values[first]) first = x;
    return first;
}

/* Dijkstra from the rows with supply left to a column with need; return it, or -1.
 *
 * Rows are nodes 0 .. k-1, columns k .. 2k-1. Reduced lengths are not negative, so the distance of
 * a settled node is final; ``open`` has the distances of the others. */
static Index shortest_path(Index k, const double *gain, const double *plan, const Routes *routes)
{
    double *restrict distance = routes->distance, *restrict open = routes->open;
    const double *potential = routes->potential + k;
    Index *restrict previous = routes->previous;
    for (Index b = 0; b < k; b++) {
        distance[b] = open[b] = routes->left[b] > TINY ? 0.0 : INFINITY;
        distance[k + b] = open[k + b] = INFINITY;
        previous[b] = -1;
    }
    while (true) {
        const Index node = first_least(2 * k, open);
        const double here = open[node];
        if (here == INFINITY) return -1;
        open[node] = INFINITY;
        if (node >= k) {
            if (routes->need[node - k] > TINY) return node;
            for (Index b = 0; b < k; b++)
                if (plan[b * k + node - k] > 0.0 && here < distance[b]) {
                    distance[b] = open[b] = here;
                    previous[b] = node;
                }
            continue;
        }
        const double *row = gain + node * k, own = routes->potential[node];
        for (Index a = 0; a < k; a++) { /* a gain of -inf is an edge of infinite length */
            const double edge = own - potential[a] - row[a];
            const double reached = here + (0.0 > edge ? 0.0 : edge);
            const bool nearer = reached < distance[k + a];
            distance[k + a] = nearer ? reached : distance[k + a];
            open[k + a] = nearer ? reached : open[k + a];
            previous[k + a] = nearer ? node : previous[k + a];
        }
    }
}

/* Move as much mass as the path to the column ``target`` allows. */
static void send_along(Index k, Index target, double *plan, const Routes *routes)
{
    const Index *previous = routes->previous;
    double amount = routes->need[target - k];
    Index x = target;
    for (; previous[x] >= 0; x = previous[x])
        if (x < k) amount = min_double(amount, plan[x * k + previous[x] - k]);
    amount = min_double(amount, routes->left[x]);
    routes->left[x] -= amount;
    routes->need[target - k] -= amount;
    for (x = target; previous[x] >= 0; x = previous[x]) {
        if (x >= k) {
            plan[previous[x] * k + x - k] += amount;
        } else {
            double *back = plan + x * k + previous[x] - k;
            *back -= amount;
            if (*back < TINY) *back = 0.0;
        }
    }
}

/* Shortest augmenting paths with potentials, O(k^2) each. */
double transport(Index k, const double *gain, const double *supply, const double *demand,
                 double *plan, const Routes *routes)
{
    double *potential = routes->potential;
    memcpy(routes->left, supply, (size_t)k * sizeof(double));
    memcpy(routes->need, demand, (size_t)k * sizeof(double));
    memset(plan, 0, (size_t)(k * k) * sizeof *plan);
    for (Index a = 0; a < k; a++) {
        double best = -INFINITY;
        for (Index b = 0; b < k; b++) best = max_double(best, gain[b * k + a]);
        potential[a] = 0.0;
        potential[k + a] = best > -INFINITY ? -best : 0.0;
    }
    /* Each path empties a row, fills a column or cancels a pair; the limit is for safety only. */
    for (Index path = 0; path < 200 * k; path++) {
        const Index target = shortest_path(k, gain, plan, routes);
        if (target < 0) break;
        for (Index x = 0; x < 2 * k; x++)
            potential[x] += min_double(routes->distance[x], routes->distance[target]);
        send_along(k, target, plan, routes);
    }
    double missing = 0.0;
    for (Index b = 0; b < k; b++)
        if (routes->left[b] > TINY) missing += routes->left[b];
    return missing;
}

void scale_down(Index k, const double *supply, const double *demand, double *plan, double *row,
                double *column)
{
    for (Index b = 0; b < k; b++) {
        double total = 0.0;
        for (Index a = 0; a < k; a++) total += plan[b * k + a];
        for (Index a = 0; total > supply[b] && a < k; a++) plan[b * k + a] *= supply[b] / total;
    }
    for (Index a = 0; a < k; a++) {
        double total = 0.0;
        for (Index b = 0; b < k; b++) total += plan[b * k + a];
        for (Index b = 0; total > demand[a] && b < k; b++) plan[b * k + a] *= demand[a] / total;
        column[a] = max_double(demand[a] - total, 0.0);
    }
    for (Index b = 0; b < k; b++) {
        row[b] = supply[b];
        for (Index a = 0; a < k; a++) row[b] -= plan[b * k + a];
        row[b] = max_double(row[b], 0.0);
    }
}
