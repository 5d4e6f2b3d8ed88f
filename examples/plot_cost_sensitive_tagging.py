"""
Find names where a missed one costs five false alarms
=====================================================

Tag the names in web texts with the labels ``B-NAME``, ``I-NAME`` and ``O``. Somebody checks every
name found, and nobody checks what was not found: a missed word costs 5, a false alarm 1.

The sentences are those of the English Web Treebank; a run of proper nouns is taken as a name.

|data_note|
"""

import matplotlib.pyplot as plt
import numpy as np

from robustruct import AGM, CRF, SSVM
from robustruct.datasets import load_ewt_pos
from robustruct.losses import CostMatrix
from robustruct.metrics import mean_loss, span_scores


def names(tags):
    """Runs of proper nouns as BIO labels."""
    inside = np.isin(tags, ["NNP", "NNPS"])
    starts = inside & ~np.append(False, inside[:-1])
    return np.where(starts, "B-NAME", np.where(inside, "I-NAME", "O"))


train = load_ewt_pos("train", label="xpos").subset(slice(0, None, 12))
test = load_ewt_pos("test", label="xpos").subset(slice(0, None, 2))
y_train, y_test = [names(tags) for tags in train.y], [names(tags) for tags in test.y]
print(train, test, sep="\n")
print(train.X[0][2], y_train[0][2])

# %%
# The cost matrix
# ---------------
# ``cost[a, b]`` is the price of predicting ``labels[a]`` where ``labels[b]`` is true. Its rows are
# named, so their order does not matter.

labels = ["B-NAME", "I-NAME", "O"]
cost = CostMatrix([[0, 1, 1], [1, 0, 1], [5, 5, 0]], labels)

# %%
# Three models, one interface
# ---------------------------
# The AGM and the SSVM are trained for this cost. The CRF is not: it learns probabilities, and takes
# the label of least expected cost when it predicts. ``constraints="BIO"`` rules out an ``I-NAME``
# that continues nothing. The fourth model is a CRF as most people use it: the cost plays no part.

options = {"constraints": "BIO", "alpha": 1e-3, "random_state": 0}
models = {
    "AGM": AGM(cost, **options),
    "SSVM": SSVM(cost, **options),
    "CRF, Bayes decision": CRF(cost, **options),
    "CRF, likeliest labels": CRF(cost, decision="map", **options),
}
results = {}
print(f"{'':24}{'cost':>6}{'recall':>8}{'precision':>11}{'certified gap':>15}")
for name, model in models.items():
    predicted = model.fit(train.X, y_train).predict(test.X)
    spans, _ = span_scores(y_test, predicted)
    results[name] = mean_loss(y_test, predicted, cost), spans.recall, spans.precision
    print(
        f"{name:24}{results[name][0]:6.3f}{spans.recall:8.1%}{spans.precision:11.1%}"
        f"{model.duality_gap_:15.2%}"
    )

# %%
# Recall is bought with precision, and the cost says at what price.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.barh(list(results), [cost for cost, _, _ in results.values()], color="#1f5fbf")
left.set(xlabel="test cost per word")
left.invert_yaxis()
for name, (_, recall, precision) in results.items():
    right.scatter(recall, precision, label=name)
right.set(xlabel="recall of names", ylabel="precision of names")
right.legend()
plt.show()

# %%
# Why did a word get its label?
# -----------------------------
# A prediction is a sum of named parts.

sentence = next(s for s, labels in enumerate(y_test) if len(labels) < 15 and "B-NAME" in labels)
word = int(np.argmax(y_test[sentence] == "B-NAME"))
print(models["AGM"].explain(test.X[sentence], word))
