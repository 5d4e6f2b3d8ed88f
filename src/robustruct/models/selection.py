"""Choosing alpha on the training data: a path from strong to weak penalty in every fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing

from robustruct.errors import InvalidInputError
from robustruct.losses import CostMatrix, LossLike, as_loss
from robustruct.progress import Pace, progress
from robustruct.status import Status
from robustruct.validation import check_some_weight

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel
    from robustruct.objectives.adversarial import Problem

FIRST = 10.0  # times 1 / n_samples: where the walk of alphas="auto" starts
STEP = 10.0**0.5
PATIENCE = 2  # steps without a clear improvement after which the walk ends
FARTHEST = 14  # steps in either direction: seven orders of magnitude
SHARE_OF_PASSES = 0.5  # of max_iter: a fold is smaller, and starts from the last alpha's weights


@dataclass(frozen=True, eq=False)
class Trial:
    """How the models of all folds did with one alpha, on samples they had not seen."""

    costs: np.ndarray
    """(n,) total cost of each held-out sample."""
    weights: np.ndarray
    """(n,) total weight of its nodes."""
    trusted: bool
    """Whether training reached its tolerance in every fold."""

    @property
    def score(self) -> float:
        """Minus the mean cost per unit of weight."""
        return -float(self.costs.sum() / self.weights.sum())

    def clearly_better(self, other: Trial) -> bool:
        """Whether the scores differ by more than the standard error of their difference.

        Both are about the same samples: the comparison is paired, and samples are its units. A
        trial that is not trusted is worse than any that is.
        """
        if not (self.trusted and other.trusted):
            return self.trusted
        gain = self.score - other.score
        deviations = other.costs - self.costs - gain * self.weights
        n = len(deviations)
        variance = n / max(n - 1, 1) * np.sum(deviations**2)
        return bool(gain > np.sqrt(variance) / self.weights.sum())

    def of(self, samples: np.ndarray) -> Trial:
        """The same for some samples only."""
        return Trial(self.costs[samples], self.weights[samples], self.trusted)


def select_alpha(
    model: StructuredModel,
    problem: Problem,
    classes: np.ndarray,
    X: Any,
    y: Any,
    sample_weight: Any,
    node_weight: Any,
) -> tuple[float, dict[float, float]]:
    """(best alpha, score of each) by cross-validation over ``model.alphas``.

    ``problem`` is that of all samples; its alpha plays no part.
    Each fold goes from the largest alpha to the smallest, starting from the weights before. What
    was not trained to its tolerance is not compared, unless there is nothing else.
    """
    # With its rows named, the cost stays the same in a fold that lacks a label.
    loss = CostMatrix(as_loss(model.loss).matrix(classes), classes)
    splits = list(_splitter(model, len(y)).split(np.arange(len(y))))
    folds = [_Fold(model, loss, (X, y, sample_weight, node_weight), *split) for split in splits]
    trials: dict[float, Trial] = {}
    if isinstance(model.alphas, str):
        total = float(len(y) if sample_weight is None else np.sum(sample_weight))
        baseline = best_constant(loss.matrix(classes), problem, total)
        held_out = np.concatenate([test for _, test in splits])
        steps = walk(FIRST / total, trials, baseline.of(held_out))
    else:
        steps = iter(sorted({float(a) for a in np.ravel(np.asarray(model.alphas))}, reverse=True))
    pace = Pace()
    with progress(f"{type(model).__name__} choosing alpha", bool(model.verbose)) as show:
        for alpha in steps:
            found = []
            for f, fold in enumerate(folds):
                done = (len(trials) + f / len(folds)) / _expected(model, trials)
                show(f"alpha {alpha:.2g}, fold {f + 1} of {len(folds)}", pace.left(done))
                found.append(fold.trial(alpha))
            trials[alpha] = _pooled(found)
    trusted = {alpha: trial for alpha, trial in trials.items() if trial.trusted} or trials
    scores = {alpha: trusted[alpha].score for alpha in sorted(trusted, reverse=True)}
    _warn_of_missed(model, trials)
    return best_alpha(scores), scores


def best_alpha(scores: Mapping[float, float]) -> float:
    """The alpha of the highest score; among equals the strongest: it varies least."""
    return max(scores, key=lambda alpha: (scores[alpha], alpha))


def walk(first: float, trials: Mapping[float, Trial], baseline: Trial) -> Iterator[float]:
    """Penalties to try, given the ``trials`` of those tried so far.

    Down from ``first`` until two steps have brought no clear improvement, or training misses its
    tolerance, as it would for weaker penalties too; up as well if none was clearly better than
    ``first``. While none is clearly better than ``baseline``, the walk goes on: penalties are still
    too strong for anything to be learnt. So the walk passes the best on both sides, however
    features and costs are scaled (unless it lies beyond seven orders of magnitude), and noise does
    not lengthen it.
    """

    def trial(step: int) -> Trial:
        return trials[first / STEP**step]

    yield first
    best = 0  # the step of the last clear improvement
    for direction in (1, -1):
        step = idle = 0
        while idle < PATIENCE and abs(step) < FARTHEST:
            if direction > 0 and not trial(step).trusted:
                break
            step += direction
            yield first / STEP**step
            if trial(step).clearly_better(trial(best)):
                best, idle = step, 0
            elif direction > 0:
                idle += trial(best).clearly_better(baseline)
            else:
                idle += trial(best).trusted
        if best > 0:
            return


def best_constant(matrix: np.ndarray, problem: Problem, total_weight: float) -> Trial:
    """What every sample would cost if all nodes got the one label that is best for all."""
    starts = problem.design.batch.node_offsets[:-1]
    per_sample = problem.share * total_weight
    costs = [
        per_sample * np.add.reduceat(problem.node_weight * of_label[problem.labels], starts)
        for of_label in matrix.T
    ]
    return Trial(
        min(costs, key=np.sum), per_sample * np.add.reduceat(problem.node_weight, starts), True
    )


def _pooled(trials: Sequence[Trial]) -> Trial:
    """The held-out samples of all folds as one trial."""
    weights = np.concatenate([trial.weights for trial in trials])
    check_some_weight(weights.sum(), "weight", "held-out node")
    costs = np.concatenate([trial.costs for trial in trials])
    return Trial(costs, weights, all(trial.trusted for trial in trials))


def _warn_of_missed(model: StructuredModel, trials: Mapping[float, Trial]) -> None:
    """Say which penalties could not be compared: a better one may lie there."""
    missed = [alpha for alpha, trial in trials.items() if not trial.trusted]
    if missed:
        warnings.warn(
            f"{type(model).__name__}: with alpha={max(missed):.2g} training missed tol="
            f"{model.tol:g} within the {_passes(model)} passes that a fold of the cross-validation "
            "may take; it and weaker penalties are not compared. To try them, raise max_iter or "
            "tol, or scale the features alike.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _passes(model: StructuredModel) -> int:
    return int(np.ceil(SHARE_OF_PASSES * model.max_iter))


def _expected(model: StructuredModel, trials: Mapping[float, Trial]) -> int:
    """How many alphas will be tried in the end, as far as one can say now."""
    if isinstance(model.alphas, str):
        return max(6, len(trials) + 1)
    return np.size(np.asarray(model.alphas))


class _Fold:
    """A part to train on, a part to score, and the model that goes down the path."""

    def __init__(
        self,
        model: StructuredModel,
        loss: LossLike,
        values: tuple[Any, ...],
        train: np.ndarray,
        test: np.ndarray,
    ) -> None:
        self.model = clone(model).set_params(
            alphas=None,
            loss=loss,
            verbose=0,
            warm_start=True,
            max_iter=_passes(model),
            checkpoint=None,
        )
        self.train = [_part(value, train) for value in values]
        self.test = [_part(value, test) for value in values]
        self.alpha = np.inf

    def trial(self, alpha: float) -> Trial:
        """Train and look at what is held out; weights of a larger alpha are the start."""
        self.model.set_params(alpha=alpha)
        if alpha > self.alpha:
            self.model.__dict__.pop("coef_")
        self.alpha = alpha
        with warnings.catch_warnings():  # the final fit reports its own convergence
            warnings.simplefilter("ignore", UserWarning)
            self.model.fit(*self.train)
        if self.model.status_ is Status.INTERRUPTED:
            raise KeyboardInterrupt("interrupted while choosing alpha; no model was trained")
        trusted = self.model.duality_gap_ <= self.model.tol
        costs, weights = self.model._sample_costs(*self.test)
        return Trial(costs, weights, trusted)


def _splitter(model: StructuredModel, n_samples: int) -> Any:
    """The folds that ``cv`` asks for."""
    if not isinstance(model.cv, int | np.integer):
        return check_cv(model.cv)
    if not 2 <= model.cv <= n_samples:
        raise InvalidInputError(
            f"{type(model).__name__}: cv={model.cv} folds, but there are {n_samples} samples; "
            f"choose between 2 and {n_samples}, or pass a scikit-learn splitter."
        )
    return KFold(int(model.cv), shuffle=True, random_state=model.random_state)


def _part(values: Any, indices: np.ndarray) -> Any:
    return None if values is None else _safe_indexing(values, indices)
