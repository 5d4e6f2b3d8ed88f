"""From typed code to LLVM's, in fewer instructions than numba would write.

Numba keeps every variable that more than one block of code uses in memory, counts the references
to every array that it looks at, and passes an array as its seven to eleven numbers. Kernels on
tuples of arrays become tens of thousands of instructions, most of which LLVM then removes. Here

- a variable that is set once is a value wherever its setting comes first,
- arrays of a caller are not counted: it holds them for as long as the function runs. What a
  function makes, or a call makes for it, is counted,
- of an array in a named tuple only its data and its shape are passed.

Threads that share arrays would also hand their counters from core to core.
"""

from collections import defaultdict

from numba.core import cgutils, ir, types
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs, must_use_alloca
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import DataModelManager, default_manager
from numba.core.datamodel.models import ArrayModel, TupleModel, UniTupleModel
from numba.core.errors import LoweringError
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering
from numba.np.numpy_support import as_dtype

# -------------------------------------------------------------------------------------- arguments


class _LeanArray(ArrayModel):
    """An array without gaps, passed as its data and its shape; nobody counts references to it."""

    def get_argument_type(self):
        pointer = self.get_model(self.get_field_position("data")).get_argument_type()
        return (pointer, *[cgutils.intp_t] * self._fe_type.ndim)

    def as_argument(self, builder, value):
        shape = self.get(builder, value, "shape")
        sides = (builder.extract_value(shape, i) for i in range(self._fe_type.ndim))
        return (self.get(builder, value, "data"), *sides)

    def from_argument(self, builder, value):
        data, *sides = value
        itemsize = cgutils.intp_t(as_dtype(self._fe_type.dtype).itemsize)
        stride, strides = itemsize, []
        for side in reversed(sides):
            strides.append(stride)
            stride = builder.mul(stride, side)
        fields = {
            "nitems": builder.udiv(stride, itemsize),
            "itemsize": itemsize,
            "data": data,
            "shape": cgutils.pack_array(builder, sides, cgutils.intp_t),
            "strides": cgutils.pack_array(builder, strides[::-1], cgutils.intp_t),
        }
        array = self.get_value_type()(None)  # no owner
        for name, field in fields.items():
            array = self.set(builder, array, field, name)
        return array


def _lean(model):
    """The model of a field of a named tuple."""
    kind = model.fe_type
    contiguous = isinstance(kind, types.Array) and kind.layout == "C"
    return _LeanArray(model._dmm, kind) if contiguous else model


class _NamedTuple(TupleModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind)
        self._models = tuple(map(_lean, self._models))


class _NamedUniTuple(UniTupleModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind)
        self._elem_model = _lean(self._elem_model)


MODELS = DataModelManager().chain(default_manager)
"""How values are passed."""
MODELS.register(types.NamedTuple, _NamedTuple)
MODELS.register(types.NamedUniTuple, _NamedUniTuple)


# ------------------------------------------------------------------------------- counts, variables

# What an expression with one of these operations yields belongs to what it is made of.
_VIEWS = {"getattr", "getitem", "static_getitem", "cast", "phi", "build_tuple", "getiter"}
_VIEWS |= {"iternext", "pair_first", "pair_second", "exhaust_iter"}

_LENDERS = set()
"""(function, types of its arguments) that return nothing but views of what they are given."""


def _without_owner(context, builder, kind, value):
    """An array without what its references are counted in; so for every field of a tuple."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()
    for i, field in enumerate(kind if isinstance(kind, types.BaseTuple) else ()):
        part = _without_owner(context, builder, field, builder.extract_value(value, i))
        value = builder.insert_value(value, part, i)
    return value


class Frugal(Lower):
    """Writes the instructions of a function."""

    def init(self):
        super().init()
        self._statements = [s for block in self.blocks.values() for s in block.body]
        self._returned = {s.value.name for s in self._statements if isinstance(s, ir.Return)}
        kinds = self.fndesc.typemap
        self._counted = {name for name in kinds if self._is_counted(kinds[name])}
        self._owned = self._own_variables()
        # A helper lends what it returns if all of it are views; whoever calls from Python owns.
        self._lends = (
            self.flags.no_cpython_wrapper
            and self._returned <= self._counted - self._owned
            and self._returned <= self._singly_assigned_vars
        )
        if self._lends and self._returned:
            _LENDERS.add((self.func_ir.func_id.func, tuple(self.fndesc.argtypes)))
        else:
            self._owned |= self._returned & self._counted
        self._lent = self._counted - self._owned
        self._values = self._lasting_values()
        self._singly_assigned_vars |= self._values

    def _is_counted(self, kind):
        return self.context.data_model_manager[kind].contains_nrt_meminfo()

    def _own_variables(self):
        """The variables with something that this function, or a call by it, has made."""
        owned, found = set(), True
        assigned = [
            s
            for s in self._statements
            if isinstance(s, ir.Assign) and s.target.name in self._counted
        ]
        while found:
            found = {s.target.name for s in assigned if self._is_owned(s.value, owned)} - owned
            owned |= found
        return owned

    def _is_owned(self, value, owned):
        if isinstance(value, ir.Var):
            return value.name in owned
        if not isinstance(value, ir.Expr):
            return False
        parts = owned.intersection(v.name for v in value.list_vars())
        if value.op == "call":
            function = self.typeof(value.func.name)
            if isinstance(function, types.NamedTupleClass):
                return bool(parts)
            lends = self._lent_by_call(function, value)
            for name in parts:
                if lends or isinstance(self.typeof(name), types.BaseNamedTuple):
                    raise LoweringError(f"{name} is made here and may not be lent: {value}")
            return not lends
        if value.op == "getitem" and self._is_counted(self.typeof(value.index.name)):
            return True  # by an array of indices: a copy
        return value.op not in _VIEWS or bool(parts)

    def _lent_by_call(self, function, call):
        if not isinstance(function, types.Dispatcher):
            return False
        kinds = self.fndesc.calltypes[call].args
        return (function.dispatcher.py_func, tuple(kinds)) in _LENDERS

    def _lasting_values(self):
        """Variables that are set once, before everything that uses them, and need no count."""
        blocks = self.func_ir.blocks
        times, defined_in = defaultdict(int), {}
        for label, block in blocks.items():
            for statement in block.find_insts(ir.Assign):
                times[statement.target.name] += 1
                defined_in[statement.target.name] = label
        used_in = defaultdict(set)  # but for uses after the definition in the same block
        for label, names in compute_use_defs(blocks).usemap.items():
            for name in names:
                used_in[name].add(label)
        before = compute_cfg_from_blocks(blocks).dominators()
        return {
            name
            for name, label in defined_in.items()
            if times[name] == 1
            and name not in self._owned
            and all(label < use and label in before[use] for use in used_in[name])
        } - set(must_use_alloca(blocks))

    def lower_inst(self, inst):
        name = None
        if isinstance(inst, ir.Assign):
            name = inst.target.name
        elif isinstance(inst, ir.Del):
            name = inst.value
            if name in self._values:
                return
        if name not in self._lent:
            super().lower_inst(inst)
            return
        counting = self.context.enable_nrt
        self.context.enable_nrt = False
        try:
            super().lower_inst(inst)
        finally:
            self.context.enable_nrt = counting
        if self._lends and name in self._returned and isinstance(inst, ir.Assign):
            kind, value = self.typeof(name), self._blk_local_varmap[name]
            value = _without_owner(self.context, self.builder, kind, value)
            self._blk_local_varmap[name] = value


@register_pass(mutates_CFG=True, analysis_only=False)
class FrugalLowering(BaseNativeLowering):
    """The pass that writes a function's instructions."""

    _name = "frugal_lowering"

    @property
    def lowering_class(self):
        return Frugal
