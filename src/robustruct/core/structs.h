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
