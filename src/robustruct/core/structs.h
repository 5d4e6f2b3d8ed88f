/* Made from structs.py, which says what arrays hold, by core/header.py. */
#ifndef STRUCTS_H
#define STRUCTS_H

typedef struct {
    Index *offsets; /* (samples + 1) */
    Index *chord_offsets; /* (samples + 1) */
    Index *child; /* (slots) */
    Index *parent; /* (slots) */
    Index n_samples;
    Index n_slots;
} Structure;
SIZE(Structure, 48)

typedef struct {
    double *unary; /* (nodes, labels) */
    double *tables; /* (tables, labels, labels) */
    Index *table_of; /* (slots) */
    Index n_nodes;
    Index n_labels;
    Index n_tables;
    Index n_slots;
} ScoreArrays;
SIZE(ScoreArrays, 56)

typedef struct {
    Index *parent; /* (slots) */
    Index *table_of; /* (slots) */
    Index *offsets; /* (nodes + 1) */
    Index *members; /* (members) */
    Index *first_child; /* (nodes) */
    Index *next_child; /* (nodes) */
    Index *chord_start; /* (nodes + 1) */
    Index n_slots;
    Index n_nodes;
    Index n_members;
} JunctionTrees;
SIZE(JunctionTrees, 80)

typedef struct {
    Index *indptr; /* (rows + 1) */
    int32_t *indices; /* (entries) */
    double *data; /* (entries) */
    Index n_rows;
    Index n_entries;
} Rows;
SIZE(Rows, 40)

typedef struct {
    Rows nodes;
    Rows edges;
} Features;
SIZE(Features, 80)

typedef struct {
    Structure structure;
    ScoreArrays scores;
    double *cost; /* (labels, labels) */
    double *weight; /* (nodes) */
    Index n_labels;
    Index n_nodes;
} GameArrays;
SIZE(GameArrays, 136)

typedef struct {
    double *p; /* (nodes, labels) */
    double *r; /* (nodes, labels) */
    double *q; /* (slots, labels, labels) */
    Index n_nodes;
    Index n_labels;
    Index n_slots;
} Strategies;
SIZE(Strategies, 48)

typedef struct {
    double *allowed; /* (samples) */
    Index max_iter;
    Index check_every;
    Index *n_iter; /* (samples) */
    bool *exhausted; /* (samples) */
    Index n_samples;
} Effort;
SIZE(Effort, 48)

typedef struct {
    Index kind;
    double *place; /* (labels) */
    Index *order; /* (labels) */
    double unit;
    double *offset; /* (labels) */
    double *cost; /* (labels, labels) */
    Index n_labels;
} CostArrays;
SIZE(CostArrays, 56)

typedef struct {
    double *u; /* (nodes, labels) */
    bool *alive; /* (nodes, labels) */
    double *size; /* (nodes) */
    double *p; /* (nodes, labels) */
    double *r; /* (nodes, labels) */
    double *p_sum; /* (nodes, labels) */
    double *r_sum; /* (nodes, labels) */
    double *mass; /* (samples) */
    double *p_best; /* (nodes, labels) */
    double *g_best; /* (samples) */
    Index n_nodes;
    Index n_labels;
    Index n_samples;
} Prices;
SIZE(Prices, 104)

typedef struct {
    Index n_steps;
    bool polyak;
    double *step; /* (samples) */
    double *longest; /* (samples) */
    double *target; /* (samples) */
    Index n_samples;
} StepRule;
SIZE(StepRule, 48)

typedef struct {
    double *unary; /* (nodes, labels) */
    double *top; /* (nodes) */
    double *tables; /* (tables, labels, labels) */
    double *table_top; /* (tables) */
    Index n_nodes;
    Index n_labels;
    Index n_tables;
} Exponentials;
SIZE(Exponentials, 56)

typedef struct {
    double *log_partition; /* (samples) */
    double *r; /* (nodes, labels) */
    double *q; /* (slots, labels, labels) */
    double *table_sums; /* (tables, labels, labels) */
    Index n_samples;
    Index n_nodes;
    Index n_labels;
    Index n_slots;
    Index n_tables;
} Gibbs;
SIZE(Gibbs, 72)

typedef struct {
    Index *offsets; /* (samples + 1) */
    Index *chord_offsets; /* (samples + 1) */
    Index *child; /* (slots) */
    Index *parent; /* (slots) */
    Index *table; /* (slots) */
    Index *transposed; /* (slots) */
    Index *table_start; /* (samples + 1) */
    Index *row; /* (own_tables) */
    Index *labels; /* (nodes) */
    Index n_samples;
    Index n_slots;
    Index n_own_tables;
    Index n_nodes;
} LabelledGraphs;
SIZE(LabelledGraphs, 104)

typedef struct {
    Index *node_kind; /* (nodes) */
    float *unary_mask; /* (kinds, width) */
    float *pair_mask; /* (labels, width) */
    Index n_nodes;
    Index n_kinds;
    Index n_width;
    Index n_labels;
} PaddedRules;
SIZE(PaddedRules, 56)

typedef struct {
    LabelledGraphs samples;
    Features features;
    PaddedRules rules;
    JunctionTrees trees;
    Index n_node_features;
} SmoothProblem;
SIZE(SmoothProblem, 328)

typedef struct {
    float *rows; /* (rows, width) */
    Index d;
    Index n_rows;
    Index n_width;
} PaddedWeights;
SIZE(PaddedWeights, 32)

typedef struct {
    float *of_labels; /* (labels, width) */
    float *of_predictor; /* (labels, width) */
    float *weight; /* (nodes) */
    float *p0; /* (*, width) */
    Index n_labels;
    Index n_width;
    Index n_nodes;
} PaddedCosts;
SIZE(PaddedCosts, 56)

typedef struct {
    double *of_predictor; /* (labels, width) */
    double *weight; /* (nodes) */
    float *p0; /* (*, width) */
    Index n_labels;
    Index n_width;
    Index n_nodes;
} ExactCosts;
SIZE(ExactCosts, 48)

typedef struct {
    double temperature;
    double inv_mu;
    Index player;
} SmoothSettings;
SIZE(SmoothSettings, 24)

typedef struct {
    float *natural; /* (rows, width) */
    float *marginals; /* (rows, width) */
    double *entropy; /* (samples) */
    Index n_rows;
    Index n_width;
    Index n_samples;
} GibbsAdversary;
SIZE(GibbsAdversary, 48)

typedef struct {
    Index *node_start; /* (samples + 1) */
    float *nodes; /* (*) */
    Index *table_start; /* (samples + 1) */
    float *tables; /* (*) */
    int32_t *local; /* (*) */
    Index *n_columns; /* (samples) */
    Index n_samples;
} Grams;
SIZE(Grams, 56)

typedef struct {
    double *gap; /* (samples) */
    double *predictor_regret; /* (samples) */
    double *regret; /* (samples) */
    Index n_samples;
} VisitStats;
SIZE(VisitStats, 32)

typedef struct {
    float *rows; /* (rows, width) */
    bool *moved; /* (at_once) */
    Index n_rows;
    Index n_width;
    Index n_at_once;
} GibbsChanges;
SIZE(GibbsChanges, 40)

typedef struct {
    SmoothProblem problem;
    PaddedWeights weights;
    PaddedCosts costs;
    SmoothSettings settings;
    double *rates; /* (samples) */
    GibbsAdversary adversary;
    Grams grams;
    GibbsChanges changes;
    VisitStats stats;
    Index n_samples;
} SmoothCall;
SIZE(SmoothCall, 632)
#endif
