"""Writes a function of a kernel: one walk over its syntax tree."""

import ast
import operator

import numpy as np

from robustruct.kernels._code import Code, is_array
from robustruct.kernels._kinds import (
    BOOL,
    INT,
    NOTHING,
    NUMBERS,
    SINGLE,
    UINT,
    Array,
    Known,
    Tuple,
    Untranslatable,
    Value,
    joined,
    together,
    value_of,
    wide,
)

# What is computed beforehand if both sides are known integers.
_FOLDED = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
}

_FUNCTIONS = {np.log: "log", np.exp: "exp", np.sqrt: "sqrt"}


class Writer(Code):
    """Writes a function, given what is known of it so far."""

    def __init__(self, function):
        super().__init__(function.program, function.quick)
        self.function, self.source = function, function.source
        self.bound = {}  # variables that are set once, where that comes before their use
        self.gone = {}  # such variables after the block in which they were set
        self.variables = {}  # those in memory
        self.loops = []  # where `continue` and `break` lead

    def write(self):
        """The whole function."""
        n_parts = 0
        for name, kind in zip(self.source.arguments, self.function.arguments, strict=True):
            names = tuple(f"%p{i}" for i in range(n_parts, n_parts + len(kind.parts)))
            n_parts += len(kind.parts)
            self.set(name, Known(None) if kind is NOTHING else Value(kind, names))
        self.statements(self.source.tree.body)
        if not self.block.ended:
            self.leave(Value(NOTHING, ()))

    # ------------------------------------------------------------------------------- variables

    def set(self, name, value):
        """name = value."""
        if name not in self.source.loaded:
            return
        if name not in self.function.in_memory:
            self.bound[name] = value
            return
        value, kinds = value_of(value), self.function.kinds
        kind = joined(kinds.get(name, value.kind), value.kind)
        if kinds.get(name) is not kind:
            # The first time in a first run nothing has been written for another kind.
            self.function.changed |= name in kinds
            kinds[name] = kind
        if name not in self.variables or self.variables[name][0] is not kind:
            self.variables[name] = kind, [self.slot(part) for part in kind.parts]
        value = self.cast(value, kind)
        for type_, part, slot in zip(kind.parts, value.parts, self.variables[name][1], strict=True):
            self.store(type_, part, slot)

    def get_variable(self, name):
        if name in self.bound:
            return self.bound[name]
        if name not in self.source.local:
            return Known(self.source.lookup(name))
        if name in self.variables:
            kind, slots = self.variables[name]
            parts = map(self.load, kind.parts, slots)
            return Value(kind, tuple(parts))
        if name not in self.gone:
            raise Untranslatable(f"{name} is used before it is set")
        self.function.in_memory.add(name)
        self.function.changed = True
        return self.gone[name]

    def inside(self, statements):
        """Statements of a block of their own: what they set may not be there after it."""
        before = dict(self.bound)
        self.statements(statements)
        self.gone.update(self.bound)
        self.bound = before

    # ------------------------------------------------------------------------------ statements

    def statements(self, statements):
        for statement in statements:
            if self.block.ended:
                return
            write = getattr(self, f"_do_{type(statement).__name__}", None)
            if write is None:
                raise Untranslatable(type(statement).__name__)
            write(statement)

    def _do_Pass(self, node):
        pass

    def _do_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _do_Assign(self, node):
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def assign(self, target, value):
        """Set a variable, several, or an element."""
        if isinstance(target, ast.Name):
            self.set(target.id, value)
        elif isinstance(target, ast.Tuple):
            for one, part in zip(target.elts, self.fields(value), strict=True):
                self.assign(one, part)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, value)
        else:
            raise Untranslatable(f"assigning to {type(target).__name__}")

    def fields(self, value):
        """The values that a tuple is made of."""
        if isinstance(value, list):
            return value
        if isinstance(value, Known) and isinstance(value.thing, tuple):
            return [Known(part) for part in value.thing]
        if isinstance(value, Value) and isinstance(value.kind, Tuple):
            return [value[i] for i in range(len(value.kind.fields))]
        raise Untranslatable("unpacking what is no tuple")

    def set_item(self, target, value):
        array, place, sides = self.target_place(target)
        if not sides:
            self.put(array.kind.item, place, value)
        elif is_array(value):
            self.copy(value, self.view(array, place, sides))
        else:
            self.fill(self.view(array, place, sides), value)

    def target_place(self, target):
        """An array that is written to, and what `item_place` finds in it."""
        array = self.value(target.value)
        if not is_array(array) or not array.kind.mutable:
            raise Untranslatable("writing to what is no array, or may only be read")
        return array, *self.item_place(array, target.slice)

    def _do_AugAssign(self, node):
        operation, target = type(node.op).__name__, node.target
        if isinstance(target, ast.Name):
            left = self.get_variable(target.id)
            self.set(target.id, self.operate(node.op, left, self.value(node.value)))
            return
        array, place, sides = self.target_place(target)
        if sides:
            raise Untranslatable(f"{operation} on a whole array")
        left = self.get(array.kind.item, place)
        self.put(array.kind.item, place, self.operate(node.op, left, self.value(node.value)))

    def _do_If(self, node):
        static = self.static(node.test)
        if static is not None:
            self.statements(node.body if static else node.orelse)
            return
        yes, no, after = self.place(), self.place(), self.place()
        self.condition(node.test, yes, no)
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.start(block)
            self.inside(statements)
            self.jump(after)
        self.start(after)

    def _do_While(self, node):
        head, body, after = self.place(), self.place(), self.place()
        self.jump(head)
        self.start(head)
        static = self.static(node.test)
        if static is None:
            self.condition(node.test, body, after)
        else:
            self.jump(body if static else after)
        self.start(body)
        self.loops.append((head, after))
        self.inside(node.body)
        self.loops.pop()
        self.jump(head)
        self.start(after)
        if node.orelse:
            raise Untranslatable("while ... else")

    def _do_For(self, node):
        if node.orelse:
            raise Untranslatable("for ... else")
        call = node.iter
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
        ):
            ends = [value_of(self.value(argument)) for argument in call.args]
            self.loop(ends, node, lambda at: at)
            return
        array = self.value(call)
        if not is_array(array) or array.kind.n_sides != 1:
            raise Untranslatable("a loop over what is neither a range nor an array")
        item = array.kind.item
        self.loop([self.side(array, 0)], node, lambda at: self.get(item, self.element(array, [at])))

    def loop(self, ends, node, element):
        """Statements for every number of a range, and what belongs to it."""
        start, stop = ends[:2] if len(ends) > 1 else (value_of(Known(0)), ends[0])
        step = self.cast(ends[2], INT).parts[0] if len(ends) == 3 else "1"
        known, up = step.lstrip("-").isdigit(), not step.startswith("-")
        kind = UINT if start.kind is UINT or stop.kind is UINT else INT
        if any(end.kind.floats for end in ends):
            raise Untranslatable("a range of fractions")
        natural = start.natural and known and up
        (start,), (stop,) = self.cast(start, kind).parts, self.cast(stop, kind).parts
        before, head, body = self.block, self.place(), self.place()
        following, after = self.place(), self.place()
        self.jump(head)
        self.start(head)
        at = self.new("")  # once it is known where the loop comes back from
        sign = "u" if kind is UINT else "s"
        more = self.new(f"icmp {sign}{'lt' if up else 'gt'} i64 {at}, {stop}")
        if not known:
            less = self.new(f"icmp sgt i64 {at}, {stop}")
            down = self.new(f"icmp slt i64 {step}, 0")
            more = self.new(f"select i1 {down}, i1 {less}, i1 {more}")
        self.branch(more, body, after)
        self.start(body)
        self.loops.append((following, after))
        outside = dict(self.bound)
        self.assign(node.target, element(Value(kind, (at,), natural)))
        self.inside(node.body)
        self.gone.update(self.bound)
        self.bound = outside
        self.loops.pop()
        self.jump(following)
        self.start(following)
        sign = "nsw " if kind is INT else ""
        ends = f"[{start}, %{before.label}]"
        if following.reached:
            ends += f", [{self.new(f'add {sign}i64 {at}, {step}')}, %{following.label}]"
        self.jump(head)
        if head.lines:
            head.lines[0] = f"{at} = phi i64 {ends}"
        self.start(after)

    def _do_Continue(self, node):
        self.jump(self.loops[-1][0])

    def _do_Break(self, node):
        self.jump(self.loops[-1][1])

    def _do_Return(self, node):
        value = Value(NOTHING, ()) if node.value is None else self.value(node.value)
        self.leave(value_of(value))

    def leave(self, value):
        """Return a value."""
        function = self.function
        kind = value.kind
        if function.result is not None:
            kind = joined(function.result, kind)
        if function.result is not None or kind is not NOTHING:
            function.found("result", kind)
        value = self.cast(value, kind)
        self._end_with("false", value)

    def _end_with(self, failed, value):
        function = self.function
        if function.makes and not function.lends:
            self.do(f"call void @{self.program.runtime('release')}({self._heap()})")
        kinds = (*["i1"] * function.fails, *value.kind.parts)
        parts = (*[failed] * function.fails, *value.parts)
        if not kinds:
            self.end("ret void")
        elif len(kinds) == 1:
            self.end(f"ret {kinds[0]} {parts[0]}")
        else:
            whole, type_ = "undef", f"{{{', '.join(kinds)}}}"
            for i, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
                whole = self.new(f"insertvalue {type_} {whole}, {kind} {part}, {i}")
            self.end(f"ret {type_} {whole}")

    def _heap(self):
        return f"{self.pointer(self.pointer('i8'))} %heap"

    def fail_if(self, failed):
        """Return at once, and so all callers, when memory has run out."""
        self.function.found("fails", True)
        bad, good = self.place(), self.place()
        self.branch(failed, bad, good)
        self.start(bad)
        kind = self.function.result or NOTHING
        self._end_with("true", Value(kind, ("undef",) * len(kind.parts)))
        self.start(good)

    # ------------------------------------------------------------------------------ conditions

    def static(self, node):
        """Whether a condition holds, if that is known before the kernel runs."""
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.static(node.operand)
            return None if inner is None else not inner
        is_ = isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot))
        if is_:
            left, right = self.value(node.left), self.value(node.comparators[0])
            if not isinstance(right, Known) or right.thing is not None:
                raise Untranslatable("`is` of something else than None")
            nothing = isinstance(left, Known) and left.thing is None
            return nothing == isinstance(node.ops[0], ast.Is)
        if isinstance(node, ast.BoolOp):
            parts = [self.static(part) for part in node.values]
            ends = isinstance(node.op, ast.Or)
            if ends in parts:
                return ends
            return None if None in parts else not ends
        return None

    def condition(self, node, yes, no):
        """Go on at one of two places."""
        static = self.static(node)
        if static is not None:
            self.jump(yes if static else no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.condition(node.operand, no, yes)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            left = self.value(node.left)
            for operation, side in zip(node.ops, node.comparators, strict=True):
                right, following = self.value(side), self.place()
                holds = self.compare(type(operation).__name__, left, right)
                self.branch(holds.parts[0], following, no)
                self.start(following)
                left = right
            self.jump(yes)
        elif isinstance(node, ast.BoolOp):
            *first, last = [part for part in node.values if self.static(part) is None]
            for part in first:
                following = self.place()
                if isinstance(node.op, ast.And):
                    self.condition(part, following, no)
                else:
                    self.condition(part, yes, following)
                self.start(following)
            self.condition(last, yes, no)
        else:
            self.branch(self.truth(self.value(node)), yes, no)

    # ----------------------------------------------------------------------------- expressions

    def value(self, node):
        """The value of an expression: a `Value`, something `Known`, or a list for a tuple."""
        write = getattr(self, f"_of_{type(node).__name__}", None)
        if write is None:
            raise Untranslatable(type(node).__name__)
        return write(node)

    def _of_Constant(self, node):
        return Known(node.value)

    def _of_Name(self, node):
        return self.get_variable(node.id)

    def _of_Tuple(self, node):
        return [self.value(element) for element in node.elts]

    def _of_Attribute(self, node):
        owner, name = self.value(node.value), node.attr
        if isinstance(owner, Known):
            return Known(getattr(owner.thing, name))
        kind = owner.kind
        if isinstance(kind, Tuple) and name in kind.names:
            return owner[kind.names.index(name)]
        if isinstance(kind, Array):
            if name == "shape":
                return [self.side(owner, i) for i in range(kind.n_sides)]
            if name == "size":
                return self.size(owner)
            if name == "dtype":
                return Known(kind.item.dtype)
        raise Untranslatable(f".{name} of {kind}")

    def _of_Subscript(self, node):
        owner = self.value(node.value)
        if is_array(owner):
            place, sides = self.item_place(owner, node.slice)
            if sides:
                return self.view(owner, place, sides)
            return self.get(owner.kind.item, place)
        index = self.value(node.slice)
        if not isinstance(index, Known):
            raise Untranslatable("a field whose number is not known")
        return self.fields(owner)[index.thing]

    def item_place(self, array, node):
        """The address that indices lead to, and the sides of the array that begins there."""
        indices = node.elts if isinstance(node, ast.Tuple) else [node]
        kind, sides = array.kind, array.parts[1:]
        while indices and isinstance(indices[-1], ast.Slice) and self._is_all(indices[-1]):
            indices = indices[:-1]
        if any(isinstance(index, ast.Slice) for index in indices[:-1]):
            raise Untranslatable("an array with gaps")
        if not indices:
            return array.parts[0], sides
        *before, last = indices
        if not isinstance(last, ast.Slice):
            places = [self.value(index) for index in indices]
            if any(isinstance(place, list) or is_array(place) for place in places):
                raise Untranslatable("an index that is no number")
            if len(places) > kind.n_sides:
                raise Untranslatable("too many indices")
            return self.element(array, places), sides[len(places) :]
        if last.step is not None:
            raise Untranslatable("a slice with steps")
        if before:
            place, sides = (
                self.element(array, [self.value(one) for one in before]),
                sides[len(before) :],
            )
            array = self.view(array, place, sides)
        ends = [None if end is None else self.value(end) for end in (last.lower, last.upper)]
        begin, length = self.bounded(*ends, sides[0])
        if begin != "0":
            begin = self.element(array, [Value(INT, (begin,), True)])
        else:
            begin = array.parts[0]
        return begin, (length, *sides[1:])

    def _is_all(self, node):
        return node.lower is None and node.upper is None and node.step is None

    def _of_BinOp(self, node):
        return self.operate(node.op, self.value(node.left), self.value(node.right))

    def operate(self, operation, left, right):
        """left + right, and the like."""
        fold = _FOLDED.get(type(operation))
        known = isinstance(left, Known) and isinstance(right, Known)
        if fold and known and type(left.thing) is type(right.thing) is int:
            return Known(fold(left.thing, right.thing))
        if isinstance(left, list) or isinstance(right, list):
            raise Untranslatable("tuples put together")
        if isinstance(operation, ast.Pow):
            return self.power(left, right)
        return self.arithmetic(type(operation).__name__, left, right)

    def _of_UnaryOp(self, node):
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            known = isinstance(value, Known) and isinstance(value.thing, (int, float, np.floating))
            return Known(-value.thing) if known else self.negative(value)
        if isinstance(node.op, ast.Not):
            return Value(BOOL, (self.new(f"xor i1 {self.truth(value)}, true"),))
        if isinstance(node.op, ast.Invert):
            ones = Known(True) if value_of(value).kind is BOOL else Known(-1)
            return self.arithmetic("BitXor", value, ones)
        raise Untranslatable(type(node.op).__name__)

    def _of_Compare(self, node):
        if len(node.ops) > 1:
            return self._of_BoolOp(node)
        static = self.static(node)
        if static is not None:
            return Known(static)
        left, right = self.value(node.left), self.value(node.comparators[0])
        return self.compare(type(node.ops[0]).__name__, left, right)

    def _of_BoolOp(self, node):
        yes, no, after = self.place(), self.place(), self.place()
        self.condition(node, yes, no)
        for block in (yes, no):
            self.start(block)
            self.jump(after)
        self.start(after)
        ends = f"[true, %{yes.label}], [false, %{no.label}]"
        return Value(BOOL, (self.new(f"phi i1 {ends}"),))

    def _of_IfExp(self, node):
        static = self.static(node.test)
        if static is not None:
            return self.value(node.body if static else node.orelse)
        yes, no, after = self.place(), self.place(), self.place()
        self.condition(node.test, yes, no)
        found = []
        for block, part in ((yes, node.body), (no, node.orelse)):
            self.start(block)
            found += [value_of(self.value(part)), self.block]
        after.reached = not self.block.ended
        self.start(after)
        result = self.merged(*found)
        for block in (found[1], found[3]):
            self.block = block
            self.jump(after)
        self.block = after
        return result

    # ----------------------------------------------------------------------------------- calls

    def _of_Call(self, node):
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise Untranslatable("arguments with names")
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if is_array(owner):
                return self.method(owner, node.func.attr, node.args)
        function = self.value(node.func)
        if not isinstance(function, Known):
            raise Untranslatable("calling a value")
        return self.call(function.thing, [self.value(argument) for argument in node.args])

    def call(self, function, given):
        """What a function returns."""
        if hasattr(function, "py_func"):
            return self.call_function(function, [value_of(value) for value in given])
        if hasattr(function, "_defn"):
            return self.call_intrinsic(function, [value_of(value) for value in given])
        if isinstance(function, type):
            return self.make(function, given)
        if function is len:
            return self.length(*given)
        if function is max or function is min:
            return self.extreme("Gt" if function is max else "Lt", given)
        if function is abs:
            return self.absolute(*given)
        if function in _FUNCTIONS:
            value = value_of(given[0])
            if value.kind is not SINGLE:
                value = self.cast(value, wide(NUMBERS[np.dtype(float)]))
            return self.intrinsic(_FUNCTIONS[function], value)
        if function is np.isfinite:
            return self.is_finite(value_of(*given))
        make = {np.empty: None, np.zeros: 0, np.ones: 1}
        if function in make:
            return self.new_array(given[0], make[function], *given[1:])
        if function is np.full:
            kind = given[2:] or [Known(value_of(given[1]).kind.dtype)]
            return self.new_array(given[0], given[1], *kind)
        if function in (np.empty_like, np.zeros_like):
            sides = [self.side(given[0], i) for i in range(given[0].kind.n_sides)]
            fill = 0 if function is np.zeros_like else None
            return self.new_array(sides, fill, Known(given[0].kind.item.dtype))
        if hasattr(function, "symbol"):
            result = self.program.declare("i32", function.symbol, [])
            self.do(f"call i32 {result}()")
            return Known(None)
        raise Untranslatable(f"{function!r}")

    def make(self, class_, given):
        """A number of some kind, or a named tuple."""
        if issubclass(class_, tuple) and hasattr(class_, "_fields"):
            return together(given, class_)
        try:
            kind = NUMBERS[np.dtype(class_)]
        except (KeyError, TypeError):
            raise Untranslatable(f"{class_!r}") from None
        (value,) = given
        if isinstance(value, Known) and isinstance(value.thing, (int, float, np.generic)):
            return Known(kind.dtype.type(value.thing))
        return self.cast(value, kind)

    def length(self, value):
        if is_array(value):
            return self.side(value, 0)
        return Known(len(self.fields(value)))

    def is_finite(self, value):
        (x,), code = value.parts, value.kind.code
        difference = self.new(f"fsub {code} {x}, {x}")
        return Value(BOOL, (self.new(f"fcmp ord {code} {difference}, {difference}"),))

    def method(self, array, name, given):
        """What a method of an array returns."""
        if name in ("sum", "max", "min") and not given:
            return self.reduced(array, name)
        if name == "copy" and not given:
            sides = [self.side(array, i) for i in range(array.kind.n_sides)]
            made = self.new_array(sides, None, Known(array.kind.item.dtype))
            self.copy(array, made)
            return made
        if name == "reshape":
            (sides,) = [self.value(one) for one in given] if len(given) == 1 else [given]
            sides = sides if isinstance(sides, list) else [sides]
            sides = [self.cast(side, INT).parts[0] for side in sides]
            return self.view(array, array.parts[0], sides)
        raise Untranslatable(f".{name} of an array")

    def new_array(self, sides, fill, dtype=None):
        """An array that is freed when the function returns, or its caller."""
        self.function.found("makes", True)
        sides = sides if isinstance(sides, list) else [sides]
        item = NUMBERS.get(np.dtype(float if dtype is None else dtype.thing))
        if item is None:
            raise Untranslatable(f"an array of {dtype.thing}")
        sides = [self.cast(side, INT).parts[0] for side in sides]
        kind = self.program.array(item, len(sides))
        size = self.size(Value(kind, ("null", *sides))).parts[0]
        size = self.new(f"mul i64 {size}, {item.size}")
        byte = self.pointer("i8")
        obtain = self.program.runtime("obtain")
        memory = self.new(f"call {byte} @{obtain}({self._heap()}, i64 {size})")
        self.fail_if(self.new(f"icmp eq {byte} {memory}, null"))
        data = self.new(f"bitcast {byte} {memory} to {self.pointer(item.memory)}")
        made = Value(kind, (data, *sides))
        if fill is not None:
            self.fill(made, fill if isinstance(fill, (Known, Value)) else Known(fill))
        return made

    def call_function(self, dispatcher, given):
        """What a helper returns."""
        options, kinds = dispatcher.targetoptions, tuple(value.kind for value in given)
        quick, inlined = bool(options.get("fastmath")), bool(options.get("forceinline"))
        callee = self.program.function(dispatcher.py_func, quick, inlined, kinds)
        self.function.calls.append(callee)
        kinds = [part for value in given for part in value.kind.parts]
        parts = [part for value in given for part in value.parts]
        passed = [f"{kinds[i]} {parts[i]}" for i in callee.used]
        if callee.lends:
            self.function.found("makes", True)
            passed.append(self._heap())
        call = f'call {callee.type()} @"{callee.name}"({", ".join(passed)})'
        return self._taken(callee, call)

    def _taken(self, callee, call):
        """What a call returns; if it has failed, this function does."""
        result, type_, n_parts = callee.result, callee.type(), len(callee.result.parts)
        if n_parts + callee.fails == 0:
            self.do(call)
            return Value(NOTHING, ())
        whole = self.new(call)
        if n_parts + callee.fails == 1:
            parts = [whole]
        else:
            parts = [
                self.new(f"extractvalue {type_} {whole}, {i}")
                for i in range(n_parts + callee.fails)
            ]
        if callee.fails:
            self.fail_if(parts.pop(0))
        return Value(result, tuple(parts))

    def call_intrinsic(self, extension, given):
        """What an extension of numba's returns (kernels/registers.py, kernels/_atomic.py)."""
        callee = self.program.intrinsic(extension, tuple(value.kind for value in given))
        self.function.calls.append(callee)
        self.function.small |= callee.small
        passed = []
        for value, kind, type_ in zip(given, callee.arguments, callee.types, strict=True):
            value = (
                self.as_struct(value, type_) if is_array(value) else self.cast(value, kind).parts[0]
            )
            passed.append(f"{type_} {value}")
        call = f'call {callee.type()} @"{callee.name}"({", ".join(passed)})'
        return self._taken(callee, call)

    def as_struct(self, array, type_):
        """An array as numba has it, without an owner."""
        item, sides = array.kind.item, array.parts[1:]
        (data, *_), (pointer, *_) = array.parts, array.kind.parts
        whole, stride, strides = "zeroinitializer", str(item.size), []
        for side in reversed(sides):
            strides.insert(0, stride)
            stride = self.new(f"mul i64 {stride}, {side}")
        fields = [("i64", str(item.size), "3"), (pointer, data, "4")]
        fields += [("i64", side, f"5, {i}") for i, side in enumerate(sides)]
        fields += [("i64", stride, f"6, {i}") for i, stride in enumerate(strides)]
        for kind, part, place in fields:
            whole = self.new(f"insertvalue {type_} {whole}, {kind} {part}, {place}")
        return whole
