/* Linear maps between weights and scores: sparse rows of features times weights, and back. */
#include "messages.h"
#include "simd.h"

/* Copy rows ``order`` of a raw sparse matrix, made clean; return the number of entries.
 *
 * Entries of value 0 or column -1 (unknown) are dropped and repeated columns of a row added up.
 * ``constant`` is the column of a 1 appended to every row, or -1. new_indices and new_data have room
 * for every entry and constant. */
API Index assemble_rows(Index n_rows, const Index *order, const Rows *raw, Index n_columns,
                        Index constant, Index *new_indptr, int32_t *new_indices, double *new_data)
{
    Index *place = NEW(Index, n_columns), n = 0;
    if (!place) return NO_MEMORY;
    for (Index j = 0; j < n_columns; j++) place[j] = -1;
    new_indptr[0] = 0;
    for (Index i = 0; i < n_rows; i++) {
        const Index start = n;
        for (Index j = raw->indptr[order[i]]; j < raw->indptr[order[i] + 1]; j++) {
            const int32_t column = raw->indices[j];
            if (column < 0 || raw->data[j] == 0.0) continue;
            if (place[column] >= start) {
                new_data[place[column]] += raw->data[j];
                continue;
            }
            place[column] = n;
            new_indices[n] = column;
            new_data[n++] = raw->data[j];
        }
        if (constant >= 0) {
            new_indices[n] = (int32_t)constant;
            new_data[n++] = 1.0;
        }
        new_indptr[i + 1] = n;
    }
    free(place);
    return n;
}

/* Sums stay in registers: storing and loading each for every entry would take most of the time. */
INLINE void row_stretch(int R, Index first, Index m, Index begin, Index end, const int32_t *indices,
                        const double *data, const double *weights, const double *base, double *out)
{
    Vec sum[4];
    UNROLL for (int r = 0; r < R; r++) sum[r] = load(base + place(first, r, m));
    for (Index j = begin; j < end; j++) {
        const Vec value = broadcast(data[j]);
        const double *row = weights + indices[j] * m;
        UNROLL for (int r = 0; r < R; r++) sum[r] += value * load(row + place(first, r, m));
    }
    UNROLL for (int r = 0; r < R; r++) store(out + place(first, r, m), sum[r]);
}

/* For fewer columns than a register holds; m is a constant where it is called. */
INLINE void short_row(Index m, Index begin, Index end, const int32_t *indices, const double *data,
                      const double *weights, const double *base, double *out)
{
    double sum[LANES];
    UNROLL for (Index a = 0; a < m; a++) sum[a] = base[a];
    for (Index j = begin; j < end; j++)
        UNROLL for (Index a = 0; a < m; a++) sum[a] += data[j] * weights[indices[j] * m + a];
    UNROLL for (Index a = 0; a < m; a++) out[a] = sum[a];
}

void row_product(Index begin, Index end, const int32_t *indices, const double *data, Index m,
                 const double *weights, const double *base, double *out)
{
    if (m >= LANES)
        FOR_LABELS(m, row_stretch, begin, end, indices, data, weights, base, out)
    else if (m == 3)
        short_row(3, begin, end, indices, data, weights, base, out);
    else if (m == 2)
        short_row(2, begin, end, indices, data, weights, base, out);
    else if (m == 1)
        short_row(1, begin, end, indices, data, weights, base, out);
}

/* Rows first .. last-1 of the product with weights (d, m), into out (n, m). */
API Index sparse_product(Index first, Index last, const Rows *rows, Index m, const double *weights,
                         double *out)
{
    double *nothing = calloc((size_t)m + 1, sizeof *nothing);
    if (!nothing) return NO_MEMORY;
    for (Index i = first; i < last; i++)
        row_product(rows->indptr[i], rows->indptr[i + 1], rows->indices, rows->data, m, weights,
                    nothing, out + i * m);
    free(nothing);
    return 0;
}

/* Add to rows first .. last-1 of out (d, m) a transposed matrix times values (n, m). The matrix is
 * rows start .. start+n-1 of the one given. */
API Index sparse_transposed_product(Index first, Index last, Index start, const Rows *rows, Index n,
                                    Index m, const double *values, double *restrict out)
{
    for (Index i = 0; i < n; i++) {
        const double *row = values + i * m;
        bool empty = true;
        for (Index a = 0; a < m; a++) empty &= row[a] == 0.0;
        if (empty) continue; /* as for most nodes in the moments of training */
        for (Index j = rows->indptr[start + i]; j < rows->indptr[start + i + 1]; j++) {
            const Index column = rows->indices[j];
            if (column < first || column >= last) continue;
            const double value = rows->data[j];
            for (Index a = 0; a < m; a++) out[column * m + a] += value * row[a];
        }
    }
    return 0;
}

/* Add weight[i] times row i to column labels[i] of out (d, k). */
API Index sparse_label_sums(const Rows *rows, const Index *labels, const double *weight, Index k,
                            double *out)
{
    for (Index i = 0; i < rows->n_rows; i++)
        for (Index j = rows->indptr[i]; j < rows->indptr[i + 1]; j++)
            out[rows->indices[j] * k + labels[i]] += weight[i] * rows->data[j];
    return 0;
}

/* Add the edge marginals q (slots, k, k) to their tables in out (T, k, k). */
API Index table_sums(Index n_slots, const Index *parent, const Index *table_of, Index k,
                     const double *restrict q, double *restrict out)
{
    for (Index e = 0; e < n_slots; e++) {
        if (parent[e] < 0) continue;
        double *total = out + table_of[e] * k * k;
        for (Index j = 0; j < k * k; j++) total[j] += q[e * k * k + j];
    }
    return 0;
}

/* Add weight[i] to the pair of labels on every edge of node i, in its table of out (T, k, k). */
API Index table_label_sums(const Structure *structure, const Index *table_of, const Index *labels,
                           const double *weight, Index k, double *out)
{
    for (Index e = 0; e < structure->n_slots; e++) {
        const Index above = structure->parent[e], i = structure->child[e];
        if (above >= 0) out[(table_of[e] * k + labels[i]) * k + labels[above]] += weight[i];
    }
    return 0;
}
