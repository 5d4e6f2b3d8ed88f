"""Python in Markdown runs as it stands, with the names that its text takes for given.

A snippet that cannot run alone is marked on the line above its fence, with the reason:
``<!-- not run: needs a cluster -->``. Snippets of a page share their names, from top to bottom.
"""

import gzip
import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustruct import CRF
from robustruct.losses import CostMatrix

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(
    r"(?:^ *(?P<marker><!--[^\n]*-->) *\n)?"
    r"^(?P<lead> *(?:[*-] )*)```python\n(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
REASON = re.compile(r"<!-- not run: \w.*\S -->")


@dataclass(frozen=True)
class Snippet:
    """Python of a page, and what stands before it."""

    code: str
    line: int
    lead: str
    marker: str

    @property
    def runs(self) -> bool:
        """Not if it is marked, nor in the first column of a table: that shows another library."""
        return not self.marker and not self.lead.startswith("* - ")


def snippets(text: str) -> list[Snippet]:
    """All Python of a page."""
    return [
        Snippet(
            textwrap.dedent(block["code"]),
            text.count("\n", 0, block.start("code")),
            block["lead"],
            block["marker"] or "",
        )
        for block in BLOCK.finditer(text)
    ]


def snippets_of(page: Path) -> list[Snippet]:
    return snippets(page.read_text(encoding="utf-8"))


class Tensor(np.ndarray):
    """As much of a torch tensor as the pages use."""

    def numpy(self) -> np.ndarray:
        return np.asarray(self)


def given() -> dict[str, Any]:
    """What the text around the snippets speaks of."""
    X = [[{"w": "Ada"}, {"w": "met"}], [{"w": "Ada"}, {"w": "Lovelace"}]]
    y = [["B-PER", "O"], ["B-PER", "I-PER"]]
    cost = CostMatrix(1 - np.eye(3), ["B-PER", "I-PER", "O"])
    return {
        "X": X,
        "y": y,
        "X_test": X,
        "y_test": y,
        "X_new": X,
        "cost": cost,
        "node_weight": [[1.0, 2.0], [1.0, 0.5]],
        "model": CRF(cost).fit(X, y),
        "nodes": np.eye(2),
        "edges": [(0, 1)],
        "edge_features": [[1.0]],
        "emissions": np.eye(3)[[[0, 2, 2], [0, 1, 2]]].view(Tensor),
        "mask": np.array([[True, True, False]] * 2),
    }


def tensors() -> dict[str, Any]:
    """The same for the page on torch."""
    torch = pytest.importorskip("torch")
    return {
        "n_tags": 3,
        "cost": [[0, 1, 1], [5, 0, 1], [5, 1, 0]],
        "emissions": torch.zeros(2, 3, 3, requires_grad=True),
        "tags": torch.tensor([[0, 1, 0], [2, 0, 0]]),
        "mask": torch.tensor([[True, True, False]] * 2),
    }


def write_shards(folder: Path) -> None:
    """The same samples as two files."""
    folder.mkdir()
    for i, (nodes, labels) in enumerate(zip(given()["X"], given()["y"], strict=True)):
        line = json.dumps({"nodes": nodes, "labels": labels}) + "\n"
        (folder / f"part-{i}.jsonl.gz").write_bytes(gzip.compress(line.encode()))


def run(page: Path, names: dict[str, Any]) -> None:
    """Every snippet that can run, one after the other; tracebacks name lines of the page."""
    for snippet in snippets_of(page):
        compiled = compile("\n" * snippet.line + snippet.code, page.name, "exec")
        if snippet.runs:
            exec(compiled, names)


@pytest.mark.xdist_group("dask")
# What Dask itself warns of when ports are taken, and leaves behind.
@pytest.mark.filterwarnings("ignore::UserWarning:distributed")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    # The README's example is run by test_readme.py, with what it prints.
    "page",
    [page for page in PAGES if snippets_of(page) and page.name != "README.md"],
    ids=lambda page: page.stem,
)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "data")
    names = given()
    if page.stem == "index":
        names["y"] = [["entity", "other"], ["entity", "entity"]]
    if page.stem == "torch":
        names |= tensors()
    run(page, names)


def test_what_is_not_run_says_why() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        where = f"{page.name}: "
        for snippet in snippets(text):
            if snippet.marker:
                assert REASON.fullmatch(snippet.marker), where + snippet.marker
        marked = sum(bool(snippet.marker) for snippet in snippets(text))
        outside_code = re.sub(r"`<!--.*?-->`", "", text)
        assert outside_code.count("<!-- not run") == marked, where + "a marker before no snippet"
        assert len(re.findall(r"^[ *-]*```py", text, re.MULTILINE)) == len(snippets(text)), where


@pytest.mark.parametrize(
    ("before", "runs"),
    [
        ("", True),
        ("text\n", True),
        ("<!-- not run: needs a cluster -->\n", False),
        ("<!-- not run: needs a cluster -->\n\n", True),
        ("* - ", False),
        ("  - ", True),
    ],
)
def test_what_runs(before: str, runs: bool) -> None:
    (snippet,) = snippets(f"{before}```python\nx = 1\n```\n")
    assert (snippet.runs, snippet.code) == (runs, "x = 1\n")


def test_pages_have_snippets_of_both_kinds() -> None:
    kinds = [snippet.runs for page in PAGES for snippet in snippets_of(page)]
    assert kinds.count(True) >= 15
    assert kinds.count(False) >= 4
