"""Shared by all tests: hypothesis settings, where real data are."""

import os
import sys
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


def _part(text: str) -> tuple[int, int]:
    """ "2/3" is the second of three parts."""
    k, n = map(int, text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k, n


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=_part, default=(1, 1), help="K/N: every Nth slow test only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked slow run only where ``-m`` speaks of them, by ``--part`` some of them."""
    left_out = [item for item in items if item.get_closest_marker("slow")]
    if "slow" in config.option.markexpr:
        k, n = config.option.part
        left_out = [item for i, item in enumerate(left_out) if i % n != k - 1]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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
