"""What AGM, CRF and SSVM share: data in, labels out, and the way a fit is reported."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.features import FeatureSpace
from robustruct.formats.shards import ShardedData
from robustruct.losses import LossLike
from robustruct.models import checkpointing, data
from robustruct.models.assembly import LabelSummary, Plan, Summary, Truth, planned
from robustruct.models.early_stopping import EarlyStopping
from robustruct.models.here import Engine, Here
from robustruct.models.inspection import Inspection
from robustruct.models.parameters import check_parameters
from robustruct.models.prediction import Prediction
from robustruct.progress import fit_progress, shards_progress
from robustruct.training.checkpoints import Checkpoints
from robustruct.training.fit import Progress
from robustruct.training.problem import Problem
from robustruct.training.site import Site, Sites

FROM_ROWS = ("n_features_in_", "feature_names_in_")


class StructuredModel(Prediction, Inspection):
    """A linear model of labels on the nodes of graphs, trained for a cost of mistakes."""

    _decisions: tuple[str, ...] = ("map", "bayes", "predictor")
    _last_blocks: Any
    _bias = True  # a constant feature on every node; CRFsuite's models have none
    _optimizers: tuple[str, ...] = ("auto", "pairwise", "natural")
    _inferences: tuple[str, ...] = ("auto", "exact", "relaxed")

    # Subclasses with other defaults repeat this signature: scikit-learn reads it.
    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        alpha: float | None = None,
        optimizer: str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        decision: str = "map",
        temperature: float = 0.0,
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
        self.loss = loss
        self.alpha = alpha
        self.optimizer = optimizer
        self.tol = tol
        self.max_iter = max_iter
        self.decision = decision
        self.temperature = temperature
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.constraints = constraints
        self.inference = inference
        self.engine = engine
        self.alphas = alphas
        self.cv = cv
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.verbose = verbose

    # ------------------------------------------------------------------ what a subclass supplies

    def _minimise(
        self, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
    ) -> None:
        """Minimise the objective from ``start``, reporting certificates to ``progress``."""
        raise TypeError(f"{type(self).__name__} cannot be trained; use AGM, CRF or SSVM.")

    def _chosen_optimizer(self, sites: Sites) -> str:
        """The optimizer that "auto" stands for."""
        if self.optimizer != "auto":
            return self.optimizer
        return "natural" if self.temperature > 0 else "pairwise"

    def _problem_temperature(self) -> float:
        """The temperature of the training problem, in the unit of `unit_of_temperature`; inf for

        a problem without a cost and with T = 1.
        """
        return float(self.temperature)

    def _problem_cost(self, cost: np.ndarray) -> tuple[np.ndarray, bool]:
        """The cost matrix of the training problem, and whether the truth is its predictor."""
        return cost, False

    # ------------------------------------------------------------------------------------ training

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        node_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
    ) -> StructuredModel:
        """Train on samples X with the labels y of their nodes.

        Parameters
        ----------
        X : list of samples, or 2-D array
            A sample is a chain, given as an (n, d) array, a sparse matrix or a list of feature
            dicts or string lists, or a `Graph`. The rows of a 2-D array are samples of one node.
            A `ShardedData` holds labels and weights as well.
        y : list of label sequences, or 1-D array for a 2-D X
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample in the objective.
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample.
        validation : (X, y), optional
            Stop when the loss on these samples has not improved for ``patience`` evaluations, and
            keep the weights that did best on them.
        """
        check_parameters(self)
        checkpoints = checkpointing.opened(self)
        if isinstance(X, ShardedData):
            if not (y is None and sample_weight is None and node_weight is None):
                raise InvalidInputError("ShardedData holds labels and weights; pass nothing else.")
            return self._fit_shards(X, validation, checkpoints)
        flat = data.is_flat(X)
        if flat:
            X, y = data.checked_rows(self, X, y, fitting=True)
        if self.engine is not None:
            shards = ShardedData.from_samples(
                X, y, self.engine.n_workers, sample_weight=sample_weight, node_weight=node_weight
            )
            return self._fit_shards(shards, validation, checkpoints, FROM_ROWS if flat else ())
        learnt, problem = self._assembled(X, y, sample_weight, node_weight)
        stopper = None
        if validation is not None:
            stopper = EarlyStopping(self, learnt["_space"], learnt["classes_"], validation)
        if self.alphas is not None:
            from robustruct.models.selection import select_alpha  # loads scikit-learn

            alpha, learnt["alpha_scores_"] = checkpointing.kept_choice(checkpoints) or select_alpha(
                self, problem, learnt["classes_"], X, y, sample_weight, node_weight
            )
            problem = problem.with_alpha(alpha)
        sites = Site.of(problem)
        checkpointing.claim(checkpoints, self, sites, stopper, learnt["inference_"])
        start = self._previous_weights(learnt["_space"], learnt["classes_"])
        # The input has passed all checks: only now the new model takes the place of an older one.
        self._forget(FROM_ROWS if flat else ())
        for name, value in learnt.items():
            setattr(self, name, value)
        self.alpha_ = problem.alpha
        self._run(sites, start, stopper, checkpoints)
        return self

    def _fit_shards(
        self,
        shards: ShardedData,
        validation: tuple[Any, Any] | None,
        checkpoints: Checkpoints | None,
        kept: Sequence[str] = (),
    ) -> StructuredModel:
        """Train where the engine has the shards, or here."""
        if self.alphas is not None:
            raise IncompatibleError(
                f"{type(self).__name__}: alphas are compared on samples in memory and without an "
                "engine; choose alpha on some of the data, then fit with it."
            )
        with (self.engine or Here()).sites(shards) as sites:
            with shards_progress(type(self).__name__, self.verbose, len(shards)) as tick:
                tick("reading")
                plan = self._plan(sites.summary(), shards.min_count)
                tick("encoding")
                sites.assemble(plan)
            stopper = None
            if validation is not None:
                stopper = EarlyStopping(self, plan.space, plan.classes, validation)
            checkpointing.claim(checkpoints, self, sites, stopper, "exact")
            start = self._previous_weights(plan.space, plan.classes)
            self._forget(kept)
            for name, value in {**plan.learnt(), "inference_": "exact"}.items():
                setattr(self, name, value)
            if shards.format is not None:
                from robustruct.formats.recognise import stored

                self.input_ = stored(shards.format)
            self.alpha_ = plan.alpha
            self._run(sites, start, stopper, checkpoints)
        return self

    def _assembled(
        self, X: Any, y: Any, sample_weight: Any, node_weight: Any
    ) -> tuple[dict[str, Any], Problem]:
        """(what the model learns from the data before training, what is to be minimised)."""
        space, design = FeatureSpace.fit(X, bias=self._bias)
        batch = design.batch
        weights = sample_weight, node_weight
        truth = Truth.of(y, np.diff(batch.node_offsets), *weights, flat=data.is_flat(X))
        labels = LabelSummary.of(truth, space.types, batch.to_user(design.type_of))
        plan = planned(self, space, labels)
        relaxed = plan.temperature == 0 and self._relaxes(batch, len(plan.classes))
        problem = plan.problem(design, truth, relaxed)
        learnt = {**plan.learnt(), "inference_": "relaxed" if problem.relaxed else "exact"}
        return learnt, problem

    def _plan(self, summary: Summary, min_count: int = 1) -> Plan:
        """What is decided once for all shards that ``summary`` sums up.

        Attributes that were given fewer than ``min_count`` times get no weight.
        """
        check_parameters(self)
        space = FeatureSpace.of_summary(summary.features, bias=self._bias, min_count=min_count)
        assert summary.labels is not None  # where there are features there are labels
        return planned(self, space, summary.labels)

    def _forget(self, kept: Sequence[str]) -> None:
        """Drop what an earlier fit has left, except attributes ``kept``."""
        for name in [name for name in vars(self) if name.endswith("_") and name not in kept]:
            delattr(self, name)

    def _run(
        self,
        sites: Sites,
        start: np.ndarray | None,
        stopper: EarlyStopping | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        outline = sites.outline
        self.n_samples_, self.n_nodes_ = outline.n_samples, outline.n_nodes
        progress = Progress(outline, self.tol)
        if start is not None:
            progress.theta = start  # what is kept when training is interrupted at once
        if stopper is not None:
            progress.watch, progress.check_every = stopper, 2
        seed, holding = checkpointing.begun(checkpoints, self, progress, stopper)
        try:
            with (
                holding,
                fit_progress(type(self).__name__, self.verbose, self.tol, self.max_iter) as tick,
                threadpool_limits(1, user_api="blas"),
            ):
                progress.tick = tick
                self._minimise(sites, progress, start, seed)
        except KeyboardInterrupt:
            progress.interrupted = True
        self._interrupted = progress.interrupted
        self.history_, self.n_iter_ = progress.history, progress.n_iter
        self.coef_, self.objective_ = progress.theta, progress.primal
        if stopper is not None and stopper.record is not None and stopper.theta is not None:
            self.coef_, self.objective_ = stopper.theta, stopper.record.primal
            self.validation_loss_ = stopper.loss
        self.duality_gap_ = (self.objective_ - progress.dual) / progress.scale(self.objective_)
        self._warn(progress)

    def _warn(self, progress: Progress) -> None:
        if progress.interrupted:
            message = (
                f"training was interrupted after {progress.n_iter} certified passes; the best "
                f"model so far is kept (certified relative gap {self.duality_gap_:.2g})."
            )
        elif not progress.converged and not progress.stopped:
            message = (
                f"the certified relative duality gap is {self.duality_gap_:.2g} after "
                f"{progress.n_iter} passes, above tol={self.tol:g}. Raise max_iter or tol, or use "
                "a larger alpha (stronger regularisation converges faster)."
            )
        else:
            return
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=4)

    def _previous_weights(self, space: FeatureSpace, classes: np.ndarray) -> np.ndarray | None:
        """Weights of the last fit, if warm starts are wanted and they mean the same."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        same = np.array_equal(classes, self.classes_) and space.state() == self._space.state()
        return self.coef_ if same else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `robustruct.load` reads.

        The file is in the safetensors format, with a version and a checksum; it holds no code. An
        existing file is replaced only once the new one is complete.

        An ``engine`` and a ``random_state`` other than an integer are not kept, and a loss of your
        own is kept as its cost matrix.
        """
        from robustruct.models.storage import save

        save(self, path)

    # --------------------------------------------------------------------------------- scikit-learn

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: without what only a warm start could use."""
        return {name: value for name, value in vars(self).items() if name != "_last_blocks"}

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        # A classifier in all but name: of estimator_type "classifier" no ragged y is accepted.
        tags.classifier_tags = ClassifierTags()
        return tags
