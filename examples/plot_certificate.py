"""
Read a certificate
==================

Every fit and every game comes with two bounds: one that cannot be beaten, and one that was reached.
Their distance is the duality gap. This page shows what it says, and what it does not. It needs no
files: the data are handwritten digits that come with scikit-learn.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from robustruct import AGM, CRF, SSVM, plots, solve_game
from robustruct.datasets import load_counter

train, test = load_counter("train"), load_counter("test")
print(train, test, sep="\n")

# %%
# The gap of a fit
# ----------------
# ``history_`` holds a record per certificate. ``primal`` is the objective of some weights, ``dual``
# a value below which no weights whatever can bring it. So a gap of 1 % means: with infinite
# patience the objective would fall by 1 % at most. Training stops once it is at most ``tol``.

model = AGM("absolute", alpha=0.01, tol=1e-3, random_state=0).fit(train.X, train.y)
print("pass    primal      dual       gap")
for record in model.history_:
    print(f"{record.n_iter:4}  {record.primal:8.4f}  {record.dual:8.4f}  {record.gap:8.2%}")

# %%
# Three models have three objectives, so their gaps compare how far training has come, not how good
# a model is.

models = [model] + [
    kind("absolute", alpha=0.01, tol=1e-3, random_state=0).fit(train.X, train.y)
    for kind in (CRF, SSVM)
]
plots.convergence(models)
plt.show()

# %%
# A gap is about the objective, not about the test
# -------------------------------------------------
# The cost on other data usually settles long before the gap closes: that is why the default is
# ``tol=0.01`` and not 1e-6. Here is the test cost at several tolerances. Stopping on held-out data
# instead is ``fit(..., validation=(X, y))``.

for tol in (0.3, 0.1, 0.03, 0.01, 0.001):
    fitted = AGM("absolute", alpha=0.01, tol=tol, random_state=0).fit(train.X, train.y)
    print(f"tol {tol:<6g} {fitted.n_iter_:4} passes, test cost {-fitted.score(test.X, test.y):.3f}")

# %%
# When training runs out of passes
# --------------------------------
# It says so, with the gap it has reached: the weights are usable, the bound still holds.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    short = AGM("absolute", alpha=0.01, max_iter=3, random_state=0).fit(train.X, train.y)
print(caught[0].message)
print(f"certified gap after {short.n_iter_} passes: {short.duality_gap_:.1%}")

# %%
# The bounds of one game
# ----------------------
# A game has a value V: what mistakes cost when the predictor and the adversary both play their
# best, plus what the scores add. ``lower`` is what the adversary's strategy secures, ``upper`` what
# the predictor's concedes. They can be recomputed with a few lines: here for two nodes and three
# labels, by looking at all nine labellings.

rng = np.random.default_rng(0)
unary, pairwise, cost = rng.normal(size=(2, 3)), rng.normal(size=(1, 3, 3)), 1.0 - np.eye(3)
game = solve_game(unary, [(0, 1)], pairwise, cost, solver="pairwise", tol=1e-4)
print(f"V lies in [{game.lower:.5f}, {game.upper:.5f}]; {game.status.value}")

p, r = game.predictor, game.adversary_nodes
upper = max(
    unary[0, a] + unary[1, b] + pairwise[0, a, b] + (cost @ p[0])[a] + (cost @ p[1])[b]
    for a in range(3)
    for b in range(3)
)
lower = (unary * r).sum() + (pairwise * game.adversary_edges).sum()
lower += sum((r[i] @ cost).min() for i in range(2))
print(f"recomputed  [{lower:.5f}, {upper:.5f}]")
assert np.allclose([lower, upper], [game.lower, game.upper])
