"""Building blocks of the structured form: `linalg.generic` and `tensor` ops at the current insertion point.

Each op family states its meaning in these terms; lowering, the interpreter and constant folding all read that one
statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, linalg, scf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from tenon.dialects.definition.scalar import as_index, convert, emit_scalar, index, index_constant, scalar_constant
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting
from tenon.dialects.types.size import Size, is_at_most
from tenon.dialects.types.size_values import current_sizes, size_operands
from tenon.dialects.types.types import element_of, shape_of, tensor_type

PARALLEL = IteratorTypeAttr(IteratorType.PARALLEL)
REDUCTION = IteratorTypeAttr(IteratorType.REDUCTION)
ONE_AND_ONE = DenseArrayBase.from_list(i32, [1, 1])


def empty(shape: Sequence[int], element: Attribute) -> SSAValue:
    """A tensor without contents, to be written."""
    result = tensor_type(tuple(shape), element)
    return emit(tensor.EmptyOp.create(operands=size_operands(shape), result_types=[result])).results[0]


def filled(shape: Sequence[int], element: Attribute, number: float) -> SSAValue:
    """A tensor of one repeated number."""
    target = empty(shape, element)
    value = scalar_constant(number, element).ssa
    block = Block(arg_types=[value.type, element])
    block.add_op(linalg.ops.YieldOp(block.args[0]))
    # As the constructor builds it, in a third of the time, and without an implicit builder, for which xDSL replaces a
    # method of all operations, in every thread.
    fill = linalg.ops.FillOp.create(
        operands=[value, target],
        result_types=[target.type],
        properties={"operandSegmentSizes": ONE_AND_ONE},
        regions=[Region(block)],
    )
    return emit(fill).results[0]


def generic(
    inputs: Sequence[tuple[SSAValue, AffineMap]],
    outputs: Sequence[tuple[SSAValue, AffineMap]],
    reductions: Sequence[bool],
    body: Callable[[list[Value], list[Value]], Sequence[Value]],
) -> list[SSAValue]:
    """A `linalg.generic`: `body(elements of inputs, elements of outputs so far)` gives the new elements of outputs.

    `reductions` says for each loop whether it is a reduction. The body's results are converted to the outputs' element
    types. Where a loop has no steps, the outputs stay as they are.
    """
    if any(_has_no_steps(value, places) for value, places in (*inputs, *outputs)):
        return [value for value, _ in outputs]
    elements = [element_of(v.type) for v, _ in (*inputs, *outputs)]
    block = Block(arg_types=elements)
    with inserting(InsertionPoint(block, scalar=True)):
        arguments = [Value(a) for a in block.args]
        results = body(arguments[: len(inputs)], arguments[len(inputs) :])
        converted = [convert(r, element_of(o.type)).ssa for r, (o, _) in zip(results, outputs, strict=True)]
        emit(linalg.ops.YieldOp(*converted))
    return list(emit(generic_op(inputs, outputs, reductions, block, [v.type for v, _ in outputs])).results)


def generic_op(
    inputs: Sequence[tuple[SSAValue, AffineMap]],
    outputs: Sequence[tuple[SSAValue, AffineMap]],
    reductions: Sequence[bool],
    body: Block,
    results: Sequence[Attribute] = (),
) -> linalg.ops.GenericOp:
    """A `linalg.generic` with this body, in no block: on memrefs where it has no results."""
    return linalg.ops.GenericOp.create(
        operands=[v for v, _ in (*inputs, *outputs)],
        result_types=results,
        properties={
            "indexing_maps": ArrayAttr([AffineMapAttr(m) for _, m in (*inputs, *outputs)]),
            "iterator_types": ArrayAttr([REDUCTION if r else PARALLEL for r in reductions]),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(inputs), len(outputs)]),
        },
        regions=[Region(body)],
    )


def _has_no_steps(value: SSAValue, places: AffineMap) -> bool:
    """Whether a dimension of no elements says that a loop has no steps. MLIR takes one to have a step at its start."""
    shape = shape_of(value.type)
    return any(size == 0 and isinstance(p, AffineDimExpr) for size, p in zip(shape or (), places.results, strict=False))


def elementwise(
    inputs: Sequence[tuple[SSAValue, AffineMap]],
    shape: Sequence[int],
    elements: Sequence[Attribute],
    body: Callable[[list[Value]], Sequence[Value]],
) -> list[SSAValue]:
    """An all-parallel generic over `shape` with one new tensor per entry of `elements`."""
    identity = AffineMap.identity(len(shape))
    outputs = [(empty(shape, element), identity) for element in elements]
    return generic(inputs, outputs, [False] * len(shape), lambda values, _: body(values))


def converted(source: SSAValue, element: Attribute) -> SSAValue:
    """`source` with its elements converted to `element`; the same value where they are already."""
    if element_of(source.type) == element:
        return source
    shape = static_shape(source)
    identity = AffineMap.identity(len(shape))
    return elementwise([(source, identity)], shape, [element], lambda values: values)[0]


def static_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a value whose shape must be static by now."""
    shape = shape_of(value.type)
    if shape is None or any(size < 0 for size in shape):
        raise ValueError(f"the shape of {value.type} must be known before lowering; compile for concrete arguments")
    return shape


class CountedIndex(Value):
    """An index that lies in [0, extent): that of a counted loop, or one that was limited to it."""

    __slots__ = ("extent",)

    def __init__(self, ssa: SSAValue, extent: int) -> None:
        super().__init__(ssa)
        self.extent = extent


class LoopIndex(CountedIndex):
    """The index of a loop of the generic around."""

    __slots__ = ()

    def __init__(self, position: int, extent: int) -> None:
        super().__init__(emit(linalg.ops.IndexOp(position)).results[0], extent)


def size_vector(shape: Sequence[int]) -> SSAValue:
    """The sizes in `shape` as a tensor of `index`."""
    kind = TensorType(index, [len(shape)])
    if any(isinstance(size, Size) for size in shape):
        return emit(
            tensor.FromElementsOp.create(operands=[index_constant(s).ssa for s in shape], result_types=[kind])
        ).results[0]
    return emit(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, shape))).result


class Reader:
    """An operand inside a body that may be read at any index."""

    def __init__(self, source: SSAValue) -> None:
        self.source = source
        self.shape = static_shape(source)
        self.element_type = element_of(source.type)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def read(self, *indices: Value | int) -> Value:
        """The element at `indices`, each clamped into its dimension, so that every read is inside of the tensor."""
        if len(indices) != self.ndim:
            raise ValueError(f"read is given {len(indices)} indices for an operand of rank {self.ndim}")
        return self.read_inside(*[clamp(as_index(i), size) for i, size in zip(indices, self.shape, strict=True)])

    def read_inside(self, *indices: Value | int) -> Value:
        """The element at `indices`, which are known to lie inside of the tensor."""
        op = tensor.ExtractOp(self.source, [as_index(i).ssa for i in indices], self.element_type)
        return Value(emit(op).results[0])


class ElementReader(Reader):
    """An operand that may be read at `places` of the loops around alone, where its element is at hand."""

    def __init__(self, source: SSAValue, places: AffineMap, element: Value) -> None:
        super().__init__(source)
        self._places, self._element = places, element

    def read_inside(self, *indices: Value | int) -> Value:
        dims = [AffineDimExpr(op.dim.value.data) if (op := _loop(i)) is not None else None for i in indices]
        if dims != list(self._places.results):
            raise ValueError(f"an operand is read elsewhere than at {self._places}, which operand_places states")
        return self._element


def _loop(index: Value | int) -> linalg.ops.IndexOp | None:
    op = index.ssa.owner if isinstance(index, Value) else None
    return op if isinstance(op, linalg.ops.IndexOp) else None


def clamp(value: Value, size: int) -> Value:
    """`value` limited to [0, size)."""
    if is_known_inside(value, size):
        return value
    if size == 1:
        return index_constant(0)
    low = emit_scalar(arith.MaxSIOp, value, index_constant(0))
    if isinstance(size, Size):
        current_sizes().require_positive(size)
    last = size - 1 if isinstance(size, Size) else max(size - 1, 0)
    return CountedIndex(emit_scalar(arith.MinSIOp, low, index_constant(last)).ssa, size)


def is_known_inside(value: Value, size: int) -> bool:
    """Whether `value` is an index that is known not to leave [0, size)."""
    return isinstance(value, CountedIndex) and is_at_most(value.extent, size)


def inside(value: Value, size: int) -> Value:
    """Whether `value` (of type `index`) lies in [0, size)."""
    # One unsigned comparison covers both ends.
    return emit_scalar(lambda x, y: arith.CmpiOp(x, y, "ult"), value, index_constant(size))


ASSOCIATIVE = "associative"
"""The attribute of a `linalg.generic` that goes along one loop whose steps are associative: an element may be replaced
by the state that several elements lead to, the first of them from what the states are at first."""

DISTINCT = "distinct"
"""The attribute of an `scf.for` whose iterations update different elements of what it carries, and read none."""


def counted_loops(
    extents: Sequence[int],
    carried: SSAValue,
    body: Callable[[list[Value], SSAValue], SSAValue],
    *,
    distinct: bool = False,
) -> SSAValue:
    """A nest of `scf.for` over `extents` that carries one tensor through `body(indices, tensor) -> tensor`; `distinct`
    where iterations update different elements."""

    def nest(remaining: Sequence[int], indices: list[Value], current: SSAValue) -> SSAValue:
        if not remaining:
            return body(indices, current)
        (result,) = counted_loop(
            remaining[0], [current], lambda index, inner: [nest(remaining[1:], [*indices, index], inner[0])]
        )
        if distinct:
            assert isinstance(result.owner, scf.ForOp)
            result.owner.attributes[DISTINCT] = UnitAttr()
        return result

    return nest(extents, [], carried)


def counted_loop(
    extent: int,
    carried: Sequence[SSAValue],
    body: Callable[[CountedIndex, list[SSAValue]], Sequence[SSAValue]],
    start: int = 0,
) -> list[SSAValue]:
    """An `scf.for` from `start` to `extent` that carries tensors and scalars through `body(index, carried)`."""
    block = Block(arg_types=[index, *[value.type for value in carried]])
    with inserting(InsertionPoint(block, scalar=True)):
        emit(scf.YieldOp(*body(CountedIndex(block.args[0], extent), list(block.args[1:]))))
    lower, upper, one = (index_constant(number).ssa for number in (start, extent, 1))
    return list(emit(scf.ForOp(lower, upper, one, list(carried), Region(block))).results)


def conditional(
    condition: Value, carried: Sequence[SSAValue], body: Callable[[], Sequence[SSAValue]]
) -> list[SSAValue]:
    """What `body()` makes of the tensors `carried` where `condition` holds, and `carried` where it does not."""
    taken, skipped = Block(), Block()
    with inserting(InsertionPoint(taken, scalar=True)):
        emit(scf.YieldOp(*body()))
    with inserting(InsertionPoint(skipped, scalar=True)):
        emit(scf.YieldOp(*carried))
    types = [value.type for value in carried]
    return list(emit(scf.IfOp(condition.ssa, types, [taken], [skipped])).results)


def inserted(target: SSAValue, value: Value, indices: Sequence[Value | int]) -> SSAValue:
    """`target` with the element at `indices`, which are known to lie inside of it, replaced."""
    assert isinstance(target.type, TensorType)
    element: Any = convert(value, element_of(target.type)).ssa
    return emit(tensor.InsertOp(element, target, [as_index(i).ssa for i in indices])).results[0]
