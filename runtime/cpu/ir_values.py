"""Values of the native code that `ir_writer` writes: what is done to them becomes an instruction."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tenon.runtime.cpu.ir_types import I1, I64, VOID, Signature, Struct, Type, pointer, vector

Operand: TypeAlias = "Value | int | float | None"
"""What instructions take: a value, a number, or `None` for the null pointer."""
Body: TypeAlias = Callable[..., Operand]


@dataclass
class Writing:
    """A function as far as it is written."""

    result: Type
    locals: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    names: int = 0
    is_reached: bool = True
    """Whether anything leads to the next instruction."""
    branch: int = -1
    """Right behind an `if_`: the line that leaves it, 0 for none; -1 elsewhere."""


class Writer:
    """Writes instructions, one function after the other."""

    def __init__(self) -> None:
        self.now = Writing(VOID)
        self.declared: dict[str, None] = {}
        """What is said of functions of other libraries."""
        self.calls: Counter[str] = Counter()
        """At how many places each function is called."""

    def emit(self, text: str) -> None:
        """Write an instruction."""
        now = self.now
        if not now.is_reached:
            raise RuntimeError(f"nothing leads to: {text}")
        now.lines.append(f"  {text}")
        now.branch = -1

    def made(self, kind: Type, text: str) -> Value:
        """Write an instruction; its value."""
        name = self.new_name("%v")
        self.emit(f"{name} = {text}")
        return Value(self, kind, name)

    def operand(self, given: Operand, kind: Type) -> str:
        """How an instruction names an operand, which must be of this type."""
        if isinstance(given, Value):
            if given.kind.text != kind.text:
                raise TypeError(f"{given.name} is {given.kind.text}, expected {kind.text}")
            return given.read()
        if (given is None) != (kind.text == "ptr"):
            raise TypeError(f"{given} is given where {kind.text} is expected")
        if given is None:
            return "null"
        number = f"0x{struct.pack('>d', given).hex()}" if kind.is_float else str(int(given))
        return f"splat ({kind.of.text} {number})" if kind.of else number

    def called(self, name: str, signature: Signature, arguments: tuple[Operand, ...]) -> Value:
        """Write a call."""
        pairs = zip(arguments, signature.parameters, strict=True)
        given = ", ".join([f"{kind.text} {self.operand(argument, kind)}" for argument, kind in pairs])
        text = f"call {signature.result.text} {name}({given})"
        if signature.result is not VOID:
            return self.made(signature.result, text)
        self.emit(text)
        return Value(self, VOID, "nothing")

    def new_name(self, prefix: str) -> str:
        """A name that nothing else in the function has."""
        self.now.names += 1
        return f"{prefix}{self.now.names}"


class Value:
    """A value in a function. Pointers know what they point to: `p[i]` is an element, `p.name` a field."""

    __slots__ = ("code", "kind", "name")

    def __init__(self, code: Writer, kind: Type, name: str) -> None:
        self.code, self.kind, self.name = code, kind, name

    def read(self) -> str:
        """How an instruction names it."""
        return self.name

    def __bool__(self) -> bool:
        raise TypeError("what native code computes is not known while it is written")

    # --- arithmetic

    def _with(self, operation: str, other: Operand, kind: Type | None = None) -> Value:
        text = f"{operation} {self.kind.text} {self.read()}, {self.code.operand(other, self.kind)}"
        return self.code.made(kind or self.kind, text)

    def _compared(self, floats: str, integers: str, other: Operand) -> Value:
        """Whether a comparison holds, in each lane of a vector."""
        of = self.kind.of
        truth = I1 if of is None else vector(self.kind.size // of.size, I1)
        return self._with(f"fcmp {floats}" if self.kind.is_float else f"icmp {integers}", other, truth)

    def _ordered(self, how: str, other: Operand) -> Value:
        return self._compared(f"o{how}", f"{'s' if self.kind.is_signed else 'u'}{how}", other)

    def __add__(self, other: Operand) -> Value:
        return self._with("fadd" if self.kind.is_float else "add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._with("fsub" if self.kind.is_float else "sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._with("fmul" if self.kind.is_float else "mul", other)

    def __floordiv__(self, other: Operand) -> Value:
        """Rounded towards zero, other than Python's."""
        return self._with("sdiv" if self.kind.is_signed else "udiv", other)

    def __mod__(self, other: Operand) -> Value:
        return self._with("srem" if self.kind.is_signed else "urem", other)

    def __and__(self, other: Operand) -> Value:
        return self._with("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._with("xor", other)

    def __lshift__(self, other: Operand) -> Value:
        return self._with("shl", other)

    def __rshift__(self, other: Operand) -> Value:
        return self._with("ashr" if self.kind.is_signed else "lshr", other)

    def __invert__(self) -> Value:
        return self._with("xor", -1)

    def __truediv__(self, other: Operand) -> Value:
        """Of floats."""
        return self._with("fdiv", other)

    def __eq__(self, other: Operand) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared("oeq", "eq", other)

    def __ne__(self, other: Operand) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared("une", "ne", other)

    def __lt__(self, other: Operand) -> Value:
        return self._ordered("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._ordered("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._ordered("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._ordered("ge", other)

    @property
    def is_null(self) -> Value:
        """Whether it is the null pointer."""
        return self._with("icmp eq", None, I1)

    @property
    def is_not_null(self) -> Value:
        """Whether it is an address."""
        return self._with("icmp ne", None, I1)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def to(self, kind: Type) -> Value:
        """As another type: numbers keep their value as far as it fits, pointers their address."""
        mine = self.kind
        if mine.text == kind.text:
            return Value(self.code, kind, self.read())
        if mine.is_float:
            operation = "fptrunc" if mine.size > kind.size else "fpext"
        elif kind.is_float:
            operation = "sitofp" if mine.is_signed else "uitofp"
        elif "ptr" in (mine.text, kind.text):
            operation = "ptrtoint" if mine.text == "ptr" else "inttoptr"
        elif mine.size > kind.size:
            operation = "trunc"
        else:
            operation = "sext" if mine.is_signed else "zext"
        return self.code.made(kind, f"{operation} {mine.text} {self.read()} to {kind.text}")

    def bits(self, kind: Type) -> Value:
        """Its bits as another type."""
        return self.code.made(kind, f"bitcast {self.kind.text} {self.read()} to {kind.text}")

    # --- memory

    def at(self, index: Operand) -> Value:
        """The address of an element."""
        element = self.kind.to
        text = f"[{element.size} x i8]" if isinstance(element, Struct) else self._element.text
        return self.code.made(
            self.kind, f"getelementptr {text}, ptr {self.read()}, i64 {self.code.operand(index, I64)}"
        )

    def place(self, name: str) -> Value:
        """The address of a field."""
        struct_ = self.kind.to
        if not isinstance(struct_, Struct) or name not in struct_.fields:
            raise AttributeError(f"{self.name} points to nothing with a field {name}")
        text = f"getelementptr i8, ptr {self.read()}, i64 {struct_.offsets[name]}"
        return self.code.made(pointer(struct_.fields[name]), text)

    @property
    def _element(self) -> Type:
        if not isinstance(self.kind.to, Type):
            raise TypeError(f"{self.name} does not point to a value")
        return self.kind.to

    def __getitem__(self, index: Operand) -> Value:
        place = self.at(index)
        return place if isinstance(self.kind.to, Struct) else place.load()

    def __setitem__(self, index: Operand, value: Operand) -> None:
        self.at(index).store(value)

    def __getattr__(self, name: str) -> Value:
        place = self.place(name)
        return place if isinstance(place.kind.to, Struct) else place.load()

    def put(self, **fields: Operand) -> None:
        """Set fields."""
        for name, value in fields.items():
            self.place(name).store(value)

    def load(self, order: str = "") -> Value:
        """What lies there, read atomically if an order (`acquire`, ...) is given."""
        kind = self._element
        text = f"{kind.text}, ptr {self.read()}"
        return self.code.made(kind, f"load atomic {text} {order}, align {kind.size}" if order else f"load {text}")

    def store(self, value: Operand, order: str = "") -> None:
        """Put a value there, as `load` reads it."""
        kind = self._element
        text = f"{kind.text} {self.code.operand(value, kind)}, ptr {self.read()}"
        self.code.emit(f"store atomic {text} {order}, align {kind.size}" if order else f"store {text}")

    def fetch(self, operation: str, value: Operand, order: str) -> Value:
        """Change what lies there atomically (`add`, `sub`); what lay there before."""
        kind = self._element
        text = f"ptr {self.read()}, {kind.text} {self.code.operand(value, kind)} {order}, align {kind.size}"
        return self.code.made(kind, f"atomicrmw {operation} {text}")

    def exchange(self, expected: Operand, value: Operand, orders: str, *, weak: bool = False) -> tuple[Value, Value]:
        """Put `value` in the place of `expected`, atomically; what lay there before, and whether it is replaced."""
        kind = self._element
        given = ", ".join(f"{kind.text} {self.code.operand(operand, kind)}" for operand in (expected, value))
        text = f"cmpxchg {'weak ' if weak else ''}ptr {self.read()}, {given} {orders}, align {kind.size}"
        pair = f"{{ {kind.text}, i1 }} {self.code.made(kind, text).name}"
        return self.code.made(kind, f"extractvalue {pair}, 0"), self.code.made(I1, f"extractvalue {pair}, 1")

    # --- vectors

    def load_vector(self, kind: Type) -> Value:
        """The vector of this type that begins there, at any multiple of its elements' size."""
        return self.code.made(kind, f"load {kind.text}, ptr {self.read()}, align {self._element.size}")

    def store_vector(self, value: Value) -> None:
        """Put a vector there, as `load_vector` reads it."""
        self.code.emit(f"store {value.kind.text} {value.read()}, ptr {self.read()}, align {self._element.size}")

    def shuffled(self, places: Sequence[int], other: Value | None = None) -> Value:
        """Of a vector as many lanes, from these places; those of `other` are counted behind its own."""
        kind, chosen = self.kind, ", ".join([f"i32 {place}" for place in places])
        second = "poison" if other is None else other.read()
        text = f"shufflevector {kind.text} {self.read()}, {kind.text} {second}, <{len(places)} x i32> <{chosen}>"
        return self.code.made(kind, text)

    def filled(self, kind: Type, lanes: int) -> Value:
        """A vector of this type, which has so many lanes, with the number in each."""
        first = f"insertelement {kind.text} poison, {self.kind.text} {self.read()}, i64 0"
        return self.code.made(kind, first).shuffled([0] * lanes)

    # --- functions

    def __call__(self, *arguments: Operand) -> Value:
        """Call the function that lies there."""
        if not isinstance(self.kind.to, Signature):
            raise TypeError(f"{self.name} does not point to a function")
        return self.code.called(self.read(), self.kind.to, arguments)


class Local(Value):
    """A variable of a function."""

    __slots__ = ()

    def read(self) -> str:
        return self.address.load().name

    @property
    def address(self) -> Value:
        """Where it lies."""
        return Value(self.code, pointer(self.kind), self.name)

    def set(self, value: Operand) -> None:
        """Assign to it."""
        self.address.store(value)


def transposed(rows: Sequence[Value]) -> list[Value]:
    """The columns of a matrix of as many rows as their vectors have lanes, in steps that exchange single elements of
    two rows, then pairs, ..."""
    result, step, count = list(rows), 1, len(rows)
    while step < count:
        low = [i - step + count if i & step else i for i in range(count)]
        high = [i + count if i & step else i + step for i in range(count)]
        for i in [i for i in range(count) if not i & step]:
            one, other = result[i], result[i + step]
            result[i], result[i + step] = one.shuffled(low, other), one.shuffled(high, other)
        step *= 2
    return result


@dataclass(frozen=True)
class Function:
    """A function of a module; to call it writes a call. Those of other libraries have no body."""

    code: Writer
    name: str
    signature: Signature
    body: Body | None = None
    parameters: tuple[str, ...] = ()
    attributes: str = ""

    def __call__(self, *arguments: Operand) -> Value:
        if self.body is None:
            parameters = ", ".join(kind.text for kind in self.signature.parameters)
            self.code.declared[f"declare {self.signature.result.text} @{self.name}({parameters})"] = None
        self.code.calls[self.name] += 1
        return self.code.called(f"@{self.name}", self.signature, arguments)

    @property
    def address(self) -> Value:
        """Where its code lies."""
        return Value(self.code, pointer(self.signature), f"@{self.name}")
