"""Numba's compiler, without work that comes to nothing in kernels: half the time or less.

It leans on parts of numba that may change from one version to the next: `_jit.py` takes it for
versions that it was tried with, and numba's own compiler for others.
"""

import gc
from contextlib import contextmanager

from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options
from numba import _dynfunc
from numba.core import config, types, typing
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.untyped_passes import WithLifting


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
