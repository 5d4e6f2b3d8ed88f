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
    Index *table_of; /* (slots) */
    Index *row; /* (tables) */
    Index *transposed; /* (tables) */
    Index n_slots;
    Index n_tables;
} TableRows;
SIZE(TableRows, 40)

typedef struct {
    Index *node_kind; /* (nodes) */
    double *unary_mask; /* (kinds, labels) */
    double *pair_mask; /* (pairs) */
    Index n_nodes;
    Index n_kinds;
    Index n_labels;
    Index n_pairs;
} Rules;
SIZE(Rules, 56)

typedef struct {
    Features features;
    TableRows tables;
    Rules rules;
} Design;
SIZE(Design, 176)

typedef struct {
    double *node; /* (node_rows, labels) */
    double *edge; /* (edge_rows, pairs) */
    Index n_node_rows;
    Index n_labels;
    Index n_edge_rows;
    Index n_pairs;
} Weights;
SIZE(Weights, 48)

typedef struct {
    double *cost; /* (labels, labels) */
    double *cost_t; /* (labels, labels) */
    double *spread; /* (labels, labels) */
    double tolerance;
    double *mu; /* (labels) */
    double *inv_mu; /* (labels) */
    double *weight; /* (nodes) */
    double *centre; /* (nodes, labels) */
    Index n_labels;
    Index n_nodes;
} Predictor;
SIZE(Predictor, 80)

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
    double *p; /* (nodes, labels) */
    double *r; /* (nodes, labels) */
    double *q; /* (slots, labels, labels) */
    double *u; /* (slots, *, labels) */
    Index n_nodes;
    Index n_labels;
    Index n_slots;
} RelaxedPoint;
SIZE(RelaxedPoint, 56)

typedef struct {
    Index *order; /* (nodes) */
    Index *rows; /* (samples + 1) */
    Index n_nodes;
    Index n_samples;
} SpanningForests;
SIZE(SpanningForests, 32)

typedef struct {
    Structure structure;
    ScoreArrays scores;
    double *cost; /* (actions, labels) */
    double *weight; /* (nodes) */
    Index n_actions;
    Index n_labels;
    Index n_nodes;
} SmoothGames;
SIZE(SmoothGames, 144)

typedef struct {
    double *p; /* (nodes, actions) */
    double *r; /* (nodes, labels) */
    double *q; /* (slots, labels, labels) */
    double *multipliers; /* (rows, labels) */
    Index n_nodes;
    Index n_actions;
    Index n_labels;
    Index n_slots;
    Index n_rows;
} RelaxedGibbs;
SIZE(RelaxedGibbs, 72)

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
    double *r; /* (nodes, labels) */
    int32_t *pair; /* (nodes, room) */
    double *mass; /* (nodes, room) */
    int32_t *count; /* (nodes) */
    Index n_nodes;
    Index n_labels;
    Index n_room;
} Marginals;
SIZE(Marginals, 56)

typedef struct {
    double *r; /* (nodes, labels) */
    Index *labelling; /* (room, nodes) */
    double *mass; /* (samples, room) */
    Index *count; /* (samples) */
    Index n_nodes;
    Index n_labels;
    Index n_room;
    Index n_samples;
} Mixtures;
SIZE(Mixtures, 64)

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
    Index *node_start; /* (samples + 1) */
    Index *table_start; /* (samples + 1) */
    double *nodes; /* (kept) */
    double *tables; /* (*) */
    Index n_samples;
    Index n_kept;
} Products;
SIZE(Products, 48)

typedef struct {
    Index inner;
    double *rate; /* (samples) */
    Products products;
    double *gap; /* (samples) */
    double *predictor_regret; /* (samples) */
    Index n_samples;
} Visits;
SIZE(Visits, 88)

typedef struct {
    Index *best; /* (at_once, longest) */
    Index *worst; /* (at_once, longest) */
    double *cost_margin; /* (at_once, longest) */
    Index n_at_once;
    Index n_longest;
} Move;
SIZE(Move, 40)

typedef struct {
    Index *counters; /* (*) */
    bool *moves; /* (at_once) */
    Move move;
    Index n_at_once;
} PendingMoves;
SIZE(PendingMoves, 64)

typedef struct {
    int32_t *place; /* (rows) */
    double *values; /* (rows, columns) */
    Index *count; /* (*) */
    Index n_rows;
    Index n_columns;
} KeptRows;
SIZE(KeptRows, 40)

typedef struct {
    int32_t *line_of; /* (rows) */
    int32_t *row_of; /* (lines) */
    double *values; /* (lines, columns) */
    KeptRows kept;
    double *pace; /* (paced) */
    Index n_rows;
    Index n_lines;
    Index n_columns;
    Index n_paced;
} WeightChange;
SIZE(WeightChange, 104)

typedef struct {
    WeightChange node;
    WeightChange edge;
} WeightChanges;
SIZE(WeightChanges, 208)

typedef struct {
    double *unary; /* (several, nodes, labels) */
    double *augmented; /* (several, nodes, labels) */
    double *tables; /* (several, tables, labels, labels) */
    Index *place; /* (several, slots) */
    Index *distinct; /* (several, tables) */
    Index n_several;
    Index n_nodes;
    Index n_labels;
    Index n_tables;
    Index n_slots;
} SampleScores;
SIZE(SampleScores, 80)

typedef struct {
    Structure structure;
    Design design;
    Weights weights;
    Predictor predictor;
    Visits visits;
    PendingMoves pending;
    SampleScores scores;
    WeightChanges changes;
} Ascent;
SIZE(Ascent, 792)

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
    float *gamma; /* (samples) */
    Index n_rows;
    Index n_width;
    Index n_samples;
} GibbsAdversary;
SIZE(GibbsAdversary, 56)

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
SIZE(SmoothCall, 640)

typedef struct {
    Index most;
    Index least;
    bool only_tabs;
    bool has_comments;
    uint8_t *comment; /* (mark) */
    Index n_mark;
} ColumnRules;
SIZE(ColumnRules, 40)

typedef struct {
    Index *begins; /* (tokens, columns) */
    Index *ends; /* (tokens, columns) */
    Index *lines; /* (tokens) */
    Index *offsets; /* (sentences + 1) */
    Index *widths; /* (sentences) */
    Index *spans; /* (sentences, bounds) */
    Index n_tokens;
    Index n_columns;
    Index n_sentences;
    Index n_bounds;
} ColumnArrays;
SIZE(ColumnArrays, 80)

typedef struct {
    uint8_t *texts; /* (bytes) */
    Index *offsets; /* (texts + 1) */
    int32_t *codes; /* (macros, tokens) */
    int32_t *pieces; /* (pieces) */
    Index *line_offsets; /* (lines + 1) */
    Index n_bytes;
    Index n_texts;
    Index n_macros;
    Index n_tokens;
    Index n_pieces;
    Index n_lines;
} TemplateArrays;
SIZE(TemplateArrays, 88)
#endif
