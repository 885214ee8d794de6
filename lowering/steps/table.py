"""All steps by name, and the attribute `schedule` of a kernel: a list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from tenon.lowering.steps.bind import BindLoop, Resident
from tenon.lowering.steps.contract import Contract
from tenon.lowering.steps.inline import Inline
from tenon.lowering.steps.library import Library
from tenon.lowering.steps.nest import Nest, NestError
from tenon.lowering.steps.pack import Pack
from tenon.lowering.steps.pieces import OnlineStep, PiecesStep
from tenon.lowering.steps.pipeline import Last, Pipeline, Registers
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.rotate import Rotate
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step, parse, run
from tenon.lowering.steps.vectorize import Unroll, Vectorize

STEPS: dict[str, type[Step]] = {
    step.name: step
    for step in (
        *(Split, Reorder, BindLoop, Unroll, Vectorize, Rotate),
        *(Pack, Contract, PiecesStep, OnlineStep, Pipeline, Inline, Last, Registers, Resident, Library),
    )
}

ATTRIBUTE = "schedule"
GIVEN = "schedules"
"""The attribute of a function that has the steps of kernels by name, for kernels that are not there yet."""


def read_steps(function: func.FuncOp) -> list[Step] | None:
    """The steps that a kernel's attribute lists, or None without one. Raises `NestError` for text that is no step."""
    attribute = function.attributes.get(ATTRIBUTE)
    if attribute is None:
        return None
    if not isinstance(attribute, ArrayAttr) or not all(isinstance(text, StringAttr) for text in attribute.data):
        raise NestError(f"{ATTRIBUTE} is {attribute}, not a list of steps")
    return [parse(text.data, STEPS) for text in attribute.data if isinstance(text, StringAttr)]


def write_steps(function: func.FuncOp, steps: Sequence[Step]) -> None:
    """Give a kernel the attribute."""
    function.attributes[ATTRIBUTE] = ArrayAttr([StringAttr(str(step)) for step in steps])


def given_steps(module: ModuleOp) -> dict[str, ArrayAttr[Attribute]]:
    """The lists of steps that a function's attribute `schedules` gives kernels, by their names. Raises `ValueError` for
    a name that no kernel has, and for what is no list of texts."""
    given: dict[str, ArrayAttr[Attribute]] = {}
    for function in module.ops:
        attribute = function.attributes.get(GIVEN)
        if attribute is None:
            continue
        if not isinstance(attribute, DictionaryAttr):
            raise ValueError(f"{GIVEN} is {attribute}, not lists of steps by the names of kernels")
        kernels = [other.sym_name.data for other in module.ops if _is_kernel(other)]
        for name, steps in attribute.data.items():
            if name not in kernels:
                raise ValueError(f"schedule is for kernel {name}, and there are {', '.join(kernels) or 'none'}")
            if not isinstance(steps, ArrayAttr) or not all(isinstance(text, StringAttr) for text in steps.data):
                raise ValueError(f"{GIVEN} of {name} is {steps}, not a list of steps")
            given[name] = steps
    return given


def write_given(function: func.FuncOp, schedules: Mapping[str, Sequence[str]]) -> None:
    """Give a function, which may be at any stage, the steps of kernels that it will call."""
    lists = {name: ArrayAttr[Attribute]([StringAttr(step) for step in steps]) for name, steps in schedules.items()}
    function.attributes[GIVEN] = DictionaryAttr(lists)


def _is_kernel(op: Operation) -> TypeGuard[func.FuncOp]:
    return isinstance(op, func.FuncOp) and "kernel" in op.attributes


def apply_steps(nest: Nest, steps: Sequence[Step], observe: Callable[[str, Nest], None] | None = None) -> None:
    """Do all steps; `observe(step, nest)` after each. Raises `NestError` with the first obstacle."""
    for step in steps:
        run(step, nest)
        if observe is not None:
            observe(str(step), nest)
