/* Certificates of smooth training in double: the primal T log Z((theta Phi + w L'p) / T) - theta Phi(y)
 * of any weights, and the moments and entropy of the dual (objectives/smooth.py). Marginals are
 * recomputed from the natural parameters, so rounding errors of visits do not matter. */
#define REAL double
#define REAL_IS_DOUBLE 1
#include "gibbs.h"
#include "messages.h"

/* Convert a row from float to double. */
INLINE void widen(Index length, const float *from, double *to)
{
    for (Index y = 0; y < length; y++) to[y] = (double)from[y];
}

/* Rows of scores times ``inverse``, plus masks. */
static void divide(Index length, double inverse, const float *masks, double *rows)
{
    for (Index y = 0; y < length; y++) rows[y] = rows[y] * inverse + (double)masks[y];
}

/* scores += w L'p for a node, with p = p0 or the truth; scratch: two rows. */
static void add_costs(Index node, const Sample *own, const ExactCosts *costs, Index player,
                      double *scores, double *scratch)
{
    const Index k = own->k, width = own->width;
    const double *added = costs->of_predictor + own->all->labels[node] * width;
    if (player == FREE) {
        const float *p0 = costs->p0 + node * width;
        double mass = 0.0;
        for (Index a = 0; a < k; a++) mass += (double)p0[a];
        for (Index a = 0; a < k; a++) scratch[a] = (double)p0[a] / mass;
        times_rows(width, scratch, 1, costs->of_predictor, k, scratch + width);
        added = scratch + width;
    }
    for (Index y = 0; y < k; y++) scores[y] += added[y] * costs->weight[node];
}

/* scores = (theta Phi + w L'p) / T of a sample; return the nodes' part of theta Phi(truth). theta is
 * rows (d + k e, k): one per node feature, then k per edge feature. */
static double weight_scores(const Sample *own, const SmoothProblem *problem, const double *theta,
                            const ExactCosts *costs, const SmoothSettings *settings, double *scores,
                            double *scratch)
{
    const Rows *nodes = &problem->features.nodes, *edges = &problem->features.edges;
    const PaddedRules *rules = &problem->rules;
    const Index k = own->k, width = own->width, d = problem->n_node_features;
    const double inverse = 1.0 / settings->temperature;
    double truth = 0.0, *zeros = scratch + 2 * width;
    for (Index i = 0; i < own->n; i++) {
        const Index node = own->lo + i;
        double *row = scores + i * width;
        memset(row, 0, (size_t)width * sizeof *row);
        row_product(nodes->indptr[node], nodes->indptr[node + 1], nodes->indices, nodes->data, k,
                    theta, zeros, row);
        truth += row[own->all->labels[node]];
        if (settings->player != NOBODY) add_costs(node, own, costs, settings->player, row, scratch);
        divide(width, inverse, rules->unary_mask + rules->node_kind[node] * width, row);
    }
    const Index *rows = own->all->row + own->all->table_start[own->s];
    for (Index t = 0; t < own->m; t++) {
        double *table = scores + (own->n + t * k) * width;
        memset(table, 0, (size_t)(k * width) * sizeof *table);
        for (Index j = edges->indptr[rows[t]]; j < edges->indptr[rows[t] + 1]; j++) {
            const double *weights = theta + (d + edges->indices[j] * k) * k;
            for (Index x = 0; x < k; x++)
                for (Index y = 0; y < k; y++)
                    table[x * width + y] += edges->data[j] * weights[x * k + y];
        }
        divide(k * width, inverse, rules->pair_mask, table);
    }
    return truth;
}

/* Scratch for the samples first .. last-1. */
typedef struct {
    GibbsScratch gibbs;
    double *memory, *scores, *found, *rows; /* rows: three, the last of which stays 0 */
} BoundsScratch;

static bool make_scratch(Index first, Index last, const SmoothProblem *problem, BoundsScratch *out)
{
    const LabelledGraphs *samples = &problem->samples;
    const Index k = problem->rules.n_labels, width = problem->rules.n_width;
    Index n = 0, m = 1;
    for (Index s = first; s < last; s++) {
        n = max_index(n, samples->offsets[s + 1] - samples->offsets[s]);
        m = max_index(m, samples->table_start[s + 1] - samples->table_start[s]);
    }
    const Index rows = (n + m * k) * width, size = gibbs_size(n, m, k, width);
    out->memory = calloc((size_t)(size + 2 * rows + 3 * width), sizeof(double));
    if (!out->memory) return false;
    out->gibbs = lay_out(out->memory, n, m, k, width);
    out->scores = out->memory + size;
    out->found = out->scores + rows;
    out->rows = out->found + rows;
    return true;
}

/* regrets[s] = T log Z((theta Phi + w L'p0) / T) - theta Phi(truth), for samples first .. last-1. */
API Index smooth_regrets(Index first, Index last, const SmoothProblem *problem, const double *theta,
                         const ExactCosts *costs, const SmoothSettings *settings, double *regrets)
{
    BoundsScratch work;
    if (!make_scratch(first, last, problem, &work)) return NO_MEMORY;
    bool enough = true;
    for (Index s = first; s < last && enough; s++) {
        const Sample own =
            sample_of(&problem->samples, s, problem->rules.n_labels, problem->rules.n_width);
        double truth = weight_scores(&own, problem, theta, costs, settings, work.scores, work.rows);
        double log_z;
        enough =
            marginals(&own, &problem->trees, work.scores, &work.gibbs, false, work.found, &log_z);
        truth += settings->temperature * true_edges(&own, work.scores);
        regrets[s] = settings->temperature * log_z - truth;
    }
    free(work.memory);
    return enough ? 0 : NO_MEMORY;
}

/* Store the recomputed marginals ``found`` of a sample: see `smooth_moments`. */
static void keep(const Sample *own, double share, GibbsAdversary *adversary, double log_z,
                 const BoundsScratch *work, double *r, double *row_sums)
{
    const Index n = own->n, k = own->k, width = own->width;
    const double *found = work->found;
    float *kept = adversary->marginals + own->first_row * width;
    log_z -= dot(own->n_rows * width, found, work->scores);
    adversary->entropy[own->s] = log_z > 0.0 ? log_z : 0.0;
    for (Index y = 0; y < own->n_rows * width; y++) kept[y] = (float)found[y];
    for (Index i = 0; i < n; i++)
        memcpy(r + (own->lo + i) * k, found + i * width, (size_t)k * sizeof *r);
    const Index *rows = own->all->row + own->all->table_start[own->s];
    for (Index t = 0; t < own->m; t++)
        for (Index x = 0; x < k; x++)
            for (Index y = 0; y < k; y++)
                row_sums[(rows[t] * k + x) * k + y] -= share * found[(n + t * k + x) * width + y];
    for (Index at = 0; at < slots_of(own); at++) {
        const TruePair pair = true_pair(own, at);
        if (pair.table >= 0) row_sums[(rows[pair.table] * k + pair.x) * k + pair.y] += share;
    }
}

/* Marginals of the adversaries of samples first .. last-1 are recomputed, into r (N, k), and share_s
 * times (truth - edge marginals) is added to row_sums (rows of edge features, k, k); the adversary's
 * own marginals and entropies are updated. */
API Index smooth_moments(Index first, Index last, const SmoothProblem *problem, const double *share,
                         GibbsAdversary *adversary, double *r, double *row_sums)
{
    BoundsScratch work;
    if (!make_scratch(first, last, problem, &work)) return NO_MEMORY;
    bool enough = true;
    for (Index s = first; s < last && enough; s++) {
        const Sample own =
            sample_of(&problem->samples, s, problem->rules.n_labels, problem->rules.n_width);
        widen(own.n_rows * own.width, adversary->natural + own.first_row * own.width, work.scores);
        double log_z;
        enough =
            marginals(&own, &problem->trees, work.scores, &work.gibbs, true, work.found, &log_z);
        if (enough) keep(&own, share[s], adversary, log_z, &work, r, row_sums);
    }
    free(work.memory);
    return enough ? 0 : NO_MEMORY;
}
