"""Constants of a module that kernels read from memory."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

from tenon.passes.machine import ALIGNMENT


class ModuleConstants:
    """The `memref.global`s of a module."""

    def __init__(self, module: ModuleOp):
        self._block = module.body.block
        self._first = self._block.first_op
        self._taken = {
            symbol.data for op in self._block.ops if isinstance(symbol := op.properties.get("sym_name"), StringAttr)
        }
        self._count = 0

    def add(self, value: Attribute, type_: MemRefType[Attribute]) -> str:
        """The name of a new global that holds `value`."""
        while (name := f"constant_{self._count}") in self._taken:
            self._count += 1
        self._taken.add(name)
        op = memref.GlobalOp.create(
            properties={
                "sym_name": StringAttr(name),
                "sym_visibility": StringAttr("private"),
                "type": type_,
                "initial_value": value,
                "constant": UnitAttr(),
                "alignment": IntegerAttr(ALIGNMENT, i64),
            }
        )
        assert self._first is not None
        self._block.insert_op_before(op, self._first)
        return name
