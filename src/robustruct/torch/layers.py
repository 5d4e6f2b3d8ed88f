"""Output layers for taggers: a drop-in for pytorch-crf with costs of mistakes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from robustruct.constraints import Constraints, ConstraintsLike, TransitionMasks
from robustruct.errors import InvalidInputError
from robustruct.objectives.adversarial import unit_of_temperature
from robustruct.torch.checks import (
    check_needs_temperature,
    check_one_of,
    check_scores,
    check_tags_type,
    check_temperature,
    check_values,
    check_weight_type,
    checked_cost,
    checked_mask,
    shown_cost,
    values_known,
)
from robustruct.torch.decisions import Decisions
from robustruct.torch.functional import MAX_ITER, TOL, TensorSamples, front_first, weights
from robustruct.torch.game import Costs, TensorScores
from robustruct.torch.message_passing import working_dtype

if TYPE_CHECKING:
    import numpy as np

    from robustruct.models.base import StructuredModel

DECISIONS = ("auto", "map", "bayes", "predictor")


class _ChainLayer(nn.Module):
    """Base of both layers: transitions between tags, decisions, marginals and export."""

    def __init__(
        self,
        num_tags: int,
        cost: Any,
        temperature: float,
        batch_first: bool,
        labels: Sequence[Any] | None,
        constraints: ConstraintsLike,
        tol: float,
        max_iter: int,
    ) -> None:
        super().__init__()
        if isinstance(num_tags, bool) or not isinstance(num_tags, int) or num_tags < 1:
            raise InvalidInputError(f"num_tags={num_tags!r}; expected an integer > 0.")
        check_temperature(temperature)
        self.num_tags, self.temperature, self.batch_first = num_tags, temperature, batch_first
        self.labels = _checked_labels(labels, num_tags, Constraints.of(constraints))
        self.constraints = constraints
        self.tol, self.max_iter = tol, max_iter
        matrix = checked_cost(cost, self.labels)
        self._shown_cost = shown_cost(cost, matrix)
        self.absolute_temperature = 1.0
        """T: ``temperature`` in the units of the cost; 1 at infinity."""
        if temperature < math.inf:
            self.absolute_temperature = temperature * unit_of_temperature(matrix, 1.0)
        rules = TransitionMasks.build(self.labels, constraints)
        self.has_rules = not rules.empty
        self._fixed = {
            "cost": matrix, "_pairs": rules.pairs, "_starts": rules.starts, "_ends": rules.ends,
        }  # fmt: skip
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self.reset_parameters()
        self._place_fixed()

    def reset_parameters(self) -> None:
        """Draw transitions from [-0.1, 0.1], as pytorch-crf does."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        cost, temperature = self._shown_cost, self.temperature
        return f"num_tags={self.num_tags}, cost={cost}, temperature={temperature:g}"

    def get_extra_state(self) -> Tensor:
        """Return temperature and costs, which decisions depend on; one tensor, for safetensors."""
        return torch.tensor([self.temperature, *self._fixed["cost"].ravel()], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Warn if the saved temperature or costs differ; the layer keeps its own."""
        own, saved = self.get_extra_state(), state.detach().to("cpu", torch.float64)
        differing = []
        if saved[0] != own[0]:
            differing.append(f"temperature={saved[0]:g}, this one has {own[0]:g}")
        if not torch.equal(saved[1:], own[1:]):
            differing.append(f"another cost than this one's {self._shown_cost}")
        if differing:
            warnings.warn(
                f"{type(self).__name__}: the state was saved by a layer with "
                f"{' and with '.join(differing)}, so decisions will differ. Make the layer with "
                "what it was trained with, unless that is what you want.",
                stacklevel=2,
            )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list[str],
        *rest: Any,
    ) -> None:
        """Load states without costs too, as those of pytorch-crf are."""
        before = len(missing)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        missing[before:] = [k for k in missing[before:] if k != f"{prefix}_extra_state"]

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Move costs and rules with the layer to a device, but keep their precision."""
        super()._apply(fn, recurse)
        self._place_fixed()
        return self

    def _place_fixed(self) -> None:
        """Register costs and rules as buffers that a state_dict does not overwrite."""
        device = self.transitions.device
        for name, values in self._fixed.items():
            held = torch.as_tensor(values).to(device, working_dtype(device))
            self.register_buffer(name, held, persistent=False)

    # ------------------------------------------------------------------------- input

    def _samples(
        self,
        emissions: Tensor,
        tags: Tensor | None,
        mask: Tensor | None,
        node_weight: Tensor | None,
    ) -> tuple[TensorSamples, Tensor]:
        """Return the checked batch with scores of starts and ends, and (B, n) its token order."""
        layout = "batch, time" if self.batch_first else "time, batch"
        check_scores(emissions, "emissions", self.num_tags, layout=layout)
        alive = checked_mask(mask, emissions)
        check_weight_type(node_weight, emissions)
        if tags is not None:
            check_tags_type(tags, emissions)

        def by_sequence(values: Tensor | None) -> Tensor | None:
            return values if values is None or self.batch_first else values.transpose(0, 1)

        rows, alive = by_sequence(emissions), by_sequence(alive)
        tags, node_weight = by_sequence(tags), by_sequence(node_weight)
        assert rows is not None
        if alive is None:
            alive = torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
        check_values(rows, "emissions", alive, tags, node_weight)
        # Predictions need no tags, but a batch has some.
        codes = torch.zeros_like(alive, dtype=torch.long) if tags is None else tags
        scores = rows.to(torch.promote_types(rows.dtype, self.transitions.dtype))
        samples = TensorSamples(
            scores, self.transitions, None, codes, alive, weights(node_weight, scores)
        )
        samples = samples.cleared() if mask is None else samples.compressed()
        return self._with_ends(samples), front_first(alive)

    def _with_ends(self, samples: TensorSamples) -> TensorSamples:
        """Add the scores of starts and ends, and -inf where the rules forbid."""
        alive = samples.alive
        first = torch.zeros_like(alive)
        first[:, 0] = True
        last = torch.zeros_like(alive).scatter(1, alive.sum(1, keepdim=True) - 1, True)
        start, end, pairs = self.start_transitions, self.end_transitions, self.transitions
        unary = samples.unary + first[:, :, None] * start + last[:, :, None] * end
        if self.has_rules:
            # torch.where instead of a product, as -inf * 0 is NaN.
            unary = torch.where(first[:, :, None] & torch.isneginf(self._starts), -torch.inf, unary)
            unary = torch.where(last[:, :, None] & torch.isneginf(self._ends), -torch.inf, unary)
            pairs = torch.where(torch.isneginf(self._pairs), -torch.inf, pairs)
        return TensorSamples(unary, pairs, None, samples.tags, alive, samples.weight)

    def _check_rules(self, samples: TensorSamples) -> None:
        if not self.has_rules or not values_known(samples.unary):
            return
        tags, alive = samples.tags, samples.alive
        unary = samples.unary.detach().gather(2, tags[:, :, None])[:, :, 0]
        pairs = samples.pairwise.detach()[tags[:, :-1], tags[:, 1:]]
        broken = torch.isneginf(unary) & alive
        broken[:, 1:] |= torch.isneginf(pairs) & alive[:, 1:]
        if bool(broken.any()):
            row, place = torch.nonzero(broken)[0].tolist()
            tag = self.labels[int(tags[row, place])]
            raise InvalidInputError(
                f"tags of shape {tuple(tags.shape)}: {tag!r} may not stand where it does (sequence "
                f"{row}, token {place}), by `constraints`. Correct the tags or drop the rule.",
                sample=row,
                node=place,
                field="tags",
            )

    def _loss(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None,
        node_weight: Tensor | None,
        reduction: str,
    ) -> Tensor:
        samples, _ = self._samples(emissions, tags, mask, node_weight)
        self._check_rules(samples)
        kind = "likelihood" if self.temperature == math.inf else "game"
        return samples.loss(
            kind, self.cost, self.absolute_temperature, reduction, self.tol, self.max_iter
        )

    # ------------------------------------------------------------------------- answers

    def _decisions(
        self, emissions: Tensor, mask: Tensor | None, node_weight: Tensor | None
    ) -> tuple[Decisions, Tensor]:
        """Return the decisions for a batch, and (B, n) the order of positions, tokens first."""
        samples, order = self._samples(emissions.detach(), None, mask, node_weight)
        dtype = working_dtype(emissions.device)
        scores = TensorScores(
            samples.unary.to(dtype), samples.pairwise.to(dtype), None, samples.alive
        )
        costs = Costs(self.cost.to(dtype), samples.weight.to(dtype))
        game = self.temperature < math.inf
        decisions = Decisions(
            scores, costs, self.absolute_temperature, game, self.has_rules, self.tol
        )
        return decisions, order

    def _chosen(self, decision: str) -> str:
        check_one_of("decision", decision, DECISIONS)
        crf = self.temperature == math.inf
        if decision == "auto":
            if 0 < self.temperature < math.inf:
                return "predictor"
            off = self.cost[~torch.eye(self.num_tags, dtype=torch.bool, device=self.cost.device)]
            if not off.numel() or bool((off == off[0]).all() & (self.cost.diag() == 0).all()):
                return "map"
            return "bayes" if crf else "predictor"
        if decision == "predictor" and crf:
            return "bayes"  # without costs in training, its answer is the best one to q
        if decision == "bayes":
            check_needs_temperature("decision='bayes'", self.temperature)
        return decision

    @torch.compiler.disable(reason="decisions are read tag by tag into lists")
    @torch.no_grad()
    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        decision: str = "auto",
        node_weight: Tensor | None = None,
    ) -> list[list[int]]:
        """Return the tags of each sequence, without masked tokens.

        Parameters
        ----------
        emissions : Tensor of shape (time, batch, num_tags), or (batch, time, num_tags)
        mask : bool Tensor of shape (time, batch) or (batch, time), optional
            Integers 0 and 1 will do, here and elsewhere.
        decision : "auto", "map", "bayes" or "predictor"
            "map" takes the best-scoring tags, "bayes" the tag of least expected cost under the
            distribution of the scores, "predictor" the likeliest tag of the predictor's strategy in
            the game (a CRF has no game: "bayes"). "auto" is "predictor", for a CRF "bayes"; if all
            mistakes cost the same, for a CRF and at temperature 0 it is "map". Every decision
            keeps the rules.
        node_weight : Tensor like ``mask``, optional
        """
        decisions, _ = self._decisions(emissions, mask, node_weight)
        tags = decisions.labels(self._chosen(decision)).tolist()
        lengths = decisions.scores.alive.sum(1).tolist()
        return [row[:length] for row, length in zip(tags, lengths, strict=True)]

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return node marginals of exp(score / T), in the shape of emissions; 0 without a token.

        Not differentiable. For a CRF these are P(tag | x); for a `ChainAGM` see ``predict_proba``.

        Parameters
        ----------
        emissions, mask
            As for ``decode``.
        """
        check_needs_temperature("marginals()", self.temperature)
        decisions, order = self._decisions(emissions, mask, None)
        return self._in_place(decisions.gibbs(), order, emissions)

    @torch.no_grad()
    def predict_proba(
        self, emissions: Tensor, mask: Tensor | None = None, node_weight: Tensor | None = None
    ) -> Tensor:
        """Estimate P(tag | x), in the shape of emissions; 0 without a token.

        These are the adversary's marginals in the game, or the marginals of a CRF. At temperature
        0, where marginals are not unique, it is the strategy of the predictor.

        Parameters
        ----------
        emissions, mask, node_weight
            As for ``decode``.
        """
        decisions, order = self._decisions(emissions, mask, node_weight)
        return self._in_place(decisions.probabilities(), order, emissions)

    @torch.no_grad()
    def risk(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        decision: str = "auto",
        node_weight: Tensor | None = None,
    ) -> Tensor:
        """(batch,) expected cost of ``decode`` under ``predict_proba``, summed over tokens.

        Parameters
        ----------
        emissions, mask, decision, node_weight
            As for ``decode``.
        """
        check_needs_temperature("risk()", self.temperature)
        decisions, _ = self._decisions(emissions, mask, node_weight)
        return decisions.risk(self._chosen(decision)).to(self.transitions.dtype)

    def _in_place(self, values: Tensor, order: Tensor, emissions: Tensor) -> Tensor:
        """Scatter values of tokens (B, n, k) to their positions in the emissions."""
        index = order[:, :, None].expand_as(values)
        placed = torch.zeros_like(values).scatter(1, index, values).to(self.transitions.dtype)
        return placed if self.batch_first else placed.transpose(0, 1)

    # ------------------------------------------------------------------------- export

    def export(self, decision: str = "auto") -> StructuredModel:
        """Return a model with these transitions, costs and rules, whose features are emissions.

        It solves certified games, ranks the k best labellings, explains and saves itself; see
        ``export_samples`` for its input.

        Parameters
        ----------
        decision : "auto", "map", "bayes" or "predictor"
        """
        from robustruct.torch.export import exported_model

        return exported_model(self, self._chosen(decision))

    @torch.no_grad()
    def export_samples(self, emissions: Tensor, mask: Tensor | None = None) -> list[np.ndarray]:
        """Convert emissions to samples of the exported model: (n, num_tags + 2) per sequence.

        Parameters
        ----------
        emissions, mask
            As for ``decode``.
        """
        from robustruct.torch.export import exported_samples

        rows = emissions if self.batch_first else emissions.transpose(0, 1)
        alive = checked_mask(mask, emissions)
        if alive is not None and not self.batch_first:
            alive = alive.transpose(0, 1)
        return exported_samples(rows, alive)


def _checked_labels(
    labels: Sequence[Any] | None, num_tags: int, constraints: Constraints
) -> list[Any]:
    if labels is None:
        if constraints.scheme is not None:
            raise InvalidInputError(
                f"constraints={constraints.scheme!r} are rules about names of tags; pass "
                "labels=[...], one for each tag."
            )
        return list(range(num_tags))
    names = list(labels)
    if len(names) != num_tags or len(set(names)) < num_tags:
        raise InvalidInputError(
            f"labels holds {len(names)} names, {len(set(names))} of them different; expected "
            f"num_tags={num_tags} different ones.",
            field="labels",
        )
    return names


class ChainAGM(_ChainLayer):
    """Sequence layer trained for the cost of mistakes: the adversarial surrogate, to be minimised.

    ``loss = layer(emissions, tags, mask)`` is what to minimise. (``torchcrf.CRF`` returns a
    log-likelihood, which is maximised, so its users write ``loss = -crf(...)``: that minus goes.)
    Parameters have the names, shapes and initial values of ``torchcrf.CRF``, whose ``state_dict``
    loads. A layer's own also has cost and temperature: a layer with others warns.

    Parameters
    ----------
    num_tags : int
    cost : "hamming", "absolute", "squared" or (k, k) matrix
        What a mistake costs; rows are true tags, columns predicted ones.
    temperature : float
        Weight of the log loss beside the cost, in units of a mean mistake: 0 is the paper's AGM
        (solved by compiled code on the CPU), inf a CRF with the cost in the decision only.
    batch_first : bool
        Whether emissions are (batch, time, num_tags) rather than (time, batch, num_tags).
    labels : sequence, optional
        Names of the tags, for ``constraints`` and ``export``.
    constraints : "BIO", "BIOES", list of (label, next label) or Constraints, optional
        Tagging scheme whose rules hold in training and in what is predicted, or transitions that
        may not be predicted, or both (`robustruct.Constraints`).
    tol : float
        Regret that the predictor may have in a game, relative to the range of the cost.
    max_iter : int
        Most steps of a game, each of which passes messages once.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> cost = [[0, 1, 1], [5, 0, 1], [5, 1, 0]]  # to miss tag 1 or 2 costs 5
    >>> layer = ChainAGM(3, cost, batch_first=True)
    >>> emissions, tags = torch.zeros(2, 4, 3), torch.tensor([[0, 1, 2, 0], [0, 0, 0, 0]])
    >>> layer(emissions, tags).backward()
    >>> layer.transitions.grad.shape
    torch.Size([3, 3])
    >>> [len(tags) for tags in layer.decode(emissions, decision="predictor")]
    [4, 4]
    """

    def __init__(
        self,
        num_tags: int,
        cost: Any = "hamming",
        temperature: float = 1.0,
        batch_first: bool = False,
        *,
        labels: Sequence[Any] | None = None,
        constraints: ConstraintsLike = None,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
    ) -> None:
        super().__init__(
            num_tags, cost, temperature, batch_first, labels, constraints, tol, max_iter
        )

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        node_weight: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        """Return the surrogate loss, to be minimised.

        Parameters
        ----------
        emissions : Tensor of shape (time, batch, num_tags), or (batch, time, num_tags)
        tags : integer Tensor of shape (time, batch), or (batch, time)
            Anything where masked, such as -100.
        mask : bool Tensor like ``tags``, optional
            False where there is no token, anywhere in a sequence: the tokens left are neighbours.
        node_weight : Tensor like ``tags``, optional
            Weight of each token's cost; 1 by default.
        reduction : "sum", "mean", "token_mean" or "none"
            Over the batch; "token_mean" divides by the number of tokens.
        """
        return self._loss(emissions, tags, mask, node_weight, reduction)


class ChainCRF(_ChainLayer):
    """``torchcrf.CRF`` with marginals, interior masks, rules, and decisions for a cost.

    ``layer(emissions, tags, mask)`` is the log-likelihood, as in pytorch-crf: to be *maximised*.

    Parameters
    ----------
    num_tags : int
    batch_first : bool
    cost : "hamming", "absolute", "squared" or (k, k) matrix
        For decisions; rows are true tags, columns predicted ones.
    labels, constraints
        As for `ChainAGM`.

    Examples
    --------
    >>> import torch
    >>> layer = ChainCRF(3, batch_first=True)
    >>> loss = -layer(torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long))
    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        cost: Any = "hamming",
        labels: Sequence[Any] | None = None,
        constraints: ConstraintsLike = None,
    ) -> None:
        super().__init__(num_tags, cost, math.inf, batch_first, labels, constraints, TOL, MAX_ITER)

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        """Return the log-likelihood, to be maximised.

        Parameters
        ----------
        emissions, tags, mask, reduction
            As for `ChainAGM.forward`.
        """
        return -self._loss(emissions, tags, mask, None, reduction)
