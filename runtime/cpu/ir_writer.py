"""A writer of LLVM IR for the runtime's own native code: what generates it reads like the C that it means.

    code = Module()

    @code.function(I64, numbers=pointer(I64), count=I64)
    def sum_of(numbers: Value, count: Value) -> Value:
        total = code.local(I64, 0)
        with code.each(count) as i:
            total.set(total + numbers[i])
        return total

A body runs when the text of the module is asked for, and what it does to values becomes instructions. Locals are memory
of the stack, which LLVM turns into registers. What does not fit (types, fields, code behind a jump) raises meanwhile.

The IR builder of llvmlite has no loops, no variables and no fields by name: what would add them is as long as this, and
to build a module with it takes four times as long, besides its import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tenon.dialects.support.forking import new_lock
from tenon.runtime.cpu.ir_types import I1, I64, VOID, Signature, Struct, Type, pointer
from tenon.runtime.cpu.ir_values import Body, Function, Local, Operand, Value, Writer, Writing

FINAL = "#1"
"""The attributes of functions that LLVM's passes shall leave as they are (`llvm_parts`), which have no variables."""

_FINAL_ATTRIBUTES = 'attributes #1 = { nounwind noinline "final" }'

_SHORT = 40
"""Lines of functions that are part of what calls them, from wherever: most of them are stores and loads of locals."""


@dataclass
class Loop:
    """Where a loop goes on, and where it ends."""

    following: str
    end: str
    has_exit: bool = False


@dataclass
class Switch:
    """The cases of a number."""

    code: Module
    end: str
    targets: dict[int, str] = field(default_factory=dict[int, str])

    @contextmanager
    def __call__(self, *numbers: int) -> Generator[None]:
        """What is done for these numbers."""
        label = self.code.new_name("case")
        self.targets |= dict.fromkeys(numbers, label)
        self.code.label(label)
        yield
        if self.code.now.is_reached:
            self.code.jump(f"br label %{self.end}")


class Module(Writer):
    """Functions and variables that are compiled together; `triple` is the target that they are written for."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = new_lock()
        self._functions: list[Function] = []
        self._variables: dict[str, str] = {}
        self._loops: list[Loop] = []
        self.triple = ""

    @property
    def exports(self) -> tuple[str, ...]:
        """What is looked up by its name."""
        return tuple(name for name in (*self._variables, *[f.name for f in self._functions]) if _is_exported(name))

    # --- functions and variables

    def function(self, result: Type = VOID, attributes: str = "", /, **parameters: Type) -> Callable[[Body], Function]:
        """Define a function of this module by its body. One whose name begins with `tenon_` is looked up by it."""

        def define(body: Body) -> Function:
            signature = Signature(result, tuple(parameters.values()))
            made = Function(self, body.__name__, signature, body, tuple(parameters), attributes)
            self._functions.append(made)
            return made

        return define

    def external(self, name: str, result: Type, *parameters: Type) -> Function:
        """A function of another library."""
        return Function(self, name, Signature(result, parameters))

    def variable(self, name: str, content: Type | Struct, *, count: int = 1, align: int = 8, initial: int = 0) -> Value:
        """The address of a new variable of the module, or of `count` of them in a row. Names are as of functions."""
        text = f"[{content.size * count} x i8]" if isinstance(content, Struct) or count > 1 else content.text
        value = initial or "zeroinitializer"
        self._variables[name] = f"@{name} = {_linkage(name)}global {text} {value}, align {align}"
        return Value(self, pointer(content), f"@{name}")

    def text(self, triple: str = "") -> str:
        """The module as LLVM IR."""
        with self._lock:
            self.triple = triple
            self.declared = {}
            self.calls = Counter()
            bodies = [self._write(function) for function in self._functions]
            functions = map(self._defined, self._functions, bodies)
            final = [_FINAL_ATTRIBUTES] if any(f.attributes == FINAL for f in self._functions) else []
            return "\n".join([*self._variables.values(), *self.declared, *functions, *final, ""])

    def _write(self, function: Function) -> list[str]:
        assert function.body is not None
        signature = function.signature
        self.now = now = Writing(signature.result)
        named = zip(function.parameters, signature.parameters, strict=True)
        result = function.body(**{name: Value(self, kind, f"%{name}") for name, kind in named})
        if now.is_reached:
            self.return_(result)
        return [*now.locals, *now.lines]

    def _defined(self, function: Function, body: list[str]) -> str:
        """The definition, once all bodies are written. What is short, or called at one place, becomes part of what
        calls it, unless it has attributes of its own."""
        signature = function.signature
        named = zip(function.parameters, signature.parameters, strict=True)
        parameters = ", ".join(f"{kind.text} %{name}" for name, kind in named)
        is_part = not _is_exported(function.name) and (len(body) <= _SHORT or self.calls[function.name] == 1)
        attributes = function.attributes or ("alwaysinline" if is_part else "")
        header = f"{signature.result.text} @{function.name}({parameters}) {attributes}"
        return "\n".join([f"define {_linkage(function.name)}{header} {{", *body, "}"])

    # --- values

    def number(self, kind: Type, number: float) -> Value:
        """A constant."""
        return Value(self, kind, self.operand(number, kind))

    def select(self, condition: Value, first: Value, second: Operand) -> Value:
        """The first if the condition holds, else the second, in each lane of vectors; both are computed."""
        kind, truth = first.kind.text, condition.kind if condition.kind.of else I1
        given = f"{kind} {first.read()}, {kind} {self.operand(second, first.kind)}"
        return self.made(first.kind, f"select {truth.text} {self.operand(condition, truth)}, {given}")

    def local(self, kind: Type, *initial: Operand) -> Local:
        """A new variable of the function, with or without a value."""
        made = Local(self, kind, self.array(kind).name)
        for value in initial:
            made.set(value)
        return made

    def array(self, content: Type, count: Value | int = 1, align: int = 8) -> Value:
        """Memory of the stack for elements, not filled; a computed number of them is there from here on."""
        name = self.new_name("%v")
        text = f"{name} = alloca {content.text}, i64 {self.operand(count, I64)}, align {align}"
        if isinstance(count, Value):
            self.emit(text)
        else:
            self.now.locals.append(f"  {text}")
        return Value(self, pointer(content), name)

    def record(self, content: Struct) -> Value:
        """Memory of the stack for a structure, not filled."""
        return Value(self, pointer(content), self.array(I64, -(-content.size // 8)).name)

    # --- the way through

    def return_(self, value: Operand = None) -> None:
        """Return from the function."""
        result = self.now.result
        self.jump("ret void" if result is VOID else f"ret {result.text} {self.operand(value, result)}")

    def return_if(self, condition: Value, value: Operand = None) -> None:
        """Return if the condition holds."""
        with self.if_(condition):
            self.return_(value)

    def return_unless(self, condition: Value, value: Operand = None) -> None:
        """Return if the condition does not hold."""
        self.return_if(~condition, value)

    @contextmanager
    def if_(self, condition: Value) -> Generator[None]:
        """What is done if the condition holds."""
        inside, behind = self.new_name("then"), self.new_name("else")
        self.jump(f"br i1 {self.operand(condition, I1)}, label %{inside}, label %{behind}")
        self.label(inside)
        yield
        now = self.now
        branch = len(now.lines) if now.is_reached else 0
        if now.is_reached:
            self.jump(f"br label %{behind}")
        self.label(behind)
        now.branch = branch

    @contextmanager
    def else_(self) -> Generator[None]:
        """What is done if not, right behind an `if_`."""
        now, branch, end = self.now, self.now.branch, self.new_name("end")
        if branch < 0:
            raise RuntimeError("an else without an if before it")
        if branch:
            now.lines[branch] = f"  br label %{end}"
        now.branch = -1
        yield
        leads_on = now.is_reached
        if leads_on:
            self.jump(f"br label %{end}")
        if leads_on or branch:
            self.label(end)

    @contextmanager
    def loop(self) -> Generator[Loop]:
        """What is done again and again, until `break_`."""
        start = self.new_name("loop")
        made = Loop(start, self.new_name("done"))
        self.jump(f"br label %{start}")
        self.label(start)
        self._loops.append(made)
        yield made
        self._loops.pop()
        if self.now.is_reached:
            self.jump(f"br label %{start}")
        if made.has_exit:
            self.label(made.end)

    @contextmanager
    def each(self, count: Value | int, start: Operand = 0) -> Generator[Value]:
        """What is done for each number from `start` on below `count`."""
        kind = count.kind if isinstance(count, Value) else I64
        limit = Value(self, kind, self.operand(count, kind))
        number = self.local(kind, start)
        with self.loop() as loop:
            loop.following = self.new_name("next")
            i = number.address.load()
            self.break_if(i >= limit)
            yield i
            if self.now.is_reached:
                self.jump(f"br label %{loop.following}")
            self.label(loop.following)
            number.set(i + 1)

    def break_(self) -> None:
        """Leave the innermost loop."""
        self._loops[-1].has_exit = True
        self.jump(f"br label %{self._loops[-1].end}")

    def break_if(self, condition: Value) -> None:
        """Leave the innermost loop if the condition holds."""
        with self.if_(condition):
            self.break_()

    def continue_(self, loop: Loop | None = None) -> None:
        """Go on with a loop, by default the innermost one."""
        self.jump(f"br label %{(loop or self._loops[-1]).following}")

    @contextmanager
    def switch(self, value: Value) -> Generator[Switch]:
        """What is done by a number, `with case(1, 2): ...`, which must be one of those."""
        cases = Switch(self, self.new_name("end"))
        kind, name, line = value.kind.text, value.read(), len(self.now.lines)
        self.jump("switch")
        yield cases
        targets = " ".join(f"{kind} {number}, label %{label}" for number, label in cases.targets.items())
        otherwise = self.new_name("otherwise")
        self.now.lines[line] = f"  switch {kind} {name}, label %{otherwise} [ {targets} ]"
        self.label(otherwise)
        self.jump("unreachable")
        self.label(cases.end)

    # --- blocks

    def jump(self, text: str) -> None:
        """Write the instruction that ends a block."""
        self.emit(text)
        self.now.is_reached = False

    def label(self, name: str) -> None:
        """Begin a block."""
        self.now.lines.append(f"{name}:")
        self.now.is_reached, self.now.branch = True, -1


def _is_exported(name: str) -> bool:
    return name.startswith("tenon_")


def _linkage(name: str) -> str:
    return "" if _is_exported(name) else "internal "
