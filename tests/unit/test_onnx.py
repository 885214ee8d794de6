"""ONNX models: run, traced, differentiated, written as IR, and what is said where that is not possible."""

from __future__ import annotations

import sys
import unittest
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnxruntime
import pytest
from onnx import helper
from onnx_models import info, model, node, perceptron

import tenon
from tenon.onnx import Backend, OnnxError, load
from tenon.runtime.stages import Traced

F32 = np.float32


def values(*shape: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def perceptron_result(x: Any, weights: dict[str, Any]) -> Any:
    return np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"]


# --- running --------------------------------------------------------------------------------------


def test_runs_with_any_batch(tmp_path: Path) -> None:
    proto, weights = perceptron()
    onnx.save(proto, tmp_path / "perceptron.onnx")
    given = load(tmp_path / "perceptron.onnx")
    assert str(given.inputs[0]) == "x: float32[N, 8]"
    assert [output.name for output in given.outputs] == ["y"]
    assert given.weights.keys() == weights.keys()
    for size in (1, 4, 0, 4):
        x = values(size, 8)
        (y,) = given(x)
        np.testing.assert_allclose(y, perceptron_result(x, weights), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(given(x=x)[0], y)
    assert repr(given) == "Model(perceptron.onnx: (x: float32[N, 8]) -> (y: ?[*]), 3 weights)"


def test_one_program_for_every_batch(capsys: pytest.CaptureFixture[str]) -> None:
    proto, weights = perceptron()
    given = load(proto)
    jitted = tenon.jit(lambda x: given(x), dynamic={"x": ("n", None)})
    with tenon.knobs.override(log_compiles=True):
        for size in (3, 1, 7):
            x = values(size, 8)
            np.testing.assert_allclose(jitted(x)[0], perceptron_result(x, weights), rtol=1e-4, atol=1e-5)
    said = capsys.readouterr().err
    assert "x is f32[n, 8]" in said
    assert "again" not in said


def test_weights_are_arguments() -> None:
    proto, weights = perceptron()
    given = load(proto)
    x = values(2, 8)
    given(x)
    given.weights["w2"] = 2 * weights["w2"]
    np.testing.assert_allclose(given(x)[0], 2 * perceptron_result(x, weights), rtol=1e-4, atol=1e-5)
    given.weights["w2"] = np.ones((16, 5), F32)
    assert given(x)[0].shape == (2, 5)


def test_compiles_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    given = load(perceptron()[0])
    given.compile((3, 8))
    with tenon.knobs.override(debug=1):
        given(values(3, 8))
        assert capsys.readouterr().err == ""
        given(values(23, 8))  # a size that no other test has compiled for
        assert "small: ready in" in capsys.readouterr().err
    with pytest.raises(ValueError, match="the shape of input 'x' has to be known to compile"):
        given.compile()


def test_initializers_that_are_inputs() -> None:
    proto = model([node("Mul", "x w", "y")], {"x": (F32, (2,)), "w": (F32, (2,))}, ["y"], {"w": np.ones(2, F32)})
    given = load(proto)
    assert [i.name for i in given.inputs] == ["x"]
    x = np.array([2, 3], F32)
    np.testing.assert_array_equal(given(x)[0], x)
    np.testing.assert_array_equal(given(x, w=x)[0], x * x)


def test_integers_that_are_inputs_and_initializers() -> None:
    proto = model(
        [node("Reshape", "x s", "y")], {"x": (F32, (6,)), "s": (np.int64, (2,))}, ["y"], {"s": np.array([2, 3])}
    )
    given = load(proto)
    assert [given(values(6), **s)[0].shape for s in ({}, {"s": np.array([3, 2])}, {})] == [(2, 3), (3, 2), (2, 3)]


@pytest.mark.parametrize("name", ["self", "weights", "path", "a b", 'q"'])
def test_inputs_of_any_name(name: str, tmp_path: Path) -> None:
    proto = model([helper.make_node("Neg", [name], ["y"])], {name: (F32, (2,))}, ["y"])
    given = load(proto)
    x = values(2)
    np.testing.assert_array_equal(given(**{name: x})[0], -x)
    np.testing.assert_array_equal(Backend.run_model(proto, {name: x})[0], -x)
    given.to_mlir(tmp_path / "given.mlir", **{name: (2,)})


def test_numbers_that_the_dtype_does_not_have() -> None:
    given = load(model([node("Neg", "x", "y")], {"x": (np.int8, ())}, ["y"]))
    assert given(3.0)[0] == -3
    for number in (300, 2.5, float("nan"), 10**30):
        with pytest.raises(TypeError, match=r"input x: int8\[\] is given as"):
            given(number)


def test_outputs_that_are_inputs_or_constants() -> None:
    given = load(
        model([node("Identity", "x", "y")], {"x": (F32, (2,))}, ["x", "y", "c"], {"c": np.arange(3, dtype=np.int64)})
    )
    x, y, c = given(np.array([1, 2], F32))
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(c, [0, 1, 2])
    assert c.dtype == np.int64


def test_errors_of_calls() -> None:
    given = load(model([node("Add", "a b", "c")], {"a": (F32, ("N", 2)), "b": (F32, ("N", 2))}, ["c"]))
    a = values(3, 2)
    for call, expected in (
        (lambda: given(a), r"input b: float32\[N, 2\] is missing"),
        (lambda: given(a, a, a), r"takes 2 inputs \(a, b\), got 3"),
        (lambda: given(a, a=a), "input 'a' is given twice"),
        (lambda: given(a, d=a), r"has no input named 'd' \(inputs: a, b\)"),
        (lambda: given(a, a.astype(np.float64)), r"input b: float32\[N, 2\] is given as float64\[3, 2\]"),
        (lambda: given.apply({"w": a}, a, a), "has no weight named 'w'"),
    ):
        with pytest.raises(TypeError, match=expected):
            call()
    for call, expected in (
        (lambda: given(a, values(3, 3)), r"input b: float32\[N, 2\] \(with N = 3\) is given as float32\[3, 3\]"),
        (lambda: given(a, values(4, 2)), r"\(with N = 3\) is given as float32\[4, 2\]"),
        (lambda: given(a[0], a), r"input a: float32\[N, 2\] is given as float32\[2\]"),
    ):
        with pytest.raises(ValueError, match=expected):
            call()
    with pytest.raises(ValueError, match="device 'tpu' is not one of cpu, cuda"):
        load(perceptron()[0], device="tpu")


# --- values that decide shapes --------------------------------------------------------------------


def reshaping() -> onnx.ModelProto:
    return model([node("Reshape", "x s", "y", "change")], {"x": (F32, None), "s": (np.int64, None)}, ["y"])


def test_a_shape_as_input() -> None:
    given = load(reshaping())
    x = values(4, 3)
    for shape in ((3, 4), (2, -1), (12,), (3, 4)):
        np.testing.assert_array_equal(given(x, np.array(shape))[0], x.reshape(shape))
    # Not the value alone, but the shape of the shape is part of what is compiled, too.
    assert given(x, np.array([1, 12]))[0].shape == (1, 12)


def test_a_shape_computed_from_an_input() -> None:
    nodes = [
        node("Mul", "n two", "doubled"),
        node("Concat", "doubled minus", "s", axis=0),
        node("Reshape", "x s", "y"),
    ]
    weights = {"two": np.array([2]), "minus": np.array([-1])}
    given = load(model(nodes, {"x": (F32, None), "n": (np.int64, (1,))}, ["y"], weights))
    assert given(values(4, 3), np.array([3]))[0].shape == (6, 2)


def test_shape_arithmetic_is_done_while_importing() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 minus", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    weights = {"zero": np.array(0), "axes": np.array([0]), "minus": np.array([-1])}
    given = load(model(nodes, {"x": (F32, ("N", 2, 3))}, ["y"], weights))
    text = str(given.trace((4, 2, 3)))
    body = [line for line in text.splitlines() if "tenon." in line]
    assert body == ["    %0 = tenon.reshape %x {shape = [4, -1]} : tensor<4x2x3xf32> -> tensor<4x6xf32>"]
    assert given(values(5, 2, 3))[0].shape == (5, 6)


def test_a_value_that_is_missing() -> None:
    with pytest.raises(OnnxError) as caught:
        load(reshaping()).trace((4, 3), (2,))
    assert str(caught.value) == (
        "small: Reshape node 'change': shape: has to be known, and hangs on the value of 's'; no value of 's' is "
        "given, as where it is traced: call the model on arrays, outside of jit and grad"
    )
    assert isinstance(load(reshaping()).trace((4, 3), np.array([3, 4])), Traced)


def test_a_float_weight_that_decides_a_shape() -> None:
    nodes = [node("Cast", "size", "s", to=onnx.TensorProto.INT64), node("Reshape", "x s", "y")]
    given = load(model(nodes, {"x": (F32, (6,))}, ["y"], {"size": np.array([2, 3], F32)}))
    assert given(values(6))[0].shape == (2, 3)
    assert tenon.jit(lambda x: given.apply(given.weights, x)[0])(values(6)).shape == (2, 3)


def test_branches() -> None:
    def branch(name: str, operator: str) -> onnx.GraphProto:
        return helper.make_graph([node(operator, "x", name)], name, [], [info(name, None)])

    choice = node("If", "c", "y", then_branch=branch("a", "Neg"), else_branch=branch("b", "Abs"))
    given = load(model([choice], {"c": (np.bool_, ()), "x": (F32, (3,))}, ["y"]))
    x = np.array([-1, 2, -3], F32)
    np.testing.assert_array_equal(given(True, x)[0], -x)
    np.testing.assert_array_equal(given(False, x)[0], abs(x))
    assert "tenon.cond" in str(given.trace())
    known = load(model([choice], {"x": (F32, (3,))}, ["y"], {"c": np.array(False)}))
    assert "tenon.cond" not in str(known.trace())
    np.testing.assert_array_equal(known(x)[0], abs(x))


# --- transformations ------------------------------------------------------------------------------


def test_gradient() -> None:
    proto, weights = perceptron()
    given = load(proto)
    x = values(4, 8)

    def loss(weights: Any, x: Any) -> Any:
        (y,) = given.apply(weights, x)
        return (y * y).mean()

    gradient = tenon.grad(loss)(given.weights, x)
    assert gradient.keys() == weights.keys()
    wide = {name: w.astype(np.float64) for name, w in weights.items()}
    for name, position in (("w1", (2, 3)), ("b1", (4,)), ("w2", (5, 1))):
        moved = [{**wide, name: wide[name].copy()} for _ in range(2)]
        moved[0][name][position] += 1e-6
        moved[1][name][position] -= 1e-6
        high, low = [(perceptron_result(x.astype(np.float64), m) ** 2).mean() for m in moved]
        np.testing.assert_allclose(gradient[name][position], (high - low) / 2e-6, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(tenon.jit(loss)(given.weights, x), (given(x)[0] ** 2).mean(), rtol=1e-5)


def test_a_shape_that_is_computed_of_arrays_around_a_function() -> None:
    """Outside of `jit` these arrays, constants of the model among them, are inputs of what is traced."""
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s begin end", "n"),
        node("Constant", "", "rest", value=onnx.numpy_helper.from_array(np.array([-1]))),
        node("Concat", "n rest", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Mul", "r w", "y"),
    ]
    weights = {"begin": np.array([0]), "end": np.array([1]), "w": np.array(3, F32)}
    given = load(model(nodes, {"x": (F32, ("N", 2, 3))}, ["y"], weights))
    x = values(4, 2, 3)
    slopes = tenon.grad(lambda w: given.apply({"w": w}, x)[0].sum())(weights["w"])
    np.testing.assert_allclose(slopes, x.sum(), rtol=1e-5)
    rows = tenon.vmap(lambda w: given.apply({"w": w}, x)[0])(np.arange(2, dtype=F32))
    np.testing.assert_array_equal(rows[1], x.reshape(4, 6))
    last, _ = tenon.scan(lambda w, _: (w + given.apply({"w": w}, x)[0].sum(), None), weights["w"], length=2)
    np.testing.assert_allclose(last, 3 * (1 + x.sum()) ** 2, rtol=1e-4)


# --- opsets and functions -------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 13, 28])
def test_the_opset_decides(opset: int) -> None:
    """Axes of Squeeze were an attribute before opset 13, and Softmax flattened its input."""
    old = opset < 13
    squeeze = node("Squeeze", "x", "y", axes=[1]) if old else node("Squeeze", "x axes", "y")
    nodes = [squeeze, node("Softmax", "y", "z", axis=1)]
    given = load(model(nodes, {"x": (F32, (2, 1, 3, 4))}, ["z"], {} if old else {"axes": np.array([1])}, opset=opset))
    x = values(2, 1, 3, 4)
    exponentials = np.exp(x.squeeze(1).astype(np.float64))
    expected = exponentials / exponentials.sum(axis=(1, 2) if old else 1, keepdims=True)
    np.testing.assert_allclose(given(x)[0], expected, rtol=1e-5)


def test_functions_of_the_model() -> None:
    scaled = helper.make_function(
        "own",
        "Scaled",
        ["a", "b"],
        ["c"],
        [
            helper.make_node("Constant", [], ["k"]),
            node("Mul", "a k", "s"),
            node("Sum", "s b", "c"),
        ],
        [helper.make_opsetid("", 21)],
        ["factor"],
    )
    reference = scaled.node[0].attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT)
    reference.ref_attr_name = "factor"
    nodes = [node("Scaled", "x x", "y", "twice", domain="own", factor=3.0)]
    given = load(model(nodes, {"x": (F32, (2,))}, ["y"], functions=[scaled], domains={"own": 1}))
    np.testing.assert_array_equal(given(np.array([1, 2], F32))[0], [4, 8])
    nodes[0].input[:] = ["x"]
    without = load(model(nodes, {"x": (F32, (2,))}, ["y"], functions=[scaled], domains={"own": 1}))
    np.testing.assert_array_equal(without(np.array([1, 2], F32))[0], [3, 6])


def test_bodies_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenon.onnx import operators

    operators.operator_names()
    monkeypatch.delitem(operators._TABLE, ("", "Gelu"))
    monkeypatch.delitem(operators._TABLE, ("", "Softplus"))
    given = load(model([node("Gelu", "x", "g"), node("Softplus", "g", "y")], {"x": (F32, (3,))}, ["y"]))
    x = values(3)
    gelu = np.array([v / 2 * (1 + __import__("math").erf(v / 2**0.5)) for v in x.astype(np.float64)])
    np.testing.assert_allclose(given(x)[0], np.log1p(np.exp(gelu)), rtol=1e-5)


def test_unsupported_operators_are_listed_at_once() -> None:
    branch = helper.make_graph([node("Inner", "x", "b", "deep", domain="own")], "branch", [], [info("b", None)])
    nodes = [
        node("Unknown", "x", "u", "first"),
        node("Neg", "u", "n", "fine"),
        node("Unknown", "n", "v", "second"),
        node("If", "c", "w", then_branch=branch, else_branch=branch),
        node("Outer", "w", "y", "last", domain="other"),
    ]
    proto = model(nodes, {"x": (F32, (2,)), "c": (np.bool_, ())}, ["y"], domains={"own": 3})
    with pytest.raises(OnnxError) as caught:
        load(proto)
    assert str(caught.value) == (
        "small: unsupported operators: Unknown (opset 21): 'first', 'second'; "
        "other.Outer (its domain is not imported): 'last'; own.Inner (opset 3): 'deep'"
    )
    assert not Backend.is_compatible(proto)


def test_errors_of_nodes_name_them() -> None:
    for nodes, expected in (
        ([node("MatMul", "x x", "y", "product")], "small: MatMul node 'product' on"),
        ([node("Neg", "x x", "y", "minus")], "small: Neg node 'minus': takes at most 1 inputs, got 2"),
        ([node("GRU", "x x x x x x x", "y", "gru")], "small: GRU node 'gru': takes at most 6 inputs, got 7"),
        ([node("Gather", "x", "y", "take")], "small: Gather node 'take': input 1 ('indices') is missing"),
        ([node("Unsqueeze", "x", "y", "up")], "small: Unsqueeze node 'up': 'axes' is missing"),
        ([node("Neg", "x", "y z", "minus")], "small: Neg node 'minus': output 1 ('z') is not supported"),
    ):
        with pytest.raises(OnnxError) as caught:
            load(model(nodes, {"x": (F32, (2, 3))}, ["y"])).trace()
        assert str(caught.value).startswith(expected)


# --- IR -------------------------------------------------------------------------------------------


def test_weights_are_kept_out_of_the_text(tmp_path: Path) -> None:
    proto, weights = perceptron()
    given = load(proto)
    assert "dense<" not in str(given.trace((4, 8)))
    path = tmp_path / "perceptron.mlir"
    given.to_mlir(path, (4, 8))
    text, _, resources = path.read_text().partition("{-#")
    assert "%w1: tensor<8x16xf32> {tenon.resource = dense_resource<w1> : tensor<8x16xf32>}" in text
    assert "dense<" not in text
    assert f'w1: "0x04000000{weights["w1"].tobytes().hex()}"' in resources


def test_large_constants_become_weights() -> None:
    table = values(40, 40)
    nodes = [
        helper.make_node("Constant", [], ["table"], value=onnx.numpy_helper.from_array(table)),
        node("MatMul", "x table", "y"),
    ]
    given = load(model(nodes, {"x": (F32, (1, 40))}, ["y"]))
    assert given.weights.keys() == {"table"}
    x = values(1, 40)
    np.testing.assert_allclose(given(x)[0], x @ table, rtol=1e-4, atol=1e-5)


# --- the backend of the onnx package --------------------------------------------------------------


def test_backend() -> None:
    proto, weights = perceptron()
    x = values(2, 8)
    expected = perceptron_result(x, weights)
    for inputs in ([x], {"x": x}, x):
        np.testing.assert_allclose(Backend.run_model(proto, inputs)[0], expected, rtol=1e-4, atol=1e-5)
    (y,) = Backend.run_node(node("Add", "a b", "c"), [x, x])
    np.testing.assert_array_equal(y, x + x)
    (y,) = Backend.run_node(node("ConcatFromSequence", "s", "c", axis=0), [[x, x]])
    np.testing.assert_array_equal(y, np.concatenate([x, x]))
    (y,) = Backend.run_node(node("Neg", "a", "c"), [[[1, 2], [3, 4]]])
    np.testing.assert_array_equal(y, [[-1, -2], [-3, -4]])
    assert Backend.is_compatible(proto)
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("TPU")
    assert not Backend.supports_device("CPU:1")
    assert not Backend.supports_device("CUDA:99")
    with pytest.raises(ValueError, match="device 'CPU:1' is not one of"):
        Backend.prepare(proto, "CPU:1")


def test_the_suite_of_the_onnx_package_runs_on_the_backend() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = onnx.backend.test.BackendTest(Backend, __name__)
        tests.include("test_(relu|softmax_axis_1|split_zero_size_splits_opset18)_cpu")
        result = unittest.TestResult()
        tests.test_suite.run(result)
    assert not result.errors + result.failures
    assert result.testsRun - len(result.skipped) == 3


def test_a_model_of_opset_7() -> None:
    """Attributes that have become inputs since, a Softmax of the flattened rest, and statistics by position."""
    weights = {
        "w": values(4, 3, 3, 3, seed=2),
        "ones": np.ones(4, F32),
        "zeros": np.zeros(4, F32),
        "slope": values(4, 1, 1, seed=3),
        "matrix": values(5, 16, seed=4),
        "bias": values(5, seed=5),
    }
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c ones zeros zeros ones", "n", epsilon=0.0, spatial=1),
        node("PRelu", "n slope", "p"),
        node("Pad", "p", "q", pads=[0, 0, 0, 0, 0, 0, 1, 1], value=0.5),
        node("Slice", "q", "s", axes=[2, 3], starts=[1, 1], ends=[5, 5]),
        node("MaxPool", "s", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Upsample", "m", "u", scales=[1.0, 1.0, 2.0, 2.0]),
        node("Clip", "u", "k", min=-1.0, max=1.0),
        node("AveragePool", "k", "a", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "a", "f"),
        node("Dropout", "f", "d", ratio=0.5),
        node("Gemm", "d matrix bias", "g", transB=1),
        node("Unsqueeze", "g", "v", axes=[1]),
        node("Softmax", "v", "y", axis=1),
        node("ReduceSum", "u", "r", axes=[1, -1], keepdims=0),
    ]
    proto = model(nodes, {"x": (F32, (2, 3, 4, 4))}, ["y", "r"], weights, opset=7)
    x = values(2, 3, 4, 4)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for result, expected in zip(load(proto)(x), map(np.asarray, session.run(None, {"x": x})), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_without_the_onnx_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "tenon.onnx")
    with pytest.raises(ModuleNotFoundError, match=r"tenon.onnx needs the onnx package: pip install tenon\[onnx\]"):
        import_module("tenon.onnx")


def test_names_of_the_package() -> None:
    assert tenon.onnx.load is load
    with pytest.raises(AttributeError, match=r"module 'tenon.onnx' has no attribute 'save'"):
        tenon.onnx.save  # noqa: B018


def test_inputs_may_be_nested_lists() -> None:
    given = load(model([node("Neg", "x", "y")], {"x": (F32, (1, 2))}, ["y"]))
    np.testing.assert_array_equal(given([[1.0, 2]])[0], np.array([[-1, -2]], np.float32))
    with pytest.raises(ValueError, match="is given as lists of different lengths"):
        given([[1.0], [1.0, 2.0]])


def test_batching_leaves_weights_as_they_are(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from tenon.tools import cli, opt

    proto, _ = perceptron()
    path, batched = tmp_path / "perceptron.mlir", tmp_path / "batched.mlir"
    load(proto).to_mlir(path, (4, 8))
    opt.main(["-p", "batch{size=3}", str(path), "-o", str(batched)])
    assert "%w1: tensor<8x16xf32> {tenon.resource =" in batched.read_text()
    x = values(3, 4, 8)
    np.save(tmp_path / "x.npy", x)
    result = tmp_path / "result.npy"
    run = CliRunner().invoke(cli.main, ["run", str(batched), "--args", str(tmp_path / "x.npy"), "-o", str(result)])
    assert run.exit_code == 0, run.output
    np.testing.assert_allclose(np.load(result), [load(proto)(example)[0] for example in x], rtol=1e-5)


def test_values_of_unknown_rank_are_traced() -> None:
    given = load(model([node("Squeeze", "x", "h"), node("Neg", "h", "y")], {"x": (F32, (1, 3, "n"))}, ["y"], opset=11))
    assert "tensor<*xf32>" in str(given.trace().module)
    for size in (1, 2):
        x = values(1, 3, size)
        np.testing.assert_array_equal(given(x)[0], -x.squeeze())
