"""Computes for all steps of a scan at once what no step needs from the one before.

Before: the tensor stage, decomposed, invariants hoisted. After: the same results, up to the order of sums:

1. What depends on slices of sequences alone is computed in front of the loop, if it ends in a contraction: one product
   of all steps reads a weight once, where each step read it again.

    %r = tenon.scan slices(%x) {                %z = tenon.contract [%x, %w]
    ^bb0(%c, %s):                         ->    %r = tenon.scan slices(%z) {
      %p = tenon.contract [%s, %w]              ^bb0(%c, %p):
      ...                                         ...

2. What is stacked, and read by no other step, is computed behind the loop from what is stacked in its place.
3. A carried value that each step only adds to is a sum behind the loop, sum[t] x[t]. Where contractions are added up,
   as in the gradient of a weight, that is one contraction, which adds up over the steps as well:
   W[i, j] = sum[t, b] X[t, b, i] * Y[t, b, j]. So is a sum of sums, as in the gradient of a bias.

The rule: a contraction leaves the loop if that stacks no more bytes for each step than a step reads of what is the same
in all of them (in front: half as many, since what is stacked is written and read), or of the sums that it is added to;
other sums leave if that stacks nothing more. What is stacked takes no more than `step_products.MOST_GROWTH` times what
the loop takes and gives anyway, or `LITTLE` bytes. Results that nothing needs are dropped.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue, Use
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.families import ContractionOp
from tenon.dialects.families.control_flow import yielded
from tenon.dialects.families.regions import captured_values
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.elementwise.arithmetic import AddOp
from tenon.dialects.ops.reduce.reduction import SumOp
from tenon.dialects.types.shapes import normalize_axes
from tenon.dialects.types.types import shape_of
from tenon.passes.loops.rebuilt_scan import StepOps, rebuilt, with_slices, without_unused
from tenon.passes.loops.step_products import (
    fits,
    is_cheap,
    is_step_wise,
    products_of_slices,
    static_scans,
    total_bytes,
)
from tenon.passes.simplify.dce import Effects
from tenon.passes.simplify.decompose import decompose
from tenon.passes.simplify.fold import splat
from tenon.passes.transform.derived_values import DerivedValues


class DistributeScansPass(ModulePass):
    """Compute what steps of a scan do not need from each other for all of them at once."""

    name = "distribute-scans"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        effects = Effects(op)
        scans = static_scans(op)
        for scan in scans:
            # What is had in front of the loop may be an output as it is.
            moved = without_unused(_move_in_front(without_unused(scan, effects), effects), effects)
            _move_behind(moved, effects)
        if scans:
            decompose(op)


def _move_in_front(scan: ScanOp, effects: Effects) -> ScanOp:
    slices = scan.body.block.args[len(scan.initial) :]
    derived, values = products_of_slices(scan)
    if not values:
        return scan
    step_ops = StepOps(derived.needed_for(values), slices, values)
    assert scan.parent is not None
    with inserting(InsertionPoint(scan.parent, scan)):
        sequences = [value.ssa for value in step_ops.build(list(scan.sequences), scan.steps)]
    return with_slices(scan, sequences, values, effects)


def _move_behind(scan: ScanOp, effects: Effects) -> None:
    parts = _PartsBehind(scan)
    if not parts.chosen:
        return
    given, count = yielded(scan.body), len(scan.initial)
    ends = [i for i, value in enumerate(given) if value.owner in parts.chosen]
    kept = [i for i in range(len(given)) if i not in ends]
    moved = parts.ops()
    inputs = parts.inputs(moved)
    known: dict[SSAValue, SSAValue] = dict(zip(scan.body.block.args[count:], scan.sequences, strict=True))
    stacked = [given[i] for i in kept if i >= count]
    added = [value for value in inputs if value not in known and value not in stacked]
    step_ops = StepOps(moved, inputs, [parts.each_step(given[i]) for i in ends])
    new = rebuilt(scan, kept, effects, added=added)
    known |= dict(zip([*stacked, *added], new.results[len(new.initial) :], strict=True))
    assert scan.parent is not None
    with inserting(InsertionPoint(scan.parent, scan)):
        for i, value in zip(ends, step_ops.build([known[v] for v in inputs], scan.steps), strict=True):
            if i < count:
                total, zero = _sum_over_steps(value), splat(scan.initial[i])
                # A sum starts from 0 anyway.
                value = total if zero is not None and zero == 0 else ops.add(Value(scan.initial[i]), total)
            scan.results[i].replace_all_uses_with(value.ssa)
    Rewriter.erase_op(scan)


def _sum_over_steps(value: Value) -> Value:
    """The sum along the first axis, by the sum that `value` is, or by the contraction, if all its operands have the
    steps."""
    op = value.ssa.owner
    if isinstance(op, AddOp) and value.ssa.first_use is None and _adds_contractions(value.ssa):
        terms = [Value(operand) for operand in op.operands]
        Rewriter.erase_op(op)
        return ops.add(*map(_sum_over_steps, terms))
    if isinstance(op, SumOp) and value.ssa.first_use is None and not op.settings["keepdims"]:
        summed = Value(op.operands[0])
        axes = normalize_axes(op.settings["axis"], len(summed.shape))
        if 0 not in axes and summed.element_type == value.element_type:
            return ops.sum(summed, axis=(0, *axes))
    if isinstance(op, ContractionOp) and value.ssa.first_use is None:
        structure = type(op).loops([shape_of(operand.type) for operand in op.operands], op.settings)
        step, *rest = structure.result_map.results
        if all(step in index.results for index in structure.operands):
            result_map = AffineMap(structure.result_map.num_dims, 0, tuple(rest))
            return ops.contract(
                tuple([Value(operand).astype(value.element_type) for operand in op.operands]),
                maps=(*structure.operands, result_map),
                extents=structure.extents,
                shape=structure.result_shape[1:],
            )
    return ops.sum(value, axis=0)


def _adds_contractions(value: SSAValue) -> bool:
    """Whether `value` is a sum of values of its type, one of which is a contraction that nothing else reads."""
    op = value.owner
    if not isinstance(op, AddOp):
        return isinstance(op, ContractionOp) and value.has_one_use()
    return all(v.type == value.type for v in op.operands) and any(map(_adds_contractions, op.operands))


class _PartsBehind:
    """What a scan computes that can be had behind it; `chosen` is what shall be, with the additions to sums."""

    def __init__(self, scan: ScanOp) -> None:
        self._scan, self._block, self._count = scan, scan.body.block, len(scan.initial)
        self._given = yielded(scan.body)
        slices = self._block.args[self._count :]
        self._derived = DerivedValues(self._block, [*captured_values(scan.body), *slices], is_cheap)
        self.addends = self._additions()
        self._late: dict[Operation, None] = {}
        for op in reversed(self._block.ops):
            uses = [use for result in op.results for use in result.uses]
            if op not in self.addends and is_step_wise(op) and all(map(self._is_behind, uses)):
                self._late[op] = None
        self.chosen: set[Operation] = set()
        # What is stacked for one part may be all that another needs.
        starts: list[Operation] = [op for op in self._late if isinstance(op, ContractionOp)]
        for op, addend in self.addends.items():
            owner = addend.owner
            starts.append(owner if isinstance(owner, Operation) and owner in self._late else op)
        found = -1
        while found != len(self.chosen):
            found = len(self.chosen)
            for start in starts:
                if start not in self.chosen:
                    self._choose_from(start)

    def _additions(self) -> dict[Operation, SSAValue]:
        """The ops that add to a carried value which nothing else reads, with what they add."""
        found: dict[Operation, SSAValue] = {}
        for argument, value in zip(self._block.args, self._given[: self._count], strict=False):
            op = value.owner
            if isinstance(op, AddOp) and argument in op.operands and argument.has_one_use() and value.has_one_use():
                (addend,) = [operand for operand in op.operands if operand is not argument]
                if addend.type == value.type:
                    found[op] = addend
        return found

    def _is_behind(self, use: Use) -> bool:
        """Whether no step of the loop needs to come before `use`."""
        op = use.operation
        return op in self._late or op in self.addends or (op is self._block.last_op and use.index >= self._count)

    def _choose_from(self, start: Operation) -> None:
        """Choose `start` and all that needs it, if the rule says so, by itself or with what else only these need: a
        weight that a step uses twice has a gradient of two terms."""
        part: set[Operation] = set()
        pending = [start]
        while pending:
            op = pending.pop()
            if op not in part and op is not self._block.last_op:
                part.add(op)
                pending += [use.operation for result in op.results for use in result.uses if op not in self.addends]
        if not self._choose(part):
            alone = set(part)
            for op in self._late:
                if all(use.operation in part for result in op.results for use in result.uses):
                    part.add(op)
            if part != alone:
                self._choose(part)

    def _choose(self, part: set[Operation]) -> bool:
        """Choose `part`, if the rule says so; whether it does."""
        saved = [self.addends[op] for op in part if op in self.addends]
        contractions = [op for op in part if isinstance(op, ContractionOp)]
        saved += [v for op in contractions for v in op.operands if not self._is_inside(v)]
        before, most = self.chosen, total_bytes(self._stacked()) + (total_bytes(saved) if contractions else 0)
        self.chosen = before | part
        more = self._stacked()
        if total_bytes(more) > most or not fits(self._scan, more):
            self.chosen = before
            return False
        return True

    def _stacked(self) -> list[SSAValue]:
        """What is stacked for what is chosen, beyond what is anyway."""
        known = {*self._block.args[self._count :], *self._given[self._count :]}
        return [value for value in self.inputs(self.ops()) if value not in known]

    def ops(self) -> list[Operation]:
        """The ops to compute behind the loop, in order: those chosen, and what they need of what is cheap."""
        chosen = [op for op in self._block.ops if op in self.chosen and op not in self.addends]
        wanted = {*chosen, *self._derived.needed_for(self._used_by(chosen))}
        return [op for op in self._block.ops if op in wanted]

    def each_step(self, value: SSAValue) -> SSAValue:
        """What is to be had for all steps for `value`, which the body gives: for a sum what is added to it."""
        op = value.owner
        return self.addends.get(op, value) if isinstance(op, Operation) else value

    def inputs(self, ops: list[Operation]) -> list[SSAValue]:
        """What `ops`, and the sums, need from the steps."""
        made = {result for op in ops for result in op.results}
        return [value for value in dict.fromkeys(self._used_by(ops)) if self._is_inside(value) and value not in made]

    def _used_by(self, ops: list[Operation]) -> list[SSAValue]:
        added = [addend for op, addend in self.addends.items() if op in self.chosen]
        return [*[operand for op in ops for operand in op.operands], *added]

    def _is_inside(self, value: SSAValue) -> bool:
        owner = value.owner
        return (owner.parent if isinstance(owner, Operation) else owner) is self._block
