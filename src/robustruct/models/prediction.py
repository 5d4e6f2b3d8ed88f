"""From a fitted model and samples to labels, probabilities and their expected cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from robustruct.constraints import TransitionMasks
from robustruct.errors import IncompatibleError, InvalidInputError, shown
from robustruct.features import Design, FeatureSpace, scores
from robustruct.game.game import Game, Play
from robustruct.graphs import Batch
from robustruct.guarantees.risk_control import Rule
from robustruct.inference import best_labelling, k_best, marginals, score_of, without_impossible
from robustruct.labels import encode_labels, sorted_labels
from robustruct.losses import (
    Loss,
    LossLike,
    as_loss,
    costs_with_unknown,
    predicted_first,
    symmetric_costs,
)
from robustruct.metrics import SpanCost
from robustruct.models.actions import Actions
from robustruct.models.estimator import Estimator
from robustruct.models.fitting.rows import checked_rows
from robustruct.objectives.build import Plan, relaxes
from robustruct.objectives.partial import check_agreement, label_weights, narrowed
from robustruct.scores import Scores
from robustruct.spans import SpanRule, least_probability
from robustruct.validation import (
    KnownLabels,
    as_listed,
    check_some_weight,
    chunks,
    codes_of,
    in_user_form,
    is_flat,
    label_arrays,
    node_weights,
    nonempty,
    sample_weights,
)

if TYPE_CHECKING:
    from robustruct.game.solve import GameSolution
    from robustruct.game.solver import GameSolver
    from robustruct.spans import Span, SpanCandidates

ActionsLike = Mapping[str, float | Mapping[Any, float]] | Actions | None

GAME_TOL = 1e-6
SMOOTH_TOL = 1e-4  # of p's part of the gap: both strategies change smoothly
RELAXED_TOL = 1e-4  # first-order steps take thousands of iterations below
RISK_STEP = 0.01  # by how much costs are scaled to see what scaling them does to the value


def usual_decision(plan: Plan) -> str:
    """How to decide where held-out samples have not been asked.

    Without costs in training they must play their part in the decision. With them and without the
    log loss the best labelling does well for symmetric costs; where a mistake is dearer one way
    than the other, its scores are drawn apart unevenly by the penalty. With the log loss beside
    them scores grow with log P, so the best labelling is the likeliest rather than the cheapest
    one; the predictor's strategy is right at every temperature. A hinge has no predictor.
    """
    if plan.temperature == np.inf:
        return "bayes"
    if plan.objective == "hinge":
        return "map" if plan.temperature == 0 else "bayes"
    return "map" if plan.temperature == 0 and symmetric_costs(plan.cost) else "predictor"


class Prediction(Estimator):
    """The part of a model that needs no training data."""

    loss: LossLike
    decision: str | SpanCost
    inference: str
    objective: str
    n_jobs: int | None
    classes_: NDArray[Any]
    coef_: NDArray[Any]
    cost_: NDArray[Any]
    labels_as_lists_ = False
    """Whether ``fit`` was given the labels of samples as lists; answers have that form."""
    decision_: str
    decision_scale_ = 1.0
    """What scores are multiplied with before ``decision_``, but for "map": chosen on held-out
    samples (see ``AGM``), else 1."""
    span_rule_: SpanRule = 0.5
    """How the decision "spans" is made: by a threshold or costs; see ``AGM``."""
    temperature_: float
    absolute_temperature_: float
    _space: FeatureSpace
    _rules: TransitionMasks
    rules_: dict[Any, Rule]
    """What ``control`` has calibrated, by label; None stands for sets."""

    # ------------------------------------------------------------------------- samples to scores

    def _encode(self, X: Any) -> tuple[Design, bool]:
        self._check_fitted()
        X, flat = self._checked(X, hasattr(self, "n_features_in_"))
        return self._space.encode(X), flat

    def _checked(self, X: Any, rows: bool) -> tuple[Any, bool]:
        """(X, whether its rows are the samples); ``rows`` tells whether they were in training."""
        X = as_listed(X)
        flat = is_flat(X)
        if flat and not rows:
            raise InvalidInputError(
                f"X is a {type(X).__name__} of shape {X.shape}, whose rows would be samples of one "
                "node each, but the model was fitted on a list of samples; pass a list, [X] if "
                "this is one sample.",
                field="X",
            )
        return (checked_rows(self, X) if flat else X), flat

    @property
    def loss_(self) -> Loss:
        """The loss, with the order of labels that were given as an ordered Categorical."""
        loss, order = as_loss(self.loss), getattr(self, "label_order_", None)
        return loss if order is None else loss.in_order(order)

    def _scores(self, design: Design, theta: np.ndarray | None = None) -> Scores:
        weights = self.coef_ if theta is None else theta
        plain = scores(design, weights, len(self.classes_), self.n_jobs)
        return self._rules.apply(plain, design)

    def _scores_given(self, design: Design, known: Any, flat: bool) -> Scores:
        """Scores with -inf for labels that the ``known`` ones rule out."""
        found = self._scores(design)
        if known is None:
            return found
        batch = design.batch
        labels = KnownLabels.of(known, np.diff(batch.node_offsets), flat, "known")
        if any(options.weights for options in labels.options.values()):
            raise InvalidInputError(
                "known: a dict of weights stands for a label that is not known; give a label, a "
                "set of labels, or None.",
                field="known",
            )
        weights = label_weights(labels, batch, self.classes_, "known")
        if not relaxes(self.inference, batch, found.n_labels):
            check_agreement(found, weights, "known", np.arange(batch.n_samples))
        return narrowed(found, weights)

    def _best(self, found: Scores) -> np.ndarray:
        """(N,) label codes of the best labelling that keeps the rules."""
        relaxed = relaxes(self.inference, found.batch, found.n_labels)
        if relaxed:
            from robustruct.game.relaxed import relaxed_labelling

            codes, values, _ = relaxed_labelling(found, n_jobs=self.n_jobs)
        else:
            codes, values = best_labelling(found, self.n_jobs)
        if not np.isfinite(values).all():
            sample = int(np.isinf(values).argmax())
            raise InvalidInputError(
                f"sample {sample}: no labelling of it {'was found that ' if relaxed else ''}keeps "
                "the rules in `constraints`; drop a rule, or train on samples with the labels it "
                "needs.",
                sample=sample,
            )
        return codes

    # ------------------------------------------------------------------------- scores to labels

    @property
    def _decision(self) -> str:
        if isinstance(self.decision, SpanCost):
            return "spans"
        return self.decision_ if self.decision == "auto" else self.decision

    @property
    def _span_rule(self) -> SpanRule:
        return self.decision if isinstance(self.decision, SpanCost) else self.span_rule_

    @property
    def _scale(self) -> float:
        """What scores are multiplied with; another decision than the one chosen has none."""
        return self.decision_scale_ if self._decision == self.decision_ else 1.0

    def _decide(
        self,
        found: Scores,
        weight: np.ndarray | None = None,
        actions: Actions | None = None,
    ) -> np.ndarray:
        """(N,) label codes by ``decision``; ``weight`` (N,) is of each node's cost, 1 if None.

        Codes behind those of the labels are those of actions.
        """
        if self._decision == "map":
            if actions is not None:
                self._refuse_actions()
            return self._best(found)
        if self._decision == "spans":
            from robustruct.models.spans import candidates

            if actions is not None:
                self._refuse_actions()
            found, rule = self._feasible(found), self._span_rule
            return self._by_spans(found, candidates(self, found, least_probability(rule)), rule)
        if self._unrestricted(found):
            return np.argmax(self._gains(found, weight, actions), axis=1)
        # Node by node the choice could break a rule: take the best choice that keeps them all.
        gain = self._gains(self._feasible(found), weight, actions)
        k = found.n_labels
        if weight is not None:
            gain = weight[:, None] * gain
        labels, action = gain[:, :k], np.full(len(gain), -np.inf)
        if actions is not None:
            # A node with an action is open: any label that keeps the rules may be true there.
            action = gain[:, k:].max(axis=1)
        codes = self._keeping_rules(found, np.maximum(labels, action[:, None]))
        taken = action > labels[np.arange(len(codes)), codes]
        if taken.any():
            codes[taken] = k + gain[taken, k:].argmax(axis=1)
        return codes

    def _by_spans(self, found: Scores, candidates: SpanCandidates, rule: SpanRule) -> np.ndarray:
        """(N,) label codes of the best spans.

        Schemes are kept by themselves; where other rules or known labels rule a labelling out, one
        that keeps them and differs on the fewest nodes is taken.
        """
        from robustruct.models.spans import labels_of

        codes = labels_of(self, found.batch, candidates, rule)
        if self._unrestricted(found):
            return codes
        return self._keeping_rules(found, np.eye(len(self.classes_))[codes])

    def _keeping_rules(self, found: Scores, gain: np.ndarray) -> np.ndarray:
        """(N,) codes of the labelling with the largest sum of gains that keeps the rules."""
        kept = Scores(
            found.batch,
            np.where(np.isneginf(found.unary), -np.inf, gain),
            np.where(np.isneginf(found.tables), -np.inf, 0.0),
            found.table_of,
        )
        return self._best(kept)

    def _refuse_actions(self) -> None:
        if self._decision == "spans":
            raise IncompatibleError(
                "a decision by spans has prices of spans, which those of actions on single nodes "
                "cannot be compared with: set decision='bayes'."
            )
        remedy = "train it with a temperature above 0, or take a CRF"
        if self.temperature_ > 0:
            remedy = "set decision='bayes'"
        elif self.objective == "game":
            remedy = "set decision='predictor'"
        raise IncompatibleError(
            "decision='map' takes the labelling of the highest score, and scores are not in the "
            f"units of the cost, so a price cannot be compared with them: {remedy}."
        )

    def _gains(
        self, found: Scores, weight: np.ndarray | None, actions: Actions | None = None
    ) -> np.ndarray:
        """(N, k) what each label is worth to a decision, other than "map"; then each action.

        To Bayes's, minus what it costs under the Gibbs distribution of the scores; where costs play
        no part in training, that is the predictor's best answer too. Else its share p in the
        predictor's strategy, less how much dearer it is than the best answer to the adversary's r,
        in units of the range of the cost. Labels that are played have no such
        regret, so the likeliest one is worth most. Where rules keep it out and p is 0 on what is
        left, r decides, not what rounding left of p.

        Scores are first multiplied by the scale that was chosen with the decision, if this is it:
        a strong penalty shrinks them, a weak one blows them up, and neither says how sure to be.
        """
        from robustruct.game.smooth import at_temperature

        found = at_temperature(found, 1.0 / self._scale)
        cost = self.cost_ if actions is None else actions.with_costs(self.cost_)
        if self._decision == "bayes" or self.temperature_ == np.inf:
            return -(self._gibbs(found) @ cost)
        parts = []
        for game, play in self._games(found, weight, cost):
            answers = play.r @ game.cost.T
            best = np.where(game.playable, answers, np.inf).min(axis=1)
            parts.append(play.p - (answers - best[:, None]) / (game.cost_range[1] or 1.0))
        return _joined(parts)

    def _gibbs(self, found: Scores) -> np.ndarray:
        """(N, k) node marginals of the Gibbs distribution of ψ / T, T > 0."""
        from robustruct.game.smooth import at_temperature

        found, batch = at_temperature(found, self.absolute_temperature_), found.batch
        if not relaxes(self.inference, batch, found.n_labels):
            return marginals(found, n_jobs=self.n_jobs).nodes
        from robustruct.game.relaxed_smooth import relaxed_marginals

        parts = chunks(batch, found.n_labels**2)  # edge marginals take much room
        return _joined([relaxed_marginals(found.part(*part), self.n_jobs) for part in parts])

    def _games(
        self,
        found: Scores,
        weight: np.ndarray | None = None,
        cost: np.ndarray | None = None,
    ) -> list[tuple[Game, Play]]:
        """The games behind the scores, solved; in parts, as edge marginals take much room.

        ``cost`` (k, m) has actions behind the labels; by default it has none.
        """
        from robustruct.game.solve import solve_batch  # solvers bring much compiled code

        k, cost = len(self.classes_), self.cost_ if cost is None else cost
        batch = found.batch
        weight = np.ones(batch.n_nodes) if weight is None else weight
        solved = []
        for first, last in chunks(batch, k * k):
            part = found if last - first == batch.n_samples else found.part(first, last)
            nodes = slice(batch.node_offsets[first], batch.node_offsets[last])
            game = Game(part, predicted_first(cost), weight[nodes])
            relaxed = relaxes(self.inference, part.batch, k)
            if self.temperature_ > 0:
                from robustruct.game.relaxed_smooth import play_relaxed_smooth
                from robustruct.game.smooth import play_smooth

                playing = play_relaxed_smooth if relaxed else play_smooth
                temperature = self.absolute_temperature_
                play, _, _ = playing(game, temperature, SMOOTH_TOL, self.n_jobs)
                solved.append((game, play))
                continue
            how = ("relaxed", RELAXED_TOL) if relaxed else ("auto", GAME_TOL)
            solved.append((game, solve_batch(game, *how, n_jobs=self.n_jobs)))
        return solved

    def _probabilities(self, found: Scores, weight: np.ndarray | None = None) -> np.ndarray:
        if self.temperature_ == np.inf:
            return self._gibbs(found)
        smooth, games = self.temperature_ > 0, self._games(found, weight)
        return _joined([play.r if smooth else play.p for _, play in games])

    def _values(self, found: Scores, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(S,) lower and upper bounds on the values of the games behind the scores."""
        bounds = [play.bounds(game, self.n_jobs) for game, play in self._games(found, weight)]
        lower, upper = zip(*bounds, strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    def _risks(self, found: Scores, weight: np.ndarray) -> np.ndarray:
        """(S, 2) slopes of the value in the scale of the cost, below and above 1.

        With probabilities, what decisions cost by these, twice.
        """
        if self.temperature_ > 0:
            return self._expected_costs(found, weight)
        lower, _ = self._values(found, weight)
        _, below = self._values(found, (1 - RISK_STEP) * weight)
        _, above = self._values(found, (1 + RISK_STEP) * weight)
        slopes = np.stack([lower - below, above - lower], axis=1) / RISK_STEP
        total = np.add.reduceat(weight, found.batch.node_offsets[:-1])[:, None]
        return np.clip(slopes, self.cost_.min() * total, self.cost_.max() * total)

    def _expected_costs(self, found: Scores, weight: np.ndarray) -> np.ndarray:
        """(S, 2) the expected cost of decisions under the model's own probabilities, twice."""
        answers = self._probabilities(found, weight) @ self.cost_
        decided = answers[np.arange(len(answers)), self._decide(found, weight)]
        risk = np.add.reduceat(weight * decided, found.batch.node_offsets[:-1])
        return np.stack([risk, risk], axis=1)

    def _unrestricted(self, found: Scores) -> bool:
        """Whether every labelling can occur: no rule and no known label is in the way."""
        return self._rules.empty and bool(np.isfinite(found.unary).all())

    def _feasible(self, found: Scores) -> Scores:
        """The scores with labels that cannot occur at -inf, after making sure that some can."""
        if self._unrestricted(found):
            return found
        self._best(found)
        relaxed = relaxes(self.inference, found.batch, found.n_labels)
        return found if relaxed else without_impossible(found, self.n_jobs)

    # ------------------------------------------------------------------------- for users

    @overload
    def predict(
        self,
        X: NDArray[Any],
        node_weight: Any = None,
        *,
        known: Any = None,
        actions: ActionsLike = None,
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self,
        X: Sequence[Any],
        node_weight: Any = None,
        *,
        known: Any = None,
        actions: ActionsLike = None,
    ) -> list[Any]: ...
    @overload
    def predict(
        self,
        X: Any,
        node_weight: Any = None,
        *,
        known: Any = None,
        actions: ActionsLike = None,
        rule: Any = None,
    ) -> Any: ...
    def predict(
        self,
        X: Any,
        node_weight: Any = None,
        *,
        known: Any = None,
        actions: ActionsLike = None,
        rule: Any = None,
    ) -> Any:
        """Labels of every node, in the form of those that ``fit`` was given.

        A list of lists where they were lists, else a list with one array per sample; one array for
        a 2-D X. A sample without nodes has an empty answer.

        Parameters
        ----------
        X : as for ``fit``
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample; ``decision="map"`` has no use for it.
        known : list of label sequences, optional
            Labels that are known already, sample by sample: None on nodes without, a set where it
            is one of several. What is answered is conditional on them: it agrees with all of them
            and takes the rest from there. Labels that no labelling which keeps the rules agrees
            with are an error.
        actions : dict, optional
            What may be answered instead of a label, and its price in the units of the cost:
            ``{"review": 0.1}``, or a price for each true label, ``{"review": {"O": 0.05, ...}}``.
            An action is taken where it costs less than any label, and its name stands among the
            labels. ``decision="map"`` has no costs to compare it with.
        rule : label or Rule, optional
            A rule that ``control`` has calibrated, or its label: that label is answered only where
            it is safe.
        """
        self._check_fitted()
        chosen, controlled = self._actions(actions), self._rule(rule)
        names = self.classes_ if chosen is None else chosen.answers(self.classes_)

        def decided(X: Any, node_weight: Any, known: Any) -> Any:
            design, flat = self._encode(X)
            weight = _given_in_order(node_weight, design.batch, flat)
            found = self._scores_given(design, known, flat)
            if controlled is not None:
                found = self._controlled(found, controlled, weight)
            codes = self._decide(found, weight, chosen)
            return in_user_form(names[codes], design.batch, flat)

        answers = _of_all(decided, X, self.classes_[:0], node_weight, known)
        return [self._in_form(labels) for labels in answers] if type(answers) is list else answers

    def _actions(self, given: ActionsLike) -> Actions | None:
        """Actions as users give them, or as they were checked before."""
        if given is None or isinstance(given, Actions):
            return given
        return Actions.of(given, self.classes_, self.cost_)

    def _rule(self, given: Any) -> Rule | None:
        """A rule for single labels as users give it: itself, or its label."""
        rule = given if given is None or isinstance(given, Rule) else self._rule_of(given)
        if rule is not None and rule.label is None:
            raise InvalidInputError(
                "this rule is for sets of labels; use predict_sets, or control with a label.",
                field="rule",
            )
        return rule

    def _rule_of(self, label: Any) -> Rule:
        rules = getattr(self, "rules_", {})
        if label not in list(rules):  # which asks for no hash
            of = "sets of labels" if label is None else f"the label {shown(label)}"
            kept = ", ".join("sets" if name is None else shown(name) for name in rules) or "none"
            raise InvalidInputError(
                f"the model has no rule for {of} (it has: {kept}); calibrate one with control.",
                field="rule",
            )
        return rules[label]

    def _code_of(self, label: Any) -> int:
        labels = self.classes_.tolist()
        if label not in labels:
            raise InvalidInputError(
                f"label={shown(label)} is none of the model's labels: {shown(labels)}.",
                field="label",
            )
        return labels.index(label)

    def _controlled(self, found: Scores, rule: Rule, weight: np.ndarray | None) -> Scores:
        """Scores with -inf for the rule's label where it is not safe, and elsewhere for others."""
        found, code = self._feasible(found), self._code_of(rule.label)
        safe = safety(self._probabilities(found, weight), code) > rule.threshold
        barred = np.where(safe[:, None], np.arange(found.n_labels) != code, False)
        barred[~safe, code] = True
        # Labels that are known, or ruled out, leave nodes without a choice.
        possible = found.unary > -np.inf
        barred &= (possible & ~barred).any(axis=1, keepdims=True)
        return found.with_unary(np.where(barred, -np.inf, found.unary))

    def _in_form(self, labels: np.ndarray) -> Any:
        """Labels of a sample as ``fit`` was given them."""
        return labels.tolist() if self.labels_as_lists_ else labels

    @overload
    def predict_proba(
        self, X: NDArray[Any], node_weight: Any = None, *, known: Any = None
    ) -> NDArray[Any]: ...
    @overload
    def predict_proba(
        self, X: Sequence[Any], node_weight: Any = None, *, known: Any = None
    ) -> list[NDArray[Any]]: ...
    @overload
    def predict_proba(self, X: Any, node_weight: Any = None, *, known: Any = None) -> Any: ...
    def predict_proba(self, X: Any, node_weight: Any = None, *, known: Any = None) -> Any:
        """Distribution over ``classes_`` on every node: a list of (n_nodes, n_labels) arrays.

        An estimate of P(y | x) on the node wherever there is one: for a CRF the marginals, at
        temperatures above 0 the adversary's marginals in the game. At temperature 0, where the
        adversary is not unique, it is the strategy of the predictor, as in the paper. Labels that
        no labelling which keeps the rules has at a node have probability 0 there. The scale of
        decisions, ``decision_scale_``, was chosen for its cost and plays no part here.

        Parameters
        ----------
        X : as for ``fit``
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample: the game is about the weighted cost. A
            CRF's marginals are not.
        known : as for ``predict``
        """
        self._check_fitted()

        def distributions(X: Any, node_weight: Any, known: Any) -> Any:
            design, flat = self._encode(X)
            weight = _given_in_order(node_weight, design.batch, flat)
            found = self._feasible(self._scores_given(design, known, flat))
            return in_user_form(self._probabilities(found, weight), design.batch, flat)

        return _of_all(distributions, X, np.empty((0, len(self.classes_))), node_weight, known)

    def predict_games(
        self,
        X: Any,
        node_weight: Any = None,
        *,
        solver: str | GameSolver = "auto",
        tol: float = GAME_TOL,
    ) -> list[GameSolution]:
        """The game behind each prediction: both players' strategies, with bounds on its value.

        Parameters
        ----------
        X : as for ``predict``
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample.
        solver, tol
            As for `robustruct.solve_game`.
        """
        from robustruct.game.solve import smooth_solutions, solutions, solve_batch

        if self.temperature_ == np.inf:
            raise IncompatibleError(
                "without costs in training (CRF, temperature=inf) there is no game behind a "
                "prediction; predict_proba gives the marginals."
            )
        design, flat = self._encode(X)
        found = self._feasible(self._scores(design))
        weight = _in_order(node_weight, design.batch, flat)
        game = Game(found, predicted_first(self.cost_), weight)
        if self.temperature_ > 0:
            if solver == "auto" and relaxes(self.inference, found.batch, found.n_labels):
                solver = "relaxed"
            return smooth_solutions(game, self.absolute_temperature_, solver, tol, self.n_jobs)
        play = solve_batch(game, solver, tol, n_jobs=self.n_jobs)
        return solutions(game, play, tol, self.n_jobs)

    def predict_risk(self, X: Any, node_weight: Any = None, *, known: Any = None) -> NDArray[Any]:
        """(n_samples, 2) least and most expected cost of each sample, over all equilibria.

        Only the value of a game is unique. Trained weights lie where games have many equilibria, so
        the expected cost of one of them, p'Lr, would depend on the solver. It always is a slope of
        the value as a function of the scale of the cost, which is convex: what all equilibria cost
        are the slopes between those to the left and to the right. Both ends are computed from
        bounds on three values, at 0.99, 1 and 1.01 times the cost, and hold for certain: no
        equilibrium costs less or more. The interval is wider than need be by at most what 1 % on
        the cost changes about the equilibria, plus 2e-4 of the range of the cost (relaxed games:
        2e-2), by the tolerance of the solver.

        On the training data, ``objective + alpha / 2 |weights|²`` at the optimum lies between the
        means of the ends. Where features tell all samples apart and alpha is small, the interval
        holds the expected cost of the best decision for each. Both are proved in the theory pages;
        neither says anything about weights that do not fit the data.

        For a CRF both are the expected cost of ``predict`` under its own marginals, and so they are
        at temperatures above 0 under the adversary's, which are unique there.

        Parameters
        ----------
        X : as for ``fit``
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample.
        known : as for ``predict``
        """
        design, flat = self._encode(X)
        weight = _in_order(node_weight, design.batch, flat)
        return self._risks(self._feasible(self._scores_given(design, known, flat)), weight)

    def uncertainty(self, X: Any, *, known: Any = None) -> NDArray[Any]:
        """(n_samples,) expected cost of each sample if it were labelled by ``predict`` now.

        The mean of the two ends of `predict_risk`. Whoever labels by hand begins with the samples
        where it is largest, or largest for their number of nodes.
        """
        return np.asarray(self.predict_risk(X, known=known).mean(axis=1))

    def predict_spans(
        self,
        X: Any,
        threshold: float | str = "auto",
        *,
        overlapping: bool = False,
        known: Any = None,
    ) -> list[list[Span]]:
        """For each sample its spans, such as entities, as (first, end, type, probability).

        Labels are BIO or BIOES and samples are chains. ``first`` is the number of a span's first
        node, ``end`` that of the node after its last. The probability is that of exactly this span
        under the distribution whose marginals ``predict_proba`` returns: the sum of the
        probabilities of all labellings in which `span_scores` would count it. At temperature 0
        there is none.

        Parameters
        ----------
        X : as for ``fit``
        threshold : float or "auto"
            The least probability. "auto" takes the rule of the decision by spans, ``span_rule_`` or
            ``decision=SpanCost(...)``, and 0.5 where there is none.
        overlapping : bool
            Whether to list all spans of that probability. Otherwise, where some overlap, those are
            listed that the decision takes: by a threshold the likeliest first. Above 0.5 none do.
        known : as for ``predict``
        """
        from robustruct.models.spans import listed

        self._check_fitted()

        def answer(X: Any, known: Any) -> list[list[Span]]:
            design, flat = self._encode(X)
            found = self._feasible(self._scores_given(design, known, flat))
            return listed(self, found, threshold, overlapping)

        return [list(spans) for spans in _of_all(answer, X, [], known)]

    def predict_k_best(
        self, X: Any, k: int = 3, *, known: Any = None
    ) -> list[list[tuple[Any, float]]]:
        """For each sample its ``k`` best labellings as (labels, score), best first.

        Labels have the form of those of ``predict``, and agree with those that are ``known``.
        """
        if k < 1:
            raise InvalidInputError(f"k = {k}; ask for at least one labelling.")
        design, flat = self._encode(X)
        found = self._feasible(self._scores_given(design, known, flat))
        batch = design.batch
        results = []
        for s, (codes, values) in enumerate(k_best(found, k)):
            lo, hi = batch.node_offsets[s], batch.node_offsets[s + 1]
            labels = np.empty_like(codes)
            labels[:, batch.node_of[lo:hi] - lo] = codes
            ranked = zip(self.classes_[labels], values.tolist(), strict=True)
            results.append([(self._in_form(row), value) for row, value in ranked])
        return results

    def decision_function(self, X: Any) -> Any:
        """Score of every label on every node alone: a list of (n_nodes, n_labels) arrays.

        For a 2-D X and two labels, as in scikit-learn, (n_samples,): the second minus the first.
        """
        design, flat = self._encode(X)
        unary = self._scores(design).unary
        if flat and unary.shape[1] == 2:
            return unary[:, 1] - unary[:, 0]
        return in_user_form(unary, design.batch, flat)

    def log_score(self, X: Any, y: Any) -> NDArray[Any]:
        """(n_samples,) score of the given labellings, transitions included."""
        design, flat = self._encode(X)
        batch = design.batch
        arrays = label_arrays(y, np.diff(batch.node_offsets), flat)
        codes = batch.from_user(codes_of(arrays, self.classes_))
        return score_of(self._scores(design), np.ascontiguousarray(codes))

    def score(self, X: Any, y: Any, sample_weight: Any = None, node_weight: Any = None) -> float:
        """Minus the mean loss per node of ``predict(X)``: larger is better.

        The loss is ``loss`` without ``class_weight``; labels that training did not see count too.
        """
        held_out = HeldOut.of(self, X, y, sample_weight, node_weight)
        check_some_weight(held_out.weights.sum(), "weight", "node")
        return -held_out.mean_cost(held_out.decided(self))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Samples with their labels, encoded: what decisions of a model on them cost."""

    design: Design
    truth: np.ndarray
    """(N,) rows of ``cost``; the samples may have labels that the model lacks.

    Nodes without a label that is known have weight 0."""
    cost: np.ndarray
    """(K, k) what it costs where each known label is true to predict each that the model has."""
    node_weight: np.ndarray
    """(N,)"""
    sample_weight: np.ndarray
    """(S,)"""
    known: np.ndarray | None = None
    """(K,) the labels of the model and of the samples; None in a choice, which takes no actions."""

    @classmethod
    def encoded(
        cls,
        design: Design,
        flat: bool,
        classes: np.ndarray,
        loss: LossLike,
        y: Any,
        sample_weight: Any = None,
        node_weight: Any = None,
    ) -> HeldOut:
        """Samples that are encoded, with labels y in the user's form; ``classes``: the model's."""
        batch = design.batch
        labels = KnownLabels.of(y, np.diff(batch.node_offsets), flat)
        known = sorted_labels([classes, *labels.arrays])
        costs = costs_with_unknown(as_loss(loss), known, classes)
        codes = batch.from_user(labels.codes(known))
        return cls(
            design,
            np.maximum(codes, 0),
            costs[:, encode_labels(classes, known, "classes")],
            _in_order(node_weight, batch, flat) * (codes >= 0),
            sample_weights(sample_weight, batch.n_samples),
            known,
        )

    @classmethod
    def of(
        cls, model: Prediction, X: Any, y: Any, sample_weight: Any = None, node_weight: Any = None
    ) -> HeldOut:
        """Encoded as a fitted model does."""
        encoded = model._encode(X)
        return cls.encoded(*encoded, model.classes_, model.loss_, y, sample_weight, node_weight)

    def _per_sample(self, of_nodes: np.ndarray) -> np.ndarray:
        starts = self.design.batch.node_offsets[:-1]
        return self.sample_weight * np.add.reduceat(self.node_weight * of_nodes, starts)

    @property
    def weights(self) -> np.ndarray:
        """(n_samples,) total weight of each sample."""
        return self._per_sample(np.ones(len(self.truth)))

    def with_actions(self, actions: Actions, classes: np.ndarray) -> HeldOut:
        """The same samples where actions may be taken, too; ``classes`` are the model's."""
        assert self.known is not None
        cost = np.hstack([self.cost, actions.priced(self.known, classes)])
        return replace(self, cost=cost)

    def decided(
        self,
        model: Prediction,
        theta: np.ndarray | None = None,
        actions: Actions | None = None,
        rule: Rule | None = None,
    ) -> np.ndarray:
        """(N,) the labels that the model predicts, with its own weights or others."""
        found = model._scores(self.design, theta)
        if rule is not None:
            found = model._controlled(found, rule, self.node_weight)
        return model._decide(found, self.node_weight, actions)

    def costs(self, predicted: np.ndarray) -> np.ndarray:
        """(n_samples,) total cost of each sample."""
        return self._per_sample(self.cost[self.truth, predicted])

    def mean_cost(self, predicted: np.ndarray) -> float:
        """The cost of a node of weight 1."""
        return float(self.costs(predicted).sum() / self.weights.sum())


def safety(probabilities: np.ndarray, code: int) -> np.ndarray:
    """(N,) how safe a label is: 1 minus the best of the others, over 1 minus its probability."""
    others = np.delete(probabilities, code, axis=1).max(axis=1, initial=0.0)
    rest = 1.0 - probabilities[:, code]
    return np.divide(1.0 - others, rest, out=np.full(len(rest), np.inf), where=rest > 0)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _of_all(answer: Callable[..., Any], X: Any, nothing: Any, *more: Any) -> Any:
    """``answer(X, *more)`` of samples that may have no nodes; of these, ``nothing``.

    ``more`` are lists with an item per sample, or None.
    """
    X = as_listed(X)
    places = nonempty(X)
    if places is None:
        return answer(X, *more)
    answers = [nothing] * len(X)
    if len(places):
        parts = [None if part is None else [part[s] for s in places] for part in more]
        for s, found in zip(places, answer([X[s] for s in places], *parts), strict=True):
            answers[s] = found
    return answers


def _in_order(node_weight: Any, batch: Batch, flat: bool) -> np.ndarray:
    """(N,) weights in the order of the batch."""
    given = node_weights(node_weight, np.diff(batch.node_offsets), flat)
    return np.ascontiguousarray(batch.from_user(given))


def _given_in_order(node_weight: Any, batch: Batch, flat: bool) -> np.ndarray | None:
    """The same for weights that may be left out, as they usually are."""
    return None if node_weight is None else _in_order(node_weight, batch, flat)
