"""Compiled code: where it is kept, and a word to whoever waits for it.

Numba keeps code in the first of three folders that it can write: the one named by
``NUMBA_CACHE_DIR``, ``__pycache__`` beside the source, the user's own. Where it can write none of
them it refuses the function, and code that was put into the first two beforehand, as in a container
that is read-only when it runs, it does not look at. Here both work.
"""

import functools
import signal
import sys
import threading
import time
from contextlib import contextmanager

import llvmlite.binding as llvm
from numba.core import environment, event
from numba.core.caching import FunctionCache, NullCache
from numba.core.runtime._nrt_python import c_helpers

from robustruct.progress import note

PATIENCE = 2.0  # seconds of compiling after which to say so


def _read_only(locator):
    """The cache of a function in a folder that numba would have to write to."""
    unchecked = type(locator.__name__, (locator,), {"ensure_cache_path": lambda self: None})
    implementation = type("Impl", (FunctionCache._impl_class,), {"_locator_classes": [unchecked]})
    return type("ReadOnlyCache", (FunctionCache,), {"_impl_class": implementation})


_ELSEWHERE = [_read_only(locator) for locator in FunctionCache._impl_class._locator_classes[:2]]


@functools.cache
def _name_counters():
    """Tell LLVM where functions of numba's own C library are that count references.

    Compiled code holds those that numba writes itself, so reading it needs these names alone, and
    not what `rtsys.initialize` compiles besides: some 30 MiB, most of it for LLVM's compiler.
    """
    for name, address in c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _constants(module, constants, name):
    """What code of a function reads of Python's, as numba keeps it, without loading its module.

    Names of that are for code that works on Python's objects, which none here does; and most such
    modules are numba's own, which bring all that numba can compile and SciPy.
    """
    found = environment.lookup_environment(name)
    if found is None:
        found = environment.Environment(vars(sys.modules[module]) if module in sys.modules else {})
        found.consts[:] = constants
        found.env_name = name
        environment.Environment._memo[name] = found
    return found


@contextmanager
def _as_it_is(context):
    """Numba would load all that it can compile before it reads code, which needs less to run.

    Whatever compiles has the rest loaded. The compiler's lock is held meanwhile.
    """
    _name_counters()
    context.refresh, rebuild = lambda: None, environment._rebuild_env
    environment._rebuild_env = _constants
    try:
        yield
    finally:
        del context.refresh
        environment._rebuild_env = rebuild


@contextmanager
def _uninterrupted():
    """Ctrl-C takes effect afterwards: LLVM calls back, and what a callback raises is lost."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    late = []
    signal.signal(signal.SIGINT, lambda *what: late.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if late:
            before(*late[-1])


class KeptCode(NullCache):
    """Compiled code of a function on disk: read wherever it is, written where that is possible."""

    def __init__(self, function):
        self._function = function
        try:
            self._writable = FunctionCache(function)
        except RuntimeError:  # no folder can be written
            self._writable = NullCache()

    @property
    def cache_path(self):
        """The folder that code is written to; None if there is none."""
        return self._writable.cache_path

    def load_overload(self, sig, target_context):
        """The code for some types of arguments, or None."""
        with _uninterrupted(), _as_it_is(target_context):
            return self._found(sig, target_context)

    def _found(self, sig, target_context):
        found = None
        try:
            found = self._writable.load_overload(sig, target_context)
        except Exception:  # of another version, whose types are gone: numba reads before it checks
            self.flush()
        for elsewhere in _ELSEWHERE:
            if found is not None:
                break
            try:
                found = elsewhere(self._function).load_overload(sig, target_context)
            except Exception:  # not readable, no such folder, or of another version
                continue
        return found

    def save_overload(self, sig, cres):
        """Keep it if that is possible; the process has it in any case."""
        try:
            self._writable.save_overload(sig, cres)
        except OSError as error:
            note(f"compiled code could not be kept ({error}); this process goes on with it.")
            self._writable = NullCache()

    def flush(self):
        """Forget what is on disk."""
        self._writable.flush()


class _Notice(event.Listener):
    """Says once, while it happens, that time goes into compiling."""

    def __init__(self):
        self._said = False
        self._depth = 0  # functions in work, each for the sake of the one before
        self._spent, self._since = 0.0, 0.0
        self._timer = None

    def on_start(self, event):
        function = event.data["dispatcher"]
        if self._depth == 0 and not function.py_func.__module__.startswith("robustruct."):
            return  # code of the user's own
        self._depth += 1
        if self._depth > 1 or self._said:
            return
        self._since = time.monotonic()
        left = max(0.0, PATIENCE - self._spent)
        self._timer = threading.Timer(left, self._say, [function])
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event):
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._since

    def _say(self, function):
        self._said = True
        where = function._cache.cache_path
        if where:
            kept = f"This happens once: the code is kept in {where}"
        else:
            kept = (
                "It cannot be kept, as no folder for it can be written, so every process compiles "
                "anew: name a folder in NUMBA_CACHE_DIR"
            )
        name = function.py_func.__name__
        note(f"compiling code for this machine ({name} and more). {kept}.")


event.register("numba:compile", _Notice())


@contextmanager
def counted():
    """Yields a list to which the name of every function compiled meanwhile is added."""
    names = []

    class Count(event.Listener):
        def on_start(self, event):
            pass

        def on_end(self, event):
            names.append(event.data["dispatcher"].py_func.__qualname__)

    listener = Count()
    event.register("numba:compile", listener)
    try:
        yield names
    finally:
        event.unregister("numba:compile", listener)


def folder():
    """Where code of kernels is kept; None if no such folder can be written."""
    return KeptCode(folder).cache_path
