"""The CRF of sklearn-crfsuite, trained by this library.

The objective is CRFsuite's: the sum of negative log-likelihoods plus c1 times the absolute and c2
times the squared weights, without a bias. Weights exist for all transitions and all pairs of
attributes and labels: CRFsuite with ``all_possible_states=True, all_possible_transitions=True``.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from robustruct.compat.sklearn_crfsuite.metrics import flat_accuracy_score
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.models import CRF as RobustructCRF
from robustruct.models.parameters import LEAST_ALPHA
from robustruct.models.storage import load

_NO_OBJECTIVE = (
    "it minimises nothing that a model could be checked against, and what it finds depends on the "
    "order of the data and on when it is stopped"
)
_ALGORITHMS = {
    "ap": f"{_NO_OBJECTIVE}; use algorithm='lbfgs', or robustruct.SSVM() for a margin",
    "pa": f"{_NO_OBJECTIVE}; its aim, a margin, is that of robustruct.SSVM()",
    "arow": f"{_NO_OBJECTIVE}; use algorithm='lbfgs', or robustruct.SSVM() for a margin",
}
_OTHER = "it belongs to an algorithm that does not exist here; leave it out"
_ADVICE = {
    "pa_type": _OTHER,
    "c": _OTHER,
    "error_sensitive": _OTHER,
    "averaging": _OTHER,
    "variance": _OTHER,
    "gamma": _OTHER,
    "keep_tempfiles": "nothing is kept in temporary files here; use model_filename",
    "trainer_cls": "pass what it should do to robustruct.CRF instead",
}
TOL, TOL_WITH_C1, TOL_WITHOUT_C2 = 1e-8, 1e-7, 1e-6
"""Certified gaps at which training stops: marginals are then as close to those of the optimum as
CRFsuite's are, which stops by other rules, and later without ``c1``. Without ``c2`` rounding can
end the descent at some 1e-7."""


class Tagger:
    """What ``CRF.tagger_`` is: the methods of ``pycrfsuite.Tagger`` that do not open files."""

    def __init__(self, crf: CRF) -> None:
        self._crf = crf
        self._marginals: list[dict[Any, float]] = []

    def labels(self) -> list[Any]:
        """The labels."""
        return self._crf._model().classes_.tolist()

    def tag(self, xseq: Any) -> list[Any]:
        """The best labelling of one sequence."""
        return self._crf.predict_single(xseq)

    def set(self, xseq: Any) -> None:
        """Choose the sequence that `marginal` is about."""
        self._marginals = self._crf.predict_marginals_single(xseq)

    def marginal(self, y: Any, pos: int) -> float:
        """Probability of a label at a position."""
        return self._marginals[pos][y]


class CRF(BaseEstimator):
    """Linear-chain CRF with the parameters, methods and attributes of ``sklearn_crfsuite.CRF``.

    What is not supported raises in ``fit``, with the way to do it here.

    Parameters
    ----------
    algorithm : "lbfgs" or "l2sgd", optional
        Both minimise the same objective, here with ``robustruct.CRF(optimizer="auto")`` to a
        certified gap.
    min_freq : 0, optional
        More is not supported; ``c1`` gets rid of rare attributes that do not help.
    all_possible_states, all_possible_transitions : True, optional
        Always true here, also by default.
    c1 : float, optional
        Strength of the penalty on absolute weights, by default 0.
    c2 : float, optional
        Strength of the penalty on squared weights, by default 1.0.
    max_iterations : int, optional
        By default 1000, and a warning if the certified optimum is not reached by then.
    num_memories, epsilon, period, delta, linesearch, max_linesearch : optional
        No effect: they say how CRFsuite finds the optimum and how close to it.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates : optional
    calibration_max_trials : optional
        No effect, likewise.
    pa_type, c, error_sensitive, averaging, variance, gamma : optional
        Not supported: they belong to the algorithms "pa" and "arow".
    verbose : bool
    model_filename : path, optional
        ``fit`` saves the model there; without ``fit`` it is loaded from there. The file is one of
        ``robustruct.load``; those of CRFsuite cannot be read.
    keep_tempfiles, trainer_cls : optional
        Not supported.

    Attributes
    ----------
    model_ : robustruct.CRF
        The trained model, with everything that this class leaves out: ``save``, ``explain``,
        ``top_features``, ``predict_k_best``, the certified ``duality_gap_``, decisions for a cost
        of your own.
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

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> Self:
        """Train on a list of lists of feature dicts and a list of lists of labels.

        Parameters
        ----------
        X, y : list
            Empty sequences are left out, as CRFsuite does.
        X_dev, y_dev : list, optional
            As in CRFsuite they play no part in training: with ``verbose`` the accuracy on them is
            printed. To stop by them, ``robustruct.CRF().fit(X, y, validation=(X_dev, y_dev))``.
        """
        self._check()
        if (X_dev is None) != (y_dev is None):
            raise IncompatibleError("X_dev and y_dev go together; pass both or neither.")
        pairs = [(list(x), list(labels)) for x, labels in zip(X, y, strict=True) if len(x)]
        n = max(len(pairs), 1)  # ours is a mean of samples, and alpha / 2
        model = RobustructCRF(
            alpha=max(2.0 * (1.0 if self.c2 is None else self.c2) / n, LEAST_ALPHA),
            l1=(self.c1 or 0.0) / n,
            decision="map",
            tol=TOL if not self.c1 else TOL_WITHOUT_C2 if self.c2 == 0 else TOL_WITH_C1,
            max_iter=1000 if self.max_iterations is None else self.max_iterations,
            random_state=0,
            verbose=int(bool(self.verbose)),
        )
        model.bias = False
        with warnings.catch_warnings():
            if self.max_iterations is not None:  # to stop there is what was asked for
                warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_ = model.fit([x for x, _ in pairs], [labels for _, labels in pairs])
        if self.model_filename is not None:
            self.model_.save(self.model_filename)
        if self.verbose and X_dev is not None:
            print(f"accuracy on X_dev: {self.score(X_dev, y_dev):.4f}")
        return self

    def _check(self) -> None:
        """Refuse what would mean something else here than in sklearn-crfsuite."""
        if self.algorithm not in (None, "lbfgs", "l2sgd"):
            reason = _ALGORITHMS.get(self.algorithm, "use algorithm='lbfgs'")
            raise IncompatibleError(f"algorithm={self.algorithm!r} is not supported: {reason}.")
        for name in ("c1", "c2"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise IncompatibleError(f"{name}={value}; penalties are numbers >= 0.")
        if not self.c1 and self.c2 == 0:
            raise IncompatibleError(
                f"c2={self.c2}: without a penalty there is no unique optimum to certify; use a "
                "small one such as c2=1e-4."
            )
        if self.c1 and self.algorithm == "l2sgd":
            raise IncompatibleError(f"c1={self.c1} needs algorithm='lbfgs', as in CRFsuite.")
        if self.min_freq:
            raise IncompatibleError(
                f"min_freq={self.min_freq} is not supported: it counts pairs of attribute and "
                "label, of which all have a weight here; use c1=0.1, which sets most to 0, or "
                "leave rare attributes out of X."
            )
        for name in ("all_possible_states", "all_possible_transitions"):
            if getattr(self, name) is False:
                raise IncompatibleError(
                    f"{name}=False is not supported: weights exist for all pairs; leave it out, "
                    "use c1=0.1 to have few that are not 0, or forbid transitions with "
                    "robustruct.CRF(constraints=[(label, next label), ...])."
                )
        for name, reason in _ADVICE.items():
            value = getattr(self, name)
            if value is not None and value is not False:
                raise IncompatibleError(f"{name}={value!r} is not supported: {reason}.")

    def _known(self) -> RobustructCRF | None:
        """The trained model, loaded from ``model_filename`` if need be; None before a fit."""
        if not hasattr(self, "model_"):
            if self.model_filename is None or not os.path.exists(self.model_filename):
                return None
            try:
                model = load(self.model_filename)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"{error} Models of CRFsuite cannot be read here; train again with fit."
                ) from error
            if not isinstance(model, RobustructCRF):
                raise InvalidInputError(f"{self.model_filename!r} holds no CRF; train with fit.")
            self.model_ = model
        return self.model_

    def _model(self) -> RobustructCRF:
        """The trained model."""
        model = self._known()
        if model is None:
            raise NotFittedError("this CRF is not trained yet; call fit.")
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return self._known() is not None

    # ---------------------------------------------------------------------------------- prediction

    def predict(self, X: Any) -> list[list[Any]]:
        """The best labelling of each sequence, always as a list of lists."""
        return [np.asarray(labels, object).tolist() for labels in self._filled(X, "predict")]

    def predict_single(self, xseq: Any) -> list[Any]:
        """The best labelling of one sequence."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Any) -> list[list[dict[Any, float]]]:
        """For each item of each sequence a dict from label to probability."""
        names = self._model().classes_.tolist()
        return [
            [dict(zip(names, row, strict=True)) for row in rows.tolist()]
            for rows in self._filled(X, "predict_proba")
        ]

    def predict_marginals_single(self, xseq: Any) -> list[dict[Any, float]]:
        """The marginals of one sequence."""
        return self.predict_marginals([xseq])[0]

    def score(self, X: Any, y: Any) -> float:
        """Part of all items whose label is right."""
        return flat_accuracy_score(y, self.predict(X))

    def _filled(self, X: Any, method: str) -> list[Any]:
        """Results of a method of the model; empty sequences have empty ones."""
        model = self._model()
        sequences: Sequence[list[Any]] = [list(x) for x in X]
        filled = [x for x in sequences if x]
        results = iter(getattr(model, method)(filled) if filled else ())
        return [next(results) if x else np.empty(0) for x in sequences]

    # ---------------------------------------------------------------- inspection: None before fit

    @property
    def tagger_(self) -> Tagger | None:
        """What labels one sequence at a time."""
        return None if self._known() is None else Tagger(self)

    @property
    def size_(self) -> int | None:
        """Size of the model's file in bytes."""
        model = self._known()
        if model is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            model.save(path)
            return os.path.getsize(path)

    @property
    def classes_(self) -> list[Any] | None:
        """The labels."""
        model = self._known()
        return None if model is None else model.classes_.tolist()

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes that have a weight other than 0."""
        model = self._known()
        if model is None:
            return None
        return model.get_feature_names_out()[model.node_weights_.any(axis=1)].tolist()

    @property
    def num_attributes_(self) -> int | None:
        """How many attributes have a weight other than 0."""
        names = self.attributes_
        return None if names is None else len(names)

    @property
    def state_features_(self) -> dict[tuple[str, Any], float] | None:
        """Weights that are not 0, by (attribute, label)."""
        model = self._known()
        if model is None:
            return None
        weights, names = model.node_weights_, model.get_feature_names_out()
        rows, columns = weights.nonzero()
        keys = zip(names[rows].tolist(), model.classes_[columns].tolist(), strict=True)
        return dict(zip(keys, weights[rows, columns].tolist(), strict=True))

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float] | None:
        """Weights of transitions that are not 0, by (label, next label)."""
        model = self._known()
        if model is None:
            return None
        rows, columns = model.transitions_.nonzero()
        keys = zip(model.classes_[rows].tolist(), model.classes_[columns].tolist(), strict=True)
        return dict(zip(keys, model.transitions_[rows, columns].tolist(), strict=True))
