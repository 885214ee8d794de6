"""What it costs to compute an element again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.definition.value import InsertionPoint, inserting
from tenon.dialects.families import ElementwiseOp, IndexingOp, IndexMapOp, ReductionOp
from tenon.dialects.types.size import estimate, is_at_most
from tenon.dialects.types.types import element_of, is_narrow, is_static, shape_of
from tenon.passes.iteration import shape

MOST_CHEAP_OPS = 4
"""Of a body that may be computed several times."""

_CASTS = (
    arith.BitcastOp,
    arith.ExtFOp,
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.IndexCastOp,
    arith.SIToFPOp,
    arith.TruncFOp,
    arith.TruncIOp,
    arith.UIToFPOp,
)
_DIVISIONS = (
    arith.CeilDivSIOp,
    arith.CeilDivUIOp,
    arith.DivfOp,
    arith.DivSIOp,
    arith.DivUIOp,
    arith.FloorDivSIOp,
    arith.RemSIOp,
    arith.RemUIOp,
)
_FREE = (arith.ConstantOp, linalg.ops.IndexOp, linalg.ops.YieldOp, *_CASTS)


def counted(body: Iterable[Operation]) -> list[Operation]:
    """The ops of a body that cost something."""
    return [op for op in body if not isinstance(op, _FREE)]


def is_cheap(body: Iterable[Operation]) -> bool:
    """Whether a body is a few ops of arithmetic, none of them a division."""
    ops = counted(body)
    return len(ops) <= MOST_CHEAP_OPS and is_light(ops)


def is_light(body: Iterable[Operation]) -> bool:
    """Whether a body is arithmetic without divisions."""
    return all(op.name.startswith("arith.") and not isinstance(op, _DIVISIONS) for op in counted(body))


class _Body(NamedTuple):
    is_cheap: bool
    is_quick: bool
    is_flat: bool
    is_arithmetic: bool


_BODIES: dict[Hashable, _Body] = {}
"""What is known of the bodies of elementwise ops, each written out once for each kind of op."""


def is_cheap_op(op: ElementwiseOp) -> bool:
    """Whether the body of `op` is cheap."""
    return _body_of(op).is_cheap


def is_quick_op(op: ElementwiseOp) -> bool:
    """Whether to compute the body of `op` takes no longer than to write and read what it gives, where no cache holds
    that: it is cheap but for divisions of floats, of which vectors do about one element in a cycle."""
    return _body_of(op).is_quick


def is_arithmetic(op: Operation) -> bool:
    """Whether `op` is elementwise, and its body instructions without a function."""
    return isinstance(op, ElementwiseOp) and _body_of(op).is_arithmetic


def is_flat_op(op: ElementwiseOp) -> bool:
    """Whether the body of `op` has no regions."""
    return _body_of(op).is_flat


def _body_of(op: ElementwiseOp) -> _Body:
    elements = [element_of(value.type) for value in (*op.operands, *op.results)]
    key = (type(op), tuple(elements), frozenset(op.properties.items()))
    known = _BODIES.get(key)
    if known is None:
        scalars = [TensorType(element, []) for element in elements]
        block = Block(arg_types=scalars[: len(op.operands)])
        alike = type(op).create(
            operands=block.args, result_types=scalars[len(op.operands) :], properties=dict(op.properties)
        )
        block.add_op(alike)
        with inserting(InsertionPoint(block)):
            alike.structured(alike.grouped_operands())
        body = [inner for outer in block.ops for inner in outer.walk() if inner is not outer]
        known = _BODIES[key] = _Body(
            is_cheap(body),
            is_cheap([inner for inner in body if not isinstance(inner, arith.DivfOp)]),
            not any(inner.regions for inner in body),
            all(inner.name.startswith("arith.") for inner in counted(body)),
        )
    return known


def are_computed_in_loops(group: Sequence[Operation], count: int) -> bool:
    """Whether loops that read what elementwise ops compute `count` times may do it there: each element is read once, or
    is cheap."""
    elementwise = [op for op in group if isinstance(op, ElementwiseOp) and is_flat_op(op)]
    if len(elementwise) != len(group) or not all(is_static(op.results[0].type) for op in group):
        return False
    if any(is_narrow(element_of(value.type)) for op in group for value in (*op.operands, *op.results)):
        return False
    is_read_once = all(prod(shape_of(op.results[0].type) or ()) == count for op in group)
    return is_read_once or (len(group) <= MOST_CHEAP_OPS and all(map(is_cheap_op, elementwise)))


def are_read_once(uses: Sequence[tuple[SSAValue, Operation]], group: Sequence[Operation], *, in_rows: bool) -> bool:
    """Whether the uses of each value of `group` read each element of it once at most, and what several values come from
    is only moved or cheap, which each of them can do for itself, or computed once for a row, by loops that all are
    `in_rows`."""
    values = list(dict.fromkeys(value for value, _ in uses))
    for value in values:
        users = [user for used, user in uses if used is value]
        reads = [prod(shape(op, (value if isinstance(op, IndexingOp) else op.results[0]).type)) for op in users]
        if len(users) > 1 and not is_at_most(sum(reads), prod(shape(users[0], value.type))):
            return False
    shared: set[Operation] = set()
    seen: set[Operation] = set()
    for value in values:
        needed = _needed(value, group)
        shared |= needed & seen
        seen |= needed
    computed = [op for op in shared if not isinstance(op, IndexMapOp | IndexingOp)]
    return in_rows or (len(computed) <= MOST_CHEAP_OPS and all(map(_is_cheap, computed)))


def computes_for_rows(group: Sequence[Operation]) -> bool:
    """Whether some op computes what is repeated along others' rows: where it goes, that is done for each element."""
    for op in group:
        if isinstance(op, ElementwiseOp):
            size = estimate(prod(shape(op, op.results[0].type)))
            users = [use.operation for use in op.results[0].uses if isinstance(use.operation, ElementwiseOp)]
            if any(user in group and estimate(prod(shape(user, user.results[0].type))) > size for user in users):
                return True
    return False


def _is_cheap(op: Operation) -> bool:
    return isinstance(op, ElementwiseOp) and is_cheap_op(op)


def _needed(value: SSAValue, group: Sequence[Operation]) -> set[Operation]:
    """Those ops of `group` that `value` comes from."""
    found: set[Operation] = set()
    pending = [value.owner]
    while pending:
        op = pending.pop()
        if isinstance(op, Operation) and op in group and op not in found:
            found.add(op)
            pending += [operand.owner for operand in op.operands]
    return found


def is_repeated(op: ElementwiseOp, users: Iterable[Operation]) -> bool:
    """Whether `fuse-structured` lets each of several users compute what `op` does."""
    return is_cheap_op(op) and all(isinstance(user, ElementwiseOp | ReductionOp) for user in users)
