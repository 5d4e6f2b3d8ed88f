/* Elimination orders with small cliques; rooted forests, whose children come before parents; graphs
 * split into forests.
 *
 * Removing a node joins its remaining neighbours to each other. The largest number of neighbours met
 * on the way is the width of the order; the least width of any order is the treewidth (Bodlaender and
 * Koster, Treewidth computations I and II, 2010 and 2011). edges are (m, 2) nodes, without duplicates. */
#include "elimination.h"

/* start (n + 1), out: where the edges of each node begin in a list of all of them; at (n) the same,
 * as positions for filling the list. */
static void count_edges(Index n, Index n_edges, const Index *edges, Index *start, Index *at)
{
    memset(start, 0, (size_t)(n + 1) * sizeof *start);
    for (Index e = 0; e < 2 * n_edges; e++) start[edges[e] + 1]++;
    for (Index i = 0; i < n; i++) start[i + 1] += start[i];
    memcpy(at, start, (size_t)n * sizeof *at);
}

/* ----------------------------------------------------------------------------------- greedy orders */

/* A graph while nodes are removed: node i has the neighbours pool[begin[i]] .. , size[i] of them. */
typedef struct {
    Index n;
    Index *begin, *size, *room; /* (n) room: how many neighbours may follow begin */
    Index *pool, used, capacity;
    Index *mark, stamp; /* (n) a node is marked if its mark is the last stamp */
    Index *list;        /* (n) of nodes */
} Graph;

INLINE void mark_neighbours(Graph *graph, Index node)
{
    graph->stamp++;
    const Index *near = graph->pool + graph->begin[node];
    for (Index x = 0; x < graph->size[node]; x++) graph->mark[near[x]] = graph->stamp;
}

/* Number of pairs of the node's neighbours that are not joined yet: its fill. */
static Index missing(Graph *graph, Index node)
{
    const Index degree = graph->size[node], *near = graph->pool + graph->begin[node];
    Index joined = 0;
    mark_neighbours(graph, node);
    for (Index x = 0; x < degree; x++) {
        const Index *other = graph->pool + graph->begin[near[x]];
        for (Index y = 0; y < graph->size[near[x]]; y++)
            joined += graph->mark[other[y]] == graph->stamp;
    }
    return degree * (degree - 1) / 2 - joined / 2;
}

INLINE void list_once(Graph *graph, Index node, Index *count)
{
    if (graph->mark[node] == graph->stamp) return;
    graph->mark[node] = graph->stamp;
    graph->list[(*count)++] = node;
}

/* graph->list: nodes (n) and, if ``around``, their neighbours, each once; return how many. */
static Index touched(Graph *graph, Index n, const Index *nodes, bool around)
{
    Index count = 0;
    graph->stamp++;
    for (Index x = 0; x < n; x++) {
        list_once(graph, nodes[x], &count);
        const Index *near = graph->pool + graph->begin[nodes[x]];
        for (Index y = 0; around && y < graph->size[nodes[x]]; y++) list_once(graph, near[y], &count);
    }
    return count;
}

/* Enlarge the list of a node's neighbours; false if there is no memory. */
static bool widen(Graph *graph, Index node, Index wanted)
{
    if (graph->room[node] >= wanted) return true;
    if (graph->used + 2 * wanted > graph->capacity) {
        const Index capacity = 2 * graph->capacity + 2 * wanted;
        Index *pool = realloc(graph->pool, (size_t)capacity * sizeof *pool);
        if (!pool) return false;
        graph->pool = pool;
        graph->capacity = capacity;
    }
    memcpy(graph->pool + graph->used, graph->pool + graph->begin[node],
           (size_t)graph->size[node] * sizeof *graph->pool);
    graph->begin[node] = graph->used;
    graph->room[node] = 2 * wanted;
    graph->used += 2 * wanted;
    return true;
}

/* Remove a node from the list of its neighbour i, and join that to its other neighbours near (degree).
 * Return the number of new edges, or NO_MEMORY. */
static Index join(Graph *graph, Index node, Index i, Index degree, const Index *near)
{
    Index added = 0;
    mark_neighbours(graph, i);
    if (!widen(graph, i, graph->size[i] + degree)) return NO_MEMORY;
    Index *own = graph->pool + graph->begin[i], at = 0;
    while (own[at] != node) at++;
    own[at] = own[--graph->size[i]];
    for (Index y = 0; y < degree; y++) {
        if (near[y] == i || graph->mark[near[y]] == graph->stamp) continue;
        own[graph->size[i]++] = near[y];
        added++;
    }
    return added;
}

/* A heap of numbers, the smallest on top. */
typedef struct {
    Index *numbers, count, capacity;
} Heap;

static bool push(Heap *heap, Index number)
{
    if (heap->count == heap->capacity) {
        Index *numbers = realloc(heap->numbers, (size_t)(2 * heap->count) * sizeof *numbers);
        if (!numbers) return false;
        heap->numbers = numbers;
        heap->capacity = 2 * heap->count;
    }
    Index at = heap->count++;
    for (; at > 0 && heap->numbers[(at - 1) / 2] > number; at = (at - 1) / 2)
        heap->numbers[at] = heap->numbers[(at - 1) / 2];
    heap->numbers[at] = number;
    return true;
}

static Index pop(Heap *heap)
{
    Index *numbers = heap->numbers, at = 0;
    const Index top = numbers[0], count = --heap->count, number = numbers[count];
    while (2 * at + 1 < count) {
        Index below = 2 * at + 1;
        if (below + 1 < count && numbers[below + 1] < numbers[below]) below++;
        if (numbers[below] >= number) break;
        numbers[at] = numbers[below];
        at = below;
    }
    numbers[at] = number;
    return top;
}

/* What decides which node is removed next: its neighbours, the edges that it adds, or nothing. */
enum { BY_DEGREE, BY_FILL, AS_LISTED };

static Index key_of(Graph *graph, Index node, Index rule)
{
    if (rule == AS_LISTED) return 0;
    return rule == BY_FILL ? missing(graph, node) : graph->size[node];
}

/* Remove nodes one by one; near and key (n): scratch, key[i] < 0 once i is gone. */
static Index eliminate(Graph *graph, Heap *heap, Index rule, Index limit, Index *near, Index *key,
                       Index *order)
{
    const Index n = graph->n;
    Index width = 0;
    for (Index i = 0; i < n; i++) {
        key[i] = key_of(graph, i, rule);
        if (!push(heap, key[i] * n + i)) return NO_MEMORY;
    }
    for (Index position = 0; position < n; position++) {
        Index top = pop(heap);
        while (key[top % n] != top / n) top = pop(heap); /* its key has changed since */
        const Index node = top % n, degree = graph->size[node];
        if (degree > limit) {
            for (Index i = 0; i < n; i++)
                if (key[i] >= 0) order[position++] = i;
            return limit + 1;
        }
        width = max_index(width, degree);
        order[position] = node;
        key[node] = -1;
        memcpy(near, graph->pool + graph->begin[node], (size_t)degree * sizeof *near);
        Index filled = 0;
        for (Index x = 0; x < degree; x++) {
            const Index added = join(graph, node, near[x], degree, near);
            if (added == NO_MEMORY) return NO_MEMORY;
            filled += added;
        }
        const Index n_touched = touched(graph, degree, near, rule == BY_FILL && filled);
        for (Index x = 0; x < n_touched; x++) {
            const Index i = graph->list[x], now = key_of(graph, i, rule);
            if (now == key[i]) continue;
            key[i] = now;
            if (!push(heap, now * n + i)) return NO_MEMORY;
        }
    }
    return width;
}

/* Remove the node with the least key (``rule``); return the width. Ties go to the smallest node. Where
 * it has more than ``limit`` neighbours, the search ends: the rest of order (n), out, keeps its own
 * order, and the result is limit + 1. */
API Index greedy_order(Index n, Index n_edges, const Index *edges, Index rule, Index limit,
                       Index *order)
{
    Index *memory = NEW(Index, 8 * n + 1), width = NO_MEMORY;
    Graph graph = {.n = n, .pool = NEW(Index, 2 * n_edges), .used = 2 * n_edges};
    Heap heap = {NEW(Index, 4 * n + 1), 0, 4 * n + 1};
    if (memory && graph.pool && heap.numbers) {
        Index *start = memory + 7 * n, *at = memory;
        graph.begin = memory + n;
        graph.size = memory + 2 * n;
        graph.room = memory + 3 * n;
        graph.mark = memory + 4 * n;
        graph.list = memory + 5 * n;
        graph.capacity = graph.used;
        memset(graph.mark, 0, (size_t)n * sizeof *graph.mark);
        count_edges(n, n_edges, edges, start, at);
        for (Index e = 0; e < 2 * n_edges; e++) graph.pool[at[edges[e]]++] = edges[e ^ 1];
        for (Index i = 0; i < n; i++) {
            graph.begin[i] = start[i];
            graph.size[i] = graph.room[i] = start[i + 1] - start[i];
        }
        width = eliminate(&graph, &heap, rule, limit, at, memory + 6 * n, order);
    }
    free(memory);
    free(graph.pool);
    free(heap.numbers);
    return width;
}

/* ------------------------------------------------------------------------- treewidth, and a bound */

/* Number of nodes not ``gone`` that a node reaches through those that are; sets are bits. */
static Index degree_without(Index node, uint64_t gone, const uint64_t *near)
{
    uint64_t inside = (uint64_t)1 << node, border = near[node];
    for (uint64_t more; (more = border & gone & ~inside);) {
        inside |= more;
        for (; more; more &= more - 1) border |= near[__builtin_ctzll(more)];
    }
    return __builtin_popcountll(border & ~gone & ~inside);
}

/* An order of least width by dynamic programming over all subsets; return the treewidth. Takes 2^n
 * numbers, so it is for n up to about 20. order (n), out. */
API Index best_order(Index n, Index n_edges, const Index *edges, Index *order)
{
    const uint64_t all = ((uint64_t)1 << n) - 1;
    uint64_t near[64] = {0};
    int8_t *width = NEW(int8_t, 2 * (Index)(all + 1)), *choice = width + all + 1;
    if (!width) return NO_MEMORY;
    for (Index e = 0; e < 2 * n_edges; e++) near[edges[e]] |= (uint64_t)1 << edges[e ^ 1];
    width[0] = 0;
    for (uint64_t gone = 1; gone <= all; gone++) {
        width[gone] = 127;
        for (uint64_t left = gone; left; left &= left - 1) {
            const Index last = __builtin_ctzll(left);
            const uint64_t before = gone & ~((uint64_t)1 << last);
            if (width[before] >= width[gone]) continue;
            const Index wide = max_index(width[before], degree_without(last, before, near));
            if (wide >= width[gone]) continue;
            width[gone] = (int8_t)wide;
            choice[gone] = (int8_t)last;
        }
    }
    uint64_t gone = all;
    for (Index position = n - 1; position >= 0; position--) {
        order[position] = choice[gone];
        gone &= ~((uint64_t)1 << choice[gone]);
    }
    const Index found = width[all];
    free(width);
    return found;
}

/* A lower bound on the treewidth: the largest least degree met while contracting edges. The node of
 * least degree is merged into its neighbour of least degree until one is left. */
API Index contraction_bound(Index n, Index n_edges, const Index *edges)
{
    bool *near = calloc((size_t)n * (size_t)n + 1, sizeof *near);
    Index *degree = calloc((size_t)n + 1, sizeof *degree), bound = 0; /* -1 for nodes that are gone */
    if (!near || !degree) {
        free(near);
        free(degree);
        return NO_MEMORY;
    }
    for (Index e = 0; e < 2 * n_edges; e++) {
        near[edges[e] * n + edges[e ^ 1]] = true;
        degree[edges[e]]++;
    }
    for (Index left = n; left > 0; left--) {
        Index node = -1, into = -1;
        for (Index i = 0; i < n; i++)
            if (degree[i] >= 0 && (node < 0 || degree[i] < degree[node])) node = i;
        bound = max_index(bound, degree[node]);
        degree[node] = -1;
        for (Index i = 0; i < n; i++) {
            if (!near[node * n + i]) continue;
            near[i * n + node] = false;
            degree[i]--;
            if (into < 0 || degree[i] < degree[into]) into = i;
        }
        for (Index i = 0; i < n; i++) {
            if (!near[node * n + i] || i == into || near[into * n + i]) continue;
            near[into * n + i] = near[i * n + into] = true;
            degree[into]++;
            degree[i]++;
        }
    }
    free(near);
    free(degree);
    return bound;
}

/* ------------------------------------------------------------------------------------ later neighbours */

/* Sort in ascending order, by insertion: there are few. */
static void sort(Index n, Index *numbers)
{
    for (Index i = 1; i < n; i++) {
        const Index number = numbers[i];
        Index at = i;
        for (; at > 0 && numbers[at - 1] > number; at--) numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

/* Add to list (capacity) those of n nodes whose mark is not i, and mark them; return the new count, or
 * -1 if the list is too short. */
static Index add_unmarked(Index n, const Index *nodes, Index i, Index *mark, Index capacity,
                          Index count, Index *list)
{
    for (Index j = 0; j < n; j++) {
        if (mark[nodes[j]] == i) continue;
        if (count == capacity) return -1;
        mark[nodes[j]] = i;
        list[count++] = nodes[j];
    }
    return count;
}

#define TOO_SHORT (-2)

/* List the later neighbours of each node once filled in; return how many there are, or TOO_SHORT if
 * members (capacity) is. structure->child and parent name the ends of every edge, child first; sizes
 * (n + 1), members, first_child and next_child (n), out: as JunctionTrees has them. */
API Index later_neighbours(Index n, const Structure *structure, Index capacity, Index *sizes,
                           Index *members, Index *first_child, Index *next_child)
{
    const Index n_slots = structure->n_slots, *parent = structure->parent, *child = structure->child;
    Index *start = calloc((size_t)(2 * n + 2 + n_slots), sizeof *start), count = 0;
    if (!start) return NO_MEMORY;
    Index *mark = start + n + 2, *above = mark + n;
    for (Index e = 0; e < n_slots; e++)
        if (parent[e] >= 0) start[child[e] + 2]++;
    for (Index i = 0; i < n; i++) {
        start[i + 2] += start[i + 1];
        mark[i] = first_child[i] = next_child[i] = -1;
    }
    for (Index e = 0; e < n_slots; e++)
        if (parent[e] >= 0) above[start[child[e] + 1]++] = parent[e];
    sizes[0] = 0;
    for (Index i = 0; i < n && count >= 0; i++) {
        const Index begin = count;
        mark[i] = i;
        count = add_unmarked(start[i + 1] - start[i], above + start[i], i, mark, capacity, count,
                             members);
        for (Index c = first_child[i]; c >= 0 && count >= 0; c = next_child[c])
            count = add_unmarked(sizes[c + 1] - sizes[c], members + sizes[c], i, mark, capacity, count,
                                 members);
        if (count < 0) break;
        sizes[i + 1] = count;
        if (count == begin) continue;
        sort(count - begin, members + begin);
        next_child[i] = first_child[members[begin]];
        first_child[members[begin]] = i;
    }
    free(start);
    return count < 0 ? TOO_SHORT : count;
}

/* ----------------------------------------------------------------------------------------- forests */

/* A rooted forest under construction, by position: breadth first from the last node, filled from the
 * back, so that parents end up behind their children. */
typedef struct {
    Index *order, *parent, *edge_of; /* (n) */
    bool *flipped;                   /* (n) */
    Index *position;                 /* (n) of each node, -1 where it has none yet */
    Index tail;
} Rooted;

static void add_node(Rooted *rooted, Index node, Index parent, Index edge, bool flipped)
{
    rooted->position[node] = rooted->tail;
    rooted->order[rooted->tail] = node;
    rooted->parent[rooted->tail] = parent;
    rooted->edge_of[rooted->tail] = edge;
    rooted->flipped[rooted->tail--] = flipped;
}

/* Root every component at its last node; return 1, or 0 if the graph has a cycle. Out, in the new
 * order: order (n) the node at each position; parent (n) position of the parent or -1; edge_of (n)
 * the edge to the parent or -1; flipped (n) whether that edge was listed as (parent, child). A path
 * 0-1-...-n keeps its order. */
API Index root_forest(Index n, Index n_edges, const Index *edges, Index *order, Index *parent,
                      Index *edge_of, bool *flipped)
{
    Index *start = NEW(Index, 2 * n + 1 + 2 * n_edges);
    if (!start) return NO_MEMORY;
    Index *at = start + n + 1, *incident = at + n, head = n - 1, forest = 1;
    count_edges(n, n_edges, edges, start, at);
    for (Index e = 0; e < 2 * n_edges; e++) incident[at[edges[e]]++] = e / 2;
    Rooted rooted = {order, parent, edge_of, flipped, at, n - 1};
    for (Index i = 0; i < n; i++) rooted.position[i] = -1;
    for (Index root = n - 1; root >= 0 && forest; root--) {
        if (rooted.position[root] >= 0) continue;
        add_node(&rooted, root, -1, -1, false);
        for (; head > rooted.tail && forest; head--) {
            const Index node = order[head];
            /* Largest edge first, so that a node's children keep the order they were listed in. */
            for (Index slot = start[node + 1] - 1; slot >= start[node] && forest; slot--) {
                const Index e = incident[slot], first = edges[2 * e], second = edges[2 * e + 1];
                const Index other = first == node ? second : first;
                if (e == edge_of[head]) continue;
                forest = rooted.position[other] < 0;
                if (forest) add_node(&rooted, other, head, e, first == node);
            }
        }
    }
    free(start);
    return forest;
}

Index find_root(Index *group, Index i)
{
    for (; group[i] != i; i = group[i]) group[i] = group[group[i]];
    return i;
}

/* Split edges into forests, each as large as what is left allows; return their number. forest
 * (n_edges), out: which one each edge belongs to. */
API Index peel_forests(Index n, Index n_edges, const Index *edges, Index *forest)
{
    Index *group = NEW(Index, n), left = n_edges, found = 0;
    if (!group) return NO_MEMORY;
    for (Index e = 0; e < n_edges; e++) forest[e] = -1;
    for (; left > 0; found++) {
        for (Index i = 0; i < n; i++) group[i] = i;
        for (Index e = 0; e < n_edges; e++) {
            if (forest[e] >= 0) continue;
            const Index i = find_root(group, edges[2 * e]), j = find_root(group, edges[2 * e + 1]);
            if (i == j) continue;
            group[i] = j;
            forest[e] = found;
            left--;
        }
    }
    free(group);
    return found;
}

Index edges_of_sample(Index s, const Structure *structure, Index *slots)
{
    const Index *offsets = structure->offsets, *chords = structure->chord_offsets;
    const Index n_nodes = offsets[structure->n_samples];
    Index found = 0;
    for (Index i = offsets[s]; i < offsets[s + 1]; i++)
        if (structure->parent[i] >= 0) slots[found++] = i;
    for (Index c = chords[s]; c < chords[s + 1]; c++) slots[found++] = n_nodes + c;
    return found;
}
