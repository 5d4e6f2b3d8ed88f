/* Disjoint sets and edges of samples. */
#ifndef ELIMINATION_H
#define ELIMINATION_H
#include "core.h"

/* Representative of i's set in a disjoint-set forest; paths are compressed. */
Index find_root(Index *group, Index i);

/* slots, out: those of sample s that hold an edge, one for each node and chord at most. Return their
 * number. */
Index edges_of_sample(Index s, const Structure *structure, Index *slots);
#endif
