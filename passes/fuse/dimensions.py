"""Dimensions of values that are the same one, the parts that reshapes cut them into, and ops that run over others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import KeepsMemory, states
from tenon.dialects.families import ArgReductionOp, ElementwiseOp, ReductionOp
from tenon.dialects.ops.move.shape import ReshapeOp
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import is_known, shape_of
from tenon.passes.simplify.fold import fold


class Dimension:
    """A dimension that several values may have; they have it with its size, or with size 1."""

    __slots__ = ("is_fixed", "parts", "same", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.same: Dimension | None = None
        """What it was found to be, if it does not stand for that itself."""
        self.parts: tuple[Dimension, ...] = ()
        """What it was cut into, the outermost first."""
        self.is_fixed = False
        """Whether it must not be cut."""


class Dimensions:
    """Disjoint sets of dimensions, whose last changes can be undone."""

    def __init__(self) -> None:
        self._log: list[tuple[Dimension, str, object]] = []

    def find(self, dimension: Dimension) -> Dimension:
        """What stands for all dimensions that are the same as this one."""
        while dimension.same is not None:
            dimension = dimension.same
        return dimension

    def parts(self, dimension: Dimension) -> list[Dimension]:
        """The smallest parts that a dimension is cut into: itself, if it is not cut."""
        root = self.find(dimension)
        return [part for cut in root.parts for part in self.parts(cut)] or [root]

    def shape(self, shape: Sequence[int], dimensions: Sequence[Dimension]) -> tuple[int, ...]:
        """The shape of a value whose dimensions are these, with all of them cut."""
        return tuple(
            [
                1 if size == 1 else part.size
                for size, dimension in zip(shape, dimensions, strict=True)
                for part in self.parts(dimension)
            ]
        )

    def fix(self, dimension: Dimension) -> None:
        """Never cut a dimension, which was not cut so far."""
        self.find(dimension).is_fixed = True

    def mark(self) -> int:
        """What `undo` goes back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Undo all changes since `mark`."""
        while len(self._log) > mark:
            dimension, name, value = self._log.pop()
            setattr(dimension, name, value)

    def has_cut(self, mark: int) -> bool:
        """Whether some dimension was cut since `mark`."""
        return any(name == "parts" for _, name, _ in self._log[mark:])

    def unite(self, pairs: Iterable[tuple[Dimension, Dimension]]) -> bool:
        """Make the dimensions of each pair one, or change nothing and return false."""
        mark = self.mark()
        is_done = all(self._unite(left, right) for left, right in pairs)
        if not is_done:
            self.undo(mark)
        return is_done

    def align(self, left: Sequence[Dimension], right: Sequence[Dimension]) -> bool:
        """Make dimensions one that hold the same elements in row-major order, and cut them where either side is cut; or
        change nothing and return false, where some cut is not between elements of the other side."""
        mark = self.mark()
        is_done = self._align(left, right)
        if not is_done:
            self.undo(mark)
        return is_done

    def _unite(self, left: Dimension, right: Dimension) -> bool:
        left, right = self.find(left), self.find(right)
        if left is right:
            return True
        if left.size != right.size and 1 not in (left.size, right.size):
            return False
        if left.size == 1 or (not left.parts and right.parts):
            left, right = right, left
        if left.parts and (right.is_fixed or (right.parts and not self._align(left.parts, right.parts))):
            return False
        self._set(right, "same", left)
        if right.is_fixed:
            self._set(left, "is_fixed", True)
        return True

    def _align(self, left: Sequence[Dimension], right: Sequence[Dimension]) -> bool:
        pending = list(reversed(left)), list(reversed(right))
        while all(pending):
            large, small = self.find(pending[0].pop()), self.find(pending[1].pop())
            if large.size == small.size:
                if not self._unite(large, small):
                    return False
                continue
            sides = pending
            if isinstance(large.size, Size) or isinstance(small.size, Size):
                return False
            if large.size < small.size:
                large, small, sides = small, large, (pending[1], pending[0])
            if not large.parts and not self._cut(large, small.size):
                return False
            sides[0].extend(reversed(large.parts))
            sides[1].append(small)
        return not any(pending)

    def _cut(self, dimension: Dimension, size: int) -> bool:
        """Cut a dimension into one of `size`, and what is inside of that."""
        if dimension.is_fixed or dimension.size % size:
            return False
        self._set(dimension, "parts", (Dimension(size), Dimension(dimension.size // size)))
        return True

    def _set(self, dimension: Dimension, name: str, value: object) -> None:
        self._log.append((dimension, name, getattr(dimension, name)))
        setattr(dimension, name, value)


def known_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a value that has a rank."""
    return shape_of(value.type) or ()


def is_cut(op: Operation | Block) -> bool:
    """Whether `op` computes the same over parts of its dimensions."""
    if not isinstance(op, ElementwiseOp | ReductionOp) or isinstance(op, ArgReductionOp):
        return False
    return all(is_known(value.type) and 0 not in known_shape(value) for value in (*op.operands, *op.results))


class Reshapes:
    """The reshapes of a block that rewriting its ops takes."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._reshaped: dict[tuple[SSAValue, tuple[int, ...]], SSAValue] = {}

    def rebuild(self, op: TensorOp, operands: Sequence[SSAValue], settings: dict[str, Any]) -> TensorOp:
        """Replace `op` by one of other operands and settings, whose results are reshaped for its users."""
        new = type(op).build_from(op.group(list(operands), op.properties), settings)
        new.attributes = dict(op.attributes)
        new.location = op.location
        back = [
            ReshapeOp.build_from([result], {"shape": known_shape(old)})
            for old, result in zip(op.results, new.results, strict=True)
        ]
        for old, result, reshape in zip(op.results, new.results, back, strict=True):
            result.name_hint = old.name_hint
            reshape.location = op.location
        Rewriter.replace_op(op, [new, *back], [reshape.result for reshape in back])
        return new

    def in_shape(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """What `value` is a reshape of, in a shape: by one reshape at most, that for all who ask for it."""
        while isinstance(value.owner, Operation) and states(value.owner, KeepsMemory):
            (value,) = value.owner.operands
        if known_shape(value) == shape:
            return value
        known = self._reshaped.get((value, shape))
        if known is None:
            reshape = ReshapeOp.build_from([value], {"shape": shape})
            is_here = isinstance(value.owner, Operation) and value.owner.parent is self._block
            if is_here and isinstance(value.owner, Operation):
                self._block.insert_op_after(reshape, value.owner)
                reshape.location = value.owner.location
            else:
                Rewriter.insert_op(reshape, InsertPoint.at_start(self._block))
            if (constants := fold(reshape)) is not None:
                Rewriter.replace_op(reshape, constants)
            (made,) = constants or [reshape]
            known = self._reshaped[value, shape] = made.results[0]
        return known
