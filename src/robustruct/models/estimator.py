"""Models are estimators of scikit-learn, which need not be loaded for that.

Importing scikit-learn takes twice as long as everything else that loading a model and predicting
with it does, and more memory, while neither uses any of it. So its base classes come in when they
are needed: where a model is made while scikit-learn is loaded, and where one of their methods is
called, as every tool of scikit-learn does that is given a model.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any, Self

from robustruct.models.parameters import refuse_moved

HOME = "sklearn.base"

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin

    class _Unloaded(ClassifierMixin, BaseEstimator):
        """What type checkers see."""

else:

    class _Unloaded:
        """Stands in for scikit-learn's base classes, and loads them when one of theirs is used."""

        def set_params(self, **params: Any) -> Self:
            if not params.keys() <= parameter_names(type(self)):
                return _loaded(self).set_params(**params)  # what is inside others, or not known
            for name, value in params.items():
                setattr(self, name, value)
            return self

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return _loaded(self).get_params(deep)

        def __repr__(self) -> str:
            return repr(_loaded(self))

        def __sklearn_tags__(self) -> Any:
            return _loaded(self).__sklearn_tags__()

        def __getattr__(self, name: str) -> Any:
            asked = name.startswith("set_") and name.endswith("_request")
            if asked or name in ("get_metadata_routing", "_repr_html_", "_repr_mimebundle_"):
                return getattr(_loaded(self), name)
            return object.__getattribute__(self, name)  # the usual error, or a property's own


def parameter_names(kind: type) -> Set[str]:
    """What models of a class are made with: the parameters of its constructor."""
    return inspect.signature(kind).parameters.keys()


class Estimator(_Unloaded):
    """The base of models: what scikit-learn makes of an estimator, as soon as it is needed."""

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        refuse_moved(cls, parameters)
        if HOME in sys.modules:
            _inherit()
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor.

        Parameters
        ----------
        **params
            By name.

        Returns
        -------
        self
        """
        refuse_moved(type(self), params)
        return super().set_params(**params)

    def _check_fitted(self) -> None:
        """Refuse to go on before ``fit``, with the error that scikit-learn's tools know."""
        if not hasattr(self, "coef_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self)


def _loaded(model: Any) -> Any:
    """The same model, which is an estimator of scikit-learn now."""
    _inherit()
    return model


def _inherit() -> None:
    """Put the base classes of scikit-learn below `Estimator`, once."""
    if _Unloaded not in Estimator.__bases__:
        return
    from sklearn.base import BaseEstimator, ClassifierMixin

    Estimator.__bases__ = (ClassifierMixin, BaseEstimator)
    for kind in _with_heirs(Estimator):
        super(Estimator, kind).__init_subclass__()  # as for classes made from now on


def _with_heirs(kind: type[Estimator]) -> Iterator[type[Estimator]]:
    yield kind
    for heir in kind.__subclasses__():
        yield from _with_heirs(heir)
