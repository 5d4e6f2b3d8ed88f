"""What of a model goes into a file, and a model back out of it.

Stored are the class, the constructor's parameters (but not where it was trained), the
feature space and the attributes that fits make (`ATTRIBUTES`). JSON holds them, with a tag on what
JSON lacks (``{"tuple": [...]}``); arrays stay arrays.

A file may come from anywhere: what is read from it is given to a model only if its name is known
and its value is what a fit could have made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import astuple, fields, replace
from numbers import Integral
from typing import Any

import numpy as np

from robustruct.constraints import Constraints, TransitionMasks
from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, PackedNames
from robustruct.features.columns import AttributeColumns
from robustruct.features.names import Vocabulary
from robustruct.formats.container import (
    Arrays,
    ContainerKind,
    read_container,
    write_container,
)
from robustruct.formats.text import shown
from robustruct.guarantees.risk_control import Rule
from robustruct.labels import as_labels
from robustruct.losses import Absolute, CostMatrix, Hamming, Loss, Squared, as_loss
from robustruct.metrics import SpanCost
from robustruct.models.agm import AGM
from robustruct.models.auto import AutoModel
from robustruct.models.base import StructuredModel
from robustruct.models.crf import CRF
from robustruct.models.crfsuite_file import is_crfsuite, read_crfsuite
from robustruct.models.fitting.choice import DECISIONS, MEMBERS, Tried, is_number, is_span_rule
from robustruct.models.fitting.forecast import Forecast
from robustruct.models.fitting.likeness import Likeness
from robustruct.models.parameters import OptimizerFor, check_parameters
from robustruct.models.ssvm import SSVM
from robustruct.optimizers.certificates import ROUNDING, Record, records
from robustruct.status import Status

MODEL = ContainerKind("robustruct-model", 4, "model.save()", oldest=3)
"""In files of format 1 rows of cost matrices were the predicted labels; models of format 2 had
parameters that are now options of ``fit``, or parts of others; format 3 had no sparse weights."""

SPARSE = 1 / 3
"""Weights are stored with their places, half as long, where fewer than this share are not 0."""

MODELS: dict[str, type[StructuredModel]] = {
    kind.__name__: kind for kind in (AGM, CRF, SSVM, AutoModel)
}
MOST = 1e200  # of weights, costs and temperatures, so that scores stay finite; fits end far below

RULE_PARTS = tuple(field.name for field in fields(Rule))

LOSSES: dict[str, type[Loss]] = {loss.__name__: loss for loss in (Hamming, Absolute, Squared)}


def save(model: StructuredModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; see ``StructuredModel.save``."""
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        raise InvalidInputError(
            f"a {name} cannot be saved: files hold {', '.join(MODELS)} but none of their "
            "subclasses, as no code goes into a file."
        )
    if not hasattr(model, "coef_"):
        raise InvalidInputError(
            f"this {name} is not fitted, so there is nothing to save; call fit."
        )
    check_parameters(model)  # load would refuse them
    arrays: Arrays = {}
    space, weights = _used(model)
    attributes = {key: value for key, value in vars(model).items() if key in ATTRIBUTES}
    del attributes["coef_"]
    description = {
        "model": name,
        "parameters": _described_parameters(model, arrays),
        "space": _described_space(space, arrays),
        "attributes": {
            "coef_": _described_weights(space, weights, arrays),
            **{key: _described(value, key, arrays) for key, value in attributes.items()},
        },
    }
    write_container(path, MODEL, description, arrays)


def load(path: str | os.PathLike[str]) -> StructuredModel:
    """Read a model that ``model.save(path)`` wrote, or one of CRFsuite.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    AGM, CRF, SSVM or AutoModel
        Fitted: it predicts exactly as the saved one did. Attributes whose weights are all 0 under a
        penalty ``l1`` are not kept. A model of CRFsuite becomes a CRF with ``decision="map"``,
        whose labels and marginals are those of CRFsuite's tagger.

    Raises
    ------
    InvalidInputError
        The file is damaged, is no model, or comes from a newer version.
    FileNotFoundError
        There is no such file.
    """
    if is_crfsuite(path):
        return read_crfsuite(path)
    description, arrays, version = read_container(path, MODEL)
    try:
        return _restored_model(description, arrays)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"cannot load {os.fspath(path)!r}, written by robustruct {version:.40}: "
            f"{str(error)[:1000]}"
        ) from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        raise InvalidInputError(
            f"cannot load {os.fspath(path)!r}, written by robustruct {version:.40}: it does not "
            f"describe a model in full ({type(e).__name__}: {str(e)[:200]})."
        ) from e


def _restored_model(description: dict[str, Any], arrays: Arrays) -> StructuredModel:
    name = description["model"]
    if name not in MODELS:
        raise InvalidInputError(f"the model {name!r} is not known here; upgrade robustruct.")
    parameters = {key: _restored(v, arrays) for key, v in description["parameters"].items()}
    unknown = sorted(set(parameters) - set(MODELS[name]._parameters))
    if unknown:
        raise InvalidInputError(
            f"{name} has no parameter {', '.join(unknown)} here; upgrade robustruct."
        )
    model = MODELS[name](**parameters)
    check_parameters(model)
    model._space = _restored_space(description["space"], arrays)
    _fill_weights(description["attributes"], model._space, arrays)
    for key, value in _restored_attributes(description["attributes"], arrays).items():
        setattr(model, key, value)
    _check_weights(model)
    types = getattr(model, "type_labels_", None)
    if list(types or ()) != list(model._space.types):
        raise InvalidInputError("its types of nodes do not fit its features.")
    model._rules = TransitionMasks.build(model.classes_, model.constraints, types)
    return model


def _restored_attributes(description: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    unknown = sorted(set(description) - set(ATTRIBUTES))
    if unknown:
        raise InvalidInputError(
            f"it holds {shown(unknown[0])}, which no model has here; upgrade robustruct."
        )
    missing = sorted(NEEDED - set(description))
    if missing:
        raise InvalidInputError(
            f"it does not describe a model in full: {', '.join(missing)} is missing."
        )
    found = {key: _restored(value, arrays) for key, value in description.items()}
    for key, value in found.items():
        if not ATTRIBUTES[key](value):
            raise InvalidInputError(f"its {key} is not what a fit makes: {shown(value)}.")
    return found


def _check_weights(model: StructuredModel) -> None:
    """Refuse weights and costs of another size than features and labels ask for."""
    space, k = model._space, len(model.classes_)
    n = space.n_node_features * k + space.n_edge_features * k * k
    if model.coef_.shape != (n,) or model.cost_.shape != (k, k):
        raise InvalidInputError("its weights do not fit its features and labels.")
    if (model.temperature_ > 0) != (model.absolute_temperature_ > 0):
        raise InvalidInputError("its temperatures, with and without units, contradict each other.")


# ------------------------------------------------------------------------- the attributes of a fit


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_temperature(value: Any) -> bool:
    return is_number(value) and (value in (0, math.inf) or 1 / MOST <= value <= MOST)


def _is_array(value: Any, dtype: Any, n_dimensions: int) -> bool:
    is_one = isinstance(value, np.ndarray)
    return is_one and value.dtype == dtype and value.ndim == n_dimensions


def _is_bounded(value: Any, n_dimensions: int) -> bool:
    if not _is_array(value, np.float64, n_dimensions):
        return False
    if not value.size:
        return True
    return bool(value.min() >= -MOST and value.max() <= MOST)  # no copy; false where one is NaN


def _are_labels(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        return False
    return 0 < len(value) == len(set(value.tolist()))


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Record) for item in value)


def _are_trials(value: Any) -> bool:
    tried = isinstance(value, list) and all(isinstance(one, Tried) for one in value)
    return tried and len(value) > 0 and all(one.is_sound for one in value)


def _is_rule(value: Any) -> bool:
    numbers = (value.miss, value.missed, value.price)
    counts = (value.most, value.n, value.n_needed)
    threshold = value.threshold
    return (
        all(is_number(one) and 0 <= one < math.inf for one in numbers)
        and all(map(_is_count, counts))
        and isinstance(threshold, float)
        and not math.isnan(threshold)
        and _is_array(value.digests, np.uint64, 1)
    )


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


ATTRIBUTES: dict[str, Callable[[Any], bool]] = {
    "classes_": _are_labels,
    "coef_": lambda value: _is_bounded(value, 1),
    "cost_": lambda value: _is_bounded(value, 2),
    "sample_digests_": lambda value: _is_array(value, np.uint64, 1),
    "rules_": lambda value: _is_dict(value) and all(map(_is_rule, value.values())),
    "labels_as_lists_": lambda value: isinstance(value, bool),
    "temperature_": _is_temperature,
    "absolute_temperature_": lambda value: _is_temperature(value) and value < math.inf,
    "decision_": lambda value: value in DECISIONS,
    "decision_scale_": lambda value: is_number(value) and 1 / MOST <= value <= MOST,
    "span_rule_": is_span_rule,
    "member_": lambda value: value in MEMBERS.values(),
    "type_labels_": lambda value: _is_dict(value) and all(map(_are_labels, value.values())),
    "inference_": lambda value: value in ("exact", "relaxed"),
    "n_samples_": _is_count,
    "n_nodes_": _is_count,
    "label_order_": _are_labels,
    "n_features_in_": _is_count,
    "feature_names_in_": _are_labels,
    "input_": _is_dict,
    "alpha_": lambda value: is_number(value) and 0 < value < math.inf,
    "trials_": _are_trials,
    "likeness_": lambda value: isinstance(value, Likeness) and value.is_sound,
    "forecast_": lambda value: isinstance(value, Forecast) and value.is_sound,
    "history_": _are_records,
    "n_iter_": _is_count,
    "status_": lambda value: isinstance(value, Status),
    "objective_": is_number,  # infinite before the first certificate, as is the gap
    "duality_gap_": lambda value: is_number(value) and value >= -ROUNDING,
    "validation_loss_": is_number,
    "worst_case_": lambda value: _is_dict(value) and all(map(is_number, value.values())),
}
"""Whether a value may be an attribute of a fitted model; a file cannot set any other."""

NEEDED = {
    "absolute_temperature_",
    "alpha_",
    "classes_",
    "coef_",
    "cost_",
    "decision_",
    "duality_gap_",
    "history_",
    "n_iter_",
    "temperature_",
}


# ------------------------------------------------------------------------- the parts of a model


def _described_parameters(model: StructuredModel, arrays: Arrays) -> dict[str, Any]:
    parameters = {name: getattr(model, name) for name in model._parameters}
    accepted = model._parameters.get("optimizer")
    if isinstance(accepted, OptimizerFor):
        parameters["optimizer"] = accepted.stored(parameters["optimizer"])
    if not isinstance(parameters["random_state"], Integral):
        parameters["random_state"] = None
    if callable(parameters.get("target")) and not isinstance(parameters["target"], SpanCost):
        parameters["target"] = None
    loss = parameters["loss"]
    if isinstance(loss, Loss) and not _is_storable(loss):
        parameters["loss"] = CostMatrix(loss.matrix(model.classes_), model.classes_)
    return {key: _described(value, key, arrays) for key, value in parameters.items()}


def _is_storable(loss: Any) -> bool:
    """Whether a loss needs no code of its own: others are kept as their costs."""
    if type(loss) is CostMatrix and loss.single is not None:
        return _is_storable(as_loss(loss.default))
    return type(loss) in (*LOSSES.values(), CostMatrix)


def _described_space(space: FeatureSpace, arrays: Arrays) -> dict[str, Any]:
    """The state of the space with its names, of which there may be millions, moved to arrays."""
    state = space.state()
    for side in ("nodes", "edges"):
        if state[side] is not None and "names" in state[side]:
            names = state[side].pop("names")
            arrays[f"{side}.names"], arrays[f"{side}.name_offsets"] = names.data, names.offsets
    return state


def _restored_space(state: dict[str, Any], arrays: Arrays) -> FeatureSpace:
    types = state.get("types", [])
    simple = isinstance(types, list) and all(type(kind) in (str, int) for kind in types)
    if not simple or len(set(types)) < len(types) or not isinstance(state["bias"], bool):
        raise InvalidInputError("its features have no bias or types of nodes that make sense.")
    for side in ("nodes", "edges"):
        if f"{side}.names" in arrays:
            packed = arrays[f"{side}.names"], arrays[f"{side}.name_offsets"]
            state[side]["names"] = PackedNames.checked(*packed)
    for part in filter(None, (state["nodes"], state["edges"])):
        if "width" in part and not _is_count(part["width"]):
            raise InvalidInputError(f"its features have {shown(part['width'])} columns.")
        if "names" in part and not isinstance(part["names"], PackedNames):
            raise InvalidInputError("its features have names that are no text.")
    return FeatureSpace.from_state(state)


def _used(model: StructuredModel) -> tuple[FeatureSpace, np.ndarray]:
    """The features and weights of a model without attributes that a penalty has taken out."""
    space, weights = model._space, model.coef_
    if not (model.l1 > 0 and isinstance(space.node_columns, AttributeColumns)):
        return space, weights
    block = model.node_weights_
    n_names = len(space.node_columns)
    kept = np.flatnonzero(np.any(block[:n_names] != 0, axis=1))
    if len(kept) == n_names or not len(kept):
        return space, weights
    rows = np.concatenate([kept, np.arange(n_names, len(block))])  # and the bias
    names = space.node_columns.vocabulary.packed()
    columns = AttributeColumns(Vocabulary.of(PackedNames.of(names[i] for i in kept.tolist())))
    found = np.concatenate([block[rows].ravel(), weights[block.size :]])
    return replace(space, node_columns=columns), found


def _described_weights(space: FeatureSpace, weights: np.ndarray, arrays: Arrays) -> dict[str, Any]:
    """Weights, of which only those other than 0 are stored where they are few."""
    named = isinstance(space.node_columns, AttributeColumns)
    many = np.count_nonzero(weights) >= SPARSE * len(weights) or len(weights) >= 2**32
    if many or not named:
        return _described_array(weights, "coef_", arrays)
    places = np.flatnonzero(weights)
    arrays["coef_.places"], arrays["coef_.values"] = places.astype(np.uint32), weights[places]
    return {"sparse": "coef_"}


def _fill_weights(attributes: dict[str, Any], space: FeatureSpace, arrays: Arrays) -> None:
    """Put in place the weights that were stored without their zeros."""
    if attributes.get("coef_") != {"sparse": "coef_"}:
        return
    # Names and labels are in the file one by one, so their number, and the memory, is no claim.
    if not isinstance(space.node_columns, AttributeColumns):
        raise InvalidInputError("its weights are sparse, but its features have no names.")
    k = len(_restored(attributes["classes_"], arrays))
    size = space.n_node_features * k + space.n_edge_features * k * k
    places, values = arrays["coef_.places"], arrays["coef_.values"]
    sound = places.dtype == np.uint32 and places.shape == values.shape and places.ndim == 1
    if not sound or (len(places) and int(places.max()) >= size):
        raise InvalidInputError("its weights do not fit its features and labels.")
    weights = np.zeros(size)
    weights[places] = values
    arrays["coef_"] = weights
    attributes["coef_"] = {"array": "coef_"}


# ------------------------------------------------------------------------- values


def _described(value: Any, where: str, arrays: Arrays) -> Any:
    """A value as JSON; ``where`` names it in messages and its array in the file."""

    def inner(part: Any) -> Any:
        return _described(part, f"{where}.{len(arrays)}", arrays)

    if isinstance(value, np.ndarray):
        return _described_array(value, where, arrays)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list | range):
        trials = [list(item) for item in value if isinstance(item, Tried)]
        if trials:
            return {"trials": [[inner(part) for part in one] for one in trials]}
        if value and all(isinstance(item, Record) for item in value):
            arrays[where] = np.array([astuple(item) for item in value])  # type: ignore[arg-type]
            return {"records": where}
        return [inner(item) for item in value]
    if isinstance(value, tuple | set | frozenset):
        return {type(value).__name__: [inner(item) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": [[inner(key), inner(item)] for key, item in value.items()]}
    if isinstance(value, CostMatrix):
        labels, default = inner(value.labels), inner(value.default)
        if value.single is not None:
            return {"single": inner(value.single), "labels": labels, "default": default}
        return {"costs": inner(value.costs), "labels": labels}
    if isinstance(value, Loss) and type(value).__name__ in LOSSES:
        order = getattr(value, "order", None)
        described = {"loss": type(value).__name__}
        return described if order is None else {**described, "order": inner(order)}
    if isinstance(value, SpanCost):
        return {"span_cost": [inner(part) for part in astuple(value)]}
    if isinstance(value, Constraints):
        fields = value.scheme, value.forbidden, value.bad_labels
        return {"constraints": [inner(field) for field in fields]}
    if isinstance(value, Rule):
        parts = [getattr(value, name) for name in RULE_PARTS]
        return {"rule": [inner(part) for part in parts]}
    if isinstance(value, Status):
        return {"status": value.name}
    raise InvalidInputError(
        f"{where.partition('.')[0]} holds a {type(value).__name__}, which a model file cannot "
        "keep; use numbers, strings, and lists, tuples, sets, dicts or arrays of these."
    )


def _described_array(array: np.ndarray, where: str, arrays: Arrays) -> dict[str, Any]:
    if array.dtype.kind in "biuf":
        arrays[where] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return {"array": where}
    items = [_described(item, where, arrays) for item in array.tolist()]
    return {"items": items, "dtype": array.dtype.str if array.dtype.kind == "U" else "O"}


_TAGS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "bytes": bytes.fromhex,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "Forecast": lambda parts: Forecast(*parts),
    "Likeness": lambda parts: Likeness(*parts),
}


def _restored(value: Any, arrays: Arrays) -> Any:
    """The value that ``_described`` described."""
    if isinstance(value, list):
        return [_restored(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "items" in value:
        # A width from the file could ask for any amount of memory; that of the texts is enough.
        return as_labels(_restored(value["items"], arrays))
    if "records" in value:
        return records(arrays[value["records"]])
    if "trials" in value:
        return [Tried(*_restored(row, arrays)) for row in value["trials"]]
    if "dict" in value:
        return dict(_restored(value["dict"], arrays))
    if "costs" in value:
        return CostMatrix(_restored(value["costs"], arrays), _restored(value["labels"], arrays))
    if "single" in value:
        return CostMatrix(*(_restored(value[k], arrays) for k in ("single", "labels", "default")))
    if "loss" in value:
        kind = LOSSES[value["loss"]]
        return kind(_restored(value["order"], arrays)) if "order" in value else kind()  # type: ignore[call-arg]
    if "constraints" in value:
        return Constraints(*_restored(value["constraints"], arrays))
    if "span_cost" in value:
        return SpanCost(*_restored(value["span_cost"], arrays))
    if "rule" in value:
        return Rule(*_restored(value["rule"], arrays))
    if "status" in value:
        return Status[value["status"]]
    ((tag, content),) = value.items()
    return _TAGS[tag](_restored(content, arrays))
