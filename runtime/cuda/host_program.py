"""The host's part of a grid-mapped module: `main`, and what it prepares once, run op by op against a device.

`HostProgram` translates such a function into a list of steps once, so a call does no dispatch on ops. What a device
must be able to do is the protocol `Backend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.definition import signedness
from tenon.dialects.types.types import numpy_dtype
from tenon.runtime.cuda.device import Backend, DeviceBuffer, HostProgramError, static_array
from tenon.runtime.cuda.host_translations import TRANSLATIONS, Environment, Step, run_steps


class HostProgram:
    """A function of a grid-mapped module that launches kernels, by default `main`, ready to run: a call takes input
    buffers and returns output buffers."""

    def __init__(self, module: ModuleOp, backend: Backend, name: str = "main") -> None:
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        if name not in functions:
            raise HostProgramError(f"the module has no function {name}")
        main = functions[name]
        self.backend = backend
        self.launches = {name: function for name, function in functions.items() if "kernel" in function.attributes}
        self.globals = {op.sym_name.data: op for op in module.ops if isinstance(op, memref.GlobalOp)}
        self.slots: dict[SSAValue, int] = {}
        self.initial: Environment = []
        arguments = main.body.block.args
        types = [argument.type for argument in arguments]
        counts = [main.attributes.get(name) for name in ("num_inputs", "num_outputs")]
        inputs, outputs = (count.value.data if isinstance(count, IntegerAttr) else -1 for count in counts)
        if inputs < 0 or outputs < 0 or inputs + outputs + 1 != len(types):
            raise HostProgramError(f"{name}: {len(types)} arguments are not the inputs, the outputs and the arena")
        self.inputs = [static_array(element) for element in types[:inputs]]
        self.outputs = [static_array(element) for element in types[inputs : inputs + outputs]]
        self.arena = static_array(types[-1])
        if (external := signedness.external_elements(main)) is not None:
            self.inputs, self.outputs = [
                [(shape, numpy_dtype(element)) for (shape, _), element in zip(arrays, elements, strict=True)]
                for arrays, elements in zip((self.inputs, self.outputs), external, strict=True)
            ]
        for argument in arguments:
            self.slot(argument)
        self.steps = self.block(main.body.block)

    def __call__(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer] | None = None,
        arena: DeviceBuffer | None = None,
    ) -> list[DeviceBuffer]:
        """Run on `inputs`, whose shapes and types must be those of `self.inputs`; memory that is not given is new."""
        given = [self.allocate(*described) for described in self.outputs] if outputs is None else list(outputs)
        environment = self.initial.copy()
        scratch = self.allocate(*self.arena) if arena is None else arena
        environment[: len(inputs) + len(given) + 1] = [*inputs, *given, scratch]
        run_steps(self.steps, environment)
        return given

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceBuffer:
        """New memory on the device for an array."""
        address, owner = self.backend.allocate(prod(shape) * dtype.itemsize)
        return DeviceBuffer(address, shape, dtype, owner)

    # ---------------------------------------------------------------------------------------------- translation

    def slot(self, value: SSAValue, initial: Any = None) -> int:
        """The place of a new value in the environment."""
        number = self.slots[value] = len(self.initial)
        self.initial.append(initial)
        return number

    def block(self, block: Block) -> list[Step]:
        """The steps of a block but its terminator."""
        steps: list[Step] = []
        for op in block.ops:
            if isinstance(op, func.ReturnOp | scf.YieldOp | scf.ConditionOp | memref.DeallocOp):
                continue
            step = self._step(op)
            if step is not None:
                steps.append(step)
        return steps

    def _step(self, op: Operation) -> Step | None:
        translate = TRANSLATIONS.get(op.name)
        if translate is None:
            raise HostProgramError(f"main: {op.name} does not run on the host")
        return translate(self, op)

    def sources(self, values: Sequence[SSAValue]) -> list[int]:
        """The places of values that are there already."""
        return [self.slots[value] for value in values]

    def targets(self, values: Sequence[SSAValue]) -> list[int]:
        """Places for new values."""
        return [self.slot(value) for value in values]
