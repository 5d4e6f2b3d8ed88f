"""What actions beside labels cost, and what always or never taking them would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.losses import LossLike
from robustruct.models.actions import Actions
from robustruct.models.base import StructuredModel
from robustruct.models.prediction import HeldOut


@dataclass(frozen=True)
class ActionCosts:
    """Costs per node of weight 1, and how often actions were taken."""

    cost: float
    """With the actions where the model takes them."""
    shares: dict[str, float]
    """Of the nodes, by weight, on which each action was taken."""
    always: dict[str, float]
    """What it costs to take each action everywhere."""
    never: float
    """What labels alone cost."""


def action_costs(
    model: StructuredModel,
    X: Any,
    y: Any,
    actions: Any,
    node_weight: Any = None,
    *,
    loss: LossLike | None = None,
) -> ActionCosts:
    """Return what ``predict(X, actions=actions)`` costs on labelled samples.

    ``loss`` is what mistakes cost, by default the model's; decisions are made for that of training.
    """
    chosen = Actions.of(actions, model.classes_, model.cost_)
    design, flat = model._encode(X)
    price_of = model.loss_ if loss is None else loss
    plain = HeldOut.encoded(design, flat, model.classes_, price_of, y, None, node_weight)
    taken = plain.with_actions(chosen, model.classes_)
    k, n = len(model.classes_), design.batch.n_nodes
    codes = taken.decided(model, None, chosen)
    total = plain.node_weight.sum()
    shares = np.bincount(codes, plain.node_weight, k + len(chosen.names))[k:] / total
    everywhere = [taken.mean_cost(np.full(n, k + a)) for a in range(len(chosen.names))]
    return ActionCosts(
        taken.mean_cost(codes),
        dict(zip(chosen.names, shares.tolist(), strict=True)),
        dict(zip(chosen.names, everywhere, strict=True)),
        plain.mean_cost(plain.decided(model)),
    )
