"""The member of the family that costs least on held-out samples."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

from robustruct.losses import LossLike
from robustruct.models.base import StructuredModel
from robustruct.models.fitting.choice import MEMBERS
from robustruct.models.parameters import Alphas, ClassWeight, Decision, Inference, with_choices
from robustruct.objectives.build import Plan
from robustruct.optimizers.checkpoints import Checkpoint


class AutoModel(StructuredModel):
    """The model for your cost: AGM, SSVM, CRF or between them, whichever costs least.

    The models are corners of one family (docs/theory.md). Which of its members suits your data and
    your costs, how strong the penalty should be and how to decide are chosen together, by what
    mistakes cost on training samples held out. Parameters as for `AGM`, except:

    Parameters
    ----------
    alphas : "auto" or sequence of float, default="auto"
        Strengths of the penalty to choose from.
    max_time : float, optional
        Seconds that the choice and the fit may take. The choice ends in time for the fit, with the
        best of what was tried.

    Attributes
    ----------
    member_ : "AGM", "SSVM" or "CRF"
        What was chosen, with the temperature ``temperature_``, the penalty ``alpha_`` and the
        decision ``decision_``.
    trials_ : list of Tried
        All that was tried, with the score of each: minus the mean cost on held-out samples.

    Examples
    --------
    >>> from robustruct import AutoModel
    >>> from robustruct.datasets import make_chains
    >>> data = make_chains(n_samples=30)
    >>> model = AutoModel("absolute", random_state=0).fit(data.X, data.y)
    >>> model.member_ in ("AGM", "SSVM", "CRF")
    True
    """

    _parameters = with_choices(without=("alpha", "optimizer", "temperature", "engine"))

    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        tol: float = 1e-2,
        max_iter: int = 1000,
        decision: Decision = "auto",
        standardize: bool = True,
        class_weight: ClassWeight | None = None,
        forbidden: Iterable[tuple[Any, Any]] | None = None,
        constraints: str | None = None,
        bad_labels: Literal["repair", "error", "drop"] = "repair",
        inference: Inference = "auto",
        alphas: Alphas | None = "auto",
        cv: Any = "auto",
        max_time: float | None = None,
        patience: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss,
            temperature="auto",
            tol=tol,
            max_iter=max_iter,
            decision=decision,
            standardize=standardize,
            class_weight=class_weight,
            forbidden=forbidden,
            constraints=constraints,
            bad_labels=bad_labels,
            inference=inference,
            alphas=alphas,
            cv=cv,
            max_time=max_time,
            patience=patience,
            n_jobs=n_jobs,
            random_state=random_state,
            warm_start=warm_start,
            checkpoint=checkpoint,
            verbose=verbose,
        )

    @property
    def _objectives(self) -> tuple[str, ...]:
        return ("game", "hinge")

    def _learnt(self, shards: Any, plan: Plan, choice: Any) -> dict[str, Any]:
        member = "CRF" if plan.temperature == float("inf") else MEMBERS[plan.objective]
        return {**super()._learnt(shards, plan, choice), "member_": member}
