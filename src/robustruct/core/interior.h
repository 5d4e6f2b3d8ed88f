/* Variables of the interior-point method, and the functions of its files.
 *
 * Nodes of a game are counted from 0. A root counts as its own parent and is held as the edge to a
 * parent with a single label, so that no step treats it apart. Matrices [label kept, label that the
 * parent keeps] are (count, above) without gaps; entries of dropped pairs have x = 1/z = 0 and stay
 * at 0 in every formula. */
#ifndef INTERIOR_H
#define INTERIOR_H
#include "games.h"

#define VECTORS 18
#define MATRICES 10

typedef struct {
    Index parent;    /* a root's is itself */
    Index count;     /* how many labels it keeps */
    Index above;     /* how many its parent keeps, 1 above a root */
    Index n_answers; /* how many answers the predictor has */
    double weight;   /* scaled, 0 where the cost of the node is dropped */
    double e_sum;    /* the sum of e */
    Index *labels;   /* (count) the labels of the adversary kept */
    Index *answers;  /* (n_answers) the labels that the predictor may give */

    double *r;      /* (count) row sums of x */
    double *p;      /* (n_answers) the predictor, summing to the weight */
    double *s;      /* (n_answers) (L r)(a) - v, its slacks */
    double *d;      /* (count) row sums of ratio */
    double *unit;   /* (count) the direction 1 in the coordinates of the factor */
    double *e;      /* (n_answers) p / s */
    double *kappa;  /* (count) */
    double *rho_s;  /* (n_answers) ρ_s / s */
    double *t;      /* (count) messages of the children, added up */
    double *half;   /* (count) the right-hand side after the first triangular solve */
    double *side;   /* (above) g, then the residual */
    double *du;     /* (above) Δu of the last sweep */
    double *step;   /* (count) Δr of the last sweep */
    double *dr;     /* (count) Δr */
    double *dp;     /* (n_answers) Δp */
    double *ds;     /* (n_answers) Δs, Δp∘Δs before */
    double *v1;     /* scratch */
    double *v2;

    double *x;       /* (count, above) the adversary's edge marginals */
    double *z;       /* (count, above) u(a) - B(b, a) - c(b), their slacks */
    double *inverse; /* (count, above) 1/z, 0 for dropped pairs */
    double *ratio;   /* (count, above) D = x / z */
    double *upper;   /* (count, count) the Cholesky factor of K, J while it is gathered */
    double *w;       /* (count, above) */
    double *g;       /* (above, above) */
    double *dx;      /* (count, above) Δx, ρ / z before */
    double *dz;      /* (count, above) Δz, Δx∘Δz before */
    double *cost;    /* (n_answers, count) scaled costs of the labels kept */
} Node;

/* Strategies of both players in one sample. */
typedef struct {
    double *p; /* (n, k) */
    double *r; /* (n, k) */
    double *q; /* (n, k, k) [child, parent] */
} Played;

typedef struct {
    Forest forest;
    const double *cost;   /* (k, k) */
    const double *loss;   /* (k, k) costs, scaled to lie between 0 and 1 */
    double spread;        /* factor by which they were divided */
    const double *weight; /* (n) of the sample */
    Node *nodes;          /* (n) */
    double *spare[3];     /* (k, k) scratch, as are all below */
    double *best;         /* (n, k) */
    double *augmented;    /* (n, k) */
    double *factor;       /* (n, k) */
    double *message;      /* (k) */
    Index *parent;        /* (n) */
    Index *star;          /* (n) a labelling */
    double *numbers;      /* the memory behind all that is double */
    Index *indices;       /* and behind all that is an index */
} State;

/* interior_start.c: where it starts. */
double scale_weights(const State *state, double heaviest);
Index keep_labels(const State *state, double reach, const Played *known);
void list_answers(const State *state);
void collect_costs(const State *state);
void answer(const State *state);
void mix_predictor(const State *state, double share, const double *p);
void tight_slacks(const State *state, double unit);
void spread_marginals(const State *state, double loosening, double share, const Played *known);
double loosen(const State *state, double loosening);

/* The longest steps of two groups of numbers, as inverses, and how the gap changes along them. */
typedef struct {
    double primal, dual; /* of (x, s) and of (z, p) */
    double slope;        /* Σ xΔz + sΔp */
    double curve;        /* Σ ΔxΔz + ΔpΔs */
} Steps;

/* interior_newton.c: directions of one Newton step. */
void factorise(const State *state);
Steps predict(const State *state);
double correct(const State *state, double target);
Steps longest_steps(const State *state);
#endif
