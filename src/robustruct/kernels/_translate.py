"""From the Python of a kernel, and of all helpers that it calls, to LLVM's code.

Numba goes from bytecode over an intermediate code of its own, types, and objects for every
instruction to LLVM's code, in some twenty passes: seconds for a kernel with its helpers. Kernels
are numbers, arrays and loops, for which one walk over the syntax tree is enough. What is not
among that is left to numba (`Untranslatable`).

A function is written once for the kinds of its arguments. Where that shows that a variable has to
be another kind, or to be in memory, it is written again. Only what it uses of its arguments is
passed to it. Arrays that it makes are freed when it returns; those of a function that returns
arrays when its caller does.
"""

import ast
import builtins
import linecache
import re
from collections import Counter

from robustruct.kernels import _kinds
from robustruct.kernels._kinds import NOTHING, Untranslatable, has_arrays
from robustruct.kernels._writer import Writer

_RUNS = 8  # to find the kinds of variables

# ------------------------------------------------------------------------------------------ source


class Source:
    """The syntax tree of a function, and how it uses its names."""

    def __init__(self, function):
        self.function = function
        self.tree = _tree_of(function.__code__)
        arguments = self.tree.args
        if arguments.defaults or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            raise Untranslatable("arguments that may be left out")
        self.arguments = [argument.arg for argument in arguments.args]
        stored, targets, self.loaded = Counter(self.arguments), Counter(), set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self.loaded.add(node.id)
                else:
                    stored[node.id] += 1
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.loaded.add(node.target.id)
                stored[node.target.id] += 1
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                targets[node.target.id] += 1
        self.local = set(stored)
        self.often = {n for n, times in stored.items() if times > 1 and times != targets[n]}

    def lookup(self, name):
        """Something that is not local."""
        function = self.function
        if name in function.__code__.co_freevars:
            return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
        if name in function.__globals__:
            return function.__globals__[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise Untranslatable(f"{name} is not defined")


_TREES: dict = {}  # functions of a file by name and line
_SOURCES: dict = {}


def _tree_of(code):
    file = code.co_filename
    if file not in _TREES:
        lines = linecache.getlines(file)
        if not lines:
            raise Untranslatable(f"no source of {code.co_name}")
        _TREES[file] = {
            (node.name, node.decorator_list[0].lineno if node.decorator_list else node.lineno): node
            for node in ast.walk(ast.parse("".join(lines)))
            if isinstance(node, ast.FunctionDef)
        }
    found = _TREES[file].get((code.co_name, code.co_firstlineno))
    if found is None:
        raise Untranslatable(f"no source of {code.co_name}")
    return found


def source_of(function):
    """The syntax tree of a function."""
    if function not in _SOURCES:
        _SOURCES[function] = Source(function)
    return _SOURCES[function]


# ----------------------------------------------------------------------------------------- program

_RUNTIME = {
    "power": """
define linkonce_odr i64 @power(i64 %base, i64 %exponent) {{
start:
  br label %head
head:
  %left = phi i64 [%exponent, %start], [%half, %next]
  %square = phi i64 [%base, %start], [%squared, %next]
  %found = phi i64 [1, %start], [%more, %next]
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %next, label %done
next:
  %last = and i64 %left, 1
  %odd = icmp ne i64 %last, 0
  %product = mul i64 %found, %square
  %more = select i1 %odd, i64 %product, i64 %found
  %squared = mul i64 %square, %square
  %half = lshr i64 %left, 1
  br label %head
done:
  ret i64 %found
}}
""",
    # Memory begins with the address of what was obtained before.
    "obtain": """
declare noalias {byte} @PyMem_RawMalloc(i64)
define linkonce_odr noalias {byte} @obtain({list} %heap, i64 %size) {{
start:
  %all = add i64 %size, 64
  %memory = call noalias {byte} @PyMem_RawMalloc(i64 %all)
  %none = icmp eq {byte} %memory, null
  br i1 %none, label %done, label %keep
keep:
  %before = load {byte}, {list} %heap
  %head = bitcast {byte} %memory to {list}
  store {byte} %before, {list} %head
  store {byte} %memory, {list} %heap
  %data = getelementptr inbounds i8, {byte} %memory, i64 64
  br label %done
done:
  %found = phi {byte} [null, %start], [%data, %keep]
  ret {byte} %found
}}
""",
    "release": """
declare void @PyMem_RawFree({byte})
define linkonce_odr void @release({list} %heap) {{
start:
  %first = load {byte}, {list} %heap
  br label %head
head:
  %memory = phi {byte} [%first, %start], [%before, %next]
  %none = icmp eq {byte} %memory, null
  br i1 %none, label %done, label %next
next:
  %place = bitcast {byte} %memory to {list}
  %before = load {byte}, {list} %place
  call void @PyMem_RawFree({byte} %memory)
  br label %head
done:
  ret void
}}
""",
}


class Program:
    """The code of a kernel with all that it calls."""

    def __init__(self, opaque, extension):
        self._opaque = opaque  # addresses do not say of what
        self._extension = extension  # makes functions of numba's extensions
        self._functions = {}
        self._declared = {}
        self._runtime = set()

    def pointer(self, type_):
        """The type of addresses of a type."""
        return "ptr" if self._opaque else f"{type_}*"

    def array(self, item, n_sides, mutable=True):
        """The kind of an array."""
        return _kinds.array(item, n_sides, self.pointer(item.memory), mutable)

    def declare(self, result, name, kinds):
        """A function of LLVM's, or of the process."""
        self._declared[name] = f"declare {result} @{name}({', '.join(kinds)})"
        return f"@{name}"

    def runtime(self, name):
        """A function that kernels need and Python does not have as one."""
        self._runtime.add(name)
        return name

    def function(self, function, quick, inlined, kinds):
        """A function for some kinds of arguments."""
        key = (function, kinds)
        if key not in self._functions:
            self._functions[key] = None  # while it is written
            name = f"{function.__name__}.{len(self._functions)}"
            self._functions[key] = Function(self, function, quick, inlined, kinds, name)
        found = self._functions[key]
        if found is None:
            raise Untranslatable("a function that calls itself")
        return found

    def intrinsic(self, extension, kinds):
        """A function with the code of one of numba's extensions."""
        key = (extension, kinds)
        if key not in self._functions:
            name = f"{extension._name}.{len(self._functions)}"
            self._functions[key] = self._extension(self, extension, kinds, name)
        return self._functions[key]

    def text(self, function):
        """The code of a function and of all that it needs."""
        needed, left = {}, [function]
        while left:
            one = left.pop()
            if one.name not in needed:
                needed[one.name] = one
                left.extend(one.calls)
        for one in needed.values():
            self._declared.update(one.declared)
        places = {"byte": self.pointer("i8"), "list": self.pointer(self.pointer("i8"))}
        return "\n".join(
            [
                *self._declared.values(),
                *(_RUNTIME[name].format(**places) for name in sorted(self._runtime)),
                *(one.text for one in needed.values()),
            ]
        )


class Function:
    """A function for some kinds of arguments."""

    declared: dict = {}  # noqa: RUF012  -- never changed

    def __init__(self, program, function, quick, inlined, kinds, name):
        self.program, self.name, self.arguments = program, name, kinds
        self.source, self.quick, self.inlined = source_of(function), quick, inlined
        if len(kinds) != len(self.source.arguments):
            raise Untranslatable("arguments that may be left out")
        # What one run finds and the next one needs.
        self.in_memory, self.kinds = set(self.source.often), {}
        self.result, self.fails, self.makes = None, False, False
        for _ in range(_RUNS):
            self.changed, self.calls, self.small = False, [], False
            writer = Writer(self)
            writer.write()
            if not self.changed:
                break
        else:
            raise Untranslatable(f"the kinds of variables in {name}")
        if self.result is None:
            self.result = NOTHING
        self.text = self._text(writer)

    @property
    def lends(self):
        """Whether arrays that it makes belong to its caller."""
        return self.makes and self.result is not None and has_arrays(self.result)

    def found(self, name, value):
        """Something about the function that is not known from the run before."""
        if getattr(self, name) is not value:
            setattr(self, name, value)
            self.changed = True

    def type(self):
        """The type of what it returns, with whether it has failed in front."""
        parts = ("i1",) * self.fails + self.result.parts
        return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}" if parts else "void"

    def _text(self, writer):
        lines = list(writer.slots)
        heap = self.program.pointer("i8")
        if self.makes and not self.lends:
            lines += [f"%heap = alloca {heap}"]
            lines += [f"store {heap} null, {self.program.pointer(heap)} %heap"]
        lines += [f"br label %{writer.blocks[0].label}"]
        for block in writer.blocks:
            lines.append(f"{block.label}:")
            lines += block.lines
            if not block.ended:
                lines.append("unreachable")
        body = "\n".join(lines)
        used = {int(found) for found in re.findall(r"%p(\d+)\b", body)}
        parts = [part for kind in self.arguments for part in kind.parts]
        self.used = sorted(used)
        given = [f"{parts[i]} %p{i}" for i in self.used]
        given += [f"{self.program.pointer(heap)} %heap"] * self.lends
        attributes = "nounwind" + " alwaysinline" * self.inlined + " optsize" * self.small
        head = f'define linkonce_odr {self.type()} @"{self.name}"({", ".join(given)}) {attributes}'
        return f"{head} {{\nstart:\n{body}\n}}\n"
