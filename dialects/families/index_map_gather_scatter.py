"""The families of ops that move elements: from an affine index, from any index, and to any index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, ClassVar

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.operands import to_scalar
from tenon.dialects.definition.scalar import as_index, to_compute
from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.families.linalg_builders import (
    ElementReader,
    LoopIndex,
    Reader,
    clamp,
    conditional,
    converted,
    counted_loops,
    elementwise,
    filled,
    inserted,
    inside,
    is_known_inside,
    static_shape,
)
from tenon.dialects.families.structured_op import StructuredOp, as_tuple, require_hooks, require_operands
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.types import AnyTensor, compute_type, element_of, is_static, shape_of

SHORTEST_RUN = 16
"""Contiguous elements of a result that are worth loops of their own."""
FEWEST_ROWS, MOST_COLUMNS = 1024, 8
"""So many rows that are so short are worth loops of their own for each column, over all rows."""


def are_columns(rows: int, length: int) -> bool:
    """Whether elements of `rows` of that `length` are moved column by column."""
    return rows >= FEWEST_ROWS and length <= MOST_COLUMNS


class IndexMapOp(StructuredOp):
    """Each result element is the operand's element at an affine function of the result's index."""

    @staticmethod
    @abstractmethod
    def source(index: tuple[AffineExpr, ...], shape: tuple[int, ...], /, **settings: Any) -> tuple[AffineExpr, ...]:
        """The operand index (operand of `shape`) for result `index`."""

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "infer", "source")
        require_operands(cls, 1)

    @classmethod
    def source_map(cls, shape: tuple[int, ...], rank: int, settings: dict[str, Any]) -> AffineMap:
        """`source` as a map from result indices (of `rank`) to indices of an operand of `shape`.

        Raises `UndecidedSizeError` where the map depends on a size that is known at launch only.
        """
        dims = tuple([AffineExpr.dimension(i) for i in range(rank)])
        source = cls.source(dims, shape, **settings)
        if not isinstance(source, tuple | list):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{cls.name}: source returns a {type(source).__name__} where an index is needed")
        if any(isinstance(part, Size) for expr in source for part in _parts(expr)):
            raise UndecidedSizeError(f"{cls.name}: the place of an element depends on a size of {show(shape)}")
        return AffineMap(rank, 0, tuple([AffineExpr.constant(e) if isinstance(e, int) else e for e in source]))

    @classmethod
    def inferred_types(cls, operand_types: Sequence[Any], settings: dict[str, Any]) -> tuple[AnyTensor, ...]:
        """The result types; raises `InferenceError` where `source` leaves the operand."""
        types = super().inferred_types(operand_types, settings)
        if is_static(types[0]) and is_static(operand_types[0]):
            cls._check_source(shape_of(operand_types[0]) or (), shape_of(types[0]) or (), settings)
        return types

    @classmethod
    def _check_source(cls, shape: tuple[int, ...], result: tuple[int, ...], settings: dict[str, Any]) -> None:
        """Raise unless all elements of a `result` come from places inside of an operand of `shape`."""
        source = cls.source_map(shape, len(result), settings)
        if len(source.results) != len(shape):
            raise InferenceError(f"{cls.name}: source gives {len(source.results)} indices for rank {len(shape)}")
        if 0 in result:
            return
        for axis, (expr, size) in enumerate(zip(source.results, shape, strict=True)):
            try:
                index = Subscript.of(expr)
            except ValueError as error:
                raise InferenceError(f"{cls.name}: source: index {axis}: {error}") from None
            least, end = index.least(result), index.end(result)
            if least < 0 or end > size:
                raise InferenceError(
                    f"{cls.name}: source reads places {least} to {end - 1} of dimension {axis}, which has size {size}"
                )

    def iteration_space(self, operands: Sequence[SSAValue]) -> IterationSpace:
        """A loop for each dimension of the result; no operand where `source` depends on a size known at launch only."""
        space = over_results(self)
        try:
            source = self.source_map(static_shape(operands[0]), len(space.extents), self.settings)
        except UndecidedSizeError:
            return space
        return replace(space, operands=(source,))

    def spread(self, axes: Sequence[int | None]) -> dict[str, Any] | None:
        """The settings of the same op on an operand whose axes are `axes` of this one's, in this order, with a new axis
        of size 1 for each `None`. Axes that are left out have size 1. `None` if there are no such settings."""
        return None

    @staticmethod
    def is_indexing_map(source: AffineMap, shape: Sequence[int], result: Sequence[int]) -> bool:
        """Whether linalg takes `source` as it is: a loop that is an index by itself must run over the whole dimension.

        Otherwise the operand is read element by element, and nothing that computes it can be fused into the op.
        """
        return all(
            result[e.position] == size
            for e, size in zip(source.results, shape, strict=True)
            if isinstance(e, AffineDimExpr)
        )

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        result = self.results[0]
        shape = static_shape(result)
        elements = [element_of(result.type)]
        if 0 in shape:
            return [filled(shape, elements[0], 0)]
        space = self.iteration_space([x])
        if not space.operands:
            return elementwise([], shape, elements, lambda _: [self._element_of(Reader(x), shape)])
        (source,) = space.operands
        if self.is_indexing_map(source, static_shape(x), shape):
            return elementwise([(x, source)], shape, elements, lambda values: values)
        return elementwise([], shape, elements, lambda _: [Reader(x).read_inside(*_evaluated(source, shape))])

    def _element_of(self, x: Reader, shape: Sequence[int]) -> Value:
        """The element of `x` for the current result index, which is computed from sizes."""
        index: Any = tuple([LoopIndex(i, size) for i, size in enumerate(shape)])
        return x.read_inside(*self.source(index, x.shape, **self.settings))  # pyright: ignore[reportArgumentType]

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        """Each element of `g` goes back to where its result element came from; elements read twice get the sum."""
        source = cls.source_map(x.shape, g.ndim, settings)
        # A loop that is an index by itself runs over a whole dimension; what lies behind it is padded.
        reached = tuple(
            [
                g.shape[e.position] if isinstance(e, AffineDimExpr) else size
                for e, size in zip(source.results, x.shape, strict=True)
            ]
        )
        total = ops.contract((g,), maps=(AffineMap.identity(g.ndim), source), extents=g.shape, shape=reached)
        if reached == x.shape:
            return (total,)
        behind = tuple([size - part for size, part in zip(x.shape, reached, strict=True)])
        return (ops.pad(total, low=(0,) * x.ndim, high=behind),)


def over_results(op: StructuredOp) -> IterationSpace:
    """A parallel loop for each dimension of the results, which read operands at any places."""
    shape = static_shape(op.results[0])
    return IterationSpace(shape, (True,) * len(shape), (), (AffineMap.identity(len(shape)),) * len(op.results))


def _parts(expr: AffineExpr) -> Iterator[Any]:
    yield expr
    if isinstance(expr, AffineBinaryOpExpr):
        yield from _parts(expr.lhs)
        yield from _parts(expr.rhs)


def _evaluated(source: AffineMap, shape: Sequence[int]) -> list[Value | int]:
    """The results of `source` for the indices of the loops over `shape`."""
    indices = [LoopIndex(i, size) for i, size in enumerate(shape)]
    results: list[Value | int] = []
    for expr in source.results:
        subscript = Subscript.of(expr)
        place: Value | int = subscript.constant
        for loop, coefficient in subscript.factors.items():
            part = indices[loop] if coefficient == 1 else indices[loop] * coefficient
            place = part if isinstance(place, int) and place == 0 else part + place
        results.append(place)
    return results


class IndexingOp(StructuredOp):
    """Each result element is computed from operand elements at indices that may depend on data."""

    @staticmethod
    @abstractmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        """The element at `index`; operands are readers: `x.read(i, j)`."""

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "infer", "element")

    def surrounds(self) -> bool:
        """Whether a result is all of the one operand with a constant around it."""
        return False

    def moves_ranges(self) -> bool:
        """Whether each element of an operand is read once at most, and ranges of the result, most of it in runs of 16
        elements or more, come from neighbouring places. What computes the operands then becomes part of the op."""
        return self.moves_columns()

    def moves_columns(self) -> bool:
        """Whether operands are some columns each of a result of many short rows (`are_columns`)."""
        return False

    def reads_rows(self) -> bool:
        """Whether neighbours along the last dimension of the result are neighbours in what is read at other places."""
        return False

    def operand_places(self) -> tuple[AffineMap | None, ...]:
        """For each operand where `element` reads it, in terms of the result's index, each of which is an index by
        itself; `None` where that may be anywhere."""
        return (None,) * len(self.operands)

    def iteration_space(self, operands: Sequence[SSAValue]) -> IterationSpace:
        """A loop for each dimension of the results; no operands, since they are read at any places."""
        return over_results(self)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        result = self.results[0]
        shape = static_shape(result)
        flat = [v for o in operands for v in (o if isinstance(o, tuple) else () if o is None else (o,))]
        at_loops = [(v, places) for v, places in zip(flat, self.operand_places(), strict=True) if places is not None]

        def body(elements: list[Value]) -> Sequence[Value]:
            index = tuple([LoopIndex(i, size) for i, size in enumerate(shape)])
            all_places, known = iter(self.operand_places()), iter(elements)  # in the order of operands

            def reader(v: SSAValue) -> Reader:
                places = next(all_places)
                return Reader(v) if places is None else ElementReader(v, places, next(known))

            readers = map_grouped(reader, operands)
            element = self.element(index, *readers, **self.settings)
            return [to_scalar(element, element_of(result.type), f"{self.name}: the result of element")]

        return elementwise(at_loops, shape, [element_of(result.type)], body)


class ScatterOp(StructuredOp):
    """The first operand with each element of the operand `UPDATES` combined into one place of it.

    Updates are applied in order of their index. Those whose target lies outside are dropped. Where nothing else needs
    the first operand any more, the result takes its memory, and what has no update is not touched.
    """

    UPDATES: ClassVar[str] = "updates"
    STAYS_INSIDE: ClassVar[bool] = False
    """Whether no target lies outside, whatever the operands."""
    HAS_DISTINCT_TARGETS: ClassVar[bool] = False
    """Whether no two updates have one target, so that they can be applied in any order."""

    @staticmethod
    @abstractmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        """Where the update at `index` goes."""

    @staticmethod
    @abstractmethod
    def combine(old: Any, new: Any, **settings: Any) -> Any:
        """The element after an update `new`."""

    @classmethod
    def replaces(cls, **settings: Any) -> bool:
        """Whether `combine` gives the update as it is, so that nothing is computed."""
        return False

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "target", "combine")
        names = [operand.name for operand in cls.SIGNATURE.operands]
        if cls.UPDATES not in names:
            raise TypeError(
                f"{cls.__name__} ({cls.name}): UPDATES is {cls.UPDATES!r} where the name of an operand is needed "
                f"(operands: {', '.join(names)})"
            )

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        names = [o.name for o in self.SIGNATURE.operands]
        updates = operands[names.index(self.UPDATES)]
        element, replaces = element_of(self.results[0].type), self.replaces(**self.settings)
        start = operands[0] if replaces else converted(operands[0], compute_type(element))
        shape = static_shape(start)
        if 0 in shape:
            return [converted(start, element)]
        readers = [Reader(v) for v in operands]

        def body(index: list[Value], current: SSAValue) -> SSAValue:
            place = [as_index(i) for i in as_tuple(self.target(tuple(index), *readers, **self.settings))]
            if len(place) != len(shape):
                raise ValueError(f"target gives {len(place)} indices for rank {len(shape)}")
            kept: list[Value] = []
            if not self.STAYS_INSIDE:
                kept = [inside(i, size) for i, size in zip(place, shape, strict=True) if not is_known_inside(i, size)]
                place = [clamp(i, size) for i, size in zip(place, shape, strict=True)]
            if replaces and not kept:
                return inserted(current, Reader(updates).read(*index), place)
            if replaces and self.HAS_DISTINCT_TARGETS:
                # The place that stands in for one outside may be that of another update.
                new, is_kept = Reader(updates).read(*index), reduce(ops.logical_and, kept)
                (changed,) = conditional(is_kept, [current], lambda: [inserted(current, new, place)])
                return changed
            old, new = Reader(current).read(*place), Reader(updates).read(*index)
            value = new
            if not replaces:
                combined = self.combine(old, to_compute(new), **self.settings)
                value = to_scalar(combined, old.type, f"{self.name}: the result of combine")
            for condition in kept:
                value = ops.select(condition, value, old)
            return inserted(current, value, place)

        extents = static_shape(updates)
        return [converted(counted_loops(extents, start, body, distinct=self.HAS_DISTINCT_TARGETS), element)]
