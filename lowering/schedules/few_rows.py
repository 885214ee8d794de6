"""`few-rows`: products whose rows only the launch counts have kernels of their own for few of them.

Before: the buffered stage. After: the same; where a kernel multiplies rows, the number of which depends on sizes, by
columns that do not, there is a copy of it with the attribute `few`, a number for each of these sizes, and calls choose:

    func.call @k(...)   ->   scf.if (rows < LEAST) { func.call @k_few(...) } else { func.call @k(...) }

What is best for few rows is not what is best for many: the columns are read once or a few times, and a copy of them
takes as long as all products. Schedules are decided by what sizes are taken for (`estimate`), which in the copy are
the numbers of the attribute.

Columns whose neighbours are apart while a reduction runs along memory (A times B transposed) are copied even for eight
rows; up to `FEWEST` sum along the reduction as they are, in a second copy:

    scf.if (rows <= FEWEST) { func.call @k_fewest(...) } else { scf.if (rows < LEAST) { ... } }
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, Region

from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import NAMES, SizeValues
from tenon.lowering.function_pass import SizesPass
from tenon.lowering.kernels.shared_loops import is_contraction
from tenon.lowering.kernels.statement import LoopKind, Statement, Stride, read_kernel

LEAST = 16
"""Rows from which on they are not few."""
FEW = 8
"""Rows that what is decided for few of them is best for."""
FEWEST = 4
"""Rows up to which columns that are apart are not worth a copy, and that what is decided without one is best for."""
ATTRIBUTE = "few"


@dataclass(frozen=True)
class FewRowsPass(SizesPass):
    """Give kernels of products copies for few rows, where the launch tells how many there are."""

    name = "few-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Add the copies, and let calls choose."""
        functions = [function for function in op.body.block.ops if isinstance(function, func.FuncOp)]
        rows: dict[str, _Rows] = {}
        for function in functions:
            if "kernel" in function.attributes and (found := _rows(function)) is not None:
                for suffix, _, number in reversed(found.copies()):
                    copy = function.clone()
                    copy.sym_name = StringAttr(function.sym_name.data + suffix)
                    copy.attributes[ATTRIBUTE] = _few(found.count, number)
                    op.body.block.insert_op_after(copy, function)
                rows[function.sym_name.data] = found
        for function in functions if rows else ():
            sizes = SizeValues.at_start(function)
            for call in [inner for inner in function.walk() if isinstance(inner, func.CallOp)]:
                if (found := rows.get(call.callee.string_value())) is not None:
                    _choose(call, sizes, found)


@dataclass(frozen=True)
class _Rows:
    """How many rows a kernel multiplies, and whether by columns that are apart while a reduction runs along memory."""

    count: Size
    columns_are_apart: bool

    def copies(self) -> list[tuple[str, int, int]]:
        """What the names of the copies end in, below how many rows each is called, and how many each is decided for."""
        few = [("_few", LEAST, FEW)]
        has_fewest = self.columns_are_apart and self.count.evaluate(lambda _: 1) <= FEWEST
        return [("_fewest", FEWEST + 1, FEWEST), *few] if has_fewest else few


def _rows(function: func.FuncOp) -> _Rows | None:
    """How many rows the products of a kernel have, where only the launch tells; the fewest, of several products."""
    names = function.attributes.get(NAMES)
    found = [rows for s in read_kernel(function).statements if (rows := _rows_of(s)) is not None] if names else []
    return min(found, key=lambda rows: rows.count.evaluate(lambda _: 1), default=None)


def _rows_of(statement: Statement) -> _Rows | None:
    """How often a product reads the operand that has the columns, the last loop of its result; `None` if few rows need
    nothing else."""
    if not is_contraction(statement):
        return None
    columns = statement.outputs[0].plain_loops()[-1]
    operands = [access for access in statement.inputs if columns is not None and columns in access.loops()]
    if len(operands) != 1 or any(isinstance(statement.extents[loop], Size) for loop in operands[0].loops()):
        return None
    (operand,) = operands
    rows: Any = prod(
        statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL) if loop not in operand.loops()
    )
    if not isinstance(rows, Size) or rows.evaluate(lambda _: 1) >= LEAST:
        return None
    runs_along = any(operand.stride(loop) is Stride.UNIT for loop in statement.loops(LoopKind.REDUCTION))
    return _Rows(rows, runs_along and columns is not None and operand.stride(columns) is Stride.OTHER)


def numbers_of(function: func.FuncOp) -> dict[str, int]:
    """What sizes are taken for in a kernel for few rows; nothing in others."""
    few = function.attributes.get(ATTRIBUTE)
    entries = few.data.items() if isinstance(few, DictionaryAttr) else ()
    return {name: number.value.data for name, number in entries if isinstance(number, IntegerAttr)}


def _few(rows: Size, most: int) -> DictionaryAttr:
    """A number for each name in `rows`, of which they are `most` then, or as many as they can be below."""
    number = max(n for n in range(1, most + 1) if n == 1 or rows.evaluate(lambda _, n=n: n) <= most)
    return DictionaryAttr({name: IntegerAttr(number, i64) for name in rows.names()})


def _choose(call: func.CallOp, sizes: SizeValues, rows: _Rows) -> None:
    """Let what is called depend on how many `rows` there are."""
    block, count, callee = call.parent, sizes.value(rows.count), call.callee.string_value()
    assert block is not None
    following: Operation = call
    otherwise = Block()
    for suffix, least, _ in rows.copies():
        condition = arith.CmpiOp(count, sizes.value(least), "ult")
        copy = func.CallOp(callee + suffix, list(call.operands), [])
        copy.location = call.location
        otherwise = Block()
        chosen = scf.IfOp(condition.result, [], Region(Block([copy, scf.YieldOp()])), Region(otherwise))
        for op in (condition, chosen):
            block.insert_op_before(op, following)
        following = scf.YieldOp()
        block = otherwise
        block.add_op(following)
    call.detach()
    otherwise.insert_op_before(call, following)
