"""Opaque ops: kernels given as target text, through every stage."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from math import prod
from platform import machine
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from cuda_shim import COMPILER, run_on_shim
from xdsl.parser import Parser

import tenon
from tenon.lowering.cuda.emit_cuda import emit_cuda
from tenon.runtime.executables import executable
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import lower_module, map_to_grid, new_context


def hypot_llvm(symbol: str, types: Any, results: Any, settings: dict[str, Any]) -> str:
    count = prod(types[0].get_shape())
    return f"""
declare double @hypot(double, double)
define void @{symbol}(ptr %x, ptr %y, ptr %out) {{
entry:
  %none = icmp eq i64 {count}, 0
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x.at = getelementptr double, ptr %x, i64 %i
  %y.at = getelementptr double, ptr %y, i64 %i
  %out.at = getelementptr double, ptr %out, i64 %i
  %a = load double, ptr %x.at
  %b = load double, ptr %y.at
  %length = call double @hypot(double %a, double %b)
  %scaled = fmul double %length, {settings["scale"]:.6e}
  store double %scaled, ptr %out.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def hypot_cuda(symbol: str, types: Any, results: Any, settings: dict[str, Any]) -> str:
    return f"""\
extern "C" __global__ void {symbol}(const double *x, const double *y, double *out) {{
  for (int i = threadIdx.x; i < {prod(types[0].get_shape())}; i += 256)
    out[i] = {settings["scale"]!r} * sqrt(x[i] * x[i] + y[i] * y[i]);
}}
"""


def is_f64(types: Any, settings: dict[str, Any]) -> bool:
    return all(t.element_type == tenon.element_type("f64") for t in types)


@tenon.tensor_op
class LengthOp(tenon.OpaqueOp):
    """`scale` times the length of the vector (`x`, `y`)."""

    name = "opaque.length"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    y = tenon.operand_def(tenon.FLOAT_TENSOR)
    scale = tenon.setting(float, default=1.0)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    KERNELS = (
        tenon.Kernel("libm", "llvm", hypot_llvm, is_f64, "f64"),
        tenon.Kernel("one-block", "cuda", hypot_cuda, is_f64, "f64"),
        tenon.Kernel("nowhere", "llvm", hypot_llvm, lambda types, settings: False, "nothing at all"),
    )

    @classmethod
    def infer(cls, x: Any, y: Any, *, scale: float) -> Any:
        if x != y:
            raise tenon.InferenceError(f"x is {x} and y is {y}")
        return x

    @staticmethod
    def reference(x: Any, y: Any, *, scale: float) -> Any:
        return np.hypot(x, y) * scale

    @staticmethod
    def vjp(g: Any, out: Any, x: Any, y: Any, *, scale: float) -> Any:
        return g * x * scale**2 / out, g * y * scale**2 / out


def doubles(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def program(x: Any, y: Any) -> Any:
    return tenon.sum(tenon.sin(tenon.length(tenon.exp(x), y)) * tenon.length(x, x + y, scale=3.0), axis=0)


def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.sin(np.hypot(np.exp(x), y)) * 3 * np.hypot(x, x + y)).sum(0)


X, Y = doubles(3, 5), doubles(3, 5, seed=1)


def test_at_once() -> None:
    np.testing.assert_array_equal(tenon.length(X, Y, scale=2.0), 2 * np.hypot(X, Y))
    assert tenon.length(np.zeros((0, 2)), np.zeros((0, 2))).shape == (0, 2)


def test_within_a_program_between_fused_kernels() -> None:
    np.testing.assert_allclose(tenon.jit(program)(X, Y), expected(X, Y))


def test_interpreted_by_its_reference() -> None:
    with tenon.knobs.override(interpret=True):
        np.testing.assert_allclose(tenon.jit(program)(X, Y), expected(X, Y))


def test_gradient_by_its_own_rule() -> None:
    gradient = tenon.grad(lambda x: tenon.sum(tenon.length(x, Y, scale=2.0)))(X)
    np.testing.assert_allclose(gradient, 2 * X / np.hypot(X, Y))


def test_every_stage_runs_from_its_text(tmp_path: Any) -> None:
    with tenon.knobs.override(dump_ir=tmp_path):
        tenon.jit(program)(X, Y)
    files = sorted(tmp_path.glob("*.mlir"))
    assert len(files) > 10
    for file in files:
        module = Parser(new_context(), file.read_text()).parse_module()
        module.verify()
        for interpret in (False, True):
            with tenon.knobs.override(interpret=interpret):
                (result,) = executable(module, "cpu").run([X, Y])
            np.testing.assert_allclose(result, expected(X, Y), err_msg=file.name)


def test_equal_uses_share_a_kernel_and_what_it_declares() -> None:
    lowered = str(
        tenon.jit(lambda x, y: (tenon.length(x, y), tenon.length(y, x), tenon.length(x, y, scale=3.0))).lower(X, Y)
    )
    assert lowered.count("func.func private @opaque_length_") == 2
    assert 'llvm_kernel = "libm"' in lowered
    assert 'cuda_kernel = "one-block"' in lowered


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
def test_cuda_text_runs_as_one_block() -> None:
    module = tenon.jit(program).trace(X, Y).module.clone()
    lower_module(module, "cuda")
    (result,) = run_on_shim(module, [X, Y])
    np.testing.assert_allclose(result, expected(X, Y), rtol=1e-12)


def test_refusal_names_each_candidate() -> None:
    x = X.astype(np.float32)
    with pytest.raises(
        ValueError,
        match=r"opaque.length: no kernel for llvm takes \(tensor<3x5xf32>, tensor<3x5xf32>\): "
        "libm takes f64; nowhere takes nothing at all",
    ):
        tenon.length(x, x)


def test_op_without_kernels_for_the_target() -> None:
    @tenon.tensor_op
    class DeviceOnlyOp(tenon.OpaqueOp):
        """`x`, copied by a CUDA kernel."""

        name = "opaque.device_only"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)
        KERNELS = (tenon.Kernel("copy", "cuda", lambda symbol, *_: f"void {symbol}()"),)

        @classmethod
        def infer(cls, x: Any) -> Any:
            return x

        @staticmethod
        def reference(x: Any) -> Any:
            return x

    with pytest.raises(ValueError, match=r"opaque.device_only: has no kernel for llvm"):
        tenon.device_only(X)
    with pytest.raises(tenon.GradientError, match=r"opaque.device_only: has no gradient"):
        tenon.grad(lambda x: tenon.sum(tenon.device_only(x)))(X)


def test_mistakes_in_the_definition() -> None:
    with pytest.raises(TypeError, match=r"EmptyOp \(opaque.empty\) must define `KERNELS`"):

        @tenon.tensor_op
        class EmptyOp(tenon.OpaqueOp):
            """Nothing."""

            name = "opaque.empty"
            result = tenon.result_def(tenon.FLOAT_TENSOR)

    @tenon.tensor_op
    class MisnamedOp(tenon.OpaqueOp):
        """A kernel under a name of its own."""

        name = "opaque.misnamed"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)
        KERNELS = (tenon.Kernel("mine", "llvm", lambda *_: "define void @mine() { ret void }"),)

        @classmethod
        def infer(cls, x: Any) -> Any:
            return x

        @staticmethod
        def reference(x: Any) -> Any:
            return x

    with pytest.raises(Exception, match=r"kernel 'mine' for llvm: its source does not define opaque_misnamed_0"):
        tenon.misnamed(X)


@tenon.tensor_op
class JudgedOp(tenon.HostOp):
    """What the function that is set gives for `x`, which is inferred to be of type `i64`."""

    name = "opaque.judged"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.INTEGER_TENSOR)
    FUNCTION: ClassVar[Any] = None

    @classmethod
    def infer(cls, x: Any) -> Any:
        return tenon.tensor_type(tenon.shape_of(x), tenon.element_type(np.int64))

    @staticmethod
    def reference(x: Any) -> Any:
        return JudgedOp.FUNCTION(x)


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: None, TypeError, "reference returns None where result, an array of shape (3, 5), is needed"),
        (lambda x: (x, x), TypeError, "reference returns 2 results where 1 are inferred"),
        (lambda x: 7, ValueError, "reference gives result the shape () where (3, 5) is inferred"),
        (
            lambda x: np.ones((1, 5), int),
            ValueError,
            "reference gives result the shape (1, 5) where (3, 5) is inferred",
        ),
        (lambda x: x, TypeError, "reference gives result the dtype float64 where int64 is inferred"),
        (lambda x: x + 1j, TypeError, "reference gives result the dtype complex128 where int64 is inferred"),
        (lambda x: np.add(x, 1, out=x), ValueError, "output array is read-only"),
    ],
    ids=["none", "two", "number", "row", "floats", "complex", "operand changed"],
)
def test_what_a_reference_gives_is_checked(function: Any, error: Any, message: str, interpret: bool) -> None:
    """It would be repeated, cut off or misread otherwise, and the operand is memory of the caller."""
    JudgedOp.FUNCTION, given = function, X.copy()
    with knobs.override(interpret=interpret), pytest.raises(error, match=re.escape(message)):
        tenon.judged(given)
    np.testing.assert_array_equal(given, X)


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
def test_a_reference_may_give_a_narrower_dtype_(interpret: bool) -> None:
    with knobs.override(interpret=interpret):
        for function in (lambda x: x > 0, lambda x: (x > 0).astype(np.int8)):
            JudgedOp.FUNCTION = function
            found = tenon.judged(X)
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, X > 0)


def moving(name: str, text: str, target: Literal["llvm", "cuda"] = "llvm", **more: Any) -> Any:
    """An op that gives `x` back, with `text` as its kernel."""

    def source(symbol: str, *_: Any) -> str:
        return text.replace("$symbol", symbol)

    class MovingOp(tenon.OpaqueOp):
        """`x`."""

        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)
        KERNELS = (tenon.Kernel("text", target, source, **more),)
        infer = classmethod(lambda cls, x: x)
        reference = staticmethod(lambda x: x)

    MovingOp.name = f"opaque.{name}"
    return tenon.tensor_op(MovingOp)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define void @$symbol(ptr %x, ptr %y) { rett void }", r"refused the IR of @opaque_wrong_0: (.|\n)*rett void"),
        (
            "define void @$symbol(ptr %x) { ret void }",
            r"defines void \(ptr %x\), and is called as void \(ptr, ptr\): operands \(1\), then results \(1\)",
        ),
        ("define void @$symbol(ptr %x, ptr %y, ptr %z) { ret void }", r"defines void \(ptr %x, ptr %y, ptr %z\), and"),
        ("define void @$symbol(ptr %x, i64 %y) { ret void }", r"defines void \(ptr %x, i64 %y\), and is called"),
        ("define i1 @$symbol(ptr align(8) %x, ptr %y) { ret i1 1 }", r"defines i1 \(ptr align\(8\) %x, ptr %y\), and"),
        ("define fastcc void @$symbol(ptr %x, ptr %y) { ret void }", r"defines fastcc void \(ptr %x, ptr %y\), and"),
        ("; define void @$symbol(ptr %x, ptr %y) {}", r"does not define @opaque_wrong_0"),
        ("define void @$symbol(ptr %x, ptr %y) { ret void } " * 2, r"defines @opaque_wrong_0 more than once"),
        (
            'define void @$symbol(ptr %x, ptr %y) { call void asm "frobnicate", ""() ret void }',
            r"LLVM cannot compile its text: error: .* invalid instruction mnemonic 'frobnicate'",
        ),
    ],
)
def test_target_text_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        moving("wrong", text).apply(X)
    assert "refused" in message or str(raised.value).startswith("opaque.wrong: kernel 'text' for llvm")


@pytest.mark.parametrize("parameters", ["double *out", "void", "const double *x, double *out, int n /* , */"])
def test_cuda_text_with_other_parameters(parameters: str) -> None:
    op = moving("other", f'extern "C" __global__ __launch_bounds__(256, (1)) void $symbol({parameters}) {{ }}', "cuda")
    module = tenon.jit(op.apply).trace(X).module.clone()
    lower_module(module, "cuda")
    with pytest.raises(
        ValueError, match=rf"'text' for cuda defines void \({re.escape(parameters.split('/')[0].strip())}\)"
    ):
        emit_cuda(map_to_grid(module))


@pytest.mark.parametrize("launch", [(0, 256), (1, 2048), (1, 2, 3), (1.5, 32), None])
def test_launches_that_no_gpu_has(launch: Any) -> None:
    text = 'extern "C" __global__ void $symbol(const double *x, double *y) { }'
    op = moving("launched", text, "cuda", launch=lambda types, settings: launch)
    with pytest.raises(Exception, match=rf"kernel 'text' for cuda: launch gives {re.escape(repr(launch))} where"):
        lower_module(tenon.jit(op.apply).trace(X).module.clone(), "cuda")


@pytest.mark.skipif(machine() != "x86_64", reason="assembly of another processor")
def test_text_with_assembly() -> None:
    loop = """define void @$symbol(ptr %x, ptr %y) {
      %v = load i64, ptr %x
      %w = call i64 asm "movq $1, $0", "=r,r"(i64 %v)
      store i64 %w, ptr %y
      ret void
    }"""
    np.testing.assert_array_equal(moving("by_assembly", loop).apply(np.array([7.0])), [7.0])


def test_kernels_may_define_functions_of_one_name() -> None:
    def adding(name: str, number: float) -> Any:
        return moving(
            name,
            f"@by = private constant double {number}\ndefine internal double @more(double %v) {{\n"
            "  %by = load double, ptr @by\n  %w = fadd double %v, %by\n  ret double %w\n}\n"
            "define void @$symbol(ptr %x, ptr %y) {\n  %v = load double, ptr %x\n"
            "  %w = call double @more(double %v)\n  store double %w, ptr %y\n  ret void\n}",
        ).apply

    one, ten = adding("one_more", 1.0), adding("ten_more", 10.0)
    np.testing.assert_array_equal(tenon.jit(lambda x: one(x) * 100 + ten(x))(np.array([0.5])), [160.5])


def test_programs_that_are_compiled_in_parts_have_them(capfd: pytest.CaptureFixture[str]) -> None:
    def long(x: Any, xp: Any) -> Any:
        for _ in range(6):
            x = xp.cumsum(x.T @ x, axis=0) / 1e4
        return x

    def function(x: Any) -> Any:
        x = long(x, tenon)
        tenon.debug.print("rows {}", tenon.sum(x * 0 + 1, axis=1)[0])
        return tenon.length(x, x)

    x = np.random.default_rng(0).standard_normal((65, 65))
    np.testing.assert_allclose(tenon.jit(function)(x), np.abs(long(x, np)) * 2**0.5, rtol=1e-6)
    assert capfd.readouterr().out.startswith("rows 65")


def test_sizes_depend_on_no_values() -> None:
    @tenon.tensor_op
    class PositivesOp(tenon.HostOp):
        name = "opaque_test.positives"
        x = tenon.operand_def(tenon.FLOAT_TENSOR)
        result = tenon.result_def(tenon.FLOAT_TENSOR)

        @staticmethod
        def infer(x: Any) -> Any:
            return tenon.tensor_type((-1,), tenon.element_of(x))

        @staticmethod
        def reference(x: Any) -> Any:
            return x[x > 0]

    x = np.array([1.0, -2.0])
    for call in (PositivesOp.apply, tenon.jit(lambda x: PositivesOp.apply(x) * 2)):
        with pytest.raises(
            ValueError, match=r"infer leaves a size of its results open \(tensor<\?xf64>\), and it may depend"
        ):
            call(x)
