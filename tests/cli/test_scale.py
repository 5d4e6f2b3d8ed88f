"""train on several files, on a cluster of real processes, and killed in the middle."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import COMMAND, TEST, TRAIN, run

import robustruct
from robustruct import AGM
from robustruct.cli.scale import Scale
from robustruct.engines import ShardedData
from robustruct.errors import MissingExtraError
from robustruct.formats.corpus import read_corpus

pytestmark = pytest.mark.xdist_group("dask")

COST = ("--cost", "B-PER>O=5", "--alpha", "0.5")


def deal_out(folder: Path) -> None:
    """The training sentences in three files, part-0.conll to part-2.conll."""
    sentences = TRAIN.read_text().strip().split("\n\n")
    for i in range(3):
        (folder / f"part-{i}.conll").write_text("\n\n".join(sentences[i::3]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three shards, and a model of them trained in one process."""
    folder = tmp_path_factory.mktemp("scale")
    deal_out(folder)
    done = run("train", "--shards", "part-*", "-o", "here.model", *COST, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "AGM on 3 shards: reading"
    (folder / "here.json").write_text(done.stdout)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Dask, killed at the end."""
    command = [sys.executable, "-m", "distributed.cli.dask_" + str(arguments[0])]
    with subprocess.Popen(
        [*command, *map(str, arguments[1:])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def empty_cluster() -> Iterator[str]:
    """Address of a scheduler without workers."""
    pytest.importorskip("distributed")
    port = free_port()
    with running("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"tcp://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def cluster(empty_cluster: str) -> Iterator[str]:
    """Address of a scheduler with two worker processes; the command waits for the first."""
    worker = ("worker", empty_cluster, "--nthreads", 1, "--no-nanny", "--no-dashboard")
    with running(*worker), running(*worker):
        from distributed import Client

        with Client(empty_cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield empty_cluster


# ------------------------------------------------------------------------- files and models


def test_files_that_belong_together_are_one_file(folder: Path, here) -> None:
    result = json.loads((folder / "here.json").read_text())
    assert (result["data"], result["format"]) == ("part-*", "conll")
    assert (result["n_samples"], result["n_nodes"], len(result["labels"])) == (8, 45, 5)
    model = robustruct.load(folder / "here.model")
    costs = 1 - np.eye(5)
    costs[model.classes_.tolist().index("B-PER"), model.classes_.tolist().index("O")] = 5.0
    np.testing.assert_array_equal(model.cost_, costs)  # though labels were known only then
    code, out, _ = here("predict", "here.model", TEST, cwd=folder)
    assert code == 0
    last_column = [line.split()[-1] for line in out.splitlines() if line]
    assert last_column == np.concatenate(model.predict(read_corpus(TEST).X)).tolist()


def test_a_fit_of_files_in_python_is_the_same_and_knows_their_format(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    trained = robustruct.load("here.model")
    model = AGM(trained.loss, alpha=0.5, random_state=0)
    model.fit(ShardedData.from_files("part-*"))
    np.testing.assert_array_equal(model.coef_, trained.coef_)
    assert model.input_ == trained.input_
    model.fit([[{"w": "a"}]], [["O"]])  # another fit, of samples in memory
    assert not hasattr(model, "input_")


def test_costs_of_a_file_a_dev_file_and_few_attributes(folder: Path, here) -> None:
    labels = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O", "B-ORG"]  # one that the data lack
    rows = [[label, *(str(int(label != other)) for other in labels)] for label in labels]
    rows[1][5] = "7"
    lines = [["true\\predicted", *labels], *rows]
    (folder / "costs.csv").write_text("\n".join(map(",".join, lines)))
    options = ("--shards", "part-*", "--loss", "costs.csv", "--validation", TEST, "--json", "-q")
    code, out, err = here("train", *options, "--min-count", "2", "-o", "few", cwd=folder)
    assert (code, err) == (0, "")
    assert json.loads(out)["validation_loss"] >= 0
    assert (
        json.loads(out)["n_features"] < json.loads((folder / "here.json").read_text())["n_features"]
    )
    model = robustruct.load(folder / "few")
    assert model.cost_[1, 4] == 7.0
    assert "B-ORG" in model.loss.labels  # test data may have it
    code, out, _ = here("train", *options, "--hashed", "128", "-o", "hashed", cwd=folder)
    assert (code, json.loads(out)["n_features"]) == (0, 128 + 1)


# ------------------------------------------------------------------------- wrong usage

SHARDS = ("--shards", "part-*")
DASK = ("--engine", "dask", "--scheduler", "127.0.0.1:9")
WRONG = {
    "neither": ((), "name the labelled file"),
    "both": ((*SHARDS, "part-0.conll"), "give DATA or --shards, not both"),
    "no quotes": (("--shards", "part-0", "part-1", "part-2"), "put that in quotes"),
    "several": (("a", "b"), "Several files are shards"),
    "min-count": (("a", "--min-count", "2"), "--min-count goes with --shards"),
    "hashed": (("a", "--hashed", "64"), "--hashed goes with --shards"),
    "two ways": ((*SHARDS, "--hashed", "64", "--min-count", "2"), "choose one of the two"),
    "no engine": ((*SHARDS, "--scheduler", "a:1"), "--scheduler goes with --engine dask"),
    "no address": ((*SHARDS, "--engine", "dask", "--scheduler", "host"), "is no address"),
    "no folder": (("a", "--resume"), "--resume needs the folder"),
    "no folder, every": (("a", "--checkpoint-every", "9"), "--checkpoint-every needs the folder"),
    "every": (("a", "--checkpoint", "c", "--checkpoint-every", "soon"), "or a time, such as 30s"),
    "auto": ((*SHARDS, "--alpha", "auto"), "choose it on one of the files"),
    "alphas": ((*SHARDS, "--alpha", "1", "--alpha", "2"), "choose it on one of the files"),
    "auto on a cluster": (("a", *DASK, "--alpha", "auto"), "choose it with --engine here"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_combinations_are_refused_before_anything_is_read(case, tmp_path, here) -> None:
    options, message = WRONG[case]
    code, out, err = here("train", "-o", "m", *options)  # none of the files exists
    assert (code, out) == (2, "")
    assert message in err
    assert os.listdir(tmp_path) == []


def test_no_file_and_no_such_label(folder: Path, here) -> None:
    code, _, err = here("train", "--shards", "no-*", "-o", "m", cwd=folder)
    assert code == 3
    assert "no file matches 'no-*'" in err
    code, _, err = here("train", *SHARDS, "--cost", "X>O=2", "-o", "m", "-q", cwd=folder)
    assert code == 2
    assert "names the label 'X', which the data lack" in err


def test_without_dask_the_extra_is_named(folder: Path, here, monkeypatch) -> None:
    import robustruct.engines

    def absent(name: str) -> None:
        raise MissingExtraError("DaskEngine needs Dask: pip install 'robustruct[dask]'")

    monkeypatch.setattr(robustruct.engines, "__getattr__", absent)
    code, out, err = here("train", *SHARDS, *DASK, "-o", "m", cwd=folder)
    assert (code, out) == (2, "")
    assert "pip install 'robustruct[dask]'" in err


# ------------------------------------------------------------------------- a cluster


def test_nobody_answers(folder: Path, here) -> None:
    pytest.importorskip("distributed")
    address = f"tcp://127.0.0.1:{free_port()}"
    options = ("--engine", "dask", "--scheduler", address)
    code, out, err = here("train", *SHARDS, *options, "-o", "m", cwd=folder)
    assert (code, out) == (1, "")
    assert err.startswith(f"robustruct: no Dask scheduler answers at {address}; ")
    assert err.count("\n") == 1


def test_a_cluster_without_workers(folder: Path, empty_cluster: str) -> None:
    options = ("--engine", "dask", "--scheduler", empty_cluster)
    done = run("train", *SHARDS, *options, "-o", "m", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the scheduler at {empty_cluster} has no worker; start some" in done.stderr
    assert done.stderr.count("\n") == 1


def test_training_on_a_cluster(folder: Path, cluster: str, here) -> None:
    options = ("--engine", "dask", "--scheduler", cluster, "--jobs", "1")
    done = run("train", *SHARDS, *COST, *options, "-o", "there.model", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "AGM on 3 shards: reading"
    assert "AGM training: pass 1 of at most 1000" in done.stderr
    alone, together = json.loads((folder / "here.json").read_text()), json.loads(done.stdout)
    for result in (alone, together):
        assert result["gap"] <= result["tol"]
    for name in ("n_samples", "n_nodes", "n_features", "labels", "alpha", "loss", "format"):
        assert alone[name] == together[name]
    one, other = (robustruct.load(folder / f"{name}.model") for name in ("here", "there"))
    assert one.objective_ == pytest.approx(other.objective_, rel=one.tol + other.tol)
    assert here("predict", "there.model", TEST, cwd=folder)[0] == 0
    # One file is dealt out to the workers.
    done = run("train", TRAIN, *COST, *options, "-o", "dealt.model", "-q", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    dealt = robustruct.load(folder / "dealt.model")
    assert dealt.objective_ == pytest.approx(one.objective_, rel=one.tol + dealt.tol)
    assert dealt.input_ == one.input_


def test_without_a_scheduler_workers_of_this_machine_train(folder: Path) -> None:
    pytest.importorskip("distributed")
    done = run("train", *SHARDS, *COST, "--engine", "dask", "-o", "own.model", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"goal .*, (\d+) workers?, \d+ rounds, \d+ MB between them", done.stderr)
    assert found
    assert int(found[0]) == min(3, len(os.sched_getaffinity(0)))
    result = json.loads(done.stdout)
    assert result["gap"] <= result["tol"]


def test_threads_of_workers_of_this_machine() -> None:
    own, cluster = Scale(engine="dask"), Scale(engine="dask", scheduler="tcp://a:1")
    assert (own.threads(-1), own.threads(4)) == (1, 4)
    assert (cluster.threads(-1), Scale().threads(-1)) == (-1, -1)


# ------------------------------------------------------------------------- interruptions

LONG = (
    *SHARDS,
    "--alpha",
    "0.01",
    "--tol",
    "1e-9",
    "--checkpoint",
    "kept",
    "--checkpoint-every",
    "10",
)


def kept_passes(folder: Path) -> list[int]:
    """Of the checkpoints there are."""
    return sorted(int(path.name[11:17]) for path in (folder / "kept").glob("*.safetensors"))


def interrupted(folder: Path, how: signal.Signals) -> tuple[int, str]:
    """Start a training that would take long, and stop it after two checkpoints or more."""
    with subprocess.Popen(
        [*COMMAND, "train", "-o", "m", *LONG, "--max-iter", "100000000"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        deadline = time.monotonic() + 60
        while len(kept_passes(folder)) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
    assert not (folder / "m").exists()
    return process.returncode, err


def test_killed_and_resumed_it_is_the_same_model(tmp_path: Path, here) -> None:
    deal_out(tmp_path)
    assert interrupted(tmp_path, signal.SIGKILL)[0] == -signal.SIGKILL
    passes = kept_passes(tmp_path)[-1]
    rest = ("--max-iter", str(passes + 25), "-q")
    code, _, err = here("train", *LONG, *rest, "-o", "m")
    assert code == 2
    assert "kept already holds checkpoints; add --resume to go on from them" in err
    done = run("train", *LONG, *rest, "--resume", "-o", "resumed", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    others = [("other" if option == "kept" else option) for option in LONG]
    assert here("train", *others, *rest, "-o", "straight")[0] == 0
    resumed, straight = (robustruct.load(tmp_path / name) for name in ("resumed", "straight"))
    np.testing.assert_array_equal(resumed.coef_, straight.coef_)
    assert resumed.n_iter_ == straight.n_iter_ > passes
    bounds = [
        [(at.n_iter, at.primal, at.dual) for at in model.history_] for model in (resumed, straight)
    ]
    assert bounds[0] == bounds[1]
    assert b"kept" not in (tmp_path / "resumed").read_bytes()


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deal_out(tmp_path)
    code, err = interrupted(tmp_path, signal.SIGINT)
    assert code == 130, err
    last = err.splitlines()[-1]
    assert last.startswith("robustruct: interrupted; no model was written. The same command with ")
    assert "--resume added goes on from kept/checkpoint-" in last
    monkeypatch.chdir(tmp_path)
    again = Scale(checkpoint="kept", resume=True).after_interruption()
    assert again.startswith("The same command goes on from kept/checkpoint-")
    assert "no checkpoint in new yet" in Scale(checkpoint="new").after_interruption()
