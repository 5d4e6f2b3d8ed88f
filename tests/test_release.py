"""Files of a release agree with pyproject.toml and with each other."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import robustruct

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHECKS = runpy.run_path(str(ROOT / "checks.py"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_checks_that_exist_and_have_few_rights(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    flow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert flow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in flow["jobs"].values())
    known = {"quick", *CHECKS["COMMANDS"], *CHECKS["FUNCTIONS"]}
    called = re.findall(r"checks\.py ([a-z ]+)", path.read_text(encoding="utf-8"))
    assert {name for names in called for name in names.split()} <= known
    for job in flow["jobs"].values():
        named = job.get("strategy", {}).get("matrix", {}).get("check", [])
        assert set(named) <= known


def test_the_oldest_and_the_newest_python_are_checked() -> None:
    versions = [
        line.rpartition(" :: ")[2]
        for line in PROJECT["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    ]
    listed = re.search(r"python: \[(.*)\]", text(".github", "workflows", "checks.yml"))
    assert listed
    assert re.findall(r"[\d.]+", listed[1]) == [versions[0], versions[-1]]


def test_publishing_waits_for_a_person() -> None:
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(text(".github", "workflows", "release.yml"))["jobs"]
    publishing = [job for job in jobs.values() if "pypi-publish" in str(job["steps"])]
    assert len(publishing) == 1
    assert publishing[0]["environment"] == "release"
    assert publishing[0]["needs"] == "installed"


def test_the_recipe_of_conda_names_the_same_versions() -> None:
    recipe = text("conda", "meta.yaml")
    assert f'version = "{robustruct.__version__}"' in recipe
    named = {
        "".join(line.strip("- ").split())
        for line in recipe.partition("  run:\n")[2].partition("\n\n")[0].splitlines()
    }
    assert named == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}


def test_steps_and_paper_name_files_that_exist() -> None:
    for page in ("docs/releasing.md", "SECURITY.md"):
        for name in re.findall(r"`([\w./]+\.(?:py|cff|yaml|md|toml))`", text(page)):
            assert (ROOT / name).exists(), f"{page}: {name}"
