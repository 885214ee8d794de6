"""A loop-stage module as LLVM IR text.

Before: the module is at the loop stage: `func.func @main` on memrefs, kernels, large constants as `memref.global`, and
the operations of `func`, `scf`, `memref`, `vector`, `arith` and `math` with all shapes and strides known.
After: text that LLVM 22 parses, with an external function `void @main(ptr %args)`, where `args` is an array of
pointers, one per argument of `main` in order; a size (`index`) is passed as a pointer to an i64. `@prepare`, if there
is one, is another such function. Everything else is internal; functions without a body are left to the process, unless
they bring LLVM IR of their own in `llvm_source`.

The caller of the entry guarantees that each buffer is aligned to its element, that the arena (the last argument) is
aligned to 64 bytes, and that no output overlaps another argument except the input that `donations` names for it.

Functions may be written one by one (`ModuleEmitter`), each as soon as it is at the loop stage.

There is no optimization here: one operation is what `tables` says, after `legalize-arith`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import GlobalOp
from xdsl.ir import Block

from tenon.dialects.families.host import is_host_call
from tenon.dialects.support.frozen_arguments import PREPARE
from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.llvm.aliasing import PointerFacts, pointer_attributes, pointer_facts
from tenon.lowering.llvm.arith import ARITH_HANDLERS
from tenon.lowering.llvm.contract import CONTRACT_HANDLERS
from tenon.lowering.llvm.control import CONTROL_HANDLERS, function_body
from tenon.lowering.llvm.function import METADATA, FunctionWriter, Handler, ModuleParts, braces
from tenon.lowering.llvm.given_text import DECLARATION, given_text
from tenon.lowering.llvm.host_calls import host_call
from tenon.lowering.llvm.math import MATH_HANDLERS
from tenon.lowering.llvm.memory import MEMORY_HANDLERS
from tenon.lowering.llvm.threads import THREAD_HANDLERS
from tenon.lowering.llvm.tiles import TILE_HANDLERS
from tenon.lowering.llvm.types import byte_string, initial_bytes, llvm_type
from tenon.lowering.llvm.vector import VECTOR_HANDLERS
from tenon.lowering.loop_passes.mark_final import FEW_PASSES, FINAL
from tenon.passes.machine import ALIGNMENT

HANDLERS: dict[str, Handler] = {
    **ARITH_HANDLERS,
    **MATH_HANDLERS,
    **MEMORY_HANDLERS,
    **VECTOR_HANDLERS,
    **CONTRACT_HANDLERS,
    **TILE_HANDLERS,
    **CONTROL_HANDLERS,
    **THREAD_HANDLERS,
}

ENTRY = "main"
# What all of LLVM's passes may change, what they shall leave as it is, and what few of them are run on.
_ATTRIBUTES = {"#0": "", "#1": ' "final"', "#2": ' "few-passes"'}


def emit_llvm(module: ModuleOp, *, native_f16: bool = True, dots: Sequence[str] = (), tiles: Sequence[str] = ()) -> str:
    """The module as LLVM IR text, with the entry `void @main(ptr %args)`.

    `native_f16` says that the target converts between f16 and f32 in hardware; without it that is done by integer
    arithmetic. `dots` has the elements, bf16 and i8, of whose groups the target has dot products, `tiles` those that it
    multiplies as matrices in tile registers. Raises `ValueError` naming the operation, type or function that has no
    lowering.
    """
    return ModuleEmitter(module, native_f16=native_f16, dots=dots, tiles=tiles).text()


@dataclass(frozen=True, slots=True)
class EmittedFunction:
    """A function as text, its header first, and what it brings to its module."""

    text: str
    parts: ModuleParts
    attributes: str
    """Those of the function: which of LLVM's passes it is for (`llvm_parts`)."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The function, and those that its parallel loops became."""
        return (self.text, *self.parts.functions)


class ModuleEmitter:
    """Writes the functions of a module, in any order. Kernels may still be at the stage before when it is made: what is
    told of their pointers comes from the calls in the entries."""

    def __init__(
        self, module: ModuleOp, *, native_f16: bool = True, dots: Sequence[str] = (), tiles: Sequence[str] = ()
    ) -> None:
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        self._entries = [
            functions[name] for name in (ENTRY, PREPARE) if name in functions and functions[name].body.blocks
        ]
        if not self._entries or self._entries[0].sym_name.data != ENTRY:
            raise ValueError("emit_llvm: the module has no func.func @main with a body")
        self._module = module
        self._facts = pointer_facts(module, self._entries)
        self._shared = ModuleParts(native_f16, tuple(dots), tuple(tiles))

    def function(self, op: FuncOp) -> EmittedFunction:
        """The text of one function."""
        parts = replace(self._shared, declarations={}, given_declarations={}, functions=[])
        text = _entry(op, parts) if op in self._entries else _function(op, parts, self._facts)
        return EmittedFunction(text, parts, _attributes(op))

    def text(self) -> str:
        """The whole module."""
        return self.joined({op: self.function(op) for op in self._module.ops if isinstance(op, FuncOp)})

    @staticmethod
    def declaration(op: FuncOp) -> str:
        """A line for modules that call a function which is defined elsewhere: in a module that they are linked with, if
        it has a body here."""
        types = ", ".join(llvm_type(argument).text for argument in op.function_type.inputs)
        visibility = "hidden " if op.body.blocks else ""
        return f"declare {visibility}{_result_type(op)} @{op.sym_name.data}({types}) nounwind"

    def variables(self) -> dict[str, str]:
        """What defines each variable of the module, by name."""
        return {op.sym_name.data: _global(op) for op in self._module.ops if isinstance(op, GlobalOp)}

    def joined(self, functions: Mapping[FuncOp, EmittedFunction]) -> str:
        """The text of the whole module."""
        text: list[str] = []
        for op in self._module.ops:
            if isinstance(op, GlobalOp):
                text.append(_global(op))
            elif isinstance(op, FuncOp):
                text.append(functions[op].text)
            else:
                raise ValueError(f"emit_llvm: {op.name} at the top of a module has no lowering to LLVM")
        return module_text(text, [function.parts for function in functions.values()])


def module_text(text: Sequence[str], parts: Sequence[ModuleParts]) -> str:
    """A module of functions and variables, with the other functions and declarations that they bring."""
    known = {line: None for part in parts for line in part.declarations}
    given = {name: line for part in reversed(parts) for name, line in part.given_declarations.items()}
    chunks = [function for part in parts for function in part.functions]
    attributes = [f"attributes {number} = {{ nounwind noinline{kind} }}" for number, kind in _ATTRIBUTES.items()]
    return "\n".join([*text, *chunks, *_declarations(known, given), *attributes, *METADATA, ""])


def _global(op: GlobalOp) -> str:
    value, size = op.initial_value, buffer_bytes(op.type)
    kind = "constant" if op.constant is not None else "global"
    data = initial_bytes(value) if isinstance(value, DenseIntOrFPElementsAttr) else b""
    if len(data) < size and data:
        data *= size // len(data)
    data = data[:size]  # a splat of no elements still has one number
    initial = byte_string(data) if any(data) else "zeroinitializer"
    alignment = max(ALIGNMENT, op.alignment.value.data if op.alignment is not None else 0)
    return f"@{op.sym_name.data} = internal {kind} [{size} x i8] {initial}, align {alignment}"


def _result_type(function: FuncOp) -> str:
    match function.function_type.outputs.data:
        case ():
            return "void"
        case (result,):
            return llvm_type(result).text
        case results:
            name = function.sym_name.data
            raise ValueError(f"emit_llvm: {name} has {len(results)} results, at most one is supported")


def _function(function: FuncOp, parts: ModuleParts, facts: dict[tuple[str, int], PointerFacts]) -> str:
    if "llvm_source" in function.attributes or "llvm_refused" in function.attributes:
        return given_text(function, parts)
    if is_host_call(function):
        return host_call(function, parts)
    if not function.body.blocks:
        return ModuleEmitter.declaration(function)
    name, result = function.sym_name.data, _result_type(function)
    writer = FunctionWriter(name, HANDLERS, parts, _attributes(function))
    parameters = []
    for number, argument in enumerate(_single_block(function).args):
        writer.values[argument] = f"%a{number}"
        attributes = ""
        if isinstance(argument.type, MemRefType):
            known = facts.get((name, number))
            attributes = pointer_attributes(argument.type, known)
            if known is not None:
                writer.pointer_facts[argument] = known
                if known.same_as is not None:
                    writer.values[argument] = f"%a{known.same_as}"
        parameters.append(f"{writer.stored_type_of(argument).text} {attributes}%a{number}")
    writer.bind_sizes(function)
    header = f"define internal {result} @{name}({', '.join(parameters)}) {writer.attributes} {{"
    return braces(header, function_body(writer, function.body.block))


def brings_text(function: FuncOp) -> bool:
    """Whether a function without a body has text all the same: LLVM IR of its own, or a call of the host."""
    return not {"llvm_source", "llvm_refused"}.isdisjoint(function.attributes) or is_host_call(function)


def _attributes(function: FuncOp) -> str:
    return "#1" if FINAL in function.attributes else "#2" if FEW_PASSES in function.attributes else "#0"


def _declarations(emitted: Iterable[str], given: Mapping[str, str]) -> list[str]:
    """What the emitter declares, and what given sources declare beyond that."""
    known = {declared[1] for line in emitted if (declared := DECLARATION.match(line))}
    return [*emitted, *(line for name, line in given.items() if name not in known)]


def _entry(entry: FuncOp, parts: ModuleParts) -> str:
    name = entry.sym_name.data
    if entry.function_type.outputs.data:
        raise ValueError(f"emit_llvm: {name} has results, expected its outputs to be memref arguments")
    writer = FunctionWriter(name, HANDLERS, parts, _attributes(entry))
    for number, argument in enumerate(_single_block(entry).args):
        if not isinstance(argument.type, MemRefType | IndexType):
            raise ValueError(f"emit_llvm: argument {number} of {name} is {argument.type}, expected a memref")
        slot = writer.offset_pointer("%args", str(number), "ptr")
        writer.define(argument, f"load ptr, ptr {slot}, align 8")
        if isinstance(argument.type, IndexType):
            writer.define(argument, f"load i64, ptr {writer.values[argument]}, align 8")
    writer.bind_sizes(entry)
    header = f"define void @{name}(ptr noalias readonly %args) {writer.attributes} {{"
    return braces(header, function_body(writer, entry.body.block))


def _single_block(function: FuncOp) -> Block:
    blocks = list(function.body.blocks)
    if len(blocks) != 1:
        raise ValueError(f"emit_llvm: {function.sym_name.data} has {len(blocks)} blocks, expected one")
    return blocks[0]
