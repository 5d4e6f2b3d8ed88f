"""What the README promises: its example runs, and its second command is what CI runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_example_runs_and_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    assert len(example.strip().splitlines()) <= 12
    exec(compile(example, "README.md", "exec"), {})
    said = re.fullmatch(
        r"(AGM|CRF|SSVM), temperature (\d\.?\d?|inf), decision (map|bayes|predictor)\n"
        r"test cost \d\.\d\d, certified gap \d\.\d%\n",
        capsys.readouterr().out,
    )
    assert said


def test_each_command_is_one_line() -> None:
    compare, checks = blocks("sh")
    assert compare.count("\n") == checks.count("\n") == 1
    assert "robustruct compare" in compare
    assert "checks.py" in checks


def test_ci_runs_the_second_command_word_for_word() -> None:
    line = blocks("sh")[1].strip()
    assert line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target
