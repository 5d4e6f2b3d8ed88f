/* The game on a single node, as other files use it. */
#ifndef NODE_GAMES_H
#define NODE_GAMES_H
#include "core.h"

/* What kind a cost is: see game/single_node.py. */
enum { ZERO_ONE, ABSOLUTE, SQUARED, ANY };

/* The labels that carried the last equilibrium on a node, tried first by the simplex method. */
typedef struct {
    bool *rows;    /* (k) the predictor's */
    bool *columns; /* (k) the adversary's */
} Support;

/* Scratch of node_equilibrium. */
typedef struct {
    double *line, *y, *z; /* (k) */
    double *payoff;       /* (k, k) */
    double *tableau;      /* (k + 1, k + 1) */
    double *square;       /* (k, k + 1) */
    Index *kept, *rows, *columns; /* (k) */
} NodeScratch;

/* Memory for nodes of k labels; false if there is none. All of it is behind ``line`` and ``kept``. */
bool new_node_scratch(Index k, NodeScratch *scratch);
void free_node_scratch(NodeScratch *scratch);

/* Equilibrium of one node for any kind of cost: writes p and r (k), returns the value.
 *
 * Labels with score -inf are never played; at least one score is finite. The predictor answers with
 * labels whose ``mask`` (k) is not -inf; at least all labels that have a score are among them.
 * support, in and out, is used by ANY only. */
double node_equilibrium(const CostArrays *form, double weight, const double *scores,
                        const double *mask, double *p, double *r, const Support *support,
                        const NodeScratch *scratch);
#endif
