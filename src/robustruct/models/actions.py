"""Actions beside labels, such as asking a person, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustruct.errors import InvalidInputError, shown, warn
from robustruct.labels import as_labels
from robustruct.models.parameters import is_real


@dataclass(frozen=True, eq=False)
class Actions:
    """What a model may answer instead of a label."""

    names: tuple[str, ...]
    prices: np.ndarray
    """(k, a) what each action costs where each label is true, in the units of the cost."""
    given: Mapping[str, Any]

    @classmethod
    def of(cls, given: Any, classes: np.ndarray, cost: np.ndarray) -> Actions:
        """Return actions given by name with a price, or a price for each true label.

        ``cost`` (k, k) is that of the labels ``classes``; a price that makes an action useless is
        warned about.
        """
        if not isinstance(given, Mapping) or not given:
            raise InvalidInputError(
                f"actions={shown(given)}; give their prices by name, such as {{'review': 0.1}}.",
                field="actions",
            )
        known = {str(label) for label in classes.tolist()}
        for name in given:
            if not isinstance(name, str) or name in known:
                raise InvalidInputError(
                    f"the action {shown(name)} must be a text that is no label.", field="actions"
                )
        columns = [_prices(name, price, classes) for name, price in given.items()]
        actions = cls(tuple(given), np.stack(columns, axis=1), given)
        actions._warn_if_useless(cost, classes)
        return actions

    def with_costs(self, cost: np.ndarray) -> np.ndarray:
        """(k, k + a) the cost of labels (k, k) and actions."""
        return np.ascontiguousarray(np.hstack([cost, self.prices]))

    def priced(self, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """(K, a) the prices where each of ``known`` is true; of other labels, the highest."""
        place = {label: a for a, label in enumerate(classes.tolist())}
        highest = self.prices.max(axis=0)
        rows = [self.prices[place[b]] if b in place else highest for b in known.tolist()]
        return np.stack(rows)

    def answers(self, classes: np.ndarray) -> np.ndarray:
        """(k + a,) labels and names of actions, in one array."""
        if classes.dtype.kind == "U":
            return as_labels([*classes.tolist(), *self.names])
        both = np.empty(len(classes) + len(self.names), object)
        both[:] = [*classes.tolist(), *self.names]
        return both

    def _warn_if_useless(self, cost: np.ndarray, classes: np.ndarray) -> None:
        for name, prices in zip(self.names, self.prices.T, strict=True):
            never = np.flatnonzero((cost <= prices[:, None]).all(axis=0))
            if len(never):
                warn(
                    f"{name!r} is never worth its price: answering "
                    f"{shown(classes[never[0]].item())} costs no more, whatever is true."
                )
            elif (cost >= prices[:, None]).all():
                warn(f"{name!r} is always taken: no answer ever costs less, not even a right one.")


def _prices(name: str, price: Any, classes: np.ndarray) -> np.ndarray:
    """(k,) the price of an action where each label is true."""
    labels = classes.tolist()
    if isinstance(price, Mapping):
        missing = [label for label in labels if label not in price]
        if missing:
            raise InvalidInputError(
                f"the action {name!r} has no price where {shown(missing[0])} is true; give one for "
                "each label, or a single number.",
                field="actions",
            )
        given = [price[label] for label in labels]
    else:
        given = [price] * len(labels)
    for one in given:
        if not is_real(one) or not 0 <= one < np.inf:
            raise InvalidInputError(
                f"the action {name!r} costs {shown(one)}; a price is a finite number >= 0, in the "
                "units of the cost of mistakes.",
                field="actions",
            )
    return np.array(given, float)
