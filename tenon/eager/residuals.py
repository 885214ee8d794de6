"""Functions of `jit` called where a gradient may be wanted: a program gives the results and what their gradient reads.

The function and its gradient are simplified as one, as `grad` under `jit` would have them, and then split (see
`passes/transform/split_gradient`): the call runs the first half, and its gradient is the second. A gradient of the
gradient computes the function again, since what was simplified together cannot be told apart any more.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tenon.dialects.definition.autocast import autocast
from tenon.dialects.definition.traits import GradientError
from tenon.dialects.definition.value import InsertionPoint, TracedValueError, Value, emit, inserting
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.dialects.support.forking import cached_property
from tenon.dialects.support.frozen_arguments import freeze
from tenon.dialects.types.size import UndecidedSizeError
from tenon.dialects.types.types import element_of, is_float
from tenon.eager.recording import call_of
from tenon.eager.tape import Apply, Call, Kept
from tenon.lowering.pipeline import run_passes
from tenon.passes.simplify.dce import Effects
from tenon.passes.transform.differentiate import differentiate
from tenon.passes.transform.split_gradient import Halves, split_gradient
from tenon.runtime.arguments.interface import main_function
from tenon.runtime.executables import Executable, executable
from tenon.runtime.lower import new_context
from tenon.runtime.python_state import collection_paused
from tenon.runtime.stages import FlatCall
from tenon.runtime.tracing.trace import traced

_TOGETHER = (
    "infer-shapes",
    "inline",
    "layout",
    "decompose",
    "canonicalize",
    "hoist-invariants",
    "cse",
    "keep-products",
    "canonicalize",
    "cse",
    "dce",
    "recompute",
)
"""What a function and its gradient go through as one: what lets the second use what the first computes."""


@dataclass(frozen=True)
class Program:
    """What runs when a function is called and recorded."""

    call: Call
    executable: Executable
    """Gives the results, and behind them what is kept."""
    given: int
    """How many results there are."""
    name: str

    @cached_property
    def launch(self) -> FlatCall:
        """The executable, called natively."""
        return FlatCall(self.executable, self.name)


def program_of(name: str, module: ModuleOp, wanted: Sequence[bool], device: str) -> Program | None:
    """The program for `@main` of a traced module on a device, with gradients of those arguments that are `wanted`;
    `None` where there are none."""
    main = main_function(module)
    inputs, given = len(main.body.block.args), len(main.function_type.outputs)
    sources = [i for i in range(inputs) if wanted[i] and is_float(element_of(main.body.block.args[i].type))]
    with collection_paused(), autocast(enabled=False):
        try:
            halves = _halves(main, sources)
        except (GradientError, UndecidedSizeError, TracedValueError):
            return None
        forward = _as_main(halves.forward)
        backward = main_function(_as_main(halves.backward))
        of_results = backward.body.block.args[inputs : inputs + len(main_function(forward).function_type.outputs)]
        reads = tuple([i for i, argument in enumerate(of_results) if argument.first_use is not None])
        gradient = _Gradient(main, backward, sources, [of_results[i] for i in reads])
        key = ("kept", str(module), tuple(sources), str(backward))
        call = call_of(name, key, inlined(module), Kept(given, reads, gradient.apply))
        return Program(call, executable(forward, device, name), given, name)


def _halves(main: func.FuncOp, sources: Sequence[int]) -> Halves:
    function = main.clone()
    freeze(function, [i for i in range(len(main.body.block.args)) if i not in sources])
    joint = differentiate(function)
    joint.properties.pop("arg_attrs", None)
    module = ModuleOp([joint])
    run_passes(new_context(), module, _TOGETHER)
    inputs, outputs = len(main.function_type.inputs), len(main.function_type.outputs)
    return split_gradient(joint, inputs, outputs, Effects(module))


def _as_main(function: func.FuncOp) -> ModuleOp:
    function.properties["sym_name"] = type(function.sym_name)("main")
    return ModuleOp([function])


@dataclass(frozen=True)
class _Gradient:
    """A function whose gradient is a function of its own, of arguments, results and what is kept."""

    main: func.FuncOp
    backward: func.FuncOp
    sources: Sequence[int]
    """The arguments with gradients."""
    taken: Sequence[SSAValue]
    """The arguments of `backward` for what is read."""

    def apply(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The results for arguments and what is read, by an op that has this gradient."""
        given = [traced(value).ssa for value in values]
        count = len(self.main.body.block.args)
        inputs = [given[i] for i in self.sources]
        types = [value.type for value in inputs]
        body, gradient = Block(arg_types=types), Block(arg_types=types)
        arguments = given[:count]
        for i, argument in zip(self.sources, body.args, strict=True):
            arguments[i] = argument
        results = _copied(self.main, body, dict(zip(self.main.body.block.args, arguments, strict=True)))
        block = self.backward.body.block
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, given[:count], strict=False))
        for i, argument in zip(self.sources, gradient.args, strict=True):
            known[block.args[i]] = argument
        known.update(zip(self.taken, given[count:], strict=True))
        for seed in block.args[len(block.args) - self._seeds() :]:
            known[seed] = gradient.insert_arg(seed.type, len(gradient.args))
        _copied(self.backward, gradient, known)
        op = emit(WithGradientOp.of(inputs, body, gradient, [value.type for value in results]))
        return tuple([Value(result) for result in op.results])

    def _seeds(self) -> int:
        """How many cotangents there are: one for each result that is a float."""
        return sum(is_float(element_of(type_)) for type_ in self.main.function_type.outputs)


def _copied(function: func.FuncOp, block: Block, known: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """Copy what a function computes to the end of `block`, for the values that are `known`, and end it; the results."""
    for op in function.body.block.ops:
        if isinstance(op, func.ReturnOp):
            results = [known[value] for value in op.operands]
            with inserting(InsertionPoint(block)):
                emit(YieldOp(*results))
            return results
        block.add_op(op.clone(known))
    raise AssertionError("a function returns")


def inlined(module: ModuleOp) -> Apply:
    """What the function `@main` of a module computes, built where it is called."""
    main = main_function(module)

    def apply(values: Sequence[Any]) -> tuple[Any, ...]:
        block = main.body.block
        known: dict[SSAValue, SSAValue] = {
            argument: traced(value).ssa for argument, value in zip(block.args, values, strict=True)
        }
        for op in block.ops:
            if isinstance(op, func.ReturnOp):
                return tuple([Value(known[operand]) for operand in op.operands])
            emit(op.clone(known))
        raise AssertionError("a function returns")

    return apply
