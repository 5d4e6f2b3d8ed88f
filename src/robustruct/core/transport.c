/* Joint distributions with given margins: the best one (exactly), or a smoothed one (Sinkhorn). */
#include "transport.h"

#define TINY 1e-15 /* mass that rounding leaves behind */
#define SCALINGS 20 /* of Sinkhorn at each temperature */

bool new_routes(Index k, Routes *routes)
{
    double *numbers = NEW(double, 10 * k); /* the last 4k hold indices and flags */
    if (!numbers) return false;
    routes->left = numbers, routes->need = numbers + k;
    routes->potential = numbers + 2 * k, routes->distance = numbers + 4 * k;
    routes->previous = (Index *)(numbers + 6 * k), routes->done = (bool *)(numbers + 8 * k);
    return true;
}

void free_routes(Routes *routes) { free(routes->left); }

/* Dijkstra from the rows with supply left to a column with need; return it, or -1.
 *
 * Rows are nodes 0 .. k-1, columns k .. 2k-1. */
static Index shortest_path(Index k, const double *gain, const double *plan, const Routes *routes)
{
    double *distance = routes->distance;
    const double *potential = routes->potential;
    Index *previous = routes->previous;
    for (Index b = 0; b < k; b++) {
        distance[b] = routes->left[b] > TINY ? 0.0 : INFINITY;
        distance[k + b] = INFINITY;
        previous[b] = -1;
    }
    memset(routes->done, 0, (size_t)(2 * k) * sizeof(bool));
    while (true) {
        Index node = -1;
        for (Index x = 0; x < 2 * k; x++)
            if (!routes->done[x] && distance[x] < INFINITY &&
                (node < 0 || distance[x] < distance[node]))
                node = x;
        if (node < 0) return -1;
        routes->done[node] = true;
        if (node >= k) {
            if (routes->need[node - k] > TINY) return node;
            for (Index b = 0; b < k; b++)
                if (plan[b * k + node - k] > 0.0 && distance[node] < distance[b]) {
                    distance[b] = distance[node];
                    previous[b] = node;
                }
            continue;
        }
        const double *row = gain + node * k;
        for (Index a = 0; a < k; a++) {
            if (!(row[a] > -INFINITY) || routes->done[k + a]) continue;
            const double edge = potential[node] - potential[k + a] - row[a];
            const double reached = distance[node] + max_double(edge, 0.0);
            if (reached < distance[k + a]) {
                distance[k + a] = reached;
                previous[k + a] = node;
            }
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

/* The potential at which Σ exp((gain + other + potential) / heat) = mass; gains are so far apart. */
static double fit(Index k, const double *gain, Index apart, const double *other, double heat,
                  double mass)
{
    if (mass <= 0.0) return -INFINITY;
    double top = -INFINITY, total = 0.0;
    for (Index x = 0; x < k; x++) top = max_double(top, gain[x * apart] + other[x]);
    if (top == -INFINITY) return -INFINITY;
    for (Index x = 0; x < k; x++) total += exp((gain[x * apart] + other[x] - top) / heat);
    return heat * log(mass / total) - top;
}

/* Scale a plan whose margins are nearly right down to at most supply and demand, then place what is
 * missing in proportion. row, column (k): scratch. */
static void round_plan(Index k, const double *gain, const double *supply, const double *demand,
                       double *plan, double *row, double *column)
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
    double missing = 0.0;
    for (Index b = 0; b < k; b++) {
        row[b] = supply[b];
        for (Index a = 0; a < k; a++) row[b] -= plan[b * k + a];
        row[b] = max_double(row[b], 0.0);
        missing += row[b];
    }
    if (!(missing > 0.0)) return;
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++)
            if (gain[b * k + a] > -INFINITY) plan[b * k + a] += row[b] * column[a] / missing;
}

void sinkhorn(Index k, const double *gain, const double *supply, const double *demand,
              double sharpness, double *plan, const Routes *routes)
{
    double *row = routes->potential, *column = row + k, low = INFINITY, high = -INFINITY;
    for (Index j = 0; j < k * k; j++)
        if (gain[j] > -INFINITY) {
            low = min_double(low, gain[j]);
            high = max_double(high, gain[j]);
        }
    memset(row, 0, (size_t)(2 * k) * sizeof *row);
    double heat = high - low;
    const double coldest = heat / sharpness;
    while (heat > 0.0) {
        for (int scaling = 0; scaling < SCALINGS; scaling++) {
            for (Index b = 0; b < k; b++) row[b] = fit(k, gain + b * k, 1, column, heat, supply[b]);
            for (Index a = 0; a < k; a++) column[a] = fit(k, gain + a, k, row, heat, demand[a]);
        }
        if (heat <= coldest) break;
        heat = max_double(0.25 * heat, coldest);
    }
    for (Index b = 0; b < k; b++)
        for (Index a = 0; a < k; a++) {
            const double total = gain[b * k + a] + row[b] + column[a];
            if (heat > 0.0)
                plan[b * k + a] = total > -INFINITY ? exp(total / heat) : 0.0;
            else
                plan[b * k + a] = gain[b * k + a] > -INFINITY ? supply[b] * demand[a] : 0.0;
        }
    round_plan(k, gain, supply, demand, plan, row, column);
}
