"""Fuzzing, the short form; ``python tests/fuzz/run.py`` is the long one."""

import numpy as np
import pytest
import run

from robustruct.errors import InvalidInputError

CASES = {"checkpoint_bytes": 10, "checkpoint_structure": 15, "parquet_columns": 15}


@pytest.mark.parametrize("target", run.TARGETS)
def test_every_input_is_read_or_refused(target):
    outcomes = {run.run_case(0, target, case) for case in range(CASES.get(target, 30))}
    assert outcomes <= {"read", "refused"}


def test_a_case_comes_again():
    draws = [run.generator(3, "conll", 5).integers(2**62, size=4).tolist() for _ in range(2)]
    assert draws[0] == draws[1] != run.generator(3, "conll", 6).integers(2**62, size=4).tolist()


def waste_memory(rng):
    np.ones(2**23)


def waste_time(rng):
    while True:
        rng.random(1000)


def talk(rng):
    error = InvalidInputError("")
    error.args = ("x" * 10_000,)  # a message that the error itself would have cut short
    raise error


def fail(rng):
    raise KeyError("x")


@pytest.mark.parametrize("target", [waste_memory, waste_time, talk, fail])
def test_violations_are_found_and_kept(target, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(run.TARGETS, "bad", target)
    monkeypatch.setattr(run, "SECONDS", 0.02)
    monkeypatch.setattr(run, "MEBIBYTES", 32)
    counts = run.run(0, 4, ["bad"], tmp_path / "found")
    assert counts["bad", "violated"] >= 1
    assert "VIOLATION bad:" in capsys.readouterr().out
    assert list((tmp_path / "found").glob("bad-0-*/trace.txt"))
