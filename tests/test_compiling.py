"""Compiling says so while it happens, and its code is kept and read wherever that is possible."""

import ast
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import robustruct
from robustruct import AGM
from robustruct.datasets import make_chains

# Compiles one small kernel, with a patience to match, and marks on stderr when that is over.
COMPILE = """
import sys
import numpy as np
from numba.core import event
from robustruct import progress
from robustruct.kernels import _compiling
from robustruct.kernels.game_bounds import normalise_predictors

class Compiled(event.Listener):
    def on_start(self, happening):
        pass

    def on_end(self, happening):
        if happening.data["dispatcher"] is normalise_predictors:
            print("compiled", file=sys.stderr, flush=True)

event.register("numba:compile", Compiled())
_compiling.PATIENCE = 0.05

def work():
    p = np.array([[3.0, 1.0]])
    normalise_predictors(0, 1, np.zeros((1, 2)), p)
    assert p.tolist() == [[0.75, 0.25]]
"""
NOTE = "robustruct: compiling code for this machine (normalise_predictors and more). "


def environment(**changes: str | None) -> dict[str, str]:
    return {name: value for name, value in {**os.environ, **changes}.items() if value is not None}


def stderr_of(code: str, *before: str, **changes: str | None) -> str:
    """What a process without a terminal writes to stderr."""
    done = subprocess.run(
        [*before, sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return done.stderr


def at_a_terminal(code: str, **changes: str | None) -> str:
    """What a process whose stderr is a terminal writes there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stderr=theirs, env=environment(**changes)
    ) as process:
        os.close(theirs)
        read = b""
        try:
            while part := os.read(ours, 4096):
                read += part
        except OSError:  # how Linux tells that the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0, read
    return read.decode().replace("\r\n", "\n")


def test_somebody_at_a_terminal_is_told_once_while_it_happens(tmp_path: Path) -> None:
    code = COMPILE + "work(); normalise_predictors(0, 0, np.zeros((1, 2), 'f4'), np.ones((1, 2)))"
    told = at_a_terminal(code, NUMBA_CACHE_DIR=str(tmp_path))
    kept = next(tmp_path.iterdir())
    expected = f"{NOTE}This happens once: the code is kept in {kept}.\ncompiled\ncompiled\n"
    assert told == expected


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        ("", False),
        ("sys.ps1 = '>>> '\n", True),  # as in a notebook
        ("import logging; logging.basicConfig(level='INFO')\n", True),
        ("with progress.progress('fitting'): ", True),
    ],
)
def test_without_a_terminal_those_who_ask_or_type_are_told(
    tmp_path, asking: str, told: bool
) -> None:
    found = stderr_of(COMPILE + asking + "work()", NUMBA_CACHE_DIR=str(tmp_path))
    assert ("compiling code for this machine" in found) == told
    assert found.endswith("compiled\n")


def test_quiet_at_a_terminal_and_code_from_disk_need_no_words(tmp_path: Path) -> None:
    cache = str(tmp_path)
    quiet = COMPILE + "with progress.notes(False): work()"
    assert at_a_terminal(quiet, NUMBA_CACHE_DIR=cache) == "compiled\n"
    assert at_a_terminal(COMPILE + "work()", NUMBA_CACHE_DIR=cache) == ""


@pytest.fixture
def locked(tmp_path: Path):
    """Runs code where nothing can be written but, beforehand, the cache."""
    package = tmp_path / "site-packages" / "robustruct"
    source = Path(robustruct.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    cache, home = tmp_path / "cache", tmp_path / "home"
    cache.mkdir()
    home.mkdir()
    # Root may write wherever the file system lets it, unless this is taken away.
    rights = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv, or a user who is not root")
        rights = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]

    def run(code: str, **changes: str | None) -> str:
        found = {"PYTHONPATH": str(package.parent), "HOME": str(home), "XDG_CACHE_HOME": None}
        return stderr_of(code, *rights, **{**found, "NUMBA_CACHE_DIR": str(cache), **changes})

    def lock() -> None:
        for folder in (package, cache, home):
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o555 if path.is_dir() else 0o444)

    yield run, lock
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


TOLD = COMPILE + "with progress.notes(True): work()"


def test_code_that_cannot_be_kept_is_compiled_all_the_same(locked) -> None:
    run, lock = locked
    lock()
    for cache in ({}, {"NUMBA_CACHE_DIR": None}):
        found = run(TOLD, **cache)
        assert found.startswith(f"{NOTE}It cannot be kept, as no folder for it can be written")
        assert "NUMBA_CACHE_DIR" in found
        assert found.endswith("compiled\n")


@pytest.mark.parametrize("where", ["named", "beside the source"])
def test_code_in_a_folder_that_cannot_be_written_is_read(locked, where: str) -> None:
    run, lock = locked
    changes = {} if where == "named" else {"NUMBA_CACHE_DIR": None}
    assert run(TOLD, **changes).endswith("compiled\n")
    lock()
    assert run(TOLD, **changes) == ""


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    full = """
def fails(self, sig, cres):
    raise OSError(28, "No space left on device")
_compiling.FunctionCache.save_overload = fails
_compiling.PATIENCE = 60
with progress.notes(True): work()
"""
    found = stderr_of(COMPILE + full, NUMBA_CACHE_DIR=str(tmp_path))
    assert found == (
        "compiled\nrobustruct: compiled code could not be kept ([Errno 28] No space left on "
        "device); this process goes on with it.\n"
    )


def test_code_of_another_version_is_compiled_anew(tmp_path):
    """Its index names types that are gone, which numba reads before it looks at the version."""
    code = COMPILE + "\nwork()"
    stderr_of(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert "compiled" not in stderr_of(code, NUMBA_CACHE_DIR=str(tmp_path))
    (index,) = tmp_path.rglob("*normalise_predictors*.nbi")
    version, _, _ = index.read_bytes().partition(b"\x80")
    gone = b"\x80\x04crobustruct.kernels.gone\nStruct\n."
    index.write_bytes(version + gone)
    assert "compiled" in stderr_of(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert "compiled" not in stderr_of(code, NUMBA_CACHE_DIR=str(tmp_path))


# A version of numba that nobody has tried yet, whose compiler is taken as it is.
UNTRIED = """
import numba
numba.__version__ = "0.99.0"
import numpy as np
import sys
from robustruct import AGM
from robustruct.datasets import make_chains
from robustruct.kernels import _jit
assert _jit.Whole is numba.core.compiler.Compiler
assert "robustruct.kernels._frugal" not in sys.modules
data = make_chains(n_samples=8, seed=3)
model = AGM(random_state=0, n_jobs=2).fit(data.X, data.y)
sys.stderr.write(repr((model.objective_, [labels.tolist() for labels in model.predict(data.X)])))
"""


@pytest.mark.slow
def test_numbas_own_compiler_gives_the_same_answers(tmp_path: Path) -> None:
    data = make_chains(n_samples=8, seed=3)
    model = AGM(random_state=0, n_jobs=2).fit(data.X, data.y)
    *_, found = stderr_of(UNTRIED, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    objective, labels = ast.literal_eval(found)
    assert objective == pytest.approx(model.objective_, rel=1e-9)
    assert labels == [predicted.tolist() for predicted in model.predict(data.X)]


def test_an_interrupt_while_code_is_read_takes_effect_afterwards(monkeypatch):
    """LLVM calls back meanwhile, and would lose it."""
    from numba.core.registry import cpu_target

    from robustruct.kernels._compiling import KeptCode

    reached = []

    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)
        reached.append(sum(range(1000)))

    monkeypatch.setattr(KeptCode, "_found", interrupted)
    kept, context = KeptCode(make_chains), cpu_target.target_context
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        kept.load_overload((), context)
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr(KeptCode, "_found", lambda *_: reached.append("in a thread"))
    other = threading.Thread(target=kept.load_overload, args=((), context))
    other.start()
    other.join()
    assert reached == [499500, "in a thread"]
