"""What scikit-learn expects of an estimator, without importing it before somebody asks.

Importing scikit-learn takes longer than a small fit, and it knows estimators by their methods, not
by their class. So parameters are read and set here, and whatever else its `BaseEstimator` would
have handed down (metadata routing, how notebooks show a model) is taken from there on first use.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Self

LONGEST = 700  # characters that a model shows of itself


class Estimator:
    """A model whose parameters are those of its constructor, kept under the same names."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """As scikit-learn calls it."""
        return sorted(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also those of parameters that have parameters."""
        found = {}
        for name in self._get_param_names():
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": one for inner, one in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``name__inner`` is a parameter of a parameter."""
        known = self._get_param_names()
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {own!r}; it has {', '.join(known)}."
                )
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def __repr__(self) -> str:
        """The call that makes such a model, with the parameters that are not at their defaults."""
        defaults = inspect.signature(type(self)).parameters
        given = self.get_params(deep=False).items()
        changed = [f"{n}={v!r}" for n, v in given if repr(v) != repr(defaults[n].default)]
        shown = f"{type(self).__name__}({', '.join(changed)})"
        half = LONGEST // 2
        return shown if len(shown) <= LONGEST else f"{shown[:half]}...{shown[-half:]}"

    def __sklearn_tags__(self) -> Any:
        return self._heir().__sklearn_tags__(self)

    def _heir(self) -> Any:
        model: type = type(self)
        return heir_of(model)

    def __getattr__(self, name: str) -> Any:
        """Only called where there is no such attribute: scikit-learn may have one to lend."""
        learnt = name.endswith("_") and not name.startswith("_")
        if learnt or name.startswith("__"):
            return object.__getattribute__(self, name)  # the usual error, or a property's own
        heir = self._heir()
        try:
            lent = inspect.getattr_static(heir, name)
        except AttributeError:
            return object.__getattribute__(self, name)
        return lent.__get__(self, heir) if hasattr(lent, "__get__") else lent


@cache
def heir_of(model: type) -> Any:
    """A class with the methods of ``model`` that does inherit from scikit-learn's estimators.

    From the methods' signatures scikit-learn makes those by which metadata are asked for.
    """
    from sklearn.base import BaseEstimator

    methods: dict[str, Any] = {}
    for base in reversed(model.__mro__):
        own = ((name, value) for name, value in vars(base).items() if not name.startswith("_"))
        methods |= {name: value for name, value in own if inspect.isfunction(value)}
    return type(model.__name__, (BaseEstimator,), methods)


def check_is_fitted(model: Estimator) -> None:
    """Refuse to use a model before ``fit``, with the error that scikit-learn knows."""
    if not hasattr(model, "coef_"):
        from sklearn.exceptions import NotFittedError

        name = type(model).__name__
        raise NotFittedError(f"This {name} instance is not fitted yet; call fit first.")
