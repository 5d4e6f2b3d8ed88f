"""All checks of this repository, the quick ones first. Run: python checks.py [name ...]

This list is the only one: README.md, CONTRIBUTING.md and .ci/run all call this script. Without
names it runs EVERYTHING; `quick` takes some minutes. Those that are left take longer, make
environments of their own below build/, and are run by name before a release.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent
SCRIPTS = Path(sysconfig.get_path("scripts"))  # works without activating the environment

PYTEST = ["pytest", "-n", "2", "--dist", "worksteal"]
COMMANDS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "layers": ["lint-imports"],
    "tests": [*PYTEST, "--doctest-modules", "tests", "src", "experiments/corpora"],
    "slow": [*PYTEST, "-m", "slow", "tests"],
    "docs": ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "build/docs"],
    # Equations, formats, rules of the house: what most changes break first.
    "basics": [
        *PYTEST,
        *(f"tests/{name}" for name in ("core", "features", "formats", "game", "graphs")),
        *(f"tests/{name}" for name in ("inference", "test_architecture.py", "test_losses.py")),
    ],
}
QUICK = ["lint", "format", "types", "layers", "basics"]
EVERYTHING = ["lint", "format", "types", "layers", "tests", "slow", "memory", "docs"]


def run(*command: str | Path, cwd: Path = ROOT) -> bool:
    """Whether a command succeeds."""
    return subprocess.run([str(part) for part in command], cwd=cwd, check=False).returncode == 0


def environment(name: str, *requirements: str) -> Path | None:
    """The interpreter of a new environment with ``requirements``; None if they do not install."""
    folder = ROOT / "build" / name
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    return python if run(python, "-m", "pip", "install", "-q", *requirements) else None


def pytest_in(python: Path | None, *arguments: str | Path, level: str | None = None) -> bool:
    """Whether the tests pass in an environment, far from this tree's sources.

    ``level`` names the library of the core to use, if not the one that fits the processor best.
    """
    if python is None:
        return False
    elsewhere = python.parents[1] / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    settings = ("-c", ROOT / "pyproject.toml", "--rootdir", ROOT)
    workers = ("-n", "2", "--dist", "worksteal")
    if level:
        os.environ["ROBUSTRUCT_CORE"] = level
    try:
        return run(
            python, "-m", "pytest", *settings, *workers, *arguments, ROOT / "tests", cwd=elsewhere
        )
    finally:
        os.environ.pop("ROBUSTRUCT_CORE", None)


def oldest() -> bool:
    """The tests, with the oldest version of every dependency that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = {*project["dependencies"], *extras["dask"], *extras["plots"]}
    pins = [requirement.replace(">=", "==") for requirement in sorted(declared)]
    return pytest_in(environment("oldest", *pins, f"{ROOT}[dev]"))


def package() -> bool:
    """The tests, against the wheel that the source distribution builds."""
    builder = environment("builder", "build")
    if builder is None:
        return False
    target = ROOT / "build" / "dist"
    for old in target.glob("robustruct-*"):
        old.unlink()
    # Without --wheel or --sdist the wheel is made from the source distribution, not from the tree.
    if not run(builder, "-m", "build", "-q", "--outdir", target, ROOT):
        return False
    (wheel,) = target.glob("*.whl")
    return pytest_in(environment("installed", f"{wheel}[dev]"))


def wheels() -> bool:
    """Wheels for all platforms, inspected; that of Linux on x86-64 installed and tested."""
    builder = environment("builder", "build", "hatchling", "ziglang")
    if builder is None:
        return False
    sys.path.insert(0, str(ROOT / "src" / "robustruct" / "core"))
    from build import TARGETS  # type: ignore[attr-defined]

    folder = ROOT / "build" / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    for name, target in TARGETS.items():
        os.environ["ROBUSTRUCT_TARGET"] = name
        made = run(builder, "-m", "build", "-q", "-w", "-n", "--outdir", folder, ROOT)
        del os.environ["ROBUSTRUCT_TARGET"]
        if not made or not _is_sound(*folder.glob(f"*{target.tag}.whl"), name=name):
            return False
    (wheel,) = folder.glob("*manylinux*x86_64.whl")
    # Dask and PyTorch, gigabytes, do not depend on the platform that a wheel is for.
    python = environment("wheel", f"{wheel}[test]")
    return all(
        pytest_in(python, "--ignore", ROOT / "tests" / "core", level=level)
        for level in ("x86-64-v2", "x86-64-v3")
    )


# How files of each platform begin, and where and which the number of the processor is.
FORMATS = {
    "linux-x86_64": (b"\x7fELF", 18, b"\x3e\x00"),
    "linux-aarch64": (b"\x7fELF", 18, b"\xb7\x00"),
    "macos-x86_64": (b"\xcf\xfa\xed\xfe", 4, b"\x07\x00\x00\x01"),
    "macos-arm64": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
    "windows-x86_64": (b"MZ", None, b"PE\x00\x00\x64\x86"),
}


def _is_sound(wheel: Path, name: str) -> bool:
    """Whether a wheel is small, of the right format and silent about where it was made."""
    begins, at, processor = FORMATS[name]
    archive = zipfile.ZipFile(wheel)
    libraries = [
        member for member in archive.namelist() if member.startswith("robustruct/core/core")
    ]
    sound = bool(libraries) and wheel.stat().st_size <= 3 * 2**20
    for member in libraries:
        data = archive.read(member)
        right = processor in data if at is None else data[at:].startswith(processor)
        homes = [os.fsencode(path) for path in (ROOT, Path.home(), tempfile.gettempdir())]
        sound &= data.startswith(begins) and right and not any(home in data for home in homes)
    print(f"{wheel.name}: {wheel.stat().st_size} bytes, {'sound' if sound else 'NOT SOUND'}")
    return sound


KERNEL_TESTS = ["core", "features", "formats", "fuzz", "game", "graphs", "inference", "optimizers"]
"""Folders of tests that call the core, one way or the other."""


def memory() -> bool:
    """Tests that go through most kernels, under the address and undefined-behaviour sanitizers."""
    return _sanitized(
        "address", "tests/core", "tests/fuzz", "tests/inference", "tests/optimizers/test_threads.py"
    )


def sanitize() -> bool:
    """All tests of kernels under these sanitizers, and threaded fits under that of threads."""
    folders = [f"tests/{name}" for name in KERNEL_TESTS]
    return _sanitized("address", "-m", "not slow and not data", *folders) and (
        _sanitized("thread", "tests/optimizers/test_threads.py")
    )


def coverage() -> bool:
    """All tests of kernels; prints the lines of C that none of them executes."""
    counts = ROOT / "build" / "core" / "coverage"
    shutil.rmtree(counts, ignore_errors=True)
    (ROOT / "src" / "robustruct" / "core" / "core-coverage.so").unlink(missing_ok=True)
    os.environ |= {"CC": "gcc", "ROBUSTRUCT_CORE": "coverage"}
    try:
        folders = [f"tests/{name}" for name in [*KERNEL_TESTS, "engines"]]
        passed = run(SCRIPTS / "pytest", "-q", "-m", "not slow and not data", *folders)
    finally:
        del os.environ["CC"], os.environ["ROBUSTRUCT_CORE"]
    executed = _executed(counts)
    missed = sorted(at for at, count in executed.items() if count == 0)
    for name, number in missed:
        source = (ROOT / "src" / "robustruct" / "core" / name).read_text().splitlines()
        print(f"{name}:{number}: {source[number - 1].strip()}")
    print(f"{len(missed)} of {len(executed)} lines are not executed")
    return passed and bool(executed)


def _executed(counts: Path) -> dict[tuple[str, int], int]:
    """How often each line, by file and number, was executed: what gcov reads from ``counts``."""
    executed: dict[tuple[str, int], int] = {}
    for made in counts.glob("*.gcda"):
        told = subprocess.run(
            ["gcov", "--json-format", "--stdout", made], capture_output=True, check=True
        )
        for file in json.loads(told.stdout)["files"]:
            for line in file["lines"]:
                at = Path(file["file"]).name, line["line_number"]
                executed[at] = executed.get(at, 0) + line["count"]
    return executed


def _sanitized(level: str, *arguments: str) -> bool:
    """Whether pytest passes with a library of the core that stops at a wrong access or a race."""
    if not sys.platform.startswith("linux") or shutil.which("gcc") is None:
        print("skipped: the sanitizers of GCC are loaded before Python, on Linux")
        return True
    # A sanitizer looks for C++'s exceptions as it is loaded; other packages throw some.
    names = {"address": "libasan.so", "thread": "libtsan.so"}[level], "libstdc++.so"
    found = (
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    )
    settings = {
        "LD_PRELOAD": " ".join(found),
        "CC": "gcc",
        "ROBUSTRUCT_CORE": level,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own are many
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False)
    return done.returncode == 0


FUNCTIONS: dict[str, Callable[[], bool]] = {
    "memory": memory,
    "oldest": oldest,
    "package": package,
    "wheels": wheels,
    "sanitize": sanitize,
    "coverage": coverage,
}


def main(names: list[str]) -> int:
    """Run the named checks, or EVERYTHING; any failure makes the exit code 1."""
    known = ["quick", *COMMANDS, *FUNCTIONS]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no check named {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    names = [one for name in names for one in (QUICK if name == "quick" else [name])]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two test processes already fill two cores
    summary, failed = [], False
    for name in names or EVERYTHING:
        started = time.perf_counter()
        if name in COMMANDS:
            tool, *arguments = COMMANDS[name]
            print(f"== {name}: {' '.join(COMMANDS[name])}", flush=True)
            passed = run(SCRIPTS / tool, *arguments)
        else:
            print(f"== {name}: {FUNCTIONS[name].__doc__}", flush=True)
            passed = FUNCTIONS[name]()
        seconds = time.perf_counter() - started
        summary.append(f"{'passed' if passed else 'FAILED'}  {name}  ({seconds:.0f} s)")
        failed |= not passed
    print("==", *summary, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
