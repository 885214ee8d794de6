"""Products of matrices for a GPU, what they are to give, how they are lowered, and faults that are to be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch
from cuda_shim import Schedule, ShimError, ShimExecutable, build
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

import tenon
from tenon.lowering.cuda.emit_cuda import kernels
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import lower
from tenon.lowering.steps.table import write_given
from tenon.passes.machine import Gpu
from tenon.runtime.lower import new_context

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
ONE = Gpu.of_option("test", "sm_80 multiprocessors=1")
"""Each block gets as much work as on a large device."""
WARPGROUPS = Gpu.of_option("test", "sm_90a multiprocessors=1 latency=0")
"""The same, of which no other block waits, with the instructions of warpgroups."""


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and what NumPy says of these in f64; `tolerance` in units of the largest result."""

    function: Callable[..., Any]
    arrays: Sequence[Array]
    oracle: Callable[..., Any]
    tolerance: float = 4e-3
    machine: Gpu = ONE


def normal(random: np.random.Generator, *shape: int, dtype: Any = BF16) -> Array:
    return random.standard_normal(shape).astype(dtype)


def convolved(x: Array, w: Array, stride: int = 1) -> Array:
    return torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w), stride=stride, padding=1).numpy()


def gradients_of_convolution(stride: int, padding: int) -> Callable[[Array, Array, Array], list[Array]]:
    """What PyTorch gives for the gradients of an image and of a weight, by the cotangent of the convolution."""

    def of(x: Array, w: Array, cotangent: Array) -> list[Array]:
        given = [torch.tensor(value, requires_grad=True) for value in (x, w)]
        torch.nn.functional.conv2d(*given, stride=stride, padding=padding).backward(torch.tensor(cotangent))
        return [value.grad.numpy() for value in given if value.grad is not None]

    return of


def gradient_case(
    operand: int, arrays: Sequence[Array], *, stride: int = 1, padding: int = 0, machine: Gpu = ONE
) -> Case:
    """The gradient of an image (0) or of a weight (1) for the cotangent, the last array."""
    oracle = gradients_of_convolution(stride, padding)

    def gradient(x: Any, w: Any, cotangent: Any) -> Any:
        function = partial(tenon.conv2d, stride=stride, padding=padding)
        return tenon.vjp(function, x, w, cotangent=cotangent)[1][operand]

    return Case(gradient, arrays, lambda *wide: oracle(*wide)[operand], machine=machine)


def lowered(case: Case, given: Sequence[str] = ()) -> ModuleOp:
    """With the steps that are `given` to its kernel, or decided."""
    module = tenon.jit(case.function).trace(*case.arrays).module.clone()
    if given:
        (main,) = (op for op in module.ops if isinstance(op, FuncOp))
        write_given(main, {"kernel_0": given})
    return lower(new_context(), module, LoweringOptions(gpu=case.machine))


def steps(module: ModuleOp) -> list[str]:
    """The steps of the only kernel, but for those that pad, transpose, and take rows apart in convolutions."""
    found = [steps_of(kernel) for kernel in kernels(module)]
    if len(found) > 1:
        found = [one for one in found if any(step.startswith("contract") for step in one)]
    (only,) = found
    return only


def steps_of(kernel: FuncOp) -> list[str]:
    schedule = kernel.attributes.get("schedule")
    assert isinstance(schedule, ArrayAttr), kernel.attributes.get("unscheduled")
    return [text.data for text in schedule.data if isinstance(text, StringAttr)]


def replace_step(kernel: FuncOp, old: str, new: str) -> None:
    """Put a step in the place of another one, or, where it is empty, leave that one out."""
    listed = steps_of(kernel)
    assert old in listed
    changed = [new if step == old else step for step in listed]
    kernel.attributes["schedule"] = ArrayAttr([StringAttr(step) for step in changed if step])


def assert_close(case: Case, result: Array) -> None:
    wide = [a.astype(np.float64) if a.dtype.kind not in "biu" else a.astype(np.int64) for a in case.arrays]
    expected = np.asarray(case.oracle(*wide), np.float64)
    largest = np.abs(expected[np.isfinite(expected)]).max()
    relative = min(1e-2, 10 * case.tolerance)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=relative, atol=case.tolerance * largest)


def assert_found(right: ShimExecutable, wrong: str, case: Case, names: str, schedules: Sequence[Schedule]) -> None:
    """Raise `AssertionError` unless under each schedule the fault of a text has one of the `names`, or, if there are
    none, changes the numbers that `right` gives."""
    backend = right.backend
    kept = backend.library, backend.unit
    backend.library, backend.unit = build([wrong]), 0
    try:
        for schedule in schedules:
            found: set[str] = set()
            numbers_differ = False
            try:
                (result,) = right(list(case.arrays), schedule)
                assert_close(case, result)
            except ShimError as error:
                found = set(error.findings)
            except AssertionError:
                numbers_differ = True
            assert found & set(names.split()) if names else numbers_differ, (found, numbers_differ)
    finally:
        backend.library, backend.unit = kept
