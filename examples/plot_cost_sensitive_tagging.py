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

from corpora import load_ewt_pos
from robustruct import AGM, CRF, SSVM
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
# Rows: true label, columns: predicted label, as in a confusion matrix. Rows and columns are named,
# so their order does not matter.

labels = ["B-NAME", "I-NAME", "O"]
cost = CostMatrix([[0, 1, 5], [1, 0, 5], [1, 1, 0]], labels)
print(cost)

# %%
# Three models, one interface
# ---------------------------
# The AGM and the SSVM are trained for this cost. The CRF is not: it learns probabilities, and takes
# the label of least expected cost when it predicts. ``constraints="BIO"`` rules out an ``I-NAME``
# that continues nothing.

options = {"constraints": "BIO", "alpha": 1e-3, "random_state": 0}
agm = AGM(cost, **options).fit(train.X, y_train)
ssvm = SSVM(cost, **options).fit(train.X, y_train)
crf = CRF(cost, **options).fit(train.X, y_train)
for model in (agm, ssvm, crf):
    print(f"{type(model).__name__:5} certified gap {model.duality_gap_:.2%}")

# %%
# How a model decides matters as much
# -----------------------------------
# The AGM predicts the best-scoring labels by default, as in the paper. For asymmetric costs the
# predictor's strategy is the better guide. Two labels show why. Where "name" is right, its score
# must lead by the cost of a false alarm, 1; where "other" is right, it must lead by the cost of a
# miss, 5. Between those, at +1 and -5, scores alone cut at 0, but the predictor in the game
# plays "name" with probability (5 + lead) / 6: it cuts at -2, halfway.
#
# ``AGM(decision="predictor")`` decides so; here the games are solved to a gap of 1 %, which is
# quicker. The last line is a CRF as most people use it, where the cost plays no part.

games = agm.predict_games(test.X, solver="pairwise", tol=0.01)
predictions = {
    "AGM, best-scoring labels": agm.predict(test.X),
    "AGM, predictor": [agm.classes_[game.predictor.argmax(axis=1)] for game in games],
    "SSVM": ssvm.predict(test.X),
    "CRF, Bayes decision": crf.predict(test.X),
    "CRF, likeliest labels": crf.set_params(decision="map").predict(test.X),
}
results = {}
print(f"{'':26}{'cost':>6}{'recall':>8}{'precision':>11}")
for name, predicted in predictions.items():
    spans, _ = span_scores(y_test, predicted)
    results[name] = mean_loss(y_test, predicted, cost), spans.recall, spans.precision
    print(f"{name:26}{results[name][0]:6.3f}{spans.recall:8.1%}{spans.precision:11.1%}")

# %%
# Recall is bought with precision, and the cost says at what price. On these data the SSVM and the
# CRF's Bayes decision do best; ``robustruct compare`` tells you for yours.

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
print(crf.explain(test.X[sentence], word, against="O"))
