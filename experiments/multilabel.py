"""Does it pay to answer six questions about a photograph together, and for the cost that matters?

    ROBUSTRUCT_DATA=... python experiments/multilabel.py --out multilabel.json

Scene (Boutell et al., 2004): 1211 photographs to learn from, 1196 to test on, six yes-or-no labels.
Two costs of a mistake: every mistake 1; and a missed label 5, a false one 1. Compared, each with
its penalty chosen by 3-fold cross-validation on the training photographs for the cost in question:

* logistic regression, one per label, with the threshold that is best for the cost;
* CRF with the Bayes decision, SSVM and AGM (best labelling, or the predictor's likeliest labels),
  on the Chow-Liu tree of the labels and on the same with edges added up to treewidth 2.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from corpora import load_multilabel
from robustruct import AGM, CRF, SSVM
from robustruct.multilabel import MultiLabel, label_graph

COSTS = {"hamming": [[0.0, 1.0], [1.0, 0.0]], "missed = 5": [[0.0, 1.0], [5.0, 0.0]]}
"""[true, predicted]"""
ALPHAS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


class Independent:
    """A logistic regression per label, thresholded where the expected costs are equal."""

    def __init__(self, cost: np.ndarray, alpha: float) -> None:
        self.cost, self.alpha = cost, alpha

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Independent:
        # alpha / 2 |w|² + mean loss is scikit-learn's objective with C = 1 / (alpha n).
        strength = 1.0 / (self.alpha * len(X))
        self.models = [LogisticRegression(C=strength, max_iter=1000).fit(X, y) for y in Y.T]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        p = np.stack([model.predict_proba(X) for model in self.models], axis=1)
        return np.argmin(p @ self.cost, axis=2)


def joined(model: Any, edges: np.ndarray) -> Callable[[float], MultiLabel]:
    """The model on the graph, for any penalty."""
    return lambda penalty: MultiLabel(clone(model).set_params(alpha=penalty), edges=edges)


def mean_cost(cost: np.ndarray, truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """(n,) mean cost per label of each photograph."""
    return cost[truth, predicted].mean(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", help="file for the results as JSON")
    parser.add_argument("--alphas", type=float, nargs="+", default=ALPHAS)
    parser.add_argument("--folds", type=int, default=3, help="of three, to choose the penalty on")
    parser.add_argument("--tol", type=float, default=0.02)
    parser.add_argument("--max-iter", type=int, default=150)
    args = parser.parse_args()
    train, test = load_multilabel("train"), load_multilabel("test")
    X, Y, X_test, Y_test = train.X, train.y, test.X, test.y
    graphs = {"tree": label_graph(Y), "treewidth 2": label_graph(Y, 2)}
    print({name: edges.tolist() for name, edges in graphs.items()})
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))[: args.folds]
    options = {"random_state": 0, "max_iter": args.max_iter}
    results = []
    for cost_name, matrix in COSTS.items():
        cost = np.array(matrix)

        methods = {"logistic regression": lambda alpha, cost=cost: Independent(cost, alpha)}
        for name, edges in graphs.items():
            methods[f"CRF, {name}"] = joined(CRF(cost, tol=1e-3, **options), edges)
            methods[f"SSVM, {name}"] = joined(SSVM(cost, tol=args.tol, **options), edges)
            agm = AGM(cost, tol=args.tol, **options)
            methods[f"AGM, {name}"] = joined(agm, edges)
            predictor = clone(agm).set_params(decision="predictor")
            methods[f"AGM, predictor's choice, {name}"] = joined(predictor, edges)
        for method, make in methods.items():
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                held_out = {}
                for alpha in args.alphas:
                    parts = [
                        mean_cost(cost, Y[out], make(alpha).fit(X[inn], Y[inn]).predict(X[out]))
                        for inn, out in folds
                    ]
                    held_out[alpha] = float(np.concatenate(parts).mean())
                alpha = min(held_out, key=lambda a: (held_out[a], -a))
                final = make(alpha).fit(X, Y)
            loss = mean_cost(cost, Y_test, final.predict(X_test))
            row = {
                "cost": cost_name,
                "method": method,
                "alpha": alpha,
                "held out": held_out[alpha],
                "test": float(loss.mean()),
                "standard error": float(loss.std(ddof=1) / np.sqrt(len(loss))),
                "gap": getattr(getattr(final, "model_", None), "duality_gap_", None),
                "cpu seconds": time.process_time() - started,
            }
            results.append(row)
            print(json.dumps(row), flush=True)
            if args.out:
                with open(args.out, "w") as file:
                    json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
