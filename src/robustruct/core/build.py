"""Compiles the C files beside this one to a shared library.

A wheel holds libraries, but neither this file nor the sources. In a checkout, the library is
compiled again when a source is newer. Only the standard library is imported: packaging loads this
file before anything is installed.
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

# The compiler may reorder sums in these files, which gives the same result on every call. Elsewhere
# operations are done as written. No flag assumes finite numbers: a score of -inf forbids a label.
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


# Libraries for tests (checks.py): two stop at a wrong access or a race, one counts executed lines.
INSTRUMENTED = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"],
    "thread": ["-fsanitize=thread", "-g", "-O1"],
    "coverage": ["--coverage", "-fprofile-update=atomic", "-O1"],
}


@dataclass(frozen=True)
class Target:
    """A platform for which wheels are cross-compiled: its names in zig and in pip."""

    zig: str
    tag: str
    suffix: str = ".so"
    levels: tuple[str, ...] = ("",)
    """Instruction-set levels, one library each; "" where there is only one."""


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
    """Return the command of a C compiler: ``CC``, else one on the path, else None."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def zig() -> list[str]:
    """Return the command of the compiler in the package ``ziglang``."""
    try:
        import ziglang  # noqa: F401
    except ImportError:
        raise BuildError(NO_COMPILER) from None
    return [sys.executable, "-m", "ziglang", "cc"]


def native_level() -> str:
    """Return the instruction-set level of this machine."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return "x86-64-v2"
    return "x86-64-v3" if flags.issuperset(("avx2", "fma", "bmi2")) else "x86-64-v2"


def library_name(level: str, suffix: str | None = None) -> str:
    """Return the file name of the library for a level."""
    own = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    return f"core{'-' if level else ''}{level}{suffix or own}"


def inputs() -> list[Path]:
    """Return all files that the library depends on."""
    return [*HERE.glob("*.c"), *HERE.glob("*.h"), Path(__file__), VERSION_FILE]


def is_stale(made: Path, sources: Iterable[Path]) -> bool:
    """Return whether a file is missing or older than its sources."""
    return not made.exists() or made.stat().st_mtime < max(p.stat().st_mtime for p in sources)


def compile_library(
    library: Path, command: Sequence[str], options: Sequence[str], objects: Path | None = None
) -> None:
    """Compile all sources and link them; up-to-date files in ``objects`` are reused."""
    version = re.search(r'"(.+)"', VERSION_FILE.read_text())
    assert version is not None
    common = [Path(__file__), VERSION_FILE, *HERE.glob("*.h")]
    with tempfile.TemporaryDirectory() as scratch:
        folder = objects or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)

        def one(source: Path) -> str:
            compiled = folder / f"{source.stem}.o"
            if is_stale(compiled, [source, *common]):
                flags = [*COMMON, *(REORDER if source.name in REORDERED else []), *WARN]
                flags.append(f'-DCORE_VERSION="{version[1]}"')
                # Keep paths of this machine out of the library.
                flags.append(f"-ffile-prefix-map={HERE}=core")
                own = folder / f"{source.stem}.{os.getpid()}.o"
                run([*command, *flags, *options, "-c", str(source), "-o", str(own)])
                own.replace(compiled)
            return str(compiled)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            linked = list(pool.map(one, sorted(HERE.glob("*.c"))))
        # Another process may build too, so the finished library is renamed to its place. The linker
        # gets a bare name, as some formats store it.
        own = folder / f"{os.getpid()}"
        own.mkdir(exist_ok=True)
        run([*command, *options, "-shared", *linked, "-lm", "-o", library.name], own)
        beside = library.with_name(f"{library.name}.{os.getpid()}")
        shutil.copyfile(own / library.name, beside)
        shutil.rmtree(own)
        beside.replace(library)


def run(command: list[str], folder: Path | None = None) -> None:
    """Run a compiler; its output becomes the message of an error."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if done.stderr:
        print(done.stderr, file=sys.stderr)


def build(level: str | None = None) -> Path:
    """Return the library for this machine; compile it if missing or older than a source.

    ``level`` may be another instruction-set level, or a key of INSTRUMENTED.
    """
    level = native_level() if level is None else level
    library = HERE / library_name(level)
    if is_stale(library, inputs()):
        root = HERE.parents[2]
        in_checkout = (root / "pyproject.toml").exists()
        objects = root / "build" / "core" / (level or "native") if in_checkout else None
        march = native_level() if level in INSTRUMENTED else level
        command = system_compiler()
        if command is None:
            command, march = zig(), march.replace("-", "_")
        options = [f"-march={march}"] if march else []
        compile_library(library, command, [*options, *INSTRUMENTED.get(level, [])], objects)
    return library


def cross_build(name: str, folder: Path) -> list[Path]:
    """Compile the libraries of a key of TARGETS by zig into ``folder``."""
    target = TARGETS[name]
    libraries = []
    for level in target.levels:
        library = folder / library_name(level, target.suffix)
        march = [f"-march={level.replace('-', '_')}"] if level else []
        # -s strips symbols; only exported ones remain.
        compile_library(library, zig(), ["-target", target.zig, *march, "-s"])
        libraries.append(library)
    return libraries


if __name__ == "__main__":
    print(build())
