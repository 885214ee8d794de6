"""How many operations on numbers the kernels of a buffered module execute."""

from __future__ import annotations

from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tenon.dialects.types.size import Size
from tenon.lowering.kernels.statement import Statement, kernels_of, read_kernel

FREE = (
    arith.ConstantOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.TruncIOp,
    arith.IndexCastOp,
    arith.BitcastOp,
    arith.SelectOp,
)
"""What computes nothing new."""


def operations_of(module: ModuleOp) -> dict[str, int]:
    """For each kernel, by name, what its statements execute in one call: each operation of arithmetic counts for one, a
    fused multiply-add for two. What is not a statement (the loops of a scatter) does not count. The kernels are read by
    `read_kernel`, which changes them."""
    return {
        function.sym_name.data: sum(map(_of_statement, read_kernel(function).statements))
        for function in kernels_of(module)
    }


def _of_statement(statement: Statement) -> int:
    extents = [1 if isinstance(extent, Size) else extent for extent in statement.extents]
    return prod(extents) * sum(_weight(op) for op in statement.body.walk())


def _weight(op: Operation) -> int:
    if isinstance(op, FREE) or op.dialect_name() not in ("arith", "math"):
        return 0
    return 2 if isinstance(op, math.FmaOp) else 1
