"""Checkpoints: a fit that is killed at any moment goes on to the model it would have reached."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_fits import outcome
from safetensors.numpy import save_file
from sklearn.exceptions import ConvergenceWarning

import robustruct
from robustruct import AGM, CRF, SSVM, Checkpoint, Graph
from robustruct.datasets import make_chains
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.formats.container import ContainerKind, checksum, read_container, write_container
from robustruct.formats.shards import ShardedData
from robustruct.models import base
from robustruct.objectives.build import in_memory
from robustruct.optimizers.certificates import Progress
from robustruct.optimizers.checkpoints import CHECKPOINT, Checkpoints, interval
from robustruct.optimizers.dual_ascent import CentredAscent, fit_ascent
from robustruct.optimizers.local_shards import LocalShards

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def checkpoints_in(folder: Path) -> list[int]:
    """Numbers of the passes that were kept, oldest first."""
    return sorted(int(path.stem.partition("-")[2]) for path in folder.glob("*.safetensors"))


def resuming(kept: Checkpoint) -> Checkpoint:
    """The same folder, to go on from."""
    return dataclasses.replace(kept, resume=True)


def path_of(folder: Path, number: int) -> Path:
    return folder / f"checkpoint-{number:06d}.safetensors"


# ------------------------------------------------------------------------- processes that die


class Server:
    """Runs fits, each in a process of its own; see checkpoint_fits.py."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "outcome.json"
        script = Path(__file__).with_name("checkpoint_fits.py")
        self.process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(
        self,
        model: str,
        folder: str | None = None,
        every: int = 1,
        resume: bool = False,
        n_samples: int = 40,
        fault: tuple[str, int] | None = None,
        **parameters,
    ) -> int:
        """Begin a fit and return the id of its process."""
        self.out.unlink(missing_ok=True)
        assert self.process.stdin is not None
        order = {
            "model": model,
            "parameters": {"alpha": 1e-2, **parameters},
            "checkpoint": folder and {"folder": folder, "every": every, "resume": resume},
            "n_samples": n_samples,
            "out": str(self.out),
            "fault": fault,
        }
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return int(self.answer())

    def end(self) -> Any:
        """Wait for the fit; its outcome, or None if it was killed."""
        status = int(self.answer())
        if status == -signal.SIGKILL:
            return None
        assert status == 0
        return json.loads(self.out.read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    if not hasattr(os, "fork"):
        pytest.skip("processes are killed by means that only POSIX systems have")
    server = Server(tmp_path_factory.mktemp("outcomes"))
    yield server
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    server.process.stdin.close()
    server.process.wait()
    server.process.stdout.close()


KILLED = {
    "AGM": {"model": "AGM", "tol": 1e-9, "max_iter": 60, "every": 1},
    "SSVM": {"model": "SSVM", "tol": 1e-9, "max_iter": 60, "every": 2},
    "CRF": {"model": "CRF", "tol": 1e-13, "every": 7},
    "two threads": {
        "model": "AGM",
        "tol": 1e-9,
        "max_iter": 40,
        "every": 1,
        "n_jobs": 2,
        "n_samples": 250,
    },
}


@pytest.mark.parametrize("name", KILLED)
def test_a_fit_killed_at_random_moments_reaches_the_same_model(name, server, tmp_path, faults):
    order = {"random_state": 0, **KILLED[name]}
    server.start(**order, folder=str(tmp_path / "whole"))
    expected = server.end()
    last = checkpoints_in(tmp_path / "whole")[-1]
    rng = np.random.default_rng()
    folder = tmp_path / "killed"
    kept = killed = 0
    for share in np.linspace(0.8 / (2 * faults), 0.8, 2 * faults):
        at = int(rng.integers(kept, max(int(share * last), kept + 1)))
        pid = server.start(**order, folder=str(folder), resume=True)
        while max(checkpoints_in(folder), default=0) <= at:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.01))  # in the midst of a pass, or of writing
        os.kill(pid, signal.SIGKILL)
        if server.end() is not None:  # on a busy machine the fit may be over before we wake
            break
        killed += 1
        kept = checkpoints_in(folder)[-1]
    server.start(**order, folder=str(folder), resume=True)
    assert server.end() == expected
    assert checkpoints_in(folder) == checkpoints_in(tmp_path / "whole")
    assert len(os.listdir(folder)) == 2
    print(f"{name}: killed {killed} times")


@pytest.mark.parametrize("model", ["AGM", "CRF"])
def test_a_fit_killed_while_it_writes(model, server, tmp_path):
    order = {"model": model, "tol": 1e-9, "max_iter": 30, "random_state": 0, "every": 5}
    server.start(**order, folder=str(tmp_path / "whole"))
    expected = server.end()
    folder = tmp_path / "killed"
    for fault in (("die", 1), ("die", 3)):
        before = checkpoints_in(folder)
        server.start(**order, folder=str(folder), resume=True, fault=fault)
        assert server.end() is None
        assert len(list(folder.glob("*.tmp"))) == 1
        assert len(checkpoints_in(folder)) == min(len(before) + fault[1] - 1, 2)
    server.start(**order, folder=str(folder), resume=True)
    assert server.end() == expected
    assert not list(folder.glob("*.tmp"))


def test_a_full_disk_leaves_the_last_good_checkpoint(server, tmp_path):
    order = {"model": "AGM", "tol": 1e-9, "max_iter": 30, "random_state": 0, "every": 5}
    folder = tmp_path / "full"
    server.start(**order, folder=str(folder), fault=("fill_the_disk", 2))
    error = server.end()["error"]
    assert "a checkpoint could not be written: cannot write" in error
    assert "checkpoint-000010.safetensors is still there" in error
    assert sorted(os.listdir(folder)) == [path_of(folder, n).name for n in (5, 10)]
    server.start(**order, folder=str(folder), resume=True)
    found = server.end()
    server.start(**order)
    assert found == server.end()


# ------------------------------------------------------------------------- in this process


def chains(n_samples: int = 20, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    found = make_chains(n_samples=n_samples, n_nodes=4, n_features=3, seed=seed)
    return found.X, found.y


def cycles() -> tuple[list[Graph], list[np.ndarray]]:
    """Squares with a diagonal."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    X, y = chains(8)
    return [Graph(rows, edges) for rows in X], y


class Interrupted:
    """A display in which the user presses Ctrl-C in a given pass."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, name, wanted, *arguments):
        self.seen = wanted  # folds, on which alpha is chosen, are trained without display
        return self

    def __enter__(self):
        return self.tick

    def __exit__(self, *error):
        return False

    def tick(self, n_iter, gap, by_whom):
        if self.seen and n_iter >= self.at:
            raise KeyboardInterrupt


def interrupted(model, at, monkeypatch, *samples, **options) -> None:
    """Fit until the user presses Ctrl-C."""
    with monkeypatch.context() as patch:
        patch.setattr(base, "fit_progress", Interrupted(at))
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model.set_params(verbose=1).fit(*samples, **options)
    model.set_params(verbose=0)


CASES = {
    "AGM": (AGM, {}),
    "SSVM": (SSVM, {"loss": "absolute"}),
    "CRF": (CRF, {"tol": 1e-13, "max_iter": 100}),
    "exact on cycles": (AGM, {}),
    "relaxed": (AGM, {"inference": "relaxed"}),
    "relaxed, with entropy": (CRF, {"inference": "relaxed", "tol": 1e-6, "max_iter": 100}),
    "subgradient": (AGM, {"optimizer": "subgradient", "max_iter": 12}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, None])
def test_after_ctrl_c_a_fit_goes_on_as_if_nothing_had_been(name, seed, tmp_path, monkeypatch):
    Model, parameters = CASES[name]
    X, y = cycles() if "relaxed" in name or "cycles" in name else chains()
    given = {"alpha": 1e-2, "tol": 1e-9, "max_iter": 30, "random_state": seed, **parameters}
    model, kept = Model(**given), Checkpoint(tmp_path / "a", 5)
    interrupted(model, 11, monkeypatch, X, y, checkpoint=kept)
    assert 5 <= checkpoints_in(tmp_path / "a")[-1] <= 11
    model.fit(X, y, checkpoint=resuming(kept))
    if seed is None:  # drawn, and kept in the checkpoint
        kept = Checkpoints(tmp_path / "a", 5, resume=True)
        assert kept.description["identity"]["random_state"] is None
        monkeypatch.setattr(
            "robustruct.models.fitting.checkpointing._drawn_seed",
            lambda _: kept.description["seed"],
        )
    whole = Model(**given).fit(X, y, checkpoint=Checkpoint(tmp_path / "b", 5))
    assert outcome(model) == outcome(whole)
    times = [record.time for record in model.history_]
    assert times == sorted(times)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_checkpoints_do_not_change_the_model(Model, tmp_path):
    X, y = chains()
    given = {"alpha": 1e-2, "tol": 1e-9, "max_iter": 20, "random_state": 0}
    kept = Model(**given).fit(X, y, checkpoint=Checkpoint(tmp_path, 1))
    assert outcome(kept) == outcome(Model(**given).fit(X, y))


def test_a_crf_without_a_checkpoint_due_is_the_crf_without_checkpoints(tmp_path):
    X, y = chains()
    kept = CRF(alpha=1e-2).fit(X, y, checkpoint=Checkpoint(tmp_path, "1h"))
    assert outcome(kept) == outcome(CRF(alpha=1e-2).fit(X, y))
    assert checkpoints_in(tmp_path) == [kept.n_iter_]


@pytest.mark.parametrize("Model", [AGM, CRF])
def test_stopping_on_validation_goes_on_where_it_was(Model, tmp_path, monkeypatch):
    X, y = chains(40, seed=3)
    train, held_out = (X[:20], y[:20]), (X[20:], y[20:])
    given = {"alpha": 1e-3, "tol": 1e-12, "random_state": 0}
    watched = {"validation": held_out, "patience": 4}
    model, kept = Model(**given), Checkpoint(tmp_path / "a", 2)
    interrupted(model, 8, monkeypatch, *train, **watched, checkpoint=kept)
    kept = resuming(kept)
    model.fit(*train, **watched, checkpoint=kept)
    again = Checkpoint(tmp_path / "b", 2)
    whole = Model(**given).fit(*train, **watched, checkpoint=again)
    assert outcome(model) == outcome(whole)
    assert model.validation_loss_ == whole.validation_loss_
    with pytest.raises(IncompatibleError, match="validation samples"):
        model.fit(*train, checkpoint=kept)
    with pytest.raises(IncompatibleError, match="the validation samples are others"):
        model.fit(*train, validation=train, patience=4, checkpoint=kept)
    with pytest.raises(IncompatibleError, match="patience was 4 and is 9"):
        model.fit(*train, validation=held_out, patience=9, checkpoint=kept)


def test_a_chosen_alpha_is_not_chosen_again(tmp_path, monkeypatch):
    X, y = chains()
    model, kept = AGM(alpha=[0.1, 0.01], tol=1e-9, max_iter=20), Checkpoint(tmp_path, 2)
    interrupted(model, 12, monkeypatch, X, y, cv=2, checkpoint=kept)
    scores = model.alpha_scores_

    def never(*arguments):
        raise AssertionError("alpha was chosen already")

    monkeypatch.setattr("robustruct.models.fitting.selection.choose", never)
    model.fit(X, y, checkpoint=resuming(kept))
    assert model.alpha_scores_ == scores
    assert model.alpha_ == max(scores, key=scores.get)
    with pytest.raises(IncompatibleError, match="alphas was"):
        model.set_params(alpha=[0.1, 0.02]).fit(X, y, checkpoint=resuming(kept))


# ------------------------------------------------------------------------- after a finished fit


@pytest.mark.parametrize("Model", [AGM, CRF])
def test_a_finished_fit_is_not_done_again(Model, tmp_path, monkeypatch):
    X, y = chains()
    model = Model(alpha=0.1, random_state=0).fit(X, y, checkpoint=tmp_path)
    expected, files = outcome(model), os.listdir(tmp_path)

    def never(*arguments):
        raise AssertionError("there is nothing left to do")

    monkeypatch.setattr(LocalShards, "round", never)
    monkeypatch.setattr(LocalShards, "likelihood", never)
    again = Model(alpha=0.1, random_state=0).fit(X, y, checkpoint=resuming(Checkpoint(tmp_path)))
    assert outcome(again) == expected
    assert [at.time for at in again.history_] == [at.time for at in model.history_]
    assert os.listdir(tmp_path) == files


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
def test_a_finer_tolerance_or_more_passes_go_on(Model, tmp_path):
    X, y = chains()
    kept = Checkpoint(tmp_path, resume=True)
    model = Model(alpha=1e-2, tol=0.5, random_state=0).fit(X, y, checkpoint=kept)
    first, records = model.n_iter_, len(model.history_)
    for change in ({"tol": 0.05}, {"tol": 1e-9, "max_iter": 25}, {"max_iter": 32}):
        model.set_params(**change).fit(X, y, checkpoint=kept)
        assert model.duality_gap_ <= model.tol or model.n_iter_ == model.max_iter
    assert model.n_iter_ == 32 > first
    assert len(model.history_) > records
    passes = [record.n_iter for record in model.history_]
    assert passes == sorted(set(passes))


def test_fewer_passes_give_the_model_that_is_there(tmp_path, monkeypatch):
    X, y = chains()
    model, kept = AGM(alpha=1e-2, tol=1e-9, random_state=0), Checkpoint(tmp_path, 1)
    interrupted(model, 4, monkeypatch, X, y, checkpoint=kept)  # before the first certificate
    assert checkpoints_in(tmp_path) == [2, 3]
    with pytest.warns(ConvergenceWarning, match="after 3 passes, above tol=1e-09"):
        model.set_params(max_iter=1).fit(X, y, checkpoint=resuming(kept))
    assert [record.n_iter for record in model.history_] == [3]
    assert np.isfinite(model.duality_gap_)


# ------------------------------------------------------------------------- damaged files


def spoilt(content: bytes, how: str) -> bytes:
    if how == "truncated":
        return content[: 2 * len(content) // 3]
    if how == "empty":
        return b""
    places = {"description": content.index(b"identity"), "middle": len(content) // 2, "end": -1}
    changed = bytearray(content)
    changed[places[how]] ^= 4
    return bytes(changed)


HOW = ["truncated", "empty", "description", "middle", "end"]


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(how, tmp_path):
    X, y = chains()
    given = {"alpha": 1e-2, "tol": 1e-9, "max_iter": 12, "random_state": 0}
    kept = Checkpoint(tmp_path, 5)
    model = AGM(**given).fit(X, y, checkpoint=kept)
    assert checkpoints_in(tmp_path) == [10, 12]
    newest = path_of(tmp_path, 12)
    newest.write_bytes(spoilt(newest.read_bytes(), how))
    again = AGM(**given)
    expected = "checkpoint-000012.* Going on from checkpoint-000010.safetensors instead"
    with pytest.warns(UserWarning, match=expected) as caught:
        again.fit(X, y, checkpoint=resuming(kept))
    assert caught[0].filename == __file__
    assert outcome(again) == outcome(model)
    with warnings.catch_warnings():  # the damaged one is no more
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        again.fit(X, y, checkpoint=resuming(kept))


def test_no_bit_can_change_what_is_read(tmp_path):
    kind = ContainerKind("test", 1, "this test")
    path = tmp_path / "file"
    written = {"a": 1, "b": [2.5, None]}, {"x": np.arange(3.0), "y": np.eye(2, dtype=np.int32)}
    write_container(path, kind, *written)
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            description, arrays, _ = read_container(path, kind)
        except InvalidInputError:
            refused += 1
            continue
        assert description == written[0]  # hit was who wrote it, say
        assert arrays.keys() == written[1].keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, written[1][name], strict=True)
    assert refused > 0.8 * len(content)


def test_a_damaged_file_is_never_counted_among_the_last_two(tmp_path):
    X, y = chains()
    given = {"alpha": 1e-2, "tol": 1e-9, "random_state": 0}
    AGM(**given, max_iter=12).fit(X, y, checkpoint=Checkpoint(tmp_path, 5))
    path_of(tmp_path, 12).write_bytes(b"")
    with pytest.warns(UserWarning, match="Going on from checkpoint-000010"):
        AGM(**given, max_iter=11).fit(X, y, checkpoint=Checkpoint(tmp_path, 5, resume=True))
    assert checkpoints_in(tmp_path) == [10, 11]


def test_only_damaged_checkpoints_are_an_error(tmp_path):
    X, y = chains()
    kept = Checkpoint(tmp_path, 5)
    model = AGM(alpha=1e-2, tol=1e-9, max_iter=12).fit(X, y, checkpoint=kept)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidInputError, match=r"none of the checkpoints .* Remove them"):
        model.fit(X, y, checkpoint=resuming(kept))
    assert len(checkpoints_in(tmp_path)) == 2


def put(name, value):
    return lambda description, arrays: arrays[name].put(0, value)


FORGED: dict[str, tuple[Any, str]] = {
    "weights of nan": (put("optimizer.theta", np.nan), "optimizer.theta holds nan"),
    "an infinite weight": (put("progress.theta", np.inf), "progress.theta holds inf"),
    "a bound of nan": (put("progress.dual", np.nan), "progress.dual holds nan"),
    "an infinite pass": (put("progress.history", np.inf), "progress.history holds inf"),
    "no passes": (put("optimizer.n_passes", -1), "optimizer.n_passes holds -1"),
    "a negative penalty": (put("optimizer.kappa", -1.0), "optimizer.kappa holds -1"),
    "marginals of nan": (put("optimizer.shards.0.r", np.nan), r"shards\.0\.r holds nan"),
    "no distribution": (put("optimizer.shards.0.r", 7.0), "is no distribution"),
    "pairs out of range": (
        put("optimizer.shards.0.pair", 10**6),
        "names labels that there are not",
    ),
    "lists out of range": (put("optimizer.shards.0.count", 10**6), "counts more than there is"),
    "another shape": (
        lambda d, a: a.update({"optimizer.theta": a["optimizer.theta"][1:]}),
        "optimizer.theta has type",
    ),
    "another type": (
        lambda d, a: a.update({"progress.stopped": np.array([0.5])}),
        "progress.stopped has type",
    ),
    "nothing": (lambda d, a: a.pop("progress.primal"), "progress.primal is missing"),
    "more": (lambda d, a: a.update({"progress.x": np.zeros(1)}), "progress.x is not known"),
    "no seed": (lambda d, a: d.update(seed=-1), "does not describe a checkpoint"),
    "no identity": (lambda d, a: d.pop("identity"), "does not describe a checkpoint"),
    "a lower bound above": (
        lambda d, a: a["progress.dual"].put(0, a["progress.primal"].item() + 1.0),
        "its bounds .* are not those that its history reports",
    ),
    "an upper bound below": (
        put("progress.primal", -np.inf),
        "its bounds .* are not those that its history reports",
    ),
    "a lower bound too good": (
        lambda d, a: a["progress.dual"].put(0, a["progress.primal"].item()),
        "its bounds .* are not those that its history reports",
    ),
    "a history that crosses": (
        lambda d, a: a["progress.history"].put(3, a["progress.history"][0, 2] + 1.0),
        "its history holds .*which no fit has reported",
    ),
    "a pass beyond counting": (put("progress.history", 1e300), "progress.history holds 1e"),
    "endless steps": (put("optimizer.inner", 2**30), "optimizer.inner holds"),
    "a predictor that is none": (put("optimizer.shards.0.p0", 3.0), "p0 is no distribution"),
    "lists shorter than counted": (
        lambda d, a: a.update(
            {"optimizer.shards.0.mass": np.pad(a["optimizer.shards.0.mass"], ((0, 0), (0, 20)))}
        ),
        "counts more than there is",
    ),
    "pairs against their nodes": (
        lambda d, a: a["optimizer.shards.0.mass"].__imul__(0.5),
        "its pairs of labels contradict the labels of their nodes",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_with_a_right_checksum_is_refused(name, tmp_path):
    X, y = chains(6)
    model = AGM(alpha=1e-2, tol=1e-9, max_iter=2)
    model.fit(X, y, checkpoint=Checkpoint(tmp_path, 5))
    path = path_of(tmp_path, 2)
    description, arrays, _ = read_container(path, CHECKPOINT)
    change, message = FORGED[name]
    change(description, arrays)
    write_container(path, CHECKPOINT, description, arrays)
    with pytest.raises(InvalidInputError, match=message):
        model.set_params(max_iter=4).fit(X, y, checkpoint=Checkpoint(tmp_path, resume=True))


def test_forged_labellings_on_cycles_are_refused(tmp_path):
    X, y = cycles()
    model = AGM(alpha=1e-2, tol=1e-9, max_iter=2).fit(X, y, checkpoint=tmp_path)
    path = path_of(tmp_path, 2)
    description, arrays, _ = read_container(path, CHECKPOINT)
    arrays["optimizer.shards.0.atom"][0, 0] = 10**6
    write_container(path, CHECKPOINT, description, arrays)
    with pytest.raises(InvalidInputError, match="names labels that there are not"):
        model.set_params(max_iter=4).fit(X, y, checkpoint=Checkpoint(tmp_path, resume=True))


def test_bounds_that_cross_later_name_the_checkpoint(tmp_path):
    """What adversaries gained is not recomputed, but no bound may come of what contradicts."""
    X, y = chains(6)
    model = AGM(alpha=1e-2, tol=1e-9, max_iter=2).fit(X, y, checkpoint=tmp_path)
    path = path_of(tmp_path, 2)
    description, arrays, _ = read_container(path, CHECKPOINT)
    arrays["optimizer.n_mixed"][:] = 1
    arrays["optimizer.mixed_gains"] = np.array([1e6])
    arrays["optimizer.mixed_moments"] = np.zeros((1, len(model.coef_)))
    write_container(path, CHECKPOINT, description, arrays)
    model.set_params(max_iter=60)
    with pytest.raises(InvalidInputError, match="after going on from a checkpoint bounds contrad"):
        model.fit(X, y, checkpoint=Checkpoint(tmp_path, resume=True))


TRIALS: dict[str, Any] = {
    "none": [],
    "no list": 5,
    "too short": [["game", "0.0", 0.1]],
    "another member": [["likelihood", "0.0", 0.1, "map", -0.5, True, 2]],
    "a score of nan": [["game", "0.0", 0.1, "map", float("nan"), True, 2]],
    "an endless alpha": [["game", "0.0", 10**4000, "map", -0.5, True, 2]],
    "no temperature": [["game", "warm", 0.1, "map", -0.5, True, 2]],
    "no decision": [["game", "0.0", 0.1, ["map"], -0.5, True, 2]],
}


@pytest.mark.parametrize("name", TRIALS)
def test_trials_that_no_fit_has_made_are_refused(name, tmp_path):
    X, y = chains(8)
    model = AGM(alpha=[0.1, 1.0], random_state=0).fit(X, y, cv=2, checkpoint=tmp_path)
    path = path_of(tmp_path, checkpoints_in(tmp_path)[-1])
    description, arrays, _ = read_container(path, CHECKPOINT)
    said = json.dumps({**description, "trials": TRIALS[name]})
    header = {
        "format": CHECKPOINT.format,
        "format_version": str(CHECKPOINT.version),
        "description": said,
        "sha256": checksum(said, arrays),
    }
    save_file(arrays, path, header)
    with pytest.raises(InvalidInputError, match="lists trials that no fit has made"):
        model.fit(X, y, checkpoint=Checkpoint(tmp_path, resume=True))


def test_a_chosen_crf_goes_on_too(tmp_path, monkeypatch):
    X, y = chains(8)
    model = CRF(alpha=[0.1, 1.0], random_state=0)
    tried = model.fit(X, y, cv=2, checkpoint=Checkpoint(tmp_path, 1)).trials_
    monkeypatch.setattr("robustruct.models.fitting.selection.choose", None)
    again = model.fit(X, y, checkpoint=Checkpoint(tmp_path, resume=True))
    assert again.trials_ == tried


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_no_checkpoint(make, tmp_path):
    X, y = chains(6)
    make(path_of(tmp_path, 3))
    for resume in (False, True):
        with pytest.raises(InvalidInputError, match=r"checkpoint-000003.* is no checkpoint but a"):
            AGM().fit(X, y, checkpoint=Checkpoint(tmp_path, 1, resume=resume))


# ------------------------------------------------------------------------- whose folder is it


def test_checkpoints_are_never_overwritten(tmp_path):
    X, y = chains()
    model = AGM(alpha=0.1).fit(X, y, checkpoint=tmp_path)
    content = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidInputError, match="already holds checkpoints; pass resume=True"):
        model.fit(X, y, checkpoint=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == content


def test_resuming_where_nothing_is_begins_anew(tmp_path):
    X, y = chains()
    for folder in (tmp_path, tmp_path / "not" / "there"):
        AGM(alpha=0.1).fit(X, y, checkpoint=Checkpoint(folder, resume=True))
        assert checkpoints_in(folder)


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    X, y = chains()
    names = ["notes.txt", "checkpoint-12.safetensors", "checkpoint-000001.safetensors.bak"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / "checkpoint-000003.safetensors.0123abcd.tmp").write_text("half a checkpoint")
    AGM(alpha=1e-2, tol=1e-9, max_iter=9).fit(X, y, checkpoint=Checkpoint(tmp_path, 1))
    assert sorted(os.listdir(tmp_path)) == sorted(
        [*names, "checkpoint-000008.safetensors", "checkpoint-000009.safetensors"]
    )
    assert all((tmp_path / name).read_text() == "mine" for name in names)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "alpha": ({"alpha": 0.3}, "alpha was 0.1 and is 0.3"),
    "seed": ({"random_state": 1}, "random_state was 0 and is 1"),
    "cost": ({"loss": "absolute"}, "the costs are others"),
    "class weight": ({"class_weight": {0: 2.0}}, "the costs are others"),
    "optimizer": ({"optimizer": "subgradient"}, "optimizer was 'dual_ascent' and is 'subgradient'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_checkpoint_of_other_parameters_is_refused(name, tmp_path):
    X, y = chains()
    model = AGM(alpha=0.1, random_state=0).fit(X, y, checkpoint=tmp_path)
    change, message = CHANGES[name]
    with pytest.raises(IncompatibleError, match=message):
        model.set_params(**change).fit(X, y, checkpoint=resuming(Checkpoint(tmp_path)))
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    model.set_params(alpha=0.1, random_state=0, loss="hamming", class_weight=None, optimizer="auto")
    model.fit(X, y, checkpoint=resuming(Checkpoint(tmp_path)))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    X, y = chains()
    model = AGM(alpha=0.1, random_state=0).fit(X, y, checkpoint=tmp_path)
    kept = resuming(Checkpoint(tmp_path))
    moved = [rows.copy() for rows in X]
    moved[7][0, 0] += 1e-9
    weights = model.coef_
    with pytest.raises(IncompatibleError, match="another fit: the features are others"):
        model.fit(moved, y, checkpoint=kept)
    assert model.coef_ is weights  # the model is what it was
    swapped = [labels.copy() for labels in y]
    swapped[3][:] = swapped[3][::-1].copy() if len(set(swapped[3])) > 1 else 2 - swapped[3]
    with pytest.raises(IncompatibleError, match="the labels are others"):
        model.fit(X, swapped, checkpoint=kept)
    with pytest.raises(IncompatibleError, match="the number of samples was 20 and is 19"):
        model.fit(X[1:], y[1:], checkpoint=kept)
    with pytest.raises(IncompatibleError, match="the weights of samples or nodes are others"):
        model.fit(X, y, sample_weight=np.arange(1.0, 21.0), checkpoint=kept)
    with pytest.raises(IncompatibleError, match="the model was 'AGM' and is 'SSVM'"):
        SSVM(alpha=0.1, random_state=0).fit(X, y, checkpoint=kept)
    trees = [Graph(rows, [(0, 1), (1, 2), (1, 3)]) for rows in X]
    with pytest.raises(IncompatibleError, match="the graphs are others"):
        model.fit(trees, y, checkpoint=kept)


def test_two_fits_at_once_cannot_share_a_folder(tmp_path):
    pytest.importorskip("fcntl")
    X, y = chains()
    model = AGM(alpha=0.1)
    with (
        Checkpoints(tmp_path, 1, resume=False).begin({}, {}),
        pytest.raises(IncompatibleError, match="another fit is writing its checkpoints"),
    ):
        model.fit(X, y, checkpoint=tmp_path)
    late = Checkpoints(tmp_path, 1, resume=False)
    model.fit(X, y, checkpoint=tmp_path)
    with (
        pytest.raises(IncompatibleError, match=r"has written checkpoints .* meanwhile"),
        late.begin({}, {}),
    ):
        pass


def test_a_folder_that_cannot_be_used(tmp_path, monkeypatch):
    X, y = chains()
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"checkpoint=.* cannot be used"):
            AGM().fit(X, y, checkpoint=folder)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="no permission to write checkpoints into"):
        AGM().fit(X, y, checkpoint=tmp_path / "new")


# ------------------------------------------------------------------------- parts


def test_shards_in_this_process(tmp_path, monkeypatch):
    shards = ShardedData.from_samples(*chains(30), 3)
    given = {"alpha": 1e-2, "tol": 1e-9, "max_iter": 20, "random_state": 0}
    model, kept = AGM(**given), Checkpoint(tmp_path / "a", 5)
    interrupted(model, 12, monkeypatch, shards, checkpoint=kept)
    model.fit(shards, checkpoint=resuming(kept))
    assert outcome(model) == outcome(AGM(**given).fit(shards))
    with pytest.raises(IncompatibleError, match="the number of shards was 3 and is 2"):
        model.fit(ShardedData.from_samples(*chains(30), 2), checkpoint=resuming(kept))


class Forgetful(LocalShards):
    """Samples elsewhere, whose blocks do not travel."""

    def state(self):
        return {}


def test_where_blocks_are_not_kept_the_weights_are(tmp_path):
    X, y = chains(40)
    _, problem = in_memory(AGM(alpha=1e-3), X, y)

    def ascended(max_iter, resume):
        progress = Progress(problem, 1e-3)
        progress.keeper = Checkpoints(tmp_path, 5, resume)
        progress.keeper.claim({})
        with progress.keeper.begin({}, {"progress": progress}):
            ascent = CentredAscent(Forgetful.of(problem))
            fit_ascent(ascent, progress, max_iter, 0)
        return progress

    first = ascended(30, resume=False)
    assert not first.converged
    second = ascended(2000, resume=True)
    assert second.converged
    assert second.history[: len(first.history)] == first.history
    plain = Progress(problem, 1e-3)
    fit_ascent(CentredAscent(LocalShards.of(problem)), plain, 2000, 0)
    assert second.dual <= plain.primal
    assert plain.dual <= second.primal


def test_every():
    assert interval(3) == interval(np.int64(3)) == (3.0, np.inf)
    assert interval("30s") == (np.inf, 30.0)
    assert interval("1.5 min") == (np.inf, 90.0)
    assert interval("2h") == (np.inf, 7200.0)


def test_time_between_checkpoints(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    folder = Checkpoints(tmp_path, "30s", resume=False)
    with folder.begin({}, {}):
        assert not folder.due(1000)
        now = 29.0
        assert not folder.due(1000)
        now = 30.0
        assert folder.due(1)


@pytest.mark.parametrize("every", [0, -1, True, 2.5, None, "", "soon", "30", "-5s", "s", "5 days"])
def test_intervals_that_mean_nothing(every):
    with pytest.raises(InvalidInputError, match=r"^every=.* give a number of passes"):
        Checkpoint("folder", every)


def test_what_is_no_checkpoint():
    with pytest.raises(InvalidInputError, match="folder=3; give the path of a folder"):
        Checkpoint(3)
    with pytest.raises(InvalidInputError, match="resume='yes'; give True or False"):
        Checkpoint("folder", resume="yes")
    with pytest.raises(InvalidInputError, match="checkpoint=3; give a Checkpoint, the path of a"):
        CRF().fit(*chains(), checkpoint=3)


def test_a_path_is_a_checkpoint_with_the_usual_options(tmp_path, monkeypatch):
    opened = []
    plain = Checkpoints.__init__
    monkeypatch.setattr(
        Checkpoints, "__init__", lambda self, *given: (opened.append(given), plain(self, *given))[1]
    )
    for name in ("text", "path", "object"):
        folder = tmp_path / name
        given = {"text": str(folder), "path": folder, "object": Checkpoint(folder)}[name]
        CRF(alpha=0.1).fit(*chains(), checkpoint=given)
        assert opened.pop() == (given.folder if name == "object" else given, "60s", False)


def test_a_saved_model_does_not_say_where_its_checkpoints_were(tmp_path):
    X, y = chains()
    kept = Checkpoint(tmp_path / "folder", 3, resume=True)
    CRF(alpha=0.1).fit(X, y, checkpoint=kept).save(tmp_path / "model")
    assert b"folder" not in (tmp_path / "model").read_bytes()
    with pytest.raises(InvalidInputError, match=r"not one that model\.save"):
        robustruct.load(next((tmp_path / "folder").iterdir()))
