"""The passes on tensor IR: same numbers before and after, and what each one does to the IR."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, FunctionType, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation
from xdsl.irdl import operand_def, result_def
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import PassFailedException

import tenon
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families import CompositeOp, ElementwiseOp, IndexMapOp
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.ops.control.control_flow import CondOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.ops.elementwise.arithmetic import AddOp, MultiplyOp
from tenon.dialects.ops.elementwise.constant import ConstantOp
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import (
    FLOAT_TENSOR,
    element_of,
    f16,
    f32,
    f64,
    i1,
    i32,
    numpy_dtype,
    shape_of,
    tensor_type,
)
from tenon.lowering.buffers.convert_tensor_to_structured import ConvertTensorToStructuredPass
from tenon.passes.dominance import check_dominance
from tenon.passes.pipeline import PASSES, TENSOR_PIPELINE
from tenon.passes.simplify import canonicalize
from tenon.passes.transform.specialize import specialize

HERE = FileLineColLoc(StringAttr("model.py"), IntAttr(7), IntAttr(0))


def trace(function: Callable[..., Any], *types: Any, others: Sequence[func.FuncOp] = ()) -> ModuleOp:
    """The module whose `main` computes `function` on tensors of `types`, and which has `others` as well."""
    main = func.FuncOp("main", (list(types), []))
    with inserting(InsertionPoint(main.body.block)):
        results = function(*[Value(argument) for argument in main.body.block.args])
        results = results if isinstance(results, tuple) else (results,)
        emit(func.ReturnOp(*[result.ssa for result in results]))
    main.function_type = FunctionType.from_lists(list(types), [result.type for result in results])
    module = ModuleOp([main, *others])
    module.verify()
    return module


def run_pass(module: ModuleOp, name: str, **options: Any) -> ModuleOp:
    PASSES[name]()(**options).apply(Context(), module)
    module.verify()
    check_dominance(module)
    return module


def evaluate(module: ModuleOp, arguments: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results of `main` on the interpreter, the module left as it is."""
    structured = module.clone()
    PASSES["decompose"]()().apply(Context(), structured)
    ConvertTensorToStructuredPass().apply(Context(), structured)
    return Interpreter().run(structured, "main", arguments)


def main_ops(module: ModuleOp) -> list[Operation]:
    main = next(op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == "main")
    return list(main.body.block.ops)


def names(ops_: Sequence[Operation]) -> list[str]:
    return [op.name.removeprefix("tenon.") for op in ops_ if not isinstance(op, func.ReturnOp | ConstantOp)]


def kernels(module: ModuleOp) -> list[list[str]]:
    found = [op for op in module.ops if isinstance(op, func.FuncOp) and "kernel" in op.attributes]
    return [names(list(op.body.block.ops)) for op in found]


# --- numbers --------------------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> Callable[..., Any]:
    """A random function of a (4, 3) and a (3,) tensor: elementwise ops, reductions, rearrangements, products."""
    steps = draw(st.lists(st.tuples(st.integers(0, 18), st.integers(0, 1 << 16), st.integers(0, 1 << 16)), max_size=12))
    returned = draw(st.integers(1, 4))

    def program(x: Value, y: Value) -> tuple[Value, ...]:
        values = [x, y, ops.add(x, y)]
        for kind, first, second in steps:
            a, b = values[-1 - first % min(len(values), 6)], values[-1 - second % min(len(values), 6)]
            values.append(_step(kind, a, b, second))
        return tuple(values[-returned:])

    return program


def _step(kind: int, a: Value, b: Value, number: int) -> Value:
    axis = number % max(a.ndim, 1) - (a.ndim if number % 2 else 0)
    match kind:
        case 0 | 1 if _broadcasts(a, b):
            return [ops.add, ops.subtract, ops.multiply, ops.maximum][number % 4](a, b)
        case 2:
            return [ops.tanh, ops.negative, ops.abs, ops.relu, ops.sin][number % 5](a)
        case 3:
            return [lambda: a + 0.0, lambda: a * 1.0, lambda: a / 4.0, lambda: 2.0 - a, lambda: a**2.0][number % 5]()
        case 4 if a.ndim:
            return ops.tanh(ops.sum(a, axis=(axis,), keepdims=number % 3 == 0))
        case 5 if a.ndim:
            return a - ops.max(a, axis=(axis,), keepdims=True)
        case 6 if a.ndim:
            return ops.softmax(a, axis=axis)
        case 7:
            return ops.mean(a, keepdims=number % 2 == 0)
        case 8 if a.ndim > 1:
            return ops.transpose(a)
        case 9:
            return ops.reshape(a, shape=(a.size,)) if number % 2 else ops.reshape(a, shape=(*a.shape, 1))
        case 10 if a.ndim < 3:
            return ops.broadcast_to(a, shape=(2, *a.shape))
        case 11:
            return ops.cast(ops.cast(a, dtype="f64"), dtype="f32")
        case 12 if _broadcasts(a, b):
            return ops.select(ops.less(a, b), a, b)
        case 13 if a.ndim == 2 and a.size < 64:
            return ops.tanh(ops.matmul(ops.transpose(a), a))
        case 14:
            return ops.multiply(a, ops.zeros_like(a) + 1.5)
        case 15 if a.ndim and a.shape[0] > 1:
            return ops.slice(a, starts=(1,) + (0,) * (a.ndim - 1), limits=a.shape)
        case 16 if a.ndim:
            return ops.concatenate((a, a), axis=axis) if a.size < 64 else a
        case 17 if a.ndim == 2:
            return ops.tanh(ops.transpose(ops.transpose(a) * 2.0))
        case _:
            return ops.tanh(a)


def _broadcasts(a: Value, b: Value) -> bool:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return int(np.prod(shape)) <= 128 and len(shape) <= 4


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
Y = np.array([0.5, -1.5, 1.0], np.float32)


@given(programs())
@settings(max_examples=40)
def test_every_pass_keeps_the_numbers(program: Callable[..., Any]) -> None:
    module = trace(program, tensor_type((4, 3), f32), tensor_type((3,), f32))
    expected = evaluate(module, (X, Y))
    for name in TENSOR_PIPELINE:
        types = [result.type for result in main_ops(module)[-1].operands]
        run_pass(module, name)
        assert [result.type for result in main_ops(module)[-1].operands] == types, name
        for value, wanted in zip(evaluate(module, (X, Y)), expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-5, err_msg=name)


@given(programs())
@settings(max_examples=40)
def test_kernels_are_all_that_computes_after_fusion(program: Callable[..., Any]) -> None:
    module = trace(program, tensor_type((4, 3), f32), tensor_type((3,), f32))
    for name in TENSOR_PIPELINE:
        run_pass(module, name)
    outside = {op.name for op in main_ops(module)}
    assert outside <= {"func.call", "func.return", "tenon.constant", "tenon.reshape"}
    for kernel in kernels(module):
        assert "reshape" not in kernel


# --- canonicalize ---------------------------------------------------------------------------------------------------


def canonical(function: Callable[..., Any], *types: Any) -> list[str]:
    module = run_pass(trace(function, *types), "canonicalize")
    return names(main_ops(module))


VECTOR = tensor_type((4,), f32)
MATRIX = tensor_type((4, 3), f32)
COUNTS = tensor_type((4,), i32)


def repeated(x: Any, count: int, axis: int) -> Any:
    """Each row or column of a matrix several times."""
    sizes = [*x.shape]
    sizes.insert(axis + 1, 1)
    many = [*sizes]
    many[axis + 1] = count
    shape = [size * (count if number == axis else 1) for number, size in enumerate(x.shape)]
    return ops.reshape(ops.broadcast_to(ops.reshape(x, shape=tuple(sizes)), shape=tuple(many)), shape=tuple(shape))


@pytest.mark.parametrize(
    ("function", "type_", "left"),
    [
        (lambda x: -0.0 + x, VECTOR, []),
        (lambda x: 0.0 + x, VECTOR, ["add"]),
        (lambda x: 0 + x, COUNTS, []),
        (lambda x: x - 0.0, VECTOR, []),
        (lambda x: x - -0.0, VECTOR, ["subtract"]),
        (lambda x: 0.0 - x, VECTOR, ["subtract"]),
        (lambda x: -0.0 - x, VECTOR, ["negative"]),
        (lambda x: 0 - x, COUNTS, ["negative"]),
        (lambda x: x * 1.0, VECTOR, []),
        (lambda x: x * -1.0, VECTOR, ["negative"]),
        (lambda x: x * 0.0, VECTOR, ["multiply"]),
        (lambda x: x * 0, COUNTS, []),
        (lambda x: x - x, VECTOR, ["subtract"]),
        (lambda x: x - x, COUNTS, []),
        (lambda x: (x + 1) + 2, COUNTS, ["add"]),
        (lambda x: (x + 1.0) + 2.0, VECTOR, ["add", "add"]),
        (lambda x: x / 1.0, VECTOR, []),
        (lambda x: x / 3.0, VECTOR, ["divide"]),
        (lambda x: x / 3.0, tensor_type((4,), f64), ["divide"]),
        (lambda x: x / 8.0, VECTOR, ["multiply"]),
        (lambda x: x / 2.0**-20, VECTOR, ["divide"]),
        (lambda x: ops.negative(-x), VECTOR, []),
        (lambda x: -(x - 1.0), VECTOR, ["subtract", "negative"]),
        (lambda x: -(x - 1), COUNTS, ["subtract"]),
        (lambda x: x + -x.exp(), VECTOR, ["exp", "subtract"]),
        (lambda x: x - -x.exp(), VECTOR, ["exp", "add"]),
        (lambda x: ops.abs(-x), VECTOR, ["abs"]),
        (lambda x: ops.abs(-x.astype("u8")), VECTOR, ["cast", "negative", "abs"]),
        (lambda x: x**1.0, VECTOR, []),
        (lambda x: x**2.0, VECTOR, ["multiply"]),
        (lambda x: x**0.5, VECTOR, ["power"]),
        (lambda x: x**-1.0, VECTOR, ["reciprocal"]),
        (lambda x: ops.maximum(x, x), VECTOR, []),
        (lambda x: ops.select(x > 0.0, x, x), VECTOR, []),
        (lambda x: ops.select(np.True_, x, x.exp()), VECTOR, []),
        (lambda x: ops.select(~(x > 0.0), x, 1.0), VECTOR, ["greater", "select"]),
        (lambda x: ops.select(ops.logical_not(x), x, 1), COUNTS, ["logical_not", "select"]),
        (lambda x: ~~(x > 0.0), VECTOR, ["greater"]),
        (lambda x: ~~x, COUNTS, []),
        (lambda x: ops.logical_not(ops.logical_not(x)), COUNTS, ["logical_not", "logical_not"]),
        (lambda x: (x > 0.0) & np.True_, VECTOR, ["greater"]),
        (lambda x: x.astype("f32"), VECTOR, []),
        (lambda x: x.astype("f64").astype("f32"), VECTOR, []),
        (lambda x: x.astype("f16").astype("f32"), VECTOR, ["cast", "cast"]),
        (lambda x: x.astype("bf16").astype("f16").astype("f32"), VECTOR, ["cast", "cast", "cast"]),
        (lambda x: x.astype("f16").astype("bf16").astype("f32"), VECTOR, ["cast", "cast", "cast"]),
        (lambda x: x.astype("i64").astype("i32"), COUNTS, []),
        (lambda x: x.astype("u8").astype("i16").astype("u8"), COUNTS, ["cast"]),
        (lambda x: x.astype("u64").astype("i32"), COUNTS, ["cast", "cast"]),
        (lambda x: x.astype("u16").astype("f16").astype("f32"), COUNTS, ["cast", "cast", "cast"]),
        (lambda x: x.astype("u8").astype("f16").astype("f32"), COUNTS, ["cast", "cast"]),
        (lambda x: x.astype("f64").astype("i8"), COUNTS, ["cast", "cast"]),
        (lambda x: x.T.T, MATRIX, []),
        (lambda x: x.transpose(1, 2, 0).transpose(0, 2, 1), tensor_type((2, 3, 4), f32), ["transpose"]),
        (lambda x: x[::-1], VECTOR, ["slice"]),
        (lambda x: ops.transpose(x, permutation=(0, 1)), MATRIX, []),
        (lambda x: ops.reshape(ops.reshape(x, shape=(12,)), shape=(3, 4)), MATRIX, ["reshape"]),
        (lambda x: ops.reshape(x, shape=(4, 3)), MATRIX, []),
        (lambda x: ops.slice(x, starts=(0, 0), limits=(4, 3)), MATRIX, []),
        (lambda x: ops.pad(x, low=(0, 0), high=(0, 0)), MATRIX, []),
        (lambda x: ops.broadcast_to(ops.broadcast_to(x, shape=(1, 4, 3)), shape=(2, 4, 3)), MATRIX, ["broadcast_to"]),
        (lambda x: repeated(repeated(x, 2, 0), 3, 1), MATRIX, ["reshape", "broadcast_to", "reshape"]),
        (lambda x: repeated(repeated(x, 3, 1), 2, 1), MATRIX, ["reshape", "broadcast_to", "reshape"]),
        (lambda x: repeated(repeated(x, 5, 1), 2, 0), MATRIX, ["reshape", "broadcast_to", "reshape"]),
        (lambda x: x * ops.broadcast_to(x.sum(axis=(0,)), shape=(4, 3)), MATRIX, ["sum", "multiply"]),
        (lambda x: ops.max(x, axis=()), VECTOR, []),
        (lambda x: ops.reshape(x.sum(axis=(1,)), shape=(2, 2)), MATRIX, ["sum", "reshape"]),
        (lambda x: ops.reshape(x.sum(axis=(1,)), shape=(4, 1)), MATRIX, ["sum"]),
        (lambda x: ops.reshape((x.sum(axis=(1,)) / 3.0).exp(), shape=(4, 1)), MATRIX, ["sum", "divide", "exp"]),
    ],
)
def test_equations(function: Callable[..., Any], type_: Any, left: list[str]) -> None:
    module = trace(function, type_)
    given = edge_cases(type_)
    wanted = evaluate(module, (given,))[0]
    run_pass(module, "canonicalize")
    assert names(main_ops(module)) == left
    np.testing.assert_array_equal(bits(evaluate(module, (given,))[0]), bits(wanted))


def test_a_sum_over_no_axes_keeps_the_sign_of_zero() -> None:
    """As in JAX; a loop that begins with 0.0 would lose it."""
    assert canonical(lambda x: ops.sum(x, axis=()), VECTOR) == []


def test_a_reshape_cannot_compute_two_sizes() -> None:
    assert canonical(lambda x: ops.max(x, axis=(2,)), tensor_type((-1, -1, 1), f32)) == ["max"]
    assert canonical(lambda x: ops.max(x, axis=(2,)), tensor_type((-1, 5, 1), f32)) == ["reshape"]


LABELS = np.array([0, 39, -1, 40, 7, 5], np.int32)


@pytest.mark.parametrize(
    ("function", "is_read"),
    [
        (lambda x, y, on: ops.sum(ops.select(on, x, 0.0), axis=1), True),
        (lambda x, y, on: ops.sum(ops.select(on & (y != 5)[:, None], ops.exp(x) * 2.0, 0.0)), True),
        (lambda x, y, on: ops.sum(ops.select(on.T, ops.reshape(x, shape=(40, 6)), 0.0), axis=0), False),
        (lambda x, y, on: ops.sum(ops.select(on, x, 0.0), axis=0), False),
        (lambda x, y, on: ops.sum(ops.select(on, x, 1.0), axis=1), False),
        (lambda x, y, on: ops.sum(ops.select(on, ops.flip(x, axis=1), 0.0), axis=1), False),
        (lambda x, y, on: ops.sum(ops.select(on, x - ops.max(x, axis=1, keepdims=True), 0.0), axis=1), True),
        (lambda x, y, on: ops.sum(ops.select(on[:, :9], x[0, :9], 0.0), axis=1), False),
        (lambda x, y, on: ops.sum(ops.select((y[:, None] == ops.iota(shape=(6,))), x[0, :6], 0.0), axis=1), False),
    ],
)
def test_what_is_chosen_by_its_place_is_read_there(function: Callable[..., Any], is_read: bool) -> None:
    def chosen(x: Any, y: Any) -> Any:
        return function(x, y, y[:, None] == ops.iota(shape=(40,)))

    module = trace(chosen, tensor_type((6, 40), f32), tensor_type((6,), i32))
    run_pass(module, "decompose")
    given = edge_cases(tensor_type((6, 40), f32)), LABELS
    wanted = evaluate(module, given)[0]
    run_pass(module, "canonicalize")
    assert ("gather_elements" in names(main_ops(module))) == is_read
    np.testing.assert_array_equal(bits(evaluate(module, given)[0]), bits(wanted))


def test_places_that_begin_again_are_all_added_up() -> None:
    def chosen(x: Any, y: Any) -> Any:
        return ops.sum(ops.select(ops.iota(shape=(300,), dtype="u8") == y, x, 0.0))

    assert tenon.jit(chosen)(np.arange(300, dtype=np.float32), np.uint8(5)) == 5 + 261


def edge_cases(type_: Any) -> np.ndarray:
    """Numbers of a type among which are those at its edges."""
    dtype, shape = numpy_dtype(element_of(type_)), shape_of(type_) or ()
    if dtype.kind == "f":
        numbers = np.asarray([-0.0, np.inf, 1.1, -np.inf, 0.0, 3e38, -2.5, 1e-40], dtype)
    else:
        numbers = np.asarray([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7], dtype)
    return np.resize(numbers, math.prod(shape)).reshape(shape)


def bits(array: np.ndarray) -> np.ndarray:
    """What tells all floats apart but not-a-numbers."""
    return np.where(np.isnan(array), np.nan, array).view(f"u{array.itemsize}") if array.dtype.kind == "f" else array


@pytest.mark.parametrize(("size", "dtype"), [(46340, "i32"), (46341, "i64")])
def test_places_of_taps_are_counted_in_few_bits(size: int, dtype: str) -> None:
    """As many as lie in 32 bits, of an image of `size` rows and columns."""
    types = tensor_type((1, 4, size, size), f32), tensor_type((1, 4, 4, 2), f32)
    module = run_pass(trace(lambda x, grid: ops.grid_sample(x, grid), *types), "decompose")
    assert {str(op.operands[1].type) for op in main_ops(module) if op.name == "tenon.gather"} == {
        f"tensor<1x16x{dtype}>"
    }


def test_equations_keep_the_result_type() -> None:
    row = tensor_type((3,), f32)
    module = run_pass(trace(lambda x, y: x - ops.zeros_like(y), row, MATRIX), "canonicalize")
    assert names(main_ops(module)) == ["broadcast_to"]
    np.testing.assert_array_equal(evaluate(module, (Y, X))[0], np.broadcast_to(Y, (4, 3)))


def test_constants_are_folded_by_their_meaning() -> None:
    def function(x: Value) -> Value:
        table = ops.softmax(np.arange(6, dtype=np.float32).reshape(2, 3))
        return x + ops.sum(ops.matmul(table, table.T), axis=(0,))[0]

    module = trace(function, tensor_type((), f32))
    wanted = evaluate(module, (np.asarray(1, np.float32),))
    run_pass(module, "decompose")
    run_pass(module, "canonicalize")
    assert names(main_ops(module)) == ["add"]
    np.testing.assert_allclose(evaluate(module, (np.asarray(1, np.float32),))[0], wanted[0], rtol=1e-6)


def test_large_results_are_not_folded_but_repeated_ones_are() -> None:
    def large() -> tuple[Value, Value]:
        column = ops.exp(np.arange(100, dtype=np.float32).reshape(100, 1))
        return column + np.arange(100, dtype=np.float32), ops.exp(ops.zeros((1 << 20, 1 << 10)))

    module = run_pass(trace(large), "canonicalize")
    assert names(main_ops(module)) == ["add"]
    ones = main_ops(module)[-1].operands[1].owner
    assert isinstance(ones, ConstantOp)
    value: Any = ones.properties["value"]
    assert value.data.data == np.float32(1).tobytes()


def test_weights_are_transposed_while_compiling() -> None:
    weight = np.arange(10000, dtype=np.float32).reshape(50, 200)
    module = run_pass(trace(lambda: ops.transpose(ops.constant(value=weight))), "canonicalize")
    assert names(main_ops(module)) == []
    np.testing.assert_array_equal(evaluate(module, ())[0], weight.T)


def test_an_integer_division_by_zero_is_left_for_the_run() -> None:
    def function(p: Value) -> Value:
        return ops.floor_divide(np.array([1], np.int32), np.array([0], np.int32)) + p

    run_pass(trace(function, tensor_type((1,), i32)), "canonicalize")


@tensor_op
class HalveOp(ElementwiseOp):
    """Half of `x`."""

    name = "passes_test.halve"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def scalar(x: Value) -> Value:
        return x * 0.5

    @staticmethod
    def canonicalize(op: HalveOp, rewriter: PatternRewriter) -> None:
        """halve(x + x) -> x"""
        if isinstance(op.x.owner, AddOp) and op.x.owner.x is op.x.owner.y:
            rewriter.replace(op, (), (op.x.owner.x,))


def test_an_op_can_bring_its_own_equation() -> None:
    assert canonical(lambda x: ops.halve(x + x), VECTOR) == []
    assert canonical(lambda x: ops.halve(x + 1.0), VECTOR) == ["add", "passes_test.halve"]


def test_rewrites_keep_locations() -> None:
    module = trace(lambda x: x / 4.0, VECTOR)
    for op in main_ops(module):
        op.location = HERE
    run_pass(module, "canonicalize")
    assert [op.location for op in main_ops(module)] == [HERE] * 3


# --- cse, dce, inline, decompose ------------------------------------------------------------------------------------


def test_cse_tells_settings_and_dtypes_apart() -> None:
    module = trace(
        lambda x: (x.sum(axis=(0,)), x.sum(axis=(1,)), x.astype("f64"), x.astype("f16"), x.sum(axis=(0,))), MATRIX
    )
    assert names(main_ops(run_pass(module, "cse"))) == ["sum", "sum", "cast", "cast"]


def test_recursion_cannot_be_inlined() -> None:
    def function(name: str, callee: str) -> func.FuncOp:
        result = func.FuncOp(name, ([VECTOR], [VECTOR]), visibility="private")
        call = func.CallOp(callee, [result.body.block.args[0]], [VECTOR])
        result.body.block.add_ops([call, func.ReturnOp(call)])
        return result

    module = ModuleOp([function("f", "g"), function("g", "f")])
    with pytest.raises(PassFailedException, match="inline: function @f is recursive: @f -> @g -> @f"):
        run_pass(module, "inline")


def test_inlining_keeps_locations() -> None:
    callee = func.FuncOp("f", ([VECTOR], [VECTOR]), visibility="private")
    with inserting(InsertionPoint(callee.body.block)):
        result = Value(callee.body.block.args[0]).exp()
        emit(func.ReturnOp(result.ssa))
    result.ssa.owner.location = HERE  # pyright: ignore[reportAttributeAccessIssue]
    module = trace(lambda x: Value(emit(func.CallOp("f", [x.ssa], [VECTOR])).results[0]), VECTOR, others=[callee])
    run_pass(module, "inline")
    assert main_ops(module)[0].location == HERE


@tensor_op
class CircularOp(CompositeOp):
    """An op that is defined by itself."""

    name = "passes_test.circular"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def decompose(x: Value) -> Value:
        return ops.circular(x)


def test_an_op_cannot_decompose_into_itself() -> None:
    module = trace(lambda x: ops.circular(x), VECTOR)
    with pytest.raises(PassFailedException, match=r"passes_test\.circular: still not decomposed"):
        run_pass(module, "decompose")


@tensor_op
class EndlessOp(CompositeOp):
    """An op whose types follow from themselves."""

    name = "passes_test.endless"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Value) -> Value:
        return ops.endless(x) + ops.endless(x * 2.0)


def test_types_of_an_op_cannot_follow_from_themselves() -> None:
    for _ in range(2):  # what is under way is forgotten with the error
        with pytest.raises(InferenceError, match=r"passes_test\.endless: decompose uses the op itself on operands"):
            trace(lambda x: ops.endless(x), VECTOR)


def test_decomposition_reaches_into_regions_and_keeps_locations() -> None:
    def function(x: Value) -> Value:
        then = CondOp.of(
            ops.constant(value=np.array(True)).ssa, _block(lambda: ops.softmax(x)), _block(lambda: x), [MATRIX]
        )
        return Value(emit(then).results[0])

    module = trace(function, MATRIX)
    for op in module.walk():
        if op.name == "tenon.softmax":
            op.location = HERE
    run_pass(module, "decompose")
    inside = [op for op in module.walk() if op.name == "tenon.exp"]
    assert len(inside) == 1
    assert inside[0].location == HERE


def test_decompose_refuses_unknown_names() -> None:
    with pytest.raises(PassFailedException, match="there is no op named 'sotfmax'"):
        run_pass(trace(lambda x: x, VECTOR), "decompose", only=("sotfmax",))


def _block(function: Callable[[], Value]) -> Any:
    block = Block()
    with inserting(InsertionPoint(block)):
        emit(YieldOp(function().ssa))
    return block


# --- specialize -----------------------------------------------------------------------------------------------------


def function_of(module: ModuleOp) -> func.FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, func.FuncOp)
    return function


def test_specialize_infers_everything_again() -> None:
    module = trace(lambda x, w: ops.softmax(ops.matmul(x, w) + 1.0), tensor_type((-1, 3), f32), tensor_type(None, f32))
    specialize(function_of(module), [MATRIX, tensor_type((3, 5), f32)])
    module.verify()
    assert main_ops(module)[-1].operands[0].type == tensor_type((4, 5), f32)
    assert evaluate(module, (X, np.ones((3, 5), np.float32)))[0].shape == (4, 5)


def test_specialize_names_the_op_that_contradicts() -> None:
    module = trace(lambda x, w: ops.matmul(x, w), tensor_type((-1, 3), f32), tensor_type(None, f32))
    with pytest.raises(ValueError, match=r"tenon\.matmul: dimension k is 3 in x and 4 in y"):
        specialize(function_of(module), [MATRIX, tensor_type((4, 5), f32)])


def test_specialize_refuses_what_an_argument_is_not() -> None:
    module = trace(lambda x: x, tensor_type((-1, 3), f32))
    with pytest.raises(ValueError, match=r"@main: argument 0 has shape \(\?, 3\), and \(4, 2\) is given"):
        specialize(function_of(module), [tensor_type((4, 2), f32)])
    with pytest.raises(ValueError, match="has dtype f32, and f64 is given"):
        specialize(function_of(module), [tensor_type((4, 3), f64)])
    with pytest.raises(ValueError, match="@main: takes 1 arguments, and 2 types are given"):
        specialize(function_of(module), [MATRIX, MATRIX])


def test_specialize_goes_through_loops() -> None:
    def function(x: Value, xs: Value) -> Value:
        body = Block(arg_types=[tensor_type((-1,), f32), tensor_type((-1,), f32)])
        with inserting(InsertionPoint(body)):
            total = Value(body.args[0]) + Value(body.args[1])
            emit(YieldOp(total.ssa, total.exp().ssa))
        scan = emit(ScanOp.of([x.ssa], [xs.ssa], body, 5, False))
        return Value(scan.results[1])

    module = trace(function, tensor_type((-1,), f32), tensor_type((5, -1), f32))
    specialize(function_of(module), [VECTOR, tensor_type((5, 4), f32)])
    module.verify()
    assert main_ops(module)[-1].operands[0].type == tensor_type((5, 4), f32)


# --- layout ---------------------------------------------------------------------------------------------------------


@tensor_op
class ReverseLastOp(IndexMapOp):
    """`x` (n, h, w, c) with its channels in reverse order."""

    name = "passes_test.reverse_last"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def source(index: tuple[Any, ...], shape: tuple[int, ...], **settings: Any) -> tuple[Any, ...]:
        return (*index[:-1], index[-1] * -1 + (shape[-1] - 1))


@tensor_op
class ReverseChannelsOp(CompositeOp):
    """`x` (n, c, h, w) with its channels in reverse order; wants channels to lie together in memory."""

    name = "passes_test.reverse_channels"
    x = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    LAYOUTS: ClassVar[dict[str, tuple[int, ...]]] = {"x": (0, 2, 3, 1), "result": (0, 2, 3, 1)}

    @staticmethod
    def decompose(x: Value) -> Value:
        return ops.flip(x, axis=(1,))

    @staticmethod
    def laid_out(x: Value) -> Value:
        return ops.reverse_last(x)


IMAGES = tensor_type((2, 3, 4, 5), f32)
ARRAY = np.random.default_rng(0).standard_normal((2, 3, 4, 5), np.float32)


def test_a_layout_that_is_asked_for_is_copied_to_once() -> None:
    def network(x: Value, bias: Value) -> Value:
        y = ops.reverse_channels(ops.reverse_channels(x)) + ops.reshape(bias, shape=(3, 1, 1))
        return ops.reverse_channels(ops.relu(y))

    module = trace(network, IMAGES, tensor_type((3,), f32))
    run_pass(module, "layout")
    reverse = "passes_test.reverse_last"
    computed = [name for name in names(main_ops(module)) if name != "reshape"]
    assert computed == ["transpose", reverse, reverse, "add", "relu", reverse, "transpose"]
    wanted = np.maximum(ARRAY + Y.reshape(3, 1, 1), 0)[:, ::-1]
    np.testing.assert_array_equal(evaluate(module, (ARRAY, Y))[0], wanted)


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"x": (1, 0)}, "UnlaidOp (passes_test.unlaid) states LAYOUTS and must define `laid_out`"),
        ({"x": (1, 0), "y": (1, 0)}, "UnlaidOp (passes_test.unlaid): LAYOUTS names y, which it does not declare"),
    ],
)
def test_layouts_that_cannot_be_given_are_refused(layouts: dict[str, tuple[int, ...]], message: str) -> None:
    class UnlaidOp(ElementwiseOp):
        """`x`, in a layout that nothing computes it in."""

        name = "passes_test.unlaid"
        x = operand_def(FLOAT_TENSOR)
        result = result_def(FLOAT_TENSOR)
        LAYOUTS: ClassVar[dict[str, tuple[int, ...]]] = layouts

        @staticmethod
        def scalar(x: Value) -> Value:
            return x

    with pytest.raises(TypeError, match=re.escape(message)):
        tensor_op(UnlaidOp)


def test_a_contraction_gives_the_layout_that_is_asked_for() -> None:
    weight = tensor_type((5, 6), f32)
    module = run_pass(trace(lambda x, w: ops.reverse_channels(ops.matmul(x, w)), IMAGES, weight), "layout")
    assert names(main_ops(module)) == ["contract", "passes_test.reverse_last", "transpose"]
    w = np.random.default_rng(1).standard_normal((5, 6), np.float32)
    np.testing.assert_allclose(evaluate(module, (ARRAY, w))[0], (ARRAY @ w)[:, ::-1], rtol=1e-5, atol=1e-5)


def test_contractions_take_in_transposes_of_batches() -> None:
    def attention(q: Value, k: Value) -> Value:
        heads = [ops.transpose(v, permutation=(0, 2, 1, 3)) for v in (q, k)]
        return ops.matmul(heads[0], ops.transpose(heads[1], permutation=(0, 1, 3, 2)))

    type_ = tensor_type((2, 5, 3, 4), f32)
    module = trace(attention, type_, type_)
    q, k = np.random.default_rng(0).standard_normal((2, 2, 5, 3, 4), np.float32)
    run_pass(module, "layout")
    assert names(main_ops(module)) == ["contract"]
    np.testing.assert_allclose(evaluate(module, (q, k))[0], np.einsum("bqhd,bkhd->bhqk", q, k), rtol=1e-5)


def test_reductions_take_in_transposes_or_leave_what_is_smaller_to_transpose() -> None:
    x = tensor_type((2, 3, 4), f32)

    def reduced(permutation: tuple[int, ...], axis: tuple[int, ...], keepdims: bool = False) -> list[str]:
        module = trace(lambda v: ops.max(ops.transpose(v, permutation=permutation), axis=axis, keepdims=keepdims), x)
        array = np.random.default_rng(0).standard_normal((2, 3, 4), np.float32)
        wanted = array.transpose(permutation).max(axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(evaluate(run_pass(module, "layout"), (array,))[0], wanted)
        return names(main_ops(module))

    assert reduced((1, 0, 2), (0,)) == ["max"]
    assert reduced((2, 1, 0), (-1,)) == ["transpose", "max"]
    assert reduced((2, 1, 0), (0, 2)) == ["max"]
    assert reduced((2, 1, 0), (0, 2), keepdims=True) == ["max"]
    assert reduced((1, 0, 2), (0,), keepdims=True) == ["max", "transpose"]


def test_an_index_of_elements_in_order_does_not_take_in_a_transpose() -> None:
    module = trace(lambda x: ops.argmax(x.T), MATRIX)
    assert evaluate(run_pass(module, "layout"), (X,))[0] == X.T.argmax()


# --- fuse -----------------------------------------------------------------------------------------------------------


def fused(function: Callable[..., Any], *types: Any) -> list[list[str]]:
    module = trace(function, *types)
    for name in ("decompose", "canonicalize", "cse", "dce", "fuse"):
        run_pass(module, name)
    return kernels(module)


WIDE = tensor_type((64, 128), f32)


def test_statistics_of_rows_are_one_kernel() -> None:
    def layer_norm(x: Value, scale: Value) -> Value:
        centered = x - ops.mean(x, axis=(-1,), keepdims=True)
        return centered * ops.rsqrt(ops.mean(centered * centered, axis=(-1,), keepdims=True) + 1e-5) * scale

    assert len(fused(layer_norm, WIDE, tensor_type((128,), f32))) == 1
    assert len(fused(lambda x: ops.softmax(x), WIDE)) == 1
    assert len(fused(lambda x: ops.log_softmax(x), WIDE)) == 1
    assert len(fused(lambda x: (ops.softmax(x), ops.exp(x)), WIDE)) == 2


def test_statistics_of_channels_are_one_kernel_whatever_the_size_of_a_channel() -> None:
    def batch_norm(x: Value) -> Value:
        centered = x - ops.mean(x, axis=(0, 2, 3), keepdims=True)
        return centered * ops.rsqrt(ops.mean(centered * centered, axis=(0, 2, 3), keepdims=True) + 1e-5)

    assert len(fused(batch_norm, tensor_type((8, 32, 8, 8), f32))) == 1
    assert len(fused(batch_norm, tensor_type((32, 32, 56, 56), f32))) == 1


def test_a_few_long_rows_do_not_share_a_kernel() -> None:
    two_rows = tensor_type((2, 1 << 20), f32)
    assert fused(lambda x: ops.exp(ops.sum(x * 2.0, axis=(1,))), two_rows) == [["multiply", "sum"], ["exp"]]
    assert fused(lambda x: ops.exp(ops.sum(x * 2.0, axis=(1,))), WIDE) == [["multiply", "sum", "exp"]]


def test_reductions_of_outer_dimensions_take_in_only_what_is_theirs() -> None:
    assert fused(lambda x: ops.exp(ops.sum(x * 2.0, axis=(0,))), WIDE) == [["multiply", "sum"], ["exp"]]

    def shared(x: Value) -> tuple[Value, Value]:
        y = x * 2.0
        return y, ops.sum(y, axis=(0,))

    assert fused(shared, WIDE) == [["multiply"], ["sum"]]


def test_a_vector_is_not_computed_again_for_each_row() -> None:
    assert fused(lambda x, y: x + ops.exp(y), WIDE, tensor_type((128,), f32)) == [["exp"], ["add"]]
    assert fused(lambda x, y: x + ops.exp(y), WIDE, tensor_type((64, 1), f32)) == [["exp", "add"]]


def test_the_same_value_read_in_two_orders_is_not_shared() -> None:
    def symmetric(x: Value) -> Value:
        y = ops.exp(x)
        return y + y.T

    assert fused(symmetric, tensor_type((8, 8), f32)) == [["exp"], ["transpose", "add"]]


def test_a_final_transpose_is_part_of_the_kernel() -> None:
    assert fused(lambda x: ops.transpose(ops.exp(x)), WIDE) == [["exp", "transpose"]]


def test_kernels_have_a_limited_number_of_inputs() -> None:
    def total(*xs: Value) -> Value:
        result = xs[0]
        for x in xs[1:]:
            result = result + x
        return result

    module = trace(total, *[VECTOR] * 60)
    run_pass(module, "fuse")
    sizes = [len(op.body.block.args) for op in module.ops if isinstance(op, func.FuncOp) and "kernel" in op.attributes]
    assert max(sizes) <= 24
    assert len(main_ops(module)) - 1 == 3


def test_fuse_wants_composites_decomposed_and_shapes_known() -> None:
    with pytest.raises(PassFailedException, match=r"fuse: tenon\.softmax is a composite op; run decompose first"):
        run_pass(trace(lambda x: ops.softmax(x), MATRIX), "fuse")
    with pytest.raises(PassFailedException, match=r"tenon\.exp: the shape of tensor<\?xf32> must be known"):
        run_pass(trace(lambda x: ops.exp(x), tensor_type((-1,), f32)), "fuse")


def test_circles_through_other_groups_are_seen() -> None:
    def function(x: Value) -> Value:
        a = ops.exp(x)
        b = ops.reshape(ops.exp(ops.reshape(a, shape=(12,))), shape=(4, 3))
        return ops.tanh(a + b) * a

    # The two `exp` have different shapes, and so do not become one function.
    assert fused(function, MATRIX) == [["exp"], ["exp"], ["add", "tanh", "multiply"]]


def test_values_of_other_types_survive_the_pipeline() -> None:
    def function(x: Value, p: Value) -> Value:
        return ops.select(p, ops.sum(x.astype("f32"), axis=(1,), keepdims=True), x.astype("f32")).astype("f16")

    module = trace(function, tensor_type((4, 3), f16), tensor_type((4, 3), i1))
    arguments = (X.astype(np.float16), X > 0)
    wanted = evaluate(module, arguments)
    for name in TENSOR_PIPELINE:
        run_pass(module, name)
    np.testing.assert_array_equal(evaluate(module, arguments)[0], wanted[0])


SCALARS = {
    "dot": lambda y, w: ops.sum(ops.matmul(y, y) * w) + 1.5,
    "dot_of_function": lambda y, w: ops.sin(ops.sum(ops.tanh(ops.matmul(y, y)) * w)),
    "dot_beside_sum": lambda y, w: ops.reshape(ops.tanh(ops.sum(y, axis=(0,)) * ops.matmul(y, y)), shape=(1,)) * w,
    "dot_beside_row": lambda y, w: (
        ops.reshape(
            ops.tanh(ops.exp(ops.sum(ops.reshape(y, shape=(4, 8)), axis=(1,), keepdims=True) * ops.matmul(y, y))),
            shape=(4, 1, 1),
        )
        * w
    ),
}
"""Sums and contractions that meet in ops on scalars: reshapes move behind the one and before the other."""


@pytest.mark.parametrize("function", SCALARS.values(), ids=SCALARS)
def test_reshapes_of_scalars_come_to_rest(function: Callable[..., Value]) -> None:
    module = trace(function, tensor_type((32,), f32), tensor_type((1,), f32))
    arguments = np.random.default_rng(0).standard_normal(32).astype(np.float32), np.array([0.7], np.float32)
    (expected,) = evaluate(module, arguments)
    for name in ("decompose", "canonicalize", "cse", "layout", "canonicalize"):
        run_pass(module, name)
    np.testing.assert_allclose(evaluate(module, arguments)[0], expected, rtol=1e-5)


def test_rules_that_undo_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class AddBeforeMultiply(RewritePattern):
        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            rewriter.replace(op, MultiplyOp.build_from(list(op.operands), {}))

    class MultiplyBeforeAdd(RewritePattern):
        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            rewriter.replace(op, AddOp.build_from(list(op.operands), {}))

    equations = {AddOp: [AddBeforeMultiply()], MultiplyOp: [MultiplyBeforeAdd()]}
    monkeypatch.setattr(canonicalize, "SHAPE_EQUATIONS", equations)
    module = trace(lambda x: x + x, MATRIX)
    rules = "AddBeforeMultiply of tenon.add, MultiplyBeforeAdd of tenon.multiply"
    with pytest.raises(PassFailedException, match=rf"^canonicalize: no end after \d+ rewrites; in turn: {rules}$"):
        run_pass(module, "canonicalize")
