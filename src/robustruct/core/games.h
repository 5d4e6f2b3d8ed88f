/* Games on forests. */
#ifndef GAMES_H
#define GAMES_H
#include "core.h"

/* The scores of one sample, whose nodes count from 0. */
typedef struct {
    Index n, k;
    const Index *parent;   /* (n) -1 at roots */
    const Index *table_of; /* (n) */
    const double *unary;   /* (n, k) */
    const double *tables;  /* (T, k, k) [label of the child, label of the parent] */
} Forest;

/* Sample s; parent (n), out: its tree. */
Forest forest_of(Index s, const Structure *structure, const ScoreArrays *scores, Index *parent);

/* Number of nodes of the longest of samples first .. last-1. */
Index longest_sample(Index first, Index last, const Index *offsets);

/* out[i, b] = unary[i, b] + weight[i] Σ_a p[i, a] cost[a, b]; all (n, k). */
void add_costs(Index n, Index k, const double *unary, const double *cost, const double *weight,
               const double *p, double *out);

/* The score of the best labelling; best (n, k): scores of subtrees, out; message (k): scratch. */
double best_score(const Forest *forest, const double *unary, double *best, double *message);

/* min over a of (cost r)_a, over the labels a that the node may have: unary[a] > -inf. */
double least_cost(Index k, const double *cost, const double *unary, const double *r);

/* total + Σ mass·score of n pairs or labels; mass 0 times score -inf is 0. */
INLINE double add_scores(Index n, const double *mass, const double *score, double total)
{
    for (Index j = 0; j < n; j++)
        if (mass[j] != 0.0) total += mass[j] * score[j];
    return total;
}
#endif
