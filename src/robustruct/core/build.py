"""Compiles the core: C files beside this one to a shared library, by any compiler there is.

A wheel holds the library and neither this file nor the sources. Where they lie beside the library,
as in a checkout, it is compiled again when a source is newer.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent

# Sums in these files may be reordered by the compiler, in the same way on every call. Everywhere
# else results are those of the source, operation by operation. No flag assumes that numbers are
# finite: a score of -inf forbids a label.
REORDERED = {"smooth.c", "vectors.c"}

COMMON = ["-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off"]
REORDER = [
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fassociative-math",
    "-freciprocal-math",
    "-ffp-contract=fast",
]
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Wno-unknown-pragmas"]

# Levels of x86-64 that the library is compiled for, the best first. Other processors have one.
LEVELS = {"x86-64-v3": ("avx2", "fma", "bmi2"), "x86-64-v2": ("sse4_2", "popcnt")}


class NoCompiler(RuntimeError):
    """There is neither a C compiler nor the ``ziglang`` package."""


def compiler() -> list[str]:
    """The command that compiles C: ``CC``, else what the path has, else that of ``ziglang``."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    try:
        import ziglang  # noqa: F401
    except ImportError:
        raise NoCompiler(
            "robustruct needs a C compiler to be installed from source, and there is neither cc, "
            "gcc nor clang on the path. Either install one of them, or run "
            "'pip install ziglang' and install robustruct again with --no-build-isolation."
        ) from None
    return [sys.executable, "-m", "ziglang", "cc"]


def level_flag(level: str) -> list[str]:
    """The compiler's option for a level of x86-64; none elsewhere."""
    return [f"-march={level}"] if level.startswith("x86-64") else []


def native_level() -> str:
    """The level of this machine: one of LEVELS, or the name of another architecture."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return platform.machine().lower()
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return "x86-64-v2"
    return next((level for level, needs in LEVELS.items() if flags.issuperset(needs)), "x86-64-v2")


def library_name(level: str) -> str:
    """The file of the library for a level or architecture."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    return f"core-{level}{suffix}"


def sources() -> list[Path]:
    return sorted(HERE.glob("*.c"))


def is_stale(target: Path, inputs: Iterable[Path]) -> bool:
    """Whether a file is missing or older than what it is made from."""
    return not target.exists() or target.stat().st_mtime < max(p.stat().st_mtime for p in inputs)


def compile_library(
    target: Path, command: Sequence[str], options: Sequence[str], objects: Path | None = None
) -> None:
    """Compile all sources and link them; objects that are newer than their source are kept."""
    headers = sorted(HERE.glob("*.h"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = objects or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)

        def one(source: Path) -> Path:
            made = folder / f"{source.stem}.o"
            if is_stale(made, [source, *headers, Path(__file__)]):
                flags = COMMON + (REORDER if source.name in REORDERED else []) + WARN
                # The build machine's folders stay out of the file.
                flags += [f"-ffile-prefix-map={HERE}=core", *options]
                own = folder / f"{source.stem}.{os.getpid()}.o"
                run([*command, *flags, "-c", str(source), "-o", str(own)])
                own.replace(made)
            return made

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(one, sources()))
        # Another process may do the same: the library appears at once, whole.
        own = target.with_name(f"{target.name}.{os.getpid()}")
        run([*command, *options, "-shared", *map(str, made), "-lm", "-o", str(own)])
        own.replace(target)


def run(command: list[str]) -> None:
    """Run a compiler; what it says is the message of its error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if done.stderr:
        print(done.stderr, file=sys.stderr)


def build(level: str | None = None) -> Path:
    """The library for this machine, compiled if it is missing or a source is newer."""
    level = level or native_level()
    target = HERE / library_name(level)
    if is_stale(target, [*sources(), *HERE.glob("*.h"), Path(__file__)]):
        root = HERE.parents[2]  # of a checkout
        objects = root / "build" / "core" / level if (root / "pyproject.toml").exists() else None
        compile_library(target, compiler(), level_flag(level), objects)
    return target


if __name__ == "__main__":
    print(build())
