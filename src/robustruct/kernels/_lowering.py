"""From typed code to LLVM's, in fewer instructions than numba would write.

Numba keeps every variable that more than one block of code uses in memory, counts the references
to every array that it looks at, and passes an array as its seven to eleven numbers. Kernels on
tuples of arrays become tens of thousands of instructions, most of which LLVM then removes. Here

- a variable that is set once is a value wherever its setting comes first,
- an element of an array without gaps is found from its data and its shape, and a loop over a range
  with a constant step is two counters,
- arrays of a caller are not counted: it holds them for as long as the function runs. What a
  function makes, or a call makes for it, is counted,
- of an array in a named tuple only its data and its shape are passed.

Threads that share arrays would also hand their counters from core to core.
"""

from collections import defaultdict

from llvmlite.ir import Constant
from numba.core import cgutils, ir, types
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs, must_use_alloca
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import DataModelManager, default_manager
from numba.core.datamodel.models import ArrayModel, TupleModel, UniTupleModel
from numba.core.errors import LoweringError
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering
from numba.np.arrayobj import load_item, store_item
from numba.np.numpy_support import as_dtype

# -------------------------------------------------------------------------------------- arguments


def _has_no_gaps(kind):
    return type(kind) is types.Array and kind.layout == "C" and kind.ndim > 0


DATA, SHAPE = 4, 5  # where arrays of numba have them


class _LeanArray(ArrayModel):
    """An array without gaps, passed as its data and its shape; nobody counts references to it."""

    def get_argument_type(self):
        pointer = self.get_model(self.get_field_position("data")).get_argument_type()
        return (pointer, *[cgutils.intp_t] * self._fe_type.ndim)

    def as_argument(self, builder, value):
        places = [(DATA,), *((SHAPE, i) for i in range(self._fe_type.ndim))]
        return tuple(builder.extract_value(value, place) for place in places)

    def from_argument(self, builder, value):
        data, *sides = value
        return _array(builder, self._fe_type, self.get_value_type(), data, sides)


def _array(builder, kind, type_, data, sides):
    """An array without gaps and without an owner."""
    stride = Constant(cgutils.intp_t, as_dtype(kind.dtype).itemsize)
    fields, strides, n_items = [(stride, (3,)), (data, (DATA,))], [], None
    for side in reversed(sides):
        strides.append(stride)
        stride = builder.mul(stride, side)
        n_items = side if n_items is None else builder.mul(n_items, side)
    fields.append((n_items, (2,)))
    fields += ((side, (SHAPE, i)) for i, side in enumerate(sides))
    fields += ((stride, (SHAPE + 1, i)) for i, stride in enumerate(reversed(strides)))
    array = type_(None)
    for field, place in fields:
        array = builder.insert_value(array, field, place)
    return array


def _lean(model):
    """The model of a field of a named tuple."""
    kind = model.fe_type
    return _LeanArray(model._dmm, kind) if _has_no_gaps(kind) else model


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
"""(function, types of its arguments) that return nothing but views of tuples they are given."""


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
        counted = {kind: self._is_counted(kind) for kind in set(self.fndesc.typemap.values())}
        self._counted = {name for name, kind in self.fndesc.typemap.items() if counted[kind]}
        self._owned = self._own_variables()
        # A helper lends what it returns if all of it are views of tuples; Python owns what it gets.
        self._lends = (
            self.flags.no_cpython_wrapper
            and any(isinstance(kind, types.BaseTuple) for kind in self.fndesc.argtypes)
            and self._returned <= self._counted - self._owned
            and self._returned <= self._singly_assigned_vars
        )
        if self._lends and self._returned:
            _LENDERS.add((self.func_ir.func_id.func, tuple(self.fndesc.argtypes)))
        else:
            views = self._returned & self._counted - self._owned
            tuples = any(isinstance(kind, types.BaseNamedTuple) for kind in self.fndesc.argtypes)
            if views and tuples and not self.flags.no_cpython_wrapper:
                raise LoweringError("Python may not be given views of arrays in tuples")
            self._owned |= views
        self._lent = self._counted - self._owned
        self._returns_arrays = not self._lends and bool(self._returned & self._counted)
        self._values = self._lasting_values()
        self._singly_assigned_vars |= self._values
        self._set_to = {
            s.target.name: s.value
            for s in self._statements
            if isinstance(s, ir.Assign) and s.target.name in self._singly_assigned_vars
        }
        self._ranges = {}  # start, stop and step of ranges, by the value that holds them
        self._natural = set()  # variables that are known not to be negative

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
            if isinstance(inst, ir.Assign) and self._is_natural(self._set_to.get(name)):
                self._natural.add(name)
            return
        counting = self.context.enable_nrt  # of a copy, for this function alone
        self.context.enable_nrt = False
        try:
            super().lower_inst(inst)
        finally:
            self.context.enable_nrt = counting
        if self._lends and name in self._returned and isinstance(inst, ir.Assign):
            kind, value = self.typeof(name), self._blk_local_varmap[name]
            value = _without_owner(self.context, self.builder, kind, value)
            self._blk_local_varmap[name] = value

    def _is_natural(self, value):
        """Whether it is a number of a range that starts at 0 or above and goes up."""
        if isinstance(value, ir.Var):
            return value.name in self._natural
        counts = isinstance(value, ir.Expr) and value.op == "pair_first"
        return counts and self.loadvar(value.value.name) in self._ranges

    # ------------------------------------------------------------------------- elements of arrays

    def _indices(self, kind, index):
        """Numbers that lead to an element or a row of an array; None if that is not simple."""
        index_kind = self.typeof(index.name)
        tupled = isinstance(index_kind, types.BaseTuple)
        kinds = tuple(index_kind) if tupled else (index_kind,)
        simple = _has_no_gaps(kind) and not self.context.enable_boundscheck
        if not simple or not 0 < len(kinds) <= kind.ndim:
            return None
        if not all(isinstance(k, types.Integer) for k in kinds):
            return None
        value = self.loadvar(index.name)
        values = cgutils.unpack_tuple(self.builder, value, len(kinds)) if tupled else [value]
        names = [index.name]
        if tupled:
            made = self._set_to.get(index.name)
            built = isinstance(made, ir.Expr) and made.op == "build_tuple"
            names = [v.name for v in made.items] if built else [None] * len(kinds)
        return list(zip(names, kinds, values, strict=True))

    def _place(self, array, kind, indices):
        """The address of an element or a row, and the sides of what is there."""
        build = self.builder
        sides = [build.extract_value(array, (SHAPE, i)) for i in range(kind.ndim)]
        at = None
        for side, (name, index_kind, index) in zip(sides, indices, strict=False):
            signed = index_kind.signed
            index = self.context.cast(
                build, index, index_kind, types.intp if signed else types.uintp
            )
            known = isinstance(index, Constant) and index.constant >= 0
            if signed and not known and name not in self._natural:
                negative = build.icmp_signed("<", index, index.type(0))
                index = build.select(negative, build.add(index, side), index)
            at = index if at is None else build.add(build.mul(at, side), index)
        left = sides[len(indices) :]
        for side in left:
            at = build.mul(at, side)
        return build.gep(build.extract_value(array, DATA), [at]), left

    def lower_getitem(self, resty, expr, value, index, signature):
        kind = self.typeof(value.name)
        indices = self._indices(kind, index)
        view = indices is not None and len(indices) < kind.ndim
        # A view of what is counted, or that Python takes, must know its owner.
        if indices is None or (view and (self.context.enable_nrt or self._returns_arrays)):
            return super().lower_getitem(resty, expr, value, index, signature)
        place, sides = self._place(self.loadvar(value.name), kind, indices)
        found = signature.return_type
        if view:
            item = _array(self.builder, found, self.context.get_value_type(found), place, sides)
        else:
            item = load_item(self.context, self.builder, kind, place)
        return self.context.cast(self.builder, item, found, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        kind, value_kind = self.typeof(target_var.name), self.typeof(value_var.name)
        indices = self._indices(kind, index_var)
        number = isinstance(value_kind, (types.Number, types.Boolean))
        if indices is None or len(indices) < kind.ndim or not number:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.loadvar(value_var.name)
        for one, other in ((value_kind, signature.args[2]), (signature.args[2], kind.dtype)):
            value = self.context.cast(self.builder, value, one, other)
        place, _ = self._place(self.loadvar(target_var.name), kind, indices)
        store_item(self.context, self.builder, kind, value, place)
        return None

    # ------------------------------------------------------------------------------------- ranges

    def lower_expr(self, resty, expr):
        lower = getattr(self, f"_lower_{expr.op}", None)
        found = lower(resty, expr) if lower is not None else None
        return super().lower_expr(resty, expr) if found is None else found

    def _lower_getattr(self, resty, expr):
        if _has_no_gaps(self.typeof(expr.value.name)) and expr.attr == "shape":
            return self.builder.extract_value(self.loadvar(expr.value.name), SHAPE)
        return None

    def _lower_call(self, resty, expr):
        function = getattr(self.typeof(expr.func.name), "typing_key", None)
        if function is len and _has_no_gaps(self.typeof(expr.args[0].name)):
            length = self.builder.extract_value(self.loadvar(expr.args[0].name), (SHAPE, 0))
            return self.context.cast(self.builder, length, types.intp, resty)
        if function is not range or expr.kws or expr.vararg:
            return None
        one = self.context.get_constant(resty.dtype, 1)
        ends = [
            self.context.cast(self.builder, self.loadvar(v.name), self.typeof(v.name), resty.dtype)
            for v in expr.args
        ]
        start, stop, *step = ends if len(ends) > 1 else [one.type(0), *ends]
        state = self.context.get_value_type(resty)(None)
        for i, part in enumerate((start, stop, *(step or [one]))):
            state = self.builder.insert_value(state, part, i)
        self._ranges[state] = (start, stop, *(step or [one]))
        return state

    def _lower_getiter(self, resty, expr):
        parts = self._ranges.get(self.loadvar(expr.value.name))
        if parts is None or not isinstance(parts[2], Constant) or parts[2].constant == 0:
            return None
        build, (start, stop, step) = self.builder, parts
        up = step.constant > 0
        size = step.type(abs(step.constant))
        distance = build.sub(stop, start) if up else build.sub(start, stop)
        left = build.icmp_signed(">", distance, step.type(0))
        if size.constant > 1:
            distance = build.sdiv(build.add(distance, build.sub(size, step.type(1))), size)
        count = cgutils.alloca_once(build, step.type)
        build.store(build.select(left, distance, step.type(0)), count)
        at = cgutils.alloca_once(build, step.type)
        build.store(start, at)
        iterator = self.context.get_value_type(resty)(None)
        for i, part in enumerate((at, stop, step, count)):
            iterator = build.insert_value(iterator, part, i)
        if up and isinstance(start, Constant) and start.constant >= 0:
            self._ranges[iterator] = parts
        return iterator

    def _lower_iternext(self, resty, expr):
        if not isinstance(self.typeof(expr.value.name), types.RangeIteratorType):
            return None
        build, iterator = self.builder, self.loadvar(expr.value.name)
        at, step, count = (build.extract_value(iterator, i) for i in (0, 2, 3))
        left, value = build.load(count), build.load(at)
        build.store(build.sub(left, left.type(1)), count)
        build.store(build.add(value, step), at)
        more = build.icmp_signed(">", left, left.type(0))
        pair = self.context.get_value_type(resty)(None)
        for i, part in enumerate((value, more)):
            pair = build.insert_value(pair, part, i)
        if iterator in self._ranges:
            self._ranges[pair] = self._ranges[iterator]
        return pair


@register_pass(mutates_CFG=True, analysis_only=False)
class FrugalLowering(BaseNativeLowering):
    """The pass that writes a function's instructions."""

    _name = "frugal_lowering"

    @property
    def lowering_class(self):
        return Frugal
