"""All steps by name, and the attribute `schedule` of a kernel: a list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from tenon.lowering.steps.bind import BindLoop
from tenon.lowering.steps.contract import Contract
from tenon.lowering.steps.inline import Inline
from tenon.lowering.steps.nest import Nest, NestError
from tenon.lowering.steps.pack import Pack
from tenon.lowering.steps.pipeline import Pipeline
from tenon.lowering.steps.reorder import Reorder
from tenon.lowering.steps.split import Split
from tenon.lowering.steps.step import Step, parse, run
from tenon.lowering.steps.unroll import Unroll
from tenon.lowering.steps.vectorize import Vectorize

STEPS: dict[str, type[Step]] = {
    step.name: step for step in (Split, Reorder, BindLoop, Unroll, Vectorize, Pack, Contract, Pipeline, Inline)
}

ATTRIBUTE = "schedule"


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


def apply_steps(nest: Nest, steps: Sequence[Step], observe: Callable[[str, Nest], None] | None = None) -> None:
    """Do all steps; `observe(step, nest)` after each. Raises `NestError` with the first obstacle."""
    for step in steps:
        run(step, nest)
        if observe is not None:
            observe(str(step), nest)
