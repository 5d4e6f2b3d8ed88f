"""Models are estimators of scikit-learn, which need not be loaded for that.

Importing scikit-learn takes longer than everything else that a small fit does, and 60 MiB, while
training and predicting use none of it. So its base classes come in when somebody loads it: from the
moment that there is a ``BaseEstimator`` every model is one, and before there is nobody who could
ask. What they would hand down is got from there too, by loading it on first use.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence, Set
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

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

        def __getattr__(self, name: str) -> Any:
            asked = name.startswith("set_") and name.endswith("_request")
            if asked or name in ("get_metadata_routing", "_repr_html_", "_repr_mimebundle_"):
                return getattr(_loaded(self), name)
            return object.__getattribute__(self, name)  # the usual error, or a property's own


def parameter_names(kind: type) -> Set[str]:
    """What models of a class are made with: the parameters of its constructor."""
    return inspect.signature(kind).parameters.keys()


class Estimator(_Unloaded):
    """The base of models: what scikit-learn makes of an estimator, as soon as it is loaded."""

    def _check_fitted(self) -> None:
        """Refuse to go on before ``fit``, with the error that scikit-learn's tools know."""
        if not hasattr(self, "coef_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self)


def _loaded(model: Any) -> Any:
    """The same model, which is an estimator of scikit-learn now."""
    import sklearn.base

    _inherit(sklearn.base)
    return model


def _inherit(home: ModuleType) -> None:
    """Put the base classes of scikit-learn below `Estimator`, once."""
    if _Unloaded not in Estimator.__bases__:
        return
    Estimator.__bases__ = (home.ClassifierMixin, home.BaseEstimator)
    for kind in _with_heirs(Estimator):
        super(Estimator, kind).__init_subclass__()  # as for classes made from now on
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _WATCH]


def _with_heirs(kind: type[Estimator]) -> Iterator[type[Estimator]]:
    yield kind
    for heir in kind.__subclasses__():
        yield from _with_heirs(heir)


class _Watch:
    """A finder of modules that finds scikit-learn's base where others do, to see it loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != HOME:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(name, path, target)
            if found is not None:
                found.loader = _Loader(found.loader)
                return found
        return None


class _Loader(Loader):
    """Loads scikit-learn's base as its own loader does, and has `Estimator` inherit from it."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self.own.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__loader__ = module.__spec__.loader = self.own
        self.own.exec_module(module)
        _inherit(module)


_WATCH = _Watch()
if HOME in sys.modules:
    _loaded(None)
else:
    sys.meta_path.insert(0, _WATCH)
