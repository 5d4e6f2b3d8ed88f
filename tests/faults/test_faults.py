"""Many at once, and interrupted at any moment: what comes out is what one alone would find.

``ROBUSTRUCT_FAULTS=17 pytest -m slow tests/faults`` repeats everything 17 times.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from fault_fits import DATA, MODELS, model, weights

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # Python warns of forks while threads run, which is what is tried here.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]

THREADS = 32


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_many_threads_predict_what_one_does(name, n_jobs, faults):
    fitted = model(name, n_jobs=n_jobs).fit(DATA.X, DATA.y)
    calls = [
        (method, DATA.X[first : first + 20])
        for first in (0, 20, 40)
        for method in ("predict", "predict_proba", "predict_risk")
    ]
    expected = [getattr(fitted, method)(X) for method, X in calls]
    start = threading.Barrier(THREADS)

    def work(thread: int) -> int:
        start.wait()
        for turn in range(faults):
            which = (thread + turn) % len(calls)
            method, X = calls[which]
            for found, wanted in zip(getattr(fitted, method)(X), expected[which], strict=True):
                np.testing.assert_array_equal(found, wanted)
        return faults

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(work, range(THREADS))) == THREADS * faults


def test_fits_in_threads_are_those_of_one_thread(faults):
    jobs = [(name, seed) for name in MODELS for seed in range(2)]
    expected = {job: weights(*job) for job in jobs}
    with ThreadPoolExecutor(len(jobs)) as pool:
        for job, found in zip(
            jobs * faults, pool.map(lambda job: weights(*job), jobs * faults), strict=True
        ):
            np.testing.assert_array_equal(found, expected[job])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fits_in_processes_are_those_of_this_one(method, n_jobs, faults):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    # This process has used its threads before it forks.
    expected = {name: weights(name, 0, n_jobs) for name in MODELS}
    names = list(MODELS) * faults
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        asked = [pool.submit(weights, name, 0, n_jobs) for name in names]
        for name, answer in zip(names, asked, strict=True):
            np.testing.assert_array_equal(answer.result(timeout=600), expected[name])


def test_forks_while_threads_predict(faults):
    """A fork of a process whose threads are in the midst of compiled code."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot fork")
    fitted = model("AGM", n_jobs=2).fit(DATA.X, DATA.y)
    expected, done = weights("CRF"), threading.Event()

    def keep_predicting() -> None:
        while not done.is_set():
            fitted.predict_proba(DATA.X)

    threads = [threading.Thread(target=keep_predicting) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(faults):
            with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
                found = pool.submit(weights, "CRF").result(timeout=600)
            np.testing.assert_array_equal(found, expected)
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of POSIX systems")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_interrupts_at_random_moments(name, n_jobs, faults):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    expected = weights(name, 0, n_jobs)
    started = time.perf_counter()
    weights(name, 0, n_jobs)
    whole = time.perf_counter() - started
    rng = np.random.default_rng()
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = fits = 0
    try:
        while interrupted < 2 * faults and fits < 20 * faults:
            fits += 1
            candidate, moment = model(name, n_jobs=n_jobs), float(rng.uniform(1e-4, whole))
            interrupted += one_interrupt(candidate, moment)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted == 2 * faults
    np.testing.assert_array_equal(weights(name, 0, n_jobs), expected)  # nothing is left behind
    print(f"{name}, n_jobs={n_jobs}: {interrupted} interrupts in {fits} fits")


def one_interrupt(candidate, moment: float) -> bool:
    """Whether the fit was interrupted; what it leaves is a model, or none."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, moment)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                candidate.fit(DATA.X, DATA.y)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        return True
    assert np.isfinite(candidate.coef_).all()
    assert len(candidate.predict(DATA.X)) == len(DATA.X)
    if candidate.history_:  # without a certificate nothing is claimed
        assert np.isfinite([candidate.objective_, candidate.duality_gap_]).all()
    return any("interrupted" in str(one.message) for one in caught)
