/* Messages on forests, as other files use them. */
#ifndef MESSAGES_H
#define MESSAGES_H
#include "core.h"

/* message[a] = max over b of below[b] + table[b, a]. */
void best_below(Index k, const double *below, const double *table, double *message);

/* Fill best[i, b], lo <= i < hi: score of the best labelling of i's subtree with label b at i.
 * message (k): scratch. */
void max_product_up(Index lo, Index hi, Index k, const Index *parent, const double *unary,
                    const double *tables, const Index *table_of, double *best, double *message);

/* Read the best labelling off ``best``; return its score. */
double max_product_down(Index lo, Index hi, Index k, const Index *parent, const double *tables,
                        const Index *table_of, const double *best, Index *labels);

/* Score of the given labels, sample by sample, chords included. values (S), out. */
API Index labelling_scores(Index first, Index last, const Structure *structure,
                           const ScoreArrays *scores, const Index *labels, double *values);

/* Scratch of sum-product, for the nodes of a sample counted from 0; all (n, k). */
typedef struct {
    double *inside;   /* log-sum over labellings of a node's subtree with each label at the node */
    double *relative; /* exp(inside - the largest of the row) */
    double *total;    /* relative times exponentials of the table, -1 where too small to trust */
    double *message;  /* its logarithm, with what was left out */
} Messages;

/* Messages from children to parents for nodes lo <= i < hi. */
void messages_up(Index lo, Index hi, const Index *parent, const ScoreArrays *scores,
                 const double *exp_tables, const double *table_top, const Messages *messages);

/* out[b, a] = r_above[a] P(child = b | parent = a), the marginal of one edge; share (k): scratch. */
void edge_marginal(Index k, const double *r_above, Index node, const Messages *messages,
                   const double *table, const double *exp_table, double *share, double *out);

/* Top of all lists[b] + table[b, a] in descending order; table may be NULL. Lists are (k, size). */
void merge_labels(Index k, Index size, const double *lists, const double *table, Index a,
                  double *out, Index *out_label, Index *out_rank, Index *pointer);

/* Top of all left[x] + right[y] in descending order, into ``out`` (which may not alias). */
void merge_sums(Index size, const double *left, const double *right, double *out, Index *out_left,
                Index *out_right, Index *pointer);

/* out (m) = base (m) + sum of data[j] weights[indices[j]] over entries begin .. end-1. */
void row_product(Index begin, Index end, const int32_t *indices, const double *data, Index m,
                 const double *weights, const double *base, double *out);
#endif
