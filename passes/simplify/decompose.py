"""Writes composite ops out.

Before: a verified module of tensor ops, differentiated where that is wanted. After: no `CompositeOp` is left (or,
with `only`, none of those named), nor, without `serial_rows`, a `SerialRowsOp`, and what stands in their place has
their locations. Without `only`, ops that mean something to differentiation alone are gone, too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.traits import SameValue, states
from tenon.dialects.definition.value import InsertionPoint, Value, inserting
from tenon.dialects.families import CompositeOp, SerialRowsOp
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.dialects.types.shapes import compatible

# Decompositions nest a few levels deep; far more means that ops decompose into each other.
_DEEPEST = 64


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Replace composite ops by what they are composed of; `only` restricts it to ops of these names. With `serial_rows`
    one thread may do a row from end to end, as where it is sorted; `packs` has the bits of lanes that an instruction
    packs."""

    name = "decompose"
    only: tuple[str, ...] = ()
    serial_rows: bool = True
    packs: tuple[int, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {name for full in registry() for name in (full, full.rpartition(".")[2])}
        for name in self.only:
            if name not in known:
                raise PassFailedException(f"decompose: there is no op named {name!r}")
        decompose(op, self.only, serial_rows=self.serial_rows, packs=self.packs)
        if not self.only:
            drop_identities(op)


def decompose(
    root: Operation, only: Collection[str] = (), *, serial_rows: bool = True, packs: Collection[int] = ()
) -> None:
    """Decompose the composite ops inside of `root` until none is left."""
    pending = [(op, 0) for op in root.walk() if _is_wanted(op, only, serial_rows)]
    while pending:
        op, depth = pending.pop()
        assert isinstance(op, CompositeOp | SerialRowsOp)
        if depth == _DEEPEST:
            raise PassFailedException(f"{op.name}: still not decomposed after {depth} steps; it decomposes into itself")
        pending += [
            (new, depth + 1) for new in _decompose_once(op, serial_rows, packs) if _is_wanted(new, only, serial_rows)
        ]


def drop_identities(root: Operation) -> None:
    """Replace ops inside of `root` that give their operands by these, and checkpoints, and what brings its gradient
    along, by their bodies.

    What a checkpoint computes again stays in its region.
    """
    dropped: set[Operation] = set()
    for op in list(root.walk()):
        if op in dropped:
            continue
        if isinstance(op, WithGradientOp) and op.gradient is not None:
            dropped.update(op.gradient.walk())
        if isinstance(op, WithGradientOp) or (isinstance(op, CheckpointOp) and not op.is_recomputed):
            for result, value in zip(op.results, op.inlined(), strict=True):
                result.replace_all_uses_with(value)
            Rewriter.erase_op(op)
        elif states(op, SameValue) and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            Rewriter.erase_op(op)


def _is_wanted(op: Operation, only: Collection[str], serial_rows: bool) -> bool:
    if not isinstance(op, CompositeOp if serial_rows else CompositeOp | SerialRowsOp):
        return False
    return not only or op.name in only or op.name.rpartition(".")[2] in only


def _decompose_once(op: CompositeOp | SerialRowsOp, serial_rows: bool, packs: Collection[int]) -> list[Operation]:
    """Replace `op` and return the ops that took its place, those inside of their regions included."""
    block = op.parent
    assert block is not None
    before = op.prev_op
    values = map_grouped(Value, op.grouped_operands())
    with inserting(InsertionPoint(block, op)):
        results = [result.ssa for result in op.decomposed(values, serial_rows=serial_rows, packs=packs)]
    added: list[Operation] = []
    current = block.first_op if before is None else before.next_op
    while current is not op:
        assert current is not None
        added.extend(current.walk())
        current = current.next_op
    for new in added:
        new.location = op.location
    for declared, value in zip(op.results, results, strict=True):
        declared.replace_all_uses_with(_as_declared(op, declared.type, value, added))
    Rewriter.erase_op(op)
    return added


def _as_declared(op: Operation, declared: Attribute, value: SSAValue, added: list[Operation]) -> SSAValue:
    """`value` with the type that the users of the op's result were made for, where the two say different amounts."""
    if value.type == declared:
        return value
    if not compatible(declared, value.type):
        raise PassFailedException(f"{op.name}: declared as {declared} but its decomposition gives {value.type}")
    if value.owner not in added:
        raise PassFailedException(f"{op.name}: declared as {declared} but gives back its operand, a {value.type}")
    return Rewriter.replace_value_with_new_type(value, declared)
