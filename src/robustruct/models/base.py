"""What AGM, CRF and SSVM share: data in, labels out, and the way a fit is reported."""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

import numpy as np

from robustruct.bad_labels import clean_samples, clean_shards
from robustruct.constraints import Constraints, ConstraintsLike
from robustruct.engines.engine import Engine, MemorySamples, PreparedShards
from robustruct.engines.local import LocalEngine, MemoryShards
from robustruct.errors import IncompatibleError, InvalidInputError, warn
from robustruct.features.matrix import squares_of_entries
from robustruct.formats.shards import ShardedData
from robustruct.labels import category_order
from robustruct.losses import LossLike, as_loss
from robustruct.models.certifying import Certifying
from robustruct.models.fitting import checkpointing
from robustruct.models.fitting.choice import Choice
from robustruct.models.fitting.early_stopping import EarlyStopping
from robustruct.models.fitting.filling import LOOSE, fill_in, first_weights
from robustruct.models.fitting.likeness import likeness, looks
from robustruct.models.fitting.rows import checked_rows
from robustruct.models.fitting.seen import all_digests
from robustruct.models.fitting.targets import TargetLike
from robustruct.models.inspection import Inspection
from robustruct.models.parameters import (
    PARAMETERS,
    Accepted,
    Alpha,
    ClassWeight,
    Decision,
    FitOptions,
    Inference,
    OptimizerName,
    check_fit_options,
    check_parameters,
    is_search,
)
from robustruct.models.prediction import usual_decision
from robustruct.objectives.adversarial import Outline
from robustruct.objectives.build import Plan
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.checkpoints import Checkpoint, Checkpoints
from robustruct.optimizers.local_shards import LocalShards
from robustruct.optimizers.optimizer import Optimizer, Task
from robustruct.optimizers.registry import check_takes, chosen
from robustruct.optimizers.shards import SamplesOutline, Shards
from robustruct.parallel import one_blas_thread
from robustruct.progress import fit_progress, shards_progress
from robustruct.spans import SpanLabels
from robustruct.status import Status
from robustruct.validation import are_lists, as_listed, is_flat

FROM_ROWS = ("n_features_in_", "feature_names_in_")


UNEVEN = 100.0  # columns that differ more than this in size slow training down


def _uneven_columns(shards: PreparedShards, plan: Plan) -> str | None:
    """What to do about columns as training sees them, where their sizes differ much.

    Only entries other than 0 count, as a rare attribute is not a small one.
    """
    if shards.local_problems is None:
        return None
    found = [squares_of_entries(one.design.nodes) for one in shards.local_problems.values()]
    squares, counts = (np.sum(parts, axis=0) for parts in zip(*found, strict=True))
    size = np.sqrt(np.divide(squares, counts, out=np.zeros(len(counts)), where=counts > 0))
    used = np.flatnonzero(size > 0)
    if not len(used) or size[used].max() <= UNEVEN * size[used].min():
        return None
    names = plan.space.node_feature_names
    large, small = used[size[used].argmax()], used[size[used].argmin()]
    remedy = "Scale them alike"
    if plan.standardization.nodes is None and plan.space.is_numeric:
        remedy += ", or give them densely, with standardize=True"
    return (
        f"Columns of very different size slow training down: {names[large]!r} is of size "
        f"{size[large]:.2g}, {names[small]!r} of size {size[small]:.2g}. {remedy}."
    )


def _time_left(started: float, max_time: float | None) -> float | None:
    """What is left of ``max_time``; if it is 0, one pass is made all the same."""
    if max_time is None:
        return None
    return max(max_time - (time.perf_counter() - started), 0.0)


class StructuredModel(Certifying, Inspection):
    """A linear model of labels on the nodes of graphs, trained for a cost of mistakes."""

    _parameters: Mapping[str, Accepted] = PARAMETERS
    objective = "game"
    """What is minimised: "game", "hinge" or "likelihood"; see `robustruct.objectives`."""
    bias = True
    """Whether every node has a constant feature; CRFsuite's models have none."""
    l1 = 0.0
    """Strength of a penalty on absolute weights; a parameter of the CRF alone."""
    worst_case_: dict[str, float]
    """Of a game at temperature 0: see ``AGM``."""
    _warm: Any

    # Subclasses with other defaults repeat this signature: scikit-learn reads it.
    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        alpha: Alpha | None = None,
        temperature: float | Literal["auto"] = 0.0,
        optimizer: OptimizerName | Optimizer = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        decision: Decision = "auto",
        standardize: bool = True,
        class_weight: ClassWeight | None = None,
        constraints: ConstraintsLike = None,
        inference: Inference = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.temperature = temperature
        self.optimizer = optimizer
        self.tol = tol
        self.max_iter = max_iter
        self.decision = decision
        self.standardize = standardize
        self.class_weight = class_weight
        self.constraints = constraints
        self.inference = inference
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------------ training

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        node_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        patience: int = 5,
        engine: Engine | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        cv: Any = "auto",
        groups: Any = None,
        max_time: float | None = None,
        target: TargetLike | None = None,
        warm_start: bool = False,
    ) -> Self:
        """Train on samples X with the labels y of their nodes.

        Parameters
        ----------
        X : list of samples, or 2-D array
            A sample is a chain, given as an (n, d) array, a sparse matrix or a list of feature
            dicts or string lists, or a `Graph`. The rows of a 2-D array are samples of one node.
            A `ShardedData` holds labels and weights as well.
        y : list of label sequences, or 1-D array for a 2-D X
            A label in a list may be None (unknown), a set (one of these) or a dict of weights
            (votes); see "Labels known in part" in the documentation.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample in the objective.
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample.
        validation : (X, y), optional
            Stop when the loss on these samples has not improved for ``patience`` evaluations, and
            keep the weights that did best on them.
        patience : int
            Evaluations without improvement before ``validation`` stops training.
        engine : DaskEngine, optional
            Train on the workers of a cluster (`robustruct.engines`); by default here, with
            ``n_jobs`` threads.
        checkpoint : Checkpoint or path, optional
            Keep the state of training in a folder, once a minute or as `Checkpoint` says, which
            can also go on from what is there.
        cv : "auto", int or scikit-learn splitter, default="auto"
            Folds of held-out samples for what is chosen by them (``alpha``, ``temperature``);
            "auto" makes five, and takes only the first of them from 20,000 nodes on. All settings
            run on the first fold, the best eight on the second, and fewer on those after it.
        groups : array-like of shape (n_samples,), optional
            What samples belong to that are alike for a reason which new samples do not share:
            documents, subjects, templates. A choice holds out whole groups; a fit without one has
            no use for them.
        max_time : float, optional
            Seconds after which training ends, with the certificate of what was reached. What is
            chosen on held-out samples is chosen in time for it.
        target : str, SpanCost or function, optional
            What the choice is made by, instead of the cost: "span_f1", "f1" (over all labels but
            "O"), "recall@0.9" or "span_recall@0.9" (with a precision of at least 0.9), each also of
            one label or type of span ("f1:B-PER", "span_f1:PER"); a
            `robustruct.metrics.SpanCost`, per sample; or a function score(y_true, y_pred) of which
            more is better. With ``decision="spans"`` it is "span_f1", unless given.
        warm_start : bool
            Start from the weights of the last fit, and keep what the next warm start can use
            beside them: the adversary's strategies, which take as much memory as the samples.

        Returns
        -------
        self
        """
        samples = MemorySamples(X, y, sample_weight, node_weight, groups)
        asked = validation, patience, engine, checkpoint, cv, max_time, warm_start, groups, target
        given = FitOptions(*asked)
        check_parameters(self)
        check_fit_options(self, given)
        started = time.perf_counter()
        checkpoints = checkpointing.opened(given.checkpoint)
        data, kept, order = self._training_data(samples, given.engine)
        settings = self._with_order(order)
        n_shards = len(data) if isinstance(data, ShardedData) else 1
        with (given.engine or LocalEngine()).shards(data) as shards:
            with shards_progress(type(self).__name__, self.verbose, n_shards) as tick:
                plan = shards.prepare(settings._before_the_choice, tick)
            choice = settings._choice(shards, plan, given, checkpoints)
            if choice is not None:
                settings = settings._settings(choice.best.setting[:2], choice.best.alpha)
                plan = plan.at(*choice.best.setting)
                cast(MemoryShards, shards).again(plan)
            stopper = None
            if given.validation is not None:
                held_out = given.validation, given.patience
                stopper = EarlyStopping(self, plan, settings.loss, *held_out, rows=bool(kept))
            learnt = self._learnt(shards, plan, choice)
            if order is not None:
                learnt["label_order_"] = order
            learnt["labels_as_lists_"] = isinstance(data, MemorySamples) and are_lists(data.y)
            if isinstance(data, ShardedData) and data.format is not None:
                from robustruct.formats.recognise import stored

                learnt["input_"] = stored(data.format)
            optimizer = self._chosen_optimizer(shards, plan)
            self._check_partial(plan, given)
            check_takes(optimizer, plan.objective, shards)
            identity = optimizer, shards, stopper, learnt["inference_"]
            checkpointing.claim(checkpoints, self, settings, *identity, given.target)
            start = self._previous_weights(plan) if given.warm_start else None
            # The input has passed all checks: only now the new model replaces an older one.
            self._forget(kept)
            for name, value in learnt.items():
                setattr(self, name, value)
            progress = Progress(
                shards.outline, self.tol, max_time=_time_left(started, given.max_time)
            )
            if start is not None:
                start = plan.weights_for_training(start)
            elif choice is not None:
                start = choice.start
            earlier = self.__dict__.pop("_warm", None)
            state = self._minimise(
                shards, optimizer, progress, start, earlier, stopper, checkpoints
            )
            if given.warm_start and state is not None:
                self._warm = state
            self._store(shards.outline, plan, progress, stopper)
            self.sample_digests_ = all_digests(shards, stopper)
            uneven = None if progress.converged else _uneven_columns(shards, plan)
        self._warn(progress, uneven)
        return self

    def _training_data(
        self, samples: MemorySamples, engine: Engine | None
    ) -> tuple[ShardedData | MemorySamples, Sequence[str], np.ndarray | None]:
        """(what the engine takes, attributes that checking it has set, order of the labels)."""
        X, y = samples.X, samples.y
        weights = [samples.sample_weight, samples.node_weight, samples.groups]
        if self._to_choose and (engine is not None or isinstance(X, ShardedData)):
            raise IncompatibleError(
                f"{type(self).__name__}: {self._to_choose} is chosen on samples in memory and "
                "without an engine; choose on some of the data, then fit with what was chosen."
            )
        rules = Constraints.of(self.constraints)
        if isinstance(X, ShardedData):
            if not (y is None and all(one is None for one in weights)):
                raise InvalidInputError(
                    "ShardedData holds labels and weights, and nothing is chosen on it that groups "
                    "could help with; pass nothing else."
                )
            return (clean_shards(X, rules) if rules.cleans_labels else X), (), None
        X, y = as_listed(X), as_listed(y)
        flat, order = is_flat(X), category_order(y)
        if flat:
            X, y = checked_rows(self, X, y, fitting=True)
        elif rules.cleans_labels:
            X, y, *weights, found = clean_samples(X, y, *weights, rules=rules)
            found.warn(rules)
        return MemorySamples(X, y, *weights), FROM_ROWS if flat else (), order

    def _with_order(self, order: np.ndarray | None) -> Self:
        """The same parameters for labels that have an order."""
        if order is None:
            return self
        settings = copy.copy(self)
        settings.loss = as_loss(self.loss).in_order(order)
        return settings

    def _check_partial(self, plan: Plan, given: FitOptions) -> None:
        """Refuse options that labels known in part leave no room for."""
        refused = [name for name in ("engine", "checkpoint") if getattr(given, name) is not None]
        if plan.in_part and refused:
            raise IncompatibleError(
                f"some labels are known in part, and such a fit takes no {refused[0]}; leave "
                f"{refused[0]} out, or give every node a label."
            )

    def _choice(
        self,
        shards: PreparedShards,
        plan: Plan,
        given: FitOptions,
        checkpoints: Checkpoints | None,
    ) -> Choice | None:
        """What held-out samples say about the parameters that are to be chosen."""
        if not self._to_choose:
            return None
        kept = checkpointing.kept_choice(checkpoints, self._objectives)
        if kept is not None:
            return kept
        from robustruct.models.fitting.selection import choose  # takes long to load

        assert isinstance(shards, MemoryShards)  # see `_training_data`
        return choose(self, shards, plan, given.cv, given.max_time, given.target)

    @property
    def _to_choose(self) -> str:
        """The parameters that are chosen on held-out samples, in words."""
        warm = isinstance(getattr(self, "temperature", 0.0), str)
        names = ["temperature"] if warm else []
        if is_search(self.alpha) or (warm and self.alpha is None):
            names.append("alpha")
        if self.decision == "spans":
            names.append("threshold")
        return " and ".join(names)

    @property
    def _objectives(self) -> tuple[str, ...]:
        """Those to choose from."""
        return (self.objective,)

    @property
    def _before_the_choice(self) -> StructuredModel:
        """Parameters that any member of the family can be prepared with, where one is chosen."""
        if not self._to_choose:
            return self
        heat = getattr(self, "temperature", 0.0)
        return self._settings((self.objective, 1.0 if isinstance(heat, str) else heat), None)

    def _settings(self, member: tuple[str, float], alpha: float | None) -> StructuredModel:
        """The same parameters but for the member of the family, (objective, temperature)."""
        settings = copy.copy(self)
        settings.objective, settings.temperature = member
        settings.alpha = alpha
        return settings

    def _learnt(self, shards: PreparedShards, plan: Plan, choice: Choice | None) -> dict[str, Any]:
        """The attributes that the model has before it is trained."""
        problem = shards.local_problem
        learnt = plan.learnt()
        learnt["inference_"] = "relaxed" if problem is not None and problem.relaxed else "exact"
        learnt["decision_"] = usual_decision(plan)
        if problem is not None:
            learnt["likeness_"] = likeness(problem.design, plan.standardization.nodes)
        if choice is not None:
            learnt["decision_"], learnt["trials_"] = choice.best.decision, list(choice.tried)
            learnt["decision_scale_"] = choice.best.scale
            if choice.best.rule is not None:
                learnt["span_rule_"] = choice.best.rule
            if choice.forecast is not None:
                learnt["forecast_"] = choice.forecast
        if self.decision != "auto":
            learnt["decision_"] = self._decision
        if learnt["decision_"] == "spans":
            SpanLabels.of(plan.classes)  # refuses labels that mark none
        return learnt

    def _chosen_optimizer(self, shards: SamplesOutline, plan: Plan) -> Optimizer:
        return chosen(self.optimizer, plan.objective, plan.temperature, self.tol, shards)

    @property
    def alpha_scores_(self) -> dict[float, float]:
        """Score of each alpha that was tried at the temperature chosen."""
        return Choice.of(self.trials_).alpha_scores()

    def _forget(self, kept: Sequence[str]) -> None:
        """Drop what an earlier fit has left, except attributes ``kept``."""
        for name in [name for name in vars(self) if name.endswith("_") and name not in kept]:
            delattr(self, name)

    def _minimise(
        self,
        shards: PreparedShards,
        optimizer: Optimizer,
        progress: Progress,
        start: np.ndarray | None,
        earlier: Any = None,
        stopper: EarlyStopping | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Any:
        """Run the optimizer, which reports to ``progress``; folds of a choice come here too.

        ``start`` are weights as training sees them, ``earlier`` what was returned then: the state
        of the optimizer that a warm start can use.
        """
        outline = shards.outline
        if start is not None:
            progress.theta = start  # what is kept when training is interrupted at once
        if stopper is not None:
            progress.watch, progress.check_every = stopper, 2
        seed, holding = checkpointing.begun(checkpoints, self, progress, stopper)
        try:
            with (
                holding,
                fit_progress(type(self).__name__, self.verbose, self.tol, self.max_iter) as tick,
                one_blas_thread(),
            ):
                progress.tick = tick
                sums = cast(Shards, shards)  # those on workers are not asked for sums here

                def train(on: Any, report: Progress, theta: np.ndarray | None = None) -> None:
                    optimizer.minimise(Task(on, report, self.max_iter, seed, theta))

                local = shards if isinstance(shards, LocalShards) and shards.fills_in else None
                if local is not None:
                    start = first_weights(local, self.tol, train) if start is None else start
                    local.fill_in(start)
                    progress.tol = LOOSE * self.tol
                task = Task(sums, progress, self.max_iter, seed, start, earlier)
                if outline.untrained <= outline.unavoidable:  # as where there is but one label
                    progress.theta = np.zeros(outline.n_weights)
                    progress.report_start()
                else:
                    shards.placed(optimizer).minimise(task)
                if local is not None:
                    progress.values = fill_in(local, progress, self.tol, train)
                return task.kept
        except KeyboardInterrupt:
            progress.interrupted = True
            if not progress.history:
                progress.report_start()
        return None

    def _store(
        self, outline: Outline, plan: Plan, progress: Progress, stopper: EarlyStopping | None
    ) -> None:
        """Keep what training has found."""
        self.n_samples_, self.n_nodes_ = outline.n_samples, outline.n_nodes
        self.status_ = progress.status(self.max_iter)
        if progress.values:
            self.fill_in_values_ = np.array(progress.values) + outline.taken_off
            if self.status_ is Status.CONVERGED:
                self.status_ = Status.LOCAL_OPTIMUM
        self.history_, self.n_iter_ = progress.history, progress.n_iter
        theta, primal = progress.theta, progress.primal
        if stopper is not None and stopper.record is not None and stopper.theta is not None:
            theta, primal = stopper.theta, stopper.record.primal - outline.taken_off
            self.validation_loss_ = stopper.loss
        self.coef_ = plan.weights_for_given(theta)
        self.objective_ = primal + outline.taken_off
        self.duality_gap_ = progress.gap_at(primal)
        if plan.objective == "game" and plan.temperature == 0:
            square = float(theta @ theta)
            self.worst_case_ = {
                "radius": plan.alpha * math.sqrt(square),
                "value": self.objective_ + plan.alpha / 2 * square,
            }

    def _warn(self, progress: Progress, uneven: str | None) -> None:
        status = self.status_
        advice = status.remedy
        if status is Status.INTERRUPTED and not progress.n_iter:
            message = (
                "training was interrupted after 0 certified passes; the weights it began with are "
                f"kept (certified relative gap {self.duality_gap_:.2g})."
            )
        elif status is Status.INTERRUPTED:
            message = (
                f"training was interrupted after {progress.n_iter} certified passes; the best "
                f"model so far is kept (certified relative gap {self.duality_gap_:.2g})."
            )
        elif status in (Status.MAX_ITER, Status.MAX_TIME, Status.STALLED):
            message = (
                f"the certified relative duality gap is {self.duality_gap_:.2g} after "
                f"{progress.n_iter} passes, above tol={self.tol:g}."
            )
            if status is Status.MAX_ITER:
                advice = progress.advice
            if uneven is not None:
                advice = f"{uneven} {advice}"
        else:
            return
        from sklearn.exceptions import ConvergenceWarning  # takes long to load

        text = f"{type(self).__name__}: {message} {advice}"
        warn(text, ConvergenceWarning)

    def _looks(self, X: Any) -> np.ndarray:
        """(S, k) what tells whether samples look like those of training."""
        return looks(self._encode(X)[0])

    def _doubt(self, seen: np.ndarray) -> str | None:
        """Return a sentence if new samples, by their `_looks`, are not like those of training."""
        known = getattr(self, "likeness_", None)
        return None if known is None else known.doubt(seen)

    def _previous_weights(self, plan: Plan) -> np.ndarray | None:
        """Weights of the last fit, if they mean the same."""
        if not hasattr(self, "coef_"):
            return None
        same = np.array_equal(plan.classes, self.classes_)
        return self.coef_ if same and plan.space.state() == self._space.state() else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `robustruct.load` reads.

        The file is in the safetensors format, with a version and a checksum; it holds no code. An
        existing file is replaced only once the new one is complete.

        A ``random_state`` other than an integer is not kept, a loss of your own is kept as its
        cost matrix, an optimizer with options as its name, one of your own as "auto", and a
        function as target not at all.
        """
        from robustruct.models.storage import save

        save(self, path)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a model of chains for programs in which robustruct is not installed.

        ``"tagger.py"`` becomes a module that needs numpy alone, with its weights beside it in
        ``"tagger.npz"``: ``predict`` and, for a CRF, ``predict_proba`` give the answers of this
        model. Decisions are the best labelling or those of least expected cost with the scale that
        was chosen; decision="predictor" solves games, and is refused.

        ``"name.crfsuite"`` becomes a model file of CRFsuite, from attributes with names and labels
        that are text. Its taggers (python-crfsuite and others) predict the best labelling, as this
        model does with decision="map", and `robustruct.load` reads such files. A bias is the
        attribute "(bias)", which each item needs then; the CRF of
        `robustruct.compat.sklearn_crfsuite` has none.

        Parameters
        ----------
        path : str or path-like
            Ends with ".py" or ".crfsuite".
        """
        from robustruct.models.export import export

        export(self, path)

    # --------------------------------------------------------------------------------- scikit-learn

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, copy and skops: without what only a warm start could use.

        The status goes by its name, as skops cannot make members of an Enum.
        """
        kept = {name: value for name, value in vars(self).items() if name != "_warm"}
        return {**kept, "status_": self.status_.name} if "status_" in kept else kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "status_" in state:
            self.status_ = Status[state["status_"]]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
