"""The families of ops that are given by loops and the indices of operands and result in terms of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from inspect import getattr_static
from typing import Any

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.definition.operands import to_scalar
from tenon.dialects.definition.scalar import convert, to_compute
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.batching import aligned_operands, example_shape
from tenon.dialects.families.indexing import LoopStructure, behind_examples, has_batch, loop_structure
from tenon.dialects.families.iteration_space import IterationSpace
from tenon.dialects.families.linalg_builders import (
    converted,
    empty,
    filled,
    generic,
    static_shape,
)
from tenon.dialects.families.monoid import CombiningOp
from tenon.dialects.families.structured_op import StructuredOp, require_hooks, require_operands
from tenon.dialects.types.shapes import Shape
from tenon.dialects.types.types import (
    compute_type,
    element_of,
    promote,
    shape_of,
    tensor_type,
)


class LoopOp(StructuredOp):
    """An op given by `indexing`: loops, and the index of each operand and result in terms of them."""

    @staticmethod
    @abstractmethod
    def indexing(*loops: Any, **settings: Any) -> tuple[tuple[Any, ...], ...]:
        """From loop names (parameters) and settings, the index of each operand, then of the result.

        A parameter `*batch` stands for any number of leading loops, over which operands broadcast; one that `ranks`
        names gets a tuple of loops.
        """

    @classmethod
    def ranks(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> dict[str, int]:
        """How many loops the parameters of `indexing` have that stand for several; those of `p` are `p0`, `p1`, …"""
        return {}

    @staticmethod
    def extents(**settings: Any) -> dict[str, int]:
        """The extents of loops that no operand's shape tells, by loop name."""
        return {}

    @classmethod
    def result_element(cls, *elements: Attribute) -> Attribute:
        """The result's dtype."""
        return promote(elements)

    @classmethod
    def loops(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> LoopStructure:
        """The maps and extents for operands of `shapes`; raises `InferenceError` where sizes disagree."""
        names = [o.name for o in cls.SIGNATURE.operands]
        return loop_structure(
            cls.indexing, cls.extents(**settings), names, shapes, settings, cls.ranks(shapes, settings)
        )

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        element = cls.result_element(*[element_of(t) for t in operands])
        shapes = [shape_of(t) for t in operands]
        if any(s is None for s in shapes):
            return tensor_type(None, element)
        return tensor_type(cls.loops(shapes, settings).result_shape, element)

    def accumulate(self, operands: list[SSAValue], start: float, combine: Callable[..., Any]) -> SSAValue:
        """The nest that starts from `start` and combines into the result over the loops that do not index it."""
        element = element_of(self.results[0].type)
        accumulator = compute_type(element)
        (reduced,) = self.accumulate_all(
            operands,
            [(accumulator, start)],
            lambda values, accs, _: [
                to_scalar(
                    combine(accs[0], *[convert(to_compute(v), accumulator) for v in values]),
                    accumulator,
                    f"{self.name}: the result of scalar",
                )
            ],
        )
        return converted(reduced, element)

    def accumulate_all(
        self,
        operands: list[SSAValue],
        accumulators: Sequence[tuple[Attribute, float]],
        body: Callable[[list[Value], list[Value], LoopStructure], Sequence[Value]],
    ) -> list[SSAValue]:
        """As `accumulate`, into one tensor per accumulator (type, start), which `body` updates."""
        structure = self.loops([static_shape(v) for v in operands], self.settings)
        inputs = list(zip(operands, structure.operands, strict=True))
        if structure.hidden:
            # linalg reads every loop's extent off an operand, so loops that index none get one without contents.
            hidden = AffineMap(len(structure.extents), 0, tuple([AffineExpr.dimension(i) for i in structure.hidden]))
            inputs.append(
                (empty([structure.extents[i] for i in structure.hidden], element_of(operands[0].type)), hidden)
            )
        shape = static_shape(self.results[0])
        return generic(
            inputs,
            [(filled(shape, element, start), structure.result_map) for element, start in accumulators],
            [not parallel for parallel in structure.parallel],
            lambda values, accs: body(values[: len(operands)], accs, structure),
        )


class ContractionOp(LoopOp):
    """Sums of products: over the loops that do not index the result, the product of the operands is added up."""

    AUTOCAST = "low"

    def iteration_space(self, operands: Sequence[SSAValue]) -> IterationSpace:
        """The loops of `indexing` over `operands` of static shape.

        Raises `UndecidedSizeError` where they depend on a size that is known at launch only.
        """
        return self.loops([static_shape(v) for v in operands], self.settings)

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "indexing")
        if vars(cls).get("infer") is None:
            require_operands(cls)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        return [self.accumulate(operands, 0, _multiply_add)]

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        """The contraction with one more loop, over the examples; a gradient of the op's own would get lost by it."""
        if getattr_static(cls, "vjp") is not vars(ContractionOp)["vjp"]:
            return NotImplemented
        shapes = [example_shape(v, known) for v, known in zip(operands, batched, strict=True)]
        structure = cls.loops(shapes, settings)
        element = cls.result_element(*[v.element_type for v in operands])
        maps = [behind_examples(m, known) for m, known in zip(structure.operands, batched, strict=True)]
        return ops.contract(
            tuple([v.astype(element) for v in operands]),
            maps=(*maps, behind_examples(structure.result_map, True)),
            extents=(size, *structure.extents),
            shape=(size, *structure.result_shape),
        )

    @classmethod
    def vjp(cls, g: Value, out: Value, *operands: Value, **settings: Any) -> tuple[Any, ...]:
        """The gradient by swapping roles: an operand's is the contraction of `g` with the others, indexed as that
        operand."""
        structure = cls.loops([v.shape for v in operands], settings)
        maps = structure.operands
        extents = _told_by(((g, structure.result_map), *zip(operands, maps, strict=True)), structure.extents)
        gradients: list[Value] = []
        for i, operand in enumerate(operands):
            others = [(v, m) for j, (v, m) in enumerate(zip(operands, maps, strict=True)) if j != i]
            gradients.append(
                ops.contract(
                    (g, *[v for v, _ in others]),
                    maps=(structure.result_map, *[m for _, m in others], maps[i]),
                    extents=extents,
                    shape=operand.shape,
                )
            )
        return tuple(gradients)


def _told_by(indexed: Iterable[tuple[Value, AffineMap]], extents: Sequence[int]) -> tuple[int, ...]:
    """`extents`, and where one is unknown (-1) the dimension that the loop alone indexes in some value, if it is known.

    What is declared of a result may say more than what is known of the operands.
    """
    known = list(extents)
    for value, index in indexed:
        for expr, size in zip(index.results, shape_of(value.type) or [-1] * len(index.results), strict=True):
            if isinstance(expr, AffineDimExpr) and known[expr.position] == -1:
                known[expr.position] = size
    return tuple(known)


def _multiply_add(accumulator: Any, *factors: Any) -> Any:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return accumulator + product


class WindowOp(LoopOp, CombiningOp):
    """Elements of windows combined by `scalar(accumulator, x)`, starting from `initial`; see `CombiningOp`."""

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "indexing", "extents", "initial", "scalar")
        require_operands(cls, 1)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        """Where operands may have any number of leading dimensions, the examples are one of them."""
        if not has_batch(cls.indexing):
            return NotImplemented
        return cls.apply(*aligned_operands(batched, operands), **settings)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        element = compute_type(element_of(self.results[0].type))
        start = self._checked_initial(element)
        return [self.accumulate(operands, start, self.scalar)]
