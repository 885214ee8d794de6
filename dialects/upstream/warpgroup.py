"""The dialect `warpgroup`: products of matrices by four warps, which read their operands from shared memory and are not
waited for where they begin.

Upstream's `nvgpu.warpgroup.mma` takes operands that tensor maps describe, and its sums are values; here they are
registers that the products go on to change, until `nvvm.wgmma.wait.group.sync.aligned`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, UnitAttr, i1, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)

from tenon.dialects.upstream.nvgpu import check_shared

SPAN = 128
"""Bytes of the rows of operands in shared memory, in which runs of 16 bytes trade places."""
REPEAT = 8
"""Rows after which the order of runs repeats; operands begin at multiples of so many."""
ROWS = 64
"""Of the product."""
_REGISTERS = IntegerAttr(5, i64)


@irdl_op_definition
class WarpgroupMmaOp(IRDLOperation):
    """Begin to add the product of `a`, of 64 rows, and `b` to `sums`, of which each thread holds some in registers.

    The last two dimensions of `a` and `b` are rows of 128 bytes. These are along the reduced axis, 16 elements of which
    are multiplied; with `transposeA`, `transposeB` they are along the rows or the columns of the result, and the first
    dimension of several behind that of stages is what continues them. `a` may be in registers (memory space 5), from
    its indices on as the instruction deals it out. Without `adds`, where that is given, the product takes the place of
    what `sums` held."""

    name = "warpgroup.mma"

    a = operand_def(MemRefType)
    a_indices = var_operand_def(IndexType())
    b = operand_def(MemRefType)
    b_indices = var_operand_def(IndexType())
    sums = operand_def(MemRefType)
    sums_indices = var_operand_def(IndexType())
    adds = opt_operand_def(i1)
    columns = prop_def(IntegerAttr)
    transpose_a = opt_prop_def(UnitAttr, prop_name="transposeA")
    transpose_b = opt_prop_def(UnitAttr, prop_name="transposeB")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        a: tuple[SSAValue, Sequence[SSAValue]],
        b: tuple[SSAValue, Sequence[SSAValue]],
        sums: tuple[SSAValue, Sequence[SSAValue]],
        columns: int,
        adds: SSAValue | None = None,
        *,
        transpose_a: bool,
        transpose_b: bool,
    ) -> None:
        """Each operand with the indices of its first element."""
        transposed = {"transposeA": transpose_a, "transposeB": transpose_b}
        properties: dict[str, Attribute] = {name: UnitAttr() for name, holds in transposed.items() if holds}
        properties["columns"] = IntegerAttr(columns, i64)
        super().__init__(operands=[*a, *b, *sums, [adds] if adds is not None else []], properties=properties)

    def verify_(self) -> None:
        for operand in (self.b,) if self.a_in_registers else (self.a, self.b):
            check_shared(self.name, operand.type)

    @property
    def a_in_registers(self) -> bool:
        """Whether threads hold the left operand."""
        return isinstance(self.a.type, MemRefType) and self.a.type.memory_space == _REGISTERS


Warpgroup = Dialect("warpgroup", [WarpgroupMmaOp])
