"""Numbers that the launch tells a kernel: those by which kernels of other sizes differ, for which the text is the same.

They are constants with an attribute (`AT_LAUNCH`), so that all passes know them; in text they are parameters behind the
arguments.
"""

from __future__ import annotations

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr

from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.cuda.kernel_writer import KernelWriter
from tenon.lowering.grids.thread_code import AT_LAUNCH


def told_numbers(function: func.FuncOp) -> tuple[int, ...]:
    """The numbers that a kernel is given behind its arguments, in order."""
    return tuple([op.value.value.data for op in _told(function) if isinstance(op.value, IntegerAttr)])


def told_parameters(writer: KernelWriter, function: func.FuncOp) -> list[str]:
    """The parameters for them."""
    return [writer.parameter(op.result, "") for op in _told(function)]


def _told(function: func.FuncOp) -> list[arith.ConstantOp]:
    return [op for op in ops_of(function, arith.ConstantOp) if AT_LAUNCH in op.attributes]
