"""
Ordinal labels on sequences, later frames counting more
=======================================================

How strong is an emotion in each frame of a video: 1 neutral, 2 increasing, 3 apex? Taking apex for
neutral is twice as bad as taking it for increasing, and late frames matter more than early ones.
This is the first experiment of Fathony et al. (2018), on the first of their twenty splits; all
twenty are in the :doc:`evidence </evidence>`.

|data_note|
"""

import matplotlib.pyplot as plt
import numpy as np

from corpora import emotion_splits, load_emotion
from robustruct import AGM, CRF, SSVM, plots
from robustruct.datasets import position_weights
from robustruct.metrics import mean_loss

data = load_emotion()
train, test = (data.subset(part) for part in emotion_splits()[0])
print(train, test, sep="\n")
print("labels of a sequence:", train.y[0])
print("weights of its frames:", position_weights(train.y[:1])[0].round(3))

# %%
# Node weights and the choice of alpha
# ------------------------------------
# ``node_weight`` multiplies the cost of each frame, in training and in the score. A list of
# alphas is chosen from by cross-validation on the training sequences.

options = {"alpha": [300, 100, 30, 10, 3, 1], "random_state": 0}
models = {
    "AGM": AGM("absolute", **options),
    "CRF": CRF("absolute", **options),
    "SSVM": SSVM("absolute", **options),
}
weight, test_weight = position_weights(train.y), position_weights(test.y)
for name, model in models.items():
    model.fit(train.X, train.y, node_weight=weight, cv=5)
    cost = mean_loss(test.y, model.predict(test.X), "absolute", test_weight)
    print(f"{name:5} alpha {model.alpha_:<5g} test cost {cost:.3f}  gap {model.duality_gap_:.2%}")

# %%
# One split of 47 test sequences does not rank three models: see the evidence for intervals.

plots.regularisation_path(models)
plt.show()

# %%
# A sequence, frame by frame
# --------------------------
# Above the line: how the predictor spreads its bets over the three labels. Below: how the adversary
# answers. Where both are sure, they agree; around a change they mix.

shown = 5
(game,) = models["AGM"].predict_games(test.X[shown : shown + 1], solver="pairwise", tol=1e-3)
figure, ax = plt.subplots(figsize=(12, 2.6), layout="constrained")
plots.strategies(game, [1, 2, 3], captions=test.y[shown].astype(str), ax=ax)
ax.set_title("likeliest label above, true label below each frame")
plt.show()

# %%
# Which labels are taken for which?

plots.confusion_matrix(test.y, models["AGM"].predict(test.X), np.arange(1, 4))
plt.show()
