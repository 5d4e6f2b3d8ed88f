"""Arrays of labels that keep every label as it is, their order, and their codes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.arrays import refuse_masked
from robustruct.errors import InvalidInputError, shown

ROOM, WASTE = 2**26, 64
"""NumPy pads every text to the longest. Where that takes more than ROOM bytes (64 MB) and more than
WASTE times what the texts need, they stay Python objects."""


def as_labels(labels: Any) -> np.ndarray:
    """Convert labels to a 1-D array without changing any: mixed types stay Python objects."""
    if isinstance(labels, np.ndarray):
        refuse_masked(labels, "labels")
        array = np.asarray(labels)
    elif isinstance(labels, Iterable) and not isinstance(labels, Mapping | Set):
        array = _array_of(list(labels))
    else:
        raise InvalidInputError(
            f"labels are a {type(labels).__name__}; expected a list or array, one label per node."
        )
    if array.ndim != 1:
        raise InvalidInputError(f"labels have shape {array.shape}; expected one label per node.")
    _check_comparable(array)
    return array


@dataclass(frozen=True)
class Options:
    """What is known of a node's label where it is not one label."""

    labels: tuple[Any, ...]
    """The labels that it can have; empty where nothing is known."""
    weights: tuple[float, ...] = ()
    """Weight of each, if they were given weights."""

    @property
    def unknown(self) -> bool:
        """Whether nothing is known."""
        return not self.labels


PLAIN = frozenset({str, int, bool, np.str_, np.int64, np.bool_})


def split_options(labels: Any) -> tuple[Any, dict[int, Options]]:
    """Split the labels of a sample into those that are known and, by node, `Options`.

    None and NaN are unknown, a set or list holds the labels that are possible, a dict gives them
    weights. Labels without any of these come back as they are.
    """
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        return labels, {}
    if isinstance(labels, np.ndarray) and (labels.ndim != 1 or labels.dtype.kind not in "Of"):
        return labels, {}
    if isinstance(labels, np.ma.MaskedArray | Mapping | Set):
        return labels, {}
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if set(map(type, values)) <= PLAIN:
        return labels, {}
    known, options = [], {}
    for i, value in enumerate(values):
        try:
            found = _read(value)
        except InvalidInputError as error:
            error.node = i
            raise error.at(f"node {i}") from None
        if isinstance(found, Options):
            options[i] = found
        else:
            known.append(found)
    return known, options


def _read(value: Any) -> Any:
    """Return `Options`, or the label itself where it is one label."""
    if isinstance(value, Mapping):
        labels, weights = list(value), list(value.values())
        numbers = all(isinstance(w, int | float | np.integer | np.floating) for w in weights)
        if not (numbers and all(0 <= w < np.inf for w in weights) and 0 < sum(weights) < np.inf):
            raise InvalidInputError(
                f"the weights of labels are {shown(dict(value))}; each is a finite number >= 0, "
                "and one at least is positive."
            )
        pairs = [(a, float(w)) for a, w in zip(labels, weights, strict=True) if w > 0]
        labels, total = [a for a, _ in pairs], sum(w for _, w in pairs)
        found = Options(tuple(labels), tuple(w / total for _, w in pairs))
    elif isinstance(value, Set | list):
        labels = list(value)
        if not labels:
            raise InvalidInputError(
                "the set of labels is empty; None stands for a label that is unknown."
            )
        wrong = [label for label in labels if is_missing(label) or not isinstance(label, Hashable)]
        if wrong:
            raise InvalidInputError(f"a set of labels holds {shown(wrong[0])}, which is no label.")
        found = Options(tuple(sorted(set(labels), key=lambda a: (family(a), a))))
    else:
        return Options(()) if is_missing(value) else value
    return found.labels[0] if len(found.labels) == 1 else found


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN or pandas.NA."""
    try:
        return label is None or bool(label != label)  # only NaN differs from itself
    except TypeError:  # pandas.NA: its comparison has no truth value
        return True
    except ValueError:  # an array: no label, and refused elsewhere
        return False


def as_classes(classes: Any) -> np.ndarray:
    """As `as_labels`, but refuse labels that are listed twice."""
    array = as_labels(classes)
    n_distinct = len(set(array.tolist()))
    if n_distinct < len(array):
        raise InvalidInputError(
            f"classes hold {len(array)} labels, of which {n_distinct} are distinct; list each once."
        )
    return array


def category_order(y: Any) -> np.ndarray | None:
    """Return the order of labels that are ordered Categoricals of pandas or Enums of polars.

    Others give None, and so do numbers in ascending order: their values carry more than it.
    """
    arrays = y if isinstance(y, list | tuple) else [y]
    orders = [dtype.categories for dtype in map(_dtype, arrays) if _is_ordered(dtype)]
    if not orders:
        return None
    order = as_labels(list(orders[0]))
    other = next((one for one in orders if list(one) != order.tolist()), None)
    if other is not None:
        raise InvalidInputError(
            f"y holds Categoricals of two orders, {shortened(order.tolist())} and "
            f"{shortened(list(other))}; give all samples the same categories."
        )
    numbers = {family(label) for label in order} <= {"number"}
    return None if numbers and bool(np.all(order[1:] > order[:-1])) else order


def _dtype(labels: Any) -> Any:
    return getattr(labels, "dtype", None)


def _is_ordered(dtype: Any) -> bool:
    if type(dtype).__module__.startswith("polars."):
        return type(dtype).__name__ == "Enum"
    return bool(getattr(dtype, "ordered", False))


def sorted_labels(label_arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the distinct labels, sorted; several types are sorted type by type."""
    if exactly_comparable(label_arrays):
        return np.unique(np.concatenate(label_arrays))
    distinct = {label for array in label_arrays for label in array.tolist()}
    try:
        return as_labels(sorted(distinct, key=lambda label: (family(label), label)))
    except TypeError as error:
        raise InvalidInputError(
            f"labels have no order ({error}); use numbers or strings as labels."
        ) from error


def encode_labels(labels: np.ndarray, classes: np.ndarray, field: str) -> np.ndarray:
    """(n,) index of each label in ``classes``; an error names the first unknown label."""
    if exactly_comparable([labels, classes]) and bool(np.all(classes[1:] > classes[:-1])):
        codes = np.searchsorted(classes, labels)
        # Labels behind the last class: any code will do, as the comparison below tells.
        codes[codes == len(classes)] = 0
        unknown = classes[codes] != labels if len(classes) else np.ones(len(labels), bool)
    else:
        place = {label: a for a, label in enumerate(classes.tolist())}
        codes = np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.intp)
        unknown = codes < 0
    if unknown.any():
        i = int(np.argmax(unknown))
        raise InvalidInputError(
            f"{field} holds the label {shown(labels[i : i + 1].tolist()[0])} (node {i}), which is "
            f"not among the known labels {shortened(classes.tolist())}.",
            field=field,
        )
    return codes.astype(np.intp, copy=False)


def exactly_comparable(arrays: Sequence[np.ndarray]) -> bool:
    """Return whether NumPy can concatenate labels without changing any.

    It would turn numbers beside text into text, and integers beside floats into floats, which are
    not exact beyond 2**53. One long text would pad all others (see ROOM).
    """
    kinds = {_kind(array) for array in arrays}
    if len(kinds) != 1 or kinds & {"O", "V"}:
        return False
    if kinds == {"U"}:
        together = sum(map(len, arrays)) * max(array.dtype.itemsize for array in arrays)
        return together <= max(ROOM, WASTE * sum(array.nbytes for array in arrays))
    if np.result_type(*arrays).kind != "f":
        return True
    return not any(
        len(array) and array.dtype.kind in "iu" and max(-int(array.min()), int(array.max())) > 2**53
        for array in arrays
    )


def _kind(array: np.ndarray) -> str:
    return "n" if array.dtype.kind in "iufb" else array.dtype.kind


def family(label: Any) -> str:
    """Return the name of the types with which a label can be compared."""
    return _family_of(type(label))


def _family_of(kind: type) -> str:
    if issubclass(kind, str):
        return "str"
    numbers = (int, float, np.integer, np.floating, np.bool_)
    return "number" if issubclass(kind, numbers) else kind.__name__


def _array_of(values: list[Any]) -> np.ndarray:
    """Convert labels to a NumPy array of one type, if that changes none, else of objects."""
    families = {_family_of(kind) for kind in set(map(type, values))}
    if families == {"str"}:
        together = 4 * len(values) * max(map(len, values))
        wide = together > ROOM and together > WASTE * 4 * sum(map(len, values))
        return _objects(values) if wide else np.asarray(values)
    if families <= {"number"}:
        array = np.asarray(values)
        integers = any(isinstance(label, int | np.integer) for label in values)
        if array.dtype.kind != "f" or not integers or array.tolist() == values:
            return array
    return _objects(values)


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # array[:] = values would make rows of tuples
        array[i] = value
    return array


def _check_comparable(labels: np.ndarray) -> None:
    """Refuse labels that do not equal themselves or are not hashable, as NaN and lists."""
    if labels.dtype.kind in "fcmM":
        wrong = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        wrong = np.array([not _is_label(label) for label in labels], dtype=bool)
    else:
        return
    if wrong.any():
        i = int(wrong.argmax())
        raise InvalidInputError(
            f"node {i} has the label {shown(labels[i : i + 1].tolist()[0])}; a label is a finite "
            "number, a string or another hashable value.",
            node=i,
        )


def _is_label(value: Any) -> bool:
    if family(value) == "number":
        return bool(abs(value) < np.inf)  # False for NaN, too
    return isinstance(value, Hashable)


def shortened(labels: list[Any]) -> str:
    """Format labels for a message, the first ten if there are many."""
    if len(labels) <= 12:
        return f"[{', '.join(map(shown, labels))}]"
    return f"[{', '.join(map(shown, labels[:10]))}, ... {len(labels) - 10} more]"
