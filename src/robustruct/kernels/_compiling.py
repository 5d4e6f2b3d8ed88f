"""Compiled code: where it is kept, and a word to whoever waits for it.

Numba keeps code in the first of three folders that it can write: the one named by
``NUMBA_CACHE_DIR``, ``__pycache__`` beside the source, the user's own. Where it can write none of
them it refuses the function, and code that was put into the first two beforehand, as in a container
that is read-only when it runs, it does not look at. Here both work.
"""

import gc
import threading
import time
from contextlib import contextmanager

from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options
from numba import _dynfunc
from numba.core import config, event, types, typing
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.untyped_passes import WithLifting

from robustruct.progress import note

PATIENCE = 2.0  # seconds of compiling after which to say so


def _read_only(locator):
    """The cache of a function in a folder that numba would have to write to."""
    unchecked = type(locator.__name__, (locator,), {"ensure_cache_path": lambda self: None})
    implementation = type("Impl", (FunctionCache._impl_class,), {"_locator_classes": [unchecked]})
    return type("ReadOnlyCache", (FunctionCache,), {"_impl_class": implementation})


_ELSEWHERE = [_read_only(locator) for locator in FunctionCache._impl_class._locator_classes[:2]]


@contextmanager
def _not_refreshed(context):
    """Numba would load all that it can compile before it reads code, which needs less to run.

    Whatever compiles has the rest loaded.
    """
    rtsys.initialize(context)
    context.refresh = lambda: None
    try:
        yield
    finally:
        del context.refresh


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
        with _not_refreshed(target_context):
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


class _Library(JITCodeLibrary):
    """Code that is optimised with all that it calls, and not by itself before."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        # Once: numba does it twice, to prune counts of references in between.
        codegen = self._codegen
        if not hasattr(codegen, "_pass_builder"):  # before numba 0.62
            codegen._module_pass_manager().run(self._final_module)
            return
        options = create_pipeline_tuning_options(config.OPT)
        options.loop_vectorization = config.LOOP_VECTORIZE
        options.slp_vectorization = config.SLP_VECTORIZE
        options.loop_unrolling = False  # a quarter of the code, and no gain
        builder = create_pass_builder(codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class _Unfinished(_Library):
    """Code of a helper before machine code is generated from it: kernels take it in as it is."""

    def _optimize_final_module(self):
        # Loops become vectors where they stand alone; what calls others waits for the kernel.
        if not any(isinstance(library, _Unfinished) for library in self._linking_libraries):
            super()._optimize_final_module()

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True


class _Raw(_Unfinished):
    """Code of a part, which is nowhere but in what it is a part of."""

    def _optimize_final_module(self):
        pass


def _no_executable(library, description, environment):
    """What numba knows the compiled function by; without an address, Python cannot call it."""
    name = description.qualname.split(".")[-1]
    module = description.lookup_module()
    return _dynfunc.make_function(module, name, "", 0, environment, (library,))


class _Remembering(typing.Context):
    """Types of calls as numba's own context finds them, each of them once.

    For ``i + 1`` numba asks about fifty templates in turn, every time that it meets a sum of
    integers. Here the answer for a function of numba's and some types is kept.
    """

    __slots__ = ("known",)

    @classmethod
    def of(cls, context, known):
        """The same context, not a copy of it."""
        found = cls.__new__(cls)
        found.__dict__ = context.__dict__
        found.known = known
        return found

    def resolve_function_type(self, func, args, kws):
        numbas = not isinstance(func, types.Type) or isinstance(func, types.Function)
        if kws or isinstance(func, str) or not numbas:
            return super().resolve_function_type(func, args, kws)
        key = (func, tuple(args))
        found = self.known.get(key)
        if found is None:
            found = super().resolve_function_type(func, args, kws)
            if found is not None:
                self.known[key] = found
        return found


@contextmanager
def _no_collecting():
    """Much of what compiling makes stays: looking through it again and again takes its time."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


# For `with` and expressions of whole arrays, which kernels do not have.
_WITHOUT = {WithLifting, NopythonRewrites}

_KNOWN = {}  # types of calls, by the flags of who calls


class _Frugal(Compiler):
    """Numba's compiler, without work that comes to nothing here."""

    _library = _Library

    def define_pipelines(self):
        from robustruct.kernels._lowering import FrugalLowering  # with much of numba

        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (FrugalLowering if kind is NativeLowering else kind, why)
                for kind, why in pipeline.passes
                if kind not in _WITHOUT
            ]
            pipeline.finalize()
        return pipelines

    def compile_extra(self, func):
        from robustruct.kernels._lowering import MODELS

        known = _KNOWN.setdefault(self.state.flags.summary(), {})
        self.state.typingctx = _Remembering.of(self.state.typingctx, known)
        self.state.library = self._library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        self.state.targetctx.data_model_manager = MODELS  # a copy, for this function alone
        with _no_collecting():
            return super().compile_extra(func)


class Fragment(_Frugal):
    """Compiles a helper, which nothing but kernels call.

    Numba would optimise it, and generate machine code, at every level of its callers. Here that
    is done in the kernel, and for helpers that call no others once before.
    """

    _library = _Unfinished

    def compile_extra(self, func):
        self.state.targetctx.get_executable = _no_executable
        return super().compile_extra(func)


class Inlined(Fragment):
    """Compiles a part of a kernel or helper."""

    _library = _Raw


class Whole(_Frugal):
    """Compiles a kernel, with the helpers that it calls."""

    def compile_extra(self, func):
        result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


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
