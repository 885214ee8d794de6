"""Each ONNX operator against onnxruntime, or the standard's evaluator where that does not have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_operator_cases import BF16, CASES, F64, Case, X, floats, ints
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_errors  # pyright: ignore[reportAttributeAccessIssue]

import tenon.onnx
from tenon.onnx import OnnxError

Array = np.ndarray[Any, Any]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-10}
UNKNOWN_TO_IT = (
    runtime_errors.Fail,
    runtime_errors.InvalidArgument,
    runtime_errors.InvalidGraph,
    runtime_errors.NotImplemented,
    RuntimeError,
)


def expected(case: Case) -> list[Array]:
    """What onnxruntime gives, or the standard's evaluator where that does not know the node."""
    model = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if BF16 not in {x.dtype for x in case.inputs if x is not None}:
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return [np.asarray(y) for y in session.run(None, case.feeds())]
        except UNKNOWN_TO_IT:
            pass
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, case.feeds())]


FIRST = {case.operator: case for case in reversed(CASES)}
"""Of each operator; the others are variations."""


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.variation] * (c is not FIRST[c.operator]), id=str(c)) for c in CASES]
)
def test_an_operator_is_that_of_the_standard(case: Case) -> None:
    results = tenon.onnx.load(case.model())(**case.feeds())
    with np.errstate(all="ignore"):
        wanted = expected(case)
    assert len(results) == len(wanted)
    for result, exact in zip(results, wanted, strict=True):
        assert result.dtype == exact.dtype
        assert result.shape == exact.shape
        tolerance = TOLERANCE.get(str(exact.dtype))
        if tolerance is None:
            np.testing.assert_array_equal(result, exact)
        else:
            wide = result.astype(F64), exact.astype(F64)
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("Flatten", 13, (X,), attributes={"axis": 5}), "axis 5 is outside of rank 3"),
        (Case("Split", 13, (floats(6), ints(1, 2)), 2), "do not make up dimension 0, which is 6"),
        (Case("Pad", 13, (X, ints(1, 2))), "pads has 2 entries where 6 are needed"),
        (Case("Conv", 11, (floats(1, 2, 9), floats(3, 2, 4)), attributes={"kernel_shape": [3]}), "kernel_shape is"),
        (Case("Conv", 11, (floats(1, 2, 9), floats(3, 2, 4)), attributes={"auto_pad": "MUCH"}), "auto_pad is 'MUCH'"),
        (Case("Gelu", 20, (X,), attributes={"approximate": "much"}), "approximate is 'much'"),
        (Case("Expand", 13, (X, ints(5))), "do not broadcast"),
        (Case("EyeLike", 9, (floats(4),)), "an operand has rank 1 where 2 is needed"),
        (Case("Range", 11, (np.asarray(0), np.asarray(3), np.asarray(0))), "delta is 0"),
        (Case("Cast", 13, (X,), attributes={"to": onnx.TensorProto.STRING}), "dtype string is not supported"),
        (Case("Resize", 13, (X,)), "neither scales nor sizes is given"),
        (Case("LpNormalization", 7, (X,), attributes={"p": 3}), "p is 3 where 1 or 2 is needed"),
        (
            Case("RNN", 14, (floats(5, 2, 3), floats(1, 4, 3), floats(1, 4, 4)), attributes={"activations": ["Sine"]}),
            "activation 'Sine' is not supported",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_fit_is_named(case: Case, message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        tenon.onnx.load(case.model())(**case.feeds())
