/* Products and factors of small matrices: see dense.h. */
#include "dense.h"

/* Four rows at a time hide the latency of the sums. */
void product(Index rows, Index n, const double *restrict A, const double *restrict x,
             double *restrict out)
{
    Index b = 0;
    for (; b + 4 <= rows; b += 4) {
        const double *r0 = A + b * n, *r1 = r0 + n, *r2 = r1 + n, *r3 = r2 + n;
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        for (Index c = 0; c < n; c++) {
            s0 += r0[c] * x[c];
            s1 += r1[c] * x[c];
            s2 += r2[c] * x[c];
            s3 += r3[c] * x[c];
        }
        out[b] = s0, out[b + 1] = s1, out[b + 2] = s2, out[b + 3] = s3;
    }
    for (; b < rows; b++) {
        double sum = 0.0;
        for (Index c = 0; c < n; c++) sum += A[b * n + c] * x[c];
        out[b] = sum;
    }
}

void symmetric_product(Index n, const double *restrict A, const double *restrict x,
                       double *restrict out)
{
    for (Index b = 0; b < n; b++) out[b] = 0.0;
    for (Index c = 0; c < n; c++) /* row c equals column c, and is contiguous */
        for (Index b = 0; b < n; b++) out[b] += A[c * n + b] * x[c];
}

/* out[b] += sign (c[0] row 0 + ... of ``count`` rows, ``stride`` apart), first <= b < n; two sums of
 * two rows each are added. */
INLINE void add_rows(int count, double sign, const double *restrict c, const double *restrict rows,
                     Index stride, Index first, Index n, double *restrict out)
{
    const double *r0 = rows, *r1 = r0 + (count > 1 ? stride : 0);
    const double *r2 = r1 + (count > 2 ? stride : 0), *r3 = r2 + (count > 3 ? stride : 0);
    const double c0 = c[0], c1 = count > 1 ? c[1] : 0.0, c2 = count > 2 ? c[2] : 0.0;
    const double c3 = count > 3 ? c[3] : 0.0;
    for (Index b = first; b < n; b++) {
        double sum = c0 * r0[b];
        if (count > 1) sum += c1 * r1[b];
        if (count > 3)
            sum += c2 * r2[b] + c3 * r3[b];
        else if (count > 2)
            sum += c2 * r2[b];
        out[b] += sign * sum;
    }
}

/* add_rows for one to four rows. */
INLINE void add_some_rows(Index count, double sign, const double *c, const double *rows,
                          Index stride, Index first, Index n, double *out)
{
    if (count >= 4)
        add_rows(4, sign, c, rows, stride, first, n, out);
    else if (count == 3)
        add_rows(3, sign, c, rows, stride, first, n, out);
    else if (count == 2)
        add_rows(2, sign, c, rows, stride, first, n, out);
    else
        add_rows(1, sign, c, rows, stride, first, n, out);
}

void add_transposed_product(Index rows, Index n, const double *A, const double *x, double *out)
{
    for (Index b = 0; b < rows; b += 4)
        add_some_rows(rows - b, 1.0, x + b, A + b * n, n, 0, n, out);
}

void add_gram(Index rows, Index n, const double *X, double *out)
{
    for (Index l = 0; l < rows; l += 4) {
        const Index count = min_index(4, rows - l);
        for (Index a = 0; a < n; a++) {
            double c[4];
            for (Index r = 0; r < count; r++) c[r] = X[(l + r) * n + a];
            add_some_rows(count, 1.0, c, X + l * n, n, a, n, out + a * n);
        }
    }
}

void gram_difference(Index rows, Index n, const double *restrict X, const double *restrict Y,
                     double *restrict out)
{
    memset(out, 0, (size_t)(n * n) * sizeof *out);
    for (Index l = 0; l < rows; l += 2) {
        const Index next = min_index(l + 1, rows - 1);
        const double *x0 = X + l * n, *x1 = X + next * n, *y0 = Y + l * n, *y1 = Y + next * n;
        for (Index a = 0; a < n; a++) {
            const double c0 = x0[a], d0 = y0[a];
            const double c1 = next > l ? x1[a] : 0.0, d1 = next > l ? y1[a] : 0.0;
            for (Index b = a; b < n; b++)
                out[a * n + b] += (c0 * x0[b] + c1 * x1[b]) - (d0 * y0[b] + d1 * y1[b]);
        }
    }
}

/* Subtract the contributions of the rows above from a row of U, from the diagonal on. */
static void eliminate_above(Index row, Index n, double *U)
{
    for (Index l = 0; l < row; l += 4) {
        const Index count = min_index(4, row - l);
        double c[4];
        for (Index r = 0; r < count; r++) c[r] = U[(l + r) * n + row];
        add_some_rows(count, -1.0, c, U + l * n, n, row, n, U + row * n);
    }
}

void cholesky(Index n, double floor, bool zero_sums, double *A)
{
    for (Index row = 0; row < (zero_sums ? n - 1 : n); row++) {
        double *own = A + row * n;
        const double least = floor * own[row];
        eliminate_above(row, n, A);
        double pivot = own[row];
        if (zero_sums) {
            double beside = 0.0;
            for (Index b = row + 1; b < n; b++) beside -= own[b];
            pivot = beside > 0.0 ? beside : pivot;
        }
        const double scale = pivot > least ? 1.0 / sqrt(pivot) : 0.0;
        for (Index b = row + 1; b < n; b++) own[b] *= scale;
        own[row] = scale > 0.0 ? scale : 1e-64;
    }
}

void solve_transposed(Index n, const double *restrict U, double *restrict x)
{
    for (Index row = 0; row < n; row++) {
        const double value = x[row] * U[row * n + row];
        x[row] = value;
        for (Index b = row + 1; b < n; b++) x[b] -= value * U[row * n + b];
    }
}

/* Row ``row`` of X (., columns) of U'Y = X, after the rows before; from row l on X is 0 behind
 * column l where it is ``lower`` triangular. */
INLINE void solve_row(Index row, Index columns, bool lower, const double *U, Index stride, double *X)
{
    double *own = X + row * columns;
    for (Index l = 0; l < row; l += 4) {
        const Index count = min_index(4, row - l);
        double c[4];
        for (Index r = 0; r < count; r++) c[r] = U[(l + r) * stride + row];
        add_some_rows(count, -1.0, c, X + l * columns, columns, 0, lower ? l + count : columns, own);
    }
    const double inverse = U[row * stride + row];
    for (Index a = 0; a < columns; a++) own[a] *= inverse;
}

void solve_transposed_rows(Index n, Index columns, const double *U, double *X)
{
    for (Index row = 0; row < n; row++) solve_row(row, columns, false, U, n, X);
}

void solve_upper(Index n, const double *U, double *x)
{
    for (Index row = n - 1; row >= 0; row--) {
        const double *own = U + row * n;
        double even = 0.0, odd = 0.0;
        for (Index b = row + 1; b < n - 1; b += 2) {
            even += own[b] * x[b];
            odd += own[b + 1] * x[b + 1];
        }
        if ((n - row) % 2 == 0) even += own[n - 1] * x[n - 1];
        x[row] = (x[row] - (even + odd)) * own[row];
    }
}

void inverse_from_cholesky(Index n, const double *U, Index stride, double *scratch, double *out)
{
    memset(scratch, 0, (size_t)(n * n) * sizeof *scratch);
    memset(out, 0, (size_t)(n * n) * sizeof *out);
    for (Index row = 0; row < n; row++) scratch[row * n + row] = 1.0;
    for (Index row = 0; row < n; row++) solve_row(row, n, true, U, stride, scratch);
    add_gram(n, n, scratch, out);
    for (Index a = 0; a < n; a++)
        for (Index b = 0; b < a; b++) out[a * n + b] = out[b * n + a];
}

static void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

void swap_symmetric(Index n, Index p, Index q, double *A)
{
    if (p == q) return;
    for (Index b = 0; b < p; b++) swap(A + b * n + p, A + b * n + q);
    for (Index b = p + 1; b < q; b++) swap(A + p * n + b, A + b * n + q);
    for (Index b = q + 1; b < n; b++) swap(A + p * n + b, A + q * n + b);
    swap(A + p * n + p, A + q * n + q);
}
