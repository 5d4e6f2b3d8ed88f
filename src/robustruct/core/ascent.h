/* Training at T = 0, one sample at a time. Nodes and slots are counted within the sample; `Ascent` holds
 * those of all samples. */
#ifndef ASCENT_H
#define ASCENT_H
#include "core.h"

#define DUST 1e-12 /* smaller masses leave the support: rounding errors, which would fill the lists */

/* The structure of a sample: n nodes and m >= n slots, chords behind its nodes. */
typedef struct {
    Index lo, n, m;
    Index *child, *parent, *table_of; /* (m) */
} Sample;

/* The connected components of the nodes where the best and the worst labelling differ. */
typedef struct {
    Index *of_node; /* (m) component of a node, -1 where both agree and for chords */
    Index *of_edge; /* (m) the component that changes the edge in a slot, or -1 */
    Index *items;   /* (m) slots whose node or edge changes, by component */
    Index *start;   /* (components + 1) where they begin in ``items`` */
    double *step;   /* (components) how much mass each has moved */
    Index number;
} Components;

/* Scratch of a thread, reused for one sample after the other. */
typedef struct {
    Sample sample;
    Components components;
    Index *place_of;  /* (T) -1 before and after `gather_scores` */
    double *messages; /* (n, k) */
    double *rows;     /* (3, k) */
    int32_t *labels;  /* (k) */
} Scratch;

/* Memory for samples as large as ascent->scores has room for; false if there is none. Free it in any
 * case. */
bool new_scratch(const Ascent *ascent, Scratch *scratch);
void free_scratch(Scratch *scratch);

/* Set scratch->sample to sample s. */
void take_sample(Index s, const Ascent *ascent, Scratch *scratch);

/* The adversary on the sample's nodes; the scores and the move of one of several samples. */
Marginals own_marginals(const Marginals *all, Index lo);
SampleScores own_scores(const SampleScores *all, Index number);
Move own_move(const Move *all, Index number);

/* Compute the scores of the sample under the weights. */
void gather_scores(const Ascent *ascent, const Scratch *scratch, const SampleScores *scores);

/* scores->augmented = unary + w L'p, given the adversary's r (n, k); return the predictor's regret,
 * the sum of w (p'L r - min L r). Labels whose unary score is -inf are not predicted. */
double augment(const Ascent *ascent, const Scratch *scratch, const double *r,
               const SampleScores *scores);

typedef struct {
    double gap, regret;
    bool moves; /* whether mass should move */
} Found;

/* Find the best labelling, and the worst one in the support, under the present scores. The worst is not
 * searched for where the gap is at most ``enough``. */
Found find_move(const Ascent *ascent, const Scratch *scratch, const Marginals *adversary,
                const SampleScores *scores, double enough, const Move *move);

/* Fill move->cost_margin: what costs add to the score of the best labelling over that of the worst. */
void cost_margins(Index n, const SampleScores *scores, const Move *move);

/* Fill scratch->components, all but the steps. */
void find_components(const Move *move, Scratch *scratch);

/* Move the weights by the best step of component c, at most ``most``; return the mass that has to
 * move. */
double step_weights(Index c, double most, double rate, const Ascent *ascent, const Scratch *scratch,
                    const Move *move);

/* Take the best step of each component under the present weights. Return whether any moved; steps are
 * in scratch->components. */
bool take_steps(double rate, const Ascent *ascent, Scratch *scratch, const Move *move,
                const Marginals *adversary);

/* Update the scores of sample s by these steps, theta -= rate * step * change. */
void update_scores(Index s, double rate, const Ascent *ascent, const Scratch *scratch,
                   const Move *move, const SampleScores *scores);
#endif
