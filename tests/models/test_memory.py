"""Memory is estimated before it is taken, and what no machine has is refused with numbers."""

import builtins
import io
import re
import tracemalloc

import pytest

from robustruct import AGM, CRF, SSVM, parallel
from robustruct.errors import IncompatibleError
from robustruct.objectives import memory
from robustruct.parallel import available_memory


def words(n_labels, n_nodes, n_features, length):
    """Sequences whose labels and attributes come round and round."""
    starts = range(0, n_nodes, length)
    X = [[[f"w{i % n_features}"] for i in range(s, min(s + length, n_nodes))] for s in starts]
    y = [[f"L{i % n_labels}" for i in range(s, min(s + length, n_nodes))] for s in starts]
    return X, y


MODELS = {
    "CRF": lambda **given: CRF(optimizer="lbfgs", **given),  # others may have to hand over to it
    "CRF with l1": lambda **given: CRF(l1=0.1, **given),
    "AGM": lambda **given: AGM(**given),
    "SSVM": lambda **given: SSVM(**given),
    "smooth AGM": lambda **given: AGM(temperature=1.0, **given),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("shape", [(200, 200, 1, 5), (200, 1000, 300, 50), (300, 300, 50, 1)])
@pytest.mark.parametrize("name", MODELS)
def test_the_estimate_is_what_a_fit_takes(name, shape, monkeypatch):
    estimates = []
    plain = memory.Sizes.bytes
    monkeypatch.setattr(
        memory.Sizes, "bytes", lambda *given: (estimates.append(plain(*given)), estimates[-1])[1]
    )
    make = MODELS[name]
    make(max_iter=1).fit(*words(2, 4, 2, 2))  # compiles
    X, y = words(*shape)
    tracemalloc.start()
    make(max_iter=2).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.6 < estimates[-1] / peak < 1.6, (estimates[-1] / 2**20, peak / 2**20)


@pytest.mark.parametrize("name", MODELS)
def test_too_many_labels_are_refused_before_memory_is_taken(name, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**30)
    X, y = words(10_000, 10_000, 10_000, 10)
    tracemalloc.start()
    with pytest.raises(IncompatibleError, match=r"10,000 labels and 10,001 features make 200,010,"):
        MODELS[name]().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27


def test_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**34)
    with pytest.raises(IncompatibleError) as caught:
        CRF().fit(*words(10_000, 10_000, 10_000, 10))
    said = str(caught.value)
    for part in ("of memory, and 16 GiB are free", "the right column?", "would fit", "AGM or SSVM"):
        assert part in said, said


def test_as_many_labels_as_the_message_says_fit():
    sizes, need = memory.Sizes(10_000, 50_000, 50_000 * 10_000 + 3 * 10_000**2, 7, 5), memory.DUAL
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "available_memory", lambda: 2.0**31)
        with pytest.raises(IncompatibleError) as caught:
            memory.check_memory(sizes, need)
        found = re.search(r"about ([\d,]+) would fit", str(caught.value))
        most = int(found[1].replace(",", ""))
        weights = [50_000 * k + 3 * k**2 for k in (most, most + 1)]
        memory.check_memory(memory.Sizes(most, 50_000, weights[0], 7, 5), need)
        with pytest.raises(IncompatibleError):
            memory.check_memory(memory.Sizes(most + 1, 50_000, weights[1], 7, 5), need)


MACHINE = {"/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 50 kB\nSwapFree: 10 kB\n"}
NEW = {
    "/sys/fs/cgroup/memory.max": "30720\n",
    "/sys/fs/cgroup/memory.current": "20480\n",
    "/sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 1024\n",
}
OLD = {
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "40960",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": "40960",
    "/sys/fs/cgroup/memory/memory.stat": "inactive_file 0\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (MACHINE, 60 * 1024),
        (MACHINE | NEW, 11 * 1024),
        (MACHINE | NEW | {"/sys/fs/cgroup/memory.max": "max\n"}, 60 * 1024),
        (MACHINE | OLD, 0),
    ],
    ids=["machine", "container", "container without limit", "full container"],
)
def test_what_machine_and_container_allow(files, expected, monkeypatch):
    def opened(path, *arguments):
        if path not in files:
            raise FileNotFoundError(path)
        return io.StringIO(files[path])

    monkeypatch.setattr(builtins, "open", opened)
    assert available_memory() == expected


def test_a_system_that_does_not_tell_allows_everything(monkeypatch):
    monkeypatch.setattr(builtins, "open", lambda *given: (_ for _ in ()).throw(OSError()))
    monkeypatch.setattr(parallel.os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError()))
    assert available_memory() == float("inf")
