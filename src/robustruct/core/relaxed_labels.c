/* Rounding: labellings from the multipliers of a relaxed game (relaxation.c), improved by exact
 * max-product on induced forests. */
#include "elimination.h"
#include "messages.h"

/* Limits for safety and time: both loops usually end earlier, as nothing changes. */
#define SWEEPS 100  /* most sweeps over the nodes */
#define FORESTS 50  /* most forests relabelled */
#define FRUITLESS 8 /* forests in a row without a gain after which to stop */

/* An edge as one of its nodes sees it. */
typedef struct {
    Index own, other;    /* nodes */
    bool first;          /* whether ``own`` is the child: tables are [child, parent] */
    const double *table; /* (k, k) */
    const double *u;     /* (k) multipliers of its margin */
} End;

/* A sample, whose nodes count from 0. */
typedef struct {
    Index n, k;
    const double *unary; /* (n, k) */
    Index *start;        /* (n + 1) node i has the ends start[i] .. start[i + 1] - 1 */
    End *ends;
    Index *slots; /* of its edges, scratch */
} Sample;

/* Some nodes of the sample which, without the others, are a forest. */
typedef struct {
    Index count;
    Index *order;   /* (n) the nodes, parents before children */
    const End **up; /* (n) the edge to the parent as the parent sees it, NULL at roots */
    Index *group;   /* (n) -1 for nodes left out */
    Index *mark;    /* (n) */
    double *value;  /* (n, k) scores of subtrees */
    double *line;   /* (k) */
} Forest;

static void take_sample(Index s, const Structure *structure, const ScoreArrays *scores, const double *u,
                        Sample *own)
{
    const Index k = scores->n_labels, lo = structure->offsets[s];
    const Index n = structure->offsets[s + 1] - lo, m = edges_of_sample(s, structure, own->slots);
    Index *start = own->start;
    own->n = n, own->k = k, own->unary = scores->unary + lo * k;
    memset(start, 0, (size_t)(n + 1) * sizeof *start);
    for (Index e = 0; e < m; e++) {
        start[structure->child[own->slots[e]] - lo]++;
        start[structure->parent[own->slots[e]] - lo]++;
    }
    for (Index i = 0; i < n; i++) start[i + 1] += start[i];
    for (Index e = m - 1; e >= 0; e--) { /* from the back, where a node's ends begin after that */
        const Index slot = own->slots[e];
        const Index i = structure->child[slot] - lo, j = structure->parent[slot] - lo;
        const double *table = scores->tables + scores->table_of[slot] * k * k;
        own->ends[--start[i]] = (End){i, j, true, table, u + 2 * slot * k};
        own->ends[--start[j]] = (End){j, i, false, table, u + (2 * slot + 1) * k};
    }
}

/* The ends of node i. */
#define EACH_END(own, i, end)                                                          \
    for (const End *end = (own)->ends + (own)->start[i],                               \
                   *behind = (own)->ends + (own)->start[(i) + 1];                      \
         end < behind; end++)

/* Add to line (k) the pairwise score of each label with the label of the other end. */
static void add_beside(Index k, const double *table, bool first, Index label, double *line)
{
    if (first)
        for (Index b = 0; b < k; b++) line[b] += table[b * k + label];
    else
        for (Index b = 0; b < k; b++) line[b] += table[label * k + b];
}

static Index first_best(Index k, const double *line)
{
    Index choice = 0;
    for (Index b = 1; b < k; b++)
        if (line[b] > line[choice]) choice = b;
    return choice;
}

/* Node by node the best label beside those of neighbours, until none changes. Multipliers stand for
 * neighbours that have no label yet. */
static void decide_nodes(const Sample *own, bool backwards, double *line, Index *labels)
{
    const Index n = own->n, k = own->k;
    bool changed = true;
    for (Index i = 0; i < n; i++) labels[i] = -1;
    for (int sweep = 0; sweep < SWEEPS && changed; sweep++) {
        changed = false;
        for (Index x = 0; x < n; x++) {
            const Index i = backwards ? n - 1 - x : x;
            memcpy(line, own->unary + i * k, (size_t)k * sizeof *line);
            EACH_END(own, i, end)
            {
                if (labels[end->other] >= 0)
                    add_beside(k, end->table, end->first, labels[end->other], line);
                else
                    for (Index b = 0; b < k; b++) line[b] += end->u[b];
            }
            const Index choice = first_best(k, line);
            if (labels[i] >= 0 && !(line[choice] > line[labels[i]])) continue;
            changed = changed || labels[i] != choice;
            labels[i] = choice;
        }
    }
}

/* Nodes that induce a forest, taken one by one from ``begin`` on: those whose neighbours inside are in
 * different trees. */
static void grow_forest(const Sample *own, Index begin, Forest *forest)
{
    const Index n = own->n;
    Index *group = forest->group, *mark = forest->mark;
    for (Index i = 0; i < n; i++) group[i] = mark[i] = -1;
    for (Index x = 0; x < n; x++) {
        const Index i = (begin + x) % n;
        bool fits = true;
        EACH_END(own, i, end)
        {
            if (group[end->other] < 0) continue;
            const Index root = find_root(group, end->other);
            fits = fits && mark[root] != i;
            mark[root] = i;
        }
        if (!fits) continue;
        group[i] = i;
        EACH_END(own, i, end) if (group[end->other] >= 0) group[find_root(group, end->other)] = i;
    }
}

/* Order the nodes of a forest breadth first. */
static void order_forest(const Sample *own, Forest *forest)
{
    Index *order = forest->order, *seen = forest->mark, count = 0;
    memset(seen, 0, (size_t)own->n * sizeof *seen);
    for (Index root = 0, done = 0; root < own->n; root++) {
        if (forest->group[root] < 0 || seen[root]) continue;
        seen[root] = 1;
        forest->up[count] = NULL;
        order[count++] = root;
        for (; done < count; done++)
            EACH_END(own, order[done], end)
            {
                if (forest->group[end->other] < 0 || seen[end->other]) continue;
                seen[end->other] = 1;
                forest->up[count] = end;
                order[count++] = end->other;
            }
    }
    forest->count = count;
}

/* Relabel a forest optimally, given the labels of all other nodes. */
static void relabel(const Sample *own, const Forest *forest, Index *labels)
{
    const Index k = own->k;
    double *line = forest->line;
    for (Index x = 0; x < forest->count; x++) {
        const Index i = forest->order[x];
        double *value = forest->value + i * k;
        memcpy(value, own->unary + i * k, (size_t)k * sizeof *value);
        EACH_END(own, i, end) if (forest->group[end->other] < 0)
            add_beside(k, end->table, end->first, labels[end->other], value);
    }
    for (Index x = forest->count - 1; x >= 0; x--) {
        const End *up = forest->up[x];
        if (!up) continue;
        const double *value = forest->value + up->other * k;
        double *above = forest->value + up->own * k;
        if (!up->first) best_below(k, value, up->table, line);
        for (Index a = 0; up->first && a < k; a++) {
            const double *row = up->table + a * k;
            line[a] = -INFINITY;
            for (Index b = 0; b < k; b++) line[a] = max_double(line[a], value[b] + row[b]);
        }
        for (Index a = 0; a < k; a++) above[a] += line[a];
    }
    for (Index x = 0; x < forest->count; x++) {
        const Index i = forest->order[x];
        const End *up = forest->up[x];
        double *value = forest->value + i * k;
        if (up) add_beside(k, up->table, !up->first, labels[up->own], value);
        labels[i] = first_best(k, value);
    }
}

/* Relabel forests of sample s until this gains no more; labels of all samples, in and out. */
static void improve_labels(Index s, const Sample *own, const Structure *structure,
                           const ScoreArrays *scores, Forest *forest, Index *labels, double *values)
{
    double best = values[s];
    int idle = 0;
    for (Index number = 0; number < FORESTS && idle < FRUITLESS && own->n > 0; number++) {
        grow_forest(own, number * 31 % own->n, forest);
        order_forest(own, forest);
        relabel(own, forest, labels + structure->offsets[s]);
        labelling_scores(s, s + 1, structure, scores, labels, values);
        idle = values[s] > best + 1e-12 * fabs(values[s]) ? 0 : idle + 1;
        best = max_double(best, values[s]);
    }
}

/* Labellings from multipliers u (slots, 2, k) for samples first .. last-1, improved node by node and by
 * forests.
 *
 * A node takes the label that is best given the labels of its neighbours decided before and the
 * multipliers of the others, from the first node to the last or in reverse, whichever scores better.
 * Then induced forests are relabelled optimally, all else being fixed, until the score stops rising.
 * labels (N) and values (S), their scores, out. */
API Index round_labels(Index first, Index last, const Structure *structure, const ScoreArrays *scores,
                       const double *u, Index *labels, double *values)
{
    const Index k = scores->n_labels, *offsets = structure->offsets;
    const Index *chords = structure->chord_offsets;
    Index n = 0, m = 0;
    for (Index s = first; s < last; s++) {
        n = max_index(n, offsets[s + 1] - offsets[s]);
        m = max_index(m, offsets[s + 1] - offsets[s] + chords[s + 1] - chords[s]);
    }
    Index *memory = NEW(Index, m + 5 * n + 1), *forwards = memory + m + 4 * n + 1;
    Sample own = {.ends = NEW(End, 2 * m), .slots = memory, .start = memory + m};
    Forest forest = {.up = NEW(const End *, n), .value = NEW(double, (n + 1) * k)};
    const bool enough = memory && own.ends && forest.up && forest.value;
    for (Index s = first; enough && s < last; s++) {
        forest.order = own.start + n + 1, forest.group = forest.order + n;
        forest.mark = forest.group + n, forest.line = forest.value + n * k;
        take_sample(s, structure, scores, u, &own);
        Index *own_labels = labels + offsets[s];
        const size_t size = (size_t)own.n * sizeof *labels;
        decide_nodes(&own, false, forest.line, own_labels);
        labelling_scores(s, s + 1, structure, scores, labels, values);
        const double value = values[s];
        memcpy(forwards, own_labels, size);
        decide_nodes(&own, true, forest.line, own_labels);
        labelling_scores(s, s + 1, structure, scores, labels, values);
        if (!(values[s] > value)) {
            values[s] = value;
            memcpy(own_labels, forwards, size);
        }
        improve_labels(s, &own, structure, scores, &forest, labels, values);
    }
    free(memory), free(own.ends), free((void *)forest.up), free(forest.value);
    return enough ? 0 : NO_MEMORY;
}
