/* Optimal transport between given margins. */
#ifndef TRANSPORT_H
#define TRANSPORT_H
#include "core.h"

/* Scratch of `transport`. */
typedef struct {
    double *left, *need;          /* (k) mass of rows and columns that is not yet placed */
    double *potential, *distance; /* (2k) of rows, then of columns */
    double *open;                 /* (2k) */
    Index *previous;              /* (2k) */
} Routes;

/* Memory for k labels; false if there is none. All of it is behind ``left``. */
bool new_routes(Index k, Routes *routes);
void free_routes(Routes *routes);

/* Fill plan (k, k) with margins supply and demand (k), Σ gain·plan as large as possible.
 *
 * Pairs with gain -inf are not used; return the mass that could not be placed because of them (0
 * when every pair is allowed). */
double transport(Index k, const double *gain, const double *supply, const double *demand,
                 double *plan, const Routes *routes);

/* Scale rows and columns of a plan (k, k) that are too heavy down to supply and demand; row and column
 * (k), out: what they then lack. */
void scale_down(Index k, const double *supply, const double *demand, double *plan, double *row,
                double *column);
#endif
