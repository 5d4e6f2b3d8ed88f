"""Where the interior point keeps its numbers: few arrays, so that calls between kernels stay cheap.

Nodes of a game are counted from 0. A root counts as its own parent and is held as the edge to a
parent with a single label, so that no step treats it apart. Entries of dropped pairs have
x = 1/z = 0 and stay at 0 in every formula.

tree (n, 4) intp, labels (n, k) intp the labels of the adversary kept at each node, answers (n, k)
intp those that the predictor may give, scalar (n, 2), vec (n, 18, k) and
mat (n + 1, 10, k, k) with the slots below, the last row for scratch.
"""

import numpy as np

# Slots are numpy integers: for each Python integer a kernel is called with, numba compiles a copy.

# tree: parent of a node; how many labels it keeps; how many its parent keeps, 1 above a root; how
# many answers the predictor has
PARENT, COUNT, ABOVE, ANSWERS = np.arange(4)

# scalar: the scaled weight of a node, 0 where its cost is dropped; the sum of E
WEIGHT, E_SUM = np.arange(2)

# vec: r, the row sums of x; p, the predictor, summing to the weight; s = (L r)(a) - v, its slacks;
# d; the direction 1 in the coordinates of the factor; E; κ; ρ_s / s; t; the right-hand side after
# the first triangular solve; g, then the residual; Δu and Δr of the last sweep; Δr, Δp, Δs;
# two for scratch
R, P, S, D, UNIT, E, KAPPA, RS, T, HALF, SIDE, DU, STEP, DR, DP, DS, V1, V2 = np.arange(18)

# mat [label, label of the parent]: x, the adversary's edge marginals; z = u(a) - B(b, a) - c(b),
# their slacks; 1/z; D; the Cholesky factor of K, J while it is gathered; W; G; Δx, ρ / z before;
# Δz, Δx∘Δz before; the costs of the labels kept
X, Z, INVERSE, RATIO, UPPER, W, G, DX, DZ, COST = np.arange(10)

# mat, in its last row: two matrices for scratch
M1, M2 = np.arange(2)
