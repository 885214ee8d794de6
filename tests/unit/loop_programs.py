"""Run loop-stage text on the CPU: what the tests of the CPU target share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from launching import launch
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.dialects.scf import Scf
from xdsl.dialects.vector import Vector
from xdsl.parser import Parser

from tenon.dialects.universe import UPSTREAM
from tenon.dialects.upstream.prefetch import MemRefWithPrefetch
from tenon.dialects.upstream.vector_arith import VectorArith
from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.lowering.math.expand_math import ExpandMathPass
from tenon.lowering.math.legalize_arith import LegalizeArithPass
from tenon.runtime.cpu.compile import compile_object, host_target
from tenon.runtime.cpu.load import LoadedCode
from tenon.runtime.cpu.program import load_program

MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")

ELEMENT_NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
}


def parse(text: str) -> ModuleOp:
    """Parse and verify loop-stage text."""
    context = Context()
    for dialect in (Builtin, Func, Scf, MemRefWithPrefetch, Vector, Math, VectorArith):
        context.load_dialect(dialect)
    context.register_dialect("llvm", UPSTREAM["llvm"])
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def memref_type(array: np.ndarray) -> str:
    """The memref type of a dense array."""
    dimensions = "".join(f"{size}x" for size in array.shape)
    return f"memref<{dimensions}{ELEMENT_NAMES[array.dtype.name]}>"


def load(module: ModuleOp, *, native_f16: bool | None = None, optimization: int = 2) -> LoadedCode:
    """Compile a loop-stage module for this machine."""
    target = host_target()
    LegalizeArithPass().apply(Context(), module)
    module.verify()
    text = emit_llvm(module, native_f16=target.native_f16 if native_f16 is None else native_f16)
    return load_program([compile_object(text, target, optimization=optimization)], target)


def aligned_arena(size: int) -> np.ndarray:
    """Bytes for the arena, aligned to 64."""
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def call(code: LoadedCode, arrays: Sequence[np.ndarray]) -> None:
    """Run `main` on arrays, one per argument."""
    launch(code.entry(), [array.ctypes.data for array in arrays])


def run(text: str, *arrays: np.ndarray, **options) -> None:
    """Parse, compile and run a module whose `main` takes these arrays."""
    call(load(parse(text), **options), arrays)


def elementwise_module(body: str, inputs: Sequence[np.ndarray], output: np.ndarray, lanes: int | None) -> str:
    """A kernel `out[i] = body(x0[i], x1[i], ...)` over 1-D arrays: `body` uses %x0, %x1, ... and defines %y.

    `T(f32)` in the body stands for f32 or a vector of it. With `lanes`, the size is a multiple of it.
    """
    size, step = output.size, lanes or 1

    def value_type(array: np.ndarray) -> str:
        element = ELEMENT_NAMES[array.dtype.name]
        return element if lanes is None else f"vector<{lanes}x{element}>"

    def expanded(text: str) -> str:
        for element in set(ELEMENT_NAMES.values()) | {"index"}:
            text = text.replace(f"T({element})", element if lanes is None else f"vector<{lanes}x{element}>")
        return text

    def load_op(number: int, array: np.ndarray) -> str:
        if lanes is None:
            return f"%x{number} = memref.load %m{number}[%i] : {memref_type(array)}"
        return f"%x{number} = vector.load %m{number}[%i] : {memref_type(array)}, {value_type(array)}"

    arguments = [f"%m{number}: {memref_type(array)}" for number, array in enumerate([*inputs, output])]
    types = ", ".join(memref_type(array) for array in (*inputs, output))
    names = ", ".join(f"%m{number}" for number in range(len(inputs) + 1))
    target = f"%m{len(inputs)}"
    suffix = "" if lanes is None else f", {value_type(output)}"
    loads = "\n      ".join(load_op(number, array) for number, array in enumerate(inputs))
    store = "memref.store" if lanes is None else "vector.store"
    return f"""
module {{
  func.func @main({", ".join(arguments)}, %arena: memref<0xi8>) {{
    func.call @kernel_0({names}) : ({types}) -> ()
    func.return
  }}
  func.func private @kernel_0({", ".join(arguments)}) attributes {{kernel}} {{
    %c0 = arith.constant 0 : index
    %size = arith.constant {size} : index
    %step = arith.constant {step} : index
    scf.for %i = %c0 to %size step %step {{
      {loads}
      {expanded(body)}
      {store} %y, {target}[%i] : {memref_type(output)}{suffix}
    }}
    func.return
  }}
}}
"""


def elementwise(
    body: str,
    inputs: Sequence[np.ndarray],
    dtype: Any,
    lanes: int | None = None,
    *,
    expand: bool = False,
    exact: tuple[str, ...] = (),
    scaling: bool = False,
    **options: Any,
) -> np.ndarray:
    """What a body gives on 1-D arrays; see `elementwise_module`."""
    output = np.zeros(inputs[0].shape, dtype)
    module = parse(elementwise_module(body, inputs, output, lanes))
    if expand:
        ExpandMathPass(exact, scaling).apply(Context(), module)
        module.verify()
    call(load(module, **options), [*inputs, output, aligned_arena(0)])
    return output


def check_with_upstream(module: ModuleOp) -> None:
    """Let upstream's mlir-opt parse and verify what we print; skip the test where it is not installed."""
    if MLIR_OPT is None:
        pytest.skip("mlir-opt is not installed")
    result = subprocess.run([MLIR_OPT, "--verify-each"], input=str(module), text=True, capture_output=True)
    assert result.returncode == 0, result.stderr


bfloat16 = ml_dtypes.bfloat16
