"""Python in the documentation runs as it stands, with the names that its text takes for given."""

import gzip
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustruct import CRF
from robustruct.losses import CostMatrix

PAGES = sorted(Path(__file__).parents[1].glob("docs/*.md"))
BLOCK = re.compile(
    r"^(?P<lead> *(?:[*-] )*)```python\n(?P<code>.*?)^ *```$", re.DOTALL | re.MULTILINE
)


def blocks(page: Path) -> list[tuple[str, bool]]:
    """(code, whether it is ours: the first column of a table shows another library)."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [(textwrap.dedent(m["code"]), not m["lead"].startswith("* - ")) for m in found]


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


def write_shards(folder: Path) -> None:
    """The same samples as two files."""
    folder.mkdir()
    for i, (nodes, labels) in enumerate(zip(given()["X"], given()["y"], strict=True)):
        line = json.dumps({"nodes": nodes, "labels": labels}) + "\n"
        (folder / f"part-{i}.jsonl.gz").write_bytes(gzip.compress(line.encode()))


@pytest.mark.xdist_group("dask")
# What Dask itself warns of when ports are taken, and leaves behind.
@pytest.mark.filterwarnings("ignore::UserWarning:distributed")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem
)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "data")
    names = given()
    if page.stem == "index":
        names["y"] = [["entity", "other"], ["entity", "entity"]]
    for code, ours in blocks(page):
        compiled = compile(code, page.name, "exec")
        if ours:
            exec(compiled, names)


def test_pages_have_snippets_of_both_kinds() -> None:
    kinds = [ours for page in PAGES for _, ours in blocks(page)]
    assert kinds.count(True) >= 12
    assert kinds.count(False) >= 4
