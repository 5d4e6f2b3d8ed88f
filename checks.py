"""All checks of this repository, the quick ones first. Run: python checks.py [name ...]

This list is the only one: README.md, CONTRIBUTING.md and .ci/run all call this script. Without
names it runs those of CHECKS; those of RELEASE take longer, make environments of their own below
build/, and are run by name before a release.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent
SCRIPTS = Path(sysconfig.get_path("scripts"))  # works without activating the environment

CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "layers": ["lint-imports"],
    "tests": ["pytest", "-n", "2", "--dist", "worksteal", "--doctest-modules", "tests", "src"],
    "slow": ["pytest", "-n", "2", "--dist", "worksteal", "-m", "slow", "--part", "K/N", "tests"],
    "docs": ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "build/docs"],
}
SLOW_PARTS = 2  # of which a run of all checks has time for one


def part_of_sources() -> str:
    """Which part of the slow tests is run: the sources say, so that another run does the same."""
    digest = hashlib.sha256()
    for path in sorted(
        path for folder in ("src", "tests") for path in ROOT.glob(f"{folder}/**/*.py")
    ):
        digest.update(path.read_bytes())
    return f"{1 + digest.digest()[0] % SLOW_PARTS}/{SLOW_PARTS}"


def run(*command: str | Path, cwd: Path = ROOT) -> bool:
    """Whether a command succeeds."""
    return subprocess.run([str(part) for part in command], cwd=cwd, check=False).returncode == 0


def environment(name: str, *requirements: str) -> Path | None:
    """The interpreter of a new environment with ``requirements``; None if they do not install."""
    folder = ROOT / "build" / name
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    return python if run(python, "-m", "pip", "install", "-q", *requirements) else None


def pytest_in(python: Path | None, *arguments: str) -> bool:
    """Whether the tests pass in an environment, far from this tree's sources."""
    if python is None:
        return False
    elsewhere = python.parents[1] / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    settings = ("-c", ROOT / "pyproject.toml", "--rootdir", ROOT)
    workers = ("-n", "2", "--dist", "worksteal")
    return run(
        python, "-m", "pytest", *settings, *workers, *arguments, ROOT / "tests", cwd=elsewhere
    )


def oldest() -> bool:
    """The tests, with the oldest version of every dependency that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = {*project["dependencies"], *extras["dask"], *extras["plots"]}
    pins = [requirement.replace(">=", "==") for requirement in sorted(declared)]
    return pytest_in(environment("oldest", *pins, f"{ROOT}[test]"))


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
    return pytest_in(environment("installed", f"{wheel}[test]"))


RELEASE: dict[str, Callable[[], bool]] = {"oldest": oldest, "package": package}


def main(names: list[str]) -> int:
    """Run the named checks, or all of CHECKS; any failure makes the exit code 1."""
    unknown = sorted(set(names) - {*CHECKS, *RELEASE})
    if unknown:
        known = ", ".join([*CHECKS, *RELEASE])
        print(f"no check named {', '.join(unknown)}; there are {known}", file=sys.stderr)
        return 2
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two test processes already fill two cores
    summary, failed = [], False
    for name in names or CHECKS:
        started = time.perf_counter()
        if name in CHECKS:
            command = [part_of_sources() if part == "K/N" else part for part in CHECKS[name]]
            tool, *arguments = command
            print(f"== {name}: {' '.join(command)}", flush=True)
            passed = run(SCRIPTS / tool, *arguments)
        else:
            print(f"== {name}: {RELEASE[name].__doc__}", flush=True)
            passed = RELEASE[name]()
        seconds = time.perf_counter() - started
        summary.append(f"{'passed' if passed else 'FAILED'}  {name}  ({seconds:.0f} s)")
        failed |= not passed
    print("==", *summary, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
