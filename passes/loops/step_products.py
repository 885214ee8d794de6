"""What the steps of a scan compute from slices of its sequences alone, and when that is worth to be had in memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from tenon.dialects.definition.traits import KeepsMemory, KnownValue, states
from tenon.dialects.families import ContractionOp, ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp
from tenon.dialects.families.regions import captured_values
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.types.types import is_static
from tenon.passes.transform.derived_values import DerivedValues, bytes_of

MOST_GROWTH = 4
LITTLE = 1 << 26


def static_scans(root: Operation) -> list[ScanOp]:
    """The scans in `root` of several steps and known shapes, those inside of others first."""
    scans = [op for op in root.walk(region_first=True) if isinstance(op, ScanOp) and op.steps > 1]
    return [s for s in scans if all(is_static(v.type) for v in (*s.operands, *s.results, *s.body.block.args))]


def is_step_wise(op: Operation) -> bool:
    """Whether `op` has a rule to compute many of it at once."""
    return isinstance(op, ContractionOp | ReductionOp) or is_cheap(op)


def is_cheap(op: Operation) -> bool:
    """Whether `op` has such a rule, and may as well be computed twice."""
    return isinstance(op, ElementwiseOp | IndexMapOp | IndexingOp) or states(op, KnownValue) or states(op, KeepsMemory)


def fits(scan: ScanOp, values: Iterable[SSAValue]) -> bool:
    """Whether there is memory for `values` of all steps of `scan`."""
    known = [*scan.sequences, *scan.results[len(scan.initial) :]]
    return scan.steps * total_bytes(values) <= max(LITTLE, MOST_GROWTH * total_bytes(known))


def total_bytes(values: Iterable[SSAValue]) -> int:
    """How much memory `values` take."""
    return sum(map(bytes_of, values))


def products_of_slices(scan: ScanOp, among: Container[SSAValue] | None = None) -> tuple[DerivedValues, list[SSAValue]]:
    """What `scan` computes from slices alone, and the values of that which are worth to be had for all steps at once:
    contractions, and what is computed from them, and slices that nothing else reads, without being larger.
    They are `among` given values, if there are any.
    """
    slices = scan.body.block.args[len(scan.initial) :]
    derived = DerivedValues(scan.body.block, [*captured_values(scan.body), *slices], is_step_wise)
    differ = {value for value, sources in derived.sources.items() if not sources.isdisjoint(slices)}
    moved: set[Operation] = set()
    for op in derived.ops:
        if among is not None and not all(result in among for result in op.results):
            continue
        if not differ.isdisjoint(op.results) and (_pays(op, differ) or _joins(op, moved, differ, slices)):
            moved.add(op)
    results: list[SSAValue] = [result for op in derived.ops if op in moved for result in op.results]
    values = [value for value in results if not _only_used_by(value, moved)]
    return derived, values if fits(scan, values) else []


def _pays(op: Operation, differ: set[SSAValue]) -> bool:
    same = [value for value in op.operands if value not in differ]
    return isinstance(op, ContractionOp) and 2 * total_bytes(op.results) <= total_bytes(same)


def _joins(op: Operation, moved: set[Operation], differ: set[SSAValue], slices: Sequence[SSAValue]) -> bool:
    """Whether `op` alone uses what is moved, and perhaps slices, and its result is to be stacked in place of that."""
    operands = [value for value in dict.fromkeys(op.operands) if value in differ]
    is_alone = all((value.owner in moved or value in slices) and _only_used_by(value, {op}) for value in operands)
    has_moved = any(value.owner in moved for value in operands)
    return has_moved and is_alone and isinstance(op, ElementwiseOp) and total_bytes(op.results) <= total_bytes(operands)


def _only_used_by(value: SSAValue, ops: set[Operation]) -> bool:
    return all(use.operation in ops for use in value.uses)
