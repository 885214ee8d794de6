"""The op families: what an author writes, and what each family derives from it.

| family          | hooks                           | meaning                                                       |
|-----------------|---------------------------------|---------------------------------------------------------------|
| `ElementwiseOp` | `scalar`                        | the same scalar function of every (broadcast) element         |
| `CompositeOp`   | `decompose`                     | other ops                                                     |
| `ReductionOp`   | `initial`, `scalar`             | elements along axes combined                                  |
| `ContractionOp` | `indexing`                      | sums of products over loops                                   |
| `WindowOp`      | `indexing`, `initial`, `scalar` | combination over windows                                      |
| `IndexMapOp`    | `infer`, `source`               | each result element is one operand element, at an affine index|
| `IndexingOp`    | `infer`, `element`              | each result element is computed from elements at any index    |
| `ScatterOp`     | `target`, `combine`             | each update element goes to one place of the result           |
| `OpaqueOp`      | `infer`, `KERNELS`, `reference` | code that Tenon does not look into                            |

Each family has one method `structured`, which builds its meaning in `linalg`, `tensor` and `scf` at the insertion
point, from operands of static shape. Lowering, the interpreter and constant folding all use that method and no other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tenon.dialects.base import TensorOp, scalar_operands
from tenon.dialects.inference import InferenceError, Shape, broadcast, normalize_axes, show
from tenon.dialects.loops import LoopStructure, linear, loop_structure
from tenon.dialects.scalar import ScalarForms, convert, to_compute
from tenon.dialects.structured import (
    LoopIndex,
    Reader,
    clamp,
    converted,
    counted_loops,
    elementwise,
    empty,
    filled,
    generic,
    index_constant,
    inserted,
    inside,
    static_shape,
)
from tenon.dialects.types import (
    AnyTensor,
    compute_type,
    element_of,
    promote,
    shape_of,
    tensor_type,
)
from tenon.dialects.value import InsertionPoint, Value, inserting, ops


class StructuredOp(TensorOp):
    """An op whose meaning is stated as loops over elements."""

    @abstractmethod
    def structured(self, operands: list[Any]) -> list[SSAValue]:
        """Build the op's meaning on grouped SSA `operands` of static shape; one tensor per result."""


def _require(cls: type[TensorOp], *hooks: str) -> None:
    for hook in hooks:
        if getattr(getattr(cls, hook, None), "__isabstractmethod__", False):
            raise TypeError(f"{cls.__name__} ({cls.name}) must define `{hook}`")


def broadcast_map(shape: Sequence[int], rank: int, result: Sequence[int]) -> AffineMap:
    """The map that reads an operand of `shape` while looping over `result`: its dimensions of size 1 stay at index
    0."""
    offset = rank - len(shape)
    results: list[AffineExpr] = [
        AffineExpr.constant(0) if size == 1 and result[offset + i] != 1 else AffineExpr.dimension(offset + i)
        for i, size in enumerate(shape)
    ]
    return AffineMap(rank, 0, tuple(results))


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a hook that may return one or several."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)


class ElementwiseOp(StructuredOp):
    """The same `scalar` function of every element, operands broadcast against each other."""

    @staticmethod
    @abstractmethod
    def scalar(*operands: Any, **settings: Any) -> Any:
        """The result for one element (a tuple for several results); f16 and bf16 arrive and are computed as f32."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "scalar")

    @classmethod
    def result_element(cls, *elements: Attribute | None, **settings: Any) -> Attribute:
        """The results' dtype: by default that in which the promoted operands (`None` where absent) meet."""
        names = [o.name for o in cls.SIGNATURE.operands]
        return promote(
            element
            for name, element in zip(names, elements, strict=True)
            if element is not None and (cls.PROMOTED is None or name in cls.PROMOTED)
        )

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        present = [(o.name, t) for o, t in zip(cls.SIGNATURE.operands, operands, strict=True) if t is not None]
        shape = broadcast((name, shape_of(t)) for name, t in present)
        element = cls.result_element(*[None if t is None else element_of(t) for t in operands], **settings)
        results = (tensor_type(shape, element),) * len(cls.SIGNATURE.results)
        return results if len(results) > 1 else results[0]

    @classmethod
    def apply_to_scalars(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return cls.scalar(*scalar_operands(cls, operands), **cls.python_settings(cls.setting_attributes(settings)))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        shape = static_shape(self.results[0])
        rank = len(shape)
        present = [v for v in operands if v is not None]
        inputs = [(v, broadcast_map(static_shape(v), rank, shape)) for v in present]

        def body(values: list[Value]) -> Sequence[Value]:
            arguments = iter([to_compute(v) for v in values])
            hooks = [None if v is None else next(arguments) for v in operands]
            results = as_tuple(self.scalar(*hooks, **self.settings))
            return [_as_scalar(r, compute_type(element_of(t.type))) for r, t in zip(results, self.results, strict=True)]

        return elementwise(inputs, shape, [element_of(r.type) for r in self.results], body)


def _as_scalar(value: Any, element: Attribute) -> Value:
    from tenon.dialects.base import to_scalar

    return to_scalar(value, element)


class PrimitiveOp(ElementwiseOp):
    """An elementwise op that is one op of `arith` or `math`, per kind of element."""

    SCALAR: ClassVar[ScalarForms]

    @classmethod
    def check_family(cls) -> None:
        if cls.scalar is PrimitiveOp.scalar and not hasattr(cls, "SCALAR"):
            raise TypeError(f"{cls.__name__} ({cls.name}) must define `SCALAR` or `scalar`")

    @staticmethod
    def scalar(*operands: Any, **settings: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def apply_to_scalars(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        values = scalar_operands(cls, operands)
        return cls.on_scalars(values, cls.python_settings(cls.setting_attributes(settings)))

    @classmethod
    def on_scalars(cls, values: Sequence[Value], settings: dict[str, Any]) -> Any:
        """The primitive on scalar values of agreeing types."""
        if cls.scalar is not PrimitiveOp.scalar:
            return cls.scalar(*values, **settings)
        result = cls.SCALAR.build(*values)
        if result is None:
            raise TypeError(f"{cls.name}: has no meaning on {values[0].type}")
        return result

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        shape = static_shape(self.results[0])
        inputs = [(v, broadcast_map(static_shape(v), len(shape), shape)) for v in operands]

        def body(values: list[Value]) -> Sequence[Value]:
            result = self.on_scalars([to_compute(v) for v in values], self.settings)
            return [convert(result, compute_type(element_of(self.results[0].type)))]

        return elementwise(inputs, shape, [element_of(self.results[0].type)], body)


class CompositeOp(TensorOp):
    """An op written in terms of other ops."""

    @staticmethod
    @abstractmethod
    def decompose(*operands: Any, **settings: Any) -> Any:
        """The result (a tuple for several), computed with other ops."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "decompose")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        key = (cls, operands, tuple(settings.items()))
        try:
            known = _INFERRED.get(key)
        except TypeError:  # a setting that does not hash, such as an array
            return cls._infer_by_tracing(operands, settings)
        if known is None:
            known = _INFERRED[key] = cls._infer_by_tracing(operands, settings)
        return known

    @classmethod
    def _infer_by_tracing(cls, operands: Sequence[Any], settings: dict[str, Any]) -> tuple[AnyTensor, ...]:
        flat = [t for o in operands for t in (o if isinstance(o, tuple) else () if o is None else (o,))]
        block = Block(arg_types=flat)
        arguments = iter([Value(a) for a in block.args])
        grouped = [
            tuple([next(arguments) for _ in o]) if isinstance(o, tuple) else None if o is None else next(arguments)
            for o in operands
        ]
        with inserting(InsertionPoint(block)):
            results = as_tuple(cls.decompose(*grouped, **settings))
        return tuple([r.type for r in results])

    @classmethod
    def apply_to_scalars(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return cls.decompose(*operands, **cls.python_settings(cls.setting_attributes(settings)))

    def decomposed(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The results as values, computed from grouped values by other ops at the insertion point."""
        return as_tuple(self.decompose(*operands, **self.settings))


_INFERRED: dict[Any, tuple[AnyTensor, ...]] = {}


class ReductionOp(StructuredOp):
    """Elements along `axis` combined by `scalar(accumulator, x)`, starting from `initial`.

    The class declares one operand and the settings `axis` and `keepdims`.
    """

    # Whether there is a result for no elements at all.
    HAS_IDENTITY: ClassVar[bool] = True

    @staticmethod
    @abstractmethod
    def initial(element: Attribute) -> float:
        """The accumulator before the first element, for elements of type `element`."""

    @staticmethod
    @abstractmethod
    def scalar(accumulator: Any, x: Any) -> Any:
        """The accumulator after element `x`."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "initial", "scalar")
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

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        element = element_of(x.type)
        accumulator = compute_type(self.result_element(element))
        start = self.initial(compute_type(element))

        def body(values: list[Value], accumulators: list[Value]) -> Sequence[Value]:
            return [self.scalar(accumulators[0], convert(to_compute(values[0]), accumulator))]

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
        kept = [i for i in range(len(shape)) if i not in axes]
        out_map = AffineMap(len(shape), 0, tuple([AffineExpr.dimension(i) for i in kept]))
        outputs = [(filled([shape[i] for i in kept], t, start), out_map) for t, start in accumulators]
        reductions = [i in axes for i in range(len(shape))]
        return generic(
            [(x, AffineMap.identity(len(shape)))],
            outputs,
            reductions,
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
        _require(cls, "initial", "better")

    @classmethod
    def result_element(cls, element: Attribute) -> Attribute:
        from tenon.dialects.types import i64

        return i64

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        element = compute_type(element_of(x.type))
        position = self.result_element(element)

        def body(values: list[Value], accs: list[Value], index: Callable[[], Value]) -> Sequence[Value]:
            best, best_index = accs
            value = to_compute(values[0])
            replace = self.better(value, best)
            return [ops.select(replace, value, best), ops.select(replace, convert(index(), position), best_index)]

        start = [(element, self.initial(element)), (position, 0)]
        return [self.finish(self.reduce(x, start, body)[1])]


class LoopOp(StructuredOp):
    """An op given by `indexing`: loops, and the index of each operand and result in terms of them."""

    @staticmethod
    @abstractmethod
    def indexing(*loops: Any, **settings: Any) -> tuple[tuple[Any, ...], ...]:
        """From loop names (parameters) and settings, the index of each operand, then of the result.

        A parameter `*batch` stands for any number of leading loops, over which operands broadcast.
        """

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
        return loop_structure(cls.indexing, cls.extents(**settings), names, shapes, settings)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        element = cls.result_element(*[element_of(t) for t in operands])
        shapes = [shape_of(t) for t in operands]
        if any(s is None for s in shapes):
            return tensor_type(None, element)
        return tensor_type(cls.loops(shapes, settings).result_shape, element)

    def accumulate(self, operands: list[SSAValue], start: float, combine: Callable[..., Any]) -> SSAValue:
        """The nest that starts from `start` and combines into the result over the loops that do not index it."""
        structure = self.loops([static_shape(v) for v in operands], self.settings)
        result = self.results[0]
        accumulator = compute_type(element_of(result.type))
        inputs = list(zip(operands, structure.operand_maps, strict=True))
        if structure.hidden:
            # linalg reads every loop's extent off an operand, so loops that index none get one without contents.
            hidden = AffineMap(len(structure.extents), 0, tuple([AffineExpr.dimension(i) for i in structure.hidden]))
            inputs.append(
                (empty([structure.extents[i] for i in structure.hidden], element_of(operands[0].type)), hidden)
            )
        output = filled(static_shape(result), accumulator, start)
        (reduced,) = generic(
            inputs,
            [(output, structure.result_map)],
            structure.reductions,
            lambda values, accs: [
                combine(accs[0], *[convert(to_compute(v), accumulator) for v in values[: len(operands)]])
            ],
        )
        return converted(reduced, element_of(result.type))


class ContractionOp(LoopOp):
    """Sums of products: over the loops that do not index the result, the product of the operands is added up."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "indexing")

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        return [self.accumulate(operands, 0, _multiply_add)]

    @classmethod
    def vjp(cls, g: Value, out: Value, *operands: Value, **settings: Any) -> tuple[Any, ...]:
        """The gradient by swapping roles: an operand's is the contraction of `g` with the others, indexed as that
        operand."""
        structure = cls.loops([v.shape for v in operands], settings)
        maps = structure.operand_maps
        gradients: list[Value] = []
        for i, operand in enumerate(operands):
            others = [(v, m) for j, (v, m) in enumerate(zip(operands, maps, strict=True)) if j != i]
            gradients.append(
                ops.contract(
                    (g, *[v for v, _ in others]),
                    maps=(structure.result_map, *[m for _, m in others], maps[i]),
                    extents=structure.extents,
                    shape=operand.shape,
                )
            )
        return tuple(gradients)


def _multiply_add(accumulator: Any, *factors: Any) -> Any:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return accumulator + product


class WindowOp(LoopOp):
    """Elements of windows combined by `scalar(accumulator, x)`, starting from `initial`."""

    @staticmethod
    @abstractmethod
    def initial(element: Attribute) -> float:
        """The accumulator before the first element."""

    @staticmethod
    @abstractmethod
    def scalar(accumulator: Any, x: Any) -> Any:
        """The accumulator after element `x`."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "indexing", "initial", "scalar")

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        start = self.initial(compute_type(element_of(operands[0].type)))
        return [self.accumulate(operands, start, self.scalar)]


class IndexMapOp(StructuredOp):
    """Each result element is the operand's element at an affine function of the result's index."""

    @staticmethod
    @abstractmethod
    def source(index: tuple[AffineExpr, ...], shape: tuple[int, ...], /, **settings: Any) -> tuple[AffineExpr, ...]:
        """The operand index (operand of `shape`) for result `index`."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "infer", "source")

    @classmethod
    def source_map(cls, shape: tuple[int, ...], rank: int, settings: dict[str, Any]) -> AffineMap:
        """`source` as a map from result indices (of `rank`) to indices of an operand of `shape`."""
        dims = tuple([AffineExpr.dimension(i) for i in range(rank)])
        return AffineMap(rank, 0, tuple(cls.source(dims, shape, **settings)))

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
        source = self.source_map(static_shape(x), len(shape), self.settings)
        if self.is_indexing_map(source, static_shape(x), shape):
            return elementwise([(x, source)], shape, elements, lambda values: values)
        return elementwise([], shape, elements, lambda _: [Reader(x).read_inside(*_evaluated(source, shape))])

    @classmethod
    def vjp(cls, g: Value, out: Value, x: Value, **settings: Any) -> tuple[Any, ...]:
        """Each element of `g` goes back to where its result element came from; elements read twice get the sum."""
        source = cls.source_map(x.shape, g.ndim, settings)
        return (ops.contract((g,), maps=(AffineMap.identity(g.ndim), source), extents=g.shape, shape=x.shape),)


def _evaluated(source: AffineMap, shape: Sequence[int]) -> list[Value | int]:
    """The results of `source` for the indices of the loops over `shape`."""
    indices = [LoopIndex(i, size) for i, size in enumerate(shape)]
    results: list[Value | int] = []
    for expr in source.results:
        terms, constant = linear(expr)
        place: Value | int = constant
        for loop, coefficient in terms.items():
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
        _require(cls, "infer", "element")

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        result = self.results[0]
        shape = static_shape(result)
        readers: list[Any] = [
            tuple([Reader(v) for v in o]) if isinstance(o, tuple) else None if o is None else Reader(o)
            for o in operands
        ]

        def body(_: list[Value]) -> Sequence[Value]:
            index = tuple([LoopIndex(i, size) for i, size in enumerate(shape)])
            return [_as_scalar(self.element(index, *readers, **self.settings), element_of(result.type))]

        return elementwise([], shape, [element_of(result.type)], body)


class ScatterOp(StructuredOp):
    """The first operand with each element of the operand `UPDATES` combined into one place of it.

    Updates are applied in order of their index. Those whose target lies outside are dropped.
    """

    UPDATES: ClassVar[str] = "updates"

    @staticmethod
    @abstractmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        """Where the update at `index` goes."""

    @staticmethod
    @abstractmethod
    def combine(old: Any, new: Any) -> Any:
        """The element after an update `new`."""

    @classmethod
    def check_family(cls) -> None:
        _require(cls, "target", "combine")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        names = [o.name for o in self.SIGNATURE.operands]
        updates = operands[names.index(self.UPDATES)]
        element = element_of(self.results[0].type)
        start = converted(operands[0], compute_type(element))
        shape = static_shape(start)
        if 0 in shape:
            return [converted(start, element)]
        readers = [Reader(v) for v in operands]

        def body(index: list[Value], current: SSAValue) -> SSAValue:
            place = [
                convert(i, index[0].type if index else i.type)
                for i in self.target(tuple(index), *readers, **self.settings)
            ]
            place = [_as_index(i) for i in place]
            kept = [inside(i, size) for i, size in zip(place, shape, strict=True)]
            clamped = [clamp(i, size) for i, size in zip(place, shape, strict=True)]
            target = Reader(current)
            old = target.read(*clamped)
            new = to_compute(Reader(updates).read(*index))
            value = self.combine(old, new)
            for condition in kept:
                value = ops.select(condition, value, old)
            return inserted(current, value, clamped)

        return [converted(counted_loops(static_shape(updates), start, body), element)]


def _as_index(value: Value) -> Value:
    from tenon.dialects.structured import as_index

    return as_index(value)
