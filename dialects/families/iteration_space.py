"""Iteration spaces: loops with their extents, which of them are parallel, and the maps by which they index tensors.

One model from the op to the loops: families state the meaning of an op over one, fusion compares those of ops, and
lowering reads those of `linalg.generic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import linalg
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tenon.dialects.types.size import is_at_most

ACROSS = -1
"""In place of a loop: a dimension whose index is no loop by itself."""


@dataclass(frozen=True)
class Subscript:
    """One index of an access: the sum of `factors[loop] * loop`, plus `constant`."""

    factors: dict[int, int]
    constant: int

    @staticmethod
    def of(expression: AffineExpr) -> Subscript:
        """The index that `expression` is. Raises `ValueError` if it is no sum of loops times constants."""
        if isinstance(expression, AffineDimExpr):
            return Subscript({expression.position: 1}, 0)
        factors: dict[int, int] = {}

        def add(part: AffineExpr, factor: int) -> int:
            match part:
                case AffineDimExpr():
                    factors[part.position] = factors.get(part.position, 0) + factor
                    return 0
                case AffineConstantExpr():
                    return part.value * factor
                case AffineBinaryOpExpr(AffineBinaryOpKind.Add, lhs, rhs):
                    return add(lhs, factor) + add(rhs, factor)
                case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, lhs, AffineConstantExpr() as rhs):
                    return add(lhs, factor * rhs.value)
                case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, AffineConstantExpr() as lhs, rhs):
                    return add(rhs, factor * lhs.value)
                case _:
                    raise ValueError(f"{expression} is no sum of loops times constants")

        return Subscript(factors, add(expression, 1))

    def plain_loop(self) -> int | None:
        """The loop that this index is, if it is just that."""
        if self.constant == 0 and len(self.factors) == 1:
            loop, factor = next(iter(self.factors.items()))
            return loop if factor == 1 else None
        return None

    def is_mixed(self, extents: Sequence[Any]) -> bool:
        """Whether it numbers the iterations of all its loops, as digits of several bases do."""
        reach = 0
        for loop, factor in sorted(self.factors.items(), key=lambda item: abs(item[1])):
            if not isinstance(extents[loop], int) or extents[loop] < 0 or abs(factor) <= reach:
                return False
            reach += abs(factor) * max(extents[loop] - 1, 0)
        return True

    def end(self, extents: Sequence[int]) -> int:
        """One more than the largest value; -1 where an extent is unknown (-1)."""
        if any(extents[loop] < 0 for loop in self.factors):
            return -1
        if any(extents[loop] == 0 for loop in self.factors):
            return 0
        return self.constant + 1 + sum(c * (extents[loop] - 1) for loop, c in self.factors.items() if c > 0)

    def least(self, extents: Sequence[Any]) -> int:
        """The smallest value; 0 where there is none, or an extent that it depends on is not a number."""
        falling = {loop: c for loop, c in self.factors.items() if c < 0}
        if any(not isinstance(extents[loop], int) or extents[loop] < 0 for loop in falling):
            return 0
        if any(isinstance(extents[loop], int) and extents[loop] == 0 for loop in self.factors):
            return 0
        return self.constant + sum(c * (extents[loop] - 1) for loop, c in falling.items())


@dataclass(frozen=True)
class IterationSpace:
    """Loops by extent, whether each is parallel, and the indices of operands and results in terms of them.

    `operands` are empty where an op reads its operands at computed places.
    """

    extents: tuple[int, ...]
    parallel: tuple[bool, ...]
    operands: tuple[AffineMap, ...]
    results: tuple[AffineMap, ...]

    def axes(self, places: AffineMap, shape: Sequence[int]) -> tuple[int | None, ...]:
        """For each dimension of a tensor of `shape` the loop that runs over all of it, and over no dimension before;
        `None` for one of size 1, and `ACROSS` for one that is indexed otherwise."""
        axes: list[int | None] = []
        for size, place in zip(shape, places.results, strict=True):
            if size == 1:
                axes.append(None)
            elif isinstance(place, AffineDimExpr) and self.extents[place.position] == size:
                axes.append(ACROSS if place.position in axes else place.position)
            else:
                axes.append(ACROSS)
        return tuple(axes)

    def terms(self) -> int:
        """How many iterations meet in one element of a result."""
        return prod([extent for extent, parallel in zip(self.extents, self.parallel, strict=True) if not parallel])

    def tells_extents(self) -> bool:
        """Whether each loop is an index of some tensor as it stands, so that the tensor's shape gives its extent."""
        indices = [place for places in (*self.operands, *self.results) for place in places.results]
        return len({place.position for place in indices if isinstance(place, AffineDimExpr)}) == len(self.extents)

    def without(self, number: int) -> IterationSpace:
        """The space without one of its tensors: operands are counted first, then results."""
        count, maps = len(self.operands), [*self.operands, *self.results]
        del maps[number]
        count -= number < count
        return replace(self, operands=tuple(maps[:count]), results=tuple(maps[count:]))

    def loops_at(self, result: int, places: AffineMap) -> list[AffineExpr]:
        """Where the loops are when they write what `places` index of a result, whose index is a permutation of them."""
        loops = list(places.results)
        for loop, place in zip(self.results[result].results, places.results, strict=True):
            assert isinstance(loop, AffineDimExpr)
            loops[loop.position] = place
        return loops

    def inside(self, loops: Sequence[AffineExpr], around: IterationSpace) -> IterationSpace:
        """The tensors of this space in terms of the loops `around` it, which put its own at `loops`."""
        count = len(around.extents)
        operands, results = (
            tuple([places.replace_dims_and_symbols(loops, (), count, 0) for places in maps])
            for maps in (self.operands, self.results)
        )
        return replace(around, operands=operands, results=results)

    def rereads(self, shape: Sequence[int]) -> bool:
        """Whether more than one iteration reads some element of a tensor of `shape`."""
        return not is_at_most(prod(self.extents), prod(shape))

    @staticmethod
    def over(
        maps: Sequence[AffineMap], parallel: Sequence[bool], shapes: Iterable[Sequence[int]], results: int
    ) -> IterationSpace:
        """The space of tensors of `shapes`, the last ones `results`: a loop runs over the dimensions that it indexes by
        itself. Raises `ValueError` where there are none, or where their sizes differ."""
        extents: list[int | None] = [None] * len(parallel)
        for places, shape in zip(maps, shapes, strict=True):
            for place, size in zip(places.results, shape, strict=True):
                if not isinstance(place, AffineDimExpr):
                    continue
                extent = extents[place.position]
                if extent is not None and extent != size:
                    raise ValueError(f"loop {place} has extent {extent} and {size}")
                extents[place.position] = size
        known = tuple([extent for extent in extents if extent is not None])
        if len(known) != len(extents):
            raise ValueError(f"loop d{extents.index(None)} is no index of any operand, so it has no extent")
        first = len(maps) - results
        return IterationSpace(known, tuple(parallel), tuple(maps[:first]), tuple(maps[first:]))

    @staticmethod
    def of(op: linalg.ops.GenericOp) -> IterationSpace:
        """The space of a generic on tensors or memrefs. Raises `ValueError` where a loop has no extent, or two."""
        maps = [attribute.data for attribute in op.indexing_maps.data]
        parallel = [iterator.data is IteratorType.PARALLEL for iterator in op.iterator_types.data]
        shapes = [v.type.get_shape() if isinstance(v.type, TensorType | MemRefType) else () for v in op.operands]
        try:
            return IterationSpace.over(maps, parallel, shapes, len(op.outputs))
        except ValueError as error:
            raise ValueError(f"{op.name}: {error}") from None
