"""The text of one kernel while it is written: variables, types, and expressions by the tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xdsl.dialects.arith import FastMathFlag, FastMathFlagsAttr
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.lowering.cuda.shared_memory import SharedMemory
from tenon.lowering.cuda.tables import (
    APPROXIMATIONS,
    BY_RECIPROCAL,
    FLOAT_EXPRESSIONS,
    FLUSHED,
    INTEGER_EXPRESSIONS,
    PAIR_EXPRESSIONS,
    memory_type,
    same_width_unsigned,
    scalar_type,
    unsigned_type,
)
from tenon.lowering.grids.thread_code import FLUSH

# Looked up by name: ops that widen an upstream op to vectors share its name, and mean the same on scalars.
FLOATS, INTEGERS = (
    {kind.name: expression for kind, expression in table.items()} for table in (FLOAT_EXPRESSIONS, INTEGER_EXPRESSIONS)
)
FLUSHES = {kind.name: expression for kind, expression in FLUSHED.items()}
APPROXIMATE = {kind.name: expression for kind, expression in APPROXIMATIONS.items()}
PAIRS = {kind.name: pair for kind, pair in PAIR_EXPRESSIONS.items()}


class EmissionError(ValueError):
    """An op or a type that has no CUDA C++ form."""


class KernelWriter:
    """Writes the statements of one kernel: of what the tables have no expression for as `statements` say, by the names
    of ops; `names` holds the C variable of each value."""

    def __init__(
        self, kernel: str, statements: Mapping[str, Callable[[KernelWriter, Any], None]], index_bits: int = 64
    ):
        self._statements = statements
        self._index = IntegerType(index_bits)
        self.kernel = kernel
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.depth = 0
        self.shared = SharedMemory(0, {})

    def error(self, message: str) -> EmissionError:
        return EmissionError(f"emit_cuda: @{self.kernel}: {message}")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def name(self, value: SSAValue) -> str:
        """A new variable for `value`, after its name in the IR."""
        hint = re.sub(r"\W", "_", value.name_hint or "v")
        name = self.names[value] = f"{hint}_{len(self.names)}"
        return name

    def known(self, element: Attribute) -> Attribute:
        """`element`, or the integer that an index is."""
        return self._index if isinstance(element, IndexType) else element

    def type(self, element: Attribute) -> str:
        if isinstance(element, VectorType):
            return self.vector_type(element)
        if (name := scalar_type(self.known(element))) is None:
            raise self.error(f"{element} has no type in CUDA C++")
        return name

    def vector_type(self, vector: Attribute) -> str:
        """The C type of a vector, which is aligned to its size; of several dimensions row by row."""
        assert isinstance(vector, VectorType)
        return f"tn_vector<{self.memory_type(vector.element_type)}, {prod(vector.get_shape())}>"

    def number_type(self, op: Operation) -> str:
        """The C type of the result of a conversion between types that C has numbers of."""
        source, target = op.operands[0].type, op.results[0].type
        if isinstance(source, Float16Type | BFloat16Type) or isinstance(target, Float16Type | BFloat16Type):
            raise self.error(f"{op.name} from {source} to {target} has no CUDA C++ form before legalize-arith")
        return self.type(target)

    def memory_type(self, element: Attribute) -> str:
        if (name := memory_type(element)) is None:
            raise self.error(f"{element} has no type in CUDA C++")
        return name

    def parameter(self, argument: SSAValue, qualifier: str) -> str:
        if isinstance(argument.type, MemRefType):
            return f"{self.memory_type(argument.type.element_type)} *{qualifier}{self.name(argument)}"
        return f"{self.type(argument.type)} {self.name(argument)}"

    def declare(self, value: SSAValue, expression: str) -> None:
        self.line(f"{self.type(value.type)} {self.name(value)} = {expression};")

    def assign(self, targets: Sequence[SSAValue], sources: Sequence[SSAValue]) -> None:
        """Give `targets` the values of `sources` all at once."""
        pairs = [(self.names[target], self.names[source]) for target, source in zip(targets, sources, strict=True)]
        pairs = [(target, source) for target, source in pairs if target != source]
        assigned = {target for target, _ in pairs}
        if any(source in assigned for _, source in pairs):
            for target, source in zip(targets, sources, strict=True):
                self.line(f"{self.type(target.type)} next_{self.names[target]} = {self.names[source]};")
            pairs = [(target, f"next_{target}") for target, _ in pairs]
        for target, source in pairs:
            self.line(f"{target} = {source};")

    def block(self, block: Block) -> None:
        self.depth += 1
        for op in block.ops:
            self.op(op)
        self.depth -= 1

    def op(self, op: Operation) -> None:
        if (statement := self._statements.get(op.name)) is not None:
            statement(self, op)
        elif (pair := PAIRS.get(op.name)) is not None:
            for result, expression in zip(op.results, pair, strict=True):
                self.declare(result, self.filled(op, expression, op.results[0].type))
        else:
            self.declare(op.results[0], self.filled(op, self.expression(op), op.results[0].type))

    def expression(self, op: Operation) -> str:
        """The expression of an arithmetic op, from the table for its element type."""
        element = op.operands[0].type if op.operands else None
        table = FLOATS if isinstance(element, Float32Type | Float64Type) else INTEGERS
        flags = op.properties.get("fastmath")
        allowed = flags.data if isinstance(flags, FastMathFlagsAttr) else ()
        if FastMathFlag.APPROX_FUNC in allowed and op.name in APPROXIMATE and isinstance(element, Float32Type):
            if FLUSH in op.attributes and op.name in FLUSHES:
                return FLUSHES[op.name]
            return BY_RECIPROCAL if FastMathFlag.ALLOW_RECIP in allowed else APPROXIMATE[op.name]
        if op.name in table and not isinstance(element, Float16Type | BFloat16Type):
            return table[op.name]
        raise self.error(f"{op.name} on {element} has no CUDA C++ form")

    def filled(self, op: Operation, expression: str, element: Attribute) -> str:
        operands = [self.names[operand] for operand in op.operands]
        source, element = self.known(op.operands[0].type), self.known(element)
        is_integer = isinstance(element, IntegerType)
        return expression.format(
            *operands,
            T=self.type(element),
            U=unsigned_type(element),
            W=same_width_unsigned(element) if is_integer else "",
            V=same_width_unsigned(source) if isinstance(source, IntegerType) else "",
            bits=element.width.data if isinstance(element, IntegerType) else 64,
            f="f" if isinstance(source, Float32Type) else "",
        )

    def element(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """The element of `buffer` at `indices`."""
        assert isinstance(buffer.type, MemRefType)
        strides = buffer.type.get_strides()
        if strides is None or any(stride is None for stride in strides):
            raise self.error(f"{buffer.type} has no static strides")
        terms = [
            self.names[index] if stride == 1 else f"{self.names[index]} * {stride}"
            for index, stride in zip(indices, strides, strict=True)
            if stride
        ]
        return f"{self.names[buffer]}[{' + '.join(terms) or '0'}]"
