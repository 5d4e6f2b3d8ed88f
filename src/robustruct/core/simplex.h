/* Distributions nearest to given numbers. */
#ifndef SIMPLEX_H
#define SIMPLEX_H
#include "simd.h"

INLINE void copy(Index n, const double *from, double *to) { memcpy(to, from, (size_t)n * sizeof *to); }

INLINE double largest(Index n, const double *values)
{
    double top = -INFINITY;
    if (n >= LANES) {
        Vec tops = load(values);
        for (Index x = LANES; x < n; x += LANES)
            tops = maximum(load(values + min_index(x, n - LANES)), tops);
        return top_of(tops);
    }
    for (Index x = 0; x < n; x++) top = max_double(top, values[x]);
    return top;
}

/* The threshold t at which Σ max(v - t, 0) = 1, by Newton from below; v (n) is lowered so that its
 * largest entry is 0. Differences to the largest are exact; a threshold next to entries of 1e19 would
 * be rounded, and all mass be lost. few (n): scratch, the entries above the threshold, ever fewer. */
INLINE double simplex_threshold(Index n, double *restrict v, double *restrict few)
{
    const double top = largest(n, v);
    double threshold = -1.0;
    Index count = 0;
    for (Index j = 0; j < n; j++) {
        v[j] -= top;
        few[count] = v[j];
        count += v[j] > threshold;
    }
    for (Index pass = 0; pass <= n; pass++) {
        double excess = -1.0;
        Index above = 0;
        for (Index x = 0; x < count; x++) {
            const double value = few[x], more = value - threshold;
            few[above] = value;
            above += value > threshold;
            excess += value > threshold ? more : 0.0;
        }
        count = above;
        if (excess <= 1e-15 * (double)above) break;
        threshold += excess / (double)above;
    }
    return threshold;
}
#endif
