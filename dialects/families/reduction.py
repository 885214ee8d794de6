"""The families of ops that combine the elements along axes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.definition.operands import to_scalar
from tenon.dialects.definition.scalar import convert, index_constant, to_compute
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.along_axis import AlongAxis
from tenon.dialects.families.batching import along_shifted_axis
from tenon.dialects.families.iteration_space import IterationSpace
from tenon.dialects.families.linalg_builders import LoopIndex, converted, elementwise, filled, generic, static_shape
from tenon.dialects.families.monoid import CombiningOp
from tenon.dialects.families.structured_op import require_hooks, require_operands
from tenon.dialects.types.shapes import InferenceError, Shape, normalize_axes, show
from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import current_sizes
from tenon.dialects.types.types import (
    compute_type,
    element_of,
    i64,
    shape_of,
    tensor_type,
)


class ReductionOp(AlongAxis, CombiningOp):
    """Elements along `axis` combined by `scalar(accumulator, x)`, starting from `initial`; see `CombiningOp`.

    The class declares one operand and the settings `axis` and `keepdims`.
    """

    AUTOCAST = "full"

    # Whether there is a result for no elements at all.
    HAS_IDENTITY: ClassVar[bool] = True

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "initial", "scalar")
        require_operands(cls, 1)
        for name in ("axis", "keepdims"):
            if name not in cls.SIGNATURE.settings:
                raise TypeError(f"{cls.__name__} ({cls.name}) must declare the setting `{name}`")

    @classmethod
    def result_element(cls, element: Attribute) -> Attribute:
        """The result's dtype."""
        return element

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        shape = shape_of(x)
        return tensor_type(cls.reduced_shape(shape, settings), cls.result_element(element_of(x)))

    @classmethod
    def reduced_shape(cls, shape: Shape, settings: dict[str, Any]) -> Shape:
        """The shape that remains of `shape`."""
        axis, keepdims = settings["axis"], settings["keepdims"]
        if shape is None:
            return () if axis is None and not keepdims else None
        axes = normalize_axes(_axes(axis), len(shape))
        for a in axes:
            if shape[a] == 0 and not cls.HAS_IDENTITY:
                raise InferenceError(f"axis {a} of {show(shape)} has no elements, and there is no result for none")
        if keepdims:
            return tuple([1 if i in axes else size for i, size in enumerate(shape)])
        return tuple([size for i, size in enumerate(shape) if i not in axes])

    def iteration_space(self, operands: Sequence[SSAValue]) -> IterationSpace:
        """A loop for each dimension of the one operand, of static shape."""
        shape = static_shape(operands[0])
        rank, axes = len(shape), normalize_axes(_axes(self.settings["axis"]), len(shape))
        places = [AffineExpr.constant(0) if i in axes else AffineExpr.dimension(i) for i in range(rank)]
        kept = places if self.settings["keepdims"] else [place for i, place in enumerate(places) if i not in axes]
        parallel = tuple([i not in axes for i in range(rank)])
        results = (AffineMap(rank, 0, tuple(kept)),) * len(self.results)
        return IterationSpace(shape, parallel, (AffineMap.identity(rank),), results)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        accumulator = compute_type(self.result_element(element_of(x.type)))
        start = self._checked_initial(accumulator)

        def body(values: list[Value], accumulators: list[Value]) -> Sequence[Value]:
            found = self.scalar(accumulators[0], convert(to_compute(values[0]), accumulator))
            return [to_scalar(found, accumulator, f"{self.name}: the result of scalar")]

        (reduced,) = self.reduce(x, [(accumulator, start)], lambda values, accs, _: body(values, accs))
        return [self.finish(reduced)]

    def reduce(
        self,
        x: SSAValue,
        accumulators: Sequence[tuple[Attribute, float]],
        body: Callable[[list[Value], list[Value], Callable[[], Value]], Sequence[Value]],
    ) -> list[SSAValue]:
        """Reduce `x` into one tensor per accumulator (type, start); `body` may ask for the index along the axes."""
        shape = static_shape(x)
        axes = normalize_axes(_axes(self.settings["axis"]), len(shape))
        if not self.HAS_IDENTITY:
            for axis in axes:
                if isinstance(shape[axis], Size):
                    current_sizes().require_positive(shape[axis])
        space = self.iteration_space([x])
        kept = [i for i, parallel in enumerate(space.parallel) if parallel]
        out_map = AffineMap(len(shape), 0, tuple([AffineExpr.dimension(i) for i in kept]))
        outputs = [(filled([shape[i] for i in kept], t, start), out_map) for t, start in accumulators]
        return generic(
            [(x, space.operands[0])],
            outputs,
            [not parallel for parallel in space.parallel],
            lambda values, accs: body(values, accs, lambda: _position(axes, shape)),
        )

    def finish(self, reduced: SSAValue) -> SSAValue:
        """The accumulated tensor as the op's result: in its dtype, and with the reduced axes kept if asked for."""
        result = self.results[0]
        reduced = converted(reduced, element_of(result.type))
        shape = static_shape(result)
        if not self.settings["keepdims"]:
            return reduced
        axes = normalize_axes(_axes(self.settings["axis"]), len(shape))
        source = AffineMap(len(shape), 0, tuple([AffineExpr.dimension(i) for i in range(len(shape)) if i not in axes]))
        return elementwise([(reduced, source)], shape, [element_of(result.type)], lambda values: values)[0]


def _position(axes: Sequence[int], shape: Sequence[int]) -> Value:
    """The index in row-major order of the element being reduced, among those that meet in one result."""
    position: Value | None = None
    for axis in axes:
        along = LoopIndex(axis, shape[axis])
        position = along if position is None else position * shape[axis] + along
    return index_constant(0) if position is None else position


def _axes(axis: Any) -> Sequence[int] | None:
    return (axis,) if isinstance(axis, int) else axis


class ArgReductionOp(ReductionOp):
    """The index along `axis` of the element that `better(x, best)` prefers to all before it."""

    @staticmethod
    @abstractmethod
    def better(x: Any, best: Any) -> Any:
        """Whether `x` replaces `best`."""

    @staticmethod
    def scalar(accumulator: Any, x: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "initial", "better")
        require_operands(cls, 1)

    @classmethod
    def result_element(cls, element: Attribute) -> Attribute:
        return i64

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        if settings["axis"] is not None:
            return along_shifted_axis(cls, x, settings)
        # Without an axis the index is one into all elements of an example.
        flat = ops.reshape(x, shape=(x.shape[0], prod(x.shape[1:])))
        places = cls.apply(flat, **{**settings, "axis": 1, "keepdims": False})
        return ops.expand_dims(places, axis=tuple(range(1, x.ndim))) if settings["keepdims"] else places

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any] | None:
        # an index into all elements counts them in row-major order
        return super().reordered(order) if isinstance(self.settings["axis"], int) else None

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        element = compute_type(element_of(x.type))
        position = self.result_element(element)

        def body(values: list[Value], accs: list[Value], index: Callable[[], Value]) -> Sequence[Value]:
            best, best_index = accs
            value = to_compute(values[0])
            replace = self.better(value, best)
            return [ops.select(replace, value, best), ops.select(replace, convert(index(), position), best_index)]

        start = [(element, self._checked_initial(element)), (position, 0)]
        return [self.finish(self.reduce(x, start, body)[1])]
