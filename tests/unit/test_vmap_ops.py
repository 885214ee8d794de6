"""`vmap` of ops of users: what follows from their family, rules of their own, and what has to be refused."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_vmap import close, doubles, each, op_names

import tenon


@tenon.tensor_op
class SecondDifferenceOp(tenon.IndexingOp):
    """`x`[i - 1] - 2 `x`[i] + `x`[i + 1], ends repeated."""

    name = "batching.second_difference"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def element(index: Any, *operands: Any, **settings: Any) -> Any:
        (x,), (i,) = operands, index
        return x.read(i - 1) - 2.0 * x.read(i) + x.read(i + 1)

    @staticmethod
    def vjp(g: Any, out: Any, x: Any) -> Any:
        # That of the op, which is symmetric.
        return (tenon.second_difference(g),)


@tenon.tensor_op
class StraightThroughOp(tenon.CompositeOp):
    """`x` rounded; the gradient takes it for `x`."""

    name = "batching.straight_through"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Any) -> Any:
        return tenon.floor(x + 0.5)

    @staticmethod
    def vjp(g: Any, out: Any, x: Any) -> Any:
        return (g,)


@tenon.tensor_op
class BilinearOp(tenon.ContractionOp):
    """The sum of `x`[i] `a`[i, j] `y`[j]."""

    name = "batching.bilinear"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    a = tenon.operand_def(tenon.FLOAT_TENSOR)
    y = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @staticmethod
    def indexing(i: Any, j: Any) -> Any:
        return (i,), (i, j), (j,), ()


@tenon.tensor_op
class SortedPairOp(tenon.CompositeOp):
    """`x` and `y` in order, and how many stood the wrong way around."""

    name = "batching.sorted_pair"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    y = tenon.operand_def(tenon.FLOAT_TENSOR)
    low = tenon.result_def(tenon.FLOAT_TENSOR)
    high = tenon.result_def(tenon.FLOAT_TENSOR)
    wrong = tenon.result_def(tenon.NUMERIC_TENSOR)

    @staticmethod
    def decompose(x: Any, y: Any) -> Any:
        assert x.shape == (3,)  # it is shown one example
        return tenon.minimum(x, y), tenon.maximum(x, y), tenon.sum(tenon.cast(x > y, dtype="i64"))


def test_an_op_without_a_rule_runs_example_by_example() -> None:
    x, w = doubles(4, 6), doubles(6, seed=1)
    close(tenon.vmap(tenon.second_difference)(x), each(tenon.second_difference, x))
    assert "tenon.scan" in op_names(tenon.vmap(tenon.second_difference), x)

    def total(v: Any) -> Any:
        return tenon.sum(tenon.sin(tenon.second_difference(v)) * w)

    expected = each(tenon.grad(total), x)
    close(tenon.vmap(tenon.grad(total))(x), expected)
    close(tenon.grad(lambda x: tenon.sum(tenon.vmap(total)(x)))(x), expected)
    nested = tenon.vmap(tenon.vmap(tenon.second_difference))(doubles(2, 3, 6))
    close(nested, np.stack([each(tenon.second_difference, one) for one in doubles(2, 3, 6)]))


def test_a_gradient_of_the_op_s_own_survives() -> None:
    x = doubles(4, 3) * 3
    close(tenon.vmap(tenon.straight_through)(x), np.floor(x + 0.5))
    gradient = tenon.grad(lambda x: tenon.sum(tenon.vmap(tenon.straight_through)(x) ** 2))(x)
    close(gradient, 2 * np.floor(x + 0.5))


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (0, 0, 0)])
def test_a_contraction_stays_one(axes: tuple[int | None, ...]) -> None:
    whole = (doubles(4, 2), doubles(4, 2, 3, seed=1), doubles(4, 3, seed=2))
    arguments = [v if axis == 0 else v[0] for v, axis in zip(whole, axes, strict=True)]
    batches = [v if axis == 0 else np.stack([v[0]] * 4) for v, axis in zip(whole, axes, strict=True)]
    mapped = tenon.vmap(tenon.bilinear, in_axes=axes)
    close(mapped(*arguments), np.einsum("bi,bij,bj->b", *batches))
    assert "tenon.scan" not in op_names(mapped, *arguments)


def test_a_composite_of_several_results() -> None:
    x, y = doubles(4, 3), doubles(3, seed=1)
    low, high, wrong = tenon.vmap(tenon.sorted_pair, in_axes=(0, None))(x, y)
    close(low, np.minimum(x, y))
    close(high, np.maximum(x, y))
    np.testing.assert_array_equal(wrong, (x > y).sum(1))


def test_a_rule_of_the_op_s_own() -> None:
    @tenon.tensor_op
    class ReversedOp(tenon.IndexMapOp):
        """`x` in reverse order."""

        name = "batching.reversed"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @classmethod
        def infer(cls, *operands: Any, **settings: Any) -> Any:
            return operands[0]

        @staticmethod
        def source(index: Any, shape: Any, /, **settings: Any) -> Any:
            return (index[0] * -1 + (shape[0] - 1),)

        @classmethod
        def batch(cls, size: int, batched: Any, *operands: Any, **settings: Any) -> Any:
            assert list(batched) == [True]
            assert operands[0].shape == (size, 3)
            return tenon.flip(operands[0], axis=(1,))

    x = doubles(4, 3)
    mapped = tenon.vmap(ReversedOp.apply)
    close(mapped(x), x[:, ::-1])
    assert "tenon.flip" in op_names(mapped, x)


def test_a_wrong_rule_is_named() -> None:
    @tenon.tensor_op
    class WrongOp(tenon.IndexMapOp):
        """`x`."""

        name = "batching.wrong"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @classmethod
        def infer(cls, *operands: Any, **settings: Any) -> Any:
            return operands[0]

        @staticmethod
        def source(index: Any, shape: Any, /, **settings: Any) -> Any:
            return index

        @classmethod
        def batch(cls, size: int, batched: Any, *operands: Any, **settings: Any) -> Any:
            return tenon.sum(operands[0], axis=0) if size == 4 else (operands[0], operands[0])

    with pytest.raises(TypeError, match=r"batching\.wrong: batch gives tensor<3xf64> where tensor<4x3xf64> is needed"):
        tenon.vmap(WrongOp.apply)(doubles(4, 3))
    with pytest.raises(TypeError, match=r"batching\.wrong: batch gives 2 results where 1 are needed"):
        tenon.vmap(WrongOp.apply)(doubles(5, 3))


def test_effects_are_refused() -> None:
    @tenon.tensor_op
    class AnnouncedOp(tenon.CompositeOp):
        """`x`; to compute it is an effect."""

        name = "batching.announced"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)
        traits = tenon.traits_def()

        @staticmethod
        def decompose(x: Any) -> Any:
            return x * 1.0

    with pytest.raises(TypeError, match=r"batching\.announced: has effects, so it cannot be computed for all examples"):
        tenon.vmap(AnnouncedOp.apply)(doubles(4, 3))
    with pytest.raises(TypeError, match=r"batching\.announced: has effects"):
        tenon.vmap(lambda v: tenon.cond(v > 0, lambda: AnnouncedOp.apply(v), lambda: v))(doubles(4))
