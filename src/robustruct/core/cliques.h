/* Exact inference over the cliques of a triangulated graph, one sample at a time.
 *
 * Nodes, chords, labels and marginals are counted within the sample; only the junction trees hold the
 * nodes of all samples. */
#ifndef CLIQUES_H
#define CLIQUES_H
#include "core.h"

/* One sample with its scores. */
typedef struct {
    const JunctionTrees *trees;
    Index lo, hi;                /* its nodes, among those of all samples */
    Index k;                     /* labels */
    const double *unary;         /* (n, k) */
    const double *tables;        /* (tables, k, k) [label of the child, label of the parent] */
    const Index *table_of;       /* (n) the table of each node's own edge */
    const Index *chord_table_of; /* (chords) and of each chord */
} CliqueSample;

/* Scratch, reused for one sample after the other. */
typedef struct {
    Index *start;     /* (n + 1) where the message of each node begins */
    double *messages; /* from each bucket to its parent, by the labels of its later neighbours */
    double *down;     /* (as many) marginals from above; NULL for the best labelling */
    double *table;    /* the table of one bucket */
    double *top;      /* (a message) */
    double *joint;    /* (k, k) */
} CliqueScratch;

/* Marginals of one sample, out. */
typedef struct {
    double *r;          /* (n, k) */
    double *q;          /* (n, k, k) of the nodes' own edges, or NULL if they are not wanted */
    double *chord_q;    /* (chords, k, k), unused without q */
    double *table_sums; /* (tables, k, k) to which edge marginals times the sample's share are added */
} CliqueMarginals;

/* The sample with nodes lo .. hi-1, scored as all others. */
CliqueSample clique_sample(Index lo, Index hi, const JunctionTrees *trees, const ScoreArrays *scores);

/* Memory for samples first .. last-1, with the way down if ``sums``; false if there is none.
 * offsets (S+1): the nodes of each sample. Free it in any case. */
bool clique_scratch(Index first, Index last, const Index *offsets, const JunctionTrees *trees, Index k,
                    bool sums, CliqueScratch *scratch);
void free_clique_scratch(CliqueScratch *scratch);

/* labels (n), out: the best labelling; return its score. */
double best_over_cliques(const CliqueSample *sample, const CliqueScratch *scratch, Index *labels);

/* The marginals of exp(score) / Z; return log Z, -inf where every labelling is forbidden. */
double sum_over_cliques(const CliqueSample *sample, const CliqueScratch *scratch, double share,
                        const CliqueMarginals *out);
#endif
