"""The CRF of sklearn-crfsuite, trained by this library.

    from robustruct.compat.sklearn_crfsuite import CRF      # was: from sklearn_crfsuite import CRF

The objective is CRFsuite's: the sum of negative log-likelihoods plus c2 times the squared norm of
the weights, without a bias. Weights exist for all pairs of attributes and labels and for all
transitions, as in CRFsuite with ``all_possible_states=True, all_possible_transitions=True``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from robustruct.errors import IncompatibleError
from robustruct.models import CRF as RobustructCRF

_ALGORITHMS = {
    "l2sgd": "it minimises the same objective as 'lbfgs'; use algorithm='lbfgs'",
    "ap": "a perceptron has no penalty and no objective to certify; use robustruct.SSVM(), or "
    "robustruct.AGM() for a cost of your own",
    "pa": "its aim, a margin, is that of robustruct.SSVM(); use that, or robustruct.AGM()",
    "arow": "use robustruct.SSVM(), or robustruct.AGM() for a cost of your own",
}
_STOPPING = (
    "training stops at a certified gap to the optimum; use robustruct.CRF(tol=...) to set it"
)
_LBFGS = "L-BFGS is scipy's here and has no such option; leave it out"
_OTHER = "it belongs to an algorithm that does not exist here; leave it out"
_FILES = (
    "nothing is kept in temporary files here; use crf.model_.save(path) and robustruct.load(path)"
)
_ADVICE = {
    "epsilon": _STOPPING,
    "delta": _STOPPING,
    "period": _STOPPING,
    "num_memories": _LBFGS,
    "linesearch": _LBFGS,
    "max_linesearch": _LBFGS,
    "calibration_eta": _OTHER,
    "calibration_rate": _OTHER,
    "calibration_samples": _OTHER,
    "calibration_candidates": _OTHER,
    "calibration_max_trials": _OTHER,
    "pa_type": _OTHER,
    "c": _OTHER,
    "error_sensitive": _OTHER,
    "averaging": _OTHER,
    "variance": _OTHER,
    "gamma": _OTHER,
    "model_filename": _FILES,
    "keep_tempfiles": _FILES,
    "trainer_cls": "pass what it should do to robustruct.CRF instead",
}


class CRF(BaseEstimator):
    """Linear-chain CRF with the parameters, methods and attributes of ``sklearn_crfsuite.CRF``.

    What is not supported raises in ``fit``, with the way to do it here.

    Parameters
    ----------
    algorithm : "lbfgs", optional
    min_freq : 0, optional
    all_possible_states, all_possible_transitions : True, optional
        Always true here, also by default.
    c1 : 0, optional
    c2 : float, optional
        Strength of the penalty, by default 1.0.
    max_iterations : int, optional
        By default 1000; stopping earlier than the certified optimum is a warning.
    num_memories, epsilon, period, delta, linesearch, max_linesearch : optional
        Not supported.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates : optional
        Not supported.
    calibration_max_trials, pa_type, c, error_sensitive, averaging, variance, gamma : optional
        Not supported.
    verbose : bool
    model_filename, keep_tempfiles, trainer_cls : optional
        Not supported.

    Attributes
    ----------
    model_ : robustruct.CRF
        The trained model, with everything that this class leaves out: ``save``, ``explain``,
        ``predict_k_best``, the certified ``duality_gap_``, decisions for a cost of your own.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> CRF:
        """Train on a list of lists of feature dicts and a list of lists of labels.

        Parameters
        ----------
        X, y : list
            Empty sequences are left out, as CRFsuite does.
        X_dev, y_dev : None
            Not supported: score them after training, or stop by them with
            ``robustruct.CRF().fit(X, y, validation=(X_dev, y_dev))``.
        """
        self._check()
        if X_dev is not None or y_dev is not None:
            raise IncompatibleError(
                "X_dev and y_dev only make CRFsuite print scores; call crf.score(X_dev, y_dev) "
                "after training, or stop by them with robustruct.CRF().fit(X, y, "
                "validation=(X_dev, y_dev))."
            )
        pairs = [(list(x), list(labels)) for x, labels in zip(X, y, strict=True) if len(x)]
        strength = 1.0 if self.c2 is None else self.c2
        model = RobustructCRF(
            alpha=2.0 * strength / max(len(pairs), 1),  # ours is alpha / 2, and a mean of samples
            decision="map",
            tol=1e-5,
            max_iter=1000 if self.max_iterations is None else self.max_iterations,
            verbose=int(bool(self.verbose)),
        )
        model.bias = False
        self.model_ = model.fit([x for x, _ in pairs], [labels for _, labels in pairs])
        return self

    def _check(self) -> None:
        """Refuse what would mean something else here than in sklearn-crfsuite."""
        if self.algorithm not in (None, "lbfgs"):
            reason = _ALGORITHMS.get(self.algorithm, "use algorithm='lbfgs'")
            raise IncompatibleError(f"algorithm={self.algorithm!r} is not supported: {reason}.")
        if self.c1:
            raise IncompatibleError(
                f"c1={self.c1}: a penalty on absolute weights (L1) is not supported; use c2, and "
                "drop rare attributes yourself to get a small model."
            )
        if self.c2 is not None and not self.c2 > 0:
            raise IncompatibleError(
                f"c2={self.c2}: without a penalty there is no unique optimum to certify; use a "
                "small one such as c2=1e-4."
            )
        if self.min_freq:
            raise IncompatibleError(
                f"min_freq={self.min_freq} is not supported; leave rare attributes out of X."
            )
        for name in ("all_possible_states", "all_possible_transitions"):
            if getattr(self, name) is False:
                raise IncompatibleError(
                    f"{name}=False is not supported: weights exist for all pairs; leave it out, "
                    "or forbid transitions with robustruct.CRF(forbidden=[...])."
                )
        for name, reason in _ADVICE.items():
            value = getattr(self, name)
            if value is not None and value is not False:
                raise IncompatibleError(f"{name}={value!r} is not supported: {reason}.")

    # ---------------------------------------------------------------------------------- prediction

    def predict(self, X: Any) -> list[list[Any]]:
        """The best labelling of each sequence, always as a list of lists."""
        return [labels.tolist() for labels in self._filled(X, "predict")]

    def predict_single(self, xseq: Any) -> list[Any]:
        """The best labelling of one sequence."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Any) -> list[list[dict[Any, float]]]:
        """For each item of each sequence a dict from label to probability."""
        names = self.classes_
        return [
            [dict(zip(names, row, strict=True)) for row in rows.tolist()]
            for rows in self._filled(X, "predict_proba")
        ]

    def predict_marginals_single(self, xseq: Any) -> list[dict[Any, float]]:
        """The marginals of one sequence."""
        return self.predict_marginals([xseq])[0]

    def score(self, X: Any, y: Any) -> float:
        """Part of all items whose label is right."""
        right = total = 0
        for found, true in zip(self.predict(X), y, strict=True):
            right += sum(a == b for a, b in zip(found, true, strict=True))
            total += len(found)
        return right / total

    def _filled(self, X: Any, method: str) -> list[Any]:
        """Results of a method of the model; empty sequences have empty ones."""
        import numpy as np

        check_is_fitted(self, "model_")
        sequences: Sequence[list[Any]] = [list(x) for x in X]
        filled = [x for x in sequences if x]
        results = iter(getattr(self.model_, method)(filled) if filled else ())
        return [next(results) if x else np.empty(0) for x in sequences]

    # ---------------------------------------------------------------------------------- inspection

    @property
    def classes_(self) -> list[Any]:
        """The labels."""
        check_is_fitted(self, "model_")
        return self.model_.classes_.tolist()

    @property
    def attributes_(self) -> list[str]:
        """The attributes seen in training."""
        check_is_fitted(self, "model_")
        return self.model_.get_feature_names_out().tolist()

    @property
    def num_attributes_(self) -> int:
        """How many attributes were seen in training."""
        return len(self.attributes_)

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """Weights that are not zero, by (attribute, label)."""
        names, labels = self.attributes_, self.classes_
        return {
            (name, label): weight
            for name, row in zip(names, self.model_.node_weights_.tolist(), strict=True)
            for label, weight in zip(labels, row, strict=True)
            if weight
        }

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights of transitions, by (label, next label)."""
        labels, weights = self.classes_, self.model_.transitions_.tolist()
        return {(a, b): weights[i][j] for i, a in enumerate(labels) for j, b in enumerate(labels)}
