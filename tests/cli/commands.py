"""Running the command as users do: another process, files, pipes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE / "data"
TRAIN, TEST = DATA / "people.conll", DATA / "places.conll"
COMMAND = [sys.executable, "-m", "robustruct"]


def run(
    *arguments: object, stdin: str | bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess:
    """Run ``robustruct`` to its end; text in and out."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=given,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        check=False,
    )
    done.stdout, done.stderr = done.stdout.decode(), without_notice(done.stderr.decode())
    assert "Traceback" not in done.stderr, done.stderr
    return done


def without_notice(text: str) -> str:
    """Without the word about compiling, which depends on what other tests have run before."""
    return re.sub(r"^robustruct: compiling code .*\n", "", text, flags=re.MULTILINE)


def comparable(text: str) -> str:
    """Output without what differs between runs and machines."""
    text = text.replace(str(DATA), "DATA")
    text = re.sub(r"reading [\d.]+ s, training [\d.]+ s", "reading S s, training S s", text)
    text = re.sub(r"\([\d.]+ MB\)", "(N MB)", text)
    # The columns of seconds and gaps in the table of a comparison.
    text = re.sub(r" +\d+\.\d s +\d+\.\d s +\d\.\d\d%", " S s S s G%", text)
    # The column of seconds in the history of training, as wide as its largest number.
    text = re.sub(r"^( +pass) +seconds", r"\1 seconds", text, flags=re.MULTILINE)
    return re.sub(r"^( +\d+) +\d+\.\d\d( )", r"\1 S.SS\2", text, flags=re.MULTILINE)


def golden(name: str, text: str) -> None:
    """Compare with the stored output; ROBUSTRUCT_GOLDEN=write stores it."""
    file = HERE / "golden" / name
    if os.environ.get("ROBUSTRUCT_GOLDEN") == "write":
        file.write_text(comparable(text), encoding="utf-8")
    assert comparable(text) == file.read_text(encoding="utf-8")
