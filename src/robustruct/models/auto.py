"""The member of the family that costs least on held-out samples."""

from __future__ import annotations

import os
from typing import Any, Self

from robustruct.constraints import ConstraintsLike
from robustruct.engines.engine import Engine
from robustruct.losses import LossLike
from robustruct.models.base import StructuredModel
from robustruct.models.fitting.choice import MEMBERS
from robustruct.models.fitting.targets import TargetLike
from robustruct.models.parameters import (
    OF_A_CHOICE,
    Alpha,
    ClassWeight,
    Decision,
    Inference,
    with_choices,
)
from robustruct.objectives.build import Plan
from robustruct.optimizers.checkpoints import Checkpoint


class AutoModel(StructuredModel):
    """The model for your cost: AGM, SSVM, CRF or between them, whichever costs least.

    The models are corners of one family (docs/theory.md). Which of its members suits your data and
    your costs, how strong the penalty should be and how to decide are chosen together, by what
    mistakes cost on training samples held out. Parameters as for `AGM`, except:

    Parameters
    ----------
    alpha : "auto", sequence of float, or float, default="auto"
        Strength of the penalty, or those to choose from.
    cv : "auto", int or scikit-learn splitter, default="auto"
        Folds of held-out samples, as for `AGM.fit`.
    max_time : float, optional
        Seconds that the choice and the fit may take. Half of them are for the corners of the
        family; the choice ends in time for the fit, with the best of what was tried.
    target : str, SpanCost or function, optional
        What the choice is made by, instead of the cost: F1 of spans, for instance; as for
        `AGM.fit`.

    Attributes
    ----------
    member_ : "AGM", "SSVM" or "CRF"
        What was chosen, with the temperature ``temperature_``, the penalty ``alpha_``, the
        decision ``decision_`` and its scale ``decision_scale_``.
    trials_ : list of Tried
        All that was tried, with the score of each: minus the mean cost on held-out samples,
        or that of the target.
    forecast_ : Forecast
        The mean cost per node that new samples like these will have: ``mean`` with the 95 %
        interval ``lower``, ``upper``, from ``n_samples`` held-out samples. Corrected for having
        been the best of many, as the score of what was chosen is not. With a target there is none.

    Examples
    --------
    >>> from robustruct import AutoModel
    >>> from robustruct.datasets import make_chains
    >>> data = make_chains(n_samples=30)
    >>> model = AutoModel("absolute", random_state=0).fit(data.X, data.y)
    >>> model.member_ in ("AGM", "SSVM", "CRF")
    True
    """

    _parameters = with_choices(without=("optimizer", "temperature"), **OF_A_CHOICE)

    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        alpha: Alpha | None = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        decision: Decision = "auto",
        standardize: bool = True,
        class_weight: ClassWeight | None = None,
        constraints: ConstraintsLike = None,
        inference: Inference = "auto",
        cv: Any = "auto",
        max_time: float | None = None,
        target: TargetLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss,
            alpha=alpha,
            temperature="auto",
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
        self.cv = cv
        self.max_time = max_time
        self.target = target

    # The options of the choice are parameters here: this model is the choice.
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        node_weight: Any = None,
        *,
        groups: Any = None,
        validation: tuple[Any, Any] | None = None,
        patience: int = 5,
        engine: Engine | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        warm_start: bool = False,
    ) -> Self:
        """Choose a member of the family, and train it.

        Parameters
        ----------
        X, y, sample_weight, node_weight, groups, validation, patience, checkpoint, warm_start
            As for `AGM.fit`; ``warm_start`` is about the last fit, not about the choice.
        engine : None
            The choice is made in this process, so a cluster is refused: choose on some of the
            data, then train what was chosen with ``AGM(...).fit(..., engine=...)``.

        Returns
        -------
        self
        """
        return super().fit(
            X,
            y,
            sample_weight,
            node_weight,
            groups=groups,
            validation=validation,
            patience=patience,
            engine=engine,
            checkpoint=checkpoint,
            cv=self.cv,
            max_time=self.max_time,
            target=self.target,
            warm_start=warm_start,
        )

    @property
    def _objectives(self) -> tuple[str, ...]:
        return ("game", "hinge")

    def _learnt(self, shards: Any, plan: Plan, choice: Any) -> dict[str, Any]:
        member = "CRF" if plan.temperature == float("inf") else MEMBERS[plan.objective]
        return {**super()._learnt(shards, plan, choice), "member_": member}
