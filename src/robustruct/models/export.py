"""Models of chains for programs without robustruct: a module of numpy, or a file of CRFsuite."""

from __future__ import annotations

import io
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.features.columns import AttributeColumns, HashedColumns
from robustruct.formats.output import checked_path, replaced
from robustruct.models.crfsuite_file import write_crfsuite

if TYPE_CHECKING:
    from robustruct.models.base import StructuredModel

MODULE, CRFSUITE = ".py", ".crfsuite"


def export(model: StructuredModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model of chains; see ``StructuredModel.export``."""
    model._check_fitted()
    name = checked_path(path)
    _check_chains(model)
    if name.endswith(CRFSUITE):
        write_crfsuite(model, name)
    elif name.endswith(MODULE):
        _write_module(model, name.removesuffix(MODULE))
    else:
        raise InvalidInputError(
            f"{name!r} is neither a module ({MODULE}) nor a model of CRFsuite ({CRFSUITE}); end it "
            "with one of these, or keep the model itself with save().",
            field="path",
        )


def _check_chains(model: StructuredModel) -> None:
    """Refuse what a tagger of plain sequences cannot do."""
    space = model._space
    refusal = None
    if space.types:
        refusal = f"its nodes have types ({', '.join(map(str, space.types[:5]))})"
    elif space.edge_columns is not None:
        names = ", ".join(space.edge_feature_names[:5])
        refusal = f"its edges have features ({names})"
    elif getattr(model, "inference_", "exact") == "relaxed":
        refusal = "it was trained on graphs with cycles, by relaxed inference"
    if refusal is not None:
        raise IncompatibleError(
            f"this {type(model).__name__} cannot be exported: {refusal}, and taggers of sequences "
            "know labels and their transitions only. Use robustruct where it is needed."
        )


def _write_module(model: StructuredModel, stem: str) -> None:
    decision, hot = model._decision, model.temperature_ > 0
    if decision == "predictor" and model.temperature_ < np.inf:
        raise IncompatibleError(
            "decision='predictor' solves a game for each sequence, which numpy alone does not; "
            "set_params(decision='map')" + (" or 'bayes' first." if hot else " first.")
        )
    arrays, settings = _weights(model)
    rules = model._rules
    arrays |= {
        "transitions": model.transitions_ + rules.pairs,
        "starts": rules.starts,
        "ends": rules.ends,
        "cost": model.cost_,
    }
    settings |= {
        "labels": model.classes_.tolist(),
        "decision": "map" if decision == "map" else "bayes",
        "scale": float(model._scale),
        "temperature": float(model.absolute_temperature_) if hot else 1.0,
        "has_probabilities": bool(model.temperature_ == np.inf),
        "has_rules": not rules.empty,
    }
    try:
        text = json.dumps(settings, allow_nan=False)
    except TypeError:
        raise IncompatibleError(
            "labels must be text or numbers to be exported; they are "
            f"{type(model.classes_.tolist()[0]).__name__} objects."
        ) from None
    arrays["settings"] = np.frombuffer(text.encode(), np.uint8)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    code = files("robustruct.models").joinpath("tagger.py").read_text(encoding="utf-8")
    for ending, content in ((".npz", packed.getvalue()), (MODULE, code.encode())):
        with replaced(stem + ending) as unfinished:
            Path(unfinished).write_bytes(content)


def _weights(model: StructuredModel) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The weights of nodes, of which rows without any are left out, and how to find them."""
    space, block = model._space, model.node_weights_
    bias = block[-1] if space.bias else np.zeros(block.shape[1])
    block = block[: len(block) - space.bias]
    columns = space.node_columns
    names: list[str] = []
    if isinstance(columns, AttributeColumns):
        kept = np.flatnonzero(np.any(block != 0, axis=1))
        block, given = block[kept], columns.vocabulary.packed()
        names = [given[i] for i in kept.tolist()]
    encoded = [name.encode() for name in names]
    places = np.flatnonzero(block)
    arrays = {
        "bias": bias,
        "places": places.astype(np.uint32 if block.size < 2**32 else np.int64),
        "values": block.ravel()[places],
        "names": np.frombuffer(b"".join(encoded), np.uint8),
        "name_offsets": np.cumsum([0, *map(len, encoded)]),
    }
    hashed = columns.width if isinstance(columns, HashedColumns) else 0
    numeric = not isinstance(columns, AttributeColumns | HashedColumns)
    kind = "numeric" if numeric else "attributes"
    return arrays, {"n_rows": len(block), "hashed": hashed, "kind": kind}
