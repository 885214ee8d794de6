"""`few-rows`: products whose rows only the launch counts have a kernel of their own for few of them.

Before: the buffered stage. After: the same; where a kernel multiplies rows, the number of which depends on sizes, by
columns that do not, there is a copy of it with the attribute `few`, a number for each of these sizes, and calls choose:

    func.call @k(...)   ->   scf.if (rows < LEAST) { func.call @k_few(...) } else { func.call @k(...) }

What is best for few rows is not what is best for many: the columns are read once or a few times, and a copy of them
takes as long as all products. Schedules are decided by what sizes are taken for (`estimate`), which in the copy are
the numbers of the attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Region

from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import NAMES, SizeValues
from tenon.lowering.function_pass import SizesPass
from tenon.lowering.kernels.shared_loops import is_contraction
from tenon.lowering.kernels.statement import LoopKind, Statement, read_kernel

LEAST = 16
"""Rows from which on they are not few."""
FEW = 8
"""Rows that what is decided for few of them is best for."""
ATTRIBUTE = "few"


@dataclass(frozen=True)
class FewRowsPass(SizesPass):
    """Give kernels of products a copy for few rows, where the launch tells how many there are."""

    name = "few-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Add the copies, and let calls choose."""
        functions = [function for function in op.body.block.ops if isinstance(function, func.FuncOp)]
        rows: dict[str, Any] = {}
        for function in functions:
            if "kernel" in function.attributes and (found := _rows(function)) is not None:
                copy = function.clone()
                copy.sym_name = StringAttr(_name_of_copy(function.sym_name.data))
                copy.attributes[ATTRIBUTE] = _few(found)
                op.body.block.insert_op_after(copy, function)
                rows[function.sym_name.data] = found
        for function in functions if rows else ():
            sizes = SizeValues.at_start(function)
            for call in [inner for inner in function.walk() if isinstance(inner, func.CallOp)]:
                if (found := rows.get(call.callee.string_value())) is not None:
                    _choose(call, sizes, found)


def _rows(function: func.FuncOp) -> Size | None:
    """How many rows the products of a kernel have, where only the launch tells; the fewest, of several products."""
    names = function.attributes.get(NAMES)
    found = [rows for s in read_kernel(function).statements if isinstance(rows := _rows_of(s), Size)] if names else []
    return min(found, key=lambda rows: rows.evaluate(lambda _: 1), default=None)


def _rows_of(statement: Statement) -> Any:
    """How often a product reads the operand that has the columns, the last loop of its result; `None` if few rows need
    nothing else."""
    if not is_contraction(statement):
        return None
    columns = statement.outputs[0].plain_loops()[-1]
    operands = [access.loops() for access in statement.inputs if columns is not None and columns in access.loops()]
    if len(operands) != 1 or any(isinstance(statement.extents[loop], Size) for loop in operands[0]):
        return None
    rows = prod(statement.extents[loop] for loop in statement.loops(LoopKind.PARALLEL) if loop not in operands[0])
    return rows if isinstance(rows, Size) and rows.evaluate(lambda _: 1) < LEAST else None


def numbers_of(function: func.FuncOp) -> dict[str, int]:
    """What sizes are taken for in a kernel for few rows; nothing in others."""
    few = function.attributes.get(ATTRIBUTE)
    entries = few.data.items() if isinstance(few, DictionaryAttr) else ()
    return {name: number.value.data for name, number in entries if isinstance(number, IntegerAttr)}


def _few(rows: Size) -> DictionaryAttr:
    """A number for each name in `rows`, of which they are few then."""
    number = max(n for n in range(1, FEW + 1) if n == 1 or rows.evaluate(lambda _, n=n: n) <= FEW)
    return DictionaryAttr({name: IntegerAttr(number, i64) for name in rows.names()})


def _name_of_copy(name: str) -> str:
    return f"{name}_few"


def _choose(call: func.CallOp, sizes: SizeValues, rows: Size) -> None:
    """Let what is called depend on how many `rows` there are."""
    block = call.parent
    assert block is not None
    condition = arith.CmpiOp(sizes.value(rows), sizes.value(LEAST), "ult")
    few = func.CallOp(_name_of_copy(call.callee.string_value()), list(call.operands), [])
    few.location = call.location
    block.insert_op_before(condition, call)
    otherwise = Block()
    chosen = scf.IfOp(condition.result, [], Region(Block([few, scf.YieldOp()])), Region(otherwise))
    block.insert_op_before(chosen, call)
    call.detach()
    otherwise.add_ops([call, scf.YieldOp()])
