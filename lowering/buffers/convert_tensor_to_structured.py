"""Tensor IR to structured IR.

Before: functions on tensors whose composites were decomposed; after `fuse`, if kernels are wanted. After: no op of the
`tenon` dialect is left, and integers are signless. Each op states its own meaning (`structured`); control flow becomes
`scf`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition import signedness
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, inserting
from tenon.dialects.families import StructuredOp
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.support.location import at_line
from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.size_values import SizeValues, names_in, sizes_from
from tenon.lowering.buffers.size_arguments import add_size_arguments, note_positive_sizes, pass_size_arguments


def convert_block(block: Block) -> None:
    """Convert the ops of `block`, and of the regions in it, in place."""
    for op in list(block.ops):
        if not isinstance(op, TensorOp):
            for region in op.regions:
                for nested in region.blocks:
                    convert_block(nested)
        with inserting(InsertionPoint(block, op)):
            results = _converted(op)
        if results is None:
            continue
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.detach()
        op.erase()


def _converted(op: Operation) -> Sequence[SSAValue] | None:
    if isinstance(op, ControlFlowOp):
        return op.structured()
    if isinstance(op, StructuredOp):
        try:
            return op.structured(op.grouped_operands())
        except UndecidedSizeError:
            raise
        except ValueError as error:
            raise PassFailedException(f"{op.name}: {error}{at_line(op)}") from error
    if isinstance(op, TensorOp):
        raise PassFailedException(f"{op.name}: is no structured op; run decompose first")
    return None


@dataclass(frozen=True)
class ConvertTensorToStructuredPass(ModulePass):
    """Replace every op of the tensor dialect by `linalg`, `tensor` and `scf`."""

    name = "convert-tensor-to-structured"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]
        for function in functions:
            if names := names_in(function):
                add_size_arguments(function, names)
        pass_size_arguments(functions)
        required: dict[Size, None] = {}
        for function in functions:
            with sizes_from(SizeValues.at_start(function, required)):
                convert_block(function.body.block)
        note_positive_sizes(functions, required)
        signedness.erase(op)
