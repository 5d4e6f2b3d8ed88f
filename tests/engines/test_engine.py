"""Training on a real Dask cluster of worker processes: the same certificate, whatever happens."""

from __future__ import annotations

import asyncio
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
from robustruct.datasets import Dataset, make_chains
from robustruct.engines import ShardedData
from robustruct.errors import EngineError, FileFormatError, IncompatibleError, InvalidInputError
from robustruct.formats.corpus import Corpus
from robustruct.formats.json_lines import JsonLinesFormat
from robustruct.formats.shards import SampleShard
from robustruct.status import Status

distributed = pytest.importorskip("distributed")
import dask  # noqa: E402

from robustruct.engines import DaskEngine  # noqa: E402
from robustruct.engines.dask import versions  # noqa: E402
from robustruct.engines.dask.supervisor import Supervisor  # noqa: E402
from robustruct.engines.dask.worker_pool import WorkerPool, worker_info  # noqa: E402

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
    there = model.set_params(random_state=0).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    certified_alike(here, there)


@pytest.mark.parametrize("Model", [AGM, SSVM, CRF])
def test_the_cluster_certifies_what_one_process_certifies(client, Model):
    here = Model(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y)
    there = Model(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    certified_alike(here, there)
    from_shards = Model(alpha=0.01, random_state=0).fit(
        ShardedData.from_samples(CHAINS.X, CHAINS.y, 3)
    )
    certified_alike(here, from_shards)


@pytest.mark.parametrize(
    "model", [AGM(), AGM(temperature=1.0), SSVM(), CRF()], ids=["AGM", "AGM at 1", "SSVM", "CRF"]
)
def test_columns_of_any_units_are_standardised_by_all_shards_together(client, model):
    """One shard alone has another mean and spread than all."""
    order = np.argsort([x[:, 0].mean() for x in CHAINS.X])
    units = 10.0 ** np.linspace(-4, 4, CHAINS.X[0].shape[1])
    X, y = [CHAINS.X[s] * units + 1000.0 * units for s in order], [CHAINS.y[s] for s in order]
    data = shards_of(Dataset("sorted", X, y), (100, 0, 100))
    model.set_params(alpha=0.01, random_state=0)
    there = clone(model).fit(data, engine=DaskEngine(client))
    certified_alike(clone(model).fit(CHAINS.X, CHAINS.y), there)


@pytest.mark.parametrize("Model", [AGM, SSVM])
def test_bounds_are_those_of_the_whole_problem(client, Model):
    there = Model(alpha=0.05, tol=1e-3, random_state=0)
    there.fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    here = Model(alpha=0.05, tol=1e-5, max_iter=5000, random_state=0).fit(CHAINS.X, CHAINS.y)
    optimum = here.objective_
    for record in there.history_:
        assert record.primal >= optimum * (1 - 2e-5)
        assert record.dual <= optimum * (1 + 2e-5)


def test_shards_of_very_different_size_one_of_them_empty(client):
    data = shards_of(CHAINS, (1, 0, 150, 49))
    there = AGM(alpha=0.01, random_state=0).fit(data, engine=DaskEngine(client))
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
    there = AGM(alpha=0.01, random_state=0).fit(
        shards_of(data, (20, 20)), engine=DaskEngine(client)
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
    there = AGM(**options).fit(X, y, weight, node_weight, engine=DaskEngine(client))
    certified_alike(here, there)


def test_the_same_seed_gives_the_same_model(client):
    one, other = (
        AGM(alpha=0.01, random_state=5).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_workers_with_one_sample_each_do_not_overshoot(client):
    X = [[{"w": "Ada"}, {"w": "met"}], [{"w": "Ada"}, {"w": "Lovelace"}]]
    y = [["B-PER", "O"], ["B-PER", "I-PER"]]
    there = AGM(alpha=0.1, random_state=0).fit(X, y, engine=DaskEngine(client))
    certified_alike(AGM(alpha=0.1, random_state=0).fit(X, y), there)


def test_two_fits_at_once_on_one_cluster(client):
    models = [AGM(alpha=alpha, random_state=0) for alpha in (0.01, 0.1)]
    threads = [
        threading.Thread(
            target=m.fit, args=(CHAINS.X, CHAINS.y), kwargs={"engine": DaskEngine(client)}
        )
        for m in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for model in models:
        certified_alike(AGM(alpha=model.alpha, random_state=0).fit(CHAINS.X, CHAINS.y), model)


# ---- habits


def test_models_fitted_on_a_cluster_are_stored_and_watched(client, tmp_path):
    model = AGM(alpha=0.01, random_state=0)
    validation = CHAINS.X[:20], CHAINS.y[:20]
    model.fit(CHAINS.X, CHAINS.y, validation=validation, engine=DaskEngine(client))
    assert model.validation_loss_ >= 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)
    model.save(tmp_path / "model.safetensors")


def test_nothing_of_a_fit_is_left_on_the_workers(client):
    AGM(alpha=0.1).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))

    def left(dask_worker):
        return len(getattr(dask_worker, "robustruct_states", {}))

    assert set(client.run(left).values()) == {0}


def test_errors_on_a_worker_are_those_of_this_process(client, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"nodes": [{"w": "a"}], "labels": ["X"]}\n')
    (tmp_path / "b.jsonl").write_text('{"nodes": [{"w": "a"}], "labels": ["X"]}\n{"nodes": 3}\n')
    data = ShardedData.from_files(str(tmp_path / "*.jsonl"))
    with pytest.raises(FileFormatError, match=r"b\.jsonl, line 2"):
        AGM().fit(data, engine=DaskEngine(client))
    with pytest.raises(IncompatibleError, match="samples in memory"):
        AGM(alpha=[0.1, 1.0]).fit(data)
    with pytest.raises(IncompatibleError, match="without an engine"):
        AGM(alpha=[0.1, 1.0]).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))


def test_no_worker_is_an_error_in_time():
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(EngineError, match="no worker"),
    ):
        AGM().fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client, give_up=1.0))


# ---- faults


@contextlib.contextmanager
def dask_process(*arguments):
    """A scheduler or a worker of its own, killed at the end; it finds this file."""
    paths = [os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{arguments[0]}", *map(str, arguments[1:])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def small_cluster(folder):
    """(process of its scheduler, client): a scheduler and a worker without a nanny."""
    file = folder / "scheduler.json"
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
            yield scheduler, client


def when_passes_are_heard_of(monkeypatch, action, after=1):
    """Do something in this process once it has heard of so many passes."""
    hear, heard = Supervisor._hear, []

    def hear_and_act(supervisor, news):
        hear(supervisor, news)
        before, _ = len(heard), heard.extend(news.passes)
        if before < after <= len(heard):
            action()

    monkeypatch.setattr(Supervisor, "_hear", hear_and_act)


@pytest.mark.parametrize("Model", [AGM, CRF])
def test_a_scheduler_that_dies_is_our_error(client, monkeypatch, tmp_path, Model):
    kept = Checkpoint(tmp_path / "kept", 1, resume=True)
    with small_cluster(tmp_path) as (scheduler, other):
        other.run(slow_rounds, 0.05)
        with monkeypatch.context() as patch:
            when_passes_are_heard_of(patch, lambda: os.killpg(scheduler.pid, signal.SIGKILL), 3)
            engine = DaskEngine(other)
            model = Model(alpha=0.01, random_state=0)
            data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 2)
            with pytest.raises(EngineError, match=r"connection to the Dask scheduler .* is lost"):
                model.fit(data, engine=engine, checkpoint=kept)
        with pytest.raises(EngineError, match="is lost"):
            engine.map(abs, [-1])
        with pytest.raises(EngineError, match="is lost"):
            AGM().fit(CHAINS.X, CHAINS.y, engine=engine)
    seldom = Checkpoint(tmp_path / "kept", 1000, resume=True)
    model.fit(data, engine=DaskEngine(client), checkpoint=seldom)  # another cluster goes on
    certified_alike(Model(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), model)


def slow_at_first(method, seconds):
    """As if what a method needs were compiled at its first call; runs on a worker."""
    from robustruct.optimizers.local_shards import LocalShards

    plain = getattr(LocalShards, method)

    def slow(*arguments):
        setattr(LocalShards, method, plain)
        time.sleep(seconds)
        return plain(*arguments)

    setattr(LocalShards, method, slow)


def slow_rounds(seconds):
    """Have rounds take so much longer; runs on a worker. None takes it back."""
    from robustruct.optimizers.local_shards import LocalShards

    plain = getattr(LocalShards.round, "plain", LocalShards.round)

    def slow(*arguments):
        time.sleep(seconds)
        return plain(*arguments)

    slow.plain = plain
    LocalShards.round = plain if seconds is None else slow


@contextlib.contextmanager
def slowed(client, seconds):
    """Rounds take so many seconds longer."""
    client.run(slow_rounds, seconds)
    try:
        yield
    finally:
        client.run(slow_rounds, None)


@pytest.mark.parametrize("method", ["round", "moments", "bounds"])
def test_compiling_does_not_count_as_silence(client, method):
    engine = DaskEngine(client, give_up=2.0)
    client.run(slow_at_first, method, 5.0)
    there = AGM(alpha=0.1, random_state=0).fit(CHAINS.X, CHAINS.y, engine=engine)
    assert engine.last_.rebuilt == 0
    assert not engine.last_.pool.silent
    certified_alike(AGM(alpha=0.1, random_state=0).fit(CHAINS.X, CHAINS.y), there)


def fault(at, how, sent):
    """Have a worker process do something to itself with its ``at``-th message; runs on a worker.

    Before or after the message is ``sent``. Also takes it back: with ``at`` None.
    """
    from robustruct.engines.dask.collective import DaskCollective

    plain = getattr(DaskCollective._send_one, "plain", DaskCollective._send_one)
    count = 0

    async def send(group, rank, message):
        nonlocal count
        count += 1
        if count == at and not sent:
            os.kill(os.getpid(), how)
        await plain(group, rank, message)
        if count == at and sent:
            os.kill(os.getpid(), how)

    send.plain = plain
    DaskCollective._send_one = plain if at is None else send


def pids(client):
    """Process of each worker."""
    return client.run(os.getpid)


@pytest.mark.parametrize("model", [AGM(), SSVM(), AGM(temperature=1.0), CRF()], ids=repr)
def test_workers_killed_in_the_middle_of_sums(client, faults, model):
    rng = np.random.default_rng(faults)
    model.set_params(alpha=0.01, random_state=0)
    here = clone(model).fit(CHAINS.X, CHAINS.y)
    data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 4)
    for _ in range(faults):
        client.wait_for_workers(2, timeout=60)
        engine = DaskEngine(client)
        victim = sorted(pids(client))[rng.integers(2)]
        at, sent = int(rng.integers(1, 25)), bool(rng.integers(2))
        client.run(fault, at, signal.SIGKILL, sent, workers=[victim])
        there = model.fit(data, engine=engine)
        assert engine.last_.rebuilt >= 2, (at, sent)
        certified_alike(here, there)


def test_progress_since_the_last_certificate_is_lost_and_nothing_else(client):
    """The next attempt counts on from the last certificate, and keeps those before."""
    engine = DaskEngine(client)
    whole = AGM(alpha=0.01, tol=1e-3, random_state=0)
    whole.fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    client.run(fault, 60, signal.SIGKILL, True, workers=[max(pids(client))])
    there = AGM(alpha=0.01, tol=1e-3, random_state=0).fit(CHAINS.X, CHAINS.y, engine=engine)
    assert engine.last_.attempt == 2
    before = [one.n_iter for one in whole.history_ if 2 * one.n_iter < 60 - len(whole.history_)]
    passes = [one.n_iter for one in there.history_]
    assert passes[: len(before)] == before
    assert passes[len(before)] == before[-1] + before[0]  # soon, in case more workers fail
    assert (np.diff(passes) > 0).all()
    assert (np.diff([one.time for one in there.history_]) >= 0).all()
    certified_alike(whole, there)


@pytest.mark.parametrize("kept", [False, True])
def test_all_workers_are_lost(client, tmp_path, kept):
    data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 2)
    engine = DaskEngine(client)
    model = AGM(alpha=0.01, random_state=0)
    client.run(fault, 15, signal.SIGKILL, False)
    checkpoint = Checkpoint(tmp_path / "kept", 2) if kept else None
    model.fit(data, engine=engine, checkpoint=checkpoint)
    assert engine.last_.rebuilt >= 2
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), model)
    client.wait_for_workers(2, timeout=60)


def out_of_memory(method):
    """Have a method fail, once; runs on a worker."""
    from robustruct.optimizers.local_shards import LocalShards

    plain = getattr(LocalShards, method)

    def fail(*arguments):
        setattr(LocalShards, method, plain)
        raise MemoryError("not enough")

    setattr(LocalShards, method, fail)


@pytest.mark.parametrize("which", [min, max])
@pytest.mark.parametrize("method", ["round", "bounds"])
def test_an_error_of_one_worker_is_raised_here(client, which, method):
    client.run(out_of_memory, method, workers=[which(pids(client))])
    with pytest.raises(MemoryError, match="not enough"):
        AGM(alpha=0.01).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    AGM(alpha=0.1).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))  # the cluster is as it was


def test_workers_leave_when_the_process_that_called_fit_is_gone(client):
    program = (
        "import sys; from distributed import Client; from robustruct import AGM;"
        "from robustruct.datasets import make_chains; from robustruct.engines import DaskEngine;"
        "data = make_chains(n_samples=200, n_nodes=(4, 9), noise=2.0, seed=3);"
        "engine = DaskEngine(Client(sys.argv[1]));"
        "AGM(alpha=1e-4, tol=1e-9, max_iter=10**6).fit(data.X, data.y, engine=engine)"
    )

    def training(dask_worker):
        return len(dask_worker.state.long_running)

    def waited_for(wanted):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(client.run(training).values()) == wanted:
                return True
            time.sleep(0.2)
        return False

    with subprocess.Popen([sys.executable, "-c", program, client.scheduler.address]) as process:
        assert waited_for(True)
        process.kill()
    assert waited_for(False)


def test_a_straggler_is_waited_for(client):
    """A worker process is stopped, and goes on seconds later."""
    engine = DaskEngine(client, give_up=60.0)
    victim = min(pids(client))
    process = pids(client)[victim]
    client.run(fault, 9, signal.SIGSTOP, False, workers=[victim])
    over = threading.Event()

    def have_it_go_on():
        while not over.wait(4.0):  # it may come to a stop later than that
            os.kill(process, signal.SIGCONT)

    other = threading.Thread(target=have_it_go_on)
    other.start()
    try:
        there = AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y, engine=engine)
    finally:
        over.set()
        other.join()
    client.run(fault, None, None, None)
    assert engine.last_.rebuilt == 0
    assert engine.last_.attempt == 1
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


def deaf(at, dask_worker):
    """Have a worker say its word in exchange ``at`` but never take that of others."""
    from robustruct.engines.dask.collective import RECEIVE

    take = dask_worker.handlers[RECEIVE]

    async def receive(number, **others):
        while number == at:
            await asyncio.sleep(1.0)
        return take(number=number, **others)

    dask_worker.handlers[RECEIVE] = receive


@pytest.mark.parametrize(("which", "how"), [(0, "mute"), (1, "mute"), (1, "deaf")])
def test_a_worker_that_hangs_for_good_is_given_up(client, which, how):
    # Workers that are new load compiled code, for longer than `give_up` if the machine is busy.
    AGM(alpha=0.1, random_state=0).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    engine = DaskEngine(client, give_up=3.0)
    victim = sorted(pids(client))[which]
    process = pids(client)[victim]
    if how == "mute":
        client.run(fault, 9, signal.SIGSTOP, True, workers=[victim])
    else:
        client.run(deaf, 9, workers=[victim])
    try:
        there = AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y, engine=engine)
    finally:
        os.kill(process, signal.SIGKILL)  # its nanny starts another one
        deadline = time.monotonic() + 60
        while victim in client.scheduler_info()["workers"] and time.monotonic() < deadline:
            time.sleep(0.1)
        client.wait_for_workers(2, timeout=60)
    client.run(fault, None, None, None, on_error="ignore")  # one may just be going
    assert engine.last_.pool.silent == {victim}
    assert engine.last_.rebuilt >= 1
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


def test_workers_of_another_version_are_refused_when_a_fit_starts(client, monkeypatch):
    theirs = versions.ours()
    here = {**theirs, "robustruct": "9.1", "numpy": "7.3"}
    monkeypatch.setattr(versions, "ours", lambda: here)
    with pytest.raises(EngineError) as caught:
        AGM().fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    said = str(caught.value)
    assert f"has robustruct {theirs['robustruct']} (here 9.1), numpy {theirs['numpy']} (h" in said
    assert "Python" not in said
    assert "Install the same versions everywhere" in said


def test_a_worker_of_another_version_that_joins_later_gets_no_shard(client, monkeypatch, caplog):
    pool = WorkerPool(client, 60.0)
    first, second = pool.fit_workers()
    assert pool.checked == {first, second}
    pool.checked, pool.place = {first}, {0: first}
    here = {**versions.ours(), "Python": "2.7"}
    monkeypatch.setattr(versions, "ours", lambda: here)
    assert pool.fit_workers() == [first]
    assert f"the Dask worker {second} has Python" in caplog.text


def test_a_worker_without_robustruct_is_asked_all_the_same(client, monkeypatch):
    """Were it asked by a task of ours, loading that would end it."""
    monkeypatch.setattr(versions, "PACKAGES", ["robustruct", "numpy", "not-to-be-found"])
    (address, *_), here = worker_info(client), versions.ours()
    found = versions.versions_of(client, [address])[address]
    assert found == here
    assert found["not-to-be-found"] == "not installed"


def test_a_worker_that_joins_later_is_used(cluster, client, monkeypatch):
    engine = DaskEngine(client)

    def grow():
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)
        client.run(slow_rounds, 0.2)  # until its versions have been asked for, and a certificate

    when_passes_are_heard_of(monkeypatch, grow)
    try:
        data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 4)
        with slowed(client, 2.0):  # until the new one is there
            # It is used from the first certificate after it joined.
            there = AGM(alpha=0.01, tol=3e-3, random_state=0).fit(data, engine=engine)
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
@pytest.mark.parametrize("passes", [1, 12])
def test_ctrl_c_keeps_the_best_model(client, monkeypatch, passes):
    def interrupt():
        raise KeyboardInterrupt

    when_passes_are_heard_of(monkeypatch, interrupt, passes)
    model = AGM(alpha=1e-3, tol=1e-6, random_state=0)
    with slowed(client, 0.2):
        model.fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))
    assert 0 < model.n_iter_ < 100
    assert model.status_ is Status.INTERRUPTED
    assert np.isfinite(model.objective_)
    AGM(alpha=0.1).fit(CHAINS.X, CHAINS.y, engine=DaskEngine(client))  # the cluster is as it was


# ---- workers in step


def differ_once(at):
    """Have this worker steer otherwise than the others, once; runs on a worker."""
    from robustruct.optimizers.dual_ascent import CentredAscent

    plain = CentredAscent._steered

    def steered(ascent, samples, outer):
        found = plain(ascent, samples, outer)
        if ascent.n_passes == at:
            CentredAscent._steered = plain
            return 1.5 * found
        return found

    CentredAscent._steered = steered


def test_workers_that_differ_notice_it_and_agree_again(client):
    engine = DaskEngine(client)
    client.run(differ_once, 6, workers=[max(pids(client))])
    there = AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y, engine=engine)
    assert engine.last_.attempt == 2
    assert engine.last_.rebuilt == 0
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), there)


@pytest.mark.parametrize("model", [AGM(), AGM(temperature=1.0), CRF()], ids=repr)
def test_one_shard_on_a_worker_is_this_process_to_the_bit(client, model):
    data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 1)
    model.set_params(alpha=0.01, random_state=0)
    here = clone(model).fit(data)
    there = model.fit(data, engine=DaskEngine(client))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert [one.primal for one in here.history_] == [one.primal for one in there.history_]


def test_what_passes_through_this_process_does_not_depend_on_the_weights(client):
    X = [[[f"w{i % 50}", f"v{j}"] for j in range(5)] for i in range(100)]
    y = [[("a", "b", "c")[(i + j) % 3] for j in range(5)] for i in range(100)]
    found = []
    for columns in (2**10, 2**18):
        engine = DaskEngine(client)
        data = ShardedData.from_samples(X, y, 2)
        data.hashed = columns
        model = AGM(alpha=0.01, random_state=0).fit(data, engine=engine)
        through_here = engine.last_.bytes_through_here - model.coef_.nbytes
        found.append(through_here / engine.last_.n_rounds)
    assert max(found) < 1000
    assert model.coef_.nbytes > 5_000_000


def test_warm_starts_and_validation_samples_reach_the_workers(client):
    here = AGM(alpha=0.05, random_state=0).fit(CHAINS.X, CHAINS.y)
    there = AGM(alpha=0.05, random_state=0)
    options = {"warm_start": True, "engine": DaskEngine(client)}
    validation = CHAINS.X[:40], CHAINS.y[:40]
    there.fit(CHAINS.X, CHAINS.y, validation=validation, **options)
    assert there.validation_loss_ >= 0
    there.fit(CHAINS.X, CHAINS.y, **options)
    certified_alike(here, there)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_checkpoints_hold_the_weights_wherever_training_goes_on(client, tmp_path):
    data = ShardedData.from_samples(CHAINS.X, CHAINS.y, 3)
    engine = DaskEngine(client)
    model = AGM(alpha=0.01, random_state=0, max_iter=10)
    kept = Checkpoint(tmp_path, 4, resume=True)
    first = model.fit(data, engine=engine, checkpoint=kept).history_
    model.set_params(max_iter=1000).fit(data, checkpoint=kept)  # from the cluster to this process
    assert model.history_[: len(first)] == first
    certified_alike(AGM(alpha=0.01, random_state=0).fit(CHAINS.X, CHAINS.y), model)
    passes = model.n_iter_
    # And back, without the blocks.
    model.set_params(tol=7e-3).fit(data, engine=engine, checkpoint=kept)
    assert model.n_iter_ > passes
    assert model.duality_gap_ <= 7e-3
    with pytest.raises(IncompatibleError, match="the number of shards was 3 and is 2"):
        model.fit(ShardedData.from_samples(CHAINS.X, CHAINS.y, 2), checkpoint=kept)
    model.save(tmp_path / "model")


@pytest.mark.parametrize(
    "options",
    [{"rounds_per_pass": value} for value in (0, 1.5, "x", None)]
    + [{"give_up": value} for value in (0, -1.0, float("nan"), "x", None)],
)
def test_options_of_the_engine_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidInputError, match=rf"^{next(iter(options))}=.*; give a"):
        DaskEngine(None, **options)
