"""What an op says about operands and settings that do not fit, and what subscripts and `einsum` make of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr, AffineMap

import tenon
from tenon.dialects.definition.signature import map_grouped
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families import CompositeOp, StructuredOp
from tenon.dialects.families.indexing import reduction_loops
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import array_type, f32, i64, tensor_type


def computed(function: Callable[..., Any], *arrays: Any) -> Any:
    """`function` traced on `arrays` and run by the interpreter."""
    main = func.FuncOp("main", ([array_type(np.asarray(a)) for a in arrays], []))
    block = main.body.block
    with inserting(InsertionPoint(block)):
        result = function(*[Value(a) for a in block.args])
        emit(func.ReturnOp(result.ssa))
    main.update_function_type()
    while found := [op for op in block.ops if isinstance(op, CompositeOp | StructuredOp)]:
        for op in found:
            groups = op.grouped_operands()
            with inserting(InsertionPoint(block, op)):
                if isinstance(op, StructuredOp):
                    results = op.structured(groups)
                else:
                    results = [v.ssa for v in op.decomposed(map_grouped(Value, groups))]
            for old, new in zip(op.results, results, strict=True):
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()
    module = ModuleOp([main])
    module.verify()
    return Interpreter().run(module, "main", [np.asarray(a) for a in arrays])[0]


def tensor(*shape: int, dtype: Any = np.float32) -> Value:
    return Value(Block(arg_types=[array_type(np.zeros(shape, dtype))]).args[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ops.sort_groups(tensor(2, 3)),
            "tenon.sort_groups: x has shape (2, 3) where (groups, rows, n) is needed",
        ),
        (
            lambda: ops.argsort_groups(tensor(1, 2, 3, dtype=np.int64)),
            "tenon.argsort_groups: x has elements of 64 bits, and a key holds 32 beside an index",
        ),
        (
            lambda: ops.add(tensor(3), tensor(4)),
            "tenon.add: shapes do not broadcast: dimension -1 is 3 in x and 4 in y",
        ),
        (lambda: ops.matmul(tensor(2, 3), tensor(4, 5)), "tenon.matmul: dimension k is 3 in x and 4 in y"),
        (lambda: ops.matmul(tensor(), tensor(4, 5)), "tenon.matmul: rank of x is 0 where 2 or more is needed"),
        (lambda: ops.reshape(tensor(2, 3), shape=(4, 2)), "tenon.reshape: x has 6 elements, and shape (4, 2) has 8"),
        (
            lambda: ops.reshape(tensor(2, 3), shape=(4, -1)),
            "tenon.reshape: the 6 elements of x do not fill a shape (4, -1)",
        ),
        (
            lambda: ops.reshape(tensor(2, 3), shape=(-1, -1)),
            "tenon.reshape: shape is (-1, -1) where sizes and at most one -1 are needed",
        ),
        (lambda: ops.sum(tensor(2, 3), axis=2), "tenon.sum: axis is 2 but the rank is 2"),
        (lambda: ops.sum(tensor(2, 3), axis=(0, -2)), "tenon.sum: axis (0, -2) names a dimension twice at rank 2"),
        (lambda: ops.median(tensor(0, 3), axis=0), "median: x of shape (0, 3) has no elements to take it of"),
        (
            lambda: ops.max(tensor(2, 0), axis=1),
            "tenon.max: axis 1 of (2, 0) has no elements, and there is no result for none",
        ),
        (
            lambda: ops.transpose(tensor(2, 3), permutation=(0,)),
            "tenon.transpose: permutation (0,) has 1 axes and x has 2",
        ),
        (
            lambda: ops.transpose(tensor(2, 3), permutation=(1, -1)),
            "tenon.transpose: permutation (1, -1) names an axis twice",
        ),
        (
            lambda: ops.broadcast_to(tensor(2, 3), shape=(2, 4)),
            "tenon.broadcast_to: dimension 1 of x is 3 and cannot be repeated to 4",
        ),
        (
            lambda: ops.broadcast_to(tensor(1, 3), shape=(-2, 3)),
            "tenon.broadcast_to: shape is (-2, 3) where sizes, or -1, are needed",
        ),
        (
            lambda: ops.max(tensor(2, dtype=np.int32), start=0.5),
            "tenon.max: start is 0.5 where a whole number is needed, for i32",
        ),
        (
            lambda: ops.band(shape=(3,), upper=0),
            "tenon.band: shape is (3,) where two sizes or more, of at least 0, are needed",
        ),
        (
            lambda: ops.band(shape=(3, 3)),
            "tenon.band: neither lower nor upper is given",
        ),
        (
            lambda: ops.iota(shape=(2,), dtype="i1"),
            "tenon.iota: dtype is i1, which does not hold numbers to count with",
        ),
        (
            lambda: ops.scatter_nd(tensor(0, 3), tensor(2, 1, dtype=np.int64), tensor(7)),
            "tenon.scatter_nd: updates has shape (7,) where (2, 3) is needed, "
            "by x of shape (0, 3) and indices of shape (2, 1)",
        ),
        (
            lambda: ops.scatter_elements(tensor(0, 3), tensor(2, dtype=np.int64), tensor(2)),
            "tenon.scatter_elements: rank is 2 in x and 1 in indices, and they must be equal",
        ),
        (
            lambda: ops.put_along_axis(tensor(2, 3), tensor(2, 1, dtype=np.int64), tensor(2, 3)),
            "tenon.put_along_axis: updates of shape (2, 3) do not broadcast to the places, of shape (2, 1)",
        ),
        (
            lambda: ops.squeeze(tensor(2, 3), axis=1),
            "tenon.squeeze: dimension 1 of x is 3 where 1 is needed to drop it",
        ),
        (
            lambda: ops.slice(tensor(5), starts=(2,), limits=(7,)),
            "tenon.slice: slice 2:7:1 of axis 0 leaves x, whose size there is 5",
        ),
        (
            lambda: ops.pad(tensor(5), low=(-3,), high=(-3,)),
            "tenon.pad: axis 0 of size 5 is too short for low -3 and high -3",
        ),
        (
            lambda: ops.concatenate((tensor(2, 3), tensor(2, 4)), axis=0),
            "tenon.concatenate: tensors[1] does not fit those before it: dimension 1 is 3 in (?, 3) and 4 in (?, 4)",
        ),
        (lambda: ops.concatenate(()), "tenon.concatenate: tensors is empty where one tensor or more is needed"),
        (
            lambda: ops.split(tensor(5), sections=2),
            "tenon.split: dimension 0 of x is 5, which is no multiple of sections 2",
        ),
        (
            lambda: ops.gather(tensor(0, 2), tensor(3, dtype=np.int64)),
            "tenon.gather: x has shape (0, 2), so it has no elements along axis 0 to take",
        ),
        (
            lambda: ops.scatter_add(tensor(5, 2), tensor(3, dtype=np.int64), tensor(3, 3)),
            "tenon.scatter_add: updates has shape (3, 3) where (3, 2) is needed, "
            "by x of shape (5, 2) and indices of shape (3,)",
        ),
        (
            lambda: ops.conv2d(tensor(1, 3, 5, 5), tensor(4, 2, 3, 3)),
            "tenon.conv2d: x has 3 channels, and weight takes 2 in each of 1 groups",
        ),
        (
            lambda: ops.conv2d(tensor(1, 3, 5, 5), tensor(4, 3, 7, 3)),
            "tenon.conv2d: a window spans 7 and the padded x has size 5",
        ),
        (
            lambda: ops.conv2d(tensor(1, 3, 5, 5), tensor(4, 3, 3, 3), tensor(3)),
            "tenon.conv2d: dimension f is 4 in weight and 3 in bias",
        ),
        (
            lambda: ops.max_pool2d(tensor(4, 4), window=2, padding=2),
            "tenon.max_pool2d: padding is 2 and must be less than the window, which spans 2",
        ),
        (
            lambda: ops.max_pool(tensor(4, 4), window=(2, 2), stride=(1, 1, 1)),
            "tenon.max_pool: stride is (1, 1, 1) where one size or 2 of at least 1 are needed",
        ),
        (
            lambda: ops.avg_pool1d(tensor(4), window=2, padding="equal"),
            "tenon.avg_pool1d: padding is 'equal' where sizes or one of valid, same, same_upper, same_lower are needed",
        ),
        (
            lambda: ops.window_sum(tensor(4), window=(2, 2)),
            "tenon.window_sum: rank of x is 1 where 2 or more is needed",
        ),
        (
            lambda: ops.conv3d(tensor(1, 2, 3, 4), tensor(3, 2, 1, 1, 1)),
            "tenon.conv3d: rank of x is 4 where 5 is needed",
        ),
        (lambda: ops.conv(tensor(1, 2), tensor(3, 2)), "tenon.conv: rank of x is 2 where 3 or more is needed"),
        (
            lambda: ops.conv1d(tensor(1, 2, 3), tensor(3, 2, 1), padding=(1, 2, 3)),
            "tenon.conv1d: padding is (1, 2, 3) where one or two sizes of at least 0 are needed",
        ),
        (
            lambda: ops.conv_transpose1d(tensor(1, 2, 3), tensor(3, 2, 1)),
            "tenon.conv_transpose1d: x has 2 channels, and weight has 3",
        ),
        (
            lambda: ops.conv_transpose1d(tensor(1, 3, 3), tensor(3, 2, 1), padding=2),
            "tenon.conv_transpose1d: padding 2 and 2 leaves nothing of dimension 0 of the result, which is 3",
        ),
        (
            lambda: ops.conv_transpose1d(tensor(1, 3, 3), tensor(3, 2, 1), padding=2, output_size=5),
            "tenon.conv_transpose1d: padding (2,) and output_size (5,) are both given",
        ),
        (
            lambda: ops.adaptive_avg_pool(tensor(1, 3, 0), output_size=2),
            "tenon.adaptive_avg_pool: x has shape (1, 3, 0), so it has no elements to pool",
        ),
        (
            lambda: ops.max_unpool(tensor(1, 3), tensor(1, 2, dtype=np.int64), output_size=7),
            "tenon.max_unpool: indices has shape (1, 2) where that of x, (1, 3), is needed",
        ),
        (lambda: ops.lp_pool(tensor(4), window=2, p=0.0), "tenon.lp_pool: p is 0.0 where a number above 0 is needed"),
        (
            lambda: ops.layer_norm(tensor(2, 3), tensor(4)),
            "tenon.layer_norm: weight has shape (4,), which does not broadcast to x, (2, 3)",
        ),
        (
            lambda: ops.batch_norm(tensor(2, 3), tensor(4), tensor(3)),
            "tenon.batch_norm: x has 3 channels along axis 1 and mean has 4",
        ),
        (
            lambda: ops.cross_entropy(tensor(2, 3), tensor(3, dtype=np.int64)),
            "tenon.cross_entropy: labels has shape (3,) where logits (2, 3) needs (2,)",
        ),
        (
            lambda: ops.bitwise_and(tensor(2), tensor(2)),
            "tenon.bitwise_and: dtype of x is f32 where one of i8, i16, i32, i64, ui8, ui16, ui32, ui64, i1 is needed",
        ),
    ],
)
def test_inference_errors_name_the_op_the_rule_and_both_values(call: Callable[[], Any], message: str) -> None:
    with inserting(InsertionPoint(Block())), pytest.raises(InferenceError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("read", "x", "indices", "result"),
    [
        (ops.gather, (0, 3), (-1, -1), (-1, -1, 3)),
        (ops.gather_elements, (0, -1), (-1, -1), (-1, -1)),
        (ops.gather_nd, (0, 3), (-1, -1, 1), (-1, -1, 3)),
    ],
)
def test_of_places_whose_number_is_unknown_there_may_be_none(
    read: Callable[..., Any], x: tuple[int, ...], indices: tuple[int, ...], result: tuple[int, ...]
) -> None:
    block = Block(arg_types=[tensor_type(x, f32), tensor_type(indices, i64)])
    with inserting(InsertionPoint(block)):
        assert read(*map(Value, block.args)).shape == result
    block = Block(arg_types=[tensor_type(x, f32), tensor_type((*[2] * (len(indices) - 1), 1), i64)])
    with inserting(InsertionPoint(block)), pytest.raises(InferenceError, match="no elements along axis 0 to take"):
        read(*map(Value, block.args))


@pytest.mark.parametrize("function", [tenon.sort, tenon.argsort, lambda x: tenon.top_k(x, k=200)])
def test_rows_too_long_for_their_places_are_not_sorted(function: Callable[[Any], Any]) -> None:
    """Places are counted in i32."""
    row = "has 2147483648 elements along axis 1, and at most 2147483647 are sorted"
    with pytest.raises(InferenceError, match=rf"^tenon\.(sort|argsort|top_k): x {row}"):
        tenon.jit(function).trace(tenon.ShapeDtype((2, 2**31)))
    tenon.jit(function).trace(tenon.ShapeDtype((2, 2**31 - 1)))


def test_the_first_few_of_a_row_of_any_length_are_found() -> None:
    """Without its being sorted."""
    traced = tenon.jit(lambda x: tenon.top_k(x, k=5)).trace(tenon.ShapeDtype((2, 2**40)))
    assert "tensor<2x5xi64>" in str(traced)


def test_a_setting_out_of_its_choices_is_an_error() -> None:
    with inserting(InsertionPoint(Block())), pytest.raises(ValueError, match="'fast' is not one of 'none', 'tanh'"):
        ops.gelu(tensor(2), approximate="fast")


X = np.arange(2 * 3 * 5 * 7, dtype=np.float32).reshape(2, 3, 5, 7)
KEYS: list[Any] = [
    1,
    -1,
    (0, -2),
    (slice(None), 1),
    slice(1, None),
    (..., 2),
    (..., slice(None, None, -1)),
    (0, ..., slice(1, 6, 2)),
    (slice(None), slice(2, 0, -1), None, 3),
    (None, ..., None),
    (slice(5, 2),),
    (0, 1, 2, 3),
    (slice(-100, 100), slice(-2, None)),
    np.array([1, 0, 1]),
    (slice(None), np.array([[2, -1], [0, 0]])),
    (..., [6, 0]),
    (0, [1, 2]),
    (slice(None), 1, np.array([0, 4])),
    (np.int64(1), slice(None), None, np.int32(2)),
    ([1], slice(None), 2),
    ([0, 1], [1, 2]),
    (slice(None), [0, -1], np.array([[1], [3]])),
    (0, slice(None), [1]),
    (slice(None), [0], slice(None), 1),
    ([1, 0], ..., [[2, 6]]),
    (slice(None), 0, ..., [3, 3], slice(None, None, -3)),
    (None, [0], None, [1, 2]),
    ([0, 1], [1, 2], [3, 4], [5, 6]),
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_subscripts_select_what_numpy_does(key: Any) -> None:
    found = computed(lambda x: x[key], X)
    np.testing.assert_array_equal(found, X[key])


def test_a_traced_integer_is_a_subscript() -> None:
    found = computed(lambda x, i: x[:, i], X, np.array(2, np.int32))
    np.testing.assert_array_equal(found, X[:, 2])


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize(
    ("method", "update"),
    [("set", None), ("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)],
)
def test_parts_are_updated_as_numpy_does(key: Any, method: str, update: Any) -> None:
    values = 100 - np.arange(X[key].size, dtype=np.float32).reshape(X[key].shape)
    found = computed(lambda x, v: getattr(x.at[key], method)(v), X, values)
    expected = X.copy()
    if update is None:
        expected[key] = values
    else:
        update.at(expected, key, values)
    np.testing.assert_array_equal(found, expected)


def test_updates_outside_are_left_out() -> None:
    x = X[0, :, :, 0]
    rows, columns = np.array([0, -1, 3, -4, 1, 100]), np.array([1, 0, 0, 0, -100, 2])
    values = 100 + np.arange(6, dtype=np.float32)
    for dtype in (np.int64, np.int8, np.uint8):
        i, j = rows.astype(dtype), columns.astype(dtype)
        wanted = x.copy()
        for row, column, value in zip(i.astype(int), j.astype(int), values, strict=True):
            if -3 <= row < 3 and -5 <= column < 5:
                wanted[row, column] = value
        np.testing.assert_array_equal(tenon.jit(lambda x, i, j, v: x.at[i, j].set(v))(x, i, j, values), wanted)
    # a traced integer between a slice and an ellipsis
    step = tenon.jit(lambda x, i: x.at[1:, i, ...].add(1.0))
    for place in (1, -5, 5, -6):
        wanted = X[0].copy()
        if -5 <= place < 5:
            wanted[1:, place] += 1
        np.testing.assert_array_equal(step(X[0], np.array(place)), wanted)
    np.testing.assert_array_equal(computed(lambda x, i: x.at[i].get(), x, np.array([7, -9])), x[[-1, 0]])


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (2, IndexError, "index 2 is out of bounds for axis 0 of size 2"),
        ((slice(None), -4), IndexError, "index -4 is out of bounds for axis 1 of size 3"),
        ((0, 0, 0, 0, 0), IndexError, "5 indices for a tensor of rank 4"),
        ((..., 0, ...), IndexError, "more than one ellipsis"),
        (([0, 1], [0, 1, 2]), IndexError, "do not broadcast"),
        ((slice(None), [0, 3]), IndexError, "index 3 is out of bounds for axis 1 of size 3"),
        (True, TypeError, "truth value"),
        (1.5, IndexError, "index 1.5 is a float where integers"),
    ],
    ids=str,
)
def test_subscripts_that_are_refused_say_why(key: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        computed(lambda x: x[key], X)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)]),
        ("bij,bkj->bik", [(2, 3, 5), (2, 7, 5)]),
        ("ij,jk", [(2, 3), (3, 5)]),
        ("ii->i", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j,k->kij", [(2,), (3,), (5,)]),
        ("ij->ji", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("iij,jk", [(3, 3, 2), (2, 2)]),
        ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 2)]),
        ("b...,b...->b...", [(2, 3), (2, 4, 3)]),
        ("...,...", [(2, 1), (3,)]),
        ("ij,ij->ij", [(1, 3), (4, 3)]),
        ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 2)]),
        ("i,ij,j->", [(3,), (3, 4), (4,)]),
        ("ij->j", [(0, 3)]),
        (",", [(), ()]),
    ],
)
def test_einsum_is_numpys(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    found = computed(lambda *values: ops.einsum(equation, *values), *arrays)
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), rtol=1e-12)


@pytest.mark.parametrize("equation", ["ii->", "ii->i", "iijj->j", "ijji->"])
def test_diagonals_are_compiled(equation: str) -> None:
    x = np.random.default_rng(0).random([5] * equation.index("-")).astype(np.float32)
    found = tenon.jit(lambda x: tenon.einsum(equation, x))(x)
    np.testing.assert_allclose(found, np.einsum(equation, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->iz", "'z' is behind the arrow of 'ij,jk->iz', and in no operand"),
        ("ij->i", "has 1 operands, got 2"),
        ("ij,jk->ii", "'i' is 2 times behind the arrow of 'ij,jk->ii'"),
        ("ij,j.->i", "is not of the form"),
        ("i.j,jk->i", "'i.j' has 3 dimensions"),
        ("ijk,jk->i", "'ijk' has 3 dimensions, and operand 0 has 2"),
        ("ij,ik->jk", "dimension i is 2 and, in operand 1, 3"),
    ],
)
def test_einsum_errors_name_the_equation_or_the_operand(equation: str, message: str) -> None:
    with inserting(InsertionPoint(Block())), pytest.raises(ValueError, match=message):
        ops.einsum(equation, tensor(2, 3), tensor(3, 5))


def test_a_shape_may_be_given_as_arguments() -> None:
    assert computed(lambda x: x.reshape(6, -1).transpose(1, 0), X).shape == (35, 6)


def test_the_gradient_of_a_diagonal_is_diagonal() -> None:
    found = tenon.grad(lambda x: tenon.sum(tenon.einsum("ii->i", x) * np.arange(3.0)))(np.ones((3, 3)))
    np.testing.assert_array_equal(found, np.diag(np.arange(3.0)))


def test_a_loop_along_a_diagonal_of_the_result_leaves_the_rest_as_it_is() -> None:
    i = AffineExpr.dimension(0)
    assert reduction_loops(AffineMap(1, 0, (i, i))) == (True,)
    assert reduction_loops(AffineMap(1, 0, (i,))) == (False,)


def test_einsum_of_many_goes_two_at_a_time() -> None:
    traced = tenon.jit(lambda *xs: tenon.einsum("ij,jk,k->i", *xs)).trace(np.ones((8, 8)), np.ones((8, 8)), np.ones(8))
    assert str(traced.module).count("tenon.contract") == 2


def test_einsum_rounds_half_precision_once() -> None:
    arrays = [np.full(shape, 0.1, np.float16) for shape in ((4, 5), (5, 6), (6,))]
    exact = np.einsum("ij,jk,k->i", *[a.astype(np.float64) for a in arrays])
    np.testing.assert_array_equal(tenon.einsum("ij,jk,k->i", *arrays), exact.astype(np.float16))


def test_index_maps_stay_inside_of_the_operand() -> None:
    @tenon.tensor_op
    class ShiftedOp(tenon.IndexMapOp):
        """Rows of `x`, `by` further on, in turn from the last."""

        name = "errors.shifted"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        by = tenon.setting(int)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @staticmethod
        def infer(x: Any, *, by: int) -> Any:
            return x

        @staticmethod
        def source(index: Any, shape: Any, /, *, by: int) -> Any:
            return shape[0] - 1 - index[0] + by, index[1]

    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(ShiftedOp.apply(x, by=0), x[::-1])
    for by, places in ((1, "1 to 3"), (-1, "-1 to 1"), (10**8, "100000000 to 100000002")):
        with pytest.raises(InferenceError, match=f"errors.shifted: source reads places {places} of dimension 0, .* 3"):
            ShiftedOp.apply(x, by=by)


def test_indices_of_contractions_count_up() -> None:
    @tenon.tensor_op
    class BackwardsOp(tenon.ContractionOp):
        """Products of `a` (m, k) with `b` (k,) read from its end."""

        name = "errors.backwards"
        a = tenon.operand_def(tenon.FLOAT_TENSOR)
        b = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @staticmethod
        def indexing(m: Any, k: Any) -> Any:
            return (m, k), (3 - k,), (m,)

    with pytest.raises(InferenceError, match=r"errors.backwards: the index k\*-1 \+ 3 of b counts down"):
        BackwardsOp.apply(np.zeros((3, 4)), np.zeros(4))
