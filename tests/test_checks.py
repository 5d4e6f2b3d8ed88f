"""The parts into which slow tests are split: together all of them, each in one part."""

import subprocess
import sys
from itertools import chain
from pathlib import Path

TESTS = Path(__file__).parent


def collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow", *options]
    found = subprocess.run(
        [*command, str(TESTS / "faults")],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in found.stdout.splitlines() if "::" in line]


def test_every_slow_test_is_in_one_part() -> None:
    parts = [collected("--part", part) for part in ("1/3", "2/3", "3/3")]
    every = collected()
    assert sorted(chain.from_iterable(parts)) == sorted(every)
    assert {len(part) for part in parts} <= {len(every) // 3, len(every) // 3 + 1}
