"""Every compiled loop: arrays in, arrays out, nothing validated, the caller owns the memory.

Conventions shared by all kernels (see graphs/batch.py for where the arrays come from):

offsets (S+1,) intp   sample s owns nodes offsets[s] .. offsets[s+1]-1; kernels work on ranges of s
parent (N+C,) intp    flat index of the parent, always larger than the node's own, or -1 at a root;
                      chords (edges beyond the forest, where there are cycles) follow behind N
child (N+C,) intp     the other end of the edge in a slot: i itself for slot i < N
unary (N, k)          score of each label of each node
tables (T, k, k)      pairwise scores, indexed [label of the child, label of the parent]
table_of (N+C,) intp  which table scores the edge in a slot; unused where there is none
"""
