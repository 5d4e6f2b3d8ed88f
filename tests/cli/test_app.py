"""The command itself: version, help, errors."""

import inspect
import sys
from dataclasses import fields, is_dataclass

import pytest
import typer
from typer.testing import CliRunner

from robustruct import AGM, __version__
from robustruct.cli import app as cli
from robustruct.cli.options import CostOptions, TableOptions, command
from robustruct.cli.reading import Layout
from robustruct.cli.scale import Scale
from robustruct.cli.train import TrainOptions
from robustruct.errors import InvalidInputError

runner = CliRunner()


def test_version() -> None:
    assert runner.invoke(cli.app, ["--version"]).output == f"robustruct {__version__}\n"


def test_help_lists_the_subcommands() -> None:
    result = runner.invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    for name in ("train", "predict", "evaluate", "inspect", "compare"):
        assert f"\n  {name} " in result.output


@pytest.mark.parametrize("command", [[], ["train"], ["predict"], ["evaluate"], ["inspect"]])
def test_help_explains_exit_codes(command: list[str]) -> None:
    result = runner.invoke(cli.app, [*command, "--help"])
    assert result.exit_code == 0
    assert "130 interrupted" in " ".join(result.output.split())


def test_the_direction_of_costs_is_in_the_help() -> None:
    text = " ".join(runner.invoke(cli.app, ["train", "--help"]).output.split())
    assert '"B-PER>O=5" says that predicting O where B-PER is true costs 5' in text


def test_commands_use_one_word_for_one_thing() -> None:
    options = {
        name: {option for one in command.params for option in one.opts}
        for name, command in typer.main.get_command(cli.app).commands.items()  # type: ignore[attr-defined]
    }
    for name in ("train", "compare"):
        assert {"--max-time", "--max-iter", "--folds", "--weights", "--quiet"} <= options[name]
    parameters = set(inspect.signature(AGM.fit).parameters) | set(AGM().get_params())
    assert {"max_time", "max_iter", "validation"} <= parameters
    assert "--validation" in options["train"]
    for name in ("train", "predict", "evaluate", "compare"):
        assert {"--quiet", "-q", "--json"} <= options[name]


def test_every_field_of_the_options_reaches_the_command() -> None:
    given = dict[str, object]()
    call = command(lambda options: given.update(vars(options)), TrainOptions)
    parameters = inspect.signature(call).parameters
    flat = [field for field in fields(TrainOptions) if not is_dataclass(field.default_factory)]
    for group in (CostOptions, Layout, TableOptions, Scale):
        flat += [field for field in fields(group) if not is_dataclass(field.default_factory)]
    assert sorted(parameters) == sorted(field.name for field in flat)
    values = {name: one.default for name, one in parameters.items()}
    call(**{**values, "output": "m", "data": ["d"], "cost": ["a>b=2"], "columns": "0,3"})
    assert given == vars(
        TrainOptions(
            output="m", data=["d"], costs=CostOptions(cost=["a>b=2"]), layout=Layout(columns="0,3")
        )
    )


def test_shells_can_complete_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ROBUSTRUCT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "robustruct ev")
    monkeypatch.setenv("COMP_CWORD", "1")
    result = runner.invoke(cli.app, [], prog_name="robustruct")
    assert result.output.split() == ["evaluate"]


@pytest.mark.parametrize("arguments", [["no-such-command"], ["compare", "--folds", "1"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = runner.invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_what_the_library_refuses_is_a_message_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise InvalidInputError("sample 3 is empty.")

    monkeypatch.setattr("robustruct.cli.compare.compare", refuse)
    monkeypatch.setattr(sys, "argv", ["robustruct", "compare"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == "robustruct: sample 3 is empty.\n"
