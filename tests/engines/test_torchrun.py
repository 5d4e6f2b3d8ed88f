"""The engine of docs/extending.md: processes of torchrun train what one process trains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import robustruct
from robustruct import AGM
from robustruct.engines import ShardedData

SCRIPT = Path(__file__).parents[2] / "examples" / "clusters" / "train_with_torchrun.py"


@pytest.fixture
def shards(tmp_path: Path) -> list[str]:
    """Three files of sentences whose words tell something about their tags."""
    rng, paths = np.random.default_rng(0), []
    for number in range(3):
        sentences = []
        for length in rng.integers(1, 9, 40):
            tags = rng.integers(0, 3, length)
            words = 5 * tags + rng.integers(0, 7, length)
            sentences.append(
                "".join(f"w{w} {'ABC'[t]}\n" for w, t in zip(words, tags, strict=True))
            )
        path = tmp_path / f"part-{number}.conll"
        path.write_text("\n".join(sentences))
        paths.append(str(path))
    return paths


def test_two_processes_train_what_one_does(shards: list[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    target = tmp_path / "together.model"
    processes = ["--standalone", "--nproc-per-node", "2"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *processes,
            SCRIPT,
            *shards,
            "--to",
            target,
        ],
        check=True,
        timeout=120,
    )
    together = robustruct.load(target)
    alone = AGM(random_state=0).fit(ShardedData.from_files(shards))
    assert together.duality_gap_ <= together.tol
    assert together.objective_ >= max(record.dual for record in alone.history_)
    assert alone.objective_ >= max(record.dual for record in together.history_)
    assert together.n_samples_ == alone.n_samples_
