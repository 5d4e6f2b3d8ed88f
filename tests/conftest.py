"""Shared by all tests: hypothesis settings, where real data are."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The experiments are scripts, not a package: their folder, with the readers of corpora, goes on
# the path.
sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

settings.register_profile(
    "robustruct",
    deadline=None,  # machines differ
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("robustruct")


# Tests of what an extra of pyproject.toml brings are left out where it is not installed.
NEEDS = {
    "distributed": ["engines", "cli/test_scale.py", "torch_layers/test_torch_habits.py"],
    "pyarrow": ["fuzz", "formats/test_hostile_files.py"],
    "torch": ["torch_layers", "experiments/test_torch_tagger_experiment.py"],
    "selenium": ["report/test_browser.py"],
}
collect_ignore = [
    path for name, paths in NEEDS.items() if find_spec(name) is None for path in paths
]


@pytest.fixture(scope="session")
def faults() -> int:
    """How many times over tests of faults try their luck: ``ROBUSTRUCT_FAULTS``, by default 1."""
    return int(os.environ.get("ROBUSTRUCT_FAULTS", "1"))


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder of the real data sets, or skip."""
    home = os.environ.get("ROBUSTRUCT_DATA")
    if not home or not Path(home).is_dir():
        pytest.skip("set ROBUSTRUCT_DATA to the folder of real data sets to run this test")
    return Path(home)


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Runs the command in this process: (exit code, stdout, stderr); starting one takes long."""
    from robustruct.cli.app import main

    def invoke(*arguments: object, cwd: Path = tmp_path) -> tuple[int, str, str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr("sys.argv", ["robustruct", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return exit_.value.code, captured.out, captured.err

    return invoke
