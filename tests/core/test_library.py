"""Which compiled library is loaded, when it is compiled again, and what refuses to start."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from robustruct.core import library

build = pytest.importorskip("robustruct.core.build", reason="a wheel has no sources")

OWN = Path(library.library._name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package's folder: neither sources nor, as yet, a library."""
    monkeypatch.setattr(library, "HERE", tmp_path)
    monkeypatch.delenv("ROBUSTRUCT_CORE", raising=False)
    return tmp_path


def test_a_package_without_a_library_says_how_to_get_one(folder: Path) -> None:
    with pytest.raises(ImportError, match=r"no compiled core.*wheel made for this machine"):
        library._load()


def test_the_only_library_is_loaded(folder: Path) -> None:
    shutil.copy(OWN, folder / f"core{OWN.suffix}")
    assert Path(library._load()._name) == folder / f"core{OWN.suffix}"


def test_the_best_library_for_the_processor_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = (folder / f"core-x86-64-{level}{OWN.suffix}" for level in ("v2", "v3"))
    for path in (low, high):
        shutil.copy(OWN, path)
    assert Path(library._load()._name) == (high if library.library.has_v3() else low)
    for path in (low, high):
        monkeypatch.setenv("ROBUSTRUCT_CORE", path.stem.removeprefix("core-"))
        assert Path(library._load()._name) == path


def test_a_library_of_another_processor_is_refused(folder: Path) -> None:
    (folder / f"core{OWN.suffix}").write_bytes(b"\x7fELF for another machine")
    with pytest.raises(ImportError, match=r"cannot be loaded on.*wheel made for this machine"):
        library._load()


def test_a_library_of_another_version_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(OWN, folder / f"core{OWN.suffix}")
    monkeypatch.setattr(library, "__version__", "0.0.1")
    with pytest.raises(ImportError, match=r"and this is 0\.0\.1.*again"):
        library._load()


def test_without_a_compiler_both_ways_to_get_one_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert build.system_compiler() is None
    with pytest.raises(build.BuildError, match=r"neither cc, gcc nor clang.*ziglang"):
        build.zig()


def test_what_changed_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, objects = tmp_path / "sources", tmp_path / "objects"
    sources.mkdir()
    for name in ("one.c", "two.c", "both.h"):
        (sources / name).write_text("")
        os.utime(sources / name, (1, 1))
    monkeypatch.setattr(build, "HERE", sources)
    compiled: list[str] = []

    def compiler(command: list[str], folder: Path | None = None) -> None:
        compiled.extend(Path(word).name for word in command if word.endswith(".c"))
        made = Path(command[command.index("-o") + 1])
        (made if folder is None else folder / made).write_text("")

    monkeypatch.setattr(build, "run", compiler)

    def changed(*names: str) -> set[str]:
        newest = max(path.stat().st_mtime for path in objects.glob("*.o")) if names else 1
        for name in names:
            os.utime(sources / name, (newest + 1, newest + 1))
        compiled.clear()
        build.compile_library(tmp_path / "core.so", ["cc"], [], objects)
        for path in objects.glob("*.o"):
            if path.stat().st_mtime <= newest + 1 and f"{path.stem}.c" in compiled:
                os.utime(path, (newest + 2, newest + 2))
        return set(compiled)

    assert changed() == {"one.c", "two.c"}
    assert changed("one.c") == {"one.c"}
    assert changed("both.h") == {"one.c", "two.c"}
