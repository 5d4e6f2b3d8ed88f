"""Everything public says what it is, and what it says of its parameters is true."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import pytest

import robustruct


def modules() -> Iterator[str]:
    yield "robustruct"
    for module in pkgutil.walk_packages(robustruct.__path__, "robustruct."):
        parts = module.name.split(".")
        if not any(
            part.startswith("_") or "-" in part for part in parts
        ):  # "-": the core's library
            yield module.name


def documented(module_name: str) -> Iterator[tuple[str, object]]:
    """Public functions, classes and methods defined in a module; compiled ones by their source."""
    module = importlib.import_module(module_name)
    for name, value in vars(module).items():
        source = getattr(value, "py_func", value)
        if name.startswith("_") or getattr(source, "__module__", None) != module_name:
            continue
        if inspect.isfunction(source) or inspect.isclass(source):
            yield f"{module_name}.{name}", source
        if inspect.isclass(source):
            for method, function in vars(source).items():
                function = getattr(function, "__func__", function)
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{module_name}.{name}.{method}", getattr(source, method)


MODULES = sorted(modules())
# A docstring may leave to another what is the same there.
ELSEWHERE = re.compile(
    r"\b[Pp]arameters (and attributes )?as (for|in)\b|\b[Aa]rguments as (for|in)\b"
)


def listed_parameters(docstring: str) -> list[str]:
    """Names under "Parameters" in a numpydoc docstring."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", docstring, re.DOTALL | re.MULTILINE
    )
    if section is None:
        return []
    heads = re.findall(r"^(\*{0,2}\w[\w, *]*?)(?: :.*)?$", section[1], re.MULTILINE)
    return [name.strip(" *") for head in heads for name in head.split(",")]


@pytest.mark.parametrize("module_name", MODULES)
def test_everything_public_has_a_docstring(module_name: str) -> None:
    assert importlib.import_module(module_name).__doc__, f"module {module_name}"
    missing = [name for name, value in documented(module_name) if not inspect.getdoc(value)]
    assert not missing


@pytest.mark.parametrize("module_name", MODULES)
def test_parameters_listed_are_those_of_the_signature(module_name: str) -> None:
    for name, value in documented(module_name):
        docstring = inspect.getdoc(value) or ""
        listed = listed_parameters(docstring)
        if not listed:
            continue
        taken = [p for p in inspect.signature(value).parameters if p not in ("self", "cls")]
        assert not set(listed) - set(taken), f"{name} documents parameters it does not take"
        if not ELSEWHERE.search(docstring):
            assert not set(taken) - set(listed), f"{name} takes parameters it does not document"
