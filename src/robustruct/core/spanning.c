/* Spanning forests of graphs with cycles, for the relaxed game with entropy (reweighted.c).
 *
 * Nodes are ordered so that each has few later neighbours: whichever has the fewest neighbours left is
 * taken next (Matula and Beck 1983). In forest t the parent of a node is its later neighbour number
 * t modulo their number: every edge is in a forest, and a tree has one forest, which is itself. */
#include "elimination.h"

/* Nodes by the number of neighbours left, in doubly linked lists; -1 ends a list. */
typedef struct {
    Index *head;         /* (n) by number */
    Index *next, *before; /* (n) of nodes */
    Index *left;         /* (n) neighbours left; -1 once a node is taken */
} Queue;

static void insert(const Queue *queue, Index i)
{
    Index *head = queue->head + queue->left[i];
    queue->before[i] = -1, queue->next[i] = *head;
    if (*head >= 0) queue->before[*head] = i;
    *head = i;
}

static void withdraw(const Queue *queue, Index i)
{
    const Index next = queue->next[i], before = queue->before[i];
    if (next >= 0) queue->before[next] = before;
    *(before >= 0 ? queue->next + before : queue->head + queue->left[i]) = next;
}

/* Order the n nodes of a graph with neighbours incident[start[i] .. start[i+1]-1]; return the most
 * later neighbours of any, at least 1. */
static Index peel(Index n, const Index *start, const Index *incident, const Queue *queue, Index lo,
                  Index *order)
{
    Index most = 1, least = 0;
    for (Index j = 0; j < n; j++) queue->head[j] = -1;
    for (Index i = n - 1; i >= 0; i--) {
        queue->left[i] = start[i + 1] - start[i];
        insert(queue, i);
    }
    for (Index at = 0; at < n; at++) {
        while (queue->head[least] < 0) least++;
        const Index i = queue->head[least];
        withdraw(queue, i);
        most = max_index(most, queue->left[i]);
        queue->left[i] = -1;
        order[at] = lo + i;
        for (Index x = start[i]; x < start[i + 1]; x++) {
            const Index j = incident[x];
            if (queue->left[j] < 0) continue;
            withdraw(queue, j);
            queue->left[j]--;
            insert(queue, j);
        }
        least = max_index(least - 1, 0);
    }
    return most;
}

/* Samples first .. last-1. order (N), out: positions of each sample's nodes, children first; count (S),
 * out: number of forests. */
API Index spanning_forests(Index first, Index last, const Structure *structure, Index *order,
                           Index *count)
{
    const Index *offsets = structure->offsets, *chords = structure->chord_offsets;
    Index n = 0, m = 0;
    for (Index s = first; s < last; s++) {
        n = max_index(n, offsets[s + 1] - offsets[s]);
        m = max_index(m, offsets[s + 1] - offsets[s] + chords[s + 1] - chords[s]);
    }
    Index *slots = NEW(Index, 3 * m + 6 * n + 1);
    if (!slots) return NO_MEMORY;
    Index *incident = slots + m, *start = incident + 2 * m, *at = start + n + 1;
    const Queue queue = {at + n, at + 2 * n, at + 3 * n, at + 4 * n};
    for (Index s = first; s < last; s++) {
        const Index lo = offsets[s], size = offsets[s + 1] - lo;
        const Index edges = edges_of_sample(s, structure, slots);
        memset(start, 0, (size_t)(size + 1) * sizeof *start);
        for (Index e = 0; e < edges; e++) {
            start[structure->child[slots[e]] - lo + 1]++;
            start[structure->parent[slots[e]] - lo + 1]++;
        }
        for (Index i = 0; i < size; i++) start[i + 1] += start[i];
        memcpy(at, start, (size_t)size * sizeof *at);
        for (Index e = 0; e < edges; e++) {
            const Index i = structure->child[slots[e]] - lo, j = structure->parent[slots[e]] - lo;
            incident[at[i]++] = j;
            incident[at[j]++] = i;
        }
        count[s] = peel(size, start, incident, &queue, lo, order + lo);
    }
    free(slots);
    return 0;
}
