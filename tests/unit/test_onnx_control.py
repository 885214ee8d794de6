"""If, Loop and Scan, decided while importing, or when the model runs; and the operators that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import info, model, node

import tenon.onnx
from tenon.onnx import OnnxError

F32, I64, BOOL = np.float32, np.int64, np.bool_
X = np.linspace(-1, 1, 6, dtype=F32).reshape(2, 3)


def graph(nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], outputs: Sequence[str]) -> onnx.GraphProto:
    """A graph for an attribute; inputs are scalars of a dtype unless a pair with their shape is given."""
    given = [info(name, *(kind if isinstance(kind, tuple) else (kind, ()))) for name, kind in inputs.items()]
    return onnx.helper.make_graph(nodes, "inner", given, [info(name, None) for name in outputs])


def constant(value: Any, output: str) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [output], value=onnx.numpy_helper.from_array(np.asarray(value)))


# --- If ---------------------------------------------------------------------------------------------------------------


def branches(then: str, otherwise: str, **attributes: Any) -> onnx.ModelProto:
    """A model of a condition and x, whose branches apply one operator each."""
    then_branch = graph([node(then, "x", "a")], {}, ["a"])
    else_branch = graph([node(otherwise, "x", "b", **attributes)], {}, ["b"])
    conditional = node("If", "c", "y", then_branch=then_branch, else_branch=else_branch)
    return model([conditional], {"c": (BOOL, ()), "x": (F32, (2, 3))}, ["y"])


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_chosen_when_the_model_runs(condition: bool) -> None:
    loaded = tenon.onnx.load(branches("Exp", "Abs"))
    (result,) = loaded(np.asarray(condition), X)
    np.testing.assert_allclose(result, np.exp(X) if condition else np.abs(X), rtol=1e-6)
    assert "tenon.cond" in str(loaded.trace(tenon.ShapeDtype((), "i1"), X).module)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_of_different_shapes_are_decided_by_the_value(condition: bool) -> None:
    loaded = tenon.onnx.load(branches("Exp", "ReduceSum", keepdims=0))
    (result,) = loaded(np.asarray(condition), X)
    assert result.shape == ((2, 3) if condition else ())


def test_a_known_condition_leaves_one_branch() -> None:
    then_branch, else_branch = graph([node("Exp", "x", "a")], {}, ["a"]), graph([node("Abs", "x", "b")], {}, ["b"])
    conditional = node("If", "c", "y", then_branch=then_branch, else_branch=else_branch)
    loaded = tenon.onnx.load(model([constant(np.asarray(False), "c"), conditional], {"x": (F32, (2, 3))}, ["y"]))
    traced = str(loaded.trace(X).module)
    assert "tenon.abs" in traced
    assert "tenon.exp" not in traced


# --- Loop -------------------------------------------------------------------------------------------------------------


def doubling(ending: Sequence[onnx.NodeProto]) -> onnx.GraphProto:
    """v = v + v, with v also as an output of each step; `ending` computes the condition `more`."""
    nodes = [node("Add", "v v", "w"), node("Identity", "w", "row"), *ending]
    return graph(nodes, {"i": I64, "going": BOOL, "v": (F32, (2,))}, ["more", "w", "row"])


def looping(body: onnx.GraphProto, inputs: str, outputs: str, given: dict[str, Any]) -> Callable[..., Any]:
    return tenon.onnx.load(model([node("Loop", inputs, outputs, body=body)], given, outputs.split()))


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_a_loop_of_known_length_stacks_its_outputs(steps: int) -> None:
    body = doubling([node("Identity", "going", "more")])
    loaded = looping(body, "n - v0", "last rows", {"n": (I64, ()), "v0": (F32, (2,))})
    start = np.asarray([1.0, -0.5], F32)
    last, rows = loaded(np.asarray(steps), start)
    np.testing.assert_array_equal(last, start * 2.0**steps)
    np.testing.assert_array_equal(rows, start * 2.0 ** np.arange(1, steps + 1, dtype=F32)[:, None])


def test_a_long_loop_is_a_scan() -> None:
    body = doubling([node("Identity", "going", "more")])
    nodes = [constant(np.asarray(50), "n"), node("Loop", "n - v0", "last rows", body=body)]
    traced = tenon.onnx.load(model(nodes, {"v0": (F32, (2,))}, ["last", "rows"])).trace(np.ones(2, F32))
    assert "tenon.scan" in str(traced.module)


def test_a_loop_ends_by_a_condition_on_what_it_carries() -> None:
    ending = [node("ReduceMax", "w", "most", keepdims=0), constant(np.asarray(100.0, F32), "limit")]
    ending.append(node("Less", "most limit", "more"))
    nodes = [node("Add", "v v", "w"), *ending]
    body = graph(nodes, {"i": I64, "going": BOOL, "v": (F32, (2,))}, ["more", "w"])
    loaded = looping(body, "- c v0", "last", {"c": (BOOL, ()), "v0": (F32, (2,))})
    (last,) = loaded(np.asarray(True), np.asarray([3.0, 1.0], F32))
    np.testing.assert_array_equal(last, [192.0, 64.0])
    (last,) = loaded(np.asarray(False), np.asarray([3.0, 1.0], F32))
    np.testing.assert_array_equal(last, [3.0, 1.0])


def test_a_loop_may_change_the_shape_of_what_it_carries() -> None:
    nodes = [node("Concat", "v v", "w", axis=0), node("Identity", "going", "more")]
    body = graph(nodes, {"i": I64, "going": BOOL, "v": (F32, None)}, ["more", "w"])
    loaded = looping(body, "n - v0", "last", {"n": (I64, ()), "v0": (F32, (2,))})
    assert loaded(np.asarray(3), np.ones(2, F32))[0].shape == (16,)


def test_a_loop_sees_the_step_and_names_around_it() -> None:
    nodes = [node("Cast", "i", "f", to=onnx.TensorProto.FLOAT), node("Mul", "f outer", "d"), node("Add", "v d", "w")]
    nodes.append(node("Identity", "going", "more"))
    body = graph(nodes, {"i": I64, "going": BOOL, "v": (F32, ())}, ["more", "w"])
    loaded = looping(body, "n - v0", "last", {"n": (I64, ()), "v0": (F32, ()), "outer": (F32, ())})
    (last,) = loaded(np.asarray(12), np.asarray(1.0, F32), np.asarray(0.5, F32))
    assert last == 1.0 + 0.5 * 66


def test_outputs_of_a_loop_without_steps_have_no_shape() -> None:
    body = doubling([node("Identity", "going", "more")])
    loaded = looping(body, "n - v0", "last rows", {"n": (I64, ()), "v0": (F32, (2,))})
    with pytest.raises(OnnxError, match="takes no steps"):
        loaded(np.asarray(0), np.ones(2, F32))


# --- Scan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("axis", "backward", "place"), [(0, 0, 0), (1, 0, 1), (0, 1, 0)])
def test_a_scan_runs_along_an_axis(axis: int, backward: int, place: int) -> None:
    nodes = [node("Add", "s x", "t"), node("Identity", "t", "row")]
    size = X.shape[1 - axis]
    body = graph(nodes, {"s": (F32, (size,)), "x": (F32, (size,))}, ["t", "row"])
    settings: dict[str, Any] = {
        "scan_input_axes": [axis],
        "scan_input_directions": [backward],
        "scan_output_axes": [place],
    }
    scanning = node("Scan", "s0 xs", "last rows", body=body, num_scan_inputs=1, **settings)
    loaded = tenon.onnx.load(model([scanning], {"s0": (F32, (size,)), "xs": (F32, X.shape)}, ["last", "rows"]))
    last, rows = loaded(np.zeros(size, F32), X)
    steps = np.flip(X, axis) if backward else X
    np.testing.assert_allclose(last, X.sum(axis), atol=1e-6)
    wanted = np.moveaxis(np.cumsum(np.moveaxis(steps, axis, 0), 0), 0, place)
    np.testing.assert_allclose(rows, wanted, atol=1e-6)


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_of_opset_8_runs_for_each_element_of_a_batch(direction: int) -> None:
    body = graph(
        [node("Add", "s x", "t"), node("Mul", "t t", "row")], {"s": (F32, (3,)), "x": (F32, (3,))}, ["t", "row"]
    )
    scanning = node("Scan", "- s0 xs", "last rows", body=body, num_scan_inputs=1, directions=[direction])
    given = {"s0": (F32, (2, 3)), "xs": (F32, (2, 4, 3))}
    start, xs = np.ones((2, 3), F32), np.arange(24, dtype=F32).reshape(2, 4, 3)
    last, rows = tenon.onnx.load(model([scanning], given, ["last", "rows"], opset=8))(start, xs)
    sums = 1 + np.cumsum(xs[:, ::-1] if direction else xs, 1)
    np.testing.assert_array_equal(last, sums[:, -1])
    np.testing.assert_array_equal(rows, sums**2)
    scanning.input[0] = "n"
    loaded = tenon.onnx.load(model([scanning], {"n": (I64, (2,)), **given}, ["last", "rows"], opset=8))
    with pytest.raises(OnnxError, match="sequence_lens"):
        loaded(np.asarray([4, 4]), start, xs)


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_a_scan_has_as_many_sequences_as_operands_at_most(count: int) -> None:
    body = graph([node("Identity", "s", "t")], {"s": (F32, (3,)), "x": (F32, (3,))}, ["t"])
    scanning = node("Scan", "s0 xs", "last", body=body, num_scan_inputs=count)
    loaded = tenon.onnx.load(model([scanning], {"s0": (F32, (3,)), "xs": (F32, (2, 3))}, ["last"]))
    with pytest.raises(OnnxError, match=f"num_scan_inputs is {count} for 2 operands"):
        loaded(np.ones(3, F32), np.ones((2, 3), F32))


# --- random numbers ---------------------------------------------------------------------------------------------------


def drawn(operator: str, *arrays: np.ndarray[Any, Any], name: str = "n", **attributes: Any) -> np.ndarray[Any, Any]:
    names = [f"x{i}" for i in range(len(arrays))]
    given = {n: (x.dtype, x.shape) for n, x in zip(names, arrays, strict=True)}
    source = model([node(operator, " ".join(names), "y", name=name, **attributes)], given, ["y"])
    return tenon.onnx.load(source)(*arrays)[0]


def test_random_numbers_follow_their_distributions() -> None:
    normal = drawn("RandomNormal", shape=[20000], mean=3.0, scale=2.0)
    assert abs(normal.mean() - 3.0) < 0.1
    assert abs(normal.std() - 2.0) < 0.1
    uniform = drawn("RandomUniformLike", np.zeros(20000, np.float64), low=-1.0, high=3.0)
    assert uniform.dtype == np.float64
    assert -1.0 <= uniform.min() < -0.99
    assert abs(uniform.mean() - 1.0) < 0.1
    chosen = drawn("Bernoulli", np.full(20000, 0.3, F32))
    assert abs(chosen.mean() - 0.3) < 0.02
    classes = drawn("Multinomial", np.log(np.asarray([[0.1, 0.9]], F32)), sample_size=5000)
    assert classes.dtype == np.int32
    assert abs(classes.mean() - 0.9) < 0.02


def test_random_numbers_depend_on_seed_and_node_alone() -> None:
    first = drawn("RandomUniform", shape=[8], seed=1.0)
    np.testing.assert_array_equal(first, drawn("RandomUniform", shape=[8], seed=1.0, name="other"))
    assert (first != drawn("RandomUniform", shape=[8], seed=2.0)).any()
    np.testing.assert_array_equal(drawn("RandomUniform", shape=[8]), drawn("RandomUniform", shape=[8]))
    assert (drawn("RandomUniform", shape=[8]) != drawn("RandomUniform", shape=[8], name="other")).any()


def test_dropout_in_training_drops_and_scales() -> None:
    x = np.ones(20000, F32)
    source = model(
        [node("Dropout", "x ratio training", "y mask")],
        {"x": (F32, (20000,)), "ratio": (F32, ()), "training": (BOOL, ())},
        ["y", "mask"],
    )
    y, mask = tenon.onnx.load(source)(x, np.asarray(0.25, F32), np.asarray(True))
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y, mask / F32(0.75), rtol=1e-6)
