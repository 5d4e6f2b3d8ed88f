/* Steps of one sample from its worst labelling to its best one, component by component.
 *
 * Nothing moves where the two labellings agree, so each connected component of the nodes where they
 * differ takes a step of its own: marginals stay consistent, as only its nodes and edges change. */
#include "ascent.h"

/* Join the components of nodes, ``number`` of them, that chords connect; return how many are left. */
static Index join_by_chords(const Sample *sample, Index number, Index *of_node)
{
    for (Index j = sample->n; j < sample->m; j++) {
        of_node[j] = -1;
        const Index one = of_node[sample->child[j]], other = of_node[sample->parent[j]];
        if (one < 0 || other < 0 || one == other) continue;
        const Index keep = min_index(one, other), gone = max_index(one, other);
        number--;
        for (Index i = 0; i < sample->n; i++) {
            if (of_node[i] == gone)
                of_node[i] = keep;
            else if (of_node[i] == number) /* the last component takes the number that became free */
                of_node[i] = gone;
        }
    }
    return number;
}

void find_components(const Move *move, Scratch *scratch)
{
    const Sample *sample = &scratch->sample;
    Components *components = &scratch->components;
    Index *of_node = components->of_node, *of_edge = components->of_edge;
    Index *start = components->start, *items = components->items, number = 0;
    const Index *parent = sample->parent;
    for (Index i = sample->n - 1; i >= 0; i--) { /* parents come before their children */
        of_node[i] = -1;
        if (move->best[i] == move->worst[i]) continue;
        const Index above = parent[i];
        of_node[i] = above >= 0 && of_node[above] >= 0 ? of_node[above] : number++;
    }
    number = join_by_chords(sample, number, of_node);
    memset(start, 0, (size_t)(number + 1) * sizeof *start);
    for (Index j = 0; j < sample->m; j++) {
        of_edge[j] = -1;
        if (parent[j] >= 0) {
            const Index c = of_node[sample->child[j]];
            of_edge[j] = c >= 0 ? c : of_node[parent[j]];
        }
        const Index c = of_node[j] >= 0 ? of_node[j] : of_edge[j];
        if (c >= 0) start[c + 1]++;
    }
    for (Index c = 0; c < number; c++) start[c + 1] += start[c];
    for (Index j = 0; j < sample->m; j++) {
        const Index c = of_node[j] >= 0 ? of_node[j] : of_edge[j];
        if (c >= 0) items[start[c]++] = j;
    }
    for (Index c = number; c > 0; c--) start[c] = start[c - 1];
    start[0] = 0;
    components->number = number;
}

/* For every slot j whose node or edge component c changes. */
#define EACH_ITEM(j, c)                                                                \
    for (Index at_ = components->start[c], j;                                          \
         at_ < components->start[(c) + 1] && (j = components->items[at_], true); at_++)

/* ---------------------------------------------------------------------- the mass that may move */

static Index find_pair(const int32_t *pair, Index count, Index code)
{
    for (Index at = 0; at < count; at++)
        if (pair[at] == code) return at;
    return -1;
}

/* Most mass that component c can move; 0 if a list of pairs is full. */
static double movable_mass(Index c, const Scratch *scratch, const Move *move,
                           const Marginals *adversary)
{
    const Components *components = &scratch->components;
    const Index *best = move->best, *worst = move->worst, *parent = scratch->sample.parent;
    const Index k = adversary->n_labels, room = adversary->n_room;
    double most = INFINITY;
    EACH_ITEM(i, c) {
        if (components->of_node[i] >= 0) most = min_double(most, adversary->r[i * k + worst[i]]);
        if (components->of_edge[i] < 0) continue;
        const int32_t *pair = adversary->pair + i * room;
        const Index count = adversary->count[i];
        const Index old = find_pair(pair, count, worst[i] * k + worst[parent[i]]);
        if (old < 0) return 0.0;
        most = min_double(most, adversary->mass[i * room + old]);
        if (count == room && find_pair(pair, count, best[i] * k + best[parent[i]]) < 0) return 0.0;
    }
    return most;
}

/* Move ``step`` of mass from worst to best on the nodes and edges of component c. */
static void move_mass(Index c, double step, const Scratch *scratch, const Move *move,
                      const Marginals *adversary)
{
    const Components *components = &scratch->components;
    const Index *best = move->best, *worst = move->worst, *parent = scratch->sample.parent;
    const Index k = adversary->n_labels, room = adversary->n_room;
    EACH_ITEM(i, c) {
        if (components->of_node[i] >= 0) {
            double *r = adversary->r + i * k;
            const double left = r[worst[i]] - step;
            r[worst[i]] = left > DUST ? left : 0.0;
            r[best[i]] += step;
        }
        if (components->of_edge[i] < 0) continue;
        int32_t *pair = adversary->pair + i * room, *count = adversary->count + i;
        double *mass = adversary->mass + i * room;
        const Index old = find_pair(pair, *count, worst[i] * k + worst[parent[i]]);
        mass[old] -= step;
        if (mass[old] <= DUST) {
            --*count;
            pair[old] = pair[*count];
            mass[old] = mass[*count];
        }
        const Index code = best[i] * k + best[parent[i]];
        Index to = find_pair(pair, *count, code);
        if (to < 0) {
            to = (*count)++;
            pair[to] = (int32_t)code;
            mass[to] = 0.0;
        }
        mass[to] += step;
    }
}

/* ---------------------------------------------------------------------- what it does to weights */

/* A row of features goes to one column of the weights and leaves another. */
typedef struct {
    Index row, to, from;
} Shift;

/* The change of weights by a component so far: <theta, change>, |change|^2 with rows scaled by pace, and
 * the numbers of lines in use for node and edge weights. */
typedef struct {
    double gain, norm;
    Index node_lines, edge_lines;
} Change;

static Shift node_shift(Index i, const Sample *sample, const Move *move)
{
    return (Shift){sample->lo + i, move->best[i], move->worst[i]};
}

static Shift edge_shift(Index j, Index k, const Sample *sample, const Move *move,
                        const TableRows *tables)
{
    const Index t = sample->table_of[j];
    Index one = sample->child[j], other = sample->parent[j];
    if (tables->transposed[t]) {
        one = sample->parent[j];
        other = sample->child[j];
    }
    return (Shift){tables->row[t], move->best[one] * k + move->best[other],
                   move->worst[one] * k + move->worst[other]};
}

static void add_features(Shift shift, const Rows *features, const double *theta,
                         const WeightChange *change, Index *lines, Change *all)
{
    const Index m = change->n_columns, to = shift.to, from = shift.from;
    double gain = all->gain, norm = all->norm;
    for (Index at = features->indptr[shift.row]; at < features->indptr[shift.row + 1]; at++) {
        const double x = features->data[at];
        const Index feature = features->indices[at];
        Index line = change->line_of[feature];
        if (line < 0) {
            line = (*lines)++;
            change->line_of[feature] = (int32_t)line;
            change->row_of[line] = (int32_t)feature;
        }
        double *values = change->values + line * m;
        gain += x * (theta[feature * m + to] - theta[feature * m + from]);
        const double bend = 2.0 * x * (values[to] - values[from] + x);
        norm += change->n_paced ? change->pace[feature] * bend : bend;
        values[to] += x;
        values[from] -= x;
    }
    all->gain = gain;
    all->norm = norm;
}

/* theta -= step * pace * change, and change <- 0, where `add_features` put something. */
static void apply_features(Shift shift, const Rows *features, double step, double *theta,
                           const WeightChange *change)
{
    const Index m = change->n_columns, to = shift.to, from = shift.from;
    const KeptRows *kept = &change->kept;
    for (Index at = features->indptr[shift.row]; at < features->indptr[shift.row + 1]; at++) {
        const Index feature = features->indices[at];
        double *weights = theta + feature * m;
        if (kept->n_rows && kept->place[feature] < 0) {
            const Index place = (*kept->count)++;
            kept->place[feature] = (int32_t)place;
            memcpy(kept->values + place * m, weights, (size_t)m * sizeof *weights);
        }
        double *values = change->values + change->line_of[feature] * m;
        const double own = change->n_paced ? step * change->pace[feature] : step;
        weights[to] -= own * values[to];
        values[to] = 0.0;
        weights[from] -= own * values[from];
        values[from] = 0.0;
    }
}

/* Free all lines. */
static void free_lines(Index lines, const WeightChange *change)
{
    for (Index line = 0; line < lines; line++) change->line_of[change->row_of[line]] = -1;
}

/* The features of best less those of worst, of component c, into ascent->changes. */
static Change lay_out(Index c, const Ascent *ascent, const Scratch *scratch, const Move *move)
{
    const Components *components = &scratch->components;
    const Features *features = &ascent->design.features;
    const Index k = ascent->weights.n_labels;
    Change all = {0.0, 0.0, 0, 0};
    EACH_ITEM(j, c) {
        if (components->of_node[j] >= 0)
            add_features(node_shift(j, &scratch->sample, move), &features->nodes,
                         ascent->weights.node, &ascent->changes.node, &all.node_lines, &all);
        if (components->of_edge[j] >= 0)
            add_features(edge_shift(j, k, &scratch->sample, move, &ascent->design.tables),
                         &features->edges, ascent->weights.edge, &ascent->changes.edge,
                         &all.edge_lines, &all);
    }
    return all;
}

/* theta -= step * change, and change <- 0. */
static void apply_change(Index c, double step, const Ascent *ascent, const Scratch *scratch,
                         const Move *move)
{
    const Components *components = &scratch->components;
    const Features *features = &ascent->design.features;
    const Index k = ascent->weights.n_labels;
    EACH_ITEM(j, c) {
        if (components->of_node[j] >= 0)
            apply_features(node_shift(j, &scratch->sample, move), &features->nodes, step,
                           ascent->weights.node, &ascent->changes.node);
        if (components->of_edge[j] >= 0)
            apply_features(edge_shift(j, k, &scratch->sample, move, &ascent->design.tables),
                           &features->edges, step, ascent->weights.edge, &ascent->changes.edge);
    }
}

/* How much of ``most`` component c should move, where theta alone gives gain and curvature. */
static double best_length(Index c, double most, double gain, double curvature,
                          const Predictor *predictor, const Scratch *scratch, const Move *move)
{
    const Components *components = &scratch->components;
    const double *weight = predictor->weight + scratch->sample.lo;
    EACH_ITEM(i, c) {
        if (components->of_node[i] < 0) continue;
        const Index pair = move->best[i] * predictor->n_labels + move->worst[i];
        gain += move->cost_margin[i];
        curvature += weight[i] * predictor->spread[pair];
    }
    if (gain <= 0.0) return 0.0;
    return gain >= most * curvature ? most : gain / curvature;
}

double step_weights(Index c, double most, double rate, const Ascent *ascent, const Scratch *scratch,
                    const Move *move)
{
    const Change all = lay_out(c, ascent, scratch, move);
    const double step =
        best_length(c, most, all.gain, rate * all.norm, &ascent->predictor, scratch, move);
    apply_change(c, step * rate, ascent, scratch, move);
    free_lines(all.node_lines, &ascent->changes.node);
    free_lines(all.edge_lines, &ascent->changes.edge);
    return step;
}

bool take_steps(double rate, const Ascent *ascent, Scratch *scratch, const Move *move,
                const Marginals *adversary)
{
    Components *components = &scratch->components;
    bool moved = false;
    find_components(move, scratch);
    for (Index c = 0; c < components->number; c++) {
        components->step[c] = 0.0;
        const double most = movable_mass(c, scratch, move, adversary);
        if (most <= 0.0) continue;
        const double step = step_weights(c, most, rate, ascent, scratch, move);
        if (step <= 0.0) continue;
        move_mass(c, step, scratch, move, adversary);
        components->step[c] = step;
        moved = true;
    }
    return moved;
}

/* The pair of the other end's label and the first one's, or the other way round. */
INLINE Index pair_of(Index k, const Index *labels, Index one, Index other, bool across)
{
    return across ? labels[other] * k + labels[one] : labels[one] * k + labels[other];
}

void update_scores(Index s, double rate, const Ascent *ascent, const Scratch *scratch,
                   const Move *move, const SampleScores *scores)
{
    const Sample *sample = &scratch->sample;
    const Components *components = &scratch->components;
    const Products *products = &ascent->visits.products;
    const Index k = scores->n_labels, *transposed = ascent->design.tables.transposed;
    const Index size = products->table_start[s + 1] - products->table_start[s];
    const double *nodes = products->nodes + products->node_start[s];
    const double *tables = products->tables + products->table_start[s];
    Index distinct = 0; /* tables of the sample, whose products are a square */
    while (distinct * distinct < size) distinct++;
    for (Index at = 0; at < components->start[components->number]; at++) {
        const Index j = components->items[at], above = sample->parent[j];
        const Index c = components->of_node[j] >= 0 ? components->of_node[j] : components->of_edge[j];
        const double step = components->step[c] * rate;
        if (step == 0.0) continue;
        if (components->of_node[j] >= 0)
            for (Index i = 0; i < sample->n; i++) {
                const double shift = step * nodes[j * sample->n + i];
                scores->unary[i * k + move->best[j]] -= shift;
                scores->unary[i * k + move->worst[j]] += shift;
            }
        if (components->of_edge[j] < 0) continue;
        for (Index t = 0; t < distinct; t++) {
            const double shift = step * tables[scores->place[j] * distinct + t];
            const bool across =
                transposed[scores->distinct[t]] != transposed[sample->table_of[j]];
            double *table = scores->tables + t * k * k;
            table[pair_of(k, move->best, j, above, across)] -= shift;
            table[pair_of(k, move->worst, j, above, across)] += shift;
        }
    }
}
