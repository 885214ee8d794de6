"""Scans: statements that keep every step of an associative combination along a loop, or its end alone.

    for j: state = step(state, element(j)); result[j] = f(state, ...)

What several elements in a row make of a state can be combined by what the step does with one: the state that they lead
to from the first of them on stands for them. So parts of the loop may run at the same time, if the parts are combined
in order. That a step is associative is known of the ops of a `Monoid`; of others the attribute `associative` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import linalg, memref
from xdsl.ir import BlockArgument, Operation, SSAValue

from tenon.dialects.families.linalg_builders import ASSOCIATIVE
from tenon.dialects.families.monoid import MONOIDS, Monoid
from tenon.dialects.types.size import Size
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.statement import LoopKind, Statement


@dataclass(frozen=True)
class Scan:
    """`loop` is what the statement goes along; the outputs `states` are what it carries, all others are `results`.

    `elements` are, for each state, the value of the body that one iteration brings: a state by itself.
    """

    loop: int
    states: tuple[int, ...]
    results: tuple[int, ...]
    elements: tuple[SSAValue, ...]
    monoids: tuple[Monoid | None, ...]
    """By which states are combined, where one is known."""
    combining: tuple[Operation, ...]
    """The ops of the body, in order, that make the next states of states and elements."""


def scan_of(statement: Statement) -> Scan | None:
    """The scan that a statement is, or None."""
    serial = [loop for loop, kind in enumerate(statement.kinds) if kind is not LoopKind.PARALLEL]
    if len(serial) != 1 or isinstance(statement.extents[serial[0]], Size):
        return None
    (loop,) = serial
    outputs = range(len(statement.outputs))
    states = tuple(n for n in outputs if loop not in statement.outputs[n].loops())
    results = tuple(n for n in outputs if n not in states)
    written = [statement.outputs[n] for n in results]
    if not states or not all(a.advances(loop) or a.tells_apart(loop, statement.extents) for a in written):
        return None
    if any(statement.accumulators[n].first_use is not None for n in results):
        return None
    body = statement.body
    assert body.last_op is not None
    arguments = [statement.accumulators[n] for n in states]
    after = [body.last_op.operands[n] for n in states]
    elements = _elements(statement, arguments, after)
    if elements is None:
        return None
    known = (*arguments, *elements)
    ops = slice_of(after, known)
    if not _depends_on_nothing_else(ops, after, known):
        return None
    monoids = tuple(MONOIDS.get(getattr(value.owner, "name", "")) for value in after)
    if any(monoid is None for monoid in monoids):
        monoids = (None,) * len(states)
    return Scan(loop, states, results, elements, monoids, tuple(op for op in body.ops if op in ops))


def _elements(
    statement: Statement, states: Sequence[BlockArgument], after: Sequence[SSAValue]
) -> tuple[SSAValue, ...] | None:
    """What one iteration brings for each state, if its step is known to be associative."""
    by_monoid = [_other_operand(state, value) for state, value in zip(states, after, strict=True)]
    found = tuple(element for element in by_monoid if element is not None and not _depends(element, states))
    if len(found) == len(states):
        return found
    if ASSOCIATIVE not in statement.op.attributes:
        return None
    chosen = [value.owner for value in after]
    if all(getattr(op, "name", "") == "arith.select" for op in chosen):
        selected = tuple(op.operands[1] for op in chosen if isinstance(op, Operation))
        kept = [op.operands[2] for op in chosen if isinstance(op, Operation)]
        if all(one is other for one, other in zip(kept, states, strict=True)):
            return None if any(_depends(element, states) for element in selected) else selected
    return _cut(statement, states, after)


def _cut(
    statement: Statement, states: Sequence[BlockArgument], after: Sequence[SSAValue]
) -> tuple[SSAValue, ...] | None:
    """The value by way of which alone the step of an only state depends on operands: the last one that is one."""
    if len(states) != 1:
        return None
    inputs = statement.body.args[: len(statement.inputs)]
    values = [*inputs, *[result for op in statement.body.ops for result in op.results]]
    for value in reversed(values):
        if value.type == states[0].type and not _depends(value, states):
            known = (*states, value)
            if _depends_on_nothing_else(slice_of(after, known), after, known):
                return (value,)
    return None


def _other_operand(state: BlockArgument, after: SSAValue) -> SSAValue | None:
    """What a monoid combines a state with."""
    op = after.owner
    if not isinstance(op, Operation) or op.name not in MONOIDS or state not in op.operands:
        return None
    return next((operand for operand in op.operands if operand is not state), None)


def _depends(value: SSAValue, states: Sequence[BlockArgument]) -> bool:
    return value in states or any(operand in states for op in slice_of([value]) for operand in op.operands)


def _depends_on_nothing_else(ops: set[Operation], after: Sequence[SSAValue], known: Sequence[SSAValue]) -> bool:
    """Whether `after` follows from `known` and constants alone."""
    if any(op.regions or isinstance(op, linalg.ops.IndexOp | memref.LoadOp) for op in ops):
        return False
    used = [*after, *[operand for op in ops for operand in op.operands]]
    return all(value in known or not isinstance(value, BlockArgument) for value in used)
