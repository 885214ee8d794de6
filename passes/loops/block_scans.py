"""Computes the products that a scan reads slices of for a block of its steps at a time.

Before: the tensor stage, decomposed, products of all steps in front of scans. After: the same sums. Products of all
steps that outgrow a core's cache go to memory and come back. Those of a block of steps stay in it, and still read a
weight once for many rows:

    %z = tenon.contract [%x, %w]                : 128x32x1024      %r, %y = tenon.scan init(%h) slices(%x) length 16 {
    %r, %y = tenon.scan init(%h)                                   ^bb0(%c, %b):
                        slices(%z) length 128 {                ->    %z = tenon.contract [%b, %w]      : 8x32x1024
    ^bb1(%d, %s):                                                    %q, %v = tenon.scan init(%c) slices(%z) length 8 {
      ...                                                            ^bb1(%d, %s):
                                                                       ...

The rule: half the cache holds a block, which has the most steps that divide their number, and the cache what each block
reads again. What is stacked, and what the products are computed from, may be copied for each block; both together are
to be no more than the products.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families import ContractionOp, ElementwiseOp
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.types.types import element_of, is_static, shape_of, tensor_type
from tenon.passes.loops.pack_invariants import only_axis
from tenon.passes.loops.step_products import static_scans, total_bytes
from tenon.passes.machine import Machine
from tenon.passes.simplify.dce import Effects, erase_dead_ops


@dataclass(frozen=True)
class BlockScansPass(ModulePass):
    """Compute the products that scans read for as many steps as a cache of the `machine` holds (text, see
    `Machine`)."""

    name = "block-scans"
    machine: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        near = Machine.of_option(self.name, self.machine).l2
        effects = Effects(op)
        for scan in static_scans(op):
            products = _Products(scan)
            steps = products.steps_of_block(near)
            if steps is not None:
                block = scan.parent
                assert block is not None
                _in_blocks(scan, products, steps)
                erase_dead_ops(block, effects)


class _Products:
    """The ops in front of `scan` that compute sequences of it, each step from slices of others and what is the same."""

    def __init__(self, scan: ScanOp) -> None:
        self.scan = scan
        self.ops: dict[Operation, None] = {}
        """In the order in which they are to be computed."""
        for sequence in dict.fromkeys(scan.sequences):
            found = dict[Operation, None]()
            self._add(sequence, scan, found)
            if any(isinstance(op, ContractionOp) for op in found):
                self.ops |= found

    def _add(self, value: SSAValue, user: Operation, found: dict[Operation, None]) -> None:
        op = value.owner
        if not isinstance(op, Operation) or op.parent is not self.scan.parent:
            return
        if all(use.operation is user for use in value.uses) and (sliced := _sliced(op)) is not None:
            for operand in sliced:
                self._add(operand, op, found)
            found[op] = None

    @property
    def sequences(self) -> list[SSAValue]:
        """What is to be sliced in their place: other sequences, and what they are computed from."""
        made = {result for op in self.ops for result in op.results}
        given = [*self.scan.sequences, *[value for op in self.ops for value in _sliced(op) or ()]]
        return [value for value in dict.fromkeys(given) if value not in made]

    def steps_of_block(self, near: int) -> int | None:
        """How many steps there are in a block, if the rule wants blocks."""
        steps, made = self.scan.steps, [value for value in self.scan.sequences if value.owner in self.ops]
        size, copied = total_bytes(made), total_bytes([*self.sequences, *self.scan.results[len(self.scan.initial) :]])
        again = [value for op in self.ops for value in op.operands if value not in (_sliced(op) or ())]
        if size <= near or copied > size or total_bytes(dict.fromkeys(again)) > near:
            return None
        most = min(near // 2 * steps // size, steps // 2)
        return next((count for count in range(most, 1, -1) if steps % count == 0), None)


def _sliced(op: Operation) -> list[SSAValue] | None:
    """The operands of `op` that a slice of its result along the first dimension needs the same slice of, where it needs
    the whole of the others; `None` for other ops."""
    if len(op.results) != 1 or not all(is_static(value.type) for value in (*op.operands, *op.results)):
        return None
    shape = shape_of(op.results[0].type)
    if not shape:
        return None
    if isinstance(op, ElementwiseOp):
        alike = [
            v
            for v in op.operands
            if (shape_of(v.type) or ())[:1] == shape[:1] and len(shape_of(v.type) or ()) == len(shape)
        ]
        return list(dict.fromkeys(alike)) or None
    if not isinstance(op, ContractionOp) or len({*op.operands}) < len(op.operands):
        return None
    structure = type(op).loops([shape_of(value.type) for value in op.operands], op.settings)
    first = structure.result_map.results[0]
    if not isinstance(first, AffineDimExpr) or only_axis(structure.result_map, first.position) is None:
        return None
    found: list[SSAValue] = []
    for value, places in zip(op.operands, structure.operands, strict=True):
        if only_axis(places, first.position) == 0:
            found.append(value)
        elif first.position in places.used_dims():
            return None
    return found or None


def _of_block(op: Operation, known: dict[SSAValue, SSAValue], steps: int) -> SSAValue:
    """What `op` gives for a block of so many steps, from what is `known` of its operands for a block."""
    assert isinstance(op, TensorOp)
    sliced = _sliced(op) or ()
    operands = [known[value] if value in sliced else value for value in op.operands]
    if not isinstance(op, ContractionOp):
        new: TensorOp = type(op).build_from(op.group(operands, op.properties), op.settings)
    else:
        structure = type(op).loops([shape_of(value.type) for value in op.operands], op.settings)
        (first,) = structure.result_map.results[0].used_dims()
        extents = [steps if loop == first else extent for loop, extent in enumerate(structure.extents)]
        settings = {
            "maps": (*structure.operands, structure.result_map),
            "extents": tuple(extents),
            "shape": (steps, *structure.result_shape[1:]),
        }
        new = ContractOp.build_from([tuple(operands)], settings)
    new.location = op.location
    return emit(new).results[0]


def _in_blocks(scan: ScanOp, products: _Products, steps: int) -> None:
    """Replace `scan` by one of blocks of so many steps."""
    count, blocks, is_reverse = len(scan.initial), scan.steps // steps, scan.reverse is not None
    sequences = products.sequences
    shapes = [(steps, *(shape_of(value.type) or ())[1:]) for value in sequences]
    assert scan.parent is not None
    with inserting(InsertionPoint(scan.parent, scan)):
        given = [ops.reshape(Value(v), shape=(blocks, *s)).ssa for v, s in zip(sequences, shapes, strict=True)]
    types = [tensor_type(shape, element_of(v.type)) for v, shape in zip(sequences, shapes, strict=True)]
    outer = Block(arg_types=[*[v.type for v in scan.initial], *types])
    carried, slices = outer.args[:count], outer.args[count:]
    with inserting(InsertionPoint(outer)):
        known: dict[SSAValue, SSAValue] = dict(zip(sequences, slices, strict=True))
        for op in products.ops:
            known[op.results[0]] = _of_block(op, known, steps)
        body = scan.body.block
        scan.body.detach_block(body)
        inner = emit(ScanOp.of(carried, [known[v] for v in scan.sequences], body, steps, is_reverse))
        emit(YieldOp(*inner.results))
    with inserting(InsertionPoint(scan.parent, scan)):
        new = emit(ScanOp.of(list(scan.initial), given, outer, blocks, is_reverse))
        inner.location = new.location = scan.location
        for old, result in zip(scan.results[:count], new.results[:count], strict=True):
            old.replace_all_uses_with(result)
        for old, result in zip(scan.results[count:], new.results[count:], strict=True):
            old.replace_all_uses_with(ops.reshape(Value(result), shape=shape_of(old.type)).ssa)
    Rewriter.erase_op(scan)
