"""A module at any stage, run by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.families.host import raise_pending
from tenon.dialects.support.frozen_arguments import PREPARE
from tenon.dialects.types.size import replaced
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime import lower
from tenon.runtime.arguments.interface import Interface, takes_buffers


class InterpretedExecutable:
    """A module at any stage, run by the NumPy interpreter. The module is copied and not changed."""

    def __init__(self, module: ModuleOp) -> None:
        from tenon.lowering.pipeline import stage_of

        self.ir = str(module)
        self._takes_buffers = takes_buffers(module)
        self.interface = Interface.of(module) if self._takes_buffers else Interface.of_tensors(module)
        has_tensor_ops = stage_of(module) in ("tensor", "fused")
        self._sized = module.clone() if has_tensor_ops and self.interface.sizes else None
        self._module = lower.structured(module) if has_tensor_ops and self._sized is None else module.clone()

    def prepare(self, frozen: Sequence[Any] | Mapping[int, Any]) -> list[np.ndarray[Any, Any]]:
        """What `@prepare` computes from frozen inputs, where the module is split already."""
        preparation = self.interface.preparation
        if preparation is None:
            return []
        taken = [np.array(frozen[position], order="C") for position in preparation.inputs]
        if not self._takes_buffers:
            return self._results(self._module, PREPARE, taken)
        outputs = [np.zeros(shape, numpy_dtype(element_type(dtype))) for shape, dtype in preparation.outputs]
        self._results(self._module, PREPARE, [*taken, *outputs, np.zeros(preparation.arena_bytes, np.int8)])
        return outputs

    @staticmethod
    def _results(module: ModuleOp, function: str, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        from tenon.dialects.interpreter.interpreter import Interpreter

        results = [np.asarray(result) for result in Interpreter().run(module, function, arguments)]
        raise_pending()
        return results

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Interpret the module on `arrays`."""
        results = self._interpreted(arrays)
        for given, result in zip(outputs or (), results, strict=outputs is not None):
            np.copyto(given, result)
        return results if outputs is None else list(outputs)

    def _interpreted(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        arguments = [np.array(a, order="C") for a in (*arrays, *self.prepare(arrays))]
        interface = self.interface
        values = interface.bind([a.shape for a in arrays]) if interface.sizes else {}
        numbers = [np.int64(values[name]) for name in interface.sizes]
        if not self._takes_buffers:
            module = self._module if self._sized is None else self._bound(values)
            given = [*arguments, *numbers] if self._sized is None else arguments
            return self._results(module, "main", given)
        outputs = [
            np.zeros([replaced(size, values) for size in shape], numpy_dtype(element_type(dtype)))
            for shape, dtype in interface.outputs
        ]
        arena = np.zeros(replaced(interface.arena_bytes, values), np.int8)
        self._results(self._module, "main", [*arguments, *outputs, *numbers, arena])
        return outputs

    def _bound(self, values: Mapping[str, int]) -> ModuleOp:
        """Tensor ops with numbers in the place of sizes, as structured ops."""
        from tenon.passes.named_shapes import bind_sizes

        assert self._sized is not None
        return lower.structured(bind_sizes(self._sized, values))
