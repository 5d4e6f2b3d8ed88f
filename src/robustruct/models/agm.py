"""The adversarial graphical model."""

from __future__ import annotations

import numpy as np

from robustruct.errors import IncompatibleError
from robustruct.models.base import StructuredModel
from robustruct.training.dual_blocks import DualBlocks
from robustruct.training.fit import Progress
from robustruct.training.pairwise import PairwiseAscent, fit_pairwise
from robustruct.training.problem import Problem
from robustruct.training.site import Site, Sites


def train_pairwise(
    model: StructuredModel, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
) -> None:
    """Pairwise ascent with the model's options; AGM and SSVM differ only in the problem."""
    if isinstance(sites, Site) and sites.first.problem.relaxed:
        from robustruct.training.relaxed import RelaxedAscent

        ascent: PairwiseAscent = RelaxedAscent(sites.first.problem, centre=start)
    else:
        ascent = PairwiseAscent(sites, centre=start)
    last: DualBlocks | None = model.__dict__.pop("_last_blocks", None)
    if isinstance(ascent.sites, Site):
        blocks = ascent.sites.first.blocks
        assert isinstance(blocks, DualBlocks)
        if start is not None and last is not None and _same_games(blocks.problem, last.problem):
            _resume(ascent, blocks, last)
        if model.warm_start:
            model._last_blocks = blocks
    fit_pairwise(ascent, progress, model.max_iter, seed)


def train_natural(
    model: StructuredModel, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
) -> None:
    """Dual ascent in natural parameters, for temperatures above 0; CRFs too."""
    from robustruct.training.natural import natural_ascent

    fit_pairwise(natural_ascent(sites, start), progress, model.max_iter, seed)


def _same_games(problem: Problem, last: Problem) -> bool:
    """Whether the adversary may play in one problem what it played in the other."""
    a, b = problem.design.batch, last.design.batch
    return (
        problem.truth_is_predictor == last.truth_is_predictor
        and np.array_equal(a.node_offsets, b.node_offsets)
        and np.array_equal(a.child, b.child)
        and np.array_equal(a.parent, b.parent)
        and np.array_equal(a.flipped, b.flipped)
        and np.array_equal(problem.labels, last.labels)
        and np.array_equal(problem.constraints.pairs, last.constraints.pairs)
        and np.array_equal(problem.constraints.unary_masks(), last.constraints.unary_masks())
    )


def _resume(ascent: PairwiseAscent, blocks: DualBlocks, last: DualBlocks) -> None:
    """Go on from the strategies of an earlier fit: weights alone would say little to the dual."""
    blocks.q, blocks.p0 = last.q, last.p0
    ascent.follow()


class AGM(StructuredModel):
    """Adversarial graphical model: trained for your cost of mistakes, and Fisher consistent.

    Training is a game. The predictor minimises the expected cost against an adversary that may
    choose any labels whose statistics match the training data.

    Parameters
    ----------
    loss : "hamming", "absolute", "squared", (k, k) array or Loss, default="hamming"
        What a mistake costs; see `robustruct.losses`.
    alpha : float, optional
        Strength of the penalty ``(alpha / 2) |weights|²``; by default 1 / n_samples (with
        ``sample_weight``, 1 / its sum).
    optimizer : "auto", "pairwise", "natural" or "subgradient"
        "pairwise" (what "auto" picks at temperature 0) ascends the dual sample by sample with a
        certificate, and so does "natural" (what it picks above) in the adversary's natural
        parameters; "subgradient" is the stochastic method of the paper, with exact games.
    tol : float
        Relative duality gap at which training stops.
    max_iter : int
        Most passes over the data.
    decision : "map", "predictor" or "bayes"
        Predict the best-scoring labelling, or the likeliest label of the predictor's strategy, or
        (temperatures above 0) the label of least expected cost under the Gibbs distribution of the
        scores.
    temperature : float, default=0
        Weight of the log loss beside the cost: the predictor is judged by its cost plus
        ``temperature`` times the log loss of a forecast, in units of a mean mistake. 0 is the
        paper's model, inf a CRF with the cost in the decision only; in between the objective is
        smooth, the adversary is unique, and its strategy estimates P(y | x).
    class_weight : dict or "balanced", optional
        Factor on the cost of mistakes where a label is true; "balanced" makes it inverse to the
        label's frequency.
    forbidden : list of (label, next label), optional
        Transitions that may not be predicted.
    constraints : "BIO" or "BIOES", optional
        Tagging scheme whose rules must hold.
    inference : "auto", "exact" or "relaxed"
        "exact" goes over the cliques of a graph with cycles, at a cost that grows as k^(w + 1) with
        its treewidth w. "relaxed" lets the adversary play edge marginals that agree on every node
        but need not belong to one distribution over labellings: any graph will do, and the gap
        reported is that of the relaxed problem. "auto" relaxes only where tables would not fit into
        memory. Chains, trees and forests are always exact.
    engine : DaskEngine, optional
        Train on the workers of a cluster (`robustruct.distributed`); by default here, with
        ``n_jobs`` threads.
    alphas : "auto" or sequence of float, optional
        Choose alpha by ``cv``-fold cross-validation on the training data: among those listed, or
        with "auto" from 10 / n_samples downwards (or upwards) until the score stops improving by
        more than its noise. Folds may take half of ``max_iter``, and an alpha that misses ``tol``
        in one of them is not chosen.
    cv : int or scikit-learn splitter
    patience : int
        Evaluations without improvement before ``fit(..., validation=...)`` stops.
    n_jobs : int, optional
        Threads; None is one, -1 all cores.
    random_state : int or RandomState, optional
        Order of the samples; equal seeds give equal models.
    warm_start : bool
        Start from the weights of the last fit.
    checkpoint : path of a folder, optional
        Keep the state of training there, in files that each hold all of it; the last two stay. A
        folder that holds checkpoints already is refused unless ``resume`` is set.
    checkpoint_every : int or str, default="60s"
        Passes between checkpoints, or time as "30s", "10min" or "2h".
    resume : bool
        Go on from the newest checkpoint in the folder that is not damaged, on the same path as if
        training had never been stopped; begin anew where there is none. Samples and parameters must
        be the same, except that ``tol``, ``max_iter``, ``checkpoint_every``, ``n_jobs`` and
        ``verbose`` may differ.
    verbose : int
        1 shows progress with the gap.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
    coef_ : ndarray
        All weights, node features first.
    node_weights_ : ndarray of shape (n_features, k)
        View of ``coef_``; ``get_feature_names_out()`` names the rows. See also ``top_features``.
    edge_weights_ : ndarray of shape (n_edge_features, k, k)
        View of ``coef_``, [feature, label, next label].
    transitions_ : ndarray of shape (k, k)
        Its last row: the weight of [label, next label] on every edge.
    cost_ : ndarray of shape (k, k)
        Costs [predicted, true] in the order of ``classes_``, class weights included.
    temperature_ : float
        ``temperature`` in the units of the cost, T: times the mean weight of a node and the mean
        cost of a mistake. 1 at infinity, where there is no cost in training.
    type_labels_ : dict
        With ``node_types``: the labels that nodes of each type may get.
    duality_gap_ : float
        Certified relative gap of the weights.
    inference_ : "exact" or "relaxed"
        Which problem was solved, hence what the gap is about.
    history_ : list of Record
        Pass, time, primal, dual and gap of every certificate.
    n_iter_ : int
    n_samples_, n_nodes_ : int
        How many it was trained on.
    alpha_ : float
        The penalty used.
    alpha_scores_ : dict
        With ``alphas``: score of each on all held-out samples, without those that missed ``tol``.
    validation_loss_ : float
        With ``validation``: the loss of the weights kept.
    input_ : dict
        After a fit from files: their format, so that ``robustruct predict`` reads alike.

    Examples
    --------
    >>> from robustruct import AGM
    >>> X = [[{"w": "the"}, {"w": "cat"}], [{"w": "a"}, {"w": "dog"}]]
    >>> y = [["D", "N"], ["D", "N"]]
    >>> model = AGM(alpha=0.1, random_state=0).fit(X, y)
    >>> model.predict([[{"w": "a"}, {"w": "cat"}]])
    [array(['D', 'N'], dtype='<U1')]
    """

    _optimizers = ("auto", "pairwise", "natural", "subgradient")

    def _minimise(
        self, sites: Sites, progress: Progress, start: np.ndarray | None, seed: int
    ) -> None:
        if self._chosen_optimizer(sites) == "natural":
            train_natural(self, sites, progress, start, seed)
            return
        if self.optimizer != "subgradient":
            train_pairwise(self, sites, progress, start, seed)
            return
        if not isinstance(sites, Site):
            raise IncompatibleError(
                "the subgradient method works on the data of one machine; use "
                "optimizer='pairwise' with an engine."
            )
        if sites.first.problem.relaxed:
            raise IncompatibleError(
                "the subgradient method needs exact games; use optimizer='pairwise' with "
                "inference='relaxed'."
            )
        from robustruct.training.subgradient import fit_subgradient

        fit_subgradient(sites.first.problem, progress, self.max_iter, seed, start)
