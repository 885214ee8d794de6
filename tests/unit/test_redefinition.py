"""An op may be defined again in the module that defined it, as when a notebook cell is run again."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon
from tenon import FLOAT_TENSOR, CompositeOp, ElementwiseOp, TensorOp, operand_def, result_def, tensor_op
from tenon.dialects.definition.registry import generation
from tenon.dialects.support.bounded_cache import BoundedCache

X = np.array([1.0, 2.0], np.float32)


def define_scaled(factor: float) -> type[TensorOp]:
    @tensor_op
    class ScaledOp(ElementwiseOp):
        """`x` scaled."""

        name = "redefinition_test.scaled"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def scalar(x: Any) -> Any:
            return x * factor

    return ScaledOp


def define_column(axis: int) -> type[TensorOp]:
    @tensor_op
    class ColumnOp(CompositeOp):
        """`x` with a dimension more."""

        name = "redefinition_test.column"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def decompose(x: Any) -> Any:
            return tenon.expand_dims(x, axis=axis)

    return ColumnOp


@tensor_op
class TwiceScaledOp(CompositeOp):
    """What `scaled` makes of its own result."""

    name = "redefinition_test.twice_scaled"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Any) -> Any:
        return tenon.scaled(tenon.scaled(x))


@tensor_op
class AsColumnOp(CompositeOp):
    """What `column` gives."""

    name = "redefinition_test.as_column"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Any) -> Any:
        return tenon.column(x)


@tensor_op
class BodyScaledOp(ElementwiseOp):
    """What `scaled` gives, called in a body."""

    name = "redefinition_test.body_scaled"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Any) -> Any:
        return tenon.scaled(x)


def test_ops_see_the_new_definition_of_those_that_they_call() -> None:
    define_scaled(2.0)
    np.testing.assert_array_equal(tenon.twice_scaled(X), 4 * X)
    define_scaled(3.0)
    np.testing.assert_array_equal(tenon.twice_scaled(X), 9 * X)


def test_compiled_functions_see_the_new_definition(capsys: pytest.CaptureFixture[str]) -> None:
    define_scaled(1.0)
    functions = [tenon.jit(lambda x: tenon.scaled(x)), tenon.jit(lambda x: tenon.scaled(x), dynamic={"x": ("n",)})]
    functions += [
        tenon.scaled,
        tenon.jit(tenon.scaled),
    ]  # as `from tenon import scaled` has it
    for factor in (2.0, 3.0, 4.0):
        define_scaled(factor)
        for _ in range(3):  # later calls are native ones
            for function in functions:
                np.testing.assert_array_equal(function(X), factor * X)
    define_scaled(5.0)
    with tenon.knobs.override(log_compiles=True):
        functions[0](X)
        define_scaled(6.0)
        np.testing.assert_array_equal(functions[0](X), 6 * X)
    assert "tenon: compiling again <lambda>: an op was defined again\n" in capsys.readouterr().err


def test_inference_sees_the_new_definition() -> None:
    define_column(0)
    assert tenon.as_column(X).shape == (1, 2)
    define_column(1)
    assert tenon.as_column(X).shape == (2, 1)


def test_constants_are_folded_by_the_new_definition() -> None:
    for factor in (2.0, 5.0):
        define_scaled(factor)
        found = tenon.jit(lambda x: x + tenon.body_scaled(tenon.constant(value=np.array([1, 2], np.float32))))(X)
        np.testing.assert_array_equal(found, X + factor * X)


def test_only_what_replaces_something_is_a_new_generation() -> None:
    define_scaled(2.0)
    before = generation()

    @tensor_op
    class FreshOp(ElementwiseOp):
        """`x` itself."""

        name = "redefinition_test.fresh"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def scalar(x: Any) -> Any:
            return x

    assert generation() == before
    define_scaled(2.0)
    assert generation() == before + 1


def test_a_bounded_cache_drops_what_was_used_least_recently() -> None:
    cache: BoundedCache[int] = BoundedCache(2)
    cache["a"], cache["b"] = 1, 2
    assert cache.get("a") == 1
    cache["c"] = 3
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert len(cache) == 2
    with pytest.raises(TypeError):
        cache.get([])  # pyright: ignore[reportArgumentType]


def test_the_name_of_an_own_function_is_kept_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"mine\.exp: tenon\.exp stays the function of Tenon's own; call ExpOp\.apply"):

        @tenon.tensor_op
        class ExpOp(tenon.ElementwiseOp):
            """Twice `x`."""

            name = "mine.exp"
            x = tenon.operand_def(tenon.FLOAT_TENSOR)
            result = tenon.result_def(tenon.FLOAT_TENSOR)

            @staticmethod
            def scalar(x: Any) -> Any:
                return 2.0 * x

    assert tenon.exp(0.0) == 1.0
    assert ExpOp.apply(np.float32(1.5)) == 3.0


def test_the_name_of_what_is_no_op_is_kept_with_a_warning() -> None:
    transform = tenon.vmap
    with pytest.warns(
        UserWarning, match=r"mine\.vmap: tenon\.vmap stays the function of Tenon's own; call VmapOp\.apply"
    ):

        @tenon.tensor_op
        class VmapOp(tenon.UnaryOp):
            """Twice `x`."""

            name = "mine.vmap"
            scalar = staticmethod(lambda x: 2.0 * x)

    assert tenon.vmap is transform
    np.testing.assert_array_equal(tenon.vmap(lambda x: x + VmapOp.apply(x))(X), 3 * X)


def test_the_name_of_an_own_function_is_not_taken_by_a_function() -> None:
    before = tenon.softplus

    with pytest.warns(UserWarning, match=r"tenon\.softplus stays the function of Tenon's own"):

        @tenon.tensor_function
        def softplus(x: Any) -> Any:
            return 7.0 * x

    assert tenon.softplus is before
    assert softplus(X)[0] == 7.0  # what is decorated is given back as it is


def test_an_op_may_take_the_place_of_a_function() -> None:
    @tenon.tensor_function
    def tripled(x: Any) -> Any:
        return 2.0 * x

    @tensor_op
    class WithTripledOp(CompositeOp):
        """What `tripled` gives."""

        name = "redefinition_test.with_tripled"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def decompose(x: Any) -> Any:
            return tenon.tripled(x)

    np.testing.assert_array_equal(tenon.with_tripled(X), tripled(X))

    @tensor_op
    class TripledOp(ElementwiseOp):
        """Three times `x`."""

        name = "redefinition_test.tripled"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def scalar(x: Any) -> Any:
            return 3.0 * x

    np.testing.assert_array_equal(tenon.with_tripled(X), 3 * X)


def define_kept(is_right: bool) -> None:
    @tensor_op
    class KeptOp(ElementwiseOp):
        """`x` itself."""

        name = "redefinition_test.kept"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)

        @staticmethod
        def scalar(x: Any) -> Any:
            return x

        @staticmethod
        def canonicalize(op: Any, rewriter: Any) -> None:
            inner = op.x.owner
            if isinstance(inner, TensorOp) and inner.name == "tenon.negative":
                rewriter.replace(op, (), (op.x if is_right else inner.operands[0],))


def test_code_is_told_apart_by_the_equations_of_ops() -> None:
    for is_right in (False, True):
        define_kept(is_right)
        found = tenon.jit(lambda x: tenon.kept(-x))(X)
        np.testing.assert_array_equal(found, -X if is_right else X)
