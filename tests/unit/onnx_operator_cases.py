"""Uses of ONNX operators, in the versions that differ: tables of nodes, with what they are given."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx_models import info

Array = np.ndarray[Any, Any]
F16, F32, F64, BF16 = np.float16, np.float32, np.float64, ml_dtypes.bfloat16
I8, I16, I32, I64, U8, U32 = np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32


@dataclass(frozen=True)
class Case:
    """One node: inputs are arrays or `None`; those at `weights` are constants of the model."""

    operator: str
    opset: int
    inputs: tuple[Array | None, ...]
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: tuple[int, ...] = ()
    label: str = ""

    def __str__(self) -> str:
        shapes = "_".join("none" if x is None else f"{'x'.join(map(str, x.shape))}{x.dtype}" for x in self.inputs)
        shown = "-".join(
            f"{key}={value}" for key, value in self.attributes.items() if not isinstance(value, onnx.GraphProto)
        )
        return f"{self.operator}-{self.opset}-{shapes}-{shown}{self.label}".replace(" ", "")

    def model(self) -> onnx.ModelProto:
        """The node as a model, in the version of the file format that onnxruntime reads."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        results = [f"y{i}" for i in range(self.outputs)]
        given = [(n, x) for n, x in zip(names, self.inputs, strict=True) if x is not None]
        constants = {f"x{i}" for i in self.weights}
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(self.operator, names, results, name="node", **self.attributes)],
            "small",
            [info(n, x.dtype, x.shape) for n, x in given if n not in constants],
            [info(n, None) for n in results],
            [onnx.numpy_helper.from_array(x, n) for n, x in given if n in constants],
        )
        imports = [onnx.helper.make_opsetid("", self.opset)]
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=min(10, 3 + self.opset // 2))

    def feeds(self) -> dict[str, Array]:
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None and i not in self.weights}


CASES: list[Case] = []
_NAMES: set[str] = set()


def add(
    operator: str, opsets: int | tuple[int, ...], *inputs: Any, outputs: Any = 1, weights: Any = (), **attributes: Any
) -> None:
    for opset in (opsets,) if isinstance(opsets, int) else opsets:
        case = Case(operator, opset, inputs, outputs, attributes, weights)
        if str(case) in _NAMES:
            case = Case(operator, opset, inputs, outputs, attributes, weights, f"-{len(CASES)}")
        _NAMES.add(str(case))
        CASES.append(case)


def floats(*shape: int, dtype: Any = F32, low: float = -2.0, high: float = 2.0) -> Array:
    generator = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    return generator.uniform(low, high, shape).astype(dtype)


def whole(*shape: int, dtype: Any = I32, low: int = -9, high: int = 10) -> Array:
    generator = np.random.default_rng(zlib.crc32(repr(shape).encode()) + 1)
    return generator.integers(low, high, shape).astype(dtype)


def truths(*shape: int) -> Array:
    return whole(*shape, low=0, high=2).astype(np.bool_)


def ints(*numbers: int) -> Array:
    return np.asarray(numbers, I64)


X = floats(2, 3, 4)

# --- elementwise ------------------------------------------------------------------------------------------------------

for _name in ("Abs", "Ceil", "Exp", "Floor", "Neg", "Reciprocal", "Sigmoid", "Tanh", "Sqrt", "Relu", "Erf"):
    add(_name, 13, X)
    add(_name, 13, floats(3, dtype=F16, low=0.25))
    add(_name, 13, floats(0, 2))
    add(_name, 13, np.asarray(0.75, F32))
for _name in ("Cos", "Sin", "Tan", "Acos", "Asin", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Softplus", "Softsign"):
    add(_name, 9, floats(2, 5, low=-0.9, high=0.9))
for _name in ("Acosh", "Log"):
    add(_name, 13, floats(7, low=1.0, high=4.0))
for _name in ("Add", "Sub", "Mul", "Div"):
    add(_name, (7, 13), X, floats(3, 1))
    add(_name, 14, X.astype(F64), np.asarray(2.5))
    add(_name, 14, whole(2, 3), whole(3, low=1, dtype=I32))
    add(_name, 14, whole(4, dtype=I64), whole(1, low=-4, high=-1, dtype=I64))
    add(_name, 14, floats(3, dtype=F16), floats(2, 1, dtype=F16))
    add(_name, 14, floats(0, 3), floats(3))
    add(_name, 14, floats(4, dtype=BF16, low=1.0), floats(4, dtype=BF16, low=0.5))
add("Div", 14, whole(5, dtype=U8, low=0, high=200), whole(5, dtype=U8, low=1, high=9))
add("Div", 14, np.asarray([-7, 7, -8, 1], I8), np.asarray([2, -2, -3, 4], I8))
add("Pow", (7, 12), floats(3, low=0.1), floats(3))
add("Pow", (12, 15), floats(3), np.asarray(3, I64))
add("Pow", 15, whole(4, low=1), floats(4, low=0.0))
add("Pow", 15, whole(4, dtype=I64), np.asarray([2], I32))
for _dtype in (I32, I64, I8):
    add("Mod", (10, 13), whole(6, dtype=_dtype), np.asarray([3, -3, 5, -5, 2, 7], _dtype))
    add("Mod", 13, whole(6, dtype=_dtype), np.asarray([3, -3, 5, -5, 2, 7], _dtype), fmod=1)
add("Mod", 13, floats(6), np.asarray([0.7, -0.7, 1.5, -1.5, 2.0, 0.3], F32), fmod=1)
add("Mod", 13, whole(5, dtype=U8, low=0, high=250), np.asarray([7], U8))
for _name in ("Max", "Min", "Sum", "Mean"):
    add(_name, (8, 13), floats(2, 3), floats(3), floats(2, 1))
    add(_name, 13, floats(4, dtype=F16))
add("Max", 13, whole(4), whole(3, 1))
add("Min", 13, whole(4, dtype=U8, low=0, high=255), whole(4, dtype=U8, low=3, high=99))
for _name in ("And", "Or", "Xor"):
    add(_name, 7, truths(2, 3), truths(3))
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    add(_name, 18, whole(2, 3, dtype=I16), whole(3, dtype=I16))
    add(_name, 18, whole(3, dtype=U32, low=0, high=2**31), whole(2, 1, dtype=U32, low=0, high=99))
add("BitwiseNot", 18, whole(4, dtype=I64))
add("Not", 1, truths(4))
for _name in ("Equal", "Greater", "Less"):
    add(_name, (9, 13), whole(2, 3), whole(3))
    add(_name, 13, floats(4), floats(1))
add("Equal", 13, truths(4), truths(1))
for _name in ("GreaterOrEqual", "LessOrEqual"):
    add(_name, (12, 16), floats(4), floats(3, 1))
add("Where", (9, 16), truths(3, 1), floats(4), floats(3, 4))
add("Where", 16, truths(3), whole(3, dtype=U8, low=0), whole(3, dtype=U8, low=0))
for _x in (np.asarray([np.inf, -np.inf, np.nan, 1.0], F32),):
    add("IsNaN", (9, 13), _x)
    add("IsInf", 10, _x)
    add("IsInf", 10, _x, detect_negative=0)
    add("IsInf", 20, _x, detect_positive=0)
    add("IsInf", 20, _x.astype(F16))
for _name in ("Round", "Sign"):
    add(_name, 13, np.asarray([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.4], F32))
add("Sign", 13, whole(6))
add("BitShift", 11, np.asarray([16, 4, 1], U8), np.asarray([1, 2, 3], U8), direction="RIGHT")
add("BitShift", 11, np.asarray([16, 4, 1], U32), np.asarray([1, 2, 3], U32), direction="LEFT")
add("Clip", (6, 7), X, min=-0.5, max=1.0)
add("Clip", 7, X, max=0.25)
add("Clip", (11, 13), X, np.asarray(-0.5, F32), np.asarray(0.5, F32))
add("Clip", 12, whole(6), None, np.asarray(3, I32))
add("Clip", 13, whole(6, dtype=I8), np.asarray(5, I8), np.asarray(-5, I8))
add("Clip", 13, np.asarray(3.0, F32))
for _to in (F16, F64, I32, I64, U8, np.bool_, BF16):
    add("Cast", (9, 13), floats(2, 3, low=0.0, high=9.0), to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(_to)))
add("Cast", 13, whole(4, dtype=I32, low=-999, high=999), to=onnx.TensorProto.INT8)
add("Cast", 13, truths(4), to=onnx.TensorProto.FLOAT16)
add("CastLike", 15, floats(3), np.zeros(1, I64))

# --- activations ------------------------------------------------------------------------------------------------------

add("LeakyRelu", (6, 16), X, alpha=0.2)
add("PRelu", (7, 9, 16), X, floats(3, 1, low=0.0))
add("PRelu", 16, whole(4), np.asarray([3], I32))
for _name in ("Elu", "Selu", "HardSigmoid", "ThresholdedRelu", "Celu"):
    add(_name, 12, X)
    add(_name, 12, X, alpha=0.5)
add("Selu", 6, X, gamma=2.0)
add("HardSigmoid", 6, X, alpha=0.6, beta=0.1)
add("HardSwish", (14, 22), X * 3)
add("Mish", 18, X)
add("Gelu", 20, X)
add("Gelu", 20, X, approximate="tanh")
add("Swish", 24, X)
add("Swish", 24, X, alpha=0.5)
add("Shrink", 9, X, lambd=0.7, bias=0.2)
add("Relu", 14, whole(5))

# --- reductions -------------------------------------------------------------------------------------------------------

REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
for _name in REDUCTIONS:
    _x = floats(2, 3, 4, low=0.5)
    add(f"Reduce{_name}", (7, 11), _x, axes=[1], keepdims=0)
    add(f"Reduce{_name}", 11, _x, axes=[-1, 0])
    add(f"Reduce{_name}", 11, _x)
    _axes_are_input = 13 if _name == "Sum" else 18
    add(f"Reduce{_name}", (_axes_are_input, 21), _x, ints(1), keepdims=0)
    add(f"Reduce{_name}", 18, _x, ints(-1, 0), weights=(1,))
    add(f"Reduce{_name}", 18, _x)
    add(f"Reduce{_name}", 18, _x, noop_with_empty_axes=0)
    add(f"Reduce{_name}", 18, np.asarray(1.5, F32))
    add(f"Reduce{_name}", 18, _x.astype(F64), ints(0, 1, 2))
for _name in ("L1", "Max", "Min", "Prod", "Sum", "SumSquare", "Mean"):
    add(
        f"Reduce{_name}",
        13,
        whole(2, 3),
        *([ints(1)] if _name == "Sum" else []),
        **({} if _name == "Sum" else {"axes": [1]}),
    )
add("ReduceSum", 13, floats(2, 3), ints(), noop_with_empty_axes=1)
add("ReduceSumSquare", 18, floats(2, 3), ints(), noop_with_empty_axes=1)
add("ReduceSum", 13, floats(2, 0, 3), ints(1))
add("ReduceMax", 20, truths(2, 3), ints(1))
add("ReduceMin", 20, truths(2, 3), ints(0))
for _name in ("ArgMax", "ArgMin"):
    _x = np.asarray([[2, 1, 2], [3, 10, 10]], F32)
    for _settings in ({}, {"axis": 1}, {"axis": -1, "keepdims": 0}):
        add(_name, (7, 11, 13), _x, **_settings)
        add(_name, 13, _x, select_last_index=1, **_settings)
    add(_name, 13, whole(3, 4, dtype=I8), axis=1)

# --- shapes -----------------------------------------------------------------------------------------------------------

add("Shape", 13, X)
for _start, _end in ((1, None), (-1, None), (0, -1), (5, 9), (-9, 1)):
    add("Shape", 15, X, start=_start, **({} if _end is None else {"end": _end}))
add("Size", 13, X)
for _weights in ((), (1,)):
    add("Reshape", (7, 13), X, ints(6, -1), weights=_weights)
add("Reshape", 14, X, ints(0, -1))
add("Reshape", 14, floats(0, 3, 4), ints(3, 4, 0), allowzero=1)
add("Reshape", 14, floats(0, 3), ints(0, 3))
add("Reshape", 13, np.asarray(2.0, F32), ints(1, 1))
add("Reshape", 13, np.asarray([2.0], F32), ints())
for _axis in (0, 1, 2, 3):
    add("Flatten", 9, X, axis=_axis)
add("Flatten", 13, X, axis=-1)
add("Squeeze", (7, 11), floats(1, 3, 1), axes=[0])
add("Squeeze", 11, floats(1, 3, 1), axes=[-1])
add("Squeeze", 13, floats(1, 3, 1), ints(-1))
add("Squeeze", (11, 13), floats(1, 3, 1))
add("Unsqueeze", (7, 11), floats(3), axes=[0, 2])
add("Unsqueeze", 13, floats(3, 4), ints(-1, 0))
add("Transpose", 13, X)
add("Transpose", 13, X, perm=[2, 0, 1])
add("Expand", (8, 13), floats(3, 1), ints(2, 1, 4))
add("Expand", 13, floats(3, 4), ints(1))
add("Concat", (7, 13), floats(2, 3), floats(2, 1), axis=1)
add("Concat", 13, floats(2, 3), floats(2, 0), axis=-1)
add("Split", (7, 11), floats(6, 2), outputs=3)
add("Split", 11, floats(6, 2), outputs=2, split=[2, 4])
add("Split", 13, floats(6, 2), ints(1, 5), outputs=2)
add("Split", 13, floats(2, 6), outputs=2, axis=-1)
add("Split", 18, floats(7), outputs=3, num_outputs=3)
add("Slice", (7, 9), X, starts=[0, 1], ends=[1, 100], axes=[1, 2])
add("Slice", 9, X, starts=[-2], ends=[-1])
for _bounds in (
    (ints(1), ints(1000), ints(2), None),
    (ints(3, 0), ints(0, 2), ints(2, 1), ints(-2, 1)),
    (ints(-1), ints(-1000), ints(-1), ints(-1)),
    (ints(2), ints(1), ints(0), ints(1)),
    (ints(0), ints(-1), None, None),
):
    add("Slice", (10, 13), X, *_bounds)
add("Tile", (7, 13), floats(2, 3), ints(2, 1))
add("Tile", 13, floats(2, 3), ints(0, 2))
for _mode in ("DCR", "CRD"):
    add("DepthToSpace", (11, 13), floats(1, 8, 2, 3), blocksize=2, mode=_mode)
add("DepthToSpace", 7, floats(1, 8, 2, 3), blocksize=2)
add("SpaceToDepth", (7, 13), floats(1, 2, 4, 6), blocksize=2)

# --- indexing ---------------------------------------------------------------------------------------------------------

for _axis in (0, 1, -1):
    add("Gather", (7, 13), X, whole(2, 2, low=0, high=2, dtype=I64), axis=_axis)
    add("GatherElements", (11, 13), X, whole(2, 2, 2, low=0, high=2, dtype=I64), axis=_axis)
    add("ScatterElements", 11, X, whole(2, 2, 1, low=0, high=1, dtype=I64), floats(2, 2, 1), axis=_axis)
add("Gather", 11, X, np.asarray(-1, I64), axis=1)
add("Gather", 13, X, np.asarray([[0], [-2]], I32))
add("Gather", 13, floats(3, 4), np.zeros((0,), I64))
add("Scatter", 9, floats(3, 3), ints(1, 0, 2)[None], floats(1, 3))
for _reduction in ("add", "mul", "max", "min"):
    _opset = 16 if _reduction in ("add", "mul") else 18
    add("ScatterElements", _opset, floats(5), ints(1, 1, 3), floats(3), reduction=_reduction)
    add("ScatterND", _opset, floats(4, 2), ints(1, 1, 3)[:, None], floats(3, 2), reduction=_reduction)
add("ScatterND", (11, 13), floats(4, 2), ints(1, 3)[:, None], floats(2, 2))
add("ScatterND", 13, floats(4, 2), np.asarray([[0, 1], [3, -1]], I64), floats(2))
add("GatherND", (11, 13), X, np.asarray([[0, 1], [1, 2]], I64))
add("GatherND", 12, X, np.asarray([[1], [2]], I64), batch_dims=1)
for _upper in (0, 1):
    for _k in (None, np.asarray(1, I64), np.asarray(-2, I64), np.asarray(9, I64)):
        add("Trilu", 14, X, _k, upper=_upper)
add("Trilu", 14, whole(3, 3, dtype=I64))
for _settings in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
    add("CumSum", (11, 14), floats(2, 5), np.asarray(1, I32), **_settings)
add("CumSum", 14, whole(2, 5), np.asarray(-2, I64))
add("TopK", 9, floats(3, 7), outputs=2, k=3)
add("TopK", 10, floats(3, 7), ints(3), outputs=2)
for _largest in (0, 1):
    add("TopK", 11, floats(5, 4), ints(2), outputs=2, axis=0, largest=_largest)
add("TopK", 11, np.asarray([1, 3, 3, 2, 3], I64), ints(4), outputs=2)
_indices = np.asarray([[0, 2], [-1, 9]], I64)
for _axis in (-1, 0, 1):
    add("OneHot", (9, 11), _indices, np.asarray(3, I64), np.asarray([2, 5], F32), axis=_axis)
add("OneHot", 11, np.asarray([1.0, 2.0], F32), np.asarray(4.0, F32), np.asarray([0, 1], I32))
add("NonZero", (9, 13), np.asarray([[1, 0], [1, 1]], np.bool_))
add("NonZero", 13, np.asarray([0.0, 2.0, 0.0, 3.0], F32))
add("Compress", (9, 11), floats(3, 2), truths(3), axis=0)
add("Compress", 11, floats(3, 2), np.asarray([0, 1, 0, 1, 1], np.bool_))
for _settings in ({}, {"sorted": 0}, {"axis": 0}):
    add("Unique", 11, np.asarray([[2, 1], [1, 3], [2, 1]], F32), outputs=4, **_settings)
add("ReverseSequence", 10, floats(4, 3, 2), ints(1, 4, 3), time_axis=0, batch_axis=1)
add("ReverseSequence", 10, floats(3, 4), ints(1, 4, 3), time_axis=1, batch_axis=0)
add("Pad", (7, 10), floats(2, 3), pads=[0, 1, 2, 0], value=1.5)
for _mode in ("reflect", "edge"):
    add("Pad", 7, floats(3, 4), pads=[1, 2, 0, 1], mode=_mode)
    add("Pad", (11, 13), floats(3, 4), ints(1, 2, 0, 1), mode=_mode)
add("Pad", 13, floats(3, 4), ints(1, -1, 0, 2), np.asarray(2.5, F32))
add("Pad", 18, floats(2, 3, 4), ints(1, 2, 0, 1), None, ints(2, 0))
add("Pad", 19, floats(3, 4), ints(2, 1, 1, 2), mode="wrap")
add("Pad", 13, whole(3), ints(1, 1), np.asarray(7, I32))
add("Pad", 13, floats(0, 2), ints(1, 0, 0, 0))

# --- making tensors ---------------------------------------------------------------------------------------------------

add("ConstantOfShape", (9, 20), ints(2, 3))
add("ConstantOfShape", 9, ints(2, 0), value=onnx.numpy_helper.from_array(np.asarray([3], I32)))
add("ConstantOfShape", 9, ints())
for _range in ((1, 10, 3), (10, 1, -4), (5, 1, 2)):
    add("Range", 11, *[np.asarray(n, I64) for n in _range])
    add("Range", 11, *[np.asarray(n, F32) for n in _range])
add("Range", 11, np.asarray(0.0), np.asarray(1.0), np.asarray(0.3))
add("EyeLike", 9, floats(3, 4))
add("EyeLike", 9, whole(3, 4), k=-1, dtype=onnx.TensorProto.DOUBLE)
add("Constant", 13, value_ints=[1, 2, 3])
add("Constant", 13, value_float=2.5)
add("Constant", 7, value=onnx.numpy_helper.from_array(floats(2, 2)))

# --- sums of products -------------------------------------------------------------------------------------------------

add("MatMul", (7, 13), X, floats(4, 5))
add("MatMul", 13, floats(4), X.transpose(0, 2, 1).copy())
add("MatMul", 13, whole(2, 3), whole(3, 2))
add("MatMul", 13, floats(3, 4, dtype=F16), floats(4, 2, dtype=F16))
add("Gemm", (7, 9), floats(3, 4), floats(4, 5), floats(5))
for _settings in ({"transA": 1}, {"transB": 1}, {"alpha": 0.5, "beta": 0.25}, {"beta": 0.0}):
    _a = floats(4, 3) if "transA" in _settings else floats(3, 4)
    _b = floats(5, 4) if "transB" in _settings else floats(4, 5)
    add("Gemm", 11, _a, _b, floats(3, 1), **_settings)
add("Gemm", (11, 13), floats(3, 4), floats(4, 5))
for _equation, _shapes in (
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("bij,bjk", [(2, 3, 4), (2, 4, 5)]),
    ("ij->", [(2, 3)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("i,j", [(2,), (3,)]),
):
    add("Einsum", 12, *[floats(*shape) for shape in _shapes], equation=_equation)
add(
    "MatMulInteger",
    10,
    whole(2, 3, dtype=U8, low=0, high=255),
    whole(3, 4, dtype=U8, low=0, high=255),
    np.asarray(12, U8),
    np.asarray(3, U8),
)
add("QuantizeLinear", (10, 13), floats(2, 3), np.asarray(0.02, F32), np.asarray(128, U8))
add("QuantizeLinear", 13, floats(2, 3), floats(3, low=0.01, high=0.1), whole(3, dtype=I8), axis=1)
add("DequantizeLinear", (10, 13), whole(2, 3, dtype=I8), np.asarray(0.02, F32), np.asarray(3, I8))
add("DynamicQuantizeLinear", 11, floats(3, 4), outputs=3)

# --- windows ----------------------------------------------------------------------------------------------------------

_image, _weight = floats(2, 4, 7, 6), floats(6, 2, 3, 2)
for _settings in (
    {"group": 2},
    {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"group": 2, "dilations": [2, 1]},
    {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2, 2]},
):
    add("Conv", (7, 11), _image, _weight, floats(6), **_settings)
add("Conv", 11, floats(1, 2, 9), floats(3, 2, 4), strides=[2])
add("Conv", 11, floats(1, 2, 4, 5, 4), floats(3, 2, 2, 2, 2), kernel_shape=[2, 2, 2])
for _settings in (
    {},
    {"strides": [2, 3]},
    {"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 1]},
    {"dilations": [2, 1]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [3, 2], "output_shape": [10, 8]},
):
    add("ConvTranspose", (7, 11), floats(1, 4, 4, 3), floats(4, 2, 3, 3), **_settings)
add("ConvTranspose", 11, floats(1, 4, 5), floats(4, 1, 3), floats(2), group=2)
for _settings in (
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 2], "auto_pad": "VALID"},
):
    add("MaxPool", (7, 12), _image, **_settings)
    add("MaxPool", 8, _image, outputs=2, **_settings)
    add("AveragePool", (7, 11), _image, **_settings)
    add("LpPool", 11, _image, p=3, **_settings)
add("MaxPool", 12, _image, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
add("MaxPool", 12, _image, kernel_shape=[2, 2], dilations=[2, 3])
add("MaxPool", 12, whole(1, 1, 5, 5, dtype=I8), kernel_shape=[2, 2])
add("MaxPool", 12, floats(1, 1, 4, 4), outputs=2, kernel_shape=[2, 2], storage_order=1)
add("AveragePool", 11, _image, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
add("AveragePool", 11, _image, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
for _name in ("GlobalAveragePool", "GlobalMaxPool"):
    add(_name, 7, _image)
    add(_name, 7, floats(1, 2, 3))
add("GlobalLpPool", 7, _image, p=2)
add("LRN", (7, 13), floats(1, 5, 3, 3), size=3, alpha=0.1, beta=0.5, bias=2.0)
add("LRN", 13, floats(5, 5, 3, 3), size=4)

# --- normalization ----------------------------------------------------------------------------------------------------

for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    add(_name, (7, 11, 13), X)
    for _axis in (0, 1, -1):
        add(_name, (11, 13), X, axis=_axis)
_channels = [floats(4, low=0.5), floats(4), floats(4), floats(4, low=0.5)]
add("BatchNormalization", (7, 9, 14, 15), _image, *_channels)
add("BatchNormalization", 15, floats(5, 4), *_channels, epsilon=0.1)
add("BatchNormalization", 15, _image, *_channels, outputs=3, training_mode=1, momentum=0.7)
add("InstanceNormalization", 7, _image, *_channels[:2])
add("LayerNormalization", 17, X, floats(4), floats(4))
add("LayerNormalization", 17, X, floats(3, 4), outputs=3, axis=-2)
add("LayerNormalization", 17, X, floats(2, 3, 4), axis=0, epsilon=0.1)
add("RMSNormalization", 23, X, floats(4))
add("GroupNormalization", 18, _image, floats(2), floats(2), num_groups=2)
add("GroupNormalization", 21, _image, floats(4), floats(4), num_groups=2)
add("MeanVarianceNormalization", (9, 13), _image)
for _p in (1, 2):
    add("LpNormalization", 7, floats(3, 4), p=_p, axis=0)
_labels = whole(2, 7, 6, low=0, high=4, dtype=I64)
for _reduction in ("none", "sum", "mean"):
    add("NegativeLogLikelihoodLoss", (12, 13), _image, _labels, floats(4, low=0.1), reduction=_reduction)
    add("SoftmaxCrossEntropyLoss", (12, 13), _image, _labels, outputs=2, reduction=_reduction, ignore_index=1)
add("SoftmaxCrossEntropyLoss", 13, floats(3, 5), ints(0, 4, 2))
add("Dropout", (7, 10), X)
add("Dropout", (12, 13), X, np.asarray(0.3, F32))

# --- resizing ---------------------------------------------------------------------------------------------------------

_small = floats(1, 1, 3, 4)
_scales = np.asarray([1, 1, 2, 1.5], F32)
for _mode in ("nearest", "linear"):
    add("Upsample", 7, _small, mode=_mode, scales=_scales.tolist())
    add("Upsample", 9, _small, _scales, mode=_mode)
    add("Resize", 10, _small, _scales, mode=_mode)
    for _coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        add(
            "Resize",
            (11, 13),
            _small,
            np.zeros(0, F32),
            _scales,
            mode=_mode,
            coordinate_transformation_mode=_coordinates,
        )
for _nearest in ("floor", "ceil", "round_prefer_ceil"):
    add("Resize", 13, _small, None, None, ints(1, 1, 7, 3), nearest_mode=_nearest)
add("Resize", 13, _small, None, _scales, mode="cubic")
add("Resize", 13, _small, None, np.asarray([1, 1, 0.6, 0.6], F32), mode="cubic", exclude_outside=1)
add("Resize", 18, _small, None, None, ints(2, 5), mode="linear", axes=[2, 3], antialias=1)

# --- recurrence -------------------------------------------------------------------------------------------------------

for _name, _gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    for _direction, _count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        _parts = [
            floats(5, 2, 3),
            floats(_count, 4 * _gates, 3),
            floats(_count, 4 * _gates, 4),
            floats(_count, 8 * _gates),
        ]
        add(_name, (7, 14), *_parts, outputs=2, hidden_size=4, direction=_direction)
    add(
        _name,
        14,
        *_parts,
        np.asarray([5, 3], I32),
        floats(2, 2, 4),
        outputs=2,
        hidden_size=4,
        direction="bidirectional",
    )
add(
    "GRU",
    14,
    floats(5, 2, 3),
    floats(1, 12, 3),
    floats(1, 12, 4),
    floats(1, 24),
    outputs=2,
    hidden_size=4,
    linear_before_reset=1,
)
add(
    "LSTM",
    14,
    floats(5, 2, 3),
    floats(1, 16, 3),
    floats(1, 16, 4),
    floats(1, 32),
    None,
    floats(1, 2, 4),
    floats(1, 2, 4),
    floats(1, 12),
    outputs=3,
    hidden_size=4,
)

# --- sampling, windows, transforms, detection -------------------------------------------------------------------------

for _mode, _padding, _align in (("linear", "zeros", 0), ("cubic", "border", 1), ("nearest", "reflection", 0)):
    add(
        "GridSample",
        20,
        floats(2, 3, 4, 5),
        floats(2, 3, 2, 2, low=-1.3, high=1.3),
        mode=_mode,
        padding_mode=_padding,
        align_corners=_align,
    )
add("GridSample", 16, floats(1, 1, 4, 5), floats(1, 3, 2, 2, low=-1.3, high=1.3), mode="bilinear")
_parts = np.asarray([[0.5, 1, 6.2, 5], [2, 0, 3, 4], [1, 1, 9, 9]], F32)
for _opset, _ratio, _mode in ((10, 2, "avg"), (16, 0, "avg"), (16, 2, "max")):
    add(
        "RoiAlign",
        _opset,
        floats(2, 2, 7, 8),
        _parts,
        ints(0, 1, 1),
        output_height=2,
        output_width=3,
        sampling_ratio=_ratio,
        spatial_scale=0.8,
        mode=_mode,
    )
add("DeformConv", 19, floats(1, 4, 5, 5), floats(2, 2, 3, 3), floats(1, 36, 3, 3), None, None, group=2, offset_group=2)
add("DeformConv", 19, floats(1, 2, 5, 5), floats(3, 2, 2, 2), floats(1, 8, 4, 4), floats(3), floats(1, 4, 4, 4))
add(
    "Col2Im",
    18,
    floats(2, 12, 9),
    ints(7, 7),
    ints(2, 2),
    weights=(1, 2),
    strides=[2, 2],
    dilations=[2, 1],
    pads=[0, 0, 1, 0],
)
add("Det", (11, 22), floats(2, 3, 3))
for _axis, _length, _inverse, _onesided in ((1, None, 0, 1), (1, 6, 0, 0), (2, 3, 1, 0)):
    _count = None if _length is None else np.asarray(_length, I64)
    _given = floats(2, 5, 4, 1 if _onesided else 2)
    add(
        "DFT", 17, _given, _count, weights=(1,) * (_count is not None), axis=_axis, inverse=_inverse, onesided=_onesided
    )
    add(
        "DFT",
        20,
        _given,
        _count,
        np.asarray(_axis, I64),
        weights=(1, 2) if _length else (2,),
        inverse=_inverse,
        onesided=_onesided,
    )
add("STFT", 17, floats(2, 20, 1), np.asarray(3, I64), floats(8), np.asarray(8, I64), weights=(1, 3))
add("STFT", 17, floats(1, 16, 2), np.asarray(4, I64), None, np.asarray(7, I64), weights=(1, 3), onesided=0)
add("MelWeightMatrix", 17, *(np.asarray(n, I64) for n in (10, 64, 8000)), np.asarray(20, F32), np.asarray(3500, F32))
for _center in (0, 1):
    add(
        "NonMaxSuppression",
        11,
        floats(2, 9, 4, low=0.2, high=2),
        floats(2, 3, 9, low=0),
        np.asarray([4], I64),
        np.asarray([0.3], F32),
        np.asarray([0.5], F32),
        center_point_box=_center,
    )
add("TensorScatter", 24, floats(2, 3, 6, 2), floats(2, 3, 4, 2), ints(1, 2))
add("TensorScatter", 24, floats(2, 6, 3), floats(2, 4, 3), ints(5, 3), mode="circular", axis=1)
for _mode in ("TF", "IDF", "TFIDF"):
    add(
        "TfIdfVectorizer",
        9,
        whole(3, 9, low=1, high=5),
        mode=_mode,
        min_gram_length=1,
        max_gram_length=3,
        max_skip_count=2,
        ngram_counts=[0, 3, 7],
        ngram_indexes=[2, 0, 1, 5, 4, 3],
        pool_int64s=[1, 2, 4, 1, 2, 3, 3, 1, 2, 3],
        weights=[0.5, 2.0, 1.5, 1.0, 3.0, 0.25],
    )
add("Range", 11, np.asarray([0], I64), np.asarray([5], I64), np.asarray(2, I64))
