#include "cliques.h"
Index bucket_sum(Index first, Index last, const Index *node_offsets, const JunctionTrees *graph, const double *unary, const double *tables, const double *share, Gibbs *gibbs) { (void)first;(void)last;(void)node_offsets;(void)graph;(void)unary;(void)tables;(void)share;(void)gibbs; return NO_MEMORY; }
