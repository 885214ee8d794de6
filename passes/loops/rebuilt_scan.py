"""A `tenon.scan` with fewer carried and stacked values, or with more of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from tenon.dialects.definition.value import Value
from tenon.dialects.families.batching import stacked
from tenon.dialects.families.control_flow import YieldOp, yielded
from tenon.dialects.families.regions import used_values
from tenon.dialects.ops.control.scan import ScanOp
from tenon.passes.simplify.dce import Effects, erase_dead_ops
from tenon.passes.transform.batch import batch


class StepOps:
    """Ops of the body of a scan that are to be computed for all steps at once: copies, so that the body may change."""

    def __init__(self, ops: Iterable[Operation], inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
        self._block = Block(arg_types=[value.type for value in inputs])
        mapper: dict[SSAValue, SSAValue] = dict(zip(inputs, self._block.args, strict=True))
        for op in ops:
            self._block.add_op(op.clone(mapper))
        self._outputs = [mapper.get(value, value) for value in outputs]

    def build(self, inputs: Sequence[SSAValue], steps: int) -> list[Value]:
        """The outputs for all steps, at the insertion point, from inputs that have the steps as first dimension."""
        values, differ = batch(self._block, list(map(Value, inputs)), self._outputs, steps)
        return [v if known else stacked(v, steps) for v, known in zip(values, differ, strict=True)]


def rebuilt(
    scan: ScanOp,
    kept: Sequence[int],
    effects: Effects,
    sliced: Sequence[tuple[SSAValue, SSAValue]] = (),
    added: Sequence[SSAValue] = (),
) -> ScanOp:
    """A scan in front of `scan` that has its body, and of its results those at the positions `kept`.

    `sliced` has sequences, and a value of the body that each has the slices of; `added` are values of the body to
    stack as well. Sequences without use are left out. The caller replaces the results that are not kept, and erases
    `scan`.
    """
    block, count = scan.body.block, len(scan.initial)
    for _, value in sliced:
        value.replace_all_uses_with(block.insert_arg(value.type, len(block.args)))
    terminator, given = block.last_op, yielded(scan.body)
    assert isinstance(terminator, YieldOp)
    terminator.operands = [*[given[i] for i in kept], *added]
    erase_dead_ops(block, effects)
    sequences = [*scan.sequences, *[sequence for sequence, _ in sliced]]
    read = [i for i, argument in enumerate(block.args[count:]) if argument.first_use is not None]
    carried = [i for i in kept if i < count]
    remaining = {*carried, *[count + i for i in read]}
    for argument in reversed(block.args):
        if argument.index not in remaining:
            block.erase_arg(argument)
    scan.body.detach_block(block)
    new = ScanOp.of(
        [scan.initial[i] for i in carried], [sequences[i] for i in read], block, scan.steps, scan.reverse is not None
    )
    new.location = scan.location
    assert scan.parent is not None
    scan.parent.insert_op_before(new, scan)
    for old, result in zip(kept, new.results, strict=False):
        scan.results[old].replace_all_uses_with(result)
    return new


def with_slices(scan: ScanOp, sequences: Sequence[SSAValue], values: Sequence[SSAValue], effects: Effects) -> ScanOp:
    """`scan`, whose body reads slices of `sequences` in place of its `values`."""
    new = rebuilt(scan, range(len(scan.results)), effects, list(zip(sequences, values, strict=True)))
    Rewriter.erase_op(scan)
    return new


def with_stacked(scan: ScanOp, values: Sequence[SSAValue], effects: Effects) -> list[SSAValue]:
    """Make `scan` stack those `values` of its body that it does not; the results that are `values` of all steps."""
    given, count = yielded(scan.body)[len(scan.initial) :], len(scan.initial)
    added = [value for value in values if value not in given]
    new = rebuilt(scan, range(len(scan.results)), effects, added=added)
    Rewriter.erase_op(scan)
    stacked = dict(zip([*given, *added], new.results[count:], strict=True))
    return [stacked[value] for value in values]


def erase_unused(block: Block, effects: Effects) -> None:
    """Remove what nothing needs from `block`, and so from the scans in it: results, what is carried, and sequences.

    What reads comes before what is read: of a linear step the gradient reads no saved values, so that none are saved.
    """
    for op in reversed(list(block.ops)):
        if not any(result.first_use is not None for result in op.results) and effects.is_pure(op):
            if not op.has_trait(IsTerminator):
                Rewriter.erase_op(op)
        elif isinstance(op, ScanOp):
            scan, found = without_unused(op, effects), (-1, -1)
            # What is in the body may need less then, and the scan in turn.
            while found != (len(scan.results), len(scan.operands)):
                found = (len(scan.results), len(scan.operands))
                erase_unused(scan.body.block, effects)
                scan = without_unused(scan, effects)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    erase_unused(inner, effects)


def without_unused(scan: ScanOp, effects: Effects) -> ScanOp:
    """`scan` without results and sequences that nothing needs, carried values that stay as they are, and copies of its
    sequences."""
    arguments, count = scan.body.block.args, len(scan.initial)
    for i, value in enumerate(yielded(scan.body)[:count]):
        if value is arguments[i]:
            value.replace_all_uses_with(scan.initial[i])
            scan.results[i].replace_all_uses_with(scan.initial[i])
    given = yielded(scan.body)
    known: dict[SSAValue, SSAValue] = dict(zip(arguments[count:], scan.sequences, strict=True))
    for value, result in zip(given[count:], scan.results[count:], strict=True):
        if value in known:
            result.replace_all_uses_with(known[value])
    kept = {i for i, result in enumerate(scan.results) if result.first_use is not None}
    effective = [op for op in scan.body.block.ops if op is not scan.body.block.last_op and not effects.is_pure(op)]
    always = [value for op in effective for value in used_values(op)]
    found, needed = -1, set[SSAValue]()
    while found != len(kept):
        found = len(kept)
        needed = _needed([*always, *[given[i] for i in kept]], scan.body.block)
        kept |= {i for i in range(count) if arguments[i] in needed}
    if found == len(scan.results) and all(argument in needed for argument in arguments[count:]):
        return scan
    new = rebuilt(scan, sorted(kept), effects)
    Rewriter.erase_op(scan)
    return new


def _needed(values: Iterable[SSAValue], block: Block) -> set[SSAValue]:
    """`values` and what they are computed from in `block`."""
    needed: set[SSAValue] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value not in needed:
            needed.add(value)
            if isinstance(value.owner, Operation) and value.owner.parent is block:
                pending += used_values(value.owner)
    return needed
