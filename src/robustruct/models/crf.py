"""The conditional random field."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustruct.graphs import Batch
from robustruct.inference import marginals
from robustruct.losses import LossLike
from robustruct.models.agm import train_natural
from robustruct.models.base import StructuredModel
from robustruct.models.here import Engine
from robustruct.scores import Scores
from robustruct.training.fit import Progress
from robustruct.training.likelihood import fit_likelihood
from robustruct.training.site import Site, Sites
from robustruct.training.tuning import SPARSE, Density

FINEST = 1e-5  # gaps that visits in float32 can reach
MANY_PAIRS = 2**27  # samples times pairs of labels: eight bytes each


class CRF(StructuredModel):
    """Conditional random field: exact likelihood, Bayes decision for your cost.

    The cost plays no part in training. Parameters as for `AGM`, except:

    Parameters
    ----------
    optimizer : "auto", "natural" or "lbfgs"
        "natural" ascends the dual sample by sample, in natural parameters: far fewer passes where
        samples share few features. "lbfgs" descends by the gradient of all samples. "auto" picks
        "natural" for sparse features and ``tol`` of at least 1e-5, else "lbfgs".
    tol : float
        Relative gap to the optimum, certified.
    decision : "bayes" or "map"
        Label of least expected cost under the marginals of each node, or the likeliest labelling.
    inference : "auto" or "exact"
        Marginals are exact; a graph too wide for them is refused.
    checkpoint_every : int or str, default="60s"
        With every checkpoint L-BFGS begins anew, as its memory cannot be kept: make it rare.
    """

    _decisions = ("bayes", "map")
    _optimizers = ("auto", "lbfgs", "natural")
    _inferences = ("auto", "exact")

    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        alpha: float | None = None,
        optimizer: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        decision: str = "bayes",
        class_weight: Mapping[Any, float] | str | None = None,
        forbidden: Iterable[tuple[Any, Any]] | None = None,
        constraints: str | None = None,
        inference: str = "auto",
        engine: Engine | None = None,
        alphas: Sequence[float] | str | None = None,
        cv: Any = 5,
        patience: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | str = "60s",
        resume: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss,
            alpha=alpha,
            optimizer=optimizer,
            tol=tol,
            max_iter=max_iter,
            decision=decision,
            class_weight=class_weight,
            forbidden=forbidden,
            constraints=constraints,
            inference=inference,
            engine=engine,
            alphas=alphas,
            cv=cv,
            patience=patience,
            n_jobs=n_jobs,
            random_state=random_state,
            warm_start=warm_start,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            verbose=verbose,
        )

    def _relaxes(self, batch: Batch, n_labels: int) -> bool:
        return False

    def _minimise(
        self, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
    ) -> None:
        if self._chosen_optimizer(sites) == "natural":
            train_natural(self, sites, progress, start, seed)
        else:
            fit_likelihood(sites, progress, self.max_iter, start)

    def _problem_temperature(self) -> float:
        return np.inf

    def _chosen_optimizer(self, sites: Sites) -> str:
        if self.optimizer != "auto":
            return self.optimizer
        if not isinstance(sites, Site) or self.tol < FINEST:
            return "lbfgs"
        problems = [shard.problem for shard in sites.shards.values()]
        if any(p.design.batch.n_chords for p in problems):
            return "lbfgs"
        if sum(p.design.batch.n_samples * p.n_labels**2 for p in problems) > MANY_PAIRS:
            return "lbfgs"
        sparse = Density.of_all(map(Density.of, problems)).tuning() is SPARSE
        return "natural" if sparse else "lbfgs"

    def _probabilities(self, found: Scores, weight: np.ndarray | None = None) -> np.ndarray:
        return marginals(found, n_jobs=self.n_jobs).nodes

    def _risks(self, found: Scores, weight: np.ndarray) -> np.ndarray:
        expected = weight * (self._probabilities(found) @ self.cost_.T).min(axis=1)
        return np.add.reduceat(expected, found.batch.node_offsets[:-1])
