"""Batching: a function of one example becomes one of many.

Before: a function on tensors without calls, which is not called itself. After: each of its arguments, and each result,
has a new first dimension, the examples. Arguments that are resources, such as weights, stay as they are: they are the
same for every example.

The rules: an op with a `batch` hook has its own; every other composite op is batched as what it decomposes into,
unless it has a gradient of its own, which would get lost; what is left runs example by example, as a `tenon.scan`.
What does not depend on an argument is computed once. Since all of these are ordinary ops, what is batched can be
batched again, and differentiated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, insertion_point
from tenon.dialects.families import CompositeOp, as_tuple
from tenon.dialects.families.batching import stacked
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.families.regions import used_values
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.control_flow import CondOp, WhileLoopOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.dialects.support.location import at_line
from tenon.dialects.types.shapes import compatible
from tenon.dialects.types.types import RESOURCE, shape_of
from tenon.passes.simplify.dce import functions_by_name, referenced_symbols
from tenon.passes.transform.batch_control_flow import (
    batch_checkpoint,
    batch_cond,
    batch_scan,
    batch_while_loop,
    batch_with_gradient,
)
from tenon.passes.transform.batch_spread import spread
from tenon.passes.transform.batched_values import BatchedValues, stacked_type


class Batching(BatchedValues):
    """Builds ops again for `size` examples at once."""

    def build(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            self.build_for(op)
            if isinstance(op, YieldOp | func.ReturnOp):
                continue
            if isinstance(op, CondOp | WhileLoopOp | ScanOp | CheckpointOp | WithGradientOp):
                self._control_flow(op)
            elif not any(operand in self.batched for operand in op.operands):
                emit(op.clone(self._values))
            elif isinstance(op, TensorOp):
                self.set(op.results, self._checked(op, self._tensor_op(op)))
            else:
                raise TypeError(f"{op.name}: batching knows no rule for this op{at_line(op)}")

    def _control_flow(self, op: CondOp | WhileLoopOp | ScanOp | CheckpointOp | WithGradientOp) -> None:
        if not any(v in self.batched for v in used_values(op)):
            emit(op.clone(self._values))
            return
        match op:
            case CondOp():
                batch_cond(self, op)
            case WhileLoopOp():
                batch_while_loop(self, op)
            case ScanOp():
                batch_scan(self, op)
            case CheckpointOp():
                batch_checkpoint(self, op)
            case WithGradientOp():
                batch_with_gradient(self, op)

    def _tensor_op(self, op: TensorOp) -> tuple[Value, ...]:
        if type(self.size) is int and self.size == 0:
            return self._one_by_one(op)  # rules may make groups, of which there is one at least, of examples
        batched = map_grouped(lambda v: v in self.batched, op.grouped_operands())
        given = op.batch(
            self.size,
            [False if known is None else known for known in batched],
            *map_grouped(self.get, op.grouped_operands()),
            **op.settings,
        )
        if given is not NotImplemented:
            return as_tuple(given)
        if isinstance(op, CompositeOp) and not hasattr(type(op), "vjp"):
            return self._decomposed(op)
        return self._one_by_one(op)

    def _decomposed(self, op: CompositeOp) -> tuple[Value, ...]:
        block = Block(arg_types=[v.type for v in op.operands])
        with inserting(InsertionPoint(block)):
            outputs = op.decomposed(map_grouped(Value, op.group(block.args, op.properties)))
        parts = Batching(self.size, self._location)
        parts.set(block.args, [self.get(v) for v in op.operands])
        parts.batched.update([a for a, v in zip(block.args, op.operands, strict=True) if v in self.batched])
        spread(block.ops, parts.batched)
        parts.build(block.ops)
        results = tuple([parts.get_batched(v.ssa) for v in outputs])
        block.drop_all_references()
        return results

    def _one_by_one(self, op: TensorOp) -> tuple[Value, ...]:
        sequences = [v for v in dict.fromkeys(op.operands) if v in self.batched]
        for value in (*sequences, *op.results):
            if shape_of(value.type) is None:
                raise TypeError(f"{op.name}: runs example by example, and the rank of {value.type} is not known")
        block = Block(arg_types=[v.type for v in sequences])
        mapper = {v: self.get(v).ssa for v in op.operands}
        mapper.update(zip(sequences, block.args, strict=True))
        with self.inserting(block):
            emit(YieldOp(*emit(op.clone(mapper)).results))
        loop = ScanOp.of([], [self.get(v).ssa for v in sequences], block, self.size, reverse=False)
        return tuple([Value(r) for r in emit(loop).results])

    def _checked(self, op: TensorOp, values: tuple[Value, ...]) -> tuple[Value, ...]:
        if len(values) != len(op.results):
            raise TypeError(f"{op.name}: batch gives {len(values)} results where {len(op.results)} are needed")
        for result, value in zip(op.results, values, strict=True):
            needed = stacked_type(result.type, self.size)
            # what a hook gives may be anything
            given = getattr(value, "type", None)
            if given is None or not compatible(needed, given):
                given = given or f"a {type(value).__name__}"
                raise TypeError(f"{op.name}: batch gives {given} where {needed} is needed{at_line(op)}")
        return values


def batch(
    block: Block,
    examples: Sequence[Value],
    outputs: Sequence[SSAValue],
    size: int,
    shared: Collection[int] = (),
) -> tuple[list[Value], list[bool]]:
    """Build the ops of `block` at the insertion point for `size` examples at once, and leave the block unusable.

    `examples` stands for the block's arguments, with the examples along a new first dimension; those at the positions
    `shared` are the same for every example. Returns what stands for `outputs`, and for each whether it has
    that dimension; the others are the same for every example.
    """
    batching = Batching(size)
    batching.set(block.args, examples)
    batching.batched.update([a for i, a in enumerate(block.args) if i not in shared])
    spread(block.ops, batching.batched)
    point = insertion_point()
    assert point is not None
    with batching.inserting(point.block, point.anchor):
        batching.build(block.ops)
    block.drop_all_references()
    return [batching.get(v) for v in outputs], [v in batching.batched for v in outputs]


def batch_function(function: func.FuncOp, size: int) -> None:
    """Give each argument that is no resource, and each result of `function`, a new first dimension of `size`."""
    types = [*function.function_type.inputs, *function.function_type.outputs]
    if not all(isinstance(t, TensorType | UnrankedTensorType) for t in types):
        raise TypeError(f"@{function.sym_name.data} is not a function of tensors: {function.function_type}")
    if not function.body.blocks:
        raise TypeError(f"@{function.sym_name.data} has no body")
    old = function.clone().body.block
    marks = function.arg_attrs.data if function.arg_attrs is not None else ()
    shared = {i for i, attributes in enumerate(marks) if RESOURCE in attributes.data}
    block = Block(arg_types=[a.type if i in shared else stacked_type(a.type, size) for i, a in enumerate(old.args)])
    for argument, copy in zip(old.args, block.args, strict=True):
        copy.name_hint = argument.name_hint
    terminator = old.last_op
    assert isinstance(terminator, func.ReturnOp)
    with inserting(InsertionPoint(block)):
        values, batched = batch(old, [Value(a) for a in block.args], list(terminator.operands), size, shared)
        given = [v if known else stacked(v, size) for v, known in zip(values, batched, strict=True)]
        emit(func.ReturnOp(*[v.ssa for v in given]))
    function.body.detach_block(function.body.block)
    function.body.add_block(block)
    function.update_function_type()


@dataclass(frozen=True)
class BatchPass(ModulePass):
    """Make `function` one of `size` examples at once, in every argument that is no resource."""

    name = "batch"

    size: int
    function: str = "main"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.size < 0:
            raise PassFailedException(f"batch: size is {self.size}, which is negative")
        function = functions_by_name(op).get(self.function)
        if function is None:
            raise PassFailedException(f"batch: there is no function @{self.function}")
        if self.function in referenced_symbols(op):
            raise PassFailedException(
                f"batch: @{self.function} is called, and its calls pass one example; run inline first"
            )
        try:
            batch_function(function, self.size)
        except (TypeError, ValueError) as error:
            raise PassFailedException(f"batch: {error}") from None
