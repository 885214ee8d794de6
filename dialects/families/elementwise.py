"""The families of ops that treat every element alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.operands import check_scalar, scalar_operands, to_scalar
from tenon.dialects.definition.promotion import own_element
from tenon.dialects.definition.scalar import ScalarForms, convert, to_compute
from tenon.dialects.definition.signature import flat, map_grouped, named
from tenon.dialects.definition.value import InsertionPoint, Value, folding_literals, inserting, ops
from tenon.dialects.families.batching import aligned_operands
from tenon.dialects.families.iteration_space import IterationSpace
from tenon.dialects.families.linalg_builders import (
    elementwise,
    static_shape,
)
from tenon.dialects.families.structured_op import StructuredOp, as_tuple, require_hooks
from tenon.dialects.types.shapes import InferenceError, broadcast
from tenon.dialects.types.types import (
    FLOAT_TENSOR,
    NUMERIC_TENSOR,
    compute_type,
    element_of,
    i1,
    i64,
    is_bool,
    promote,
    shape_of,
    tensor_type,
)


def broadcast_map(shape: Sequence[int], rank: int, result: Sequence[int]) -> AffineMap:
    """The map that reads an operand of `shape` while looping over `result`: its dimensions of size 1 stay at index
    0."""
    offset = rank - len(shape)
    results: list[AffineExpr] = [
        AffineExpr.constant(0) if size == 1 and result[offset + i] != 1 else AffineExpr.dimension(offset + i)
        for i, size in enumerate(shape)
    ]
    return AffineMap(rank, 0, tuple(results))


class ElementwiseOp(StructuredOp):
    """The same `scalar` function of every element, operands broadcast against each other."""

    KEEPS_WEAK: ClassVar[bool] = True

    @staticmethod
    @abstractmethod
    def scalar(*operands: Any, **settings: Any) -> Any:
        """The result for one element (a tuple for several results); f16 and bf16 arrive and are computed as f32."""

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "scalar")

    @classmethod
    def result_element(cls, *elements: Any, **settings: Any) -> Attribute:
        """The results' dtype: by default that in which the promoted operands (`None` where absent, a tuple for several)
        meet."""
        members = named(cls.SIGNATURE.operands, elements)
        promoted = [element for o, _, element in members if cls.PROMOTED is None or o.name in cls.PROMOTED]
        if not promoted:
            what = "no operand is given" if cls.PROMOTED is None else "PROMOTED names no operand that is there"
            raise InferenceError(f"{cls.name}: {what}; `result_element` can say the dtype")
        return promote(promoted)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape = broadcast((name, shape_of(t)) for _, name, t in named(cls.SIGNATURE.operands, operands))
        element = cls.result_element(*map_grouped(element_of, operands), **settings)
        if not isinstance(element, Attribute):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = f"a {type(element).__name__}"
            raise TypeError(f"{cls.name}: result_element gives {given} where an element type is needed")
        result, count = tensor_type(shape, element), len(cls.SIGNATURE.results)
        return (result,) * count if count > 1 else result

    @classmethod
    def apply_to_scalars(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return cls.scalar(*scalar_operands(cls, operands), **cls.python_settings(cls.setting_attributes(settings)))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        return cls.apply(*aligned_operands(batched, operands), **settings)

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any]:
        return self.settings

    def iteration_space(self, operands: Sequence[SSAValue]) -> IterationSpace:
        """A loop for each dimension of the results, over `operands` of static shape (those that are there)."""
        shape = static_shape(self.results[0])
        rank = len(shape)
        maps = tuple([broadcast_map(static_shape(v), rank, shape) for v in operands])
        return IterationSpace(shape, (True,) * rank, maps, (AffineMap.identity(rank),) * len(self.results))

    def results_of_scalar(self, *operands: Any) -> tuple[Any, ...]:
        """What `scalar` makes of operands, scalars or tensors: values and numbers, one for each result."""
        results, where = as_tuple(self.scalar(*operands, **self.settings)), f"{self.name}: the result of scalar"
        if len(results) != len(self.results):
            raise TypeError(f"{where} is {len(results)} values where {len(self.results)} are declared")
        for result in results:
            check_scalar(result, where)
        return results

    def results_on_tensors(self, operands: list[Any]) -> tuple[Any, ...]:
        """The same of whole tensors, by ops with gradients; an error of `scalar` on single elements is one here."""
        with inserting(folding_literals()):
            results = self.results_of_scalar(*operands)
        if not _by_elementwise_ops(results, flat(operands)):
            block = Block(arg_types=[element_of(operand.type) for operand in self.operands])
            with inserting(InsertionPoint(block, scalar=True)):
                elements = iter([to_compute(Value(argument)) for argument in block.args])
                self.results_of_scalar(*map_grouped(lambda _: next(elements), operands))
        return results

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        present = flat(operands)
        space = self.iteration_space(present)
        inputs = list(zip(present, space.operands, strict=True))

        def body(values: list[Value]) -> Sequence[Value]:
            arguments = iter([to_compute(v) for v in values])
            hooks = map_grouped(lambda _: next(arguments), operands)
            found = zip(self.results_of_scalar(*hooks), self.results, strict=True)
            where = f"{self.name}: the result of scalar"
            return [to_scalar(r, compute_type(element_of(t.type)), where) for r, t in found]

        return elementwise(inputs, space.extents, [element_of(r.type) for r in self.results], body)


def _by_elementwise_ops(results: Sequence[Any], operands: Sequence[Value]) -> bool:
    """Whether `results` are computed of `operands` by elementwise ops alone."""
    seen, left = {value.ssa for value in operands}, [value.ssa for value in results if isinstance(value, Value)]
    while left:
        value = left.pop()
        if value in seen or not isinstance(op := value.owner, Operation):
            continue
        if not isinstance(op, ElementwiseOp):
            return False
        seen.add(value)
        left += op.operands
    return True


class UnaryOp(ElementwiseOp):
    """A function of one float `x`; integers are taken as f32."""

    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)


class BinaryOp(ElementwiseOp):
    """A function of two floats `x` and `y`; integers are taken as f32."""

    x = operand_def(FLOAT_TENSOR)
    y = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)


class NumericUnaryOp(ElementwiseOp):
    """A function of one number `x`."""

    x = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)


class NumericBinaryOp(ElementwiseOp):
    """A function of two numbers `x` and `y`."""

    x = operand_def(NUMERIC_TENSOR)
    y = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)


class OfTruthValues(StructuredOp):
    """An op of numbers that gives one of its operands: of truth values, which are counted as numbers, it gives one."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        result = super().apply(*args, **kwargs)
        if not isinstance(result, Value) or not result.is_tensor or result.element_type != i64:
            return result  # of truth values it is one of these
        operands, settings = cls.bind(args, kwargs)
        of_truth = settings.get("start") is None and all(is_bool(own_element(value, cls.name)) for value in operands)
        return ops.cast(result, dtype=i1) if of_truth else result


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
        space = self.iteration_space(operands)
        inputs = list(zip(operands, space.operands, strict=True))

        def body(values: list[Value]) -> Sequence[Value]:
            result = self.on_scalars([to_compute(v) for v in values], self.settings)
            return [convert(result, compute_type(element_of(self.results[0].type)))]

        return elementwise(inputs, space.extents, [element_of(self.results[0].type)], body)
