"""The search of `tenon tune` for a faster way to run one kernel than the cost model's.

A kernel is compiled by itself, on random numbers. From the cost model's choice the search goes to the best of the plans
near it, and on from there, as long as that pays and time is left. Candidates take turns with the best so far; one whose
numbers are not those of the cost model's choice is left out. A kernel gets an entry in the record if in the end it is
faster by `LEAST_GAIN` than the cost model makes it.

What a plan is, which ones are near another, and how long one takes is told by a device's `Plans`: for a CPU schedules
of statements (`tune_cpu`), for a GPU lists of steps (`tune_cuda`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, IntegerAttr, MemRefType, ModuleOp, i8
from xdsl.ir import Block, Region

from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.lowering.kernels.statement import kernels_of, read_kernel, root_of
from tenon.lowering.tuning_record import Decision
from tenon.runtime.arguments.interface import Interface

LEAST_GAIN = 1.03
"""Below this a difference may be chance."""
ROUNDS = 7
TOLERANCE = {"float16": 2e-2, "bfloat16": 6e-2, "float64": 1e-11}

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True)
class Trial:
    """A kernel that was compiled by a plan."""

    plan: Any
    run: Callable[[], Any]
    """Run it once; a device may do it later."""
    results: Callable[[], Sequence[np.ndarray[Any, Any]]]
    """Its numbers, on the host."""


class Plans(Protocol[P]):
    """The ways in which a device can run a kernel."""

    kernel: str
    """For readers."""
    default: P
    """What runs it without a record."""
    least: float
    """Seconds below which it is not worth a decision of its own."""

    def near(self, plan: P) -> Iterable[P]:
        """What to try from a plan on, the most promising first."""
        ...

    def compiled(self, plan: P) -> Trial:
        """The kernel on random numbers. Raises `ValueError` or `RuntimeError` for a plan that it cannot run by."""
        ...

    def seconds(self, trials: Sequence[Trial]) -> list[float]:
        """What one run of each of them takes; they take turns."""
        ...

    def decision(self, plan: P, gain: float) -> Decision:
        """What to keep of a plan."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What was found for a kernel. `decision` is `None` where the cost model's choice stays."""

    kernel: str
    seconds: float
    best: float
    tried: int
    decision: Decision | None


def search(plans: Plans[P], seconds: float) -> Outcome:
    """Search for a faster plan for about `seconds`."""
    first = plans.compiled(plans.default)
    expected = first.results()
    (base,) = plans.seconds([first])
    chosen, code, seen = plans.default, first, {plans.default}
    end = time.perf_counter() + seconds
    improving = base >= plans.least
    while improving:
        improving = False
        for plan in plans.near(chosen):
            if time.perf_counter() > end:
                break
            if plan in seen:
                continue
            seen.add(plan)
            try:
                candidate = plans.compiled(plan)
            except (ValueError, RuntimeError):
                continue  # what the parts of a plan do not let each other do
            if not _same(candidate.results(), expected):
                continue
            ours, other = plans.seconds([code, candidate])
            if other * LEAST_GAIN < ours:
                chosen, code, improving = plan, candidate, True
    base, best = plans.seconds([first, code])
    is_faster = chosen != plans.default and best * LEAST_GAIN < base
    found = plans.decision(chosen, round(base / best, 2)) if is_faster else None
    return Outcome(plans.kernel, base, best, len(seen), found)


def _same(results: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]) -> bool:
    for result, right in zip(results, expected, strict=True):
        wide, exact = result.astype(np.float64), right.astype(np.float64)
        finite = np.abs(exact[np.isfinite(exact)])
        scale = float(finite.max()) if finite.size else 1.0
        tolerance = TOLERANCE.get(right.dtype.name, 1e-4 if right.dtype.kind not in "iub" else 0.0)
        if not np.allclose(wide, exact, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return False
    return True


def random_arrays(interface: Interface) -> list[np.ndarray[Any, Any]]:
    """Arguments for a kernel alone."""
    generator = np.random.default_rng(0)
    arrays: list[np.ndarray[Any, Any]] = []
    for shape, element in interface.inputs:
        dtype = numpy_dtype(element_type(element))
        if dtype.kind in "iub":
            arrays.append(generator.integers(0, 2, shape).astype(dtype))
        else:
            arrays.append(generator.standard_normal(shape).astype(dtype))
    return arrays


def separate_kernels(module: ModuleOp) -> Iterator[func.FuncOp]:
    """The kernels of a buffered module that can be run by themselves, in a module of their own each."""
    for function in kernels_of(module):
        types = function.function_type.inputs
        if not all(isinstance(t, MemRefType) and t.has_static_shape() for t in types):
            continue
        kernel = function.clone()
        ModuleOp([_caller(kernel), kernel])
        yield kernel


def _caller(kernel: func.FuncOp) -> func.FuncOp:
    """A program that does nothing but call the kernel."""
    inputs, outputs = _roles(kernel)
    types = list(kernel.function_type.inputs)
    block = Block(arg_types=[*[types[number] for number in (*inputs, *outputs)], MemRefType(i8, [0])])
    arguments = dict(zip((*inputs, *outputs), block.args, strict=False))
    block.add_ops([func.CallOp(kernel.sym_name.data, [arguments[n] for n in range(len(types))], ()), func.ReturnOp()])
    caller = func.FuncOp("main", FunctionType.from_lists([argument.type for argument in block.args], ()), Region(block))
    for name, numbers in (("num_inputs", inputs), ("num_outputs", outputs)):
        caller.attributes[name] = IntegerAttr(len(numbers), 64)
    return caller


def _roles(kernel: func.FuncOp) -> tuple[Sequence[int], Sequence[int]]:
    """The numbers of the arguments that a kernel reads and that it writes; one that was cut off another has no
    attribute that says it."""
    arguments = list(kernel.body.block.args)
    count = kernel.attributes.get("num_inputs")
    if isinstance(count, IntegerAttr):
        return range(count.value.data), range(count.value.data, len(arguments))
    written = {root_of(o.buffer) for statement in read_kernel(kernel).statements for o in statement.outputs}
    outputs = [number for number, argument in enumerate(arguments) if argument in written]
    return [number for number in range(len(arguments)) if number not in outputs], outputs
