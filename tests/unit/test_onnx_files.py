"""ONNX files that are damaged or hostile: always one error, never a crash, and never a read outside of the folder."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
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


def test_inputs_that_are_no_tensors() -> None:
    given = model([node("Identity", "x", "y")], X, ["y"])
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    given.graph.input.append(sequence)
    assert "input 's': is a sequence where only tensors are supported" in message(given)
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int16", "uint64", "int64", "float64", "bool"])
def test_data_in_typed_fields(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    array = np.array([0, 1, 3], kind)
    code = helper.np_dtype_to_tensor_dtype(kind)
    proto = helper.make_tensor("w", code, [3], array.astype(np.float32) if kind.kind not in "iub" else array)
    from tenon.onnx.model_file import read_tensor

    read = read_tensor(proto, "w")
    assert read.dtype == kind
    assert (read == array).all()
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
