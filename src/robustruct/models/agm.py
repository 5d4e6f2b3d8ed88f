"""The adversarial graphical model."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from robustruct.models.base import StructuredModel
from robustruct.training.fit import Progress
from robustruct.training.pairwise import PairwiseAscent, fit_pairwise
from robustruct.training.problem import Problem


def train_pairwise(
    model: StructuredModel, problem: Problem, progress: Progress, start: np.ndarray | None
) -> None:
    """Pairwise ascent with the model's options; AGM and SSVM differ only in the problem."""
    seed = check_random_state(model.random_state).randint(2**31)
    ascent = PairwiseAscent(problem, centre=start)
    fit_pairwise(problem, progress, model.max_iter, np.random.default_rng(seed), ascent)


class AGM(StructuredModel):
    """Adversarial graphical model: trained for your cost of mistakes, and Fisher consistent.

    Training is a game. The predictor minimises the expected cost against an adversary that may choose
    any labels whose statistics match the training data.

    Parameters
    ----------
    loss : "hamming", "absolute", "squared", (k, k) array or Loss, default="hamming"
        What a mistake costs; see `robustruct.losses`.
    alpha : float, optional
        Strength of the penalty (alpha / 2) |weights|²; 1 / n_samples by default.
    optimizer : "auto", "pairwise" or "subgradient"
        "pairwise" (what "auto" picks) ascends the dual sample by sample with a certificate;
        "subgradient" is the stochastic method of the paper, with exact games.
    tol : float
        Relative duality gap at which training stops.
    max_iter : int
        Most passes over the data.
    decision : "map" or "predictor"
        Predict the best-scoring labelling, or the likeliest label of the predictor's strategy.
    class_weight : dict, optional
        Factor on the cost of mistakes where a label is true.
    forbidden : list of (label, next label), optional
        Transitions that may not be predicted.
    constraints : "BIO" or "BIOES", optional
        Tagging scheme whose rules must hold.
    alphas : sequence of float, optional
        Choose alpha among these by ``cv``-fold cross-validation on the training data.
    cv : int
    patience : int
        Evaluations without improvement before ``fit(..., validation=...)`` stops.
    n_jobs : int, optional
        Threads; None is one, -1 all cores.
    random_state : int or RandomState, optional
        Order of the samples; equal seeds give equal models.
    warm_start : bool
        Start from the weights of the last fit.
    verbose : int
        1 shows progress with the gap.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
    coef_ : ndarray
        All weights, node features first; see ``weights_`` for named parts.
    duality_gap_ : float
        Certified relative gap of the weights.
    history_ : list of Record
        Pass, time, primal, dual and gap of every certificate.
    n_iter_ : int
    alpha_ : float
        The penalty used.

    Examples
    --------
    >>> from robustruct import AGM
    >>> X = [[{"w": "the"}, {"w": "cat"}], [{"w": "a"}, {"w": "dog"}]]
    >>> y = [["D", "N"], ["D", "N"]]
    >>> model = AGM(alpha=0.1, random_state=0).fit(X, y)
    >>> model.predict([[{"w": "a"}, {"w": "cat"}]])
    [array(['D', 'N'], dtype='<U1')]
    """

    _optimizers = ("auto", "pairwise", "subgradient")

    def _minimise(self, problem: Problem, progress: Progress, start: np.ndarray | None) -> None:
        if self.optimizer == "subgradient":
            from robustruct.training.subgradient import fit_subgradient

            seed = check_random_state(self.random_state).randint(2**31)
            fit_subgradient(problem, progress, self.max_iter, np.random.default_rng(seed), start)
        else:
            train_pairwise(self, problem, progress, start)
