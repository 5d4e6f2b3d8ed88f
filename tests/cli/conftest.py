"""Shared by the tests of the command."""

from pathlib import Path

import pytest

from robustruct.cli.app import main


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Runs the command in this process: (exit code, stdout, stderr); starting one takes long."""

    def invoke(*arguments: object, cwd: Path = tmp_path) -> tuple[int, str, str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr("sys.argv", ["robustruct", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return exit_.value.code, captured.out, captured.err

    return invoke
