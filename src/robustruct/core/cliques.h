#ifndef CLIQUES_H
#define CLIQUES_H
#include "core.h"
Index bucket_sum(Index first, Index last, const Index *node_offsets, const JunctionTrees *graph, const double *unary, const double *tables, const double *share, Gibbs *gibbs);
#endif
