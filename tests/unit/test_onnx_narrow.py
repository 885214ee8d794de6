"""Types of 8 bits and less in ONNX models, against the standard's own implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tenon.dialects.types.types import NARROW, numpy_dtype
from tenon.onnx import OnnxError, load

Array = np.ndarray[Any, Any]
OPSET = 25
X = np.array(
    [0.0, -0.0, 1e-3, 0.3, 1.0, 1.25, 1.5, 2.5, 3.0, 7.9, 240.0, 260.0, 449.0, 479.0, 6e4, 1e9, np.inf, np.nan],
    np.float32,
)
SIGNED = np.concatenate([X, -X])


def model(operator: str, inputs: list[Array], **attributes: Any) -> onnx.ModelProto:
    """One node; inputs but the first are constants."""
    names = [f"x{i}" for i in range(len(inputs))]
    given = helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), inputs[0].shape)
    constants = [numpy_helper.from_array(x, name) for x, name in zip(inputs[1:], names[1:], strict=True)]
    node = helper.make_node(operator, names, ["y"], **attributes)
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "one", [given], [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


def agrees(proto: onnx.ModelProto, x: Array) -> None:
    """Assert that Tenon gives the codes that the standard's own implementation gives, all NaN alike."""
    with np.errstate(all="ignore"):
        results: Any = ReferenceEvaluator(proto).run(None, {"x0": x})
        expected: Array = results[0]
        (found,) = load(proto)(x)
        assert found.dtype == expected.dtype
        nan = np.isnan(expected.astype(np.float32))
        np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    size = found.dtype.itemsize
    np.testing.assert_array_equal(found[~nan].view(f"u{size}"), expected[~nan].view(f"u{size}"))


def code(name: str) -> int:
    return TensorProto.DataType.Value(name)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_floats_of_eight_bits(name: str, saturate: int) -> None:
    for dtype in (np.float32, np.float16):
        with np.errstate(all="ignore"):
            agrees(model("Cast", [SIGNED.astype(dtype)], to=code(name), saturate=saturate), SIGNED.astype(dtype))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str, saturate: int) -> None:
    x = np.concatenate(
        [X[2:-2], X[-1:], np.array([2**-126, 1.1 * 2**-126, 2**127, 1.1 * 2**127, 1.6 * 2**127], np.float32)]
    )
    agrees(model("Cast", [x], to=code("FLOAT8E8M0"), saturate=saturate, round_mode=mode), x)
    # Where that implementation leaves the standard's table, or takes 2^-127 for no power of two.
    ends = np.array([0.0, np.inf, 2.0**-127], np.float32)
    (found,) = load(model("Cast", [ends], to=code("FLOAT8E8M0"), saturate=saturate, round_mode=mode))(ends)
    expected = [2.0**-127, 2.0**127, 2.0**-127] if saturate else [np.nan, np.nan, 2.0**-127]
    np.testing.assert_array_equal(found.astype(np.float64), expected)


def test_a_round_mode_that_there_is_not() -> None:
    with pytest.raises(OnnxError, match="round_mode is 'odd' where 'up', 'down' or 'nearest' is needed"):
        load(model("Cast", [X], to=code("FLOAT8E8M0"), round_mode="odd"))(X)


@pytest.mark.parametrize("element", NARROW, ids=str)
def test_like_another_tensor(element: Any) -> None:
    dtype = numpy_dtype(element)
    x = np.array([0.5, 1, 2, 3, 5], np.float32)
    agrees(model("CastLike", [x, np.ones(1, np.float32).astype(dtype)]), x)
    agrees(model("Cast", [x.astype(dtype)], to=code("FLOAT16")), x.astype(dtype))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2FNUZ", "FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2"])
def test_quantized_by_blocks(name: str, saturate: int) -> None:
    x = (np.arange(24, dtype=np.float32).reshape(4, 6) - 9) * 7
    scale = np.array([[1, 2, 0.5], [4, 3, 1], [0.25, 1, 7], [2, 2, 2]], np.float32)
    quantized = model("QuantizeLinear", [x, scale], axis=1, block_size=2, output_dtype=code(name), saturate=saturate)
    agrees(quantized, x)
    (stored,) = load(quantized)(x)
    agrees(model("DequantizeLinear", [stored, scale], axis=1, block_size=2), stored)
    half = scale.astype(np.float16)
    agrees(model("DequantizeLinear", [stored, half], axis=1, block_size=2), stored)


def test_the_precision_of_quotients() -> None:
    x = np.linspace(0.0, 300.0, 1000, dtype=np.float32)
    scale = np.array(0.3, np.float32)
    for precision in ("FLOAT", "FLOAT16"):
        agrees(model("QuantizeLinear", [x, scale], output_dtype=code("FLOAT8E4M3FN"), precision=code(precision)), x)


def test_bits_of_truth_values() -> None:
    truths = np.array([True, False, True])
    proto = model("BitCast", [truths], to=code("UINT8"))
    proto.opset_import[0].version = 26
    np.testing.assert_array_equal(load(proto)(truths)[0], [1, 0, 1])
