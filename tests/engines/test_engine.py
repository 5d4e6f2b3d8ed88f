"""Training on a real Dask cluster of worker processes: the same certificate, whatever happens."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from robustruct import AGM, CRF, SSVM, Checkpoint, Graph
from robustruct.datasets import make_chains
from robustruct.engines import ShardedData
from robustruct.errors import EngineError, FileFormatError, IncompatibleError
from robustruct.formats.corpus import Corpus
from robustruct.formats.json_lines import JsonLinesFormat
from robustruct.formats.shards import SampleShard

distributed = pytest.importorskip("distributed")
import dask  # noqa: E402

from robustruct.engines import DaskEngine  # noqa: E402

pytestmark = [
    pytest.mark.xdist_group("dask"),  # one cluster, in one process of the test run
    # What Dask itself warns of when workers are killed or ports are taken.
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CHAINS = make_chains(n_samples=200, n_nodes=(4, 9), noise=2.0, seed=3)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes; they are real, and may be killed.

    Without the setting, Dask gives up a worker that happens to be away 15 seconds after it was.
    """
    kept = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    with (
        kept,
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=None,
        ) as running,
    ):
        yield running


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected


def certified_alike(one, other):
    """Both are within their tolerance of the same optimum."""
    for model in (one, other):
        assert model.duality_gap_ <= model.tol
    assert one.objective_ == pytest.approx(other.objective_, rel=one.tol + other.tol)


def shards_of(data, sizes):
    """Shards of given sizes, in the order of the samples."""
    cuts = np.cumsum([0, *sizes])
    assert cuts[-1] == len(data.X)
    return ShardedData(
        [
            SampleShard(
                Corpus(
                    list(data.X[a:b]),
                    list(data.y[a:b]),
                    None,
                    None,
                    [],
                    JsonLinesFormat(),
                    name=f"shard {i}",
                )
            )
            for i, (a, b) in enumerate(pairwise(cuts))
        ]
    )


# ---- the same result


@pytest.mark.parametrize(
    "model",
    [
        AGM("absolute", alpha=0.01, temperature=1.0),
        SSVM("absolute", alpha=0.01, temperature=0.5),
        CRF("absolute", alpha=0.01, tol=1e-2, optimizer="natural_ascent"),
    ],
    ids=["AGM", "SSVM", "CRF"],
)
def test_smooth_objectives_on_a_cluster(client, model):
    here = clone(model).set_params(random_state=0).fit(CHAINS.X, CHAINS.y)
    there = model.set_params(engine=DaskEngine(client), random_state=0).fit(CHAINS.X, CHAINS.y)
    certified_alike(here, there)


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
def test_the_cluster_certifies_what_one_process_certifies(client, Model):
    here = Model(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y)
    there = Model(alpha=0.01, random_state=0, engine=DaskEngine(client)).fit(CHAINS.X, CHAINS.y)
    certified_alike(here, there)
    from_shards = Model(alpha=0.01, random_state=0).fit(
        ShardedData.from_samples(CHAINS.X, CHAINS.y, 3)
    )
    certified_alike(here, from_shards)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_bounds_are_those_of_the_whole_problem(client, Model):
    there = Model(alpha=0.05, tol=1e-3, random_state=0, engine=DaskEngine(client))
    there.fit(CHAINS.X, CHAINS.y)
    here = Model(alpha=0.05, tol=1e-5, max_iter=5000, random_state=0).fit(CHAINS.X, CHAINS.y)
    optimum = here.objective_
    for record in there.history_:
        assert record.primal >= optimum * (1 - 2e-5)
        assert record.dual <= optimum * (1 + 2e-5)


def test_shards_of_very_different_size_one_of_them_empty(client):
    data = shards_of(CHAINS, (1, 0, 150, 49))
    there = AGM(alpha=0.01, random_state=0, engine=DaskEngine(client)).fit(data)
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


def test_a_label_and_a_feature_of_one_shard_only(client):
    X = [[{"w": f"a{i % 7}"}, {"w": f"b{i % 5}"}] for i in range(40)]
    y = [["X", "Y"] if i % 2 else ["Y", "Y"] for i in range(40)]
    X[39][0]["rare"] = 1.0
    y[39] = ["Z", "Y"]

    class Data:
        pass

    data = Data()
    data.X, data.y = X, [np.array(labels) for labels in y]
    there = AGM(alpha=0.01, random_state=0, engine=DaskEngine(client)).fit(
        shards_of(data, (20, 20))
    )
    here = AGM(alpha=0.01, random_state=0).fit(X, y)
    assert there.classes_.tolist() == here.classes_.tolist() == ["X", "Y", "Z"]
    assert "rare" in there.get_feature_names_out()
    certified_alike(here, there)


def test_graphs_weights_and_rules_go_along(client):
    rng = np.random.default_rng(0)
    X = [Graph(rng.normal(size=(4, 3)), [[0, 1], [1, 2], [2, 3], [0, 3]]) for _ in range(24)]
    y = [rng.integers(0, 3, 4) for _ in X]
    weight = rng.uniform(0.2, 2.0, len(X))
    node_weight = [rng.uniform(0.5, 1.5, 4) for _ in X]
    options = {"loss": "absolute", "alpha": 0.05, "random_state": 0, "class_weight": "balanced"}
    here = AGM(**options).fit(X, y, weight, node_weight)
    there = AGM(**options, engine=DaskEngine(client)).fit(X, y, weight, node_weight)
    certified_alike(here, there)


def test_the_same_seed_gives_the_same_model(client):
    one, other = (
        AGM(alpha=0.01, random_state=5, engine=DaskEngine(client)).fit(CHAINS.X, CHAINS.y)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_workers_with_one_sample_each_do_not_overshoot(client):
    X = [[{"w": "Ada"}, {"w": "met"}], [{"w": "Ada"}, {"w": "Lovelace"}]]
    y = [["B-PER", "O"], ["B-PER", "I-PER"]]
    there = AGM(alpha=0.1, random_state=0, engine=DaskEngine(client)).fit(X, y)
    certified_alike(AGM(alpha=0.1, random_state=0).fit(X, y), there)


def test_two_fits_at_once_on_one_cluster(client):
    models = [AGM(alpha=alpha, random_state=0, engine=DaskEngine(client)) for alpha in (0.01, 0.1)]
    threads = [threading.Thread(target=m.fit, args=(CHAINS.X, CHAINS.y)) for m in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for model in models:
        certified_alike(AGM(alpha=model.alpha, random_state=0).fit(CHAINS.X, CHAINS.y), model)


# ---- habits


def test_models_with_an_engine_are_cloned_stored_and_watched(client, tmp_path):
    model = AGM(alpha=0.01, random_state=0, engine=DaskEngine(client))
    assert clone(model).engine is model.engine
    model.fit(CHAINS.X, CHAINS.y, validation=(CHAINS.X[:20], CHAINS.y[:20]))
    assert model.validation_loss_ >= 0
    assert pickle.loads(pickle.dumps(model)).engine is None
    model.save(tmp_path / "model.safetensors")


def test_nothing_of_a_fit_is_left_on_the_workers(client):
    AGM(alpha=0.1, engine=DaskEngine(client)).fit(CHAINS.X, CHAINS.y)

    def left(dask_worker):
        return len(getattr(dask_worker, "robustruct_states", {}))

    assert set(client.run(left).values()) == {0}


def test_errors_on_a_worker_are_those_of_this_process(client, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"nodes": [{"w": "a"}], "labels": ["X"]}\n')
    (tmp_path / "b.jsonl").write_text('{"nodes": [{"w": "a"}], "labels": ["X"]}\n{"nodes": 3}\n')
    data = ShardedData.from_files(str(tmp_path / "*.jsonl"))
    with pytest.raises(FileFormatError, match=r"b\.jsonl, line 2"):
        AGM(engine=DaskEngine(client)).fit(data)
    with pytest.raises(IncompatibleError, match="samples in memory"):
        AGM(alphas=[0.1, 1.0]).fit(data)
    with pytest.raises(IncompatibleError, match="without an engine"):
        AGM(alphas=[0.1, 1.0], engine=DaskEngine(client)).fit(CHAINS.X, CHAINS.y)


def test_no_worker_is_an_error_in_time():
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(EngineError, match="no worker"),
    ):
        AGM(engine=DaskEngine(client, give_up=1.0)).fit(CHAINS.X, CHAINS.y)


# ---- faults


@contextlib.contextmanager
def dask_process(*arguments):
    """A scheduler or a worker of its own, killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{arguments[0]}", *map(str, arguments[1:])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("Model", [AGM, CRF])
def test_a_scheduler_that_dies_is_our_error(monkeypatch, tmp_path, Model):
    from robustruct.engines.dask.shards import DaskShards

    original, calls = DaskShards._ask, []
    file = tmp_path / "scheduler.json"
    options = "--host", "127.0.0.1", "--port", 0, "--no-dashboard"
    worker = "worker", "--scheduler-file", file, "--nthreads", 1, "--no-nanny", "--no-dashboard"
    with dask_process("scheduler", *options, "--scheduler-file", file) as scheduler:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with (
            dask_process(*worker),
            distributed.Client(scheduler_file=str(file), set_as_default=False) as client,
        ):
            client.wait_for_workers(1, timeout=60)

            def ask(shards, task, address, *arguments):
                future = original(shards, task, address, *arguments)
                calls.append(address)
                if len(calls) == 6:
                    os.killpg(scheduler.pid, signal.SIGKILL)
                return future

            monkeypatch.setattr(DaskShards, "_ask", ask)
            engine = DaskEngine(client)
            with pytest.raises(EngineError, match=r"connection to the Dask scheduler .* is lost"):
                Model(alpha=0.01, random_state=0, engine=engine).fit(CHAINS.X, CHAINS.y)
            with pytest.raises(EngineError, match="is lost"):
                engine.map(abs, [-1])
            with pytest.raises(EngineError, match="is lost"):
                AGM(engine=engine).fit(CHAINS.X, CHAINS.y)


def slow_at_first(task, seconds):
    """As if what a task needs were compiled at its first call; runs on a worker."""
    from robustruct.engines.dask import worker as worker

    plain = getattr(worker, task)

    def slow(*arguments):
        setattr(worker, task, plain)
        time.sleep(seconds)
        return plain(*arguments)

    setattr(worker, task, slow)


@pytest.mark.parametrize("task", ["read_summary", "take_round", "take_sum"])
def test_compiling_does_not_count_as_silence(client, task):
    engine = DaskEngine(client, give_up=2.0)
    client.run(slow_at_first, task, 5.0)
    there = AGM(alpha=0.1, random_state=0, engine=engine).fit(CHAINS.X, CHAINS.y)
    assert engine.last_.rebuilt == 0
    assert not engine.last_.pool.silent
    certified_alike(AGM(alpha=0.1, random_state=0).fit(CHAINS.X, CHAINS.y), there)


class HeldUp:
    """Workers of a process that was itself held up for long: their answers come in late."""

    give_up = 1.0

    def __init__(self, *rounds):
        self.rounds = iter(rounds)

    def answers(self, asked, timeout):
        return next(self.rounds)

    def overdue(self, task, address, since):
        return True

    def silence(self):
        return EngineError("silence")


def test_answers_that_come_in_when_a_process_was_held_up_itself():
    from robustruct.engines.dask.shards import DaskShards

    shards = object.__new__(DaskShards)
    shards.patience, shards.typical = 2.0, 1.0
    shards.pool = HeldUp({}, {"a": 1})
    assert shards._most_answers({"a": None}, 0.0) == {"a": 1}
    shards.pool = HeldUp({}, {})
    with pytest.raises(EngineError, match="silence"):
        shards._most_answers({"a": None}, 0.0)


def pids(client):
    """Process of each worker."""
    return client.run(os.getpid)


class Meddler:
    """Does something to the cluster after some rounds; hooks into the fit by its progress."""

    def __init__(self, engine, at, action):
        self.engine, self.at, self.action, self.done = engine, set(at), action, 0

    def __call__(self, record, theta):
        return False

    def watch(self, monkeypatch):
        from robustruct.engines.dask.shards import DaskShards

        original = DaskShards._ask

        def ask(shards, task, address, *arguments):
            future = original(shards, task, address, *arguments)
            if shards.n_rounds in self.at:
                self.at.discard(shards.n_rounds)
                self.action(address)
                self.done += 1
            return future

        monkeypatch.setattr(DaskShards, "_ask", ask)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_workers_killed_in_the_middle_of_rounds(client, monkeypatch, faults, Model):
    killed = []

    def kill(address):
        victim = client.run(os.getpid, workers=[address])[address]
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 4)
    here = Model(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y)
    for turn in range(faults):
        engine = DaskEngine(client)
        with monkeypatch.context() as patch:
            Meddler(engine, (3, 9, 21), kill).watch(patch)
            there = Model(alpha=0.01, random_state=0, engine=engine).fit(data)
        assert len(killed) == 3 * (turn + 1)
        assert engine.last_.rebuilt >= 3
        certified_alike(here, there)


def test_a_worker_killed_while_a_crf_trains(client, monkeypatch):
    from robustruct.engines.dask.shards import DaskShards

    engine, original, calls = DaskEngine(client), DaskShards._ask, []

    def ask(shards, task, address, *arguments):
        future = original(shards, task, address, *arguments)
        calls.append(address)
        if len(calls) == 9:
            os.kill(pids(client)[address], signal.SIGKILL)
        return future

    monkeypatch.setattr(DaskShards, "_ask", ask)
    there = CRF(alpha=0.01, engine=engine).fit(CHAINS.X, CHAINS.y)
    assert engine.last_.rebuilt >= 1
    certified_alike(CRF(alpha=0.01).fit(CHAINS.X, CHAINS.y), there)


def test_a_straggler_does_not_stop_the_others(client, monkeypatch):
    """A worker process is stopped, and goes on seconds later."""
    engine = DaskEngine(client, patience=2.0, give_up=60.0)

    def stop(address):
        victim = pids(client)[address]
        os.kill(victim, signal.SIGSTOP)
        threading.Timer(4.0, os.kill, (victim, signal.SIGCONT)).start()

    Meddler(engine, (5,), stop).watch(monkeypatch)
    there = AGM(alpha=0.01, random_state=0, engine=engine).fit(CHAINS.X, CHAINS.y)
    assert engine.last_.n_rounds > 10
    assert engine.last_.rebuilt == 0  # it was waited for, and its blocks are as they were
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


def test_a_worker_that_hangs_for_good_is_given_up(client, monkeypatch):
    engine = DaskEngine(client, patience=2.0, give_up=3.0)
    stopped = []

    def stop(address):
        victim = pids(client)[address]
        os.kill(victim, signal.SIGSTOP)
        stopped.append(victim)

    Meddler(engine, (5,), stop).watch(monkeypatch)
    try:
        there = AGM(alpha=0.01, random_state=0, engine=engine).fit(CHAINS.X, CHAINS.y)
    finally:
        for victim in stopped:
            os.kill(victim, signal.SIGKILL)  # its nanny starts another one
    assert engine.last_.rebuilt >= 1
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


def test_a_worker_that_joins_later_is_used(cluster, client, monkeypatch):
    engine = DaskEngine(client)

    def grow(address):
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)

    Meddler(engine, (3,), grow).watch(monkeypatch)
    try:
        data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 4)
        there = AGM(alpha=0.01, random_state=0, engine=engine).fit(data)
        assert engine.last_.moved == 1
        assert engine.last_.rebuilt == 0
        assert len(set(engine.last_.pool.place.values())) == 3
    finally:
        cluster.scale(2)
        deadline = time.monotonic() + 60
        while len(client.scheduler_info()["workers"]) > 2 and time.monotonic() < deadline:
            time.sleep(0.1)
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ctrl_c_keeps_the_best_model(client, monkeypatch):
    engine = DaskEngine(client)

    def interrupt(address):
        raise KeyboardInterrupt

    Meddler(engine, (45,), interrupt).watch(monkeypatch)
    model = AGM(alpha=1e-3, tol=1e-6, random_state=0, engine=engine).fit(CHAINS.X, CHAINS.y)
    assert 0 < model.n_iter_ < 20
    assert np.isfinite(model.objective_)
    AGM(alpha=0.1, engine=DaskEngine(client)).fit(CHAINS.X, CHAINS.y)  # the cluster is as it was


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_checkpoints_hold_the_weights_wherever_training_goes_on(client, tmp_path):
    data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 3)
    engine = DaskEngine(client)
    model = AGM(
        alpha=0.01,
        random_state=0,
        max_iter=10,
        engine=engine,
        checkpoint=Checkpoint(tmp_path, 4, resume=True),
    )
    first = model.fit(data).history_
    model.set_params(max_iter=1000, engine=None).fit(data)  # from the cluster to this process
    assert model.history_[: len(first)] == first
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), model)
    passes = model.n_iter_
    model.set_params(tol=7e-3, engine=engine).fit(data)  # and back, without the blocks
    assert model.n_iter_ > passes
    assert model.duality_gap_ <= 7e-3
    with pytest.raises(IncompatibleError, match="the number of shards was 3 and is 2"):
        model.fit(ShardedData.from_samples(CHAINS.X, CHAINS.y, 2))
    model.save(tmp_path / "model")  # an engine is not part of it
