/* Vectors as long as theta, which are too large for temporaries.
 *
 * Weight j has the penalty alpha s_j / 2 theta_j^2, and (alpha + kappa - alpha s_j) / 2 times its squared
 * distance from the centre z, so that the sum of both strengths, alpha + kappa, is the same for all
 * weights. squares (rows) hold s for rows of equally many weights, one row if s is constant. l1 has n
 * numbers, or 1 if it is constant. */
#include "simd.h"

/* Rows of ``width`` weights, j the number of a weight of row ``row``. */
#define EACH_ROW(row) for (Index width = n / rows, row = 0; row < rows; row++)
#define EACH_WEIGHT(j, row) for (Index j = (row)*width; j < ((row) + 1) * width; j++)

/* sum[r] += (v - w)^2 for R registers, w = 0 where it is NULL. */
INLINE void add_squares(const int R, const double *v, const double *w, Vec *sum)
{
    UNROLL for (int r = 0; r < R; r++) {
        const Vec x = w ? load(v + r * LANES) - load(w + r * LANES) : load(v + r * LANES);
        sum[r] += x * x;
    }
}

/* Sum of (v - w)^2. Eight sums side by side, added up in pairs, whatever the registers of the
 * processor, so that additions do not wait for each other. Rows may be as short as the number of
 * labels, so remainders are summed side by side too. */
INLINE double sum_of_squares(Index n, const double *v, const double *w)
{
    Vec sum[8 / LANES];
    UNROLL for (int r = 0; r < 8 / LANES; r++) sum[r] = broadcast(0.0);
    Index j = 0;
    for (; j + 8 <= n; j += 8) add_squares(8 / LANES, v + j, w ? w + j : NULL, sum);
    if (j + 4 <= n) {
        add_squares(4 / LANES, v + j, w ? w + j : NULL, sum);
        j += 4;
    }
    double rest = 0.0, part[8];
    for (; j < n; j++) {
        const double x = w ? v[j] - w[j] : v[j];
        rest += x * x;
    }
    UNROLL for (int r = 0; r < 8 / LANES; r++) store(part + r * LANES, sum[r]);
    UNROLL for (int a = 0; a < 4; a++) part[a] += part[a + 4];
    return (part[0] + part[2]) + (part[1] + part[3]) + rest;
}

/* to += factor * vector. */
API Index add_multiple(Index n, double *restrict to, double factor, const double *restrict vector)
{
    for (Index j = 0; j < n; j++) to[j] += factor * vector[j];
    return 0;
}

/* The sum of alpha s / 2 theta^2. */
API double penalty(Index n, const double *theta, Index rows, const double *squares, double alpha)
{
    double total = 0.0;
    EACH_ROW(row) total += squares[row] * sum_of_squares(width, theta + row * width, NULL);
    return 0.5 * alpha * total;
}

/* gradient += the gradient of `penalty`. */
API Index add_slope(Index n, double *restrict gradient, const double *restrict theta, Index rows,
                    const double *squares, double alpha)
{
    EACH_ROW(row) {
        const double own = alpha * squares[row];
        EACH_WEIGHT(j, row) gradient[j] += own * theta[j];
    }
    return 0;
}

/* The sum of moments^2 / (2 alpha s): the conjugate of `penalty`. */
API double dual_penalty(Index n, const double *moments, Index rows, const double *squares,
                        double alpha)
{
    double total = 0.0;
    EACH_ROW(row) {
        double own = 0.0;
        EACH_WEIGHT(j, row) own += moments[j] * moments[j];
        total += own / (alpha * squares[row]);
    }
    return 0.5 * total;
}

/* The centre's part of the gap: the sum of (alpha + kappa - alpha s)^2 (theta - z)^2 / (2 alpha s). */
API double centre_gap(Index n, const double *theta, const double *centre, Index rows,
                      const double *squares, double alpha, double kappa)
{
    double total = 0.0;
    EACH_ROW(row) {
        const double own = alpha * squares[row], left = alpha - own + kappa;
        const double apart = sum_of_squares(width, theta + row * width, centre + row * width);
        total += apart * (left * left) / own;
    }
    return 0.5 * total;
}

/* Convert moments in theta to weights, (theta + (alpha + kappa - alpha s) z) / (alpha + kappa); return
 * the `dual_penalty` of the moments. */
API double weights_from_moments(Index n, double *restrict theta, const double *restrict centre,
                                Index rows, const double *squares, double alpha, double kappa)
{
    const double scale = 1.0 / (alpha + kappa);
    double total = 0.0;
    EACH_ROW(row) {
        const double own = alpha * squares[row];
        double size = 0.0;
        EACH_WEIGHT(j, row) {
            size += theta[j] * theta[j];
            theta[j] = scale * (theta[j] + (alpha - own + kappa) * centre[j]);
        }
        total += size / own;
    }
    return 0.5 * total;
}

/* out = the moments from which `weights_from_moments` made theta. */
API Index moments_from_weights(Index n, const double *theta, const double *centre, Index rows,
                               const double *squares, double alpha, double kappa,
                               double *restrict out)
{
    EACH_ROW(row) {
        const double left = alpha - alpha * squares[row] + kappa;
        EACH_WEIGHT(j, row) out[j] = (alpha + kappa) * theta[j] - left * centre[j];
    }
    return 0;
}

/* z <- theta, and theta <- the weights of the same moments at the new centre and kappa. */
API Index follow_centre(Index n, double *restrict theta, double *restrict centre, Index rows,
                        const double *squares, double alpha, double kappa, double new_kappa)
{
    const double scale = 1.0 / (alpha + new_kappa);
    EACH_ROW(row) {
        const double left = alpha - alpha * squares[row];
        EACH_WEIGHT(j, row) {
            const double old = theta[j];
            const double moments = (alpha + kappa) * old - (left + kappa) * centre[j];
            theta[j] = scale * (moments + (left + new_kappa) * old);
            centre[j] = old;
        }
    }
    return 0;
}

/* The sum of l1 |theta|. */
API double absolute_penalty(Index n, const double *theta, Index n_l1, const double *l1)
{
    const Index stride = n_l1 > 1;
    double total = 0.0;
    for (Index j = 0; j < n; j++) total += l1[j * stride] * fabs(theta[j]);
    return total;
}

/* out = the subgradient of objective + `absolute_penalty` that is nearest to 0. At theta = 0 subgradients
 * form an interval; if it contains 0, the weight should stay there. */
API Index least_slopes(Index n, const double *theta, const double *gradient, Index n_l1,
                       const double *l1, double *restrict out)
{
    for (Index j = 0; j < n; j++) { /* minus a slope of the penalty, between two ends */
        const double own = n_l1 > 1 ? l1[j] : l1[0], slope = gradient[j];
        const double low = theta[j] < 0.0 ? own : -own, high = theta[j] > 0.0 ? -own : own;
        out[j] = slope - min_double(max_double(low, slope), high);
    }
    return 0;
}

/* The conjugate of `penalty` + `absolute_penalty` at part * moments, the sum of
 * max(part |moments| - l1, 0)^2 / (2 alpha s), with its first and second derivative by ``part``:
 * out (3). */
API Index elastic_conjugate(Index n, const double *moments, Index rows, const double *squares,
                            double alpha, Index n_l1, const double *l1, double part, double *out)
{
    const Index stride = n_l1 > 1;
    double value = 0.0, slope = 0.0, bend = 0.0;
    EACH_ROW(row) {
        const double own = alpha * squares[row];
        EACH_WEIGHT(j, row) {
            const double size = fabs(moments[j]), above = part * size - l1[j * stride];
            if (!(above > 0.0)) continue;
            value += above * above / own;
            slope += size * above / own;
            bend += size * size / own;
        }
    }
    out[0] = 0.5 * value;
    out[1] = slope;
    out[2] = bend;
    return 0;
}

/* ---------------------------------------------------- changes of theta, as they travel to others
 *
 * Entries of theta in order (index) with how much they changed (value), in float32. index is int32,
 * or int64 (``wide``) where there are many weights. */

INLINE Index entry(const void *index, bool wide, Index i)
{
    return wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
}

INLINE void set_entry(void *index, bool wide, Index i, Index value)
{
    if (wide)
        ((int64_t *)index)[i] = value;
    else
        ((int32_t *)index)[i] = (int32_t)value;
}

/* Mark the columns of the features of n samples, ``order``; offsets (S+1): their nodes. */
API Index mark_columns(Index n, const Index *order, const Index *offsets, const Rows *features,
                       bool *marks)
{
    for (Index i = 0; i < n; i++) {
        const Index s = order[i];
        for (Index at = features->indptr[offsets[s]]; at < features->indptr[offsets[s + 1]]; at++)
            marks[features->indices[at]] = true;
    }
    return 0;
}

/* Write the changes of n rows of theta (all, k), divided by pace (n), as index and value; undo them in
 * theta. kept: saved rows; place (n): index of each row in kept. Return the number of entries. */
API Index take_changes(Index k, double *theta, Index n, const Index *rows, const double *kept,
                       const Index *place, const double *pace, bool wide, void *index, float *value)
{
    Index count = 0;
    for (Index i = 0; i < n; i++) {
        const double part = 1.0 / pace[i], *before = kept + place[i] * k;
        double *now = theta + rows[i] * k;
        for (Index y = 0; y < k; y++) {
            const double change = now[y] - before[y];
            if (change == 0.0) continue;
            set_entry(index, wide, count, rows[i] * k + y);
            value[count++] = (float)(part * change);
            now[y] = before[y];
        }
    }
    return count;
}

/* Merge n_a and n_b changes into index and value; return the number of entries. */
API Index merge_entries(bool wide, Index n_a, const void *index_a, const float *value_a, Index n_b,
                        const void *index_b, const float *value_b, void *index, float *value)
{
    Index a = 0, b = 0, count = 0;
    for (; a < n_a || b < n_b; count++) {
        const Index one = a < n_a ? entry(index_a, wide, a) : INT64_MAX;
        const Index other = b < n_b ? entry(index_b, wide, b) : INT64_MAX;
        set_entry(index, wide, count, min_index(one, other));
        if (one == other)
            value[count] = value_a[a++] + value_b[b++];
        else
            value[count] = one < other ? value_a[a++] : value_b[b++];
    }
    return count;
}
