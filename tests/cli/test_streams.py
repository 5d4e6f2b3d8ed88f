"""Closed streams, full disks, pipes and interrupts: no traceback, and an exit code that tells."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from commands import COMMAND, TEST, TRAIN, without_notice

import robustruct

pytestmark = pytest.mark.skipif(os.name == "nt", reason="streams are closed by POSIX shells")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "ner.model"
    subprocess.run(
        [*COMMAND, "train", TRAIN, "--model", "agm", "-o", path, "-q", "--max-iter", "5"],
        check=True,
        capture_output=True,
    )
    return path


def shell(redirection: str, *arguments: object) -> subprocess.CompletedProcess:
    """The command as a shell runs it with a redirection."""
    line = f'"$@" {redirection}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    done.stderr = without_notice(done.stderr)
    return done


def test_labels_need_an_open_output(model) -> None:
    done = shell(">&-", "predict", model, TEST)
    assert done.returncode == 1
    assert done.stderr == (
        "robustruct: standard output is closed; name a file to write to (-o FILE).\n"
    )


def test_training_needs_no_stream_at_all(model, tmp_path) -> None:
    made = tmp_path / "new.model"
    done = shell(">&- 2>&- <&-", "train", TRAIN, "--model", "agm", "-o", made, "--max-iter", "5")
    assert done.returncode == 0
    assert made.stat().st_size > 1000
    mask = os.umask(0o077)
    os.umask(mask)
    assert stat.S_IMODE(made.stat().st_mode) == 0o666 & ~mask


def test_what_is_said_to_nobody_is_not_put_among_the_labels(model) -> None:
    done = shell("2>&-", "predict", model, TEST)
    assert done.returncode == 0
    assert "labelling" not in done.stdout
    assert len(done.stdout.split("\n\n")) == 4


def test_a_closed_input_is_missing_data(model) -> None:
    done = shell("<&-", "predict", model, "-")
    assert done.returncode == 3
    assert "standard input is closed" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_told(model) -> None:
    done = shell("> /dev/full", "predict", model, TEST)
    assert (done.returncode, done.stderr) == (1, "robustruct: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("command", ["predict", "train"])
def test_output_into_a_pipe(command, model, tmp_path, here) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    given: tuple = ("train", TRAIN, "--model", "agm", "--max-iter", "5")
    if command == "predict":
        given = ("predict", model, TEST)
    code, _, err = here(*given, "-o", pipe, "-q")
    reader.join(10)
    assert code == 0, err
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    if command == "predict":
        assert received[0].startswith(b"Hugo NNP B-PER ")
    else:
        copy = tmp_path / "copy"
        copy.write_bytes(received[0])
        expected = robustruct.load(model).coef_
        np.testing.assert_array_equal(robustruct.load(copy).coef_, expected)
    assert not list(tmp_path.glob("*.tmp"))


def test_predicting_keeps_the_mode_of_a_file(model, tmp_path, here) -> None:
    out = tmp_path / "labels"
    out.write_text("")
    out.chmod(0o640)
    assert here("predict", model, TEST, "-o", out, "-q")[0] == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert out.stat().st_size > 0


SLOW_IMPORT = """
import builtins, os, sys, time
real = builtins.__import__
def slow(name, *rest):
    if name == {name!r}:
        os.write(1, b"loading")
        try:
            time.sleep(30)
        except KeyboardInterrupt:
            raise ImportError("as C code of libraries says") from None
    return real(name, *rest)
builtins.__import__ = slow
sys.argv = ["robustruct", "predict", {model!r}, {data!r}]
from robustruct.__main__ import main
main()
"""


def _interruptible() -> None:
    """In the child: commands in the background of a shell are started with interrupts ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("name", ["typer", "numpy"])
def test_an_interrupt_while_libraries_are_loaded(name, model) -> None:
    code = SLOW_IMPORT.format(name=name, model=str(model), data=str(TEST))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_interruptible,
    )
    assert process.stdout is not None
    assert process.stdout.read(7) == b"loading"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT  # 130 to a shell
    assert err == b""


def test_an_ignored_interrupt_stays_ignored(model) -> None:
    code = SLOW_IMPORT.format(name="typer", model=str(model), data=str(TEST))
    code = code.replace("time.sleep(30)", "time.sleep(0.2)")
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{code}"
    process = subprocess.Popen(
        [sys.executable, "-c", ignoring], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(7) == b"loading"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.replace(b"loading", b"").startswith(b"Hugo NNP B-PER ")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5))
def test_interrupts_at_any_moment_leave_no_traceback(model, first: int) -> None:
    for delay in [0.15 + 0.05 * i for i in range(first, 50, 5)]:
        process = subprocess.Popen(
            [*COMMAND, "predict", str(model), str(TEST)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        started = b"runpy" not in b"".join(err.splitlines()[:2])  # else Python itself was loading
        assert b"Traceback" not in err or not started, err
        assert process.returncode in (0, 130, -signal.SIGINT)
