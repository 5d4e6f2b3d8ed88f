"""The adversarial graphical model."""

from __future__ import annotations

from robustruct.models.base import StructuredModel
from robustruct.models.parameters import OptimizerFor, with_choices


class AGM(StructuredModel):
    """Adversarial graphical model: trained for your cost of mistakes, and Fisher consistent.

    Training is a game. The predictor minimises the expected cost against an adversary that may
    choose any labels whose statistics match the training data.

    Parameters
    ----------
    loss : "hamming", "absolute", "squared", (k, k) array, dict or Loss, default="hamming"
        What a mistake costs; see `robustruct.losses`. "absolute" and "squared" are for numbers and
        ordered Categoricals of pandas; other labels need ``Absolute(order=[...])``. Of an array,
        rows: true label, columns: predicted label; of a dict, ``{(true label, predicted label):
        cost}``, others cost 1.
    alpha : float, "auto" or sequence of float, optional
        Strength of the penalty ``(alpha / 2) |weights|²``, from 1e-30 to 1e30; by default
        1 / n_samples (with ``sample_weight``, 1 / its sum), divided by what the dearest mistake
        costs on a node of mean weight: all costs doubled give the same answers. A sequence is
        chosen from on held-out training samples (``cv`` of `fit`), and so is "auto", from that
        default on while stronger penalties cost less, or weaker ones clearly less. Of equal scores
        the strongest penalty is taken. Trials are trained to a gap of ``tol`` or 3 %, whichever is
        larger, in at most half of ``max_iter`` passes; one that misses it is not chosen.
    temperature : float or "auto", default=0
        Weight of the log loss beside the cost: the predictor is judged by its cost plus
        ``temperature`` times the log loss of a forecast, in units of a mean mistake. 0 is the
        paper's model, inf a CRF with the cost in the decision only; in between the objective is
        smooth, the adversary is unique, and its strategy estimates P(y | x). "auto" chooses it on
        held-out samples, with alpha unless that is given.
    optimizer : "auto", "dual_ascent", "natural_ascent", "subgradient" or Optimizer
        "dual_ascent" (what "auto" picks at temperature 0) ascends the dual sample by sample with a
        certificate, and so does "natural_ascent" (what it picks above) in the adversary's natural
        parameters; "subgradient" is the stochastic method of the paper. A
        `robustruct.optimizers.Subgradient` has its options: which solver plays the games, such as
        the paper's "dual_decomposition", AdaGrad or SGD, samples per step; any other
        `robustruct.optimizers.optimizer.Optimizer` of the same objective may be passed as well.
    tol : float
        Relative duality gap at which training stops.
    max_iter : int
        Most passes over the data.
    decision : "auto", "map", "predictor", "bayes", "spans" or SpanCost, default="auto"
        "map" predicts the best-scoring labelling, "predictor" the likeliest label of the
        predictor's strategy on each node. Under rules "predictor" takes, of the labellings that
        keep them, the one that agrees most with the strategy: the sum over nodes, by weight, of
        p(label), less the label's regret against the adversary where the predictor would not play
        it. (The product of p would be 0 for all of them as soon as two neighbours' likeliest labels
        exclude each other.) "bayes", for temperatures above 0, takes the label of least expected
        cost under the Gibbs distribution of the scores. "auto" takes what costs least on held-out
        samples, where ``alpha`` or ``temperature`` are chosen by these; else "predictor", but at
        temperature 0 "map" for symmetric costs, and at temperature inf "bayes". (For an SSVM it is
        "map" at temperature 0 and "bayes" above.) By spans, such as entities, for labels of a
        tagging scheme on chains at temperatures above 0: "spans" predicts those of at least a
        threshold, likeliest first, which is chosen on held-out samples by ``target``; a
        `robustruct.metrics.SpanCost` those of least expected cost.
    standardize : bool, default=True
        Train on dense columns (arrays, data frames, also of edge features) brought to mean 0 and
        standard deviation 1 over all training nodes, each with the weight of its sample: units
        change no answer. The penalty is then on the weights of standardised columns, as in glmnet,
        and ``objective_`` and the gap are about these; ``coef_`` holds the same weights for columns
        as they are given, the shift in the bias. Sparse matrices and dicts stay as they are.
    class_weight : dict or "balanced", optional
        Factor on the cost of mistakes where a label is true; "balanced" makes it inverse to the
        label's frequency.
    constraints : "BIO", "BIOES", list of (label, next label) or Constraints, optional
        What may not be predicted: what breaks the rules of a tagging scheme, or transitions, or
        both; `robustruct.Constraints` also says what happens to training labels that break them
        (by default they are repaired, with a warning).
    inference : "auto", "exact" or "relaxed"
        "exact" goes over the cliques of a graph with cycles, at a cost that grows as k^(w + 1) with
        its treewidth w. "relaxed" lets the adversary play edge marginals that agree on every node
        but need not belong to one distribution over labellings, with an entropy (temperatures
        above 0) that is exact on forests and an upper bound elsewhere: any graph will do, and the
        gap reported is that of the relaxed problem. "auto" relaxes only where tables would not fit
        into memory. Chains, trees and forests are always exact.
    n_jobs : int, optional
        Threads; None is one, -1 all cores.
    random_state : int or RandomState, optional
        Order of the samples; equal seeds give equal models.
    verbose : int
        1 shows progress with the gap.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
    coef_ : ndarray
        All weights, node features first, for columns in the units in which they are given.
    node_weights_ : ndarray of shape (n_features, k)
        View of ``coef_``; ``get_feature_names_out()`` names the rows. See also ``top_features``.
    edge_weights_ : ndarray of shape (n_edge_features, k, k)
        View of ``coef_``, [feature, label, next label].
    transitions_ : ndarray of shape (k, k)
        Its last row: the weight of [label, next label] on every edge.
    cost_ : ndarray of shape (k, k)
        Costs in the order of ``classes_``, class weights included; rows: true label, columns:
        predicted label.
    temperature_ : float
        The temperature used.
    absolute_temperature_ : float
        The same in the units of the cost, T: times the mean weight of a node and the mean cost of a
        mistake. 1 at infinity, where there is no cost in training.
    decision_ : str
        The decision that "auto" stands for.
    decision_scale_ : float
        What scores are multiplied with before that decision: "bayes" takes the label of least
        expected cost under Gibbs(scale * scores / T), and the predictor plays for scaled scores.
        Where alpha or temperature are chosen, the scale is, with the decision, by the cost on
        held-out samples; it stays 1 where no other is clearly better. Probabilities and scores are
        those without it.
    span_rule_ : float or SpanCost
        With the decision "spans": the least probability of a span that is predicted, or what
        mistakes about spans cost.
    worst_case_ : dict
        At temperature 0, a diagnostic of the fit: ``"value"`` is the most that training samples
        could cost the predictors at the optimum, per sample, if their labels were drawn again, by
        any distribution whose mean features are within ``"radius"`` of those seen (standardised, as
        training sees them). It says nothing about new samples: `certify` does.
    rules_ : dict
        Rules that `control` has calibrated, by label; None stands for sets.
    sample_digests_ : ndarray of uint64
        Eight bytes of each sample that had a part in training, by which `certify` knows it.
    loss_ : Loss
        The loss, with the order of labels where that is known.
    label_order_ : ndarray
        With an ordered Categorical of pandas as labels: the order of its categories.
    type_labels_ : dict
        With ``node_types``: the labels that nodes of each type may get.
    duality_gap_ : float
        Certified relative gap of the weights.
    status_ : Status
        How training ended: CONVERGED, MAX_ITER, MAX_TIME, STALLED, INTERRUPTED or STOPPED_EARLY,
        each with a sentence that says what to do (``status_.value``).
    inference_ : "exact" or "relaxed"
        Which problem was solved, hence what the gap is about.
    history_ : list of Record
        Of every certificate: pass ``n_iter``, ``time`` in seconds since the fit began, bounds
        ``primal`` and ``dual``, relative ``gap`` of the best bounds by then.
    n_iter_ : int
    n_samples_, n_nodes_ : int
        How many it was trained on.
    alpha_ : float
        The penalty used.
    trials_ : list of Tried
        With a choice of alpha or temperature: objective, temperature, alpha, decision with its
        scale, and score (minus the mean cost on held-out samples) of what was tried, whether
        training reached its tolerance, and in how many folds.
    forecast_ : Forecast
        With a choice: the mean cost per node that new samples will have (mean, lower, upper,
        n_samples), corrected for having been the best of many.
    alpha_scores_ : dict
        The best score of each alpha at ``temperature_``, without those that missed the tolerance.
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
    [['D', 'N']]
    """

    _parameters = with_choices(
        optimizer=OptimizerFor("game", "auto", "dual_ascent", "natural_ascent", "subgradient")
    )
