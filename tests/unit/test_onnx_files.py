"""ONNX files that are damaged or hostile: always one error, never a crash, and never a read outside of the folder."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import info, model, node, perceptron

from tenon.onnx import OnnxError, load


def message(source: Any) -> str:
    """The error of a model that must not be read."""
    with pytest.raises(OnnxError) as caught:
        load(source)
    return str(caught.value)


@pytest.fixture
def data() -> bytes:
    return perceptron()[0].SerializeToString()


# --- damaged files --------------------------------------------------------------------------------


def test_truncated_anywhere(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    refused = 0
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        try:
            load(path)
        except OnnxError as error:
            refused += str(error).startswith("cut.onnx: ")
    # What is cut off may be metadata alone: the graph is the last but one field.
    assert refused >= len(range(0, len(data), 7)) - 3


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes(data: bytes, seed: int) -> None:
    generator = random.Random(seed)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(generator.choice((1, 1, 2, 8))):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            load(bytes(damaged)).trace()
            outcomes["read"] += 1
        except OnnxError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 10


def test_flips_in_the_structure() -> None:
    """A model with little data and much structure: subgraphs, attributes, functions."""
    branch = helper.make_graph([node("Neg", "x", "b")], "branch", [], [info("b", None)])
    other = helper.make_graph([node("Abs", "x", "o")], "other", [], [info("o", None)])
    nodes = [
        node("If", "c", "y", "choice", then_branch=branch, else_branch=other),
        node("Transpose", "y", "t", perm=[1, 0]),
        node("Constant", "", "k", value=onnx.numpy_helper.from_array(np.arange(3))),
        node("Gather", "t k", "z", axis=0),
    ]
    data = model(nodes, {"x": (np.float32, (2, 3)), "c": (np.bool_, ())}, ["z"]).SerializeToString()
    generator = random.Random(5)
    for _ in range(600):
        damaged = bytearray(data)
        damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        with contextlib.suppress(OnnxError):
            load(bytes(damaged)).trace()


def test_random_bytes() -> None:
    generator = random.Random(2)
    for size in (1, 2, 10, 100, 1000):
        for _ in range(20):
            message(generator.randbytes(size))


def test_not_a_model(tmp_path: Path) -> None:
    empty = tmp_path / "empty.onnx"
    empty.touch()
    assert message(empty) == "empty.onnx: is empty"
    text = tmp_path / "text.onnx"
    text.write_text("builtin.module {}\n" * 10)
    assert message(text) == "text.onnx: is not an ONNX model, or is truncated"
    assert "no IR version" in message(onnx.ModelProto(producer_name="nobody").SerializeToString())
    assert "no graph" in message(onnx.ModelProto(ir_version=10).SerializeToString())
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.onnx")


# --- graphs ---------------------------------------------------------------------------------------

X = {"x": (np.float32, (2, 3))}


def test_cycles() -> None:
    text = message(model([node("Add", "x b", "a", "one"), node("Neg", "a", "b", "two")], X, ["b"]))
    assert text == "small: Add node 'one': uses 'b' before it is computed (a cycle or a wrong order)"
    assert "uses 'a' before it is computed" in message(model([node("Add", "x a", "a")], X, ["a"]))


def test_names() -> None:
    assert "uses 'nothing' that nothing defines" in message(model([node("Add", "x nothing", "y")], X, ["y"]))
    assert "output 'y' is defined twice" in message(model([node("Neg", "x", "y"), node("Abs", "x", "y")], X, ["y"]))
    assert "output 'x' is defined twice" in message(model([node("Neg", "x", "x")], X, ["x"]))
    assert "output 'z' is not computed by any node" in message(model([node("Neg", "x", "y")], X, ["z"]))
    twice = model([node("Neg", "x", "y")], X, ["y"])
    twice.graph.input.append(twice.graph.input[0])
    assert "input 'x' is defined twice" in message(twice)
    again = model([node("Add", "x w", "y")], X, ["y"], {"w": np.ones(3, np.float32)})
    again.graph.initializer.append(again.graph.initializer[0])
    assert "initializer 'w' is defined twice" in message(again)


def test_names_of_a_branch_end_with_it() -> None:
    branch = helper.make_graph([node("Neg", "x", "b")], "branch", [], [info("b", None)])
    nodes = [node("If", "c", "y", then_branch=branch, else_branch=branch), node("Abs", "b", "z")]
    assert "uses 'b' that nothing defines" in message(model(nodes, {**X, "c": (np.bool_, ())}, ["z"]))


def test_functions_that_call_themselves() -> None:
    function = helper.make_function("own", "Again", ["a"], ["b"], [node("Again", "a", "b", domain="own")], [])
    given = model([node("Again", "x", "y", domain="own")], X, ["y"], functions=[function], domains={"own": 1})
    assert "calls itself" in message(given)


def chained(count: int, calls: int) -> onnx.ModelProto:
    """Functions each of which calls the one before it so many times."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["t0"], [node("Neg", "a", "t0")], opsets)]
    for number in range(1, count):
        names = ["a", *[f"t{i}" for i in range(calls)]]
        inner = [node(f"F{number - 1}", x, y, domain="own") for x, y in itertools.pairwise(names)]
        functions.append(helper.make_function("own", f"F{number}", ["a"], [names[-1]], inner, opsets))
    last = node(f"F{count - 1}", "x", "y", domain="own")
    return model([last], X, ["y"], functions=functions, domains={"own": 1})


def test_functions_that_multiply() -> None:
    (y,) = load(chained(5, 2))(np.ones((2, 3), np.float32))
    assert (y == 1).all()
    given = load(chained(60, 2))
    with pytest.raises(OnnxError, match="expand to more than"):
        given.trace()


def test_functions_that_are_nested_too_deeply() -> None:
    assert message(chained(3000, 1)) == "small: functions and graphs are nested too deeply"


def test_functions_of_an_old_opset() -> None:
    """As in a model: what an operator means in the first opset that is supported, it means in older ones."""
    for opset, operator, expected in ((6, "Selu", None), (6, "Greater", "function 'F': opset 6 is not one of 7 to 28")):
        names = "a a" if operator == "Greater" else "a"
        function = helper.make_function(
            "own", "F", ["a"], ["b"], [node(operator, names, "b")], [helper.make_opsetid("", opset)]
        )
        given = model([node("F", "x", "y", domain="own")], X, ["y"], functions=[function], domains={"own": 1})
        if expected is None:
            load(given).trace()
        else:
            assert expected in message(given)


# --- what a small file can make large -------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (node("ConstantOfShape", "v", "y"), [2**40], "ConstantOfShape node 'y': output 'y' is too large"),
        (node("Expand", "x v", "y"), [2**40, 2, 3], "Expand node 'y': output 'y' is too large"),
        (node("Tile", "x v", "y"), [2**40, 2**40], "(float32[2, 3], int64[2]): tenon.tile: the result"),
        (node("Pad", "x v", "y"), [2**40, 0, 0, 0], "Pad node 'y': output 'y' is too large"),
        (node("Range", "zero v one", "y"), 2**62, "Range node 'y': the range is too large"),
        (node("Resize", "x - - v", "y"), [2**40, 3], "Resize node 'y': its table of places is too large"),
        (node("Resize", "x - - v", "y"), [-5, 3], "Resize node 'y': dimension 0 has size -5"),
        (node("Resize", "x - - v", "y", nearest_mode="x"), [4, 3], "nearest_mode 'x' is not one of"),
        (node("OneHot", "zeros v zeros", "y"), 2**40, "OneHot node 'y': output 'y' is too large"),
        (node("Split", "x", "y", num_outputs=10**9), 0, "num_outputs is 1000000000, and 1 outputs are listed"),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else None,
)
def test_results_that_are_too_large(given: onnx.NodeProto, value: Any, expected: str) -> None:
    weights = {"v": np.array(value), "zero": np.array(0), "one": np.array(1), "zeros": np.zeros(2, np.int64)}
    with pytest.raises(OnnxError) as caught:
        load(model([given], X, ["y"], weights)).trace()
    assert expected in str(caught.value)


def test_a_known_value_that_is_too_large() -> None:
    nodes = [node("ConstantOfShape", "n", "c"), node("NonZero", "c", "y")]
    with pytest.raises(OnnxError, match="NonZero node 'y': the operand is too large"):
        load(model(nodes, {}, ["y"], {"n": np.array([2**33])})).trace()


def test_what_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    given = load(model([node("Neg", "x", "y")], X, ["y"]))

    def without_memory(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(given, "_compile", without_memory)
    with pytest.raises(OnnxError, match="small: does not fit into memory"):
        given(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("nodes", "steps", "expected"),
    [
        ([], 2**62, "takes 4611686018427387904 steps"),
        ([node("Concat", "s s", "t", axis=0)], 2**62, "Concat node 't': output 't' is too large"),
    ],
)
def test_loops_without_end(nodes: list[onnx.NodeProto], steps: int, expected: str) -> None:
    inputs = [info("i", np.int64, ()), info("going", np.bool_, ()), info("s", None)]
    body = helper.make_graph(nodes, "body", inputs, [info("going", None), info("t" if nodes else "s", None)])
    given = model([node("Loop", "n c x", "y", body=body)], X, ["y"], {"n": np.array(steps), "c": np.array(True)})
    with pytest.raises(OnnxError) as caught:
        load(given).trace()
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (node("Softmax", "x", "y", axis="last"), "Softmax node 'y': attribute 'axis' is not of kind INT"),
        (node("ConstantOfShape", "x", "y", value=3), "attribute 'value' is not of kind TENSOR"),
        (node("Transpose", "x", "y", perm=1), "attribute 'perm' is not of kind INTS"),
        (node("Einsum", "x", "y", equation=3), "attribute 'equation' is not of kind STRING"),
        (node("If", "x", "y", then_branch=1, else_branch=2), "is not of kind GRAPH"),
        (node("SequenceMap", "x", "y"), "SequenceMap node 'y': has no body for its operands"),
        (node("RotaryEmbedding", "", "y"), "RotaryEmbedding node 'y': its body does not compute"),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else None,
)
def test_attributes_of_another_kind(given: onnx.NodeProto, expected: str) -> None:
    with pytest.raises(OnnxError) as caught:
        load(model([given], X, ["y"], opset=23)).trace()
    assert expected in str(caught.value)


def test_many_names_take_no_longer_than_few() -> None:
    count = 30_000
    inputs = {f"x{i}": (np.float32, (1,)) for i in range(count)}
    started = time.perf_counter()
    load(model([node("Neg", "x0", "y")], inputs, ["y"]))
    text = message(model([node("Unknown", "x", f"y{i}") for i in range(count)], X, ["y0"]))
    assert text.count("'y") == count
    assert time.perf_counter() - started < 6


@pytest.mark.parametrize(("opset", "is_read"), [(6, False), (7, True), (28, True), (29, False), (2**40, False)])
def test_opsets(opset: int, is_read: bool) -> None:
    given = model([node("Add", "x x", "y")], X, ["y"], opset=opset)
    if is_read:
        load(given)
    else:
        assert f"opset {opset} is not one of 7 to 28" in message(given)


def test_an_old_opset_whose_operators_mean_the_same() -> None:
    x = np.array([[True, False]])
    assert (load(model([node("Not", "x", "y")], {"x": (np.bool_, (1, 2))}, ["y"], opset=1))(x)[0] == ~x).all()


def test_ir_version() -> None:
    for version in (1, 2, 99):
        given = model([node("Neg", "x", "y")], X, ["y"])
        given.ir_version = version
        assert f"IR version {version} is not one of 3 to 14" in message(given)


@pytest.mark.parametrize("version", [2**31, 2**63 - 1, -1, -(2**63)])
def test_any_version_of_a_domain_is_read(version: int) -> None:
    given = model([node("Binarizer", "x", "y", domain="ai.onnx.ml")], X, ["y"], domains={"ai.onnx.ml": version})
    if version > 0:
        assert load(given).trace()
    else:
        assert f"unsupported operators: ai.onnx.ml.Binarizer (opset {version}): 'y'" in message(given)


def test_inputs_that_are_no_tensors() -> None:
    given = model([node("Identity", "x", "y")], X, ["y"])
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    sequence.type.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    given.graph.input.append(sequence)
    assert "input 's': is a sequence of map, which is not supported" in message(given)
    given.graph.input.pop()
    sequence.type.sequence_type.elem_type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    given.graph.input.append(sequence)
    assert "input 's': is a sequence of sequence of tensor, which is not supported" in message(given)
    given.graph.input.pop()
    given.graph.input.append(helper.make_tensor_value_info("t", TensorProto.STRING, [1]))
    assert "input 't': dtype string is not supported" in message(given)
    given.graph.input.pop()
    given.graph.input.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, [-2]))
    assert "input 'n': has a size of -2" in message(given)


# --- tensors --------------------------------------------------------------------------------------


def tensor(**fields: Any) -> onnx.TensorProto:
    given: dict[str, Any] = {"name": "w", "data_type": TensorProto.FLOAT, **fields}
    return onnx.TensorProto(**given)


def with_tensor(proto: onnx.TensorProto) -> onnx.ModelProto:
    given = model([node("Add", "x w", "y")], X, ["y"])
    given.graph.node[0].input[1] = "w"
    given.graph.initializer.append(proto)
    return given


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dims": [-1], "raw_data": b""}, "has a negative size: [-1]"),
        (
            {"dims": [2**40], "raw_data": b"1234"},
            "has 4 bytes of data where float32[1099511627776] needs",
        ),
        ({"dims": [2**62, 2**62], "raw_data": b""}, "is impossibly large"),
        ({"dims": [2**62, 0], "raw_data": b""}, "is impossibly large"),
        ({"dims": [2**33]}, "has 0 elements of data where float32[8589934592] needs 8589934592"),
        ({"dims": [1] * 65, "raw_data": b"1234"}, "is impossibly large"),
        ({"dims": [3], "raw_data": b"12345678"}, "has 8 bytes of data where float32[3] needs 12"),
        ({"dims": [1], "raw_data": b"12345"}, "has 5 bytes of data where float32[1] needs 4"),
        ({"dims": [2], "float_data": [1.0]}, "has 1 elements of data where float32[2] needs 2"),
        ({"dims": [2], "int32_data": [1, 2]}, "has 0 elements of data where float32[2] needs 2"),
        ({"dims": [1], "data_type": TensorProto.INT8, "int32_data": [1000]}, "do not fit into int8"),
        ({"dims": [1], "data_type": TensorProto.FLOAT16, "int32_data": [70000]}, "do not fit into float16"),
        ({"dims": [1], "data_type": TensorProto.BOOL, "raw_data": b"\2"}, "neither true (1) nor false (0)"),
        (
            {"dims": [3], "data_type": TensorProto.INT4, "raw_data": b"\1\2\3"},
            "has 3 bytes of data where int4[3] needs 2",
        ),
        ({"dims": [5], "data_type": TensorProto.UINT2, "int32_data": [1]}, "1 elements of data where uint2[5] needs 2"),
        ({"dims": [1], "data_type": TensorProto.FLOAT8E5M2, "int32_data": [256]}, "do not fit into float8_e5m2"),
        ({"dims": [1], "data_type": TensorProto.STRING, "string_data": [b"a"]}, "dtype string is not supported"),
        ({"dims": [1], "data_type": TensorProto.COMPLEX64}, "dtype complex64 is not supported"),
        ({"dims": [1], "data_type": 99}, "dtype 99 is not supported"),
        ({"dims": [1], "data_type": TensorProto.UNDEFINED}, "dtype undefined is not supported"),
    ],
)
def test_tensors_that_are_wrong(fields: dict[str, Any], expected: str) -> None:
    text = message(with_tensor(tensor(**fields)))
    assert text.startswith("small: initializer 'w': ")
    assert expected in text


@pytest.mark.parametrize("dtype", ["float16", "uint8", "int16", "uint64", "int64", "float64", "bool"])
def test_data_in_typed_fields(dtype: str) -> None:
    kind = np.dtype(dtype)
    array = np.array([0, 1, 3], kind)
    code = helper.np_dtype_to_tensor_dtype(kind)
    proto = helper.make_tensor("w", code, [3], array.astype(np.float32) if kind.kind not in "iub" else array)
    from tenon.onnx.model_file import read_tensor

    read = read_tensor(proto, "w")
    assert read.dtype == kind
    assert (read == array).all()
    assert not read.flags.writeable


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5])
@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"],
)
def test_types_of_ml_dtypes(dtype: str, count: int, raw: bool) -> None:
    """Four or two bits of an element are packed into bytes; what fills the last one up does not count."""
    kind = np.dtype(getattr(ml_dtypes, dtype))
    array = np.array([1, 0, -1, 1, 1], np.float32)[:count].astype(kind)
    proto = helper.make_tensor("w", helper.np_dtype_to_tensor_dtype(kind), [count], array.astype(np.float32))
    if raw:
        proto = numpy_helper.from_array(array, "w")
        assert proto.HasField("raw_data")
    from tenon.onnx.model_file import read_tensor

    read = read_tensor(proto, "w")
    assert read.dtype == kind
    np.testing.assert_array_equal(read.view(f"u{kind.itemsize}"), array.view(f"u{kind.itemsize}"))
    assert not read.flags.writeable


# --- external data --------------------------------------------------------------------------------


def external(folder: Path, location: str, count: int = 3, **entries: Any) -> Path:
    """A model in `folder` whose weight is in another file."""
    proto = tensor(dims=[count], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        proto.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(with_tensor(proto).SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    weights = np.arange(3, dtype=np.float32)
    (inside / "weights.bin").write_bytes(b"\0" * 16 + weights.tobytes())
    (tmp_path / "secret.bin").write_bytes(weights.tobytes())
    return inside


def test_external_data(folder: Path) -> None:
    read = load(external(folder, "weights.bin", offset=16, length=12))
    np.testing.assert_array_equal(read.weights["w"], [0, 1, 2])
    np.testing.assert_array_equal(read(np.ones((2, 3), np.float32))[0], [[1, 2, 3]] * 2)
    (folder / "sub").mkdir()
    (folder / "weights.bin").rename(folder / "sub" / "weights.bin")
    load(external(folder, "sub/weights.bin", offset=16))


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "sub/../../secret.bin", "{tmp}/secret.bin", "", "..", "C:\\secret.bin", "..\\secret.bin", "a\0b"],
)
def test_external_data_outside(folder: Path, location: str) -> None:
    text = message(external(folder, location.format(tmp=folder.parent)))
    assert "is not a path within the model's folder" in text


def link(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")


def linked_folder(folder: Path) -> None:
    (folder / "up").symlink_to(folder.parent)


def hard_link(folder: Path) -> None:
    os.link(folder.parent / "secret.bin", folder / "hard.bin")


def subfolder(folder: Path) -> None:
    (folder / "weights").mkdir()


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


@pytest.mark.parametrize(
    ("prepare", "location", "expected"),
    [
        (link, "link.bin", "leads out of the model's folder"),
        (linked_folder, "up/secret.bin", "leads out of the model's folder"),
        (hard_link, "hard.bin", "has several hard links"),
        (subfolder, "weights", "is a directory"),
        (pipe, "pipe", "is not a regular file"),
        (subfolder, "nowhere.bin", "is not there"),
    ],
)
def test_external_data_through_links(
    folder: Path, prepare: Callable[[Path], None], location: str, expected: str
) -> None:
    prepare(folder)
    assert expected in message(external(folder, location))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"offset": 20, "length": 12}, "has 28 bytes, and 12 bytes from byte 20 on are asked for"),
        ({"offset": 29}, "has 28 bytes, and from byte 29 on are asked for"),
        ({"offset": 2**70}, "is not a number of bytes"),
        ({"offset": -4}, "offset '-4' of external data is not a number of bytes"),
        ({"offset": 16, "length": 8}, "has 8 bytes of external data where 12 are needed"),
        ({"length": "all"}, "length 'all' of external data is not a number of bytes"),
    ],
)
def test_external_data_of_the_wrong_size(folder: Path, entries: dict[str, Any], expected: str) -> None:
    assert expected in message(external(folder, "weights.bin", **entries))


def test_external_data_of_a_model_in_memory(folder: Path) -> None:
    text = message(external(folder, "weights.bin", offset=16).read_bytes())
    assert "has external data 'weights.bin', and the model is not in a file" in text
