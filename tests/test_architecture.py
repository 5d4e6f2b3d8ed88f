"""What ARCHITECTURE.md and CONTRIBUTING.md say about the packages is true of them."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "robustruct"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
UNNAMED = {"__init__", "__main__", "_version"}


def section(page: str, title: str) -> str:
    """The text under a heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    assert found is not None, f"no section {title!r}"
    return found[1]


def layers(text: str) -> list[set[str]]:
    """Layers from high to low, each a set of packages, of a picture such as "a | b > c"."""
    return [set(layer.replace("|", " ").split()) for layer in re.split(r">|\n(?! *>)", text)]


def ruled_layers() -> list[set[str]]:
    """What import-linter is told."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"
    ]
    return layers("\n".join(contract["layers"]))


def test_pictures_of_layers_are_those_that_are_checked() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (picture,) = re.findall(
        r"^```\n(.*?)\n```$",
        section(contributing, "What may import what"),
        re.DOTALL | re.MULTILINE,
    )
    assert layers(picture) == ruled_layers()
    lines = re.findall(r"^    (.*)$", section(ARCHITECTURE, "What may import what"), re.MULTILINE)
    assert layers(" ".join(lines)) == ruled_layers()


def existing() -> set[str]:
    """Packages and the modules beside them, as the table writes them."""
    packages = {f"{path.parent.relative_to(SOURCE)}/" for path in SOURCE.rglob("__init__.py")}
    modules = {path.name for path in SOURCE.glob("*.py") if path.stem not in UNNAMED}
    return (packages | modules) - {"./"}


def test_the_table_lists_every_package() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section(ARCHITECTURE, "Packages"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(.+?)`", row)]
    assert len(listed) == len(set(listed))
    assert set(listed) == existing()


def named_files() -> list[str]:
    """Files that the page names: by their path, or in the table beside their package."""
    found = set(re.findall(r"(?<![\w/])((?:[a-z_]+/)+[a-z_]+\.py)\b", ARCHITECTURE))
    for package, job in re.findall(
        r"^\| `([\w/]+)/`.*? \|(.*)\|$", section(ARCHITECTURE, "Packages"), re.MULTILINE
    ):
        found |= {f"{package}/{name}" for name in re.findall(r"`(\w+\.py)`", job)}
    return sorted(found)


@pytest.mark.parametrize("name", named_files())
def test_files_that_are_named_exist(name: str) -> None:
    assert (SOURCE / name).is_file()


def test_classes_that_are_named_exist() -> None:
    named = set(re.findall(r"`([A-Z][a-z]+[A-Za-z]*)`", ARCHITECTURE))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    missing = {name for name in named if not re.search(rf"^class {name}\b", sources, re.MULTILINE)}
    assert len(named) > 15
    assert not missing


def test_no_function_of_the_core_takes_more_than_a_dozen_parameters() -> None:
    wide, n_functions = {}, 0
    for path in (SOURCE / "core").glob("*.[ch]"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for name, given in re.findall(
            r"^\w[\w *]*?\b(\w+)\(([^;{}()]*)\)\s*\{", text, re.MULTILINE
        ):
            n_functions += 1
            if given.count(",") >= 12:
                wide[f"{path.name}: {name}"] = given.count(",") + 1
    assert n_functions > 200
    assert not wide
