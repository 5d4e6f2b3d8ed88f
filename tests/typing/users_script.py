"""What a user writes; `tests/test_typing.py` runs it, and pyright over it in strict mode."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from robustruct import AGM, CRF, SSVM, AutoModel, Constraints, Graph, load, solve_game
from robustruct.compat.sklearn_crfsuite import CRF as CRFsuite
from robustruct.compat.sklearn_crfsuite.metrics import flat_accuracy_score
from robustruct.losses import CostMatrix
from robustruct.optimizers.subgradient import Subgradient

words = [["the", "cat"], ["a", "dog", "sleeps"], ["the", "dog"]]
X = [[{"word": word, "suffix": word[-2:]} for word in sentence] for sentence in words]
y = [["D", "N"], ["D", "N", "V"], ["D", "N"]]

cost = CostMatrix([[0, 1, 1], [1, 0, 1], [2, 2, 0]], ["D", "N", "V"])
model = assert_type(AGM(cost, alpha=0.1, decision="predictor", random_state=0).fit(X, y), AGM)
labels = assert_type(model.predict(X), list[Any])
for sentence, found in zip(words, labels, strict=True):
    print(*(f"{word}/{label}" for word, label in zip(sentence, found, strict=True)))
print(model.status_.name, model.duality_gap_ <= model.tol, model.n_iter_, model.score(X, y))
print([record.gap for record in model.history_], model.classes_.tolist(), model.coef_.shape)

crf = assert_type(CRF(alpha=0.01, l1=0.01, optimizer="lbfgs", decision="bayes").fit(X, y), CRF)
for probabilities in assert_type(crf.predict_proba(X), list[NDArray[Any]]):
    print(probabilities.sum(axis=1))
print(crf.top_features("N", 2), crf.predict_k_best(X, k=2)[0])

ruled = CRF(alpha=[0.1, 1.0], constraints=Constraints(forbidden=[("N", "D")]))
print(ruled.fit(X, y, cv=2, validation=(X, y), patience=3, max_time=60.0).n_iter_)
assert_type(AutoModel(alpha=[1.0], max_time=60.0).fit(X, y, warm_start=True), AutoModel)

rows, answers = np.eye(3), np.array([0, 1, 1])
ssvm = assert_type(SSVM(alpha=0.1, class_weight="balanced").fit(rows, answers), SSVM)
print(assert_type(ssvm.predict(rows), NDArray[Any]).shape, ssvm.score(rows, answers))

graph = Graph(rows, [(0, 1), (1, 2)])
slow = AGM("absolute", optimizer=Subgradient(), max_iter=50, tol=1.0)
print(slow.fit([graph], [answers]).predict([graph]))
solution = solve_game(np.zeros((2, 2)), [(0, 1)], np.zeros((1, 2, 2)), 1.0 - np.eye(2))
print(solution.value, solution.gap)

with TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")
    print(load(Path(folder) / "model").predict(X))

old = assert_type(CRFsuite(algorithm="lbfgs", c1=0.1, c2=0.1).fit(X, y), CRFsuite)
print(flat_accuracy_score(y, old.predict(X)), old.classes_)
