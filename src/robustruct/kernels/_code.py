"""LLVM's code for values of kernels, as text.

Variables that are set more than once are in memory, which LLVM turns into registers first of all.
Integers, comparisons and functions are those of numba, so that a kernel computes the same bits
whichever of the two compiles it.
"""

from contextlib import contextmanager

from robustruct.kernels._kinds import (
    BOOL,
    INT,
    NOTHING,
    REGISTERS,
    UINT,
    Array,
    Known,
    Number,
    Register,
    Tuple,
    Untranslatable,
    Value,
    common,
    joined,
    text,
    together,
    value_of,
    wide,
)

QUICK = "contract reassoc nsz arcp "

_INTEGERS = {"Add": "add", "Sub": "sub", "Mult": "mul"}
_FLOATS = {"Add": "fadd", "Sub": "fsub", "Mult": "fmul", "Div": "fdiv"}
_BITS = {"BitAnd": "and", "BitOr": "or", "BitXor": "xor"}
_ORDER = {"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq", "NotEq": "ne"}


class Block:
    """Instructions of which the last leads elsewhere."""

    __slots__ = ("ended", "label", "lines", "reached")

    def __init__(self, label):
        self.label, self.lines = label, []
        self.reached, self.ended = False, False  # by something before it; by its last instruction


class Code:
    """Writes the instructions of a function."""

    def __init__(self, program, quick):
        self.program = program
        self.flags = QUICK if quick else ""
        self.slots = []  # variables in memory
        self.blocks = []
        self._count = 0
        self.block = self.place()
        self.blocks.append(self.block)

    # ---------------------------------------------------------------------------- instructions

    def do(self, line):
        """An instruction without a result."""
        if not self.block.ended:
            self.block.lines.append(line)

    def new(self, line):
        """The result of an instruction."""
        self._count += 1
        name = f"%v{self._count}"
        if not self.block.ended:
            self.block.lines.append(f"{name} = {line}")
        return name

    def place(self):
        """A block to be started later."""
        self._count += 1
        return Block(f"b{self._count}")

    def start(self, block):
        """Go on with a block; nothing is written to one that cannot be reached."""
        self.block = block
        if block.reached:
            self.blocks.append(block)
        block.ended = not block.reached

    def end(self, line):
        """The last instruction of a block."""
        self.do(line)
        self.block.ended = True

    def jump(self, block):
        block.reached |= not self.block.ended
        self.end(f"br label %{block.label}")

    def branch(self, condition, yes, no):
        for block in (yes, no):
            block.reached |= not self.block.ended
        self.end(f"br i1 {condition}, label %{yes.label}, label %{no.label}")

    def slot(self, type_):
        """A variable in memory."""
        self._count += 1
        name = f"%s{self._count}"
        self.slots.append(f"{name} = alloca {type_}")
        return name

    def load(self, type_, place):
        return self.new(f"load {type_}, {self.pointer(type_)} {place}")

    def store(self, type_, value, place):
        self.do(f"store {type_} {value}, {self.pointer(type_)} {place}")

    def pointer(self, type_):
        """The type of addresses of a type."""
        return self.program.pointer(type_)

    @contextmanager
    def times(self, n):
        """A loop of n rounds around what is written meanwhile; yields the number of the round."""
        before, head, body, after = self.block, self.place(), self.place(), self.place()
        self.jump(head)
        self.start(head)
        self._count += 1
        following = f"%v{self._count}"
        line = len(head.lines)
        at = self.new("")
        self.branch(self.new(f"icmp slt i64 {at}, {n}"), body, after)
        self.start(body)
        yield at
        self.do(f"{following} = add nsw i64 {at}, 1")
        phi = f"phi i64 [0, %{before.label}], [{following}, %{self.block.label}]"
        if head.lines:
            head.lines[line] = f"{at} = {phi}"
        self.jump(head)
        self.start(after)

    # --------------------------------------------------------------------------------- numbers

    def cast(self, value, kind):
        """A value as another kind."""
        value = value_of(value)
        if value.kind is kind:
            return value
        if isinstance(kind, Tuple):
            fields = [self.cast(value[i], field) for i, field in enumerate(kind.fields)]
            return together(fields, kind.maker)
        if isinstance(kind, Array) and joined(kind, value.kind) is kind:
            return Value(kind, value.parts)
        if not (isinstance(kind, Number) and isinstance(value.kind, Number)):
            raise Untranslatable(f"{value.kind} as {kind}")
        (part,) = value.parts
        old, new = value.kind, kind
        if new is BOOL:
            return Value(BOOL, (self.truth(value),))
        if old.floats and new.floats:
            change = "fpext" if new.size > old.size else "fptrunc"
        elif old.floats:
            change = "fptoui" if new.family == "uint" else "fptosi"
        elif new.floats:
            change = "sitofp" if old.family == "int" else "uitofp"
        elif old.code == new.code:
            return Value(kind, value.parts, value.natural)
        elif old is not BOOL and new.size < old.size:
            change = "trunc"
        else:
            change = "sext" if old.family == "int" else "zext"
        result = self.new(f"{change} {old.code} {part} to {new.code}")
        return Value(kind, (result,), value.natural or old is BOOL)

    def truth(self, value):
        """Whether a number is not 0."""
        value = value_of(value)
        if not isinstance(value.kind, Number):
            raise Untranslatable(f"whether {value.kind} is true")
        (part,) = value.parts
        if value.kind is BOOL:
            return part
        compare = "fcmp une" if value.kind.floats else "icmp ne"
        return self.new(f"{compare} {value.kind.code} {part}, {text(value.kind, 0)}")

    def arithmetic(self, operation, a, b):
        """a + b, and the like."""
        a, b = value_of(a), value_of(b)
        if isinstance(a.kind, Register):
            return self._on_registers(operation, a, b)
        if not (isinstance(a.kind, Number) and isinstance(b.kind, Number)):
            raise Untranslatable(f"{operation} of {a.kind} and {b.kind}")
        kind = common(a.kind, b.kind)
        if operation in _BITS:
            return self._on_bits(_BITS[operation], a, b, kind)
        if operation in ("LShift", "RShift"):
            return self._shifted(operation, a, b)
        if operation == "Div" and not kind.floats:
            kind = common(kind, value_of(Known(1.0)).kind)
        a, b = self.cast(a, kind), self.cast(b, kind)
        (x,), (y,) = a.parts, b.parts
        if kind.floats:
            if operation not in _FLOATS:
                raise Untranslatable(f"{operation} of {kind}")
            return Value(
                kind, (self.new(f"{_FLOATS[operation]} {self.flags}{kind.code} {x}, {y}"),)
            )
        if operation in ("FloorDiv", "Mod"):
            return self._divided(operation, kind, a, b)
        sign = "nsw " if kind.family == "int" else ""
        natural = operation != "Sub" and a.natural and b.natural
        return Value(kind, (self.new(f"{_INTEGERS[operation]} {sign}i64 {x}, {y}"),), natural)

    def _on_registers(self, operation, a, b):
        (vector,) = a.kind.parts
        if b.kind is a.kind.item:
            b = self.spread(b)
        if a.kind is not b.kind:
            raise Untranslatable(f"{operation} of {a.kind} and {b.kind}")
        line = f"{_FLOATS[operation]} {QUICK}{vector} {a.parts[0]}, {b.parts[0]}"
        return Value(a.kind, (self.new(line),))

    def spread(self, number):
        """Eight times a number."""
        kind = REGISTERS[number.kind]
        (vector,) = kind.parts
        one = self.new(f"insertelement {vector} undef, {number.kind.code} {number.parts[0]}, i32 0")
        line = f"shufflevector {vector} {one}, {vector} {one}, <8 x i32> zeroinitializer"
        return Value(kind, (self.new(line),))

    def _on_bits(self, instruction, a, b, kind):
        if a.kind is BOOL and b.kind is BOOL:
            kind = BOOL
        a, b = self.cast(a, kind), self.cast(b, kind)
        if kind.floats:
            raise Untranslatable("bits of a number with a fraction")
        line = f"{instruction} {kind.code} {a.parts[0]}, {b.parts[0]}"
        return Value(kind, (self.new(line),), a.natural and b.natural)

    def _shifted(self, operation, a, b):
        kind = wide(a.kind)
        if kind.floats or b.kind.floats:
            raise Untranslatable("bits of a number with a fraction")
        a, b = self.cast(a, kind), self.cast(b, wide(b.kind))
        right = "lshr" if kind is UINT else "ashr"
        instruction = "shl" if operation == "LShift" else right
        return Value(kind, (self.new(f"{instruction} i64 {a.parts[0]}, {b.parts[0]}"),))

    def _divided(self, operation, kind, a, b):
        """a // b or a % b, rounded down; 0 where b is 0."""
        (x,), (y,) = a.parts, b.parts
        natural = a.natural and b.natural
        nothing = None
        if not y.isdigit() or y == "0":
            nothing = self.new(f"icmp eq i64 {y}, 0")
            y = self.new(f"select i1 {nothing}, i64 1, i64 {y}")
        if kind is UINT or (a.natural and b.parts[0].isdigit()):
            result = self.new(f"{'udiv' if operation == 'FloorDiv' else 'urem'} i64 {x}, {y}")
        else:
            rest = self.new(f"srem i64 {x}, {y}")
            mixed = self.new(f"icmp slt i64 {self.new(f'xor i64 {rest}, {y}')}, 0")
            uneven = self.new(f"icmp ne i64 {rest}, 0")
            down = self.new(f"and i1 {mixed}, {uneven}")
            if operation == "Mod":
                more = self.new(f"select i1 {down}, i64 {y}, i64 0")
                result = self.new(f"add i64 {rest}, {more}")
            else:
                whole = self.new(f"sdiv i64 {x}, {y}")
                result = self.new(f"add i64 {whole}, {self.new(f'sext i1 {down} to i64')}")
        if nothing is not None:
            result = self.new(f"select i1 {nothing}, i64 0, i64 {result}")
        return Value(kind, (result,), natural)

    def compare(self, operation, a, b):
        """a < b, and the like."""
        a, b = value_of(a), value_of(b)
        if not (isinstance(a.kind, Number) and isinstance(b.kind, Number)):
            raise Untranslatable(f"{operation} of {a.kind} and {b.kind}")
        kind = common(a.kind, b.kind)
        if kind is INT and UINT in (a.kind, b.kind) and a.natural | b.natural:
            kind = UINT  # the one with a sign has none
        (x,), (y,) = self.cast(a, kind).parts, self.cast(b, kind).parts
        order = _ORDER[operation]
        if kind.floats:
            order = ("u" if operation == "NotEq" else "o") + order
            line = f"fcmp {self.flags}{order} {kind.code} {x}, {y}"
        else:
            if len(order) == 2 and operation not in ("Eq", "NotEq"):
                order = ("u" if kind is UINT else "s") + order
            line = f"icmp {order} i64 {x}, {y}"
        return Value(BOOL, (self.new(line),))

    def negative(self, a):
        a = value_of(a)
        if isinstance(a.kind, Number) and a.kind.floats:
            return Value(a.kind, (self.new(f"fneg {self.flags}{a.kind.code} {a.parts[0]}"),))
        return self.arithmetic("Sub", Known(0), self.cast(a, INT))

    def power(self, a, exponent):
        """a ** exponent; products where the exponent is a known integer."""
        a = value_of(a)
        known = exponent.thing if isinstance(exponent, Known) else None
        if isinstance(known, int) and 0 <= known <= 64:
            found, square = None, a if a.kind.floats else self.cast(a, wide(a.kind))
            while known:
                if known & 1:
                    found = square if found is None else self.arithmetic("Mult", found, square)
                known >>= 1
                if known:
                    square = self.arithmetic("Mult", square, square)
            return found if found is not None else value_of(Known(a.kind.dtype.type(1)))
        exponent = value_of(exponent)
        kind = common(a.kind, exponent.kind)
        if kind.floats and not exponent.kind.floats:
            raise Untranslatable("an integer power of a fraction")
        a, exponent = self.cast(a, kind), self.cast(exponent, kind)
        if kind.floats:
            return self.intrinsic("pow", a, exponent)
        line = f"i64 {a.parts[0]}, i64 {exponent.parts[0]}"
        natural = a.natural
        return Value(
            kind, (self.new(f"call i64 @{self.program.runtime('power')}({line})"),), natural
        )

    def intrinsic(self, name, *values):
        """A function of LLVM's, of and to one kind."""
        kind = values[0].kind
        function = self.program.declare(
            kind.code, f"llvm.{name}.f{8 * kind.size}", [kind.code] * len(values)
        )
        given = ", ".join(f"{kind.code} {value.parts[0]}" for value in values)
        return Value(kind, (self.new(f"call {self.flags}{kind.code} {function}({given})"),))

    def absolute(self, a):
        a = value_of(a)
        if a.kind.floats:
            return self.intrinsic("fabs", a)
        (x,) = self.cast(a, INT).parts
        below = self.new(f"icmp slt i64 {x}, 0")
        line = f"select i1 {below}, i64 {self.new(f'sub nsw i64 0, {x}')}, i64 {x}"
        return Value(INT, (self.new(line),), True)

    def extreme(self, operation, values):
        """The largest ("Gt") or smallest ("Lt"), as Python finds it where some are NaN."""
        best = value_of(values[0])
        for value in map(value_of, values[1:]):
            kind = joined(best.kind, value.kind)
            one, other = self.cast(value, kind), self.cast(best, kind)
            better = self.compare(operation, one, other).parts[0]
            line = f"select i1 {better}, {kind.code} {one.parts[0]}, {kind.code} {other.parts[0]}"
            some = (
                one.natural or other.natural if operation == "Gt" else one.natural and other.natural
            )
            best = Value(kind, (self.new(line),), some)
        return best

    # ---------------------------------------------------------------------------------- arrays

    def side(self, array, i):
        return Value(INT, (array.parts[1 + i],), True)

    def size(self, array):
        """The number of its elements."""
        sides = [self.side(array, i) for i in range(array.kind.n_sides)]
        found = sides[0]
        for side in sides[1:]:
            found = self.arithmetic("Mult", found, side)
        return found

    def index(self, value, side):
        """A place along a side, counted from the end if it is negative."""
        value = value_of(value)
        if not isinstance(value.kind, Number) or value.kind.floats:
            raise Untranslatable(f"an element number {value.kind}")
        signed = value.kind.family == "int"
        (at,) = self.cast(value, wide(value.kind)).parts
        if signed and not value.natural:
            below = self.new(f"icmp slt i64 {at}, 0")
            at = self.new(f"select i1 {below}, i64 {self.new(f'add i64 {at}, {side}')}, i64 {at}")
        return at

    def element(self, array, indices):
        """The address of an element, or of the first one of a row."""
        kind, sides = array.kind, array.parts[1:]
        at = None
        for side, index in zip(sides, indices, strict=False):
            one = self.index(index, side)
            if at is not None:
                one = self.new(f"add nsw i64 {self.new(f'mul nsw i64 {at}, {side}')}, {one}")
            at = one
        for side in sides[len(indices) :]:
            at = self.new(f"mul nsw i64 {at}, {side}")
        return self.offset(kind, array.parts[0], at)

    def offset(self, kind, data, at):
        """The address of a number that is some places further."""
        memory = kind.item.memory
        return self.new(f"getelementptr inbounds {memory}, {self.pointer(memory)} {data}, i64 {at}")

    def get(self, item, place):
        """The number at an address."""
        found = self.load(item.memory, place)
        if item is BOOL:
            found = self.new(f"icmp ne i8 {found}, 0")
        return Value(item, (found,))

    def put(self, item, place, value):
        """Write a number to an address."""
        (part,) = self.cast(value, item).parts
        if item is BOOL:
            part = self.new(f"zext i1 {part} to i8")
        self.store(item.memory, part, place)

    def view(self, array, place, sides):
        kind = self.program.array(array.kind.item, len(sides), array.kind.mutable)
        return Value(kind, (place, *sides))

    def bounded(self, first, last, side):
        """The begin and the length of a slice."""

        def clipped(value, default):
            if value is None:
                return default
            at = self.index(value, side)
            if at == "0":
                return at
            at = self.new(f"call i64 {self._extreme('smax')}(i64 {at}, i64 0)")
            return self.new(f"call i64 {self._extreme('smin')}(i64 {at}, i64 {side})")

        begin, end = clipped(first, "0"), clipped(last, side)
        if begin == "0":
            return begin, end
        length = self.new(f"sub nsw i64 {end}, {begin}")
        return begin, self.new(f"call i64 {self._extreme('smax')}(i64 {length}, i64 0)")

    def _extreme(self, name):
        return self.program.declare("i64", f"llvm.{name}.i64", ["i64", "i64"])

    def flat(self, array):
        """All elements in one row."""
        return self.view(array, array.parts[0], [self.size(array).parts[0]])

    def fill(self, array, value):
        """Every element is set to a number."""
        value = self.cast(value, array.kind.item)
        with self.times(self.size(array).parts[0]) as at:
            self.put(array.kind.item, self.offset(array.kind, array.parts[0], at), value)

    def copy(self, source, target):
        """Elements of one array are written to another of the same size."""
        with self.times(self.size(target).parts[0]) as at:
            value = self.get(source.kind.item, self.offset(source.kind, source.parts[0], at))
            self.put(target.kind.item, self.offset(target.kind, target.parts[0], at), value)

    def reduced(self, array, how):
        """The sum, or the largest or smallest element; NaN if one is."""
        item = array.kind.item
        kind = wide(item)
        slot = self.slot(kind.code)
        first = None if how == "sum" else self.get(item, array.parts[0])
        start = text(kind, 0) if first is None else self.cast(first, kind).parts[0]
        self.store(kind.code, start, slot)
        with self.times(self.size(array).parts[0]) as at:
            value = self.get(item, self.offset(array.kind, array.parts[0], at))
            value = self.cast(value, kind)
            so_far = Value(kind, (self.load(kind.code, slot),))
            if how == "sum":
                so_far = self.arithmetic("Add", so_far, value)
            else:
                x, y = value.parts[0], so_far.parts[0]
                if kind.floats:
                    order = "ugt" if how == "max" else "ult"
                    better = self.new(f"fcmp {order} {kind.code} {x}, {y}")
                    known = self.new(f"fcmp ord {kind.code} {y}, {y}")
                    better = self.new(f"and i1 {better}, {known}")
                else:
                    better = self.compare("Gt" if how == "max" else "Lt", value, so_far).parts[0]
                line = f"select i1 {better}, {kind.code} {x}, {kind.code} {y}"
                so_far = Value(kind, (self.new(line),))
            self.store(kind.code, so_far.parts[0], slot)
        return Value(kind, (self.load(kind.code, slot),))

    # ------------------------------------------------------------------------------ two ways

    def merged(self, one, one_end, other, other_end):
        """A value that is the one or the other, depending on where it comes from."""
        one, other = value_of(one), value_of(other)
        kind = joined(one.kind, other.kind)
        here = self.block
        if kind is NOTHING:
            return one
        self.block = one_end
        one = self.cast(one, kind)
        self.block = other_end
        other = self.cast(other, kind)
        self.block = here
        parts = []
        for type_, x, y in zip(kind.parts, one.parts, other.parts, strict=True):
            ends = f"[{x}, %{one_end.label}], [{y}, %{other_end.label}]"
            parts.append(x if x == y else self.new(f"phi {type_} {ends}"))
        return Value(kind, tuple(parts), one.natural and other.natural)


def is_array(value):
    return isinstance(value, Value) and isinstance(value.kind, Array)
