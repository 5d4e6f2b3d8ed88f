/* Small dense linear algebra for the blocks of a game, up to some sixty labels.
 *
 * Matrices are held row by row without gaps; symmetric ones in their upper triangle. Inner loops run
 * along a row, four rows of the other factor at a time. */
#ifndef DENSE_H
#define DENSE_H
#include "core.h"

/* out (rows) = A (rows, n) x. */
void product(Index rows, Index n, const double *A, const double *x, double *out);

/* out (n) = A x, A (n, n) symmetric with both triangles. */
void symmetric_product(Index n, const double *A, const double *x, double *out);

/* out (n) += A' x, A (rows, n). */
void add_transposed_product(Index rows, Index n, const double *A, const double *x, double *out);

/* Upper triangle of out (n, n) += X'X, X (rows, n). */
void add_gram(Index rows, Index n, const double *X, double *out);

/* Upper triangle of out (n, n) = X'X - Y'Y, X and Y (rows, n). */
void gram_difference(Index rows, Index n, const double *X, const double *Y, double *out);

/* The upper triangle of A (n, n) becomes U, U'U = A, with the diagonal inverted.
 *
 * A pivot below ``floor`` times its diagonal is rounding: its direction is then skipped. With
 * ``zero_sums``, rows of A sum to 0, and the last row and column are left out. Each pivot is then
 * minus the sum of the entries beside it (Grassmann, Taksar and Heyman, 1985), so that weak couplings
 * between strongly coupled groups survive rounding. */
void cholesky(Index n, double floor, bool zero_sums, double *A);

/* x (n) becomes the solution y of U'y = x. */
void solve_transposed(Index n, const double *U, double *x);

/* X (n, columns) becomes the solution Y of U'Y = X. */
void solve_transposed_rows(Index n, Index columns, const double *U, double *X);

/* x (n) becomes the solution y of U y = x. */
void solve_upper(Index n, const double *U, double *x);

/* Both triangles of out (n, n) = (U'U)^-1, U of row length ``stride``; scratch (n, n) ends as the
 * inverse of U'. */
void inverse_from_cholesky(Index n, const double *U, Index stride, double *scratch, double *out);

/* Exchange rows and columns p <= q of a symmetric A (n, n) held in its upper triangle. */
void swap_symmetric(Index n, Index p, Index q, double *A);
#endif
