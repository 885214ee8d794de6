"""The control-flow family: ops with regions that end with `tenon.yield`, and what their definitions share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.traits import IsTerminator, Pure, is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.shapes import compatible
from tenon.dialects.types.types import element_of, is_float

Gradients = Callable[[Sequence[Value], Sequence[Value | None], Sequence[Value]], list[Value | None]]
Contributions = list[tuple[SSAValue, Value | None]]


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends a region of a control-flow op with the values that the region gives."""

    name = "tenon.yield"
    traits = traits_def(IsTerminator(), Pure())


def yielded(region: Region) -> list[SSAValue]:
    """The values that a region gives."""
    terminator = region.block.last_op
    assert isinstance(terminator, YieldOp)
    return list(terminator.operands)


def check_yield(op: IRDLOperation, region: Region, types: Sequence[Attribute], what: str) -> None:
    """Raise `VerifyException` unless `region`, which errors call `what`, gives values of these types."""
    terminator = region.block.last_op
    if not isinstance(terminator, YieldOp):
        raise VerifyException(f"{op.name}: {what} does not end with tenon.yield")
    given = [v.type for v in terminator.operands]
    if len(given) != len(types):
        raise VerifyException(f"{op.name}: {what} yields {len(given)} values where {len(types)} are needed")
    for position, (have, want) in enumerate(zip(given, types, strict=True)):
        if not compatible(want, have):
            raise VerifyException(f"{op.name}: {what} yields {have} as value {position} where {want} is needed")


def check_arguments(op: IRDLOperation, region: Region, types: Sequence[Attribute], what: str) -> None:
    """Raise `VerifyException` unless `region`, which errors call `what`, takes values of these types."""
    given = [a.type for a in region.block.args]
    if len(given) != len(types) or not all(map(compatible, types, given)):
        raise VerifyException(
            f"{op.name}: {what} takes ({', '.join(map(str, given))}) where ({', '.join(map(str, types))}) is needed"
        )


def clone_into(region: Region, block: Block, arguments: Sequence[SSAValue]) -> list[Value]:
    """Copy the ops of a one-block region to the end of `block`, its arguments replaced; returns what it yields.

    What is copied computes values again for a gradient: ops that are there for their effects alone are left out.
    """
    mapper: dict[SSAValue, SSAValue] = dict(zip(region.block.args, arguments, strict=True))
    for op in region.block.ops:
        if isinstance(op, YieldOp):
            return [Value(mapper.get(v, v)) for v in op.operands]
        copy = op.clone(mapper)
        block.add_op(copy)
        erase_effects(copy)
    raise AssertionError("a region without tenon.yield")


def move_before(region: Region, op: Operation, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Move the ops of a one-block region in front of `op`, its arguments replaced; returns what it yields."""
    block, target = region.block, op.parent
    assert target is not None
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    *inner, terminator = block.ops
    assert isinstance(terminator, YieldOp)
    values = list(terminator.operands)
    terminator.detach()
    terminator.erase()
    for moved in inner:
        moved.detach()
        target.insert_op_before(moved, op)
    return values


def erase_effects(op: Operation) -> None:
    """Remove what is there for its effects alone: `op`, or such ops in its regions."""
    for inner in list(op.walk()):
        if not (inner.results or inner.regions or is_side_effect_free(inner) or inner.has_trait(IsTerminator)):
            inner.detach()
            inner.erase()


def float_values(values: Sequence[SSAValue]) -> list[SSAValue]:
    """Those of `values` that are floating-point."""
    return [v for v in values if is_float(element_of(v.type))]


def or_zeros(cotangents: Sequence[Value | None], like: Sequence[Value]) -> list[Value]:
    """The cotangents of `like`, zeros where there is none."""
    return [ops.zeros_like(v) if c is None else c for c, v in zip(cotangents, like, strict=True)]


class ControlFlowOp(IRDLOperation, ABC):
    """An op with regions."""

    HAS_FUNCTION: ClassVar[bool] = True
    """Whether users call it by its name."""

    @property
    def runs(self) -> tuple[int, int | None]:
        """How often a region of it runs at least, and at most, where that is known."""
        return 0, 1

    @abstractmethod
    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        """Pairs of a value that the op uses and a contribution to its cotangent, given those of the results."""

    def without_rule(self) -> Sequence[SSAValue]:
        """The values that the op uses, its results may change with, and `pull_back` gives nothing for."""
        return ()

    @abstractmethod
    def structured(self) -> Sequence[SSAValue]:
        """Build the op as `scf` at the insertion point, from its own regions, which it loses; its new results."""
