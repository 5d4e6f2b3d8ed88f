"""Decisions from scores: best labelling, least expected cost, or the predictor's strategy."""

from __future__ import annotations

import torch
from torch import Tensor

from robustruct._lazy import cached_property
from robustruct.torch.game import (
    Costs,
    SmoothGame,
    TensorScores,
    check_feasible,
    exact_game,
    gibbs,
    possible_labels,
)

GAME_TOL, GAME_STEPS = 1e-4, 1000
"""Tolerance and most steps of games in prediction. Training is looser, for speed."""
EXACT_TOL = 1e-6
"""Tolerance of games at temperature 0, relative to the range of the cost, as in loss.py."""


class Decisions:
    """Decisions for a batch; games are solved when first needed."""

    def __init__(
        self,
        scores: TensorScores,
        costs: Costs,
        temperature: float,
        game: bool,
        rules: bool,
        tol: float = GAME_TOL,
    ) -> None:
        self.scores, self.costs, self.temperature = scores, costs, temperature
        self.game, self.rules = game, rules
        self.tol = min(tol, GAME_TOL)

    @cached_property
    def _strategies(self) -> tuple[Tensor, Tensor]:
        """Strategies (B, n, k) of the predictor and of the adversary."""
        if self.temperature == 0:
            equilibrium = exact_game(self.scores, self.costs, EXACT_TOL)
            return equilibrium.predictor, equilibrium.nodes
        game = SmoothGame(self.scores, self.costs, self.temperature)
        p = game.solve(self.tol, GAME_STEPS)
        return p, game.adversary(p).nodes

    def gibbs(self) -> Tensor:
        """(B, n, k) node marginals of the scores, without costs."""
        beliefs = gibbs(self.scores, self.temperature)
        check_feasible(beliefs.log_partition)
        return beliefs.nodes

    def probabilities(self) -> Tensor:
        """(B, n, k) an estimate of P(tag | x); at temperature 0 the predictor's strategy."""
        if not self.game:
            return self.gibbs()
        p, r = self._strategies
        chosen = p if self.temperature == 0 else r
        return torch.where(self.scores.alive[:, :, None], chosen, 0.0)

    def labels(self, decision: str) -> Tensor:
        """(B, n) tags; 0 where there is no token."""
        if decision == "map":
            return self._best(self.scores)
        gains = self._gains(decision)
        if not self.rules:
            return torch.where(self.scores.alive, gains.argmax(-1), 0)
        # The best tag of each token could break a rule: take the best labelling that keeps all.
        unary = torch.where(torch.isneginf(self.scores.unary), -torch.inf, gains)
        pairwise = torch.where(torch.isneginf(self.scores.pairwise), -torch.inf, 0.0)
        ruled = TensorScores(
            unary, pairwise.to(unary.dtype), self.scores.parents, self.scores.alive
        )
        return self._best(ruled)

    def _best(self, scores: TensorScores) -> Tensor:
        labels, values = scores.forests().max_product(scores.unary, scores.pairwise)
        check_feasible(values)
        return labels

    def _gains(self, decision: str) -> Tensor:
        """(B, n, k) value of each tag to a decision.

        For "bayes" minus the expected cost. For "predictor" the probability in its strategy, minus
        the regret of the tag against the adversary over the range of the cost, which ranks tags
        that are not played.
        """
        weight = self.costs.weight[:, :, None]
        if decision == "bayes":
            return -self.costs.answers(self.gibbs())
        p, r = self._strategies
        answers = r @ self.costs.matrix
        barred = ~possible_labels(self.scores)
        best = answers.masked_fill(barred, torch.inf).amin(-1, keepdim=True)
        spread = self.costs.matrix.max() - self.costs.matrix.min()
        gains = p - (answers - best) / torch.where(spread > 0, spread, 1.0)
        # Weights matter only where tags of several tokens compete.
        return weight * gains if self.rules else gains

    def risk(self, decision: str) -> Tensor:
        """(B,) the expected cost of the tags under the probabilities."""
        answers = self.costs.answers(self.probabilities())
        chosen = self.labels(decision)[:, :, None]
        return answers.gather(2, chosen)[:, :, 0].sum(1)
