/* Gram matrices of the feature rows of each sample: the curvature of the dual in its marginals through
 * theta, and the change of its own scores by a step. */
#include "core.h"

/* out[i n + j] = <rows[i], rows[j]> for n rows, in float where ``single``. spread (columns): scratch,
 * 0 before and after. */
INLINE void square(Index n, const Index *rows, const Rows *features, double *spread, bool single,
                   void *out)
{
    const Index *indptr = features->indptr;
    const int32_t *indices = features->indices;
    for (Index i = 0; i < n; i++) {
        const Index begin = indptr[rows[i]], end = indptr[rows[i] + 1];
        for (Index at = begin; at < end; at++) spread[indices[at]] = features->data[at];
        for (Index j = 0; j <= i; j++) {
            double sum = 0.0;
            for (Index at = indptr[rows[j]]; at < indptr[rows[j] + 1]; at++)
                sum += features->data[at] * spread[indices[at]];
            if (single)
                ((float *)out)[i * n + j] = ((float *)out)[j * n + i] = (float)sum;
            else
                ((double *)out)[i * n + j] = ((double *)out)[j * n + i] = sum;
        }
        for (Index at = begin; at < end; at++) spread[indices[at]] = 0.0;
    }
}

/* As square, column by column for nodes lo .. lo+n-1, which is faster where few rows share a column. last
 * (columns), -1 before and after: the latest entry of each column; before (entries): scratch, the
 * entry of the same column before each. */
static void sparse_products(Index lo, Index n, const Rows *rows, Index *last, Index *before,
                            float *out)
{
    const Index *indptr = rows->indptr + lo, begin = indptr[0];
    memset(out, 0, (size_t)(n * n) * sizeof *out);
    for (Index j = begin; j < indptr[n]; j++) {
        before[j - begin] = last[rows->indices[j]];
        last[rows->indices[j]] = j - begin;
    }
    Index i = n - 1;
    for (Index j = indptr[n] - 1; j >= begin; j--) {
        while (j < indptr[i]) i--;
        out[i * n + i] += (float)(rows->data[j] * rows->data[j]);
        last[rows->indices[j]] = -1;
        Index row = i - 1;
        for (Index other = before[j - begin]; other >= 0; other = before[other]) {
            while (begin + other < indptr[row]) row--;
            const float product = (float)(rows->data[j] * rows->data[begin + other]);
            out[i * n + row] += product;
            out[row * n + i] += product;
        }
    }
}

/* Number the columns of entries begin .. end-1 as they come; return how many there are. number
 * (columns): scratch, -1 before and after. */
static Index number_columns(Index begin, Index end, const int32_t *indices, Index *number,
                            int32_t *local)
{
    Index used = 0;
    for (Index j = begin; j < end; j++) {
        if (number[indices[j]] < 0) number[indices[j]] = used++;
        local[j] = (int32_t)number[indices[j]];
    }
    for (Index j = begin; j < end; j++) number[indices[j]] = -1;
    return used;
}

/* Fill ``grams`` for features with d columns of nodes and e of edges. */
API Index sample_grams(const LabelledGraphs *samples, const Features *features, Index d, Index e,
                       Grams *grams)
{
    const Rows *nodes = &features->nodes;
    Index longest = 0, most = 0;
    for (Index s = 0; s < samples->n_samples; s++) {
        const Index lo = samples->offsets[s], hi = samples->offsets[s + 1];
        longest = max_index(longest, hi - lo);
        longest = max_index(longest, samples->table_start[s + 1] - samples->table_start[s]);
        most = max_index(most, nodes->indptr[hi] - nodes->indptr[lo]);
    }
    Index *ints = NEW(Index, longest + d + most), *rows = ints, *last = rows + longest;
    Index *before = last + d;
    double *spread = calloc((size_t)(max_index(d, e) + 1), sizeof *spread);
    if (!ints || !spread) {
        free(ints);
        free(spread);
        return NO_MEMORY;
    }
    for (Index j = 0; j < d; j++) last[j] = -1;
    for (Index s = 0; s < samples->n_samples; s++) {
        const Index lo = samples->offsets[s], n = samples->offsets[s + 1] - lo;
        const Index begin = nodes->indptr[lo], end = nodes->indptr[lo + n];
        float *out = grams->nodes + grams->node_start[s];
        if (grams->node_start[s] == grams->node_start[s + 1]) {
            grams->n_columns[s] = number_columns(begin, end, nodes->indices, last, grams->local);
        } else if (end - begin < d) {
            sparse_products(lo, n, nodes, last, before, out);
        } else {
            for (Index i = 0; i < n; i++) rows[i] = lo + i;
            square(n, rows, nodes, spread, true, out);
        }
        const Index start = samples->table_start[s], m = samples->table_start[s + 1] - start;
        square(m, samples->row + start, &features->edges, spread, true,
               grams->tables + grams->table_start[s]);
    }
    free(ints);
    free(spread);
    return 0;
}

/* Fill ``products`` for features with at most ``columns`` columns; the distinct tables of a
 * sample are in the order of `gather_scores`. */
API Index row_products(const Structure *structure, const Features *features, const TableRows *tables,
                       Index columns, Products *products)
{
    const Index n_nodes = structure->offsets[structure->n_samples];
    Index *seen = NEW(Index, tables->n_tables + n_nodes), *rows = seen + tables->n_tables;
    double *spread = calloc((size_t)(columns + 1), sizeof *spread);
    if (!seen || !spread) {
        free(seen);
        free(spread);
        return NO_MEMORY;
    }
    for (Index t = 0; t < tables->n_tables; t++) seen[t] = -1;
    for (Index s = 0; s < structure->n_samples; s++) {
        const Index lo = structure->offsets[s], n = structure->offsets[s + 1] - lo;
        for (Index i = 0; i < n; i++) rows[i] = lo + i;
        square(n, rows, &features->nodes, spread, false, products->nodes + products->node_start[s]);
        Index distinct = 0;
        for (Index i = lo; i < lo + n; i++) {
            const Index t = tables->table_of[i];
            if (structure->parent[i] < 0 || seen[t] == s) continue;
            seen[t] = s;
            rows[distinct++] = tables->row[t];
        }
        square(distinct, rows, &features->edges, spread, false,
               products->tables + products->table_start[s]);
    }
    free(seen);
    free(spread);
    return 0;
}
