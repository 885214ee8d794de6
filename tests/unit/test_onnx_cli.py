"""`tenon import` and `tenon run` on ONNX models, and weights that are kept behind the text of a module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx_models import model, node, perceptron

from tenon.onnx import load
from tenon.tools import cli

F32 = np.float32


def tenon_cli(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, [str(a) for a in arguments])


def error(*arguments: object) -> str:
    result = tenon_cli(*arguments)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("tenon: error: ")
    return result.output.removeprefix("tenon: error: ").strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "perceptron.onnx"
    onnx.save(perceptron()[0], file)
    return file


@pytest.fixture
def reshaping(tmp_path: Path) -> Path:
    file = tmp_path / "reshaping.onnx"
    onnx.save(model([node("Reshape", "x s", "y", "change")], {"x": (F32, None), "s": (np.int64, (2,))}, ["y"]), file)
    return file


def test_runs_a_model(path: Path, tmp_path: Path) -> None:
    x = tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).standard_normal((3, 8)).astype(F32))
    expected = load(path)(np.load(x))[0]
    for options in ((), ("--interpret",)):
        result = tenon_cli("run", path, "--args", x, "-o", tmp_path / "y.npy", *options)
        assert result.exit_code == 0, result.output
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-6)
    printed = tenon_cli("run", path, "--args", "random:2x8xf32").output
    assert printed.startswith("result 0: float32[2, 3]\n[[")


def test_tensors_of_sequences_are_results_one_after_the_other(tmp_path: Path) -> None:
    file, output = tmp_path / "parts.onnx", tmp_path / "parts.npz"
    nodes = [node("SplitToSequence", "x", "parts"), node("Optional", "", "none"), node("Neg", "x", "y")]
    onnx.save(model(nodes, {"x": (F32, (2, 3))}, ["parts", "none", "y"]), file)
    assert tenon_cli("run", file, "--args", "ones:2x3xf32", "-o", output).exit_code == 0
    with np.load(output) as saved:
        assert [array.tolist() for array in saved.values()] == [[[1.0] * 3], [[1.0] * 3], [[-1.0] * 3] * 2]
    onnx.save(model(nodes[:1], {"x": (F32, (2, 3))}, ["parts"]), file)
    assert "2 results do not fit into" in error("run", file, "--args", "ones:2x3xf32", "-o", tmp_path / "y.npy")


def test_a_sequence_is_no_argument_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "sequence.onnx"
    source = model([node("SequenceLength", "s", "n")], {}, ["n"])
    source.graph.input.append(onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None))
    onnx.save(source, file)
    assert "s: sequence of float32[*] is given as ndarray" in error("run", file, "--args", "ones:2x3xf32")
    assert "has no declared length" in error("import", file)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8"])
def test_numbers_take_the_declared_dtype(dtype: str, tmp_path: Path) -> None:
    file = tmp_path / "scalar.onnx"
    onnx.save(model([node("Add", "x x", "y")], {"x": (np.dtype(dtype), ())}, ["y"]), file)
    assert tenon_cli("run", file, "--args", "3").output.startswith(f"result 0: {dtype}[]\n6")


def test_numbers_that_the_dtype_does_not_have(tmp_path: Path) -> None:
    file = tmp_path / "scalar.onnx"
    onnx.save(model([node("Neg", "x", "y")], {"x": (np.int8, ())}, ["y"]), file)
    module = tmp_path / "scalar.mlir"
    assert tenon_cli("import", file, "-o", module).exit_code == 0
    for number in ("300", "2.5", "nan"):
        assert error("run", file, "--args", number) == f"argument 0 of the model is int8, got {number}"
        assert error("run", module, "--args", number) == f"argument x of @main is int8, got {number}"


def test_arguments_that_do_not_fit_into_memory(path: Path) -> None:
    text = error("run", path, "--args", "zeros:99999999999x8xf32")
    assert "cannot be allocated" in text.lower()


def test_errors_of_runs(path: Path, tmp_path: Path) -> None:
    assert error("run", path) == "perceptron.onnx: input x: float32[N, 8] is missing"
    wrong = error("run", path, "--args", "zeros:2x7xf32")
    assert wrong == "perceptron.onnx: input x: float32[N, 8] (with N = 2) is given as float32[2, 7]"
    assert "takes 1 inputs (x), got 2" in error("run", path, "--args", "1,2")
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(path.read_bytes()[:100])
    assert error("run", damaged) == "damaged.onnx: is not an ONNX model, or is truncated"
    assert "no such file" in error("run", tmp_path / "nowhere.onnx")
    two = tmp_path / "two.onnx"
    onnx.save(model([node("Neg", "x", "y")], {"x": (F32, (1,))}, ["x", "y"]), two)
    text = error("run", two, "--args", "ones:1xf32", "-o", tmp_path / "y.npy")
    assert "2 results do not fit into" in text


def test_imports_for_a_shape(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "perceptron.mlir"
    result = tenon_cli("import", path, "-o", output, "--input", "x=4x8")
    assert (result.exit_code, result.output) == (0, f"{output}\n")
    assert "%x: tensor<4x8xf32>" in output.read_text()
    run = tenon_cli("run", output, "--args", "iota:4x8xf32", "-o", tmp_path / "y.npy")
    assert run.exit_code == 0, run.output
    x = np.arange(32, dtype=F32).reshape(4, 8)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), load(path)(x)[0], rtol=1e-5)


def test_imports_with_open_sizes(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "perceptron.mlir"
    tenon_cli("import", path, "-o", output)
    assert "%x: tensor<?x8xf32>" in output.read_text()
    for size in (2, 5):
        run = tenon_cli("run", output, "--args", f"iota:{size}x8xf32", "-o", tmp_path / "y.npy")
        assert run.exit_code == 0, run.output
        x = np.arange(8 * size, dtype=F32).reshape(size, 8)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), load(path)(x)[0], rtol=1e-5)


def test_weights_may_be_given(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "perceptron.mlir"
    tenon_cli("import", path, "-o", output, "--input", "x=1x8")
    given = "ones:1x8xf32,zeros:8x16xf32,ones:16xf32,ones:16x3xf32"
    assert "[[16. 16. 16.]]" in tenon_cli("run", output, "--args", given).output
    assert "takes 1 arguments besides its 3 weights, got 2" in error("run", output, "--args", "1,2")


def test_prints_without_weights(path: Path) -> None:
    output = tenon_cli("import", path, "--input", "x=4x8").output
    assert output.startswith("builtin.module {\n  func.func @main(%x: tensor<4x8xf32>, %w1: tensor<8x16xf32>")
    assert "dialect_resources" not in output


def test_imports_with_a_known_value(reshaping: Path, tmp_path: Path) -> None:
    shape = tmp_path / "shape.npy"
    np.save(shape, np.array([2, -1]))
    output = tenon_cli("import", reshaping, "--input", "x=4x3", "--input", f"s={shape}").output
    assert "@main(%x: tensor<4x3xf32>) -> tensor<2x6xf32>" in output
    text = error("import", reshaping, "--input", "x=4x3")
    assert "Reshape node 'change': shape: has to be known" in text
    assert "no value of 's' is given" in text


def test_errors_of_imports(path: Path, reshaping: Path, tmp_path: Path) -> None:
    assert "has no declared shape, so give one" in error("import", reshaping)
    assert "input 'x' is not like NAME=4x3" in error("import", path, "--input", "x")
    assert "has no input named 'z'" in error("import", path, "--input", "z=3")
    assert "is given as float32[4, 3]" in error("import", path, "--input", "x=4x3")
    assert "neither a .npy or .npz file" in error("import", path, "--input", "x=big")
    assert "there is no folder" in error("import", path, "-o", tmp_path / "none" / "m.mlir")
    output = tmp_path / "kept.mlir"
    output.write_text("kept")
    error("import", path, "-o", output, "--input", "x=4x3")
    assert output.read_text() == "kept"
    assert not list(tmp_path.glob(".*"))


def test_resources_that_are_damaged(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "perceptron.mlir"
    tenon_cli("import", path, "-o", output, "--input", "x=4x8")
    text = output.read_text()
    module = text.partition("{-#")[0]
    damaged = tmp_path / "damaged.mlir"
    damaged.write_text(module)
    assert "has no data" in error("run", damaged, "--args", "ones:4x8xf32")
    damaged.write_text(text.replace('b1: "0x04000000', 'b1: "0x0400000000', 1))
    assert "bytes of data, which is not the size of tensor<16xf32>" in error("run", damaged, "--args", "ones:4x8xf32")
    damaged.write_text(text.replace('b1: "0x04000000', 'b1: "0xno', 1))
    assert "is not a hexadecimal string" in error("run", damaged, "--args", "ones:4x8xf32")


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "uint32", "bool"])
def test_weights_of_every_dtype(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(dtype)
    table = (np.arange(300) % 2 if dtype == "bool" else np.arange(300) % 250).astype(kind)
    file = tmp_path / "table.onnx"
    onnx.save(
        model([node("Gather", "strange/name.1 i", "y")], {"i": (np.int64, (2,))}, ["y"], {"strange/name.1": table}),
        file,
    )
    output = tmp_path / "table.mlir"
    assert tenon_cli("import", file, "-o", output).exit_code == 0
    np.save(tmp_path / "i.npy", np.array([1, 249]))
    run = tenon_cli("run", output, "--args", tmp_path / "i.npy", "-o", tmp_path / "y.npy")
    assert run.exit_code == 0, run.output
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == kind
    np.testing.assert_array_equal(y, table[[1, 249]])


def test_a_batch_that_is_open_stays_open(tmp_path: Path) -> None:
    """As torch.onnx exports a dynamic batch; where sizes are needed, the error says how to state them."""
    open_, x = {"x": (F32, ("n", 2, 3))}, np.arange(30, dtype=F32).reshape(5, 2, 3)
    shapes = {"s": np.asarray([0, 1, -1])}
    for nodes in ([node("Flatten", "x", "y", axis=1)], [node("Reshape", "x s", "y")]):
        file, module, result = tmp_path / "open.onnx", tmp_path / "open.mlir", tmp_path / "y.npy"
        onnx.save(model(nodes, open_, ["y"], shapes), file)
        assert tenon_cli("import", file, "-o", module).exit_code == 0
        np.save(tmp_path / "x.npy", x)
        assert tenon_cli("run", module, "--args", tmp_path / "x.npy", "-o", result).exit_code == 0
        np.testing.assert_array_equal(np.load(result).reshape(5, 6), x.reshape(5, 6))
    onnx.save(model([node("Shape", "x", "y", "sizes")], open_, ["y"]), file)
    assert error("import", file) == (
        "open.onnx: Shape node 'sizes': an operand has shape ?x2x3, whose sizes have to be known; "
        "state those of the inputs, as in --input x=4x2x3"
    )
    for given in ("x=4x2x3", "x:4x2x3"):
        assert tenon_cli("import", file, "--input", given).exit_code == 0
