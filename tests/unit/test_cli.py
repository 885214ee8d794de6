"""`tenon` on the command line: run, compile, ops; messages, exit codes, and nothing half-written."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result

import tenon
from tenon.runtime.cuda import nvrtc
from tenon.tools import arguments, cli
from tenon.tools.opt import TenonOptMain

SUM = """\
func.func @main(%x: tensor<2x3xf32>, %scale: tensor<f32>) -> tensor<2xf32> {
  %0 = tenon.multiply %x, %scale : tensor<2x3xf32>, tensor<f32> -> tensor<2x3xf32>
  %1 = tenon.sum %0 {axis = [1]} : tensor<2x3xf32> -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "sum.mlir"
    path.write_text(SUM)
    return path


def tenon_cli(*arguments: object, input: str | None = None) -> Result:
    return CliRunner().invoke(cli.main, [str(a) for a in arguments], input=input)


def error(*arguments: object, input: str | None = None) -> str:
    """The message of a command that must fail with status 1, in one piece and without a traceback."""
    result = tenon_cli(*arguments, input=input)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("tenon: error: ")
    assert "Traceback" not in result.output
    return result.output.removeprefix("tenon: error: ").strip()


# --- run ------------------------------------------------------------------------------------------


def test_prints_results(module: Path) -> None:
    result = tenon_cli("run", module, "--args", "iota:2x3xf32,2")
    assert result.exit_code == 0
    assert result.output == "result 0: float32[2]\n[ 6. 24.]\n"


def test_reads_standard_input() -> None:
    assert "[ 6. 24.]" in tenon_cli("run", "-", "--args", "iota:2x3xf32,2", input=SUM).output


def test_as_a_process(module: Path) -> None:
    command = [sys.executable, "-m", "tenon.tools.cli", "run", str(module), "--args", "ones:2x3xf32,0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "result 0: float32[2]\n[1.5 1.5]\n"
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["out.npy", "out.npz"])
def test_saves_results(name: str, module: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x, scale=np.float32(3))
    result = tenon_cli("run", module, "--args", tmp_path / "in.npz", "-o", tmp_path / name)
    assert result.exit_code == 0, result.output
    (saved,) = arguments.parse_argument(str(tmp_path / name))
    np.testing.assert_allclose(saved, 3 * x.sum(1), rtol=1e-5)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["in.npz", name, "sum.mlir"])
    # Like any file that the user creates, and unlike a temporary one.
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_array_layouts_of_files(module: Path, tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "swapped.npy", x.astype(">f4"))
    for name in ("x.npy", "swapped.npy"):
        assert "[ 3. 12.]" in tenon_cli("run", module, "--args", tmp_path / name, "--args", "1").output


def test_generated_arguments() -> None:
    def generated(spec: str) -> np.ndarray:
        (array,) = arguments.parse_argument(spec)
        return array

    np.testing.assert_array_equal(generated("random:4x3xf32"), generated("random:4x3xf32:0"))
    assert not np.array_equal(generated("random:4x3xf32"), generated("random:4x3xf32:1"))
    assert generated("random:5xi1").dtype == np.bool_
    assert generated("zeros:bf16").dtype == ml_dtypes.bfloat16
    assert generated("random:20xui2").dtype == ml_dtypes.uint2
    assert len(set(generated("random:20xui2").tolist())) == 4
    assert generated("ones:0x3xf64").shape == (0, 3)
    np.testing.assert_array_equal(generated("iota:2x2xi32"), [[0, 1], [2, 3]])
    assert generated("-3").dtype == np.int64
    assert generated("1e3") == 1000.0


def test_interpreter_and_compiled_code_agree(module: Path) -> None:
    outputs = [
        tenon_cli("run", module, "--args", "random:2x3xf32,2", *options).output for options in ([], ["--interpret"])
    ]
    assert outputs[0] == outputs[1]


def test_bf16_is_saved_as_f32(tmp_path: Path) -> None:
    text = "func.func @main(%x: tensor<3xbf16>) -> tensor<3xbf16> {\n  func.return %x : tensor<3xbf16>\n}"
    np.save(tmp_path / "x.npy", np.array([1, 2.5, -3], np.float32))
    result = tenon_cli("run", "-", "--args", tmp_path / "x.npy", "-o", tmp_path / "y.npy", input=text)
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.array([1, 2.5, -3], np.float32))


def test_types_that_files_lack_are_saved_as_what_stands_for_them(tmp_path: Path) -> None:
    text = """
func.func @main(
    %x: tensor<3xf8E4M3FN>, %q: tensor<2xui4>, %k: tensor<2xi2>
) -> (tensor<3xf8E4M3FN>, tensor<2xui4>, tensor<2xi2>) {
  func.return %x, %q, %k : tensor<3xf8E4M3FN>, tensor<2xui4>, tensor<2xi2>
}"""
    given = np.array([1, 2.5, -3], np.float32), np.array([9, 15], np.uint8), np.array([-2, 1], np.int8)
    files = [tmp_path / f"{position}.npy" for position in range(3)]
    for file, array in zip(files, given, strict=True):
        np.save(file, array)
    result = tenon_cli("run", "-", "--args", ",".join(map(str, files)), "-o", tmp_path / "y.npz", input=text)
    assert result.exit_code == 0, result.output
    for array, right in zip(np.load(tmp_path / "y.npz").values(), given, strict=True):
        assert array.dtype == right.dtype
        np.testing.assert_array_equal(array, right)
    np.save(files[1], np.array([9, 16], np.uint8))
    message = error("run", "-", "--args", ",".join(map(str, files)), input=text)
    assert "argument q of @main is uint4, got [ 9 16]" in message


def test_unknown_dimensions_take_the_arguments_sizes() -> None:
    text = """
func.func @main(%x: tensor<?x3xf32>) -> tensor<?xf32> {
  %0 = tenon.sum %x {axis = [1]} : tensor<?x3xf32> -> tensor<?xf32>
  func.return %0 : tensor<?xf32>
}"""
    assert "float32[5]" in tenon_cli("run", "-", "--args", "ones:5x3xf32", input=text).output
    assert "argument x of @main is tensor<?x3xf32>, got f32[5, 4]" in error(
        "run", "-", "--args", "ones:5x4xf32", input=text
    )


# --- errors ---------------------------------------------------------------------------------------

ARGUMENTS = ("--args", "ones:2x3xf32,1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "@main takes 2 arguments (tensor<2x3xf32>, tensor<f32>), got 0"),
        (["--args", "ones:3x2xf32,1"], "argument x of @main is tensor<2x3xf32>, got f32[3, 2]"),
        (["--args", "ones:2x3xf64,1"], "argument x of @main is tensor<2x3xf32>, got f64[2, 3]"),
        (["--args", "nothing.npy"], "nothing.npy: no such file or directory"),
        (["--args", "random:4xqxf32"], "random:4xqxf32: 'q' is no size; write shape and dtype like random:4x3xf32"),
        (["--args", "what"], "argument 'what' is neither a .npy or .npz file, nor a number, nor like random:4x3xf32"),
        (["--args", "ones:2y3"], "ones:2y3: dtype 2y3 is not one of f16, bf16"),
        ([*ARGUMENTS, "-o", "out.txt"], "output out.txt ends neither in .npy nor in .npz"),
        ([*ARGUMENTS, "-o", "no/such/out.npy"], "no/such/out.npy: there is no folder no/such"),
    ],
)
def test_errors_of_arguments(arguments: list[str], message: str, module: Path) -> None:
    assert message in error("run", module, *arguments)


def test_files_that_are_not_arrays(module: Path, tmp_path: Path) -> None:
    for name in ("broken.npy", "broken.npz"):
        (tmp_path / name).write_bytes(b"\x00broken")
        assert str(tmp_path / name) in error("run", module, "--args", tmp_path / name)
    np.save(tmp_path / "objects.npy", np.array([object()]), allow_pickle=True)
    assert "objects.npy is not a .npy file of numbers" in error("run", module, "--args", tmp_path / "objects.npy")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("tenon.sum %0", "tenon.sum %%0", "<stdin>:3:"),
        ("tenon.sum", "tenon.summe", "tenon.summe is not registered"),
        ("{axis = [1]}", "{axes = [1]}", "axes"),
        ("{axis = [1]}", "{axis = [2]}", "tenon.sum: axis is 2 but the rank is 2"),
        (
            "tensor<f32> -> tensor<2x3xf32>",
            "tensor<f32> -> tensor<3x3xf32>",
            "operand is used with type tensor<2x3xf32>, but",
        ),
        ("@main", "@other", "the module has no function @main"),
        ("%0 {axis", "%9 {axis", "%9"),
    ],
)
def test_errors_of_the_file(before: str, after: str, message: str) -> None:
    assert message in error("run", "-", *ARGUMENTS, input=SUM.replace(before, after))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32>", "@main has no blocks where one is needed"),
        (
            "func.func @main(%x: f32) -> f32 {\n  func.return %x : f32\n}",
            "argument x of @main is f32, expected a tensor",
        ),
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %c = arith.constant 1.0 : f32\n"
            "  %y = linalg.fill ins(%c : f32) outs(%x : tensor<2xf32>) -> tensor<2xf32>\n"
            "  func.return %y : tensor<2xf32>\n}",
            "<stdin>:3:3: linalg.fill in @main: what computes tensors is compiled in kernels",
        ),
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = arith.addf %x, %x : tensor<2xf32>\n"
            "  func.return %y : tensor<2xf32>\n}",
            "<stdin>:2:3: bufferize: arith.addf on tensors in @main is not structured IR",
        ),
        (
            'func.func @main(%x: memref<2xf32>) attributes {num_inputs = "1"} {\n  func.return\n}',
            '@main: num_inputs is "1", expected an integer',
        ),
        (
            "func.func @main(%x: memref<2xf32>) {\n  func.return\n}",
            "argument x of @main is memref<2xf32>, and which arguments are inputs and which outputs is said nowhere",
        ),
    ],
)
def test_functions_that_cannot_be_run(text: str, message: str) -> None:
    assert message in error("run", "-", "--args", "ones:2xf32", input=text)
    assert message in error("explain", "-", input=text) or "memref" in message


def test_use_before_definition_is_shown_in_the_ir() -> None:
    lines = SUM.splitlines()
    lines[1], lines[2] = lines[2], lines[1]
    message = error("run", "-", *ARGUMENTS, input="\n".join(lines))
    assert "tenon.sum: operand 0 is used before its definition by tenon.multiply" in message
    assert "^^^^" in message


def test_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    assert error("run", tmp_path / "none.mlir") == f"{tmp_path / 'none.mlir'}: no such file or directory"
    file = tmp_path / "binary.mlir"
    for data, what in (
        (b"\xff\xfe\x00", "is not text: byte 0 is no UTF-8"),
        (b"ML\xefR", "is bytecode of MLIR, not text"),
    ):
        file.write_bytes(data)
        assert error("run", file) == f"{file}: {what}"


def test_text_as_other_editors_write_it(tmp_path: Path) -> None:
    file = tmp_path / "marked.mlir"
    file.write_bytes(b"\xef\xbb\xbf" + SUM.replace("\n", "\r\n").encode())
    assert tenon_cli("run", file, *ARGUMENTS).exit_code == 0
    assert TenonOptMain([str(file), "-o", str(tmp_path / "out.mlir")]).run() is None


def test_results_that_do_not_fit_the_file(tmp_path: Path) -> None:
    text = "func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
    text += "  func.return %x, %x : tensor<f32>, tensor<f32>\n}"
    (tmp_path / "out.npy").write_text("kept")
    assert "2 results do not fit into" in error("run", "-", "--args", "1", "-o", tmp_path / "out.npy", input=text)
    assert (tmp_path / "out.npy").read_text() == "kept"


def test_failure_while_writing_leaves_the_old_file(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, array: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    (tmp_path / "out.npy").write_text("kept")
    monkeypatch.setattr(np, "save", fail)
    assert "no space left on device" in error("run", module, *ARGUMENTS, "-o", tmp_path / "out.npy")
    assert (tmp_path / "out.npy").read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.npy", "sum.mlir"]


def test_fault_of_tenon_is_told_apart(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise KeyError("inner")

    own = {"__name__": "tenon.tools.cli", "KeyError": KeyError}
    monkeypatch.setattr(cli, "read_module", FunctionType(fail.__code__, own))
    result = tenon_cli("run", module, *ARGUMENTS)
    assert result.exit_code == 70
    assert "KeyError: 'inner'\nthis is a fault in tenon; TENON_TRACEBACK=full shows where" in result.output
    with tenon.knobs.override(traceback="full"):
        assert isinstance(tenon_cli("run", module, *ARGUMENTS).exception, KeyError)


def test_wrong_usage(module: Path) -> None:
    assert tenon_cli("run").exit_code == 2
    result = tenon_cli("run", module, "--device", "tpu")
    assert result.exit_code == 2
    assert "device 'tpu' is not one of cpu, cuda, cuda:N" in result.output
    assert tenon_cli("nothing").exit_code == 2


def test_gpu_that_is_not_there(module: Path) -> None:
    from tenon.runtime.cuda import device_cuda

    if device_cuda.why_unavailable() is None:
        pytest.skip("there is a CUDA device")
    for device in ("cuda", "cuda:1"):
        assert "cu" in error("run", module, *ARGUMENTS, "--device", device)


# --- compile --------------------------------------------------------------------------------------


def test_compile_for_the_cpu(module: Path, tmp_path: Path) -> None:
    result = tenon_cli("compile", module, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    names = {"main.loops.mlir", "main.ll", "main.o", "main.cpu.json"}
    assert {Path(line).name for line in result.output.split()} == names == set(os.listdir(tmp_path / "out"))
    assert "define void @main" in (tmp_path / "out/main.ll").read_text()
    assert (tmp_path / "out/main.o").read_bytes()[:4] == b"\x7fELF" or sys.platform != "linux"
    again = tenon_cli("run", tmp_path / "out/main.loops.mlir", "--args", "iota:2x3xf32,2")
    assert "[ 6. 24.]" in again.output


@pytest.mark.skipif(nvrtc.why_unavailable() is not None, reason="nvrtc is not installed")
def test_compile_for_a_gpu_without_one(module: Path, tmp_path: Path) -> None:
    result = tenon_cli("compile", module, "--target", "cuda:sm_90", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    names = {"main.grid.mlir", *(f"main.sm_90.{kind}" for kind in ("cu", "cubin", "json", "schedules.txt", "txt"))}
    assert set(os.listdir(tmp_path / "out")) == names
    assert "__global__" in (tmp_path / "out/main.sm_90.cu").read_text()
    assert (tmp_path / "out/main.sm_90.cubin").stat().st_size > 1000
    assert (
        "predicted for one launch of each, by the data sheet of sm_90:" in (tmp_path / "out/main.sm_90.txt").read_text()
    )


@pytest.mark.parametrize("target", ["cuda", "cpu:avx2", "tpu", ""])
def test_unknown_target(target: str, module: Path, tmp_path: Path) -> None:
    message = error("compile", module, "--target", target, "-o", tmp_path / "out")
    assert message == f"target {target!r} is neither cpu nor cuda:ARCH, such as cuda:sm_90"
    assert not (tmp_path / "out").exists()


def test_unknown_architecture(module: Path, tmp_path: Path) -> None:
    message = error("compile", module, "--target", "cuda:volta", "-o", tmp_path / "out")
    assert "arch is 'volta', not one such as 'sm_90'" in message
    assert not (tmp_path / "out").exists()


# --- ops ------------------------------------------------------------------------------------------


def test_ops_lists_the_registry() -> None:
    lines = tenon_cli("ops").output.splitlines()
    assert any(line.startswith("matmul(") for line in lines)
    assert len(lines) > 80
    assert all(": " in line for line in lines)


def test_ops_documents_one() -> None:
    result = tenon_cli("ops", "tenon.softmax")
    assert result.output.startswith("tenon.softmax(x, axis=-1)  (CompositeOp)\n\n")
    assert error("ops", "xyzzy") == "there is no op or function named 'xyzzy'"


def test_output_that_nobody_reads_is_no_error() -> None:
    command = f"{sys.executable} -m tenon.tools.cli ops | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_version() -> None:
    assert tenon_cli("--version").output.strip().endswith(tenon.__version__)


OWN_OP = '''
import tenon


@tenon.tensor_op
class TwiceOp(tenon.ElementwiseOp):
    """`x` doubled."""

    name = "cli_test.twice"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @staticmethod
    def scalar(x):
        return x + x
'''

OWN_IR = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = cli_test.twice %x : tensor<3xf32> -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}
"""


def test_commands_import_ops_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "types.py").write_text(OWN_OP)  # called as a module of Python's own
    (tmp_path / "own.mlir").write_text(OWN_IR)
    scripts = Path(sys.executable).parent

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [scripts / words[0], *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = command("tenon", "--ops", "types.py", "run", "own.mlir", "--args", "iota:3xf32")
    assert (done.returncode, done.stdout) == (0, "result 0: float32[3]\n[0. 2. 4.]\n")
    done = command("tenon-opt", "--ops", "types.py", "own.mlir", "-p", "convert-tensor-to-structured")
    assert done.returncode == 0
    assert "arith.addf" in done.stdout
    missing = command("tenon", "--ops", "none.py", "ops")
    assert (missing.returncode, missing.stderr) == (1, "tenon: error: none.py: is neither a Python file nor a module\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text("SHIFT = 1.0")
    (package / "ops.py").write_text(f"from .names import SHIFT\n{OWN_OP}")
    for ops in ("package.ops", "package/ops.py"):
        done = command("tenon", "--ops", ops, "run", "own.mlir", "--args", "iota:3xf32")
        assert (done.returncode, done.stdout) == (0, "result 0: float32[3]\n[0. 2. 4.]\n")
    (tmp_path / "broken.py").write_text("1 / 0")
    broken = command("tenon", "--ops", "broken.py", "ops")
    said = f"tenon: error: broken.py: ZeroDivisionError: division by zero\nin <module>, {tmp_path / 'broken.py'}:1\n"
    assert (broken.returncode, broken.stderr) == (1, said)
    (tmp_path / "own.py").write_text(OWN_OP.replace("x + x", "{}['x']"))
    for words in (("tenon-opt", "own.mlir", "-p", "convert-tensor-to-structured"), ("tenon", "compile", "own.mlir")):
        failed = command(words[0], "--ops", "own.py", *words[1:])
        assert failed.returncode == 1
        assert re.search(rf"in TwiceOp.scalar, {tmp_path}/own.py:\d+\n|own.py\", line \d+, in scalar\n", failed.stderr)
        assert "fault in tenon" not in failed.stderr


def test_runs_only_what_main_reaches() -> None:
    text = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = func.call @double(%x) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
func.func @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = tenon.add %x, %x : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
func.func @other(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = tenon.exp %x : tensor<?xf32> -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
"""
    for options in ([], ["--interpret"]):
        result = tenon_cli("run", "-", "--args", "iota:3xf32", *options, input=text)
        assert result.output == "result 0: float32[3]\n[0. 2. 4.]\n"


def test_compile_asks_to_import_an_onnx_model_first(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x0a")
    assert f"import it first: tenon import {path} -o net.mlir" in error("compile", path)


def test_folder_for_the_ir_that_cannot_be_written(module: Path, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with tenon.knobs.override(dump_ir=taken / "ir"):
        message = error("run", module, "--args", "iota:2x3xf32,2")
    assert message.startswith(f"TENON_DUMP_IR: cannot write to {taken / 'ir'}: ")
