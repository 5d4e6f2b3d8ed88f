"""How Python enters a kernel, and how numba knows what was compiled.

A kernel is given tuples of dozens of arrays. Numba would take each of them apart by functions that
count references; as it has looked at the types of all arguments before, it is enough to read where
an array has its data and its sides.
"""

import hashlib
import itertools

from llvmlite import ir
from numba.core import types
from numba.core.funcdesc import PythonFunctionDescriptor, default_mangler
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype, from_dtype

from robustruct.kernels._kinds import (
    BOOL,
    INT,
    NOTHING,
    NUMBERS,
    REGISTERS,
    Array,
    Number,
    Register,
    Tuple,
    Untranslatable,
    tuple_of,
)
from robustruct.kernels._translate import Program

OPAQUE = str(ir.IntType(8).as_pointer()) == "ptr"

# ----------------------------------------------------------------------------------------- kinds


def kind_of(type_, program):
    """The kind of values of one of numba's types."""
    type_ = types.unliteral(type_)
    if type_ is types.none:
        return NOTHING
    if isinstance(type_, types.BaseTuple):
        fields = tuple(kind_of(field, program) for field in type_)
        return tuple_of(fields, getattr(type_, "instance_class", tuple))
    if type(type_) is types.Array and type_.layout == "C" and type_.ndim > 0 and type_.aligned:
        return program.array(_number(type_.dtype), type_.ndim, type_.mutable)
    if isinstance(type_, (types.Integer, types.Float, types.Boolean)):
        return _number(type_)
    if hasattr(type_, "dtype") and type(type_).__name__ == "Eight":
        return REGISTERS[_number(type_.dtype)]
    raise Untranslatable(f"an argument of type {type_}")


def _number(type_):
    try:
        return NUMBERS[as_dtype(type_)]
    except (KeyError, NotImplementedError):
        raise Untranslatable(f"numbers of type {type_}") from None


def type_of(kind):
    """Numba's type for a kind."""
    if kind is NOTHING:
        return types.none
    if isinstance(kind, Number):
        return from_dtype(kind.dtype)
    if isinstance(kind, Array):
        return types.Array(from_dtype(kind.item.dtype), kind.n_sides, "C", not kind.mutable)
    if isinstance(kind, Register):
        from robustruct.kernels.registers import EIGHTS

        return EIGHTS[from_dtype(kind.item.dtype)]
    fields = tuple(map(type_of, kind.fields))
    return types.Tuple(fields) if kind.maker is tuple else types.NamedTuple(fields, kind.maker)


# ------------------------------------------------------------------------------------- extensions


class Extension:
    """The code of one of numba's extensions, as a function that is always inlined."""

    fails, lends, calls = False, False, ()

    def __init__(self, program, extension, kinds, name):
        context, self.name = cpu_target.target_context, name
        found, code = extension._defn(cpu_target.typing_context, *map(type_of, kinds))
        self.arguments = [kind_of(type_, program) for type_ in found.args]
        self.result = kind_of(found.return_type, program)
        module = ir.Module()
        given = [context.get_value_type(type_) for type_ in found.args]
        self.types = list(map(str, given))
        nothing = self.result is NOTHING
        result = ir.VoidType() if nothing else context.get_value_type(found.return_type)
        function = ir.Function(module, ir.FunctionType(result, given), name)
        function.linkage = "internal"
        builder = ir.IRBuilder(function.append_basic_block())
        value = code(context, builder, found, list(function.args))
        builder.ret_void() if nothing else builder.ret(value)
        self.small = "optsize" in function.attributes
        function.attributes.add("alwaysinline")
        self.text = str(function)
        self.declared = {
            other.name: str(other) for other in module.functions if other is not function
        }

    def type(self):
        """The type of what it returns."""
        return self.result.parts[0] if self.result.parts else "void"


# ------------------------------------------------------------------------------------------ entry

_HEAD, _FIELDS = object.__basicsize__, tuple.__basicsize__  # bytes before what an object holds


class _Entry:
    """The function that Python calls."""

    def __init__(self, program, kernel):
        self._program, self._kernel = program, kernel
        self._object, self._lines, self._count = program.pointer("i8"), [], 0

    def _new(self, line):
        self._count += 1
        self._lines.append(f"%v{self._count} = {line}")
        return f"%v{self._count}"

    def _call(self, result, name, *given):
        """A function of Python's."""
        kinds = [argument.rpartition(" ")[0] for argument in given]
        function = self._program.declare(result, name, kinds)
        line = f"call {result} {function}({', '.join(given)})"
        return self._lines.append(line) if result == "void" else self._new(line)

    def _read(self, owner, offset, type_):
        """What is some bytes behind the begin of an object."""
        pointer = self._program.pointer(type_)
        place = self._new(f"getelementptr i8, {self._object} {owner}, i64 {offset}")
        place = self._new(f"bitcast {self._object} {place} to {pointer}")
        return self._new(f"load {type_}, {pointer} {place}")

    def _parts(self, kind, owner):
        """The parts of an argument."""
        if isinstance(kind, Tuple):
            fields = [
                self._parts(field, self._read(owner, _FIELDS + 8 * i, self._object))
                for i, field in enumerate(kind.fields)
            ]
            return [part for field in fields for part in field]
        if isinstance(kind, Array):
            data = self._read(owner, _HEAD, kind.parts[0])
            sides = self._read(owner, _HEAD + 16, self._object)
            return [data, *(self._read(sides, 8 * i, "i64") for i in range(kind.n_sides))]
        return [] if kind is NOTHING else [self._number(kind, owner)]

    def _number(self, kind, owner):
        argument = f"{self._object} {owner}"
        if kind is BOOL:
            return self._new(f"icmp sgt i32 {self._call('i32', 'PyObject_IsTrue', argument)}, 0")
        if kind.floats:
            number = self._call("double", "PyFloat_AsDouble", argument)
            return self._new(f"fptrunc double {number} to float") if kind.size == 4 else number
        if kind.family == "uint":
            raise Untranslatable("a number without a sign as an argument")
        number = self._call("i64", "PyLong_AsLongLong", argument)
        return number if kind is INT else self._new(f"trunc i64 {number} to {kind.code}")

    def _boxed(self, kind, parts):
        """A result as Python has it."""
        if isinstance(kind, Tuple):
            made = self._call(self._object, "PyTuple_New", f"i64 {len(kind.fields)}")
            for i, field in enumerate(kind.fields):
                one = self._boxed(field, [parts.pop(0) for _ in field.parts])
                given = (f"{self._object} {made}", f"i64 {i}", f"{self._object} {one}")
                self._call("i32", "PyTuple_SetItem", *given)
            return made
        if kind is NOTHING:
            self._call("void", "Py_IncRef", f"{self._object} @_Py_NoneStruct")
            return "@_Py_NoneStruct"
        if not isinstance(kind, Number):
            raise Untranslatable(f"{kind} as a result")
        (part,) = parts
        if kind is BOOL:
            number = self._new(f"zext i1 {part} to i64")
            return self._call(self._object, "PyBool_FromLong", f"i64 {number}")
        if kind.floats:
            if kind.size == 4:
                part = self._new(f"fpext float {part} to double")
            return self._call(self._object, "PyFloat_FromDouble", f"double {part}")
        if kind.size < 8:
            extend = "sext" if kind.family == "int" else "zext"
            part = self._new(f"{extend} {kind.code} {part} to i64")
        name = "PyLong_FromLongLong" if kind.family == "int" else "PyLong_FromUnsignedLongLong"
        return self._call(self._object, name, f"i64 {part}")

    def text(self, name):
        """The code of the entry."""
        kernel, object_ = self._kernel, self._object
        whole = tuple_of(kernel.arguments)
        parts = self._parts(whole, "%arguments")
        bad = self._call(object_, "PyErr_Occurred")
        bad = self._new(f"icmp ne {object_} {bad}, null")
        self._lines += [f"br i1 {bad}, label %refused, label %run", "run:"]
        thread = self._call(object_, "PyEval_SaveThread")
        passed = ", ".join(f"{whole.parts[i]} {parts[i]}" for i in kernel.used)
        call = f'call {kernel.type()} @"{kernel.name}"({passed})'
        n_parts = len(kernel.result.parts) + kernel.fails
        found = []
        if n_parts == 0:
            self._lines.append(call)
        else:
            result = self._new(call)
            fields = [f"extractvalue {kernel.type()} {result}, {i}" for i in range(n_parts)]
            found = [result] if n_parts == 1 else [self._new(field) for field in fields]
        self._call("void", "PyEval_RestoreThread", f"{object_} {thread}")
        failed = found.pop(0) if kernel.fails else "false"
        self._lines += [f"br i1 {failed}, label %no_memory, label %done", "done:"]
        self._lines.append(f"ret {object_} {self._boxed(kernel.result, found)}")
        self._lines.append("no_memory:")
        self._call(object_, "PyErr_NoMemory")
        self._lines += ["br label %refused", "refused:", f"ret {object_} null"]
        given = f"{object_} %self, {object_} %arguments, {object_} %names"
        body = "\n".join(self._lines)
        return (
            "@_Py_NoneStruct = external global i8\n"
            f'define {object_} @"{name}"({given}) nounwind {{\n{body}\n}}\n'
        )


# ---------------------------------------------------------------------------------------- results

_NUMBERS = itertools.count(1)


def _mangled(name, arguments, *, abi_tags, uid):
    """A name for the code of a function: functions made in one place may be many."""
    digest = hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]
    return default_mangler(f"{name}.{digest}", (), abi_tags=abi_tags, uid=uid)


def translated(function, quick, arguments):
    """The code of a kernel for some types of arguments, and its descriptor for numba."""
    program = Program(OPAQUE, Extension)
    kinds = tuple(kind_of(type_, program) for type_ in arguments)
    kernel = program.function(function, quick, False, kinds)
    descriptor = PythonFunctionDescriptor(
        native=True,
        modname=function.__module__,
        qualname=function.__qualname__,
        unique_name=function.__qualname__,
        doc=function.__doc__ or "",
        typemap={},
        restype=type_of(kernel.result),
        calltypes={},
        args=kernel.source.arguments,
        kws=(),
        argtypes=tuple(arguments),
        mangler=_mangled,
        uid=next(_NUMBERS),
    )
    entry = _Entry(program, kernel).text(descriptor.llvm_cpython_wrapper_name)
    pointer = program.pointer("i8")
    environment = f'@"{descriptor.env_name}" = global {pointer} null\n'
    return program.text(kernel) + entry + environment, descriptor
