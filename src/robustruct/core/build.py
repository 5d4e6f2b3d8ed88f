"""Compiles the core: the C files beside this one to a shared library, by any compiler there is.

A wheel holds libraries and neither this file nor the sources. Where the sources lie beside the
library, as in a checkout, it is compiled again when one of them is newer. Nothing is imported but
Python's own library: packaging loads this file before anything is installed.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
VERSION_FILE = HERE.parent / "_version.py"

# Sums in these files may be reordered by the compiler, in the same way on every call. Everywhere
# else results are those of the source, operation by operation. No flag assumes that numbers are
# finite: a score of -inf forbids a label.
REORDERED = {"smooth.c", "smooth_bounds.c"}

COMMON = ["-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off"]
REORDER = [
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fassociative-math",
    "-freciprocal-math",
    "-ffp-contract=fast",
]
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Wno-unknown-pragmas"]


# For tests (checks.py sanitize): libraries that stop at a wrong access or a race.
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"],
    "thread": ["-fsanitize=thread", "-g", "-O1"],
}


@dataclass(frozen=True)
class Target:
    """A platform that wheels are made for on any other: zig's name of it, and pip's."""

    zig: str
    tag: str
    suffix: str = ".so"
    levels: tuple[str, ...] = ("",)
    """Levels of the processor, each with a library of its own; "" is the only one."""


BOTH = ("x86-64-v2", "x86-64-v3")
TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", levels=BOTH),
    "linux-aarch64": Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "macos-x86_64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64", ".dylib", BOTH),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64", ".dylib"),
    "windows-x86_64": Target("x86_64-windows-gnu", "win_amd64", ".dll", BOTH),
}

NO_COMPILER = (
    "robustruct is compiled when it is installed from source, and neither cc, gcc nor clang is on "
    "the path. Either install one of them, or install the package ziglang, which has one."
)


class BuildError(RuntimeError):
    """The core could not be compiled."""


def system_compiler() -> list[str] | None:
    """The command that compiles C: ``CC``, else what the path has; None without either."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def zig() -> list[str]:
    """The compiler in the package ``ziglang``."""
    try:
        import ziglang  # noqa: F401
    except ImportError:
        raise BuildError(NO_COMPILER) from None
    return [sys.executable, "-m", "ziglang", "cc"]


def native_level() -> str:
    """The level of this machine's processor."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return "x86-64-v2"
    return "x86-64-v3" if flags.issuperset(("avx2", "fma", "bmi2")) else "x86-64-v2"


def library_name(level: str, suffix: str | None = None) -> str:
    """The file of the library for a level of the processor."""
    own = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    return f"core{'-' if level else ''}{level}{suffix or own}"


def inputs() -> list[Path]:
    """All that the library is made from."""
    return [*HERE.glob("*.c"), *HERE.glob("*.h"), Path(__file__), VERSION_FILE]


def is_stale(made: Path, sources: Iterable[Path]) -> bool:
    """Whether a file is missing or older than what it is made from."""
    return not made.exists() or made.stat().st_mtime < max(p.stat().st_mtime for p in sources)


def compile_library(
    library: Path, command: Sequence[str], options: Sequence[str], objects: Path | None = None
) -> None:
    """Compile all sources and link them; objects that are newer than their source are kept."""
    version = re.search(r'"(.+)"', VERSION_FILE.read_text())
    assert version is not None
    common = [Path(__file__), VERSION_FILE, *HERE.glob("*.h")]
    with tempfile.TemporaryDirectory() as scratch:
        folder = objects or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)

        def one(source: Path) -> str:
            made = folder / f"{source.stem}.o"
            if is_stale(made, [source, *common]):
                flags = [*COMMON, *(REORDER if source.name in REORDERED else []), *WARN]
                flags.append(f'-DCORE_VERSION="{version[1]}"')
                # Folders of the machine that compiles stay out of the file.
                flags.append(f"-ffile-prefix-map={HERE}=core")
                own = folder / f"{source.stem}.{os.getpid()}.o"
                run([*command, *flags, *options, "-c", str(source), "-o", str(own)])
                own.replace(made)
            return str(made)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(one, sorted(HERE.glob("*.c"))))
        # Another process may do the same: the library appears at once, whole. It is linked where it
        # is, by its bare name, as some formats keep the name that was given.
        own = folder / f"{os.getpid()}"
        own.mkdir(exist_ok=True)
        run([*command, *options, "-shared", *made, "-lm", "-o", library.name], own)
        beside = library.with_name(f"{library.name}.{os.getpid()}")
        shutil.copyfile(own / library.name, beside)
        shutil.rmtree(own)
        beside.replace(library)


def run(command: list[str], folder: Path | None = None) -> None:
    """Run a compiler; what it says is the message of its error."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if done.stderr:
        print(done.stderr, file=sys.stderr)


def build(level: str | None = None) -> Path:
    """The library for this machine, compiled if it is missing or a source is newer.

    ``level`` may be another level of the processor, or a key of SANITIZERS.
    """
    level = native_level() if level is None else level
    library = HERE / library_name(level)
    if is_stale(library, inputs()):
        root = HERE.parents[2]
        in_checkout = (root / "pyproject.toml").exists()
        objects = root / "build" / "core" / (level or "native") if in_checkout else None
        march = native_level() if level in SANITIZERS else level
        command = system_compiler()
        if command is None:
            command, march = zig(), march.replace("-", "_")
        options = [f"-march={march}"] if march else []
        compile_library(library, command, [*options, *SANITIZERS.get(level, [])], objects)
    return library


def cross_build(name: str, folder: Path) -> list[Path]:
    """The libraries of a target of TARGETS, compiled by zig into ``folder``."""
    target = TARGETS[name]
    made = []
    for level in target.levels:
        library = folder / library_name(level, target.suffix)
        march = [f"-march={level.replace('-', '_')}"] if level else []
        # Nothing of the machine that compiles, and no symbols but those that are called.
        compile_library(library, zig(), ["-target", target.zig, *march, "-s"])
        made.append(library)
    return made


if __name__ == "__main__":
    print(build())
