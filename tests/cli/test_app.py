"""The command itself: version, help, errors."""

import sys

import pytest
from typer.testing import CliRunner

from robustruct import __version__
from robustruct.cli import app as cli
from robustruct.errors import InvalidInputError

runner = CliRunner()


def test_version() -> None:
    assert runner.invoke(cli.app, ["--version"]).output == f"robustruct {__version__}\n"


def test_help_lists_the_subcommands() -> None:
    result = runner.invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "compare" in result.output


@pytest.mark.parametrize("arguments", [["no-such-command"], ["compare", "--loss", "cubic"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = runner.invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_what_the_library_refuses_is_a_message_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(loss: str, seed: int) -> None:
        raise InvalidInputError("sample 3 is empty.")

    monkeypatch.setattr("robustruct.cli.compare.compare", refuse)
    monkeypatch.setattr(sys, "argv", ["robustruct", "compare"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == "robustruct: sample 3 is empty.\n"
