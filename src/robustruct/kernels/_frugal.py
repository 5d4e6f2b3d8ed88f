"""Compiles kernels by our own translation, for versions of numba that it was tried with.

Numba still contributes how Python calls a kernel, which types its arguments have, code on disk, and
LLVM. It leans on parts of numba that may change from one version to the next: `_jit.py` takes
numba's own compiler for other versions.
"""

import gc
from contextlib import contextmanager

from llvmlite import binding
from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, compile_result
from numba.core.environment import Environment
from numba.core.typing import signature

from robustruct.kernels._kinds import Untranslatable


class _Library(JITCodeLibrary):
    """Code that is optimised once: numba does it twice, to prune counts of references between."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        self._run_passes()
        # Functions of one name in several kernels are not the same. As functions of this kernel
        # alone, LLVM would have put all that are called once into their callers, whatever their
        # size: twice the time to compile.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = binding.Linkage.internal

    def _run_passes(self):
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


class Whole(Compiler):
    """Compiles a kernel, with the helpers that it calls."""

    def __init__(self, typing_context, target_context, library, args, return_type, flags, locals):
        self._given = typing_context, target_context, library, args, return_type, flags, locals

    def compile_extra(self, func):
        """Numba's result for a function; by numba itself if it is more than we translate."""
        try:
            with _no_collecting():
                return self._compiled(func)
        except Untranslatable:
            super().__init__(*self._given)  # which loads all that numba can compile
            return super().compile_extra(func)

    def _compiled(self, func):
        from robustruct.kernels._entry import translated  # with much of llvmlite

        typing_context, target_context, _, args, _, flags, _ = self._given
        text, descriptor = translated(func, bool(flags.fastmath), args)
        library = _Library(target_context.codegen(), func.__qualname__)
        library.enable_object_caching()
        module = binding.parse_assembly(text)
        module.verify()
        library.add_llvm_module(module)
        library.finalize()
        environment = Environment.from_fndesc(descriptor)
        return compile_result(
            typing_context=typing_context,
            target_context=target_context,
            entry_point=target_context.get_executable(library, descriptor, environment),
            type_annotation="",
            library=library,
            signature=signature(descriptor.restype, *descriptor.argtypes),
            objectmode=False,
            lifted=(),
            fndesc=descriptor,
            environment=environment,
            metadata={},
            reload_init=[],
        )
