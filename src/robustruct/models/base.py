"""What AGM, CRF and SSVM share: data in, labels out, and the way a fit is reported."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from robustruct.constraints import Constraints
from robustruct.errors import InvalidInputError
from robustruct.features import Design, FeatureSpace, scores
from robustruct.game.game import Game, Play
from robustruct.game.solve import solve_batch
from robustruct.inference import best_labelling, k_best, score_of
from robustruct.losses import LossLike, as_loss, class_weighted, sorted_labels
from robustruct.metrics import mean_loss
from robustruct.models import data
from robustruct.models.early_stopping import EarlyStopping
from robustruct.models.parameters import check_parameters
from robustruct.models.progress import display
from robustruct.models.selection import select_alpha
from robustruct.scores import Scores
from robustruct.training.fit import Progress
from robustruct.training.problem import Problem

GAME_TOL = 1e-6


class StructuredModel(BaseEstimator):
    """A linear model of labels on the nodes of graphs, trained for a cost of mistakes."""

    _decisions: tuple[str, ...] = ("map", "predictor")
    _optimizers: tuple[str, ...] = ("auto", "pairwise")

    # Subclasses with other defaults repeat this signature: scikit-learn reads the parameters off it.
    def __init__(
        self,
        loss: LossLike = "hamming",
        *,
        alpha: float | None = None,
        optimizer: str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        decision: str = "map",
        class_weight: Mapping[Any, float] | None = None,
        forbidden: Iterable[tuple[Any, Any]] | None = None,
        constraints: str | None = None,
        alphas: Sequence[float] | None = None,
        cv: int = 5,
        patience: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.optimizer = optimizer
        self.tol = tol
        self.max_iter = max_iter
        self.decision = decision
        self.class_weight = class_weight
        self.forbidden = forbidden
        self.constraints = constraints
        self.alphas = alphas
        self.cv = cv
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    # ------------------------------------------------------------------ what a subclass supplies

    def _minimise(self, problem: Problem, progress: Progress, start: np.ndarray | None) -> None:
        """Minimise the objective from ``start``, reporting certificates to ``progress``."""
        raise TypeError(f"{type(self).__name__} cannot be trained; use AGM, CRF or SSVM.")

    def _problem_cost(self, cost: np.ndarray) -> tuple[np.ndarray, bool]:
        """The cost matrix of the training problem, and whether the truth is its predictor."""
        return cost, False

    # ------------------------------------------------------------------------------------ training

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        node_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
    ) -> StructuredModel:
        """Train on samples X with the labels y of their nodes.

        Parameters
        ----------
        X : list of samples, or 2-D array
            A sample is a chain, given as an (n, d) array, a sparse matrix or a list of feature dicts
            or string lists, or a `Graph`. The rows of a 2-D array are samples of one node.
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
        flat = data.is_flat(X)
        if flat:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        else:
            self.__dict__.pop("n_features_in_", None)
        space, design = FeatureSpace.fit(X)
        arrays = data.label_arrays(y, design.batch, flat)
        classes, labels = data.encoded(arrays, design.batch)
        loss_matrix = np.ascontiguousarray(as_loss(self.loss).matrix(classes))
        cost = class_weighted(loss_matrix, classes, self.class_weight)
        rules = Constraints.build(classes, self.forbidden, self.constraints)
        rules.check_truth(design, labels, classes)
        training_cost, truth_is_predictor = self._problem_cost(cost)
        problem = Problem(
            design,
            labels,
            training_cost,
            data.node_weights(node_weight, design.batch, flat),
            data.sample_shares(sample_weight, design.batch.n_samples),
            1.0 / design.batch.n_samples if self.alpha is None else float(self.alpha),
            rules,
            truth_is_predictor,
            self.n_jobs,
        )
        start = self._previous_weights(space, classes)
        self._space, self.classes_, self.cost_, self._rules = space, classes, cost, rules
        if self.alphas is not None:
            self.alpha_, self.alpha_scores_ = select_alpha(self, X, y, sample_weight, node_weight)
        else:
            self.alpha_ = problem.alpha
        self._run(problem.with_alpha(self.alpha_), start, validation)
        return self

    def _run(
        self, problem: Problem, start: np.ndarray | None, validation: tuple[Any, Any] | None
    ) -> None:
        progress = Progress(problem, self.tol)
        stopper = None
        if validation is not None:
            stopper = EarlyStopping(self, *validation)
            progress.watch, progress.check_every = stopper, 2
        try:
            with display(self.verbose, type(self).__name__, self.max_iter, self.tol) as progress.tick:
                self._minimise(problem, progress, start)
        except KeyboardInterrupt:
            progress.interrupted = True
        self.coef_ = progress.theta if stopper is None else stopper.theta
        self.history_ = progress.history
        self.n_iter_ = progress.n_iter
        self.objective_ = progress.primal
        self.duality_gap_ = progress.gap
        self._warn(progress)

    def _warn(self, progress: Progress) -> None:
        name = type(self).__name__
        if progress.interrupted:
            warnings.warn(
                f"{name}: training was interrupted after {progress.n_iter} passes; the best model so far "
                f"is kept (certified relative gap {progress.gap:.2g}).",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not progress.converged and not progress.stopped:
            warnings.warn(
                f"{name}: the certified relative duality gap is {progress.gap:.2g} after "
                f"{progress.n_iter} passes, above tol={self.tol:g}. Raise max_iter or tol, or use a larger "
                "alpha (stronger regularisation converges faster).",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _previous_weights(self, space: FeatureSpace, classes: np.ndarray) -> np.ndarray | None:
        """Weights of the last fit, if warm starts are wanted and they mean the same."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        same = np.array_equal(classes, self.classes_) and space.state() == self._space.state()
        return self.coef_ if same else None

    # ---------------------------------------------------------------------------------- prediction

    def _encode(self, X: Any) -> tuple[Design, bool]:
        check_is_fitted(self, "coef_")
        flat = data.is_flat(X)
        if flat and hasattr(self, "n_features_in_"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._space.encode(X), flat

    def _scores(self, design: Design, theta: np.ndarray | None = None) -> Scores:
        weights = self.coef_ if theta is None else theta
        plain = scores(design, weights, len(self.classes_), self.n_jobs)
        return self._rules.apply(plain, design)

    def _decide(self, found: Scores) -> np.ndarray:
        """(N,) label codes by ``decision``, in the order of the batch."""
        if self.decision == "map":
            return best_labelling(found, self.n_jobs)[0]
        return np.argmax(self._probabilities(found), axis=1)

    def _games(self, found: Scores) -> list[tuple[Game, Play]]:
        """The games behind the scores, solved; in parts, as edge marginals take much room."""
        k = len(self.classes_)
        solved = []
        for first, last in data.chunks(found.batch, k * k):
            part = found.part(first, last)
            game = Game(part, self.cost_, np.ones(part.batch.n_nodes))
            solved.append((game, solve_batch(game, "auto", GAME_TOL, n_jobs=self.n_jobs)))
        return solved

    def _probabilities(self, found: Scores) -> np.ndarray:
        return np.concatenate([play.p for _, play in self._games(found)])

    def _risks(self, found: Scores) -> np.ndarray:
        parts = []
        for game, play in self._games(found):
            expected = np.einsum("ia,ab,ib->i", play.p, game.cost, play.r)
            parts.append(np.add.reduceat(expected, game.scores.batch.node_offsets[:-1]))
        return np.concatenate(parts)

    def predict(self, X: Any) -> Any:
        """Labels of every node: a list with one array per sample (one array for a 2-D X)."""
        design, flat = self._encode(X)
        return data.in_user_form(self.classes_[self._decide(self._scores(design))], design.batch, flat)

    def predict_proba(self, X: Any) -> Any:
        """Distribution over ``classes_`` on every node: a list of (n_nodes, n_labels) arrays.

        It is the strategy of the predictor in the game (for a CRF, the marginals).
        """
        design, flat = self._encode(X)
        return data.in_user_form(self._probabilities(self._scores(design)), design.batch, flat)

    def predict_risk(self, X: Any) -> np.ndarray:
        """(n_samples,) expected cost of each sample when predictor and adversary both play their best.

        For a CRF, the expected cost of its Bayes decision under its own marginals.
        """
        design, _ = self._encode(X)
        return self._risks(self._scores(design))

    def predict_k_best(self, X: Any, k: int = 3) -> list[list[tuple[np.ndarray, float]]]:
        """For each sample its ``k`` best labellings as (labels, score), best first."""
        if k < 1:
            raise InvalidInputError(f"k = {k}; ask for at least one labelling.")
        design, _ = self._encode(X)
        found = self._scores(design)
        batch = design.batch
        results = []
        for s, (codes, values) in enumerate(k_best(found, k)):
            lo, hi = batch.node_offsets[s], batch.node_offsets[s + 1]
            labels = np.empty_like(codes)
            labels[:, batch.node_of[lo:hi] - lo] = codes
            results.append(
                [(self.classes_[row], float(value)) for row, value in zip(labels, values, strict=True)]
            )
        return results

    def decision_function(self, X: Any) -> Any:
        """Score of every label on every node, without its neighbours: a list of (n_nodes, n_labels)."""
        design, flat = self._encode(X)
        return data.in_user_form(self._scores(design).unary, design.batch, flat)

    def log_score(self, X: Any, y: Any) -> np.ndarray:
        """(n_samples,) score of the given labellings, transitions included."""
        design, flat = self._encode(X)
        arrays = data.label_arrays(y, design.batch, flat)
        codes = data.codes_of(arrays, self.classes_, design.batch)
        return score_of(self._scores(design), codes)

    def score(self, X: Any, y: Any, sample_weight: Any = None, node_weight: Any = None) -> float:
        """Minus the mean loss per node of ``predict(X)``: larger is better."""
        predicted = self.predict(X)
        flat = data.is_flat(X)
        if flat:
            predicted, y = [[label] for label in predicted], [[label] for label in y]
            node_weight = None if node_weight is None else [[weight] for weight in node_weight]
        if sample_weight is not None:
            ones = [np.ones(len(labels)) for labels in y] if node_weight is None else node_weight
            node_weight = [np.asarray(w) * s for w, s in zip(ones, sample_weight, strict=True)]
        known = sorted_labels([self.classes_, *(data.as_labels(labels) for labels in y)])
        return -mean_loss(y, predicted, as_loss(self.loss), node_weight, classes=known)

    # --------------------------------------------------------------------------------- scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
