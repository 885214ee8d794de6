"""Programs for a GPU, what they are to give, and how they are lowered: for a GPU of one multiprocessor, where each
block gets as much work as on a large device, also with little shared memory, and for one of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cuda_shim import COMPILER, SCHEDULES, Schedule, ShimError, load_on_shim
from random_numbers import generator
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.dialects.func import CallOp
from xdsl.dialects.gpu import BarrierOp

import tenon
from tenon.dialects.upstream.gpu_shuffle import ShuffleOp
from tenon.lowering.cuda.emit_cuda import emit_cuda
from tenon.lowering.cuda.map_to_grid import MapToGridPass
from tenon.lowering.loop_ir.nests import constant_int
from tenon.lowering.math.legalize_arith import LegalizeArithPass
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower
from tenon.passes.machine import GPUS, Gpu
from tenon.runtime.cuda.nvrtc import KernelResources, compile_kernels, why_unavailable
from tenon.runtime.lower import new_context

Array = np.ndarray[Any, Any]
ONE = Gpu.of_option("test", "sm_90 multiprocessors=1")
LITTLE = Gpu.of_option("test", "sm_90 multiprocessors=1 largest_shared=80000")
MACHINES = {"one": ONE, "many": GPUS["sm_90"], "little": LITTLE}
RANDOM = generator(11)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
needs_nvrtc = pytest.mark.skipif(why_unavailable() is not None, reason="NVRTC is not installed")


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def integers(*shape: int, dtype: Any) -> Array:
    return RANDOM.integers(0, 2 if dtype == np.bool_ else 100, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and what NumPy says of these in f64; `is_scheduled`: all kernels have steps."""

    function: Callable[..., Any]
    arrays: Sequence[Array]
    oracle: Callable[..., Any]
    tolerance: float = 2e-5
    is_scheduled: bool = True


def load_all(cases: Mapping[str, Case], wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """The executables on the host shim of cases, by their names and those of machines; compiled together."""
    modules = [lowered(cases[name], MACHINES[machine]) for name, machine in wanted]
    return dict(zip(wanted, load_on_shim(modules), strict=True))


def check(executable: Any, case: Case, schedules: Sequence[Schedule] = SCHEDULES) -> None:
    """Raise `AssertionError` unless a program gives under `schedules` of the shim what NumPy gives in f64."""
    wide = [a.astype(np.float64) if a.dtype.kind not in "biu" else a for a in case.arrays]
    expected = case.oracle(*wide)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for schedule in schedules:
        for result, right in zip(executable(list(case.arrays), schedule), expected, strict=True):
            np.testing.assert_allclose(
                result.astype(np.float64), np.asarray(right, np.float64), rtol=case.tolerance, atol=case.tolerance
            )


def is_caught(executable: Any, case: Case) -> bool:
    """Whether the shim names a fault of a program, or its results show one."""
    try:
        check(executable, case)
    except (ShimError, AssertionError):
        return True
    return False


def counted(executable: Any, case: Any) -> Any:
    """What the only kernel of a program asked of memory."""
    (counters,) = counted_each(executable, case.arrays)
    return counters


def counted_each(executable: Any, arrays: Sequence[Array]) -> list[Any]:
    """What each kernel of a program asked of memory, in the order of launches."""
    executable.backend.counting, executable.backend.counters = True, []
    executable(list(arrays))
    executable.backend.counting = False
    return [counters for _, counters in executable.backend.counters]


def compiled(module: ModuleOp, architecture: str) -> dict[str, KernelResources]:
    """What the kernels of a module take of a multiprocessor, by name, as NVRTC compiles them."""
    MapToGridPass().apply(Context(), module)
    LegalizeArithPass().apply(Context(), module)
    return compile_kernels(emit_cuda(module, architecture), architecture).kernels


def assert_in_registers(module: ModuleOp, architecture: str) -> None:
    """Raise `AssertionError` unless all that threads keep is in registers, as NVRTC compiles a module."""
    found = compiled(module, architecture)
    assert found
    for name, kernel in found.items():
        assert (kernel.spilled, kernel.stack) == (0, 0), name


def lowered(case: Case, machine: Gpu) -> ModuleOp:
    module = tenon.jit(case.function).trace(*case.arrays).module.clone()
    return lower(new_context(), module, LoweringOptions(gpu=machine))


def planted(module: ModuleOp) -> dict[str, ModuleOp]:
    """Copies of a program with one fault each: a barrier or a launch that is missing, an exchange with another lane."""
    faults: dict[str, ModuleOp] = {}
    for number, op in enumerate(module.walk()):
        if not isinstance(op, BarrierOp | ShuffleOp | CallOp):
            continue
        copy = module.clone()
        twin = list(copy.walk())[number]
        if isinstance(twin, BarrierOp | CallOp):
            twin.detach()
            faults[f"no {twin.name} {number}"] = copy
        else:
            assert isinstance(twin, ShuffleOp)
            other = ConstantOp(IntegerAttr((constant_int(twin.offset) or 0) // 2 or 2, i32))
            twin.parent.insert_op_before(other, twin)
            twin.operands[1] = other.result
            faults[f"another lane in exchange {number}"] = copy
    return faults
