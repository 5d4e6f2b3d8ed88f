"""The conditional random field."""

from __future__ import annotations

from typing import Any, Literal

from robustruct.constraints import ConstraintsLike
from robustruct.losses import LossLike
from robustruct.metrics import SpanCost
from robustruct.models.base import StructuredModel
from robustruct.models.parameters import (
    Alpha,
    ClassWeight,
    DecisionOf,
    Inference,
    NotNegative,
    OptimizerFor,
    with_choices,
)
from robustruct.optimizers.optimizer import Optimizer


class CRF(StructuredModel):
    """Conditional random field: exact likelihood, Bayes decision for your cost.

    The cost plays no part in training. Parameters as for `AGM`, except:

    Parameters
    ----------
    l1 : float, default=0
        Strength of a penalty ``l1 |weights|_1`` beside that of ``alpha`` (an elastic net): most
        weights become exactly 0. The gap is certified all the same.
    optimizer : "auto", "lbfgs" or "natural_ascent"
        "lbfgs" descends by the gradient of all samples. "natural_ascent" ascends the dual sample by
        sample, in natural parameters: far fewer passes where samples share few features. "auto"
        picks it for chains and trees with sparse features of like size and a ``tol`` of at least
        1e-5, else "lbfgs", which is what takes ``l1`` > 0.
    tol : float
        Relative gap to the optimum, certified. At the default fewer than one label in 10,000 of
        wnut17 differs from what the optimum predicts.
    decision : "auto", "bayes", "map", "spans" or SpanCost
        Label of least expected cost under the marginals of each node, which "auto" takes, the
        likeliest labelling, or by spans, as for `AGM`; where ``alpha`` is chosen, "auto" takes what
        costs less on held-out samples.
    inference : "auto", "exact" or "relaxed"
        As for `AGM`. A relaxed likelihood has an entropy that is exact on forests and an upper
        bound on other graphs, so its log Z is one too: the certificate is that of the relaxed
        objective, whose upper bound holds for the exact one as well.
    """

    objective = "likelihood"  # knows no costs; decisions do
    _parameters = with_choices(
        without=("temperature",),
        decision=DecisionOf("auto", "bayes", "map", "spans"),
        optimizer=OptimizerFor("likelihood", "auto", "lbfgs", "natural_ascent"),
        l1=NotNegative("the strength of the penalty on absolute weights"),
    )

    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        alpha: Alpha | None = None,
        l1: float = 0.0,
        optimizer: Literal["auto", "lbfgs", "natural_ascent"] | Optimizer = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        decision: Literal["auto", "bayes", "map", "spans"] | SpanCost = "auto",
        standardize: bool = True,
        class_weight: ClassWeight | None = None,
        constraints: ConstraintsLike = None,
        inference: Inference = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss,
            alpha=alpha,
            optimizer=optimizer,
            tol=tol,
            max_iter=max_iter,
            decision=decision,
            standardize=standardize,
            class_weight=class_weight,
            constraints=constraints,
            inference=inference,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.l1 = l1
