"""`FunctionWriter`: the body of one LLVM function as text, its values, blocks and stack slots.

The handlers in `arith`, `math`, `memory`, `vector` and `control` write through it: each takes the writer and one
operation, and is found by the operation's name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import size_arguments
from tenon.lowering.buffers.memref_facts import UnknownSizeError, strides_of
from tenon.lowering.llvm.aliasing import PointerFacts
from tenon.lowering.llvm.size_text import SizeText
from tenon.lowering.llvm.types import LlvmType, UnsupportedTypeError, llvm_type

Handler: TypeAlias = "Callable[[FunctionWriter, Operation], None]"


class Handlers(dict[str, Handler]):
    """What writes ops, by their names, which begin with `prefix`."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._prefix = prefix

    def register(self, *names: str) -> Callable[[Handler], Handler]:
        """Register a handler for ops of these names, written without the prefix."""

        def register(handler: Handler) -> Handler:
            self.update({self._prefix + name: handler for name in names})
            return handler

        return register


STACK_LIMIT = 1 << 20
"""Most bytes one function may take from the stack; a thread other than the first has 8 MiB or less in all."""

HEAP_THRESHOLD = 1 << 16
"""A `memref.alloc` of more bytes than this comes from the heap."""

LEFT_ALONE = "#1"
"""The attributes of functions that no pass of LLVM's is run on (`llvm_parts`)."""

METADATA = ("!0 = !{i32 1}", "!1 = distinct !{!1, !2}", '!2 = !{!"llvm.loop.unroll.disable"}')
"""What functions refer to, once in each module."""

KEPT_LOOP = ", !llvm.loop !1"
"""At the branch back of a loop of which LLVM writes out no iterations."""


@dataclass(slots=True)
class ModuleParts:
    """What functions add to their module: declarations of what they call, each once, in order of first use."""

    native_f16: bool
    dots: tuple[str, ...] = ()
    """Elements of whose groups the target has dot products."""
    tiles: tuple[str, ...] = ()
    """Elements of which the target multiplies matrices in tile registers."""
    declarations: dict[str, None] = field(default_factory=dict)
    given_declarations: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    """What parts of functions became: functions of their own."""
    strides: dict[int, tuple[Attribute, tuple[int, ...]]] = field(default_factory=dict)


class Loadable(Protocol):
    """The state of registers that some ops need."""

    def load(self, writer: FunctionWriter) -> None:
        """Write what loads it."""
        ...


class _Values(dict[SSAValue, str]):
    """Operands by value; those that were postponed are written when something asks for them."""

    def __init__(self, writer: FunctionWriter) -> None:
        super().__init__()
        self._writer = writer

    def __missing__(self, value: SSAValue) -> str:
        return self._writer.write_postponed(value)


class FunctionWriter:
    """Writes one function: text lines, with the LLVM operand that stands for each SSA value."""

    def __init__(self, name: str, handlers: dict[str, Handler], module: ModuleParts, attributes: str) -> None:
        self.name = name
        self.attributes = attributes
        self.handlers = handlers
        self.module = module
        self.values: dict[SSAValue, str] = _Values(self)
        self.integers: dict[SSAValue, int] = {}
        self.sizes: dict[str, str] = {}
        self.kept_loops = 0
        """How many loops were written that LLVM does not write out."""
        self.lines: list[str] = []
        self.prologue: list[str] = []
        self.heap: list[str] = []
        self.pointer_facts: dict[SSAValue, PointerFacts] = {}
        self.kept: dict[Operation, str] = {}
        """What a thread keeps between chunks: allocations, where the memory is, and what fills them, where the argument
        is for which it was last done."""
        self.current_block = "entry"
        self.streams = False
        self.tiles: dict[SSAValue, int] = {}
        """The register of each tile."""
        self.configurations: dict[Operation, Loadable] = {}
        """The shapes of tiles that are loaded before an op."""
        self._count = 0
        self._stack_bytes = 0
        self._offsets: dict[str, str] = {}
        self._sums: dict[SSAValue, tuple[SSAValue, int]] = {}
        """Indices that are another one plus a number."""
        self._postponed: dict[SSAValue, tuple[int, str, Callable[[], str]]] = {}
        self._places: dict[tuple[str, str, tuple[tuple[str, int], ...]], tuple[str, int]] = {}
        """The first address in this block of those that are a number of elements apart, and what is added in it."""

    def type_of(self, value: SSAValue) -> LlvmType:
        """The LLVM type of a value that is computed with, so that it is no float of 16 bits."""
        known = llvm_type(value.type)
        if known.half:
            raise UnsupportedTypeError(f"{known.half} has no arithmetic in LLVM before the pass legalize-arith")
        return known

    def stored_type_of(self, value: SSAValue) -> LlvmType:
        """The LLVM type of a value that is only moved or stored: one of 16-bit floats is that of their bits."""
        return llvm_type(value.type)

    def strides(self, memref_type: MemRefType) -> tuple[int, ...]:
        """The strides of a memref type, in elements."""
        cached = self.module.strides.get(id(memref_type))
        if cached is None:
            cached = self.module.strides[id(memref_type)] = (memref_type, strides_of(memref_type))
        return cached[1]

    def fresh(self, stem: str = "v") -> str:
        """A name that no other value or block of the function has."""
        self._count += 1
        return f"{stem}{self._count}"

    def emit(self, instruction: str) -> str:
        """Write an instruction that has a result and return the operand that stands for it."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def effect(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def define(self, result: SSAValue, instruction: str) -> None:
        """Write the instruction that computes `result`."""
        self.values[result] = self.emit(instruction)

    def call_intrinsic(
        self, name: str, result: LlvmType, arguments: Sequence[tuple[LlvmType, str]], flags: str = ""
    ) -> str:
        """Call `llvm.<name>`, declaring it, and return its result."""
        types = ", ".join(argument.text for argument, _ in arguments)
        self.declare(f"declare {result.text} @llvm.{name}({types})")
        operands = ", ".join(f"{argument.text} {text}" for argument, text in arguments)
        call = f"call {flags}{result.text} @llvm.{name}({operands})"
        if result.text == "void":
            self.effect(call)
            return ""
        return self.emit(call)

    def declare(self, declaration: str) -> None:
        """Add a declaration to the module, once."""
        self.module.declarations[declaration] = None

    def operands(self, op: Operation) -> list[str]:
        """The LLVM operands of an operation."""
        values = self.values
        return [values[operand] for operand in op.operands]

    def typed(self, value: SSAValue) -> str:
        """A value with its type in front, as in an argument list."""
        return f"{self.stored_type_of(value).text} {self.values[value]}"

    def start_block(self, label: str) -> None:
        """Begin a basic block; the one before must have ended."""
        self._places.clear()
        self.lines.append(f"{label}:")
        self.current_block = label

    def branch(self, label: str) -> None:
        """End the block with a jump."""
        self.lines.append(f"  br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str, note: str = "") -> None:
        """End the block with a two-way branch."""
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{note}")

    def phi(self, phi_type: LlvmType, incoming: Sequence[tuple[str, str]]) -> str:
        """A phi of (value, block) pairs."""
        return self.emit(self.phi_text(phi_type, incoming))

    @staticmethod
    def phi_text(phi_type: LlvmType, incoming: Sequence[tuple[str, str]]) -> str:
        return f"phi {phi_type.text} " + ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)

    def reserve(self) -> tuple[int, str]:
        """Room for a phi whose incoming values are not known yet: its line and its name."""
        name = self.emit("")
        return len(self.lines) - 1, name

    def fill(self, line: int, name: str, instruction: str) -> None:
        """Write the instruction that `reserve` made room for."""
        self.lines[line] = f"  {name} = {instruction}"

    def add_number(self, result: SSAValue, index: SSAValue, number: int, instruction: Callable[[], str]) -> None:
        """Let `result` be an index plus a number. Most serve for addresses, which take the number themselves: the
        instruction is written here as soon as anything else asks for it."""
        base, before = self._sums.get(index, (index, 0))
        self._sums[result] = base, before + number
        line, name = self.reserve()
        self.lines[line] = ""
        self._postponed[result] = line, name, instruction

    def write_postponed(self, value: SSAValue) -> str:
        """Write what was to wait until it is asked for, and return its name."""
        line, name, instruction = self._postponed.pop(value)
        self.values[value] = name
        self.fill(line, name, instruction())
        return name

    @contextmanager
    def region(self) -> Generator[None]:
        """A nested region: the addresses computed in it do not dominate what follows, so they are forgotten then."""
        outer = self._offsets
        self._offsets = dict(outer)
        try:
            yield
        finally:
            self._offsets = outer

    def operations(self, block: Block) -> Operation | None:
        """Write the operations of a block up to its terminator, which is returned."""
        last = block.last_op
        handlers, configurations = self.handlers, self.configurations
        for op in block.ops:
            if configurations and (configuration := configurations.get(op)) is not None:
                configuration.load(self)
            handler = handlers.get(op.name)
            if handler is None:
                if op is last and op.name in TERMINATORS:
                    return op
                raise ValueError(f"emit_llvm: {op.name} in {self.name} has no lowering to LLVM")
            try:
                handler(self, op)
            except (UnknownSizeError, UnsupportedTypeError) as error:
                raise ValueError(f"emit_llvm: {op.name} in {self.name}: {error}") from None
        return None

    def address(self, memref: SSAValue, indices: Sequence[SSAValue], *, inbounds: bool = True) -> str:
        """The pointer to an element: one `getelementptr` with the row-major offset. Without `inbounds` the element need
        not be one of the memref's.

        In functions that LLVM's passes leave as they are it starts from an address before it in its block that is a
        known number of elements away, so that both are one address and a displacement; it need not be in bounds then.
        """
        memref_type = memref.type
        assert isinstance(memref_type, MemRefType)
        constant: int = 0
        terms: list[tuple[str, int]] = []
        for index, stride in zip(indices, self.strides(memref_type), strict=True):
            known = self.integers.get(index)
            if known is not None:
                constant += known * stride
            elif stride != 0:
                base, number = self._sums.get(index, (index, 0)) if not isinstance(stride, Size) else (index, 0)
                constant += number * stride
                terms.append((self.values[base], stride))
        element, pointer = llvm_type(memref_type.element_type).in_memory.element, self.values[memref]
        if self.attributes != LEFT_ALONE or isinstance(constant, Size):
            return self.offset_pointer(pointer, self.linear(constant, terms), element, inbounds=inbounds)
        key = element, pointer, tuple(terms)
        if (first := self._places.get(key)) is not None:
            return self.offset_pointer(first[0], str(constant - first[1]), element, inbounds=False)
        place = self.offset_pointer(pointer, self.linear(constant, terms), element, inbounds=False)
        self._places[key] = place, constant
        return place

    def linear(self, constant: int, terms: Sequence[tuple[str, int]]) -> str:
        """The i64 `constant + sum(value * factor)`, computed once per region."""
        total = ""
        for value, factor in terms:
            term = value if factor == 1 else self._once(f"mul nsw i64 {value}, {self.size(factor)}")
            total = term if not total else self._once(f"add nsw i64 {total}, {term}")
        if not total:
            return self.size(constant)
        return self._once(f"add nsw i64 {total}, {self.size(constant)}") if constant != 0 else total

    def bind_sizes(self, function: FuncOp) -> None:
        """Take what sizes are from the arguments of `function`, which have values by now."""
        self.sizes = {name: self.values[argument] for name, argument in size_arguments(function).items()}

    def size(self, size: int) -> str:
        """The i64 that a number, or a size known at launch, is."""
        if not isinstance(size, Size):
            return str(size)
        if missing := [name for name in size.names() if name not in self.sizes]:
            raise ValueError(f"emit_llvm: no argument of {self.name} tells what the size {missing[0]} is")
        return size.evaluate(lambda name: SizeText(self.arithmetic, self.sizes[name])).text

    def arithmetic(self, instruction: str, left: str, right: str) -> str:
        """The result of an i64 instruction, computed once per region."""
        return self._once(f"{instruction} i64 {left}, {right}")

    def offset_pointer(self, pointer: str, offset: str, element: str, *, inbounds: bool = True) -> str:
        """`pointer` moved by `offset` elements."""
        if offset == "0":
            return pointer
        flags = " inbounds" if inbounds else ""
        return self._once(f"getelementptr{flags} {element}, ptr {pointer}, i64 {offset}")

    def _once(self, instruction: str) -> str:
        name = self._offsets.get(instruction)
        if name is None:
            name = self._offsets[instruction] = self.emit(instruction)
        return name

    def stack_slot(self, size: int, alignment: int = 64) -> str:
        """`size` bytes on the stack that live as long as the function; allocated in the entry block."""
        self._stack_bytes += size
        if self._stack_bytes > STACK_LIMIT:
            raise ValueError(
                f"emit_llvm: {self.name} needs {self._stack_bytes} bytes of stack, at most {STACK_LIMIT} are allowed"
            )
        name = f"%{self.fresh('stack')}"
        self.prologue.append(f"  {name} = alloca [{size} x i8], align {alignment}")
        return name

    def heap_block(self, size: int) -> str:
        """`size` bytes from the heap, aligned to 64, given back when the function returns. Where the launch tells how
        many, the current place is one that each call comes to."""
        self.declare("declare noalias ptr @aligned_alloc(i64 allocalign, i64) nounwind")
        if isinstance(size, Size):
            name = self.emit(f"call ptr @aligned_alloc(i64 64, i64 {self.size((size + 63) // 64 * 64)})")
        else:
            name = f"%{self.fresh('heap')}"
            self.prologue.append(f"  {name} = call ptr @aligned_alloc(i64 64, i64 {-(-size // 64) * 64})")
        self.heap.append(name)
        return name

    def finish(self) -> list[str]:
        """Return from the function: the lines of its body, entry block first."""
        if self.configurations:
            self.call_intrinsic("x86.tilerelease", LlvmType("void", 0), [])
        if self.streams:
            self.effect("fence seq_cst")  # other threads see non-temporal stores in no order without it
        for name in self.heap:
            self.declare("declare void @free(ptr) nounwind")
            self.effect(f"call void @free(ptr {name})")
        return ["entry:", *self.prologue, *filter(None, self.lines)]


def braces(header: str, lines: Iterable[str]) -> str:
    """A function: its header, which ends with an opening brace, and its lines."""
    return "\n".join([header, *lines, "}"])


TERMINATORS = frozenset(
    {"func.return", "scf.yield", "scf.condition", "scf.reduce", "scf.reduce.return", "memref.alloca_scope.return"}
)
