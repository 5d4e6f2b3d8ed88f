"""Exports a layer as a model of robustruct, whose features are emissions of the network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from robustruct.constraints import TransitionMasks
from robustruct.features import FeatureSpace
from robustruct.labels import as_labels
from robustruct.losses import CostMatrix
from robustruct.models.agm import AGM
from robustruct.models.base import StructuredModel
from robustruct.models.crf import CRF
from robustruct.status import Status

if TYPE_CHECKING:
    from robustruct.torch.layers import _ChainLayer


def exported_model(layer: _ChainLayer, decision: str) -> StructuredModel:
    """See ``ChainAGM.export``.

    Node features are the k emissions, and two that are 1 at the first and at the last token, whose
    weights are the transitions of start and end.
    """
    k = layer.num_tags
    cost = layer.cost.cpu().double().numpy()
    options: dict[str, Any] = {
        "decision": decision,
        "constraints": layer.constraints,
    }
    model: StructuredModel
    if layer.temperature == math.inf:
        model = CRF(CostMatrix(cost, layer.labels), **options)
    else:
        loss = CostMatrix(cost, layer.labels)
        model = AGM(loss, temperature=float(layer.temperature), **options)
    start, end, pairs = (
        values.detach().cpu().double().numpy()
        for values in (layer.start_transitions, layer.end_transitions, layer.transitions)
    )
    columns = {"kind": "numeric", "width": k + 2}
    model._space = FeatureSpace.from_state({"bias": False, "nodes": columns, "edges": None})
    model.classes_ = as_labels(layer.labels)
    model._rules = TransitionMasks.build(model.classes_, layer.constraints)
    model.coef_ = np.concatenate([np.eye(k).ravel(), start, end, pairs.ravel()])
    learnt = {
        "cost_": cost,
        "decision_": decision,
        "temperature_": float(layer.temperature),
        "absolute_temperature_": float(layer.absolute_temperature),
        "inference_": "exact",
        "alpha_": 1.0,
        "history_": [],
        "n_iter_": 0,
        "n_samples_": 0,
        "n_nodes_": 0,
        "objective_": math.inf,
        "duality_gap_": math.inf,
        "status_": Status.STOPPED_EARLY,
    }
    for name, value in learnt.items():
        setattr(model, name, value)
    return model


def exported_samples(emissions: Tensor, alive: Tensor | None) -> list[np.ndarray]:
    """See ``ChainAGM.export_samples``; emissions are (batch, time, k)."""
    rows = emissions.detach().cpu().double().numpy()
    mask = np.ones(rows.shape[:2], bool) if alive is None else alive.cpu().numpy()
    samples = []
    for sequence, there in zip(rows, mask, strict=True):
        tokens = sequence[there]
        ends = np.zeros((len(tokens), 2))
        # Indicators of the first and the last token.
        ends[0, 0] = ends[-1, 1] = 1.0
        samples.append(np.hstack([tokens, ends]))
    return samples
