"""Sums of products: matrix products, and the general form that gradients of contractions take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import operand_def, result_def, var_operand_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ContractionOp
from tenon.dialects.families.batching import aligned_operands
from tenon.dialects.families.indexing import LoopStructure, behind_examples, loop_structure
from tenon.dialects.families.iteration_space import Subscript
from tenon.dialects.types.shapes import InferenceError, Shape
from tenon.dialects.types.types import NUMERIC_TENSOR, element_of, promote, shape_of, tensor_type


@tensor_op
class MatmulOp(ContractionOp):
    """The matrix product of `x` (..., m, k) and `y` (..., k, n); leading dimensions broadcast.

    A vector (k,) is taken as a row on the left and as a column on the right, and that dimension is left out of the
    result. Products of several are computed in the order that is written; `multi_dot` looks for the best one.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> tenon.matmul(x, x)
    >>> tenon.matmul(x, np.array([1.0, 10.0]))
    """

    name = "tenon.matmul"
    x = operand_def(NUMERIC_TENSOR)
    y = operand_def(NUMERIC_TENSOR)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def indexing(m: Any, n: Any, k: Any, *batch: Any) -> tuple[tuple[Any, ...], ...]:
        return (*batch, m, k), (*batch, k, n), (*batch, m, n)

    @classmethod
    def loops(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> LoopStructure:
        forms = {(False, False): cls.indexing, (True, True): _dot, (True, False): _row, (False, True): _column}
        left, right = (shape is not None and len(shape) == 1 for shape in shapes)
        return loop_structure(forms[left, right], {}, ("x", "y"), shapes, settings)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (x, y), (x_has, y_has) = operands, batched
        ranks = x.ndim - x_has, y.ndim - y_has
        if min(ranks) > 1:
            return ops.matmul(*aligned_operands(batched, operands))
        if ranks[0] == 1 and ranks[1] < 3 and not y_has:
            # Examples that are rows are a matrix.
            return ops.matmul(x, y)
        return super().batch(size, batched, *operands, **settings)


def _dot(k: Any) -> tuple[tuple[Any, ...], ...]:
    return (k,), (k,), ()


def _row(n: Any, k: Any, *batch: Any) -> tuple[tuple[Any, ...], ...]:
    return (k,), (*batch, k, n), (*batch, n)


def _column(m: Any, k: Any, *batch: Any) -> tuple[tuple[Any, ...], ...]:
    return (*batch, m, k), (k,), (*batch, m)


@tensor_op
class ContractOp(ContractionOp):
    """The sum, over loops of the given `extents`, of the product of `factors`: the general contraction.

    `maps` has the index of each operand and then of the result in terms of the loops; a sum of multiples of loops is
    allowed as an index. The result has `shape`; elements that no loop reaches are 0.

    >>> from xdsl.ir.affine import AffineMap
    >>> maps = [AffineMap.from_callable(f) for f in (lambda i: (i,), lambda i: (i,), lambda i: ())]
    >>> tenon.contract((np.array([1.0, 2.0]), np.array([3.0, 4.0])), maps, extents=(2,), shape=())
    """

    name = "tenon.contract"
    factors = var_operand_def(NUMERIC_TENSOR)
    maps = setting("maps")
    extents = setting(tuple)
    shape = setting(tuple)
    result = result_def(NUMERIC_TENSOR)

    @staticmethod
    def indexing(*loops: Any, **settings: Any) -> tuple[tuple[Any, ...], ...]:
        return tuple([tuple(m.eval_affine(loops)) for m in settings["maps"]])

    @classmethod
    def loops(cls, shapes: Sequence[Shape], settings: dict[str, Any]) -> LoopStructure:
        *operand_maps, result_map = settings["maps"]
        extents = settings["extents"]
        plain = {e.position for m in settings["maps"] for e in m.results if isinstance(e, AffineDimExpr)}
        loops = range(len(extents))
        names, hidden = [f"d{loop}" for loop in loops], {loop for loop in loops if loop not in plain}
        return LoopStructure.reducing(names, extents, operand_maps, result_map, hidden)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (factors,) = operands
        maps, extents, shape = settings["maps"], settings["extents"], settings["shape"]
        if not factors:
            raise InferenceError("factors is empty where one tensor or more is needed")
        if len(maps) != len(factors) + 1:
            raise InferenceError(
                f"maps has {len(maps)} entries where {len(factors) + 1} are needed: one per factor, and the result's"
            )
        for position, factor in enumerate(factors):
            _check_index(f"factors[{position}]", maps[position], extents, shape_of(factor))
        _check_index("the result", maps[-1], extents, shape)
        return tensor_type(shape, promote(element_of(t) for t in factors))

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        return super().structured(list(operands[0]))

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        (factors,), (known,) = operands, batched
        maps = [behind_examples(m, has) for m, has in zip(settings["maps"], (*known, True), strict=True)]
        sizes = {name: (size, *settings[name]) for name in ("extents", "shape")}
        return ops.contract(factors, maps=tuple(maps), **sizes)

    @classmethod
    def vjp(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, g: Value, out: Value, factors: tuple[Value, ...], **settings: Any
    ) -> tuple[Any, ...]:
        return (super().vjp(g, out, *factors, **settings),)


def _check_index(name: str, index: AffineMap, extents: tuple[int, ...], shape: Shape) -> None:
    """Raise unless the loops stay inside of a tensor of `shape` that `index` reads or writes."""
    if index.num_dims != len(extents):
        raise InferenceError(f"the map of {name} has {index.num_dims} loops, and extents {extents} has {len(extents)}")
    if shape is None:
        return
    if len(index.results) != len(shape):
        raise InferenceError(f"the map of {name} has {len(index.results)} indices, and {name} has rank {len(shape)}")
    for axis, (expr, size) in enumerate(zip(index.results, shape, strict=True)):
        subscript = Subscript.of(expr)
        needed, least = subscript.end(extents), subscript.least(extents)
        if least < 0:
            raise InferenceError(f"dimension {axis} of {name} is indexed from {least} on")
        if min(size, needed) >= 0 and ((isinstance(expr, AffineDimExpr) and needed != size) or needed > size):
            raise InferenceError(f"dimension {axis} of {name} is {size}, and the loops span {needed}", (size, needed))
