"""Programs compiled for x86 processors that have less than this one, and run here: their numbers and instructions."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tenon
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.runtime.cpu.compile import host_target, native_assembly

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason=f"{platform.machine()} does not run x86 code"
)


@dataclass(frozen=True)
class Processor:
    """A processor by LLVM's name, what running its code takes, its registers' width, and what no code for it holds."""

    name: str
    needs: str
    vector_bits: int
    beyond: re.Pattern[str]


# AVX-512 shows in registers: of 512 bits, of masks, and the upper sixteen.
_AVX512 = r"%zmm|%k[0-7]|%[xy]mm(?:1[6-9]|2\d|3[01])"
# Names with a v are AVX and later; what SSE3 to SSE4.2 added to those without, and instructions on bits.
_AFTER_SSE2 = (
    r"^\s+(?:v\w|h(?:add|sub)p|addsubp|movddup|movs[hl]dup|lddqu|pshufb|palignr|pabs|psign|ph(?:add|sub)|pmulhrs|pmadd"
    r"ubsw|round[ps]|p?blend|pinsr[bdq]|pextr[bdq]|insertps|extractps|pmov[sz]x|pmul(?:ld|dq)|pm(?:ax|in)(?:s[bd]|u[wd])"
    r"|pcmp(?:eqq|gtq)|packusdw|ptest|popcnt|lzcnt|tzcnt|andn[lq]?\b|movbe|[bm]lsi|mulx|s(?:ar|hl|hr)x)"
)
PROCESSORS = {
    "AVX2": Processor("haswell", "+avx2", 256, re.compile(_AVX512)),
    "SSE2": Processor("x86-64", "+sse2", 128, re.compile(rf"{_AVX512}|%ymm|{_AFTER_SSE2}", re.MULTILINE)),
}


@dataclass(frozen=True)
class Program:
    """A function, its arguments, and its result by NumPy; f32 results may be off by `tolerance`."""

    function: Callable[..., Any]
    arguments: tuple[Array, ...]
    expected: Array
    tolerance: float = 0


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def whole(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape, dtype=np.int8)


def softmax(x: Array) -> Array:
    powers = np.exp(x.astype(float) - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    x = x.astype(float)
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def conv2d(x: Array, weight: Array) -> Array:
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(math.erf)(x.astype(float) / math.sqrt(2))) / 2


def programs() -> dict[str, Program]:
    x, y, z = normal(13, 37), normal(37, 29), normal(29, 37)
    image, kernel, rows = normal(2, 5, 11, 9), normal(7, 5, 3, 3), normal(7, 131)
    weight, bias, numbers = normal(131), normal(131)[::-1].copy(), whole(7, 203)
    ties = np.round(rows)
    product, offset, halves = x.astype(float) @ y, normal(29), x.astype(np.float16)
    return {
        "matmul": Program(lambda x, y: x @ y, (x, y), product, 2e-5),
        "matmul_bias_tanh": Program(
            lambda x, y, b: tenon.tanh(x @ y + b), (x, y, offset), np.tanh(product + offset), 1e-5
        ),
        "matmul_of_a_transpose": Program(lambda x, z: x @ tenon.transpose(z), (x, z), x.astype(float) @ z.T, 2e-5),
        "softmax": Program(lambda x: tenon.softmax(x, axis=-1), (rows,), softmax(rows), 1e-6),
        "layer_norm": Program(tenon.layer_norm, (rows, weight, bias), layer_norm(rows, weight, bias), 1e-5),
        "conv2d": Program(lambda x, w: tenon.conv2d(x, w, padding=1), (image, kernel), conv2d(image, kernel), 5e-5),
        "gelu": Program(tenon.gelu, (rows,), gelu(rows), 1e-6),
        "argmax": Program(lambda x: tenon.argmax(x, axis=1), (ties,), ties.argmax(1)),
        "argsort": Program(lambda x: tenon.argsort(x, axis=1), (ties,), ties.argsort(1, kind="stable")),
        "top_k": Program(lambda x: tenon.top_k(x, 9)[1], (ties,), (-ties).argsort(1, kind="stable")[:, :9]),
        "transpose": Program(lambda x: tenon.transpose(x), (rows,), rows.T),
        "int8_sum": Program(lambda x: tenon.sum(x, axis=1), (numbers,), numbers.sum(1, dtype=np.int8)),
        "f16_product": Program(lambda x, y: x * y, (halves, halves[::-1].copy()), halves * halves[::-1]),
    }


PROGRAMS = programs()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("processor", PROCESSORS.values(), ids=PROCESSORS)
def test_programs(processor: Processor, program: Program) -> None:
    if processor.needs not in host_target().features.split(","):
        pytest.skip(f"this processor has no {processor.needs[1:]}")
    compiled = tenon.jit(program.function)
    native = compiled(*program.arguments)
    with tenon.knobs.override(target_cpu=processor.name):
        assert host_target().vector_bits == processor.vector_bits
        found = compiled(*program.arguments)
        target = host_target()
        source = emit_llvm(compiled.lower(*program.arguments).module, native_f16=target.native_f16)
        assembly = native_assembly(source, target)
    for result in (found, native):
        np.testing.assert_allclose(result, program.expected, rtol=program.tolerance, atol=program.tolerance)
    assert "main:" in assembly
    assert [line for line in assembly.splitlines() if processor.beyond.search(line)] == []


def test_instructions_of_this_processor_would_be_found() -> None:
    target = host_target()
    if target.vector_bits == 128:
        pytest.skip("this processor has no avx")
    x, y = PROGRAMS["matmul"].arguments
    assembly = native_assembly(emit_llvm(tenon.jit(lambda x, y: x @ y).lower(x, y).module), target)
    assert PROCESSORS["SSE2"].beyond.search(assembly)
    if target.vector_bits == 512:
        assert PROCESSORS["AVX2"].beyond.search(assembly)


@pytest.mark.parametrize(
    ("cpu", "features"), [("x86-64", None), ("haswell", None), ("haswell", "-fma"), (None, "-fma")]
)
def test_f64_is_left_to_the_c_library_without_multiply_adds(cpu: str | None, features: str | None) -> None:
    with tenon.knobs.override(target_cpu=cpu, target_features=features):
        text = str(tenon.jit(lambda x: tenon.exp(x) + x**2).lower(np.zeros(16)).module)
        expected = "fma" not in (features or "") and cpu == "haswell"
        assert host_target().multiply_add == expected
        # what has AVX-512 has multiply-adds
        assert expected or host_target().vector_bits < 512
        assert expected or not host_target().native_scaling
    assert ("math.exp" not in text) == expected
    assert "math.powf" not in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"target_features": "+avx5"},
            r"^TENON_TARGET_FEATURES: 'avx5' is no feature of .*, did you mean 'avx",
        ),
        ({"target_features": "-64bit"}, "^TENON_TARGET_FEATURES is '-64bit', with which LLVM cannot compile for"),
        (
            {"target_cpu": "abacus"},
            "^TENON_TARGET_CPU is 'abacus', which is no processor of ",
        ),
    ],
    ids=["unknown feature", "what all code needs", "unknown processor"],
)
def test_what_llvm_would_end_the_process_over_is_refused(settings: dict[str, str], message: str) -> None:
    with tenon.knobs.override(**settings), pytest.raises(ValueError, match=message):
        tenon.jit(lambda x: x + 1)(np.zeros(2, np.float32))
