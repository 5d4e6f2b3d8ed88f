"""
Sentiment of every phrase of a sentence
=======================================

The Stanford Sentiment Treebank labels each phrase of a parse tree, from 0 (very negative) to 4
(very positive). A phrase is joined to its parts, so what is known about "terrible" reaches "not
terrible at all". Labels are ordinal: the loss is their distance.

|data_note|
"""

import matplotlib.pyplot as plt
import numpy as np

from corpora import load_sst
from robustruct import AGM, Graph, plots
from robustruct.metrics import mean_loss

# Positive reviews come first in the files: take every so many.
train = load_sst("train").subset(slice(0, None, 21))
test = load_sst("test").subset(slice(0, None, 7))
print(train, test, sep="\n")
print(train.X[0], train.X[0].edges[:4].tolist())

# %%
# Trees against phrases on their own
# ----------------------------------
# The same features without edges: every phrase is then a sample of its own inside the graph.

options = {"alpha": 2e-3, "tol": 0.05, "random_state": 0}
on_trees = AGM("absolute", **options).fit(train.X, train.y)
alone = AGM("absolute", **options).fit([Graph(x.node_features, []) for x in train.X], train.y)
predicted = {
    "trees": on_trees.predict(test.X),
    "no edges": alone.predict([Graph(x.node_features, []) for x in test.X]),
    "always 2": [np.full(len(labels), 2) for labels in test.y],
}
for name, answer in predicted.items():
    whole = mean_loss([y[:1] for y in test.y], [y[:1] for y in answer], "absolute")
    print(
        f"{name:10} cost per phrase {mean_loss(test.y, answer, 'absolute'):.3f}, "
        f"of whole sentences {whole:.3f}"
    )

# %%
# Each phrase already knows all its words, and a few hundred trees teach the edges little: they
# hardly change the cost. More data, and other costs, are in the :doc:`evidence on trees
# </evidence-trees>`.
#
# What the edges have learnt
# --------------------------
# The weight of each label of a phrase (row) with each label of a part (column).

most = np.abs(on_trees.transitions_).max()
plt.imshow(on_trees.transitions_, cmap="RdBu", vmin=-most, vmax=most)
plt.xlabel("label of the part")
plt.ylabel("label of the phrase")
plt.colorbar(label="weight")
plt.show()

# %%
# One tree
# --------
# The predictor's strategy above each node, the adversary's below.

shown = next(s for s, x in enumerate(test.X) if 9 <= x.n_nodes <= 13 and test.y[s][0] in (0, 4))
x = test.X[shown]
words = [node[-1].removeprefix("phrase=") for node in x.node_features]
(game,) = on_trees.predict_games([x], solver="pairwise", tol=1e-3)
figure, ax = plt.subplots(figsize=(10, 5), layout="constrained")
captions = [text if " " not in text else "" for text in words]
plots.strategies(game, on_trees.classes_, edges=x.edges, captions=captions, ax=ax)
ax.set_title(f"{words[0]} (true label {test.y[shown][0]})")
plt.show()
